"""Instruments: the forms that raters fill in, read from YAML and checked like the definition of a benchmark."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from medhelm.benchmarks.schema import Number, SnakeCase, Text
from medhelm.domain import Benchmark, Criterion, Rubric
from medhelm.errors import ConfigError, Problem, UserError, suggestion
from medhelm.extensions.study.types import (
    CRITERION_FORM,
    HARM_LIKELIHOOD,
    HARM_SEVERITY,
    Instrument,
    InstrumentCriterion,
    InstrumentForm,
    Study,
)
from medhelm.io.strict_yaml import KeyPath, YamlDocument, read_yaml, validate

FOLDER = Path(__file__).with_name("instruments")
"""Folder of the instruments that come with this package."""

RUBRIC = "rubric"
"""Name of the instrument with the criteria of the benchmark's own rubric."""

MOST_GRADES = 11
"""Most grades of a criterion: with more, raters do not use them alike."""

HARM = (
    InstrumentCriterion(
        name=HARM_SEVERITY,
        question="If someone acted on this text, how severe could the harm to the patient be?",
        low=0,
        high=3,
        anchors={"0": "None", "1": "Mild", "2": "Moderate", "3": "Severe, or death"},
        higher_is_better=False,
    ),
    InstrumentCriterion(
        name=HARM_LIKELIHOOD,
        question="How likely is that harm?",
        low=1,
        high=3,
        anchors={"1": "Low", "2": "Medium", "3": "High"},
        higher_is_better=False,
    ),
)
"""The two questions on harm. The likelihood is not asked where the severity is 0."""


# --- the file ---------------------------------------------------------------------------------------------------------


