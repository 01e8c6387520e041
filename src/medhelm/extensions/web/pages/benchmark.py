"""One benchmark: its card, the models compared, failures and subgroups."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from medhelm.analysis.leaderboard.cells import Column
from medhelm.analysis.leaderboard.types import Leaderboard
from medhelm.domain import Benchmark, Run
from medhelm.domain.run import no_answer_text
from medhelm.errors import UserError
from medhelm.extensions.web.chart_files import chart_file, chart_links
from medhelm.extensions.web.charts.benchmark_page import benchmark_charts
from medhelm.extensions.web.page import Download, Page, PageNotFound, PageRequest, json_download
from medhelm.extensions.web.pages.benchmarks import entry_fields
from medhelm.extensions.web.pages.leaderboard import marks_of
from medhelm.extensions.web.selection import BoardSelection, board_of
from medhelm.extensions.web.site import Site
from medhelm.reports import leaderboard as report
from medhelm.reports.benchmarks import evaluated_in_words
from medhelm.reports.charts.chart import Chart
from medhelm.reports.formats.fields import fields_json
from medhelm.reports.formats.tables import score_decimals
from medhelm.reports.leaderboard_fields import count_instances
from medhelm.results.published.remarks import known_error_remarks
from medhelm.scoring.metrics import METRICS


def page(site: Site, request: PageRequest) -> Page:
    """Return the page of one benchmark, of the catalog or of the store."""
    name = request.text("benchmark")
    definition = site.definitions.get(name)
    board = _board(site, name)
    if board is None and definition is None:
        raise PageNotFound(f"The benchmark `{name[:80]}` does not exist. The page Benchmarks lists all.")
    column = board.columns[0] if board else None
    shows_text = site.shows_text_of(name)
    values = {
        "name": name,
        "definition": definition,
        "column": column,
        "shows_text": shows_text,
        "access": site.access_of(name),
        "instances": evaluated_in_words(definition) if definition else "",
        "metric": _metric_description(column, definition),
        "problems": _problems(name, definition),
        "rows": _rows(site, board, column) if board and column else (),
        "places": score_decimals(column) if column else 3,
        "mde": board.mde.get(name) if board else None,
        "charts": [make() for make in _charts(site, board).values()],
        "links": lambda chart: chart_links(request, "benchmark_chart", chart, {"benchmark": name}),
        "left_out": board.left_out if board else (),
        "remarks": board.remarks if board else (),
    }
    title = column.title if column else definition.title if definition else name
    return Page(template="benchmark.html", title=title, values=values)


def json_(site: Site, request: PageRequest) -> Download:
    """Return the same benchmark as JSON, with the models on it as a leaderboard."""
    name = request.text("benchmark")
    definition, board = site.definitions.get(name), _board(site, name)
    column = board.columns[0] if board else None
    known = definition or column
    if known is None:
        raise PageNotFound(f"The benchmark `{name[:80]}` does not exist. /api/benchmarks lists all.")
    fields = entry_fields(site.access_of, {name: len(board.all_rows) if board else 0})
    content = {
        **fields_json(fields, known),
        "description": definition.description if definition else "",
        "license": definition.license if definition else "",
        "metric": column.metric if column else definition.main_metric if definition else "",
        "problems": _problems(name, definition),
        "leaderboard": report.as_json(board) if board else None,
    }
    return json_download(content, name)


def chart(site: Site, request: PageRequest) -> Download:
    """Return a chart of the benchmark as a file."""
    board = _board(site, request.text("benchmark"))
    return chart_file(request.text("chart"), _charts(site, board) if board else {})


def _board(site: Site, name: str) -> Leaderboard | None:
    """Return the leaderboard of one benchmark; None if nothing was run on it."""
    try:
        return board_of(site, BoardSelection(benchmark=name))
    except UserError:
        return None


def _runs(site: Site, name: str) -> dict[str, Run]:
    """Return the runs that count: model -> run."""
    try:
        return {model: run for (model, benchmark), run in site.inputs().runs.items() if benchmark == name}
    except UserError:
        return {}


def _rows(site: Site, board: Leaderboard, column: Column) -> list[dict[str, object]]:
    runs = _runs(site, column.benchmark)
    return [
        {
            "row": row,
            "cell": cell,
            "marks": marks_of(row, [run] if run else []),
            "run": run,
            "n": count_instances(cell),
            "no_answer": no_answer_text(run) if run else None,
        }
        for row in board.all_rows
        if (cell := row.cells.get(column.benchmark)) is not None
        for run in [runs.get(row.model)]
    ]


# --- the card ---------------------------------------------------------------------------------------------------------


def _metric_description(column: Column | None, definition: Benchmark | None) -> str:
    """Return the meaning of the main metric."""
    name = column.metric if column else definition.main_metric if definition else ""
    known = METRICS.if_usable(name)
    return known.description if known else "mean of the grades of the judges" if name == "jury" else ""


def _problems(name: str, definition: Benchmark | None) -> list[str]:
    """Return what is known to be wrong or uncertain about a benchmark."""
    found = [*definition.remarks] if definition else []
    return found + [remark.text for remark in known_error_remarks([name]) if remark.code == "known_error"]


# --- charts -----------------------------------------------------------------------------------------------------------


def _charts(site: Site, board: Leaderboard | None) -> Mapping[str, Callable[[], Chart]]:
    """Return the charts of a benchmark that have something to show; each is made when it is asked for.

    Names of subgroups are texts of the data.
    """
    if board is None:
        return {}
    column = board.columns[0]
    runs = _runs(site, column.benchmark).values()
    shown = dict(benchmark_charts(site, board, column))
    if not any(run.n_failed for run in runs):
        del shown["failures"]
    if not any(run.groups for run in runs) or not site.shows_text_of(column.benchmark):
        del shown["subgroups"]
    return shown
