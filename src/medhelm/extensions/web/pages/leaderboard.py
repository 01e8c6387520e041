"""The leaderboard and the comparison of two models: pages, charts, CSV and JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from markupsafe import Markup

from medhelm.analysis.comparison.paired_differences import PairedDifference
from medhelm.analysis.comparison.pairs import Comparison
from medhelm.analysis.comparison.significance import LEVEL
from medhelm.analysis.leaderboard.rows import head_to_head
from medhelm.analysis.leaderboard.types import Leaderboard, Row
from medhelm.domain import Run
from medhelm.extensions.web.benchmark_charts import column_scale, coverage_bar, interval_mark, rank_mark
from medhelm.extensions.web.board_charts import (
    ShadedTable,
    chart_file,
    chart_links,
    differences_chart,
    head_to_head_table,
    heat_map,
)
from medhelm.extensions.web.page import Download, Page, PageNotFound, PageRequest, json_download, text_download
from medhelm.extensions.web.pages.running import start_page
from medhelm.extensions.web.site import (
    BoardSelection,
    Site,
    board_of,
    choices_of,
    damaged_json,
    results_of,
    selected_inputs,
    selection_of,
)
from medhelm.results import comparison as comparison_report
from medhelm.results import leaderboard_view as report
from medhelm.results.comparison import compare_inputs
from medhelm.results.formats.charts import cost_chart, cost_points
from medhelm.results.formats.drawing import Chart
from medhelm.results.formats.fields import Field, PageColumn
from medhelm.results.formats.tables import score_decimals
from medhelm.results.leaderboard_view import page_categories, page_columns

ROWS_PER_PAGE = 200
"""Models on one page of the table."""

SORT_KEYS = {
    "ranking_value": "ranking",
    "adjusted_average": "macro_average",
    "usd_per_1000": "cost",
    "seconds_per_completion": "seconds",
}
"""Field -> value of the parameter `sort`, where it is another name."""

MOST_SHADED = 100
"""Most models in the heat map and in the chart of costs; the CSV file has all."""

MOST_HEAD_TO_HEAD = 30
"""Most models in the head-to-head matrix; the CSV file has all."""


class Pictures:
    """Pictures in the cells of the table, on one scale for each column."""

    def __init__(self, board: Leaderboard, columns: Sequence[Field[Row]]) -> None:
        """Compute the scales."""
        self._n_models = len(board.rows)
        self._scales = {
            field.key: column_scale(map(field.page.interval, board.all_rows))
            for field in columns
            if field.page and field.page.mark == "interval" and field.page.interval
        }

    def of(self, field: Field[Row], row: Row) -> Markup:
        """Return the picture of a cell; empty without one."""
        page = field.page
        if page is None or not page.mark:
            return Markup("")
        if page.mark == "rank":
            return (
                Markup("") if row.rank_low is None else rank_mark(row.rank, row.rank_low, row.rank_high, self._n_models)
            )
        if page.mark == "share":
            return coverage_bar(field.get(row))
        found = page.interval(row) if page.interval else None
        if found is None:
            return Markup("")
        hollow = row.published or row.rank is None
        return interval_mark(found.value, found.low, found.high, self._scales[field.key], hollow=hollow)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A label beside the name of a model."""

    text: str
    """Shown text."""
    title: str
    """Its meaning."""


