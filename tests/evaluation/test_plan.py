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

from medhelm.analysis.planned_cost import CostPlan, PlanRow
from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.domain import Benchmark, Jury, Model, Price
from medhelm.errors import StoreError, UserError
from medhelm.evaluation.plan import make_plan
from medhelm.evaluation.python_api import evaluate
from medhelm.evaluation.session import EvaluationSetup
from medhelm.evaluation.settings import Evaluation, Settings
from medhelm.models.price_book import read_price_books
from medhelm.scoring.metrics import METRIC_NAMES
from tests.support.benchmarks.choice import chat, make_benchmark
from tests.support.benchmarks.judged import DEFINITION, JUDGES, court, is_judge, mock, open_benchmark
from tests.support.servers.openai import Answer, Server

N = 6
PRICE = Price(input=2.0, output=8.0, source="models.yaml")
LIMIT = 50
"""Of the judged benchmark."""
JUDGE_LIMIT = 4096


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


def priced(server: Server, name: str = "mock", **settings: Any) -> Model:
    return replace(mock(server, name), price=PRICE, **settings)


def jury(server: Server, *names: str) -> Jury:
    judges = tuple(priced(server, name) for name in names or JUDGES[:2])
    return Jury(judges=judges, min_judges=min(2, len(judges)))


def closed(folder: Path, **settings: Any) -> Benchmark:
    (found,) = load_benchmarks([str(make_benchmark(folder, **settings))], metrics=METRIC_NAMES)
    return found


def plan(tmp_path: Path, benchmarks: list[Benchmark], models: list[Model], **settings: Any) -> CostPlan:
    chosen = {key: settings.pop(key) for key in ("jury", "books") if key in settings}
    place = {key: settings.pop(key) for key in ("data", "environment") if key in settings}
    setup = EvaluationSetup(store=tmp_path / "store", settings=Settings(**settings), **place)
    return make_plan(benchmarks, models, setup, **chosen)


def run(tmp_path: Path, *args: Any, **settings: Any) -> Evaluation:
    chosen = {"jury": settings.pop("jury")} if "jury" in settings else {}
    return evaluate(*args, store=tmp_path / "store", settings=Settings(attempts=1, **settings), **chosen)


def row_of(plan: CostPlan, role: str = "model") -> PlanRow:
    (found,) = [row for row in plan.rows if row.role == role]
    return found


def to_send(plan: CostPlan) -> int:
    return sum(row.requests - row.cached for row in plan.rows)


# --- nothing is known yet ---------------------------------------------------------------------------------------------


def test_nothing_is_sent_and_no_store_is_made(tmp_path: Path, counting: Server) -> None:
    plan(tmp_path, [open_benchmark(tmp_path, n=N)], [priced(counting)], jury=jury(counting))
    assert counting.count == 0
    assert not (tmp_path / "store").exists()


def test_a_closed_benchmark_by_rule_of_thumb(tmp_path: Path, counting: Server) -> None:
    benchmark, model = closed(tmp_path, n=N), priced(counting)
    found = plan(tmp_path, [benchmark], [model])
    row = row_of(found)
    run(tmp_path, [benchmark], [model])
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
    found = plan(tmp_path, [benchmark], [model], jury=jury(counting))
    row = row_of(found)
    assert row.output_tokens is not None
    # "The answer to number 3 is 3.": 28 characters, 7 tokens and one to stop.
    assert (row.output_tokens.expected, row.output_tokens.max) == (8 * N, LIMIT * N)
    assert row.output_basis == "the length of the references"
    judges = [row for row in found.rows if row.role == "judge"]
    run(tmp_path, [benchmark], [model], jury=jury(counting))
    asked = [body for body in counting.bodies if body["model"] == "judge-1"]
    answers = sum(len(f"An answer to number {n}") for n in range(N))
    expected = (sum(map(characters, asked)) - answers) / 4 + 8 * N
    for judge in judges:
        assert (judge.requests, judge.cached, judge.input_tokens) == (N, 0, round(expected))
        assert judge.output_tokens is not None
        assert judge.output_tokens.expected == 180 * N  # 60 for each of three criteria
        assert judge.output_tokens.max == 2 * JUDGE_LIMIT * N  # every reply may have to be asked for again


# --- what earlier runs tell -------------------------------------------------------------------------------------------


