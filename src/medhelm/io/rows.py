"""Rows of data from files of any format, with values converted to plain Python, and values of untrusted JSON."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

from medhelm.errors import DataError

Row = dict[str, object]
"""One row: column -> value as read from the file."""


class PlacedRow(Row):
    """A row that knows its place in its file, which counts titles, the header and empty rows."""

    __slots__ = ("place",)

    def __init__(self, cells: Iterable[tuple[str, object]], place: str) -> None:
        """`cells`: columns with their values; place, such as `line 7`."""
        super().__init__(cells)
        self.place = place
        """Place in the file, such as `line 7` or `row 7`."""


@dataclass(frozen=True, slots=True)
class BrokenCell:
    """A cell of a spreadsheet without a usable value."""

    place: str
    """Place in the file, such as ``cell B7 of the sheet `Data` ``; empty in a text file, whose rows have a line."""
    problem: str
    """Content in place of a value, such as `the error #REF!`."""

    def __str__(self) -> str:
        """Return the text that a spreadsheet shows."""
        return self.problem.removeprefix("the error ")


_ERROR = re.compile(r"#[A-ZÀ-Þ][A-ZÀ-Þ0-9/_ ]*[!?]|#N/[AD]|#NV|#GETTING_DATA|#{3,}|Err:\d{3}")


def is_error(cell: str) -> bool:
    """Return True for a text that a spreadsheet shows or exports in place of a value, in any language.

    >>> is_error("#REF!"), is_error("#BEZUG!"), is_error("####"), is_error("#1 of 3")
    (True, True, True, False)
    """
    return cell[:1] in ("#", "E") and _ERROR.fullmatch(cell.strip()) is not None


class RowError(DataError):
    """Error in one row. Other rows may have other errors."""


HEAD_ROWS = 20
"""Rows at the beginning among which the header is searched."""

_EXACT = 2**53
"""Largest number up to which floats represent every whole number exactly."""


def header(names: Sequence[str], path: Path) -> list[str]:
    """Return the column names as a list. Raises: DataError if a name occurs twice."""
    twice = sorted({name for name in names if name and names.count(name) > 1})
    if twice:
        raise DataError(f"{path}: the header has {', '.join(f'`{name}`' for name in twice)} more than once.")
    return list(names)


def header_position(rows: Sequence[Sequence[object]]) -> int:
    """Return the position of the header: the first row with more than half as many cells as the fullest row.

    Rows above it are a title, or the merged headings of groups of columns. Cells that are empty texts do not count.

    >>> header_position([["Export of 3 May", "", ""], ["id", "note", "answer"], [1, "...", "yes"]])
    1
    """
    filled = [sum(cell != "" for cell in row) for row in rows[:HEAD_ROWS]]
    most = max(filled, default=0)
    for place, n in enumerate(filled):
        has_index = most == 2 and n == 1 and rows[place][0] == ""  # a column of row numbers often has no name
        if 2 * n > most or has_index:
            return place
    return 0


def plain(value: object) -> object:
    """Convert a value of a workbook or data frame to plain Python, as in JSON.

    Whole numbers, which such files store as 5.0, become integers up to where floats are exact; dates and times become
    ISO text, durations hours, minutes and seconds; decimals become numbers, or text where no float is exactly so.

    >>> plain(5.0), plain(2.5), plain(datetime(2150, 1, 2, 3, 4)), plain(timedelta(hours=30)), plain([Decimal("0.10")])
    (5, 2.5, '2150-01-02T03:04:00', '30:00:00', [0.1])
    """
    match value:
        case str() | bool() | int() | None:
            return value
        case float():
            return int(value) if value.is_integer() and abs(value) < _EXACT else value
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return _clock(value)
        case Decimal():
            return _number(value)
        case Mapping():
            return {str(plain(key)): plain(entry) for key, entry in value.items()}
        case list() | tuple():
            return [plain(entry) for entry in value]
        case UUID():
            return str(value)
        case _:
            return value


def _clock(duration: timedelta) -> str:
    """Format a duration as hours, minutes and seconds; hours can exceed 24."""
    seconds = abs(duration) // timedelta(seconds=1)
    sign = "-" if duration < timedelta(0) else ""
    text = f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{abs(duration).microseconds:06}" if duration.microseconds else text


def _number(value: Decimal) -> object:
    if value.is_finite() and value == value.to_integral_value():
        return int(value)
    number = float(value)
    return number if Decimal(repr(number)) == value else str(value)


def columns(rows: Sequence[Mapping[str, object]]) -> list[str]:
    """Return the columns that occur in any of the rows, in order of first appearance.

    >>> columns([{"a": 1}, {"b": 2, "a": 3}])
    ['a', 'b']
    """
    return list(dict.fromkeys(name for row in rows for name in row))


# --- untrusted JSON ---------------------------------------------------------------------------------------------------
# Reads values of untrusted JSON. A value of the wrong type counts as missing; nothing raises.


def mapping(value: object) -> Mapping[str, Any]:
    """Return a JSON object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def sequence(value: object) -> Sequence[Any]:
    """Return a list; an empty one for anything else."""
    return value if isinstance(value, list) else ()


def text(value: object) -> str:
    """Return a text in valid Unicode; "" for anything else."""
    return well_formed(value) if isinstance(value, str) else ""


def number(value: object) -> float | None:
    """Return a finite number; None for anything else, including true and false."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def count(value: object) -> int:
    """Return a whole number of at least 0; 0 for anything else."""
    found = number(value)
    return int(found) if found is not None and 0 <= found < 2**53 else 0


def well_formed(value: str) -> str:
    """Replace lone surrogates, which cannot be written as UTF-8."""
    return value.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
