"""Exchange with other harnesses: HELM's files read and written, and the size of runs on disk.

`tools/helm_release.py` writes a synthetic HELM release as large as the published one. A tenth of it is imported and
exported again beforehand, so that `helm-summarize` and our leaderboard work on the same runs.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench.cells import TOOLS, Bench, Cell, Workload
from bench.measure import output_of
from bench.table import Goal, Row, by_mode, table

HARNESS = "exchange"
SUMMARIZE = Cell(harness="helm", mode="summarize", repetitions=1)
"""HELM's own tables, of the runs that our leaderboard ranks."""
CELLS = (
    Cell(harness=HARNESS, mode="ranks"),
    Cell(harness=HARNESS, mode="export-helm"),
    Cell(harness=HARNESS, mode="export-parquet"),
    Cell(harness=HARNESS, mode="export-csv"),
    Cell(harness=HARNESS, mode="import", repetitions=1),
    SUMMARIZE,
)
BENCHMARKS, MODELS = 37, 9
SIZES = {"whole": 1000, "tenth": 100}
"""Name of a release -> instances of each run; there are BENCHMARKS x MODELS runs."""
SUITE = "medhelm"
"""Name of the suite in our export."""
LEFTOVERS = ("exchange-import-store", "exchange-out-*")
W1 = "w1-1000/0ms/cold"
"""Cells that leave the same 1,000 instances on disk."""
W1_INSTANCES = 1000

# --- preparation ------------------------------------------------------------------------------------------------------


def prepare(cells: Sequence[Cell], bench: Bench) -> None:
    """Write the releases that these cells read, and import and export the tenth, unless that is done."""
    modes = {cell.mode for cell in cells}
    if "import" in modes:
        _write_release(bench, "whole")
    if modes - {"import"}:
        _write_release(bench, "tenth")
        if not _store(bench).exists():
            output_of(_import(bench, "tenth", _store(bench)))
    if SUMMARIZE.mode in modes and not _exported(bench).exists():
        output_of(_export(bench, "helm", _exported(bench)))


def _write_release(bench: Bench, name: str) -> None:
    folder = _release(bench, name)
    if not folder.exists():
        sizes = ["--benchmarks", str(BENCHMARKS), "--models", str(MODELS), "--instances", str(SIZES[name])]
        output_of([bench.python, str(TOOLS / "helm_release.py"), str(folder), *sizes])


def _release(bench: Bench, name: str) -> Path:
    return bench.work / f"exchange-release-{name}"


def _store(bench: Bench) -> Path:
    """Return the store with the imported tenth."""
    return bench.work / "exchange-tenth"


def _exported(bench: Bench) -> Path:
    """Return the folder with the tenth, imported and exported again."""
    return bench.work / "exchange-summarized"


# --- commands and reports ---------------------------------------------------------------------------------------------


def command(cell: Cell, bench: Bench) -> list[str]:
    """Return the command line of a cell."""
    return _COMMANDS[cell.mode](bench)


def read(cell: Cell, bench: Bench) -> dict[str, float]:
    """Read what the process that just finished reports."""
    if cell.mode == SUMMARIZE.mode:
        return _read_summary(bench)
    report = bench.report()
    match cell.mode:
        case "import":
            runs = report["runs"]
            return {"runs": len(runs), "instances": sum(run["n"] for run in runs)}
        case "ranks":
            models, scores = report["models"], [m["benchmarks"].values() for m in report["models"]]
            return {"models": len(models), "instances": sum(one["n"] for own in scores for one in own)}
        case "export-helm":
            return {"instances": report["counts"]["instances"], "bytes": report["bytes"]}
        case _:
            return {"instances": report["counts"]["records"], "bytes": report["bytes"]}


def _read_summary(bench: Bench) -> dict[str, float]:
    """Read HELM's leaderboard and compare its win rates with ours of the same runs."""
    tables = json.loads((_exported(bench) / "runs" / SUITE / "groups" / "medhelm_scenarios.json").read_text("utf-8"))
    rows = next(table for table in tables if table["title"] == "Accuracy")["rows"]
    theirs = {row[0]["value"]: row[1]["value"] for row in rows}
    done = subprocess.run(_COMMANDS["ranks"](bench), capture_output=True, check=True, cwd=bench.work)
    leaderboard = json.loads(done.stdout)
    ours = {model["model"]: model["win_rate"]["value"] for model in leaderboard["models"]}
    return {"models": len(theirs), "difference": max(abs(theirs[model] - ours[model]) for model in theirs)}


def _import(bench: Bench, name: str, store: Path) -> list[str]:
    return [str(bench.medhelm), "import", "helm", str(_release(bench, name)), "--store", str(store), "--json"]


def _export(bench: Bench, kind: str, folder: Path) -> list[str]:
    return [str(bench.medhelm), "export", kind, str(folder), "--store", str(_store(bench)), "--json"]