def test_an_earlier_run_tells_lengths_and_what_is_bought_already(tmp_path: Path, counting: Server) -> None:
    benchmark, model = open_benchmark(tmp_path, n=N), priced(counting)
    run(tmp_path, [benchmark], [model], jury=jury(counting), limit=2)
    before = counting.count
    found = plan(tmp_path, [benchmark], [model], jury=jury(counting))
    assert [(row.requests, row.cached) for row in found.rows] == [(N, 2)] * 3
    assert {row.input_basis for row in found.rows if row.role == "model"} == {"its own run of this benchmark"}
    assert {row.output_basis for row in found.rows if row.role == "judge"} == {"its own judgments on this benchmark"}
    assert counting.count == before
    done = run(tmp_path, [benchmark], [model], jury=jury(counting))
    assert counting.count - before == to_send(found) == 12
    assert found.expected.usd == pytest.approx(done.cost_usd, rel=0.03)
    assert (found.most.usd or 0) >= done.cost_usd
    again = plan(tmp_path, [benchmark], [model], jury=jury(counting))
    assert (to_send(again), again.expected.usd, again.most.usd) == (0, 0.0, 0.0)
    assert all(row.input_tokens == 0 for row in again.rows)


# --- what is bought already, to the request ---------------------------------------------------------------------------


def test_second_tries_of_judges_are_known_one_by_one(tmp_path: Path, server: Server) -> None:
    def judging(judge: str, _: int, body: Mapping[str, Any]) -> str | None:
        first = len(body["messages"]) == 1
        return "I would rather not say." if first and judge == "judge-1" else None

    script = court(judging)
    server.answer_with(lambda body: counted(script(body), body))
    benchmark, model = open_benchmark(tmp_path, n=N), priced(server)
    run(tmp_path, [benchmark], [model], jury=jury(server))
    assert server.count == 4 * N
    found = plan(tmp_path, [benchmark], [model], jury=jury(server))
    assert [(row.requests, row.cached) for row in found.rows] == [(N, N), (2 * N, 2 * N), (N, N)]
    forget(tmp_path, "judge-1", "completeness", 3)
    found = plan(tmp_path, [benchmark], [model], jury=jury(server))
    assert to_send(found) == 3
    before = server.count
    done = run(tmp_path, [benchmark], [model], jury=jury(server))
    assert server.count - before == 3
    assert (found.expected.usd or 0) == pytest.approx(done.cost_usd, rel=0.1)
    # Every reply of this judge had to be asked for again: so it is expected of a new model.
    other = priced(server, "other")
    script = court(judging, answering=lambda n: f"Another answer to number {n}")
    server.answer_with(lambda body: counted(script(body), body))
    fresh = plan(tmp_path, [benchmark], [other], jury=jury(server))
    before = server.count
    done = run(tmp_path, [benchmark], [other], jury=jury(server))
    assert (to_send(fresh), server.count - before) == (3 * N, 4 * N)
    assert (fresh.expected.usd or 0) == pytest.approx(done.cost_usd, rel=0.1)
    assert (fresh.most.usd or 0) > done.cost_usd


def forget(tmp_path: Path, judge: str, word: str, n: int) -> None:
    """Take replies of a judge that hold a word out of the cache."""
    with closing(sqlite3.connect(tmp_path / "store" / "cache.sqlite")) as connection:
        condition = "model LIKE ? AND text LIKE ?"
        query = f"DELETE FROM completions WHERE digest IN (SELECT digest FROM completions WHERE {condition} LIMIT ?)"
        removed = connection.execute(query, (f"%{judge}%", f"%{word}%", n)).rowcount
        connection.commit()
    assert removed == n


def test_blank_and_failed_completions_are_shown_to_nobody(tmp_path: Path, server: Server) -> None:
    script = court(answering=lambda n: " " if n < 2 else f"An answer to number {n}")
    server.answer_with(lambda body: counted(script(body), body))
    benchmark, model = open_benchmark(tmp_path, n=N), priced(server)
    run(tmp_path, [benchmark], [model], jury=jury(server))
    found = plan(tmp_path, [benchmark], [model], jury=jury(server, *JUDGES))
    assert [(row.requests, row.cached) for row in found.rows] == [(N, N), (4, 4), (4, 4), (4, 0)]


def test_answers_without_a_service_are_known_and_so_are_their_judges_prompts(tmp_path: Path, counting: Server) -> None:
    benchmark = open_benchmark(tmp_path, n=N)
    replay = tmp_path / "old.jsonl"
    lines = [{"benchmark": "letters", "instance_id": f"q{n}", "completion": f"Answer {n}"} for n in range(4)]
    replay.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    models = [
        Model(name="baseline/majority", provider="baseline", remote_name="majority"),
        Model(name="replay/old.jsonl", provider="replay", remote_name=str(replay)),
    ]
    found = plan(tmp_path, [benchmark], models, jury=jury(counting))
    assert [(row.requests, row.cached) for row in found.rows] == [(0, 0), (0, 0), (N + 4, 0), (N + 4, 0)]
    assert [row.cost_usd.max for row in found.rows[:2] if row.cost_usd] == [0.0, 0.0]
    run(tmp_path, [benchmark], models, jury=jury(counting))
    assert counting.count == to_send(found)
    sent = sum(characters(body) for body in counting.bodies if body["model"] == "judge-1")
    assert found.rows[2].input_tokens == round(sent / 4)
    assert to_send(plan(tmp_path, [benchmark], models, jury=jury(counting))) == 0