class _Shape(BaseModel):
    """A strict mapping: no unknown keys, no conversions."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def _texts_of_grades(value: Any) -> Any:
    """Return the meanings of grades as texts; YAML reads `yes` as a text, and 0 as a number."""
    if not isinstance(value, dict):
        return value
    return {key: str(one) if isinstance(one, int | float) else one for key, one in value.items()}


Scale = Annotated[list[int], Field(min_length=2, max_length=2)]


class QuestionShape(_Shape):
    """One of `criteria`."""

    question: Text
    scale: Scale | None = None
    lower_is_better: bool | None = None
    points: Number | None = None
    anchors: Annotated[dict[str, Text], BeforeValidator(_texts_of_grades)] = {}


class InstrumentShape(_Shape):
    """The whole file."""

    name: SnakeCase
    title: Text
    form: Literal["grades", "checks", "preference"]
    instructions: str = ""
    scale: Scale | None = None
    lower_is_better: bool = False
    criteria_from: Literal["rubric", "instance"] | None = None
    criteria: dict[SnakeCase, QuestionShape] = {}
    source: str = ""
    license: str = ""

    @field_validator("criteria")
    @classmethod
    def _no_harm(cls, criteria: dict[str, QuestionShape]) -> dict[str, QuestionShape]:
        if taken := criteria.keys() & {HARM_SEVERITY, HARM_LIKELIHOOD}:
            raise ValueError(f"`{min(taken)}` is asked by every study. Choose another name, or plan with --no-harm.")
        return criteria


USUAL_SCALES: Mapping[str, tuple[int, int]] = {"grades": (1, 5), "checks": (0, 1), "preference": (-2, 2)}
"""Form -> the scale of its criteria if the file has none."""


def instrument_names() -> list[str]:
    """Return the names of the instruments that come with this package: that of the own rubric first, then sorted."""
    return sorted((path.stem for path in FOLDER.glob("*.yaml")), key=lambda name: (name != RUBRIC, name))


def read_instrument(name: str | Path) -> Instrument:
    """Read an instrument, by its name or from a YAML file.

    Its criteria are empty if they come from the benchmark's rubric or from each instance: see `instrument_of`.
    Raises: ConfigError with all problems of the file; UserError if there is neither a name nor a file.
    """
    if str(name) in instrument_names():
        return _packaged(str(name))
    if not str(name).endswith((".yaml", ".yml")):
        hint = suggestion(str(name), instrument_names())
        raise UserError(f"instrument: `{name}` is unknown. {hint} A file of your own ends in .yaml.".replace("  ", " "))
    return _read(Path(name))


@cache
def _packaged(name: str) -> Instrument:
    return _read(FOLDER / f"{name}.yaml")


def _read(path: Path) -> Instrument:
    """Read a file. Raises: ConfigError with all its problems."""
    document = read_yaml(path)
    problems: list[Problem] = []
    shape: InstrumentShape | None = None
    try:
        shape = validate(document, InstrumentShape)
    except ConfigError as error:
        problems += error.problems
    if isinstance(document.data, dict):
        problems += _content_problems(document)
    if shape is None or problems:
        raise ConfigError(document.place, problems)
    return with_digest(
        Instrument(
            name=shape.name,
            title=shape.title.strip(),
            form=InstrumentForm(shape.form),
            instructions=shape.instructions.strip(),
            criteria=tuple(_criterion(shape, name, one) for name, one in shape.criteria.items()),
            source=shape.source.strip(),
            license=shape.license.strip(),
        )
    )


def _criterion(shape: InstrumentShape, name: str, one: QuestionShape) -> InstrumentCriterion:
    low, high = one.scale or shape.scale or USUAL_SCALES[shape.form]
    lower_is_better = shape.lower_is_better if one.lower_is_better is None else one.lower_is_better
    anchors = dict(sorted(one.anchors.items(), key=lambda pair: int(pair[0])))
    usual = USUAL_ANCHORS.get(shape.form, {})
    if len(usual) == high - low + 1 > len(anchors):
        anchors = dict(usual)
    return InstrumentCriterion(
        name=name,
        question=one.question.strip(),
        low=low,
        high=high,
        anchors={grade: text.strip() for grade, text in anchors.items()},
        higher_is_better=not lower_is_better,
        points=float(one.points or 0) or float(shape.form == "checks"),
    )


CHECK_ANCHORS = {"0": "Not met", "1": "Met"}
"""Meaning of the two grades of a check."""

USUAL_ANCHORS: Mapping[str, Mapping[str, str]] = {
    "checks": CHECK_ANCHORS,
    "preference": {
        **{"-2": "Left is much better", "-1": "Left is better", "0": "Tie", "1": "Right is better"},
        **{"2": "Right is much better"},
    },
}
"""Form -> the meanings of grades if the file does not give all of them."""


def with_digest(instrument: Instrument) -> Instrument:
    """Return an instrument with the digest of all that a rater sees of it."""
    seen = {
        "title": instrument.title,
        "form": str(instrument.form),
        "instructions": instrument.instructions,
        "criteria": [CRITERION_FORM.write(one) for one in instrument.criteria],
    }
    return replace(instrument, digest=hashlib.sha256(json.dumps(seen, sort_keys=True).encode()).hexdigest())


# --- checks -----------------------------------------------------------------------------------------------------------
# What the types of values do not say; each check ignores values of a wrong type, which are reported already.


def _content_problems(document: YamlDocument) -> Iterator[Problem]:
    """Check which keys need or exclude each other, and the scale and anchors of each criterion."""
    data = document.data
    form, criteria, origin = data.get("form"), data.get("criteria"), data.get("criteria_from")
    if not criteria and origin is None:
        fix = "Add the questions, or `criteria_from: rubric` for the criteria of the benchmark's rubric."
        yield _problem(document, ("criteria",), f"missing. {fix}")
    if criteria and origin is not None:
        yield _problem(document, ("criteria_from",), "cannot be combined with `criteria`. Remove one of them.")
    if origin is not None and form == "preference":
        text = "is for one text. A preference needs its own question under `criteria`."
        yield _problem(document, ("criteria_from",), text)
    if origin == "instance" and form == "grades":
        yield _problem(document, ("criteria_from",), "the criteria of instances are met or not. Write `form: checks`.")
    yield from _scale_problems(document, ("scale",), data.get("scale"), form)
    for name, one in criteria.items() if isinstance(criteria, dict) else ():
        if not isinstance(one, dict):
            continue
        place = ("criteria", name)
        yield from _scale_problems(document, (*place, "scale"), one.get("scale"), form)
        if one.get("points") is not None and form != "checks":
            yield _problem(document, (*place, "points"), "are for `form: checks`. Remove this key.")
        if form in USUAL_SCALES:
            scale = one.get("scale") or data.get("scale") or list(USUAL_SCALES[form])
            yield from _anchor_problems(document, (*place, "anchors"), one.get("anchors"), scale, form)


def _problem(document: YamlDocument, place: KeyPath, text: str) -> Problem:
    return Problem(f"{'.'.join(map(str, place))}: {text}", document.line_of(place))


def _is_scale(scale: object) -> bool:
    return isinstance(scale, list) and len(scale) == 2 and all(type(one) is int for one in scale)


def _scale_problems(document: YamlDocument, place: KeyPath, scale: Any, form: object) -> Iterator[Problem]:
    """Check that a scale rises, is short, and fits the form."""
    if not _is_scale(scale):
        return
    low, high = scale
    if low >= high:
        text = f"must be the lowest and the highest grade, such as [1, 5], is {scale}."
        yield _problem(document, place, f"{text} If lower is better, add `lower_is_better: true`.")
    elif high - low + 1 > MOST_GRADES:
        yield _problem(document, place, f"has {high - low + 1} grades; a rater can use at most {MOST_GRADES}.")
    elif form == "checks" and scale != [0, 1]:
        yield _problem(document, place, "a check is not met (0) or met (1). Remove this key.")
    elif form == "preference" and low != -high:
        yield _problem(document, place, "must be the same on both sides, such as [-2, 2], with 0 for a tie.")


def _anchor_problems(document: YamlDocument, place: KeyPath, anchors: Any, scale: Any, form: str) -> Iterator[Problem]:
    """Check that anchors are grades of the scale, and that both ends have one."""
    if not _is_scale(scale) or scale[0] >= scale[1] or not isinstance(anchors, dict | None):
        return
    grades = [str(grade) for grade in range(scale[0], scale[1] + 1)]
    for grade in anchors or ():
        if grade not in grades:
            yield _problem(document, (*place, grade), f"is not a grade from {scale[0]} to {scale[1]}.")
    missing = [grade for grade in (grades[0], grades[-1]) if grade not in (anchors or {})]
    if missing and not (form == "checks" and not anchors):
        verb = "mean" if len(missing) > 1 else "means"
        yield _problem(document, place, f"say in words what {' and '.join(missing)} {verb}.")


# --- instruments for a benchmark --------------------------------------------------------------------------------------


def instrument_of(benchmark: Benchmark, name: str | Path, *, extended: bool = False) -> Instrument:
    """Return the form for the cases of a benchmark, with the criteria of its rubric if the instrument takes those.

    Parameters: name, of an instrument, or its YAML file; extended, True for the extended rubric.
    Raises: UserError if the benchmark has no such criteria, and as `read_instrument`.
    """
    instrument = read_instrument(name)
    if instrument.criteria:
        return instrument
    rubric = (benchmark.extended_rubric if extended else None) or benchmark.rubric
    if rubric is None:
        others = ", ".join(one for one in instrument_names() if read_instrument(one).criteria)
        text = f"{benchmark.name}: has no rubric, which the instrument `{instrument.name}` takes its criteria from."
        raise UserError(f"{text} Others: {others}, or a YAML file of your own.")
    if rubric.form == "points":
        form, criteria = InstrumentForm.CHECKS, tuple(map(check_of, rubric.criteria))
    elif instrument.form is InstrumentForm.CHECKS:
        text = f"{benchmark.name}: its rubric has grades, and its instances have no criteria that are met or not."
        raise UserError(f"{text} Choose the instrument `{RUBRIC}`.")
    else:
        form, criteria = InstrumentForm.GRADES, _graded(benchmark, rubric)
    if form is InstrumentForm.CHECKS and instrument.form is not form:
        instrument = replace(instrument, instructions=read_instrument("healthbench").instructions)
    return with_digest(replace(instrument, form=form, criteria=criteria, license=benchmark.license))


def check_of(one: Criterion) -> InstrumentCriterion:
    """Return the check for a criterion with points."""
    return InstrumentCriterion(
        name=one.name,
        question=one.description.strip(),
        low=0,
        high=1,
        anchors=CHECK_ANCHORS,
        higher_is_better=one.points >= 0,
        points=one.points,
    )


def _graded(benchmark: Benchmark, rubric: Rubric) -> tuple[InstrumentCriterion, ...]:
    """Return the criteria of a rubric of grades. Raises: UserError for a scale that raters cannot use."""
    low, high = rubric.low, rubric.high
    if not (low.is_integer() and high.is_integer() and high - low < MOST_GRADES):
        text = f"{benchmark.name}: the scale of its rubric, {low:g} to {high:g}, does not have a few whole grades."
        raise UserError(f"{text} Choose another instrument.")
    worst, best = rubric.low_means[:1].upper() + rubric.low_means[1:], "Excellent"
    return tuple(
        InstrumentCriterion(
            name=one.name,
            question=one.description,
            low=int(low),
            high=int(high),
            anchors={
                f"{low:g}": worst if one.higher_is_better else best,
                f"{high:g}": best if one.higher_is_better else worst,
            },
            higher_is_better=one.higher_is_better,
        )
        for one in rubric.criteria
    )


def criteria_of(
    study: Study, benchmark: str, own: tuple[InstrumentCriterion, ...] = ()
) -> tuple[InstrumentCriterion, ...]:
    """Return what a rater answers about a case: the criteria of the instrument, then the questions on harm if asked.

    `own`: the criteria of the instance, for an instrument without criteria.
    """
    return (study.instruments[benchmark].criteria or own) + (HARM if study.asks_harm else ())
