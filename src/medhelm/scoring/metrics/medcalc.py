"""Accuracy on MedCalc-Bench, which asks for a value computed from a patient note.

The kind of value depends on the calculator: a date, a gestational age in weeks and days, a score in whole points, or a
number that must be within 5% of the reference.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import date, datetime
from functools import cache
from typing import NamedTuple, TypeAlias

from medhelm.domain import Instance, Rule
from medhelm.domain.text import METRIC_TITLES
from medhelm.errors import DataError
from medhelm.scoring.answers.date import read_date, read_weeks_and_days
from medhelm.scoring.answers.number import read_number
from medhelm.scoring.metric import AnswerReader, Metric, correct_references, metadata_text

# The calculators of MedCalc-Bench by the form of their answer, from its authors' evaluation.
_DATES = frozenset({13, 68})
_WEEKS_AND_DAYS = frozenset({69})
_POINTS = frozenset({4, 15, 16, 17, 18, 20, 21, 25, 27, 28, 29, 32, 33, 36, 43, 45, 48, 51})
_VALUES = frozenset({2, 3, *range(5, 12), 19, 22, 23, 24, 26, 30, 31, 38, 39, 40, 44, 46, 49, *range(56, 68)})

_QUANTITIES = {
    2: "creatinine clearance|CrCl|Cockcroft-Gault",
    3: "e?GFR|glomerular filtration rate|CKD-EPI",
    4: "CHA2DS2-VASc",
    5: "mean arterial (?:blood )?pressure|MAP",
    6: "body mass index|BMI",
    7: "corrected (?:serum |total )?(?:calcium|Ca)|calcium correction",
    8: "Wells",
    9: "e?GFR|glomerular filtration rate|MDRD",
    10: "ideal body weight|IBW",
    11: "QTcB?|corrected QT",
    13: "due date|EDD|EDC|delivery",
    15: "Child(?:-Turcotte)?-Pugh",
    16: "Wells",
    17: "(?:revised )?cardiac risk index|RCRI",
    18: "HEART score",
    19: "FIB-4|fibrosis-4",
    20: "Centor|McIsaac",
    21: "GCS|Glasgow coma (?:score|scale)",
    22: "maintenance (?:IV )?(?:fluids?|rate)",
    23: "MELD[ -]?Na|MELD",
    24: r"(?<!\()equivalent|conver(?:ted|sion)(?! (?:factor|ratio|rate))",
    25: "HAS-BLED",
    26: "corrected (?:serum )?(?:sodium|Na)|sodium correction",
    27: "Glasgow[ -]Blatchford|Blatchford|GBS",
    28: "APACHE[ -](?:II|2)",
    29: "PSI|pneumonia severity index",
    30: "(?:serum |calculated )?osmolality",
    31: "HOMA-IR",
    32: "Charlson|CCI",
    33: "FeverPAIN",
    36: "Caprini",
    38: "free water deficit|FWD",
    39: "(?<!corrected )anion gap",
    40: "FENa|fractional excretion of sodium",
    43: "SOFA",
    44: "LDL",
    45: "CURB-65",
    46: "Framingham|10-year risk",
    48: "PERC",
    49: "MME|morphine milligram equivalents",
    51: "SIRS",
    56: "QTcF?|corrected QT|Fridericia",
    57: "QTc|corrected QT|Framingham",
    58: "QTcH?|corrected QT|Hodges",
    59: "QTcR?|corrected QT|Rautaharju",
    60: "body surface area|BSA",
    61: "target (?:body )?weight",
    62: "adjusted body weight|AdjBW|ABW",
    63: "(?<!corrected )delta gap",
    64: "(?<!corrected )delta ratio",
    65: "corrected anion gap",
    66: "corrected delta gap",
    67: "corrected delta ratio",
    68: "conception|conceived",
    69: "gestational age|E?GA",
}
"""Names of the quantity that each calculator computes, in the words of completions."""

_PUBLISHED_EQUAL = frozenset({"risk", "severity", "diagnosis"})
_PUBLISHED_RANGE = frozenset({"date", "physical", "dosage conversion"})
_PUBLISHED_AGE = re.compile(r"\('(\d+) weeks', '(\d+) days'\)")


_Moment: TypeAlias = date | tuple[int, int]
"""A date, or weeks and days."""


class _Verdict(NamedTuple):
    """The result of the corrected rule."""

    right: bool
    reason: str = ""
    """Explanation of a wrong value; "" for a correct or unreadable one."""


def _corrected(completion: str, instance: Instance) -> _Verdict:
    """Apply the rule of the dataset's authors, with a tolerant reader."""
    calculator = _calculator(instance)
    names = quantity_names(calculator)
    if calculator in _VALUES:
        return _within_limits(read_number(completion, names), instance)
    reference = correct_references(instance)[0]
    if calculator in _DATES:
        return _equal(read_date(completion, names), read_date(reference), reference, "date")
    if calculator in _WEEKS_AND_DAYS:
        answer, expected = read_weeks_and_days(completion, names), read_weeks_and_days(reference)
        return _equal(answer, expected, reference, "number of weeks and days")
    if calculator in _POINTS:
        return _same_points(read_number(completion, names), reference)
    raise DataError(
        f"Calculator ID {calculator} is unknown: MedCalc-Bench 1.0 to 1.2 does not define its kind of value"
    )


