"""`medhelm run --judge`, `rejudge`, `rescore` and `show` with judges: what they print, return, and refuse."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.benchmarks.choice import make_benchmark
from tests.support.benchmarks.judged import DEFINITION, JUDGES, court, write_benchmark
from tests.support.cli import Medhelm, Outcome, assert_refused, repeated, succeeded
from tests.support.servers.openai import Server

N = 6


@pytest.fixture
def place(tmp_path: Path, server: Server) -> Path:
    """A benchmark for judges; the second judge cannot judge the first answer."""
    server.answer_with(court(lambda judge, n, _: "hm" if judge == "judge-2" and n == 0 else None))
    return write_benchmark(tmp_path, n=N)


def run(medhelm: Medhelm, place: Path, server: Server, *more: str) -> Outcome:
    return medhelm("run", place, "--model", server.model(), *repeated("--judge", map(server.model, JUDGES)), *more)


def test_the_jury_is_told_of_beside_the_run(medhelm: Medhelm, place: Path, server: Server) -> None:
    assert "- Judgments are missing: Letters 5.6% (no_verdict 3)." in run(medhelm, place, server).out
    assert server.count == N * 4 + 1
    again = run(medhelm, place, server, "--json")
    (found,) = again.json["runs"]
    assert (found["main_metric"], found["metrics"]["jury"]["n"], again.json["requests_sent"]) == ("jury", N, 0)
    jury = found["jury"]
    assert (jury["coverage"], jury["at_least"], jury["scale"]) == (pytest.approx(51 / 54), 2, [1.0, 5.0])
    second = jury["judges"][server.model("judge-2")]
    assert (second["expected"], second["failures"], second["requests_cached"]) == (18, {"no_verdict": 3}, N + 1)
    strict = medhelm("rescore", place, "--min-judges", "3", "--json").json["runs"][0]
    assert (strict["jury"]["n_below_floor"], strict["metrics"]["jury"]["n_failed"]) == (1, 1)
    sent = server.count
    for words, said in (
        (("rejudge", place), "no judges were given"),
        (("rejudge", place, "--judge", server.model("x"), "--rubric", "extended"), "only one rubric is defined"),
        (("rescore", place, "--min-judges", "9"), "an instance cannot need 9 of 3 judges"),
        (("rescore", place, "--model", "openai/nobody"), "no run of `openai/nobody`"),
    ):
        assert_refused(medhelm(*words), said)
    assert server.count == sent


EXTENDED = """\
  extended:
    task: You are a strict nurse. You see a question, the answer of a model, and a reference. Grade the answer.
    criteria:
      accuracy: Is it right, with nothing invented?
"""


def test_a_jury_grades_by_one_of_two_rubrics(medhelm: Medhelm, tmp_path: Path, server: Server) -> None:
    asked: list[str] = []

    def judging(judge: str, n: int, body: Mapping[str, Any]) -> None:
        asked.append(body["messages"][0]["content"])

    server.answer_with(court(judging))
    place = write_benchmark(tmp_path, n=2, definition=DEFINITION + EXTENDED)

    def rubrics(*command: object) -> list[tuple[str, str]]:
        asked.clear()
        done = succeeded(medhelm(*command, "--json"))
        return [(run["jury"]["rubric"], run["jury"]["rubric_digest"]) for run in done.json["runs"]]

    everyone = repeated("--judge", map(server.model, JUDGES))
    ((first, digest),) = rubrics("run", place, "--model", server.model(), *everyone)
    assert (first, len(digest)) == ("standard", 64)
    assert all("You are a nurse" in text and "be as good" not in text for text in asked)
    asked.clear()
    mixed = medhelm("rejudge", place, "--judge", server.model("judge-3"), "--rubric", "extended")
    assert (mixed.code, asked) == (2, [])
    assert "a jury uses one. Name every judge that should grade by the extended rubric, and add --only." in mixed.err
    ((second, other),) = rubrics("rejudge", place, *everyone, "--rubric", "extended", "--only")
    assert (second, len(asked)) == ("extended", 6)
    assert other != digest
    assert all("strict nurse" in text and "nothing invented" in text and "Is it plain?" in text for text in asked)
    assert all("be as good" in text for text in asked)
    assert rubrics("rejudge", place, "--judge", server.model("judge-1")) == [("extended", other)]
    assert rubrics("rescore", place) == [("extended", other)]
    assert asked == []
    board = medhelm("leaderboard", "--json").json
    assert any("Letters by the extended rubric" in text for text in board["warnings"])
    assert "- Graded by the extended rubric: Letters." in medhelm("jury").out
    assert medhelm("verify").code == 0


def test_in_another_folder_the_benchmarks_that_are_known_are_scored_again(
    medhelm: Medhelm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = make_benchmark(tmp_path, name="readmit", n=6)
    store = tmp_path / "store"
    medhelm("run", own, "medec", "--tier", "sample", "--model", "baseline/majority", "--store", store)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    done = medhelm("rescore", "--store", store, "--json")
    assert [run["benchmark"] for run in done.json["runs"]] == ["medec", "readmit"]  # the store remembers its folder
    (tmp_path / "moved").mkdir()
    moved = own.rename(tmp_path / "moved" / "readmit")
    done = medhelm("rescore", "--store", store, "--json")
    assert [run["benchmark"] for run in done.json["runs"]] == ["medec"]
    assert "left out: readmit, because its definition is not found here." in done.err
    assert_refused(medhelm("rescore", "readmit", "--store", store), "unknown benchmark `readmit`")
    found = medhelm("rescore", "--store", store, "--benchmarks", moved.parent, "--json")
    assert {run["benchmark"] for run in found.json["runs"]} == {"medec", "readmit"}
