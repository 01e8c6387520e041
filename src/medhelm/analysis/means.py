"""Means with intervals, of independent and clustered instances, and the distributions and resampling behind them."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import count
from os import cpu_count
from statistics import NormalDist
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from medhelm.domain import RULES, Estimate, Rule

# --- threads ----------------------------------------------------------------------------------------------------------
# Compute several results at a time: NumPy lets other threads work while it sorts, multiplies and sums.

LEAST = 200_000
"""Numbers in one result from which threads are worth their cost."""

MOST_THREADS = 4
"""More threads would need more memory, each for arrays of its own."""

REUSED_BYTES = 31 * 2**20
"""Size of arrays up to which freed memory is used again, see `_reuse_memory`; the C library's limit is 32 MiB."""

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_threads(function: Callable[[Item], Result], items: Sequence[Item], *, size: int) -> Iterator[Result]:
    """Yield the result of each item, in order; a few results are computed ahead of the one that is used.

    `size`: numbers that one result is made from. Few are not worth a thread.
    """
    n_threads = min(MOST_THREADS, cpu_count() or 1, len(items))
    if n_threads < 2 or size < LEAST:
        yield from map(function, items)
        return
    _reuse_memory()
    with ThreadPoolExecutor(n_threads) as pool:
        waiting: deque[Future[Result]] = deque()
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > n_threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


@contextmanager
def in_background(compute: Callable[[], Result], *, size: int) -> Iterator[Callable[[], Result]]:
    """Compute a result in a thread of its own; yields a function that waits for it and returns it.

    `size`: numbers that the result is made from. Few are not worth a thread: the result is computed when it is needed.
    """
    if size < LEAST or (cpu_count() or 1) < 2:
        yield cache(compute)
        return
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(compute).result


def _reuse_memory() -> None:
    """Let the C library of Linux keep the memory of freed arrays for the next ones.

    Otherwise the system takes it back and clears it again for each array: a seventh of the time of a large leaderboard.
    The library keeps blocks up to the size of the largest one that was ever freed, so this makes and frees one. It is
    never written, and takes no memory.
    """
    import numpy as np

    np.empty(REUSED_BYTES, np.uint8)


# --- distributions ----------------------------------------------------------------------------------------------------
# Probabilities and quantiles of F and of Student's t, for any positive degrees of freedom, whole or not.
#
# Both are the regularized incomplete beta function in other words:
#
#     P(F <= f)     with x = df1 f / (df1 f + df2):  I_x(df1 / 2, df2 / 2)
#     P(|T| >= t)   with x = df / (df + t^2):        I_x(df / 2, 1 / 2)
#
# It is computed from its continued fraction (DLMF 8.17.22), on the side where that converges quickly, times a density
# in which Stirling's formula takes the large logarithms out, so that nothing is lost at a million degrees of freedom
# (Loader 2000, Fast and accurate computation of binomial probabilities). Quantiles are searched on the scale of
# log(x / (1 - x)), where both ends of 0..1 have room. Up to a million degrees of freedom errors stay below 1e-10 of the
# value.

TINY = 1e-300
"""Replaces a zero in a continued fraction."""

LAST_DIGIT = 1e-15
"""Relative change below which a computation has come to its end."""

LARGEST_LOG = 700.0
"""Logarithms of odds are searched up to this size; beyond it, about 1e304, a quantile of F is 0 or infinite."""


def f_cdf(f: float, df1: float, df2: float) -> float:
    """Return the probability that F with `df1` and `df2` degrees of freedom is at most `f`.

    Raises: ValueError unless both degrees of freedom are positive and finite and f is a number.

    >>> f"{f_cdf(4.0, 5, 15):.6f}"
    '0.983386'
    """
    _check(df1, df2)
    if math.isnan(f):
        raise ValueError("no probability of nan")
    if f <= 0:
        return 0.0
    return _beta(math.log(f) + math.log(df1 / df2), df1 / 2, df2 / 2)[0]


@lru_cache(maxsize=4096)
def f_quantile(p: float, df1: float, df2: float) -> float:
    """Return the value that F with `df1` and `df2` degrees of freedom stays below with probability `p`, 0 < p < 1.

    Returns: a positive number; 0.0 or infinity where it would be too small or too large for a float.
    Raises: ValueError unless 0 < p < 1 and both degrees of freedom are positive and finite.

    >>> f"{f_quantile(0.95, 3, 10):.4f}"
    '3.7083'
    """
    _check(df1, df2)
    odds = _beta_quantile(p, df1 / 2, df2 / 2) + math.log(df2 / df1)
    return math.exp(odds) if odds <= LARGEST_LOG else math.inf


