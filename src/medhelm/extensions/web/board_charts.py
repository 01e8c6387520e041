"""Charts of a leaderboard: shaded tables, the paired differences of two models, and charts as files."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from medhelm.analysis.comparison.pairs import Comparison
from medhelm.analysis.comparison.significance import LEVEL
from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.analysis.leaderboard.rows import HeadToHead
from medhelm.analysis.leaderboard.types import Leaderboard, Row
from medhelm.domain.text import plural
from medhelm.extensions.web.page import PageRequest, Values
from medhelm.io.http.pages import Download, PageNotFound, text_download
from medhelm.results.comparison import ADJUSTED, verdict
from medhelm.results.formats.charts import IntervalPlot, IntervalRow, draw_intervals
from medhelm.results.formats.drawing import Chart, fit, is_installed, known, render_picture, short, shorten
from medhelm.results.formats.tables import (
    MISSING,
    Value,
    as_line,
    decimal,
    estimate_numbers,
    estimate_text,
    number,
    render,
)
from medhelm.results.leaderboard_view import SEPARATED, head_to_head_list, head_to_head_note, shown_name

# --- shaded tables ----------------------------------------------------------------------------------------------------
# Tables whose cells are shaded in steps: models by benchmarks, and every two models head to head.
#
# The number is in each cell, so that color is never alone. `charts.css` has the colors of the steps.

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

    @property
    def is_linked(self) -> bool:
        """True if there is something behind the cell."""
        return self.css not in ("missing", "self")


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
    notes: Sequence[str] = ()
    """Sentences below the table."""
    corner: str = "Model"
    """Heading of the names of rows."""
    is_square: bool = False
    """True if rows and columns are the same models."""

    @property
    def has_data(self) -> bool:
        """True if there is a row to show."""
        return bool(self.rows)

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


def shaded_name(full: str, key: str) -> ShadedName:
    """Return a heading of a shaded table."""
    clean = as_line(full) or "(no name)"
    return ShadedName(text=shorten(clean, LONGEST_NAME), full=clean, key=key)


def heat_map(board: Leaderboard) -> ShadedTable:
    """Return models by benchmarks: each mean on the scale of its metric from 0 (worst) to 1 (best)."""
    rows = [
        (shaded_name(shown_name(row), row.model), [_score_cell(row, column) for column in board.columns])
        for row in board.all_rows
    ]
    used = {cell.css for _, cells in rows for cell in cells}
    return ShadedTable(
        name="heat-map",
        title="Scores by benchmark",
        description="Mean scores from 0 (worst) to 1 (best), each on the scale of its metric.",
        css="scores",
        columns=[shaded_name(column.title, column.benchmark) for column in board.columns],
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
    names = [shaded_name(by_name.get(model, model), model) for model in found.models]
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
        is_square=True,
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
    return ShadedCell(text=text, css=css, tip=f"{pair}: {share_text(found, i, j)}; {verdict}")


def share_text(found: HeadToHead, i: int, j: int) -> str:
    """Return how often one model is better, equal and worse than another; the share alone if that is not defined."""
    share, shares = decimal(float(found.win_share[i, j]), 2), found.outcomes(i, j)
    if shares is None:
        return f"win share {share}"
    better, equal, worse = (f"{one:.0%}" for one in shares)
    return f"{better} better, {equal} equal, {worse} worse (win share {share}: better and half of equal)"


# --- differences ------------------------------------------------------------------------------------------------------
# Paired differences of two models: one row per benchmark, the averages below.

HEADERS = ("benchmark", "metric", "difference", "low", "high", "n", "p_adjusted", "significant")
"""Columns of the table."""


def differences_chart(comparison: Comparison) -> Chart:
    """Return the differences of two models on each benchmark and overall, on a scale where 1 is best."""
    rows: list[IntervalRow] = []
    table: list[list[Value]] = []
    for one in comparison.benchmarks:
        found, is_clear = one.difference, one.p_adjusted <= LEVEL
        rows.append(
            IntervalRow(
                name=one.column.title, value=found.value, low=found.low, high=found.high, is_filled=is_clear,
                note=f"n = {found.n}",
            )
        )  # fmt: skip
        metric = one.column.metric_title or one.column.metric
        p = number(one.p_adjusted)
        table.append([one.column.title, metric, *estimate_numbers(found), found.n, p, "yes" if is_clear else "no"])
    is_found = comparison.pair.direction(comparison.adjustment) != 0
    overall = (("Macro average", comparison.macro_average), ("Win share", comparison.win_share))
    for name, test in overall if rows else ():
        found = test.difference
        rows.append(
            IntervalRow(
                name=name, value=found.value, low=found.low, high=found.high, is_strong=True, is_filled=is_found
            )
        )
        p = number(test.p_adjusted(comparison.adjustment))
        table.append([name, "", *estimate_numbers(found), found.n, p, "yes" if is_found else "no"])
    title = f"{short(comparison.first)} compared with {short(comparison.second)}"
    plot = IntervalPlot(
        rows=rows, axis="Difference", low=-1.0, high=1.0, references=[(0.0, "")], is_signed=True,
        ends=(f"{fit(short(comparison.second), 170)} better", f"{fit(short(comparison.first), 170)} better"),
    )  # fmt: skip
    notes = [
        f"{short(comparison.first)} minus {short(comparison.second)} on the instances that both have. Filled points "
        "differ significantly at the 5% level, adjusted for all pairs and benchmarks "
        f"({ADJUSTED[comparison.adjustment]}). Diamonds are averages: filled if the models are separated, which needs "
        "both to differ in the same direction.",
        "The 95% intervals are not adjusted: an interval that leaves out 0 can belong to a difference that is not "
        "significant after the adjustment.",
    ]
    return Chart(
        name="differences", title=title, description=_differences_description(comparison),
        draw=partial(draw_intervals, plot), headers=HEADERS, rows=table, notes=notes, has_data=bool(rows),
    )  # fmt: skip


def _differences_description(comparison: Comparison) -> str:
    """Return the counts of significant differences and the overall result."""
    if not comparison.benchmarks:
        return "The two models share no benchmark."
    clear = [one.difference.value for one in comparison.benchmarks if one.p_adjusted <= LEVEL]
    first, second = sum(value > 0 for value in clear), sum(value < 0 for value in clear)
    n = plural(len(comparison.benchmarks), "benchmark")
    return (
        f"Of {n}, {short(comparison.first)} is significantly better on {first} and {short(comparison.second)} on "
        f"{second}. {verdict(comparison)[0]}"
    )


# --- chart files ------------------------------------------------------------------------------------------------------
# Charts as files: SVG, PNG where the extra `figures` is installed, and their numbers as CSV.


def formats(is_static: bool = False) -> list[str]:
    """Return the formats of a chart that this installation can make; the static site has no PNG files."""
    return ["svg", "png", "csv"] if is_installed() and not is_static else ["svg", "csv"]


def chart_links(
    request: PageRequest, route: str, name: str, parameters: Mapping[str, Values], kinds: Sequence[str] = ()
) -> dict[str, str]:
    """Return the addresses of the files of a chart: format -> URL. `kinds`: the formats; empty for all."""
    shown = kinds or formats(request.is_static)
    return {kind: request.links.to(route, {**parameters, "chart": f"{name}.{kind}"}) for kind in shown}


def chart_file(name: str, charts: Mapping[str, Callable[[], Chart | ShadedTable | None]]) -> Download:
    """Return a chart by the name of its file, such as `cost.svg`.

    Parameters: charts, name -> function that makes it. Raises: PageNotFound for another name or format.
    """
    stem, _, suffix = name.rpartition(".")
    found = charts[stem]() if stem in charts else None
    if found is None or suffix not in formats():
        raise PageNotFound(f"The chart `{name[:80]}` does not exist.")
    if suffix == "csv":
        return text_download(found.csv, stem, "csv")
    if isinstance(found, ShadedTable) or not found.has_data:
        raise PageNotFound(f"`{stem}` has no picture; its numbers are in {stem}.csv.")
    media = {"svg": "image/svg+xml", "png": "image/png"}[suffix]
    picture = render_picture(str(found.svg), [suffix])[suffix]
    return Download(content=picture, media_type=media, file_name=f"{stem}.{suffix}")
