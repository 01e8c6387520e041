"""From stores to a bill: every purchase once, whatever it was used for, and what is unknown is never free."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from datetime import date
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest

from medhelm.analysis.frontier import Bill, BillRow
from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.domain import Benchmark, Jury, Model, Origin, Price, Run
from medhelm.errors import StoreError, UserError
from medhelm.evaluation.python_api import evaluate
from medhelm.evaluation.rescore import rejudge
from medhelm.evaluation.session import EvaluationSetup
from medhelm.evaluation.settings import Evaluation, Settings
from medhelm.evaluation.stored_settings import JuryChange
from medhelm.results.cost import make_bill
from medhelm.results.options import Pricing
from medhelm.scoring.metrics import METRIC_NAMES
from medhelm.storage.damage import DamagedRunWarning
from medhelm.storage.runs import load_runs
from medhelm.storage.store import open_store, write_run
from tests.support.benchmarks.choice import chat, make_benchmark, perfect, question_number
from tests.support.benchmarks.choice import rows as toy_rows
from tests.support.benchmarks.judged import JUDGES, court, mock, open_benchmark
from tests.support.remarks import texts
from tests.support.servers.openai import Answer, Server
from tests.support.stores import make_store
from tests.support.values import present

N = 6
PRICES = {
    "mock": Price(input=2.0, output=8.0, cached_input=0.5, source="models.yaml"),
    "judge-1": Price(input=3.0, output=15.0, source="models.yaml"),
    "judge-2": Price(input=0.7, output=0.7, source="models.yaml"),
    "judge-3": Price(input=1.0, output=4.0, source="models.yaml"),
}
NOW = Pricing()


def with_usage(answer: Answer, body: Mapping[str, Any]) -> Answer:
    """Tokens that differ from request to request."""
    read = sum(len(message["content"]) for message in body["messages"])
    usage = {
        "prompt_tokens": read,
        "completion_tokens": 10 + read % 7,
        "prompt_tokens_details": {"cached_tokens": read // 3},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    assert isinstance(answer.body, dict)
    return Answer(body={**answer.body, "usage": usage})


@pytest.fixture
def counting(server: Server) -> Server:
    """A model and its judges, which report tokens."""
    script = court()
    server.answer_with(lambda body: with_usage(script(body), body))
    return server


def priced(server: Server, name: str) -> Model:
    return replace(mock(server, name), price=PRICES[name])


def jury(server: Server, *names: str) -> Jury:
    judges = tuple(priced(server, name) for name in names)
    return Jury(judges=judges, min_judges=min(2, len(judges)))


def judged(tmp_path: Path, server: Server, *judges: str, n: int = N, **settings: Any) -> Evaluation:
    return evaluate(
        [open_benchmark(tmp_path, n=n)],
        [priced(server, "mock")],
        store=tmp_path / "store",
        settings=Settings(attempts=1, **settings),
        jury=jury(server, *(judges or JUDGES[:2])),
    )


def closed(tmp_path: Path, *, name: str = "toy", n: int = N) -> Benchmark:
    (found,) = load_benchmarks([str(make_benchmark(tmp_path, name=name, n=n))], metrics=METRIC_NAMES)
    return found


def by_hand(server: Server, *, first: int = 0) -> float:
    """What the requests that the server saw cost, from their bodies alone."""
    dollars = 0.0
    for body in server.bodies[first:]:
        read = sum(len(message["content"]) for message in body["messages"])
        price, cached = PRICES[body["model"]], read // 3
        cached_price = price.input if price.cached_input is None else price.cached_input
        dollars += (read - cached) * price.input + cached * cached_price + (10 + read % 7) * price.output
    return dollars / 1e6


def bill(tmp_path: Path, *stores: str, **choices: Any) -> Bill:
    return make_bill([tmp_path / one for one in stores or ("store",)], choices.pop("pricing", NOW), **choices)


def money(row: BillRow) -> tuple[float | None, float | None]:
    """What making it again costs, and what was spent."""
    return row.bill.usd, row.spent.usd


def only_run(tmp_path: Path) -> Run:
    (run,) = load_runs(open_store(tmp_path / "store"))
    return run


def rewrite(run: Run, **changes: Any) -> None:
    """Store a run with other fields."""
    write_run(present(run.folder), replace(run, **changes))


def ask(tmp_path: Path, *models: Model, name: str = "toy", **more: Any) -> Evaluation:
    return evaluate([closed(tmp_path, name=name)], models, store=tmp_path / "store", **more)


def test_the_bill_is_tokens_times_prices_with_judges_apart(tmp_path: Path, counting: Server) -> None:
    done = judged(tmp_path, counting)
    expected = by_hand(counting)
    (run,) = done.runs
    assert done.cost_usd == pytest.approx(expected)
    found = bill(tmp_path)
    (row,) = found.rows
    assert money(row) == pytest.approx((expected, expected))
    assert row.models.usd == pytest.approx(run.cost_usd)
    assert row.judges.usd == pytest.approx(sum(tally.cost_usd or 0 for tally in run.tallies.values()))
    assert (row.runs, row.instances, row.requests, row.purchased) == (1, N, 3 * N, 3 * N)
    assert row.usage == sum((tally.usage for tally in run.tallies.values()), run.usage)
    assert row.usage.reasoning == 3 * 3 * N
    assert money(found.total) == money(row)
    (tmp_path / "store" / "cache.sqlite").unlink()
    assert bill(tmp_path) == found, "the runs hold all of it"


def test_rows_of_every_kind_add_up_to_the_total(tmp_path: Path, counting: Server) -> None:
    judged(tmp_path, counting)
    ask(tmp_path, priced(counting, "mock"))
    for by, n_rows in (("model", 1), ("benchmark", 2), ("judge", 3), ("run", 2)):
        found = bill(tmp_path, by=by)
        assert len(found.rows) == n_rows
        for part in ("models", "judges", "bill", "spent"):
            sums = [getattr(row, part).usd for row in found.rows]
            assert getattr(found.total, part).usd == pytest.approx(sum(sums)), part
        assert found.total.requests == sum(row.requests for row in found.rows) == 4 * N
        assert found.total.spent.usd == pytest.approx(by_hand(counting))


def test_completions_that_runs_share_were_bought_once(tmp_path: Path, counting: Server) -> None:
    """A judge is added, then everything is scored again without one: three runs, and no completion was bought twice."""
    first = judged(tmp_path, counting)
    benchmark, setup = open_benchmark(tmp_path, n=N), EvaluationSetup(store=tmp_path / "store")
    (new,) = jury(counting, "judge-3").judges
    second = rejudge([benchmark], JuryChange(judges=(new,)), setup)
    third = rejudge([benchmark], JuryChange(without=(new.name,), at_least=1), setup)
    assert [one.exit_code for one in (first, second, third)] == [0, 0, 0]
    spent = by_hand(counting)
    assert first.cost_usd + second.cost_usd == pytest.approx(spent)
    assert (third.cost_usd, counting.count) == (0.0, 4 * N)
    found = bill(tmp_path, by="run")
    assert found.total.spent.usd == pytest.approx(spent)
    assert (found.total.purchased, found.total.requests) == (4 * N, (3 + 4 + 3) * N)
    runs = load_runs(open_store(tmp_path / "store"))
    costs = [run.cost_usd or 0.0 for run in runs]
    costs += [tally.cost_usd or 0.0 for run in runs for tally in run.tallies.values()]
    assert found.total.bill.usd == pytest.approx(sum(costs))
    # Of runs that share a request the first is the buyer.
    assert sorted(row.purchased for row in found.rows) == [0, N, 3 * N]


def test_purchases_that_no_run_holds_are_read_from_the_cache(tmp_path: Path, counting: Server) -> None:
    """A run that was stopped by its budget, made whole afterwards, and then thrown away."""
    stopped = judged(tmp_path, counting, max_cost_usd=0.001, concurrency=1)
    assert stopped.exit_code == 3
    judged(tmp_path, counting)
    whole = bill(tmp_path)
    assert whole.total.spent.usd == pytest.approx(by_hand(counting))
    rmtree(tmp_path / "store" / "runs")
    models = {f"openai/{name}@{counting.url}/v1": priced(counting, name) for name in PRICES}
    found = bill(tmp_path, pricing=Pricing(find_model=models.get))
    (row,) = found.rows
    assert (row.of, row.runs, row.bill.usd, row.requests) == ("left_over", 0, 0.0, 0)
    assert row.purchased == counting.count
    assert row.spent.usd == pytest.approx(by_hand(counting))
    # Nobody knows how these names are reached now: what was spent is unknown, not 0.
    lost = bill(tmp_path)
    assert lost.total.spent.usd is None
    assert "No price is known for openai/judge-1" in texts(lost.remarks)[0]
    with closing(sqlite3.connect(tmp_path / "store" / "cache.sqlite")) as connection, connection:
        connection.execute("UPDATE completions SET input = 10 * input WHERE rowid IN (1, 2)")
    damaged = bill(tmp_path, pricing=Pricing(find_model=models.get))
    assert damaged.rows[0].purchased == counting.count - 2
    assert "2 completions are damaged (wrong checksum). No run holds them" in texts(damaged.remarks)[0]


def test_equal_questions_are_bought_once(tmp_path: Path, counting: Server) -> None:
    with (make_benchmark(tmp_path, n=3) / "rows.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(toy_rows(1)[0] | {"id": "again"}) + "\n")
    (benchmark,) = load_benchmarks([str(tmp_path / "toy")], metrics=METRIC_NAMES)
    done = evaluate([benchmark], [priced(counting, "mock")], store=tmp_path / "store")
    found = bill(tmp_path).total
    assert (found.requests, found.purchased, counting.count) == (4, 3, 3)
    assert found.spent.usd == pytest.approx(done.cost_usd) == pytest.approx(by_hand(counting))
    assert found.bill.usd == pytest.approx(done.runs[0].cost_usd)
    assert (found.bill.usd or 0) > (found.spent.usd or 0)


def test_stores_are_added_up_and_sample_rows_named(tmp_path: Path) -> None:
    for store in ("one", "two"):
        make_store(tmp_path / store, {"toy": {"openai/a": [1.0, 1.0]}})
    found = bill(tmp_path, "one", "two")
    assert [row.model for row in found.rows] == ["openai/a [one]", "openai/a [two]"]
    assert (found.total.instances, found.remarks) == (4, ())
    make_store(tmp_path / "one", {"toy": {"openai/a": [1.0]}}, tier="sample")
    found = bill(tmp_path, "one")
    assert found.total.instances == 3
    assert "1 of 2 runs is on invented sample rows: sums include them." in texts(found.remarks)


def test_answers_without_a_service_cost_nothing_and_their_judges_do(tmp_path: Path, counting: Server) -> None:
    baseline = Model(name="baseline/majority", provider="baseline", remote_name="majority")
    evaluate([open_benchmark(tmp_path, n=N)], [baseline], store=tmp_path / "store", jury=jury(counting, *JUDGES[:2]))
    found = bill(tmp_path)
    (row,) = found.rows
    assert row.models.usd == 0.0
    assert row.judges.usd == pytest.approx(found.total.bill.usd)
    assert row.purchased == counting.count == 2 * N
    assert found.update is None  # a baseline says nothing of what a model costs
    assert [one.of for one in bill(tmp_path, by="judge").rows] == ["runs", "runs", "tested"]


def test_a_model_without_a_price_is_not_free(tmp_path: Path, counting: Server) -> None:
    model, unpriced = priced(counting, "mock"), mock(counting, "nobody")
    ask(tmp_path, model, unpriced)
    found = bill(tmp_path)
    known, unknown = found.rows
    assert money(known) == pytest.approx((known.bill.known_usd, known.bill.known_usd))
    assert money(unknown) == (None, None)
    assert found.total.bill.usd is None
    assert found.total.bill.known_usd == pytest.approx(known.bill.usd)
    (said,) = texts(found.remarks)
    assert said.startswith(f"No price is known for {unpriced.name}: the cost is unknown, not 0.")
    worth = {one.model: one for one in found.cost_effectiveness}
    assert (worth[unpriced.name].per_win_point, worth[unpriced.name].is_efficient) == (None, False)
    assert worth[model.name].is_efficient


def test_tokens_that_nobody_reported_are_not_free(tmp_path: Path, server: Server) -> None:
    def decide(body: Mapping[str, Any]) -> Answer:
        answer = chat(perfect(question_number(body)))
        assert isinstance(answer.body, dict)
        return Answer(body=answer.body | {"usage": None})

    server.answer_with(decide)
    assert ask(tmp_path, priced(server, "mock")).runs[0].cost_usd is None
    found = bill(tmp_path)
    assert money(found.total) == (None, None)
    assert found.total.ceiling.usd is None
    assert "No token counts were reported by openai/mock" in texts(found.remarks)[0]
    assert "(6 completions)" in texts(found.remarks)[0]


def test_runs_of_another_harness_were_not_bought_here_and_their_judges_were(tmp_path: Path, counting: Server) -> None:
    judged(tmp_path, counting)
    run = only_run(tmp_path)
    origin = Origin(harness="helm", version="0.5", run="letters:model=m", sha256="0" * 64)
    rewrite(run, origin=origin)
    (tmp_path / "store" / "cache.sqlite").unlink()
    found = bill(tmp_path)
    assert found.total.bill.usd == pytest.approx(by_hand(counting))
    assert (found.total.requests, found.total.purchased) == (3 * N, 2 * N)
    assert found.total.spent.usd == pytest.approx(found.total.judges.usd)
    assert "1 imported run was made by other harnesses" in texts(found.remarks)[0]
    rewrite(run, origin=replace(origin, completions_made_here=True))
    assert bill(tmp_path).total.spent.usd == pytest.approx(by_hand(counting))


def test_prices_that_were_looked_up_are_looked_up_anew_for_another_day(tmp_path: Path, counting: Server) -> None:
    model = replace(mock(counting, "o3"), price=Price(input=2.0, output=8.0, source="genai-prices 0, of then"))
    ask(tmp_path, model)
    run = only_run(tmp_path)
    # As if it had been asked at its vendor: this server has no list of prices.
    rewrite(run, resolved_model=replace(present(run.resolved_model), base_url="https://api.openai.com/v1"))
    then, early = bill(tmp_path), bill(tmp_path, pricing=Pricing(day=date(2025, 5, 1)))
    assert then.prices == [(model.name, "genai-prices 0, of then")]
    assert "2025-05-01" in early.prices[0][1]
    usage = run.usage
    assert then.total.bill.usd == pytest.approx((usage.input * 2.0 + usage.output * 8.0) / 1e6)
    read = (usage.input - usage.cached_input) * 10.0 + usage.cached_input * 0.5  # as that list has it
    assert early.total.bill.usd == pytest.approx((read + usage.output * 40.0) / 1e6)


def test_the_ceiling_of_a_run_and_of_its_judges(tmp_path: Path, counting: Server) -> None:
    judged(tmp_path, counting)
    run = only_run(tmp_path)
    read, written = run.usage.input, N * 50
    first, second, tested = (
        round((read + written) * 3.0e-6, 2) + round(4096 * N * 15.0e-6, 2),
        round((read + written) * 0.7e-6, 2) + round(4096 * N * 0.7e-6, 2),
        round(read * 2.0e-6, 2) + round(written * 8.0e-6, 2),
    )
    assert [row.ceiling.usd for row in bill(tmp_path, by="judge").rows] == pytest.approx([first, second, tested])
    cells = read * 2.0e-6 + written * 8.0e-6 + (read + written) * (3.0 + 0.7) * 1e-6 + 4096 * N * (15.0 + 0.7) * 1e-6
    assert bill(tmp_path).total.ceiling.usd == pytest.approx(round(cells, 2))
    # Without a limit, or the tokens of prompts, there is no ceiling.
    unknown: list[dict[str, Any]] = [
        {"settings": {**run.settings, "max_tokens": None}},
        {"usage": replace(run.usage, input=0)},
    ]
    for changes in unknown:
        rewrite(run, **changes)
        assert bill(tmp_path).total.ceiling.usd is None


def test_dollars_per_point_and_the_next_update(tmp_path: Path, server: Server) -> None:
    def decide(body: Mapping[str, Any]) -> Answer:
        n = question_number(body)
        return with_usage(chat(perfect(n) if body["model"] == "good" or n % 2 else "C"), body)

    server.answer_with(decide)
    prices = {"good": 4.0, "poor": 1.0, "dear": 9.0}
    models = [replace(mock(server, name), price=Price(input=usd, output=usd)) for name, usd in prices.items()]
    done = evaluate([closed(tmp_path), closed(tmp_path, name="more", n=9)], models, store=tmp_path / "store")
    costs = {name: sum(run.cost_usd or 0 for run in done.runs if f"/{name}@" in run.model) for name in prices}
    suite = tmp_path / "suite.txt"
    suite.write_text("toy\nmore\npubmed_qa\n", encoding="utf-8")
    found = bill(tmp_path, suite=str(suite))
    worth = {one.model.removeprefix("openai/").partition("@")[0]: one for one in found.cost_effectiveness}
    good, poor = worth["good"], worth["poor"]
    assert (good.win_rate, good.macro_average, good.cost_usd) == pytest.approx((1.0, 1.0, costs["good"]))
    assert good.per_win_point == pytest.approx(costs["good"] / 100)
    assert poor.per_macro_point == pytest.approx(costs["poor"] / (100 * (3 / 6 + 4 / 9) / 2))
    assert (poor.per_instance, poor.per_benchmark) == pytest.approx((costs["poor"] / 15, costs["poor"] / 2))
    assert {one.benchmark: one.value for one in poor.benchmarks} == {"toy": 3 / 6, "more": 4 / 9}
    # The right answers of the better one are what its price buys; the dear one has no more of them.
    assert {name for name, one in worth.items() if one.is_efficient and one.on_frontier} == {"good", "poor"}
    (step,) = present(found.frontier).steps
    assert step.usd_per_1000 == pytest.approx(1000 * (costs["good"] - costs["poor"]) / 15)
    update = present(found.update)
    assert (update.n_models, set(update.benchmarks), update.unknown) == (3, {"toy", "more"}, ("pubmed_qa",))
    assert update.cost.expected == pytest.approx(costs["good"])
    assert (update.cost.low, update.cost.high) == pytest.approx((costs["poor"], costs["poor"] * 9))


def test_everything_that_cannot_be_read_is_named_at_once(tmp_path: Path) -> None:
    make_store(tmp_path / "store", {name: {"openai/a": [1.0]} for name in ("toy", "more", "third")})
    toy, more = (next((tmp_path / "store" / "runs" / name).iterdir()) for name in ("toy", "more"))
    (toy / "records.parquet").write_bytes(b"PAR1 not really")
    (more / "records.parquet").unlink()
    with pytest.warns(DamagedRunWarning) as told:
        assert bill(tmp_path).total.runs == 1
    assert all(any(str(folder) in str(one.message) for one in told) for folder in (toy, more))
    (toy / "run.json").write_text("{", encoding="utf-8")
    (more / "run.json").unlink()
    with pytest.warns(DamagedRunWarning) as told:
        assert bill(tmp_path).total.runs == 1
    assert all(any(words in str(one.message) for one in told) for words in ("json is damaged", "json is missing"))
    with pytest.warns(DamagedRunWarning), pytest.raises(StoreError, match="nowhere"):
        bill(tmp_path, "store", "nowhere")


def test_a_run_with_an_invalid_date_is_an_error_and_an_empty_store_has_no_bill(
    tmp_path: Path, counting: Server
) -> None:
    ask(tmp_path, priced(counting, "mock"))
    rewrite(only_run(tmp_path), started="yesterday")
    with pytest.raises(StoreError, match=r"`started` in run.json is not a time"):
        bill(tmp_path)
    rmtree(tmp_path / "store" / "runs")
    (tmp_path / "store" / "cache.sqlite").unlink()
    with pytest.raises(UserError, match="nothing was run"):
        bill(tmp_path)
