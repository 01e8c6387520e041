"""Tests of differences: sign flips, and corrections for many tests."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from medhelm.analysis.means import Floats, in_threads

# --- sign-flip test ---------------------------------------------------------------------------------------------------
# Test of a sum of independent totals, each with a random sign under the null hypothesis.
#
# It is the randomization test of paired differences (Fisher 1935, The Design of Experiments, section 21), with one
# total for each cluster. Nothing is drawn at random, so that a p-value has no Monte Carlo error. The method depends on
# the totals alone:
#
#     binomial     totals of one size: the binomial distribution
#     exact        up to 24 totals of different sizes: all sums, counted by halves (Horowitz and Sahni 1974, J. ACM 21)
#     saddlepoint  more totals (Robinson 1982, J. R. Stat. Soc. B 44; formula of Lugannani and Rice 1980, Adv. Appl.
#                  Probab. 12); it keeps its relative accuracy however small the p-value is
#     Edgeworth    totals worth 50 or more of one size: the normal tail, corrected for the fourth cumulant
#
# For the 0/1 scores of two models on independent instances this is the exact test of McNemar. There the mid-p is used
# instead (`mcnemar_mid_p`): it keeps the level and agrees with the interval of the difference.

HALVES = 24
"""Maximum number of totals of different sizes whose sums (2^24) are counted."""

MANY = 50
"""Effective number of totals, (sum t^2)^2 / sum t^4, from which the Edgeworth tail is used. It errs on the safe side:
by less than 5% above p = 0.001, less than 30% down to 1e-7."""

FAR = 8.0
"""Standardized sum from which many pairs at once get the bound 2 exp(-z^2 / 2) as their p-value, below 3e-14
(Hoeffding 1963, J. Am. Stat. Assoc. 58)."""

EXACT_HEADS = 200
"""Maximum number of tosses whose probabilities are computed with whole numbers."""

NOTHING = 1e-12
"""Totals up to this share of the largest, or of 1, count as zero: they are rounding errors."""

COMPARED = 13
"""Maximum number of totals up to which every sum of one half is compared with every sum of the other: for more, sorting
them first is faster."""

BLOCK = 500_000
"""Maximum number of totals in one block of pairs: 4 MB per array."""

CACHED = 65_536
"""Maximum number of sums of one half of exact tests in one block: they stay in the processor's cache."""

SMALLEST_SPREAD = 1e-9
"""Root of a sum of squares below which it is a rounding error."""

CROWD = 20_000
"""Number of pairs, those of 200 models, up to which every p-value is computed as for one pair alone."""

LEVEL = 0.05
"""Significance level."""


