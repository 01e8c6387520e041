"""Make the tables and figures of a report, with reasons for those that cannot be made."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from medhelm.analysis.comparison.power import detectable_effects
from medhelm.analysis.leaderboard.head_to_head import head_to_head
from medhelm.benchmarks.suites import load_suite
from medhelm.benchmarks.taxonomy import load_taxonomy
from medhelm.domain.suite import SuiteEntry
from medhelm.extensions.paper import appendix, contents, figures
from medhelm.extensions.paper.appendix import SuiteListing
from medhelm.extensions.paper.figures import PaperFigure
from medhelm.extensions.paper.tables import PaperTable
from medhelm.results.agreement import BASELINES
from medhelm.results.published.cells import published_cells

if TYPE_CHECKING:
    from medhelm.analysis.leaderboard.cells import Column
    from medhelm.analysis.leaderboard.types import Leaderboard
    from medhelm.extensions.paper.gather import ReportInputs

T = TypeVar("T")

TABLES = ("table1", "table2", "table3", "tableC3", "subcategories", "tableE4", "head_to_head")
"""Tables of a report, in order."""

FIGURES = ("figure3", "figure4", "figure4_subcategories", "figure5", "figureD1", "win_rates", "pairs")
"""Figures of a report, in order."""

EARLIER_NAMES = {"tableD1": "subcategories"}
"""Name of a table in earlier versions -> its name. The paper has a figure D1 and no such table."""

NO_MARKS = "needs marks of references: run `medhelm filter-references` on this store"

NO_COSTS = "tokens and costs are unknown"
NO_PRICES = "no model has a known cost above 0"
TWO_MODELS = "needs two models that were run on the same benchmark"


def compose_tables(found: ReportInputs, wanted: Collection[str]) -> tuple[list[PaperTable], dict[str, str]]:
    """Return the wanted tables, and for each that cannot be made the reason."""
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
        "subcategories": lambda: appendix.table_subcategories(board, titles),
        "tableE4": lambda: _detectable_effects(board),
        "head_to_head": lambda: (
            appendix.table_head_to_head(head_to_head(board), board) if len(board.rows) > 1 else TWO_MODELS
        ),
    }
    return _make({key: makers[key] for key in TABLES if key in wanted}, board)


def compose_figures(found: ReportInputs, wanted: Collection[str]) -> tuple[list[PaperFigure], dict[str, str]]:
    """Return the wanted figures, and for each that cannot be made the reason."""
    board, titles = found.board, taxonomy_titles()
    several = sum(row.win_rate is not None for row in board.rows) > 1
    makers: dict[str, Callable[[], PaperFigure | str]] = {
        "figure3": lambda: figures.figure_3(board, titles),
        "figure4": lambda: figures.figure_4(board, titles),
        "figure4_subcategories": lambda: figures.figure_4_subcategories(board, titles),
        "figure5": lambda: figures.figure_5(board, found.costs) or NO_PRICES if several else TWO_MODELS,
        "figureD1": lambda: figures.figure_d1(board, found.flagged) if found.flagged else NO_MARKS,
        "win_rates": lambda: figures.figure_win_rates(board) if several else TWO_MODELS,
        "pairs": lambda: figures.figure_pairs(board) if several else TWO_MODELS,
    }
    return _make({key: makers[key] for key in FIGURES if key in wanted}, board)


def _make(makers: Mapping[str, Callable[[], T | str]], board: Leaderboard) -> tuple[list[T], dict[str, str]]:
    """Return what the makers made, and the texts that makers returned as reasons why they could not."""
    found = {key: make() if board.rows else "no results" for key, make in makers.items()}
    made = [content for content in found.values() if not isinstance(content, str)]
    return made, {key: content for key, content in found.items() if isinstance(content, str)}


def _detectable_effects(board: Leaderboard) -> PaperTable | str:
    cells = [cell for row in board.rows for cell in row.cells.values()]
    found = detectable_effects(cells, board.columns)
    return appendix.table_e4(found, board) if found else "needs scores of instances for at least two models"


def suite_listings(board: Leaderboard, suite: Sequence[str] | None = None) -> list[SuiteListing]:
    """Return the benchmarks of a suite, then others of the leaderboard; without a suite all published ones."""
    columns = {column.benchmark: column for column in board.columns}
    known = {entry.name: entry for entry in load_suite()}
    names = dict.fromkeys([*(known if suite is None else suite), *columns])
    published = {column.benchmark: column for column in published_cells()[1]}
    found = []
    for name in names:
        column = columns.get(name)
        described = column or published.get(name)
        metric = (described.metric_title or described.metric) if described else ""
        found.append(SuiteListing(entry=known.get(name) or _new_entry(name, column), metric=metric, column=column))
    return found


def _new_entry(name: str, column: Column | None) -> SuiteEntry:
    """Return an entry for a benchmark outside the suite. `column`: the benchmark on the leaderboard, if it is there."""
    if column is None:
        return SuiteEntry(name=name, title=name, category="", subcategory="", in_paper=False)
    return SuiteEntry(
        name=name, title=column.title, category=column.category, subcategory=column.subcategory, in_paper=False
    )


def taxonomy_titles() -> dict[str, str]:
    """Return the title of each category and subcategory."""
    categories = load_taxonomy()
    below = {part.id: part.title for category in categories for part in category.subcategories}
    return {category.id: category.title for category in categories} | below
