"""Write a report: read leaderboard, costs and agreement, and lay out its pages and appendix."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from medhelm import __version__
from medhelm.analysis.comparison.power import detectable_effects
from medhelm.analysis.cost import sum_costs
from medhelm.analysis.leaderboard.findings import pairs_sentence
from medhelm.analysis.leaderboard.rows import head_to_head
from medhelm.analysis.leaderboard.types import remark_groups
from medhelm.domain import Benchmark, Rule, Run
from medhelm.domain.benchmark import Suite, group_by
from medhelm.domain.result import Remark
from medhelm.errors import MissingError, UserError, suggestion
from medhelm.extensions.paper import contents, figures
from medhelm.extensions.paper.contents import (
    ENDINGS,
    TABLE_FORMATS,
    ModelCost,
    PaperTable,
    intervals_in_words,
    markdown,
    table_c3,
    table_e4,
    table_head_to_head,
    table_subcategories,
    taxonomy_titles,
    write,
)
from medhelm.extensions.paper.figures import FlaggedScores, PaperFigure
from medhelm.extensions.paper.reference_filter.marking import split_score
from medhelm.extensions.paper.reference_filter.report import read_marks
from medhelm.io.folders import REPORT_MANIFEST, check_report, write_report
from medhelm.results.agreement import BASELINES
from medhelm.results.card_view import render_html
from medhelm.results.comparable import BASELINE, select_runs
from medhelm.results.formats.drawing import PICTURES, check_installed, render_picture
from medhelm.results.formats.fields import plain_json
from medhelm.results.formats.sections import ResultSection, read_sections, section_in_markdown, tables_in_html
from medhelm.results.formats.studies import study_line
from medhelm.results.formats.tables import (
    SAMPLE_WARNING,
    as_texts,
    escape_markdown,
    estimate_text,
    markdown_sentence,
    p_text,
    render,
)
from medhelm.results.jury import judge_sentences
from medhelm.results.leaderboard import leaderboard_of, leaderboard_of_scores, suite_of
from medhelm.results.leaderboard_view import (
    as_json,
    caption,
)
from medhelm.results.options import (
    NO_DOCUMENT,
    NO_RATINGS,
    USUAL,
    BoardOptions,
    CalibrationOptions,
    DocumentOptions,
    Pricing,
    read_pricing,
)
from medhelm.results.published.boards import (
    MARK,
    ceiling_of,
    leaderboard_with_published,
    load_results,
    published_leaderboard,
    published_names,
)
from medhelm.results.releases import NO_RELEASE, source_release
from medhelm.results.runs.data_use import data_use
from medhelm.results.runs.data_use import sentences as data_sentences
from medhelm.results.runs.selection import days_in_words, names_in, refuse_filter, with_names, without_address
from medhelm.results.runs.stored_ratings import is_ratings_file
from medhelm.results.spending import UsageItem, read_spending
from medhelm.storage.store import Store, stored_folder

if TYPE_CHECKING:
    from medhelm.analysis.agreement.jury_vs_clinicians import JuryAgreement
    from medhelm.analysis.comparison.pairs import ModelPair
    from medhelm.analysis.leaderboard.types import Leaderboard


# --- inputs -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRequest:
    """Request for a report."""

    stores: Sequence[Path] = ()
    """Stores to read; none for published results alone."""
    scores: Path | None = None
    """File with scores of other models to read instead."""
    published: Literal["no", "beside", "only"] = "no"
    """Published results: left out, beside own ones, or alone."""
    options: BoardOptions = USUAL
    """Options of the leaderboard, without its rule."""
    rule: Rule | None = None
    """Scoring rule; None: `published` for published results, else `corrected`."""
    about: DocumentOptions = NO_DOCUMENT
    """Title, author and date of the report, clinicians' ratings of some completions, and who may have signed."""
    definitions: Sequence[Benchmark] = ()
    """Benchmarks whose rubrics are known, for the ratings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportInputs:
    """Inputs of tables and figures."""

    board: Leaderboard
    """The leaderboard."""
    suite: Sequence[str] | None = None
    """Benchmarks of the suite; None: all with results."""
    costs: Sequence[ModelCost] = ()
    """Costs by model; empty if all are unknown."""
    cost_remarks: Sequence[Remark] = ()
    """Limits of the costs, such as unknown prices."""
    clinical: JuryAgreement | None = None
    """The jury against clinicians; None without ratings."""
    flagged: Sequence[FlaggedScores] = ()
    """Scores on accepted and on flagged references; empty if no references are marked."""
    dates: str = ""
    """Dates of the runs, for people."""
    release: str = ""
    """The release that holds the results, or that there is none; empty for results that are not those of one store."""
    judging: Sequence[str] = ()
    """Sentences on the judges."""
    data_use: Sequence[str] = ()
    """Sentences on where the data went."""
    sections: Sequence[ResultSection] = ()
    """Findings of extensions."""


def gather_inputs(request: ReportRequest, *, with_costs: bool = True) -> ReportInputs:
    """Read all inputs.

    Raises: UserError for contradictory options, or if there is nothing to rank; StoreError for a folder that is not a
    store; ConfigError with all problems of a file of scores or ratings.
    """
    _refuse_contradictions(request)
    board = read_leaderboard(request)
    # The command of a remark may hold the address of a server, which no report shows.
    board = replace(board, remarks=tuple(replace(one, text=without_address(one.text)) for one in board.remarks))
    clinical = None
    if request.about.ratings or (len(request.stores) == 1 and not _has_no_runs(request)):
        from medhelm.results.agreement import agreement

        # Without results of the stores, only the jury's grades in the ratings file count.
        store = Path(os.devnull) if _has_no_runs(request) else request.stores[0]
        clinical = agreement(request.about.ratings or "", store, request.definitions)
    found = ReportInputs(board=board, suite=_suite_benchmarks(request, board), clinical=clinical)
    dates: list[str] = []
    if not _has_no_runs(request):
        found, dates = _with_runs(found, request, with_costs=with_costs)
    if request.published != "no":
        found = replace(found, costs=[*found.costs, *_published_costs(board)])
        dates.append(_published_date())
    words = "; ".join(dates) or (f"{request.scores}, means only" if request.scores else "unknown")
    return replace(found, dates=words)


def _with_runs(found: ReportInputs, request: ReportRequest, *, with_costs: bool) -> tuple[ReportInputs, list[str]]:
    """Add what the runs of the stores say, and return their dates in words."""
    board = found.board
    spending = read_spending(request.stores, read_pricing(request.options.pricing) or Pricing(), request.options.wanted)
    runs = _labeled_runs(spending.items)
    counted = _counted_runs(runs, board)
    options = replace(request.options, rule=board.scoring, tier=board.tier)
    found = replace(
        found,
        flagged=_flagged_scores(counted, board),
        release=_release_line(request, counted, options),
        judging=judge_sentences(request.stores, counted, options),
        data_use=data_sentences(data_use(request.stores)),
        sections=read_sections(request.stores, options),
    )
    if with_costs:
        names = names_in(runs)
        by_name = {(names[name], benchmark): run for (name, benchmark), run in counted.items()}
        costs = _own_costs(spending.items, by_name, board)
        named = [replace(remark, text=with_names(names, remark.text)) for remark in spending.remarks]
        remarks = [remark for remark in named if any(cost.model in remark.text for cost in costs)]
        found = replace(found, costs=costs, cost_remarks=remarks)
    return found, _run_dates(counted.values())


def _release_line(request: ReportRequest, counted: Counted, options: BoardOptions) -> str:
    """Return the release that holds the results of one store; empty where they are not all from one store."""
    if len(request.stores) != 1 or request.published != "no":
        return ""
    return str(source_release(request.stores[0], counted, options, request.about.signers) or NO_RELEASE)


def _refuse_contradictions(request: ReportRequest) -> None:
    if request.scores and request.published != "no":
        raise UserError("--scores cannot be combined with published results. Leave one of them out.")
    if request.scores and (request.rule == "corrected" or request.options.tier == "sample"):
        raise UserError("--scores has published means on real data. Leave out --scoring corrected and --tier sample.")
    if request.options.pricing and _has_no_runs(request):
        raise UserError("--prices are for runs in a store. Leave it out, or leave out --published-only and --scores.")
    if _has_no_runs(request):
        refuse_filter(request.options.wanted)
    if str(request.about.ratings or NO_RATINGS) != NO_RATINGS and len(request.stores) > 1:
        raise UserError("--ratings rate the completions of one store. Give one --store.")


def _has_no_runs(request: ReportRequest) -> bool:
    """Return whether the report contains no results of the stores."""
    return request.scores is not None or request.published == "only"


def read_leaderboard(request: ReportRequest) -> Leaderboard:
    """Return the leaderboard of a report."""
    if request.published == "only":
        return published_leaderboard(suite=request.options.suite, tier=request.options.tier, rule=request.rule)
    if request.scores:
        return leaderboard_of_scores(request.scores, request.options)
    rule = request.rule or "corrected"
    options = replace(request.options, rule=rule, short_names=True)
    if request.published == "beside":
        return leaderboard_with_published(request.stores, options, rule=request.rule)
    if rule == "corrected" and len(request.stores) == 1:
        clinicians = CalibrationOptions(ratings=request.about.ratings or "", definitions=request.definitions)
        options = replace(options, clinicians=clinicians)
    return leaderboard_of(request.stores, options)


def _suite_benchmarks(request: ReportRequest, board: Leaderboard) -> list[str] | None:
    """Return the benchmarks of the suite, with or without results; None for all."""
    weights = suite_of(request.options, board.columns).weights
    return None if weights is None else list(weights)


def _flagged_scores(counted: Counted, board: Leaderboard) -> list[FlaggedScores]:
    """Return the means over models on accepted and on flagged references, of each benchmark with marks."""
    found = []
    for column in board.columns:
        splits = []
        for run in (run for (_, name), run in counted.items() if name == column.benchmark and run.folder):
            store = Store(stored_folder(run).parents[2])
            marks = read_marks(store, run.benchmark, run.benchmark_digest, run.data_digest)
            if marks and not run.model.startswith(BASELINE):
                splits.append(split_score(run, run.main_metric, marks, board.scoring))
        both = [(kept, aside) for one in splits if (kept := one.parts["kept"]) and (aside := one.parts["set_aside"])]
        if both:
            found.append(
                FlaggedScores(
                    title=column.title,
                    accepted=fmean(column.normalize(kept.value) for kept, _ in both),
                    flagged=fmean(column.normalize(aside.value) for _, aside in both),
                    n_accepted=max(kept.n for kept, _ in both),
                    n_flagged=max(aside.n for _, aside in both),
                    n_models=len(both),
                )
            )
    return found


# --- costs and dates --------------------------------------------------------------------------------------------------

Counted = Mapping[tuple[str, str], Run]
"""Model and benchmark -> the run that the leaderboard counts."""


def _labeled_runs(items: Iterable[UsageItem]) -> list[tuple[str, Run]]:
    """Return each run with the label of its store."""
    runs = {id(item.run): (item.model.removeprefix(item.run.model), item.run) for item in items if item.run}
    return list(runs.values())


def _counted_runs(runs: Iterable[tuple[str, Run]], board: Leaderboard) -> Counted:
    """Return the runs that the leaderboard counts. `runs`: each with the label of its store."""
    shown = {column.benchmark for column in board.columns}
    found = select_runs((label, run) for label, run in runs if run.tier == board.tier).runs
    return {key: run for key, run in found.items() if key[1] in shown}


def _own_costs(items: Sequence[UsageItem], counted: Counted, board: Leaderboard) -> list[ModelCost]:
    """Return the cost of repeating the board's own results, judges included."""
    by_run = group_by(items, lambda item: id(item.run))
    costs = []
    for model in (row.model for row in board.rows if not row.published):
        own = [item for (name, _), run in counted.items() if name == model for item in by_run[id(run)]]
        if not own:
            continue
        tested, judged = [item for item in own if not item.judge], [item for item in own if item.judge]
        ceilings = [item.ceiling for item in tested]
        costs.append(
            ModelCost(
                model=model,
                benchmark_tokens=_tokens(tested),
                jury_tokens=_tokens(judged),
                benchmark_usd=sum_costs(item.bill_usd for item in tested).usd,
                jury_usd=sum_costs(item.bill_usd for item in judged).usd,
                ceiling_usd=None if None in ceilings else float(sum(one.total_usd for one in ceilings if one)),
            )
        )
    return costs