def sign_flip_tests(totals: Floats) -> Floats:
    """Compute the two-sided p-value of the sum of each row of independent totals under random signs.

    Parameters: totals, shape (m, k); zeros count for nothing. Returns: shape (m,); each p-value depends on its own row
    alone.

    >>> sign_flip_tests(np.array([[1.0, 1, 1, 1, 1, -1]])).round(5)
    array([0.21875])
    """
    sizes = np.abs(totals)
    largest = sizes.max(axis=1, initial=0.0)
    sizes = np.where(sizes > NOTHING * np.maximum(largest, 1.0)[:, None], sizes, 0.0)
    signed = np.copysign(sizes, totals)
    count = (sizes > 0).sum(axis=1)
    observed = np.abs(signed.sum(axis=1))
    squares = (sizes**2).sum(axis=1)
    p_values = np.ones(len(totals))
    with np.errstate(invalid="ignore", divide="ignore"):
        effective = squares**2 / (sizes**4).sum(axis=1)
        equal = (count > 0) & (squares * count <= sizes.sum(axis=1) ** 2 * (1 + 1e-9))
    many = (effective >= MANY) & ~equal
    p_values[many] = edgeworth_p(observed[many] / np.sqrt(squares[many]), effective[many])
    heads = np.flatnonzero(equal)
    steps = np.rint(observed[heads] / largest[heads]).astype(int)
    p_values[heads] = _binomial_p((count[heads] - steps) // 2, count[heads], mid=False)
    few = np.flatnonzero((count > 0) & (count <= HALVES) & ~equal & ~many)
    for number in np.unique(count[few]).tolist():
        rows = few[count[few] == number]
        p_values[rows] = _exact_p(signed[rows][sizes[rows] > 0].reshape(len(rows), number))
    rest = np.flatnonzero((count > HALVES) & ~equal & ~many)
    rest = rest[np.argsort(count[rest], kind="stable")]  # rows of a block drop the columns that none of them needs
    block = max(1, BLOCK // max(totals.shape[1], 1))
    for start in range(0, len(rest), block):
        rows = rest[start : start + block]
        p_values[rows] = saddlepoint_p(np.sort(sizes[rows], axis=1)[:, -count[rows].max() :], observed[rows])
    return p_values


def mcnemar_mid_p(fewer: NDArray[np.intp], count: NDArray[np.intp]) -> Floats:
    """Compute the two-sided mid-p of McNemar's test (Fagerland, Lydersen and Laake 2013, BMC Med. Res. Methodol. 13).

    Parameters: count, shape (m,), instances that one of two models got right; fewer, those of the model with fewer.
    """
    return _binomial_p(fewer, count, mid=True)


def _binomial_p(fewer: NDArray[np.intp], count: NDArray[np.intp], *, mid: bool) -> Floats:
    """Compute two-sided p-values of tosses of a fair coin; the mid-p counts the observed result half."""
    p_values = np.ones(len(count))
    for number in np.unique(count):
        here = count == number
        chances = _head_probabilities(int(number))
        tails = 2 * np.cumsum(chances) - (chances if mid else 0.0)
        p_values[here] = np.minimum(tails[fewer[here]], 1.0)
    return p_values


@lru_cache(maxsize=4096)
def _head_probabilities(count: int) -> Floats:
    """Compute the probabilities of 0, 1, ... heads in a number of tosses, to full precision."""
    if count <= EXACT_HEADS:
        return np.array([math.comb(count, heads) / (1 << count) for heads in range(count + 1)])
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, count + 1)))])
    chances: Floats = np.exp(logs[-1] - logs - logs[::-1] - count * math.log(2))
    return chances


_erfc = np.vectorize(math.erfc, otypes=[float])


def normal_p(z: Floats) -> Floats:
    """Compute two-sided p-values of standard normal variables, accurate however small."""
    tail: Floats = _erfc(z / math.sqrt(2)) if len(z) else np.empty(0)
    return tail


def edgeworth_p(z: Floats, effective: Floats) -> Floats:
    """Compute two-sided p-values of standardized sums, shape (m,), from the effective number of totals of one size.

    The fourth cumulant of the sum is -2 / effective. The correction is taken in the exponent, so that tails stay above
    zero and below the normal ones.
    """
    tails = normal_p(z)
    density = np.exp(-z * z / 2) / math.sqrt(math.tau)
    correction = 2 * density * (z**3 - 3 * z) / (12 * effective)
    with np.errstate(invalid="ignore", divide="ignore"):
        corrected = tails * np.exp(-correction / tails)
    return np.where(tails > 0, np.minimum(corrected, 1.0), 0.0)


