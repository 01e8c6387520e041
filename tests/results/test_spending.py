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
from medhelm.evaluation.settings import Evaluation, JuryChange, Settings
from medhelm.models.price_book import read_price_books
from medhelm.results.cost import make_bill
from medhelm.results.options import Pricing
from medhelm.results.spending import read_spending
from medhelm.scoring.metrics import METRIC_NAMES
from medhelm.storage.damage import DamagedRunWarning
from medhelm.storage.runs import load_runs
from medhelm.storage.store import open_store, write_run
from tests.support.benchmarks.choice import answers_with, make_benchmark, perfect
from tests.support.benchmarks.judged import JUDGES, court, mock, number, open_benchmark
from tests.support.remarks import texts
from tests.support.servers.openai import Answer, Server
from tests.support.stores import make_store

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


# --- one run ----------------------------------------------------------------------------------------------------------


def test_the_bill_is_tokens_times_prices_with_judges_apart(tmp_path: Path, counting: Server) -> None:
    done = judged(tmp_path, counting)
    expected = by_hand(counting)
    (run,) = done.runs
    assert done.cost_usd == pytest.approx(expected)
    found = bill(tmp_path)
    (row,) = found.rows
    assert money(row) == pytest.approx((expected, expected))
    assert row.models.usd == pytest.approx(run.cost_usd)
    assert run.jury_result is not None
    assert row.judges.usd == pytest.approx(sum(tally.cost_usd or 0 for tally in run.jury_result.tallies.values()))
    assert (row.runs, row.instances, row.requests, row.purchased) == (1, N, 3 * N, 3 * N)
    usages = [run.usage, *(tally.usage for tally in run.jury_result.tallies.values())]
    assert row.usage == sum(usages[1:], usages[0])
    assert row.usage.reasoning == 3 * 3 * N
    assert money(found.total) == money(row)


@pytest.mark.parametrize("by", ["model", "benchmark", "judge", "run"])
def test_rows_of_every_kind_add_up_to_the_total(tmp_path: Path, counting: Server, by: Any) -> None:
    judged(tmp_path, counting)
    evaluate([closed(tmp_path)], [priced(counting, "mock")], store=tmp_path / "store")
    found = bill(tmp_path, by=by)
    for part in ("models", "judges", "bill", "spent"):
        sums = [getattr(row, part).usd for row in found.rows]
        assert getattr(found.total, part).usd == pytest.approx(sum(sums)), part
    assert found.total.requests == sum(row.requests for row in found.rows) == 4 * N
    assert found.total.spent.usd == pytest.approx(by_hand(counting))
    named = [(row.model.partition("@")[0], row.benchmark, row.judge.partition("@")[0], row.of) for row in found.rows]
    assert (
        named
        == {
            "model": [("openai/mock", "", "", "runs")],
            "benchmark": [("", "letters", "", "runs"), ("", "toy", "", "runs")],
            "judge": [("", "", "openai/judge-1", "runs"), ("", "", "openai/judge-2", "runs"), ("", "", "", "tested")],
            "run": [("openai/mock", "letters", "", "runs"), ("openai/mock", "toy", "", "runs")],
        }[by]
    )


# --- every purchase once ----------------------------------------------------------------------------------------------


def test_completions_that_runs_share_were_bought_once(tmp_path: Path, counting: Server) -> None:
    """A judge is added, then everything is scored again without one: three runs, and no completion was bought twice."""
    first = judged(tmp_path, counting)
    benchmark = open_benchmark(tmp_path, n=N)
    (new,) = jury(counting, "judge-3").judges
    second = rejudge(
        [benchmark], JuryChange(judges=(new,)), EvaluationSetup(store=tmp_path / "store", settings=Settings(attempts=1))
    )
    third = rejudge([benchmark], JuryChange(without=(new.name,), at_least=1), EvaluationSetup(store=tmp_path / "store"))
    assert [one.exit_code for one in (first, second, third)] == [0, 0, 0]
    spent = by_hand(counting)
    assert first.cost_usd + second.cost_usd == pytest.approx(spent)
    assert (third.cost_usd, counting.count) == (0.0, 4 * N)
    found = bill(tmp_path, by="run")
    assert len(found.rows) == 3
    assert found.total.spent.usd == pytest.approx(spent)
    assert (found.total.purchased, found.total.requests) == (4 * N, (3 + 4 + 3) * N)
    alone = [sum(one.cost_usd or 0.0 for one in _costs(run)) for run in load_runs(open_store(tmp_path / "store"))]
    assert found.total.bill.usd == pytest.approx(sum(alone))
    # Of runs that share a request the first is the buyer.
    assert sorted(row.purchased for row in found.rows) == [0, N, 3 * N]


