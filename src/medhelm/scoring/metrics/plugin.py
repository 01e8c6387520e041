"""Metrics of installed packages: checked once before anything is scored, and guarded while they score.

An error in such a metric is a missing score with a reason, never a wrong number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ParamSpec, TypeVar

from medhelm.domain import RULES, Instance, Parts, Reference
from medhelm.errors import DataError
from medhelm.io.plugins import Plugin, check_plugin_name, last_line
from medhelm.io.untrusted_json import number
from medhelm.scoring.metric import AnswerReader, Metric, ScoreFunction

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
"""Completions and invented instances that every such metric is tried on: a choice, free text, an empty completion."""

_P = ParamSpec("_P")
_Result = TypeVar("_Result")


def accept_metric(plugin: Plugin, found: object) -> Metric:
    """Check the metric of a package and return it with guarded rules.

    Raises
    ------
    UserError
        Names the package. Raised for an object that is not a `Metric`, a name that differs from the entry point's, a
        wrong scale, rules that are not callable, and rules that give a value outside the scale, or two different
        values, for one of `EXAMPLES`. An example for which a rule raises DataError counts as scored.
    """
    check_plugin_name(plugin)
    if not isinstance(found, Metric):
        raise plugin.refuse(f"is {_type_in_words(found)}, where a medhelm.scoring.metric.Metric is needed")
    if problem := _first_problem(plugin, found):
        raise plugin.refuse(problem)
    metric = replace(
        found,
        corrected=_guard_rule(plugin, found, found.corrected),
        published=_guard_rule(plugin, found, found.published) if found.published else None,
        explain=_guard(plugin, found.explain),
        parts=_guard_parts(plugin, found.parts) if found.parts else None,
        reads=_guard_reader(plugin, found.reads) if found.reads else None,
    )
    for completion, instance in EXAMPLES:
        _check_example(plugin, found, completion, instance)
    return metric


def _first_problem(plugin: Plugin, metric: Metric) -> str:
    """Describe the first problem with the fields of a metric; "" if there is none."""
    if metric.name != plugin.name:
        return f"gives a metric named `{metric.name}`: entry point and metric need the same name"
    for field in ("title", "description", "source"):
        value = getattr(metric, field)
        if not isinstance(value, str) or not value.strip():
            return f"gives a metric without a `{field}`, which must be a text"
    if not all(_is_number(end) for end in (metric.low, metric.high)) or metric.low >= metric.high:
        return f"gives a metric whose scale goes from {metric.low!r} to {metric.high!r}: `low` must be below `high`"
    if metric.reads is not None and not isinstance(metric.reads, AnswerReader):
        return f"gives a metric whose `reads` is {_type_in_words(metric.reads)}: it must be an AnswerReader"
    for field in ("published", "corrected", "explain", "parts"):
        value = getattr(metric, field)
        if not callable(value) and not (field in ("published", "parts") and value is None):
            return f"gives a metric whose `{field}` is {_type_in_words(value)}: it must be a function"
    return ""


def _check_example(plugin: Plugin, metric: Metric, completion: str, instance: Instance) -> None:
    """Score an example by both rules, twice. Raises UserError if that does not work."""
    example = f"completion {completion!r}, reference {instance.expected!r}"
    for rule in RULES:
        where = f"gives a metric whose `{rule}` rule"
        try:
            first, second = (metric.function(rule)(completion, instance) for _ in range(2))
        except DataError:
            continue
        except Exception as error:  # noqa: BLE001 - code of a package
            raise plugin.refuse(
                f"{where} fails on an example: {last_line(error)} ({example}). Raise DataError "
                "for an instance that the metric cannot score"
            ) from None
        for value in (first, second):
            if problem := _out_of_scale(metric, value):
                raise plugin.refuse(f"{where} gives {problem} for an example ({example})")
        if first != second:
            raise plugin.refuse(f"{where} gives {first!r} and then {second!r} for the same example: it must be pure")


def _guard(plugin: Plugin, function: Callable[_P, _Result]) -> Callable[_P, _Result]:
    """Turn every exception of a function into DataError: one instance without a score, and the reason."""

    def guarded(*args: _P.args, **kwargs: _P.kwargs) -> _Result:
        try:
            return function(*args, **kwargs)
        except DataError:
            raise
        except Exception as error:  # noqa: BLE001 - code of a package
            raise DataError(f"{plugin.in_words} failed: {last_line(error)}") from None

    return guarded


def _guard_rule(plugin: Plugin, metric: Metric, rule: ScoreFunction) -> ScoreFunction:
    rule = _guard(plugin, rule)

    def guarded(completion: str, instance: Instance) -> float:
        value = rule(completion, instance)
        if problem := _out_of_scale(metric, value):
            raise DataError(f"{plugin.in_words} gave {problem}")
        return float(value)

    return guarded


def _guard_reader(plugin: Plugin, reader: AnswerReader) -> AnswerReader:
    return AnswerReader(str(reader.answer), _guard(plugin, reader.find))


def _guard_parts(plugin: Plugin, parts: Callable[..., Parts]) -> Callable[..., Parts]:
    parts = _guard(plugin, parts)

    def guarded(*args: Any) -> Parts:
        found = parts(*args)
        try:
            sound = all(isinstance(k, str) and _is_number(a) and _is_number(b) for k, (a, b) in found.items())
        except (AttributeError, TypeError, ValueError):
            sound = False
        if not sound:
            raise DataError(f"{plugin.in_words} gave parts that are not a mapping of labels to two numbers")
        return found

    return guarded


def _out_of_scale(metric: Metric, value: object) -> str:
    """Describe a value that is not on the metric's scale; "" for one that is."""
    if not _is_number(value):
        if isinstance(value, float):
            return f"{value!r} and not a finite number"
        return f"{_type_in_words(value)} and not a number"
    if not metric.low <= value <= metric.high:  # type: ignore[operator]
        return f"{value!r}, outside its scale from {metric.low:g} to {metric.high:g},"
    return ""


def _is_number(value: object) -> bool:
    return number(value) is not None


def _type_in_words(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"
