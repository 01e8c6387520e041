"""Read the number that a completion gives as its answer.

Asked for a number alone, models add units ("27.4 kg/m²"), words ("approximately 27.4"), separators ("1,250"), names of
formulas ("CKD-EPI 2021: 88") and calculations. `read_number` finds the numbers that can be an answer, and `stated`
chooses among them.

Not an answer is a number that is part of a name (CHA2DS2-VASc, FIB-4, MELD 3.0, a year), a unit (mL/min/1.73 m²,
10^9/L), a ratio, date, time or range (120/80, 3:1, 5-7, 5 or 6), and a number that is a bound (> 60), an age, an
ordinal, the number of a list item or reference, or an operand (70 / 1.75).

A score on a scale is the score: "12/15", "12 out of 15" and "12 of 15" are 12. "3/4" could be a fraction, so a scale of
fewer than five points needs a word beside it: "SIRS criteria: 3/4". "3 1/2" and "3½" are 3.5, and a grade of "3+" is 3.

The program of the authors of MedCalc-Bench reads a short answer otherwise in two cases, which are not followed: it
divides percentages by 100, although the data asks for percent, and it counts the numbers of a list.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from medhelm.io.lazy_regex import lazy_regex
from medhelm.scoring.answers.answer_text import answer_text
from medhelm.scoring.answers.number_context import is_input, is_risk, is_something_else, is_year
from medhelm.scoring.answers.numerals import plain_numbers
from medhelm.scoring.answers.plain_text import before_next_task
from medhelm.scoring.answers.stated_value import ASIDE, Value, middle_removed, stated, without_asides

_MAX_DIGITS = 40
_BESIDE = 16  # characters before a number that may hold "minus"
_LABEL = 44  # characters before a score that may hold the word for its scale
_FEWEST_POINTS = 5  # of a scale that is recognized without a word beside it

_NUMBER = lazy_regex(
    r"(?P<sign>[-+]?)(?P<digits>[0-9](?:[.,'\u00a0]?[0-9]){0,400}|\.[0-9]{1,400})"
    r"(?:[eE](?P<e>[-+]?[0-9]{1,3})(?![0-9A-Za-z])"
    r"|\s?[x×*·]\s?10\s?(?:\^|\*\*)\s?[{(]?(?P<power>[-+]?[0-9]{1,3})[})]?"
    r"|\s?[x×*·]\s?10(?P<raised>[⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]{1,3}))?"
)
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_PER_VOLUME = lazy_regex(r"\s?(?:cells\s?)?/\s?(?:[µμu]?[lL]\b|mm|[mdc]L)")
_CONVERSION = lazy_regex(r" ?[A-Za-z/]{1,8} ?\(")
_MINUS_WORD = lazy_regex(r"\b(?:minus|negative)\s\Z", re.IGNORECASE)
_SCALES = (
    *("score", "scale", "points?", "criteria", "index", "grade", "rating", "total", "sum", "answer", "gcs", "apgar"),
    *("q?sofa", "curb-65", "centor", "sirs", "perc", "rcri", "has-bled", "wells", "heart", "feverpain", "pugh"),
)
_SCALE = lazy_regex(
    r"(?<![\w/.,^×*+÷-])(?<![/×*+÷^-] )(?<!\bon )(?P<score>[0-9]{1,3})\s?/\s?(?P<points>[1-9][0-9]{0,2})"
    r"(?P<after>\s(?:\w{1,12}\s)?(?:criteria|points?)\b"
    r"|(?=[^\w%/^]{0,4}\Z|[.,;:)!]\s|[)\]}]|\n|\s?\(|\s(?:on|by|with|for|->|→)\s))(?!\s?[/×*+÷=≈^])",
    re.IGNORECASE,
)
_SCALE_WORD = lazy_regex(rf"\b(?:{'|'.join(_SCALES)})\b[^\d\n/]{{0,30}}\Z", re.IGNORECASE)
_UNIT = lazy_regex(
    r"[\s)\]\"'}|*.]*(?:%|[A-Za-zµμ°²³][\w°²³⁻¹/^.·*\\{}-]{0,24}(?:\s?/\s?[\w²³.]{1,10})?"
    r"(?:\s(?:m²|m\^?\{?2\}?|h|per \w{1,8})){0,2})?[\s)\]\"'}|*.!✅]*"
)


def read_number(completion: str, quantity: re.Pattern[str] | None = None) -> float | None:
    """Read the number that a completion gives as its answer; None if there is none, or it is ambiguous.

    Units and percent signs are ignored: "25%" is 25. A comma between groups of three digits separates thousands
    ("1,250"); any other single comma is a decimal comma ("0,85"). The number is finite. `quantity` matches the names of
    what is asked for, which helps where a completion holds other numbers.

    >>> read_number("BMI = 70 / 1.6^2 ≈ 27.3 kg/m²"), read_number("CKD-EPI 2021: 88"), read_number("5-7")
    (27.3, 88.0, None)
    """
    text = answer_text(before_next_task(completion))
    whole = _as_float(text)
    if whole is not None:
        return whole
    text = plain_numbers(middle_removed(text))
    values = list(_values(text))
    if quantity is not None and not quantity.search("10-year risk"):  # a score comes with the risk that it predicts
        values = [value._replace(minor=value.minor or is_risk(text, value.start, value.end)) for value in values]
    return stated(text, values, unit=_UNIT, quantity=quantity)


def _as_float(text: str) -> float | None:
    """Convert `text` if it is a finite number and nothing else."""
    if len(text) > _MAX_DIGITS:
        return None
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _values(text: str) -> Iterator[Value[float]]:
    """Yield the numbers that can be an answer."""
    main = without_asides(text)
    scales = {scale.start("score"): scale for scale in _SCALE.finditer(text) if _is_scale(scale)}
    last: Value[float] | None = None
    for match in _NUMBER.finditer(text):
        start, end = match.span()
        scale = scales.get(start)
        if scale is not None:
            yield Value(float(scale["score"]), start, scale.end("points"))
            continue
        value = _value(match)
        # What is in parentheses stands between an operator and its operand: "2 (age) + 1 (sex) = 3".
        context = main if main[start] != ASIDE else text
        if value is None or is_something_else(context, match) or is_year(text, match):
            continue
        if _MINUS_WORD.search(text, max(0, start - _BESIDE), start):
            value = -abs(value)
        # "weight 154 lb (70 kg)" is one input in two units.
        is_converted = last is not None and last.minor and _CONVERSION.fullmatch(text, last.end, start)
        last = Value(value, start, end, bool(is_converted) or is_input(text, start, end))
        yield last


def _is_scale(match: re.Match[str]) -> bool:
    """Return True if a match of `_SCALE` is a score and its highest possible value."""
    score, points = int(match["score"]), int(match["points"])
    return score <= points and (points >= _FEWEST_POINTS or _is_named(match))


def _is_named(match: re.Match[str]) -> bool:
    """Return True if a word beside a match of `_SCALE` says that it is a score."""
    start = match.start()
    return bool(match["after"] or _SCALE_WORD.search(match.string, max(0, start - _LABEL), start))


def _value(match: re.Match[str]) -> float | None:
    """Return the value of a match of `_NUMBER`; None if its separators make no sense."""
    digits = _without_separators(match["digits"])
    if digits is None:
        return None
    exponent = match["e"] or match["power"] or match["raised"] or "0"
    if not match["e"] and _PER_VOLUME.match(match.string, match.end()):
        exponent = "0"  # 150 × 10^9/L are 150 of this unit
    number = float(f"{digits}e{exponent.translate(_RAISED)}")
    if not math.isfinite(number):
        return None
    return -number if match["sign"] == "-" else number


_GROUPED = lazy_regex(
    r"[1-9][0-9]{0,2}(?:(?:,[0-9]{3})+(?:\.[0-9]+)?|(?:'[0-9]{3})+(?:[.,][0-9]+)?|(?:\u00a0[0-9]{3})+(?:[.,][0-9]+)?)"
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
        whole = digits.replace("'", "").replace("\u00a0", "")
        return whole.replace(",", ".") if whole != digits else whole.replace(",", "")
    if _GROUPED_BY_POINTS.fullmatch(digits):
        return digits.replace(".", "").replace(",", ".")
    return digits.replace(",", ".") if _DECIMAL_COMMA.fullmatch(digits) else None
