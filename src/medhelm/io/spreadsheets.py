"""Reads tables saved by spreadsheet programs, for benchmarks and for ratings: any common kind of CSV, or a workbook.

Supported are commas, semicolons, tabs and bars between cells; UTF-8 and UTF-16 with or without a byte order mark, and
Windows-1252; a first line `sep=;`; a title above the header; rows padded with empty cells; decimal points and commas.
Rows without any content are skipped. An apostrophe that our own CSV files put before a formula is removed: the last
part makes texts safe in files that people open in a spreadsheet.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TextIO
from unicodedata import category

from medhelm.domain import Source
from medhelm.errors import ConfigError, DataError, Problem
from medhelm.io.files import (
    check_file,
    decoded,
    encodings_by_line,
    find_encoding,
    has_one_byte_characters,
    open_bytes,
    open_text,
)
from medhelm.io.rows import HEAD_ROWS, header_position

DELIMITERS = ",;\t|"
"""Supported delimiters, the most likely first."""

WORKBOOKS = (".xlsx", ".xlsm", ".xls", ".ods")
"""Suffixes of files whose first sheet is read."""

MAX_BYTES = 256 * 2**20
"""Maximum size of a file of ratings or scores in bytes; it is held in memory."""

MAX_CELL = 2**31 - 1
"""Maximum number of characters in a cell."""

MISSING = frozenset({"", "-", "–", "—", "nan", "na", "n/a", "#n/a", "null", "none"})
"""Cells that count as missing values, in lower case."""

QUOTING_RULE = 'Put a cell that contains a double quote in double quotes, and double the quote inside it ("").'
"""Advice for a record that is not well-formed CSV."""

_HEAD_CHARACTERS = 1 << 16
"""Characters at the beginning by which delimiter and header are found."""

_WORKBOOK_SIGNATURES = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")
_DECIMAL_NUMBER = re.compile(r"[+-]?(?:\d+[.,]?\d*|[.,]\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_GROUPED = re.compile(r"[+-]?\d{1,3}(?:(,)\d{3}(?:,\d{3})*(?:\.\d+)?|(\.)\d{3}(?:\.\d{3})*(?:,\d+)?)", re.ASCII)
"""A number with thousands separators, English or German."""
_SPACES = re.compile(r"[\s\u00a0\u2007\u2009\u202f]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTableFormat:
    """Encoding, delimiter and header of a table in a text file."""

    encoding: str
    """Name of Python's codec."""
    delimiter: str
    """Character between cells."""
    header_line: int
    """Line of the header, from 1."""

    def in_words(self) -> str:
        """Describe what differs from UTF-8 with commas and a header on line 1; empty if nothing does."""
        names = {"cp1252": "Windows-1252", "utf-16": "UTF-16", "utf-16-le": "UTF-16", "utf-16-be": "UTF-16"}
        delimiters = {";": "semicolons", "\t": "tabs", "|": "bars"}
        parts = [names[self.encoding]] if self.encoding in names else []
        parts += [f"{delimiters[self.delimiter]} between cells"] if self.delimiter in delimiters else []
        parts += [f"the header on line {self.header_line}"] if self.header_line > 1 else []
        return ", ".join(parts)


