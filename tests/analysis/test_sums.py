"""Sums of costs with unknown parts, the cost of one more model, and dollars for a point."""

from __future__ import annotations

import math

import pytest

from medhelm.analysis.cost import CostRange, CostSum, cost_per_point, sum_costs, update_cost


def test_a_sum_with_an_unknown_part_is_unknown_and_at_least_the_rest() -> None:
    assert sum_costs([]) == CostSum(0.0, 0)
    assert sum_costs([0.1] * 10).usd == 1.0
    found = sum_costs([1.0, None, 2.0, None])
    assert (found.usd, found.known_usd, found.n_unknown) == (None, 3.0, 2)


def test_the_next_update_is_a_sum_over_benchmarks() -> None:
    assert update_cost([]) is None
    assert update_cost([[2.0]]) == CostRange(2.0, 2.0, 2.0)
    assert update_cost([[3.0, 1.0, 8.0], [10.0, 20.0]]) == CostRange(3.0 + 15.0, 1.0 + 10.0, 8.0 + 20.0)


@pytest.mark.parametrize(
    ("cost", "value", "expected"),
    [(30.0, 0.6, 0.5), (None, 0.6, None), (1.0, None, None), (1.0, 0.0, None), (1.0, math.nan, None)],
)
def test_dollars_for_a_point(cost: float | None, value: float | None, expected: float | None) -> None:
    assert cost_per_point(cost, value) == pytest.approx(expected)
