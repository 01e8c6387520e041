"""Judge prompts of HELM's custom format: criteria, scale, and everything in them that is just text."""

from __future__ import annotations

import pytest

from medhelm.benchmarks.helm_format import read_judge_prompt
from medhelm.domain import Criterion, Rubric
from tests.support.cases import table

CRITERIA = '<rubric_criteria>{"accuracy": {"score": 0, "explanation": "why"}, "tone": {}}</rubric_criteria>'
PROMPT = f"Grade {{RESPONSE}} to {{QUESTION}}.\n{CRITERIA}"


def rubric_of(text: str, *, has_reference: bool = False) -> Rubric:
    rubric, problems, _ = read_judge_prompt(text, has_reference=has_reference)
    assert problems == []
    return rubric


def test_the_whole_text_is_what_judges_read() -> None:
    assert rubric_of(PROMPT) == Rubric(
        task=PROMPT,
        criteria=(Criterion("accuracy", "accuracy"), Criterion("tone", "tone")),
        low=0,
        high=5,
        shows_reference=False,
        verbatim=True,
        published_default=0.0,
    )


def test_the_reference_is_shown_if_the_prompt_has_a_place_for_it_and_the_data_one() -> None:
    for text, has_reference, shown in (
        (PROMPT + "{GOLD_RESPONSE}", True, True),
        (PROMPT + "{GOLD_RESPONSE}", False, False),
        (PROMPT, True, False),
    ):
        assert rubric_of(text, has_reference=has_reference).shows_reference is shown


SIGNS = [
    "A patient paid $5, $NAME or ${QUESTION}.",
    'Reply as {"accuracy": {"score": 3}} and nothing else.',
    "{{QUESTION}} {{{RESPONSE}}} } { {} {0} {a b}",
]


@pytest.mark.parametrize("signs", SIGNS)
def test_braces_and_dollars_are_just_text(signs: str) -> None:
    rubric = rubric_of(f"{signs}\n{PROMPT}")
    assert rubric.task == f"{signs}\n{PROMPT}"
    assert [criterion.name for criterion in rubric.criteria] == ["accuracy", "tone"]


@pytest.mark.parametrize(
    "mention",
    [
        "Write one JSON object inside <rubric_criteria>:",
        "Begin with <rubric_criteria>, end with </rubric_criteria>. Write <rubric_criteria> only once.",
        "Not <rubric_criteria></rubric_criteria>, but:",
        'Keep to <rubric_criteria>: {"criterion": {"score": 0}}',
    ],
)
def test_prose_can_mention_the_tags_before_and_after_the_block(mention: str) -> None:
    for text in (f"{mention}\n{PROMPT}", f"{PROMPT}\n{mention}", f"{mention}\n{PROMPT}\n{mention}"):
        assert [criterion.name for criterion in rubric_of(text).criteria] == ["accuracy", "tone"]


@table(
    ("text", "scale"),
    [
        ("Score each criterion from 1 to 5.", (1, 5)),
        ("Grades go from 1 (very poor) to 5 (excellent).", (1, 5)),
        ("Give a rating between 0 and 100.", (0, 100)),
        ("Score accuracy from 1 to 5.\nScore tone from 0 to 3.", None),
        ("Patients aged 1 to 5 years.", None),
        ("Score 1-5%, or the code 1-5-3, 11-5, 0.1-5, 1-5.5", None),
    ],
)
def test_the_scale_is_read_where_the_text_says_it_once(text: str, scale: tuple[float, float] | None) -> None:
    rubric, _, remarks = read_judge_prompt(f"{text}\n{PROMPT}", has_reference=False)
    low, high = scale or (0, 5)
    why = "as in the judge prompt" if scale else "because the judge prompt has none, or several"
    assert (rubric.low, rubric.high) == (low, high)
    assert remarks == [f"grades have a scale of {low} to {high}, {why}; a grade outside it is a failed judgment."]


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        (CRITERIA, ["has no {RESPONSE}, so judges would not see the completion."]),
        ("{RESPONSE}", ["needs a block <rubric_criteria> with a JSON object of criteria."]),
        (
            '{RESPONSE}<rubric_criteria>{"a": {}, " ": {}, "A ": {}}</rubric_criteria>',
            [
                "a criterion in <rubric_criteria> has an empty name.",
                "the criterion `A ` in <rubric_criteria> repeats `a`. Keep one of them.",
            ],
        ),
    ],
)
def test_all_problems_are_reported_together(text: str, problems: list[str]) -> None:
    assert read_judge_prompt(text, has_reference=True)[1] == problems


@pytest.mark.parametrize("block", ["{'a': {}}", "[" * 100_000, '{"a": {}} and more'])
def test_a_block_that_is_not_json(block: str) -> None:
    (problem,) = read_judge_prompt(f"{{RESPONSE}}<rubric_criteria>{block}</rubric_criteria>", has_reference=True)[1]
    assert problem.startswith("the block <rubric_criteria> is not JSON (")
