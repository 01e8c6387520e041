"""ICD-10 codes: the published rule against the reference implementation, the corrected one against real codes."""

from __future__ import annotations

import random
from string import ascii_uppercase

import numpy as np
import pytest

from medhelm.analysis.ratios import linearized
from medhelm.domain import Instance
from medhelm.scoring.answers.icd_codes import read_codes
from medhelm.scoring.metric import Metric
from medhelm.scoring.metrics import METRICS
from tests.support.benchmarks.questions import open_question
from tests.support.cases import table

F1, PRECISION, RECALL, MICRO = (METRICS[name] for name in ("icd_f1", "icd_precision", "icd_recall", "icd_micro_f1"))


def note(*codes: str) -> Instance:
    return open_question(", ".join(codes))


# Codes of the reference, reply, and what HELM gives: precision, recall, F1.
PUBLISHED = [
    ("I10., E11.9", "I10, J18.9", (1 / 2, 1 / 2, 1 / 2)),
    ("I10., E11.9", "", (0, 0, 0)),
    ("I10., E11.9", "I10, E11.9, vitamin B12, T2 signal, L4", (2 / 5, 1, 4 / 7)),
    ("S72.001A", "S72.001A", (1, 1, 1)),
    ("T40.2X5A", "T40.601A", (1, 1, 1)),
    ("I10., Z3A.20, C7A.8, 02HV33Z", "I10", (1, 1, 1)),
    ("E11.65", "E1165", (0, 0, 0)),
]


@table(("codes", "reply", "scores"), PUBLISHED)
def test_published_scores(codes: str, reply: str, scores: tuple[float, float, float]) -> None:
    found = [metric.function("published")(reply, note(codes)) for metric in (PRECISION, RECALL, F1)]
    assert found == pytest.approx(list(scores))


@pytest.mark.parametrize("metric", [F1, PRECISION, RECALL, MICRO], ids=lambda metric: metric.name)
def test_no_codes_on_both_sides_are_correct_unless_the_completion_is_empty(metric: Metric) -> None:
    """The published program ended with an error there; the corrected rule takes no blank for an answer."""
    empty, procedure = note(""), note("02HV33Z")
    assert F1.function("published")("none", procedure) == F1.function("published")("", procedure) == 1
    assert metric.function("published")("No codes apply.", empty) == 1
    assert metric.corrected("No codes apply.", empty) == 1
    assert metric.corrected(" ", empty) == 0
    assert metric.corrected("I10", empty) == 0
    assert metric.corrected("none", procedure) == 0


ONE_OF_EACH_FORM = """
    I10 N10 Z66 B20 I5A E11.9 E11.65 J96.01 M54.50 Z79.899 R29.712 F32.A U07.1 Z3A.20 C7A.8 C7A.012 D3A.00 M1A.0110
    M1A.00X0 O9A.213 I1A.0 S72.001A T40.2X5A S06.0X1A S06.0XAA T07.XXXA W19.XXXA T50.Z95A O36.5931 H40.1131 C84.A0
    D47.Z1 K31.A0 N80.D0 G43.E09 I82.4Y1 M45.A0 M80.0AXA E11.A
"""
CODES = ONE_OF_EACH_FORM.split()
PROCEDURES = ["02HV33Z", "B2111ZZ", "0SRR019", "0210093", "30233N1", "10D00Z1", "5A1945Z", "GZJZZZZ", "XW033E5"]
FRAMES = [
    "{}",
    "{}.",
    "1.{}",
    "Description ({})",
    "Description [{}], another",
    '["{}"]',
    '{{"code": "{}"}}',
    "The code is {}.",
    "<think>J18.9 or A41.9?</think>{}",
]


@table("frame", FRAMES)
def test_codes_are_read_with_any_words_around_them(frame: str) -> None:
    for code in (*CODES, *PROCEDURES):
        plain = code.replace(".", "")
        assert read_codes(frame.format(code)) == {plain}, code
        assert read_codes(frame.format(plain)) == {plain}, plain


