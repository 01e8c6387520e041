"""Figures of the leaderboard: the made-up store, commands, reports, goals and the table."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from bench.cells import Bench, Cell
from bench.table import Row
from bench.tools import leaderboard_store
from bench.tools.leaderboard_store import Size, list_runs, write
from bench.workloads import leaderboard as workload
from medhelm.results.leaderboard import leaderboard
from medhelm.storage.runs import RECORD_COLUMNS, read_record, read_scores

OWN: dict[str, Cell] = {cell.mode: cell for cell in workload.CELLS}
SIZE = Size(models=3, benchmarks=5, instances=40)


@pytest.fixture(scope="module")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("leaderboard") / "store"
    write(folder, SIZE)
    return folder


@pytest.fixture
def place(tmp_path: Path) -> Bench:
    return Bench(work=tmp_path, data=tmp_path / "data", medhelm=tmp_path / "bin" / "medhelm", venvs=None, addresses={})


def asked(query: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as database:
        found: list[tuple[Any, ...]] = database.execute(query).fetchall()
    return found


# --- the store --------------------------------------------------------------------------------------------------------


def test_the_store_holds_whole_runs(made_up: Path) -> None:
    runs = list_runs(made_up)
    assert len(runs) == 15
    assert len({run.id for run in runs}) == 15
    assert {run.main_metric for run in runs} == {"exact_match", "jury"}
    for run in runs:
        stored = read_scores(run, run.main_metric, "corrected")
        ids, values, clusters = stored.ids, stored.values, stored.clusters
        known = values[~(values != values)]
        estimate = run.estimates["corrected"][run.main_metric]
        assert len(set(ids)) == run.n == 40
        assert (estimate.n, estimate.n_failed) == (len(known), 40 - len(known))
        assert estimate.value == pytest.approx(known.mean())
        low, high = (1.0, 5.0) if run.main_metric == "jury" else (0.0, 1.0)
        assert low <= known.min() < known.max() <= high
        assert (run.jury_result is not None) == (run.main_metric == "jury")
        assert clusters is None or len(set(clusters)) == 8


def test_records_have_the_columns_of_our_own_runs(made_up: Path) -> None:
    for run in list_runs(made_up):
        record = read_record(run, "20000007")
        assert record is not None
        scores = [f"{run.main_metric}_{rule}" for rule in ("corrected", "published")]
        assert list(record) == [*RECORD_COLUMNS, *scores]
        assert run.folder is not None
        kinds = asked(f"DESCRIBE FROM read_parquet('{run.folder / 'records.parquet'}')")
        assert {name: kind for name, kind, *_ in kinds if name in RECORD_COLUMNS} == dict(RECORD_COLUMNS)
        assert len(record["request_digest"]) == 64


def test_completions_are_as_long_as_models_write_them(made_up: Path) -> None:
    for run in list_runs(made_up):
        assert run.folder is not None
        ((mean,),) = asked(f"SELECT avg(length(completion)) FROM '{run.folder / 'records.parquet'}'")
        assert 1000 < mean < 2000 if run.main_metric == "jury" else 5 < mean < 100


def test_a_leaderboard_is_made_of_it(made_up: Path) -> None:
    found = leaderboard([made_up])
    assert (len(found.rows), len(found.columns)) == (3, 5)
    assert found.interval_method == "instances within benchmarks"
    assert {row.coverage for row in found.rows} == {1.0}


def test_the_same_numbers_give_the_same_store(tmp_path: Path) -> None:
    small = Size(models=1, benchmarks=2, instances=12)
    for name in "ab":
        write(tmp_path / name, small)
    digests = [
        [hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted((tmp_path / name).rglob("*.*"))]
        for name in "ab"
    ]
    assert len(digests[0]) == 2 * 2 + 1
    assert digests[0] == digests[1]


def test_the_script_reports_what_it_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [str(tmp_path / "s"), "--models", "2", "--benchmarks", "2", "--instances", "6"]
    assert leaderboard_store.main(words) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["runs"], report["records"]) == (4, 24)
    files = list(tmp_path.rglob("records.parquet"))
    assert report["record_bytes"] == sum(file.stat().st_size for file in files)
    assert report["bytes_per_record"] == pytest.approx(report["record_bytes"] / 24)


@pytest.mark.parametrize("words", [["--models", "0"], ["--instances", "-1"], ["--benchmarks", "38"]])
def test_sizes_that_cannot_be_are_refused(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        leaderboard_store.main([str(tmp_path / "s"), *words])
    assert ended.value.code == 2
    assert "at least 1" in capsys.readouterr().err
    assert not (tmp_path / "s").exists()


# --- commands and reports ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "words", "absent"),
    [
        ("intervals", ["bin/medhelm leaderboard", "/leaderboard-suite --json"], "--resample"),
        ("means", ["/leaderboard-suite --json", "--resample none"], "tenfold"),
        ("benchmarks", ["/leaderboard-suite --json", "--resample benchmarks"], "tenfold"),
        ("intervals-tenfold", ["/leaderboard-tenfold --json"], "--resample"),
    ],
)
def test_what_a_cell_of_the_leaderboard_does(mode: str, words: list[str], absent: str, place: Bench) -> None:
    command = " ".join(workload.command(OWN[mode], place))
    assert [word for word in words if word not in command] == []
    assert absent not in command


def fake_python(place: Bench, said: str, code: int = 0) -> None:
    """A Python beside our command that notes its words and prints something."""
    program = place.medhelm.with_name("python")
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\necho \"$@\" >> {place.work}/words\necho '{said}'\nexit {code}\n", "utf-8")
    program.chmod(0o755)


def test_each_store_is_written_once(place: Bench) -> None:
    fake_python(place, '{"records": 7}')
    workload.prepare([], place)
    assert not (place.work / "words").exists()
    for _ in range(2):
        workload.prepare([OWN["intervals"], OWN["means"], OWN["intervals-tenfold"]], place)
    lines = (place.work / "words").read_text("utf-8").splitlines()
    assert len(lines) == 2
    assert lines[0].endswith("leaderboard-suite --instances 1000")
    assert lines[1].endswith("leaderboard-tenfold --instances 10000")


def test_a_store_that_cannot_be_written_ends_the_measurement(place: Bench) -> None:
    fake_python(place, "no", code=3)
    with pytest.raises(SystemExit, match=r"leaderboard_store\.py .*leaderboard-suite.* failed"):
        workload.prepare([OWN["means"]], place)


def test_reports_are_read(place: Bench) -> None:
    fake_python(place, '{"records": 333000, "record_bytes": 5, "bytes_per_record": 80.5}')
    workload.prepare([OWN["means"]], place)
    models = [{"rank_low": 1}, {"rank_low": None}]
    place.stdout.write_text(json.dumps({"models": models, "benchmarks": [{}, {}, {}]}), "utf-8")
    found = workload.read(OWN["means"], place)
    assert found == {
        "records": 333000, "record_bytes": 5, "bytes_per_record": 80.5, "models": 2, "benchmarks": 3,
        "with_interval": 1,
    }  # fmt: skip


def test_a_cell_of_the_leaderboard_asks_no_server() -> None:
    assert {(cell.n, cell.latency_ms, cell.variant) for cell in OWN.values()} == {(0, 0, "")}


# --- goals and the table ----------------------------------------------------------------------------------------------


def row(mode: str, wall_s: float, peak_mib: float, records: int = 333_000, size: float = 90.0) -> Row:
    times: dict[str, Any] = dict.fromkeys(("wall_s", "wall_min_s", "wall_max_s", "cpu_s"), wall_s)
    reported: Mapping[str, float] = {
        "records": records, "record_bytes": records * size, "bytes_per_record": size,
    }  # fmt: skip
    return Row(
        cell=f"leaderboard/{mode}", harness="leaderboard", mode=mode, n=0, latency_ms=0, repetitions=3,
        peak_mib=peak_mib, reported=reported, **times,
    )  # fmt: skip


ROWS = [
    row("intervals", 1.2, 110.0),
    row("means", 0.4, 60.0),
    row("benchmarks", 0.9, 100.0),
    row("intervals-tenfold", 9.0, 180.0, records=3_330_000),
]


def test_every_cell_of_the_leaderboard_is_part_of_a_figure() -> None:
    assert [row.mode for row in ROWS] == list(OWN)


def test_every_goal_of_the_leaderboard_can_be_met() -> None:
    goals = workload.goals(ROWS)
    assert [goal.name for goal in goals if goal.met is not True] == []
    assert goals[3].value == pytest.approx(7.5)
    assert goals[5].value == 90.0


@pytest.mark.parametrize(
    ("changed", "missed"),
    [
        (row("intervals", 2.1, 110.0), [0]),
        (row("intervals", 1.2, 401.0), [1]),
        (row("means", 0.51, 60.0), [2]),
        (row("intervals-tenfold", 12.1, 180.0), [3]),
        (row("intervals-tenfold", 9.0, 1025.0), [4]),
        (row("intervals", 1.2, 110.0, size=401.0), [5]),
        (row("benchmarks", 99.0, 999.0), []),
    ],
)
def test_every_goal_of_the_leaderboard_can_be_missed(changed: Row, missed: list[int]) -> None:
    goals = workload.goals([changed if row.mode == changed.mode else row for row in ROWS])
    assert [place for place, goal in enumerate(goals) if goal.met is False] == missed


@pytest.mark.parametrize("mode", ["intervals", "means", "intervals-tenfold"])
def test_a_goal_of_the_leaderboard_without_its_row_is_neither_met_nor_missed(mode: str) -> None:
    absent = [goal.met for goal in workload.goals([row for row in ROWS if row.mode != mode])]
    spoilt = [replace(row, problem="exit code 1") if row.mode == mode else row for row in ROWS]
    assert None in absent
    assert absent == [goal.met for goal in workload.goals(spoilt)]


def test_the_table_shows_time_memory_and_size() -> None:
    lines = workload.leaderboard_table(ROWS).splitlines()
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[2:]]
    assert cells == [
        ["333,000 records, instances resampled", "1.20 s", "110 MiB", "29 MiB"],
        ["333,000 records, benchmarks resampled", "0.90 s", "100 MiB", "29 MiB"],
        ["333,000 records, no resampling", "0.40 s", "60 MiB", "29 MiB"],
        ["3,330,000 records, instances resampled", "9.00 s", "180 MiB", "286 MiB"],
    ]
    assert workload.leaderboard_table([replace(row, problem="exit code 1") for row in ROWS]) == ""