def _read_value(completion: str, instance: Instance) -> _Verdict | None:
    """Return the verdict on the value in a completion; None without a readable value."""
    verdict = _corrected(completion, instance)
    return verdict if verdict.right or verdict.reason else None


@cache
def quantity_names(calculator: int) -> re.Pattern[str] | None:
    """Return the names of the quantity of a calculator."""
    names = _QUANTITIES.get(calculator)
    return re.compile(rf"(?<![A-Za-z])(?:{names})(?![A-Za-z])", re.IGNORECASE) if names else None


def _equal(answer: _Moment | None, expected: _Moment | None, reference: str, kind: str) -> _Verdict:
    """Compare the answer with what the reference holds."""
    if expected is None:
        raise DataError(f"the reference {reference!r} holds no {kind}, so no completion can be correct")
    if answer is None or answer == expected:
        return _Verdict(answer is not None)
    return _Verdict(False, f"{_value_in_words(answer)} is not {_value_in_words(expected)}")


def _value_in_words(value: _Moment) -> str:
    """Format a date, or weeks and days."""
    return value.isoformat() if isinstance(value, date) else f"{value[0]} weeks {value[1]} days"


def _same_points(answer: float | None, reference: str) -> _Verdict:
    """Compare the number, rounded to a whole one (halves to even), with the reference."""
    expected = read_number(reference)
    if expected is None:
        raise DataError(f"the reference {reference!r} holds no number, so no completion can be correct")
    if answer is None or round(answer) == expected:
        return _Verdict(answer is not None)
    return _Verdict(False, f"{answer:g}, to the nearest whole number, is not {expected:g}")


def _within_limits(answer: float | None, instance: Instance) -> _Verdict:
    """Compare the number with the limits of the data, both included, in any order."""
    limits = [_limit(instance, name) for name in ("Lower Limit", "Upper Limit")]
    low, high = min(limits), max(limits)
    if answer is None or low <= answer <= high:
        return _Verdict(answer is not None)
    return _Verdict(False, f"{answer:.10g} is outside its limits, {low:.10g} to {high:.10g}")


def _explain(completion: str, instance: Instance, rule: Rule) -> str:
    """Explain a wrong value; for the published rule, only categories that can never score."""
    if rule == "corrected":
        return _corrected(completion, instance).reason
    category = metadata_text(instance, "Category")
    known = category in _PUBLISHED_EQUAL | _PUBLISHED_RANGE
    return "" if known else f"the published rule gives every completion of category `{category}` 0"


def _published(completion: str, instance: Instance) -> bool:
    """Apply the rule of the published leaderboard: by category, with a strict reader.

    Completions of the categories `lab` and `dosage`, two of seven in the data, never score: the rule has other names
    for them.
    """
    answer, reference, category = (
        completion.strip(),
        correct_references(instance)[0],
        metadata_text(instance, "Category"),
    )
    if category in _PUBLISHED_EQUAL:
        return answer == reference
    if category not in _PUBLISHED_RANGE:
        return False
    read: Callable[[str], datetime | int | float] = float
    if category == "date":
        read = _published_age if _PUBLISHED_AGE.match(reference) else _published_date
    low, high = metadata_text(instance, "Lower Limit"), metadata_text(instance, "Upper Limit")
    try:
        return bool(read(low) <= read(answer) <= read(high))  # type: ignore[operator]
    except ValueError:
        return False


def _published_date(text: str) -> datetime:
    """Read a date in digits, month first. Raises ValueError for anything else."""
    return datetime.strptime(text, "%m/%d/%Y")


def _published_age(text: str) -> int:
    """Return the days of a text that begins like ('14 weeks', '2 days'). Raises ValueError for anything else."""
    match = _PUBLISHED_AGE.match(text)
    if match is None:
        raise ValueError(text)
    return int(match[1]) * 7 + int(match[2])


def _calculator(instance: Instance) -> int:
    """Return the number of the calculator. Raises DataError if it is not a number."""
    text = metadata_text(instance, "Calculator ID")
    try:
        return int(text)
    except ValueError:
        raise DataError(f"`Calculator ID` is {text!r}, which is not a whole number") from None


def _limit(instance: Instance, name: str) -> float:
    """Return a limit of the data. Raises DataError if it is not a finite number."""
    text = metadata_text(instance, name)
    try:
        limit = float(text)
    except ValueError:
        limit = math.nan
    if not math.isfinite(limit):
        raise DataError(f"`{name}` is {text!r}, which is not a finite number, so no completion can be correct")
    return limit


MEDCALC_ACCURACY = Metric(
    name="medcalc_accuracy",
    title=METRIC_TITLES["medcalc_accuracy"],
    description=(
        "Share of correct values: within 5% of the reference, or equal to it for dates and whole points. A completion "
        "without a readable value scores 0."
    ),
    source="MedCalc-Bench (Khandekar et al., 2024), evaluation by calculator; published rule: HELM, by category",
    published=lambda completion, instance: float(_published(completion, instance)),
    corrected=lambda completion, instance: float(_corrected(completion, instance).right),
    explain=_explain,
    reads=AnswerReader("value", _read_value),
)
