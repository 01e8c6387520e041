"""What a reader is told where runs of several harnesses stand side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.domain import Estimate, Harness, Origin, Rule, Run
from medhelm.results.runs.remarks import cluster_remarks, imported_remarks
from tests.support.stores import make_run

SCORED = {"exact_match": Estimate(value=0.5, low=0.4, high=0.6, n=10)}


def run(
    benchmark: str = "medec",
    model: str = "m",
    *,
    harness: Harness | None = "helm",
    asked_here: bool = False,
    digest: str = "d",
    rules: tuple[Rule, ...] = ("corrected", "published"),
    not_computed: Mapping[str, str] | None = None,
) -> Run:
    origin = (
        Origin(harness=harness, version="", run="r", sha256="", completions_made_here=asked_here) if harness else None
    )
    estimates: dict[Rule, dict[str, Estimate]] = {"corrected": {}, "published": {}}
    for rule in rules:
        estimates[rule] = SCORED
    return make_run(
        benchmark, model, data_digest=digest, estimates=estimates, not_computed=not_computed or {}, origin=origin
    )


def test_runs_of_ones_own_and_runs_of_one_harness_need_no_words() -> None:
    assert imported_remarks([run(harness=None, digest=str(n)) for n in range(3)], "corrected") == []
    assert imported_remarks([run(model="a"), run(model="b")], "corrected") == []
    assert imported_remarks([run(model="a"), run("clear", harness=None)], "corrected") == []


def test_imported_runs_whose_prompts_or_sampling_are_not_recorded_are_named() -> None:
    (remark,) = imported_remarks([run(model="a"), run(model="b", digest="e")], "corrected")
    assert remark.code == "conditions_not_recorded"
    assert remark.text.startswith("The imported runs of a and b on Medec do not hold the prompts, so it is not known")
    known = replace(run(model="b"), settings={"temperature": 0.0})
    (remark,) = imported_remarks([run(model="a"), known], "corrected")
    assert remark.text.startswith("The imported runs of a on Medec do not hold the temperature, so it is not known")
    assert known.origin
    asked_here = replace(known, origin=replace(known.origin, completions_made_here=True))
    assert imported_remarks([replace(asked_here, settings={}), known], "corrected") == []


def test_missing_numbers_are_counted_for_the_rule_that_is_shown() -> None:
    waiting = run(model="a", rules=("published",))
    assert imported_remarks([waiting, run(model="b")], "published") == []
    (remark,) = imported_remarks([waiting, run(model="b")], "corrected")
    text = "1 of 2 imported runs has no corrected score. `medhelm rescore` computes what their files allow. "
    text += "`--scoring published` shows the scores of their harness."
    assert (remark.code, remark.text) == ("imported_without_score", text)
    known = run(model="a", rules=("published",), not_computed={"exact_match": "no data"})
    (remark,) = imported_remarks([known], "corrected")
    assert "no corrected score. no data. `--scoring published`" in remark.text
    assert "rescore" not in remark.text, "it was tried"


def test_many_names_are_cut_short() -> None:
    names = [f"b{n}" for n in range(8)]
    both = [run(name, harness=harness, model=str(harness)) for name in names for harness in ("helm", None)]
    (remark,) = imported_remarks(both, "corrected")
    assert "helm on B0, B1, B2, B3, B4 and 3 more do not hold the prompts" in remark.text


@pytest.mark.parametrize(
    ("clusters", "said"),
    [
        (["a"] * 200 + [""] * 10, ["Ward: one cluster holds 200 of 210 instances. Its interval counts all as 1.1"]),
        (["a"] * 30, ["Ward: one cluster holds 30 of 30 instances. Its interval counts all as 1.0"]),
        (["a"] * 20 + ["b"] * 20 + ["c"] * 20, []),
        (["a"] * 5 + [""] * 50, []),
        (None, []),
    ],
)
def test_a_cluster_that_dominates_is_named(clusters: list[str] | None, said: list[str]) -> None:
    column = Column(benchmark="ward", title="Ward", category="c", subcategory="s", metric="m")
    cells = [Cell(model=model, benchmark="ward", value=0.5, clusters=clusters) for model in ("a", "b")]
    found = list(cluster_remarks(cells, [column]))
    assert [remark.text[: len(text)] for remark, text in zip(found, said, strict=True)] == said
    assert all((remark.code, remark.subject) == ("dominant_cluster", "ward") for remark in found)
