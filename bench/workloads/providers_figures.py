"""From rows about hosted providers to their goals and their table: no processes, no clocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.table import Goal, Row, table

YARDSTICK = "openai"
"""Whom the others are compared with."""
PROVIDERS = ("azure", "anthropic", "google", "vertex", "bedrock")
"""Who has a goal."""
LIMIT = 1.5


def judge(rows: Sequence[Row]) -> list[Goal]:
    """One goal for each provider: neither time nor processor of a request above the limit, times that of openai/."""
    good = _good(rows)
    return [
        Goal(
            name=f"{name}/, a request's time or CPU, whichever is worse, times openai/'s",
            value=max(time_of(good[name]), cpu_of(good[name])) if name in good else None,
            limit=LIMIT,
            unit="x",
        )
        for name in PROVIDERS
    ]


def time_of(told: Mapping[str, float]) -> float:
    """Time of a request, times that of openai/ in the same process."""
    return told["openai_per_s"] / told["per_s"]


def cpu_of(told: Mapping[str, float]) -> float:
    """Processor time of a request, times that of openai/ in the same process."""
    return told["cpu_us"] / told["openai_cpu_us"]


def providers_table(rows: Sequence[Row]) -> str:
    """How fast each provider's stand-in is asked; empty if no such row counts."""
    good = _good(rows)
    lines = [
        (
            f"{name}/",
            f"{told['per_s']:,.0f}",
            f"{time_of(told):.2f}x",
            f"{told['cpu_us']:,.0f}",
            f"{cpu_of(told):.2f}x",
        )
        for name in (YARDSTICK, *PROVIDERS)
        if (told := good.get(name))
    ]
    headings = ["hosted providers", "requests/s", "time, of openai/'s", "CPU µs per request", "CPU, of openai/'s"]
    return table(headings, lines) if lines else ""


def _good(rows: Sequence[Row]) -> Mapping[str, Mapping[str, float]]:
    """Name of a provider -> what its process reports."""
    return {row.mode: row.reported for row in rows if row.harness == "providers" and row.counts}
