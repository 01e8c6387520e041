"""Judge prompts of HELM's custom format: criteria, scale, and everything in them that is just text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


@pytest.mark.parametrize(
    ("value", "description"),
    [
        ('"Is it right?"', "Is it right?"),
        ('" "', "accuracy"),
        ('{"description": "Is it right?", "score": 0}', "Is it right?"),
        ('{"description": 5}', "accuracy"),
        ("5", "accuracy"),
        ("null", "accuracy"),
        ('["score"]', "accuracy"),
    ],
)
def test_descriptions_in_the_block_of_criteria(value: str, description: str) -> None:
    text = f'{{RESPONSE}} <rubric_criteria>{{"accuracy": {value}}}</rubric_criteria>'
    assert rubric_of(text).criteria == (Criterion("accuracy", description),)


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
    "\\1 %s %(x)s \x00 \u2028",
]


@pytest.mark.parametrize("signs", SIGNS)
def test_braces_and_dollars_are_just_text(signs: str) -> None:
    rubric = rubric_of(f"{signs}\n{PROMPT}")
    assert rubric.task == f"{signs}\n{PROMPT}"
    assert [criterion.name for criterion in rubric.criteria] == ["accuracy", "tone"]


OWN_WORDS = """\
You grade letters that a clinic sends to its patients.

<QUESTION>
{QUESTION}
</QUESTION>

<RESPONSE>
{RESPONSE}
</RESPONSE>

Tone (0 = rude; 5 = warm).
Dosage (0 = wrong; 5 = right).

Form of the reply:
%s

<rubric_criteria>
{
  "tone": {
    "score": 0,
    "explanation": "One sentence."
  },
  "dosage": {
    "score": 0,
    "explanation": "One sentence, {as short} as can be."
  }
}
</rubric_criteria>

%s
"""
"""A judge prompt in the form of HELM's documented example."""


@pytest.mark.parametrize(
    "mention",
    [
        "Write one JSON object inside <rubric_criteria>:",
        "Put it between <rubric_criteria> and </rubric_criteria>, as follows:",
        "Begin with <rubric_criteria>, end with </rubric_criteria>. Write <rubric_criteria> only once.",
        "Not <rubric_criteria></rubric_criteria>, but:",
        "No prose such as <rubric_criteria>The tone is fine.</rubric_criteria>, only:",
        'Keep to <rubric_criteria>: {"criterion": {"score": 0}}',
    ],
)
def test_prose_can_mention_the_tags_before_and_after_the_block(mention: str) -> None:
    for text in (OWN_WORDS % (mention, ""), OWN_WORDS % ("", mention), OWN_WORDS % (mention, mention)):
        assert [criterion.name for criterion in rubric_of(text).criteria] == ["tone", "dosage"]


@given(before=st.text(max_size=50), after=st.text(max_size=50))
def test_any_text_can_surround_the_block(before: str, after: str) -> None:
    rubric, problems, _ = read_judge_prompt(f"{before}{PROMPT}{after}", has_reference=False)
    assert problems == []
    assert (rubric.task, len(rubric.criteria)) == (f"{before}{PROMPT}{after}", 2)


@table(
    ("text", "scale"),
    [
        ("Score each criterion from 1 to 5.", (1, 5)),
        ("Rate it on a scale of 0-10.", (0, 10)),
        ("Grades go from 1 (very poor) to 5 (excellent).", (1, 5)),
        ("Scale: 0 \u2013 3", (0, 3)),
        ("Give a rating between 0 and 100.", (0, 100)),
        ("score: 1 through 7; a score of 1-7 in all", (1, 7)),
        ("Score 1 to 5. Explain the score in 1 to 2 sentences.", (1, 5)),
        ("Score accuracy from 1 to 5.\nScore tone from 0 to 3.", None),
        ("Patients aged 1 to 5 years.", None),
        ("Grade it.", None),
        ("Score 5 to 1, 1 to 1 or 1 to 0.", None),
        ("Score 1-5%, or the code 1-5-3, 11-5, 0.1-5, 1-5.5", None),
        ("Migrated 1 to 5 records.", None),
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
            "{RESPONSE}<rubric_criteria>{}</rubric_criteria>",
            ["needs a block <rubric_criteria> with a JSON object of criteria."],
        ),
        (
            '{RESPONSE}<rubric_criteria>["accuracy"]</rubric_criteria>',
            ["needs a block <rubric_criteria> with a JSON object of criteria."],
        ),
        (
            '{RESPONSE}<rubric_criteria>{"a": {}, " ": {}, "b": {}, "A ": {}, "a": {}, "": {}}</rubric_criteria>',
            [
                "a criterion in <rubric_criteria> has an empty name.",
                "the criterion `A ` in <rubric_criteria> repeats `a`. Keep one of them.",
                "the criterion `a` in <rubric_criteria> repeats `a`. Keep one of them.",
                "a criterion in <rubric_criteria> has an empty name.",
            ],
        ),
    ],
)
def test_all_problems_are_reported_together(text: str, problems: list[str]) -> None:
    assert read_judge_prompt(text, has_reference=True)[1] == problems


@pytest.mark.parametrize("block", ["{", "{'a': {}}", "[" * 100_000, '{"a": {}} and more'])
def test_a_block_that_is_not_json(block: str) -> None:
    (problem,) = read_judge_prompt(f"{{RESPONSE}}<rubric_criteria>{block}</rubric_criteria>", has_reference=True)[1]
    assert problem.startswith("the block <rubric_criteria> is not JSON (")
