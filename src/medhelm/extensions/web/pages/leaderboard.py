"""The leaderboard and the comparison of two models: pages, charts, CSV and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from markupsafe import Markup

from medhelm.analysis.comparison.paired_differences import PairedDifference
from medhelm.analysis.comparison.pairs import ComparedBenchmark, Comparison
from medhelm.analysis.comparison.significance import LEVEL
from medhelm.analysis.leaderboard.cells import DECIMALS, Cell, Column, align
from medhelm.analysis.leaderboard.findings import measured_on
from medhelm.analysis.leaderboard.rows import head_to_head
from medhelm.analysis.leaderboard.types import Leaderboard, Row, remark_groups
from medhelm.domain import Run
from medhelm.domain.text import plural
from medhelm.errors import UserError
from medhelm.extensions.web.board_charts import (
    ShadedTable,
    chart_file,
    chart_links,
    differences_chart,
    head_to_head_table,
    heat_map,
)
from medhelm.extensions.web.marks import axis_mark, column_scale, interval_mark, outcome_mark, profile_mark
from medhelm.extensions.web.page import Condition, Heading, PageRequest, sorted_table
from medhelm.extensions.web.pages.running import start_page
from medhelm.extensions.web.site import (
    PARAMETERS,
    BoardSelection,
    Choice,
    Site,
    board_of,
    choices_of,
    damaged_json,
    results_of,
    selected_inputs,
    selection_of,
)
from medhelm.io.http.pages import BadParameter, Download, Page, PageNotFound, json_download, text_download
from medhelm.results import comparison as comparison_report
from medhelm.results import leaderboard_view as report
from medhelm.results.comparable import BASELINE as BASELINES
from medhelm.results.comparison import compare_inputs
from medhelm.results.formats.charts import cost_chart, cost_points
from medhelm.results.formats.drawing import Chart, LinearScale
from medhelm.results.formats.fields import Field, PageColumn
from medhelm.results.formats.tables import data_text, decimal, score_decimals, with_minus
from medhelm.results.leaderboard_view import count_instances, page_columns
from medhelm.results.published.boards import published_cells

SORT_KEYS = {
    "ranking_value": "ranking",
    "adjusted_average": "macro_average",
    "usd_per_1000": "cost",
    "seconds_per_completion": "seconds",
}
"""Field -> value of the parameter `sort`, where it is another name."""

MOST_CHARTED = 30
"""Most models in the charts, the best ones; the CSV files have all."""

CATEGORY = "category-"
"""Start of the keys of fields that hold the mean of a category."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A label beside the name of a model."""

    text: str
    """Shown text."""
    title: str
    """Its meaning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownScore:
    """The score of one model on one benchmark, on the pages of either."""

    column: Column
    """The benchmark."""
    cell: Cell
    """The score."""
    run: Run | None
    """The run behind it; None for published scores."""

    @property
    def places(self) -> int:
        """Decimals of the score."""
        return score_decimals(self.column)

    @property
    def n(self) -> int:
        """Instances, with and without a score."""
        return count_instances(self.cell)

    def end(self, which: str) -> str:
        """Return an end of the interval; empty without one. `which`: `low` or `high`."""
        found = self.cell.estimate
        return with_minus(decimal(getattr(found, which), self.places) or "") if found else ""


PUBLISHED = Mark(text=f"{report.PUBLISHED} published", title="Published scores, not measured here.")
IMPORTED = Mark(text="imported", title="Some runs come from files of another harness.")
BASELINE = Mark(text="baseline", title="For comparison only, not ranked.")
"""Labels of models."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardColumn:
    """A column of the table: a field of the models with its heading and pictures."""

    field: Field[Row]
    """The field."""
    page: PageColumn[Row]
    """Its column on the page."""
    heading: Heading[Row]
    """Its heading."""
    category: str = ""
    """The category whose mean it holds; empty for other columns."""
    scale: LinearScale | None = None
    """Scale of its intervals; None without pictures."""
    ends: Sequence[float] = ()
    """The lowest and the highest mean of all models in a category; empty without one."""

    @property
    def axis(self) -> Markup:
        """The ends of the scale, for the heading."""
        return axis_mark(self.scale) if self.scale else Markup("")

    def picture(self, row: Row) -> Markup:
        """Return the picture of a cell; empty without one."""
        if self.category:
            return profile_mark(self.field.get(row), self.ends)
        found = self.page.interval(row) if self.scale and self.page.interval else None
        if self.scale is None or found is None:
            return Markup("")
        return interval_mark(found.value, found.low, found.high, self.scale, hollow=row.published or row.rank is None)


