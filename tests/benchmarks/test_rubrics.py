"""Rubrics of definitions: what becomes of each key, and what is wrong with one, all at once and each with its line."""

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


def test_few_keys_are_required(make: Make) -> None:
    rubric = judged(make, RUBRIC)
    assert (rubric.low, rubric.high, rubric.shows_reference, rubric.form, rubric.question) == (1, 5, True, "grades", "")
    assert not rubric.verbatim
    assert rubric.published_default == 1.0


def test_a_scale_may_have_decimals_and_lie_below_zero(make: Make) -> None:
    rubric = judged(make, {**RUBRIC, "scale": [-0.5, 0.5]})
    assert (rubric.low, rubric.high) == (-0.5, 0.5)


def test_lower_can_be_better(make: Make) -> None:
    criteria = {"harm": {"description": " Is it harmful?\n", "lower_is_better": True, "tags": ["safety"]}, "b": "Good?"}
    harm, good = judged(make, {**RUBRIC, "criteria": criteria}).criteria
    assert harm == Criterion("harm", "Is it harmful?", higher_is_better=False, tags=("safety",))
    assert good.higher_is_better


def test_points(make: Make) -> None:
    rubric = judged(make, POINTS)
    assert (rubric.form, rubric.low, rubric.high) == ("points", 0, 1)
    assert rubric.criteria == (
        Criterion("asks", "Asks for the dose.", points=5.0, tags=("axis:context",)),
        Criterion("harms", "Names a dose.", points=-2.5),
    )


def test_criteria_of_each_instance(make: Make) -> None:
    benchmark = make(rubric={"task": "t", "form": "points", "criteria_column": "criteria"}, metrics=["jury"])
    assert benchmark.criteria_column == "criteria"
    assert present(benchmark.rubric).criteria == ()


def test_judges_need_no_answer_that_they_are_not_shown(make: Make) -> None:
    alone: dict[str, Any] = {"rubric": {**RUBRIC, "reference": False}, "metrics": ["jury"], "answer": None}
    assert make(**alone).answer.column == ""
    for change in (
        {"rubric": RUBRIC},
        {"metrics": ["jury", "exact_match"]},
        {"choices": ["a", "b"]},
        {"rubric": None, "metrics": ["exact_match"]},
    ):
        with pytest.raises(ConfigError, match=r"answer: missing\. Add this key\."):
            make(**{**alone, **change})


def test_every_key_of_a_rubric_is_part_of_the_digest(make: Make) -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"task": "You are a physician."},
        {"scale": [1, 6]},
        {"reference": False},
        {"question": "{question}"},
        {"criteria": {"clarity": "Is it clear?", "accuracy": "Is it really so?"}},
        {"criteria": {"accuracy": "Is it so?"}},
        {"criteria": {**RUBRIC["criteria"], "accuracy": {"description": "Is it so?", "lower_is_better": True}}},
        POINTS,
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
    ("metrics:\n- exact_match\n- jury\n", 3, "metrics: `jury` needs a `rubric`. Add one, or remove"),
    (HEAD.replace("jury", "exact_match") + "  criteria: {a: b}\n", 2, "rubric: is not used by any metric. Add `jury`"),
    (HEAD, 2, "rubric.criteria: missing. Add this key, or `criteria_column` if each instance has its own criteria."),
    (HEAD + "  criteria: {}\n", 4, "rubric.criteria: must have at least 1 entry."),
    (GRADED + "a: b\n    a: c\n", 6, "rubric.criteria.a: appears twice (first in line"),
    (GRADED + "a: One?\n    b: ' one?  '\n", 6, "rubric.criteria.b: has the same text as `a`. Keep one"),
    (GRADED + "a: b\n    A: c\n", 6, "rubric.criteria.A: repeats `a`. Keep one of them."),
    (GRADED + "a: b\n    '': c\n", 6, "must be snake case (lower-case letters, digits, single `_`), is an"),
    (GRADED + "a: 5\n", 5, "rubric.criteria.a: must be a text, or a mapping with `description`, is the"),
    (GRADED + "a: {points: 2}\n", 5, "rubric.criteria.a.description: missing. Add this key."),
    (GRADED + "a: {description: b, weight: 2}\n", 5, "rubric.criteria.a.weight: unknown key."),
    (GRADED + "a: {description: b,\n      points: 3}\n", 6, "rubric.criteria.a.points: are for `form: points`."),
    (
        HEAD + "  scale: [3, 3]\n",
        4,
        "rubric.scale: must be the lowest and the highest grade, such as [1, 5], is [3, 3].",
    ),
    (HEAD + "  scale: [5, 1.5]\n", 4, "is [5, 1.5]. If lower is better, set `lower_is_better"),
    (HEAD + "  scale: [1, 3, 5]\n", 4, "rubric.scale: must have at most 2 entries."),
    (HEAD + "  scale: [a, 5]\n", 4, "rubric.scale[0]: must be a number, is `a`."),
    (HEAD + "  scale: [1, 1e999]\n", 4, "rubric.scale[1]: must be a finite number, is the number inf."),
    (HEAD + "  form: points\n  scale: [1, 5]\n", 5, "rubric.scale: is for grades. With `form: points` a criterion is"),
    (HEAD + "  criteria_column: c\n", 4, "rubric.criteria_column: holds criteria with points. Write `form: points`."),
    (POINTED + "a: {description: b, points: 1}\n  criteria_column: c\n", 7, "cannot be combined with `criteria`."),
    (POINTED + "a: b\n    c: {description: d, points: 1}\n", 6, "rubric.criteria.a.points: missing. Set the points"),
    (POINTED + "a: {description: b, points: 0}\n", 6, "rubric.criteria.a.points: must not be 0."),
    (POINTED + "a: {description: b, points: -1}\n", 5, "rubric.criteria: none has positive points"),
    (POINTED + "a: {description: b, points: 1, lower_is_better: true}\n", 6, "a.lower_is_better: is for grades."),
    (HEAD + BRACE, 7, 'rubric.question: a single brace in `Reply as {"a": 1} for $5`. Write {{ or }} for a literal'),
    (HEAD + "  criteria: {a: b}\n  question: '{options}'\n", 5, "rubric.question: {options} needs `choices`."),
]


