"""Judges that never return the verification code of their prompts, and judges that are asked for none."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from medhelm.storage.runs import load_runs
from medhelm.storage.store import open_store
from tests.support.benchmarks.judged import JUDGES, court, grades_of, is_judge, number, verdict, write_benchmark
from tests.support.cli import Medhelm, repeated, succeeded
from tests.support.servers.openai import Server

N = 4
MEAN = fmean(fmean(grades_of(judge, n)) for judge in JUDGES for n in range(N))


def judges(server: Server) -> list[str]:
    return repeated("--judge", map(server.model, JUDGES))


@pytest.fixture
def command(tmp_path: Path, server: Server) -> list[str]:
    """The arguments of a run whose judges give good verdicts, and never a code."""

    def said(judge: str, n: int, _: Mapping[str, Any]) -> str:
        return f"My verdict: {verdict(*grades_of(judge, n))}"

    server.answer_with(court(said))
    return [
        str(write_benchmark(tmp_path, n=N)),
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
    assert run["jury"]["judges"][server.model("judge-1")]["failures"] == {"unverified": 3 * N}
    assert done.code == 1, "by the corrected rule, judgments are missing"
    shown = medhelm("run", *command)
    assert f"{9 * N} judgments without verification code (published: counted)" in shown.out
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
    assert len(server.bodies) == n_before + 3 * N, "completions are not bought again"
    for later in asked_judges(server)[-3 * N :]:
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
