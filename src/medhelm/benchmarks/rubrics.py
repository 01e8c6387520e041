"""What a definition says of judging: whether its keys fit each other, and the rubric they make."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from medhelm.benchmarks.schema import RubricShape
from medhelm.domain import JURY, Criterion, Rubric
from medhelm.errors import Problem
from medhelm.io.strict_yaml import YamlDocument, value_in_words


def build_rubric(shape: RubricShape) -> Rubric:
    """The house's own type, from the shape of the file. Points are met or not: their scale is 0 to 1."""
    low, high = (0.0, 1.0) if shape.form == "points" else shape.scale
    criteria = (
        Criterion(
            name=name,
            description=criterion.description.strip(),
            higher_is_better=not criterion.lower_is_better,
            points=criterion.points or 0.0,
            tags=tuple(criterion.tags),
        )
        for name, criterion in (shape.criteria or {}).items()
    )
    return Rubric(
        task=shape.task.strip(),
        criteria=tuple(criteria),
        low=low,
        high=high,
        shows_reference=shape.reference,
        form=shape.form,
        question=shape.question or "",
    )


def needs_answer(metrics: Iterable[object], *, shows_reference: bool, has_choices: bool) -> bool:
    """Whether a benchmark is nothing without right answers: to compare with, to show to judges, or among its options.

    Parameters: metrics, their names; shows_reference, whether judges see the answer; has_choices, whether it has
    options.
    """
    return has_choices or shows_reference or any(name != JURY for name in metrics)


def rubric_problems(document: YamlDocument) -> Iterator[Problem]:
    """What is wrong between `metrics` and `rubric`, between the keys of the rubric, and between its criteria."""
    metrics, rubric = document.data.get("metrics"), document.data.get("rubric")
    if isinstance(metrics, list) and JURY in metrics and rubric is None:
        line = document.line_of(("metrics", metrics.index(JURY)))
        yield Problem(f"metrics: `{JURY}` needs a `rubric`. Say what judges are asked, or take `{JURY}` out.", line)
    if not isinstance(rubric, dict):
        return
    if isinstance(metrics, list) and JURY not in metrics:
        fix = f"Name `{JURY}` in `metrics`, in the first place if it is the main one, or take the rubric out."
        text = f"rubric: nobody would use it. {fix}"
        yield Problem(text, document.line_of(("rubric",)))
    yield from _key_problems(document, rubric)
    criteria = rubric.get("criteria")
    if isinstance(criteria, dict):
        yield from _twice(document, criteria)
        yield from _point_problems(document, criteria, in_points=rubric.get("form") == "points")


def _key_problems(document: YamlDocument, rubric: Mapping[str, Any]) -> Iterator[Problem]:
    """Keys of the rubric that need or exclude each other."""
    in_points = rubric.get("form") == "points"
    given = {key for key, value in rubric.items() if value is not None}
    if in_points and "scale" in given:
        text = "rubric.scale: is for grades. With `form: points` a criterion is met or not: take the scale out."
        yield Problem(text, document.line_of(("rubric", "scale")))
    if not given & {"criteria", "criteria_column"}:
        text = "rubric.criteria: missing. Add this key, or `criteria_column` if each instance has criteria of its own."
        yield Problem(text, document.line_of(("rubric",)))
    if given >= {"criteria", "criteria_column"}:
        text = "rubric.criteria_column: stands beside `criteria`, and only one of them can be asked. Take one out."
        yield Problem(text, document.line_of(("rubric", "criteria_column")))
    if "criteria_column" in given and not in_points:
        text = "rubric.criteria_column: holds criteria with points. Write `form: points`."
        yield Problem(text, document.line_of(("rubric", "criteria_column")))


def _twice(document: YamlDocument, criteria: Mapping[str, Any]) -> Iterator[Problem]:
    """Criteria that would count twice: the same name but for its case, or the same text."""
    names: dict[str, str] = {}
    texts: dict[str, str] = {}
    for name, criterion in criteria.items():
        line = document.line_of(("rubric", "criteria", name))
        first = names.setdefault(name.casefold(), name)
        if first != name:
            yield Problem(f"rubric.criteria.{name}: stands there already as `{first}`. Keep one of them.", line)
        text = " ".join(_description(criterion).casefold().split())
        if text and (first := texts.setdefault(text, name)) != name:
            yield Problem(f"rubric.criteria.{name}: asks the same as `{first}`. Keep one of them.", line)


def _point_problems(document: YamlDocument, criteria: Mapping[str, Any], *, in_points: bool) -> Iterator[Problem]:
    """Points that are missing or do nothing, and keys that belong to the other form."""
    given: list[float] = []
    for name, criterion in criteria.items():
        keys = criterion if isinstance(criterion, dict) else {}
        place = ("rubric", "criteria", name)
        points = keys.get("points")
        if not in_points:
            if points is not None:
                text = f"rubric.criteria.{name}.points: are for `form: points`. Write that above, or take them out."
                yield Problem(text, document.line_of((*place, "points")))
            continue
        if isinstance(points, int | float):
            given.append(points)
        if points is None or points == 0:
            shown = "missing" if points is None else f"must not be {value_in_words(points).removeprefix('the number ')}"
            text = f"rubric.criteria.{name}.points: {shown}. Say what meeting it earns, below zero for a harm."
            yield Problem(text, document.line_of((*place, "points")))
        if keys.get("lower_is_better"):
            text = f"rubric.criteria.{name}.lower_is_better: is for grades. A harm has points below zero instead."
            yield Problem(text, document.line_of((*place, "lower_is_better")))
    if given and max(given) <= 0:
        text = "rubric.criteria: none earns points, so that there is nothing to score. Give one points above zero."
        yield Problem(text, document.line_of(("rubric", "criteria")))


def _description(criterion: object) -> str:
    """The text of a criterion in either of its forms; empty if it has none."""
    text = criterion.get("description") if isinstance(criterion, dict) else criterion
    return text if isinstance(text, str) else ""
