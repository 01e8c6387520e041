"""Sign-flip test of a sum of independent totals, each with a random sign under the null hypothesis.

It is the randomization test of paired differences (Fisher 1935, The Design of Experiments, section 21), with one total
for each cluster. The method for the p-value depends on the totals alone:

    exact     all sums counted: totals that are whole multiples of one step (0/1 scores, most grades) by convolution,
              up to 24 others by two halves (Horowitz and Sahni 1974, J. ACM 21)
    drawn     else the share of 9,999 random flips, the sum itself counted among them (Davison and Hinkley 1997, 4.2)
    tail      where fewer than 100 of them reach the sum: saddlepoint approximation (Robinson 1982, J. R. Stat. Soc. B
              44; formula of Lugannani and Rice 1980, Adv. Appl. Probab. 12), which keeps its relative accuracy however
              small the p-value is. Adjusting for a thousand tests needs p-values that no feasible number of flips gives
    normal    above 10,000 totals
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from medhelm.analysis.statistics.cluster_bootstrap import LARGE, Floats

FLIPS = 9_999
"""Random flips of all signs; with the sum itself 10,000, so that drawn p-values are whole multiples of 0.0001."""

FEW = 100
"""Drawn sums as large as the observed one below which their share is too rough a p-value: its error is above 10%."""

HALVES = 24
"""Maximum number of totals whose sums (2^24) are counted one by one."""

STEPS = 2_000
"""Largest sum of totals, in steps, for which all sums are counted by convolution."""

PARTS = 12
"""Maximum divisor of the smallest total that is tried as a common step."""

NOTHING = 1e-12
"""Totals up to this share of the largest, or of 1, count as zero: they are rounding errors."""

BLOCK = 500_000
"""Maximum number of signs generated at once: 4 MB."""


def sign_flip_test(totals: Floats, rng: np.random.Generator, flips: int = FLIPS) -> float:
    """Compute the two-sided p-value of the sum of independent totals, shape (k,), under random signs.

    >>> round(sign_flip_test(np.array([1.0, 1, 1, 1, 1, -1]), np.random.default_rng(1)), 5)
    0.21875
    """
    totals = _without_zeros(totals)
    exact = exact_p(totals)
    if exact is not None:
        return exact
    if len(totals) > LARGE:
        return normal_p(totals)
    drawn = np.concatenate([2 * heads @ totals for heads in random_signs(len(totals), flips, rng)]) - totals.sum()
    return monte_carlo_p(totals, drawn)


def p_value(totals: Floats, drawn: Floats) -> float:
    """Compute the p-value from given sums under random signs, shape (flips,), which several tests can share."""
    totals = _without_zeros(totals)
    exact = exact_p(totals)
    if exact is not None:
        return exact
    return normal_p(totals) if len(totals) > LARGE else monte_carlo_p(totals, drawn)


def random_signs(k: int, flips: int, rng: np.random.Generator) -> Iterator[Floats]:
    """Yield blocks of 0 and 1, shape (some flips, k), `flips` rows in all."""
    size = max(1, BLOCK // k)
    for start in range(0, flips, size):
        rows = min(size, flips - start)
        bits = np.unpackbits(np.frombuffer(rng.bytes((rows * k + 7) // 8), dtype=np.uint8))
        yield bits[: rows * k].reshape(rows, k).astype(np.float64)


def exact_p(totals: Floats) -> float | None:
    """Count the share of all sign patterns with a sum at least as far from zero; None if there are too many.

    Parameters: totals, shape (k,), without zeros.
    """
    if len(totals) == 0:
        return 1.0
    whole = _in_steps(totals)
    if whole is not None:
        return _by_convolution(whole)
    return _by_halves(totals) if len(totals) <= HALVES else None


def monte_carlo_p(totals: Floats, drawn: Floats) -> float:
    """Share of the drawn sums, shape (flips,), that are as far from zero; where they are few, the saddlepoint tail."""
    hits = count_as_extreme(drawn, float(totals.sum()), float(np.abs(totals).sum()))
    return (hits + 1) / (len(drawn) + 1) if hits >= FEW else tail_p(totals)


def count_as_extreme(drawn: Floats, observed: float, scale: float) -> int:
    """Count the drawn values at least as far from zero, up to rounding errors relative to `scale`."""
    return int((np.abs(drawn) >= abs(observed) - 1e-9 * scale).sum())


def normal_p(totals: Floats) -> float:
    """Compute the p-value by the normal limit for many totals."""
    spread = math.sqrt(float(totals @ totals))
    return 2 * upper_tail(abs(float(totals.sum())) / spread) if spread > 0 else 1.0


def upper_tail(z: float) -> float:
    """Compute the probability that a standard normal variable exceeds z, accurate even if tiny."""
    return math.erfc(z / math.sqrt(2)) / 2


def tail_p(totals: Floats) -> float:
    """Two-sided p-value by saddlepoint approximation, for sums well away from zero.

    The cumulant generating function of the sum is K(s) = sum of log cosh(s t). With K'(s) = |observed|,
    r = sqrt(2 (s |observed| - K)) and u = s sqrt(K''), one tail is Q(r) + phi(r) (1 / u - 1 / r).
    """
    sizes = np.abs(totals) / np.abs(totals).max()
    observed, most = abs(float(totals.sum())) / float(np.abs(totals).max()), float(sizes.sum())
    if observed >= most * (1 - 1e-9):
        return min(1.0, math.ldexp(2.0, -len(totals)))
    s = observed / float(sizes @ sizes)
    # K' is concave where s > 0 and lies below its tangent at 0: Newton's steps rise to the solution from below.
    for _ in range(200):
        slopes = np.tanh(s * sizes)
        curvature = float(sizes**2 @ (1 - slopes**2))
        step = (observed - float(sizes @ slopes)) / curvature if curvature > 0 else 0.0
        s += step
        if abs(step) <= 1e-12 * s:
            break
    slopes = np.tanh(s * sizes)
    heights = s * sizes + np.log1p(np.exp(-2 * s * sizes)) - math.log(2)
    r = math.sqrt(max(2 * (s * observed - float(heights.sum())), 0.0))
    u = s * math.sqrt(float(sizes**2 @ (1 - slopes**2)))
    if r < 1e-3 or u == 0:
        return normal_p(totals)
    density = math.exp(-r * r / 2) / math.sqrt(math.tau)
    least = math.ldexp(2.0, -len(totals))
    return min(1.0, max(2 * (upper_tail(r) + density * (1 / u - 1 / r)), least))


def _without_zeros(totals: Floats) -> Floats:
    """Return the totals that are not zero."""
    kept: Floats = totals[np.abs(totals) > NOTHING * np.abs(totals).max(initial=1.0)]
    return kept


def _in_steps(totals: Floats) -> Floats | None:
    """Convert the totals to multiples of a common step; None if none exists, or the multiples are too large."""
    sizes = np.abs(totals)
    for parts in range(1, PARTS + 1):
        steps = sizes * (parts / sizes.min())
        if steps.sum() > STEPS:
            return None
        whole = np.rint(steps)
        if (np.abs(steps - whole) < 1e-9 * np.maximum(whole, 1)).all():
            signed: Floats = np.copysign(whole, totals)
            return signed
    return None


def _by_convolution(totals: Floats) -> float:
    """Exact p-value for whole totals: the sum over heads is a sum of binomial numbers, each times a size."""
    sizes, counts = np.unique(np.abs(totals).astype(int), return_counts=True)
    chances = np.ones(1)
    for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
        spaced = np.zeros(size * count + 1)
        spaced[::size] = _heads(count)
        chances = np.convolve(chances, spaced)
    observed, most = round(abs(float(totals.sum()))), len(chances) - 1
    # A sum of at least the observed one needs heads worth half of it more than half of everything.
    return min(1.0, 2 * float(chances[(most + observed + 1) // 2 :].sum())) if observed else 1.0


@lru_cache(maxsize=2048)
def _heads(count: int) -> Floats:
    """Compute the probabilities of 0, 1, ... heads in a number of tosses, to full precision."""
    ways, chances, patterns = 1, [], 1 << count
    for heads in range(count + 1):
        chances.append(ways / patterns)
        ways = ways * (count - heads) // (heads + 1)
    return np.array(chances)


def _by_halves(totals: Floats) -> float:
    """Exact p-value for a few totals: for each sum of one half, the sums of the other that go far enough with it."""
    observed, tolerance = abs(float(totals.sum())), 1e-9 * float(np.abs(totals).sum())
    middle = len(totals) // 2
    first, second = _all_sums(totals[:middle]), np.sort(_all_sums(totals[middle:]))
    above = len(second) - np.searchsorted(second, observed - tolerance - first, side="left")
    below = np.searchsorted(second, tolerance - observed - first, side="right")
    return min(1.0, math.ldexp(float((above + below).sum()), -len(totals)))


def _all_sums(totals: Floats) -> Floats:
    """Compute the sums under all sign patterns, shape (2^k,)."""
    sums = np.zeros(1)
    for total in totals:
        sums = np.concatenate([sums + total, sums - total])
    return sums
