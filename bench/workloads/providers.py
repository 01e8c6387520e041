"""Hosted providers: the cost of each dialect relative to the OpenAI-compatible one.

`tools/provider_speed.py` does the work, in a process of its own that starts a fake server for the services.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.cells import TOOLS, Bench, Cell, Workload
from bench.table import Goal, Row, by_mode, table

HARNESS = "providers"
REFERENCE = "openai"
"""Provider that the others are compared with."""
PROVIDERS = ("azure", "anthropic", "google", "vertex", "bedrock")
"""Providers with a goal."""
CELLS = tuple(Cell(harness=HARNESS, mode=name, repetitions=1) for name in (REFERENCE, *PROVIDERS))
LIMIT = 1.5


def prepare(cells: Sequence[Cell], bench: Bench) -> None:
    """Do nothing: the processes need no files."""


def command(cell: Cell, bench: Bench) -> list[str]:
    """Return the command line of a cell; its mode is the name of the provider."""
    return [bench.python, str(TOOLS / "provider_speed.py"), cell.mode]


def read(_: Cell, bench: Bench) -> dict[str, float]:
    """Read what the process that just finished reports."""
    return dict(bench.report())


def goals(rows: Sequence[Row]) -> list[Goal]:
    """Check one goal per provider: neither time nor CPU time of a request exceeds the limit, relative to openai/."""
    good = _reported(rows)
    return [
        Goal(
            name=f"{name}/, time or CPU time per request relative to openai/, the larger ratio",
            value=max(relative_time(good[name]), relative_cpu(good[name])) if name in good else None,
            limit=LIMIT,
            unit="x",
        )
        for name in PROVIDERS
    ]


def relative_time(reported: Mapping[str, float]) -> float:
    """Return the time per request, relative to openai/ in the same process."""
    return reported["openai_per_s"] / reported["per_s"]


def relative_cpu(reported: Mapping[str, float]) -> float:
    """Return the CPU time per request, relative to openai/ in the same process."""
    return reported["cpu_us"] / reported["openai_cpu_us"]


def providers_table(rows: Sequence[Row]) -> str:
    """Format requests per second and CPU time by provider; empty if no such row counts."""
    good = _reported(rows)
    lines = [
        (
            f"{name}/",
            f"{reported['per_s']:,.0f}",
            f"{relative_time(reported):.2f}x",
            f"{reported['cpu_us']:,.0f}",
            f"{relative_cpu(reported):.2f}x",
        )
        for name in (REFERENCE, *PROVIDERS)
        if (reported := good.get(name))
    ]
    headings = ["hosted providers", "requests/s", "time vs openai/", "CPU µs per request", "CPU vs openai/"]
    return table(headings, lines) if lines else ""


def _reported(rows: Sequence[Row]) -> Mapping[str, Mapping[str, float]]:
    """Return provider -> what its process reports."""
    return {mode: row.reported for mode, row in by_mode(rows, HARNESS).items()}


WORKLOAD = Workload(cells=CELLS, prepare=prepare, command=command, read=read, goals=goals, table=providers_table)
