"""The list of benchmarks by the taxonomy of medical work, and the page of one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from medhelm.analysis.leaderboard.cells import Column
from medhelm.analysis.leaderboard.types import Leaderboard
from medhelm.benchmarks.catalog import own_folders
from medhelm.domain import Access, Benchmark, Run, Taxonomy
from medhelm.domain.benchmark import Subcategory
from medhelm.domain.run import no_answer_text
from medhelm.errors import UserError
from medhelm.extensions.web.benchmark_charts import benchmark_charts
from medhelm.extensions.web.board_charts import chart_file, chart_links
from medhelm.extensions.web.page import Download, Page, PageNotFound, PageRequest, json_download
from medhelm.extensions.web.pages.leaderboard import marks_of
from medhelm.extensions.web.site import BoardSelection, Site, board_of, damaged_json
from medhelm.results.catalog import BenchmarkCoverage, coverage, data_in_words, evaluated, evaluated_in_words
from medhelm.results.comparable import BASELINE
from medhelm.results.formats.drawing import Chart
from medhelm.results.formats.fields import Field, fields_json, schema_of
from medhelm.results.formats.tables import score_decimals
from medhelm.results.leaderboard import LeaderboardInputs
from medhelm.results.leaderboard_view import as_json, count_instances
from medhelm.results.published.boards import known_error_remarks
from medhelm.scoring.metrics import METRICS


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkWithRuns:
    """A benchmark of the list that has runs."""

    column: Column
    """Its name, title and category."""
    task: str
    """The task of the model; empty without a definition."""
    access: str
    """Access to its data."""
    n: int
    """Cases of its largest run."""
    n_models: int
    """Models with a run that counts, without baselines."""
    is_own: bool
    """True for a benchmark of the user's own."""
    has_definition: bool
    """True if its definition was found."""


def page(site: Site, request: PageRequest) -> Page:
    """Return all benchmarks: those with runs, the user's own first; then the others by category."""
    del request
    inputs = _inputs(site)
    models = _count_models(inputs)
    definitions = list(site.definitions.values())
    taxonomy = coverage(definitions, site.data)
    places = [benchmarks for _, benchmarks in taxonomy.places]
    with_runs = [_with_runs(site, inputs, column) for column in inputs.columns] if inputs else []
    n_run, n_all = _count_run(places, models)
    values = {
        "with_runs": sorted(with_runs, key=lambda one: not one.is_own),
        "categories": [
            (category, rest)
            for category in taxonomy.categories
            if (rest := _not_run(taxonomy.places_of(category), models))
        ],
        "instances": evaluated_in_words,
        "n_without": n_all - n_run,
        "n_subcategories": len(places),
        "n_covered": sum(any(models[one.benchmark.name] for one in place) for place in places),
    }
    return Page(template="benchmarks.html", title="Benchmarks", values=values)


def _with_runs(site: Site, inputs: LeaderboardInputs, column: Column) -> BenchmarkWithRuns:
    name = column.benchmark
    known = site.definitions.get(name)
    runs = [run for (_, benchmark), run in inputs.runs.items() if benchmark == name]
    return BenchmarkWithRuns(
        column=column,
        task=known.taxonomy.task or known.description if known else "",
        access=site.access_of(name),
        n=max((run.n for run in runs), default=0),
        n_models=sum(not run.model.startswith(BASELINE) for run in runs),
        is_own=known is None or bool(own_folders([known])),
        has_definition=known is not None,
    )


Places = Sequence[tuple[Subcategory, Sequence[BenchmarkCoverage]]]
"""Subcategories with their benchmarks."""


def _not_run(places: Places, models: Counter[str]) -> Places:
    """Return the benchmarks without a run; subcategories whose benchmarks all have runs are left out."""
    found = [(place, [one for one in own if not models[one.benchmark.name]]) for place, own in places]
    return [(place, rest) for (place, rest), (_, own) in zip(found, places, strict=True) if rest or not own]


def _count_run(places: Sequence[Sequence[BenchmarkCoverage]], models: Counter[str]) -> tuple[int, int]:
    """Return the number of benchmarks with a run in subcategories, and that of all their benchmarks."""
    names = [one.benchmark.name for place in places for one in place]
    return sum(models[name] > 0 for name in names), len(names)


def _whole_size(site: Site, name: str) -> int | None:
    """Return the number of cases of a run without a limit; None if there is none."""
    return max((run.n for run in _runs(site, name).values() if not run.settings.get("limit")), default=None)


def json_list(site: Site, request: PageRequest) -> Download:
    """Return the same benchmarks as JSON."""
    del request
    inputs = _inputs(site)
    fields = entry_fields(site.access_of, _count_models(inputs))
    known: list[Benchmark | Column] = [*site.definitions.values(), *_undefined(site, inputs)]
    return json_download(
        {"benchmarks": [fields_json(fields, one) for one in known], **damaged_json(site)}, "benchmarks"
    )


def entry_fields(access_of: Callable[[str], str], models: Mapping[str, int]) -> list[Field[Benchmark | Column]]:
    """Return the fields of a benchmark of the catalog, or of one that is in the store only."""

    def name(known: Benchmark | Column) -> str:
        return known.name if isinstance(known, Benchmark) else known.benchmark

    def place(known: Benchmark | Column) -> Taxonomy | Column:
        return known.taxonomy if isinstance(known, Benchmark) else known

    return [
        Field("id", name, kind="text"),
        Field("title", lambda known: known.title, kind="text"),
        Field("category", lambda known: place(known).category, kind="text"),
        Field("subcategory", lambda known: place(known).subcategory, kind="text"),
        Field("task", lambda known: known.taxonomy.task if isinstance(known, Benchmark) else "", kind="text"),
        Field("access", lambda known: access_of(name(known)), kind="text", schema=schema_of(Access)),
        Field("instances", lambda known: evaluated(known) if isinstance(known, Benchmark) else None,
              kind="whole number", missing="unknown", meaning="number that is evaluated; null if unknown"),
        Field("n_models", lambda known: models[name(known)], kind="whole number",
              meaning="models with a run that counts"),
    ]  # fmt: skip


def _inputs(site: Site) -> LeaderboardInputs | None:
    """Return the runs that count; None if nothing was run yet."""
    try:
        return site.inputs()
    except UserError:
        return None


def _count_models(inputs: LeaderboardInputs | None) -> Counter[str]:
    """Return the number of models on each benchmark."""
    return Counter(cell.benchmark for cell in inputs.cells) if inputs else Counter()


def _undefined(site: Site, inputs: LeaderboardInputs | None) -> list[Column]:
    """Return the benchmarks of the store that have no definition here."""
    return [column for column in inputs.columns if column.benchmark not in site.definitions] if inputs else []


# --- page of one benchmark --------------------------------------------------------------------------------------------
# Its card, the models compared, failures and subgroups.


def benchmark_page(site: Site, request: PageRequest) -> Page:
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
        "instances": data_in_words(definition, _whole_size(site, name)) if definition else "",
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
        "leaderboard": as_json(board) if board else None,
        **damaged_json(site),
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


def _metric_description(column: Column | None, definition: Benchmark | None) -> str:
    """Return the meaning of the main metric."""
    name = column.metric if column else definition.main_metric if definition else ""
    known = METRICS.if_usable(name)
    return known.description if known else "mean of the grades of the judges" if name == "jury" else ""


def _problems(name: str, definition: Benchmark | None) -> list[str]:
    """Return what is known to be wrong or uncertain about a benchmark."""
    found = [*definition.remarks] if definition else []
    return found + [remark.text for remark in known_error_remarks([name]) if remark.code == "known_error"]


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
