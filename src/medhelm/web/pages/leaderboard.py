"""The leaderboard page, and its numbers as CSV and JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from medhelm.analysis.leaderboard.cells import Cell
from medhelm.analysis.leaderboard.head_to_head import head_to_head
from medhelm.analysis.leaderboard.types import Average, Leaderboard, Row
from medhelm.domain import Run
from medhelm.domain.titles import group_title
from medhelm.reports import leaderboard as report
from medhelm.reports.charts.chart import Chart
from medhelm.reports.charts.cost import cost_chart, cost_points
from medhelm.reports.charts.heat_map import ShadedTable, head_to_head_table, heat_map
from medhelm.reports.charts.marks import column_scale, coverage_bar, interval_mark, rank_mark
from medhelm.reports.charts.scales import LinearScale
from medhelm.web.chart_files import chart_file, chart_links
from medhelm.web.page import Download, Page, PageRequest, text_download
from medhelm.web.selection import BoardSelection, board_of, choices_of, results_of, selection_of
from medhelm.web.site import Site

ROWS_PER_PAGE = 200
"""Models on one page of the table."""

MOST_CATEGORIES = 8
"""Most categories with a column of their own."""

MOST_SHADED = 100
"""Most models in the heat map and in the chart of costs; the CSV file has all."""

MOST_HEAD_TO_HEAD = 30
"""Most models in the head-to-head matrix; the CSV file has all."""


class Marks:
    """Pictures in the cells of the table, on one scale for each column."""

    def __init__(self, board: Leaderboard) -> None:
        """Compute the scales."""
        self._n_models = len(board.rows)
        self._board = board
        self._ranking = column_scale([board.ranking_average(row) for row in board.all_rows])
        self._macro = column_scale([row.adjusted_average for row in board.all_rows])

    def rank(self, row: Row) -> Markup:
        """Return the ranks that a model can have."""
        return rank_mark(row.rank, row.rank_low, row.rank_high, self._n_models)

    def ranking(self, row: Row) -> Markup:
        """Return the number that ranks with its interval."""
        return _interval(self._board.ranking_average(row), self._ranking, row)

    def macro(self, row: Row) -> Markup:
        """Return the macro average with its interval."""
        return _interval(row.adjusted_average, self._macro, row)

    def coverage(self, row: Row) -> Markup:
        """Return the share of benchmarks as a bar."""
        return coverage_bar(row.coverage)


def _interval(found: Average | None, scale: LinearScale, row: Row) -> Markup:
    if found is None:
        return Markup("")
    return interval_mark(found.value, found.low, found.high, scale, hollow=row.published or row.rank is None)


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
    ranking: Average | None
    """The number that ranks."""
    n_failed: int | None
    """Failed instances; None if unknown, as for published scores."""
    n: int
    """Instances."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """One column of the table."""

    key: str
    """Value of the parameter `sort`."""
    title: str
    """Heading."""
    note: str = ""
    """Second line of the heading."""
    explanation: str = ""
    """Meaning, for the notes below the table."""
    value: Callable[[BoardRow], float | str | None]
    """Number or text to sort by."""
    best_first: bool = True
    """True if the first click shows high values on top."""


def page(site: Site, request: PageRequest) -> Page:
    """Return the leaderboard of the selected benchmarks."""
    results, why_not = results_of(site, request)
    selection = selection_of(site, request, results)
    board = board_of(site, selection)
    headings = _headings(board)
    keys = {heading.key: heading for heading in headings}
    sort = request.choice("sort", keys, "rank")
    heading = keys[sort]
    order = request.choice("order", ("ascending", "descending"), "descending" if heading.best_first else "ascending")
    models = [_row(site, board, row) for row in board.rows]
    floor = [_row(site, board, row) for row in board.baselines]
    name = request.text("model").strip()
    shown = [one for one in models if name.lower() in one.row.model.lower()]
    shown = _sorted(shown, heading, descending=order == "descending")
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
        "headings": headings,
        "categories": _categories(board),
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
        "marks": Marks(board),
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
    """Return the leaderboard as JSON, with the keys of `medhelm leaderboard --format json`."""
    content = report.as_json(board_of(site, _selection(site, request)))
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


def _row(site: Site, board: Leaderboard, row: Row) -> BoardRow:
    cells = list(row.cells.values())
    return BoardRow(
        row=row,
        marks=marks_of(row, () if row.published else site.runs_of(row.model)),
        ranking=board.ranking_average(row),
        n_failed=None if any(cell.n_failed is None for cell in cells) else sum(cell.n_failed or 0 for cell in cells),
        n=sum(count_instances(cell) for cell in cells),
    )


def count_instances(cell: Cell) -> int:
    """Return the instances of a cell, with and without a score."""
    scored = cell.estimate.n if cell.estimate else cell.n or 0
    return scored + (cell.n_failed or 0) - cell.n_failed_by_model


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


def _sorted(rows: Sequence[BoardRow], heading: Heading, *, descending: bool) -> list[BoardRow]:
    """Return the rows in order; those without a value last. Equal values keep the order of rank."""
    known = [(value, one) for one in rows if (value := heading.value(one)) is not None]
    known.sort(key=lambda pair: pair[0], reverse=descending)
    return [one for _, one in known] + [one for one in rows if heading.value(one) is None]


# --- columns ----------------------------------------------------------------------------------------------------------


def _average(found: Average | None) -> float | None:
    return found.value if found else None


def _headings(board: Leaderboard) -> list[Heading]:
    """Return the columns of the table, in order."""
    win_rate = Heading(
        key="win_rate", title="Win rate", value=lambda one: _average(one.row.win_rate),
        explanation="share of rivals with a lower mean, averaged over benchmarks; comparable with the paper",
    )  # fmt: skip
    macro_average = Heading(
        key="macro_average", title="Macro average", note="95% interval",
        value=lambda one: _average(one.row.adjusted_average),
        explanation=RANKING["macro average"],
    )  # fmt: skip
    return [
        Heading(key="rank", title="Rank", note="95% confidence set", value=lambda one: one.row.rank, best_first=False,
                explanation="rank, and the ranks that the model can have at the 95% level"),
        Heading(key="model", title="Model", value=lambda one: one.row.model.lower(), best_first=False),
        Heading(key="ranking", title=board.ranked_by.capitalize(), note="ranks; 95% interval",
                value=lambda one: _average(one.ranking), explanation=RANKING[board.ranked_by]),
        *([win_rate] if board.ranked_by == "macro average" else []),
        *([macro_average] if board.ranked_by == "win rate" else []),
        *([BELOW_FLOOR] if board.has_floors else []),
        *map(_category, _categories(board)),
        *USE_AND_COVERAGE,
    ]  # fmt: skip


RANKING: Mapping[str, str] = {
    "macro average": "mean of the scores on all benchmarks, each on a scale from 0 (worst) to 1 (best); estimated for "
    "benchmarks that a model lacks",
    "win rate": "share of rivals with a lower mean, averaged over benchmarks",
    "mean score": "mean score on the benchmark, on a scale from 0 (worst) to 1 (best)",
}
"""Number that ranks -> its meaning."""

BELOW_FLOOR = Heading(
    key="below_floor", title="Below floor", note="95% interval", best_first=False,
    value=lambda one: one.row.below_floor.value if one.row.below_floor else None,
    explanation="share of completions with a grade below the floor that the rubric sets for a criterion; failures that "
    "the model caused count",
)  # fmt: skip
"""Shown if a rubric has a floor."""

USE_AND_COVERAGE = (
    Heading(key="cost", title="Cost", note="US$ per 1,000", value=lambda one: one.row.usd_per_1000, best_first=False,
            explanation="US dollars for 1,000 completions, without judges; a dash if a price is unknown"),
    Heading(key="seconds", title="Seconds", note="median", explanation="median time of one completion",
            value=lambda one: one.row.use.seconds if one.row.use else None, best_first=False),
    Heading(key="coverage", title="Coverage", note="benchmarks", value=lambda one: one.row.coverage,
            explanation="share of the benchmarks on which the model has a score"),
    Heading(key="failures", title="Failures", note="of instances",
            value=lambda one: one.n_failed / one.n if one.n and one.n_failed is not None else None,
            explanation="instances without a completion or score; those that the model caused count as the worst "
            "answer"),
)  # fmt: skip
"""The last columns."""


def _categories(board: Leaderboard) -> list[str]:
    """Return the categories with a column of their own; none if there is only one."""
    found = list(dict.fromkeys(column.category for column in board.columns))
    return found[:MOST_CATEGORIES] if len(found) > 1 else []


def _category(name: str) -> Heading:
    return Heading(key=f"category-{name}", title=group_title(name), value=lambda one: one.row.categories[name].value)


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
