"""Means with intervals, and minimum detectable effects.

All intervals are two-sided 95%. A failure is nan on the way in: left out of every number and counted. How an interval
is made depends on the scores alone, and its `method` says which way was taken:

    wilson                     0/1 scores, independent instances
    wilson-clustered           0/1 scores, with an effective number of instances
    bootstrap-2000             other scores: instances are resampled 2000 times
    bootstrap-2000-clustered   the same with whole clusters
    normal, normal-clustered   other scores, more than 10,000 independent units
    constant                   other scores, all equal: see `constant_interval`
    single                     other scores, one unit only: the whole scale, because one says nothing of the spread
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from itertools import combinations
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.statistics.cluster_bootstrap import (
    LARGE,
    Clusters,
    Floats,
    cluster_codes,
    cluster_totals,
    draw_means,
    ratio_standard_error,
)
from medhelm.analysis.statistics.distributions import t_quantile
from medhelm.domain import Estimate

NORMAL = NormalDist()
"""The standard normal distribution."""

Z95 = NORMAL.inv_cdf(0.975)
"""Quantile of the normal distribution behind 95% intervals."""

MDE_FACTOR = 1.96 + 0.84
"""Standard errors that a true difference must measure to be found at the 5% level in four of five tries."""

DRAWS = 2000
"""Number of bootstrap resamples for one interval."""


def wilson_interval(successes: float, n: float, confidence: float = 0.95) -> tuple[float, float]:
    """Score interval of a proportion (Wilson 1927, J. Am. Stat. Assoc. 22): within 0..1, never of width zero.

    Parameters: successes out of n; neither need be whole, n may be an effective number of instances.
    Raises: ValueError unless 0 <= successes <= n, n > 0 and 0 < confidence < 1.

    >>> low, high = wilson_interval(81, 263)
    >>> f"{low:.4f} {high:.4f}"
    '0.2553 0.3662'
    """
    if not (n > 0 and 0 <= successes <= n and 0 < confidence < 1):
        raise ValueError(f"no proportion: {successes} of {n} at confidence {confidence}")
    z = NORMAL.inv_cdf((1 + confidence) / 2)
    p = successes / n
    centre = p + z * z / (2 * n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    low = 0.0 if successes == 0 else max((centre - half) / scale, 0.0)
    high = 1.0 if successes == n else min((centre + half) / scale, 1.0)
    return low, high


def effective_size(scores: Floats, clusters: Clusters) -> float:
    """Return the effective number of independent instances of clustered 0/1 scores, for `wilson_interval`.

    n / deff, with the design effect from the linearized variance of a ratio and a correction for few clusters by the
    ratio of t quantiles (Korn and Graubard 1998, Survey Methodology 24). It stays between the number under perfect
    agreement within clusters, n^2 / sum n_i^2, and n: the estimate of so small a variance is itself uncertain, and the
    upper bound is what keeps coverage (Dean and Pagano 2015, J. Surv. Stat. Methodol. 3). Equal scores throughout say
    nothing about agreement within clusters: then it is the number of clusters.

    Parameters: scores, shape (n,), without nan; clusters, n names.
    """
    n = len(scores)
    codes, k = cluster_codes(clusters, n)
    p = float(scores.mean())
    if k == n or k == 1 or p in (0.0, 1.0):
        return float(k)
    sums, counts = cluster_totals(scores[None, :], codes, k)
    least = n * n / float((counts[:, 0] ** 2).sum())
    variance = ratio_standard_error(sums[:, 0], counts[:, 0]) ** 2
    if variance == 0:
        return float(n)
    size = p * (1 - p) / variance * (t_quantile(0.975, n - 1) / t_quantile(0.975, k - 1)) ** 2
    return min(max(size, least), float(n))


def constant_interval(value: float, k: int, low: float, high: float) -> tuple[float, float]:
    """Interval of a mean when all k independent units have the same score.

    Up to a share q of other outcomes could have stayed unseen, q being the upper Wilson limit of 0 in k; at worst they
    lie at an end of the scale. For scores at an end this is the Wilson interval of k in k.
    """
    unseen = wilson_interval(0, k)[1]
    return value - unseen * (value - low), value + unseen * (high - value)


def bootstrap_interval(
    values: Floats, clusters: Clusters, rng: np.random.Generator, draws: int = DRAWS
) -> tuple[float, float]:
    """Percentile bootstrap of a mean, whole clusters at a time (Davison and Hinkley 1997, section 3.8).

    With few clusters percentile intervals are too short; the tails are taken from Student's t, k - 1 degrees of freedom
    (expanded percentile interval, Hesterberg 2015, Am. Stat. 69). Above 10,000 clusters: mean and standard error.

    Parameters: values, shape (n,), without nan; clusters, n names, "" or None for independent instances.
    Returns: limits in the unit of the values, with the mean between them; for a single cluster minus and plus infinity.
    """
    codes, k = cluster_codes(clusters, len(values))
    if k < 2:
        return -math.inf, math.inf
    sums, counts = cluster_totals(values[None, :], codes, k)
    mean = float(values.mean())
    if k > LARGE:
        half = Z95 * ratio_standard_error(sums[:, 0], counts[:, 0])
        return mean - half, mean + half
    return percentile_t_interval(draw_means(sums, counts, rng, draws)[:, 0], mean, k - 1)


def percentile_t_interval(drawn: Floats, value: float, df: float) -> tuple[float, float]:
    """Percentile interval of drawn values with the tails of Student's t, widened to hold the value if need be.

    Parameters: drawn, shape (draws,), without nan; df, degrees of freedom, above 0.
    """
    tail = _tail(df)
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return min(float(low), value), max(float(high), value)


@lru_cache(maxsize=4096)
def _tail(df: float) -> float:
    """Share of the draws left out at each end."""
    return NORMAL.cdf(-t_quantile(0.975, df))


def estimate(
    values: Floats,
    clusters: Clusters = None,
    *,
    low: float,
    high: float,
    rng: np.random.Generator,
    draws: int = DRAWS,
) -> Estimate | None:
    """Mean score of a run with its 95% interval, by the method that fits the scores (see the head of this module).

    Parameters: values, shape (n,), nan for a failed instance; clusters, n names; low and high, ends of the scale.
    Returns: None when nothing was scored. The interval lies within the scale and contains the mean.
    """
    values = np.asarray(values, dtype=float)
    scored = ~np.isnan(values)
    n = int(scored.sum())
    if n == 0:
        return None
    names = None if clusters is None else np.asarray(clusters)[scored]
    limits, method = _interval(values[scored], names, low, high, rng, draws)
    mean = float(values[scored].mean())
    return Estimate(
        value=mean,
        low=min(max(limits[0], low), mean),
        high=max(min(limits[1], high), mean),
        n=n,
        n_failed=len(values) - n,
        method=method,
    )


def _interval(
    values: Floats, clusters: Clusters, low: float, high: float, rng: np.random.Generator, draws: int
) -> tuple[tuple[float, float], str]:
    """Limits and method for scores without nan."""
    n = len(values)
    k = cluster_codes(clusters, n)[1]
    suffix = "-clustered" if k < n else ""
    if (low, high) == (0, 1) and np.isin(values, (0.0, 1.0)).all():
        size = effective_size(values, clusters)
        return wilson_interval(float(values.mean()) * size, size), "wilson" + suffix
    if k == 1:
        return (low, high), "single"
    if values.min() == values.max():
        return constant_interval(float(values[0]), k, low, high), "constant"
    name = "normal" if k > LARGE else f"bootstrap-{draws}"
    return bootstrap_interval(values, clusters, rng, draws), name + suffix


class MetricScores(NamedTuple):
    """The scores of a run by one metric."""

    values: Floats
    """Shape (n,), nan for a failed instance; n is the same for all metrics of the run."""
    low: float
    """Lower end of the scale."""
    high: float
    """Upper end of the scale."""


def estimate_metrics(metrics: Mapping[str, MetricScores], seed: int) -> dict[str, Estimate]:
    """Estimate each metric of a run of independent instances, as `estimate` with a generator from `seed` does.

    The same seed draws the same instances for every metric without failures, so that these can share the draws: the
    numbers are the same but for the last bit. A metric that nothing was scored by has none.
    """
    together = {name: one for name, one in metrics.items() if _is_resampled(one)}
    found = {
        name: mean
        for name, one in metrics.items()
        if name not in together
        and (mean := estimate(one.values, low=one.low, high=one.high, rng=np.random.default_rng(seed)))
    }
    if together:
        sums = np.stack([one.values for one in together.values()], axis=1)
        drawn = draw_means(sums, np.ones_like(sums), np.random.default_rng(seed), DRAWS)
        for column, (name, one) in enumerate(together.items()):
            found[name] = _resampled_estimate(one, drawn[:, column])
    return {name: found[name] for name in metrics if name in found}


def _is_resampled(one: MetricScores) -> bool:
    """Return whether `estimate` would resample: not for failures, equal scores, 0/1 scores or very many instances."""
    values = one.values
    if not 1 < len(values) <= LARGE or np.isnan(values).any() or values.min() == values.max():
        return False
    return not ((one.low, one.high) == (0, 1) and np.isin(values, (0.0, 1.0)).all())


def _resampled_estimate(one: MetricScores, drawn: Floats) -> Estimate:
    n = len(one.values)
    mean = float(one.values.mean())
    low, high = percentile_t_interval(drawn, mean, n - 1)
    return Estimate(
        value=mean,
        low=min(max(low, one.low), mean),
        high=max(min(high, one.high), mean),
        n=n,
        n_failed=0,
        method=f"bootstrap-{DRAWS}",
    )


def minimum_detectable_effect(scores: Floats, clusters: Clusters = None) -> float | None:
    """Smallest true difference between two models that would be found in four of five tries at the 5% level.

    The mean over all pairs of models of `pair_effects`.

    Parameters: scores, shape (n_models, n), aligned by instance, normalized to 0..1, nan if missing.
    Returns: None unless some pair shares two instances.
    """
    effects = pair_effects(scores, clusters)
    return float(np.mean(effects)) if effects else None


def pair_effects(scores: Floats, clusters: Clusters = None) -> list[float]:
    """The minimum detectable effect of every pair of models that shares two instances or more.

    (1.96 + 0.84) times the standard error of the paired difference. With independent instances that error is
    sd / sqrt(n), sd the population standard deviation of the differences (Bedi et al. 2025, appendix E).
    """
    codes, k = cluster_codes(clusters, scores.shape[1])
    effects = []
    for i, j in combinations(range(len(scores)), 2):
        difference = scores[i] - scores[j]
        shared = ~np.isnan(difference)
        if int(shared.sum()) >= 2:
            effects.append(MDE_FACTOR * population_standard_error(difference[shared], codes[shared], k))
    return effects


def population_standard_error(values: Floats, codes: NDArray[np.intp], k: int) -> float:
    """Standard error of a mean with divisor n instead of n - 1, clusters taken together.

    Parameters: values, shape (n,), without nan; codes, shape (n,), 0 to k - 1.
    """
    totals = np.bincount(codes, weights=values - values.mean(), minlength=k)
    return float(np.sqrt(totals @ totals) / len(values))