def _costs(run: Run) -> list[Any]:
    return [run, *(run.jury_result.tallies.values() if run.jury_result else ())]


def test_without_its_cache_a_store_has_the_same_bill(tmp_path: Path, counting: Server) -> None:
    judged(tmp_path, counting)
    before = bill(tmp_path)
    (tmp_path / "store" / "cache.sqlite").unlink()
    assert bill(tmp_path) == before


def test_purchases_that_no_run_holds_are_read_from_the_cache(tmp_path: Path, counting: Server) -> None:
    """A run that was stopped by its budget, made whole afterwards, and then thrown away."""
    stopped = judged(tmp_path, counting, max_cost_usd=0.001, concurrency=1)
    assert stopped.exit_code == 3
    judged(tmp_path, counting)
    whole = bill(tmp_path)
    assert whole.total.spent.usd == pytest.approx(by_hand(counting))
    for run in load_runs(open_store(tmp_path / "store")):
        assert run.folder is not None
        for file in run.folder.iterdir():
            file.unlink()
        run.folder.rmdir()
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
    place = make_benchmark(tmp_path, n=3)
    rows = (place / "rows.jsonl").read_text(encoding="utf-8").splitlines()
    again = json.dumps({**json.loads(rows[0]), "id": "again"})
    (place / "rows.jsonl").write_text("\n".join([*rows, again]) + "\n", encoding="utf-8")
    (benchmark,) = load_benchmarks([str(place)], metrics=METRIC_NAMES)
    done = evaluate([benchmark], [priced(counting, "mock")], store=tmp_path / "store")
    found = bill(tmp_path).total
    assert (found.requests, found.purchased, counting.count) == (4, 3, 3)
    assert found.spent.usd == pytest.approx(done.cost_usd) == pytest.approx(by_hand(counting))
    assert found.bill.usd == pytest.approx(done.runs[0].cost_usd)
    assert (found.bill.usd or 0) > (found.spent.usd or 0)


def test_stores_are_added_up(tmp_path: Path, counting: Server) -> None:
    for store in ("one", "two"):
        evaluate([closed(tmp_path)], [priced(counting, "mock")], store=tmp_path / store)
    found = bill(tmp_path, "one", "two")
    assert [row.model.partition("v1 ")[2] for row in found.rows] == ["[one]", "[two]"]
    assert found.total.spent.usd == pytest.approx(by_hand(counting))


def test_runs_on_sample_rows_are_counted_and_named(tmp_path: Path) -> None:
    make_store(tmp_path / "store", {"toy": {"openai/a": [1.0, 1.0], "openai/b": [1.0]}})
    assert bill(tmp_path).remarks == ()
    make_store(tmp_path / "store", {"toy": {"openai/a": [1.0]}}, tier="sample")
    found = bill(tmp_path)
    assert found.total.instances == 4
    assert "1 of 3 runs is on invented sample rows: sums include them." in texts(found.remarks)


def test_answers_without_a_service_cost_nothing_and_their_judges_do(tmp_path: Path, counting: Server) -> None:
    baseline = Model(name="baseline/majority", provider="baseline", remote_name="majority")
    evaluate(
        [open_benchmark(tmp_path, n=N)], [baseline], store=tmp_path / "store", jury=jury(counting, "judge-1", "judge-2")
    )
    found = bill(tmp_path)
    (row,) = found.rows
    assert row.models.usd == 0.0
    assert row.judges.usd == pytest.approx(found.total.bill.usd)
    assert row.purchased == counting.count == 2 * N
    assert found.update is None  # a baseline says nothing of what a model costs


# --- what is not known ------------------------------------------------------------------------------------------------


def test_a_model_without_a_price_is_not_free(tmp_path: Path, counting: Server) -> None:
    unpriced = mock(counting, "nobody")
    models = [priced(counting, "mock"), unpriced]
    evaluate([closed(tmp_path)], models, store=tmp_path / "store")
    found = bill(tmp_path)
    known, unknown = found.rows
    assert money(known) == pytest.approx((known.bill.known_usd, known.bill.known_usd))
    assert money(unknown) == (None, None)
    assert found.total.bill.usd is None
    assert found.total.bill.known_usd == pytest.approx(known.bill.usd)
    assert texts(found.remarks) == (
        f"No price is known for {unpriced.name}: the cost is unknown, not 0. Give the price with --prices FILE, or as "
        "`price` in models.yaml.",
    )
    worth = {one.model: one for one in found.cost_effectiveness}
    assert worth[unpriced.name].per_win_point is None
    assert not worth[unpriced.name].is_efficient
    assert worth[models[0].name].is_efficient


