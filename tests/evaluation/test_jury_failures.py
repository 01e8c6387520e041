"""Judges that fail now and then: the share of judgments that is there changes, the estimate stays in its interval."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import pytest

from medhelm.domain import Estimate, Run
from medhelm.evaluation.evaluate import Settings, evaluate
from tests.support.benchmarks.choice import chat
from tests.support.benchmarks.judged import JUDGES, court, jury, mock, open_benchmark, verdict
from tests.support.servers.openai import Answer, Server

N = 60

FAULTS: Mapping[str, str | Answer] = {
    "bad JSON": '{"accuracy": {"score": 4, "explanation": "It says "yes"."}}',
    "prose": "I would give it full marks.",
    "another schema": '{"verdict": "good", "confidence": 0.9}',
    "another language": '{"Genauigkeit": {"score": 5, "explanation": "gut"}}',
    "off the scale": verdict(10, 10, 10),
    "scores in words": verdict("five", "five", "five"),
    "two verdicts": verdict(5, 5, 5) + "\n" + verdict(1, 1, 1),
    "refused": chat(None, finish_reason="content_filter"),
    "cut off": chat(verdict(5, 5, 5)[:-20], finish_reason="length"),
    "overloaded": Answer(status=503),
    "too late": Answer(ending="hang"),
    "connection lost": Answer(ending="reset"),
    "no answer at all": chat(""),
}
"""What happens to some requests for judgments."""


def is_hit(judge: str, question: int, one_in: int) -> bool:
    """The same share of each judge's questions, every time."""
    return sha256(f"{judge} {question}".encode()).digest()[0] % one_in == 0


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


UNREADABLE = {"another schema", "another language", "off the scale", "scores in words"}
"""Faults on the path of bad JSON, prose and two verdicts: the reply is text, and no verdict can be read in it."""


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(fault, id=name, marks=[pytest.mark.long] if name in UNREADABLE else [])
        for name, fault in FAULTS.items()
    ],
)
@pytest.mark.long
def test_a_fault_in_one_judgment_of_six_changes_coverage_and_not_the_estimate(
    tmp_path: Path, server: Server, whole: Estimate, fault: str | Answer
) -> None:
    server.answer_with(court(lambda judge, n, _: fault if is_hit(judge, n, 6) else None))
    hit = run(tmp_path, server, "hit", timeout_s=1.5 if fault == FAULTS["too late"] else 600.0)
    estimate = hit.estimates["corrected"]["jury"]
    n_hit = sum(is_hit(judge, n, 6) for judge in JUDGES for n in range(N))
    n_below = sum(sum(is_hit(judge, n, 6) for judge in JUDGES) > 1 for n in range(N))
    assert whole.low <= estimate.value <= whole.high
    assert hit.jury_result is not None
    assert hit.jury_result.coverage is not None
    assert n_hit > 20
    assert n_below > 2
    if fault == FAULTS["too late"]:  # on a slow machine others may be late as well
        assert hit.jury_result.coverage <= 1 - n_hit / (3 * N) + 1e-9
        assert hit.jury_result.n_too_few_judges == estimate.n_failed >= n_below
    else:
        assert hit.jury_result.coverage == pytest.approx(1 - n_hit / (3 * N))
        assert (hit.jury_result.n_too_few_judges, estimate.n, estimate.n_failed) == (n_below, N - n_below, n_below)


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
