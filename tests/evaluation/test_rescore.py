"""New numbers from stored completions: judges added, replaced and left out, and metrics computed anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest

from medhelm.domain import Benchmark, Price, Run
from medhelm.errors import UserError
from medhelm.evaluation.python_api import evaluate
from medhelm.evaluation.rescore import rejudge
from medhelm.evaluation.session import EvaluationSetup
from medhelm.evaluation.settings import Evaluation, JuryChange, Settings
from medhelm.results.comparable import select_runs
from medhelm.storage.damage import DamagedRunWarning
from medhelm.storage.judgments import read_replies
from medhelm.storage.runs import load_runs, read_records, read_scores
from medhelm.storage.store import open_store
from tests.support.benchmarks.judged import DEFINITION, JUDGES, court, grades_of, is_judge, jury, mock, open_benchmark
from tests.support.servers.openai import Server

N = 6
FIRST = JUDGES[:2]


@pytest.fixture
def benchmark(tmp_path: Path, server: Server) -> Benchmark:
    """A benchmark with a stored run that the first two judges graded."""
    server.answer_with(court())
    benchmark = open_benchmark(tmp_path, n=N)
    evaluate([benchmark], [mock(server)], store=tmp_path / "store", jury=jury(server, *FIRST))
    return benchmark


def again(tmp_path: Path, benchmark: Benchmark, change: JuryChange) -> Evaluation:
    return rejudge([benchmark], change, EvaluationSetup(store=tmp_path / "store", settings=Settings(attempts=1)))


def current(tmp_path: Path) -> Run:
    """The run that stands for the model."""
    runs = load_runs(open_store(tmp_path / "store"))
    (found,) = select_runs(("", run) for run in runs).runs.values()
    return found


def means(judges: Sequence[str]) -> list[float]:
    return [fmean(fmean(grades_of(judge, n)) for judge in judges) for n in range(N)]


def names(run: Run) -> list[str]:
    assert run.jury_result is not None
    return [judge.name.removeprefix("openai/").partition("@")[0] for judge in run.jury_result.jury.judges]


def test_a_new_judge_joins_and_nobody_else_is_asked(tmp_path: Path, server: Server, benchmark: Benchmark) -> None:
    before = server.count
    (judge,) = jury(server, "judge-3").judges
    done = again(tmp_path, benchmark, JuryChange(judges=(judge,)))
    asked = Counter(body["model"] for body in server.bodies[before:])
    assert (done.exit_code, asked) == (0, {"judge-3": N})
    found = current(tmp_path)
    assert names(found) == list(JUDGES)
    assert list(read_scores(found, "jury", "corrected").values) == pytest.approx(means(JUDGES))
    assert all(len(read_replies(found)[f"q{n}", judge.name]) == 1 for n in range(N))


def test_completions_keep_their_tokens_prices_and_places_in_the_cache(
    tmp_path: Path, server: Server, benchmark: Benchmark
) -> None:
    old = current(tmp_path)
    records = list(read_records(old))
    again(tmp_path, benchmark, JuryChange(judges=jury(server, "judge-3").judges))
    new = current(tmp_path)
    assert new.id != old.id
    assert (new.usage, new.cost_usd, new.requests_sent, new.requests_cached) == (old.usage, old.cost_usd, 0, N)
    kept = ("completion", "request_digest", "input_tokens", "latency_s", "finish_reason")
    assert [[row[k] for k in kept] for row in read_records(new)] == [[row[k] for k in kept] for row in records]


def test_judges_named_alone_take_the_place_of_all(tmp_path: Path, server: Server, benchmark: Benchmark) -> None:
    again(tmp_path, benchmark, JuryChange(judges=jury(server, "judge-3").judges, only=True))
    found = load_runs(open_store(tmp_path / "store"))
    newest = next(run for run in found if run.jury_result and len(run.jury_result.jury.judges) == 1)
    assert (names(newest), newest.jury_result and newest.jury_result.jury.min_judges) == (["judge-3"], 1)
    assert list(read_scores(newest, "jury", "corrected").values) == pytest.approx(means(["judge-3"]))


def test_a_judge_that_is_left_out_no_longer_counts_and_nothing_is_sent(
    tmp_path: Path, server: Server, benchmark: Benchmark
) -> None:
    before = server.count
    done = again(tmp_path, benchmark, JuryChange(without=[f"openai/judge-1@{server.url}/v1"]))
    (run,) = done.runs
    assert (server.count, names(run)) == (before, ["judge-2"])
    assert list(read_scores(run, "jury", "corrected").values) == pytest.approx(means(["judge-2"]))


def test_scored_again_everything_is_as_before_even_without_the_cache(
    tmp_path: Path, server: Server, benchmark: Benchmark
) -> None:
    old = current(tmp_path)
    for file in (tmp_path / "store").glob("cache.sqlite*"):
        file.unlink()
    before, records = server.count, list(read_records(old))
    done = again(tmp_path, benchmark, JuryChange())
    (new,) = done.runs
    assert (done.exit_code, server.count, done.requests_sent) == (0, before, 0)
    assert (new.id, new.estimates, list(read_records(new))) == (old.id, old.estimates, records)
    assert new.jury_result and old.jury_result and new.jury_result.subscores == old.jury_result.subscores


def test_a_metric_that_was_added_since_is_computed_from_what_is_stored(
    tmp_path: Path, server: Server, benchmark: Benchmark
) -> None:
    before = server.count
    changed = open_benchmark(tmp_path, n=N, definition=DEFINITION.replace("rouge_l]", "rouge_l, rouge_1]"))
    (new,) = again(tmp_path, changed, JuryChange()).runs
    assert server.count == before
    assert new.estimates["corrected"]["rouge_1"].n == N
    assert new.estimates["corrected"]["jury"].n == N


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("Question {question}", "Question: {question}", "the prompt has changed since (instance q0). Run it again."),
        ("id: id", "id: id\nsample: {size: 3}", "the data has changed since"),
    ],
    ids=["another prompt", "another selection"],
)
def test_completions_that_answer_something_else_are_refused(
    tmp_path: Path, server: Server, benchmark: Benchmark, old: str, new: str, words: str
) -> None:
    before = server.count
    changed = open_benchmark(tmp_path, n=N, definition=DEFINITION.replace(old, new))
    with pytest.raises(UserError) as refused:
        again(tmp_path, changed, JuryChange(judges=jury(server, "judge-3").judges))
    assert words in str(refused.value)
    assert server.count == before


def test_a_floor_under_the_number_of_judges_can_be_set_afterwards(
    tmp_path: Path, server: Server, benchmark: Benchmark
) -> None:
    server.answer_with(court(lambda judge, n, _: "hm" if judge == "judge-3" and n == 0 else None))
    again(tmp_path, benchmark, JuryChange(judges=jury(server, "judge-3").judges, at_least=3))
    (strict,) = [run for run in load_runs(open_store(tmp_path / "store")) if len(names(run)) == 3]
    assert [value > 0 for value in read_scores(strict, "jury", "corrected").values] == [False] + [True] * (N - 1)
    (loose,) = again(tmp_path, benchmark, JuryChange(at_least=2)).runs
    assert read_scores(loose, "jury", "corrected").values[0] == pytest.approx(means(FIRST)[0])


def test_a_run_without_judges_gets_a_jury(tmp_path: Path, server: Server) -> None:
    server.answer_with(court())
    benchmark = open_benchmark(tmp_path, n=N)
    evaluate([benchmark], [mock(server)], store=tmp_path / "store")
    done = again(tmp_path, benchmark, JuryChange(judges=jury(server).judges))
    assert (done.runs[0].main_metric, server.count) == ("jury", N * 4)
    assert sum(is_judge(body) for body in server.bodies) == N * 3
    assert current(tmp_path).main_metric == "jury"


def test_models_are_answered_from_their_own_runs(tmp_path: Path, server: Server, benchmark: Benchmark) -> None:
    answering = court(answering=lambda n: f"Something else about number {n}")
    server.answer_with(answering)
    evaluate([benchmark], [mock(server, "other")], store=tmp_path / "store", jury=jury(server, *FIRST))
    done = again(tmp_path, benchmark, JuryChange(judges=jury(server, "judge-3").judges))
    texts = {run.model.removeprefix("openai/").partition("@")[0]: next(iter(read_records(run)))["completion"]
             for run in done.runs}  # fmt: skip
    assert texts == {"mock": "An answer to number 0", "other": "Something else about number 0"}


def test_the_budget_ends_the_work_on_runs_of_other_juries_too(
    tmp_path: Path, server: Server, benchmark: Benchmark
) -> None:
    evaluate([benchmark], [mock(server, "other")], store=tmp_path / "store", jury=jury(server, "judge-2", at_least=1))
    before = server.count
    judges = tuple(replace(judge, price=Price(input=1.0, output=1.0)) for judge in jury(server, "judge-3").judges)
    change, settings = JuryChange(judges=judges), Settings(attempts=1, max_cost_usd=0.0)
    done = rejudge([benchmark], change, EvaluationSetup(store=tmp_path / "store", settings=settings))
    assert (done.stopped, done.exit_code, len(done.runs), server.count) == ("budget", 3, 1, before)


def test_a_run_that_was_stopped_is_not_made_complete(tmp_path: Path, server: Server) -> None:
    server.answer_with(court())
    benchmark = open_benchmark(tmp_path, n=N)
    paid = Price(input=1_000_000 / 20, output=0.0)  # a dollar a request
    models = [replace(mock(server), price=paid)]
    stopped = evaluate(
        [benchmark], models, store=tmp_path / "store", settings=Settings(max_cost_usd=2.0, concurrency=1)
    )
    assert stopped.runs[0].status == "partial"
    before = server.count
    with pytest.raises(UserError, match="no complete run of letters"):
        again(tmp_path, benchmark, JuryChange(judges=jury(server).judges))
    assert server.count == before


def _zeroed(path: Path) -> None:
    """Keep only both ends of a Parquet file."""
    whole = path.read_bytes()
    path.write_bytes(whole[:4] + bytes(len(whole) - 12) + whole[-8:])


DAMAGE: Mapping[str, Callable[[Path], object]] = {
    "overwritten": lambda path: path.write_bytes(b"not a table" * 50),
    "missing": Path.unlink,
    "damaged inside": _zeroed,
}


@pytest.mark.parametrize("name", ["records.parquet", "replies.parquet", "run.json"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_run_is_left_out_and_the_others_are_scored(
    tmp_path: Path, server: Server, benchmark: Benchmark, name: str, damage: str
) -> None:
    evaluate([benchmark], [mock(server, "other")], store=tmp_path / "store", jury=jury(server, *FIRST))
    (folder,) = (tmp_path / "store").glob("runs/letters/openai_mock*")
    DAMAGE[damage](folder / name)
    with pytest.warns(DamagedRunWarning, match=rf"is left out: .*{name} is .*medhelm runs remove"):
        done = again(tmp_path, benchmark, JuryChange())
    assert [run.model for run in done.runs] == [mock(server, "other").name]
    assert done.exit_code == 1
    assert done.runs[0].estimates["corrected"]["jury"].n == N
    left = {path.name for path in folder.iterdir()}
    assert left == {"run.json", "records.parquet", "judgments.parquet", "replies.parquet"} - (
        {name} if damage == "missing" else set()
    )


def test_what_is_not_there_is_named(tmp_path: Path, benchmark: Benchmark) -> None:
    with pytest.raises(UserError, match="no run of `openai/unknown`"):
        rejudge([benchmark], JuryChange(), EvaluationSetup(store=tmp_path / "store"), models=["openai/unknown"])
    with pytest.raises(UserError, match="the store has no complete run of letters"):
        rejudge([benchmark], JuryChange(), EvaluationSetup(store=tmp_path / "empty"))