@lru_cache(maxsize=4096)
def t_quantile(p: float, df: float) -> float:
    """Return the value that Student's t with `df` degrees of freedom stays below with probability `p`, 0 < p < 1.

    Returns: a number; infinite where its square would be too large for a float.
    Raises: ValueError unless 0 < p < 1 and df is positive and finite.

    >>> f"{t_quantile(0.975, 2.5):.4f}"
    '3.5747'
    """
    _check(df)
    if p == 0.5:
        return 0.0
    odds = math.log(df) - _beta_quantile(2 * min(p, 1 - p), df / 2, 0.5)
    size = math.exp(odds / 2)
    return size if p > 0.5 else -size


def _check(*degrees: float) -> None:
    """Raise ValueError unless all degrees of freedom are positive and finite."""
    for df in degrees:
        if not 0 < df < math.inf:
            raise ValueError(f"degrees of freedom are positive and finite, not {df}")


def _beta(odds: float, a: float, b: float) -> tuple[float, float]:
    """Return I_x(a, b) and 1 - I_x(a, b) for x = 1 / (1 + exp(-odds)); the smaller one keeps all its digits."""
    x, y = _logistic(odds), _logistic(-odds)
    if x <= (a + 1) / (a + b + 2):
        lower = _density(x, y, a, b) * _fraction(x, a, b) / a
        return lower, 1 - lower
    upper = _density(x, y, a, b) * _fraction(y, b, a) / b
    return 1 - upper, upper


def _logistic(odds: float) -> float:
    """Return 1 / (1 + exp(-odds)), without overflow."""
    return 1 / (1 + math.exp(-odds)) if odds > -LARGEST_LOG else math.exp(odds)


def _density(x: float, y: float, a: float, b: float) -> float:
    """Return x^a y^b / B(a, b) for y = 1 - x: the slope of I_x(a, b) along log(x / y)."""
    if x == 0 or y == 0:
        return 0.0
    n = a + b
    # How far x lies above a / n, times n; from the smaller of x and y, because the larger one has lost digits.
    above = x * n - a if x < y else b - y * n
    exponent = a * _log_ratio(x * n / a, above / a) + b * _log_ratio(y * n / b, -above / b)
    exponent += _stirling_rest(n) - _stirling_rest(a) - _stirling_rest(b)
    return math.exp(exponent) * math.sqrt(a * b / (math.tau * n))


def _log_ratio(ratio: float, excess: float) -> float:
    """Return log(ratio) - excess for ratio = 1 + excess; in `_density` the excesses times a and b add up to 0."""
    return (math.log1p(excess) if abs(excess) < 0.5 else math.log(ratio)) - excess


def _stirling_rest(z: float) -> float:
    """Return the remainder of Stirling's formula for log Gamma(z): its series above 10, the difference below."""
    if z < 10:
        return math.lgamma(z) - ((z - 0.5) * math.log(z) - z + 0.5 * math.log(math.tau))
    square = z * z
    return (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / (1188 * square)) / square) / square) / square) / z


def _fraction(x: float, a: float, b: float) -> float:
    """Return the continued fraction of I_x(a, b), by Lentz's method as modified by Thompson and Barnett (1986)."""
    value = back = 1.0
    front = math.inf
    for step in count(1):
        m = step // 2
        if step % 2:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        back = 1 / _not_zero(1 + term * back)
        front = _not_zero(1 + term / front)
        value *= front * back
        if abs(front * back - 1) < LAST_DIGIT:
            break
    return value


def _not_zero(value: float) -> float:
    """Return the value, or a tiny one in place of 0."""
    return value if value != 0 else TINY


def _beta_quantile(p: float, a: float, b: float) -> float:
    """Return log(x / (1 - x)) for I_x(a, b) = p, by Newton's method within a shrinking bracket.

    Returns: plus or minus infinity beyond `LARGEST_LOG`.
    Raises: ValueError unless 0 < p < 1.
    """
    if not 0 < p < 1:
        raise ValueError(f"a quantile needs a probability between 0 and 1, not {p}")
    low, high = -LARGEST_LOG, LARGEST_LOG
    odds = math.log(a / b)
    while high - low > LAST_DIGIT * max(1.0, abs(odds)):
        lower, upper = _beta(odds, a, b)
        excess = lower - p if lower < upper else (1 - p) - upper
        if excess > 0:
            high = odds
        else:
            low = odds
        slope = _density(_logistic(odds), _logistic(-odds), a, b)
        step = excess / slope if slope > 0 else math.inf
        nearer = odds - step
        if abs(step) <= LAST_DIGIT * max(1.0, abs(odds)):
            break
        odds = nearer if low < nearer < high else (low + high) / 2
    return odds if abs(odds) < LARGEST_LOG - 1 else math.copysign(math.inf, odds)


# --- quantiles of t for many degrees of freedom -----------------------------------------------------------------------

ENDLESS = 1e6
"""Degrees of freedom from which Student's t is treated as normal."""