class RecordError(DataError):
    """A record is not well-formed CSV."""

    def __init__(self, path: Path, line: int, words: str) -> None:
        """`line`: line on which the record begins."""
        super().__init__(f"{path}, line {line}: {words}")
        self.line = line
        """Line on which the record begins."""
        self.words = words
        """Description of the error, and the fix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spreadsheet:
    """A table as text: a header and rows of cells."""

    names: list[str]
    """Names of the columns, as written."""
    rows: list[tuple[int, list[str]]]
    """Line number of each row, from 1, and its cells; in a workbook, the number of the row."""
    line: int
    """Line of the header."""
    decimal_comma: bool
    """True if cells are not separated by commas, so that a comma in a number is a decimal comma."""
    encoding: str
    """Encoding of the text: `utf-8`, `utf-16` or `cp1252`; empty for a workbook."""


def find_format(
    path: Path,
    *,
    encoding: str = "",
    delimiter: str = "",
    header_row: int | None = None,
    expected: Collection[str] = (),
) -> TextTableFormat:
    """Find encoding, delimiter and header of a table in a text file.

    Parameters
    ----------
    encoding, delimiter, header_row
        Known properties, which are not searched: the line of the header counts from 1.
    expected
        Column names in lower case; the delimiter that gives most of them is used.

    Raises
    ------
    FileNotFoundError
        If the file does not exist.
    DataError
        If the file mixes encodings.
    """
    if encoding:
        _refuse_other_lines(path, encoding)
    else:
        encoding = find_encoding(lambda: open_bytes(path))
    with decoded(path, encoding), open_text(path, encoding) as text:
        first = sum(1 for _ in islice(text, (header_row or 1) - 1)) + 1
        head, is_whole = _read_head(text)
    announced = _announced_delimiter(head.partition("\n")[0])
    if announced:
        head, first = head.partition("\n")[2], first + 1
    csv.field_size_limit(MAX_CELL)
    delimiter = delimiter or announced or find_delimiter(head, expected, is_whole=is_whole)
    records = _head_records(head, delimiter, is_whole=is_whole)
    place = 0 if header_row else header_position([cells for _, cells in records])
    line = first - 1 + records[place][0] if records else first
    return TextTableFormat(encoding=encoding, delimiter=delimiter, header_line=line)


def read_records(path: Path, found: TextTableFormat) -> Iterator[tuple[int, list[str]]]:
    """Yield the header and all records below it, each with the line on which it begins. Empty lines are skipped.

    Raises: DataError for bytes not in the encoding, RecordError for a record that is not well-formed.
    """
    csv.field_size_limit(MAX_CELL)
    above = found.header_line - 1
    with decoded(path, found.encoding), open_text(path, found.encoding) as file:
        for _ in islice(file, above):
            pass
        reader = csv.reader(file, delimiter=found.delimiter, strict=True)
        start = found.header_line
        try:
            for record in reader:
                if record:
                    yield start, record
                start = above + reader.line_num + 1
        except csv.Error as error:
            raise RecordError(path, start, f"not a well-formed CSV record ({error}). {QUOTING_RULE}") from None


def is_workbook(path: Path) -> bool:
    """Return True if the first bytes of a file are those of a workbook, whatever its name."""
    with open_bytes(path) as file:
        return file.read(4).startswith(_WORKBOOK_SIGNATURES)


def read_spreadsheet(path: Path, expected: Collection[str] = ()) -> Spreadsheet:
    """Read a table from a CSV file or a workbook.

    Parameters: expected, column names in lower case, used to detect the delimiter; in case of doubt, the delimiter
    that gives the most regular table is used.
    Raises: ConfigError if the file is missing, empty, too large, or not a table.
    """
    if path.suffix.lower() in WORKBOOKS:
        return _read_workbook(path)
    with _config_errors(path):
        check_file(path)
        if path.stat().st_size > MAX_BYTES:
            raise _refusal(path, f"is larger than {MAX_BYTES // 2**20} MiB, the maximum. Split it.")
        if is_workbook(path):
            raise _refusal(path, "is a workbook. Rename it to end in .xlsx, or save the sheet as `CSV UTF-8`.")
        found = find_format(path, expected=expected)
        records = [(line, cells) for line, cells in read_records(path, found) if not _is_blank(cells)]
    if not records:
        raise _refusal(path, "the file is empty.")
    if any("\0" in cell for _, cells in records for cell in cells):
        raise _refusal(path, _NO_TEXT)
    records = [(line, list(map(unguarded, cells))) for line, cells in records]
    line, names = records[0]
    encoding = found.encoding.removesuffix("-sig").removesuffix("-le").removesuffix("-be")
    return Spreadsheet(
        names=names, rows=records[1:], line=line, decimal_comma=found.delimiter != ",", encoding=encoding
    )


def find_delimiter(text: str, expected: Collection[str] = (), *, is_whole: bool = True) -> str:
    """Return the delimiter of a table by its first rows; a comma if all are equally good.

    The best delimiter gives the most expected columns in a row, and then the most rows with the same number of cells.
    """

    def quality(delimiter: str) -> tuple[int, float]:
        records = [cells for _, cells in _head_records(text, delimiter, is_whole=is_whole)]
        hits = (sum(name.strip().lower() in expected for name in cells) for cells in records)
        widths = Counter(len(cells) for cells in records if len(cells) > 1)
        return max(hits, default=0), max(widths.values(), default=0) / max(len(records), 1)

    return max(DELIMITERS, key=quality)


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
    if _DECIMAL_NUMBER.fullmatch(text):
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
    with _config_errors(path):
        check_file(path)
        from medhelm.io.office import read_sheet  # lazy: most tables are text

        found = list(read_sheet(path, Source(kind="xlsx")))
    if len(found) < 2:
        raise _refusal(path, "the first sheet has no rows below a header.")
    (line, names), *rows = found
    return Spreadsheet(
        names=[str(name) for name in names],
        rows=[(number, [unguarded(str(cell)) for cell in cells]) for number, cells in rows],
        line=line,
        decimal_comma=True,
        encoding="",
    )


_NO_TEXT = "is neither UTF-8, UTF-16 nor Windows-1252 text. Save it as `CSV UTF-8`, or as .xlsx."


@contextmanager
def _config_errors(path: Path) -> Iterator[None]:
    """Convert errors in this block to a ConfigError about the file."""
    try:
        yield
    except FileNotFoundError:
        raise _refusal(path, "the file does not exist.") from None
    except RecordError as error:
        raise ConfigError(str(path), [Problem(error.words, error.line)]) from None
    except DataError as error:
        raise _refusal(path, _without_place(error, path)) from None


def _without_place(error: DataError, path: Path) -> str:
    """Return the message of an error without the path, which the caller names."""
    words = str(error).removeprefix(f"{path}: ").removeprefix(f"{path}, ")
    return words if "encodings" in words or " text." not in words else _NO_TEXT


def _refuse_other_lines(path: Path, encoding: str) -> None:
    """Raise DataError for a file that is, or has lines, in UTF-8, where another encoding was named."""
    if not has_one_byte_characters(encoding):
        return
    with open_bytes(path) as file:
        found = encodings_by_line(file)
    if found.is_mixed:
        raise DataError(f"{path}: {found.in_words()} Save all of it as UTF-8; as {encoding}, its UTF-8 is garbled.")
    if found.utf8:
        raise DataError(f"{path}: is UTF-8, not {encoding}. Remove `encoding` from benchmark.yaml.")


def _is_blank(cells: Iterable[str]) -> bool:
    """Return True if a row holds only spaces and delimiters."""
    return not any(cell.strip().strip(DELIMITERS) for cell in cells)


def _read_head(file: TextIO) -> tuple[str, bool]:
    """Return the first lines, and True if they are the whole file. Later damage is reported when rows are read."""
    lines: list[str] = []
    n_characters = 0
    try:
        for line in file:
            lines.append(line)
            n_characters += len(line)
            if n_characters > _HEAD_CHARACTERS:
                return "".join(lines), False
    except DataError:
        return "".join(lines), False
    return "".join(lines), True


def _head_records(text: str, delimiter: str, *, is_whole: bool) -> list[tuple[int, list[str]]]:
    """Return the first records with content, each with its line; the last one is dropped if it may be incomplete."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    found: list[tuple[int, list[str]]] = []
    start = 1
    for record in islice(reader, 2 * HEAD_ROWS):
        if any(cell.strip() for cell in record):
            found.append((start, record))
        start = reader.line_num + 1
    is_cut = not is_whole and next(reader, None) is None
    return found[: HEAD_ROWS if not is_cut else max(len(found) - 1, 1)]


