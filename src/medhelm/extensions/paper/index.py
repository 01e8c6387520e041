"""First page of a report, as Markdown and as one self-contained HTML file.

All text, names of models above all, is untrusted: it is escaped, and pictures are embedded as images, in which no
script can run.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from medhelm.analysis.leaderboard.findings import pairs_sentence
from medhelm.extensions.paper.contents import intervals_in_words
from medhelm.extensions.paper.figures import PaperFigure
from medhelm.extensions.paper.tables import ENDINGS, PaperTable, markdown
from medhelm.reports.formats.html import render_html
from medhelm.reports.formats.numbers import p_text
from medhelm.reports.formats.tables import SAMPLE_WARNING, escape_markdown, estimate_text, render
from medhelm.reports.leaderboard import caption

if TYPE_CHECKING:
    from medhelm.analysis.comparison.pairs import ModelPair
    from medhelm.analysis.leaderboard.types import Leaderboard

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
