"""Whole evaluations of a model behind a server on this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.domain import Benchmark, Model, Price
from medhelm.errors import UserError
from medhelm.evaluation.python_api import evaluate
from medhelm.evaluation.settings import Evaluation, Settings
from medhelm.models.cache import Cache
from medhelm.models.catalog import find_models
from medhelm.scoring.metrics import METRICS
from medhelm.storage.run_scores import read_scores
from medhelm.storage.runs import load_runs, read_records
from medhelm.storage.store import open_store
from tests.support.benchmarks.choice import answers_with, chat, make_benchmark, perfect, question_number, rows
from tests.support.benchmarks.definitions import write_rows
from tests.support.benchmarks.judged import mock
from tests.support.servers.openai import Answer, Server

PRICED = Price(input=1_000_000 / 20, output=0.0)
MOST_USD = 20.0
"""Dollars that a request to a model with this price can cost, about; the server counts 20 tokens, one dollar."""


def toy(folder: Path, **choices: Any) -> Benchmark:
    (benchmark,) = load_benchmarks([str(make_benchmark(folder, **choices))], metrics=METRICS)
    return benchmark


def model(server: Server, name: str = "mock", **changes: Any) -> Model:
    return replace(mock(server, name), **changes)


def named(*names: str) -> list[Model]:
    return find_models(names, file=None, environment={})


def run(
    tmp_path: Path,
    models: list[Model],
    *benchmarks: Benchmark,
    environment: Mapping[str, str] | None = None,
    **changes: Any,
) -> Evaluation:
    settings = Settings(**{"attempts": 2, **changes})
    chosen = benchmarks or [toy(tmp_path)]
    return evaluate(chosen, models, store=tmp_path / "store", settings=settings, environment=environment)


def texts(tmp_path: Path) -> list[str | None]:
    (stored,) = load_runs(open_store(tmp_path / "store"))
    return [row["completion"] for row in read_records(stored)]


def test_answers_become_scores_by_both_rules_with_intervals(tmp_path: Path, server: Server) -> None:
    server.answer_with(answers_with(lambda n: f"The answer is {perfect(n) if n else 'C'}."))
    (done,) = run(tmp_path, [model(server)]).runs
    estimate = done.estimates["corrected"]["exact_match"]
    assert (done.status, done.n, done.n_failed, server.count) == ("complete", 9, 0, 9)
    assert estimate.n == 9
    assert estimate.value == pytest.approx(8 / 9)
    assert estimate.low < estimate.value < estimate.high
    assert done.estimates["published"]["exact_match"].value == 0.0
    assert list(read_scores(done, "exact_match", "published").values) == [0.0] * 9
    assert (done.usage.input, done.usage.output) == (9 * 20, 9)
    assert load_runs(open_store(tmp_path / "store")) == [done]
    with Cache(tmp_path / "store" / "cache.sqlite") as cache:
        for row in read_records(done):
            completion = cache.get(bytes.fromhex(row["request_digest"]))
            assert completion and completion.text == row["completion"]


def test_the_same_again_sends_nothing_and_gives_the_same(tmp_path: Path, server: Server) -> None:
    server.answer_with(answers_with(perfect))
    run(tmp_path, [model(server)], limit=4)
    (first,) = run(tmp_path, [model(server)]).runs
    assert (server.count, first.requests_sent, first.requests_cached) == (9, 5, 4), "only new ones are paid for"
    again = run(tmp_path, [model(server)])
    (second,) = again.runs
    assert (server.count, again.requests_sent, second.requests_cached, again.cost_usd) == (9, 0, 9, 0.0)
    assert (second.estimates, list(read_records(second))) == (first.estimates, list(read_records(first)))
    # A seed chooses questions; it is not that of the model.
    assert run(tmp_path, [model(server)], seed=5).requests_sent == 0
    assert {(body["seed"], body["max_tokens"]) for body in server.bodies} == {(0, 5)}


def test_a_broken_answer_is_a_failure_and_never_a_score(tmp_path: Path, server: Server) -> None:
    """Garbage is asked for again, in this run and the next; a refusal is an answer; an error is not asked for again."""
    broken = {
        3: Answer(body="<html>oops</html>"),
        4: chat(None, finish_reason="content_filter"),
        5: Answer(status=400, body={"error": {"message": "no"}}),
    }
    asked: list[int] = []

    def decide(body: dict[str, Any]) -> Answer:
        asked.append(question_number(body))
        return broken.get(asked[-1], chat(perfect(asked[-1])))

    server.answer_with(decide)
    evaluation = run(tmp_path, [model(server)])
    (done,) = evaluation.runs
    assert (done.status, done.n, done.n_failed, evaluation.exit_code) == ("complete", 9, 3, 1)
    assert dict(done.failures) == {"malformed_reply": 1, "refusal": 1, "bad_request": 1}
    estimate = done.estimates["corrected"]["exact_match"]
    assert (estimate.value, estimate.n, estimate.n_failed) == (1.0, 6, 3)
    assert [asked.count(number) for number in broken] == [2, 1, 1]
    assert texts(tmp_path)[3:6] == [None] * 3
    server.answer_with(answers_with(perfect))
    again = run(tmp_path, [model(server)])
    assert (again.requests_sent, dict(again.runs[0].failures)) == (2, {"refusal": 1})


def test_a_server_that_is_not_there_is_given_up_soon(tmp_path: Path) -> None:
    (absent,) = named("openai/mock@http://127.0.0.1:9/v1")
    evaluation = run(tmp_path, [absent, *named("baseline/majority")], attempts=1)
    assert [run.status for run in evaluation.runs] == ["failed", "complete"]
    assert "127.0.0.1:9" in evaluation.messages[0]
    (stored,) = load_runs(open_store(tmp_path / "store"))
    assert stored.model == "baseline/majority"
    assert {row["request_digest"] for row in read_records(stored)} == {""}


def test_the_budget_is_not_passed_and_a_stopped_run_goes_on_where_it_was(tmp_path: Path, server: Server) -> None:
    """A failed request costs nothing, and is counted apart from those that were never sent."""
    server.answer_with(lambda body: Answer(status=400) if question_number(body) == 0 else chat("A"))
    limit_usd = 10.0 + MOST_USD
    benchmark = toy(tmp_path, n=50)
    evaluation = run(tmp_path, [model(server, price=PRICED)], benchmark, max_cost_usd=limit_usd, concurrency=4)
    assert 10 <= evaluation.cost_usd <= 20
    assert server.count == evaluation.cost_usd + 1
    (done,) = evaluation.runs
    assert (done.status, evaluation.stopped, evaluation.exit_code) == ("partial", "budget", 3)
    assert len(texts(tmp_path)) == server.count
    assert dict(done.failures) == {"bad_request": 1}
    assert (done.n_failed, done.n_not_asked) == (51 - server.count, 50 - server.count)
    server.answer_with(answers_with(perfect))
    (done,) = run(tmp_path, [model(server, price=PRICED)], benchmark).runs
    assert (done.status, server.count, done.cost_usd) == ("complete", 51, 50.0)


def test_retries_and_equal_requests_are_counted(tmp_path: Path, server: Server) -> None:
    busy = iter([Answer(status=503)])
    server.answer_with(lambda body: next(busy, chat("A")))
    write_rows(make_benchmark(tmp_path) / "rows.jsonl", [*rows(3), rows(1)[0] | {"id": "again"}])
    (benchmark,) = load_benchmarks([str(tmp_path / "toy")], metrics=METRICS)
    counts = []
    for _ in range(2):
        (done,) = run(tmp_path, [model(server)], benchmark).runs
        counts.append((done.requests_sent, done.requests_retried, done.requests_cached, done.requests_duplicate))
    assert counts == [(4, 1, 1, 1), (0, 0, 4, 1)]


def test_a_notebook_can_evaluate(tmp_path: Path) -> None:
    async def cell(*models: str) -> Evaluation:
        return run(tmp_path, named(*models))

    assert asyncio.run(cell("baseline/majority")).runs[0].status == "complete"
    with pytest.raises(UserError, match="absent"):
        asyncio.run(cell(f"replay/{tmp_path / 'absent.jsonl'}"))


def test_one_model_that_may_not_be_asked_stops_everything_before_anything_is_sent(
    tmp_path: Path, server: Server
) -> None:
    environment = {"OPENAI_API_KEY": "sk-test"}
    (hosted,) = find_models(["openai/gpt-4o"], file=None, environment=environment)
    with pytest.raises(UserError, match="offline"):
        run(tmp_path, [model(server), hosted], environment=environment, offline=True)
    with pytest.raises(UserError, match="needs the price"):
        run(tmp_path, [model(server, price=PRICED), model(server, "unpriced")], max_cost_usd=1.0)
    assert server.count == 0
