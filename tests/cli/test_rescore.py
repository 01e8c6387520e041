"""`medhelm run --judge`, `rejudge`, `rescore` and `show` with judges: what they print, return, and refuse."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.benchmarks.choice import make_benchmark
from tests.support.benchmarks.judged import DEFINITION, JUDGES, court, write_benchmark
from tests.support.cli import Medhelm, Outcome, assert_refused, succeeded
from tests.support.servers.openai import Server

N = 6


@pytest.fixture
def place(tmp_path: Path, server: Server) -> Path:
    """A benchmark for judges; the second judge cannot judge the first answer."""
    server.answer_with(court(lambda judge, n, _: "hm" if judge == "judge-2" and n == 0 else None))
    return write_benchmark(tmp_path, n=N)


def names(server: Server, *judges: str, option: str = "--judge") -> list[str]:
    return [word for judge in judges for word in (option, f"openai/{judge}@{server.url}/v1")]


def run(medhelm: Medhelm, place: Path, server: Server, *more: str) -> Outcome:
    return medhelm("run", place, *names(server, "mock", option="--model"), *names(server, *JUDGES), *more)


def test_the_jury_is_told_of_beside_the_run(medhelm: Medhelm, place: Path, server: Server) -> None:
    told = run(medhelm, place, server)
    assert told.code == 1
    line = next(line for line in told.out.splitlines() if line.startswith("- jury, letters"))
    missing = "3 missing (openai/judge-2: no_verdict 3)"
    assert f"54 judgments of 3 judges; {missing}; 19 sent, 0 cached; cost unknown" in line
    assert "  accuracy 3.00, clarity 3.00, completeness 3.28" in told.out
    missing = (
        "- Judgments are missing: Letters 5.6% (no_verdict 3). `no_verdict`: the judge's reply holds no JSON object."
    )
    assert missing in told.out
    again = run(medhelm, place, server, "--json")
    (found,) = again.json["runs"]
    assert found["main_metric"] == "jury"
    assert found["metrics"]["jury"]["n"] == N
    assert again.json["requests_sent"] == 0
    jury = found["jury"]
    assert (jury["coverage"], jury["at_least"], jury["scale"]) == (pytest.approx(51 / 54), 2, [1.0, 5.0])
    second = jury["judges"][f"openai/judge-2@{server.url}/v1"]
    assert (second["expected"], second["failed"], second["failures"]) == (18, 3, {"no_verdict": 3})
    assert (second["requests_sent"], second["requests_cached"], second["cost_usd"]) == (0, N + 1, None)


def test_without_judges_it_is_said_what_stands_in(medhelm: Medhelm, place: Path, server: Server) -> None:
    told = succeeded(medhelm("run", place, *names(server, "mock", option="--model")))
    assert "no judges were named (--judge): scoring 1 free-text benchmark by ROUGE-L instead" in told.err
    assert "no judges" not in run(medhelm, place, server).err


def test_requests_to_judges_count_as_sent(medhelm: Medhelm, place: Path, server: Server) -> None:
    told = run(medhelm, place, server, "--json")
    assert told.json["requests_sent"] == server.count == N * 4 + 1


def test_show_gives_every_judgment_and_why_one_is_missing(medhelm: Medhelm, place: Path, server: Server) -> None:
    run(medhelm, place, server)
    text = medhelm("show", "letters", "q0").out
    assert f"  openai/judge-1@{server.url}/v1, accuracy: 2  it is 2" in text
    assert f"  openai/judge-2@{server.url}/v1, clarity: no judgment: no_verdict: the reply holds no JSON object" in text
    (completion,) = medhelm("show", "letters", "q0", "--json").json["completions"]
    assert [cell["score"] for cell in completion["judgments"]] == [2.0, 2.0, 2.0, None, None, None, 2.0, 2.0, 2.0]


def test_a_judge_joins_and_another_leaves(medhelm: Medhelm, place: Path, server: Server) -> None:
    run(medhelm, place, server)
    before = server.count
    out = names(server, "judge-2", option="--without")
    done = medhelm("rejudge", place, *names(server, "judge-3"), *out, "--min-judges", "2", "--json")
    assert (done.code, server.count) == (0, before)
    (found,) = done.json["runs"]
    assert list(found["jury"]["judges"]) == [f"openai/{judge}@{server.url}/v1" for judge in ("judge-1", "judge-3")]
    assert found["jury"]["coverage"] == 1.0
    assert medhelm("leaderboard", "--json").json["benchmarks"][0]["judges"] == list(found["jury"]["judges"])


def test_show_distinguishes_two_runs_of_one_model(medhelm: Medhelm, place: Path, server: Server) -> None:
    run(medhelm, place, server)
    model = f"openai/mock@{server.url}/v1"
    assert f"\n=== {model}\n" in medhelm("show", "letters", "q1").out
    medhelm("rejudge", place, *names(server, "judge-3"), *names(server, "judge-2", option="--without"))
    first, second = medhelm("show", "letters", "q1", "--json").json["completions"]
    assert {first["counts"], second["counts"]} == {True, False}
    shown = medhelm("show", "letters", "q1").out
    for one in (first, second):
        counted = "counted" if one["counts"] else "not counted"
        judges = ", ".join(one["judges"])
        assert f"=== {model} (run {one['run_id'][:10]}, judged by {judges}; {counted} on the leaderboard)\n" in shown
    assert medhelm("runs", "show", first["run_id"], "--json").json["counts"] == first["counts"]


def test_scores_are_computed_anew_without_asking(medhelm: Medhelm, place: Path, server: Server) -> None:
    run(medhelm, place, server)
    before = server.count
    strict = medhelm("rescore", place, "--min-judges", "3", "--json")
    (found,) = strict.json["runs"]
    assert (server.count, found["jury"]["n_below_floor"], found["metrics"]["jury"]["n_failed"]) == (before, 1, 1)
    assert strict.code == 1


REFUSED = {
    "nobody to ask": (["rejudge", "PLACE"], "no judges were given"),
    "a benchmark that needs none": (["rejudge", "pubmed_qa", "--judge", "JUDGE"], "pubmed_qa cannot be judged"),
    "more than there are": (["rescore", "PLACE", "--min-judges", "9"], "an instance cannot need 9 of 3 judges"),
    "a model without runs": (["rescore", "PLACE", "--model", "openai/nobody"], "no run of `openai/nobody`"),
    "a baseline as a judge": (["rejudge", "PLACE", "--judge", "baseline/majority"], "it cannot judge"),
    "a jury file that is not there": (["rejudge", "PLACE", "--jury", "absent.yaml"], "absent.yaml"),
}


@pytest.mark.parametrize(("words", "said"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_done_is_refused_before_anything_is_sent(
    medhelm: Medhelm, place: Path, server: Server, words: list[str], said: str
) -> None:
    run(medhelm, place, server)
    before = server.count
    judge = f"openai/judge-1@{server.url}/v1"
    assert_refused(medhelm(*[{"PLACE": str(place), "JUDGE": judge}.get(word, word) for word in words]), said)
    assert server.count == before


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

    everyone = names(server, *JUDGES)
    ((first, digest),) = rubrics("run", place, *names(server, "mock", option="--model"), *everyone)
    assert (first, len(digest)) == ("standard", 64)
    assert all("You are a nurse" in text and "be as good" not in text for text in asked)
    asked.clear()
    mixed = medhelm("rejudge", place, *names(server, "judge-3"), "--rubric", "extended")
    assert (mixed.code, asked) == (2, [])
    assert "a jury uses one. Name every judge that should grade by the extended rubric, and add --only." in mixed.err
    ((second, other),) = rubrics("rejudge", place, *everyone, "--rubric", "extended", "--only")
    assert (second, len(asked)) == ("extended", 6)
    assert other != digest
    assert all("strict nurse" in text and "nothing invented" in text and "Is it plain?" in text for text in asked)
    assert all("be as good" in text for text in asked)
    assert rubrics("rejudge", place, *names(server, "judge-1")) == [("extended", other)]
    assert rubrics("rescore", place) == [("extended", other)]
    assert asked == []
    board = medhelm("leaderboard", "--json").json
    assert any("Letters by the extended rubric" in text for text in board["warnings"])
    assert medhelm("jury", "--json").json["benchmarks"]["letters"]["rubric"] == "extended"
    assert "- Graded by the extended rubric: Letters." in medhelm("jury").out
    assert medhelm("export", "card", "card.html").code == 0
    card = Path("card.html").read_text(encoding="utf-8")
    assert "extended rubric (1 to 5)" in card
    assert "--rubric extended" in card
    assert medhelm("verify").code == 0


def test_models_that_were_graded_by_another_rubric_are_left_out(
    medhelm: Medhelm, tmp_path: Path, server: Server
) -> None:
    server.answer_with(court())
    place = write_benchmark(tmp_path, n=2, definition=DEFINITION + EXTENDED)
    everyone = names(server, *JUDGES)
    for model, rubric in (("a", "standard"), ("b", "extended"), ("c", "extended")):
        run = ["run", place, *names(server, model, option="--model"), *everyone, "--rubric", rubric]
        assert medhelm(*run).code == 0
    (left,) = medhelm("leaderboard", "--json").json["left_out"]
    assert left["reason"] == "graded by the standard rubric, the others by the extended one"
    assert left["command"].endswith("--rubric extended --only")
    assert medhelm(*shlex.split(left["command"])[1:], "--benchmarks", place.parent).code == 0
    assert medhelm("leaderboard", "--json").json["left_out"] == []


def test_the_extended_rubric_needs_judges_and_a_benchmark_that_has_it(
    medhelm: Medhelm, place: Path, server: Server
) -> None:
    model = names(server, "mock", option="--model")
    for command in ("run", "plan"):
        assert_refused(
            medhelm(command, "aci_bench", "--tier", "sample", *model, "--rubric", "extended"),
            "needs judges. Name them with --judge",
        )
        assert_refused(
            medhelm(command, place, *model, *names(server, *JUDGES), "--rubric", "extended"),
            "letters: only one rubric is defined",
        )
    assert server.count == 0


def test_in_another_folder_the_benchmarks_that_are_known_are_scored_again(
    medhelm: Medhelm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = make_benchmark(tmp_path, name="readmit", n=6)
    store = tmp_path / "store"
    assert medhelm("run", own, "medec", "--tier", "sample", "--model", "baseline/majority", "--store", store).code in (
        0,
        1,
    )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    done = medhelm("rescore", "--store", store, "--json")
    assert [run["benchmark"] for run in done.json["runs"]] == ["medec"]
    assert (
        "left out: readmit, because its definition is not found here. Name the folder with --benchmarks DIR."
        in done.err
    )
    assert_refused(medhelm("rescore", "readmit", "--store", store), "unknown benchmark `readmit`")
    found = medhelm("rescore", "--store", store, "--benchmarks", tmp_path, "--json")
    assert {run["benchmark"] for run in found.json["runs"]} == {"medec", "readmit"}