def test_equal_questions_are_sent_once(tmp_path: Path, counting: Server) -> None:
    place = make_benchmark(tmp_path, n=3)
    lines = (place / "rows.jsonl").read_text(encoding="utf-8").splitlines()
    again = json.dumps({**json.loads(lines[0]), "id": "again"})
    (place / "rows.jsonl").write_text("\n".join([*lines, again]) + "\n", encoding="utf-8")
    (benchmark,) = load_benchmarks([str(place)], metrics=METRIC_NAMES)
    found = row_of(plan(tmp_path, [benchmark], [priced(counting)]))
    run(tmp_path, [benchmark], [priced(counting)])
    assert (found.requests, found.cached, found.duplicate) == (4, 1, 1)
    assert counting.count == 3
    found = row_of(plan(tmp_path, [benchmark], [priced(counting)]))
    assert (found.requests, found.cached, found.duplicate) == (4, 4, 0)


def test_without_judges_free_text_has_no_judges_rows(tmp_path: Path, counting: Server) -> None:
    only_judged = open_benchmark(tmp_path / "other", definition=DEFINITION.replace("[jury, rouge_l]", "[jury]"))
    with pytest.raises(UserError, match="letters can only be scored by judges: name some with --judge"):
        plan(tmp_path, [only_judged], [priced(counting)])
    found = plan(tmp_path, [open_benchmark(tmp_path, n=N)], [priced(counting)])
    assert [row.role for row in found.rows] == ["model"]
    assert "1 free-text benchmark would be scored by ROUGE-L instead" in found.warnings[0]


def test_a_rubric_in_points_asks_for_each_criterion(tmp_path: Path, server: Server) -> None:
    definition = DEFINITION.partition("  criteria:")[0] + (
        "  form: points\n  criteria:\n"
        "    right: {description: It is right., points: 5}\n    rude: {description: It is rude., points: -3}\n"
    )
    benchmark = open_benchmark(tmp_path, n=N, definition=definition)
    answer = json.dumps({"criteria_met": True, "explanation": "so"})
    server.answer_with(lambda body: counted(chat(answer if is_judge(body) else "Fine."), body))
    found = plan(tmp_path, [benchmark], [priced(server)], jury=jury(server))
    assert [row.requests for row in found.rows] == [N, 2 * N, 2 * N]
    run(tmp_path, [benchmark], [priced(server)], jury=jury(server))
    assert server.count == to_send(found)
    assert to_send(plan(tmp_path, [benchmark], [priced(server)], jury=jury(server))) == 0


# --- what is missing, and what is not known ---------------------------------------------------------------------------


def test_missing_data_and_keys_are_said_and_nothing_fails(tmp_path: Path, counting: Server) -> None:
    (gated, private) = load_benchmarks(["mimic_rrs", "cdi_qa"], metrics=METRIC_NAMES)
    remote = Model(
        name="openai/gpt-4o",
        provider="openai",
        remote_name="gpt-4o",
        base_url="https://api.openai.com/v1",
        key_variable="OPENAI_API_KEY",
    )
    found = plan(tmp_path, [gated, private, closed(tmp_path, n=N)], [remote], jury=jury(counting), environment={})
    rows = {(row.benchmark, row.role): row for row in found.rows}
    assert set(rows) == {(b, "model") for b in ("mimic_rrs", "cdi_qa", "toy")} | {("mimic_rrs", "judge")}
    absent = rows["mimic_rrs", "model"]
    assert (absent.input_tokens, absent.output_tokens, absent.cost_usd) == (None, None, None)
    assert "the data was not found" in absent.missing[0]
    assert "OPENAI_API_KEY" in absent.missing[1]
    here = rows["toy", "model"]
    assert here.missing == ("openai/gpt-4o needs a key: set the environment variable OPENAI_API_KEY.",)
    assert here.cost_usd is not None
    assert here.cost_usd.expected > 0
    assert found.is_missing_something
    assert (found.expected.usd, found.expected.known_usd) == (None, here.cost_usd.expected)


def test_without_the_data_the_definition_says_how_many(tmp_path: Path, counting: Server) -> None:
    (benchmark,) = load_benchmarks(["ehrsql"], metrics=METRIC_NAMES)
    for limit, expected in ((None, 1000), (7, 7)):
        assert row_of(plan(tmp_path, [benchmark], [priced(counting)], limit=limit)).requests == expected
    assert row_of(plan(tmp_path, [benchmark], [priced(counting)], sample="all")).requests > 1000


