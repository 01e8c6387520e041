"""Write a report as a folder of files."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from medhelm import __version__
from medhelm.domain.remark import Remark
from medhelm.errors import MissingError, UserError, suggestion
from medhelm.extensions.paper.compose import EARLIER_NAMES, FIGURES, TABLES, compose_figures, compose_tables
from medhelm.extensions.paper.contents import intervals_in_words
from medhelm.extensions.paper.gather import ReportInputs, ReportRequest, gather_inputs
from medhelm.extensions.paper.index import ReportIndex, findings, to_html, to_markdown
from medhelm.extensions.paper.tables import ENDINGS, TABLE_FORMATS, write
from medhelm.io.export_folder import REPORT_MANIFEST, check_report, write_report
from medhelm.reports import leaderboard as leaderboard_report
from medhelm.reports.charts import rendering

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
