"""Sums of costs of which some may be unknown, and costs of one more model, from those of others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import fsum
from statistics import median


@dataclass(frozen=True, slots=True)
class CostSum:
    """A sum of money of which parts may be unknown."""

    known_usd: float = 0.0
    """Sum of the known parts: a lower bound."""
    n_unknown: int = 0
    """Parts whose cost is not known."""

    @property
    def usd(self) -> float | None:
        """The sum; None if any part is unknown, which never counts as free."""
        return None if self.n_unknown else self.known_usd


def sum_costs(costs: Iterable[float | None]) -> CostSum:
    """Sum costs, None for those that are not known.

    >>> sum_costs([1.5, None, 0.25])
    CostSum(known_usd=1.75, n_unknown=1)
    """
    parts = list(costs)
    known = [cost for cost in parts if cost is not None]
    return CostSum(fsum(known), len(parts) - len(known))


@dataclass(frozen=True, slots=True)
class CostRange:
    """Cost as observed on several models."""

    expected: float
    """The median."""
    low: float
    """The lowest."""
    high: float
    """The highest."""


def update_cost(by_benchmark: Iterable[Sequence[float]]) -> CostRange | None:
    """Estimate the cost of one more model: sums over benchmarks of the median, lowest and highest cost.

    Parameters: by_benchmark, US dollars of each model on it, at least one. The lowest sum takes the cheapest model of
    each benchmark, so no single model need have been as cheap. None without any benchmark.

    >>> update_cost([[1.0, 2.0, 9.0], [4.0]])
    CostRange(expected=6.0, low=5.0, high=13.0)
    """
    costs = [list(own) for own in by_benchmark]
    if not costs:
        return None
    return CostRange(fsum(map(median, costs)), fsum(map(min, costs)), fsum(map(max, costs)))


def cost_per_point(cost_usd: float | None, value: float | None) -> float | None:
    """Return US dollars per 0.01 of a number on the 0..1 scale; None if either is unknown or the number is not above 0.

    >>> cost_per_point(30.0, 0.6)
    0.5
    """
    if cost_usd is None or value is None or not value > 0:
        return None
    return cost_usd / (100 * value)