def saddlepoint_p(sizes: Floats, observed: Floats) -> Floats:
    """Compute two-sided p-values of sums by saddlepoint approximation.

    The cumulant generating function of a sum is K(s) = sum of log cosh(s t). With K'(s) = |observed|,
    r = sqrt(2 (s |observed| - K)) and u = s sqrt(K''), one tail is Q(r) + phi(r) (1 / u - 1 / r).

    Parameters: sizes, shape (m, k), of the totals, 0 for none; observed, shape (m,), absolute sums.
    """
    scale = sizes.max(axis=1)
    sizes, observed = sizes / scale[:, None], observed / scale
    squares, most, count = (sizes**2).sum(axis=1), sizes.sum(axis=1), (sizes > 0).sum(axis=1)
    least = np.ldexp(2.0, -count)
    inside = np.minimum(observed, most * (1 - 1e-9))
    s = inside / squares
    # K' is concave where s > 0 and lies below its tangent at 0: Newton's steps rise to the solution from below.
    for _ in range(60):
        slopes = np.tanh(s[:, None] * sizes)
        curvature = (sizes**2 * (1 - slopes**2)).sum(axis=1)
        gap = inside - (sizes * slopes).sum(axis=1)
        step = np.divide(gap, curvature, out=np.zeros_like(gap), where=curvature > 0)
        s = s + step
        if (np.abs(step) <= 1e-9 * s).all():
            break
    products = s[:, None] * sizes
    heights = (products + np.log1p(np.exp(-2 * products)) - math.log(2)).sum(axis=1, where=sizes > 0)
    r = np.sqrt(np.maximum(2 * (s * inside - heights), 0.0))
    u = s * np.sqrt((sizes**2 * (1 - np.tanh(products) ** 2)).sum(axis=1))
    near = (r < 1e-3) | (u == 0)
    safe_r, safe_u = np.where(near, 1.0, r), np.where(near, 1.0, u)
    density = np.exp(-safe_r * safe_r / 2) / math.sqrt(math.tau)
    tails = normal_p(safe_r) + 2 * density * (1 / safe_u - 1 / safe_r)
    tails = np.where(near, normal_p(observed / np.sqrt(squares)), np.maximum(tails, least))
    return np.where(observed >= most * (1 - 1e-9), least, np.minimum(tails, 1.0))


def _exact_p(totals: Floats) -> Floats:
    """Compute the exact p-value of each row of a few totals, shape (m, k), by pairing the sums of both halves."""
    observed, tolerance = np.abs(totals.sum(axis=1)), 1e-9 * np.abs(totals).sum(axis=1)
    n, middle = totals.shape[1], totals.shape[1] // 2
    above, below = observed - tolerance, tolerance - observed
    p_values = np.empty(len(totals))
    block = CACHED >> (n - middle)
    for start in range(0, len(totals), block):
        some = slice(start, start + block)
        first, second = _all_sums(totals[some, :middle]), _all_sums(totals[some, middle:])
        count = _n_pairs if n <= COMPARED else _n_sorted_pairs
        n_far = count(above[some, None] - first, below[some, None] - first, second)
        p_values[some] = np.minimum(1.0, np.ldexp(n_far.astype(float), -n))
    return p_values


def _n_pairs(above: Floats, below: Floats, second: Floats) -> NDArray[np.intp]:
    """Count for each row the pairs of a bound and a sum beyond it: fast for many rows of few sums."""
    found = np.zeros(len(second), dtype=np.intp)
    sums, highs, lows = (np.ascontiguousarray(one.T) for one in (second, above, below))
    for high, low in zip(highs, lows, strict=True):
        is_beyond = (sums >= high).view(np.uint8) + (sums <= low).view(np.uint8)
        found += is_beyond.sum(axis=0, dtype=np.uint16)
    return found


def _n_sorted_pairs(above: Floats, below: Floats, second: Floats) -> NDArray[np.intp]:
    """Count the same by sorting each row: fast for few rows of many sums."""
    counts = []
    for high, low, sums in zip(above, below, np.sort(second, axis=1), strict=True):
        n_above = len(sums) - np.searchsorted(sums, high, side="left")
        counts.append(int((n_above + np.searchsorted(sums, low, side="right")).sum()))
    return np.array(counts, dtype=np.intp)


def _all_sums(totals: Floats) -> Floats:
    """Compute the sums of each row under all sign patterns, shape (m, 2^k)."""
    sums = np.zeros((len(totals), 1))
    for total in totals.T:
        sums = np.concatenate([sums + total[:, None], sums - total[:, None]], axis=1)
    return sums