PUBLISHED = Mark(text="published", title="Published scores, not measured here.")
IMPORTED = Mark(text="imported", title="Some runs come from files of another harness.")
BASELINE = Mark(text="baseline", title="For comparison only, not ranked.")
"""Labels of models."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardRow:
    """One model in the table."""

    row: Row
    """Its numbers."""
    marks: Sequence[Mark]
    """Labels such as `published`."""


def page(site: Site, request: PageRequest) -> Page:
    """Return the leaderboard of the selected benchmarks; without a complete run, evaluations in progress."""
    if not (site.has_results or site.with_published):
        return start_page(site)
    results, why_not = results_of(site, request)
    selection = selection_of(site, request, results)
    board = board_of(site, selection)
    columns = {SORT_KEYS.get(field.key, field.key): (field, shown) for field, shown in page_columns(board)}
    sort = request.choice("sort", columns, "rank")
    _, sorted_by = columns[sort]
    order = request.choice("order", ("ascending", "descending"), "descending" if sorted_by.best_first else "ascending")
    models = [_row(site, row) for row in board.rows]
    floor = [_row(site, row) for row in board.baselines]
    name = request.text("model").strip()
    shown = [one for one in models if name.lower() in one.row.model.lower()]
    shown = _sorted(shown, sorted_by, descending=order == "descending")
    n_pages = max(1, math.ceil(len(shown) / ROWS_PER_PAGE))
    number = request.number("page", 1, low=1, high=n_pages)
    start = 0 if request.is_static else (number - 1) * ROWS_PER_PAGE
    on_page = shown if request.is_static else shown[start : start + ROWS_PER_PAGE]
    values = {
        "board": board,
        "verdict": board.verdict or [_why_no_verdict(board)],
        "site_tier": board.tier,
        "scoring": board.scoring,
        "why_not_published": why_not,
        "caption": report.caption(board),
        "choices": [
            one
            for one in choices_of(site, selection)
            if not request.is_static or one.name in request.route.exported_with
        ],
        "results": results,
        "selection": selection.parameters,
        "model": name,
        "columns": columns,
        "categories": page_categories(board),
        "sort": sort,
        "order": order,
        "rows": on_page,
        "floor": floor
        if sort == "rank" or not name
        else [one for one in floor if name.lower() in one.row.model.lower()],
        "n_shown": len(shown),
        "first": start + 1,
        "page": number,
        "n_pages": n_pages,
        "pictures": Pictures(board, [field for field, _ in columns.values()]),
        "matrix": matrix_of(site, board, selection) if len(board.rows) <= MOST_HEAD_TO_HEAD else None,
        "heat_map": heat_map(board) if len(board.all_rows) <= MOST_SHADED else None,
        "cost": cost_of(board) if len(board.rows) <= MOST_SHADED else None,
        "links": lambda chart, kinds=(): chart_links(request, "leaderboard_chart", chart, selection.parameters, kinds),
        "benchmark_links": {
            column.benchmark: request.links.to("benchmark", {"benchmark": column.benchmark})
            for column in board.columns
            if column.benchmark in site.definitions or results == "own"
        },
    }
    return Page(template="leaderboard.html", title="Leaderboard", values=values)


def csv(site: Site, request: PageRequest) -> Download:
    """Return the leaderboard as CSV: one row per model, or with `by=benchmark` per benchmark and model."""
    by = request.choice("by", ("overall", "category", "subcategory", "benchmark", "head-to-head"), "overall")
    text = report.to_table(board_of(site, _selection(site, request)), by=by, format="csv")
    return text_download(text, f"leaderboard-{by}", "csv")


def json_(site: Site, request: PageRequest) -> Download:
    """Return the leaderboard as JSON, with the keys of `medhelm leaderboard --format json`, and damaged runs."""
    content = report.as_json(board_of(site, _selection(site, request))) | damaged_json(site)
    return text_download(json.dumps(content, indent=1, ensure_ascii=False), "leaderboard", "json")


def _selection(site: Site, request: PageRequest) -> BoardSelection:
    """Return the selection of a URL. Raises: BadParameter."""
    return selection_of(site, request, results_of(site, request)[0])


# --- rows -------------------------------------------------------------------------------------------------------------


def _why_no_verdict(board: Leaderboard) -> str:
    """Return what to say of a board without a verdict."""
    if not board.rows:
        return "There is nothing to rank yet: the store has only baselines."
    if all(row.n_benchmarks == 0 for row in board.rows):
        return "There is nothing to rank yet: no model has a score."
    if len(board.rows) == 1:
        return "There is one model: a comparison needs at least two."
    return f"The {len(board.rows):,} models are not tested against each other."


def _row(site: Site, row: Row) -> BoardRow:
    return BoardRow(row=row, marks=marks_of(row, () if row.published else site.runs_of(row.model)))


def marks_of(row: Row, runs: Sequence[Run]) -> list[Mark]:
    """Return the labels that say where the scores of a model come from."""
    found = []
    if row.published:
        found.append(PUBLISHED)
    if any(run.has_imported_prompts for run in runs):
        found.append(IMPORTED)
    if row.rank is None and row.model.startswith("baseline/"):
        found.append(BASELINE)
    return found


def _sorted(rows: Sequence[BoardRow], column: PageColumn[Row], *, descending: bool) -> list[BoardRow]:
    """Return the rows in order; those without a value last. Equal values keep the order of rank."""
    known = [(value, one) for one in rows if (value := column.sort(one.row)) is not None]
    known.sort(key=lambda pair: pair[0], reverse=descending)
    return [one for _, one in known] + [one for one in rows if column.sort(one.row) is None]


# --- charts -----------------------------------------------------------------------------------------------------------


def cost_of(board: Leaderboard) -> Chart | None:
    """Return cost against performance; None if the cost of no model is known."""
    points = cost_points(board)
    return cost_chart(points) if any(point.usd is not None for point in points) else None


def matrix_of(site: Site, board: Leaderboard, selection: BoardSelection) -> ShadedTable | None:
    """Return the models head to head; None for fewer than two."""
    if len(board.rows) < 2:
        return None
    return site.keep(("head-to-head", selection), lambda: head_to_head_table(board, head_to_head(board)))


def chart(site: Site, request: PageRequest) -> Download:
    """Return a chart as SVG or PNG, or its numbers as CSV."""
    selection = _selection(site, request)
    board = board_of(site, selection)
    found = {
        "cost": lambda: cost_of(board),
        "heat-map": lambda: heat_map(board),
        "head-to-head": lambda: matrix_of(site, board, selection),
    }
    return chart_file(request.text("chart"), found)


# --- comparison -------------------------------------------------------------------------------------------------------
# Two models compared, benchmark by benchmark and overall.


def compare_page(site: Site, request: PageRequest) -> Page:
    """Return the comparison of two models; without names that of the two best."""
    selection = selection_of(site, request)
    board = board_of(site, selection)
    models = [row.model for row in board.all_rows]
    best = [*next(_compared(board), models[:2]), "", ""]
    first, second = request.text("a") or best[0], request.text("b") or best[1]
    if first == second and len(models) > 1:
        second = next(model for model in models if model != first)
    found = _comparison(site, request, first, second) if len(models) > 1 else None
    values = {
        "choices": choices_of(site, selection),
        "selection": selection.parameters,
        "models": models,
        "pairs": _compared(board) if request.is_static else (),
        "marks": {row.model: marks_of(row, site.runs_of(row.model)) for row in board.all_rows},
        "first": first,
        "second": second,
        "found": found,
        "verdict": comparison_report.verdict(found) if found else (),
        "cells": {(cell.model, cell.benchmark): cell for cell in site.inputs().cells},
        "decimals": score_decimals,
        "level": LEVEL,
        "chart": differences_chart(found) if found else None,
        "overall": _overall(found) if found else (),
        "finding": comparison_report.finding(found) if found else "",
        "links": chart_links(
            request, "compare_chart", "differences", {"a": first, "b": second, **selection.parameters}
        ),
    }
    return Page(template="compare.html", title="Compare two models", values=values)


def _compared(board: Leaderboard) -> Iterator[tuple[str, str]]:
    """Yield the pairs of models, and of baselines, that have a benchmark in common, in order of rank."""
    for one, other in combinations(board.all_rows, 2):
        if board.were_compared(one.model, other.model) and not one.cells.keys().isdisjoint(other.cells):
            yield one.model, other.model


def compare_csv(site: Site, request: PageRequest) -> Download:
    """Return the comparison as CSV."""
    found = _comparison(site, request, request.text("a"), request.text("b"))
    return text_download(comparison_report.to_table(found, "csv"), "comparison", "csv")


def compare_json(site: Site, request: PageRequest) -> Download:
    """Return the comparison as JSON, with the keys of `medhelm compare A B --json`."""
    found = _comparison(site, request, request.text("a"), request.text("b"))
    return json_download(comparison_report.as_json(found), "comparison")


def compare_chart(site: Site, request: PageRequest) -> Download:
    """Return the chart of the differences as a file."""
    found = _comparison(site, request, request.text("a"), request.text("b"))
    return chart_file(request.text("chart"), {"differences": lambda: differences_chart(found)})


def _comparison(site: Site, request: PageRequest, first: str, second: str) -> Comparison:
    """Return the comparison of two models of the store. Raises: PageNotFound for a model without a run."""
    selection = selection_of(site, request)
    known = {cell.model for cell in selected_inputs(site, selection).cells}
    for model in (first, second):
        if model not in known:
            raise PageNotFound(f"The selection has no model `{model[:200]}`. Choose two models of the leaderboard.")

    def compare() -> Comparison:
        return compare_inputs(selected_inputs(site, selection), first, second)

    return site.keep(("compare", selection, first, second), compare)


def _overall(found: Comparison) -> list[tuple[str, PairedDifference, float]]:
    """Return name, difference and adjusted p-value of the averages."""
    return [
        (name, test.difference, test.p_adjusted(found.adjustment))
        for name, test in comparison_report.overall_tests(found).items()
    ]
