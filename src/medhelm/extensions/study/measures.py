"""Numbers about ratings: agreement by criterion, drift, and unusual times. Arrays in, numbers out.

Flags for an owner have few false alarms: a rater who rates as at the start, at the usual pace, is flagged for drift or
for a time with a probability of at most 5% (simulated in the tests).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import NormalDist

import numpy as np

from medhelm.analysis.agreement.coefficients import Coefficient, Level, krippendorff_alpha, resampled_alpha
from medhelm.analysis.agreement.reliability import LEAST_UNITS
from medhelm.analysis.comparison.preferences import DRAWS
from medhelm.analysis.means import Clusters, Floats, bootstrap_statistic, cluster_codes, estimate, t_quantile
from medhelm.domain import Estimate

# --- agreement --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CriterionAgreement:
    """Agreement of raters with each other on one criterion."""

    criterion: str
    """Id of the criterion; "" for all together."""
    n: int
    """Cases with ratings of two raters or more."""
    n_raters: int
    """Raters who rated one of them."""
    n_units: int
    """Independent units among these cases, such as instances."""
    same: Estimate | None
    """Share of the pairs of ratings of a case that are the same, mean over cases; None without such cases."""
    near: Estimate | None
    """Share that differ by one point at most; for preferences, that do not prefer opposite sides."""
    alpha: Coefficient
    """Krippendorff's alpha with a bootstrap interval over independent units; without one for few units."""
    level: Level
    """Level of measurement of alpha."""


def criterion_agreement(
    ratings: Floats,
    criterion: str,
    *,
    level: Level,
    is_preference: bool = False,
    clusters: Clusters = None,
    seed: int = 0,
) -> CriterionAgreement:
    """Measure the agreement of raters on a criterion.

    Parameters: ratings, shape (n, R), nan where a rater gave no grade; level, ordinal for grades and preferences,
    nominal for checks; clusters, n names of independent units, such as instances; seed, of the bootstrap.
    """
    table = np.asarray(ratings, dtype=float)
    paired = (~np.isnan(table)).sum(axis=1) >= 2
    used = table[paired]
    codes = None if clusters is None else np.asarray(clusters)[paired]
    n_units = cluster_codes(codes, len(used))[1]
    alpha = krippendorff_alpha(used, level) if len(used) else krippendorff_alpha(np.empty((0, 2)), level)
    if alpha.value is not None and n_units < LEAST_UNITS:
        reason = f"{n_units} independent instances are too few for an interval: {LEAST_UNITS} at least"
        alpha = replace(alpha, reason=reason)
    elif alpha.value is not None:
        drawn = bootstrap_statistic(
            len(used), partial(resampled_alpha, used, level=level), np.random.default_rng(seed), DRAWS, clusters=codes
        )
        alpha = replace(alpha, low=drawn.low, high=drawn.high, reason=drawn.reason)
    return CriterionAgreement(
        criterion=criterion,
        n=len(used),
        n_raters=int((~np.isnan(used)).any(axis=0).sum()),
        n_units=n_units,
        same=_share_of_pairs(used, 0.0, codes, is_preference=is_preference),
        near=_share_of_pairs(used, 1.0, codes, is_preference=is_preference) if level != "nominal" else None,
        alpha=alpha,
        level=level,
    )


def _share_of_pairs(table: Floats, most: float, clusters: Clusters, *, is_preference: bool) -> Estimate | None:
    """Return the mean over cases of the share of pairs of ratings that are at most `most` apart.

    Of preferences, for 0 the side must be the same, or both a tie, and for 1 the sides must not be opposite.
    """
    if not len(table):
        return None
    values = np.sign(table) if is_preference else table
    first, second = np.triu_indices(table.shape[1], k=1)
    apart = np.abs(values[:, first] - values[:, second])
    shares = np.nanmean(np.where(np.isnan(apart), np.nan, (apart <= most).astype(float)), axis=1)
    return estimate(shares, clusters, low=0.0, high=1.0)


# --- one rater --------------------------------------------------------------------------------------------------------

LEAST_OF_A_THIRD = 6
"""Fewest cases in the first and in the last third for a statement on drift."""

LEAST_TIMES = 8
"""Fewest times of a rater for a statement on unusual ones."""

FLAGGED = 0.01
"""Significance level of a flag for drift: below 5%, because there are several raters and looks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """Difference of a rater's mean grade between the last and the first third of the cases."""

    value: float | None
    """Last minus first, high being good; None with too few cases."""
    low: float | None = None
    """Lower end of the 95% interval, or None."""
    high: float | None = None
    """Upper end, or None."""
    n: int = 0
    """Cases in both thirds."""
    is_adjusted: bool = False
    """True if each grade is taken relative to those that others gave the same completion."""
    is_flagged: bool = False
    """True if the difference is significant at the level `FLAGGED`."""


def drift(grades: Floats, others: Floats) -> Drift:
    """Compare the first third of a rater's grades with the last third by Welch's test.

    Parameters: grades, shape (n,), in the order of rating; others, shape (n,), mean grade that other raters gave the
    same case, nan without one. If both thirds have enough cases that others rated, these alone are compared, relative
    to the others, so that easier cases are not taken for drift.
    """
    third = len(grades) // 3
    ends = [(slice(0, third), slice(len(grades) - third, len(grades)))]
    relative = grades - others
    shared = [relative[part][~np.isnan(relative[part])] for part in ends[0]]
    is_adjusted = min(map(len, shared)) >= LEAST_OF_A_THIRD
    first, last = shared if is_adjusted else [grades[part] for part in ends[0]]
    if min(len(first), len(last)) < LEAST_OF_A_THIRD:
        return Drift(value=None, n=len(first) + len(last))
    value = float(last.mean() - first.mean())
    parts = np.array([first.var(ddof=1) / len(first), last.var(ddof=1) / len(last)])
    variance = float(parts.sum())
    n = len(first) + len(last)
    if variance == 0:
        is_flagged = value != 0
        return Drift(value=value, n=n, is_adjusted=is_adjusted, is_flagged=is_flagged)
    freedom = variance**2 / float(parts[0] ** 2 / (len(first) - 1) + parts[1] ** 2 / (len(last) - 1))
    error = math.sqrt(variance)
    reach = t_quantile(0.975, freedom) * error
    return Drift(
        value=value,
        low=value - reach,
        high=value + reach,
        n=n,
        is_adjusted=is_adjusted,
        is_flagged=abs(value) > t_quantile(1 - FLAGGED / 2, freedom) * error,
    )


def unusual_times(seconds: Sequence[float]) -> list[int]:
    """Return the places of times that are unusually long or short for this rater.

    On the scale of logarithms, a time is unusual if it is further from the median than is likely for any of n normal
    values, in units of the median absolute deviation (Davies and Gather 1993, J. Am. Stat. Assoc. 88); the limit is
    raised for few times, of which that unit is uncertain. Times of 0 are left out.

    >>> unusual_times([30, 35, 28, 40, 33, 31, 37, 29, 36, 900])
    [9]
    """
    places = [place for place, one in enumerate(seconds) if one > 0]
    n = len(places)
    if n < LEAST_TIMES:
        return []
    logs = np.log([seconds[place] for place in places])
    apart = np.abs(logs - np.median(logs))
    unit = float(np.median(apart)) / NormalDist().inv_cdf(0.75)
    limit = NormalDist().inv_cdf(1 - 0.05 / (2 * n)) * (1.03 + 7 / n)
    return [place for place, one in zip(places, apart, strict=True) if unit > 0 and one > limit * unit]