def test_a_judge_without_a_price_leaves_the_models_own_cost_known(tmp_path: Path, counting: Server) -> None:
    evaluate(
        [open_benchmark(tmp_path, n=N)],
        [priced(counting, "mock")],
        store=tmp_path / "store",
        jury=Jury(judges=(priced(counting, "judge-1"), mock(counting, "judge-2"))),
    )
    found = bill(tmp_path)
    row = found.total
    assert row.models.usd is not None
    assert (row.judges.usd, row.judges.n_unknown, row.bill.usd, row.ceiling.usd) == (None, 1, None, None)
    assert row.judges.known_usd > 0
    by_judge = bill(tmp_path, by="judge").rows
    assert [one.judges.usd is None for one in by_judge] == [False, True, False]


def test_tokens_that_nobody_reported_are_not_free(tmp_path: Path, server: Server) -> None:
    def decide(body: Mapping[str, Any]) -> Answer:
        answer = answers_with(perfect)(dict(body))
        assert isinstance(answer.body, dict)
        return Answer(body={key: value for key, value in answer.body.items() if key != "usage"})

    server.answer_with(decide)
    done = evaluate([closed(tmp_path)], [priced(server, "mock")], store=tmp_path / "store")
    assert done.runs[0].cost_usd is None
    found = bill(tmp_path)
    assert money(found.total) == (None, None)
    assert found.total.ceiling.usd is None
    assert "No token counts were reported by openai/mock" in texts(found.remarks)[0]
    assert "(6 completions)" in texts(found.remarks)[0]


def test_runs_of_another_harness_were_not_bought_here(tmp_path: Path, counting: Server) -> None:
    evaluate([closed(tmp_path)], [priced(counting, "mock")], store=tmp_path / "store")
    (run,) = load_runs(open_store(tmp_path / "store"))
    assert run.folder is not None
    origin = Origin(harness="helm", version="0.5", run="toy:model=m", sha256="0" * 64)
    write_run(run.folder, replace(run, origin=origin))
    (tmp_path / "store" / "cache.sqlite").unlink()
    found = bill(tmp_path)
    assert found.total.bill.usd == pytest.approx(by_hand(counting))
    assert found.total.spent.usd == 0.0
    assert (found.total.requests, found.total.purchased) == (N, 0)
    assert "1 imported run was made by other harnesses" in texts(found.remarks)[0]


def test_judges_of_such_a_run_were_bought_here(tmp_path: Path, counting: Server) -> None:
    judged(tmp_path, counting)
    (run,) = load_runs(open_store(tmp_path / "store"))
    assert run.folder is not None
    origin = Origin(harness="helm", version="0.5", run="letters:model=m", sha256="0" * 64)
    write_run(run.folder, replace(run, origin=origin))
    (tmp_path / "store" / "cache.sqlite").unlink()
    total = bill(tmp_path).total
    assert total.purchased == 2 * N
    assert total.spent.usd == pytest.approx(total.judges.usd)
    write_run(run.folder, replace(run, origin=replace(origin, completions_made_here=True)))
    assert bill(tmp_path).total.spent.usd == pytest.approx(by_hand(counting))


# --- other prices -----------------------------------------------------------------------------------------------------


def test_another_book_and_another_day(tmp_path: Path, counting: Server) -> None:
    judged(tmp_path, counting)
    file = tmp_path / "ours.yaml"
    file.write_text(
        "- {model: mock, input: 100, output: 0, cached_input: 0, until: 2025-12-31}\n"
        "- {model: mock, input: 0, output: 1000, from: 2026-01-01}\n",
        encoding="utf-8",
    )
    books = read_price_books([str(file)])
    usage = load_runs(open_store(tmp_path / "store"))[0].usage
    judges = bill(tmp_path).total.judges.usd
    for day, dollars in (
        (date(2025, 6, 1), 100e-6 * (usage.input - usage.cached_input)),
        (date(2026, 6, 1), 1000e-6 * usage.output),
        (None, 1000e-6 * usage.output),
    ):
        total = bill(tmp_path, pricing=Pricing(books=books, day=day)).total
        assert total.models.usd == pytest.approx(dollars)
        assert total.judges.usd == pytest.approx(judges)  # the book does not know them: as before


