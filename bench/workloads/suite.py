"""Cells about the suite of benchmarks: its definitions, its data, prompts of EHRSHOT's size, the sample tier, ROUGE.

The commands of these cells, what their processes report, and what has to be written before them. Everything that needs
more than the standard library is done by processes of their own: our command, `probe.py` and `rouge.py`.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bench.cells import Bench, Cell

TOOLS = Path(__file__).resolve().parent.parent / "tools"
STORE = "suite-store"
"""Where runs of these cells are stored, in the work folder."""
PASSES = 15
"""Passes over the largest data set whose median is its steady state."""
LIMIT_S = 300.0
"""Longest that preparing one thing may take."""


def command(cell: Cell, bench: Bench) -> list[str]:
    """The command line of a cell."""
    return _COMMANDS[cell.mode](bench)


def read(cell: Cell, bench: Bench) -> dict[str, float]:
    """What the process just finished reports, by name; nothing where it prints no report."""
    if cell.mode == "imports":
        return {}
    report: Any = json.loads(bench.stdout.read_text(encoding="utf-8"))
    match cell.mode:
        case "list":
            return {"definitions": len(report["benchmarks"])}
        case "sample-tier":
            return {"seconds_inside": report["seconds"], "on_leaderboard": _on_leaderboard(bench)}
        case "ehrshot-run":
            return {"seconds_inside": report["seconds"], "instances": report["runs"][0]["n"]}
        case _:
            return dict(report)


def prepare(modes: Collection[str], bench: Bench) -> None:
    """Find the largest data set, and write the made-up EHRSHOT, as far as these cells need them."""
    if {"largest", "largest-again"} & set(modes):
        found = _finished(_probe(bench, "largest", "--data", str(bench.data)))
        _largest_file(bench).write_text(found, encoding="utf-8")
    if {"ehrshot-prompts", "ehrshot-run"} & set(modes):
        _finished(_probe(bench, "write-ehrshot", str(_made_up_data(bench) / "ehrshot")))


def largest(bench: Bench) -> str:
    """Name of the benchmark with most instances among those whose data is here; `prepare` has found it."""
    name: str = json.loads(_largest_file(bench).read_text(encoding="utf-8"))["benchmark"]
    return name


def _on_leaderboard(bench: Bench) -> int:
    """Benchmarks that the one model of the store has a score for, by our own leaderboard."""
    words = [str(bench.medhelm), "leaderboard", "--store", str(bench.work / STORE), "--tier", "sample", "--json"]
    done = subprocess.run(words, capture_output=True, check=True, cwd=bench.work)
    (model,) = json.loads(done.stdout)["models"]
    n: int = model["n_benchmarks"]
    return n


def _render_largest(bench: Bench, *more: str) -> list[str]:
    return _probe(bench, "render", largest(bench), "--sample", "all", "--data", str(bench.data), *more)


def _run(bench: Bench, *words: str) -> list[str]:
    return [str(bench.medhelm), "run", *words, "--store", str(bench.work / STORE), "--json"]


_COMMANDS: Mapping[str, Callable[[Bench], list[str]]] = {
    "imports": lambda bench: [_python(bench), "-c", "import pydantic, yaml, click"],
    "list": lambda bench: [str(bench.medhelm), "benchmarks", "list", "--json"],
    "sample-tier": lambda bench: _run(bench, "all", "--tier", "sample", "--model", "baseline/lexical"),
    "largest": lambda bench: _render_largest(bench),
    "largest-again": lambda bench: _render_largest(bench, "--passes", str(PASSES)),
    "ehrshot-prompts": lambda bench: _probe(bench, "render", "ehrshot", "--data", str(_made_up_data(bench))),
    "ehrshot-run": lambda bench: _run(
        bench, "ehrshot", "--model", "baseline/majority", "--data", str(_made_up_data(bench))
    ),
    "rouge": lambda bench: [_python(bench), str(TOOLS / "rouge.py"), "--data", str(bench.data)],
}
"""Mode of a cell -> its command line."""


def _probe(bench: Bench, *words: str) -> list[str]:
    return [_python(bench), str(TOOLS / "suite_probe.py"), *words]


def _python(bench: Bench) -> str:
    """The Python that our command belongs to."""
    return str(bench.medhelm.parent / "python")


def _made_up_data(bench: Bench) -> Path:
    return bench.work / "made-up-data"


def _largest_file(bench: Bench) -> Path:
    return bench.work / "largest.json"


def _finished(words: Sequence[str]) -> str:
    """Standard output of a process that prepares something. Raises SystemExit with what it said if it fails."""
    done = subprocess.run(words, capture_output=True, text=True, encoding="utf-8", check=False, timeout=LIMIT_S)
    if done.returncode != 0:
        raise SystemExit(f"bench: {' '.join(words)} failed\n{done.stderr}")
    return done.stdout
