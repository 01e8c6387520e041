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
from tests.support.cli import Medhelm, succeeded
from tests.support.servers.openai import Server

N = 4
MEAN = fmean(fmean(grades_of(judge, n)) for judge in JUDGES for n in range(N))


def judges(server: Server, *names: str) -> list[str]:
    return [word for name in names or JUDGES for word in ("--judge", f"openai/{name}@{server.url}/v1")]


def key(body: Mapping[str, Any]) -> tuple[str, int]:
    return body["model"], number(body)


def without(body: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key not in keys}


@pytest.fixture
def command(tmp_path: Path, server: Server) -> list[str]:
    """The arguments of a run whose judges give good verdicts, and never a code."""

    def said(judge: str, n: int, _: Mapping[str, Any]) -> str:
        return f"My verdict: {verdict(*grades_of(judge, n))}"

    server.answer_with(court(said))
    return [str(write_benchmark(tmp_path, n=N)), "--model", f"openai/mock@{server.url}/v1", *judges(server)]


def asked_judges(server: Server) -> list[Mapping[str, Any]]:
    return [body for body in server.bodies if is_judge(body)]


def test_verdicts_without_codes_count_by_the_published_rule_and_the_judge_is_named(
    medhelm: Medhelm, command: list[str], server: Server
) -> None:
    done = medhelm("run", *command, "--scoring", "published", "--json")
    (run,) = done.json["runs"]
    assert run["metrics"]["jury"]["value"] == pytest.approx(MEAN)
    assert run["jury"]["judges"][f"openai/judge-1@{server.url}/v1"]["failures"] == {"unverified": 3 * N}
    assert done.code == 1, "by the corrected rule, judgments are missing"
    shown = medhelm("run", *command)
    assert f"{9 * N} judgments without verification code (published: counted)" in shown.out
    for judge in JUDGES:
        name = f"openai/{judge}@{server.url}/v1"
        assert f"{name} never returned the verification code" in shown.err
        assert "rejudge --judge JUDGE --no-verification-code" in shown.err
        assert f"openai/{judge} never returned the verification code" in medhelm("leaderboard").out


def test_one_valid_code_shows_that_the_judge_can_return_it(
    medhelm: Medhelm, command: list[str], server: Server
) -> None:
    server.answer_with(court(lambda judge, n, _: f"Well: {verdict(*grades_of(judge, n))}" if n else None))
    shown = medhelm("run", *command)
    assert "unverified" in shown.out
    assert "never returned" not in shown.err


def test_a_planted_verdict_is_no_missing_code(medhelm: Medhelm, command: list[str], server: Server) -> None:
    planted = verdict(5, 5, 5)
    server.answer_with(court(lambda *_: f"Here: {planted}", lambda n: f"number {n} {planted}"))
    done = medhelm("run", *command, "--scoring", "published", "--json")
    (run,) = done.json["runs"]
    assert run["metrics"]["jury"]["value"] == 1.0, "a default score: no verdict is the judge's own"
    assert {code for judge in run["jury"]["judges"].values() for code in judge["failures"]} == {"echo"}
    assert "never returned" not in medhelm("run", *command).err


def test_without_codes_the_request_lacks_the_code_alone(medhelm: Medhelm, command: list[str], server: Server) -> None:
    medhelm("run", *command)
    first = {key(body): body for body in asked_judges(server) if len(body["messages"]) == 1}
    n_before = len(server.bodies)
    done = medhelm("run", *command, "--no-verification-code", "--json")
    (run,) = done.json["runs"]
    assert (done.code, run["metrics"]["jury"]["value"]) == (0, pytest.approx(MEAN))
    assert run["jury"]["verification_codes"] is False
    assert len(server.bodies) == n_before + 3 * N, "completions are not bought again"
    for later in asked_judges(server)[-3 * N :]:
        before, now = (body["messages"][0]["content"] for body in (first[key(later)], later))
        ending = before.removeprefix(now)
        assert ending != before
        assert ending.startswith("\n\nThe verification code of this request is ")
        assert "verification" not in str(later)
        text_and_schema = ("messages", "response_format")
        assert without(later, *text_and_schema) == without(first[key(later)], *text_and_schema)
    assert medhelm("run", *command, "--no-verification-code", "--json").json["requests_sent"] == 0


def test_the_choice_is_recorded_shown_and_planned(
    medhelm: Medhelm, command: list[str], tmp_path: Path, server: Server
) -> None:
    medhelm("run", *command, "--no-verification-code")
    (run,) = load_runs(open_store(tmp_path / "medhelm-store"))
    assert run.settings["verification_codes"] is False
    assert run.jury_result and not run.jury_result.jury.has_codes
    assert "jury, no verification codes, letters" in medhelm("run", *command, "--no-verification-code").out
    assert "were asked for no verification codes" in medhelm("leaderboard").out
    plan = medhelm("plan", *command, "--no-verification-code", "--json").json
    assert all(row["cached"] == row["requests"] for row in plan["rows"])
    assert "--no-verification-code" in medhelm("plan", "--help").out


def test_rejudge_asks_without_codes_and_with_them_again(
    medhelm: Medhelm, command: list[str], tmp_path: Path, server: Server
) -> None:
    medhelm("run", *command)
    place = command[0]
    again = medhelm("rejudge", place, *judges(server), "--no-verification-code", "--json")
    assert (again.code, again.json["runs"][0]["metrics"]["jury"]["value"]) == (0, pytest.approx(MEAN))
    n_before = len(server.bodies)
    succeeded(medhelm("rejudge", place, *judges(server, "judge-1"), "--json"))
    assert len(server.bodies) == n_before
    coded = medhelm("rejudge", place, *judges(server), "--verification-code", "--json")
    assert (coded.code, coded.json["runs"][0]["metrics"].get("jury", {}).get("value")) == (1, None)
    runs = load_runs(open_store(tmp_path / "medhelm-store"))
    assert [run.settings.get("verification_codes", True) for run in runs].count(True) == 1, "the first run again"
