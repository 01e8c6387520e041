"""Judges through the command line: `run --judge`, `rejudge`, `rescore`, rubrics and verification codes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from medhelm.storage.runs import load_runs
from medhelm.storage.store import open_store
from tests.support.benchmarks.choice import make_benchmark
from tests.support.benchmarks.judged import (
    DEFINITION,
    JUDGES,
    court,
    grades_of,
    is_judge,
    number,
    verdict,
    write_benchmark,
)
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
    said = "- Judgments are missing: Letters 5.6%. The reason: the judge's reply holds no JSON object (3)."
    assert said in run(medhelm, place, server).out
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


@pytest.fixture
def asked(server: Server) -> list[str]:
    """The prompts of judges since the test last cleared them."""
    found: list[str] = []

    def judging(judge: str, n: int, body: Mapping[str, Any]) -> None:
        found.append(body["messages"][0]["content"])

    server.answer_with(court(judging))
    return found


@pytest.fixture
def rubrics(medhelm: Medhelm, asked: list[str]) -> Callable[..., list[tuple[str, str]]]:
    """Gives a command; returns the rubric of each run and its digest, and leaves in `asked` what it asked."""

    def give(*command: object) -> list[tuple[str, str]]:
        asked.clear()
        done = succeeded(medhelm(*command, "--json"))
        return [(run["jury"]["rubric"], run["jury"]["rubric_digest"]) for run in done.json["runs"]]

    return give


def test_a_jury_grades_by_one_of_two_rubrics(
    medhelm: Medhelm, tmp_path: Path, server: Server, asked: list[str], rubrics: Callable[..., list[tuple[str, str]]]
) -> None:
    place = write_benchmark(tmp_path, n=2, definition=DEFINITION + EXTENDED)
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


# --- a rubric of the user's own ---------------------------------------------------------------------------------------

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


def test_judges_grade_by_the_file_and_no_column_mixes_rubrics(
    medhelm: Medhelm, tmp_path: Path, server: Server, asked: list[str], rubrics: Callable[..., list[tuple[str, str]]]
) -> None:
    place, file = write_benchmark(tmp_path, n=2), tmp_path / "nurse.yaml"
    file.write_text(OWN)
    everyone = repeated("--judge", map(server.model, JUDGES))
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


# --- judges that never return the verification code, and judges that are asked for none -------------------------------

N_CODED = 4
MEAN = fmean(fmean(grades_of(judge, n)) for judge in JUDGES for n in range(N_CODED))


def judges(server: Server) -> list[str]:
    return repeated("--judge", map(server.model, JUDGES))


@pytest.fixture
def command(tmp_path: Path, server: Server) -> list[str]:
    """The arguments of a run whose judges give good verdicts, and never a code."""

    def said(judge: str, n: int, _: Mapping[str, Any]) -> str:
        return f"My verdict: {verdict(*grades_of(judge, n))}"

    server.answer_with(court(said))
    return [
        str(write_benchmark(tmp_path, n=N_CODED)),
        "--model",
        server.model(),
        *judges(server),
    ]


def asked_judges(server: Server) -> list[Mapping[str, Any]]:
    return [body for body in server.bodies if is_judge(body)]


def test_verdicts_without_codes_count_by_the_published_rule_and_the_judge_is_named(
    medhelm: Medhelm, command: list[str], server: Server
) -> None:
    done = medhelm("run", *command, "--scoring", "published", "--json")
    (run,) = done.json["runs"]
    assert run["metrics"]["jury"]["value"] == pytest.approx(MEAN)
    assert run["jury"]["judges"][server.model("judge-1")]["failures"] == {"unverified": 3 * N_CODED}
    assert done.code == 1, "by the corrected rule, judgments are missing"
    shown = medhelm("run", *command)
    assert f"{9 * N_CODED} judgments without verification code (published: counted)" in shown.out
    assert "rejudge --judge JUDGE --no-verification-code" in shown.err
    board = medhelm("leaderboard").out
    for judge in JUDGES:
        assert f"{server.model(judge)} never returned the verification code" in shown.err
        assert f"openai/{judge} never returned the verification code" in board
    server.answer_with(court(lambda judge, n, _: f"Well: {verdict(*grades_of(judge, n))}" if n else None))
    shown = medhelm("run", *command, "--store", "other")
    assert ("unverified" in shown.out, "never returned" in shown.err) == (True, False), "one valid code is enough"


def test_without_codes_the_request_lacks_the_code_alone(medhelm: Medhelm, command: list[str], server: Server) -> None:
    medhelm("run", *command)
    first = {(body["model"], number(body)): body for body in asked_judges(server) if len(body["messages"]) == 1}
    n_before = len(server.bodies)
    done = medhelm("run", *command, "--no-verification-code", "--json")
    (run,) = done.json["runs"]
    assert (done.code, run["metrics"]["jury"]["value"]) == (0, pytest.approx(MEAN))
    assert run["jury"]["verification_codes"] is False
    assert "were asked for no verification codes" in medhelm("leaderboard").out
    assert len(server.bodies) == n_before + 3 * N_CODED, "completions are not bought again"
    for later in asked_judges(server)[-3 * N_CODED :]:
        earlier = first[later["model"], number(later)]
        before, now = (body["messages"][0]["content"] for body in (earlier, later))
        assert before.startswith(f"{now}\n\nThe verification code of this request is ")
        assert "verification" not in str(later)
        text_and_schema = ("messages", "response_format")
        assert {**later, **dict.fromkeys(text_and_schema)} == {**earlier, **dict.fromkeys(text_and_schema)}
    assert medhelm("run", *command, "--no-verification-code", "--json").json["requests_sent"] == 0


def test_rejudge_asks_without_codes_and_with_them_again(
    medhelm: Medhelm, command: list[str], tmp_path: Path, server: Server
) -> None:
    medhelm("run", *command)
    place = command[0]
    again = medhelm("rejudge", place, *judges(server), "--no-verification-code", "--json")
    assert (again.code, again.json["runs"][0]["metrics"]["jury"]["value"]) == (0, pytest.approx(MEAN))
    n_before = len(server.bodies)
    succeeded(medhelm("rejudge", place, "--judge", server.model("judge-1"), "--json"))
    assert len(server.bodies) == n_before
    coded = medhelm("rejudge", place, *judges(server), "--verification-code", "--json")
    assert (coded.code, coded.json["runs"][0]["metrics"].get("jury", {}).get("value")) == (1, None)
    runs = load_runs(open_store(tmp_path / "medhelm-store"))
    assert [run.settings.get("verification_codes", True) for run in runs].count(True) == 1, "the first run again"
