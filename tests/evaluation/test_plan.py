"""What an evaluation would send and cost, held against what it then sends and costs."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medhelm.analysis.planned_cost import CostPlan
from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.domain import Benchmark, Jury, Model, Price
from medhelm.evaluation.plan import make_plan
from medhelm.evaluation.python_api import evaluate
from medhelm.evaluation.session import EvaluationSetup
from medhelm.evaluation.settings import Evaluation, Settings
from medhelm.models.catalog import find_models
from medhelm.scoring.metrics import METRIC_NAMES
from tests.support.benchmarks.choice import chat, make_benchmark, rows
from tests.support.benchmarks.definitions import write_rows
from tests.support.benchmarks.judged import DEFINITION, JUDGES, court, is_judge, mock, open_benchmark
from tests.support.servers.openai import Answer, Server

N = 6
PRICE = Price(input=2.0, output=8.0, source="models.yaml")
LIMIT = 50
"""Of the judged benchmark."""


def characters(body: Mapping[str, Any]) -> int:
    return sum(len(message["content"]) for message in body["messages"])


def counted(answer: Answer, body: Mapping[str, Any], written: int = 20) -> Answer:
    """Half as many tokens as characters; every reply as long as every other."""
    assert isinstance(answer.body, dict)
    usage = {"prompt_tokens": characters(body) // 2, "completion_tokens": 30 if is_judge(body) else written}
    return Answer(body={**answer.body, "usage": usage})


@pytest.fixture
def counting(server: Server) -> Server:
    """A model and its judges, which report tokens."""
    script = court()
    server.answer_with(lambda body: counted(script(body), body))
    return server


def priced(server: Server, name: str = "mock") -> Model:
    return replace(mock(server, name), price=PRICE)


def jury(server: Server, *names: str) -> Jury:
    return Jury(judges=tuple(priced(server, name) for name in names or JUDGES[:2]), min_judges=2)


def closed(folder: Path, **settings: Any) -> Benchmark:
    (found,) = load_benchmarks([str(make_benchmark(folder, **settings))], metrics=METRIC_NAMES)
    return found


def plan(tmp_path: Path, benchmark: Benchmark, *models: Model, judges: Jury | None = None, **settings: Any) -> CostPlan:
    setup = EvaluationSetup(store=tmp_path / "store", settings=Settings(**settings))
    return make_plan([benchmark], models, setup, jury=judges)


def planned(*arguments: Any, **options: Any) -> list[tuple[int, int]]:
    """Requests of each row of a plan, and those that are bought already."""
    return [(row.requests, row.cached) for row in plan(*arguments, **options).rows]


def run(
    tmp_path: Path, benchmark: Benchmark, *models: Model, judges: Jury | None = None, **settings: Any
) -> Evaluation:
    chosen = Settings(attempts=1, **settings)
    return evaluate([benchmark], models, store=tmp_path / "store", settings=chosen, jury=judges)


def to_send(plan: CostPlan) -> int:
    return sum(row.requests - row.cached for row in plan.rows)


# --- nothing is known yet ---------------------------------------------------------------------------------------------


def test_a_closed_benchmark_by_rule_of_thumb(tmp_path: Path, counting: Server) -> None:
    benchmark, model = closed(tmp_path, n=N), priced(counting)
    found = plan(tmp_path, benchmark, model)
    (row,) = found.rows
    run(tmp_path, benchmark, model)
    sent = sum(map(characters, counting.bodies))
    assert (row.requests, row.cached, row.input_tokens) == (N, 0, round(sent / 4))
    assert row.output_tokens is not None
    assert (row.output_tokens.expected, row.output_tokens.max) == (5 * N, 5 * N)
    assert row.cost_usd is not None
    assert row.cost_usd.expected == pytest.approx((round(sent / 4) * 2.0 + 5 * N * 8.0) / 1e6)
    assert row.cost_usd.max == pytest.approx((round(sent / 3) * 2.0 + 5 * N * 8.0) / 1e6)
    assert (row.input_basis, row.output_basis) == ("4 characters per token", "the limit")
    assert (found.expected.usd, found.most.usd) == (row.cost_usd.expected, row.cost_usd.max)


def test_free_text_and_its_judges_by_rule_of_thumb(tmp_path: Path, counting: Server) -> None:
    benchmark, model = open_benchmark(tmp_path, n=N), priced(counting)
    row, *judges = plan(tmp_path, benchmark, model, judges=jury(counting)).rows
    assert row.output_tokens is not None
    # "The answer to number 3 is 3.": 28 characters, 7 tokens and one to stop.
    assert (row.output_tokens.expected, row.output_tokens.max) == (8 * N, LIMIT * N)
    assert row.output_basis == "the length of the references"
    run(tmp_path, benchmark, model, judges=jury(counting))
    asked = [body for body in counting.bodies if body["model"] == "judge-1"]
    answers = sum(len(f"An answer to number {n}") for n in range(N))
    expected = (sum(map(characters, asked)) - answers) / 4 + 8 * N
    for judge in judges:
        assert (judge.requests, judge.cached, judge.input_tokens) == (N, 0, round(expected))
        assert judge.output_tokens is not None
        assert judge.output_tokens.expected == 60 * 3 * N, "for each of three criteria"
        assert judge.output_tokens.max == 2 * 4096 * N, "every reply may have to be asked for again"


# --- what earlier runs tell -------------------------------------------------------------------------------------------


def test_an_earlier_run_tells_lengths_and_what_is_bought_already(tmp_path: Path, counting: Server) -> None:
    benchmark, model, judges = open_benchmark(tmp_path, n=N), priced(counting), jury(counting)
    run(tmp_path, benchmark, model, judges=judges, limit=2)
    before = counting.count
    found = plan(tmp_path, benchmark, model, judges=judges)
    assert [(row.requests, row.cached) for row in found.rows] == [(N, 2)] * 3
    assert {row.input_basis for row in found.rows if row.role == "model"} == {"its own run of this benchmark"}
    assert {row.output_basis for row in found.rows if row.role == "judge"} == {"its own judgments on this benchmark"}
    done = run(tmp_path, benchmark, model, judges=judges)
    assert counting.count - before == to_send(found) == 12
    assert found.expected.usd == pytest.approx(done.cost_usd, rel=0.03)
    assert (found.most.usd or 0) >= done.cost_usd
    again = plan(tmp_path, benchmark, model, judges=judges)
    assert (to_send(again), again.expected.usd, again.most.usd) == (0, 0.0, 0.0)
    assert all(row.input_tokens == 0 for row in again.rows)


def test_second_tries_of_judges_are_known_one_by_one(tmp_path: Path, server: Server) -> None:
    def judging(judge: str, _: int, body: Mapping[str, Any]) -> str | None:
        first = len(body["messages"]) == 1
        return "I would rather not say." if first and judge == "judge-1" else None

    script = court(judging)
    server.answer_with(lambda body: counted(script(body), body))
    benchmark, model, judges = open_benchmark(tmp_path, n=N), priced(server), jury(server)
    run(tmp_path, benchmark, model, judges=judges)
    assert server.count == 4 * N
    assert planned(tmp_path, benchmark, model, judges=judges) == [(N, N), (2 * N, 2 * N), (N, N)]
    with closing(sqlite3.connect(tmp_path / "store" / "cache.sqlite")) as connection, connection:
        of_judge = "SELECT digest FROM completions WHERE model LIKE '%judge-1%' AND text LIKE '%completeness%' LIMIT 3"
        connection.execute(f"DELETE FROM completions WHERE digest IN ({of_judge})")
    found = plan(tmp_path, benchmark, model, judges=judges)
    done = run(tmp_path, benchmark, model, judges=judges)
    assert (to_send(found), server.count) == (3, 4 * N + 3)
    assert (found.expected.usd or 0) == pytest.approx(done.cost_usd, rel=0.1)
    # Every reply of this judge had to be asked for again: so it is expected of a new model.
    other = priced(server, "other")
    script = court(judging, answering=lambda n: f"Another answer to number {n}")
    fresh = plan(tmp_path, benchmark, other, judges=judges)
    before = server.count
    done = run(tmp_path, benchmark, other, judges=judges)
    assert (to_send(fresh), server.count - before) == (3 * N, 4 * N)
    assert (fresh.expected.usd or 0) == pytest.approx(done.cost_usd, rel=0.1)
    assert (fresh.most.usd or 0) > done.cost_usd


def test_blank_completions_are_shown_to_nobody(tmp_path: Path, server: Server) -> None:
    script = court(answering=lambda n: " " if n < 2 else f"An answer to number {n}")
    server.answer_with(lambda body: counted(script(body), body))
    benchmark, model = open_benchmark(tmp_path, n=N), priced(server)
    run(tmp_path, benchmark, model, judges=jury(server))
    assert planned(tmp_path, benchmark, model, judges=jury(server, *JUDGES)) == [(N, N), (4, 4), (4, 4), (4, 0)]


def test_answers_without_a_service_are_known_and_so_are_their_judges_prompts(tmp_path: Path, counting: Server) -> None:
    benchmark, judges = open_benchmark(tmp_path, n=N), jury(counting)
    replay = tmp_path / "old.jsonl"
    write_rows(
        replay, [{"benchmark": "letters", "instance_id": f"q{n}", "completion": f"Answer {n}"} for n in range(4)]
    )
    models = find_models(["baseline/majority", f"replay/{replay}"], file=None, environment={})
    found = plan(tmp_path, benchmark, *models, judges=judges)
    assert [(row.requests, row.cached) for row in found.rows] == [(0, 0), (0, 0), (N + 4, 0), (N + 4, 0)]
    assert [row.cost_usd.max for row in found.rows[:2] if row.cost_usd] == [0.0, 0.0]
    run(tmp_path, benchmark, *models, judges=judges)
    assert counting.count == to_send(found)
    sent = sum(characters(body) for body in counting.bodies if body["model"] == "judge-1")
    judge = found.rows[2]
    assert judge.input_tokens == round(sent / 4)
    assert judge.output_tokens is not None
    assert judge.output_tokens.expected == 60 * 3 * (N + 4)
    assert to_send(plan(tmp_path, benchmark, *models, judges=judges)) == 0


def test_a_rubric_in_points_asks_for_each_criterion(tmp_path: Path, server: Server) -> None:
    definition = DEFINITION.partition("  criteria:")[0] + (
        "  form: points\n  criteria:\n"
        "    right: {description: It is right., points: 5}\n    rude: {description: It is rude., points: -3}\n"
    )
    benchmark, judges = open_benchmark(tmp_path, n=N, definition=definition), jury(server)
    answer = json.dumps({"criteria_met": True, "explanation": "so"})
    server.answer_with(lambda body: counted(chat(answer if is_judge(body) else "Fine."), body))
    assert planned(tmp_path, benchmark, priced(server), judges=judges) == [(N, 0), (2 * N, 0), (2 * N, 0)]
    run(tmp_path, benchmark, priced(server), judges=judges)
    assert server.count == 5 * N
    assert planned(tmp_path, benchmark, priced(server), judges=judges) == [(N, N), (2 * N, 2 * N), (2 * N, 2 * N)]


def test_equal_questions_are_sent_once(tmp_path: Path, counting: Server) -> None:
    benchmark, model = closed(tmp_path), priced(counting)
    write_rows(tmp_path / "toy" / "rows.jsonl", [*rows(3), rows(1)[0] | {"id": "again"}])
    assert planned(tmp_path, benchmark, model) == [(4, 1)]
    run(tmp_path, benchmark, model)
    assert (counting.count, planned(tmp_path, benchmark, model)) == (3, [(4, 4)])


def test_without_the_data_the_definition_says_how_many(tmp_path: Path, counting: Server) -> None:
    (benchmark,) = load_benchmarks(["ehrsql"], metrics=METRIC_NAMES)
    assert planned(tmp_path, benchmark, priced(counting)) == [(1000, 0)]
    assert planned(tmp_path, benchmark, priced(counting), limit=7) == [(7, 0)]


def test_nothing_costs_anything_once_it_is_bought_whatever_its_price(tmp_path: Path, counting: Server) -> None:
    benchmark, models = closed(tmp_path, n=N), [priced(counting), mock(counting, "nobody")]
    before = plan(tmp_path, benchmark, *models, max_cost_usd=1.0)
    known, unknown = before.rows
    assert unknown.cost_usd is None
    assert known.cost_usd is not None
    assert (before.expected.usd, before.expected.known_usd) == (None, known.cost_usd.expected)
    assert f"the price of {models[1].name} is unknown" in before.warnings[0]
    run(tmp_path, benchmark, *models)
    after = plan(tmp_path, benchmark, *models)
    assert (after.expected.usd, after.warnings) == (0.0, ())


def test_the_budget_counts_judges_and_a_plan_says_what_is_left(tmp_path: Path, counting: Server) -> None:
    benchmark, model = open_benchmark(tmp_path, n=30), replace(mock(counting), price=Price(input=0.0, output=0.0))
    done = run(tmp_path, benchmark, model, judges=jury(counting), max_cost_usd=0.08, concurrency=1)
    assert done.exit_code == 3
    assert 0 < done.cost_usd <= 0.08
    left = to_send(plan(tmp_path, benchmark, model, judges=jury(counting)))
    assert 0 < left < 3 * 30
    before = counting.count
    run(tmp_path, benchmark, model, judges=jury(counting))
    assert counting.count - before == left
