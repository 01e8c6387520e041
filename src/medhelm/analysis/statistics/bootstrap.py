"""Bootstrap interval of any statistic over instances, by the same rules as the intervals of means.

Instances, or whole clusters of them, are drawn with replacement, one fewer than there are (Rao and Wu 1988, J. Am.
Stat. Assoc. 83), and the tails of the percentile interval are taken from Student's t (Hesterberg 2015, Am. Stat. 69).
For coefficients of agreement this matters: plain percentiles of 10 or 20 instances hold the truth in about 9 cases of
10, these in about 19 of 20.

A statistic is computed for many resamples at once, from how often each of them drew each instance.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from medhelm.analysis.statistics.cluster_bootstrap import Clusters, Floats, cluster_codes, resampling_weights
from medhelm.analysis.statistics.distributions import t_quantile
from medhelm.analysis.statistics.means import DRAWS, NORMAL

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