def _tokens(items: Sequence[UsageItem]) -> int | None:
    """Return the input and output tokens; None if a provider did not report them."""
    if any(item.usage.unmetered for item in items):
        return None
    return sum(item.usage.usage.input + item.usage.usage.output for item in items)


def _published_costs(board: Leaderboard) -> list[ModelCost]:
    """Return the published ceilings on the benchmarks of the leaderboard."""
    shown = {row.model.removesuffix(f" {MARK}"): row.model for row in board.rows if row.published}
    suite = Suite(name="", weights={column.benchmark: 1.0 for column in board.columns})
    return [replace(cost, model=shown[cost.model]) for cost in published_costs(suite) if cost.model in shown]


def published_costs(suite: str | Suite = "paper35") -> list[ModelCost]:
    """Return the published table of costs, which are ceilings; `paper35` gives table 3 of the paper.

    A cost is the sum of the published cells, each of which was rounded to cents.
    """
    results = load_results()
    wanted = published_names(suite)
    rows = []
    for key, model in results.models.items():
        parts = [ceiling_of(results.scores[key, name]) for name in results.benchmarks if name in wanted]
        tested = sum((part.input_usd + part.output_usd for part in parts), Decimal(0))
        judged = sum((part.judge_input_usd + part.judge_output_usd for part in parts), Decimal(0))
        rows.append(
            ModelCost(
                model=model.name,
                benchmark_tokens=sum(part.input_tokens + part.output_tokens for part in parts),
                jury_tokens=sum(part.judge_input_tokens + part.judge_output_tokens for part in parts),
                benchmark_usd=float(tested),
                jury_usd=float(judged),
                ceiling_usd=float(tested + judged),
                is_ceiling=True,
            )
        )
    return rows