def _ends(values: Iterable[float | None]) -> Sequence[float]:
    """Return the lowest and the highest of the values that are known."""
    known = [one for one in values if one is not None]
    return [min(known), max(known)] if known else ()


def page(site: Site, request: PageRequest) -> Page:
    """Return the leaderboard of the selected benchmarks; without a complete run, evaluations in progress."""
    if not (site.has_results or site.with_published):
        return start_page(site)
    try:
        results, why_not = results_of(site, request)
        selection = selection_of(site, request, results)
        name = request.text("model").strip()
    except (BadParameter, PageNotFound) as error:
        return _bad_filters(site, request, error)
    choices = _offered(request, choices_of(site, selection))
    common = {
        "choices": choices,
        "chips": _chips(request, choices, name),
        "results": results,
        "selection": selection.parameters,
        "model": name,
        "why_not_published": why_not,
    }
    try:
        board = board_of(site, selection)
    except UserError:
        if not selection.is_narrowed:
            raise
        return _nothing_selected(site, selection, common)
    columns = board_columns(board)
    table = sorted_table(request, [one.heading for one in columns], named(board.rows, name), default="rank")
    partly = measured_on(board)
    charted = replace(board, rows=board.rows[:MOST_CHARTED])
    values = {
        **common,
        "board": board,
        "site_tier": board.tier,
        "scoring": board.scoring,
        "verdict": board.verdict or [_why_no_verdict(board)],
        "facts": _facts(board),
        "columns": columns,
        "table": table,
        "rows": table.shown,
        "baselines": board.baselines,
        "remark_groups": remark_groups(board),
        "best_baseline": _best_baseline(board),
        "marks": lambda row: marks_of(row, () if row.published else site.runs_of(row.model), partly),
        "n_charted": len(charted.rows) if len(board.rows) > MOST_CHARTED else 0,
        "matrix": matrix_of(site, charted, selection, is_charted=True),
        "heat_map": heat_map(charted) if len(board.columns) > 1 else None,
        "cost": cost_of(board, most=MOST_CHARTED),
        "has_cases": {row.model for row in board.all_rows if not row.published},
        "own_benchmarks": {
            column.benchmark for column in board.columns if column.benchmark in site.definitions or results == "own"
        },
        "has_sections": results != "published" and site.has_variants,
        "links": lambda chart, kinds=(): chart_links(request, "leaderboard_chart", chart, selection.parameters, kinds),
    }
    return Page(template="leaderboard.html", title=heading_of(board, choices), values=values)


def board_columns(board: Leaderboard) -> list[BoardColumn]:
    """Return the columns of the table: one number that ranks, and coverage only if a model lacks a benchmark."""
    found = []
    for field, shown in page_columns(board):
        if field.key == "win_rate" or (field.key == "coverage" and all(row.coverage == 1 for row in board.rows)):
            continue
        category = field.key.removeprefix(CATEGORY) if field.key.startswith(CATEGORY) else ""
        is_pictured = shown.mark == "interval" and shown.interval is not None
        heading = Heading(
            key=SORT_KEYS.get(field.key, field.key),
            title=shown.title or field.heading,
            note=shown.note,
            explanation=shown.explanation,
            sort=shown.sort,
            best_first=shown.best_first,
            is_number=field.key != "model",
        )
        found.append(
            BoardColumn(
                field=field,
                page=shown,
                heading=heading,
                category=category,
                scale=column_scale(map(shown.interval, board.all_rows)) if is_pictured and shown.interval else None,
                ends=_ends(map(field.get, board.rows)) if category else (),
            )
        )
    return found


def _best_baseline(board: Leaderboard) -> tuple[str, float] | None:
    """Return the best baseline and its number; None if there is none."""
    known = [(row.model, found.value) for row in board.baselines if (found := board.ranking_average(row))]
    return max(known, key=lambda pair: pair[1], default=None)


def heading_of(board: Leaderboard, choices: Sequence[Choice]) -> str:
    """Return what a leaderboard shows: its filters, models and benchmarks."""
    chosen = [one.title for one in choices if one.value and one.name != "results"]
    counts = f"{plural(len(board.rows), 'model')} on {plural(len(board.columns), 'benchmark')}"
    return f"{', '.join(chosen) or 'Leaderboard'}: {counts}"


