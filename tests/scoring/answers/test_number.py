"""Which number a reply gives as its answer."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medhelm.scoring.answers.number import read_number
from tests.support.cases import table

WHOLE = [
    ("4", 4),
    ("4.", 4),
    ("27.4", 27.4),
    (".5", 0.5),
    ("-6", -6),
    ("−6", -6),
    ("–6", -6),
    ("+5", 5),
    ("1e3", 1000),
    ("３.５", 3.5),
    ("**4**", 4),
    ('"4"', 4),
    ("$4.5$", 4.5),
    ("0", 0),
]

WITH_UNIT = [
    ("27.4 kg/m²", 27.4),
    ("27.4kg/m2", 27.4),
    ("85 mL/min/1.73 m²", 85),
    ("85 mL/min per 1.73 m²", 85),
    ("35.2 MME/day", 35.2),
    ("15 mEq/L", 15),
    ("100 mg/24 h", 100),
    ("0.247%", 0.247),
    ("25 percent", 25),
    ("-0.83 L", -0.83),
    ("38.3 ml/min/1.73 m\\u00b2", 38.3),
]

SEPARATED = [
    ("1,250", 1250),
    ("1,250.5", 1250.5),
    ("1.250,5", 1250.5),
    ("1.234.567", 1234567),
    ("0,850", 0.85),
    ("22,9 kg/m²", 22.9),
    ("1,2345", 1.2345),
    ("1'250.5", 1250.5),
    ("1\u00a0250,5", 1250.5),
    ("1.250", 1.25),
    ("2.5 x 10^-3", 2.5e-3),
    ("2 × 10⁹", 2e9),
    ("2 \\times 10^{9}", 2e9),
]

WORDED = [
    ("approximately 27.4", 27.4),
    ("minus 6", -6),
    ("negative 6", -6),
    ("CHA2DS2-VASc score: 4", 4),
    ("CURB-65: 2", 2),
    ("FIB-4 index is 3.82", 3.82),
    ("The BMI is 27.4 kg/m².", 27.4),
    ("4 (hypertension, age over 75)", 4),
    ("4 out of 9", 4),
    ("65-year-old woman, score 4", 4),
    ("Class B (7 points)", 7),
    ("22.9 (rounded from 22.857)", 22.9),
    ("答案是27.4", 27.4),
]

ANNOUNCED = [
    ('{"answer": "4"}', 4),
    ('{"step_by_step_thinking": "1 + 1 = 2, 2 + 2 = 4", "answer": 4}', 4),
    ('```json\n{"Answer": -0.5}\n```', -0.5),
    ("{'answer': 4}", 4),
    ('Here it is: {"score": 4}', 4),
    ("The sum is 3, no, $\\boxed{4\\text{ points}}$", 4),
    ("\\boxed{\\text{22.9 kg/m}^2}", 22.9),
    ("**Answer:** 22.9 kg/m²", 22.9),
    ("The final answer is 22.9. The patient weighs 70 kg and is 1.75 m tall.", 22.9),
    ("The patient weighs 70 kg and is 1.75 m tall. The answer is approximately 22.9 kg/m².", 22.9),
    ("Weight 70 kg, height 1.75 m.\n\nThe final BMI is 22.9 kg/m² (normal: 18.5-24.9).", 22.9),
    ("1. Age 65: 1 point\n2. Female: 1 point\n\nTotal score: 2", 2),
    ("Age 75 gives 2, female 1, hypertension 1. The total score is 4. Scores of 2 or more call for treatment.", 4),
    ("Age 1, sex 1, stroke 2.\nTherefore, the CHA2DS2-VASc score is 4.", 4),
    ("<think>maybe 3 or 5</think>4", 4),
]

COMPUTED = [
    ("BMI = 70 / 1.75^2 = 22.857\n\n22.9", 22.9),
    ("Weight 70 kg\nHeight 1.75 m\n\n22.9", 22.9),
    ("Sodium 140, chloride 100 and bicarbonate 24.\nThe anion gap is 16 mEq/L.", 16),
    ("Answer: 4\n- 2 points for stroke\n- 1 point for age\n- 1 point for sex", 4),
    ("BMI = 70 / (1.75^2) = 22.86", 22.86),
    ("BMI = 70/(1.75*1.75) = 22.86 kg/m2", 22.86),
    ("MAP = (SBP + 2*DBP)/3 = (120 + 160)/3 = 93.3 mmHg", 93.3),
    ("Anion gap: 140 - (100 + 24) = 16 mEq/L", 16),
    ("\\frac{70}{1.75^2} \\approx 22.86", 22.86),
    ("Na 130, glucose 600.\nCorrected Na = 130 + 0.024 × (600 − 100) = 142 mEq/L", 142),
]

NONE = [
    "",
    "N/A",
    "I cannot calculate this.",
    "1/2",
    "5-7",
    "5 to 7",
    "between 5 and 7",
    "3 or 4",
    "> 60",
    "≥ 4",
    "at least 4",
    "1,2,3",
    "1,23,456",
    "3:1",
    "09/23/2014",
    "2014-09-23",
    "1st",
    "CHA2DS2-VASc",
    "65-year-old",
    "65 years old",
    "nan",
    "9" * 400,
    "1e999",
    '{"answer": null}',
    '{"answer": true}',
    '{"answer": [4, 5]}',
    '{"answer": "unknown", "score": 4}',
    "<think>The answer is 4",
    "The patient weighs 70 kg and is 175 cm tall, with a creatinine of 1.2 mg/dL and an age that is not given.",
    "Weight 70 kg, height 175 cm\nAge 60, creatinine 1.2",
]


NAMES_AND_SEPARATORS = [
    ("eGFR (CKD-EPI 2021): 88 mL/min/1.73 m²", 88),
    ("CKD-EPI 2021: 88", 88),
    ("GFR by CKD-EPI 2021 is 88", 88),
    ("MELD 3.0: 22", 22),
    ("1 234", 1234),
    ("1 234.5", 1234.5),
    ("12 345", 12345),
    ("≈ 1 200 mL", 1200),
    ("2½", 2.5),
    ("3 1/2", 3.5),
    ("GCS 12/15", 12),
    ("53.1%", 53.1),
    ("27·3", 27.3),
    ("٢٧", 27),
    ("27٫3", 27.3),
    ("٢٧٫٣", 27.3),
    ("3+", 3),
    ("four", 4),
    ("150 × 10^9/L", 150),
]


@table(("reply", "number"), NAMES_AND_SEPARATORS + WHOLE + WITH_UNIT + SEPARATED + WORDED + ANNOUNCED + COMPUTED)
def test_the_number_is_read(reply: str, number: float) -> None:
    assert read_number(reply) == pytest.approx(number, rel=1e-12)


@table("reply", NONE)
def test_an_ambiguous_completion_has_no_answer(reply: str) -> None:
    assert read_number(reply) is None


@settings(deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_alone_is_read_exactly(number: float) -> None:
    assert read_number(repr(number)) == number
    assert read_number(f" {number!r}\n") == number


@settings(deadline=None)
@given(
    st.floats(min_value=-1e6, max_value=1e6),
    st.sampled_from(["The answer is {}", "{} mmHg", "**{}**", "\\boxed{{{}}}"]),
)
def test_a_number_with_words_around_it_is_read(number: float, frame: str) -> None:
    assert read_number(frame.format(f"{number:.3f}")) == float(f"{number:.3f}")


PIECES = st.sampled_from(
    [
        *("1", "23", "4.5", "-", "−", ",", ".", "/", "=", "≈", " ", "\n", "answer", "score", ":", "(", ")", "{", "}"),
        *("\\boxed{", '"answer"', "x10^", "e", "%", "kg/m²", "<think>", "²", "٣", "to", "or", "minus"),
    ]
)


@settings(deadline=None)
@given(st.one_of(st.text(), st.lists(PIECES, max_size=14).map("".join), st.lists(PIECES, max_size=14).map(" ".join)))
def test_any_text_gives_a_finite_number_or_none(reply: str) -> None:
    number = read_number(reply)
    assert number is None or math.isfinite(number)


LENGTH = 200_000
ADVERSARIAL = ["1,", "1.", "-", "1 ", "answer: ", "score of ", "=1", '{"a":', "[", "\\boxed{", "\n", "1/", "x10^", "1e"]


@pytest.mark.parametrize("piece", ADVERSARIAL)
def test_long_replies_are_read(piece: str) -> None:
    """Every pattern is bounded: with quadratic time, a reply of this length would take minutes."""
    reply = piece * (LENGTH // len(piece))
    assert read_number(reply + "\nThe answer is 4") in (None, 4)
