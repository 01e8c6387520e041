"""Rubrics of definitions: what becomes of each key, and what is wrong with one, each with its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from medhelm.benchmarks.definition import read_definition
from medhelm.domain import Criterion, Floor, Rubric
from medhelm.errors import ConfigError
from tests.support.benchmarks.definitions import METRICS, TINY, Make
from tests.support.values import present

RUBRIC: dict[str, Any] = {"task": "You are a nurse.", "criteria": {"accuracy": "Is it so?", "clarity": "Is it clear?"}}
POINTS: dict[str, Any] = {
    "task": "You are a nurse.",
    "form": "points",
    "criteria": {
        "asks": {"description": "Asks for the dose.", "points": 5, "tags": ["axis:context"]},
        "harms": {"description": "Names a dose.", "points": -2.5},
    },
}


def judged(make: Make, rubric: dict[str, Any], **changes: Any) -> Rubric:
    return present(make(rubric=rubric, **{"metrics": ["jury", "exact_match"], **changes}).rubric)


def problems(folder: Path, definition: str) -> list[tuple[int | None, str]]:
    """Lines and words of everything that is wrong with the tiny definition and what is written below it."""
    tiny = {key: value for key, value in TINY.items() if key != "metrics"}
    head = yaml.safe_dump(tiny, sort_keys=False)
    path = folder / "tiny" / "benchmark.yaml"
    path.parent.mkdir()
    path.write_text(head + definition, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_definition(path, metrics=METRICS)
    return [
        (problem.line - head.count("\n") if problem.line else None, problem.text) for problem in caught.value.problems
    ]


def test_grades(make: Make) -> None:
    rubric = judged(make, {**RUBRIC, "scale": [0, 10], "reference": False, "question": "{question}!"})
    assert rubric == Rubric(
        task="You are a nurse.",
        criteria=(Criterion("accuracy", "Is it so?"), Criterion("clarity", "Is it clear?")),
        low=0,
        high=10,
        shows_reference=False,
        question="{question}!",
    )


def test_points(make: Make) -> None:
    rubric = judged(make, POINTS)
    assert (rubric.form, rubric.low, rubric.high) == ("points", 0, 1)
    assert rubric.criteria == (
        Criterion("asks", "Asks for the dose.", points=5.0, tags=("axis:context",)),
        Criterion("harms", "Names a dose.", points=-2.5),
    )


def test_every_key_of_a_rubric_is_part_of_the_digest(make: Make) -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"scale": [1, 6]},
        {"reference": False},
        {"question": "{question}"},
        {"criteria": {"clarity": "Is it clear?", "accuracy": "Is it really so?"}},
        {"criteria": {**RUBRIC["criteria"], "accuracy": {"description": "Is it so?", "lower_is_better": True}}},
        {"form": "points", "criteria": None, "criteria_column": "c"},
    ]
    digests = [make(rubric={**RUBRIC, **change}, metrics=["jury"]).digest for change in changes]
    assert len(set(digests)) == len(digests)
    spelled = {name: {"description": text} for name, text in RUBRIC["criteria"].items()}
    same = {**RUBRIC, "criteria": spelled, "scale": [1.0, 5.0], "form": "grades", "reference": True}
    assert make(rubric=same, metrics=["jury"]).digest == digests[0], "the same, said in more words"


METRICS_LINE = "metrics: [jury]\n"
HEAD = METRICS_LINE + "rubric:\n  task: t\n"
GRADED = HEAD + "  criteria:\n    "
POINTED = HEAD + "  form: points\n  criteria:\n    "
BRACE = '  criteria: {a: b}\n  question: |\n    Why?\n    Reply as {"a": 1} for $5\n'

MISTAKES = [
    (HEAD.replace("jury", "exact_match") + "  criteria: {a: b}\n", 2, "rubric: is not used by any metric. Add `jury`"),
    (HEAD, 2, "rubric.criteria: missing. Add this key, or `criteria_column` if each instance has its own criteria."),
    (GRADED + "a: b\n    a: c\n", 6, "rubric.criteria.a: appears twice (first in line"),
    (GRADED + "a: b\n    A: c\n", 6, "rubric.criteria.A: repeats `a`. Keep one of them."),
    (GRADED + "a: 5\n", 5, "rubric.criteria.a: must be a text, or a mapping with `description`, is the"),
    (
        HEAD + "  scale: [3, 3]\n",
        4,
        "rubric.scale: must be the lowest and the highest grade, such as [1, 5], is [3, 3].",
    ),
    (HEAD + "  scale: [1, 1e999]\n", 4, "rubric.scale[1]: must be a finite number, is the number inf."),
    (HEAD + "  criteria_column: c\n", 4, "rubric.criteria_column: holds criteria with points. Write `form: points`."),
    (POINTED + "a: {description: b, points: 1}\n  criteria_column: c\n", 7, "cannot be combined with `criteria`."),
    (POINTED + "a: {description: b, points: 0}\n", 6, "rubric.criteria.a.points: must not be 0."),
    (POINTED + "a: {description: b, points: -1}\n", 5, "rubric.criteria: none has positive points"),
    (HEAD + BRACE, 7, 'rubric.question: a single brace in `Reply as {"a": 1} for $5`. Write {{ or }} for a literal'),
]


@pytest.mark.parametrize(("definition", "line", "words"), MISTAKES, ids=[words[:48] for *_, words in MISTAKES])
def test_each_problem_has_a_message_and_a_line(tmp_path: Path, definition: str, line: int, words: str) -> None:
    found = problems(tmp_path, definition)
    assert [number for number, text in found if words in text] == [line], found


HARM: dict[str, Any] = {**RUBRIC["criteria"], "harm": {"description": "Is it harmful?", "lower_is_better": True}}


def test_floors_leave_the_rubric_and_the_digests_without_them_as_they_are(make: Make) -> None:
    floors: list[dict[str, Any]] = [{"criterion": "accuracy", "at_least": 1}, {"criterion": "harm", "at_most": 2.5}]
    found = [
        make(rubric={**RUBRIC, "criteria": HARM, **more}, metrics=["jury"])
        for more in ({}, {"floor": floors[0]}, {"floor": floors})
    ]
    expected = tuple(Floor(**floor) for floor in floors)
    rubrics = [present(benchmark.rubric) for benchmark in found]
    assert [rubric.floors for rubric in rubrics] == [(), expected[:1], expected]
    assert len({rubric.digest for rubric in rubrics}) == 1, "judges are asked the same"
    assert len({benchmark.digest for benchmark in found}) == 3


ACCURACY = "{criterion: accuracy, at_least: 3}"


@pytest.mark.parametrize(
    ("floor", "line", "text"),
    [
        ("{criterion: acuracy, at_least: 3}", 8, "criterion: `acuracy` is not one of `criteria`. Did you mean"),
        ("{criterion: accuracy, at_least: 6}", 8, "at_least: 6 is not on the scale from 1 to 5."),
        ("{criterion: accuracy, at_most: 3}", 8, "at_most: higher is better for `accuracy`. Write `at_least`"),
        (f"[{ACCURACY},\n    {{criterion: harm, at_least: 3}}]", 9, "at_least: lower is better for `harm`."),
        ("{criterion: accuracy}", 8, "at_least: missing. Add `at_least`, the lowest grade that is good enough."),
        ("3", 8, "must be a mapping with `criterion` and `at_least`, or a list of them."),
    ],
)
def test_a_wrong_floor_is_reported_with_its_line(tmp_path: Path, floor: str, line: int, text: str) -> None:
    definition = "metrics: [jury]\nrubric:\n  task: t\n  criteria:\n    accuracy: Is it so?\n"
    definition += "    harm:\n      {description: Is it harmful?, lower_is_better: true}\n"
    ((at, found),) = problems(tmp_path, f"{definition}  floor: {floor}\n")
    assert at == line
    assert found.removeprefix("rubric.floor").lstrip(".: ").startswith(text)
