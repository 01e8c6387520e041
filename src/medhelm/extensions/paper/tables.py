"""Tables of a report as Markdown, CSV and LaTeX.

Markdown and LaTeX hold rounded numbers with intervals, and notes. CSV holds the same numbers with six decimals in
separate columns, and the suite, rule and tier in every row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from medhelm.reports.formats.latex import longtable
from medhelm.reports.formats.tables import Value, as_texts, escape_markdown, render

TableFormat = Literal["md", "csv", "latex"]
"""Format of a table."""

TABLE_FORMATS: tuple[TableFormat, ...] = get_args(TableFormat)
"""All formats."""

ENDINGS = {"md": "md", "csv": "csv", "latex": "tex"}
"""Format -> file extension."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperTable:
    """One table of a report."""

    key: str
    """Name for `--only` and of its files, such as `table1`."""
    title: str
    """Title, such as `Table 1. Win rates and averages`."""
    caption: str
    """Models, suite and scoring rule, with a warning about invented rows."""
    headers: Sequence[str]
    """Headings for people."""
    rows: Sequence[Sequence[Value]]
    """Cells for people, each row as long as `headers`."""
    csv_headers: Sequence[str]
    """Names of the columns of the CSV file."""
    csv_rows: Sequence[Sequence[Value]]
    """Its cells."""
    notes: Sequence[str] = ()
    """Notes below the table, in sentences."""
    grouped: bool = False
    """True if the first column names groups of rows, which LaTeX shows as subheadings."""


def write(table: PaperTable, format: str) -> str:
    """Return the content of a table's file.

    Raises: ValueError for a row of another length than the headings, or another format.
    """
    if format == "csv":
        return render(table.csv_rows, table.csv_headers, format="csv")
    if format == "md":
        return markdown(table, level=1)
    if format == "latex":
        # LaTeX numbers tables itself.
        caption = f"{table.title.partition('. ')[2] or table.title}. {table.caption}."
        texts, heads, numeric = as_texts(table.rows, table.headers)
        return longtable(
            texts, heads, numeric, label=table.key, caption=caption, notes=table.notes, grouped=table.grouped
        )
    raise ValueError(f"unknown format of a table: {format}")


def markdown(table: PaperTable, level: int) -> str:
    """Return a table as a section of a Markdown text, under a heading of that level."""
    body = render(table.rows, table.headers, format="md", caption=table.caption)
    notes = "".join(f"- {escape_markdown(note)}\n" for note in table.notes)
    return f"{'#' * level} {escape_markdown(table.title)}\n\n{body}" + (f"\n{notes}" if notes else "")
