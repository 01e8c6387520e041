"""Adjusts p-values for the number of tests."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from medhelm.analysis.statistics.cluster_bootstrap import Floats

Adjustment = Literal["holm", "bh"]
"""Method to adjust p-values: `holm` controls the family-wise error rate, `bh` the false discovery rate."""


def adjust_p_values(p_values: ArrayLike, way: Adjustment) -> Floats:
    """Adjust p-values for the number of tests, in the order given."""
    return holm(p_values) if way == "holm" else benjamini_hochberg(p_values)


def holm(p_values: ArrayLike) -> Floats:
    """Adjust p-values by Holm's method, in the order given (Holm 1979, Scand. J. Stat. 6).

    However the tests depend on each other, the probability of any false finding stays below the level.

    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    given = np.asarray(p_values, dtype=float)
    order = np.argsort(given, kind="stable")
    steps = np.minimum(given[order] * np.arange(len(given), 0, -1), 1.0)
    result = np.empty_like(given)
    result[order] = np.maximum.accumulate(steps)
    return result


def benjamini_hochberg(p_values: ArrayLike) -> Floats:
    """Adjust p-values, in the order given, by the method of Benjamini and Hochberg (1995, J. R. Stat. Soc. B).

    The expected share of false findings among all findings stays below the level if the tests are independent or
    positively dependent (Benjamini and Yekutieli 2001, Ann. Stat. 29).

    >>> benjamini_hochberg([0.01, 0.5, 0.03, 0.04]).round(4).tolist()
    [0.04, 0.5, 0.0533, 0.0533]
    """
    given = np.asarray(p_values, dtype=float)
    order = np.argsort(-given, kind="stable")
    steps = np.minimum(given[order] * len(given) / np.arange(len(given), 0, -1), 1.0)
    result = np.empty_like(given)
    result[order] = np.minimum.accumulate(steps)
    return result
