"""Read the number that a completion gives as its answer.

Asked for a number alone, models add units ("27.4 kg/m²"), words ("approximately 27.4"), separators ("1,250"), names of
formulas ("CKD-EPI 2021: 88") and calculations. `read_number` finds the numbers that can be an answer, and `stated`
chooses among them.

Not an answer is a number that is part of a name (CHA2DS2-VASc, FIB-4, MELD 3.0, a year), a unit (mL/min/1.73 m²,
10^9/L), a ratio, date, time or range (120/80, 3:1, 5-7, 5 or 6), and a number that is a bound (> 60), an age, an
ordinal, the number of a list item or reference, or an operand (70 / 1.75).

A score on a scale is the score: "12/15", "12 out of 15" and "3 of 5" are 12, 12 and 3. Without the word for a scale,
"3/4" could be a fraction, so scales of fewer than five points need it: "SIRS criteria: 3/4". "3 1/2" and "3½" are 3.5,
and a grade of "3+" is 3. Numbers in words ("twenty-seven") are read too.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator
from itertools import islice

from medhelm.io.lazy_regex import lazy_regex
from medhelm.scoring.answers.answer_text import answer_text
from medhelm.scoring.answers.numerals import in_figures
from medhelm.scoring.answers.stated import ASIDE, Value, stated, without_asides

_MAX_DIGITS = 40
_MOST = 200  # numbers that are compared
_BESIDE = 24  # characters of context on each side of a number
_LABEL = 40  # characters before a number that may hold its label
_FEWEST_POINTS = 5  # of a scale that is recognized without a word for it

_CHARACTERS = str.maketrans(
    {
        "`": "",
        "_": " ",
        "’": "'",
        "\u202f": "\u00a0",
        "\u2009": "\u00a0",
        "\u2007": "\u00a0",
        "\u2011": "-",
        "−": "-",
        "–": "-",
        "﹣": "-",
        "≅": "≈",
        "∼": "~",
        "⁄": "/",
        "∕": "/",
        "٫": ".",
        "٬": ",",
    }
)
_MARKUP = lazy_regex(
    r"(?<![\d)])\*\*|\*\*(?! ?[\d(])|\\(?=[%#&_ ])|\\(?:[()\[\],;!]|displaystyle|quad|boxed|underline)\s?|\$(?! ?\d{4})|\{(?=,)|(?<=,)\}"
)
_TEX_SIGNS = {
    "\\approx": "≈",
    "\\sim": "~",
    "\\times": "×",
    "\\cdot": "·",
    "\\div": "÷",
    "\\to": "→",
    "\\rightarrow": "→",
}
_TEX_SIGN = lazy_regex("|".join(rf"\\{sign[1:]}(?![a-z])" for sign in _TEX_SIGNS))
_DIGIT = lazy_regex(r"(?![0-9])\d")
_MIDDLE_POINT = lazy_regex(r"(?<=[0-9])·(?=[0-9])(?!10\s?[\^⁰¹²³⁴⁵⁶⁷⁸⁹⁻*])")
_VULGAR = lazy_regex(r"(?<![0-9/.,])(?:([0-9]{1,3})\s?)?([¼-¾⅐-⅞])")
_MIXED = lazy_regex(r"(?<![\w/.,^])([0-9]{1,3}) ([1-9])/([2-9]|1[0-6])(?![\w/.,]*[\w/])")
_SCALE = lazy_regex(
    r"(?P<before>(?:\b(?:score|scale|points?|criteria|gcs|apgar|grade|index|rating|total|sum|answer)\b[^\d\n/]{0,30})?)"
    r"(?<![\w/.,^×*+÷-])(?<![/×*+÷^-] )(?P<score>[0-9]{1,3})\s?/\s?(?P<points>[1-9][0-9]{0,2})"
    r"(?![\w%/^]|\s?[/^×*+÷=≈%]|[.,-]\d|\s-\s?\d|\s?(?:mm|cm|kg|mg|g|m?l|tab\w*|of|years?|weeks?|days?|h)\b)"
    r"(?P<after>(?:\s(?:\w+\s)?(?:criteria|points?))?)",
    re.IGNORECASE,
)
_NUMBER = lazy_regex(
    r"(?P<sign>[-+]?)(?P<digits>[0-9](?:[.,'\u00a0]?[0-9]){0,400}|\.[0-9]{1,400})"
    r"(?:[eE](?P<e>[-+]?[0-9]{1,3})(?![0-9A-Za-z])"
    r"|\s?[x×*·]\s?10\s?(?:\^|\*\*)\s?[{(]?(?P<power>[-+]?[0-9]{1,3})[})]?"
    r"|\s?[x×*·]\s?10(?P<raised>[⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]{1,3}))?"
)
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_PER_VOLUME = lazy_regex(r"\s?(?:cells\s?)?/\s?(?:[µμu]?[lL]\b|mm|[mdc]L)")
_GROUPED_BY_SPACES = lazy_regex(
    r"(?<![\w.,/'+*×÷^-])(?<![\d.,] )([-+]?[1-9][0-9]{0,2})((?: [0-9]{3})+)(?![\d/'-]|[.,]\d+[.,]\d| \d)"
)

_SOMETHING_ELSE_BEFORE = tuple(
    lazy_regex(rf"(?:{pattern})\Z", re.IGNORECASE)
    for pattern in (
        r"[A-Za-z0-9µ\u00c0-\u1fff.^\\'/√#]",  # the end of a name, number, unit or fraction
        r"(?<![-=])[<>]=? ?|[≤≥±] ?|[0-9]:",  # a bound, a margin or the second half of a ratio
        r"[+×÷*/^√] ?|\bplus |[0-9] ?x ?|[0-9)\x00] ?- ?|[)\x00] ?x|frac ?\{|\} ?\{|\b(?:ln|log|log10|exp|sqrt) ?\(?",  # an operand
        r"\b(?:per|out of|than|least|most|above|below|over|under|exceeds|aged?|age:|age =|version|v\.|stage|class"
        r"|phase|step|steps|table|figure|part|item|eq\.|equation|reference|ref\.?|page|no\.|day|type|grade|every|within|the last"
        r"|starts at|starting at|up to) ",
        r"[0-9] of (?:the |all )?|[/×*+÷√^-] ?\([^()]{0,12}",  # the end of a scale, an operand in parentheses
        r"\bMELD[ -]?|\b(?:SAPS|PRISM|PIM|NEWS|CKiD|EuroSCORE|QRISK|KDIGO|GOLD|Rome|DSM|ICD)[ -](?=3|4|2|5|1)",  # versions
        r"\b(?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)[a-z]{0,6}\.? (?:\d{1,2}(?:st|nd|rd|th)?,? ?)?",  # a date
    )
)
_SOMETHING_ELSE_AFTER = tuple(
    lazy_regex(pattern, re.IGNORECASE)
    for pattern in (
        r"%? ?- ?\(?[0-9]",  # the beginning of a range
        r" or (?:more|higher|greater|above|less|fewer|lower|below)\b|\+ ?(?![ \d(√a-z])(?<=[0-9]{2}\+)",  # a bound
        # a ratio, a fraction, a power, a name, an ordinal
        r":[0-9]| ?/ ?\(?[0-9]|[⁰¹²³⁴⁵⁶⁷⁸⁹]|-[A-Za-z]|(?:st|nd|rd|th)\b|(?<=1\.73) ?m",
        r" ?[)\x00]* ?(?:[+÷^√] ?\(?-?[0-9√(\x00]|/ ?(?:[(√0-9\x00]|\Z)|[×*] ?[\w(√\x00]|[=≈] ?-?\(?[0-9])| ?x ?[(\x00]?[0-9\x00]"
        r"| - [(\w\x00]",  # an operand
        r" ?[A-Za-zµ°²³%][\w/^²³]{0,11} ?(?:[×*+÷] ?[(\w√\x00]|/ ?[(\x00]| [-/] -?[(\d\x00])",  # an operand with a unit
        r"[ -]?(?:years?|yrs?)[ -](?:old|of age)\b|[ -]?(?:years?|yrs?)\b(?! risk)| ?y/?o\b",  # an age
        r"[^()\n]{0,12}\) ?[²³^×*/+÷]",  # an operand in parentheses
        r" (?:decimals?|significant|sig\.?|places?|digits?)\b",
    )
)
_LIST_ITEM = lazy_regex(r"[.)]\s+[A-Za-z]")
_MINUS_WORD = lazy_regex(r"\b(?:minus|negative)\s\Z", re.IGNORECASE)
_YEAR = lazy_regex(r"(?:19[5-9]|20[0-4])[0-9]")
_BEFORE_YEAR = lazy_regex(
    r"(?!(?:is|are|was|of|to|about|approximately|answer|score|total|result|value)\b)\b[A-Za-z.&-]{2,}[,(]? ?\(?\Z", re.I
)
_AFTER_YEAR = lazy_regex(r" ?(?:[A-Z]{2}|\)|guideline|equation|formula|version|criteria|update)")
_INPUT = lazy_regex(
    r"(?<![A-Za-z+/-])(?<!\d)(?<!\d )"
    r"(?:body weight|weight|wt|height|ht|age|sodium|u?p?na\+?|potassium|k\+|chloride|cl-?|bicarbonate|hco3-?|s?u?p?cr|"
    r"(?:serum )?creatinine|glucose|albumin|bun|urea|bilirubin|inr|platelets?|plt|ast|alt|hr|heart rate|rr|respiratory rate|"
    r"sbp|dbp|bp|blood pressure|temp(?:erature)?|t|spo2|pao2|paco2|fio2|ph|wbc|qt|insulin|tc|hdl|tg|triglycerides|"
    r"(?:total )?cholesterol|hba1c|lactate|hematocrit|hct|phosph\w*|aps|meld|t3|t4|b12|e|v|m|normal(?: \w+)?|cut-?off|threshold|"
    r"upper limit|lower limit|reference|goal|starting|dose per|weighs|weighing)"
    r"[\"']?(?:\s?\([^()]{0,20}\))?(?:\s(?:is|was|of|at))?\s?[:=≈(]?\s?(?:approximately\s|about\s|=\s)?(?:[-+]\s?)?\Z",
    re.IGNORECASE,
)
_OUTPUT = lazy_regex(
    r"\b(?:corrected|adjusted|ideal|target|estimated|calculated|computed|predicted|excretion|meld[ -]na)\b[^\d,.;:=\n]*"
    r"(?:[:=]\s?)?\Z",
    re.IGNORECASE,
)
_AFTER_INPUT = lazy_regex(r" ?(?:cm|m|in|inches|ft|feet) tall\b")
_PERCENT = lazy_regex(r" ?%")
_CHANCE = lazy_regex(r"\b(?:mortality|survival)\b[^\d.;\n]*\Z", re.IGNORECASE)
_UNIT = lazy_regex(
    r"[\s)\]\"'}|*.]*(?:%|[A-Za-zµμ°²³][\w°²³⁻¹/^.·*\\{}-]{0,24}(?:\s?/\s?[\w²³.]{1,10})?(?:\s(?:m²|m\^?\{?2\}?|h|per \w{1,8})){0,2})?[\s)\]\"'}|*.!✅]*"
)


def read_number(completion: str) -> float | None:
    """Read the number that a completion gives as its answer; None if there is none, or it is ambiguous.

    Units and percent signs are ignored: "25%" is 25. A comma between groups of three digits separates thousands
    ("1,250"); any other single comma is a decimal comma ("0,85"). The number is finite.

    >>> read_number("BMI = 70 / 1.6^2 ≈ 27.3 kg/m²"), read_number("CKD-EPI 2021: 88"), read_number("5-7")
    (27.3, 88.0, None)
    """
    text = answer_text(completion)
    whole = _as_float(text)
    if whole is not None:
        return whole
    text = _plain(text)
    return stated(text, list(islice(_values(text), _MOST)), unit=_UNIT)


def _as_float(text: str) -> float | None:
    """Convert `text` if it is a finite number and nothing else."""
    if len(text) > _MAX_DIGITS:
        return None
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _plain(text: str) -> str:
    """Return `text` with figures, decimal marks, minus signs and TeX signs written in one way."""
    text = _TEX_SIGN.sub(lambda sign: _TEX_SIGNS[sign[0]], text)
    text = _MARKUP.sub("", text).translate(_CHARACTERS)
    if not text.isascii():
        text = _DIGIT.sub(lambda digit: str(unicodedata.digit(digit[0])), text)
        text = _MIDDLE_POINT.sub(".", text)
        text = _VULGAR.sub(lambda number: f"{int(number[1] or 0) + unicodedata.numeric(number[2]):.10g}", text)
    text = _MIXED.sub(_mixed, text)
    return _GROUPED_BY_SPACES.sub(lambda number: number[1] + number[2].replace(" ", "'"), in_figures(text))


def _mixed(match: re.Match[str]) -> str:
    """Return a whole number and a fraction as one decimal number: 3 1/2 is 3.5."""
    whole, upper, lower = (int(group) for group in match.groups())
    return f"{whole + upper / lower:.10g}" if upper < lower else match[0]


def _values(text: str) -> Iterator[Value[float]]:
    """Yield the numbers that can be an answer."""
    main = without_asides(text)
    scales = {scale.start("score"): scale for scale in _SCALE.finditer(text) if _is_scale(scale)}
    for match in _NUMBER.finditer(text):
        start, end = match.span()
        scale = scales.get(start)
        if scale is not None:
            yield Value(float(scale["score"]), start, scale.end())
            continue
        value = _value(match)
        # What is in parentheses stands between an operator and its operand: "2 (age) + 1 (sex) = 3".
        context = main if main[start] != ASIDE else text
        if value is None or _is_something_else(context, match) or _is_year(text, match):
            continue
        if _MINUS_WORD.search(text, max(0, start - _BESIDE), start):
            value = -abs(value)
        line = max(0, text.rfind("\n", 0, start) + 1, start - _LABEL)
        minor = _AFTER_INPUT.match(text, end)
        if not minor and not _OUTPUT.search(text, line, start):
            minor = _INPUT.search(text, line, start)
        if not minor and _PERCENT.match(text, end):
            minor = _CHANCE.search(text, line, start)
        yield Value(value, start, end, bool(minor))


def _is_scale(match: re.Match[str]) -> bool:
    """Return True if a match of `_SCALE` is a score and its highest possible value."""
    score, points = int(match["score"]), int(match["points"])
    return score <= points and (points >= _FEWEST_POINTS or bool(match["before"] or match["after"]))


def _is_something_else(text: str, match: re.Match[str]) -> bool:
    """Return True if a number is part of something else, by its context."""
    start, end = match.span()
    before, after = text[max(0, start - _BESIDE) : start], text[end : end + _BESIDE]
    if match["sign"] and before and (before[-1].isalnum() or before[-1] in ")²³+"):
        return True
    if any(pattern.search(before) for pattern in _SOMETHING_ELSE_BEFORE):
        return True
    if any(pattern.match(after) for pattern in _SOMETHING_ELSE_AFTER):
        return True
    if start == 0:
        return match["digits"] == "1" and "\n2" in text and _LIST_ITEM.match(after) is not None
    return before.endswith("\n") and _LIST_ITEM.match(after) is not None


def _is_year(text: str, match: re.Match[str]) -> bool:
    """Return True if a number is the year of a formula: CKD-EPI 2021, Friedewald (1972), the 2021 guideline."""
    start, end = match.span()
    if not _YEAR.fullmatch(match["digits"]):
        return False
    after_name = _BEFORE_YEAR.search(text, max(0, start - _BESIDE), start) and not re.match(
        r" ?(?:m?[lL]|[mµnpk]?g|ms(?:ec)?|cells|points?|m?mol|kcal|mOsm|units?|IU|U)\b", text[end : end + 8]
    )
    return bool(after_name or _AFTER_YEAR.match(text, end))


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