def named(rows: Sequence[Row], name: str) -> list[Row]:
    """Return the models with a text in their name, in any case."""
    return [row for row in rows if name.lower() in row.model.lower()]


def _chips(request: PageRequest, choices: Sequence[Choice], name: str) -> list[Condition]:
    """Return the active filters. Without a choice of results all others are removed too: they may not apply there."""
    chips = []
    for one in choices:
        if one.value:
            removed = [*PARAMETERS, one.name] if one.name == "results" else [one.name]
            without = request.here(**dict.fromkeys([*removed, "page"]))
            chips.append(Condition(text=f"{one.label}: {one.title}", without=without))
    if name:
        chips.append(Condition(text=f"Model name contains “{name}”", without=request.here(model=None, page=None)))
    return chips


def _facts(board: Leaderboard) -> list[str]:
    """Return size, rule, data and date of a leaderboard."""
    counts = [
        max((count_instances(row.cells[one.benchmark]) for row in board.rows if one.benchmark in row.cells), default=0)
        for one in board.columns
    ]
    days = [cell.dates[1] for row in board.rows for cell in row.cells.values() if cell.dates]
    return [
        *([plural(sum(counts), "question")] if sum(counts) else []),
        f"{board.scoring} scoring",
        *([f"suite {board.suite}"] if board.suite != "all" else []),
        data_text(board.tier),
        *([f"completions up to {max(days)}"] if days else []),
    ]


def _offered(request: PageRequest, choices: Sequence[Choice]) -> list[Choice]:
    """Return the fields of the form; in the static site those that have pages."""
    return [one for one in choices if not request.is_static or one.name in request.route.exported_with]


def _nothing_selected(site: Site, selection: BoardSelection, common: Mapping[str, object]) -> Page:
    """Return the page of filters that no run meets, with the form."""
    found = published_cells()[0] if selection.results == "published" else site.inputs().cells
    values = {**common, "message": "", "n_outside": len(found)}
    return Page(template="nothing_selected.html", title="No run matches the filters", values=values)


def _bad_filters(site: Site, request: PageRequest, error: UserError) -> Page:
    """Return the page of filters that do not exist: the form without them, and the reason."""
    plain = replace(request, query={})
    selection = selection_of(site, plain, results_of(site, plain)[0])
    choices = choices_of(site, selection)
    values = {"choices": choices, "chips": [], "selection": selection.parameters, "model": "", "message": str(error)}
    status = 400 if isinstance(error, BadParameter) else 404
    return Page(template="nothing_selected.html", title="Nothing to show", values=values, status=status)


def csv(site: Site, request: PageRequest) -> Download:
    """Return the leaderboard as CSV: one row per model, or with `by=benchmark` per benchmark and model."""
    by = request.choice("by", ("overall", "category", "subcategory", "benchmark", "head-to-head"), "overall")
    return text_download(report.to_table(_shown_board(site, request), by=by, format="csv"), f"leaderboard-{by}", "csv")


def json_(site: Site, request: PageRequest) -> Download:
    """Return the leaderboard as JSON, with the keys of `medhelm leaderboard --format json`, and damaged runs."""
    content = report.as_json(_shown_board(site, request)) | damaged_json(site)
    return text_download(json.dumps(content, indent=1, ensure_ascii=False), "leaderboard", "json")


def _shown_board(site: Site, request: PageRequest) -> Leaderboard:
    """Return the leaderboard with the models and in the order of the page with this address. Raises: BadParameter."""
    board = board_of(site, _selection(site, request))
    headings = [column.heading for column in board_columns(board)]
    table = sorted_table(request, headings, named(board.rows, request.text("model").strip()), default="rank")
    if list(table.rows) == list(board.rows):
        return board
    hidden = {row.model for row in board.rows} - {row.model for row in table.rows}
    remarks = tuple(one for one in board.remarks if one.subject not in hidden)
    return replace(board, rows=tuple(table.rows), remarks=remarks)


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


def marks_of(row: Row, runs: Sequence[Run], partly: Mapping[str, tuple[int, int]] | None = None) -> list[Mark]:
    """Return the labels that say where the scores of a model come from. `partly`: see `measured_on`."""
    found = []
    if counts := (partly or {}).get(row.model):
        text = "{} of {} benchmarks".format(*counts)
        found.append(Mark(text=text, title="Its number is estimated from its benchmarks, and how hard these were."))
    if row.published:
        found.append(PUBLISHED)
    if any(run.has_imported_prompts for run in runs):
        found.append(IMPORTED)
    if row.rank is None and row.model.startswith(BASELINES):
        found.append(BASELINE)
    return found


