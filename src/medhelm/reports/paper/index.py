"""First page of a report, as Markdown and as one self-contained HTML file.

All text, names of models above all, is untrusted: it is escaped, and pictures are embedded as images, in which no
script can run.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from medhelm.analysis.leaderboard.findings import pairs_sentence
from medhelm.reports.formats.numbers import p_text
from medhelm.reports.formats.tables import SAMPLE_WARNING, escape_markdown, estimate_text, render
from medhelm.reports.leaderboard import caption
from medhelm.reports.paper.contents import intervals_in_words
from medhelm.reports.paper.figures import PaperFigure
from medhelm.reports.paper.tables import ENDINGS, PaperTable, markdown

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

STYLE = """
body { font: 16px/1.5 system-ui, "Liberation Sans", Arial, sans-serif; color: #1a1a1a; background: #fff;
       max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.5rem; }
.stamp { color: #b3401f; font-weight: bold; border: 2px solid #b3401f; padding: .5rem 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .875rem; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid #d9d9d9; vertical-align: top; }
th { border-bottom: 2px solid #595959; } td { font-variant-numeric: tabular-nums; }
caption { text-align: left; color: #595959; padding-bottom: .5rem; }
img { max-width: 100%; height: auto; } figure { margin: 0; }
"""


def to_html(page: ReportIndex) -> str:
    """Return the page as index.html: no script, no external address, pictures embedded."""
    body = ["<h1>MedHELM report</h1>", f"<p>{_text(caption(page.board))}.</p>"]
    if page.board.tier == "sample":
        body.append(f'<p class="stamp">{_text(SAMPLE_WARNING)}</p>')
    above, below = ([f"<h2>{heading}</h2>\n{_list(texts)}" for heading, texts in part] for part in _lists(page))
    body += above
    body += [_table_in_html(table) for table in page.tables]
    body += [_figure_in_html(figure, page.pictures.get(figure.key, {})) for figure in page.figures]
    body += below
    head = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; style-src '
        "'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>MedHELM report</title>\n<style>{STYLE}</style>\n</head>\n"
    )
    return head + "<body>\n" + "\n".join(body) + "\n</body>\n</html>\n"


def _text(text: str) -> str:
    """Escape a text for HTML; control and direction characters become spaces."""
    return html.escape("".join(c if c.isprintable() or c == "\n" else " " for c in text))


def _list(texts: Sequence[str]) -> str:
    return "<ul>\n" + "".join(f"<li>{_text(text)}</li>\n" for text in texts) + "</ul>"


def _table_in_html(table: PaperTable) -> str:
    body = render(table.rows, table.headers, format="html", caption=table.caption)
    notes = _list(table.notes) if table.notes else ""
    return f'<h2>{_text(table.title)}</h2>\n<div class="wide">{body}</div>\n{notes}'


def _figure_in_html(figure: PaperFigure, pictures: Mapping[str, bytes]) -> str:
    shown = next((kind for kind in MEDIA if kind in pictures), None)
    if shown is None:
        return f"<h2>{_text(figure.title)}</h2>\n<p>{_text(figure.words)}</p>"
    address = f"data:{MEDIA[shown]};base64,{base64.b64encode(pictures[shown]).decode()}"
    return f'<h2>{_text(figure.title)}</h2>\n<figure><img alt="{_text(figure.words)}" src="{address}"></figure>'
