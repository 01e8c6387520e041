"""Read and check the rubrics in a `benchmark.yaml`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from medhelm.benchmarks.prompts import stray_braces
from medhelm.benchmarks.schema import DefinitionShape, RubricFileShape, RubricShape
from medhelm.domain import EXTENDED, JURY, STANDARD, Benchmark, Criterion, Floor, Rubric
from medhelm.domain.benchmark import VERY_POOR
from medhelm.domain.text import value_in_words
from medhelm.errors import ConfigError, Problem, suggestion
from medhelm.io.strict_yaml import KeyPath, YamlDocument, load_yaml, validate


def with_rubric_file(benchmark: Benchmark, file: Path) -> Benchmark:
    """Return a benchmark whose judges grade by the rubric in a file; itself if it has no judges.

    Raises: ConfigError with all problems of the file.
    """
    rubric = read_rubric_file(file)
    if benchmark.rubric is None:
        return benchmark
    return replace(
        benchmark,
        rubric=rubric,
        criteria_column="",  # the criteria of the file hold for all instances
        digest=hashlib.sha256(f"{benchmark.digest} {rubric.digest}".encode()).hexdigest(),
        extended_rubric=None,
        extended_digest="",
    )


def read_rubric_file(file: Path) -> Rubric:
    """Read a rubric of the user's own. Raises: ConfigError with all problems of the file."""
    document = load_yaml(file)
    problems: list[Problem] = []
    shape: RubricFileShape | None = None
    try:
        shape = validate(document, RubricFileShape)
    except ConfigError as error:
        problems.extend(error.problems)
    if isinstance(document.data, dict):
        problems.extend(_file_problems(document))
        problems.extend(rubric_problems(document))
    if shape is None or problems:
        raise ConfigError(document.place, problems)
    return build_rubric(shape.rubric, shape.name)


def _file_problems(document: YamlDocument) -> Iterator[Problem]:
    """Check what a rubric in a file of its own cannot have."""
    name, rubric = document.data.get("name"), document.data.get("rubric")
    if name in (STANDARD, EXTENDED):
        yield Problem(
            f"name: `{name}` is the name of a rubric of benchmarks. Choose another.", document.line_of(("name",))
        )
    for key in ("extended", "criteria_column"):
        if isinstance(rubric, dict) and rubric.get(key) is not None:
            text = f"rubric.{key}: is for the definition of a benchmark. Remove it."
            yield Problem(text, document.line_of(("rubric", key)))
    question = rubric.get("question") if isinstance(rubric, dict) else None
    for line in stray_braces(question) if isinstance(question, str) else ():
        text = f"rubric.question: a single brace in `{line.strip()}`. Write {{{{ or }}}} for a literal brace."
        yield Problem(text, document.line_with(("rubric", "question"), line.strip()))


def split_rubrics(shape: DefinitionShape) -> tuple[DefinitionShape, DefinitionShape | None]:
    """Split a definition with two rubrics into one with the standard and one with the extended rubric."""
    rubric = shape.rubric
    if rubric is None or (more := rubric.extended) is None:
        return shape, None
    criteria = {
        name: criterion.model_copy(update={"description": more.criteria.get(name, criterion.description)})
        for name, criterion in (rubric.criteria or {}).items()
    }
    changes = {"task": more.task or rubric.task, "criteria": criteria, "extended": None, "low_means": None}
    extended = rubric.model_copy(update=changes)
    standard = rubric.model_copy(update={"extended": None})
    return shape.model_copy(update={"rubric": standard}), shape.model_copy(update={"rubric": extended})


def build_rubric(shape: RubricShape, name: str) -> Rubric:
    """Convert a rubric. Points are given or not, so their scale is 0 to 1."""
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
        name=name,
        low_means=shape.low_means or VERY_POOR,
        shows_points=shape.show_points,
        floors=tuple(Floor(**floor.model_dump()) for floor in shape.floor),
    )


