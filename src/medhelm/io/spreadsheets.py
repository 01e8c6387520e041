"""Reads tables saved by spreadsheet programs: any common kind of CSV, or a workbook.

Supported are commas, semicolons and tabs between cells; UTF-8 and UTF-16 with or without a byte order mark, and
Windows-1252; a first line `sep=;`; rows padded with empty cells; decimal points and commas. Blank rows are skipped.
"""

from __future__ import annotations

import codecs
import csv
import io
import math
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from unicodedata import category

from medhelm.domain import Source
from medhelm.errors import ConfigError, DataError, Problem
from medhelm.io.files import check_file

DELIMITERS = ",;\t"
"""Supported delimiters, the most likely first."""

WORKBOOKS = (".xlsx", ".xlsm", ".xls", ".ods")
"""Suffixes of files whose first sheet is read."""

MAX_BYTES = 256 * 2**20
"""Maximum size of a CSV file in bytes; it is held in memory."""

MAX_CELL = 2**31 - 1
"""Maximum number of characters in a cell."""

MISSING = frozenset({"", "-", "–", "—", "nan", "na", "n/a", "#n/a", "null", "none"})
"""Cells that count as missing values, in lower case."""

QUOTING_RULE = 'Put a cell that contains a double quote in double quotes, and double the quote inside it ("").'
"""Advice for a record that is not well-formed CSV."""

