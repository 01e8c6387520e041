"""New numbers from stored completions: judges added, replaced and left out, and metrics computed anew."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest

from medhelm.domain import Benchmark, Price, Run
from medhelm.errors import UserError
from medhelm.evaluation.python_api import evaluate
from medhelm.evaluation.rescore import rejudge
from medhelm.evaluation.session import EvaluationSetup
from medhelm.evaluation.settings import Evaluation, Settings
from medhelm.evaluation.stored_settings import JuryChange
from medhelm.results.comparable import select_runs
from medhelm.storage.damage import DamagedRunWarning
from medhelm.storage.judgments import read_replies
from medhelm.storage.run_scores import read_scores
from medhelm.storage.runs import load_runs, read_columns, read_records
from medhelm.storage.store import open_store
from tests.support.benchmarks.choice import chat
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


def counted(tmp_path: Path) -> Run:
    """The run that counts for the model."""
    (run,) = select_runs(("", run) for run in load_runs(open_store(tmp_path / "store"))).runs.values()
    return run


def again(tmp_path: Path, benchmark: Benchmark, change: JuryChange) -> Evaluation:
    return rejudge([benchmark], change, EvaluationSetup(store=tmp_path / "store", settings=Settings(attempts=1)))


def means(judges: Sequence[str]) -> list[float]:
    return [fmean(fmean(grades_of(judge, n)) for judge in judges) for n in range(N)]


def names(run: Run) -> list[str]:
    return [judge.name.removeprefix("openai/").partition("@")[0] for judge in run.judges]


def test_a_new_judge_joins_and_nobody_else_is_asked(tmp_path: Path, server: Server, benchmark: Benchmark) -> None:
    old, before = counted(tmp_path), server.count
    (judge,) = jury(server, "judge-3").judges
    done = again(tmp_path, benchmark, JuryChange(judges=(judge,)))
    assert (done.exit_code, [body["model"] for body in server.bodies[before:]]) == (0, ["judge-3"] * N)
    new = counted(tmp_path)
    assert names(new) == list(JUDGES)
    assert list(read_scores(new, "jury", "corrected").values) == pytest.approx(means(JUDGES))
    assert all(len(read_replies(new)[f"q{n}", judge.name]) == 1 for n in range(N))
    # Completions keep their tokens, prices and places in the cache.
    assert new.id != old.id
    assert (new.usage, new.cost_usd, new.requests_sent, new.requests_cached) == (old.usage, old.cost_usd, 0, N)
    kept = ("completion", "request_digest", "input_tokens", "latency_s", "finish_reason")
    assert read_columns(new, kept) == read_columns(old, kept)


def test_judges_named_alone_take_the_place_of_all(tmp_path: Path, server: Server, benchmark: Benchmark) -> None:
    (run,) = again(tmp_path, benchmark, JuryChange(judges=jury(server, "judge-3").judges, only=True)).runs
    assert run.jury_result is not None
    assert (names(run), run.jury_result.jury.min_judges) == (["judge-3"], 1)
    assert list(read_scores(run, "jury", "corrected").values) == pytest.approx(means(["judge-3"]))


def test_scored_again_everything_is_as_before_even_without_the_cache(
    tmp_path: Path, server: Server, benchmark: Benchmark
) -> None:
    old = counted(tmp_path)
    for file in (tmp_path / "store").glob("cache.sqlite*"):
        file.unlink()
    before, records = server.count, list(read_records(old))
    done = again(tmp_path, benchmark, JuryChange())
    (new,) = done.runs
    assert (done.exit_code, server.count, done.requests_sent) == (0, before, 0)
    assert (new.id, new.estimates, list(read_records(new))) == (old.id, old.estimates, records)
    assert new.jury_result and old.jury_result and new.jury_result.subscores == old.jury_result.subscores
    changed = open_benchmark(tmp_path, n=N, definition=DEFINITION.replace("rouge_l]", "rouge_l, rouge_1]"))
    (new,) = again(tmp_path, changed, JuryChange()).runs
    assert [new.estimates["corrected"][name].n for name in ("jury", "rouge_1")] == [N, N], "a metric was added since"
    assert server.count == before


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


def test_a_run_without_judges_gets_a_jury(tmp_path: Path, server: Server) -> None:
    benchmark = open_benchmark(tmp_path, n=N)
    usual = court()
    server.answer_with(lambda body: usual(body) if is_judge(body) else chat(f"An answer of {body['model']}"))
    evaluate([benchmark], [mock(server), mock(server, "other")], store=tmp_path / "store")
    done = again(tmp_path, benchmark, JuryChange(judges=jury(server).judges))
    assert [run.main_metric for run in done.runs] == ["jury", "jury"]
    assert sum(map(is_judge, server.bodies)) == server.count - 2 * N == 2 * N * 3
    assert {run.model.partition("@")[0]: next(iter(read_records(run)))["completion"] for run in done.runs} == {
        f"openai/{name}": f"An answer of {name}" for name in ("mock", "other")
    }


def test_the_budget_ends_the_work_on_runs_of_other_juries_too(
    tmp_path: Path, server: Server, benchmark: Benchmark
) -> None:
    evaluate([benchmark], [mock(server, "other")], store=tmp_path / "store", jury=jury(server, "judge-2", at_least=1))
    before = server.count
    (judge,) = jury(server, "judge-3").judges
    paid = replace(judge, price=Price(input=1.0, output=1.0))
    setup = EvaluationSetup(store=tmp_path / "store", settings=Settings(attempts=1, max_cost_usd=0.0))
    done = rejudge([benchmark], JuryChange(judges=(paid,)), setup)
    assert (done.stopped, done.exit_code, len(done.runs), server.count) == ("budget", 3, 1, before)


def test_a_run_that_was_stopped_is_not_made_complete(tmp_path: Path, server: Server) -> None:
    server.answer_with(court())
    benchmark = open_benchmark(tmp_path, n=N)
    model = replace(mock(server), price=Price(input=1_000_000 / 20, output=0.0))  # a dollar a request
    settings = Settings(max_cost_usd=2.0, concurrency=1)
    stopped = evaluate([benchmark], [model], store=tmp_path / "store", settings=settings)
    assert stopped.runs[0].status == "partial"
    before = server.count
    with pytest.raises(UserError, match="no complete run of letters"):
        again(tmp_path, benchmark, JuryChange(judges=jury(server).judges))
    assert server.count == before


def damage(path: Path) -> None:
    """Damage a file; keep both ends of a table."""
    whole = path.read_bytes()
    path.write_bytes(whole[:4] + bytes(len(whole) - 12) + whole[-8:])


@pytest.mark.parametrize(
    ("name", "harm"),
    [("records.parquet", damage), ("replies.parquet", damage), ("run.json", damage), ("replies.parquet", Path.unlink)],
)
def test_a_damaged_run_is_left_out_and_the_others_are_scored(
    tmp_path: Path, server: Server, benchmark: Benchmark, name: str, harm: Callable[[Path], object]
) -> None:
    evaluate([benchmark], [mock(server, "other")], store=tmp_path / "store", jury=jury(server, *FIRST))
    (folder,) = (tmp_path / "store").glob("runs/letters/openai_mock*")
    harm(folder / name)
    before = sorted(path.name for path in folder.iterdir())
    with pytest.warns(DamagedRunWarning, match=rf"is left out: .*{name} is .*medhelm runs remove"):
        done = again(tmp_path, benchmark, JuryChange())
    (run,) = done.runs
    assert (run.model, done.exit_code) == (mock(server, "other").name, 1)
    assert run.estimates["corrected"]["jury"].n == N
    assert sorted(path.name for path in folder.iterdir()) == before
