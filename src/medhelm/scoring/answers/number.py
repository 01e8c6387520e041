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
import unicodedata
from collections.abc import Iterator

from medhelm.io.plugins import lazy_regex
from medhelm.scoring.answers.stated_value import ASIDE, Value, middle_removed, stated, without_asides
from medhelm.scoring.answers.text import answer_text, before_next_task, unwrapped

_MAX_DIGITS = 40
_MINUS_WITHIN = 16  # characters before a number that may hold "minus"
_SCALE_WITHIN = 44  # characters before a score that may hold the word for its scale
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
    text = answer_text(unwrapped(before_next_task(completion)))
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
        if _MINUS_WORD.search(text, max(0, start - _MINUS_WITHIN), start):
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
    return bool(match["after"] or _SCALE_WORD.search(match.string, max(0, start - _SCALE_WITHIN), start))


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


# --- number context ---------------------------------------------------------------------------------------------------
# Tell from the words beside a number whether it can be an answer.
#
# A number that is part of a name, unit, ratio, date or calculation never is. An input of a formula, a normal limit or a
# category is one only in a text without another number.

_CONTEXT = 24  # characters of context on each side of a number
_LABEL_WITHIN = 40  # characters before a number that may hold its label

# "\x00" stands for what is in parentheses, which may be an operand.
_OTHER_BEFORE = tuple(
    lazy_regex(rf"(?:{pattern})\Z", re.IGNORECASE)
    for pattern in (
        r"[A-Za-z0-9µ\u00c0-\u1fff.^\\'/√#]",  # the end of a name, number, unit or fraction
        r"(?<![-=])[<>]=? ?|[≤≥±] ?",  # a bound or a margin
        r"\b(?:than|than or equal to|min\.|max\.|least|most|above|below|over|under|exceeds|start(?:s|ing) at|up to) ",
        r"[0-9]:|[0-9] in |\b(?:per|out of(?: an?)?(?: possible| maximum| total)?(?: of)?) ",  # of a ratio
        r"\b(?:[0-9]{1,3}|one|none|any|all|some|each|most) of (?:the |all )?",  # a scale
        r"[+×÷*/^√] ?|\bplus |(?<![A-Za-z])x ?|[0-9)\x00] ?- ?|\^ ?\{|frac ?\{|\} ?\{",  # an operand
        r"[/×*+÷√^-] ?\([^()]{0,12}|\b(?:ln|log|log10|exp|sqrt) ?\(?",  # an operand in parentheses
        r"(?<!\^)\baged?(?: |: | = )|(?<!\^)\bage(?: |: | = )",  # an age
        r"\b(?:version|v\.|steps?|table|figure|part|item|eq\.|equation|ref\.?|page|no\.) ",
        r"[0-9] ?(?:ft|feet|foot|') ?",  # inches beside feet
        r"\b(?:pmid|pmc|doi|isbn|mrn)[: ]{1,2}",
        r"\b(?:MELD[ -]?|(?:SAPS|PRISM|PIM|NEWS|CKiD|EuroSCORE|QRISK|KDIGO|GOLD|Rome|DSM|ICD)[ -](?=[1-5]))",
        r"\b(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
        r"|oct(?:ober)?|(?:nov|dec)(?:ember)?)\.? (?:\d{1,2}(?:st|nd|rd|th)?,? ?)?",  # a date
    )
)
_OTHER_AFTER = tuple(
    lazy_regex(pattern, re.IGNORECASE)
    for pattern in (
        r"%? ?- ?\(?[0-9]",  # the beginning of a range
        r" or (?:more|higher|greater|above|less|fewer|lower|below)\b",  # a bound
        r":[0-9]| in [0-9]| ?/ ?\(?[0-9]| ?[<>] ?[0-9]",  # a ratio, a fraction or a comparison
        r"[⁰¹²³⁴⁵⁶⁷⁸⁹]|-[A-Za-z]|(?:st|nd|rd|th)\b",  # a power, a name or an ordinal
        r" ?[)\x00]* ?(?:[+÷√] ?\(?-?[0-9√(\x00]|\^ ?[-(\w\x00]|/ ?(?:[(√0-9\x00]|\Z)|[×*] ?[\w(√\x00])",  # an operand
        r" ?(?:ft|feet|foot|') ?[0-9]",  # feet beside inches
        r" ?[)\x00]* ?(?:[=≈] ?-?\(?[0-9]| ?x ?[(\x00]?[0-9\x00]| - [(\d\x00])",
        r" ?(?!ml ?/ ?\x00)[A-Za-zµ°²³%][\w/^²³]{0,11} ?(?:[×*+÷] ?[(\w√\x00]|x ?\d|/ ?[(\x00]| [-/] -?[(\d\x00])",
        r"[^()\n]{0,12}\) ?[²³^×*/+÷]",  # an operand in parentheses
        r"[ -]?(?:years?|yrs?)[ -](?:old|of age)\b|[ -]?(?:years?|yrs?)\b(?! risk)| ?y/?o\b",  # an age
        r" (?:decimals?|significant|sig\.?|places?|digits?)\b",
    )
)
_SQUARE_METERS, _OF_UNIT = lazy_regex(r" ?m"), lazy_regex(r"[·*] ?\Z")
_AND_MORE = lazy_regex(r"\+ ?(?![ \d(√])")  # 60+; but 3+ is a grade
_LIST_ITEM = lazy_regex(r"[.)][ \t]+\S")
_ONLY_ITEM = lazy_regex(r"[.)]\s+[-~≈]?\d")