def rubric_problems(document: YamlDocument) -> Iterator[Problem]:
    """Check `metrics` against `rubric`, the keys of the rubric, and its criteria."""
    metrics, rubric = document.data.get("metrics"), document.data.get("rubric")
    if isinstance(metrics, list) and JURY in metrics and rubric is None:
        line = document.line_of(("metrics", metrics.index(JURY)))
        yield Problem(f"metrics: `{JURY}` needs a `rubric`. Add one, or remove `{JURY}`.", line)
    if not isinstance(rubric, dict):
        return
    if isinstance(metrics, list) and JURY not in metrics:
        fix = f"Add `{JURY}` to `metrics`, first if it is the main one, or remove the rubric."
        text = f"rubric: is not used by any metric. {fix}"
        yield Problem(text, document.line_of(("rubric",)))
    yield from _key_problems(document, rubric)
    criteria = rubric.get("criteria")
    yield from _extended_problems(document, rubric.get("extended"), criteria)
    if isinstance(criteria, dict):
        yield from _repeated_criteria(document, criteria)
        in_points = rubric.get("form") == "points"
        yield from _point_problems(document, criteria, in_points=in_points)
        yield from () if in_points else _floor_problems(document, rubric, criteria)


def _key_problems(document: YamlDocument, rubric: Mapping[str, Any]) -> Iterator[Problem]:
    """Check keys of the rubric that need or exclude each other."""
    in_points = rubric.get("form") == "points"
    given = {key for key, value in rubric.items() if value is not None}
    for key in sorted({"scale", "low_means", "floor"} & given) if in_points else ():
        text = f"rubric.{key}: is for grades. With `form: points` a criterion is met or not: remove this key."
        yield Problem(text, document.line_of(("rubric", key)))
    if not given & {"criteria", "criteria_column"}:
        text = "rubric.criteria: missing. Add this key, or `criteria_column` if each instance has its own criteria."
        yield Problem(text, document.line_of(("rubric",)))
    if given >= {"criteria", "criteria_column"}:
        text = "rubric.criteria_column: cannot be combined with `criteria`. Remove one of them."
        yield Problem(text, document.line_of(("rubric", "criteria_column")))
    if "criteria_column" in given and not in_points:
        text = "rubric.criteria_column: holds criteria with points. Write `form: points`."
        yield Problem(text, document.line_of(("rubric", "criteria_column")))


def _extended_problems(document: YamlDocument, extended: object, criteria: object) -> Iterator[Problem]:
    """Require that the extended rubric has the criteria of the standard one."""
    texts = extended.get("criteria") if isinstance(extended, dict) else None
    known = list(criteria) if isinstance(criteria, dict) else []
    for name in texts if isinstance(texts, dict) else ():
        if name not in known:
            text = f"rubric.extended.criteria.{name}: is not one of `criteria`. {suggestion(str(name), known)}".rstrip()
            yield Problem(text, document.line_of(("rubric", "extended", "criteria", name)))


def _repeated_criteria(document: YamlDocument, criteria: Mapping[str, Any]) -> Iterator[Problem]:
    """Report repeated criteria: the same name in another case, or the same text."""
    names: dict[str, str] = {}
    texts: dict[str, str] = {}
    for name, criterion in criteria.items():
        line = document.line_of(("rubric", "criteria", name))
        first = names.setdefault(name.casefold(), name)
        if first != name:
            yield Problem(f"rubric.criteria.{name}: repeats `{first}`. Keep one of them.", line)
        text = " ".join(_description(criterion).casefold().split())
        if text and (first := texts.setdefault(text, name)) != name:
            yield Problem(f"rubric.criteria.{name}: has the same text as `{first}`. Keep one of them.", line)