@table("separator", [",", "; ", "\n", " ", " and ", "/", "\n- "])
def test_codes_are_read_in_every_list(separator: str) -> None:
    everything = {code.replace(".", "") for code in CODES}
    assert read_codes(separator.join(CODES)) == everything
    assert read_codes(separator.join(code.replace(".", "") for code in CODES)) == everything
    if separator not in (" ", " and ", "/"):
        assert read_codes(separator.join(CODES).lower()) == everything, "a code alone can be in lower case"


@table(
    "text",
    [
        "",
        "Vitamin B12 deficiency",
        "T2-weighted hyperintensity",
        "L4-L5 fusion, C5-C6 stenosis",
        "H1N1 influenza, COVID-19, HER2",
        "250.00, 401.9, 99223",
        "02HV33I, 0OHV33Z, 1234567, DEFAULT, COVID19",
        "Q2 2019, M2, W3",
        "<think>I10, E11.9",
    ],
)
def test_words_that_look_like_codes_are_not_codes(text: str) -> None:
    assert read_codes(text) == set()


def test_a_code_of_three_signs_is_one_if_its_category_exists() -> None:
    """ICD-10-CM of the fiscal years 2024 to 2026 has 1,918 categories."""
    codes = [
        f"{letter}{digit}{last}" for letter in ascii_uppercase for digit in "0123456789A" for last in "0123456789AB"
    ]
    assert sum(read_codes(code) == {code} for code in codes) == 1918
    assert not any(read_codes(code) for code in ("B12", "T10", "T11", "T12", "A10", "P45", "S18", "U99", "Z06"))


@table(
    ("reply", "precision", "recall", "f1"),
    [
        ("I10, E11.9, S72.001A, 02HV33Z", 1, 1, 1),
        ("I10, vitamin B12", 1, 1 / 4, 2 / 5),
        ("E11", 0, 0, 0),
        ("", 0, 0, 0),
    ],
)
def test_corrected_scores(reply: str, precision: float, recall: float, f1: float) -> None:
    asked = note("I10.", "E11.9", "S72.001A", "02HV33Z")
    found = [metric.corrected(reply, asked) for metric in (PRECISION, RECALL, F1)]
    assert found == pytest.approx([precision, recall, f1])


@table("seed", range(10))
def test_scores_follow_from_sets(seed: int) -> None:
    """An independent computation over random sets of codes, of single notes and of all together."""
    draw = random.Random(seed)
    both = given = wanted = 0
    values, parts = [], []
    for _ in range(8):
        truth = set(draw.sample(CODES, draw.randint(1, 6)))
        reply = set(draw.sample(CODES, draw.randint(0, 6)))
        right = len(truth & reply)
        asked, text = note(*sorted(truth)), "\n".join(sorted(reply))
        assert PRECISION.corrected(text, asked) == (right / len(reply) if reply else 0)
        assert RECALL.corrected(text, asked) == right / len(truth)
        assert F1.corrected(text, asked) == 2 * right / (len(truth) + len(reply))
        values.append(MICRO.corrected(text, asked))
        assert MICRO.parts is not None
        parts.append(MICRO.parts(text, asked, "corrected"))
        both, given, wanted = both + right, given + len(reply), wanted + len(truth)
    assert linearized(np.array(values), parts).mean() == pytest.approx(2 * both / (given + wanted))


def test_wrong_codes_are_explained() -> None:
    asked = note("I10.", "E11.9", "S72.001A")
    reason = "missing: E119, S72001A; not in the reference: J189"
    assert F1.explain("I10, J18.9", asked, "corrected") == reason
    assert RECALL.explain("I10, J18.9", asked, "corrected") == reason.partition(";")[0]
    assert "misreads these codes of the reference: S72.001A" in F1.explain("I10", asked, "published")
