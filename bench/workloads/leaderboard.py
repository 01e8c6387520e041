"""Cells about the leaderboard of large stores: the suite's own size, and ten times as many instances.

The stores are written by `board_store.py` before anything is measured; the commands only read them.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bench.cells import Bench, Cell

TOOLS = Path(__file__).resolve().parent.parent / "tools"
SIZES = {"suite": 1000, "tenfold": 10_000}
"""Name of a store -> instances of each of its 37 benchmarks, for 9 models."""
LIMIT_S = 1200.0
"""Longest that writing one store may take."""


def command(cell: Cell, bench: Bench) -> list[str]:
    """The command line of a cell."""
    return _COMMANDS[cell.mode](bench)


def read(cell: Cell, bench: Bench) -> dict[str, float]:
    """What the process just finished reports, and what its store holds, by name."""
    report: Any = json.loads(bench.stdout.read_text(encoding="utf-8"))
    written: dict[str, float] = json.loads(_report_file(bench, _size_of(cell.mode)).read_text(encoding="utf-8"))
    models = report["models"]
    return written | {
        "models": len(models),
        "benchmarks": len(report["benchmarks"]),
        "with_interval": sum(model["rank_low"] is not None for model in models),
    }


def prepare(modes: Collection[str], bench: Bench) -> None:
    """Write the stores that these cells read, unless they are there already."""
    for name in dict.fromkeys(map(_size_of, modes)):
        if _report_file(bench, name).exists():
            continue
        words = [_python(bench), str(TOOLS / "leaderboard_store.py"), str(store(bench, name))]
        words += ["--instances", str(SIZES[name])]
        done = subprocess.run(words, capture_output=True, text=True, encoding="utf-8", check=False, timeout=LIMIT_S)
        if done.returncode != 0:
            raise SystemExit(f"bench: {' '.join(words)} failed\n{done.stderr}")
        _report_file(bench, name).write_text(done.stdout, encoding="utf-8")


def store(bench: Bench, name: str) -> Path:
    """Folder of a store: `suite` or `tenfold`."""
    return bench.work / f"board-{name}"


def _leaderboard(bench: Bench, name: str, *more: str) -> list[str]:
    return [str(bench.medhelm), "leaderboard", "--store", str(store(bench, name)), "--json", *more]


_COMMANDS: Mapping[str, Callable[[Bench], list[str]]] = {
    "intervals": lambda bench: _leaderboard(bench, "suite"),
    "means": lambda bench: _leaderboard(bench, "suite", "--resample", "none"),
    "benchmarks": lambda bench: _leaderboard(bench, "suite", "--resample", "benchmarks"),
    "intervals-tenfold": lambda bench: _leaderboard(bench, "tenfold"),
}
"""Mode of a cell -> its command line."""


def _size_of(mode: str) -> str:
    """Name of the store that a cell reads."""
    return "tenfold" if mode.endswith("-tenfold") else "suite"


def _report_file(bench: Bench, name: str) -> Path:
    return bench.work / f"board-{name}.json"


def _python(bench: Bench) -> str:
    """The Python that our command belongs to."""
    return str(bench.medhelm.parent / "python")
