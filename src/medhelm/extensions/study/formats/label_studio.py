"""Label Studio: tasks and labeling configuration of a rater, and the annotations that come back.

`NAME.json` has one task a case, `NAME.xml` the configuration of the project. The fields of the configuration are
`grade_QUESTION`, `reason_QUESTION`, `comment` and `marks_TEXT`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from medhelm.domain.text import value_in_words
from medhelm.errors import ConfigError, Problem
from medhelm.extensions.study.formats import exchange
from medhelm.extensions.study.formats.exchange import OfflineCase, OpenRater, RaterCases, ReturnedFile, ReturnedRating
from medhelm.extensions.study.types import CaseRating, InstrumentCriterion, MarkedPassage, MarkKind, RatingSource

GRADE, REASON, MARKS, COMMENT = "grade_", "reason_", "marks_", "comment"
"""Starts of the names of fields, and the name of the comment."""

RATED = ("completion", "left", "right")
"""Texts that are rated, in the order of sides."""

# --- writing ----------------------------------------------------------------------------------------------------------


def write_label_studio(cases: RaterCases) -> dict[str, bytes]:
    """Return tasks and configuration, for each instrument, under the ends of their names."""
    files = {}
    for suffix, own in cases.by_instrument():
        tasks = [_task(cases, one, own) for one in own]
        files[f"{suffix}.json"] = json.dumps(tasks, indent=1).encode()
        files[f"{suffix}.xml"] = _configuration(own)
    return files


def _keys(cases: Sequence[OfflineCase]) -> list[str]:
    """Return the texts that any of the cases has, in the order of reading."""
    found = {*_rated(cases[0]), *(key for one in cases for key in one.shown)}
    return [key for key in exchange.TITLES if key in found]


def _task(cases: RaterCases, case: OfflineCase, own: Sequence[OfflineCase]) -> dict[str, Any]:
    data: dict[str, Any] = {"study": cases.study.name, "plan": cases.plan, "rater": cases.rater}
    data |= {"case": case.number, "digest": case.digest, "revision": case.revision}
    data |= {key: case.shown.get(key, "") for key in _keys(own)}
    if not case.instrument.criteria:
        data |= {
            name: case.fields[name].question if name in case.fields else "" for name in exchange.common_fields(own)
        }
    task: dict[str, Any] = {"data": data}
    if case.rating:
        task["annotations"] = [{"result": list(results(case))}]
    return task


def results(case: OfflineCase) -> Iterator[dict[str, Any]]:
    """Yield the results of an annotation that holds the latest rating of a case."""
    rating, first = case.rating, next(key for key in RATED if key in case.shown or key == "right")
    if rating is None:
        return
    for name, question in case.fields.items():
        if answer := case.given(question.name):
            yield _result(GRADE + name, first, "choices", {"choices": [answer]})
        if reason := rating.not_judged.get(question.name):
            yield _result(REASON + name, first, "textarea", {"text": [reason]})
    if rating.comment:
        yield _result(COMMENT, first, "textarea", {"text": [rating.comment]})
    for mark in rating.marks:
        text = case.texts.completions[mark.side]
        start = max(mark.start - 1, 0) if mark.start == mark.end else mark.start
        value = {"start": start, "end": mark.end, "text": text[start : mark.end], "labels": [str(mark.kind)]}
        side = _rated(case)[mark.side]
        yield _result(MARKS + side, side, "labels", value)


def _result(field: str, text: str, kind: str, value: Mapping[str, Any]) -> dict[str, Any]:
    return {"from_name": field, "to_name": text, "type": kind, "value": value}


def _rated(case: OfflineCase) -> tuple[str, ...]:
    """Return the keys of the texts that are rated: one, or left and right."""
    return RATED[:1] if len(case.texts.completions) == 1 else RATED[1:]


def _configuration(cases: Sequence[OfflineCase]) -> bytes:
    """Return the labeling configuration of a project."""
    view = Element("View")
    SubElement(view, "Header", value="Case $case")
    rated = _rated(cases[0])
    for key in _keys(cases):
        SubElement(view, "Header", value=exchange.TITLES[key], size="4")
        if key in rated:
            labels = SubElement(view, "Labels", name=MARKS + key, toName=key)
            for kind in MarkKind:
                SubElement(labels, "Label", value=str(kind))
        SubElement(view, "Text", name=key, value=f"${key}")
    for name, question in exchange.common_fields(cases).items():
        _ask(view, name, question, rated[0], is_own=name.startswith("criterion_") and not cases[0].instrument.criteria)
    SubElement(view, "Header", value="Comment", size="4")
    SubElement(view, "TextArea", name=COMMENT, toName=rated[0], rows="3", maxSubmissions="1", editable="true")
    indent(view)
    content: bytes = tostring(view, encoding="utf-8")
    return content + b"\n"


def _ask(view: Element, name: str, question: InstrumentCriterion, text: str, *, is_own: bool) -> None:
    """Add a question. `is_own`: True if each task has its own words for it."""
    SubElement(view, "Header", value=f"${name}" if is_own else question.question, size="4")
    if scale := exchange.scale_in_words(question):
        SubElement(view, "Header", value=scale, size="6")
    asked = SubElement(view, "Choices", name=GRADE + name, toName=text, choice="single-radio", showInline="true")
    for label in (*exchange.choices(question), exchange.CANNOT_JUDGE):
        SubElement(asked, "Choice", value=label)
    shown = {"visibleWhen": "choice-selected", "whenTagName": GRADE + name, "whenChoiceValue": exchange.CANNOT_JUDGE}
    why = SubElement(view, "View", shown)
    reason = {"name": REASON + name, "toName": text, "placeholder": "Why can you not judge this?"}
    SubElement(why, "TextArea", {**reason, "maxSubmissions": "1", "editable": "true"})


# --- reading ----------------------------------------------------------------------------------------------------------


def read_label_studio(path: Path, open_rater: OpenRater) -> ReturnedFile:
    """Read an export of Label Studio in the format JSON. Raises: ConfigError with everything that is wrong."""
    content = exchange.load_json(path)
    tasks = content if isinstance(content, list) else []
    whole = [one for one in tasks if isinstance(one, dict) and isinstance(one.get("data"), dict)]
    if (
        not whole
        or len(whole) < len(tasks)
        or not all(isinstance(one.get("annotations"), list | None) for one in whole)
    ):
        text = "is not an export of Label Studio in the format JSON: its tasks need `data` and `annotations`."
        raise exchange.refusal(path, f"{text} Choose `JSON`, not `JSON-MIN`.")
    origins = {exchange.origin_of(one["data"]) for one in whole}
    if len(origins) > 1:
        text = "holds tasks of several studies or raters. Export the tasks of one rater."
        raise exchange.refusal(path, text)
    cases = open_rater(origins.pop())
    problems: list[Problem] = []
    found: dict[int, ReturnedRating] = {}
    for place, task in enumerate(whole, 1):
        name = f"task {task.get('id', place)}"
        rating = _read_task(name, task, cases, problems)
        if rating and found.setdefault(rating.number, rating) is not rating:
            problems.append(Problem(f"{name}: case {rating.number} has another task with annotations. Keep one."))
    if problems:
        raise ConfigError(str(path), problems)
    return ReturnedFile(rater=cases.rater, source=RatingSource.LABEL_STUDIO, ratings=tuple(found.values()))


def _read_task(name: str, task: Mapping[str, Any], cases: RaterCases, problems: list[Problem]) -> ReturnedRating | None:
    """Return the rating in a task; None if it has none."""
    data = task["data"]
    given = [
        one
        for one in task.get("annotations") or ()
        if isinstance(one, dict) and not one.get("was_cancelled") and isinstance(one.get("result"), list)
    ]
    if not given:
        return None
    people = {json.dumps(one.get("completed_by"), sort_keys=True) for one in given}
    if len(people) > 1:
        text = f"{len(people)} people annotated it, but its ratings are of {cases.rater}. Delete the other annotations."
        problems.append(Problem(f"{name}: {text}"))
        return None
    try:
        case = cases.checked_case(data.get("case"), data.get("digest"))
    except ValueError as error:
        problems.append(Problem(f"{name}: {error}"))
        return None
    if case is None:
        return None
    latest = max(given, key=lambda one: str(one.get("updated_at") or one.get("created_at") or ""))
    rating = _AnnotationReader(name, case, problems).read(latest)
    revision = data["revision"] if isinstance(data.get("revision"), int) else 0
    return ReturnedRating(number=case.number, revision=revision, rating=rating) if rating else None


class _AnnotationReader:
    """Reads the results of an annotation, and collects its problems."""

    def __init__(self, task: str, case: OfflineCase, problems: list[Problem]) -> None:
        """`task`: name for messages."""
        self._task, self._case, self._problems = task, case, problems
        self._answers: dict[str, str] = {}
        self._reasons: dict[str, str] = {}
        self._comment = ""
        self._marks: list[MarkedPassage] = []

    def read(self, annotation: Mapping[str, Any]) -> CaseRating | None:
        """Return the rating; None if nothing is answered."""
        for one in annotation["result"]:
            field = str(one.get("from_name")) if isinstance(one, dict) else "result"
            value = one.get("value") if isinstance(one, dict) else None
            try:
                self._read_result(field, value if isinstance(value, dict) else {})
            except ValueError as error:
                self._problems.append(Problem(f"{self._task}, {field}: {error}"))
        given = {}
        for name, question in self._case.fields.items():
            answer, reason = self._answers.get(name, ""), self._reasons.get(name, "")
            # A reason stays in the export after the choice has changed, where the field is hidden.
            reason = reason if answer == exchange.CANNOT_JUDGE else ""
            places = (f"{self._task}, {GRADE}{name}", f"{self._task}, {REASON}{name}")
            given[question.name] = exchange.GivenAnswer(answer, reason, *places)
        seconds = annotation.get("lead_time")
        return exchange.read_answers(
            self._case,
            given,
            self._problems,
            place=self._task,
            source=RatingSource.LABEL_STUDIO,
            comment=self._comment,
            marks=tuple(sorted(self._marks, key=lambda mark: (mark.side, mark.start, mark.end, mark.kind))),
            seconds=float(seconds) if isinstance(seconds, int | float) else 0.0,
        )

    def _read_result(self, field: str, value: Mapping[str, Any]) -> None:
        """Keep one result. Raises: ValueError, in words that follow the place."""
        fields = self._case.fields
        if field.startswith(GRADE) and field.removeprefix(GRADE) in fields:
            self._answers[field.removeprefix(GRADE)] = _single(value, "choices")
        elif field.startswith(REASON) and field.removeprefix(REASON) in fields:
            self._reasons[field.removeprefix(REASON)] = _text(value)
        elif field == COMMENT:
            self._comment = _text(value).strip()
        elif field.startswith(MARKS) and (key := field.removeprefix(MARKS)) in _rated(self._case):
            self._marks.append(self._mark(_rated(self._case).index(key), value))
        elif not (field.startswith((GRADE, REASON)) and not self._case.instrument.criteria):
            raise ValueError(f"is not a field of case {self._case.number}. Use the configuration that was exported.")

    def _mark(self, side: int, value: Mapping[str, Any]) -> MarkedPassage:
        """Return a marked passage. Positions are characters, or UTF-16 units in older versions of Label Studio."""
        text, label = self._case.texts.completions[side], _single(value, "labels")
        start, end, passage = value.get("start"), value.get("end"), value.get("text")
        if label not in tuple(MarkKind):
            raise ValueError(f"{value_in_words(label)} is not a label. Labels: {', '.join(MarkKind)}.")
        if not isinstance(start, int) or not isinstance(end, int) or not 0 <= start <= end:
            raise ValueError("a marked passage has no `start` and `end`.")
        if isinstance(passage, str) and passage and text[start:end] != passage:
            units = text.encode("utf-16-le", "surrogatepass")
            start, end = (len(units[: 2 * one].decode("utf-16-le", "replace")) for one in (start, end))
            if text[start:end] != passage:
                raise ValueError(f"the marked passage {value_in_words(passage)} is not at its place in the text.")
        return MarkedPassage(
            start=end if label == MarkKind.OMISSION else start, end=end, kind=MarkKind(label), side=side
        )


def _single(value: Mapping[str, Any], key: str) -> str:
    found = value.get(key)
    if not isinstance(found, list) or len(found) != 1:
        raise ValueError(f"must have one of `{key}`, has {value_in_words(found)}.")
    return str(found[0])


def _text(value: Mapping[str, Any]) -> str:
    found = value.get("text")
    return "\n".join(map(str, found)) if isinstance(found, list) else str(found or "")