def _summarize(bench: Bench) -> list[str]:
    folder = _exported(bench)
    words = [str(bench.program("helm", "helm-summarize")), "--suite", SUITE, "-o", str(folder)]
    return [*words, "--schema-path", str(folder / "schema.yaml"), "--local-path", str(folder / "prod_env")]


_COMMANDS: Mapping[str, Callable[[Bench], list[str]]] = {
    "ranks": lambda bench: [
        str(bench.medhelm), "leaderboard", "--store", str(_store(bench)), "--scoring", "published", "--json",
    ],
    "export-helm": lambda bench: _export(bench, "helm", bench.work / "exchange-out-helm"),
    "export-parquet": lambda bench: _export(bench, "parquet", bench.work / "exchange-out-parquet"),
    "export-csv": lambda bench: _export(bench, "csv", bench.work / "exchange-out-csv"),
    "import": lambda bench: _import(bench, "whole", bench.work / LEFTOVERS[0]),
    SUMMARIZE.mode: _summarize,
}  # fmt: skip
"""Mode of a cell -> its command line."""

# --- goals and table --------------------------------------------------------------------------------------------------


def goals(rows: Sequence[Row]) -> list[Goal]:
    """Check every goal of the workload against the rows."""
    good, size = by_mode(rows, HARNESS), _bytes_on_disk(rows)
    ours, ranks, summary = size.get("medhelm"), good.get("ranks"), _summary(rows)

    def relative_size(peer: str) -> float | None:
        return ours / size[peer] if ours and size.get(peer) else None

    return [
        Goal(name="W1 on disk, relative to HELM's run folder", value=relative_size("helm"), limit=0.1, unit="x"),
        Goal(name="W1 on disk, relative to Inspect's log", value=relative_size("inspect"), limit=1.0, unit="x"),
        Goal(
            name="import of a HELM release, instances per second",
            value=_rate(good.get("import")),
            limit=20_000,
            unit="/s",
            at_least=True,
        ),
        Goal(
            name="peak memory, import of a HELM release",
            value=good["import"].peak_mib if "import" in good else None,
            limit=400,
            unit="MiB",
        ),
        Goal(
            name="export as HELM's files, instances per second",
            value=_rate(good.get("export-helm")),
            limit=1500,
            unit="/s",
            at_least=True,
        ),
        Goal(
            name="leaderboard of 333 runs, relative to helm-summarize",
            value=ranks.wall_s / summary.wall_s if ranks and summary else None,
            limit=0.1,
            unit="x",
        ),
        Goal(
            name="win rates of HELM and ours, largest difference",
            value=summary.reported["difference"] if summary else None,
            limit=0.000001,
            unit="x",
        ),
    ]


def exchange_table(rows: Sequence[Row]) -> str:
    """Format sizes, times and rates of exchange; empty if no such row counts."""
    good = by_mode(rows, HARNESS)
    labels = {"medhelm": "our run folder and prompts", "helm": "HELM's run folder", "inspect": "Inspect's log"}
    lines = [
        (f"{W1_INSTANCES:,} instances of W1 on disk: {labels[harness]}", f"{size / W1_INSTANCES:,.0f} bytes each")
        for harness, size in _bytes_on_disk(rows).items()
    ]
    for mode, label in (
        ("import", "import of a HELM release"),
        ("export-helm", "export as HELM's files"),
        ("export-parquet", "export as Parquet tables"),
        ("export-csv", "export as CSV tables"),
    ):
        if (row := good.get(mode)) and (rate := _rate(row)):
            instances = f"{row.reported['instances']:,.0f} instances"
            lines.append((f"{label}, {instances}", f"{row.wall_s:.1f} s, {rate:,.0f} /s"))
    if row := good.get("ranks"):
        instances = f"{row.reported['instances']:,.0f} instances"
        lines.append((f"leaderboard of {instances}, all intervals", f"{row.wall_s:.1f} s"))
    if row := _summary(rows):
        lines.append(("helm-summarize of the same runs, no intervals", f"{row.wall_s:.1f} s"))
    return table(["exchange", "measured"], lines) if lines else ""


def _bytes_on_disk(rows: Sequence[Row]) -> Mapping[str, float]:
    """Return harness -> bytes that its cold run of W1 left."""
    w1 = [row for row in rows if row.counts and row.cell.endswith(f"/{W1}") and "bytes" in row.reported]
    found = {row.harness: row.reported["bytes"] for row in w1}
    return {harness: found[harness] for harness in ("medhelm", "helm", "inspect") if harness in found}


def _summary(rows: Sequence[Row]) -> Row | None:
    return next((row for row in rows if row.cell == SUMMARIZE.name and row.counts), None)


def _rate(row: Row | None) -> float | None:
    """Return instances per second, from process start to exit."""
    return row.reported["instances"] / row.wall_s if row else None


WORKLOAD = Workload(
    cells=CELLS,
    prepare=prepare,
    command=command,
    read=read,
    goals=goals,
    table=exchange_table,
    leftovers=LEFTOVERS,
)
