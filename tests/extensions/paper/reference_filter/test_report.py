"""JSON and tables of filtered references."""

from __future__ import annotations

import json
from pathlib import Path

from medhelm.domain import Estimate
from medhelm.domain.result import Remark
from medhelm.evaluation.request_totals import RequestTotals
from medhelm.extensions.paper.reference_filter.report import (
    FilteredBenchmark,
    FilteredScore,
    ScoreGap,
    as_json,
    to_table,
)
from tests.extensions.paper.reference_filter.test_marks_file import mark, marks
from tests.support.stores import make_model


def estimate(value: float, low: float, high: float, n: int) -> Estimate:
    return Estimate(value=value, low=low, high=high, n=n, n_failed=1, method="wilson")


BY_INSTANCE = {"a": mark("nn"), "b": mark("yy"), "c": mark("yn"), "d": mark("-y")}

SCORE = FilteredScore(
    model="lab/small",
    metric="jury",
    is_main=True,
    all=estimate(4.0, 3.5, 4.5, 5),
    parts={"kept": estimate(4.5, 4.0, 5.0, 2), "set_aside": estimate(3.0, 1.0, 5.0, 1), "unknown": None},
    kept_minus_set_aside=ScoreGap(1.5, -0.62, 3.56),
    kept_minus_all=ScoreGap(0.5, -0.25, 1.0),
    rank_all=2,
    rank_kept=1,
)


FOUND = FilteredBenchmark(
    title="Radiology",
    marks=marks(by_instance=BY_INSTANCE),
    file=Path("store/filters/toy.json"),
    work=(RequestTotals(make_model("j0")),),
    scores=(SCORE,),
    remarks=(Remark("model_order", "toy", "the order changes"),),
)


def test_a_model_has_its_numbers_with_and_without_and_both_ranks() -> None:
    table = to_table([FOUND], "published")
    assert "Radiology: scores with and without these references (published scoring)" in table
    line = next(line for line in table.splitlines() if line.startswith("jury    lab/small"))
    assert [cell.strip() for cell in line.split("  ") if cell.strip()] == [
        "jury", "lab/small", "4.000 [3.500, 4.500]", "4.500 [4.000, 5.000]", "3.000 [1.000, 5.000]", "5 / 2 / 1",
        "+1.500 [-0.620, 3.560]", "+0.500 [-0.250, 1.000]", "2", "1",
    ]  # fmt: skip
    assert table.endswith("- toy: the order changes\n")


def test_json_holds_everything() -> None:
    (benchmark,) = json.loads(json.dumps(as_json([FOUND], "corrected")))["benchmarks"]
    assert [benchmark[key] for key in ("status", "n", "kept", "set_aside", "unknown")] == ["complete", 4, 1, 1, 2]
    assert benchmark["ids"] == {"kept": ["a"], "set_aside": ["b"], "unknown": ["c", "d"]}
    assert (benchmark["file"], benchmark["remarks"]) == ("store/filters/toy.json", ["the order changes"])
    judge = benchmark["judges"][0]
    assert [judge[key] for key in ("outside", "inside", "failures", "cost_usd")] == [2, 1, {"timeout": 1}, None]
    (first,) = benchmark["models"]
    assert first["all"] == {"value": 4.0, "low": 3.5, "high": 4.5, "n": 5, "n_failed": 1, "method": "wilson"}
    assert (first["kept"]["value"], first["set_aside"]["n"], first["unknown"]) == (4.5, 1, None)
    assert first["kept_minus_set_aside"] == {"value": 1.5, "low": -0.62, "high": 3.56}
    assert first["rank"] == {"all": 2, "kept": 1}