def _run_dates(runs: Iterable[Run]) -> list[str]:
    """Return the first and last day of some runs in words; nothing without runs."""
    times = [run.started for run in runs]
    return [f"runs of {days_in_words(times)}"] if times else []


def _published_date() -> str:
    files = load_results().sources["files"]
    source = next(entry for entry in files if entry["file"] == "scores.csv")
    return f"published results of {source['date']} (revision {source['revision']})"


# --- folder of a report -----------------------------------------------------------------------------------------------
# Write a report as files.

FORMATS = (*TABLE_FORMATS, *PICTURES)
"""Formats of tables and figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportContents:
    """Requested contents of a report."""

    only: Collection[str] = ()
    """Tables and figures to make; empty: all that can be made."""
    formats: Collection[str] = FORMATS
    """Formats; empty: all."""
    command: str = ""
    """Command of the user, for the record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenReport:
    """A report that was written."""

    folder: Path
    """Folder of the report."""
    files: Sequence[str]
    """Paths of all files in it, relative to the folder."""
    not_made: Mapping[str, str]
    """Missing table or figure -> the reason."""
    findings: Sequence[str]
    """Sentences on significant differences."""
    remarks: Sequence[Remark]
    """Remarks on the leaderboard."""
    missing: MissingError | None
    """Names the package to install for PNG and PDF; None if it is installed, or not needed."""


