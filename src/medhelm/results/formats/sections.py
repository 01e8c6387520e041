"""Sections: findings that extensions add to reports, cards and the site, as sentences and tables of numbers.

A section holds no text of instances, completions or judges, so that it can be published with the results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from medhelm.io.plugins import SECTIONS, all_from_extensions
from medhelm.results.formats.tables import Value, escape_markdown, markdown_sentence, render
from medhelm.results.options import BoardOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionTable:
    """A table of a section."""

    caption: str
    """Content of the table, in a few words."""
    headers: Sequence[str]
    """Headings of the columns."""
    rows: Sequence[Sequence[Value]]
    """Cells, each row as long as the headings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultSection:
    """Findings about the models of some stores."""

    key: str
    """Name in addresses and JSON."""
    title: str
    """Heading."""
    sentences: Sequence[str]
    """The findings."""
    tables: Sequence[SectionTable] = ()
    """Their numbers."""
    notes: Sequence[str] = ()
    """Questions that the runs leave open, and the commands that would answer them; after the tables."""


SectionMaker = Callable[[Sequence[Path], BoardOptions], ResultSection | None]
"""Returns the section about the runs of some stores that the options select; None if there is nothing to show."""


def read_sections(stores: Sequence[Path], options: BoardOptions) -> list[ResultSection]:
    """Return the sections of all extensions that have something to show."""
    makers: list[SectionMaker] = all_from_extensions(SECTIONS)
    return [section for make in makers if (section := make(stores, options))]


def section_in_markdown(section: ResultSection, *, level: int = 2) -> str:
    """Return a section as Markdown, under a heading of this level."""
    parts = [f"{'#' * level} {escape_markdown(section.title)}\n"]
    tables = [render(one.rows, one.headers, format="md", caption=one.caption) for one in section.tables]
    return "\n".join([*parts, *_bullets(section.sentences), *tables, *_bullets(section.notes)])


def _bullets(texts: Sequence[str]) -> list[str]:
    """Return a list in Markdown; nothing without texts."""
    return ["".join(f"- {markdown_sentence(text)}\n" for text in texts)] if texts else []


def tables_in_html(section: ResultSection) -> list[str]:
    """Return the tables of a section as HTML, escaped."""
    return [render(one.rows, one.headers, format="html", caption=one.caption) for one in section.tables]
