"""Read a date, or weeks and days, from a completion.

If a completion has several different ones, the answer is the one after the last "answer", "final", "due date",
"conception", "gestational age" or "delivery" with "is", ":" or "=". Otherwise no answer is found.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from typing import TypeVar

from medhelm.io.lazy_regex import lazy_regex
from medhelm.scoring.answers.plain_text import strip_reasoning

_T = TypeVar("_T")

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)"
)
_DATE = lazy_regex(
    r"(?<![\d/.-])(?:(?P<iso_year>\d{4})[-/.](?P<iso_month>\d{1,2})[-/.](?P<iso_day>\d{1,2})(?!\d)"
    r"|(?P<first>\d{1,2})[-/.](?P<second>\d{1,2})[-/.](?P<year>\d{4})(?![\d/-])"
    rf"|(?P<day>\d{{1,2}})(?:st|nd|rd|th)?[ -](?:of )?(?P<month>{_MONTH})\.?,?[ -](?P<month_year>\d{{4}})(?!\d))"
    rf"|\b(?P<name>{_MONTH})\.? (?P<name_day>\d{{1,2}})(?:st|nd|rd|th)?,? (?P<name_year>\d{{4}})(?!\d)",
    re.IGNORECASE | re.ASCII,
)
_AGE = lazy_regex(
    r"(?<![\d.,/+-])(?:(?P<weeks>\d{1,3})[\s-]?(?:weeks?|wks?|w)[^\w.;]{0,6}(?:and[^\w.;]{1,3})?"
    r"(?P<days>\d{1,2})[\s-]?(?:days?|d)\b"
    r"|(?P<weeks_plus>\d{1,2})\s?(?:w\s?)?\+\s?(?P<days_plus>[0-6])(?![\d.])"
    r"|(?P<weeks_of_7>\d{1,2})[ -](?P<days_of_7>[0-6])/7(?!\d)"
    r"|\(\s?[\"']?(?P<pair_weeks>\d{1,3})[\"']?\s?,\s?[\"']?(?P<pair_days>\d{1,2})[\"']?\s?\))",
    re.IGNORECASE | re.ASCII,
)
_ANNOUNCED = lazy_regex(
    r"\b(?:answer|final|due date|conception|gestational age|delivery|EDD|EGA)\b"
    r"[^\d.;!?=:]{0,80}?(?:\bis\b|\bwas\b|[:=])",
    re.IGNORECASE,
)
_PLAIN_CHARACTERS = str.maketrans({"*": "", "`": "", "_": " ", "\u00a0": " ", "‐": "-", "‑": "-", "–": "-", "’": "'"})


def read_date(completion: str) -> date | None:
    """Read the date in a completion; None if there is none, or several without a stated answer.

    Numbers are month, day, year as in the United States, or day first if the first number cannot be a month. ISO dates
    and names of months are read too. A year has four digits.

    >>> read_date("The due date is September 23, 2014."), read_date("9/23/2014") == read_date("2014-09-23")
    (datetime.date(2014, 9, 23), True)
    """
    text = strip_reasoning(completion).translate(_PLAIN_CHARACTERS)
    found = [(match.start(), day) for match in _DATE.finditer(text) if (day := _as_date(match)) is not None]
    return _choose(text, found)


def read_weeks_and_days(completion: str) -> tuple[int, int] | None:
    """Read weeks and days in a completion; None if there are none, or several without a stated answer.

    >>> read_weeks_and_days("('14 weeks', '2 days')"), read_weeks_and_days("14w2d"), read_weeks_and_days("14 2/7 weeks")
    ((14, 2), (14, 2), (14, 2))
    """
    text = strip_reasoning(completion).translate(_PLAIN_CHARACTERS)
    found = []
    for match in _AGE.finditer(text):
        weeks, days = (int(group) for group in match.groups() if group is not None)
        found.append((match.start(), (weeks, days)))
    return _choose(text, found)


def _choose(text: str, found: Sequence[tuple[int, _T]]) -> _T | None:
    """Return the only value, or the first one after the last announcement of an answer."""
    if not found:
        return None
    if all(value == found[0][1] for _, value in found):
        return found[0][1]
    announced = [match.end() for match in _ANNOUNCED.finditer(text) if match.end() <= found[-1][0]]
    return next(value for start, value in found if start >= announced[-1]) if announced else None


def _as_date(match: re.Match[str]) -> date | None:
    """Convert a match of `_DATE` to a date; None if the day does not exist."""
    parts = match.groupdict()
    if parts["iso_year"]:
        year, month, day = parts["iso_year"], parts["iso_month"], parts["iso_day"]
    elif parts["year"]:
        year, month, day = parts["year"], parts["first"], parts["second"]
        if int(month) > 12:
            month, day = day, month
    else:
        name = parts["month"] or parts["name"]
        month = str(_MONTHS.index(name[:3].lower()) + 1)
        year, day = parts["month_year"] or parts["name_year"], parts["day"] or parts["name_day"]
    try:
        return date(int(year), int(month), int(day))
    except ValueError:
        return None