def make_report(folder: Path, request: ReportRequest, contents: ReportContents = ReportContents()) -> WrittenReport:
    """Write a report to `folder`.

    Without the package for PNG and PDF, all else is written, and `WrittenReport.missing` names it.
    Raises, before anything is written: UserError for unknown names, or a requested table or figure that cannot be made;
    StoreError for a folder with other content.
    """
    only = [EARLIER_NAMES.get(name, name) for name in contents.only]
    wanted = known_names(only, (*TABLES, *FIGURES), "--only") or [*TABLES, *FIGURES]
    formats = known_names(contents.formats, FORMATS, "--formats") or list(FORMATS)
    check_report(folder)
    found = gather_inputs(request, with_costs=bool({"table3", "figure5"} & set(wanted)))
    missing = None
    drawn = [kind for kind in PICTURES if kind in formats]
    if set(drawn) - {"svg"} and set(FIGURES) & set(wanted):
        try:
            check_installed()
        except MissingError as error:
            missing, drawn = error, [kind for kind in drawn if kind == "svg"]
    tables, not_made = compose_tables(found, wanted)
    pictures, not_drawn = compose_figures(found, wanted if drawn else ())
    not_made |= not_drawn
    if contents.only and not_made:
        raise UserError("\n".join(f"--only {key}: {why}" for key, why in not_made.items()))
    if missing and not drawn:
        not_made |= {key: str(missing) for key in wanted if key in FIGURES}
    rendered = {figure.key: render_picture(figure.svg, drawn) for figure in pictures}
    page = ReportIndex(
        about=request.about,
        inputs=found,
        tables=tables,
        table_formats=[kind for kind in TABLE_FORMATS if kind in formats],
        figures=pictures,
        pictures=rendered,
        facts=_facts(request, contents, found),
        not_made=not_made,
    )
    files = {"README.md": to_markdown(page).encode(), "index.html": to_html(page).encode()}
    for table in tables:
        files |= {f"tables/{table.key}.{ENDINGS[kind]}": write(table, kind).encode() for kind in page.table_formats}
    for key, kinds in rendered.items():
        files |= {f"figures/{key}.{kind}": content for kind, content in kinds.items()}
    write_report(folder, files, _manifest(page))
    return WrittenReport(
        folder=folder,
        files=[*files, REPORT_MANIFEST],
        not_made=not_made,
        findings=findings(found.board),
        remarks=found.board.remarks,
        missing=missing,
    )


