"""Exports of Label Studio: several and cancelled annotations, positions of marks, mistakes named by task and field."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import fromstring

import pytest

from medhelm.errors import ConfigError
from medhelm.extensions.study.formats.exchange import RaterCases, rater_cases
from medhelm.extensions.study.formats.label_studio import read_label_studio, write_label_studio
from medhelm.extensions.study.types import CaseRating, InstrumentForm, MarkedPassage, MarkKind
from tests.support.offline_studies import offline_study


def result(field: str, kind: str, value: Any, **more: Any) -> dict[str, Any]:
    return {"from_name": field, "to_name": "completion", "type": kind, "id": "x1", "value": {kind: value, **more}}


def choice(name: str, value: str) -> dict[str, Any]:
    return result(f"grade_{name}", "choices", [value])


def text(field: str, value: str) -> dict[str, Any]:
    return {**result(field, "textarea", [value]), "value": {"text": [value]}}


def annotation(*results: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": 1, "completed_by": 3, "was_cancelled": False, "lead_time": 12.5, "result": list(results), **more}


def exported(cases: RaterCases, **annotations: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the tasks as Label Studio exports them. `annotations`: `task_N` -> those of the task of case N."""
    tasks: list[dict[str, Any]] = json.loads(write_label_studio(cases)[".json"])
    for number, task in enumerate(tasks, 1):
        task.update(id=100 + number, annotations=annotations.get(f"task_{number}", []), file_upload="a.json", meta={})
    return tasks


def read(cases: RaterCases, tasks: Any, folder: Path) -> dict[int, CaseRating]:
    file = folder / "export.json"
    file.write_text(json.dumps(tasks), encoding="utf-8")
    return {one.number: one.rating for one in read_label_studio(file, lambda _: cases).ratings}


def test_annotations_are_read(cases: RaterCases, tmp_path: Path) -> None:
    shown = cases.cases[2].texts.completions[0]
    tasks = exported(
        cases,
        task_1=[
            annotation(
                choice("accurate", "4"),
                choice("clear", "cannot judge"),
                text("reason_clear", "Too long"),
                choice("harm_severity", "Severe or death"),
                choice("harm_likelihood", "Low"),
                text("comment", "A comment"),
            )
        ],
        task_2=[annotation(choice("accurate", "1"), text("reason_accurate", "of an earlier choice"))],
        task_3=[annotation(result("marks_completion", "labels", ["omission"], start=2, end=6, text=shown[2:6]))],
        task_4=[annotation(choice("accurate", "1"), was_cancelled=True)],
        task_5=[annotation()],
        task_6=[
            annotation(choice("accurate", "1"), updated_at="2026-02-01T10:00:00Z"),
            annotation(choice("accurate", "5"), updated_at="2026-02-01T11:00:00Z"),
            annotation(choice("accurate", "2"), updated_at="2026-02-01T12:00:00Z", was_cancelled=True),
        ],
    )
    found = read(cases, tasks, tmp_path)
    assert set(found) == {1, 2, 3, 6}
    assert found[1].grades == {"accurate": 4, "harm_severity": 3, "harm_likelihood": 1}
    assert (found[1].not_judged, found[1].comment, found[1].seconds) == ({"clear": "Too long"}, "A comment", 12.5)
    assert (found[2].grades, found[2].not_judged) == ({"accurate": 1}, {})
    assert found[3].marks == (MarkedPassage(start=6, end=6, kind=MarkKind.OMISSION),)
    assert found[6].grades == {"accurate": 5}


def test_positions_count_characters_or_utf_16_units(tmp_path: Path) -> None:
    store, study = offline_study(tmp_path / "s", InstrumentForm.GRADES)
    known = rater_cases(store, study, "rater_1")
    one = known.cases[0]
    text_with_sign = "\U0001d50a dose of 5 mg"
    texts = replace(one.texts, completions=(text_with_sign,))
    cases = replace(known, cases=(replace(one, texts=texts), *known.cases[1:]))
    marks = {}
    for shift in (0, 1):
        mark = result("marks_completion", "labels", ["error"], start=2 + shift, end=6 + shift, text="dose")
        marks[shift] = read(cases, exported(cases, task_1=[annotation(mark)]), tmp_path)[1].marks
    assert marks[0] == marks[1] == (MarkedPassage(start=2, end=6, kind=MarkKind.ERROR),)


