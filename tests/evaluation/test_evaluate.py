"""The whole road, through a server on this machine."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.domain import Benchmark, Model, Price, Shard
from medhelm.errors import MissingError, StoreError, UserError
from medhelm.evaluation import session
from medhelm.evaluation.python_api import evaluate
from medhelm.evaluation.settings import Evaluation, Settings
from medhelm.models.cache import Cache
from medhelm.models.catalog import find_models
from medhelm.scoring.metrics import METRICS
from medhelm.storage import run_scores
from medhelm.storage.runs import load_runs, read_records, read_scores
from medhelm.storage.store import create, open_store
from tests.support.benchmarks.choice import answers_with, chat, make_benchmark, perfect, question_number
from tests.support.servers.openai import Answer, Server

PRICED = Price(input=1_000_000 / 20, output=0.0)
MOST_USD = 20.0
"""Dollars that a request to a model with this price can cost, about; the server counts 20 tokens, one dollar."""


def toy(folder: Path, **choices: Any) -> Benchmark:
    (benchmark,) = load_benchmarks([str(make_benchmark(folder, **choices))], metrics=METRICS)
    return benchmark


def model(server: Server, name: str = "mock", **changes: Any) -> Model:
    (found,) = find_models([f"openai/{name}@{server.url}/v1"], file=None, environment={})
    return Model(**{**{field: getattr(found, field) for field in found.__slots__}, **changes})


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
    asked = benchmarks or [toy(tmp_path)]
    return evaluate(asked, models, store=tmp_path / "store", settings=settings, environment=environment)


def texts(tmp_path: Path) -> list[str | None]:
    (stored,) = load_runs(open_store(tmp_path / "store"))
    return [row["completion"] for row in read_records(stored)]


def test_answers_become_scores_with_intervals(tmp_path: Path, server: Server) -> None:
    server.answer_with(answers_with(lambda n: perfect(n) if n else "C"))
    (done,) = run(tmp_path, [model(server)]).runs
    estimate = done.estimates["corrected"]["exact_match"]
    assert (done.status, done.n, done.n_failed, server.count) == ("complete", 9, 0, 9)
    assert (estimate.n, round(estimate.value, 6)) == (9, round(8 / 9, 6))
    assert estimate.low < estimate.value < estimate.high
    assert (done.usage.input, done.usage.output) == (9 * 20, 9)
    assert load_runs(open_store(tmp_path / "store")) == [done]


def test_a_record_leads_to_its_completion_in_the_cache(tmp_path: Path, server: Server) -> None:
    server.answer_with(lambda body: Answer(status=400) if question_number(body) == 3 else chat("A"))
    (done,) = run(tmp_path, [model(server)]).runs
    with Cache(tmp_path / "store" / "cache.sqlite") as cache:
        kept = [cache.get(bytes.fromhex(row["request_digest"])) for row in read_records(done)]
    assert [completion and completion.text for completion in kept] == ["A"] * 3 + [None] + ["A"] * 5
    (local,) = run(tmp_path, named("baseline/majority")).runs
    assert {row["request_digest"] for row in read_records(local)} == {""}


def test_both_rules_are_stored(tmp_path: Path, server: Server) -> None:
    server.answer_with(answers_with(lambda n: f"The answer is {perfect(n)}."))
    (done,) = run(tmp_path, [model(server)]).runs
    assert done.estimates["corrected"]["exact_match"].value == 1.0
    assert done.estimates["published"]["exact_match"].value == 0.0
    assert list(read_scores(done, "exact_match", "published").values) == [0.0] * 9


def test_the_same_again_sends_nothing_and_gives_the_same(tmp_path: Path, server: Server) -> None:
    server.answer_with(answers_with(perfect))
    run(tmp_path, [model(server)], limit=4)
    (first,) = run(tmp_path, [model(server)]).runs
    assert (server.count, first.requests_sent, first.requests_cached) == (9, 5, 4), "only new ones are paid for"
    records = list(read_records(first))
    again = run(tmp_path, [model(server)])
    assert (server.count, again.requests_sent, again.runs[0].requests_cached, again.cost_usd) == (9, 0, 9, 0.0)
    assert again.runs[0].estimates == first.estimates
    assert list(read_records(again.runs[0])) == records


BROKEN: Mapping[str, tuple[Answer, str, int]] = {
    "garbage": (Answer(body="<html>oops</html>"), "malformed_reply", 2),
    "no choice": (Answer(body={"choices": []}), "empty_choice", 2),
    "refusal": (chat(None, finish_reason="content_filter"), "refusal", 1),
    "400": (Answer(status=400, body={"error": {"message": "no"}}), "bad_request", 1),
    "reset": (Answer(ending="reset"), "connection", 2),
}
"""What the server does with one question -> the failure that is recorded, and how often it was asked."""


@pytest.mark.parametrize(("answer", "code", "times"), BROKEN.values(), ids=BROKEN)
def test_a_broken_answer_is_a_failure_and_never_a_score(
    tmp_path: Path, server: Server, answer: Answer, code: str, times: int
) -> None:
    asked: list[int] = []

    def decide(body: dict[str, Any]) -> Answer:
        asked.append(question_number(body))
        return answer if asked[-1] == 3 else chat(perfect(asked[-1]))

    server.answer_with(decide)
    evaluation = run(tmp_path, [model(server)])
    (done,) = evaluation.runs
    assert (done.status, done.n, done.n_failed, dict(done.failures)) == ("complete", 9, 1, {code: 1})
    assert done.estimates["corrected"]["exact_match"].value == 1.0
    assert (done.estimates["corrected"]["exact_match"].n, done.estimates["corrected"]["exact_match"].n_failed) == (8, 1)
    assert asked.count(3) == times
    assert evaluation.exit_code == 1
    assert texts(tmp_path)[3] is None
    server.answer_with(answers_with(perfect))
    again = run(tmp_path, [model(server)])
    assert (again.requests_sent, again.exit_code) == (0 if code == "refusal" else 1, int(code == "refusal"))


def test_a_hanging_server_ends_in_failures(tmp_path: Path, server: Server) -> None:
    server.script(Answer(ending="hang"))
    evaluation = run(tmp_path, [model(server)], timeout_s=0.05, limit=2, attempts=1)
    (done,) = evaluation.runs
    assert (done.status, dict(done.failures), evaluation.exit_code) == ("failed", {"timeout": 2}, 1)
    assert load_runs(open_store(tmp_path / "store")) == []


def test_a_model_whose_every_answer_is_empty_scores_zero(tmp_path: Path, server: Server) -> None:
    server.script(chat(""))
    (done,) = run(tmp_path, [model(server)]).runs
    assert (done.status, done.n_failed, done.estimates["corrected"]["exact_match"].value) == ("complete", 0, 0.0)
    assert texts(tmp_path) == [""] * 9


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer(status=401, body={"error": {"message": "bad key"}}), "bad key"),
        (Answer(status=404, body={"error": {"code": "model_not_found", "message": "no such model"}}), "no such model"),
    ],
    ids=["wrong key", "unknown model"],
)
def test_a_model_that_cannot_be_used_stops_at_once_and_lets_the_others_finish(
    tmp_path: Path, server: Server, answer: Answer, said: str
) -> None:
    server.answer_with(lambda body: answer if body.get("model") in ("bad", None) else chat("A"))
    benchmarks = [toy(tmp_path), toy(tmp_path, name="toy_two")]
    models = [model(server, "bad"), model(server, "good")]
    evaluation = run(tmp_path, models, *benchmarks, concurrency=1)
    status = {(r.benchmark, r.model.partition("@")[0]): r.status for r in evaluation.runs}
    assert status == {
        (name, f"openai/{kind}"): {"bad": "failed", "good": "complete"}[kind]
        for name in ("toy", "toy_two")
        for kind in ("bad", "good")
    }
    assert sum(body.get("model") == "bad" for body in server.bodies) == 1
    (message,) = evaluation.messages
    assert said in message
    assert evaluation.exit_code == 1


def test_a_server_that_is_not_there_is_given_up_soon(tmp_path: Path) -> None:
    (absent,) = named("openai/mock@http://127.0.0.1:9/v1")
    evaluation = run(tmp_path, [absent, *named("baseline/majority")], attempts=1)
    assert [r.status for r in evaluation.runs] == ["failed", "complete"]
    assert "127.0.0.1:9" in evaluation.messages[0]


def test_the_budget_is_not_passed_and_a_stopped_run_goes_on_where_it_was(tmp_path: Path, server: Server) -> None:
    server.answer_with(answers_with(perfect))
    limit_usd = 10.0 + MOST_USD
    benchmark = toy(tmp_path, n=50)
    evaluation = run(tmp_path, [model(server, price=PRICED)], benchmark, max_cost_usd=limit_usd, concurrency=4)
    assert 10 <= evaluation.cost_usd <= 20
    assert server.count == evaluation.cost_usd
    (done,) = evaluation.runs
    assert (done.status, evaluation.stopped, evaluation.exit_code) == ("partial", "budget", 3)
    assert len(texts(tmp_path)) == server.count
    assert (done.n_failed, done.n_not_asked) == (50 - server.count, 50 - server.count)
    (done,) = run(tmp_path, [model(server, price=PRICED)], benchmark).runs
    assert (done.status, server.count, done.cost_usd) == ("complete", 50, 50.0)


def test_failures_are_counted_apart_from_what_was_never_asked(tmp_path: Path, server: Server) -> None:
    server.answer_with(lambda body: Answer(status=400) if question_number(body) == 0 else chat("A"))
    benchmark = toy(tmp_path, n=20)
    (done,) = run(tmp_path, [model(server, price=PRICED)], benchmark, max_cost_usd=3.0 + MOST_USD, concurrency=1).runs
    assert (done.status, dict(done.failures), done.n_failed) == ("partial", {"bad_request": 1}, done.n_not_asked + 1)
    assert done.n_not_asked >= 10


def test_retries_and_equal_requests_are_counted(tmp_path: Path, server: Server) -> None:
    busy = iter([Answer(status=503)])
    server.answer_with(lambda body: next(busy, chat("A")))
    place = make_benchmark(tmp_path, n=3)
    lines = (place / "rows.jsonl").read_text(encoding="utf-8").splitlines()
    again = json.dumps({**json.loads(lines[0]), "id": "again"})
    (place / "rows.jsonl").write_text("\n".join([*lines, again]) + "\n", encoding="utf-8")
    (benchmark,) = load_benchmarks([str(place)], metrics=METRICS)
    (first,) = run(tmp_path, [model(server)], benchmark).runs
    assert (first.requests_sent, first.requests_retried) == (4, 1)
    assert (first.requests_cached, first.requests_duplicate) == (1, 1)
    (second,) = run(tmp_path, [model(server)], benchmark).runs
    assert (second.requests_sent, second.requests_cached, second.requests_duplicate) == (0, 4, 1)


def test_a_complete_run_survives_a_repetition_that_is_stopped(tmp_path: Path, server: Server) -> None:
    server.answer_with(lambda body: Answer(status=400) if question_number(body) < 6 else chat("A"))
    benchmark = toy(tmp_path, n=20)
    run(tmp_path, [model(server, price=PRICED)], benchmark)
    before = load_runs(open_store(tmp_path / "store"))
    server.answer_with(answers_with(perfect))
    again = run(tmp_path, [model(server, price=PRICED)], benchmark, max_cost_usd=MOST_USD, concurrency=1)
    assert (again.runs[0].status, again.exit_code) == ("partial", 3)
    assert load_runs(open_store(tmp_path / "store")) == before
    assert before[0].status == "complete"


def test_a_budget_without_a_price_is_refused(tmp_path: Path, server: Server) -> None:
    with pytest.raises(UserError, match="needs the price"):
        run(tmp_path, [model(server)], max_cost_usd=1.0)
    assert server.count == 0


def test_two_runs_on_one_store_at_the_same_time_pay_once(tmp_path: Path, server: Server) -> None:
    server.answer_with(answers_with(perfect))
    server.hold()
    benchmark = toy(tmp_path)
    results: list[Evaluation] = []
    threads = [
        threading.Thread(target=lambda: results.append(run(tmp_path, [model(server)], benchmark, concurrency=3)))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    server.wait_for(3)
    server.release()
    for thread in threads:
        thread.join()
    assert server.count == 9
    assert [r.runs[0].status for r in results] == ["complete", "complete"]
    assert results[0].runs[0].estimates == results[1].runs[0].estimates


def test_who_waits_for_another_process_stops_waiting_when_the_budget_is_spent(tmp_path: Path, server: Server) -> None:
    server.answer_with(answers_with(perfect))
    (benchmark,), models = [toy(tmp_path)], [model(server, "a", price=PRICED), model(server, "b", price=PRICED)]
    store = create(tmp_path / "store")
    with FileLock(store.lock_file("toy", models[1].name)):
        evaluation = run(tmp_path, models, benchmark, max_cost_usd=MOST_USD, concurrency=1)
    (first, second) = evaluation.runs
    assert (first.status, second.status, second.requests_sent) == ("partial", "partial", 0)
    assert 0 < first.requests_sent < 9
    assert evaluation.exit_code == 3


def test_replayed_completions_are_scored_and_missing_ones_are_failures(tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    file.write_text(
        '{"benchmark": "toy", "instance_id": "q0", "completion": "A"}\n'
        '{"benchmark": "toy", "instance_id": "q1", "completion": ""}\n',
        encoding="utf-8",
    )
    (done,) = run(tmp_path, named(f"replay/{file}")).runs
    estimate = done.estimates["corrected"]["exact_match"]
    assert (estimate.value, estimate.n, estimate.n_failed, dict(done.failures)) == (0.5, 2, 7, {"no_replay": 7})


def test_all_missing_data_is_named_at_once_and_nothing_is_sent(tmp_path: Path, server: Server) -> None:
    benchmarks = [toy(tmp_path), toy(tmp_path, name="toy_two")]
    for name in ("toy", "toy_two"):
        (tmp_path / name / "rows.jsonl").unlink()
    with pytest.raises(MissingError, match=r"(?s)toy.*toy_two.*Nothing was sent"):
        run(tmp_path, [model(server)], *benchmarks)
    assert server.count == 0
    assert not (tmp_path / "store").exists()


def test_a_store_that_cannot_be_used_is_refused_before_anything_is_sent(tmp_path: Path, server: Server) -> None:
    (tmp_path / "store").write_text("a file", encoding="utf-8")
    with pytest.raises(StoreError, match="is a file"):
        run(tmp_path, [model(server)])
    assert server.count == 0


def test_a_model_without_its_key_is_refused(tmp_path: Path) -> None:
    (hosted,) = find_models(["openai/gpt-4o"], file=None, environment={})
    with pytest.raises(MissingError, match="OPENAI_API_KEY"):
        run(tmp_path, [hosted])


def test_a_notebook_can_evaluate(tmp_path: Path, server: Server) -> None:
    server.answer_with(answers_with(perfect))

    async def cell() -> Evaluation:
        return run(tmp_path, [model(server)])

    assert asyncio.run(cell()).runs[0].status == "complete"

    async def wrong() -> Evaluation:
        return run(tmp_path, named(f"replay/{tmp_path / 'absent.jsonl'}"))

    with pytest.raises(UserError, match="absent"):
        asyncio.run(wrong())


def test_a_host_that_is_not_allowed_stops_everything_before_anything_is_sent(tmp_path: Path, server: Server) -> None:
    environment = {"OPENAI_API_KEY": "sk-test"}
    (hosted,) = find_models(["openai/gpt-4o"], file=None, environment=environment)
    with pytest.raises(UserError, match="offline"):
        run(tmp_path, [model(server), hosted], environment=environment, offline=True)
    assert server.count == 0


def test_scores_of_a_whole_run_are_kept_at_its_end(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_scores, "LEAST_AT_END", 1)
    monkeypatch.setattr("medhelm.storage.run_scores.LEAST_RECORDS", 1)
    server.answer_with(answers_with(lambda n: perfect(n) if n else "C"))
    run(tmp_path, [model(server)], shard=Shard(index=1, count=2))
    assert not (tmp_path / "store" / "derived").exists(), "the scores of a shard count only once it is merged"
    (done,) = run(tmp_path, [model(server)]).runs
    monkeypatch.setattr(run_scores, "_read_records", lambda *_: pytest.fail("the records were read"))
    ((_, scores),) = run_scores.read_all([done], "corrected")
    assert scores.values.tolist() == [0.0] + [1.0] * 8


def test_text_that_waits_for_its_turn_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "MAXIMUM_LOADED_CHARACTERS", 100)
    benchmarks = [toy(tmp_path), toy(tmp_path, name="toy_two", n=30)]
    evaluation = run(tmp_path, named("baseline/majority", "baseline/random"), *benchmarks)
    assert [(r.benchmark, r.model, r.n) for r in evaluation.runs] == [
        *(("toy", f"baseline/{name}", 9) for name in ("majority", "random")),
        *(("toy_two", f"baseline/{name}", 30) for name in ("majority", "random")),
    ]


def test_odd_text_goes_all_the_way_and_comes_back(tmp_path: Path, server: Server) -> None:
    folder = make_benchmark(tmp_path, n=1)
    odd = "number 0? \\u0000 \\u001b[31m 😀 {question} {options} " + "x" * 1_000_000
    (folder / "rows.jsonl").write_text(
        f'{{"id": "q0", "question": "{odd}", "answer": "A", "topic": "t"}}\n', encoding="utf-8"
    )
    reply = "A\n\ud83d lone \u0000 😀"
    server.script(chat(reply))
    (benchmark,) = load_benchmarks([str(folder)], metrics=METRICS)
    (done,) = run(tmp_path, [model(server)], benchmark).runs
    assert done.status == "complete"
    assert "\x00 \x1b[31m 😀 {question} {options} xxx" in server.bodies[0]["messages"][0]["content"]
    (text,) = texts(tmp_path)
    assert text is not None
    assert "lone \x00 😀" in text
