"""Tables of numbers as people save them: UTF-8 or UTF-16, commas, semicolons or tabs, decimal points or commas."""

from __future__ import annotations

import codecs
import csv
import io
import math
import re
from collections.abc import Iterator
from pathlib import Path
from unicodedata import category

from medhelm.errors import UserError

LARGEST = 16 * 1024 * 1024
"""Bytes of the largest file that is read: a table of a thousand models on a thousand benchmarks has less."""

DELIMITERS = (",", ";", "\t")
"""What may stand between two fields, the usual one first."""

MISSING = frozenset({"", "-", "–", "—", "nan", "na", "n/a", "#n/a", "null", "none"})
"""What stands for a value that is not there, in lower case."""

NUMBER = re.compile(r"[+-]?(?:\d+[.,]?\d*|[.,]\d+)(?:[eE][+-]?\d+)?", re.ASCII)
"""A number with a decimal point or a decimal comma."""

GROUPED = re.compile(r"[+-]?\d{1,3}(?:(,)\d{3}(?:,\d{3})*(?:\.\d+)?|(\.)\d{3}(?:\.\d{3})*(?:,\d+)?)", re.ASCII)
"""A number with separators between thousands, English or German."""

_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_WORKBOOKS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")
_SPACES = re.compile(r"[\s\u00a0\u2007\u2009\u202f]+")


def read_rows(path: Path) -> list[tuple[int, list[str]]]:
    """Rows that are not blank, each with the number of its last line. Fields hold no control characters.

    Raises: UserError for a file that is missing, no text, no CSV, or larger than `LARGEST`.
    """
    text = _decode(path, _read(path))
    first, _, rest = text.partition("\n")
    told = first.strip().lower()
    skipped = 0
    if told.startswith("sep=") and len(told) <= 5:  # Excel's own way of naming the delimiter
        text, skipped = rest, 1
    delimiter = told[4:] or "\t" if skipped else _delimiter(text)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        return [
            (reader.line_num + skipped, [_stripped(field) for field in row])
            for row in reader
            if any(_stripped(field) for field in row)
        ]
    except csv.Error as error:
        raise UserError(f"{path}: is not CSV: {error}, in line {reader.line_num + skipped}.") from None


def number_in(field: str) -> float | None:
    """The number that a field holds, None for what stands for no value.

    Decimal points and commas, separators between thousands and a percent sign are read: `74,3 %` is 0.743. Where both
    readings are possible, a comma or point counts as decimal: `4,533` is 4.533.
    Raises: ValueError for anything else, infinity included.

    >>> [number_in(field) for field in ("0.743", "0,743", "74.3%", "1,234.5", "n/a")]
    [0.743, 0.743, 0.743, 1234.5, None]
    """
    text = _SPACES.sub("", field).replace("\u2212", "-")
    if text.lower() in MISSING:
        return None
    percent = text.endswith("%")
    text = text.removesuffix("%")
    if NUMBER.fullmatch(text):
        text = text.replace(",", ".")
    elif grouped := GROUPED.fullmatch(text):
        comma = grouped[1] is not None
        text = text.replace(",", "") if comma else text.replace(".", "").replace(",", ".")
    else:
        raise ValueError(field)
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(field)
    # Through the decimal text: 74.3 / 100 is not the same number as 0.743.
    return float(f"{value / 100:.15g}") if percent else value


def has_percent(field: str) -> bool:
    """Whether a field is a percentage."""
    return field.rstrip().endswith("%")


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such file.") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}.") from None
    if len(content) > LARGEST:
        raise UserError(f"{path}: is larger than {LARGEST // 2**20} MiB; a table of scores is not.")
    return content


def _decode(path: Path, content: bytes) -> str:
    if content.startswith(_WORKBOOKS):
        raise UserError(f"{path}: is a workbook. Save the sheet as `CSV UTF-8`.")
    encoding = next((name for bom, name in _BOMS if content.startswith(bom)), _without_bom(content))
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        wrong = content[error.start]
        raise UserError(
            f"{path}: is not text in {'UTF-16' if '16' in encoding else 'UTF-8'}: byte 0x{wrong:02x} in line {line}. "
            "Save it as `CSV UTF-8`."
        ) from None


def _without_bom(content: bytes) -> str:
    """UTF-16 without a mark shows in the zero bytes of its plain letters."""
    head = content[:200]
    if len(head) > 3 and head[1::2].count(0) > len(head) // 4:
        return "utf-16-le"
    if len(head) > 3 and head[::2].count(0) > len(head) // 4:
        return "utf-16-be"
    return "utf-8"


def _delimiter(text: str) -> str:
    """What stands between the fields of the first row that is not blank: what parts it into most."""
    head = text.lstrip()

    def fields(delimiter: str) -> int:
        try:
            return len(next(csv.reader(_lines(head), delimiter=delimiter), []))
        except csv.Error:
            return 0

    return max(DELIMITERS, key=fields)


def _lines(text: str) -> Iterator[str]:
    yield from io.StringIO(text, newline="")


def _stripped(field: str) -> str:
    """Without the spaces around it, non-breaking ones among them, and without characters that nobody sees."""
    if field.isascii() and field.isprintable():
        return " ".join(field.split())
    seen = "".join(c if (kind := category(c)) not in ("Cc", "Cf", "Cs") else " " * (kind == "Cc") for c in field)
    return _SPACES.sub(" ", seen).strip()
