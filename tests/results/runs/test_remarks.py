"""What a reader is told where runs of several harnesses stand side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.domain import RULES, Estimate, Origin, Rule, Run
from medhelm.results.runs.remarks import cluster_remarks, imported_remarks, jury_remarks
from tests.support.remarks import texts
from tests.support.stores import jury_of, make_run

SCORED = {"exact_match": Estimate(value=0.5, low=0.4, high=0.6, n=10)}


HELM = Origin(harness="helm", version="", run="r", sha256="")


def run(
    benchmark: str = "medec", model: str = "m", rules: Sequence[Rule] = RULES, origin: Origin | None = HELM, **more: Any
) -> Run:
    estimates: dict[Rule, dict[str, Estimate]] = {rule: SCORED if rule in rules else {} for rule in RULES}
    return make_run(benchmark, model, estimates=estimates, origin=origin, **more)


def test_runs_of_ones_own_and_runs_of_one_harness_need_no_words() -> None:
    assert imported_remarks([run(origin=None, data_digest=str(n)) for n in range(3)], "corrected") == []
    assert imported_remarks([run(model="a"), run(model="b"), run("clear", origin=None)], "corrected") == []


def test_imported_runs_whose_prompts_or_sampling_are_not_recorded_are_named() -> None:
    (remark,) = imported_remarks([run(model="a"), run(model="b", data_digest="e")], "corrected")
    assert remark.code == "conditions_not_recorded"
    assert remark.text.startswith("The imported runs of a and b on Medec do not hold the prompts, so it is not known")
    known = run(model="b", settings={"temperature": 0.0})
    (remark,) = imported_remarks([run(model="a"), known], "corrected")
    assert remark.text.startswith("The imported runs of a on Medec do not hold the temperature, so it is not known")
    asked_here = run(model="b", origin=replace(HELM, completions_made_here=True))
    assert imported_remarks([asked_here, known], "corrected") == []


def test_missing_numbers_are_counted_for_the_rule_that_is_shown() -> None:
    waiting = run(model="a", rules=("published",))
    assert imported_remarks([waiting, run(model="b")], "published") == []
    (remark,) = imported_remarks([waiting, run(model="b")], "corrected")
    text = "1 of 2 imported runs has no corrected score. `medhelm rescore` computes what their files allow. "
    text += "`--scoring published` shows the scores of their harness."
    assert (remark.code, remark.text) == ("imported_without_score", text)
    tried = run(model="a", rules=("published",), not_computed={"exact_match": "no data"})
    (remark,) = imported_remarks([tried], "corrected")
    assert "no corrected score. no data. `--scoring published`" in remark.text
    assert "rescore" not in remark.text, "it was tried"


def test_many_names_are_cut_short() -> None:
    names = [f"b{n}" for n in range(8)]
    both = [run(name, model, origin=origin) for name in names for model, origin in (("a", HELM), ("b", None))]
    (remark,) = imported_remarks(both, "corrected")
    assert "a on B0, B1, B2, B3, B4 and 3 more do not hold the prompts" in remark.text


@pytest.mark.parametrize(
    ("clusters", "said"),
    [
        (["a"] * 200 + [""] * 10, ["Ward: one cluster holds 200 of 210 instances. Its interval counts all as 1.1"]),
        (["a"] * 20 + ["b"] * 20 + ["c"] * 20, []),
        (None, []),
    ],
)
def test_a_cluster_that_dominates_is_named(clusters: list[str] | None, said: list[str]) -> None:
    column = Column(benchmark="ward", title="Ward", category="c", subcategory="s", metric="m")
    cells = [Cell(model=model, benchmark="ward", value=0.5, clusters=clusters) for model in ("a", "b")]
    found = list(cluster_remarks(cells, [column]))
    assert [remark.text[: len(text)] for remark, text in zip(found, said, strict=True)] == said
    assert all((remark.code, remark.subject) == ("dominant_cluster", "ward") for remark in found)


def test_missing_judgments_and_judges_under_test_are_named() -> None:
    known, missing = jury_of("a", "b"), jury_of("a", "m", failures={"refusal": 3})
    assert texts(jury_remarks([run("notes", jury_result=missing), run("notes", "n", jury_result=known)])) == (
        "Judgments are missing: Notes 5.0%. The reason: refusal (6).",
        "m is both a judge and a model under test. `medhelm jury` measures self-preference.",
    )
    lost = replace(jury_of("a", "b", failures={"timeout": 15}), n_too_few_judges=4)
    assert texts(jury_remarks([run("notes", jury_result=lost)])) == (
        "Judgments are missing: Notes 50.0%; 4 completions have no score as a result. The reason: timeout (30).",
    )
    assert jury_remarks([run("notes", jury_result=known), run("notes", "o")]) == []
