"""Adjusts p-values for the number of tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

Adjustment = Literal["holm", "bh"]
"""Method to adjust p-values: `holm` controls the family-wise error rate, `bh` the false discovery rate."""

ADJUSTMENTS: tuple[Adjustment, ...] = get_args(Adjustment)
"""All adjustments."""


def adjust_p_values(p_values: Sequence[float], way: Adjustment) -> list[float]:
    """Adjust p-values for the number of tests, in the order given."""
    return holm(p_values) if way == "holm" else benjamini_hochberg(p_values)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values by Holm's method, in the order given (Holm 1979, Scand. J. Stat. 6).

    However the tests depend on each other, the probability of any false finding stays below the level.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    result = [0.0] * len(p_values)
    largest = 0.0
    for place, i in enumerate(order):
        largest = max(largest, min(1.0, p_values[i] * (len(order) - place)))
        result[i] = largest
    return result


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values, in the order given, by the method of Benjamini and Hochberg (1995, J. R. Stat. Soc. B).

    The expected share of false findings among all findings stays below the level if the tests are independent or
    positively dependent (Benjamini and Yekutieli 2001, Ann. Stat. 29).

    >>> benjamini_hochberg([0.01, 0.5, 0.03, 0.04])
    [0.04, 0.5, 0.05333333333333334, 0.05333333333333334]
    """
    order = sorted(range(len(p_values)), key=lambda i: -p_values[i])
    result = [0.0] * len(p_values)
    smallest = 1.0
    for place, i in enumerate(order):
        smallest = min(smallest, p_values[i] * len(order) / (len(order) - place))
        result[i] = smallest
    return result