def _announced_delimiter(line: str) -> str:
    """Return the delimiter of a line such as `sep=;`, which Excel writes first; empty for any other line."""
    line = line.rstrip("\r\n")
    if not line.lower().startswith("sep=") or len(line) > 5:
        return ""
    return line[4:] or "\t"


def _refusal(path: Path, words: str) -> ConfigError:
    return ConfigError(str(path), [Problem(words)])


# --- safe cells -------------------------------------------------------------------------------------------------------
# Makes texts safe in files that people open in a spreadsheet: no text is run as a formula, no cell is too long.
#
# Every writer of CSV files and workbooks for people uses these functions.

LONGEST_CELL = 32_767
"""Maximum length of a cell in Excel, in UTF-16 code units; it cuts or refuses more."""

_INVISIBLE = (
    r"\x00-\x20\x7f" + "\x80-\xa0\xad\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u2064\u2066-\u206f\u3000\ufeff"
)
"""Characters that a spreadsheet may remove before it reads a cell, as ranges of a regular expression."""
_SIGNS = r"=+\-@" + "\u2212\ufe62\ufe63\ufe66\ufe6b＝＋－＠"
"""Signs that begin a formula, with their full-width and small forms."""

FORMULA = rf"^'*(?:[\t\r]|[{_INVISIBLE}]*[{_SIGNS}])"
"""Start of a text that a spreadsheet may run as a formula, after any apostrophes; for `re` and for DuckDB."""

