"""The status that an evaluation publishes: its content, and that a full disk never ends an evaluation."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.domain import Benchmark, Price
from medhelm.evaluation import runner
from medhelm.evaluation.python_api import evaluate
from medhelm.evaluation.settings import Evaluation, Settings
from medhelm.scoring.metrics import METRIC_NAMES
from medhelm.storage.live_status import EvaluationStatus, JudgeProgress, StatusFile, known_evaluations
from medhelm.storage.store import Store
from tests.support.benchmarks.choice import answers_with, chat, make_benchmark, perfect, question_number
from tests.support.benchmarks.judged import JUDGES, court, jury, mock, open_benchmark
from tests.support.running import eventually
from tests.support.servers.openai import Answer, Server

N, ANSWERED = 40, 12


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "INTERVAL_S", 0.01)
    monkeypatch.setattr(runner, "LARGEST_SHARE", 1.0)


@pytest.fixture
def benchmark_(tmp_path: Path) -> Benchmark:
    (found,) = load_benchmarks([str(make_benchmark(tmp_path, n=N))], metrics=METRIC_NAMES)
    return found


def in_thread(*arguments: Any, **options: Any) -> tuple[threading.Thread, list[Evaluation]]:
    """Evaluate in a thread, as in a notebook; return it and where its result will be."""
    results: list[Evaluation] = []
    thread = threading.Thread(target=lambda: results.append(evaluate(*arguments, **options)))
    thread.start()
    return thread, results


def test_the_status_has_the_counters_of_every_run(tmp_path: Path, server: Server, benchmark_: Benchmark) -> None:
    def answer(body: dict[str, Any]) -> Answer:
        number = question_number(body)
        return chat("", finish_reason="content_filter") if number == 3 else chat(perfect(number))

    server.answer_with(answer)
    server.hold_beyond(ANSWERED)
    models = [mock(server, "first"), mock(server, "second")]
    thread, results = in_thread([benchmark_], models, store=tmp_path / "store", settings=Settings(concurrency=1))

    def look() -> EvaluationStatus | None:
        statuses = [one.status for one in known_evaluations(Store(tmp_path / "store")) if one.is_alive]
        return statuses[0] if statuses and sum(run.done for run in statuses[0].runs) == ANSWERED else None

    status = eventually(look)
    server.release()
    thread.join()
    assert {run.model.partition("@")[0] for run in status.runs} == {"openai/first", "openai/second"}
    assert all((run.benchmark, run.n, run.state) == ("toy", N, "running") for run in status.runs)
    assert all(run.n_failed == run.failures.get("refusal", 0) for run in status.runs)
    assert sum(run.tokens.input for run in status.runs) == ANSWERED * 20
    assert (status.state, status.reason, status.command) == ("running", "", ())
    assert [run.n_failed for run in results[0].runs] == [1, 1]
    assert known_evaluations(Store(tmp_path / "store")) == []


def test_judges_are_counted(tmp_path: Path, server: Server) -> None:
    server.answer_with(court(lambda judge, n, _: "hm" if judge == "judge-2" else None))
    server.hold_beyond(40)
    benchmark, judges = open_benchmark(tmp_path, n=9), jury(server, *JUDGES)
    thread, _ = in_thread([benchmark], [mock(server)], store=tmp_path / "store", jury=judges)

    def judges_with_a_reply_that_is_missing() -> Mapping[str, JudgeProgress]:
        runs = [one.status.runs[0] for one in known_evaluations(Store(tmp_path / "store"))]
        return next((run.judges for run in runs if run.judgments_missing), {})

    counted = eventually(judges_with_a_reply_that_is_missing)
    server.release()
    thread.join()
    assert list(counted) == [judge.name for judge in judges.judges]
    assert [judge.failed for judge in counted.values()] == [0, counted[judges.judges[1].name].expected, 0]


def test_a_full_disk_ends_no_evaluation(
    tmp_path: Path, server: Server, benchmark_: Benchmark, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = threading.Event()

    def refuse(*_: object) -> None:
        tried.set()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(StatusFile, "write", refuse)
    server.answer_with(answers_with(perfect))
    server.hold()
    thread, results = in_thread([benchmark_], [mock(server)], store=tmp_path / "store")
    assert tried.wait(600)
    server.release()
    thread.join()
    assert results[0].runs[0].status == "complete"


def test_only_an_end_by_the_budget_leaves_a_record_and_what_is_resumed_leaves_none(
    tmp_path: Path, server: Server, benchmark_: Benchmark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["/lib/medhelm/__main__.py", "run", "toy"])
    server.answer_with(answers_with(perfect))
    model, store = replace(mock(server), price=Price(input=1.0, output=1.0)), tmp_path / "store"
    done = evaluate([benchmark_], [model], store=store, settings=Settings(max_cost_usd=0.0))
    (left,) = known_evaluations(Store(store))
    assert done.stopped == "budget"
    assert (left.is_alive, left.status.state, left.status.reason) == (False, "ended", "budget")
    assert left.status.command == ("run", "toy")
    monkeypatch.setattr(runner, "INTERVAL_S", 60.0)  # a quick evaluation writes nothing
    evaluate([benchmark_], [mock(server)], store=store)
    assert list((store / "running").iterdir()) == []