def t_quantiles(df: Floats) -> Floats:
    """Return the 97.5% quantiles of Student's t for many degrees of freedom.

    From 30 by an expansion in 1 / df (Abramowitz and Stegun 1964, 26.7.5; error below 1e-7); fewer are rounded down to
    one decimal, so that not many are computed.
    """
    z = Z95
    large = np.maximum(df, 30.0)
    found: Floats = (
        z
        + (z**3 + z) / (4 * large)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * large**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * large**3)
        + (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * large**4)
    )
    found[df >= ENDLESS] = z
    few = np.flatnonzero(df < 30)
    distinct, places = np.unique(np.maximum(np.floor(df[few] * 10 + 1e-9) / 10, 0.1), return_inverse=True)
    quantiles = np.array([t_quantile(0.975, round(one, 1)) for one in distinct.tolist()])
    found[few] = quantiles[places]
    return found


# --- cluster bootstrap of means ---------------------------------------------------------------------------------------
# The one place where the instances of means are resampled.
#
# Means are ratios, total score over number of scored instances, so that clusters of unequal size and failed instances
# need no special case. From k clusters k - 1 are drawn with replacement, not k: this makes the variance of the drawn
# means unbiased (Rao and Wu 1988, J. Am. Stat. Assoc. 83). Above `LARGE` clusters the drawn means are normal for all
# practical purposes and are drawn from their joint normal distribution, which needs no resampling.

Floats = NDArray[np.float64]
"""Array of 64-bit floats; each use documents its shape."""

Clusters = Sequence[str] | NDArray[np.str_] | NDArray[np.integer] | None
"""For each instance the name of its cluster, or "" if it is independent of all others; None: all are independent.

Whole numbers instead of names are faster; every number is a cluster.
"""

LARGE = 10_000
"""Number of clusters above which means are taken as normal."""

CHUNK = 100_000
"""Most weights made at once: three arrays of 800 kB stay in the processor's cache."""


def cluster_codes(clusters: Clusters, n: int) -> tuple[NDArray[np.intp], int]:
    """Number the clusters of `n` instances.

    Returns: codes of shape (n,) from 0 to k - 1, and k. Every "" is a cluster of its own.
    """
    if clusters is None:
        return np.arange(n), n
    names = np.asarray(clusters)
    if names.shape != (n,):
        raise ValueError(f"{n} values need {n} cluster names, not {names.shape}")
    if np.issubdtype(names.dtype, np.integer):
        numbers, codes = np.unique(names, return_inverse=True)
        return codes, len(numbers)
    names = names.astype(np.str_)
    codes = np.empty(n, dtype=np.intp)
    alone = names == ""
    found, codes[~alone] = np.unique(names[~alone], return_inverse=True)
    k = len(found)
    codes[alone] = np.arange(k, k + int(alone.sum()))
    return codes, k + int(alone.sum())


def cluster_totals(scores: Floats, codes: NDArray[np.intp], k: int) -> tuple[Floats, Floats]:
    """Return sums and counts of the scores in each cluster.

    Parameters: scores, shape (m, n), nan if missing; codes, shape (n,), values 0 to k - 1.
    Returns: sums and counts, both of shape (k, m).
    """
    scored = ~np.isnan(scores)
    if k == len(codes):
        filled = np.where(scored, scores, 0.0)
        if (codes == np.arange(k)).all():
            return filled.T, scored.T.astype(float)
        order = np.argsort(codes)
        return filled[:, order].T, scored[:, order].T.astype(float)
    sizes = np.bincount(codes, minlength=k)
    # Row by row, because a copy of all scores would not stay in the processor's cache.
    sums = [np.bincount(codes, np.where(known, row, 0.0), k) for row, known in zip(scores, scored, strict=True)]
    counts = [sizes - np.bincount(codes[~known], minlength=k) for known in scored]  # few are missing
    return np.stack(sums, axis=1), np.stack(counts, axis=1).astype(float)


