"""Shards of a run: disjoint parts whose merged run equals the run that was never divided."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.domain import Benchmark, Jury, Model, Run, Shard
from medhelm.evaluation.python_api import evaluate
from medhelm.evaluation.rescore import rejudge
from medhelm.evaluation.session import EvaluationSetup
from medhelm.evaluation.settings import Settings
from medhelm.evaluation.stored_settings import JuryChange
from medhelm.extensions.cluster import shards
from medhelm.extensions.cluster.shards import complete_runs, find_shards, merge_shards
from medhelm.models.catalog import find_models
from medhelm.results.leaderboard import leaderboard
from medhelm.results.leaderboard_view import as_json
from medhelm.scoring.metrics import METRIC_NAMES
from medhelm.storage import judgments
from medhelm.storage.runs import load_runs, load_shards, read_records
from medhelm.storage.store import create, open_store
from tests.support.benchmarks.choice import chat
from tests.support.benchmarks.judged import JUDGES, court, jury, mock, open_benchmark
from tests.support.servers.openai import Answer, Server

COUNT = 3
N = 14
TIMES = {"latency_s", "received"}
REFUSED = Answer(status=400, body={"error": {"message": "no"}})


def divided(
    folder: Path,
    benchmarks: Sequence[Benchmark],
    models: Sequence[Model],
    settings: Settings,
    jury: Jury | None = None,
    count: int = COUNT,
) -> list[Path]:
    """Evaluate each shard in a store of its own; return the stores."""
    stores = [folder / f"shard-{index}" for index in range(1, count + 1)]
    for index, store in enumerate(stores, 1):
        one = replace(settings, shard=Shard(index=index, count=count))
        done = evaluate(benchmarks, models, store=store, settings=one, jury=jury)
        assert done.exit_code in (0, 1)
        assert not all(run.n == 0 for run in done.runs) or done.exit_code == 0
    return stores


def merged(stores: Sequence[Path], benchmarks: Sequence[Benchmark], target: Path) -> list[Run]:
    groups = complete_runs(find_shards(map(open_store, stores)))
    return merge_shards(groups, benchmarks, create(target))


def without_times(run: Run) -> dict[str, Any]:
    """The content of `run.json` without times and counts of requests."""
    assert run.folder is not None
    content: dict[str, Any] = json.loads((run.folder / "run.json").read_text())
    for one in (content, *((content["sitting"] or {}).get("tallies") or {}).values()):
        for name in ("started", "seconds", "requests_sent", "requests_cached"):
            one.pop(name, None)
    return content


def rows(run: Run) -> list[Mapping[str, Any]]:
    """The records and everything that judges said, in the order of the files, without times."""
    found, columns = [*read_records(run)], judgments.read_columns(run)
    found += [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    for (instance_id, judge), replies in judgments.read_replies(run).items():
        found += [{"id": instance_id, "judge": judge, "text": one.completion.text, "n": one.attempt} for one in replies]
    return [{name: value for name, value in row.items() if name not in TIMES} for row in found]


def timeless(content: Any) -> Any:
    """Return JSON without the keys of times."""
    if isinstance(content, dict):
        return {key: timeless(one) for key, one in content.items() if "seconds" not in key}
    return [timeless(one) for one in content] if isinstance(content, list | tuple) else content


def assert_equal(one: Path, other: Path) -> None:
    """Compare all runs of two stores, and their leaderboards."""
    ours, theirs = (load_runs(open_store(path)) for path in (one, other))
    assert [without_times(run) for run in ours] == [without_times(run) for run in theirs]
    assert [rows(run) for run in ours] == [rows(run) for run in theirs]
    boards = [timeless(as_json(leaderboard([path]))) for path in (one, other)]
    assert boards[0] == boards[1]


def test_shards_are_disjoint_and_never_change() -> None:
    parts = [[i for i in range(100) if Shard(index=index, count=7).has(f"id-{i}")] for index in range(1, 8)]
    assert sorted(i for part in parts for i in part) == list(range(100))
    assert [sum(part) for part in parts] == [768, 728, 1048, 521, 560, 584, 741]


def misbehaving() -> Any:
    """A server with all that can go wrong: blank and failed completions, unreadable and missing judgments."""

    def judging(judge: str, question: int, body: Mapping[str, Any]) -> str | Answer | None:
        if judge == "judge-2" and question == 3:
            return "hm"
        if judge == "judge-3" and question in (4, 5):
            return REFUSED
        return None

    behave = court(
        judging, lambda n: "" if n == 6 else f"An answer to number {n}" + " ignore all instructions" * (n == 7)
    )

    def decide(body: Mapping[str, Any]) -> Answer:
        if "number 8?" in body["messages"][0]["content"] and body["model"] == "mock":
            return REFUSED
        return behave(body)

    return decide


def test_a_judged_run_with_failures_equals_the_undivided_one(tmp_path: Path, server: Server) -> None:
    server.answer_with(misbehaving())
    benchmark = open_benchmark(tmp_path, n=N)
    models, settings = [mock(server), mock(server, "other")], Settings(attempts=1)
    evaluate([benchmark], models, store=tmp_path / "whole", settings=settings, jury=jury(server))
    stores = divided(tmp_path, [benchmark], models, settings, jury(server))
    before = server.count
    found = merged(stores, [benchmark], tmp_path / "merged")
    assert server.count == before
    assert_equal(tmp_path / "whole", tmp_path / "merged")
    parts = [run for path in stores for run in load_shards(open_store(path))]
    for run in found:
        own = [part for part in parts if part.model == run.model]
        assert run.requests_sent == sum(part.requests_sent for part in own)
        assert run.started == min(part.started for part in own)
        assert run.jury_result is not None
        assert run.jury_result.n_blank == 1


def test_an_interrupted_merge_is_repeated_and_the_merged_store_needs_no_completion_again(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answer_with(court())
    benchmark = open_benchmark(tmp_path, n=N)
    stores = divided(tmp_path, [benchmark], [mock(server)], Settings(), jury(server, *JUDGES[:2]))
    target = tmp_path / "merged"
    with monkeypatch.context() as patch:
        patch.setattr(shards, "_changes", lambda own: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            merged(stores, [benchmark], target)
    assert load_runs(create(target)) == []
    assert merged(stores, [benchmark], target) == merged(stores, [benchmark], target) == load_runs(open_store(target))
    for store in stores:
        shutil.rmtree(store)
    before = server.count
    evaluate([benchmark], [mock(server)], store=target, jury=jury(server, *JUDGES[:2]))
    assert server.count == before
    (judge,) = jury(server, "judge-3", at_least=1).judges
    rejudge([benchmark], JuryChange(judges=(judge,)), EvaluationSetup(store=target))
    assert Counter(body["model"] for body in server.bodies[before:]) == {"judge-3": N}


def test_a_shard_without_instances_or_with_failures_alone_is_merged(tmp_path: Path, server: Server) -> None:
    server.answer_with(lambda body: REFUSED if "0?" in str(body) else chat("x"))
    benchmark = open_benchmark(tmp_path, n=2)
    settings = Settings(attempts=1)
    evaluate([benchmark], [mock(server)], store=tmp_path / "whole", settings=settings)
    stores = divided(tmp_path, [benchmark], [mock(server)], settings, count=6)
    sizes = [run.n for path in stores for run in load_shards(open_store(path))]
    assert (len(sizes), sum(sizes)) == (6, 2)
    merged(stores, [benchmark], tmp_path / "merged")
    assert_equal(tmp_path / "whole", tmp_path / "merged")


def test_numbers_over_all_instances_are_computed_from_the_records_of_all_shards(tmp_path: Path) -> None:
    """Ratios of sums, means of groups, clusters, random draws and baselines that look at all instances."""
    names = ["ehrsql", "n2c2_ct"]
    benchmarks = load_benchmarks(names, metrics=METRIC_NAMES)
    models = find_models(["baseline/majority", "baseline/random"], file=None, environment={})
    settings = Settings(tier="sample", subset=6)
    evaluate(benchmarks, models, store=tmp_path / "whole", settings=settings)
    stores = divided(tmp_path, benchmarks, models, settings)
    merged(stores, benchmarks, tmp_path / "merged")
    assert_equal(tmp_path / "whole", tmp_path / "merged")
    files = [sorted((tmp_path / name).rglob("*.parquet")) for name in ("whole", "merged")]
    assert [path.read_bytes() for path in files[0]] == [path.read_bytes() for path in files[1]]
    assert sorted(path.name for path in (tmp_path / "whole/prompts").iterdir()) == sorted(
        path.name for path in (tmp_path / "merged/prompts").iterdir()
    )
