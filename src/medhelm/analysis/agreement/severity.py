"""Estimates how much clinicians differ in severity, from completions that several of them rated.

Other clinicians would have rated otherwise: an estimate for clinicians in general carries the variance between raters,
divided by the number of raters. Severities come from a least squares fit of ratings on completions and raters; the
variance of the severities, less what chance adds to it, is that between raters (method of moments).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from medhelm.analysis.agreement.raters import require_finite
from medhelm.analysis.statistics.cluster_bootstrap import Floats
from medhelm.analysis.statistics.distributions import t_quantile

LEAST_RATERS = 3
"""Minimum raters for a statement on clinicians in general: a variance from two has one degree of freedom."""

ROUNDING = 1e-9
"""Relative size below which a variance or an eigenvalue is a rounding error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaterEffect:
    """Differences in severity between raters, and their effect on a mean rating."""

    n_raters: int
    """Raters whose ratings are part of the mean."""
    deviation: float | None
    """Standard deviation of severity between raters; None if unknown: the mean then holds for these raters only."""
    reach: float
    """Addition to either side of the 95% interval of the mean, in quadrature; 0 if unknown."""


def rater_effect(ratings: Floats, shares: Floats) -> RaterEffect:
    """Estimate the effect of the choice of raters on a mean rating.

    Parameters: ratings, shape (n, R), nan if missing: all ratings that show differences between raters; shares, shape
    (R,), what part of the mean each rater's ratings are.
    Returns: deviation None with fewer than `LEAST_RATERS` raters, and if ratings of the same completions do not connect
    all raters, so that severity cannot be separated from the choice of completions.
    Raises: ValueError for infinite ratings.

    >>> table = np.array([[3, 4, 5], [1, 2, 3], [2, 3, 4], [4, 5, 6.0]])
    >>> found = rater_effect(table, np.full(3, 1 / 3))
    >>> f"{found.deviation:.1f}"
    '1.0'
    """
    table, parts = np.asarray(ratings, dtype=float), np.asarray(shares, dtype=float)
    require_finite(table)
    n_raters = int((parts > 0).sum())
    active = table[:, (~np.isnan(table)).any(axis=0)]
    variance = _variance_between(active) if active.shape[1] >= LEAST_RATERS else None
    if variance is None:
        return RaterEffect(n_raters=n_raters, deviation=None, reach=0.0)
    deviation = math.sqrt(variance)
    error = deviation * math.sqrt(float(parts @ parts))
    return RaterEffect(n_raters=n_raters, deviation=deviation, reach=t_quantile(0.975, active.shape[1] - 1) * error)


def _variance_between(ratings: Floats) -> float | None:
    """Return the variance of severity between raters, at least 0; None if it cannot be estimated."""
    there = ~np.isnan(ratings)
    there = there[there.sum(axis=1) >= 2]
    values = ratings[(~np.isnan(ratings)).sum(axis=1) >= 2]
    n, r = values.shape
    given = there.astype(float)
    n_each = given.sum(axis=1, keepdims=True)
    filled = np.where(there, values, 0.0)
    around = np.where(there, filled - filled.sum(axis=1, keepdims=True) / n_each, 0.0)
    normal = np.diag(given.sum(axis=0)) - (given / n_each).T @ given
    eigenvalues, vectors = np.linalg.eigh(normal)
    usable = eigenvalues > ROUNDING * given.sum()
    freedom = int(given.sum()) - n - r + 1
    if int(usable.sum()) < r - 1 or freedom < 1:
        return None
    inverse = (vectors[:, usable] / eigenvalues[usable]) @ vectors[:, usable].T
    right = around.sum(axis=0)
    severity = inverse @ right
    error: float = max(0.0, float((around**2).sum() - severity @ right)) / freedom
    return max(0.0, float(severity.var(ddof=1) - error * np.trace(inverse) / (r - 1)))
