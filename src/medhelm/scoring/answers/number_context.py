"""Tell from the words beside a number whether it can be an answer.

A number that is part of a name, unit, ratio, date or calculation never is. An input of a formula, a normal limit or a
category is one only in a text without another number.
"""

from __future__ import annotations

import re

from medhelm.io.lazy_regex import lazy_regex

_BESIDE = 24  # characters of context on each side of a number
_LABEL = 40  # characters before a number that may hold its label

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
    *("body weight", "weight", "wt", "height", "ht", "age", "weighs", "weighing"),
    *(
        "sodium",
        r"u?p?na\+?",
        "potassium",
        r"k\+",
        "chloride",
        "cl-?",
        "bicarbonate",
        "hco3-?",
        "lactate",
        r"phosph\w*",
    ),
    *("(?:serum )?creatinine", "s?u?p?cr", "glucose", "albumin", "bun", "urea", "bilirubin", "inr", "insulin"),
    *("platelets?", "plt", "ast", "alt", "wbc", "hematocrit", "hct", "hba1c", "t3", "t4", "b12"),
    *("tc", "hdl", "tg", "triglycerides", "(?:total )?cholesterol"),
    *("heart rate", "hr", "respiratory rate", "rr", "sbp", "dbp", "bp", "blood pressure", "temp(?:erature)?", "t"),
    *("spo2", "pao2", "paco2", "fio2", "ph", "qt", "aps", "meld", "e", "v", "m"),
    *(
        r"normal(?: \w+)?",
        "cut-?offs?",
        "thresholds?",
        "factor(?: of)?",
        "upper limit",
        "lower limit",
        "reference",
        "goal",
    ),
    *("maximum(?: of)?", "max", "minimum(?: of)?", "starting", "dose per"),
    *("stage", "class", "phase", "type", "grade", "day", "every", "within", "the last"),
)
"""Labels of inputs, limits and categories."""

_INPUT = lazy_regex(
    rf"(?<![A-Za-z+/-])(?<!\d)(?<!\d )(?:{'|'.join(_INPUTS)})[\"']?(?:\s?\([^()]{{0,20}}\))?"
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
    before, after = text[max(0, start - _BESIDE) : start], text[end : end + _BESIDE]
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
    named = _BEFORE_YEAR.search(text, max(0, start - _BESIDE), start) and not _UNIT_OF_COUNT.match(text, end)
    return bool(named or _AFTER_YEAR.match(text, end))


def is_input(text: str, start: int, end: int) -> bool:
    """Return True if text[start:end] is labeled as an input of a formula, a limit or a category.

    "Weight 70 kg" is an input, and "ideal body weight 70 kg" is none.
    """
    line = max(0, text.rfind("\n", 0, start) + 1, start - _LABEL)
    if _TALL.match(text, end) or _POINTS_IN_ASIDE.match(text, end):
        return True
    if _PERCENT.match(text, end) and _CHANCE.search(text, line, start):
        return True
    return bool(_INPUT.search(text, line, start)) and not _OUTPUT.search(text, line, start)


def is_risk(text: str, start: int, end: int) -> bool:
    """Return True if text[start:end] is the percentage of a risk: "annual stroke risk 4.8%"."""
    line = max(0, text.rfind("\n", 0, start) + 1, start - _LABEL)
    return _PERCENT.match(text, end) is not None and _RISK.search(text, line, start) is not None
