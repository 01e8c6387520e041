"""Read the number that a completion gives as its answer.

Asked for a number alone, models add units ("27.4 kg/m²"), words ("approximately 27.4"), separators ("1,250") and
calculations. `read_number` tries, in this order:

1. the whole completion, as a number;
2. the answer of a JSON object: {"answer": 4};
3. the last \\boxed{...};
4. a last line that is a number, with or without a unit;
5. the number after the last "answer", "final ..." or "result" with "is", ":" or "=";
6. the same for "score", "total", "value", "estimate" and for "therefore", "thus", "hence";
7. the number after the last "=" or "≈";
8. the only number (repetitions allowed), or the only one of the last line if "is" or "of" precedes it;
9. the first number, if the completion is one line of at most 80 characters.

Otherwise no answer is found. Numbers are ignored that are part of a name (CHA2DS2-VASc, FIB-4), a unit
(mL/min/1.73 m²), a fraction, ratio, date, time or range (4/9, 120/80, 3:1, 5-7, 5 or 6), and numbers that are a bound
(> 60), an age, an ordinal, the number of a list item or an operand (70 / 1.75).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from medhelm.io.lazy_regex import lazy_regex
from medhelm.scoring.answers.plain_text import strip_reasoning

SHORT_COMPLETION = 80
"""Length, in characters, up to which the first of several numbers in one line is the answer."""

_ANSWER_KEYS = ("answer", "final_answer", "final answer", "result", "score", "value")
_MAX_DIGITS = 40
_WINDOW = 160  # characters searched after words that announce a number
_TRIES = 20  # number of such places that are tried, from the end
_EVERYWHERE = 64  # numbers compared; a completion with more has several
_BESIDE = 16  # characters of context on each side of a number

_PLAIN_CHARACTERS = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | str.maketrans(
    {"`": "", "_": " ", "’": "'", "\u202f": "\u00a0", "\u2009": "\u00a0", "\u2011": "-", "≅": "≈", "∼": "~"}
    | dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff", "")
)
_MARKUP = lazy_regex(
    r"\*\*|\\(?:text|textbf|mathrm|mathbf|bf|rm|[()\[\],;!])\s?|</?[A-Za-z]{1,10}/?>|\$|```(?:json)?", re.IGNORECASE
)
_NUMBER = lazy_regex(
    r"(?P<sign>[-+−–]?)(?P<digits>[0-9](?:[.,'\u00a0]?[0-9]){0,400}|\.[0-9]{1,400})"
    r"(?:[eE](?P<e>[-+−]?[0-9]{1,3})(?![0-9A-Za-z])"
    r"|\s?(?:[x×*·]|\\times)\s?10\s?\^\s?\{?(?P<power>[-−–+]?[0-9]{1,3})\}?"
    r"|\s?(?:[x×*·]|\\times)\s?10(?P<raised>[⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]{1,3}))?"
)
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺−–", "0123456789-+--")
_SOMETHING_ELSE_BEFORE = tuple(
    lazy_regex(rf"(?:{pattern})\Z", re.IGNORECASE)
    for pattern in (
        r"[A-Za-z0-9µ\u00c0-\u1fff.^\\'/]",  # the end of a name, number, unit or fraction
        r"(?<![-=])[<>]=? ?|[≤≥±] ?|[0-9]:",  # a bound, a margin or the second half of a ratio
        r"[+×÷*/^] ?|[0-9] ?x ?|[0-9)] ?[-−–—] ?|frac ?\{|\} ?\{",  # an operand
        r"\b(?:per|out of|than|between|least|most|aged?|age:|step|table|figure|part|item) ",
        r"[0-9]%? (?:to|or) |\bbetween\s\S{1,8} and ",  # the end of a range
    )
)
_SOMETHING_ELSE_AFTER = tuple(
    lazy_regex(pattern, re.IGNORECASE)
    for pattern in (
        r" ?[-−–—] ?\(?[0-9]|%? (?:to|or) [-−]?[0-9]",  # the beginning of a range
        # a ratio, a fraction, a power, a name, an ordinal
        r":[0-9]| ?/ ?\(?[0-9]|[⁰¹²³⁴⁵⁶⁷⁸⁹]|-[A-Za-z]|(?:st|nd|rd|th)\b",
        r" ?\)? ?(?:[+÷^/] ?\(?[-−]?[0-9]|[×*] ?[\w(]|[=≈] ?[-−(]?[0-9])| ?x ?\(?[0-9]",  # an operand
        r"[ -]?(?:years?|yrs?)\b| ?y/?o\b",  # an age
    )
)
_LIST_ITEM = lazy_regex(r"[.)]\s+[A-Za-z]")
_MINUS_WORD = lazy_regex(r"\b(?:minus|negative)\s\Z", re.IGNORECASE)
_SENTENCE_END = lazy_regex(r"[.!?]\s")
_LINK = r"[^\d.;!?=:≈]{0,80}?(?:\b(?:is|are|was|equals|of)\b|[:=≈~])"
_BOXED = lazy_regex(r"\\f?boxed\s?\{")
_STRONG = lazy_regex(rf"(?<![A-Za-z])(?:answer|final|result)(?![A-Za-z]){_LINK}", re.IGNORECASE)
_WEAK = lazy_regex(
    rf"(?<![A-Za-z])(?:(?:score|total|value|estimate|therefore|thus|hence)(?![A-Za-z]){_LINK}|(?:score|total)\s[(\[\"]?(?=[-−0-9]))",
    re.IGNORECASE,
)
_BARE_LINE = lazy_regex(
    r"[\s\"'(\[>#≈~]{0,6}(?P<number>[-+−–]?[0-9.][0-9.,'\u00a0]{0,40})[\s)\]\"']{0,4}"
    r"(?:%|[A-Za-zµ°][\w°²³/^.·]{0,20}(?:\s?/\s?[\w²³.]{1,10})?)?[\s)\]\"'.]{0,6}\Z"
)
_LINKED = lazy_regex(r"\b(?:is|are|was|equals|of)\b[^\d.;!?]{0,40}\Z", re.IGNORECASE)
_EQUALS = lazy_regex(r"[=≈]\s?[~≈]?\s?(?:approximately\s|about\s)?(?=[-+−–.0-9])")


class _Number(NamedTuple):
    """A number in a text."""

    value: float
    start: int
    end: int


def read_number(completion: str) -> float | None:
    """Read the number that a completion gives as its answer; None if there is none, or it is ambiguous.

    Units and percent signs are ignored: "25%" is 25. A comma between groups of three digits separates thousands
    ("1,250"); any other single comma is a decimal comma ("0,85"). The number is finite.

    >>> read_number("BMI = 70 / 1.6^2 ≈ 27.3 kg/m²"), read_number("CHA2DS2-VASc score: 4 (high)"), read_number("5-7")
    (27.3, 4.0, None)
    """
    text = strip_reasoning(completion).strip()
    whole = _as_float(text)
    if whole is not None:
        return whole
    found, number = _from_json(text)
    if found:
        return number
    text = _MARKUP.sub(" ", text.translate(_PLAIN_CHARACTERS).replace("\\approx", "≈")).strip()
    for read in (_boxed, _last_line, _announced):
        number = read(text)
        if number is not None:
            return number
    numbers = [number.value for number in islice(_numbers(text, 0, len(text)), _EVERYWHERE)]
    short = len(text) <= SHORT_COMPLETION and "\n" not in text
    if numbers and (short or (len(set(numbers)) == 1 and len(numbers) < _EVERYWHERE)):
        return numbers[0]
    start = text.rfind("\n") + 1
    last = list(islice(_numbers(text, start, len(text)), 2))
    linked = len(last) == 1 and _LINKED.search(text, max(start, last[0].start - _WINDOW), last[0].start)
    return last[0].value if linked else None


def _as_float(text: str) -> float | None:
    """Convert `text` if it is a finite number and nothing else."""
    if len(text) > _MAX_DIGITS:
        return None
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _from_json(text: str) -> tuple[bool, float | None]:
    """Return True if `text` is, or ends with, a JSON object with an answer; return the number in it too."""
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start or '"' not in text[start : start + 10]:
        return False, None
    try:
        document = json.loads(text[start : end + 1], parse_int=float)
    except (ValueError, RecursionError):
        return False, None
    fields = {str(key).lower(): value for key, value in document.items()} if isinstance(document, dict) else {}
    for key in _ANSWER_KEYS:
        if key in fields:
            value = fields[key]
            if isinstance(value, str):
                return True, read_number(value)
            return True, value if isinstance(value, float) and math.isfinite(value) else None
    return False, None


def _boxed(text: str) -> float | None:
    """Return the number in the last box."""
    return _after_last(_BOXED, text)


def _last_line(text: str) -> float | None:
    """Return the number if it is the whole last line, with or without a unit."""
    line = _BARE_LINE.match(text, text.rfind("\n") + 1)
    number = next(_numbers(text, line.start("number"), line.end()), None) if line else None
    return number.value if line and number and number.start == line.start("number") else None


def _announced(text: str) -> float | None:
    """Return the number after the last words, or else the last equals sign, that announce one."""
    for announced in (_STRONG, _WEAK, _EQUALS):
        number = _after_last(announced, text)
        if number is not None:
            return number
    return None


def _after_last(announced: re.Pattern[str], text: str) -> float | None:
    """Return the number after the last match of `announced` that a number follows."""
    ends = [match.end() for match in announced.finditer(text)]
    for end in ends[: -_TRIES - 1 : -1]:
        number = next(_numbers(text, end, end + _WINDOW), None)
        if number is None or (announced is _EQUALS and number.start != end):
            continue
        if not _SENTENCE_END.search(text, end, number.start):
            return number.value
    return None


def _numbers(text: str, start: int, stop: int) -> Iterator[_Number]:
    """Yield the numbers that begin in text[start:stop] and can be an answer."""
    for match in _NUMBER.finditer(text, start):
        if match.start() >= stop:
            return
        value = _value(match)
        if value is not None and not _is_something_else(text, match):
            if _MINUS_WORD.search(text, max(0, match.start() - _BESIDE), match.start()):
                value = -abs(value)
            yield _Number(value, match.start(), match.end())


def _is_something_else(text: str, match: re.Match[str]) -> bool:
    """Return True if a number is part of something else, by its context."""
    start, end = match.span()
    before, after = text[max(0, start - _BESIDE) : start], text[end : end + _BESIDE]
    if match["sign"] and before and (before[-1].isalnum() or before[-1] == ")"):
        return True
    if any(pattern.search(before) for pattern in _SOMETHING_ELSE_BEFORE):
        return True
    if any(pattern.match(after) for pattern in _SOMETHING_ELSE_AFTER):
        return True
    if start == 0:
        return match["digits"] == "1" and "\n2" in text and _LIST_ITEM.match(after) is not None
    return before.endswith("\n") and _LIST_ITEM.match(after) is not None


def _value(match: re.Match[str]) -> float | None:
    """Return the value of a match of `_NUMBER`; None if its separators make no sense."""
    digits = _without_separators(match["digits"])
    if digits is None:
        return None
    exponent = match["e"] or match["power"] or match["raised"] or "0"
    number = float(f"{digits}e{exponent.translate(_RAISED)}")
    if not math.isfinite(number):
        return None
    return -number if match["sign"] in ("-", "−", "–") else number


_GROUPED = lazy_regex(
    r"[1-9][0-9]{0,2}(?:(?:,[0-9]{3})+(?:\.[0-9]+)?|(?:'[0-9]{3})+(?:\.[0-9]+)?|(?:\u00a0[0-9]{3})+(?:[.,][0-9]+)?)"
)
_GROUPED_BY_POINTS = lazy_regex(r"[1-9][0-9]{0,2}(?:\.[0-9]{3})+,[0-9]+|[1-9][0-9]{0,2}(?:\.[0-9]{3}){2,}")
_DECIMAL_COMMA = lazy_regex(r"[0-9]+,[0-9]+")
_SIMPLE = lazy_regex(r"[0-9]*\.?[0-9]+")


def _without_separators(digits: str) -> str | None:
    """Return digits with at most one decimal point; None if the separators make no sense.

    >>> [_without_separators(d) for d in ("1,250.5", "1.250,5", "0,85", "1,2,3")]
    ['1250.5', '1250.5', '0.85', None]
    """
    if len(digits) > _MAX_DIGITS:
        return None
    if _SIMPLE.fullmatch(digits):
        return digits
    if _GROUPED.fullmatch(digits):
        whole = digits.replace("'", "")
        return whole.replace("\u00a0", "").replace(",", ".") if "\u00a0" in whole else whole.replace(",", "")
    if _GROUPED_BY_POINTS.fullmatch(digits):
        return digits.replace(".", "").replace(",", ".")
    return digits.replace(",", ".") if _DECIMAL_COMMA.fullmatch(digits) else None