def resampling_weights(k: int, draws: int, rng: np.random.Generator, *, width: int = 0) -> Iterator[Floats]:
    """Yield blocks of weights, shape (some draws, k), `draws` rows in all: how often each of k clusters was drawn.

    Parameters: width, length of the rows that the caller makes of them; the longer, the fewer rows in a block.
    """
    size = max(1, CHUNK // max(k, width))
    for start in range(0, draws, size):
        rows = min(size, draws - start)
        drawn = rng.integers(0, k, size=(rows, k - 1))
        drawn += np.arange(0, rows * k, k)[:, None]
        yield np.bincount(drawn.ravel(), minlength=rows * k).reshape(rows, k).astype(float)


def draw_means(sums: Floats, counts: Floats, rng: np.random.Generator, draws: int) -> Floats:
    """Draw the means that other clusters might have given, the same clusters for every column.

    Parameters: sums and counts, shape (k, m) with k >= 2, from `cluster_totals`.
    Returns: shape (draws, m); nan where none of the drawn clusters has a score. Equal columns give equal draws.
    """
    distinct, columns = _distinct_columns(sums, counts)
    sums, counts = sums[:, distinct], counts[:, distinct]
    k, m = sums.shape
    if k > LARGE:
        means = sums.sum(axis=0) / counts.sum(axis=0)
        influence = (sums - means * counts) / counts.sum(axis=0)
        covariance = influence.T @ influence * (k / (k - 1))
        drawn: Floats = rng.multivariate_normal(means, covariance, size=draws, method="eigh")
        return drawn[:, columns]
    both = np.concatenate([sums, counts], axis=1)
    totals = np.concatenate([weights @ both for weights in resampling_weights(k, draws, rng)])
    with np.errstate(invalid="ignore"):
        drawn = totals[:, :m] / totals[:, m:]
    return drawn[:, columns]


def _distinct_columns(sums: Floats, counts: Floats) -> tuple[list[int], list[int]]:
    """Return the first of each set of equal columns, and for every column which of those it equals."""
    seen: dict[bytes, int] = {}
    first: list[int] = []
    place: list[int] = []
    for j in range(sums.shape[1]):
        key = sums[:, j].tobytes() + counts[:, j].tobytes()
        if key not in seen:
            seen[key] = len(first)
            first.append(j)
        place.append(seen[key])
    return first, place


# --- means with intervals ---------------------------------------------------------------------------------------------
# All intervals are two-sided 95%. A failure is nan on the way in: left out of every number and counted. How an interval
# is made depends on the scores alone, and its `method` names it:
#
#     wilson            0/1 scores
#     wilson-effective  other scores, fewer than 20 independent units: Wilson's interval of as many 0/1 scores with the
#                       same mean as vary as much, fewer by the ratio of quantiles of Student's t
#     skew-t            other scores: mean and standard error with Student's t, corrected for the skewness of the scores
#                       by Hall's transformation (`spread_of_sum`)
#     t                 without that correction: fewer than five units on a scale without an end, such as `density`
#     constant          other scores, equal in all units: see `constant_interval`
#     single            other scores, one unit only: the whole scale, because one does not show any spread
#     mover             a ratio, or a mean of ratios over labels, such as balanced accuracy: see `ratios`
#
#     -by-cluster       added where instances are not independent: units are clusters, and their effective number counts
#
# None is wider than Wilson's interval of as many 0/1 scores with the same mean as there are units, because no scores on
# the scale vary more. Hall's correction alone is too wide for few scores that are very skewed.
#
# Where single scores may lie below the scale (`open_below`), as the points of HealthBench do, the interval is that of a
# scale without a lower end, and mean and interval are cut to the scale afterwards.
#
# Runs stored by version 0.1.0 have other methods: `bootstrap-2000` (2,000 resamples of the instances) and, above 10,000
# units, `normal` for scores that are not 0/1, and `-clustered` at the end of a name for clusters.

NORMAL = NormalDist()
"""The standard normal distribution."""

Z95 = NORMAL.inv_cdf(0.975)
"""Quantile of the normal distribution behind 95% intervals."""

MDE_FACTOR = 1.96 + 0.84
"""Size of a true difference, in standard errors, that is found at the 5% level in four of five tries."""

DRAWS = 2000
"""Number of bootstrap resamples for one interval."""

FEW = 20
"""Effective number of units below which Wilson's interval is better than a correction for estimated skewness."""

FEWEST = 5
"""The same where Wilson's interval does not apply, because the scale has no end."""

BY_CLUSTER = "-by-cluster"
"""End of the name of a method whose units are clusters."""

FLAT = 1e-12
"""Standard error, relative to the scale or the value, below which units are equal but for rounding errors."""


ALIKE_IN_CLUSTERS = "answers within a cluster taken as alike"
"""End of `Estimate.method` where how answers within a cluster vary together is not known: the widest interval."""


def wilson_interval(successes: float, n: float) -> tuple[float, float]:
    """Return the 95% score interval of a proportion (Wilson 1927, J. Am. Stat. Assoc. 22): within 0..1, never empty.

    Parameters: successes out of n; neither need be whole, n may be an effective number of instances.
    Raises: ValueError unless 0 <= successes <= n and n > 0.

    >>> low, high = wilson_interval(81, 263)
    >>> f"{low:.4f} {high:.4f}"
    '0.2553 0.3662'
    """
    if not (n > 0 and 0 <= successes <= n):
        raise ValueError(f"{successes} of {n} is not a proportion")
    z, p = Z95, successes / n
    centre = p + z * z / (2 * n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    low = 0.0 if successes == 0 else max((centre - half) / scale, 0.0)
    high = 1.0 if successes == n else min((centre + half) / scale, 1.0)
    return low, high


class UnitTotals(NamedTuple):
    """Sums over independent units (instances, or clusters of them) of what makes a ratio; a mean is one, too."""

    above: Floats
    """Shape (k,): sum of the numerators of each unit."""
    below: Floats
    """Shape (k,): sum of the denominators of each unit, above 0; for a mean, its number of instances."""

    @property
    def value(self) -> float:
        """The ratio of the sums."""
        return float(self.above.sum() / self.below.sum())

    @property
    def effective_units(self) -> float:
        """Number of units of equal size that would carry as much: k if all are equal, near 1 if one dominates."""
        return effective_units(self.below)

    def shares(self) -> Floats:
        """Return the contribution of each unit to the ratio beyond its mean, shape (k,), for k of 2 or more.

        Residuals of the linearized ratio, each divided by the weight of all other units: a unit that makes up most of
        the ratio pulls it to itself, and its residual alone would hide how far it is from the others. With the factor
        k / (k - 1) their squares sum to the jackknife's variance (Bell and McCaffrey 2002, Surv. Methodol. 28); with
        units of equal size, to the usual one.
        """
        k, whole = len(self.below), self.below.sum()
        residuals = self.above - self.value * self.below
        scaled: Floats = residuals / whole * (1 - 1 / k) / (1 - self.below / whole)
        return scaled

    @property
    def standard_error(self) -> float:
        """Standard error of the ratio, for k of 2 or more."""
        shares, k = self.shares(), len(self.below)
        return math.sqrt(float(shares @ shares) * k / (k - 1))


def unit_totals(above: Floats, below: Floats, codes: NDArray[np.intp]) -> UnitTotals:
    """Sum numerators and denominators by unit; units without a denominator are left out.

    Parameters: above and below, shape (n,); codes, shape (n,), number of the unit of each.
    """
    sums = np.bincount(codes, weights=above).astype(float)
    counts = np.bincount(codes, weights=below).astype(float)
    there = counts > 0
    return UnitTotals(sums[there], counts[there])


def effective_units(sizes: Floats) -> float:
    """Return the effective number of units of different size: (sum of sizes)^2 / sum of squared sizes.

    It is the effective number of independent instances if instances in a unit agree perfectly, and gives the degrees of
    freedom of their spread (Carter, Schnepel and Steigerwald 2017, Rev. Econ. Stat. 99).

    >>> f"{effective_units(np.array([200.0] + [1.0] * 10)):.2f}"
    '1.10'
    """
    return float(sizes.sum() ** 2 / (sizes @ sizes))


def effective_size(scores: Floats, clusters: Clusters) -> float:
    """Return the effective number of independent instances of clustered 0/1 scores, for `wilson_interval`.

    n / deff, with the design effect from the jackknife's variance and a correction for few clusters by the ratio of t
    quantiles (Korn and Graubard 1998, Survey Methodology 24). It stays between the number under perfect agreement
    within clusters, n^2 / sum n_i^2, and n: the estimate of so small a variance is itself uncertain, and the upper
    bound is what keeps coverage (Dean and Pagano 2015, J. Surv. Stat. Methodol. 3). If all scores are equal, they say
    nothing about agreement within clusters, and it is the lower bound. It is near that, too, if one cluster dominates:
    then the degrees of freedom are few.

    Parameters: scores, shape (n,), without nan; clusters, n names.
    """
    totals = unit_totals(scores, np.ones(len(scores)), cluster_codes(clusters, len(scores))[0])
    n, k, p = float(len(scores)), len(totals.below), totals.value
    least = totals.effective_units
    if k == n or k == 1 or p in (0.0, 1.0):
        return least
    error = totals.standard_error
    if error == 0:
        return n
    return min(max(p * (1 - p) / error**2 * (_t95(n - 1) / _t95(least - 1)) ** 2, least), n)


def constant_interval(value: float, k: float, low: float, high: float) -> tuple[float, float]:
    """Return the interval of a mean when all k independent units have the same score.

    Up to a share q of other outcomes could have stayed unseen, q being the upper Wilson limit of 0 in k; at worst they
    lie at an end of the scale. For scores at an end this is the Wilson interval of k in k.
    """
    unseen = wilson_interval(0, k)[1]
    return value - unseen * (value - low), value + unseen * (high - value)


def constant_variance(k: NDArray[np.float64] | NDArray[np.intp], low: float, high: float) -> Floats:
    """Return variances that give normal intervals the widths of `constant_interval`.

    Parameters: k, any shape, the number of units with the same score; low and high, the ends of the scale.
    """
    unseen = Z95**2 / (np.asarray(k, dtype=float) + Z95**2)  # the upper Wilson limit of 0 in k
    return (unseen * (high - low) / (2 * Z95)) ** 2


def estimate(
    values: Floats, clusters: Clusters = None, *, low: float, high: float, open_below: bool = False
) -> Estimate | None:
    """Estimate the mean score of a run with its 95% interval, by the method that fits the scores (see the module).

    Parameters: values, shape (n,), nan for a failed instance; clusters, n names; low and high, ends of the scale;
    open_below, True if single scores may lie below `low`, and only their mean is cut to the scale.
    Returns: None when nothing was scored. The interval lies within the scale and contains the mean.
    Raises: ValueError if a score is infinite, or the scale has no length.

    >>> found = estimate(np.array([1.0, 1, 1, 1, 1, 1, 1, 1, 0.5, 0]), low=0, high=1)
    >>> f"{found.value:.2f} {found.low:.2f} {found.high:.2f} {found.method}"
    '0.85 0.54 0.96 wilson-effective'
    """
    values = np.asarray(values, dtype=float)
    check_scores(values, low, high)
    scored = ~np.isnan(values)
    n = int(scored.sum())
    if n == 0:
        return None
    codes = cluster_codes(None if clusters is None else np.asarray(clusters)[scored], n)[0]
    kept = values[scored]
    weights = (1.0, 1.0) if (low, high) == (0, 1) and np.isin(kept, (0.0, 1.0)).all() and not open_below else None
    floor = -math.inf if open_below else low
    limits, method = ratio_interval(kept, np.ones(n), codes, low=floor, high=high, weights=weights)
    value = float(kept.mean())
    value = max(value, low) if open_below else value
    return estimate_within(value, limits, (low, high), n=n, n_failed=len(values) - n, method=method)


def check_scores(values: Floats, low: float, high: float) -> None:
    """Raise ValueError if a score is infinite, or the scale has no length. This is the one place that checks it."""
    if not low < high:
        raise ValueError(f"a scale needs two ends, the lower one first, not {low:g} and {high:g}")
    if infinite := int(np.isinf(values).sum()):
        raise ValueError(f"{infinite} of {len(values)} scores are infinite, so they have no mean")


def estimate_within(
    value: float, limits: tuple[float, float], scale: tuple[float, float], *, n: int, n_failed: int, method: str
) -> Estimate:
    """Build an estimate whose interval is cut to the scale and contains the value."""
    low, high = min(max(limits[0], scale[0]), value), max(min(limits[1], scale[1]), value)
    return Estimate(value=value, low=low, high=high, n=n, n_failed=n_failed, method=method)


def ratio_interval(
    above: Floats,
    below: Floats,
    codes: NDArray[np.intp],
    *,
    low: float,
    high: float,
    weights: tuple[float, float] | None = None,
) -> tuple[tuple[float, float], str]:
    """Return the limits of a ratio of sums and their method; a mean has denominators of 1.

    Parameters
    ----------
    above, below : array, shape (n,)
        Numerator and denominator of each instance; every denominator above 0.
    codes : array of int, shape (n,)
        Number of the independent unit of each instance.
    low, high : float
        Ends of the scale.
    weights : (float, float), optional
        If every instance is a hit, with numerator and denominator equal to the first number, or a miss, with numerator
        0 and the second number as its denominator. Then the ratio follows from the share of hits, which is binomial.
    """
    found = unit_totals(above, below, codes)
    k = len(found.below)
    suffix = BY_CLUSTER if k < len(above) else ""
    if weights is not None:
        hits = (above > 0).astype(float)
        size = effective_size(hits, codes) if suffix else float(k)
        ends = wilson_interval(float(hits.mean()) * size, size)
        hit, miss = weights
        low, high = (hit * p / (hit * p + miss * (1 - p)) for p in ends)
        return (low, high), "wilson" + suffix
    if k == 1:
        return (low, high), "single"
    if found.standard_error <= FLAT * min(high - low, abs(found.value) or 1.0):
        return constant_interval(found.value, found.effective_units, low, high), "constant" + suffix
    limits, method = _student_interval(found) if math.isinf(high - low) else _bounded_interval(found, low, high)
    return limits, method + suffix


def _bounded_interval(found: UnitTotals, low: float, high: float) -> tuple[tuple[float, float], str]:
    """Return the interval of a ratio on a scale with two ends."""
    value, effective = found.value, found.effective_units
    if effective < FEW:
        p = (value - low) / (high - low)
        size = p * (1 - p) / (found.standard_error / (high - low)) ** 2 * (Z95 / _t95(effective - 1)) ** 2
        return _wilson_on(value, max(size, effective), low, high), "wilson-effective"
    widest = _wilson_on(value, effective, low, high)
    limits, method = _student_interval(found)
    return (max(limits[0], widest[0]), min(limits[1], widest[1])), method


def _student_interval(found: UnitTotals) -> tuple[tuple[float, float], str]:
    """Return the interval of a ratio by Student's t, corrected for skewness unless there are too few units for that."""
    value, df = found.value, found.effective_units - 1
    if df + 1 < FEWEST:
        half = found.standard_error * _t95(df)
        return (value - half, value + half), "t"
    spread = spread_of_sum(found.shares(), df=df)
    return (value - spread.below, value + spread.above), "skew-t"


def _t95(df: float) -> float:
    """Return the quantile of Student's t for 95% intervals; infinite without degrees of freedom."""
    return t_quantile(0.975, df) if df > 0 else math.inf


def _wilson_on(value: float, n: float, low: float, high: float) -> tuple[float, float]:
    """Return Wilson's interval of n scores that lie at the ends of a scale, low and high."""
    span = high - low
    share = min(max((value - low) / span, 0.0), 1.0)
    ends = wilson_interval(share * n, n)
    return low + ends[0] * span, low + ends[1] * span


def population_standard_error(values: Floats, codes: NDArray[np.intp], k: int) -> float:
    """Return the standard error of a mean with divisor n instead of n - 1, clusters taken together.

    Parameters: values, shape (n,), without nan; codes, shape (n,), 0 to k - 1.
    """
    totals = np.bincount(codes, weights=values - values.mean(), minlength=k)
    return float(np.sqrt(totals @ totals) / len(values))


def row_means(table: Floats, weights: Floats | None = None) -> Floats:
    """Return the mean of each row over the columns that have a value, optionally weighted; nan for an empty row."""
    present = ~np.isnan(table)
    if weights is None:
        count = present.sum(axis=-1).astype(float)
        total = np.where(present, table, 0.0).sum(axis=-1)
    else:
        count = (present * weights).sum(axis=-1)
        total = np.where(present, table * weights, 0.0).sum(axis=-1)
    return np.where(count > 0, total / np.where(count > 0, count, 1.0), np.nan)


class BenchmarkUnitMeans(NamedTuple):
    """Means over benchmarks, each benchmark an independent unit: arrays with one number per row of the table."""

    value: Floats
    low: Floats
    high: Floats
    standard_error: Floats


def mean_over_benchmarks(table: Floats, weights: Floats, *, lowest: float) -> BenchmarkUnitMeans:
    """Average each row over benchmarks, with a 95% interval for other benchmarks of the same kind.

    Parameters: table, shape (m, n_benchmarks), from `lowest` to 1, nan if missing; weights, shape (n_benchmarks,).
    """
    present = ~np.isnan(table)
    share, n = present * weights, present.sum(axis=1)
    total = np.where(n > 0, share.sum(axis=1), 1.0)
    filled = np.nan_to_num(table)
    value = np.where(n > 0, (share * filled).sum(axis=1) / total, np.nan)
    residual = (share**2 * (filled - np.nan_to_num(value)[:, None]) ** 2).sum(axis=1)
    variance = n / np.maximum(n - 1, 1) * residual / total**2
    equal = (n > 1) & (residual < 1e-20)
    variance[equal] = constant_variance(n[equal], lowest, 1.0)
    half = np.where(n > 1, t_quantiles(np.maximum(n - 1.0, 1.0)) * np.sqrt(variance), 1.0 - lowest)
    low, high = np.maximum(value - half, lowest), np.minimum(value + half, 1.0)
    return BenchmarkUnitMeans(value, low, high, np.sqrt(variance))


class SumSpread(NamedTuple):
    """Uncertainty of a sum of independent shares."""

    error: float
    """Standard error."""
    below: float
    """Distance of the lower 95% limit, not negative."""
    above: float
    """Distance of the upper 95% limit, not negative."""


def spread_of_sum(
    shares: Floats, is_rated: NDArray[np.bool_] | None = None, df: float | None = None, weights: Floats | None = None
) -> SumSpread:
    """Compute the standard error of a sum of independent shares, and both half-widths of its 95% interval.

    Scores near an end of their scale are skewed: most completions are perfect and a few are bad. A symmetrical interval
    of their mean is then too short on the side of the few. Hall (1992, J. R. Stat. Soc. B 54) transforms the t
    statistic with its skewness by an increasing cubic, whose result is nearly Student's t; the interval inverts that.

    Parameters
    ----------
    shares : array, shape (k,)
        Contribution of each unit to the estimate beyond its mean; they sum to about 0 and are not all 0.
    is_rated : array of bool, shape (k,), optional
        Units whose shares were estimated together and therefore lack a degree of freedom; by default all. At least 3.
    df : float, optional
        Degrees of freedom; by default one less than the number of such units.
    weights : array, optional
        Weights of such units, by default equal: unequal ones count as fewer units (Kish 1965).

    >>> spread = spread_of_sum(np.array([-0.3, 0.1, 0.1, 0.1]))
    >>> f"{spread.error:.3f} {spread.below:.3f} {spread.above:.3f}"
    '0.400 2.795 0.707'
    """
    rated = np.ones(len(shares), dtype=bool) if is_rated is None else is_rated
    units = float(rated.sum()) if weights is None else max(float(weights.sum() ** 2 / (weights @ weights)), 3.0)
    squares = shares * shares
    total = float(squares.sum())
    error = math.sqrt(total + float(squares[rated].sum()) / (units - 1))
    skewness = float((squares * shares).sum()) / total**1.5 * math.sqrt(units * (units - 1)) / (units - 2)
    quantile = t_quantile(0.975, units - 1 if df is None else df)
    below, above = (float(sign * invert_hall(sign * quantile, skewness)) for sign in (1, -1))
    return SumSpread(error, error * below, error * above)


def invert_hall(quantiles: Floats | float, skewness: Floats | float) -> Floats:
    """Invert Hall's transformation, t + s t^2 / 3 + s^2 t^3 / 27 + s / 6 with skewness s, at quantiles."""
    is_skewed = np.abs(skewness) >= 1e-6
    s = np.where(is_skewed, skewness, 1.0)
    return np.where(is_skewed, 3 / s * (np.cbrt(1 + s * (quantiles - s / 6)) - 1), quantiles)


def group_means(groups: Sequence[str], scores: Mapping[Rule, Sequence[float]]) -> dict[str, dict[str, float | None]]:
    """Return the mean of a metric by group of instances, under each rule, and how many instances have a score.

    Parameters: groups, the group of each instance; scores, rule -> score of each instance, nan if missing. A rule that
    is not in `scores` has no mean.
    """
    means: dict[str, dict[str, float | None]] = {group: {"n": 0} for group in sorted(set(groups))}
    for rule in RULES:
        by_group: dict[str, list[float]] = {group: [] for group in means}
        for group, score in zip(groups, scores.get(rule, ()), strict=False):
            if not math.isnan(score):
                by_group[group].append(score)
        for group, own in by_group.items():
            means[group][rule] = sum(own) / len(own) if own else None
            if rule in scores:
                means[group]["n"] = len(own)
    return means


# --- bootstrap of any statistic ---------------------------------------------------------------------------------------
# An interval of a statistic over instances, by the same rules as the intervals of means.
#
# Instances, or whole clusters of them, are drawn with replacement, one fewer than there are (Rao and Wu 1988, J. Am.
# Stat. Assoc. 83), and the tails of the percentile interval are taken from Student's t (Hesterberg 2015, Am. Stat. 69).
# For coefficients of agreement this matters: plain percentiles of 10 or 20 instances hold the truth in about 9 cases of
# 10, these in about 19 of 20.
#
# A statistic is computed for many resamples at once, from how often each of them drew each instance.

MIN_RESAMPLES = 40
"""Draws below which no interval is given: its ends would be the smallest and the largest of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BootstrapResult:
    """A statistic with its bootstrap interval."""

    value: float | None
    """The statistic of the rows themselves; None where it is undefined."""
    low: float | None
    """Lower end of the 95% interval, or None."""
    high: float | None
    """Upper end of the 95% interval, or None."""
    reason: str = ""
    """Reason if there is no interval, else empty."""


def bootstrap_statistic(
    n: int,
    statistic: Callable[[Floats], Floats],
    rng: np.random.Generator,
    draws: int = DRAWS,
    *,
    clusters: Clusters = None,
) -> BootstrapResult:
    """Compute the percentile bootstrap of a statistic of n instances, drawn alone or in whole clusters.

    Resamples for which the statistic is undefined are left out: where there are many, the interval is about the others.
    The interval is widened to hold the value, if need be, and is not cut to any range.

    Parameters: statistic, from how often each resample drew each instance, shape (m, n), to one number per resample,
    shape (m,), nan where it is undefined; clusters, a name for each instance, "" or None for independent ones.
    Returns: no interval if the statistic is undefined for the instances themselves, if there are fewer than two
    clusters, or if the statistic is defined for fewer than `MIN_RESAMPLES` resamples.

    >>> values = np.arange(30.0)
    >>> found = bootstrap_statistic(30, lambda counts: counts @ values / counts.sum(axis=1), np.random.default_rng(1))
    >>> f"{found.low:.1f}, {found.value:.1f}, {found.high:.1f}"
    '11.1, 14.5, 18.0'
    """
    value = float(statistic(np.ones((1, n)))[0]) if n else math.nan
    if not math.isfinite(value):
        return BootstrapResult(value=None, low=None, high=None, reason="the statistic is undefined")
    codes, k = cluster_codes(clusters, n)
    if k < 2:
        reason = "one independent unit says nothing of the spread"
        return BootstrapResult(value=value, low=None, high=None, reason=reason)
    drawn = resampling_weights(k, draws, rng, width=n)
    found = np.concatenate([statistic(counts if k == n else counts[:, codes]) for counts in drawn])
    defined = found[np.isfinite(found)]
    if len(defined) < MIN_RESAMPLES:
        reason = f"the statistic is undefined for {draws - len(defined)} of {draws} draws"
        return BootstrapResult(value=value, low=None, high=None, reason=reason)
    low, high = percentile_interval(defined, k)
    return BootstrapResult(value=value, low=min(low, value), high=max(high, value))


def percentile_interval(drawn: Floats, k: int) -> tuple[float, float]:
    """Return the 95% percentile interval of draws from k >= 2 clusters, with the tails of Student's t.

    Draws that are nan are left out; if fewer than `MIN_RESAMPLES` remain, the limits are minus and plus infinity.
    """
    known = drawn[~np.isnan(drawn)]
    if len(known) < MIN_RESAMPLES:
        return -math.inf, math.inf
    tail = NORMAL.cdf(-t_quantile(0.975, k - 1))
    low, high = np.quantile(known, [tail, 1 - tail])
    return float(low), float(high)
