"""Judges that fail now and then: the share of judgments that is there changes, the estimate stays in its interval."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from medhelm.domain import Estimate, Run
from medhelm.evaluation.python_api import evaluate
from medhelm.evaluation.settings import Settings
from tests.support.benchmarks.judged import court, jury, mock, open_benchmark, verdict
from tests.support.servers.openai import Answer, Server

N = 60


def run(tmp_path: Path, server: Server, name: str, *, timeout_s: float = 60.0) -> Run:
    (found,) = evaluate(
        [open_benchmark(tmp_path, n=N)],
        [mock(server)],
        store=tmp_path / name,
        settings=Settings(attempts=1, timeout_s=timeout_s),
        jury=jury(server),
    ).runs
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Estimate:
    """What the jury gives when no judge fails."""
    with Server() as server:
        server.answer_with(court())
        return run(tmp_path_factory.mktemp("whole"), server, "whole").estimates["corrected"]["jury"]


def test_a_judge_that_dies_on_the_way_is_given_up_and_the_rest_goes_on(
    tmp_path: Path, server: Server, whole: Estimate
) -> None:
    server.answer_with(court(lambda judge, n, _: Answer(status=401) if judge == "judge-2" and n > 20 else None))
    done = evaluate(
        [open_benchmark(tmp_path, n=N)],
        [mock(server)],
        store=tmp_path / "dead",
        settings=Settings(attempts=1, concurrency=4),
        jury=jury(server),
    )
    (dead,) = done.runs
    assert (dead.status, done.exit_code) == ("complete", 1)
    assert whole.low <= dead.estimates["corrected"]["jury"].value <= whole.high
    assert dead.estimates["corrected"]["jury"].n == N
    assert dead.jury_result and set(dead.jury_result.tallies[f"openai/judge-2@{server.url}/v1"].failures) == {
        "unusable"
    }
    assert len(done.messages) == 1
    assert "judge-2" in done.messages[0]


HUGE = json.dumps({"accuracy": {"score": 5, "explanation": "x" * 10_000_000}})


@pytest.mark.parametrize(
    "reply", ["[" * 200_000, HUGE, verdict(float("nan"), 3, 3), '{"accuracy": {"score": {"score": 3}}}'],
    ids=["brackets", "10 MB", "NaN", "nested"],
)  # fmt: skip
def test_a_strange_reply_is_a_failure_like_any_other(tmp_path: Path, server: Server, reply: str) -> None:
    server.answer_with(court(lambda judge, n, _: reply if judge == "judge-1" and n == 3 else None))
    found = run(tmp_path, server, "strange")
    assert (found.status, found.estimates["corrected"]["jury"].n) == ("complete", N)
    assert found.jury_result and 1 <= found.jury_result.tallies[f"openai/judge-1@{server.url}/v1"].failed <= 3
