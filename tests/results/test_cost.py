"""Rows and steps of a bill that the approved outputs lack."""

from __future__ import annotations

import csv
import io

from medhelm.analysis.frontier import (
    Bill,
    BillRow,
    CostFrontier,
    FrontierStep,
)
from medhelm.results import cost as cost_report


def step(cheaper: str, costlier: str, points: float, error: float) -> FrontierStep:
    return FrontierStep(
        cheaper=cheaper,
        costlier=costlier,
        usd_per_1000=6.0,
        points=points,
        points_low=points - error,
        points_high=points + error,
        is_separated=points > error,
    )


BILL = Bill(
    by="run",
    rule="bill",
    rows=[BillRow(model="m", benchmark="b"), BillRow(of="left_over")],
    total=BillRow(of="total"),
    frontier=CostFrontier(
        models=(),
        steps=(step("a", "b", 30.0, 10.0), step("b", "c", 1.0, 2.0)),
        unknown_cost=("openai/x",),
        other_benchmarks=("openai/y", "openai/z"),
    ),
)


def table(text: str) -> list[list[str]]:
    """The cells of a CSV table, without its head."""
    return list(csv.reader(io.StringIO(text)))[1:]


def test_purchases_of_no_run_have_a_row_and_steps_along_the_frontier_a_price() -> None:
    rows = table(cost_report.to_table(BILL, "csv"))
    assert [row[:2] for row in rows] == [["b", "m"], ["not in a stored run", ""], ["total", ""]]
    assert table(cost_report.steps_table(BILL, "csv")) == [
        ["a", "b", "6.0000", "30.00 [20.00, 40.00]", "0.2000 [0.1500, 0.3000]"],
        ["b", "c", "6.0000", "1.00 [-1.00, 3.00]", "not separated"],
    ]
    known = cost_report.as_json(BILL)["frontier"]["steps"]
    assert [(step["usd_per_point"], step["separated"]) for step in known] == [(0.2, True), (6.0, False)]
    assert cost_report.left_out(BILL.frontier) == [
        "not compared by cost, because their cost is unknown: openai/x.",
        "not compared by cost, because they were run on other benchmarks: openai/y, openai/z.",
    ]
