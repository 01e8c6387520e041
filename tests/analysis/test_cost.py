"""Costs: sums with unknown parts, the cost of one more model, dollars for a point, and the published rule."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest

from medhelm.analysis.cost import (
    CostCeiling,
    CostRange,
    CostSum,
    cost_ceiling,
    cost_per_point,
    sum_costs,
    to_cents,
    update_cost,
)
from medhelm.domain import Price

# --- tokens x prices, and the published rule against published cells --------------------------------------------------


GPT_4O = Price(input=2.5, output=10.0)
GPT_4O_MINI = Price(input=0.15, output=0.6)
CLAUDE = Price(input=3.0, output=15.0)
LLAMA = Price(input=0.71, output=0.71)
GEMINI_15 = Price(input=1.25, output=5.0)
JURY = [GPT_4O, CLAUDE, LLAMA]


def cells(row: CostCeiling) -> str:
    return " ".join(
        str(cell) for cell in (row.input_usd, row.output_usd, row.judge_input_usd, row.judge_output_usd, row.total_usd)
    )


@pytest.mark.parametrize(
    ("price", "jury", "instances", "read", "max_tokens", "expected"),
    [
        (CLAUDE, JURY, 120, 200887, 768, "0.60 1.38 1.82 12.64 16.44"),  # ACI-Bench
        (CLAUDE, [], 3000, 99557206, 1, "298.67 0.05 0.00 0.00 298.72"),  # EHRSHOT: 0.045 is rounded up
        (CLAUDE, [], 1000, 163022, 1, "0.49 0.02 0.00 0.00 0.50"),  # HeadQA: the total is rounded by itself
        (GEMINI_15, [], 1000, 153899, 1, "0.19 0.01 0.00 0.00 0.20"),  # HeadQA: 0.005 is rounded up
        (GPT_4O_MINI, JURY, 1000, 207052, 128, "0.03 0.08 2.08 105.31 107.50"),  # MIMIC-RRS
    ],
)
def test_the_published_rule_gives_the_published_cells(
    price: Price, jury: list[Price], instances: int, read: int, max_tokens: int, expected: str
) -> None:
    row = cost_ceiling(input_tokens=read, instances=instances, max_tokens=max_tokens, price=price, jury=jury)
    assert cells(row) == expected
    assert row.judge_input_tokens == (read + instances * max_tokens if jury else 0)
    assert row.judge_output_tokens == (4096 * instances if jury else 0)


def test_a_published_count_goes_before_the_limit() -> None:
    """N2C2-CT of Claude: 172 output tokens for 258 instances with a limit of 1."""
    row = cost_ceiling(input_tokens=991934, instances=258, max_tokens=1, price=CLAUDE, output_tokens=172)
    assert (row.output_tokens, cells(row)) == (172, "2.98 0.00 0.00 0.00 2.98")


@pytest.mark.parametrize(
    ("dollars", "cents"), [("0.005", "0.01"), ("0.015", "0.02"), ("0.0149999", "0.01"), ("2", "2.00")]
)
def test_halves_of_a_cent_go_up(dollars: str, cents: str) -> None:
    assert str(to_cents(Decimal(dollars))) == cents


# --- sums -------------------------------------------------------------------------------------------------------------


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
