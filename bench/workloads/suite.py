"""The suite of benchmarks: its definitions, its data, prompts of EHRSHOT's size, the sample tier, and ROUGE.

Processes of their own do everything that needs more than the standard library: medhelm, `tools/suite_probe.py` and
`tools/rouge.py`.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench.cells import TOOLS, Bench, Cell, Workload
from bench.measure import output_of
from bench.table import Goal, Row, by_mode, peak, table, wall

HARNESS = "suite"
CELLS = (
    Cell(harness=HARNESS, mode="imports"),
    Cell(harness=HARNESS, mode="list"),
    Cell(harness=HARNESS, mode="sample-tier"),
    Cell(harness=HARNESS, mode="largest"),
    Cell(harness=HARNESS, mode="largest-again"),
    Cell(harness=HARNESS, mode="ehrshot-prompts"),
    Cell(harness=HARNESS, mode="ehrshot-run", repetitions=1),
    Cell(harness=HARNESS, mode="rouge", repetitions=1),
)
STORE = "suite-store"
"""Store of these cells, in the work folder."""
PASSES = 15
"""Passes over the largest data set; their median is the steady state."""
LIST_LIMIT_S = 0.5
"""Limit for listing and validating all definitions."""
N_BENCHMARKS = 37
"""Benchmarks of the suite."""

# --- commands and reports ---------------------------------------------------------------------------------------------


def prepare(cells: Sequence[Cell], bench: Bench) -> None:
    """Find the largest data set and write synthetic EHRSHOT data, if these cells need them."""
    modes = {cell.mode for cell in cells}
    if {"largest", "largest-again"} & modes:
        found = output_of(_probe(bench, "largest", "--data", str(bench.data)))
        _largest_file(bench).write_text(found, encoding="utf-8")
    if {"ehrshot-prompts", "ehrshot-run"} & modes:
        output_of(_probe(bench, "write-ehrshot", str(_synthetic_data(bench) / "ehrshot")))


def command(cell: Cell, bench: Bench) -> list[str]:
    """Return the command line of a cell."""
    return _COMMANDS[cell.mode](bench)


def read(cell: Cell, bench: Bench) -> dict[str, float]:
    """Read what the process that just finished reports."""
    if cell.mode == "imports":
        return {}
    report = bench.report()
    match cell.mode:
        case "list":
            return {"definitions": len(report["benchmarks"])}
        case "sample-tier":
            return {"seconds_inside": report["seconds"], "on_leaderboard": _on_leaderboard(bench)}
        case "ehrshot-run":
            return {"seconds_inside": report["seconds"], "instances": report["runs"][0]["n"]}
        case _:
            return dict(report)


def largest(bench: Bench) -> str:
    """Return the name of the benchmark with most instances, which `prepare` found."""
    name: str = json.loads(_largest_file(bench).read_text(encoding="utf-8"))["benchmark"]
    return name


def _on_leaderboard(bench: Bench) -> int:
    """Count the benchmarks for which the leaderboard has a score of the only model in the store."""
    words = [str(bench.medhelm), "leaderboard", "--store", str(bench.work / STORE), "--tier", "sample", "--json"]
    done = subprocess.run(words, capture_output=True, check=True, cwd=bench.work)
    (model,) = json.loads(done.stdout)["models"]
    n: int = model["n_benchmarks"]
    return n


def _render_largest(bench: Bench, *more: str) -> list[str]:
    return _probe(bench, "render", largest(bench), "--sample", "all", "--data", str(bench.data), *more)


def _run(bench: Bench, *words: str) -> list[str]:
    return [str(bench.medhelm), "run", *words, "--store", str(bench.work / STORE), "--json"]


def _probe(bench: Bench, *words: str) -> list[str]:
    return [bench.python, str(TOOLS / "suite_probe.py"), *words]


def _synthetic_data(bench: Bench) -> Path:
    return bench.work / "synthetic-data"


def _largest_file(bench: Bench) -> Path:
    return bench.work / "largest.json"


_COMMANDS: Mapping[str, Callable[[Bench], list[str]]] = {
    "imports": lambda bench: [bench.python, "-c", "import pydantic, yaml, click"],
    "list": lambda bench: [str(bench.medhelm), "benchmarks", "list", "--json"],
    "sample-tier": lambda bench: _run(bench, "all", "--tier", "sample", "--model", "baseline/lexical"),
    "largest": lambda bench: _render_largest(bench),
    "largest-again": lambda bench: _render_largest(bench, "--passes", str(PASSES)),
    "ehrshot-prompts": lambda bench: _probe(bench, "render", "ehrshot", "--data", str(_synthetic_data(bench))),
    "ehrshot-run": lambda bench: _run(
        bench, "ehrshot", "--model", "baseline/majority", "--data", str(_synthetic_data(bench))
    ),
    "rouge": lambda bench: [bench.python, str(TOOLS / "rouge.py"), "--data", str(bench.data)],
}
"""Mode of a cell -> its command line."""

# --- goals and table --------------------------------------------------------------------------------------------------


def goals(rows: Sequence[Row]) -> list[Goal]:
    """Check every goal of the workload against the rows."""
    good = by_mode(rows, HARNESS)

    def reported(mode: str, name: str) -> float | None:
        return good[mode].reported[name] if mode in good else None

    listing = wall(good, "list")
    return [
        Goal(
            name="listing and validating the definitions, relative to 0.5 s",
            value=None if listing is None else listing / LIST_LIMIT_S,
            limit=1,
            unit="x",
        ),
        Goal(
            name="definitions listed", value=reported("list", "definitions"), limit=N_BENCHMARKS, unit="", at_least=True
        ),
        Goal(
            name="prompts per second of the largest public data set, including loading",
            value=_rate(good, "largest-again"),
            limit=20_000,
            unit="/s",
            at_least=True,
        ),
        Goal(name="peak memory, prompts of EHRSHOT's size", value=peak(good, "ehrshot-prompts"), limit=300, unit="MiB"),
        Goal(name="peak memory, a run of EHRSHOT's size", value=peak(good, "ehrshot-run"), limit=300, unit="MiB"),
        Goal(name="a run of all benchmarks, sample tier", value=wall(good, "sample-tier"), limit=60, unit="s"),
        Goal(
            name="benchmarks on the leaderboard of that run",
            value=reported("sample-tier", "on_leaderboard"),
            limit=N_BENCHMARKS,
            unit="",
            at_least=True,
        ),
        Goal(name="ROUGE of 10,000 notes, one core", value=reported("rouge", "ours_s"), limit=60, unit="s"),
        Goal(
            name="ROUGE on one core, speedup over rouge-score",
            value=reported("rouge", "ratio"),
            limit=10,
            unit="x",
            at_least=True,
        ),
    ]


def suite_table(rows: Sequence[Row]) -> str:
    """Format the times of the suite's processes; empty if no such row counts."""
    good = by_mode(rows, HARNESS)
    lines: list[tuple[str, str]] = []

    def add(mode: str, label: str, value: str) -> None:
        if mode in good:
            known = {"wall_s": good[mode].wall_s, **good[mode].reported}
            lines.append((label.format(**known), value.format(**known)))

    add("imports", "importing only pydantic, yaml and click", "{wall_s:.2f} s")
    add("list", "listing and validating {definitions} definitions", "{wall_s:.2f} s")
    for mode, how in (("largest-again", "read again"), ("largest", "including process startup")):
        if (rate := _rate(good, mode)) is not None:
            add(mode, f"prompts per second, {{instances:,}} of {{characters:,}} characters, {how}", f"{rate:,.0f} /s")
    add(
        "ehrshot-prompts",
        "EHRSHOT's {instances:,} prompts of {characters:,} characters, including process startup",
        "{wall_s:.1f} s",
    )
    add("ehrshot-run", "a run of these {instances:,}, baseline/majority", "{wall_s:.1f} s")
    add("sample-tier", "a run of {on_leaderboard} benchmarks, sample tier, baseline/lexical", "{wall_s:.1f} s")
    add("rouge", "ROUGE of {pairs:,} notes of {words_per_note} words, one core", "{ours_s:.1f} s")
    add("rouge", "ROUGE of one note, one core", "{ours_ms:.2f} ms")
    add("rouge", "the same, rouge-score", "{library_ms:.1f} ms")
    return table(["suite", "measured"], lines) if lines else ""


def _rate(good: Mapping[str, Row], mode: str) -> float | None:
    """Return prompts per second: of one pass if passes were repeated, else of the whole process."""
    if mode not in good:
        return None
    row = good[mode]
    return row.reported["instances"] / (row.reported["pass_s"] if mode == "largest-again" else row.wall_s)


WORKLOAD = Workload(
    cells=CELLS,
    prepare=prepare,
    command=command,
    read=read,
    goals=goals,
    table=suite_table,
    leftovers=(STORE,),
)
