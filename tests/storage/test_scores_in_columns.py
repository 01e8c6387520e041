"""Scores of many runs read in columns: the same numbers as one run at a time, shared lists, damaged files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pytest

from medhelm.analysis import means as threads
from medhelm.domain import Run
from medhelm.errors import StoreError
from medhelm.storage import run_scores
from medhelm.storage.run_scores import read_all, read_scores
from medhelm.storage.runs import load_runs, read_columns
from medhelm.storage.store import open_store
from tests.support.stores import make_store

N = 30
NAMES = ["p1", "p1", "", "p2"] * 7 + ["p3", ""]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """Two models on three benchmarks; only the first benchmark has clusters, and one instance of each failed."""
    folder = tmp_path_factory.mktemp("scores") / "store"
    scores = {
        name: {model: [None, *(float((i + j + k) % 3) / 2 for k in range(N - 1))] for j, model in enumerate("mn")}
        for i, name in enumerate("abc")
    }
    make_store(folder, {"a": scores.pop("a")}, clusters=NAMES)
    make_store(folder, scores)
    return load_runs(open_store(folder))


def rewritten(run: Run, place: Path, query: str) -> Run:
    """The run with other records: `query` selects from `records`."""
    place.mkdir()
    assert run.folder is not None
    with duckdb.connect() as database:
        database.execute(f"CREATE VIEW records AS FROM read_parquet('{run.folder / 'records.parquet'}')")
        database.execute(f"COPY ({query}) TO '{place / 'records.parquet'}' (FORMAT parquet)")
    return replace(run, folder=place)


def test_runs_of_one_benchmark_share_their_lists(runs: list[Run]) -> None:
    found = [scores for _, scores in read_all(runs, "published")]
    for first, second in zip(found[::2], found[1::2], strict=True):  # two models on each benchmark
        assert first.ids is second.ids
        assert first.clusters is second.clusters
    assert list(found[0].clusters or ()) == NAMES
    np.testing.assert_array_equal(found[0].values, read_scores(runs[0], runs[0].main_metric, "published").values)
    assert list(read_all([], "corrected")) == []


def test_only_single_requests_with_a_completion_have_a_time(runs: list[Run], tmp_path: Path) -> None:
    changes = "CASE position WHEN 1 THEN 0 WHEN 2 THEN 2.5 ELSE 1.5 END AS latency_s, position = 3 AS batched"
    timed = rewritten(runs[0], tmp_path / "timed", f"SELECT * REPLACE ({changes}) FROM records")
    older = rewritten(runs[0], tmp_path / "older", "SELECT * EXCLUDE (latency_s, batched) FROM records")
    (_, found), (_, unknown) = read_all([timed, older], "corrected")
    assert found.seconds is not None
    assert np.isnan(found.seconds).tolist() == [place in (0, 1, 3) for place in range(N)]  # the first one failed
    assert found.seconds[2] == 2.5
    assert unknown.seconds is not None
    assert np.isnan(unknown.seconds).all()


@pytest.mark.parametrize("rows", [1, 2 * N, 10**6])
def test_scores_are_the_same_however_many_runs_are_read_together(
    runs: list[Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr(run_scores, "ROWS", rows)
    monkeypatch.setattr(threads, "LEAST", 0)  # benchmarks side by side
    own, others = runs[:2], runs[2:]
    parts = f"""CASE WHEN position > 0 THEN '{{"a": [1.0, 2.0]}}' END AS {own[0].main_metric}_corrected_parts"""
    changes = {
        "reversed": "SELECT * REPLACE (29 - position AS position) FROM records",
        "fewer": "SELECT * FROM records WHERE position > 3",
        "none": "SELECT * FROM records WHERE false",
        "alone": "SELECT * REPLACE (NULL AS cluster) FROM records",
        "renamed": "SELECT * REPLACE ('q' || position AS cluster) FROM records",
        "failed": "SELECT * REPLACE (CASE WHEN position < 5 THEN 'refusal' END AS failure_code) FROM records",
        "lost": "SELECT * REPLACE (CASE position WHEN 7 THEN 'lost' WHEN 8 THEN '' END AS failure_code) FROM records",
        "older": "SELECT * EXCLUDE (failure_code, cluster, latency_s, batched) FROM records",
        "pooled": f"SELECT *, {parts} FROM records",
    }
    own += [rewritten(own[0], tmp_path / name, query) for name, query in changes.items()]
    for run, found in read_all([*own, *others], "corrected"):
        stored = read_columns(run, ["instance_id", "cluster", f"{run.main_metric}_corrected", "failure_code"])
        ids, clusters, values, codes = ([*column] for column in stored.values())
        assert list(found.ids) == ids
        assert list(found.clusters or [""] * len(ids)) == [name or "" for name in clusters]
        assert found.values.tolist() == pytest.approx([np.nan if one is None else one for one in values], nan_ok=True)
        assert list(found.failure_codes or [""] * len(ids)) == [code or "" for code in codes]
        pooled = (
            [] if found.parts is None else [{label: list(pair) for label, pair in one.items()} for one in found.parts]
        )
        assert pooled[:2] == ([{}, {"a": [1.0, 2.0]}] if run is own[-1] else [])


def test_missing_and_damaged_records_are_named(runs: list[Run], tmp_path: Path) -> None:
    broken = replace(runs[1], folder=tmp_path)
    for content in (None, b"", b"PAR1 and then nothing"):
        if content is not None:
            (tmp_path / "records.parquet").write_bytes(content)
        with pytest.raises(StoreError, match=r"records\.parquet is missing or damaged \(.*medhelm runs remove"):
            list(read_all([runs[0], broken, runs[2]], "corrected"))


def test_records_without_the_main_metric_are_refused(runs: list[Run]) -> None:
    other = replace(runs[0], main_metric="rouge_l")
    with pytest.raises(StoreError, match="have no column `rouge_l_corrected`"):
        list(read_all([other], "corrected"))
    with pytest.raises(StoreError, match="is not stored"):
        list(read_all([replace(runs[0], folder=None)], "corrected"))