def _point_problems(document: YamlDocument, criteria: Mapping[str, Any], *, in_points: bool) -> Iterator[Problem]:
    """Check that points are present exactly for `form: points`, and not 0."""
    given: list[float] = []
    for name, criterion in criteria.items():
        keys = criterion if isinstance(criterion, dict) else {}
        place = ("rubric", "criteria", name)
        points = keys.get("points")
        if not in_points:
            if points is not None:
                text = f"rubric.criteria.{name}.points: are for `form: points`. Set that form, or remove them."
                yield Problem(text, document.line_of((*place, "points")))
            continue
        if isinstance(points, int | float):
            given.append(points)
        if points is None or points == 0:
            shown = "missing" if points is None else f"must not be {value_in_words(points).removeprefix('the number ')}"
            text = f"rubric.criteria.{name}.points: {shown}. Set the points for meeting it, negative for harm."
            yield Problem(text, document.line_of((*place, "points")))
        if keys.get("lower_is_better"):
            text = f"rubric.criteria.{name}.lower_is_better: is for grades. Use negative points for harm."
            yield Problem(text, document.line_of((*place, "lower_is_better")))
    if given and max(given) <= 0:
        text = "rubric.criteria: none has positive points, so there is nothing to score. Make points positive for one."
        yield Problem(text, document.line_of(("rubric", "criteria")))


def _floor_problems(
    document: YamlDocument, rubric: Mapping[str, Any], criteria: Mapping[str, Any]
) -> Iterator[Problem]:
    """Check that each floor belongs to a criterion, is the only one of it, and is a grade on the scale."""
    given = rubric.get("floor")
    floors: dict[tuple[str | int, ...], Any] = {("rubric", "floor"): given}
    if isinstance(given, list):
        floors = {("rubric", "floor", place): floor for place, floor in enumerate(given)}
    seen = set()
    for place, floor in floors.items():
        name = floor.get("criterion") if isinstance(floor, dict) else None
        if not isinstance(name, str):
            continue  # the shape of the file says what is wrong
        line = document.line_of((*place, "criterion"))
        if name not in criteria:
            help_ = suggestion(name, list(map(str, criteria)))
            yield Problem(f"rubric.floor.criterion: `{name}` is not one of `criteria`. {help_}".rstrip(), line)
        elif name in seen:
            yield Problem(f"rubric.floor.criterion: `{name}` has two floors. Keep one of them.", line)
        else:
            seen.add(name)
            keys = criteria[name] if isinstance(criteria[name], dict) else {}
            yield from _grade_problems(document, place, floor, lower_is_better=keys.get("lower_is_better") is True)


def _grade_problems(
    document: YamlDocument, place: KeyPath, floor: Mapping[str, Any], *, lower_is_better: bool
) -> Iterator[Problem]:
    """Check the grade of the floor at a place: the limit of the good grades, on the scale of the rubric."""
    key, other = ("at_most", "at_least") if lower_is_better else ("at_least", "at_most")
    meaning = f"`{key}`, the {'highest' if lower_is_better else 'lowest'} grade that is good enough"
    grade, scale = floor.get(key), document.data["rubric"].get("scale") or [1, 5]
    if floor.get(other) is not None:
        text = f"rubric.floor.{other}: {'lower' if lower_is_better else 'higher'} is better for `{floor['criterion']}`."
        yield Problem(f"{text} Write {meaning}.", document.line_of((*place, other)))
    elif grade is None:
        yield Problem(f"rubric.floor.{key}: missing. Add {meaning}.", document.line_of(place))
    elif isinstance(scale, list) and all(map(_is_number, (grade, *scale))) and not min(scale) <= grade <= max(scale):
        text = f"rubric.floor.{key}: {grade:g} is not on the scale from {min(scale):g} to {max(scale):g}."
        yield Problem(f"{text} Write a grade that judges can give.", document.line_of((*place, key)))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _description(criterion: object) -> str:
    """Return the text of a criterion in either of its forms; "" if it has none."""
    text = criterion.get("description") if isinstance(criterion, dict) else criterion
    return text if isinstance(text, str) else ""
