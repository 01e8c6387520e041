"""Intervals of sums whose shares are skewed: Student's t after Hall's transformation.

Scores near an end of their scale are skewed: most completions are perfect and a few are bad. A symmetrical interval of
their mean is then too short on the side of the few. Hall (1992, J. R. Stat. Soc. B 54) transforms the t statistic with
its skewness by an increasing cubic, whose result is nearly Student's t, and inverts that at the quantiles.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.statistics.cluster_bootstrap import Floats
from medhelm.analysis.statistics.distributions import t_quantile


class Spread(NamedTuple):
    """Uncertainty of a sum."""

    error: float
    """Standard error."""
    below: float
    """Distance of the lower 95% limit, not negative."""
    above: float
    """Distance of the upper 95% limit, not negative."""


def spread_of_sum(
    shares: Floats, is_rated: NDArray[np.bool_] | None = None, df: float | None = None, weights: Floats | None = None
) -> Spread:
    """Compute the standard error of a sum of independent shares, and both half-widths of its 95% interval.

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
    return Spread(error, error * _unskewed(quantile, skewness), -error * _unskewed(-quantile, skewness))


def _unskewed(quantile: float, skewness: float) -> float:
    """Invert Hall's transformation, t + s t^2 / 3 + s^2 t^3 / 27 + s / 6 with skewness s, at a quantile."""
    if abs(skewness) < 1e-6:
        return quantile
    return 3 / skewness * (float(np.cbrt(1 + skewness * (quantile - skewness / 6))) - 1)
