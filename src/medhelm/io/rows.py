"""Rows of data in any format: column names, and values as plain Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from uuid import UUID

from medhelm.errors import DataError

Row = dict[str, object]
"""One row: column -> value as the format gives it."""


class RowError(DataError):
    """One row cannot be used. Other rows may have problems of their own."""


_EXACT = 2**53
"""Up to here, every whole number is a float of its own."""


def header(names: Sequence[str], path: Path) -> list[str]:
    """The names of columns, each once. Raises: DataError if a name comes twice."""
    twice = sorted({name for name in names if name and names.count(name) > 1})
    if twice:
        raise DataError(f"{path}: the header has {', '.join(f'`{name}`' for name in twice)} more than once.")
    return list(names)


def plain(value: object) -> object:
    """A value of a workbook or data frame as plain Python, as in JSON.

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
    """Hours, minutes and seconds, hours going on beyond 24."""
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
    """The columns of rows that need not have all of them, in the order they first appear.

    >>> columns([{"a": 1}, {"b": 2, "a": 3}])
    ['a', 'b']
    """
    return list(dict.fromkeys(name for row in rows for name in row))