_YEAR = lazy_regex(r"(?:19[5-9]|20[0-4])[0-9]")
_BEFORE_YEAR = lazy_regex(
    r"(?:\bas of |(?!(?:is|are|was|of|to|about|approximately|answer|score|total|result|value)\b)\b[A-Za-z.&-]{2,}"
    r"[,(]? ?\(?)\Z",
    re.IGNORECASE,
)
_AFTER_YEAR = lazy_regex(r" ?(?:[A-Z]{2}|\)|guideline|equation|formula|version|criteria|update)")
_UNIT_OF_COUNT = lazy_regex(r" ?(?:m?[lL]|[mµnpk]?g|ms(?:ec)?|cells|points?|m?mol|kcal|mOsm|units?|IU|U)\b")

_INPUTS = (
    r"body weight|weight|wt|height|ht|age|weighs|weighing|sodium|u?p?na\+?|potassium|k\+|chloride|cl-?"
    r"|bicarbonate|hco3-?|lactate|phosph\w*|(?:serum )?creatinine|s?u?p?cr|glucose|albumin|bun|urea|bilirubin"
    r"|inr|insulin|platelets?|plt|ast|alt|wbc|hematocrit|hct|hba1c|t3|t4|b12|tc|hdl|tg|triglycerides"
    r"|(?:total )?cholesterol|heart rate|hr|respiratory rate|rr|sbp|dbp|bp|blood pressure|temp(?:erature)?|t"
    r"|spo2|pao2|paco2|fio2|ph|qt|aps|meld|e|v|m|normal(?: \w+)?|cut-?offs?|thresholds?|factor(?: of)?"
    r"|upper limit|lower limit|reference|goal|maximum(?: of)?|max|minimum(?: of)?|starting|dose per|stage"
    r"|class|phase|type|grade|day|every|within|the last"
)
"""Labels of inputs, limits and categories."""

_INPUT = lazy_regex(
    rf"(?<![A-Za-z+/-])(?<!\d)(?<!\d )(?:{_INPUTS})[\"']?(?:\s?\([^()]{{0,20}}\))?"
    r"(?:\s(?:is|was|of|at))?\s?[:=≈(]?\s?(?:approximately\s|about\s|=\s)?(?:[-+]\s?)?\Z",
    re.IGNORECASE,
)
_POINTS_IN_ASIDE = lazy_regex(r" points?\)")
_TALL = lazy_regex(r" ?(?:cm|m|in|inches|ft|feet) tall\b")
_CHANCE = lazy_regex(r"\b(?:mortality|survival)\b[^\d.;\n]*\Z", re.IGNORECASE)
_RISK = lazy_regex(r"\b(?:risk|rate|probability|likelihood|chance|incidence)\b[^\d.;\n]*\Z", re.IGNORECASE)
_PERCENT = lazy_regex(r" ?%")
_OUTPUT = lazy_regex(
    r"\b(?:corrected|adjusted|ideal|target|estimated|calculated|computed|predicted|excretion|meld[ -]na)\b"
    r"[^\d,.;:=\n]*(?:[:=]\s?)?\Z",
    re.IGNORECASE,
)


