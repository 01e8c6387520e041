"""Read a date, or weeks and days, from a completion.

A completion may hold several, such as the last menstrual period and the due date. `stated` chooses the one that the
completion gives as its answer. The last menstrual period is never an answer, since it is an input.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date

from medhelm.io.plugins import lazy_regex
from medhelm.scoring.answers.number import ascii_digits, in_figures
from medhelm.scoring.answers.stated_value import Value, middle_removed, stated
from medhelm.scoring.answers.text import answer_text, before_next_task, unwrapped

_MONTHS = (  # in English, French, German, Italian, Portuguese and Spanish
    r"jan(?:uary|uar|vier|v|eiro)?|j[äÄ]nner|ene(?:ro)?|gen(?:naio)?",
    r"feb(?:ruary|ruar|rero|braio|er)?|f[eéÉ]v(?:rier|r|ereiro)?",
    r"mar(?:ch|[sz]|[zcçÇ]o)?|m[äÄ]rz?|maerz|mrz",
    r"apr(?:ile?)?|abr(?:il)?|avr(?:il)?",
    r"mayo?|maio?|mag(?:gio)?",
    r"june?|jun(?:[ih]o|i)|juin|giu(?:gno)?",
    r"july?|jul(?:[ih]o|i)|juil(?:let)?|lug(?:lio)?",
    r"aug(?:ust)?|ago(?:sto)?|ao[uûÛ]t",
    r"sept?(?:ember|iembre|embre)?|setiembre|set(?:embro|tembre|t)?",
    r"oct(?:ober|ubre|obre)?|okt(?:ober)?|out(?:ubro)?|ott(?:obre)?",
    r"nov(?:ember|iembre|embre|embro)?",
    r"dec(?:ember)?|d[eéÉ]c(?:embre)?|dic(?:iembre|embre)?|dez(?:ember|embro)?",
)
_MONTH = f"(?:{'|'.join(_MONTHS)})"
_DAY = r"(?:st|nd|rd|th|er|[.º°])?"
_OF = r"(?:of |de |del |d')?"
_YEAR = r"(?:\d{4}|'\d\d)(?![\d/])"
_DATE = lazy_regex(
    r"(?<![\d/.-])(?:(?P<iso_year>\d{4})(?P<mark>[-/.])(?P<iso_month>\d{1,2})(?P=mark)(?P<iso_day>\d{1,2})(?!\d)"
    r"|(?<![A-Za-z] )(?P<basic>(?:19|20)\d{6})(?!\d)"
    r"|(?P<first>\d{1,2})(?P<sign> ?[-/.] ?)(?P<second>\d{1,2})(?P=sign)(?P<year>\d{4}|'?\d\d)(?![\d/-]|\.\d)"
    r"|(?P<kanji>\d{4})年(?P<kanji_month>\d{1,2})月(?P<kanji_day>\d{1,2})日"
    rf"|(?P<day>\d{{1,2}}){_DAY}[ /-]{_OF}(?P<month>{_MONTH})\.?,?[ /-]{_OF}(?P<month_year>{_YEAR})"
    rf"|(?P<year_first>\d{{4}}),?[ -](?P<year_month>{_MONTH})\.?[ -](?P<year_day>\d{{1,2}}){_DAY}(?!\d))"
    rf"|\b(?P<name>{_MONTH})\.?[ -](?P<name_day>\d{{1,2}}){_DAY}(?:, ?| of | del? | |-)(?P<name_year>{_YEAR})",
    re.IGNORECASE | re.ASCII,
)
_LABEL = 120  # characters before a value that may hold its label
_CENTURY = 50
"""Two-digit years below it are in this century, and from it on in the last."""

_INPUTS = (
    r"LMP|LNMP|last menstrual period|last period|menses|period|start(?:ing)?(?: date)?|from|after"
    r"|FU[MR]|DUM|DDR"
    r"|(?:[úu]ltim[ao]s?|letzten?|derni[èe]res?) (?:regla|menstrua\w+|per[ií]odo|Periode|Regel\w*|r[èe]gles)"
    r"|desde|depuis|seit|dopo|après|nach|después de|hoy|heute|aujourd'hui|hoje|to|days to|today|visit|seen"
    r"|ultrasound|admitted"
)
_INPUT_DATE = lazy_regex(
    rf"(?<!by )\b(?:{_INPUTS})\b(?:\s?\([^()\d]{{0,20}}\))?[^\d\n.;:=,→]{{0,24}}(?:[:=]|->)?[\s\"']*"
    r"(?:(?:is|was)\s)?(?:the |on )*\Z",
    re.IGNORECASE,
)
_OUTPUT_DATE = lazy_regex(
    r"\b(?:due date|conception|delivery|EDD|EDC|ovulation|FPP|DPP|parto|terme|\w*termin)\b[^.;]*"
    r"\b(?:is|was|=|es|é|est|ist)",
    re.IGNORECASE,
)
_BEGINNING = lazy_regex(
    r"\s?(?:\((?:LMP|last[^()\d]{0,30})\)|\+|plus\b"
    r"|(?:\(|: ?|(?:is|was) (?:the |her )?)(?:LMP|last)\b(?![^.;\n]{0,30}\d))",
    re.IGNORECASE,
)
_AFTER_DATE = lazy_regex(r"(?:T?\s?00:00(?::00)?)?[\s)\]\"'}|*.!]*(?:\(mm/dd/yyyy\))?")

_W = (
    r"(?:weeks?|wks?|w|semanas?(?:\(s\))?|semaines?(?: d['’]am[eé]norrh[eé]e)?|wochen?|SSW|SA|settiman[ae]|недел[ьияю]"
    r"|週|周|주)"
)
_D = r"(?:days?|day\(s\)|d|d[ií]as?(?:\(s\))?|jours?|tagen?|tage?|giorn[oi]|дн(?:я|ей)|день|日|天|일)"
_BETWEEN = (
    r"(?:[^\w.;/<>]{0,6}(?:\(\d{1,3} days\)[^\w.;/<>]{1,3})?"
    r"(?:and |plus |with |y |e |et |und |con |más |и |of gestation and |(?:with )?(?:a )?remainder (?:of )?)?|; |/)"
)
_KEY = r"[\"']?(?:\w{1,24}[ _]){0,3}"
_AGE = lazy_regex(
    rf"(?<![\d.,/+<>≥≤-])(?:(?P<weeks>\d{{1,3}})[\s-]?(?:(?:completed|full) )?{_W}(?![a-z]){_BETWEEN}\(?"
    rf"(?P<days>\d{{1,2}})(?:(?:/7)?[\s-]?(?:extra |additional |more )?{_D}(?![a-z])|/7(?!\d))"
    rf"|(?P<weeks_plus>\d{{1,2}})\s?(?:(?:w|SSW|SA)\s?)?\+\s?(?P<days_plus>[0-6])(?:/7|d\b)?(?!\d|\.\d)"
    rf"|(?P<weeks_of_7>\d{{1,2}})(?: and |[ -])(?P<days_of_7>[0-6])/7(?!\d)"
    rf"|[(\[]\s?[\"']?(?P<pair_weeks>\d{{1,3}})[\"']?\s?[,;]\s?[\"']?(?P<pair_days>\d{{1,2}})[\"']?\s?[)\]])"
    r"|\bweeks?\s?\|\s?days?[\s|:-]*\|\s?(?P<row_weeks>\d{1,2})\s?\|\s?(?P<row_days>\d{1,2})\s?\|"
    rf"|\bweeks?[\"']?\s?[:=]\s?[\"']?(?P<key_weeks>\d{{1,2}})(?!\.?\d)[\"']?"
    rf"(?:[,;\s]+(?:- )?{_KEY}days?[\"']?\s?[:=]\s?[\"']?(?P<key_days>\d{{1,2}})(?!\.?\d)[\"']?)?"
    rf"|\bdays?[\"']?\s?[:=]\s?[\"']?(?P<first_days>\d{{1,2}})(?!\.?\d)[\"']?[,;\s]+"
    rf"{_KEY}weeks?[\"']?\s?[:=]\s?[\"']?(?P<second_weeks>\d{{1,2}})(?!\.?\d)[\"']?",
    re.IGNORECASE | re.ASCII,
)
_ONLY_WEEKS = lazy_regex(
    r"(?<![\d.,/+<>≥≤-])(?<![<>≥≤±] )\b"
    rf"(?:(?P<only_weeks>\d{{1,2}})(?!-week\b)[\s-]?(?:(?:completed|full) )?{_W}(?![a-z])"
    r"|(?P<only_days>[0-6])[\s-]?days?\b)(?! (?:later|after|before|ago|from|and|plus|\d)|-|\s?\+)",
    re.IGNORECASE | re.ASCII,
)
_BOUND = lazy_regex(
    r"\b(?:almost|nearly|over|under|in|within|for|another|after|than|least|most|lasts?|to|or|between|cycles?|every|and"
    r"|add|plus|minus|up|casi|fast|entre|menos de|m[aá]s de|moins de|plus de|weniger als|mehr als|hasta|bis|y|et|und|e"
    r"|o|ou|oder) \Z|[-–—] ?\Z",
    re.IGNORECASE,
)
_LIMIT = lazy_regex(
    r"\b(?:than|least|most|over|under|menos de|m[aá]s de|moins de|plus de|weniger als|mehr als) \Z", re.IGNORECASE
)
_BARE_PAIR = lazy_regex(r"(?P<weeks>\d{1,2})(?:\s?[,;]\s?|\s)(?P<days>[0-6])")
_INPUT_AGE = lazy_regex(
    r"\b(?:ultrasound|at the visit|previous(?:ly)?|earlier|normal|term|pregnancy lasts)\b[^\d\n.;]{0,40}\Z",
    re.IGNORECASE,
)
_AFTER_AGE = lazy_regex(r"[\s)\]\"'}|*.!]*(?:gestation|GA|weeks?)?[\s)\]\"'}|*.!]*", re.IGNORECASE)
_SIGNS = {"*": "", "`": "", "_": " ", "⁺": "+", "\u00a0": " ", "—": "-", "–": "-", "‐": "-", "‑": "-", "’": "'"} | dict(
    zip("⁄₇⁰¹²³⁴⁵⁶", "/70123456", strict=True)
)
_SIGN = lazy_regex(f"[{''.join(_SIGNS)}]")
_WEEKDAY = lazy_regex(r"\b(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?,? (?=[a-z\d])", re.IGNORECASE)
_TEX = lazy_regex(r"[{}^]|(?<=[ {}]) +")
_RAISED_DAYS = lazy_regex(r"(?<=\d)(?=[⁰¹²³⁴⁵⁶]\s?[/⁄])")


def read_date(completion: str, quantity: re.Pattern[str] | None = None) -> date | None:
    """Read the date that a completion gives as its answer; None if there is none, or it is ambiguous.

    Numbers are month, day, year as in the United States, or day first if the first number cannot be a month. ISO dates
    and names of months are read too. A year of two digits is from 1950 to 2049. `quantity` matches the names of the
    date that is asked for.

    >>> read_date("LMP 12/17/2013, so the due date is September 23, 2014."), read_date("9/23/14")
    (datetime.date(2014, 9, 23), datetime.date(2014, 9, 23))
    """
    text = _plain(completion)
    values: list[Value[date]] = []
    for match in _DATE.finditer(text):
        day = _as_date(match)
        if day is not None:
            start, end = match.span()
            before = _context(text, start, values[-1].end if values else 0)
            is_input = _INPUT_DATE.search(text, before, start) and not _OUTPUT_DATE.search(text, before, start)
            minor = is_input or _BEGINNING.match(text, end)
            values.append(Value(day, start, end, bool(minor)))
    if all(value.minor for value in values):
        values = []
    return stated(text, values, unit=_AFTER_DATE, quantity=quantity)


def read_weeks_and_days(completion: str, quantity: re.Pattern[str] | None = None) -> tuple[int, int] | None:
    """Read the weeks and days that a completion gives as its answer; None if there are none, or they are ambiguous.

    "14 weeks" is 14 weeks and 0 days, if the completion has no other weeks and days. `quantity` matches the names of
    the age that is asked for.

    >>> read_weeks_and_days("('14 weeks', '2 days')"), read_weeks_and_days("14w2d"), read_weeks_and_days("14 2/7 weeks")
    ((14, 2), (14, 2), (14, 2))
    """
    text = in_figures(_plain(completion))
    pair = _BARE_PAIR.fullmatch(text)
    if pair:
        return int(pair["weeks"]), int(pair["days"])
    return stated(text, list(_ages(text)) or _whole_weeks(text), unit=_AFTER_AGE, quantity=quantity)


def _plain(completion: str) -> str:
    """Return the answer of a completion with figures and marks written in one way."""
    text = _RAISED_DAYS.sub(" ", middle_removed(answer_text(unwrapped(before_next_task(completion)))))
    text = _SIGN.sub(lambda sign: _SIGNS[sign[0]], text)
    text = _WEEKDAY.sub("", text)
    if '"' not in text and "':" not in text:
        text = _TEX.sub("", text)
    return ascii_digits(text)


def _context(text: str, start: int, after: int = 0) -> int:
    """Return where the words begin that can label a value at `start`: in its line, and after another value."""
    return max(after, text.rfind("\n", 0, start) + 1, start - _LABEL)


def _ages(text: str) -> Iterator[Value[tuple[int, int]]]:
    """Yield what is weeks and days."""
    for match in _AGE.finditer(text):
        start, end = match.span()
        context = _context(text, start)
        if not _LIMIT.search(text, context, start):
            found = {name: int(group) for name, group in match.groupdict().items() if group is not None}
            weeks = next(number for name, number in found.items() if "weeks" in name)
            days = next((number for name, number in found.items() if "days" in name), 0)
            minor = _INPUT_AGE.search(text, context, start) is not None
            yield Value((weeks, days), start, end, minor)


def _whole_weeks(text: str) -> list[Value[tuple[int, int]]]:
    """Return weeks without days, or fewer than seven days without weeks; none if the text has both."""
    values = []
    for match in _ONLY_WEEKS.finditer(text):
        start, end = match.span()
        context = _context(text, start)
        if not _BOUND.search(text, context, start) and not _INPUT_AGE.search(text, context, start):
            values.append(Value((int(match["only_weeks"] or 0), int(match["only_days"] or 0)), start, end))
    return [] if any(value.value[0] for value in values) and any(value.value[1] for value in values) else values


def _number_of_month(name: str) -> int:
    """Return the number of the month that a match of `_MONTH` names."""
    return next(n for n, names in enumerate(_MONTHS, 1) if re.fullmatch(names, name, re.IGNORECASE | re.ASCII))


def _as_date(match: re.Match[str]) -> date | None:
    """Convert a match of `_DATE` to a date; None if the day does not exist."""
    parts = {name: group for name, group in match.groupdict().items() if group is not None}
    if "basic" in parts:
        year, month, day = parts["basic"][:4], parts["basic"][4:6], parts["basic"][6:]
    elif "year" in parts:
        year, month, day = parts["year"], parts["first"], parts["second"]
        if len(year) < 4 and (int(month) > 12 or ("." in parts["sign"] and len(month + day) < 4)):
            return None  # 14-02-22 could begin with its year, and 1.2.14 is a version
        if int(month) > 12:
            month, day = day, month
    else:
        keys = next(keys for keys in _DATE_PARTS if keys[0] in parts)
        year, month, day = (parts[key] for key in keys)
        if not month.isdigit():
            month = str(_number_of_month(month))
    year = year.lstrip("'")
    if len(year) == 2:
        year = f"{19 if int(year) >= _CENTURY else 20}{year}"
    try:
        return date(int(year), int(month), int(day))
    except ValueError:
        return None


_DATE_PARTS = (
    ("iso_year", "iso_month", "iso_day"),
    ("kanji", "kanji_month", "kanji_day"),
    ("month_year", "month", "day"),
    ("year_first", "year_month", "year_day"),
    ("name_year", "name", "name_day"),
)
"""The groups of `_DATE` that hold year, month and day."""
