"""Figures of exchange with others: commands, reports, room on disk, goals and the table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from bench.cells import Bench, Cell
from bench.table import Row
from bench.workloads import exchange, plain
from bench.workloads.exchange import SUMMARIZE

OWN: dict[str, Cell] = {cell.mode: cell for cell in exchange.CELLS if cell.harness == "exchange"}


@pytest.fixture
def place(tmp_path: Path) -> Bench:
    venvs = tmp_path / "venvs"
    return Bench(work=tmp_path, data=tmp_path / "data", medhelm=tmp_path / "bin" / "medhelm", venvs=venvs, addresses={})


def program(path: Path, said: object, code: int = 0) -> None:
    """A command that prints `said`, and notes beside itself how it was called."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        f'#!/bin/sh\necho "$@" >> {path}.calls\necho "$@" >&2\ncat <<\'END\'\n{json.dumps(said)}\nEND\nexit {code}\n',
        encoding="utf-8",
    )
    path.chmod(0o755)


# --- commands and reports ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("import", ["medhelm import helm", "/exchange-release-whole --store", "/exchange-import-store --json"]),
        ("ranks", ["medhelm leaderboard --store", "/exchange-tenth --scoring published --json"]),
        ("export-helm", ["medhelm export helm", "/exchange-out-helm --store", "/exchange-tenth --json"]),
        ("export-parquet", ["medhelm export parquet", "/exchange-out-parquet"]),
        ("export-csv", ["medhelm export csv", "/exchange-out-csv"]),
    ],
)
def test_what_a_cell_of_exchange_does(mode: str, words: list[str], place: Bench) -> None:
    command = " ".join(exchange.command(OWN[mode], place))
    assert [word for word in words if word not in command] == []


def test_every_mode_of_ours_has_a_command() -> None:
    assert set(OWN) == {"ranks", "export-helm", "export-parquet", "export-csv", "import"}


def test_helm_summarizes_our_export(place: Bench) -> None:
    command = exchange.command(SUMMARIZE, place)
    folder = place.work / "exchange-summarized"
    assert command[0] == str(place.work / "venvs" / "helm" / "bin" / "helm-summarize")
    assert command[1:] == [
        "--suite", "medhelm", "-o", str(folder), "--schema-path", str(folder / "schema.yaml"),
        "--local-path", str(folder / "prod_env"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("mode", "printed", "found"),
    [
        ("import", {"runs": [{"n": 3}, {"n": 4}]}, {"runs": 2, "instances": 7}),
        (
            "ranks",
            {"models": [{"benchmarks": {"a": {"n": 5}, "b": {"n": 6}}}, {"benchmarks": {"a": {"n": 7}}}]},
            {"models": 2, "instances": 18},
        ),
        ("export-helm", {"counts": {"instances": 9}, "bytes": 70}, {"instances": 9, "bytes": 70}),
        ("export-csv", {"counts": {"records": 9}, "bytes": 70}, {"instances": 9, "bytes": 70}),
    ],
)
def test_reports_are_read(mode: str, printed: object, found: Mapping[str, float], place: Bench) -> None:
    place.stdout.write_text(json.dumps(printed), encoding="utf-8")
    assert exchange.read(OWN[mode], place) == found


def test_win_rates_of_both_leaderboards_are_compared(place: Bench) -> None:
    groups = place.work / "exchange-summarized" / "runs" / "medhelm" / "groups"
    groups.mkdir(parents=True)
    rows = [[{"value": "a"}, {"value": 0.75}], [{"value": "b"}, {"value": 0.25}]]
    tables = [{"title": "Efficiency", "rows": []}, {"title": "Accuracy", "rows": rows}]
    (groups / "medhelm_scenarios.json").write_text(json.dumps(tables), encoding="utf-8")
    models = [{"model": "a", "win_rate": {"value": 0.75}}, {"model": "b", "win_rate": {"value": 0.5}}]
    program(place.medhelm, {"models": models})
    assert exchange.read(SUMMARIZE, place) == {"models": 2, "difference": 0.25}


# --- room on disk -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("harness", "files", "size"),
    [
        (
            "medhelm",
            {
                "medhelm-store/runs/pubmed_qa/m-1/records.parquet": 7,
                "medhelm-store/runs/pubmed_qa/m-1/run.json": 5,
                "medhelm-store/prompts/pubmed_qa-1.parquet": 11,
                "medhelm-store/cache.sqlite": 1000,
            },
            23,
        ),
        ("helm", {"helm-out/runs/s/W1/stats.json": 3, "helm-out/runs/s/W1/scenario_state.json": 4}, 7),
        ("inspect", {"inspect-out/log.eval": 13}, 13),
        ("lmeval", {"lmeval-out/results.json": 13}, None),
    ],
)
def test_what_a_cold_run_left_is_weighed(harness: str, files: dict[str, int], size: int | None, place: Bench) -> None:
    for name, count in files.items():
        (place.work / name).parent.mkdir(parents=True, exist_ok=True)
        (place.work / name).write_bytes(b"x" * count)
    cell = Cell(harness=harness, mode="cold", n=1000)
    assert plain.bytes_on_disk(cell, place) == ({} if size is None else {"bytes": size})
    for other in ({"n": 1}, {"latency_ms": 200}, {"mode": "warm"}, {"workload": "jury"}, {"variant": "c64"}):
        assert plain.bytes_on_disk(replace(cell, **other), place) == {}


