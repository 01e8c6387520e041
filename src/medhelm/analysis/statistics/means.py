"""Means with intervals.

All intervals are two-sided 95%. A failure is nan on the way in: left out of every number and counted. How an interval
is made depends on the scores alone, and its `method` names it:

    wilson            0/1 scores
    wilson-effective  other scores, fewer than 20 independent units: Wilson's interval of as many 0/1 scores with the
                      same mean as vary as much, fewer by the ratio of quantiles of Student's t
    skew-t            other scores: mean and standard error with Student's t, corrected for the skewness of the scores
                      by Hall's transformation (`spread_of_sum`)
    t                 without that correction: fewer than five units on a scale without an end, such as `density`
    constant          other scores, equal in all units: see `constant_interval`
    single            other scores, one unit only: the whole scale, because one does not show any spread
    mover             a ratio, or a mean of ratios over labels, such as balanced accuracy: see `ratio_metrics`

    -by-cluster       added where instances are not independent: units are clusters, and their effective number counts

None is wider than Wilson's interval of as many 0/1 scores with the same mean as there are units, because no scores on
the scale vary more. Hall's correction alone is too wide for few scores that are very skewed.

Where single scores may lie below the scale (`open_below`), as the points of HealthBench do, the interval is that of a
scale without a lower end, and mean and interval are cut to the scale afterwards.

Runs stored by version 0.1.0 have other methods: `bootstrap-2000` (2,000 resamples of the instances) and, above 10,000
units, `normal` for scores that are not 0/1, and `-clustered` at the end of a name for clusters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.statistics.cluster_bootstrap import Clusters, Floats, cluster_codes
from medhelm.analysis.statistics.distributions import t_quantile
from medhelm.domain import RULES, Estimate, Rule

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
        size = effective_size(hits, codes)
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