def is_something_else(text: str, match: re.Match[str]) -> bool:
    """Return True if a number is part of a name, unit, ratio, date, range, bound or calculation.

    Parameters
    ----------
    text
        The text, with "\\x00" in place of what is in parentheses.
    match
        A match with the groups `sign` and `digits`, of the same text.
    """
    start, end = match.span()
    before, after = text[max(0, start - _CONTEXT) : start], text[end : end + _CONTEXT]
    if match["sign"] and before and (before[-1].isalnum() or before[-1] in ")²³+"):
        return True
    if match["digits"] == "1.73" and _SQUARE_METERS.match(after) and _OF_UNIT.search(before):
        return True
    if len(match["digits"]) > 1 and _AND_MORE.match(after):
        return True
    if any(pattern.search(before) for pattern in _OTHER_BEFORE):
        return True
    if any(pattern.match(after) for pattern in _OTHER_AFTER):
        return True
    if start == 0:
        item = _LIST_ITEM if "\n2" in text else _ONLY_ITEM
        return match["digits"] == "1" and item.match(after) is not None
    return before.endswith("\n") and _LIST_ITEM.match(after) is not None


def is_year(text: str, match: re.Match[str]) -> bool:
    """Return True if a number is the year of a formula or guideline: CKD-EPI 2021, Friedewald (1972)."""
    start, end = match.span()
    if not _YEAR.fullmatch(match["digits"]):
        return False
    named = _BEFORE_YEAR.search(text, max(0, start - _CONTEXT), start) and not _UNIT_OF_COUNT.match(text, end)
    return bool(named or _AFTER_YEAR.match(text, end))


def is_input(text: str, start: int, end: int) -> bool:
    """Return True if text[start:end] is labeled as an input of a formula, a limit or a category.

    "Weight 70 kg" is an input, and "ideal body weight 70 kg" is none.
    """
    line = max(0, text.rfind("\n", 0, start) + 1, start - _LABEL_WITHIN)
    if _TALL.match(text, end) or _POINTS_IN_ASIDE.match(text, end):
        return True
    if _PERCENT.match(text, end) and _CHANCE.search(text, line, start):
        return True
    return bool(_INPUT.search(text, line, start)) and not _OUTPUT.search(text, line, start)


def is_risk(text: str, start: int, end: int) -> bool:
    """Return True if text[start:end] is the percentage of a risk: "annual stroke risk 4.8%"."""
    line = max(0, text.rfind("\n", 0, start) + 1, start - _LABEL_WITHIN)
    return _PERCENT.match(text, end) is not None and _RISK.search(text, line, start) is not None


# --- numerals ---------------------------------------------------------------------------------------------------------
# Write the numbers of a text in one way: figures 0 to 9, a decimal point, no blanks between groups of digits.
#
# Models write "27,4", "27·4", "٢٧٫٤", "２７．４", "1 234.5", "2½", "3 1/2" and "twenty-seven".

_WORDS_BEFORE = 24  # characters of context before a word
_SIGNS = (
    {"`": "", "_": " ", "’": "'", "≅": "≈", "∼": "~", "⁄": "/", "∕": "/", "٫": ".", "٬": ","}
    | dict.fromkeys("\u202f\u2009\u2007", "\u00a0")  # no-break spaces between groups of digits
    | dict.fromkeys("\u2011\u2012−–﹣", "-")
)
_SIGN = lazy_regex(f"[{''.join(_SIGNS)}]")
_TEX_SIGNS = {"approx": "≈", "sim": "~", "times": "×", "cdot": "·", "div": "÷", "to": "→", "rightarrow": "→"}
_TEX_SIGN = lazy_regex(rf"\\({'|'.join(_TEX_SIGNS)})(?![a-z])")
_MARKUP = lazy_regex(
    r"(?<![\d)])\*\*|\*\*(?! ?[\d(])"  # bold, but not a power: 10**3
    r"|\\(?=[%#&_ ])|\\(?:[()\[\],;!]|displaystyle|quad|boxed|underline)\s?|\$(?! ?\d{4})|\{(?=,)|(?<=,)\}"
)
_DIGIT = lazy_regex(r"(?![0-9])\d")
_MIDDLE_POINT = lazy_regex(r"(?<=[0-9])·(?=[0-9])(?!10\s?[\^⁰¹²³⁴⁵⁶⁷⁸⁹⁻*])")
_VULGAR = lazy_regex(r"(?<![0-9/.,])(?:([0-9]{1,3})\s?)?([¼-¾⅐-⅞])")
_MIXED = lazy_regex(r"(?<![\w/.,^])([0-9]{1,3}) ([1-9])/([2-9]|1[0-6])(?![\w/.,]{0,20}[\w/])")
_GROUPED_BY_SPACES = lazy_regex(
    r"(?<![\w.,/'+*×÷^-])(?<![\d.,] )(?<!day )(?<!take )(?<!step )"
    r"([-+]?[1-9][0-9]{0,2})((?: [0-9]{3})+)(?![\d/'-]|[.,]\d+[.,]\d| \d| ?m?c?g (?:tab|cap|pill))",
    re.IGNORECASE,
)

