"""Tables that people keep in spreadsheets: as CSV of whatever kind their program writes, or as a workbook.

Understood are commas, semicolons and tabs between cells; UTF-8 with or without a byte order mark, UTF-16 with one, and
Windows-1252 where the bytes are no UTF-8; a first line `sep=;`; and rows padded with empty cells. Rows without any text
are passed over.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from medhelm.domain import Source
from medhelm.errors import ConfigError, DataError, Problem
from medhelm.io.office import read_xlsx

SEPARATORS = ",;\t"
"""What may stand between cells, the likeliest first."""

WORKBOOKS = (".xlsx", ".xlsm", ".xls", ".ods")
"""How the names of files end whose first sheet is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spreadsheet:
    """The cells of a table, as text."""

    names: list[str]
    """Names of the columns, as they stand there."""
    rows: list[tuple[int, list[str]]]
    """Line of each row, from 1, and its cells; in a workbook its number among the rows that hold something."""
    line: int
    """Line of the header."""
    decimal_comma: bool
    """Whether a comma within a number cannot be a separator and so is a decimal comma."""
    encoding: str
    """How the text was read: `utf-8`, `utf-16` or `cp1252`; empty for a workbook."""


def read_spreadsheet(path: Path, expected: Collection[str] = ()) -> Spreadsheet:
    """Read a table.

    Parameters: expected, names of columns in lower case, by which the separator is recognised; where they do not
    decide, the separator that makes most columns is taken.
    Raises: ConfigError if the file is not there, is empty or is no table.
    """
    if path.suffix.lower() in WORKBOOKS:
        return _workbook(path)
    text, encoding = _decoded(path)
    announced = text.startswith("sep=") and text[4:5] in SEPARATORS
    separator = text[4:5] if announced else max(SEPARATORS, key=lambda s: _columns_found(text, s, expected))
    csv.field_size_limit(2**31 - 1)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    records: list[tuple[int, list[str]]] = []
    start = 1
    try:
        for record in reader:
            if any(cell.strip() for cell in record) and not (announced and start == 1):
                records.append((start, record))
            start = reader.line_num + 1
    except csv.Error as error:
        fix = 'A cell that holds a quote stands in double quotes, and the quote in it is doubled ("").'
        raise ConfigError(str(path), [Problem(f"not a well-formed record ({error}). {fix}", start)]) from None
    if not records:
        raise _unreadable(path, "the file is empty.")
    line, names = records[0]
    return Spreadsheet(names=names, rows=records[1:], line=line, decimal_comma=separator != ",", encoding=encoding)


def _workbook(path: Path) -> Spreadsheet:
    """The first sheet of a workbook."""
    try:
        found = list(read_xlsx(path, Source(kind="xlsx")))
    except FileNotFoundError:
        raise _unreadable(path, "there is no such file.") from None
    except DataError as error:
        raise _unreadable(path, str(error).removeprefix(f"{path}: ")) from None
    if not found:
        raise _unreadable(path, "the first sheet has no rows below a header.")
    names = list(found[0])
    rows = [
        (number, ["" if row.get(name) is None else str(row[name]) for name in names])
        for number, row in enumerate(found, 2)
    ]
    return Spreadsheet(names=names, rows=rows, line=1, decimal_comma=True, encoding="")


def _decoded(path: Path) -> tuple[str, str]:
    """The text of a file, and its encoding."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        words = "there is no such file" if isinstance(error, FileNotFoundError) else error.strerror or str(error)
        raise _unreadable(path, f"{words}.") from None
    for encoding in ("utf-16",) if raw.startswith((b"\xff\xfe", b"\xfe\xff")) else ("utf-8-sig", "cp1252"):
        try:
            text = raw.decode(encoding)
        except UnicodeDecodeError:
            continue
        if "\0" not in text:
            return text, encoding.removesuffix("-sig")
    raise _unreadable(path, "is neither UTF-8, UTF-16 nor Windows-1252 text. Save it as CSV with UTF-8, or as .xlsx.")


def _columns_found(text: str, separator: str, expected: Collection[str]) -> tuple[int, int]:
    """How many expected columns the first line has with this separator, and how many at all."""
    names = next(csv.reader(io.StringIO(text.lstrip()), delimiter=separator), [])
    return sum(name.strip().lower() in expected for name in names), len(names)


def _unreadable(path: Path, words: str) -> ConfigError:
    return ConfigError(str(path), [Problem(words)])