def known_names(given: Collection[str], known: Sequence[str], option: str) -> list[str]:
    """Return names in the known order and spelling; case is ignored.

    Raises: UserError with all unknown names.
    """
    spelling = {name.lower(): name for name in known}
    unknown = [name for name in given if name.strip().lower() not in spelling]
    if unknown:
        lines = [f"{option}: unknown name `{name}`. {suggestion(name, known)}".rstrip() for name in unknown]
        raise UserError("\n".join(lines))
    chosen = {spelling[name.strip().lower()] for name in given}
    return [name for name in known if name in chosen]


def _manifest(page: ReportIndex) -> dict[str, Any]:
    """Return the content of report.json."""
    return {
        "made": page.facts,
        "about": {**page.about.texts, "judges": list(page.inputs.judging), "data_use": list(page.inputs.data_use)},
        "leaderboard": as_json(page.board),
        "tables": {
            table.key: {
                "title": table.title,
                "columns": list(table.csv_headers),
                "rows": [list(row) for row in table.csv_rows],
                "notes": list(table.notes),
            }
            for table in page.tables
        },
        "figures": {figure.key: {"title": figure.title, "words": figure.words} for figure in page.figures},
        "not_made": dict(page.not_made),
        "findings": findings(page.board),
        **({"sections": plain_json(page.inputs.sections)} if page.inputs.sections else {}),
    }


def _facts(request: ReportRequest, contents: ReportContents, found: ReportInputs) -> dict[str, str]:
    """Return how the report was made."""
    board = found.board
    return {
        "command": contents.command,
        "medhelm": __version__,
        "made": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "suite": board.suite,
        "scoring": board.scoring,
        "tier": "real data" if board.tier == "real" else "sample rows, invented",
        "scores from": found.dates,
        "intervals": intervals_in_words(board).removeprefix("Intervals "),
        **({"ratings": Path(file).name} if is_ratings_file(file := request.about.ratings or "") else {}),
        **({"studies": study_line(board.studies)} if board.studies else {}),
        **({"release": found.release} if found.release else {}),
    }


# --- tables and figures -----------------------------------------------------------------------------------------------
# Make those that are wanted, with reasons for those that cannot be made.

T = TypeVar("T")

TABLES = ("table1", "table2", "criteria", "study", "table3", "tableC3", "subcategories", "tableE4", "head_to_head")
"""Tables of a report, in order."""

RATED_TABLES = ("criteria", "study")
"""Tables that only a report with ratings by clinicians has."""

FIGURES = ("figure3", "figure4", "figure4_subcategories", "figure5", "figureD1", "win_rates", "pairs")
"""Figures of a report, in order."""

EARLIER_NAMES = {"tableD1": "subcategories"}
"""Name of a table in earlier versions -> its name. The paper has a figure D1 and no such table."""

NO_MARKS = "needs marks of references: run `medhelm filter-references` on this store"

NO_CLINICIANS = "needs --ratings FILE"
NO_COSTS = "tokens and costs are unknown"
NO_PRICES = "no model has a known cost above 0"
TWO_MODELS = "needs two models that were run on the same benchmark"