ONES = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
"""Words for 0 to 19."""
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_WORDS = {word: n for n, word in enumerate(ONES)} | {word: 10 * n for n, word in enumerate(_TENS, 2)}
_SMALL = "|".join(sorted(_WORDS, key=len, reverse=True))
_ANY = f"{_SMALL}|hundred|thousand"
_SPELLED = lazy_regex(
    rf"\b(?=[zotfsenh])(?P<whole>(?:(?:{_ANY})\b(?:\sand\s(?=(?:{_SMALL})\b)|[ -](?=(?:{_ANY})\b))?){{1,8}})"
    rf"(?:\s?point(?P<decimals>(?:\s(?:{'|'.join(ONES[:10])})\b){{1,6}})|\s?(?P<half>and a half)\b)?",
    re.IGNORECASE,
)
_WORD = lazy_regex(r"[a-z]+", re.IGNORECASE)
_PRONOUN_BEFORE = lazy_regex(r"\b(?:no|any|some|every|each|this|that|the|which)\s\Z", re.IGNORECASE)
_NUMERAL_AFTER = lazy_regex(
    r"\W{0,4}(?:\Z|\n|[.,;!)]|(?:points?|criteri(?:a|on)|weeks?|days?|out of)\b"
    rf"|of (?:the |all )?(?:\d|(?:{_SMALL})\b))",
    re.IGNORECASE,
)


def plain_numbers(text: str) -> str:
    """Return `text` with numbers, minus signs and the TeX signs between them written in one way.

    >>> plain_numbers("٢٧٫٤ or 2½ or 1 234.5 or twenty-seven")
    "27.4 or 2.5 or 1'234.5 or 27"
    """
    text = _TEX_SIGN.sub(lambda sign: _TEX_SIGNS[sign[1]], text)
    text = _SIGN.sub(lambda sign: _SIGNS[sign[0]], _MARKUP.sub("", text))
    if not text.isascii():
        text = ascii_digits(text)
        text = _MIDDLE_POINT.sub(".", text)
        text = _VULGAR.sub(lambda number: f"{int(number[1] or 0) + unicodedata.numeric(number[2]):.10g}", text)
    text = _MIXED.sub(_mixed, in_figures(text))
    return _GROUPED_BY_SPACES.sub(lambda number: number[1] + number[2].replace(" ", "'"), text)


def ascii_digits(text: str) -> str:
    """Return `text` with the decimal digits of other scripts as 0 to 9."""
    return _DIGIT.sub(lambda digit: str(unicodedata.digit(digit[0])), text)


def in_figures(text: str) -> str:
    """Return `text` with spelled numbers in figures, but "one" not where it is a pronoun.

    >>> in_figures("one hundred and twelve; four point five; each one")
    '112; 4.5; each one'
    """

    def figures(match: re.Match[str]) -> str:
        words = [word.lower() for word in _WORD.findall(match["whole"])]
        if words == ["one"] and not match["decimals"] and not match["half"] and not _is_numeral(text, match):
            return match[0]
        whole = _number_in_words(words)
        if match["decimals"]:
            return f"{whole}.{''.join(str(_WORDS[word]) for word in match['decimals'].lower().split())}"
        return f"{whole}{'.5' if match['half'] else ''}"

    return _SPELLED.sub(figures, text)


def _is_numeral(text: str, match: re.Match[str]) -> bool:
    """Return True if "one" is a number, and not a pronoun."""
    if not _NUMERAL_AFTER.match(text, match.end("whole")):
        return False
    return not _PRONOUN_BEFORE.search(text, max(0, match.start() - _WORDS_BEFORE), match.start())


def _number_in_words(words: list[str]) -> int:
    """Return the number that words spell: ["one", "hundred", "and", "twelve"] is 112."""
    total = part = 0
    for word in words:
        if word == "thousand":
            total, part = total + 1000 * (part or 1), 0
        elif word == "hundred":
            part = 100 * (part or 1)
        else:
            part += _WORDS.get(word, 0)
    return total + part


def _mixed(match: re.Match[str]) -> str:
    """Return a whole number and a fraction as one decimal number: 3 1/2 is 3.5."""
    whole, upper, lower = (int(group) for group in match.groups())
    return f"{whole + upper / lower:.10g}" if upper < lower else match[0]