def test_prices_that_were_looked_up_are_looked_up_anew_for_another_day(tmp_path: Path, counting: Server) -> None:
    model = replace(mock(counting, "o3"), price=Price(input=2.0, output=8.0, source="genai-prices 0, of then"))
    evaluate([closed(tmp_path)], [model], store=tmp_path / "store")
    (run,) = load_runs(open_store(tmp_path / "store"))
    assert run.folder is not None
    assert run.resolved_model is not None
    # As if it had been asked at its vendor: this server has no list of prices.
    write_run(
        run.folder, replace(run, resolved_model=replace(run.resolved_model, base_url="https://api.openai.com/v1"))
    )
    then = bill(tmp_path)
    assert then.prices == [(model.name, "genai-prices 0, of then")]
    early = bill(tmp_path, pricing=Pricing(day=date(2025, 5, 1)))
    assert "2025-05-01" in early.prices[0][1]
    usage = run.usage
    assert then.total.bill.usd == pytest.approx((usage.input * 2.0 + usage.output * 8.0) / 1e6)
    read = (usage.input - usage.cached_input) * 10.0 + usage.cached_input * 0.5  # as that list has it
    assert early.total.bill.usd == pytest.approx((read + usage.output * 40.0) / 1e6)


# --- the published rule -----------------------------------------------------------------------------------------------


def test_the_ceiling_of_a_run_and_of_its_judges(tmp_path: Path, counting: Server) -> None:
    judged(tmp_path, counting)
    (run,) = load_runs(open_store(tmp_path / "store"))
    read, written = run.usage.input, N * 50
    cells = [
        read * 2.0e-6,
        written * 8.0e-6,
        (read + written) * (3.0 + 0.7) * 1e-6,
        4096 * N * (15.0 + 0.7) * 1e-6,
    ]
    found = bill(tmp_path)
    assert found.total.ceiling.usd == pytest.approx(round(sum(cells), 2))
    own = [row.ceiling.usd for row in bill(tmp_path, by="judge").rows]
    assert own == pytest.approx(
        [
            round((read + written) * 3.0e-6, 2) + round(4096 * N * 15.0e-6, 2),
            round((read + written) * 0.7e-6, 2) + round(4096 * N * 0.7e-6, 2),
            round(cells[0], 2) + round(cells[1], 2),
        ]
    )


def test_without_a_limit_or_the_tokens_of_prompts_there_is_no_ceiling(tmp_path: Path, counting: Server) -> None:
    judged(tmp_path, counting)
    (run,) = load_runs(open_store(tmp_path / "store"))
    assert run.folder is not None
    write_run(run.folder, replace(run, settings={**run.settings, "max_tokens": None}))
    assert bill(tmp_path).total.ceiling.usd is None
    write_run(run.folder, replace(run, usage=replace(run.usage, input=0)))
    assert bill(tmp_path).total.ceiling.usd is None
    assert [row.ceiling.usd for row in bill(tmp_path, by="judge").rows] == [None, None, None]


# --- what the score costs ---------------------------------------------------------------------------------------------


def test_dollars_per_point_and_the_next_update(tmp_path: Path, server: Server) -> None:
    def decide(body: Mapping[str, Any]) -> Answer:
        n = number({"messages": [{"content": body["messages"][-1]["content"]}]})
        right = perfect(n) if body["model"] == "good" or n % 2 else "C"
        return with_usage(answers_with(lambda _: right)(dict(body)), body)

    server.answer_with(decide)
    good = replace(mock(server, "good"), price=Price(input=4.0, output=4.0))
    poor = replace(mock(server, "poor"), price=Price(input=1.0, output=1.0))
    dear = replace(mock(server, "dear"), price=Price(input=9.0, output=9.0))
    benchmarks = [closed(tmp_path), closed(tmp_path, name="more", n=9)]
    done = evaluate(benchmarks, [good, poor, dear], store=tmp_path / "store")
    costs = {name: sum(run.cost_usd or 0 for run in done.runs if f"/{name}@" in run.model) for name in ("good", "poor")}
    found = bill(tmp_path)
    worth = {one.model.removeprefix("openai/").partition("@")[0]: one for one in found.cost_effectiveness}
    assert worth["good"].win_rate == 1.0
    assert worth["good"].macro_average == 1.0
    assert worth["good"].cost_usd == pytest.approx(costs["good"])
    assert worth["good"].per_win_point == pytest.approx(costs["good"] / 100)
    assert worth["poor"].macro_average == pytest.approx((3 / 6 + 4 / 9) / 2)
    assert worth["poor"].per_macro_point == pytest.approx(costs["poor"] / (100 * (3 / 6 + 4 / 9) / 2))
    assert worth["poor"].per_instance == pytest.approx(costs["poor"] / 15)
    assert worth["poor"].per_benchmark == pytest.approx(costs["poor"] / 2)
    assert {name: one.is_efficient for name, one in worth.items()} == {"good": True, "poor": True, "dear": False}
    # The right answers of the better one are what its price buys; the dear one has no more of them.
    assert found.frontier is not None
    assert [step.usd_per_1000 for step in found.frontier.steps] == [
        pytest.approx(1000 * (costs["good"] - costs["poor"]) / 15)
    ]
    assert {name: one.on_frontier for name, one in worth.items()} == {"good": True, "poor": True, "dear": False}
    on = {one.benchmark: one for one in worth["poor"].benchmarks}
    assert (on["toy"].value, on["more"].value) == (3 / 6, 4 / 9)
    for run in done.runs:
        if "/poor@" in run.model:
            assert on[run.benchmark].cost_usd == pytest.approx(run.cost_usd)
            assert on[run.benchmark].per_point == pytest.approx(
                (run.cost_usd or 0) / (100 * (on[run.benchmark].value or 0))
            )
    update = found.update
    assert update is not None
    assert (update.n_models, set(update.benchmarks), update.unknown) == (3, {"toy", "more"}, ())
    assert update.cost.expected == pytest.approx(costs["good"])
    assert update.cost.low == pytest.approx(costs["poor"])
    assert update.cost.high == pytest.approx(costs["poor"] * 9)


