"""A rubric of the user's own: judged by it in run and rejudge, never in one column with another, refused if wrong."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.benchmarks.judged import JUDGES, court, write_benchmark
from tests.support.cli import Medhelm, assert_refused, repeated, succeeded
from tests.support.servers.openai import Server

OWN = """\
name: bedside
description: How a nurse would take it.
rubric:
  task: You are a strict nurse. You see a question and the answer of a model. Grade the answer.
  scale: [1, 5]
  reference: false
  criteria:
    accuracy: Is it right?
    completeness: Is all of it there?
    clarity: Is it kind?
  floor: {criterion: accuracy, at_least: 3}
"""


@pytest.fixture
def asked(server: Server) -> list[str]:
    """The prompts of judges since the test last cleared them."""
    found: list[str] = []

    def judging(judge: str, n: int, body: Mapping[str, Any]) -> None:
        found.append(body["messages"][0]["content"])

    server.answer_with(court(judging))
    return found


def test_judges_grade_by_the_file_and_no_column_mixes_rubrics(
    medhelm: Medhelm, tmp_path: Path, server: Server, asked: list[str]
) -> None:
    place, file = write_benchmark(tmp_path, n=2), tmp_path / "nurse.yaml"
    file.write_text(OWN)
    everyone = repeated("--judge", map(server.model, JUDGES))

    def rubrics(*command: object) -> list[tuple[str, str]]:
        asked.clear()
        done = succeeded(medhelm(*command, "--json"))
        return [(run["jury"]["rubric"], run["jury"]["rubric_digest"]) for run in done.json["runs"]]

    ((usual, first),) = rubrics("run", place, "--model", server.model(), *everyone)
    ((own, second),) = rubrics("run", place, "--model", server.model("other"), *everyone, "--rubric", file)
    assert (usual, own, first == second) == ("", "bedside", False)
    assert len(asked) == 6
    assert all("strict nurse" in text and "Is it kind?" in text and "REFERENCE" not in text for text in asked)
    board = medhelm("leaderboard", "--json").json
    assert {row["model"] for row in board["models"]} == {server.model("other")}
    (left,) = board["left_out"]
    assert (left["model"], left["reason"]) == (
        server.model(), "graded by the benchmark's rubric, the others by the bedside rubric",
    )  # fmt: skip
    assert f"--rubric {file} --only" in left["command"]
    planned = medhelm("plan", place, "--model", server.model(), *everyone, "--rubric", file, "--json").json
    assert [(row["role"], row["cached"]) for row in planned["rows"]] == [("model", 2), *[("judge", 2)] * 3], (
        "as for the other model, which answered alike"
    )
    assert_refused(
        medhelm("rejudge", place, "--model", server.model(), "--judge", server.model("judge-1"), "--rubric", file),
        "judge-2", f"graded by another rubric, and a jury uses one. Name every judge that should grade by {file}",
    )  # fmt: skip
    change = ("rejudge", place, "--model", server.model(), *everyone, "--rubric", file, "--only")
    assert (rubrics(*change), asked) == ([("bedside", second)], [])
    assert rubrics("rescore", place) == [("bedside", second)] * 2
    assert asked == []
    assert medhelm("leaderboard", "--json").json["left_out"] == []
    assert medhelm("verify").code == 0
    file.write_text(OWN.replace("kind", "very kind"))
    assert_refused(
        medhelm("rejudge", place, "--judge", server.model("judge-1")),
        f"graded by the rubric in {file}, as it was then, and a jury uses one",
    )
    ((same_name, third),) = rubrics("run", place, "--model", server.model("third"), *everyone, "--rubric", file)
    assert (same_name, third == second) == ("bedside", False)
    assert {left["reason"] for left in medhelm("leaderboard", "--json").json["left_out"]} == {
        "graded by another version of the bedside rubric than the others"
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "name: bedside\nrubric:\n  task: Grade it.\n  scale: [5, 1]\n  floor: {criterion: tone, at_least: 9}\n",
            (
                "line 4  rubric.scale: must be the lowest and the highest grade",
                "line 2  rubric.criteria: missing. Add this key, or `criteria_column`",
            ),
        ),
        (
            "name: standard\nrubric:\n  task: Grade it.\n  question: 'Say {'\n  criteria_column: x\n"
            "  extended: {task: y}\n  criteria: {tone: Kind?}\n  floor: {criterion: tonne, at_least: 3}\n",
            (
                "line 1  name: `standard` is the name of a rubric of benchmarks",
                "line 4  rubric.question: a single brace",
                "line 5  rubric.criteria_column: is for the definition of a benchmark",
                "line 6  rubric.extended: is for the definition of a benchmark",
                "line 8  rubric.floor.criterion: `tonne` is not one of `criteria`. Did you mean `tone`",
            ),
        ),
        ("name: bedside\ncriteria: {tone: Kind?}\n", ("criteria: unknown key", "rubric: missing")),
        ("name: bedside\nrubric: {task: Grade it., criteria: {}}\n", ("rubric.criteria", "at least 1")),
    ],
)
def test_a_rubric_that_cannot_be_used_is_refused_with_all_problems(
    text: str, words: tuple[str, ...], medhelm: Medhelm, tmp_path: Path, server: Server
) -> None:
    place, file = write_benchmark(tmp_path, n=2), tmp_path / "nurse.yaml"
    file.write_text(text)
    for command in (("run", place, "--model", server.model()), ("plan", place, "--model", server.model())):
        refused = medhelm(*command, "--judge", server.model("judge-1"), "--rubric", file)
        assert refused.code == 2
        shown = " ".join(refused.err.split())
        assert all(" ".join(one.split()) in shown for one in words), refused.err
    assert server.count == 0


def test_a_rubric_needs_judges_and_a_benchmark_that_has_them(medhelm: Medhelm, tmp_path: Path, server: Server) -> None:
    place, file = write_benchmark(tmp_path, n=2), tmp_path / "nurse.yaml"
    file.write_text(OWN)
    judge = ("--judge", server.model("judge-1"))
    model = ("--model", server.model())
    for command, words in (
        (("run", place, *model, "--rubric", file), "needs judges. Name them with --judge"),
        (("run", "pubmed_qa", "--tier", "sample", *model, *judge, "--rubric", file), "pubmed_qa: no judge grades"),
        (("run", place, *model, *judge, "--rubric", "strict"), "must be standard, extended or a YAML file"),
        (("run", place, *model, *judge, "--rubric", tmp_path / "none.yaml"), "none.yaml"),
    ):
        assert_refused(medhelm(*command), words)
    assert server.count == 0
