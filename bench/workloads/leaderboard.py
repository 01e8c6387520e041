"""The leaderboard of large stores: the size of the suite, and ten times as many instances.

`tools/leaderboard_store.py` writes the stores before anything is measured; the commands only read them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench.cells import TOOLS, Bench, Cell, Workload
from bench.measure import output_of
from bench.table import Goal, Row, by_mode, peak, table, wall

HARNESS = "leaderboard"
CELLS = (
    Cell(harness=HARNESS, mode="intervals"),
    Cell(harness=HARNESS, mode="means"),
    Cell(harness=HARNESS, mode="benchmarks"),
    Cell(harness=HARNESS, mode="intervals-tenfold", repetitions=1),
)
SIZES = {"suite": 1000, "tenfold": 10_000}
"""Name of a store -> instances of each of its 37 benchmarks, for 9 models."""


def prepare(cells: Sequence[Cell], bench: Bench) -> None:
    """Write the stores that these cells read, unless they exist."""
    for name in dict.fromkeys(_store_name(cell) for cell in cells):
        if _report_file(bench, name).exists():
            continue
        program = [bench.python, str(TOOLS / "leaderboard_store.py")]
        written = output_of([*program, str(store(bench, name)), "--instances", str(SIZES[name])])
        _report_file(bench, name).write_text(written, encoding="utf-8")


def command(cell: Cell, bench: Bench) -> list[str]:
    """Return the command line of a cell."""
    return _COMMANDS[cell.mode](bench)


def read(cell: Cell, bench: Bench) -> dict[str, float]:
    """Read what the process that just finished reports, and the size of its store."""
    report = bench.report()
    written: dict[str, float] = json.loads(_report_file(bench, _store_name(cell)).read_text(encoding="utf-8"))
    models = report["models"]
    return written | {
        "models": len(models),
        "benchmarks": len(report["benchmarks"]),
        "with_interval": sum(model["rank_low"] is not None for model in models),
    }


def store(bench: Bench, name: str) -> Path:
    """Return the folder of a store, `suite` or `tenfold`."""
    return bench.work / f"leaderboard-{name}"


def _leaderboard(bench: Bench, name: str, *more: str) -> list[str]:
    return [str(bench.medhelm), "leaderboard", "--store", str(store(bench, name)), "--json", *more]


_COMMANDS: Mapping[str, Callable[[Bench], list[str]]] = {
    "intervals": lambda bench: _leaderboard(bench, "suite"),
    "means": lambda bench: _leaderboard(bench, "suite", "--resample", "none"),
    "benchmarks": lambda bench: _leaderboard(bench, "suite", "--resample", "benchmarks"),
    "intervals-tenfold": lambda bench: _leaderboard(bench, "tenfold"),
}
"""Mode of a cell -> its command line."""


def _store_name(cell: Cell) -> str:
    return "tenfold" if cell.mode.endswith("-tenfold") else "suite"


def _report_file(bench: Bench, name: str) -> Path:
    return bench.work / f"leaderboard-{name}.json"


# --- goals and table --------------------------------------------------------------------------------------------------


def goals(rows: Sequence[Row]) -> list[Goal]:
    """Check every goal of the workload against the rows."""
    good = by_mode(rows, HARNESS)

    small, large = wall(good, "intervals"), wall(good, "intervals-tenfold")
    return [
        Goal(name="leaderboard of 333,000 records, all intervals", value=small, limit=2, unit="s"),
        Goal(name="peak memory, leaderboard of 333,000 records", value=peak(good, "intervals"), limit=400, unit="MiB"),
        Goal(name="leaderboard of 333,000 records, no resampling", value=wall(good, "means"), limit=0.5, unit="s"),
        Goal(
            name="leaderboard of 3,330,000 records, relative to a tenth of them",
            value=None if small is None or large is None else large / small,
            limit=10,
            unit="x",
        ),
        Goal(
            name="peak memory, leaderboard of 3,330,000 records",
            value=peak(good, "intervals-tenfold"),
            limit=1024,
            unit="MiB",
        ),
        Goal(
            name="bytes on disk per record, including the completion",
            value=good["intervals"].reported["bytes_per_record"] if "intervals" in good else None,
            limit=400,
            unit="B",
        ),
    ]


def leaderboard_table(rows: Sequence[Row]) -> str:
    """Format time, memory and size on disk; empty if no such row counts."""
    good = by_mode(rows, HARNESS)
    labels = {
        "intervals": "instances resampled",
        "benchmarks": "benchmarks resampled",
        "means": "no resampling",
        "intervals-tenfold": "instances resampled",
    }
    lines = [
        [
            f"{good[mode].reported['records']:,.0f} records, {label}",
            f"{good[mode].wall_s:.2f} s",
            f"{good[mode].peak_mib:.0f} MiB",
            f"{good[mode].reported['record_bytes'] / 2**20:.0f} MiB",
        ]
        for mode, label in labels.items()
        if mode in good
    ]
    return table(["leaderboard", "time", "peak memory", "on disk"], lines) if lines else ""


WORKLOAD = Workload(cells=CELLS, prepare=prepare, command=command, read=read, goals=goals, table=leaderboard_table)
