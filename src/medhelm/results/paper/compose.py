"""Make the tables and figures of a report, with reasons for those that cannot be made."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from medhelm.analysis.comparison.minimum_detectable_effect import detectable_effects
from medhelm.benchmarks.suites import load_suite
from medhelm.benchmarks.taxonomy import load_taxonomy
from medhelm.domain.suite import SuiteEntry
from medhelm.reports.paper import appendix, contents, figures
from medhelm.reports.paper.appendix import SuiteListing
from medhelm.reports.paper.figures import PaperFigure
from medhelm.reports.paper.tables import PaperTable
from medhelm.results.agreement import BASELINES
from medhelm.results.published.cells import published_cells

if TYPE_CHECKING:
    from medhelm.analysis.leaderboard.types import Leaderboard
    from medhelm.results.paper.gather import ReportInputs

TABLES = ("table1", "table2", "table3", "tableC3", "tableD1", "tableE4")
"""Tables of a report, in order."""

FIGURES = ("figure3", "figure4", "figure4_subcategories", "figure5", "win_rates", "pairs")
"""Figures of a report, in order."""


def compose_tables(found: ReportInputs, wanted: Collection[str]) -> tuple[list[PaperTable], dict[str, str]]:
    """The tables that are wanted and can be made, and for each of the others why not."""
    board, titles = found.board, taxonomy_titles()
    makers: dict[str, Callable[[], PaperTable | str]] = {
        "table1": lambda: contents.table_1(board),
        "table2": lambda: (
            contents.table_2(found.clinical, board, BASELINES) if found.clinical else "needs --ratings FILE"
        ),
        "table3": lambda: (
            contents.table_3(found.costs, board, [remark.text for remark in found.cost_remarks])
            if found.costs
            else NO_COSTS
        ),
        "tableC3": lambda: appendix.table_c3(suite_listings(board, found.suite), board, titles),
        "tableD1": lambda: appendix.table_d1(board, titles),
        "tableE4": lambda: _effects(board),
    }
    made: list[PaperTable] = []
    reasons: dict[str, str] = {}
    for key in TABLES:
        if key in wanted:
            table = makers[key]() if board.rows else "no results"
            if isinstance(table, str):
                reasons[key] = table
            else:
                made.append(table)
    return made, reasons


NO_COSTS = "nothing is known of tokens and costs"

NO_PRICES = "no model has a known cost above 0"

TWO_MODELS = "needs two models that were run on the same benchmark"


def compose_figures(found: ReportInputs, wanted: Collection[str]) -> tuple[list[PaperFigure], dict[str, str]]:
    """The figures that are wanted and can be made, and for each of the others why not."""
    board, titles = found.board, taxonomy_titles()
    several = sum(row.win_rate is not None for row in board.rows) > 1
    makers: dict[str, Callable[[], PaperFigure | str]] = {
        "figure3": lambda: figures.figure_3(board, titles),
        "figure4": lambda: figures.figure_4(board, titles),
        "figure4_subcategories": lambda: figures.figure_4_subcategories(board, titles),
        "figure5": lambda: figures.figure_5(board, found.costs) or NO_PRICES if several else TWO_MODELS,
        "win_rates": lambda: figures.figure_win_rates(board) if several else TWO_MODELS,
        "pairs": lambda: figures.figure_pairs(board) if several else TWO_MODELS,
    }
    made: list[PaperFigure] = []
    reasons: dict[str, str] = {}
    for key in FIGURES:
        if key in wanted:
            figure = makers[key]() if board.rows else "no results"
            if isinstance(figure, str):
                reasons[key] = figure
            else:
                made.append(figure)
    return made, reasons


def _effects(board: Leaderboard) -> PaperTable | str:
    cells = [cell for row in board.rows for cell in row.cells.values()]
    found = detectable_effects(cells, board.columns)
    return appendix.table_e4(found, board) if found else "needs the single scores of at least two models"


def suite_listings(board: Leaderboard, suite: Sequence[str] | None = None) -> list[SuiteListing]:
    """The benchmarks of a suite, all published ones if that is None; those of the board that it does not name last."""
    columns = {column.benchmark: column for column in board.columns}
    known = {entry.name: entry for entry in load_suite()}
    names = dict.fromkeys([*(known if suite is None else suite), *columns])
    published = {column.benchmark: column for column in published_cells()[1]}
    found = []
    for name in names:
        column = columns.get(name)
        described = column or published.get(name)
        metric = (described.metric_title or described.metric) if described else ""
        found.append(SuiteListing(entry=known.get(name) or _unknown(name, board), metric=metric, column=column))
    return found


def _unknown(name: str, board: Leaderboard) -> SuiteEntry:
    """A benchmark that is not one of the suite's, as far as the board knows it."""
    column = next((column for column in board.columns if column.benchmark == name), None)
    if column is None:
        return SuiteEntry(name=name, title=name, category="", subcategory="", in_paper=False)
    places = {"category": column.category, "subcategory": column.subcategory}
    return SuiteEntry(name=name, title=column.title, in_paper=False, **places)


def taxonomy_titles() -> dict[str, str]:
    """Id of a category or subcategory -> its name for people."""
    categories = load_taxonomy()
    below = {part.id: part.title for category in categories for part in category.subcategories}
    return {category.id: category.title for category in categories} | below
