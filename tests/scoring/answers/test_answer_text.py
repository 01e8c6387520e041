"""What a completion says, without its wrapping."""

from __future__ import annotations

from medhelm.scoring.answers.text import answer_text, clean_text
from tests.support.cases import table

CLEANED = [
    ("B", "B"),
    ("<think>A?</think>B", "B"),
    ("Ｂ：１２", "B:12"),
    ("“B”", '"B"'),
    ("__B__", "B"),
    ("**Answer:** B", "Answer: B"),
    ("```sql\nselect 1;\n```", "select 1;"),
    ("B</s><|eot_id|>", "B"),
    ("\\(\\text{B}\\)", "{B}"),
    ("> B\n> because", "B\nbecause"),
    ("It is\n\\boxed{B}.", "It is\n\nAnswer: B\n."),
    ("<final_answer>B</final_answer>", "Answer: B"),
    ('{"answer": "B", "why": "not A"}', "Answer: B"),
    # What has a meaning is kept.
    ("-5", "-5"),
    ("> 60", "> 60"),
    ("70/1.6**2 + 3**2", "70/1.6**2 + 3**2"),
    ("select count(*) from a__b where c__d = '**'", "select count(*) from a__b where c__d = '**'"),
    ("12\u00a0345", "12\u00a0345"),
    ("10<sup>9</sup>", "10<sup>9</sup>"),
    ("", ""),
]

ANSWERS = [
    ("Therefore \\boxed{12}. I hope it is correct.", "12"),
    ("\\boxed{10} is the sum; the mean is\n\\boxed{\\text{12}}", "12"),
    ("<answer>\\boxed{12}</answer>", "12"),
    ("`12`", "12"),
    ("'a' and 'b'", "'a' and 'b'"),
    ('{"reasoning": "10 or 11", "final_answer": "12"}', "12"),
    ('Sure!\n```json\n{"answer": "12"}\n```\nAnything else?', "12"),
    ('{"answer": "12', "12"),
    ("{'answer': '12', 'note': 'it\\'s'}", "12"),
    ('{"labels": ["asthma", "COPD"]}', "asthma; COPD"),
    ('{"answer": {"value": 12, "unit": "mg"}}', "12"),
    ('{"answer": null}', ""),
    ("", ""),
]


@table(("completion", "text"), CLEANED)
def test_the_whole_text_is_cleaned(completion: str, text: str) -> None:
    assert clean_text(completion) == text


@table(("completion", "text"), ANSWERS)
def test_a_marked_answer_is_the_answer(completion: str, text: str) -> None:
    assert answer_text(completion) == text
