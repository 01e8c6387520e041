"""Which number a reply gives as its answer; more wordings are in `bench.studies.wordings`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.scoring.answers.number import read_number
from tests.support.cases import table

NUMBERS = [
    ("Therefore, the score is 4.\n- Stroke gives 2 points\n- Age gives 1 point", 4),
    ("4", 4),
    (".5", 0.5),
    ("–6", -6),
    ("+5", 5),
    ("$4.5$", 4.5),
    ("27.4kg/m2", 27.4),
    ("85 mL/min per 1.73 m²", 85),
    ("38.3 ml/min/1.73 m\\u00b2", 38.3),
    ("1.250,5", 1250.5),
    ("1'250.5", 1250.5),
    ("2 × 10⁹", 2e9),
    ("3 1/2", 3.5),
    ("eGFR (CKD-EPI 2021): 88 mL/min/1.73 m²", 88),
    ("CHA2DS2-VASc score: 4", 4),
    ("65-year-old woman, score 4", 4),
    ("答案是27.4", 27.4),
    ('{"step_by_step_thinking": "1 + 1 = 2, 2 + 2 = 4", "answer": 4}', 4),
    ("The sum is 3, no, $\\boxed{4\\text{ points}}$", 4),
    ("The final answer is 22.9. The patient weighs 70 kg and is 1.75 m tall.", 22.9),
    ("Weight 70 kg, height 1.75 m.\n\nThe final BMI is 22.9 kg/m² (normal: 18.5-24.9).", 22.9),
    ("Age 75 gives 2, female 1, hypertension 1. The total score is 4. Scores of 2 or more call for treatment.", 4),
    ("<think>maybe 3 or 5</think>4", 4),
    ("Sodium 140, chloride 100 and bicarbonate 24.\nThe anion gap is 16 mEq/L.", 16),
    ("Answer: 4\n- 2 points for stroke\n- 1 point for age\n- 1 point for sex", 4),
    ("MAP = (SBP + 2*DBP)/3 = (120 + 160)/3 = 93.3 mmHg", 93.3),
    ("\\frac{70}{1.75^2} \\approx 22.86", 22.86),
    ("The delta ratio is 0.5, because she was unwell for\n3 days.", 0.5),
    ("Na 130, glucose 600.\nCorrected Na = 130 + 0.024 × (600 − 100) = 142 mEq/L", 142),
]

NONE = [
    "",
    "5 to 7",
    "3 or 4",
    "09/23/2014",
    "nan",
    "9" * 400,
    '{"answer": true}',
    '{"answer": [4, 5]}',
    '{"answer": "unknown", "score": 4}',
    "The patient weighs 70 kg and is 175 cm tall, with a creatinine of 1.2 mg/dL and an age that is not given.",
    "Weight 70 kg, height 175 cm\nAge 60, creatinine 1.2",
]


@table(("reply", "number"), [*NUMBERS, *((reply, None) for reply in NONE)])
def test_the_number_is_read_unless_the_completion_is_ambiguous(reply: str, number: float | None) -> None:
    assert read_number(reply) == (None if number is None else pytest.approx(number, rel=1e-12))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_alone_is_read_exactly(number: float) -> None:
    assert read_number(repr(number)) == number
    assert read_number(f" {number!r}\n") == number


@given(
    st.floats(min_value=-1e6, max_value=1e6),
    st.sampled_from(["The answer is {}", "{} mmHg", "**{}**", "\\boxed{{{}}}"]),
)
def test_a_number_with_words_around_it_is_read(number: float, frame: str) -> None:
    assert read_number(frame.format(f"{number:.3f}")) == float(f"{number:.3f}")
