"""The list of benchmarks by the taxonomy of medical work, the page of one, and its evaluation card."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from markupsafe import Markup

from medhelm.analysis.leaderboard.cells import Column
from medhelm.analysis.leaderboard.types import Leaderboard, Row, remark_groups
from medhelm.benchmarks.catalog import own_folders
from medhelm.domain import Access, Benchmark, Run, Taxonomy
from medhelm.domain.benchmark import Subcategory, group_by
from medhelm.domain.run import no_answer_text
from medhelm.domain.text import metric_title
from medhelm.errors import UserError
from medhelm.extensions.web.benchmark_charts import benchmark_charts, benchmark_slices
from medhelm.extensions.web.board_charts import ShadedTable, chart_file, chart_links
from medhelm.extensions.web.marks import column_scale, interval_mark
from medhelm.extensions.web.page import Heading, PageRequest, missing_page, sorted_table
from medhelm.extensions.web.pages.data_use import use_of
from medhelm.extensions.web.pages.leaderboard import Mark, ShownScore, marks_of
from medhelm.extensions.web.site import BoardSelection, Site, board_of, damaged_json
from medhelm.io.http.pages import Download, Page, PageNotFound, json_download
from medhelm.results import card_view
from medhelm.results.card import card_of
from medhelm.results.catalog import BenchmarkCoverage, coverage, data_in_words, evaluated, evaluated_in_words
from medhelm.results.comparable import BASELINE
from medhelm.results.export import ExportSelection
from medhelm.results.formats.drawing import Chart, LinearScale
from medhelm.results.formats.fields import Field, fields_json, schema_of
from medhelm.results.formats.studies import study_line
from medhelm.results.formats.tables import score_decimals
from medhelm.results.leaderboard import LeaderboardInputs
from medhelm.results.leaderboard_view import as_json
from medhelm.results.options import BoardOptions, DocumentOptions
from medhelm.results.published.boards import known_error_remarks
from medhelm.results.runs.criteria import board_with_criteria, means_on
from medhelm.results.runs.slices_view import GAP_IN_WORDS
from medhelm.results.runs.slices_view import as_json as slices_as_json
from medhelm.scoring.metrics import METRICS
from medhelm.storage.store import Store, stored_folder


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


def _data_in_words(site: Site, definition: Benchmark) -> str:
    """Return how many cases the data has, by the largest run without a limit, and how many were run."""
    runs = _runs(site, definition.name).values()
    whole = max((run.n for run in runs if not run.settings.get("limit")), default=None)
    return data_in_words(definition, whole, max((run.n for run in runs), default=None))


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
    board = _graded_board(site, name)
    if board is None and definition is None:
        known = [(one.title, request.links.to("benchmark", {"benchmark": one.benchmark})) for one in _columns(site)]
        return missing_page(f"The benchmark `{name[:80]}` does not exist. The page Benchmarks lists all.", known)
    column = board.columns[0] if board else None
    shows_text = site.shows_text_of(name)
    scores = _scores(site, board, column) if board and column else []
    ranked = [one for one in scores if not one.is_baseline]
    table = sorted_table(request, _headings(scores), ranked, default="rank")
    values = {
        "name": name,
        "definition": definition,
        "column": column,
        "shows_text": shows_text,
        "access": site.access_of(name),
        "instances": _data_in_words(site, definition) if definition else "",
        "metric": _metric_description(column, definition),
        "problems": known_problems(name, definition),
        "table": table,
        "rows": table.shown,
        "studies": study_line(board.studies) if board else "",
        "baselines": [one for one in scores if one.is_baseline],
        "scale": _scale(board, column) if board and column else None,
        "verdict": board.verdict if board else (),
        "criteria": group_by(means_on(board, column), lambda one: one.criterion) if board and column else {},
        "reasons": sum((Counter(one.run.failures) for one in scores if one.run), Counter()),
        "metrics": [_metric_title(one) for one in definition.metrics] if definition else [],
        "data_address": data_address(definition) if definition else "",
        "places": score_decimals(column) if column else 3,
        "mde": board.mde.get(name) if board else None,
        "charts": {name: make() for name, make in _charts(site, board).items() if name != "scores"},
        "slices": benchmark_slices(site, name) if board else (),
        "gap_in_words": GAP_IN_WORDS,
        "links": lambda chart: chart_links(request, "benchmark_chart", chart, {"benchmark": name}),
        "left_out": board.left_out if board else (),
        "remark_groups": remark_groups(board) if board else None,
    }
    title = column.title if column else definition.title if definition else name
    return Page(template="benchmark.html", title=title, values=values)


def json_(site: Site, request: PageRequest) -> Download:
    """Return the same benchmark as JSON, with the models on it as a leaderboard."""
    name = request.text("benchmark")
    definition, board = site.definitions.get(name), _graded_board(site, name)
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
        "problems": known_problems(name, definition),
        "leaderboard": as_json(board) if board else None,
        "slices": slices_as_json([one.found for one in benchmark_slices(site, name)]) if board else [],
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


def _graded_board(site: Site, name: str) -> Leaderboard | None:
    """Return the same leaderboard with the judges' grades by criterion."""
    board = _board(site, name)
    if board is None:
        return None
    return site.keep(("criteria of benchmark", name), lambda: board_with_criteria(board, site.inputs().runs))