NUMBER = r"^[-+]?(?:[0-9]+(?:[.,][0-9]+)*|[.,][0-9]+)%?(?:[eE][-+]?[0-9]+)?(?: \[[-+0-9.,% ]+\])?$"
"""A whole cell that is a number, alone or with its interval; it is no formula, whatever its sign."""

_FORMULA, _NUMBER = re.compile(FORMULA), re.compile(NUMBER)


def is_formula(text: str) -> bool:
    """Return True if a spreadsheet may run a text as a formula.

    >>> is_formula("-2 +HYPERLINK(A2)"), is_formula("-2.5"), is_formula("-0.1 [-0.2, 0.1]"), is_formula("a = b")
    (True, False, False, False)
    """
    return bool(_FORMULA.match(text)) and not (text[-1:] != "\n" and _NUMBER.match(text))


def guarded(text: str) -> str:
    """Return a text for a CSV file, with an apostrophe in front if a spreadsheet may run it as a formula.

    >>> guarded("=1+1"), guarded("1+1")
    ("'=1+1", '1+1')
    """
    return f"'{text}" if is_formula(text) else text


def unguarded(text: str) -> str:
    """Return the text that `guarded` was given.

    >>> unguarded("'=1+1"), unguarded("'tis")
    ('=1+1', "'tis")
    """
    return text[1:] if text.startswith("'") and is_formula(text[1:]) else text


def is_too_long(text: str) -> bool:
    """Return True if a text does not fit into one cell of Excel."""
    return len(text) > LONGEST_CELL // 2 and _length(text) > LONGEST_CELL


def cell_parts(text: str) -> list[str]:
    """Return a text in parts that fit into a cell; at least one. Characters that a workbook cannot hold become `�`."""
    text = _not_in_xml().sub("\ufffd", text)
    if not is_too_long(text):
        return [text]
    step = LONGEST_CELL // 2  # characters of two code units each
    return [text[start : start + step] for start in range(0, len(text), step)]


def csv_file(text: str) -> bytes:
    """Return the content of a CSV file for people: Excel needs a byte order mark for all but ASCII."""
    return text.encode("utf-8" if text.isascii() else "utf-8-sig", "replace")


def _length(text: str) -> int:
    """Return the length of a text in UTF-16 code units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


@lru_cache(maxsize=1)
def _not_in_xml() -> re.Pattern[str]:
    """Return the pattern of characters that XML forbids and no escape of a workbook can hold."""
    return re.compile("[\ud800-\udfff\ufffe\uffff]")
