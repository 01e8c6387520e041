"""Cells, the workloads they belong to, and what processes of a cell need to know about this run.

A cell is one row of the table: one command, repeated. A workload owns its cells: it knows what they read, which
commands they run, what those commands report, and which goals follow. `bench.py` knows no workload by name.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.table import Goal, Row

ROOT = Path(__file__).resolve().parent.parent
"""The project folder."""
TOOLS = ROOT / "bench" / "tools"
"""Scripts that cells start as processes of their own."""
CONCURRENCY = 64
"""Concurrent requests, where a cell sets a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One row of the table: one command, repeated."""

    harness: str
    """medhelm, a peer (helm, inspect, lmeval), or the name of a workload that only runs medhelm."""
    mode: str
    """What the command does. `cold` starts from nothing, `warm` repeats a finished run, and `skip` may pass over it."""
    workload: str = "w1"
    """Data that the server is asked about: w1 (PubMedQA), synthetic questions (`invented`), or jury."""
    n: int = 0
    """Instances that the server is asked about; 0 if the cell needs no server."""
    latency_ms: int = 0
    """Time the server takes for each completion."""
    variant: str = ""
    """Options that differ from the harness's defaults, such as c64 (64 concurrent requests) or tuned."""
    repetitions: int | None = None
    """Runs, if not as many as `--reps` says."""

    @property
    def name(self) -> str:
        """Name in tables and for `--only`, such as `medhelm-c64/w1-1000/200ms/cold`."""
        harness = f"{self.harness}-{self.variant}" if self.variant else self.harness
        if self.n == 0:
            return f"{harness}/{self.mode}"
        return f"{harness}/{self.workload}-{self.n}/{self.latency_ms}ms/{self.mode}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Paths and addresses of one run of the script."""

    work: Path
    """Folder for everything written; the working directory of each process."""
    data: Path
    """Folder with one folder of data per benchmark."""
    medhelm: Path
    """The medhelm command."""
    venvs: Path | None
    """Folder with one environment per peer."""
    addresses: Mapping[int, str]
    """Latency in ms -> base URL of the server with that latency."""

    @property
    def stdout(self) -> Path:
        """File with the standard output of the last process; its standard error is beside it."""
        return self.work / "last.out"

    @property
    def python(self) -> str:
        """The interpreter that the medhelm command belongs to."""
        return str(self.medhelm.parent / "python")

    def report(self) -> Any:
        """Parse the JSON that the last process printed."""
        return json.loads(self.stdout.read_text(encoding="utf-8"))

    def program(self, peer: str, name: str) -> Path:
        """Return a command of a peer's environment."""
        return (self.venvs or Path("venvs")) / peer / "bin" / name


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Another harness that runs the same questions."""

    name: str
    """Its name in cells, and of its environment's folder."""
    program: str
    """Command that its environment must have."""
    package: str
    """Distribution that its version is read from."""
    leftovers: tuple[str, ...]
    """Patterns, in the work folder, of everything a run leaves behind; deleted before a cold run."""
    folders: tuple[str, ...] = ()
    """Folders, in the work folder, that must exist before it starts."""


def requests_by_mode(cell: Cell) -> int:
    """Count the requests of a correct run that sends one per instance: none are sent for what is cached."""
    return cell.n if cell.mode == "cold" else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Cells that share data, commands, goals and a table."""

    cells: tuple[Cell, ...]
    """In the order of the table."""
    prepare: Callable[[Sequence[Cell], Bench], None]
    """Writes what the given cells of this workload read. Not measured."""
    command: Callable[[Cell, Bench], list[str]]
    """Returns the command line of a cell."""
    read: Callable[[Cell, Bench], dict[str, float]]
    """Returns what the process that just finished reports: `accuracy`, `seconds_inside`, and more under other names."""
    goals: Callable[[Sequence[Row]], list[Goal]]
    """Checks every goal of the workload against the rows."""
    table: Callable[[Sequence[Row]], str]
    """Returns a Markdown table of the workload, or an empty string if no row of it counts."""
    leftovers: tuple[str, ...] = ()
    """Patterns, in the work folder, of everything its medhelm cells leave behind; deleted before a cold run."""
    expected_requests: Callable[[Cell], int] = requests_by_mode
    """Returns the number of requests of a correct run, for cells that ask the server."""
    can_run: Callable[[Cell, Path], bool] = lambda _cell, _medhelm: True
    """Returns whether a cell can be measured here, with the given medhelm command."""


def environment(work: Path) -> dict[str, str]:
    """Return the environment of measured processes: no MedHELM settings, no proxies, and peers offline."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("MEDHELM_", "PYTHON"))}
    kept = {k: v for k, v in kept.items() if k.lower() not in ("http_proxy", "https_proxy", "all_proxy")}
    return kept | {
        "OPENAI_API_KEY": "none",
        "MOCK_API_KEY": "none",
        "NO_PROXY": "127.0.0.1",
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "HF_HOME": str(work / "hf"),
        "NLTK_DATA": str(work / "nltk"),
        "INSPECT_CACHE_DIR": str(work / "inspect-cache"),
    }


def wipe(leftovers: Sequence[str], bench: Bench) -> None:
    """Delete everything in the work folder that matches one of the patterns."""
    for pattern in leftovers:
        for path in bench.work.glob(pattern):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


def write_json(path: Path, value: object) -> None:
    """Write a value as indented JSON, which is also YAML."""
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")
