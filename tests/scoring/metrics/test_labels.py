"""Metrics of sets of labels and ICD-10 codes, balanced accuracy, and numbers within limits.

Results of scikit-learn 1.9 and of the reference implementation are written down here.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from string import ascii_uppercase

import numpy as np
import pytest

from medhelm.analysis.ratios import linearized
from medhelm.domain import RULES, Instance, Rule
from medhelm.errors import DataError
from medhelm.scoring.answers.icd_codes import read_codes
from medhelm.scoring.answers.labels import read_labels
from medhelm.scoring.metric import Metric
from medhelm.scoring.metrics import METRICS
from tests.support.benchmarks.questions import choice, open_question
from tests.support.benchmarks.questions import open_question as asked
from tests.support.cases import table

F1, MICRO, MACRO = METRICS["label_f1"], METRICS["label_micro_f1"], METRICS["label_macro_f1"]
BALANCED = METRICS["balanced_accuracy"]

REFERENCES = ["asthma, copd", "copd", "pneumonia, sepsis, asthma", "sepsis", "asthma, heart failure"]
ANSWERS = ["asthma", "copd, asthma", "pneumonia; sepsis; asthma", "pneumonia", ""]


def total(metric: Metric, rule: Rule, replies: Sequence[str], instances: Sequence[Instance]) -> float:
    """The number of a whole run."""
    values = np.array([metric.function(rule)(reply, one) for reply, one in zip(replies, instances, strict=True)])
    if metric.parts is None:
        return float(values.mean())
    parts = [metric.parts(reply, one, rule) for reply, one in zip(replies, instances, strict=True)]
    return float(linearized(values, parts).mean())


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("metric", "expected"), [(F1, 0.4666666667), (MICRO, 0.625), (MACRO, 0.5333333333)])
def test_averages_are_those_of_scikit_learn(metric: Metric, expected: float, rule: Rule) -> None:
    """f1_score(average="samples" | "micro" | "macro", zero_division=0) on the same sets."""
    found = total(metric, rule, ANSWERS, [open_question(reference) for reference in REFERENCES])
    assert found == pytest.approx(expected)


def test_balanced_accuracy_is_that_of_scikit_learn() -> None:
    """balanced_accuracy_score: 3 of 4 yes, 1 of 2 no, 0 of 1 maybe."""
    options = ("yes", "no", "maybe")
    truth = ["yes", "yes", "yes", "yes", "no", "no", "maybe"]
    replies = ["A", "A", "B", "A", "B", "A", "B"]
    found = total(BALANCED, "corrected", replies, [choice(options.index(right), *options) for right in truth])
    assert found == pytest.approx(0.4166666667)


@table("seed", range(10))
def test_averages_follow_from_counts(seed: int) -> None:
    """An independent computation from the counts of each label."""
    draw = random.Random(seed)
    vocabulary = [f"label {n}" for n in range(draw.randint(1, 8))]
    references = [set(draw.sample(vocabulary, draw.randint(1, len(vocabulary)))) for _ in range(9)]
    answers = [{label for label in [*vocabulary, "invented"] if draw.random() < 0.4} for _ in range(9)]
    hits, given, wanted = Counter[str](), Counter[str](), Counter[str]()
    for reference, answer in zip(references, answers, strict=True):
        hits.update(reference & answer)
        given.update(answer)
        wanted.update(reference)
    each = [2 * hits[label] / (given[label] + wanted[label]) for label in given.keys() | wanted.keys()]
    whole = 2 * hits.total() / (given.total() + wanted.total())
    instances = [open_question(", ".join(sorted(reference))) for reference in references]
    replies = ["\n".join(f"- {label.title()}" for label in sorted(answer)) for answer in answers]
    assert total(MICRO, "corrected", replies, instances) == pytest.approx(whole)
    assert total(MACRO, "corrected", replies, instances) == pytest.approx(sum(each) / len(each))


@table(
    "text",
    [
        "* **Asthma**\n* **COPD**\n* **Heart failure**",
        '["asthma", "COPD", "heart failure"]',
        "Asthma, COPD, and heart failure.",
        "<think>sepsis, shock</think>asthma, COPD, heart failure",
    ],
)
def test_labels_are_read_in_any_list(text: str) -> None:
    assert read_labels(text) == {"asthma", "copd", "heart failure"}


def test_the_published_rule_compares_labels_exactly() -> None:
    reference = open_question("Asthma, COPD")
    for reply, published in [("Asthma,COPD", 1), (" COPD\nAsthma ", 1), ("asthma, copd", 0), ("- Asthma, COPD", 0.5)]:
        assert F1.function("published")(reply, reference) == published
        assert F1.corrected(reply, reference) == 1


def test_wrong_labels_are_explained() -> None:
    explained = "missing: asthma; not in the reference: sepsis"
    assert F1.explain("COPD, sepsis", open_question("asthma, copd"), "corrected") == explained
    many = open_question(", ".join("abcdefgh"))
    assert F1.explain("a", many, "corrected") == "missing: b, c, d, e, f and 2 more"


def test_labels_can_be_in_several_references() -> None:
    assert F1.corrected("copd, asthma", open_question("asthma", "copd")) == 1


@pytest.mark.parametrize("rule", RULES)
def test_an_instance_that_has_no_labels_or_options_cannot_be_scored(rule: Rule) -> None:
    for metric in (F1, MICRO, MACRO):
        for nothing in (open_question(), open_question(" ; ")):
            with pytest.raises(DataError, match="the reference holds no label"):
                metric.function(rule)("asthma", nothing)
    with pytest.raises(DataError, match="the question has no options"):
        BALANCED.function(rule)("asthma", open_question("asthma"))


# --- ICD codes --------------------------------------------------------------------------------------------------------


ICD_F1, ICD_PRECISION = METRICS["icd_f1"], METRICS["icd_precision"]
ICD_RECALL, ICD_MICRO = METRICS["icd_recall"], METRICS["icd_micro_f1"]


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
    found = [metric.function("published")(reply, note(codes)) for metric in (ICD_PRECISION, ICD_RECALL, ICD_F1)]
    assert found == pytest.approx(list(scores))


@pytest.mark.parametrize("metric", [ICD_F1, ICD_PRECISION, ICD_RECALL, ICD_MICRO], ids=lambda metric: metric.name)
def test_no_codes_on_both_sides_are_correct_unless_the_completion_is_empty(metric: Metric) -> None:
    """The published program ended with an error there; the corrected rule takes no blank for an answer."""
    empty, procedure = note(""), note("02HV33Z")
    assert ICD_F1.function("published")("none", procedure) == ICD_F1.function("published")("", procedure) == 1
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
    found = [metric.corrected(reply, asked) for metric in (ICD_PRECISION, ICD_RECALL, ICD_F1)]
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
        assert ICD_PRECISION.corrected(text, asked) == (right / len(reply) if reply else 0)
        assert ICD_RECALL.corrected(text, asked) == right / len(truth)
        assert ICD_F1.corrected(text, asked) == 2 * right / (len(truth) + len(reply))
        values.append(ICD_MICRO.corrected(text, asked))
        assert ICD_MICRO.parts is not None
        parts.append(ICD_MICRO.parts(text, asked, "corrected"))
        both, given, wanted = both + right, given + len(reply), wanted + len(truth)
    assert linearized(np.array(values), parts).mean() == pytest.approx(2 * both / (given + wanted))


def test_wrong_codes_are_explained() -> None:
    asked = note("I10.", "E11.9", "S72.001A")
    reason = "missing: E119, S72001A; not in the reference: J189"
    assert ICD_F1.explain("I10, J18.9", asked, "corrected") == reason
    assert ICD_RECALL.explain("I10, J18.9", asked, "corrected") == reason.partition(";")[0]
    assert "misreads these codes of the reference: S72.001A" in ICD_F1.explain("I10", asked, "published")


# --- numbers ----------------------------------------------------------------------------------------------------------


TOLERANCE = METRICS["numeric_tolerance"]


BMI = asked("27.4", low="26.03", high="28.77")


@table(
    ("reply", "published", "corrected"),
    [
        ("27.4", 1, 1),
        ("26.03", 1, 1),
        ("26.02", 0, 0),
        ("The BMI is approximately 27.4.", 0, 1),
        ("<think>31?</think>27", 0, 1),
        ("27 to 28", 0, 0),
    ],
)
def test_a_number_within_its_limits_is_right(reply: str, published: int, corrected: int) -> None:
    assert (TOLERANCE.function("published")(reply, BMI), TOLERANCE.corrected(reply, BMI)) == (published, corrected)


@table(
    ("case", "right", "wrong"),
    [
        (asked("4"), ["4", "4.0"], ["4.1", "-4", "5"]),
        (asked("0.3"), ["0.3", "0.30000000000000004"], ["0.31"]),
        (asked("27.4 kg/m2", tolerance="0.5"), ["26.9", "27.9", "27.4 kg"], ["26.8", "28"]),
        (asked("22.86", tolerance_percent="5"), ["21.717", "24.003"], ["21.71", "24.01"]),
        (asked("3", low="-inf", high="4"), ["-100", "4"], ["4.5", "-inf"]),
        (asked("low", low="1", high="2"), ["2"], ["3"]),
        (asked("5", **{"lower_limit": "4.75", "HIGH": "5.25"}), ["4.75", "5.2"], ["4.7"]),
        (asked("5", low="4", high="6", tolerance="3"), ["4", "6"], ["7"]),
    ],
)
def test_limits_come_from_the_data(case: Instance, right: list[str], wrong: list[str]) -> None:
    assert [TOLERANCE.corrected(reply, case) for reply in right] == [1.0] * len(right)
    assert [TOLERANCE.corrected(reply, case) for reply in wrong] == [0.0] * len(wrong)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("case", "words"),
    [
        (asked("soon"), "the reference 'soon' holds no number"),
        (asked("4", low="3"), "only one limit is given"),
        (asked("4", low="5", high="3"), "the lower limit 5 is above the upper limit 3"),
        (asked("4", low="5", high="6"), "the reference 4 is outside its limits, 5 to 6"),
        (asked("4", low="3", high="nan"), "`high` is 'nan', which is not a number"),
        (asked("4", tolerance="-1"), "the tolerance is -1; it must be 0 or more"),
        (
            asked("4", tolerance="1", tolerance_percent="5"),
            "`tolerance` and `tolerance_percent` are both given",
        ),
        (asked("4", tolerance_percent="5 %"), "`tolerance percent` is '5 %', which is not a number"),
    ],
)
def test_limits_that_no_answer_could_meet_are_an_error_of_the_data(case: Instance, words: str, rule: Rule) -> None:
    with pytest.raises(DataError, match=words):
        TOLERANCE.function(rule)("4", case)


def test_a_wrong_number_is_explained() -> None:
    assert TOLERANCE.explain("30", BMI, "corrected") == "30 is outside its limits, 26.03 to 28.77"
    assert TOLERANCE.explain("5", asked("4"), "corrected") == "5 is not 4"
    assert TOLERANCE.explain("27 kg/m2", BMI, "corrected") == TOLERANCE.explain("?", BMI, "corrected") == ""
