"""Agreement beyond chance: weighted kappa and Krippendorff's alpha.

Both compare the observed disagreement with the disagreement expected by chance, and differ in the definition of chance.
Kappa keeps each rater's distribution of grades; alpha pools the grades of all raters. If nearly all instances get the
same grade, both are small or undefined although raters nearly always agree.

Grades are numbers. The disagreement of two grades depends on their distance, not on the number of grades in between.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from medhelm.analysis.agreement.correlation import average_ranks
from medhelm.analysis.agreement.raters import Coefficient, require_finite
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
    Raises: ValueError for an infinite grade.

    >>> weighted_kappa(np.array([1, 2, 3, 4, 5.0]), np.array([1, 2, 3, 5, 4.0])).value
    0.9
    """
    both = np.stack([np.asarray(a, dtype=float), np.asarray(b, dtype=float)])
    require_finite(both)
    there = ~np.isnan(both).any(axis=0)
    n, left_out = int(there.sum()), int((~there).sum())
    if n < 2:
        return Coefficient(value=None, n=n, n_left_out=left_out, reason="needs at least two instances")
    left, right = both[:, there]
    grades, codes = np.unique(both[:, there], return_inverse=True)
    shares = [np.bincount(side, minlength=len(grades)) / n for side in codes.reshape(2, n)]
    observed = float(_distance(left, right, weights).mean())
    expected = float(shares[0] @ _distance(grades[:, None], grades, weights) @ shares[1])
    if expected == 0:
        reason = f"both raters give {grades[0]:g} to every instance"
        return Coefficient(value=None, n=n, n_left_out=left_out, reason=reason)
    return Coefficient(value=1 - observed / expected, n=n, n_left_out=left_out)


def krippendorff_alpha(ratings: Floats, level: Level = "ordinal") -> Coefficient:
    """Compute Krippendorff's alpha for any number of raters and missing ratings (Hayes and Krippendorff 2007).

    Disagreement of two grades: nominal, whether they differ; ordinal, the squared number of ratings between them, which
    is the squared difference of their average ranks; interval, the squared difference.

    Parameters: ratings, shape (n, k), nan where a rating is missing; level, what grades mean.
    Returns: value at most 1; None unless an instance has two ratings, and if all ratings are the same. `n` counts the
    instances with two ratings; no others enter.
    Raises: ValueError for infinite ratings.

    >>> table = np.array([[1, 1], [2, 2], [3, 3], [4, 5], [np.nan, 5]])
    >>> found = krippendorff_alpha(table, "interval")
    >>> f"{found.value:.3f} of {found.n}"
    '0.937 of 4'
    """
    table = np.asarray(ratings, dtype=float)
    require_finite(table)
    given = (~np.isnan(table)).sum(axis=1)
    paired = table[given >= 2]
    n, left_out = len(paired), int((given < 2).sum())
    if n == 0:
        return Coefficient(value=None, n=0, n_left_out=left_out, reason="no instance has two ratings")
    there = ~np.isnan(paired)
    if level == "ordinal":
        ranks = np.full(paired.shape, np.nan)
        ranks[there] = average_ranks(paired[there])
        paired = ranks
    values, counts = np.unique(paired[there], return_counts=True)
    if len(values) == 1:
        return Coefficient(value=None, n=n, n_left_out=left_out, reason="all ratings are the same")
    within = sum(np.nansum(_squared_difference(paired, column[:, None], level), axis=1) for column in paired.T)
    observed = float((within / (given[given >= 2] - 1)).sum())
    total = int(counts.sum())
    expected = sum(
        float(counts @ _squared_difference(values, value, level)) * count
        for value, count in zip(values, counts, strict=True)
    ) / (total - 1)
    return Coefficient(value=1 - observed / expected, n=n, n_left_out=left_out)


def _distance(a: Floats, b: Floats, weights: Weights) -> Floats:
    """Return the disagreement of grades, element by element."""
    return (a != b).astype(float) if weights == "none" else (a - b) ** 2


def _squared_difference(a: Floats, b: Floats | float, level: Level) -> Floats:
    """Return Krippendorff's squared difference of ratings (ordinal: of their ranks); nan where one is missing."""
    difference: Floats = a - b
    if level == "nominal":
        return np.where(np.isnan(difference), np.nan, difference != 0)
    return difference**2
