"""Failures of requests, told once for each kind."""

from __future__ import annotations

from pathlib import Path

import pytest

import medhelm
from medhelm.domain import Completion, Failure, FailureCode, JudgeReply
from medhelm.evaluation.python_api import evaluate
from medhelm.evaluation.remarks import failure_sentences
from medhelm.evaluation.request_totals import FailureSummary
from medhelm.evaluation.settings import Settings
from medhelm.models.providers.advice import ADVICE
from medhelm.scoring.jury.panel import JudgeVerdict
from tests.support.benchmarks.judged import court, jury, mock, open_benchmark
from tests.support.servers.openai import Answer, Server


def failed(code: str, words: str) -> Failure:
    return Failure("provider", code, words)


def test_each_kind_is_told_once_with_the_first_words_and_what_to_do() -> None:
    troubles = FailureSummary()
    for number in range(1200):
        troubles.add("openai/m", failed("timeout", f"openai/m: request {number} took too long"))
    troubles.add("openai/m", failed("odd", "something."))
    other = FailureSummary()
    other.add("anthropic/m", failed("timeout", ""))
    other.add("openai/m", failed("odd", "second"))
    assert failure_sentences([]) == []
    assert failure_sentences([troubles, other, FailureSummary()]) == [
        f"openai/m: 1,200 requests failed (timeout): request 0 took too long. {ADVICE['timeout']}",
        "openai/m: 2 requests failed (odd): something.",
        f"anthropic/m: 1 request failed (timeout): {ADVICE['timeout']}",
    ]


@pytest.mark.parametrize(
    ("code", "cached", "told"), [("timeout", False, True), ("timeout", True, False), ("unusable", False, False)]
)
def test_judges_are_told_of_unless_that_was_said_already(code: str, cached: bool, told: bool) -> None:
    completion = Completion(failure=Failure("judge", code, "words"))
    heard = JudgeVerdict(
        reply=JudgeReply(judge="judge-1", prompt_index=0, attempt=0, completion=completion), judgments=(), cached=cached
    )
    troubles = FailureSummary()
    troubles.add_judges([heard])
    assert bool(failure_sentences([troubles])) == told


def test_advice_is_for_codes_that_exist() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in Path(medhelm.__file__).parent.rglob("*.py"))
    for code, words in ADVICE.items():
        assert source.count(f"FailureCode.{FailureCode(code).name}") >= 2, code
        assert words.endswith(".")


def test_a_run_tells_what_failed_in_it_and_not_what_failed_before(tmp_path: Path, server: Server) -> None:
    def run() -> tuple[str, ...]:
        return evaluate(
            [open_benchmark(tmp_path, n=3)],
            [mock(server)],
            store=tmp_path / "store",
            settings=Settings(attempts=1),
            jury=jury(server),
        ).messages

    server.answer_with(court(lambda *_: Answer(status=418, body={"error": "teapot"})))
    told = run()
    assert told
    assert all(" failed (bad_request): the server answered 418: teapot." in line for line in told)
    assert all("Check `parameters`" in line for line in told)
    server.answer_with(court())
    assert run() == ()
