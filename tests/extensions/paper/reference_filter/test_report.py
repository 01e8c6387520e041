"""JSON and tables of filtered references."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from medhelm.domain import Estimate, Failure, RunStatus, Usage
from medhelm.domain.result import Remark
from medhelm.extensions.paper.reference_filter.report import (
    FilteredBenchmark,
    FilteredScore,
    JudgeWork,
    ReferenceMark,
    ReferenceMarks,
    ReferenceOpinion,
    ScoreGap,
    as_json,
    to_table,
)

FAILURE = Failure("judge", "no_verdict", "prose")


def mark(*answers: bool | None) -> ReferenceMark:
    return ReferenceMark(
        tuple(
            ReferenceOpinion(judge=f"lab/j{i}", outside_prompt=answer, failure=FAILURE if answer is None else None)
            for i, answer in enumerate(answers)
        )
    )


def estimate(value: float, low: float, high: float, n: int) -> Estimate:
    return Estimate(value=value, low=low, high=high, n=n, n_failed=1, method="wilson")


MARKS = ReferenceMarks(
    benchmark="rrs",
    benchmark_digest="b" * 64,
    data_digest="d" * 64,
    tier="real",
    selection={"sample": "default", "limit": None, "seed": 0},
    judges=("lab/j0", "lab/j1"),
    prompt_version=1,
    status=RunStatus.COMPLETE,
    started="2026-01-01T00:00:00+00:00",
    by_instance={
        "a": mark(False, False),
        "b": mark(True, True),
        "c": mark(True, False),
        "d": mark(None, True),
        "e": mark(False, False),
    },
)

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

LOWER = FilteredScore(
    model="lab/none",
    metric="jury",
    is_main=True,
    all=None,
    parts={"kept": estimate(2.0, 1.0, 3.0, 2), "set_aside": None, "unknown": None},
    kept_minus_set_aside=None,
    kept_minus_all=ScoreGap(-0.5, -1.0, 0.0),
)

WORK = JudgeWork(judge="lab/j1", requests_sent=7, requests_cached=1, usage=Usage(input=100, output=20), cost_usd=0.25)

FOUND = FilteredBenchmark(
    title="Radiology",
    marks=MARKS,
    file=Path("store/filters/rrs.json"),
    work=(replace(WORK, judge="lab/j0", cost_usd=None), WORK),
    scores=(SCORE, LOWER),
    remarks=(Remark("model_order", "rrs", "the order changes"),),
)


def cells(table: str, start: str) -> list[str]:
    """The cells of the first line that starts so; they are two blanks or more apart."""
    line = next(line for line in table.splitlines() if line.startswith(start))
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def test_the_marks_of_a_benchmark_are_one_line() -> None:
    table = to_table([FOUND], "corrected")
    assert cells(table, "benchmark  data")[-1] == "share"
    assert cells(table, "rrs        real data") == ["rrs", "real data", "5", "2", "1", "2", "33.3%"]


def test_every_judge_has_a_line_with_its_verdicts_and_cost() -> None:
    table = to_table([FOUND], "corrected")
    assert cells(table, "rrs        lab/j0") == ["rrs", "lab/j0", "2", "2", "1 (no_verdict 1)", "7", "1", "?"]
    assert cells(table, "rrs        lab/j1") == ["rrs", "lab/j1", "2", "3", "0", "7", "1", "0.2500"]
    nobody_asked = to_table([replace(FOUND, work=())], "corrected")
    assert cells(nobody_asked, "rrs        lab/j1") == ["rrs", "lab/j1", "2", "3", "0", "–", "–", "–"]


def test_a_model_has_its_numbers_with_and_without_and_both_ranks() -> None:
    table = to_table([FOUND], "published")
    assert "Radiology: scores with and without these references (published scoring)" in table
    assert cells(table, "jury    lab/small") == [
        "jury", "lab/small", "4.000 [3.500, 4.500]", "4.500 [4.000, 5.000]", "3.000 [1.000, 5.000]", "5 / 2 / 1",
        "+1.500 [-0.620, 3.560]", "+0.500 [-0.250, 1.000]", "2", "1",
    ]  # fmt: skip
    assert cells(table, "jury    lab/none") == [
        "jury", "lab/none", "–", "2.000 [1.000, 3.000]", "–", "0 / 2 / 0", "–", "-0.500 [-1.000, 0.000]", "–", "–",
    ]  # fmt: skip
    assert table.endswith("- rrs: the order changes\n")
    assert "Newcombe" in table


def test_without_runs_there_are_marks_only() -> None:
    table = to_table([replace(FOUND, scores=(), remarks=())], "corrected")
    assert "scores with and without" not in table
    assert "Newcombe" not in table
    assert table.endswith("0.2500\n")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tier": "sample"}, "SAMPLE TIER: invented rows"),
        ({"selection": {"sample": "all", "limit": 40, "seed": 3}}, "real data, sample all, seed 3, first 40"),
    ],
)
def test_which_instances_is_said(changes: dict[str, object], said: str) -> None:
    marks = replace(MARKS, **changes)  # type: ignore[arg-type]
    table = to_table([replace(FOUND, marks=marks)], "corrected")
    assert cells(table, f"rrs        {said}")[1] == said
    assert table.count("SAMPLE TIER") == (2 if marks.tier == "sample" else 0)


def test_nothing_settled_has_no_share() -> None:
    marks = replace(MARKS, by_instance={"a": mark(None, None)})
    table = to_table([replace(FOUND, marks=marks)], "corrected")
    assert cells(table, "rrs        real") == ["rrs", "real data", "1", "0", "0", "1", "–"]


def test_json_holds_everything() -> None:
    found = json.loads(json.dumps(as_json([FOUND], "corrected")))
    assert found["scoring"] == "corrected"
    (benchmark,) = found["benchmarks"]
    assert (benchmark["benchmark"], benchmark["title"], benchmark["tier"]) == ("rrs", "Radiology", "real")
    assert (benchmark["sample"], benchmark["limit"], benchmark["seed"]) == ("default", None, 0)
    assert (benchmark["status"], benchmark["n"], benchmark["prompt_version"]) == ("complete", 5, 1)
    assert [benchmark[key] for key in ("kept", "set_aside", "unknown")] == [2, 1, 2]
    assert benchmark["ids"] == {"kept": ["a", "e"], "set_aside": ["b"], "unknown": ["c", "d"]}
    assert (benchmark["file"], benchmark["remarks"]) == ("store/filters/rrs.json", ["the order changes"])
    assert benchmark["judges"][0] == {
        "judge": "lab/j0", "outside": 2, "inside": 2, "failed": 1, "failures": {"no_verdict": 1}, "requests_sent": 7,
        "requests_cached": 1,
        "tokens": {"input": 100, "cached_input": 0, "output": 20, "reasoning": 0, "cache_write": 0},
        "cost_usd": None,
    }  # fmt: skip
    first, second = benchmark["models"]
    assert first["all"] == {"value": 4.0, "low": 3.5, "high": 4.5, "n": 5, "n_failed": 1, "method": "wilson"}
    assert (first["kept"]["value"], first["set_aside"]["n"], first["unknown"]) == (4.5, 1, None)
    assert first["kept_minus_set_aside"] == {"value": 1.5, "low": -0.62, "high": 3.56}
    assert (first["rank"], second["rank"]) == ({"all": 2, "kept": 1}, {"all": None, "kept": None})
    assert (second["all"], second["kept_minus_set_aside"]) == (None, None)


def test_json_of_stored_marks_has_no_costs() -> None:
    (benchmark,) = as_json([replace(FOUND, work=(), file=None)], "corrected")["benchmarks"]
    assert set(benchmark["judges"][0]) == {"judge", "outside", "inside", "failed", "failures"}
    assert benchmark["file"] is None
