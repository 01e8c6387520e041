"""Bills and plans as tables and JSON: what is unknown is said, and what a name holds stays text."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from typing import Any

import pytest

from medhelm.analysis.cost import CostRange, CostSum
from medhelm.analysis.frontier import (
    Bill,
    BillRow,
    CostEffectiveness,
    CostFrontier,
    FrontierModel,
    FrontierStep,
    UpdateCost,
)
from medhelm.analysis.planned_cost import CompletionUse, CostPlan, ExpectedAndMax, PlanRow
from medhelm.domain import Usage
from medhelm.domain.result import Remark
from medhelm.results import cost as cost_report
from medhelm.results import plan as plan_report

NASTY = "evil/*name*_with|pipe&percent%\x1b[31m"
UNKNOWN = CostSum(n_unknown=1)

KNOWN_ROW = BillRow(
    model="openai/a",
    runs=2,
    instances=7,
    requests=20,
    purchased=14,
    usage=Usage(input=1000, cached_input=300, output=50, reasoning=20),
    models=CostSum(1.25),
    judges=CostSum(0.5),
    spent=CostSum(1.0),
    ceiling=CostSum(7.0),
)
UNKNOWN_ROW = BillRow(model=NASTY, runs=1, instances=1, models=UNKNOWN, judges=CostSum(0.5), spent=UNKNOWN)
TOTAL = BillRow(of="total", runs=3, models=CostSum(1.25, 1), judges=CostSum(1.0), spent=CostSum(1.0, 1))
WORTH = CostEffectiveness(
    model="openai/a",
    n_benchmarks=2,
    instances=7,
    cost_usd=1.75,
    win_rate=0.5,
    macro_average=None,
    per_win_point=0.035,
    per_macro_point=None,
    per_instance=0.25,
    per_benchmark=0.875,
    is_efficient=True,
    use_usd=1.25,
    judges_usd=0.5,
    use=CompletionUse(
        completions=7, usd_per_1000=178.5714, input_tokens=100.0, output_tokens=20.4, seconds=1.26, mean_seconds=3.0
    ),
    on_frontier=True,
    frontier_probability=0.976,
)
FRONTIER = CostFrontier(
    models=(
        FrontierModel(model="openai/a", usd_per_1000=1.0, value=0.5, is_efficient=True, probability=1.0),
        FrontierModel(model="openai/b", usd_per_1000=7.0, value=0.8, is_efficient=True, probability=0.9),
    ),
    steps=(
        FrontierStep(
            cheaper="openai/a", costlier="openai/b", usd_per_1000=6.0, points=30.0, points_low=20.0, points_high=40.0,
            is_separated=True,
        ),
        FrontierStep(
            cheaper="openai/b", costlier="openai/c", usd_per_1000=1.0, points=1.0, points_low=-1.0, points_high=3.0,
            is_separated=False,
        ),
    ),
    unknown_cost=("openai/x",),
    other_benchmarks=("openai/y", "openai/z"),
)  # fmt: skip
UPDATE = UpdateCost(cost=CostRange(3.0, 1.5, 4.25), benchmarks=("x", "y"), n_models=1, unknown=("z",))
BILL = Bill(
    by="model",
    rule="bill",
    rows=[KNOWN_ROW, UNKNOWN_ROW],
    total=TOTAL,
    cost_effectiveness=[WORTH],
    update=UPDATE,
    prices=[("openai/a", "a list"), ("openai/b", "a list"), ("openai/c", "")],
    remarks=[Remark("unknown_price", "", "beware")],
)


def table(text: str) -> list[list[str]]:
    """The cells of a CSV table, without its head."""
    return list(csv.reader(io.StringIO(text)))[1:]


def test_money_of_which_a_part_is_unknown() -> None:
    shown = cost_report.to_table(BILL)
    known, unknown, total = shown.splitlines()[-3:]
    assert known.split()[-4:] == ["1.2500", "0.5000", "1.7500", "1.0000"]
    assert unknown.split()[-6:] == ["–", "0.5000", "0.5000", "or", "more", "–"]
    assert total.split()[-10:] == ["1.2500", "or", "more", "1.0000", "2.2500", "or", "more", "1.0000", "or", "more"]
    rows = table(cost_report.to_table(BILL, "csv"))
    assert [row[-4:] for row in rows] == [
        ["1.25", "0.5", "1.75", "1.0"],
        ["", "0.5", "", ""],
        ["", "1.0", "", ""],
    ]


@pytest.mark.parametrize("format_", ["table", "md", "latex", "csv"])
def test_names_come_out_as_text(format_: str) -> None:
    shown = cost_report.to_table(BILL, format_)
    if format_ != "csv":
        assert "\x1b" not in shown
    assert {"md": r"\*name\*", "latex": r"percent\%"}.get(format_, "*name*") in shown


def test_the_published_rule_has_columns_of_its_own() -> None:
    found = replace(BILL, rule="ceiling")
    rows = table(cost_report.to_table(found, "csv"))
    assert [row[-2:] for row in rows] == [["7.0", "4.00"], ["0.0", ""], ["0.0", ""]]
    assert "as long as its limit" in cost_report.to_table(found)


@pytest.mark.parametrize(
    ("by", "row", "cells"),
    [
        ("judge", BillRow(judge="j"), ["j"]),
        ("judge", BillRow(of="tested"), ["models under test"]),
        ("run", BillRow(model="m", benchmark="b"), ["b", "m"]),
        ("run", BillRow(of="left_over"), ["not in a stored run", ""]),
        ("benchmark", BillRow(benchmark="b"), ["b"]),
    ],
)
def test_names_of_rows(by: Any, row: BillRow, cells: list[str]) -> None:
    found = table(cost_report.to_table(replace(BILL, by=by, rows=[row]), "csv"))
    assert found[0][: len(cells)] == cells
    assert found[1][0] == "total"


def test_steps_along_the_frontier() -> None:
    found = table(cost_report.steps_table(replace(BILL, frontier=FRONTIER), "csv"))
    assert found == [
        ["openai/a", "openai/b", "6.0000", "30.00 [20.00, 40.00]", "0.2000 [0.1500, 0.3000]"],
        ["openai/b", "openai/c", "1.0000", "1.00 [-1.00, 3.00]", "not separated"],
    ]
    assert cost_report.steps_table(BILL) == ""
    known = cost_report.as_json(replace(BILL, frontier=FRONTIER))["frontier"]["steps"]
    assert [(step["usd_per_point"], step["usd_per_point_low"], step["separated"]) for step in known] == [
        (0.2, 0.15, True),
        (1.0, None, False),
    ]


def test_models_that_are_not_compared_by_cost_are_named() -> None:
    assert cost_report.left_out(FRONTIER) == [
        "not compared by cost, because their cost is unknown: openai/x.",
        "not compared by cost, because they were run on other benchmarks: openai/y, openai/z.",
    ]


def test_words_below_the_table() -> None:
    assert cost_report.remarks(BILL) == [
        "one more model on the leaderboard, judges included: 3.00 USD expected (1.50 to 4.25), based on runs of 1 "
        "model on 2 benchmarks; excluding benchmarks without a run of known cost: z.",
        "use: the model's own completions, without judges. seconds: the median of individual requests.",
        "prices of openai/a, openai/b: a list",
        "beware",
    ]
    assert cost_report.remarks(replace(BILL, update=None, prices=[], remarks=[], cost_effectiveness=[])) == []


# --- plans ------------------------------------------------------------------------------------------------------------

MODEL_ROW = PlanRow(
    benchmark="x",
    model="openai/a",
    role="model",
    requests=10,
    cached=4,
    input_tokens=600,
    output_tokens=ExpectedAndMax(expected=60, max=300),
    cost_usd=ExpectedAndMax(expected=0.5, max=2.0),
    input_basis="its own run of this benchmark",
    input_error=0.024,
    output_basis="its own run of this benchmark",
)
JUDGE_ROW = replace(MODEL_ROW, model="openai/j", role="judge", input_basis="4 characters per token", input_error=1 / 3)
ABSENT = PlanRow(
    benchmark="y",
    model=NASTY,
    role="model",
    requests=0,
    cached=0,
    input_tokens=None,
    output_tokens=None,
    cost_usd=None,
    missing=("its data", "its key"),
)
WHOLE = CostPlan(rows=(MODEL_ROW, JUDGE_ROW))
PARTLY = CostPlan(rows=(MODEL_ROW, ABSENT, replace(ABSENT, model="openai/b")), warnings=("beware",), max_cost_usd=1.0)


def test_a_whole_plan() -> None:
    rows = table(plan_report.plan_table(WHOLE, "csv"))
    assert rows == [
        ["x", "openai/a", "model", "10", "4", "600", "60", "300", "0.5", "2.0", ""],
        ["x", "openai/j", "judge", "10", "4", "600", "60", "300", "0.5", "2.0", ""],
        ["total", "", "", "20", "8", "1200", "120", "600", "1.0", "4.0", ""],
    ]
    found = plan_report.plan_as_json(WHOLE)
    assert found["cost_usd"] == {"expected": 1.0, "max": 4.0, "at_least": {"expected": 1.0, "max": 4.0}}
    assert "max_cost" not in found
    assert plan_report.missing(WHOLE) == []
    assert plan_report.remarks(WHOLE) == [
        "input tokens are estimated: its own run of this benchmark (within 2%), 1 row; 4 characters per token (within "
        "33%), 1 row.",
        "expected output tokens are based on: its own run of this benchmark, 2 rows. The maximum assumes that every "
        "completion is as long as its limit.",
        "judges: an unreadable judgment is requested once more; the maximum counts that for all judgments.",
    ]


def test_a_plan_with_gaps() -> None:
    rows = table(plan_report.plan_table(PARTLY, "csv"))
    assert rows[1][2:] == ["model", "0", "0", "", "", "", "", "", "yes"]
    assert rows[-1][3:] == ["10", "4", "600 or more", "60 or more", "300 or more", "", "", ""]
    shown = plan_report.plan_table(PARTLY)
    assert "\x1b" not in shown
    assert "0.5000 or more" in shown
    assert plan_report.missing(PARTLY) == ["its data", "its key"]
    found = json.loads(json.dumps(plan_report.plan_as_json(PARTLY), allow_nan=False))
    assert found["cost_usd"] == {"expected": None, "max": None, "at_least": {"expected": 0.5, "max": 2.0}}
    assert found["max_cost"] == {"usd": 1.0, "fits_expected": None, "fits_max": False}
    assert found["rows"][1]["missing"] == ["its data", "its key"]


def test_a_plan_without_requests_has_no_remarks_on_estimates() -> None:
    done = replace(MODEL_ROW, cached=10, input_basis="", output_basis="", input_error=0.0)
    assert plan_report.remarks(CostPlan(rows=(done,))) == []
