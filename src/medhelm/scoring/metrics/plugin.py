"""Metrics of installed packages: checked once, before anything is scored, and watched while they score.

A fault of theirs is a missing score with a reason, as everything is that cannot be scored, never a wrong number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ParamSpec, TypeVar

from medhelm.domain import RULES, Instance, Parts, Reference
from medhelm.errors import DataError
from medhelm.io.plugins import Plugin, check_plugin_name, last_line
from medhelm.scoring.metric import Metric, ScoreFunction

EXAMPLES = (
    (
        "B. metformin",
        Instance(
            id="example-1",
            fields={"question": "Which drug is the usual first choice in type 2 diabetes?"},
            references=(
                Reference("insulin glargine", correct=False),
                Reference("metformin"),
                Reference("glipizide", correct=False),
            ),
            choices=("insulin glargine", "metformin", "glipizide"),
            labels=("A", "B", "C"),
        ),
    ),
    (
        "Rest, fluids and paracetamol were advised.",
        Instance(
            id="example-2",
            fields={"note": "Viral infection. Rest and fluids."},
            references=(Reference("Rest and fluids."),),
        ),
    ),
    ("", Instance(id="example-3", fields={"note": "Nothing was done."}, references=(Reference("none"),))),
)
"""Replies and invented instances that every metric of a package is tried on: a choice, free text, and no answer."""

_P = ParamSpec("_P")
_Result = TypeVar("_Result")


def accept_metric(plugin: Plugin, found: object) -> Metric:
    """The metric that a package gives, with its rules watched.

    Raises: UserError that names the package, for what is no `Metric`, has another name than its entry point, no sound
    scale, rules that cannot be called, or rules that give on the examples no number within the scale, or not the same
    number twice. An example that a rule says it cannot score, by DataError, counts as scored.
    """
    check_plugin_name(plugin)
    if not isinstance(found, Metric):
        raise plugin.refuse(f"is {_kind(found)}, where a medhelm.scoring.metric.Metric is needed")
    if problem := _problem(plugin, found):
        raise plugin.refuse(problem)
    metric = replace(
        found,
        published=_watched_rule(plugin, found, found.published),
        corrected=_watched_rule(plugin, found, found.corrected),
        explain=_watched(plugin, found.explain),
        parts=_watched_parts(plugin, found.parts) if found.parts else None,
    )
    for reply, instance in EXAMPLES:
        _try(plugin, found, reply, instance)
    return metric


def _problem(plugin: Plugin, metric: Metric) -> str:
    """What is wrong with what it says of itself; "" if nothing is."""
    if metric.name != plugin.name:
        return f"gives a metric of the name `{metric.name}`: entry point and metric need the same name"
    for field in ("title", "description", "source"):
        value = getattr(metric, field)
        if not isinstance(value, str) or not value.strip():
            return f"gives a metric without a `{field}`, which is a text"
    if not all(_is_number(end) for end in (metric.low, metric.high)) or metric.low >= metric.high:
        return f"gives a metric whose scale goes from {metric.low!r} to {metric.high!r}: `low` must be below `high`"
    for field in ("published", "corrected", "explain", "parts"):
        value = getattr(metric, field)
        if not callable(value) and not (field == "parts" and value is None):
            return f"gives a metric whose `{field}` is {_kind(value)}: it must be a function"
    return ""


def _try(plugin: Plugin, metric: Metric, reply: str, instance: Instance) -> None:
    """Score an example by both rules, twice. Raises: UserError if that does not work."""
    for rule in RULES:
        where = f"gives a metric whose `{rule}` rule"
        try:
            first, second = (metric.rating(rule)(reply, instance) for _ in range(2))
        except DataError:
            continue
        except Exception as error:  # noqa: BLE001 - the code of somebody else
            raise plugin.refuse(f"{where} fails on an example: {last_line(error)}") from None
        for value in (first, second):
            if problem := _out_of_scale(metric, value):
                raise plugin.refuse(f"{where} gives {problem} for an example")
        if first != second:
            raise plugin.refuse(f"{where} gives {first!r} and then {second!r} for the same example: it must be pure")


def _watched(plugin: Plugin, function: Callable[_P, _Result]) -> Callable[_P, _Result]:
    """The function, whose faults become DataError: one instance that cannot be scored, and a reason."""

    def watched(*args: _P.args, **kwargs: _P.kwargs) -> _Result:
        try:
            return function(*args, **kwargs)
        except DataError:
            raise
        except Exception as error:  # noqa: BLE001 - the code of somebody else
            raise DataError(f"{plugin.in_words} failed: {last_line(error)}") from None

    return watched


def _watched_rule(plugin: Plugin, metric: Metric, rule: ScoreFunction) -> ScoreFunction:
    rule = _watched(plugin, rule)

    def watched(reply: str, instance: Instance) -> float:
        value = rule(reply, instance)
        if problem := _out_of_scale(metric, value):
            raise DataError(f"{plugin.in_words} gave {problem}")
        return float(value)

    return watched


def _watched_parts(plugin: Plugin, parts: Callable[..., Parts]) -> Callable[..., Parts]:
    parts = _watched(plugin, parts)

    def watched(*args: Any) -> Parts:
        found = parts(*args)
        try:
            sound = all(isinstance(k, str) and _is_number(a) and _is_number(b) for k, (a, b) in found.items())
        except (AttributeError, TypeError, ValueError):
            sound = False
        if not sound:
            raise DataError(f"{plugin.in_words} gave parts that are no mapping of labels to two numbers")
        return found

    return watched


def _out_of_scale(metric: Metric, value: object) -> str:
    """What a value is that is no score on the metric's scale; "" for one that is."""
    if not _is_number(value):
        return f"{value!r}, which is no number" if isinstance(value, float) else f"{_kind(value)} and no number"
    if not metric.low <= value <= metric.high:  # type: ignore[operator]
        return f"{value!r}, outside its scale from {metric.low:g} to {metric.high:g},"
    return ""


def _is_number(value: object) -> bool:
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # an integer beyond all floats
        return False


def _kind(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"