def _columns(site: Site) -> Sequence[Column]:
    """Return the benchmarks of the store."""
    found = _inputs(site)
    return found.columns if found else ()


def _runs(site: Site, name: str) -> dict[str, Run]:
    """Return the runs that count: model -> run."""
    found = _inputs(site)
    return {model: run for (model, benchmark), run in found.runs.items() if benchmark == name} if found else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelScore(ShownScore):
    """One model in the table of a benchmark."""

    row: Row
    """Its row on the leaderboard of the benchmark."""
    is_baseline: bool
    """True for a baseline that is not ranked."""

    @property
    def marks(self) -> list[Mark]:
        """Labels that say where the score comes from."""
        return marks_of(self.row, [self.run] if self.run else [])

    @property
    def no_answer(self) -> str:
        """Completions without a readable answer, in words; empty if there are none."""
        return (no_answer_text(self.run) if self.run else None) or ""

    def picture(self, scale: LinearScale) -> Markup:
        """Return the interval on the scale of the table."""
        found, is_hollow = self.cell.estimate, self.row.published or self.is_baseline
        low, high = (found.low, found.high) if found else (None, None)
        return interval_mark(self.cell.value, low, high, scale, hollow=is_hollow)


HEADINGS: list[Heading[ModelScore]] = [
    Heading(key="rank", title="Rank", note="95% confidence set", sort=lambda one: one.row.rank, best_first=False,
            explanation="Place by the mean, and the places that the model can have at the 95% level."),
    Heading(key="model", title="Model", sort=lambda one: one.row.model.lower(), best_first=False, is_number=False),
    Heading(key="score", title="Score", note="95% interval", sort=lambda one: one.cell.value),
    Heading(key="instances", title="Cases", sort=lambda one: one.n),
    Heading(key="failures", title="Failures", sort=lambda one: one.cell.n_failed,
            explanation="Cases without a completion or score. Those that the model caused count as the worst answer."),
    Heading(key="no_answer", title="No answer read", is_number=False,
            explanation="Completions that are blank, or in which no answer was found, or that were cut by the limit."),
    Heading(key="cost", title="Cost", note="judges not included", sort=lambda one: one.cell.cost_usd, best_first=False),
    Heading(key="run", title="Run", sort=lambda one: one.run.started if one.run else None, is_number=False),
]  # fmt: skip
"""Columns of the models on a benchmark."""

RATED: list[Heading[ModelScore]] = [
    Heading(key="clinicians", title="Clinicians", note="95% interval",
            sort=lambda one: one.cell.clinicians.value if one.cell.clinicians else None,
            explanation="Mean rating by clinicians of the cases that they rated."),
    Heading(key="calibrated", title="Calibrated", note="95% interval",
            sort=lambda one: one.cell.calibrated.value if one.cell.calibrated else None,
            explanation="The mean grade that clinicians would give to all cases, estimated from their ratings and the "
            "jury's scores."),
]  # fmt: skip
"""Further columns where clinicians rated completions."""


def _headings(scores: Sequence[ModelScore]) -> list[Heading[ModelScore]]:
    """Return the columns of a benchmark: those with ratings by clinicians follow the score."""
    present = {
        "clinicians": any(one.cell.clinicians for one in scores),
        "calibrated": any(one.cell.calibrated for one in scores),
    }
    place = [heading.key for heading in HEADINGS].index("score") + 1
    return [*HEADINGS[:place], *(one for one in RATED if present[one.key]), *HEADINGS[place:]]


