"""Rows of measurements, as `bench` sums up the runs of a cell."""

from __future__ import annotations

from typing import Any

from bench.table import Row


def measured(cell: str, wall_s: float = 1.0, **more: Any) -> Row:
    """Return a row whose other columns follow from the name of its cell, e.g. `helm/w1-1000/200ms/cold`."""
    harness, *rest = cell.split("/")
    known: dict[str, Any] = {
        "cell": cell,
        "harness": harness.partition("-")[0],
        "mode": rest[-1],
        "n": int(rest[0].split("-")[1]) if len(rest) == 3 else 0,
        "latency_ms": int(rest[1].removesuffix("ms")) if len(rest) == 3 else 0,
        "repetitions": 3,
        "peak_mib": 100.0,
        **dict.fromkeys(("wall_s", "wall_min_s", "wall_max_s", "cpu_s"), wall_s),
    }
    return Row(**(known | more))