def other_person(tasks: list[dict[str, Any]]) -> None:
    tasks[0]["annotations"] *= 2
    tasks[0]["annotations"][1] = {**tasks[0]["annotations"][1], "completed_by": {"id": 9, "email": "a@b.example"}}


def other_digest(tasks: list[dict[str, Any]]) -> None:
    tasks[0]["data"]["digest"] = tasks[1]["data"]["digest"]


def other_rater(tasks: list[dict[str, Any]]) -> None:
    tasks[1]["data"]["rater"] = "rater_2"


def twice(tasks: list[dict[str, Any]]) -> None:
    tasks.append(json.loads(json.dumps(tasks[0])))


def add(*results: dict[str, Any]) -> Callable[[list[dict[str, Any]]], None]:
    return lambda tasks: tasks[0]["annotations"][0]["result"].extend(results)


MISTAKES = (
    (add(choice("accurate", "great")), "task 101, grade_accurate: must be a whole number from 1 to 5, is `great`."),
    (add(result("grade_clear", "choices", ["1", "2"])), "task 101, grade_clear: must have one of `choices`"),
    (add(choice("taste", "1")), "task 101, grade_taste: is not a field of case 1."),
    (
        add(result("marks_completion", "labels", ["typo"], start=0, end=2)),
        "`typo` is not a label. Labels: error, o",
    ),
    (
        add(result("marks_completion", "labels", ["error"], start=0, end=9**9)),
        "a marked passage lies outside of the text.",
    ),
    (
        add(result("marks_completion", "labels", ["error"], start=0, end=4, text="Never")),
        "the marked passage `Never` is not at its place in the text.",
    ),
    (
        add(result("marks_completion", "labels", ["error"], start="0", end=4)),
        "a marked passage has no `start` and `end`.",
    ),
    (other_person, "task 101: 2 people annotated it, but its ratings are of rater_1."),
    (other_digest, "task 101: `1` is not a case of rater_1 with these texts."),
    (other_rater, "holds tasks of several studies or raters."),
    (twice, "case 1 has another task with annotations. Keep one."),
)
"""Change of the tasks, and what is then wrong."""


def test_a_mistake_is_named_by_task_and_field(cases: RaterCases, tmp_path: Path) -> None:
    for edit, message in MISTAKES:
        tasks = exported(cases, task_1=[annotation(choice("accurate", "4"))])
        edit(tasks)
        with pytest.raises(ConfigError, match=re.escape(message)):
            read(cases, tasks, tmp_path)
    for content in ([], [1], [{"data": 1}], [{"case": 1, "grade_accurate": "4"}], [{"data": {}, "annotations": 1}]):
        with pytest.raises(ConfigError, match="is not an export of Label Studio in the format JSON"):
            read(cases, content, tmp_path)


@pytest.mark.parametrize("form", InstrumentForm)
def test_the_configuration_fits_the_tasks(tmp_path: Path, form: InstrumentForm) -> None:
    files = write_label_studio(rater_cases(*offline_study(tmp_path / "s", form), "rater_1"))
    view, tasks = fromstring(files[".xml"]), json.loads(files[".json"])
    used = {
        value[1:] for one in view.iter() for key, value in one.attrib.items() if key == "value" and value[:1] == "$"
    }
    used |= {"case"}
    assert all(used <= set(task["data"]) for task in tasks)
    named = [one.attrib["name"] for one in view.iter() if "name" in one.attrib]
    assert len(named) == len(set(named))
    texts = {one.attrib["name"] for one in view.iter("Text")}
    assert {one.attrib["toName"] for one in view.iter() if "toName" in one.attrib} <= texts
    asked = {one.attrib["name"] for one in view.iter("Choices")}
    assert {one.attrib["whenTagName"] for one in view.iter("View") if "whenTagName" in one.attrib} == asked
