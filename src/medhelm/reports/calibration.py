"""Jury scores and what clinicians would give, side by side."""

from __future__ import annotations

from typing import Any

from medhelm.analysis.agreement.calibration import Calibrated
from medhelm.analysis.leaderboard.types import Leaderboard
from medhelm.reports.tables import Value, render, with_interval

WAYS = {
    "prediction-powered": "own ratings",
    "isotonic": "own ratings, curve",
    "pooled": "ratings of all models",
    "constant": "own ratings, all equal",
}
"""Method -> what the correction rests on, in words."""


def to_table(board: Leaderboard, format: str) -> str:
    """One row for each benchmark and model that is calibrated; empty if none is. `format`: see `tables.render`."""
    rows: list[list[Value]] = []
    for column in board.columns:
        for row in board.rows:
            cell = row.cells.get(column.benchmark)
            if cell is None or cell.calibrated is None or cell.estimate is None:
                continue
            jury, found = cell.estimate, cell.calibrated
            rows.append(
                [
                    column.title,
                    row.model,
                    with_interval(jury.value, jury.low, jury.high, 2),
                    with_interval(found.value, found.low, found.high, 2),
                    f"{found.n_rated} of {found.n}",
                    WAYS.get(found.method.removesuffix("-clustered"), found.method),
                ]
            )
    if not rows:
        return ""
    headers = ["Benchmark", "Model", "Jury", "Calibrated to clinicians", "Rated", "By"]
    return render(rows, headers, format=format, caption="Jury and clinicians: means with 95 % intervals", keep=2)


def to_json(found: Calibrated) -> dict[str, Any]:
    """A calibrated score; `lambda` is the weight of the jury."""
    return {
        "value": round(found.value, 6),
        "low": round(found.low, 6),
        "high": round(found.high, 6),
        "n": found.n,
        "n_rated": found.n_rated,
        "lambda": round(found.lambda_, 6),
        "method": found.method,
    }
