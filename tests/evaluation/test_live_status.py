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
from medhelm.evaluation import live_status
from medhelm.evaluation.live_status import command_line
from medhelm.evaluation.python_api import evaluate
from medhelm.evaluation.settings import Evaluation, Settings
from medhelm.scoring.metrics import METRIC_NAMES
from medhelm.storage.live_status import EvaluationStatus, JudgeProgress, StatusFile, known_evaluations
from medhelm.storage.store import Store
from tests.support.benchmarks.choice import answers_with, chat, make_benchmark, perfect, question_number
from tests.support.benchmarks.judged import JUDGES, court, jury, mock, open_benchmark
from tests.support.running import eventually, make_ended
from tests.support.servers.openai import Answer, Server

N, ANSWERED = 40, 12


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_status, "INTERVAL_S", 0.01)
    monkeypatch.setattr(live_status, "LARGEST_SHARE", 1.0)


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


def status_of(store: Path, wanted: int) -> EvaluationStatus:
    """Wait until the status shows so many instances as done."""

    def look() -> EvaluationStatus | None:
        found = [one.status for one in known_evaluations(Store(store)) if one.is_alive]
        return found[0] if found and sum(run.done for run in found[0].runs) == wanted else None

    return eventually(look)


def test_the_status_has_the_counters_of_every_run(tmp_path: Path, server: Server, benchmark_: Benchmark) -> None:
    def answer(body: dict[str, Any]) -> Answer:
        number = question_number(body)
        return chat("", finish_reason="content_filter") if number == 3 else chat(perfect(number))

    server.answer_with(answer)
    server.hold_beyond(ANSWERED)
    models = [mock(server, "first"), mock(server, "second")]
    settings = Settings(concurrency=1, max_cost_usd=None)
    thread, results = in_thread([benchmark_], models, store=tmp_path / "store", settings=settings)
    status = status_of(tmp_path / "store", ANSWERED)
    server.release()
    thread.join()
    runs = {run.model.partition("@")[0]: run for run in status.runs}
    assert set(runs) == {"openai/first", "openai/second"}
    assert all((run.benchmark, run.n, run.state) == ("toy", N, "running") for run in runs.values())
    assert sum(run.n_failed for run in runs.values()) == sum(run.failures.get("refusal", 0) for run in runs.values())
    assert sum(run.tokens.input for run in runs.values()) == ANSWERED * 20
    assert (status.state, status.reason, status.command) == ("running", "", ())
    assert [run.n - run.n_failed for run in results[0].runs] == [N - 1, N - 1]
    assert known_evaluations(Store(tmp_path / "store")) == []


def test_judges_are_counted(tmp_path: Path, server: Server) -> None:
    benchmark = open_benchmark(tmp_path, n=9)
    server.answer_with(court(lambda judge, n, _: "hm" if judge == "judge-2" else None))
    server.hold_beyond(40)
    thread, _ = in_thread([benchmark], [mock(server)], store=tmp_path / "store", jury=jury(server, *JUDGES))

    def judges_with_a_reply_that_is_missing() -> Mapping[str, JudgeProgress]:
        runs = [one.status.runs[0] for one in known_evaluations(Store(tmp_path / "store"))]
        return next((run.judges for run in runs if run.judgments_missing), {})

    judges = eventually(judges_with_a_reply_that_is_missing)
    server.release()
    thread.join()
    assert [name.partition("@")[0] for name in judges] == [f"openai/{name}" for name in JUDGES]
    first, second, third = judges.values()
    assert [first.failed, second.failed, third.failed] == [0, second.expected, 0]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), PermissionError(13, "Permission denied")])
def test_a_disk_that_refuses_ends_no_evaluation(
    tmp_path: Path, server: Server, benchmark_: Benchmark, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    tried = threading.Event()

    def refuse(*_: object) -> None:
        tried.set()
        raise error

    monkeypatch.setattr(StatusFile, "write", refuse)
    server.answer_with(answers_with(perfect))
    server.hold()
    thread, results = in_thread([benchmark_], [mock(server)], store=tmp_path / "store")
    assert tried.wait(600)
    server.release()
    thread.join()
    assert results[0].runs[0].status == "complete"


def test_the_end_by_the_budget_leaves_a_record_that_says_so(
    tmp_path: Path, server: Server, benchmark_: Benchmark
) -> None:
    server.answer_with(answers_with(perfect))
    settings = Settings(concurrency=1, max_cost_usd=0.0)
    model = replace(mock(server), price=Price(input=1.0, output=1.0))
    done = evaluate([benchmark_], [model], store=tmp_path / "store", settings=settings)
    (found,) = known_evaluations(Store(tmp_path / "store"))
    assert done.stopped == "budget"
    assert (found.is_alive, found.status.state, found.status.reason) == (False, "ended", "budget")


def test_a_quick_evaluation_writes_nothing_and_removes_what_it_resumes(
    tmp_path: Path, server: Server, benchmark_: Benchmark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_status, "INTERVAL_S", 60.0)
    monkeypatch.setattr("sys.argv", ["/usr/bin/medhelm", "run", "toy"])
    monkeypatch.chdir(tmp_path)
    make_ended(tmp_path / "store", command=("run", "toy"), folder=str(tmp_path))
    server.answer_with(answers_with(perfect))
    evaluate([benchmark_], [mock(server)], store=tmp_path / "store")
    assert list((tmp_path / "store" / "running").iterdir()) == []


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("/usr/bin/medhelm", ("run", "toy")),
        ("/lib/medhelm/__main__.py", ("run", "toy")),
        ("/usr/bin/pytest", ()),
        ("-c", ()),
    ],
)
def test_the_command_is_that_of_this_program_only(
    program: str, expected: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", [program, "run", "toy"])
    assert command_line() == expected
