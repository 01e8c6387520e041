"""The tables of a report: what one holds, and how it is written as Markdown, CSV and LaTeX.

People get rounded numbers with their intervals, and sentences on what to make of them; CSV holds the same numbers in
columns of their own, with six decimals, and says in every row which data they are from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from medhelm.reports.paper.latex import latex
from medhelm.reports.tables import Value, escape_markdown, render

TableFormat = Literal["md", "csv", "latex"]
"""How a table is written."""

TABLE_FORMATS: tuple[TableFormat, ...] = get_args(TableFormat)
"""All of them."""

ENDINGS = {"md": "md", "csv": "csv", "latex": "tex"}
"""Format -> ending of the file's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperTable:
    """One table of a report."""

    key: str
    """What it is asked for by, such as `table1`; also the name of its files."""
    title: str
    """Name for people, such as `Table 1. Win rates and averages`."""
    caption: str
    """What it was made from: models, suite, scoring, and a warning where rows are invented."""
    headers: Sequence[str]
    """Headings for people."""
    rows: Sequence[Sequence[Value]]
    """Cells for people, each row as long as `headers`."""
    csv_headers: Sequence[str]
    """Names of the columns of the CSV file."""
    csv_rows: Sequence[Sequence[Value]]
    """Its cells."""
    notes: Sequence[str] = ()
    """What a reader has to know, in sentences."""
    grouped: bool = False
    """Whether the first column names groups of rows: in LaTeX it stands above them."""


def write(table: PaperTable, format: str) -> str:
    """A table as the content of a file.

    Raises: ValueError for a row of another length than the headings, or another format.
    """
    if format == "csv":
        return render(table.csv_rows, table.csv_headers, format="csv")
    if format == "md":
        return markdown(table, level=1)
    if format == "latex":
        # LaTeX gives numbers of its own.
        caption = f"{table.title.partition('. ')[2] or table.title}. {table.caption}."
        return latex(
            table.rows, table.headers, name=table.key, caption=caption, notes=table.notes, grouped=table.grouped
        )
    raise ValueError(f"a table is not written as {format}")


def markdown(table: PaperTable, level: int) -> str:
    """A table as a chapter of a Markdown text, under a heading of that level."""
    body = render(table.rows, table.headers, format="md", caption=table.caption)
    notes = "".join(f"- {escape_markdown(note)}\n" for note in table.notes)
    return f"{'#' * level} {escape_markdown(table.title)}\n\n{body}" + (f"\n{notes}" if notes else "")
