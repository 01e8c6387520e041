"""Numbers within limits from the data: 1 if the number in a completion is within them, else 0.

The limits, both included, come from metadata columns of the benchmark. Their names may be in any case, with spaces or
underscores between words:

    low, high                 (or lower limit, upper limit) the limits themselves; `-inf` and `inf` for none
    tolerance                 largest distance from the reference, in its unit
    tolerance_percent         the same, in percent of the reference

Without any of them the number must equal the reference. Published rule: the completion, without surrounding white
space, must be a number. Corrected rule: it may hold words, a unit and separators (`answers.number.read_number`).
"""

from __future__ import annotations

import math

from medhelm.domain import Instance, Rule
from medhelm.domain.titles import METRIC_TITLES
from medhelm.errors import DataError
from medhelm.scoring.answers.number import read_number
from medhelm.scoring.metric import AnswerReader, Metric, correct_references

_LOW, _HIGH = ("low", "lower limit"), ("high", "upper limit")
_ROUNDING = 1e-9
"""Share of a limit by which a number may exceed it: decimal fractions are not exact in binary."""


def _limits(instance: Instance) -> tuple[float, float]:
    """Return the lowest and the highest correct number. Raises DataError if the data does not define them."""
    columns = {" ".join(name.lower().replace("_", " ").split()): text for name, text in instance.metadata.items()}
    low, high = _number_in_column(columns, _LOW), _number_in_column(columns, _HIGH)
    if (low is None) != (high is None):
        raise DataError("only one limit is given; give both `low` and `high`, -inf or inf for no limit")
    reference = read_number(correct_references(instance)[0])
    if low is None or high is None:
        if reference is None:
            raise DataError(
                f"the reference {instance.correct[0]!r:.60} holds no number, so no completion can be correct"
            )
        margin = _margin(columns, reference)
        return reference - margin, reference + margin
    if low > high:
        raise DataError(
            f"the lower limit {low:.10g} is above the upper limit {high:.10g}, so no completion can be correct"
        )
    if reference is not None and not _is_within(reference, low, high):
        raise DataError(f"the reference {reference:.10g} is outside its limits, {low:.10g} to {high:.10g}")
    return low, high


def _margin(columns: dict[str, str], reference: float) -> float:
    """Return the largest distance from the reference."""
    absolute, percent = _number_in_column(columns, ("tolerance",)), _number_in_column(columns, ("tolerance percent",))
    if absolute is not None and percent is not None:
        raise DataError("`tolerance` and `tolerance_percent` are both given; leave one of them out")
    margin = absolute if absolute is not None else abs(reference) * (percent or 0.0) / 100
    if not 0 <= margin < math.inf:
        raise DataError(f"the tolerance is {margin:.10g}; it must be 0 or more, and finite")
    return margin


def _number_in_column(columns: dict[str, str], names: tuple[str, ...]) -> float | None:
    """Return the number in the first column that is present and not empty; None without one."""
    for name in names:
        text = columns.get(name, "").strip()
        if text:
            try:
                number = float(text)
            except ValueError:
                number = math.nan
            if math.isnan(number):
                raise DataError(f"`{name}` is {text!r:.60}, which is not a number, so no completion can be correct")
            return number
    return None


def _is_within(number: float, low: float, high: float) -> bool:
    """Return True if a number is finite and within the limits, up to rounding."""
    near = (math.isclose(number, limit, rel_tol=_ROUNDING) for limit in (low, high))
    return math.isfinite(number) and (low <= number <= high or any(near))


def _published(completion: str, instance: Instance) -> float:
    """Score 1 if the whole completion is a number within the limits."""
    low, high = _limits(instance)
    try:
        return float(_is_within(float(completion.strip()), low, high))
    except ValueError:
        return 0.0


def _corrected(completion: str, instance: Instance) -> float:
    """Score 1 if the number in the completion is within the limits."""
    low, high = _limits(instance)
    number = read_number(completion)
    return float(number is not None and _is_within(number, low, high))


def _explain(completion: str, instance: Instance, rule: Rule) -> str:
    """Compare the number with its limits."""
    low, high = _limits(instance)
    number = read_number(completion)
    if number is None:
        return ""
    if not _is_within(number, low, high):
        limits = f"is not {low:.10g}" if low == high else f"is outside its limits, {low:.10g} to {high:.10g}"
        return f"{number:.10g} {limits}"
    strict = rule == "published" and not _published(completion, instance)
    return "the published rule reads a number only if it is the whole completion" if strict else ""


NUMERIC_TOLERANCE = Metric(
    name="numeric_tolerance",
    title=METRIC_TITLES["numeric_tolerance"],
    description=(
        "Share of completions whose number is within the limits of the data, or within a tolerance of the reference; "
        "without either it must equal the reference. A completion without a readable number scores 0."
    ),
    source="This project; the limits come from the data",
    published=_published,
    corrected=_corrected,
    explain=_explain,
    reads=AnswerReader("number", lambda completion, _: read_number(completion)),
)
