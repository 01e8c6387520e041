"""Figures of the leaderboard: the made-up store, commands, reports, goals and the table."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from bench.table import Row
from bench.tools.leaderboard_store import Size, list_runs, write
from bench.workloads import leaderboard as workload
from medhelm.domain import RULES
from medhelm.storage.run_scores import read_scores
from medhelm.storage.runs import RECORD_COLUMNS, read_record
from tests.support.bench_rows import measured
from tests.support.values import present


def test_the_store_holds_whole_runs_with_the_columns_of_our_own(tmp_path: Path) -> None:
    write(tmp_path / "store", Size(models=3, benchmarks=5, instances=40))
    runs = list_runs(tmp_path / "store")
    assert (len(runs), len({run.id for run in runs})) == (15, 15)
    assert {run.main_metric for run in runs} == {"exact_match", "jury"}
    for run in runs:
        stored = read_scores(run, run.main_metric, "corrected")
        known = stored.values[~(stored.values != stored.values)]
        estimate = run.estimates["corrected"][run.main_metric]
        assert len(set(stored.ids)) == run.n == 40
        assert (estimate.n, estimate.n_failed) == (len(known), 40 - len(known))
        assert estimate.value == pytest.approx(known.mean())
        low, high = (1.0, 5.0) if run.main_metric == "jury" else (0.0, 1.0)
        assert low <= known.min() < known.max() <= high
        assert (run.jury_result is not None) == (run.main_metric == "jury")
        record = present(read_record(run, "20000007"))
        assert list(record) == [*RECORD_COLUMNS, *(f"{run.main_metric}_{rule}" for rule in RULES)]
        with duckdb.connect() as database:
            table = database.read_parquet(str(present(run.folder) / "records.parquet"))
            kinds = dict(zip(table.columns, map(str, table.types), strict=True))
        assert kinds.items() >= dict(RECORD_COLUMNS).items()


# --- goals and the table ----------------------------------------------------------------------------------------------


def row(mode: str, wall_s: float, peak_mib: float, records: int = 333_000, size: float = 90.0) -> Row:
    reported = {"records": records, "record_bytes": records * size, "bytes_per_record": size}
    return measured(f"leaderboard/{mode}", wall_s, peak_mib=peak_mib, reported=reported)


ROWS = [
    row("intervals", 1.2, 110.0),
    row("means", 0.4, 60.0),
    row("benchmarks", 0.9, 100.0),
    row("intervals-tenfold", 9.0, 180.0, records=3_330_000),
]


@pytest.mark.parametrize(
    ("changed", "missed"),
    [
        (row("intervals", 2.1, 110.0), [0]),
        (row("means", 0.51, 60.0), [2]),
        (row("intervals-tenfold", 12.1, 180.0), [3]),
        (row("intervals", 1.2, 110.0, size=401.0), [5]),
    ],
)
def test_every_goal_can_be_met_and_missed(changed: Row, missed: list[int]) -> None:
    goals = workload.goals([changed if row.mode == changed.mode else row for row in ROWS])
    assert [place for place, goal in enumerate(goals) if goal.met is False] == missed