# --- charts -----------------------------------------------------------------------------------------------------------


def cost_of(board: Leaderboard, *, most: int | None = None) -> Chart | None:
    """Return cost against performance; None if the cost of no model is known.

    `most`: models that are shown; the probabilities to be on the frontier are left out if there are more.
    """
    with_probability = most is None or len(board.rows) <= most
    points = cost_points(board, with_probability=with_probability)
    known = any(point.usd is not None for point in points)
    return cost_chart(points, with_probability=with_probability, most=most) if known else None


def matrix_of(
    site: Site, board: Leaderboard, selection: BoardSelection, *, is_charted: bool = False
) -> ShadedTable | None:
    """Return the models head to head; None for fewer than two. `is_charted`: those of the page only."""
    if len(board.rows) < 2:
        return None
    return site.keep(("head-to-head", selection, is_charted), lambda: head_to_head_table(board, head_to_head(board)))


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRow:
    """Two models on one benchmark."""

    one: ComparedBenchmark
    """The benchmark with the tested difference."""
    cells: tuple[Cell, Cell]
    """The scores of both models."""
    outcomes: tuple[int, int, int] | None
    """Instances on which the first is better, equal and worse; None where no single instance is won."""
    better: tuple[int, int]
    """Instances on which the first, and on which the second model has the better score."""
    is_graded: bool
    """True if a score is not only right or wrong."""

    def share(self, place: int) -> float | None:
        """Return the score of a model on the scale of the difference, from 0 (worst) to 1 (best)."""
        value = self.cells[place].value
        return None if value is None else float(self.one.column.normalize(value))

    def own(self, place: int) -> str:
        """Return the score of a model in the metric's own unit; empty if that is the same number."""
        column, value = self.one.column, self.cells[place].value
        if value is None or (column.low, column.high, column.higher_is_better) == (0.0, 1.0, True):
            return ""
        return f"{decimal(value, score_decimals(column))} of {column.high:g}"


def compare_page(site: Site, request: PageRequest) -> Page:
    """Return the comparison of two models; without names that of the two best."""
    problem: UserError | None = None
    try:
        selection, wanted = selection_of(site, request), (request.text("a"), request.text("b"))
    except (BadParameter, PageNotFound) as error:
        problem, selection, wanted = error, BoardSelection(), ("", "")
    board = board_of(site, selection)
    models = [row.model for row in board.all_rows]
    best = [*next(_compared(board), models[:2]), "", ""]
    first, second = wanted[0] or best[0], wanted[1] or best[1]
    if first == second and len(models) > 1:
        second = next(model for model in models if model != first)
    found = None
    if problem is None and len(models) > 1:
        try:
            found = _comparison(site, request, first, second)
        except UserError as error:
            problem = error
    choices = choices_of(site, selection)
    parameters = {"a": first, "b": second, **selection.parameters}
    values = {
        "choices": choices,
        "chips": _chips(request, choices, ""),
        "selection": selection.parameters,
        "models": models,
        "pairs": _compared(board) if request.is_static else (),
        "marks": {row.model: marks_of(row, site.runs_of(row.model)) for row in board.all_rows},
        "first": first,
        "second": second,
        "found": found,
        "why_not": str(problem or "") or "A comparison needs two models with runs on the same benchmark.",
        "verdict": comparison_report.verdict(found) if found else (),
        "level": LEVEL,
        "outcome_mark": outcome_mark,
        "links": chart_links(request, "compare_chart", "differences", parameters),
    }
    if found is None:
        status = 400 if isinstance(problem, BadParameter) else 404 if isinstance(problem, PageNotFound) else 200
        return Page(template="compare.html", title="Compare two models", values=values, status=status)
    values |= {
        "table": sorted_table(request, _compared_headings(found), _compared_rows(site, found), default="benchmark"),
        "chart": differences_chart(found),
        "overall": _overall(found),
        "outcomes": _outcomes(board, first, second),
        "finding": comparison_report.finding(found),
    }
    return Page(template="compare.html", title=f"{first} and {second}", values=values)