def compose_tables(found: ReportInputs, wanted: Collection[str]) -> tuple[list[PaperTable], dict[str, str]]:
    """Return the wanted tables, and for each that cannot be made the reason."""
    board, titles = found.board, taxonomy_titles()
    makers: dict[str, Callable[[], PaperTable | str]] = {
        "table1": lambda: contents.table_1(board),
        "table2": lambda: contents.table_2(found.clinical, board, BASELINES) if found.clinical else NO_CLINICIANS,
        "criteria": lambda: contents.table_by_criterion(found.clinical, board) if found.clinical else NO_CLINICIANS,
        "study": lambda: (
            contents.table_of_studies(board.studies) if board.studies else "the ratings are those of a file"
        ),
        "table3": lambda: (
            contents.table_3(found.costs, board, [remark.text for remark in found.cost_remarks])
            if found.costs
            else NO_COSTS
        ),
        "tableC3": lambda: table_c3(board, found.suite or (), titles),
        "subcategories": lambda: table_subcategories(board, titles),
        "tableE4": lambda: _detectable_effects(board),
        "head_to_head": lambda: table_head_to_head(head_to_head(board), board) if len(board.rows) > 1 else TWO_MODELS,
    }
    left_out = () if found.clinical else RATED_TABLES
    return _make({key: makers[key] for key in TABLES if key in wanted and key not in left_out}, board)


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
    return table_e4(found, board) if found else "needs scores of instances for at least two models"


# --- first page -------------------------------------------------------------------------------------------------------
# The first page of a report, as Markdown and as one self-contained HTML file.
#
# All text, names of models above all, is untrusted: it is escaped, and pictures are embedded as images, in which no
# script can run.

SHOWN_PAIRS = 10
"""Most significant pairs that are listed one by one."""

MEDIA = {"svg": "image/svg+xml", "png": "image/png"}
"""Picture formats that a page can show, best first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportIndex:
    """Content of the first page of a report."""

    about: DocumentOptions
    """Title, author and date."""
    inputs: ReportInputs
    """Leaderboard, judges, release and dates."""
    tables: Sequence[PaperTable]
    """In order of appearance."""
    table_formats: Sequence[str]
    """Formats of the tables' files."""
    figures: Sequence[PaperFigure]
    """In order of appearance."""
    pictures: Mapping[str, Mapping[str, bytes]]
    """Key of a figure -> format -> content."""
    facts: Mapping[str, str]
    """Fact about the making of the report -> its value."""
    not_made: Mapping[str, str]
    """Missing table or figure -> the reason."""

    @property
    def board(self) -> Leaderboard:
        """Return the leaderboard of the report."""
        return self.inputs.board

    @property
    def title(self) -> str:
        """Return the title."""
        return self.about.title or "MedHELM report"

    @property
    def byline(self) -> list[str]:
        """Return the lines below the title: for whom and by whom, when, on what, and the release."""
        people = " · ".join(filter(None, (self.about.institution, self.about.author)))
        made = f"Report of {self.about.date or self.facts.get('made', '')[:10]}; {self.inputs.dates}."
        return [*filter(None, (people, f"{caption(self.board)}.", made, self.inputs.release))]


def findings(board: Leaderboard) -> list[str]:
    """Return the verdict, then the significant differences."""
    return [*board.verdict, *differences(board)]


def differences(board: Leaderboard) -> list[str]:
    """Return sentences on pairs that differ, and on the unit of the tests."""
    if len(board.rows) < 2:
        return ["A comparison needs at least two models."]
    if board.pairs is None:
        return ["Nothing was tested, so significance is unknown."]
    found = []
    if board.n_tested > 1:
        found.append(pairs_sentence(len(board.separated), board.n_tested))
    if len(board.separated) <= SHOWN_PAIRS:
        apart = [pair for pair, is_apart in zip(board.pairs.pairs, board.pairs.is_separated, strict=True) if is_apart]
        found += [_difference_sentence(pair) for pair in apart]
    return [*found, intervals_in_words(board)]


def _difference_sentence(pair: ModelPair) -> str:
    """Return a significant difference as a sentence."""
    assert pair.macro_average is not None, "only tested pairs are significant"
    found, p = pair.macro_average.difference, p_text(pair.macro_average.p_holm)
    first, second = (pair.first, pair.second) if found.value > 0 else (pair.second, pair.first)
    return f"{first} is better than {second}: macro averages differ by {estimate_text(found)}, adjusted p {p}."


# --- Markdown and HTML ------------------------------------------------------------------------------------------------

Lists = list[tuple[str, Sequence[str]]]
"""Headings and sentences."""