def test_what_is_in_the_suite_and_was_never_run_is_named(tmp_path: Path, counting: Server) -> None:
    evaluate([closed(tmp_path)], [priced(counting, "mock")], store=tmp_path / "store")
    suite = tmp_path / "suite.txt"
    suite.write_text("toy\npubmed_qa\n", encoding="utf-8")
    update = bill(tmp_path, suite=str(suite)).update
    assert update is not None
    assert (update.benchmarks, update.unknown) == (("toy",), ("pubmed_qa",))
    with pytest.raises(UserError, match="neither `all`"):
        bill(tmp_path, suite="paper36")


# --- stores that are not whole ----------------------------------------------------------------------------------------


def test_everything_that_cannot_be_read_is_named_at_once(tmp_path: Path, counting: Server) -> None:
    evaluate(
        [closed(tmp_path), closed(tmp_path, name="more"), closed(tmp_path, name="third")],
        [priced(counting, "mock")],
        store=tmp_path / "store",
    )
    runs = {run.benchmark: run.folder for run in load_runs(open_store(tmp_path / "store"))}
    toy, more, third = (runs[name] or Path() for name in ("toy", "more", "third"))
    (toy / "records.parquet").unlink()
    (more / "records.parquet").unlink()
    with pytest.warns(DamagedRunWarning) as told:
        assert bill(tmp_path).total.runs == 1
    for folder in (toy, more):
        assert any(str(folder) in str(one.message) for one in told)
    for folder in (toy, more):
        (folder / "run.json").write_text("{", encoding="utf-8")
    with pytest.warns(DamagedRunWarning, match=r"run\.json is damaged"):
        assert bill(tmp_path).total.runs == 1
    with pytest.warns(DamagedRunWarning), pytest.raises(StoreError, match="nowhere"):
        bill(tmp_path, "store", "nowhere")
    for folder in (toy, more):
        (folder / "run.json").unlink()
    with pytest.warns(DamagedRunWarning, match=r"run\.json is missing"):
        assert bill(tmp_path).total.runs == 1
    for folder in (toy, more):
        rmtree(folder)
    assert bill(tmp_path).total.runs == 1
    (third / "records.parquet").write_bytes(b"PAR1 not really")
    with pytest.warns(DamagedRunWarning, match=r"records\.parquet is damaged"):
        assert bill(tmp_path).total.runs == 0


def test_an_empty_store_has_no_bill(tmp_path: Path, counting: Server) -> None:
    evaluate([closed(tmp_path)], [priced(counting, "mock")], store=tmp_path / "store")
    (tmp_path / "store" / "runs").rename(tmp_path / "elsewhere")
    (tmp_path / "store" / "cache.sqlite").unlink()
    with pytest.raises(UserError, match="nothing was run"):
        bill(tmp_path)


def test_a_run_with_an_invalid_date_is_an_error(tmp_path: Path, counting: Server) -> None:
    evaluate([closed(tmp_path)], [priced(counting, "mock")], store=tmp_path / "store")
    (run,) = load_runs(open_store(tmp_path / "store"))
    assert run.folder is not None
    write_run(run.folder, replace(run, started="yesterday"))
    with pytest.raises(StoreError, match=r"`started` in run.json is not a time"):
        read_spending([tmp_path / "store"], NOW)
