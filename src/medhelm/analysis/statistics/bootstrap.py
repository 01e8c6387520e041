"""Bootstrap interval of any statistic over instances, by the same rules as the intervals of means.

Instances, or whole clusters of them, are drawn with replacement, one fewer than there are (Rao and Wu 1988, J. Am.
Stat. Assoc. 83), and the tails of the percentile interval are taken from Student's t (Hesterberg 2015, Am. Stat. 69).
For coefficients of agreement this matters: plain percentiles of 10 or 20 instances hold the truth in about 9 cases of
10, these in about 19 of 20.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.statistics.cluster_bootstrap import Clusters, Floats, cluster_codes
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
    draws: int
    """Draws for which the statistic is defined: the interval is made of these."""
    undefined: int
    """Draws left out because the statistic is undefined for them."""
    reason: str = ""
    """Reason if there is no interval, else empty."""


def bootstrap_statistic(
    rows: Floats,
    statistic: Callable[[Floats], float | None],
    rng: np.random.Generator,
    draws: int = DRAWS,
    *,
    clusters: Clusters = None,
) -> BootstrapResult:
    """Compute the percentile bootstrap of a statistic, by rows or by whole clusters of rows.

    Draws for which the statistic is undefined are left out and counted: where there are many, the interval is about the
    draws that worked. The interval is widened to hold the value, if need be, and is not cut to any range.

    Parameters: rows, one per instance along the first axis; statistic, from such rows to a number, or None or nan where
    it is undefined; clusters, a name for each row, "" or None for independent rows.
    Returns: no interval if the statistic is undefined for the rows, if there are fewer than two clusters, or if fewer
    than `MIN_RESAMPLES` draws are defined.

    >>> found = bootstrap_statistic(np.arange(30.0), lambda rows: float(np.median(rows)), np.random.default_rng(1))
    >>> found.low, found.value, found.high
    (9.0, 14.5, 20.0)
    """
    value = _defined(statistic(rows))
    codes, k = cluster_codes(clusters, len(rows))
    if value is None:
        return BootstrapResult(
            value=None, low=None, high=None, draws=0, undefined=0, reason="the statistic is undefined"
        )
    if k < 2:
        reason = "one independent unit says nothing of the spread"
        return BootstrapResult(value=value, low=None, high=None, draws=0, undefined=0, reason=reason)
    members = [np.flatnonzero(codes == code) for code in range(k)] if k < len(rows) else None
    found = [_defined(statistic(rows[_drawn(k, members, rng)])) for _ in range(draws)]
    defined = [one for one in found if one is not None]
    undefined = draws - len(defined)
    if len(defined) < MIN_RESAMPLES:
        reason = f"the statistic is undefined for {undefined} of {draws} draws"
        return BootstrapResult(value=value, low=None, high=None, draws=len(defined), undefined=undefined, reason=reason)
    low, high = percentile_interval(np.array(defined), k)
    return BootstrapResult(
        value=value, low=min(low, value), high=max(high, value), draws=len(defined), undefined=undefined
    )


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


def _defined(value: float | None) -> float | None:
    """Return the value, or None for nan and infinity."""
    return float(value) if value is not None and np.isfinite(value) else None


def _drawn(k: int, members: list[NDArray[np.intp]] | None, rng: np.random.Generator) -> NDArray[np.intp]:
    """Draw k - 1 clusters with replacement, and return their rows. `members`: None where every row is a cluster."""
    chosen = rng.integers(0, k, size=k - 1)
    return chosen if members is None else np.concatenate([members[code] for code in chosen])