def test_a_model_without_a_price(tmp_path: Path, counting: Server) -> None:
    benchmark, unpriced = closed(tmp_path, n=N), mock(counting, "nobody")
    found = plan(tmp_path, [benchmark], [priced(counting), unpriced], max_cost_usd=1.0)
    known, unknown = found.rows
    assert unknown.cost_usd is None
    assert known.cost_usd is not None
    assert (found.expected.usd, found.expected.known_usd) == (None, known.cost_usd.expected)
    assert f"the price of {unpriced.name} is unknown" in found.warnings[0]
    assert "would not start" in found.warnings[1]
    # Once everything is bought nothing costs anything, whatever it cost.
    run(tmp_path, [benchmark], [priced(counting), unpriced])
    again = plan(tmp_path, [benchmark], [priced(counting), unpriced])
    assert (again.expected.usd, again.warnings) == (0.0, ())


def test_prices_of_ones_own(tmp_path: Path, counting: Server) -> None:
    file = tmp_path / "ours.yaml"
    file.write_text("- {model: nobody, input: 0, output: 1000000}\n", encoding="utf-8")
    found = plan(tmp_path, [closed(tmp_path, n=N)], [mock(counting, "nobody")], books=read_price_books([str(file)]))
    assert (found.expected.usd, found.warnings) == (5.0 * N, ())


@pytest.mark.parametrize(
    ("limit", "words"), [(1e-5, "is too low"), (4e-4, "may be too low"), (10.0, None)], ids=["none", "perhaps", "all"]
)
def test_whether_a_limit_will_do(tmp_path: Path, counting: Server, limit: float, words: str | None) -> None:
    benchmark = open_benchmark(tmp_path, n=1)
    found = plan(tmp_path, [benchmark], [priced(counting)], max_cost_usd=limit)
    assert found.expected.usd == pytest.approx(8.2e-5, rel=0.2)
    assert found.most.usd == pytest.approx(4.1e-4, rel=0.1)
    said = [text for text in found.warnings if "--max-cost" in text]
    assert len(said) == (words is not None)
    assert all(words in text for text in said if words)


# --- the user's mistakes ----------------------------------------------------------------------------------------------


def test_data_that_is_not_what_it_should_be_is_named_at_once(tmp_path: Path, counting: Server) -> None:
    one, two = closed(tmp_path, name="one"), closed(tmp_path, name="two")
    for name in ("one", "two"):
        (tmp_path / name / "rows.jsonl").write_text("{", encoding="utf-8")
    with pytest.raises(UserError) as caught:
        plan(tmp_path, [one, two], [priced(counting)])
    assert all(name in str(caught.value) for name in ("one", "two", "Nothing was sent."))


def test_what_an_evaluation_refuses_is_refused_by_its_plan(tmp_path: Path, counting: Server) -> None:
    judged = open_benchmark(tmp_path, definition=DEFINITION.replace("[jury, rouge_l]", "[jury]"))
    with pytest.raises(UserError, match="letters can only be scored by judges: name some with --judge"):
        plan(tmp_path, [judged], [priced(counting)])
    remote = replace(priced(counting), base_url="https://api.openai.com/v1")
    with pytest.raises(UserError, match=r"api\.openai\.com may not be reached: offline"):
        plan(tmp_path, [closed(tmp_path)], [remote], offline=True)


def test_a_folder_that_is_no_store(tmp_path: Path, counting: Server) -> None:
    (tmp_path / "store").mkdir()
    assert to_send(plan(tmp_path, [closed(tmp_path)], [priced(counting)])) == 9
    (tmp_path / "store" / "thesis.docx").write_text("words", encoding="utf-8")
    with pytest.raises(StoreError):
        plan(tmp_path, [closed(tmp_path)], [priced(counting)])
    assert [file.name for file in (tmp_path / "store").iterdir()] == ["thesis.docx"]


def test_the_budget_counts_judges_and_a_plan_says_what_is_left(tmp_path: Path, counting: Server) -> None:
    benchmark, model = open_benchmark(tmp_path, n=30), replace(mock(counting), price=Price(input=0.0, output=0.0))
    done = run(tmp_path, [benchmark], [model], jury=jury(counting), max_cost_usd=0.08, concurrency=1)
    assert done.exit_code == 3
    assert 0 < done.cost_usd <= 0.08
    left = plan(tmp_path, [benchmark], [model], jury=jury(counting))
    assert 0 < to_send(left) < 3 * 30
    before = counting.count
    run(tmp_path, [benchmark], [model], jury=jury(counting))
    assert counting.count - before == to_send(left)
