"""Cells about exchange with others: HELM's files read and written, and how much room runs take on disk.

A release of HELM's of the size that was published is written by `helm_release.py` before anything is measured, and a
tenth of it, which is also taken into a store and written back as HELM's files, for `helm-summarize` and our leaderboard
to work on the same runs.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bench.cells import Bench, Cell

ROOT = Path(__file__).resolve().parent.parent.parent
BENCHMARKS, MODELS = 37, 9
SIZES = {"whole": 1000, "tenth": 100}
"""Name of a release -> instances of each run; there are BENCHMARKS x MODELS runs."""
SUITE = "medhelm"
"""Name of the suite that our export writes."""
LEFTOVERS = ("exchange-import-store", "exchange-out-*")
"""What cells leave, in the work folder."""
LIMIT_S = 1200.0
"""Longest that preparing one thing may take."""
SUMMARIZE = "summarize"
"""Mode of the one cell that is HELM's own."""


def command(cell: Cell, bench: Bench) -> list[str]:
    """The command line of a cell of ours."""
    return _COMMANDS[cell.mode](bench)


def helm_command(bench: Bench) -> list[str]:
    """HELM's tables of the runs that our leaderboard ranks."""
    folder = _exported(bench)
    words = [str(bench.program("helm", "helm-summarize")), "--suite", SUITE, "-o", str(folder)]
    return [*words, "--schema-path", str(folder / "schema.yaml"), "--local-path", str(folder / "prod_env")]


def read(cell: Cell, bench: Bench) -> dict[str, float]:
    """What the process just finished reports, by name."""
    report: Any = json.loads(bench.stdout.read_text(encoding="utf-8"))
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


def read_helm(bench: Bench) -> dict[str, float]:
    """What HELM's leaderboard says, and by how much its win rates differ from ours on the same runs."""
    tables = json.loads((_exported(bench) / "runs" / SUITE / "groups" / "medhelm_scenarios.json").read_text("utf-8"))
    rows = next(table for table in tables if table["title"] == "Accuracy")["rows"]
    theirs = {row[0]["value"]: row[1]["value"] for row in rows}
    done = subprocess.run(_COMMANDS["ranks"](bench), capture_output=True, check=True, cwd=bench.work)
    board = json.loads(done.stdout)
    ours = {model["model"]: model["win_rate"]["value"] for model in board["models"]}
    return {"models": len(theirs), "difference": max(abs(theirs[model] - ours[model]) for model in theirs)}


def on_disk(cell: Cell, bench: Bench) -> dict[str, float]:
    """Bytes that a cold run of W1 left of its records, prompts included; nothing for other cells."""
    if (cell.workload, cell.mode, cell.n, cell.latency_ms, cell.variant) != ("w1", "cold", 1000, 0, ""):
        return {}
    match cell.harness:
        case "medhelm":
            store = bench.work / "medhelm-store"
            return {"bytes": _size([*store.glob("runs/**/*"), *store.glob("prompts/*")])}
        case "helm":
            return {"bytes": _size((bench.work / "helm-out").glob("runs/s/*/*"))}
        case "inspect":
            logs = sorted((bench.work / "inspect-out").glob("*.eval"), key=lambda path: path.stat().st_mtime_ns)
            return {"bytes": _size(logs[-1:])}
        case _:
            return {}


def _size(paths: Iterable[Path]) -> float:
    return sum(path.stat().st_size for path in paths if path.is_file())


# --- before anything is measured --------------------------------------------------------------------------------------


def prepare(modes: Collection[str], bench: Bench) -> None:
    """Write the releases that these cells read, and take the tenth in, unless that is done already."""
    if "import" in modes:
        _release(bench, "whole")
    if set(modes) - {"import"}:
        _release(bench, "tenth")
        if not _store(bench).exists():
            _finished(_import(bench, "tenth", _store(bench)))
    if SUMMARIZE in modes and not _exported(bench).exists():
        _finished(_export(bench, "helm", _exported(bench)))


def _release(bench: Bench, name: str) -> None:
    folder = _release_folder(bench, name)
    if not folder.exists():
        numbers = ["--benchmarks", str(BENCHMARKS), "--models", str(MODELS), "--instances", str(SIZES[name])]
        _finished(
            [str(bench.medhelm.parent / "python"), "-m", "bench.tools.helm_release", str(folder), *numbers], cwd=ROOT
        )


def _release_folder(bench: Bench, name: str) -> Path:
    return bench.work / f"exchange-release-{name}"


def _store(bench: Bench) -> Path:
    """The tenth, as our runs."""
    return bench.work / "exchange-tenth"


def _exported(bench: Bench) -> Path:
    """The tenth, as our runs and written back as HELM's files."""
    return bench.work / "exchange-summarized"


def _import(bench: Bench, name: str, store: Path) -> list[str]:
    return [str(bench.medhelm), "import", "helm", str(_release_folder(bench, name)), "--store", str(store), "--json"]


def _export(bench: Bench, kind: str, place: Path) -> list[str]:
    return [str(bench.medhelm), "export", kind, str(place), "--store", str(_store(bench)), "--json"]


_COMMANDS: Mapping[str, Callable[[Bench], list[str]]] = {
    "ranks": lambda bench: [
        str(bench.medhelm), "leaderboard", "--store", str(_store(bench)), "--scoring", "published", "--json",
    ],
    "export-helm": lambda bench: _export(bench, "helm", bench.work / "exchange-out-helm"),
    "export-parquet": lambda bench: _export(bench, "parquet", bench.work / "exchange-out-parquet"),
    "export-csv": lambda bench: _export(bench, "csv", bench.work / "exchange-out-csv"),
    "import": lambda bench: _import(bench, "whole", bench.work / LEFTOVERS[0]),
}  # fmt: skip
"""Mode of a cell -> its command line."""


def _finished(words: Sequence[str], cwd: Path | None = None) -> str:
    """Standard output of a process that prepares something. Raises SystemExit with what it said if it fails."""
    done = subprocess.run(
        words, capture_output=True, text=True, encoding="utf-8", check=False, timeout=LIMIT_S, cwd=cwd
    )
    if done.returncode != 0:
        raise SystemExit(f"bench: {' '.join(words)} failed\n{done.stderr}")
    return done.stdout