COMPARED: list[Heading[ComparedRow]] = [
    Heading(key="benchmark", title="Benchmark", sort=lambda row: row.one.column.title.lower(), best_first=False,
            is_number=False),
    Heading(key="first", title="First", sort=lambda row: row.share(0)),
    Heading(key="second", title="Second", sort=lambda row: row.share(1)),
    Heading(key="difference", title="Difference", note="95% interval", sort=lambda row: row.one.difference.value),
    Heading(key="instances", title="Instances", sort=lambda row: row.one.difference.n),
    Heading(key="p", title="p", note="adjusted", sort=lambda row: row.one.p_adjusted, best_first=False,
            explanation="How often chance alone would make a difference as large, adjusted for all pairs of models and "
            "all benchmarks. Below 0.05 the two models differ significantly."),
    Heading(key="verdict", title="Verdict", is_number=False),
    Heading(key="outcomes", title="Better, equal, worse", note="first against second", is_number=False,
            sort=lambda row: None if row.outcomes is None else row.outcomes[0] - row.outcomes[2]),
    Heading(key="cases", title="Cases", note="better · worse"),
]  # fmt: skip
"""Columns of the comparison."""

WITH_RATINGS: Heading[ComparedRow] = Heading(
    key="ratings", title="With ratings", note="95% interval",
    sort=lambda row: row.one.calibrated.value if row.one.calibrated else None,
    explanation="Difference in the grades that clinicians would give, estimated from their ratings and the jury's "
    "scores.",
)  # fmt: skip
"""Column of the comparison where clinicians rated both models."""


def _compared_headings(found: Comparison) -> list[Heading[ComparedRow]]:
    """Return the columns of the comparison."""
    if all(one.calibrated is None for one in found.benchmarks):
        return COMPARED
    place = [heading.key for heading in COMPARED].index("difference") + 1
    return [*COMPARED[:place], WITH_RATINGS, *COMPARED[place:]]


def _compared_rows(site: Site, found: Comparison) -> list[ComparedRow]:
    """Return the benchmarks that two models share, with what happened on their instances."""
    cells = {(cell.model, cell.benchmark): cell for cell in site.inputs().cells}
    rows = []
    for one in found.benchmarks:
        pair = tuple(cells[model, one.column.benchmark] for model in (found.first, found.second))
        aligned = align({cell.model: cell for cell in pair}, one.column, [found.first, found.second])
        both = aligned.scores[:, ~np.isnan(aligned.scores).any(axis=0)]
        lead = np.round(both[0] - both[1], DECIMALS)
        rows.append(
            ComparedRow(
                one=one,
                cells=(pair[0], pair[1]),
                outcomes=None
                if aligned.ratio_values is not None
                else (int((lead > 0).sum()), int((lead == 0).sum()), int((lead < 0).sum())),
                better=(int((lead > 0).sum()), int((lead < 0).sum())),
                is_graded=bool(np.isin(both, (0, 1), invert=True).any()),
            )
        )
    return rows


def _outcomes(board: Leaderboard, first: str, second: str) -> tuple[float, float, float] | None:
    """Return the shares on which the first model is better, equal and worse, as head to head; None if undefined."""
    rows = {row.model: row for row in board.all_rows if row.model in (first, second)}
    pair = replace(board, rows=(rows[first], rows[second]), baselines=())
    return head_to_head(pair).outcomes(0, 1)


def _compared(board: Leaderboard) -> Iterator[tuple[str, str]]:
    """Yield the pairs of models, and of baselines, that have a benchmark in common, in order of rank."""
    for one, other in combinations(board.all_rows, 2):
        if board.were_compared(one.model, other.model) and not one.cells.keys().isdisjoint(other.cells):
            yield one.model, other.model


def compare_csv(site: Site, request: PageRequest) -> Download:
    """Return the comparison as CSV."""
    return text_download(comparison_report.to_table(_wanted_comparison(site, request), "csv"), "comparison", "csv")


def compare_json(site: Site, request: PageRequest) -> Download:
    """Return the comparison as JSON, with the keys of `medhelm compare A B --json`."""
    return json_download(comparison_report.as_json(_wanted_comparison(site, request)), "comparison")


def compare_chart(site: Site, request: PageRequest) -> Download:
    """Return the chart of the differences as a file."""
    found = _wanted_comparison(site, request)
    return chart_file(request.text("chart"), {"differences": lambda: differences_chart(found)})


def _wanted_comparison(site: Site, request: PageRequest) -> Comparison:
    """Return the comparison of the models that a URL names."""
    return _comparison(site, request, request.text("a"), request.text("b"))


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