def _lists(page: ReportIndex) -> tuple[Lists, Lists]:
    """Return the lists above and below the tables and figures, without empty ones."""
    board, remarks = page.board, remark_groups(page.board)
    above: Lists = [
        ("Verdict", board.verdict),
        ("What changes the reading", remarks.first),
        ("Significant differences", differences(board)),
        ("Judges", page.inputs.judging),
        ("Where the data went", page.inputs.data_use),
    ]
    below: Lists = [
        ("Further remarks on the reading", remarks.further),
        ("About single models", [f"{name}: {' '.join(texts)}" for name, texts in remarks.models.items()]),
        ("About the method", remarks.method),
        ("Not made", [f"{key}: {why}" for key, why in page.not_made.items()]),
        ("Methods", [f"{name}: {text}" for name, text in page.facts.items()]),
    ]
    return [one for one in above if one[1]], [one for one in below if one[1]]


def to_markdown(page: ReportIndex) -> str:
    """Return the page as README.md."""
    parts = [f"# {escape_markdown(page.title)}\n", *(f"{markdown_sentence(line)}\n" for line in page.byline)]
    if page.board.tier == "sample":
        parts.append(f"**{escape_markdown(SAMPLE_WARNING)}**\n")
    above, below = ([f"## {heading}\n\n{_bullets(texts)}" for heading, texts in part] for part in _lists(page))
    parts += above
    parts += [f"{markdown(table, level=2)}\n{_links_of_table(table, page.table_formats)}" for table in page.tables]
    parts += [_figure_in_markdown(figure, page.pictures.get(figure.key, {})) for figure in page.figures]
    parts += [section_in_markdown(one) for one in page.inputs.sections]
    return "\n".join([*parts, *below])


def _bullets(texts: Sequence[str]) -> str:
    return "".join(f"- {markdown_sentence(text)}\n" for text in texts)


def _links_of_table(table: PaperTable, formats: Sequence[str]) -> str:
    links = [f"[{name}](tables/{table.key}.{ENDINGS[name]})" for name in formats]
    return f"As {', '.join(links)}.\n" if links else ""


def _figure_in_markdown(figure: PaperFigure, pictures: Mapping[str, bytes]) -> str:
    lines = [f"## {escape_markdown(figure.title)}\n"]
    shown = next((kind for kind in MEDIA if kind in pictures), None)
    if shown:
        lines.append(f"![{escape_markdown(figure.words)}](figures/{figure.key}.{shown})\n")
    links = [f"[{kind}](figures/{figure.key}.{kind})" for kind in pictures]
    return "\n".join([*lines, f"As {', '.join(links)}.\n" if links else ""])


def to_html(page: ReportIndex) -> str:
    """Return the page as index.html: no script, no external address, pictures embedded."""
    above, below = _lists(page)
    return render_html(
        "report.html",
        page=page,
        warning=SAMPLE_WARNING if page.board.tier == "sample" else "",
        above=above,
        below=below,
        tables=[(one, _table_in_html(one), _layout(one)) for one in page.tables],
        figures=[(figure, _address(page.pictures.get(figure.key, {}))) for figure in page.figures],
        sections=[(one, tables_in_html(one)) for one in page.inputs.sections],
    )


def _table_in_html(table: PaperTable) -> str:
    """Return a table as HTML; the first cell of a grouped row is empty where it repeats the one above."""
    rows = [list(row) for row in table.rows]
    if table.grouped:
        firsts = ["", *(row[0] for row in rows)]
        for row, before in zip(rows, firsts, strict=False):
            row[0] = "" if row[0] == before else row[0]
    return render(rows, table.headers, format="html", caption=table.caption)


SHEET = 112
"""Characters beside each other on an upright sheet."""

LONG_WORD = 24
"""Characters of a word that is not broken."""


def _layout(table: PaperTable) -> str:
    """Return the classes of a table on paper: `turned` if it needs a turned sheet, `long` if words must be broken."""
    texts, heads, _ = as_texts(table.rows, table.headers)
    longest = [
        [max(map(len, text.split()), default=0) for text in column] for column in zip(heads, *texts, strict=True)
    ]
    width = sum(min(max(words), LONG_WORD) + 2 for words in longest)
    is_long = any(max(words) > LONG_WORD for words in longest)
    return " ".join([*(["turned"] if width > SHEET else []), *(["long"] if is_long else [])])


def _address(pictures: Mapping[str, bytes]) -> str:
    """Return a picture as an address that holds it; empty without one that a page can show."""
    shown = next((kind for kind in MEDIA if kind in pictures), None)
    return f"data:{MEDIA[shown]};base64,{base64.b64encode(pictures[shown]).decode()}" if shown else ""
