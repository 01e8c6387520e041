"""Write a report as a folder of files."""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from medhelm import __version__
from medhelm.analysis.comparison.power import detectable_effects
from medhelm.analysis.leaderboard.findings import pairs_sentence
from medhelm.analysis.leaderboard.head_to_head import head_to_head
from medhelm.benchmarks.suites import load_suite
from medhelm.benchmarks.taxonomy import load_taxonomy
from medhelm.domain.benchmark import SuiteEntry
from medhelm.domain.result import Remark
from medhelm.errors import MissingError, UserError, suggestion
from medhelm.extensions.paper import appendix, contents, figures
from medhelm.extensions.paper.appendix import SuiteListing
from medhelm.extensions.paper.contents import ENDINGS, TABLE_FORMATS, PaperTable, intervals_in_words, markdown, write
from medhelm.extensions.paper.figures import PaperFigure
from medhelm.extensions.paper.gather import ReportInputs, ReportRequest, gather_inputs
from medhelm.io.output_folder import REPORT_MANIFEST, check_report, write_report
from medhelm.reports import leaderboard as leaderboard_report
from medhelm.reports.charts import rendering
from medhelm.reports.formats.html import render_html
from medhelm.reports.formats.tables import SAMPLE_WARNING, escape_markdown, estimate_text, p_text, render
from medhelm.reports.leaderboard import caption
from medhelm.results.agreement import BASELINES
from medhelm.results.published.cells import published_cells

if TYPE_CHECKING:
    from medhelm.analysis.comparison.pairs import ModelPair
    from medhelm.analysis.leaderboard.cells import Column
    from medhelm.analysis.leaderboard.types import Leaderboard


# --- write ------------------------------------------------------------------------------------------------------------

FORMATS = (*TABLE_FORMATS, *rendering.PICTURES)
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
    drawn = [kind for kind in rendering.PICTURES if kind in formats]
    if set(drawn) - {"svg"} and set(FIGURES) & set(wanted):
        try:
            rendering.check_installed()
        except MissingError as error:
            missing, drawn = error, [kind for kind in drawn if kind == "svg"]
    tables, not_made = compose_tables(found, wanted)
    pictures, not_drawn = compose_figures(found, wanted if drawn else ())
    not_made |= not_drawn
    if contents.only and not_made:
        raise UserError("\n".join(f"--only {key}: {why}" for key, why in not_made.items()))
    if missing and not drawn:
        not_made |= {key: str(missing) for key in wanted if key in FIGURES}
    rendered = {figure.key: rendering.render(figure.svg, drawn) for figure in pictures}
    page = ReportIndex(
        board=found.board,
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
        "leaderboard": leaderboard_report.as_json(page.board),
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
        **({"ratings": str(request.ratings)} if request.ratings else {}),
    }


# --- compose ----------------------------------------------------------------------------------------------------------
# Make the tables and figures of a report, with reasons for those that cannot be made.

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


# --- index ------------------------------------------------------------------------------------------------------------
# First page of a report, as Markdown and as one self-contained HTML file.
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

    board: Leaderboard
    """Leaderboard of the report."""
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


# --- findings ---------------------------------------------------------------------------------------------------------


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


# --- the lists that both formats show ---------------------------------------------------------------------------------

Lists = list[tuple[str, Sequence[str]]]
"""Headings and sentences."""


def _lists(page: ReportIndex) -> tuple[Lists, Lists]:
    """Return the lists above and below the tables and figures, without empty ones."""
    board = page.board
    above: Lists = [("Verdict", board.verdict), ("Significant differences", differences(board))]
    below: Lists = [
        ("Warnings", list(map(str, board.remarks))),
        ("Not made", [f"{key}: {why}" for key, why in page.not_made.items()]),
        ("Methods", [f"{name}: {text}" for name, text in page.facts.items()]),
    ]
    return [one for one in above if one[1]], [one for one in below if one[1]]


# --- Markdown ---------------------------------------------------------------------------------------------------------


def to_markdown(page: ReportIndex) -> str:
    """Return the page as README.md."""
    parts = ["# MedHELM report\n", f"{escape_markdown(caption(page.board))}.\n"]
    if page.board.tier == "sample":
        parts.append(f"**{escape_markdown(SAMPLE_WARNING)}**\n")
    above, below = ([f"## {heading}\n\n{_bullets(texts)}" for heading, texts in part] for part in _lists(page))
    parts += above
    parts += [f"{markdown(table, level=2)}\n{_links_of_table(table, page.table_formats)}" for table in page.tables]
    parts += [_figure_in_markdown(figure, page.pictures.get(figure.key, {})) for figure in page.figures]
    return "\n".join([*parts, *below])


def _bullets(texts: Sequence[str]) -> str:
    return "".join(f"- {escape_markdown(' '.join(text.split()))}\n" for text in texts)


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


# --- HTML -------------------------------------------------------------------------------------------------------------


def to_html(page: ReportIndex) -> str:
    """Return the page as index.html: no script, no external address, pictures embedded."""
    above, below = _lists(page)
    return render_html(
        "report.html",
        caption=caption(page.board),
        warning=SAMPLE_WARNING if page.board.tier == "sample" else "",
        above=above,
        below=below,
        tables=[(one, render(one.rows, one.headers, format="html", caption=one.caption)) for one in page.tables],
        figures=[(figure, _address(page.pictures.get(figure.key, {}))) for figure in page.figures],
    )


def _address(pictures: Mapping[str, bytes]) -> str:
    """Return a picture as an address that holds it; empty without one that a page can show."""
    shown = next((kind for kind in MEDIA if kind in pictures), None)
    return f"data:{MEDIA[shown]};base64,{base64.b64encode(pictures[shown]).decode()}" if shown else ""