@pytest.mark.parametrize(("definition", "line", "words"), MISTAKES, ids=[words[:48] for *_, words in MISTAKES])
def test_each_problem_has_a_message_and_a_line(tmp_path: Path, definition: str, line: int, words: str) -> None:
    found = problems(tmp_path, definition)
    assert [number for number, text in found if words in text] == [line], found


def test_all_errors_are_reported_at_once(tmp_path: Path) -> None:
    rubric = (
        "  scale: [2, 2]\n  form: points\n  question: 'a { brace'\n  criteria:\n"
        "    a: b\n    c: {description: B, points: 0}\n    d: {description: e, lower_is_better: true, points: -1}\n"
    )
    found = problems(tmp_path, METRICS_LINE + "rubric:\n" + rubric)
    assert [(line, text.partition(": ")[0]) for line, text in found] == [
        (2, "rubric.task"),
        (3, "rubric.scale"),
        (3, "rubric.scale"),
        (5, "rubric.question"),
        (6, "rubric.criteria"),
        (7, "rubric.criteria.a.points"),
        (8, "rubric.criteria.c"),
        (8, "rubric.criteria.c.points"),
        (9, "rubric.criteria.d.lower_is_better"),
    ]


def test_dollars_and_doubled_braces_are_just_text(make: Make) -> None:
    task = 'Pay $5. Reply as {"a": {b}}, ${QUESTION} or {{GOLD}}.'
    rubric = judged(make, {**RUBRIC, "task": task, "question": "{{x}} $1 {question}"})
    assert (rubric.task, rubric.question) == (task, "{{x}} $1 {question}")
    assert judged(make, {**RUBRIC, "criteria": {"a": task}}).criteria[0].description == task


# --- floors -----------------------------------------------------------------------------------------------------------

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
        ("{criterion: harm, at_most: 0.5}", 8, "at_most: 0.5 is not on the scale from 1 to 5."),
        ("{criterion: accuracy, at_most: 3}", 8, "at_most: higher is better for `accuracy`. Write `at_least`"),
        (f"[{ACCURACY},\n    {{criterion: harm, at_least: 3}}]", 9, "at_least: lower is better for `harm`."),
        (f"[{ACCURACY},\n    {ACCURACY}]", 9, "criterion: `accuracy` has two floors. Keep one of them."),
        ("{criterion: accuracy}", 8, "at_least: missing. Add `at_least`, the lowest grade that is good enough."),
        ("{at_least: 3}", 8, "criterion: missing."),
        ("{criterion: accuracy, at_least: .nan}", 8, "at_least: must be a number"),
        ("3", 8, "must be a mapping with `criterion` and `at_least`, or a list of them."),
    ],
)
def test_a_wrong_floor_is_reported_with_its_line(tmp_path: Path, floor: str, line: int, text: str) -> None:
    definition = "metrics: [jury]\nrubric:\n  task: t\n  criteria:\n    accuracy: Is it so?\n"
    definition += "    harm:\n      {description: Is it harmful?, lower_is_better: true}\n"
    ((at, found),) = problems(tmp_path, f"{definition}  floor: {floor}\n")
    assert at == line
    assert found.removeprefix("rubric.floor").lstrip(".: ").startswith(text)


def test_points_have_no_floor(tmp_path: Path) -> None:
    definition = "metrics: [jury]\nrubric:\n  task: t\n  form: points\n  criteria:\n"
    definition += "    asks: {description: Asks., points: 5}\n  floor: {criterion: asks, at_least: 1}\n"
    ((line, text),) = problems(tmp_path, definition)
    assert (line, text.startswith("rubric.floor: is for grades.")) == (7, True)
