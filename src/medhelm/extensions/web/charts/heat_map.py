"""Tables whose cells are shaded in steps: models by benchmarks, and every two models head to head.

The number is in each cell, so that color is never alone. `charts.css` has the colors of the steps.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.analysis.leaderboard.head_to_head import HeadToHead
from medhelm.analysis.leaderboard.types import Leaderboard, Row
from medhelm.reports.charts.svg import known, shorten
from medhelm.reports.formats.tables import MISSING, Value, as_line, decimal, estimate_text, number, render
from medhelm.reports.leaderboard import SEPARATED, head_to_head_list, head_to_head_note
from medhelm.reports.leaderboard_fields import shown_name

SCORE_EDGES = (0.15, 0.3, 0.45, 0.6, 0.75, 0.9)
"""Ends of the seven steps of scores, on the scale from 0 (worst) to 1 (best)."""

SHARE_EDGES = (0.2, 0.35, 0.45, 0.55, 0.65, 0.8)
"""Ends of the seven steps of head-to-head shares, equal on both sides of one half."""

LONGEST_NAME = 40
"""Characters shown of a name; the full name is its tooltip."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadedCell:
    """One cell of a shaded table."""

    text: str
    """Content for people."""
    css: str
    """Classes: `step-1` to `step-7`, `missing`, `failed` or `self`, and `separated`."""
    tip: str = ""
    """Content in words, as the tooltip."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadedName:
    """A name in the headings of a shaded table."""

    text: str
    """The name, shortened."""
    full: str
    """The whole name."""
    key: str
    """Id of the model or benchmark, for links."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadedTable:
    """A table of shaded cells, with its legend and CSV."""

    name: str
    """Part of the names of its files."""
    title: str
    """Title for people."""
    description: str
    """Meaning of the numbers."""
    css: str
    """Class of the table: `scores` or `shares`."""
    columns: Sequence[ShadedName]
    """Headings of the columns."""
    rows: Sequence[tuple[ShadedName, Sequence[ShadedCell]]]
    """Heading and cells of each row."""
    legend: Sequence[tuple[str, str]]
    """Class and meaning of each kind of cell that the table has."""
    headers: Sequence[str]
    """Headings of the CSV file."""
    numbers: Sequence[Sequence[Value]]
    """Rows of the CSV file."""
    is_numbered: bool = False
    """True if columns are headed by the numbers of the rows, because they are the same models."""

    @property
    def csv(self) -> str:
        """The numbers as CSV."""
        return render(self.numbers, self.headers, format="csv")


def step(value: float, edges: Sequence[float] = SCORE_EDGES) -> int:
    """Return the step of a number, from 1.

    >>> step(0.0), step(0.62), step(1.0)
    (1, 5, 7)
    """
    return 1 + bisect_right(edges, value)


def _name(full: str, key: str) -> ShadedName:
    clean = as_line(full) or "(no name)"
    return ShadedName(text=shorten(clean, LONGEST_NAME), full=clean, key=key)


def heat_map(board: Leaderboard) -> ShadedTable:
    """Return models by benchmarks: each mean on the scale of its metric from 0 (worst) to 1 (best)."""
    rows = [
        (_name(shown_name(row), row.model), [_score_cell(row, column) for column in board.columns])
        for row in board.all_rows
    ]
    used = {cell.css for _, cells in rows for cell in cells}
    return ShadedTable(
        name="heat-map",
        title="Scores by benchmark",
        description="Mean scores from 0 (worst) to 1 (best), each on the scale of its metric.",
        css="scores",
        columns=[_name(column.title, column.benchmark) for column in board.columns],
        rows=rows,
        legend=[(css, text) for css, text in _legend(SCORE_EDGES) if css in used or css.startswith("step")],
        headers=["model", *(column.benchmark for column in board.columns)],
        numbers=[[row.model, *(number(_share(row, column)) for column in board.columns)] for row in board.all_rows],
    )


def _score_cell(row: Row, column: Column) -> ShadedCell:
    """Return a mean, or the reason why there is none."""
    cell: Cell | None = row.cells.get(column.benchmark)
    where = f"{as_line(row.model)} on {as_line(column.title)}"
    value = known(cell.value) if cell else None
    if cell is None:
        return ShadedCell(text=MISSING, css="missing", tip=f"{where}: not run")
    if value is None:
        return ShadedCell(text="failed", css="failed", tip=f"{where}: no instance could be scored")
    share = _share(row, column) or 0.0
    failed = f"; {cell.n_failed} failed" if cell.n_failed else ""
    own = estimate_text(cell.estimate) or decimal(value)
    tip = f"{where}: {column.metric_title or column.metric} {own}{failed}"
    return ShadedCell(text=decimal(share, 2) or MISSING, css=f"step-{step(share)}", tip=tip)


def _share(row: Row, column: Column) -> float | None:
    """Return a mean on the scale from 0 (worst) to 1 (best); None if there is none."""
    cell = row.cells.get(column.benchmark)
    value = known(cell.value) if cell else None
    return None if value is None else float(column.normalize(value))


def _legend(edges: Sequence[float]) -> list[tuple[str, str]]:
    """Return the class and the range of each step, and the cells without a number."""
    ends = [0.0, *edges, 1.0]
    steps = [(f"step-{i + 1}", f"{ends[i]:.2f} to {ends[i + 1]:.2f}") for i in range(len(edges) + 1)]
    return [*steps, ("missing", "not run"), ("failed", "no instance could be scored")]


def head_to_head_table(board: Leaderboard, found: HeadToHead) -> ShadedTable:
    """Return the share on which each row's model beats each column's, significant differences marked."""
    by_name = {row.model: shown_name(row) for row in board.rows}
    names = [_name(by_name.get(model, model), model) for model in found.models]
    n = len(names)
    rows = [(names[i], [_share_cell(found, i, j) for j in range(n)]) for i in range(n)]
    used = {css for _, cells in rows for cell in cells for css in cell.css.split()}
    kinds = [*_legend(SHARE_EDGES)[:7], ("missing", "no benchmark in common")]
    numbers, headers = head_to_head_list(found)
    return ShadedTable(
        name="head-to-head",
        title="Head to head",
        description=f"{head_to_head_note(found).partition('; the first')[0]}.",
        css="shares",
        columns=names,
        rows=rows,
        legend=[(css, text) for css, text in kinds if css in used or css.startswith("step")],
        headers=headers,
        numbers=numbers,
        is_numbered=True,
    )


def _share_cell(found: HeadToHead, i: int, j: int) -> ShadedCell:
    """Return the share of one pair, marked if the two differ significantly."""
    if i == j:
        return ShadedCell(text="", css="self")
    pair = f"{as_line(found.models[i])} against {as_line(found.models[j])}"
    share = float(found.win_share[i, j])
    if math.isnan(share):
        return ShadedCell(text=MISSING, css="missing", tip=f"{pair}: no benchmark in common")
    is_separated = bool(found.separated[i, j])
    text = f"{decimal(share, 2)}{SEPARATED if is_separated else ''}"
    css = f"step-{step(share, SHARE_EDGES)}{' separated' if is_separated else ''}"
    verdict = "significantly different" if is_separated else "not significantly different"
    return ShadedCell(text=text, css=css, tip=f"{pair}: beats it on {decimal(share, 2)} of {found.unit}; {verdict}")
