"""Two models compared, benchmark by benchmark and overall."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from medhelm.analysis.comparison.two_models import Comparison
from medhelm.analysis.leaderboard.cells import Cell
from medhelm.reports import comparison as report
from medhelm.reports.tables import score_decimals
from medhelm.results.comparison import compare_inputs
from medhelm.web.chart_files import chart_file, formats
from medhelm.web.charts.differences import differences_chart
from medhelm.web.page import Download, Page, PageNotFound, PageRequest
from medhelm.web.pages.cases import json_download
from medhelm.web.pages.leaderboard import marks_of
from medhelm.web.selection import board_of, choices_of, selected_inputs, selection_of
from medhelm.web.site import Site

LEVEL = report.LEVEL
"""Significance level."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceRow:
    """Two models on one benchmark."""

    benchmark: str
    """Id of the benchmark."""
    title: str
    """Name of the benchmark."""
    metric: str
    """Name of its metric."""
    first: Cell | None
    """Score of the first model."""
    second: Cell | None
    """Score of the second model."""
    places: int
    """Decimals of the scores."""
    difference: object
    """First minus second, with its interval."""
    p_adjusted: str
    """P-value adjusted for the number of benchmarks."""
    is_separated: bool
    """True if the difference is significant."""


def page(site: Site, request: PageRequest) -> Page:
    """Return the comparison of two models; without names that of the two best."""
    selection = selection_of(site, request)
    board = board_of(site, selection)
    models = [row.model for row in board.all_rows]
    best = [*models[:2], "", ""]
    first, second = request.text("a") or best[0], request.text("b") or best[1]
    if first == second and len(models) > 1:
        second = next(model for model in models if model != first)
    found = _comparison(site, request, first, second) if len(models) > 1 else None
    values = {
        "choices": choices_of(site, selection),
        "selection": selection.parameters,
        "models": models,
        "marks": {row.model: marks_of(row, site.runs_of(row.model)) for row in board.all_rows},
        "first": first,
        "second": second,
        "found": found,
        "verdict": report.verdict(found) if found else (),
        "rows": _rows(site, found) if found else (),
        "chart": differences_chart(found) if found else None,
        "overall": _overall(found) if found else (),
        "links": {
            kind: request.links.to(
                "compare_chart", {"chart": f"differences.{kind}", "a": first, "b": second, **selection.parameters}
            )
            for kind in formats(request.is_static)
        },
    }
    return Page(template="compare.html", title="Compare two models", values=values)


def csv(site: Site, request: PageRequest) -> Download:
    """Return the comparison as CSV."""
    found = _comparison(site, request, request.text("a"), request.text("b"))
    return Download(content=report.to_table(found, "csv").encode(), media_type="text/csv", file_name="comparison.csv")


def json_(site: Site, request: PageRequest) -> Download:
    """Return the comparison as JSON, with the keys of `medhelm compare A B --json`."""
    found = _comparison(site, request, request.text("a"), request.text("b"))
    return json_download(report.as_json(found), "comparison")


def chart(site: Site, request: PageRequest) -> Download:
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


def _rows(site: Site, found: Comparison) -> Sequence[DifferenceRow]:
    cells = {(cell.model, cell.benchmark): cell for cell in site.inputs().cells}
    return [
        DifferenceRow(
            benchmark=one.column.benchmark,
            title=one.column.title,
            metric=one.column.metric_title or one.column.metric,
            first=cells.get((found.first, one.column.benchmark)),
            second=cells.get((found.second, one.column.benchmark)),
            places=score_decimals(one.column),
            difference=one.difference,
            p_adjusted=report.p_text(one.p_adjusted) or "",
            is_separated=one.p_adjusted <= LEVEL,
        )
        for one in found.benchmarks
    ]


def _overall(found: Comparison) -> list[tuple[str, object, str, bool]]:
    """Return name, difference, adjusted p-value and verdict of the averages."""
    tests = {"Macro average": found.macro_average, "Win share (decides)": found.win_share}
    if found.n_benchmarks == 1:
        tests = {"Mean score (decides)": found.win_share}
    p_values = {name: test.p_adjusted(found.adjustment) for name, test in tests.items()}
    return [
        (name, test.difference, report.p_text(p_values[name]) or "", p_values[name] <= LEVEL)
        for name, test in tests.items()
    ]
