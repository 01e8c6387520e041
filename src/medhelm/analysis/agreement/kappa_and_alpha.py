"""Agreement beyond chance: weighted kappa and Krippendorff's alpha.

Both compare the observed disagreement with the disagreement expected by chance, and differ in the definition of chance.
Kappa keeps each rater's distribution of grades; alpha pools the grades of all raters. If nearly all instances get the
same grade, both are small or undefined although raters nearly always agree.

Grades are numbers. The disagreement of two grades depends on their distance, not on the number of grades in between.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal, get_args

import numpy as np

from medhelm.analysis.agreement.raters import Coefficient, require_finite, require_known
from medhelm.analysis.statistics.cluster_bootstrap import Floats

Weights = Literal["quadratic", "none"]
"""Growth of disagreement with the distance of two grades; with `none`, all different grades disagree equally."""

Level = Literal["nominal", "ordinal", "interval"]
"""Level of measurement of the grades."""


def weighted_kappa(a: Floats, b: Floats, *, weights: Weights = "quadratic") -> Coefficient:
    """Compute the weighted kappa of two raters (Cohen 1968, Psychol. Bull. 70); `none` is Cohen's kappa of 1960.

    Parameters: a and b, shape (n,), grades, nan if missing; instances with a nan are left out and counted.
    Returns: value at most 1; None for fewer than two instances, and if both raters give the same grade to all.
    For more than two raters use `average_over_pairs`; for an interval `bootstrap_statistic`.
    Raises: ValueError for other weights, and for an infinite grade.

    >>> weighted_kappa(np.array([1, 2, 3, 4, 5.0]), np.array([1, 2, 3, 5, 4.0])).value
    0.9
    """
    require_known("weights", weights, get_args(Weights))
    both = np.stack([np.asarray(a, dtype=float), np.asarray(b, dtype=float)])
    require_finite(both)
    there = ~np.isnan(both).any(axis=0)
    n, left_out = int(there.sum()), int((~there).sum())
    if n < 2:
        return Coefficient(value=None, n=n, n_left_out=left_out, reason="needs at least two instances")
    left, right = both[:, there]
    value = float(resampled_kappa(left, right, np.ones((1, n)), weights=weights)[0])
    if math.isnan(value):
        reason = f"both raters give {left[0]:g} to every instance"
        return Coefficient(value=None, n=n, n_left_out=left_out, reason=reason)
    return Coefficient(value=value, n=n, n_left_out=left_out)


def resampled_kappa(a: Floats, b: Floats, counts: Floats, *, weights: Weights = "quadratic") -> Floats:
    """Compute the weighted kappa of many resamples at once.

    Parameters: a and b, shape (n,), finite grades, nan if missing; counts, shape (m, n), how often each resample drew
    each instance.
    Returns: shape (m,), nan where `weighted_kappa` has no value.
    """
    require_known("weights", weights, get_args(Weights))
    there = ~np.isnan(a) & ~np.isnan(b)
    a, b, counts = a[there], b[there], counts[:, there]
    n = counts.sum(axis=1)
    grades = np.unique(np.concatenate([a, b]))
    left, right = (counts @ (side[:, None] == grades).astype(float) for side in (a, b))
    observed = counts @ _distance(a, b, weights) * n
    expected = ((left @ _distance(grades[:, None], grades, weights)) * right).sum(axis=1)
    usable = (n > 1) & (expected > 0)
    found: Floats = np.divide(expected - observed, expected, out=np.full(len(n), np.nan), where=usable)
    return found


def krippendorff_alpha(ratings: Floats, level: Level = "ordinal") -> Coefficient:
    """Compute Krippendorff's alpha for any number of raters and missing ratings (Hayes and Krippendorff 2007).

    Disagreement of two grades: nominal, whether they differ; ordinal, the squared number of ratings between them, which
    is the squared difference of their average ranks; interval, the squared difference.

    Parameters: ratings, shape (n, k), nan where a rating is missing; level, what grades mean.
    Returns: value at most 1; None unless an instance has two ratings, and if all ratings are the same. `n` counts the
    instances with two ratings; no others enter.
    Raises: ValueError for another level, and for infinite ratings.

    >>> table = np.array([[1, 1], [2, 2], [3, 3], [4, 5], [np.nan, 5]])
    >>> found = krippendorff_alpha(table, "interval")
    >>> f"{found.value:.3f} of {found.n}"
    '0.937 of 4'
    """
    require_known("level", level, get_args(Level))
    table = np.asarray(ratings, dtype=float)
    require_finite(table)
    given = (~np.isnan(table)).sum(axis=1)
    paired = table[given >= 2]
    n, left_out = len(paired), int((given < 2).sum())
    if n == 0:
        return Coefficient(value=None, n=0, n_left_out=left_out, reason="no instance has two ratings")
    value = float(resampled_alpha(paired, np.ones((1, n)), level)[0])
    if math.isnan(value):
        return Coefficient(value=None, n=n, n_left_out=left_out, reason="all ratings are the same")
    return Coefficient(value=value, n=n, n_left_out=left_out)


def resampled_alpha(ratings: Floats, counts: Floats, level: Level = "ordinal") -> Floats:
    """Compute Krippendorff's alpha of many resamples at once.

    The squared differences of all pairs among n values sum to n times the sum of their squares, less the square of
    their sum: of the ratings of one instance that is the observed disagreement, of all ratings the expected one.

    Parameters: ratings, shape (n, k), finite, nan where a rating is missing; counts, shape (m, n), how often each
    resample drew each instance.
    Returns: shape (m,), nan where `krippendorff_alpha` has no value.
    """
    require_known("level", level, get_args(Level))
    given = (~np.isnan(ratings)).sum(axis=1)
    paired, counts, given = ratings[given > 1], counts[:, given > 1], given[given > 1]
    if not len(paired):
        return np.full(len(counts), np.nan)
    n = counts @ given
    within, between = np.zeros((2, len(counts)))
    for sums, squares in _sums_of_ratings(paired, counts, level):
        within += (counts * (given * squares - sums**2) / (given - 1)).sum(axis=1)
        between += n * (counts * squares).sum(axis=1) - (counts * sums).sum(axis=1) ** 2
    drawn = counts > 0
    lowest = np.where(drawn, np.nanmin(paired, axis=1), np.inf).min(axis=1)
    highest = np.where(drawn, np.nanmax(paired, axis=1), -np.inf).max(axis=1)
    disagreement: Floats = np.divide(within * (n - 1), between, out=np.full(len(n), np.nan), where=lowest < highest)
    return 1 - disagreement


def _sums_of_ratings(paired: Floats, counts: Floats, level: Level) -> Iterator[tuple[Floats, Floats]]:
    """Yield the sums of each instance's ratings and of their squares, so expressed that they differ by the level.

    Nominal: for each grade, whether it was given; ordinal: ranks, of shape (m, n); interval: the ratings. Ranks and
    ratings are counted from their mean, so that sums of squares do not lose digits.
    """
    if level == "interval":
        ratings = paired - np.nanmean(paired)
        yield np.nansum(ratings, axis=1), np.nansum(ratings**2, axis=1)
        return
    grades = np.unique(paired[~np.isnan(paired)])
    times = np.stack([(paired == grade).sum(axis=1) for grade in grades]).astype(float)
    if level == "nominal":
        yield from zip(times, times, strict=True)
        return
    of_each = counts @ times.T
    ranks = np.cumsum(of_each, axis=1) - (of_each + of_each.sum(axis=1, keepdims=True)) / 2
    yield ranks @ times, ranks**2 @ times


def _distance(a: Floats, b: Floats, weights: Weights) -> Floats:
    """Return the disagreement of grades, element by element."""
    return (a != b).astype(float) if weights == "none" else (a - b) ** 2
