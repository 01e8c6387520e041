"""Two models compared, benchmark by benchmark and overall."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from medhelm.analysis.comparison.paired import PairedDifference
from medhelm.analysis.comparison.pairs import Comparison
from medhelm.analysis.comparison.significance import LEVEL
from medhelm.analysis.leaderboard.types import Leaderboard
from medhelm.extensions.web.chart_files import chart_file, chart_links
from medhelm.extensions.web.charts.differences import differences_chart
from medhelm.extensions.web.page import Download, Page, PageNotFound, PageRequest, json_download, text_download
from medhelm.extensions.web.pages.leaderboard import marks_of
from medhelm.extensions.web.selection import board_of, choices_of, selected_inputs, selection_of
from medhelm.extensions.web.site import Site
from medhelm.reports import comparison as comparison_report
from medhelm.reports.formats.tables import score_decimals
from medhelm.results.comparison import compare_inputs


def page(site: Site, request: PageRequest) -> Page:
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


def csv(site: Site, request: PageRequest) -> Download:
    """Return the comparison as CSV."""
    found = _comparison(site, request, request.text("a"), request.text("b"))
    return text_download(comparison_report.to_table(found, "csv"), "comparison", "csv")


def json_(site: Site, request: PageRequest) -> Download:
    """Return the comparison as JSON, with the keys of `medhelm compare A B --json`."""
    found = _comparison(site, request, request.text("a"), request.text("b"))
    return json_download(comparison_report.as_json(found), "comparison")


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


def _overall(found: Comparison) -> list[tuple[str, PairedDifference, float]]:
    """Return name, difference and adjusted p-value of the averages."""
    return [
        (name, test.difference, test.p_adjusted(found.adjustment))
        for name, test in comparison_report.overall_tests(found).items()
    ]
