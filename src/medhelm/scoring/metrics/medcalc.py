"""Metrics that know a data set: clinical calculations.

MedCalc-Bench asks for a value computed from a patient note. What counts as right depends on the calculator: a date, a
gestational age in weeks and days, a score in whole points, or a number within 5 % of the reference.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import date, datetime
from typing import NamedTuple

from medhelm.domain import Instance, Rule
from medhelm.errors import DataError
from medhelm.scoring.answers.date import read_date, read_weeks_and_days
from medhelm.scoring.answers.number import read_number
from medhelm.scoring.metric import Metric, correct_references

# The calculators of MedCalc-Bench by the form of their answer, from its authors' evaluation.
_DATES = frozenset({13, 68})
_WEEKS_AND_DAYS = frozenset({69})
_POINTS = frozenset({4, 15, 16, 17, 18, 20, 21, 25, 27, 28, 29, 32, 33, 36, 43, 45, 48, 51})
_VALUES = frozenset({2, 3, *range(5, 12), 19, 22, 23, 24, 26, 30, 31, 38, 39, 40, 44, 46, 49, *range(56, 68)})

_PUBLISHED_EQUAL = frozenset({"risk", "severity", "diagnosis"})
_PUBLISHED_RANGE = frozenset({"date", "physical", "dosage conversion"})
_PUBLISHED_AGE = re.compile(r"\('(\d+) weeks', '(\d+) days'\)")


class _Verdict(NamedTuple):
    """Whether an answer is right."""

    right: bool
    reason: str = ""
    """Why it is not, in words; empty if it is, or if no answer could be read."""


def _corrected(reply: str, instance: Instance) -> _Verdict:
    """The rule of the data set's authors, with a tolerant reader of the answer."""
    calculator = _calculator(instance)
    if calculator in _DATES:
        return _equal(reply, correct_references(instance)[0], read_date, "date")
    if calculator in _WEEKS_AND_DAYS:
        return _equal(reply, correct_references(instance)[0], read_weeks_and_days, "number of weeks and days")
    if calculator in _POINTS:
        return _same_points(reply, correct_references(instance)[0])
    if calculator in _VALUES:
        return _within_limits(reply, instance)
    raise DataError(
        f"Calculator ID {calculator} is unknown: its kind of answer is not defined by MedCalc-Bench 1.0 to 1.2"
    )


def _equal(reply: str, reference: str, read: Callable[[str], date | tuple[int, int] | None], kind: str) -> _Verdict:
    """Whether `read` finds the same in the reply and in the reference."""
    expected = read(reference)
    if expected is None:
        raise DataError(f"the reference {reference!r} holds no {kind}, so no answer could be right")
    answer = read(reply)
    if answer is None or answer == expected:
        return _Verdict(answer is not None)
    return _Verdict(False, f"{_words(answer)} is not {_words(expected)}")


def _words(value: date | tuple[int, int]) -> str:
    """A date or a pair of weeks and days for people."""
    return value.isoformat() if isinstance(value, date) else f"{value[0]} weeks {value[1]} days"


def _same_points(reply: str, reference: str) -> _Verdict:
    """Whether the answer, rounded to a whole number (halves to the even one), is the reference."""
    expected = read_number(reference)
    if expected is None:
        raise DataError(f"the reference {reference!r} holds no number, so no answer could be right")
    answer = read_number(reply)
    if answer is None or round(answer) == expected:
        return _Verdict(answer is not None)
    return _Verdict(False, f"{answer:g}, to the nearest whole number, is not {expected:g}")


def _within_limits(reply: str, instance: Instance) -> _Verdict:
    """Whether the answer lies within the limits of the data, both included, in whatever order they are given."""
    limits = [_limit(instance, name) for name in ("Lower Limit", "Upper Limit")]
    low, high = min(limits), max(limits)
    answer = read_number(reply)
    if answer is None or low <= answer <= high:
        return _Verdict(answer is not None)
    return _Verdict(False, f"{answer:.10g} lies outside its limits, {low:.10g} to {high:.10g}")


def _explain(reply: str, instance: Instance, rule: Rule) -> str:
    """Why an answer is not right; of the published rule only what it does to whole categories is worth telling."""
    if rule == "corrected":
        return _corrected(reply, instance).reason
    category = _column(instance, "Category")
    known = category in _PUBLISHED_EQUAL | _PUBLISHED_RANGE
    return "" if known else f"the published rule scores no answer of category `{category}`"


def _published(reply: str, instance: Instance) -> bool:
    """The rule of the published leaderboard: by category, read strictly. Answers of category `lab` and `dosage`, two of
    seven in the data, never score: the rule knows other names for them.
    """
    answer, reference, category = reply.strip(), correct_references(instance)[0], _column(instance, "Category")
    if category in _PUBLISHED_EQUAL:
        return answer == reference
    if category not in _PUBLISHED_RANGE:
        return False
    read: Callable[[str], datetime | int | float] = float
    if category == "date":
        read = _published_age if _PUBLISHED_AGE.match(reference) else _published_date
    low, high = _column(instance, "Lower Limit"), _column(instance, "Upper Limit")
    try:
        return bool(read(low) <= read(answer) <= read(high))  # type: ignore[operator]
    except ValueError:
        return False


def _published_date(text: str) -> datetime:
    """A date in digits, month first. Raises ValueError for anything else."""
    return datetime.strptime(text, "%m/%d/%Y")


def _published_age(text: str) -> int:
    """Days of a text that begins as ('14 weeks', '2 days'). Raises ValueError for anything else."""
    match = _PUBLISHED_AGE.match(text)
    if match is None:
        raise ValueError(text)
    return int(match[1]) * 7 + int(match[2])


def _column(instance: Instance, name: str) -> str:
    """A column of the data. Raises DataError if it was not kept with the instance."""
    try:
        return instance.metadata[name]
    except KeyError:
        raise DataError(f"column `{name}` is missing; name it under `metadata_columns` of the benchmark") from None


def _calculator(instance: Instance) -> int:
    """Number of the calculator. Raises DataError if it is none."""
    text = _column(instance, "Calculator ID")
    try:
        return int(text)
    except ValueError:
        raise DataError(f"`Calculator ID` is {text!r}, which is no whole number") from None


def _limit(instance: Instance, name: str) -> float:
    """A limit of the data. Raises DataError if it is no number: then no answer could be right."""
    text = _column(instance, name)
    try:
        limit = float(text)
    except ValueError:
        limit = math.nan
    if not math.isfinite(limit):
        raise DataError(f"`{name}` is {text!r}, which is no number, so no answer could be right")
    return limit


MEDCALC_ACCURACY = Metric(
    name="medcalc_accuracy",
    title="MedCalc accuracy",
    description=(
        "Share of values that are right: within 5 % of the reference, or equal to it for dates and whole points. "
        "An answer without a readable value scores 0."
    ),
    source="MedCalc-Bench (Khandekar et al., 2024), evaluation by calculator; published rule: HELM, by category",
    published=lambda reply, instance: float(_published(reply, instance)),
    corrected=lambda reply, instance: float(_corrected(reply, instance).right),
    explain=_explain,
)
"""Whether a computed clinical value is right."""