# --- preparing --------------------------------------------------------------------------------------------------------


def test_the_tenth_is_written_taken_in_and_written_back_once(place: Bench) -> None:
    program(place.medhelm, {})
    program(place.medhelm.with_name("python"), {})
    exchange.prepare([OWN["ranks"], SUMMARIZE], place)
    wrote = (place.work / "bin" / "python.calls").read_text(encoding="utf-8")
    assert "tools/helm_release.py" in wrote
    assert "exchange-release-tenth --benchmarks 37 --models 9 --instances 100" in wrote
    imported, exported = (place.work / "bin" / "medhelm.calls").read_text(encoding="utf-8").splitlines()
    assert imported.startswith("import helm") and "exchange-release-tenth" in imported
    assert exported.startswith("export helm") and "exchange-summarized" in exported
    for name in ("exchange-release-tenth", "exchange-tenth", "exchange-summarized"):
        (place.work / name).mkdir()
    exchange.prepare([OWN["ranks"], SUMMARIZE], place)
    assert len((place.work / "bin" / "medhelm.calls").read_text(encoding="utf-8").splitlines()) == 2


def test_only_the_import_needs_the_whole_release(place: Bench) -> None:
    program(place.medhelm.with_name("python"), {})
    exchange.prepare([], place)
    assert not (place.work / "bin" / "python.calls").exists()
    exchange.prepare([OWN["import"]], place)
    assert "exchange-release-whole --benchmarks 37 --models 9 --instances 1000" in (
        place.work / "bin" / "python.calls"
    ).read_text(encoding="utf-8")


def test_a_preparation_that_fails_says_why(place: Bench) -> None:
    program(place.medhelm.with_name("python"), "", code=3)
    with pytest.raises(SystemExit, match=r"helm_release\.py .* failed\n.*helm_release"):
        exchange.prepare([OWN["import"]], place)


# --- goals and table --------------------------------------------------------------------------------------------------


def row(harness: str, mode: str, wall_s: float, cell: str = "", **reported: float) -> Row:
    return Row(
        cell=cell or f"{harness}/{mode}", harness=harness, mode=mode, n=0, latency_ms=0, repetitions=1, wall_s=wall_s,
        wall_min_s=wall_s, wall_max_s=wall_s, cpu_s=wall_s, peak_mib=100.0, reported=reported,
    )  # fmt: skip


ROWS = [
    row("medhelm", "cold", 1.0, cell="medhelm/w1-1000/0ms/cold", bytes=500_000),
    row("medhelm", "cold", 1.0, cell="medhelm-c64/w1-1000/0ms/cold"),
    row("helm", "cold", 9.0, cell="helm/w1-1000/0ms/cold", bytes=10_000_000),
    row("inspect", "cold", 9.0, cell="inspect/w1-1000/0ms/cold", bytes=2_000_000),
    row("exchange", "ranks", 2.0, models=9, instances=33_300),
    row("exchange", "import", 10.0, runs=333, instances=333_000),
    row("exchange", "export-helm", 10.0, instances=33_300, bytes=1),
    row("exchange", "export-parquet", 3.0, instances=33_300, bytes=1),
    row("helm", "summarize", 80.0, models=9, difference=0.0),
]


def test_goals_are_judged_by_these_rows() -> None:
    goals = {goal.name: (goal.value, goal.met) for goal in exchange.goals(ROWS)}
    assert goals == {
        "W1 on disk, relative to HELM's run folder": (0.05, True),
        "W1 on disk, relative to Inspect's log": (0.25, True),
        "import of a HELM release, instances per second": (33_300.0, True),
        "peak memory, import of a HELM release": (100.0, True),
        "export as HELM's files, instances per second": (3330.0, True),
        "leaderboard of 333 runs, relative to helm-summarize": (0.025, True),
        "win rates of HELM and ours, largest difference": (0.0, True),
    }


def test_goals_without_rows_are_not_judged() -> None:
    assert {goal.met for goal in exchange.goals([])} == {None}
    broken = [replace(one, problem="exit code 1") for one in ROWS]
    assert {goal.met for goal in exchange.goals(broken)} == {None}


def test_the_table_says_what_was_measured_and_nothing_else() -> None:
    text = exchange.exchange_table(ROWS)
    for words in ("500 bytes each", "10,000 bytes each", "10.0 s, 33,300 /s", "80.0 s"):
        assert words in text
    assert "CSV" not in text
    assert exchange.exchange_table([]) == ""