_BYTE_ORDER_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_WORKBOOK_SIGNATURES = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")
_NUMBER = re.compile(r"[+-]?(?:\d+[.,]?\d*|[.,]\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_GROUPED = re.compile(r"[+-]?\d{1,3}(?:(,)\d{3}(?:,\d{3})*(?:\.\d+)?|(\.)\d{3}(?:\.\d{3})*(?:,\d+)?)", re.ASCII)
"""A number with thousands separators, English or German."""
_SPACES = re.compile(r"[\s\u00a0\u2007\u2009\u202f]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spreadsheet:
    """A table as text: a header and rows of cells."""

    names: list[str]
    """Names of the columns, as written."""
    rows: list[tuple[int, list[str]]]
    """Line number of each row, from 1, and its cells; in a workbook, the number counts rows with content."""
    line: int
    """Line of the header."""
    decimal_comma: bool
    """True if cells are not separated by commas, so that a comma in a number is a decimal comma."""
    encoding: str
    """Encoding of the text: `utf-8`, `utf-16` or `cp1252`; empty for a workbook."""


def read_spreadsheet(path: Path, expected: Collection[str] = ()) -> Spreadsheet:
    """Read a table from a CSV file or a workbook.

    Parameters: expected, column names in lower case, used to detect the delimiter; in case of doubt, the delimiter
    that gives the most columns is used.
    Raises: ConfigError if the file is missing, empty, too large, or not a table.
    """
    if path.suffix.lower() in WORKBOOKS:
        return _read_workbook(path)
    text, encoding = _read_text(path)
    first, _, rest = text.partition("\n")
    announced = _announced_delimiter(first)
    if announced:
        text = rest
    delimiter = announced or find_delimiter(text, expected)
    csv.field_size_limit(MAX_CELL)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    skipped = 1 if announced else 0
    records: list[tuple[int, list[str]]] = []
    start = 1 + skipped
    try:
        for record in reader:
            if any(cell.strip() for cell in record):
                records.append((start, record))
            start = reader.line_num + 1 + skipped
    except csv.Error as error:
        raise ConfigError(
            str(path), [Problem(f"not a well-formed CSV record ({error}). {QUOTING_RULE}", start)]
        ) from None
    if not records:
        raise _refusal(path, "the file is empty.")
    line, names = records[0]
    return Spreadsheet(names=names, rows=records[1:], line=line, decimal_comma=delimiter != ",", encoding=encoding)


def find_delimiter(text: str, expected: Collection[str] = ()) -> str:
    """Return the delimiter that gives the most expected columns in the first line, or else the most columns."""

    def columns(delimiter: str) -> tuple[int, int]:
        names = next(csv.reader(io.StringIO(text.lstrip(), newline=""), delimiter=delimiter), [])
        return sum(name.strip().lower() in expected for name in names), len(names)

    return max(DELIMITERS, key=columns)


def marked_encoding(content: bytes) -> str | None:
    """Return the encoding that a byte order mark at the beginning of `content` announces; None without a mark."""
    return next((name for mark, name in _BYTE_ORDER_MARKS if content.startswith(mark)), None)


def clean_cell(cell: str) -> str:
    """Collapse spaces, non-breaking ones included, and remove invisible characters."""
    if cell.isascii() and cell.isprintable():
        return " ".join(cell.split())
    seen = "".join(c if (kind := category(c)) not in ("Cc", "Cf", "Cs") else " " * (kind == "Cc") for c in cell)
    return _SPACES.sub(" ", seen).strip()


def parse_number(cell: str) -> float | None:
    """Parse a number with a decimal point or comma, thousands separators or a percent sign; None for a missing value.

    `74,3%` is 0.743. A single comma or point is decimal: `4,533` is 4.533.
    Raises: ValueError for anything else, infinity included.

    >>> [parse_number(cell) for cell in ("0.743", "0,743", "74.3%", "1,234.5", "n/a")]
    [0.743, 0.743, 0.743, 1234.5, None]
    """
    text = _SPACES.sub("", cell).replace("\u2212", "-")
    if text.lower() in MISSING:
        return None
    percent = text.endswith("%")
    text = text.removesuffix("%")
    if _NUMBER.fullmatch(text):
        text = text.replace(",", ".")
    elif grouped := _GROUPED.fullmatch(text):
        text = text.replace(",", "") if grouped[1] else text.replace(".", "").replace(",", ".")
    else:
        raise ValueError(cell)
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(cell)
    # Shift the decimal point in the text, because 74.3 / 100 is not exactly 0.743.
    return float(f"{value / 100:.15g}") if percent else value


def is_percentage(cell: str) -> bool:
    """Return True if a cell ends in a percent sign."""
    return cell.rstrip().endswith("%")


def _read_workbook(path: Path) -> Spreadsheet:
    """Read the first sheet of a workbook."""
    try:
        check_file(path)
        from medhelm.io.office import read_xlsx  # lazy: most tables are text

        found = list(read_xlsx(path, Source(kind="xlsx")))
    except FileNotFoundError:
        raise _refusal(path, "the file does not exist.") from None
    except DataError as error:
        raise _refusal(path, str(error).removeprefix(f"{path}: ")) from None
    if not found:
        raise _refusal(path, "the first sheet has no rows below a header.")
    names = list(found[0])
    rows = [
        (number, ["" if row.get(name) is None else str(row[name]) for name in names])
        for number, row in enumerate(found, 2)
    ]
    return Spreadsheet(names=names, rows=rows, line=1, decimal_comma=True, encoding="")


def _read_text(path: Path) -> tuple[str, str]:
    """Return the text of a file, and its encoding."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        words = "the file does not exist" if missing else f"cannot be read: {error.strerror or error}"
        raise _refusal(path, f"{words}.") from None
    if len(content) > MAX_BYTES:
        raise _refusal(path, f"is larger than {MAX_BYTES // 2**20} MiB, the maximum. Split it.")
    if content.startswith(_WORKBOOK_SIGNATURES):
        raise _refusal(path, "is a workbook. Rename it to end in .xlsx, or save the sheet as `CSV UTF-8`.")
    marked = marked_encoding(content) or _unmarked_utf16(content)
    for encoding in (marked,) if marked else ("utf-8", "cp1252"):
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError:
            continue
        if "\0" not in text:
            return text, encoding.removesuffix("-sig").removesuffix("-le").removesuffix("-be")
    raise _refusal(path, "is neither UTF-8, UTF-16 nor Windows-1252 text. Save it as `CSV UTF-8`, or as .xlsx.")


def _unmarked_utf16(content: bytes) -> str | None:
    """Detect UTF-16 without a byte order mark by the zero bytes of ASCII characters."""
    head = content[:200]
    if len(head) <= 3:
        return None
    if head[1::2].count(0) > len(head) // 4:
        return "utf-16-le"
    return "utf-16-be" if head[::2].count(0) > len(head) // 4 else None


def _announced_delimiter(line: str) -> str:
    """Return the delimiter of a line such as `sep=;`, which Excel writes first; empty for any other line."""
    line = line.rstrip("\r\n")
    if not line.lower().startswith("sep=") or len(line) > 5:
        return ""
    return line[4:] or "\t"


def _refusal(path: Path, words: str) -> ConfigError:
    return ConfigError(str(path), [Problem(words)])
