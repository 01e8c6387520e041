"""Whether a number is right within limits that the data gives.

The limits, both included, come from metadata columns of the benchmark, whose names may be in any case and have blanks
or underscores between words:

    low, high                 (or lower limit, upper limit) the limits themselves; `-inf` and `inf` for none
    tolerance                 how far from the reference an answer may lie, in the reference's unit
    tolerance_percent         the same, in percent of the reference

Without any of them the answer must equal the reference. Published rule: the reply, but for blanks around it, must be a
number. Corrected rule: the reply may hold words, a unit and separators (`scoring.answers.number.read_number`).
"""

from __future__ import annotations

import math

from medhelm.domain import Instance, Rule
from medhelm.errors import DataError
from medhelm.scoring.answers.number import read_number
from medhelm.scoring.metric import Metric, correct_references

_LOW, _HIGH = ("low", "lower limit"), ("high", "upper limit")
_ROUNDING = 1e-9
"""Share of a limit by which an answer may lie beyond it: decimal fractions are not exact in binary."""


def _limits(instance: Instance) -> tuple[float, float]:
    """The lowest and the highest right number. Raises DataError if there is none, or the data does not say."""
    columns = {" ".join(name.lower().replace("_", " ").split()): text for name, text in instance.metadata.items()}
    low, high = _named(columns, _LOW), _named(columns, _HIGH)
    if (low is None) != (high is None):
        raise DataError(
            "one limit is given and the other is not; give `low` and `high`, -inf or inf where there is none"
        )
    reference = _reference(instance)
    if low is None or high is None:
        if reference is None:
            raise DataError(f"the reference {instance.correct[0]!r:.60} holds no number, so no answer could be right")
        margin = _margin(columns, reference)
        return reference - margin, reference + margin
    if low > high:
        raise DataError(f"the lower limit {low:.10g} is above the upper limit {high:.10g}, so no answer could be right")
    if reference is not None and not _within(reference, low, high):
        raise DataError(f"the reference {reference:.10g} lies outside its limits, {low:.10g} to {high:.10g}")
    return low, high


def _reference(instance: Instance) -> float | None:
    """The number in the right answer. Raises DataError if there is no right answer."""
    return read_number(correct_references(instance)[0])


def _margin(columns: dict[str, str], reference: float) -> float:
    """How far from the reference an answer may lie."""
    absolute, percent = _named(columns, ("tolerance",)), _named(columns, ("tolerance percent",))
    if absolute is not None and percent is not None:
        raise DataError("`tolerance` and `tolerance_percent` are both given; leave one of them out")
    margin = absolute if absolute is not None else abs(reference) * (percent or 0.0) / 100
    if not 0 <= margin < math.inf:
        raise DataError(f"the tolerance is {margin:.10g}; it must be 0 or more, and finite")
    return margin


def _named(columns: dict[str, str], names: tuple[str, ...]) -> float | None:
    """The number in the first of the columns that is there and not empty; None if there is none."""
    for name in names:
        text = columns.get(name, "").strip()
        if text:
            try:
                number = float(text)
            except ValueError:
                number = math.nan
            if math.isnan(number):
                raise DataError(f"`{name}` is {text!r:.60}, which is no number, so no answer could be right")
            return number
    return None


def _within(number: float, low: float, high: float) -> bool:
    """Whether a finite number lies between the limits, but for what rounding does to them."""
    near = (math.isclose(number, limit, rel_tol=_ROUNDING) for limit in (low, high))
    return math.isfinite(number) and (low <= number <= high or any(near))


def _published(reply: str, instance: Instance) -> float:
    """Whether the whole reply is a number within the limits."""
    low, high = _limits(instance)
    try:
        return float(_within(float(reply.strip()), low, high))
    except ValueError:
        return 0.0


def _corrected(reply: str, instance: Instance) -> float:
    """Whether the number that the reply gives lies within the limits."""
    low, high = _limits(instance)
    number = read_number(reply)
    return float(number is not None and _within(number, low, high))


def _explain(reply: str, instance: Instance, rule: Rule) -> str:
    """Where the number lies."""
    low, high = _limits(instance)
    number = read_number(reply)
    if number is None:
        return ""
    if not _within(number, low, high):
        asked = f"is not {low:.10g}" if low == high else f"lies outside its limits, {low:.10g} to {high:.10g}"
        return f"{number:.10g} {asked}"
    strict = rule == "published" and not _published(reply, instance)
    return "the published rule reads a number only if it is the whole answer" if strict else ""


NUMERIC_TOLERANCE = Metric(
    name="numeric_tolerance",
    title="Within tolerance",
    description=(
        "Share of numbers that lie within the limits of the data, or within a tolerance of the reference; without "
        "either they must be equal. An answer without a readable number scores 0."
    ),
    source="This project; the limits are those of the data",
    published=_published,
    corrected=_corrected,
    explain=_explain,
)
"""Whether a number is right within its limits."""
