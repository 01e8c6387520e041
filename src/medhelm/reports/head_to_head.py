"""The head-to-head matrix of a leaderboard as a table, as CSV and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from medhelm.reports.tables import Value, decimal, number

if TYPE_CHECKING:
    from medhelm.analysis.leaderboard.head_to_head import HeadToHead

MOST_SHOWN = 15
"""Most models in the matrix; CSV and JSON list every pair."""

SEPARATED = "*"
"""Mark of a pair that differs significantly."""

CSV_HEADERS = ["a", "b", "win_share", "unit", "n_benchmarks", "separated"]
"""Columns of the list of pairs."""


def head_to_head_json(found: HeadToHead) -> list[dict[str, Any]]:
    """Return every pair that shares a benchmark, the higher-ranked model first."""
    n = len(found.models)
    return [
        {
            "a": found.models[i],
            "b": found.models[j],
            "win_share": number(float(found.win_share[i, j])),
            "unit": found.unit,
            "n_benchmarks": int(found.n_benchmarks[i, j]),
            "separated": bool(found.separated[i, j]),
        }
        for i in range(n)
        for j in range(i + 1, n)
        if found.n_benchmarks[i, j]
    ]


def head_to_head_list(found: HeadToHead) -> list[list[Value]]:
    """Return one row per pair, with the columns `CSV_HEADERS`."""
    return [[one[key] for key in CSV_HEADERS] for one in head_to_head_json(found)]


def head_to_head_matrix(found: HeadToHead, names: Sequence[str]) -> tuple[list[str], list[list[Value]]]:
    """Return headings and rows of the matrix of the first models: each row against the numbered columns.

    Parameters: names, of the models as tables show them.
    """
    shown = range(min(len(found.models), MOST_SHOWN))
    rows: list[list[Value]] = []
    for i in shown:
        mark = [SEPARATED if found.separated[i, j] else "" for j in shown]
        cells = [number(float(found.win_share[i, j])) for j in shown]
        texts = [None if cell is None else f"{decimal(cell, 2)}{m}" for cell, m in zip(cells, mark, strict=True)]
        rows.append([i + 1, names[i], *texts])
    return ["No.", "Model", *(str(j + 1) for j in shown)], rows


def head_to_head_note(found: HeadToHead) -> str:
    """Return what the matrix shows, in one sentence."""
    text = f"Share of {found.unit} on which the row's model beats the column's, a tie counting one half; "
    text += f"{SEPARATED} significantly different on the leaderboard"
    if len(found.models) > MOST_SHOWN:
        text += f"; the first {MOST_SHOWN} of {len(found.models)} models, CSV lists all pairs"
    return text