def sign_flip_p(
    total: Floats, squares: Floats, fourths: Floats, shares: Callable[[NDArray[np.intp]], Floats]
) -> Floats:
    """Compute p-values of many pairs: from the sums where these suffice, else from the shares of their clusters.

    Among more than `CROWD` pairs those that cannot be significant, and those that are for certain, get p-values from
    the sums, too. Standardized sums up to 1 have p >= 3/16 (Dvorak and Klein 2022, arXiv 2104.10005); those with
    2 exp(-z^2 / 2) below the level divided by the number of pairs are significant after Holm correction.

    Parameters: total, squares and fourths, shape (n_pairs,): sums of the clusters' totals and of their powers; shares,
    a function from numbers of pairs to totals, shape (some, k).
    """
    effective = np.divide(squares**2, fourths, out=np.zeros_like(squares), where=fourths > 0)
    effective[fourths > 0] = np.maximum(effective[fourths > 0], 1.0)  # never less, but for rounding
    spread = np.sqrt(np.maximum(squares, 0.0))
    z = np.divide(np.abs(total), spread, out=np.zeros_like(squares), where=spread > SMALLEST_SPREAD)
    p_values = np.ones(len(total))
    many = effective >= MANY
    p_values[many] = edgeworth_p(z[many], effective[many])
    is_crowd = len(total) > CROWD
    far = ~many & (z >= (min(FAR, math.sqrt(2 * math.log(2 * len(total) / LEVEL))) if is_crowd else FAR))
    p_values[far] = 2 * np.exp(-(z[far] ** 2) / 2)
    near = ~many & (z <= 1) & (effective > 0) & is_crowd
    p_values[near] = edgeworth_p(z[near], effective[near])
    rest = np.flatnonzero(~many & ~far & ~near & (squares > 0))
    if len(rest):
        width = max(shares(rest[:1]).shape[1], 1)
        block = max(1, BLOCK // width)
        blocks = [rest[start : start + block] for start in range(0, len(rest), block)]
        found = in_threads(lambda some: sign_flip_tests(shares(some)), blocks, size=block * width)
        p_values[rest] = np.concatenate(list(found))
    return p_values


# --- adjustment for many tests ----------------------------------------------------------------------------------------

Adjustment = Literal["holm", "bh"]
"""Method to adjust p-values: `holm` controls the family-wise error rate, `bh` the false discovery rate."""


def adjust_p_values(p_values: ArrayLike, way: Adjustment) -> Floats:
    """Adjust p-values for the number of tests, in the order given."""
    return holm(p_values) if way == "holm" else benjamini_hochberg(p_values)


def holm(p_values: ArrayLike) -> Floats:
    """Adjust p-values by Holm's method, in the order given (Holm 1979, Scand. J. Stat. 6).

    However the tests depend on each other, the probability of any false finding stays below the level.

    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    given = np.asarray(p_values, dtype=float)
    order = np.argsort(given, kind="stable")
    steps = np.minimum(given[order] * np.arange(len(given), 0, -1), 1.0)
    result = np.empty_like(given)
    result[order] = np.maximum.accumulate(steps)
    return result


def benjamini_hochberg(p_values: ArrayLike) -> Floats:
    """Adjust p-values, in the order given, by the method of Benjamini and Hochberg (1995, J. R. Stat. Soc. B).

    The expected share of false findings among all findings stays below the level if the tests are independent or
    positively dependent (Benjamini and Yekutieli 2001, Ann. Stat. 29).

    >>> benjamini_hochberg([0.01, 0.5, 0.03, 0.04]).round(4).tolist()
    [0.04, 0.5, 0.0533, 0.0533]
    """
    given = np.asarray(p_values, dtype=float)
    order = np.argsort(-given, kind="stable")
    steps = np.minimum(given[order] * len(given) / np.arange(len(given), 0, -1), 1.0)
    result = np.empty_like(given)
    result[order] = np.minimum.accumulate(steps)
    return result