def _scores(site: Site, board: Leaderboard, column: Column) -> list[ModelScore]:
    """Return the models on a benchmark in order of rank, then baselines."""
    runs, baselines = _runs(site, column.benchmark), {row.model for row in board.baselines}
    return [
        ModelScore(row=row, cell=cell, column=column, run=runs.get(row.model), is_baseline=row.model in baselines)
        for row in board.all_rows
        if (cell := row.cells.get(column.benchmark)) is not None
    ]


def _scale(board: Leaderboard, column: Column) -> LinearScale:
    """Return the common scale of the scores, in the unit of the metric."""
    cells = [row.cells[column.benchmark] for row in board.all_rows if column.benchmark in row.cells]
    return column_scale((cell.estimate for cell in cells), column.low, column.high)


def _metric_title(name: str) -> str:
    """Return the title of a metric."""
    known = METRICS.if_usable(name)
    return known.title if known else metric_title(name)


def data_address(definition: Benchmark) -> str:
    """Return the address of the data for people: a page, not a pattern of files; empty if there is none."""
    location = definition.source.location.replace("{revision}", definition.source.revision)
    folder = location.partition("{")[0].rpartition("/")[0] if "{" in location else location
    if folder.startswith(RAW):
        owner, name, revision, *path = folder.removeprefix(RAW).split("/")
        return "/".join(["https://github.com", owner, name, "tree", revision, *path])
    return folder if folder.startswith("https://") else ""


RAW = "https://raw.githubusercontent.com/"
"""Start of the addresses of files on GitHub, which has no pages for their folders there."""


def _metric_description(column: Column | None, definition: Benchmark | None) -> str:
    """Return the meaning of the main metric."""
    name = column.metric if column else definition.main_metric if definition else ""
    known = METRICS.if_usable(name)
    return known.description if known else "mean of the grades of the judges" if name == "jury" else ""


def known_problems(name: str, definition: Benchmark | None) -> list[str]:
    """Return what is known to be wrong or uncertain about a benchmark."""
    found = [*definition.remarks] if definition else []
    return found + [remark.text for remark in known_error_remarks([name]) if remark.code == "known_error"]


def _charts(site: Site, board: Leaderboard | None) -> Mapping[str, Callable[[], Chart | ShadedTable]]:
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


# --- evaluation card --------------------------------------------------------------------------------------------------
# The card of one benchmark, as `medhelm export card` writes it.


def card_page(site: Site, request: PageRequest) -> Page:
    """Return the card, what is known to be wrong first."""
    name = request.text("benchmark")
    board, card = benchmark_card(site, name)
    definition = site.definitions.get(name)
    front = dict(card_view.front_sections(card))
    title = board.columns[0].title
    values = {
        "name": name,
        "heading": title,
        "definition": definition,
        "data_address": data_address(definition) if definition else "",
        "problems": [*known_problems(name, definition), *front.pop("Limitations", ())],
        "card": card,
        "byline": card_view.byline(card),
        "front": front,
        "tables": card_view.tables(card),
        "sections": card_view.sections(card),
        "places": card_view.places(card),
    }
    return Page(template="benchmark_card.html", title=f"{title}: card", values=values)


def card_json(site: Site, request: PageRequest) -> Download:
    """Return the card as JSON, with the keys of `medhelm export card`."""
    name = request.text("benchmark")
    return json_download(card_view.as_json(benchmark_card(site, name)[1]), f"{name}-card")


def benchmark_card(site: Site, name: str) -> tuple[Leaderboard, card_view.Card]:
    """Return the leaderboard of a benchmark and its card, from memory where they were made before.

    Raises: PageNotFound without a run on the benchmark.
    """

    def make() -> tuple[Leaderboard, card_view.Card]:
        board = _board(site, name)
        if board is None:
            raise PageNotFound(f"The store has no run on `{name[:80]}`. A card shows the results of runs.")
        finished = site.inputs()
        runs = {key: run for key, run in finished.runs.items() if key[1] == name}
        first = next(iter(runs.values()))
        selection = ExportSelection(
            store=Store(stored_folder(first).parents[2]),
            runs=list(runs.values()),
            counted=runs,
            tier=finished.tier,
            remarks=(),
            left_out=board.left_out,
        )
        options = BoardOptions(rule=site.rule, tier=finished.tier, wanted=site.wanted)
        about = DocumentOptions(date=datetime.now(UTC).date().isoformat())
        return board, card_of(selection, board, site.definitions, options, about, use_of(site, with_names=False))

    return site.keep(("card", name), make)
