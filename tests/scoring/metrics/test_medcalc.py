"""MedCalc-Bench: the published rule against HELM, the corrected one against its authors' rule."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from medhelm.domain import Instance
from medhelm.errors import DataError
from medhelm.scoring.metrics import METRICS
from tests.support.benchmarks.questions import open_question
from tests.support.cases import table

METRIC = METRICS["medcalc_accuracy"]

# Category, reference, limits, and the completions that HELM 0.5.16 scores with 1 and with 0.
MEDCALC = [
    (
        *("physical", "22.86", "21.717", "24.003"),
        ["22.86", "22.9", "21.717", "24.003", "2.29e1", " 22.9\n", "+22.9", "2_2.9", "\u0662\u0663"],
        ["22.86 kg/m2", "24.0031", "about 22.9", "22,9", "", "nan", "22.9.", "-22.9"],
    ),
    ("lab test", "15", "14.25", "15.75", [], ["15"]),
    ("Physical", "5", "4", "6", [], ["5"]),
    ("risk", "4", "4", "4", ["4", " 4\n"], ["4.0", "4.", "four", "04", "4 points"]),
    ("severity", "-1", "-1", "-1", ["-1"], []),
    ("risk", "1.5", "1.425", "1.575", ["1.5"], ["1.45"]),
    (
        *("date", "09/23/2014", "09/23/2014", "09/23/2014"),
        ["09/23/2014", "9/23/2014", " 09/23/2014\n"],
        ["09-23-2014", "2014-09-23", "September 23, 2014", "09/23/14", "09/24/2014", "09/23/2014.", "9 /23/2014"],
    ),
    (
        *("date", *["('14 weeks', '2 days')"] * 3),
        [
            "('14 weeks', '2 days')",
            "('13 weeks', '9 days')",
            "('14 weeks', '2 days') exactly",
            "('014 weeks', '02 days')",
        ],
        ["(14 weeks, 2 days)", "('14 weeks','2 days')", "('14 weeks', '3 days')", '("14 weeks", "2 days")', ""],
    ),
]


def instance(
    reference: str, low: str = "", high: str = "", *, calculator: str = "6", category: str = "physical"
) -> Instance:
    metadata = {"Category": category, "Calculator ID": calculator, "Lower Limit": low, "Upper Limit": high}
    return open_question(reference, **metadata)


def of_row(row: dict[str, str]) -> Instance:
    return open_question(row["Ground Truth Answer"], **row)


@table(("category", "reference", "low", "high", "right", "wrong"), MEDCALC)
def test_published_scores(
    category: str, reference: str, low: str, high: str, right: list[str], wrong: list[str]
) -> None:
    asked = instance(reference, low, high, category=category)
    scores = {reply: METRIC.function("published")(reply, asked) for reply in right + wrong}
    assert scores == {**dict.fromkeys(right, 1), **dict.fromkeys(wrong, 0)}


@pytest.mark.parametrize("calculator", [2, 3, 8, 23, 24, 46, 49, 56, 67])
@pytest.mark.parametrize("category", ["lab", "lab test", "dosage", "dosage conversion", "risk"])
def test_the_kind_of_answer_follows_from_the_calculator(calculator: int, category: str) -> None:
    asked = instance("1.5", "1.425", "1.575", calculator=str(calculator), category=category)
    assert METRIC.corrected("1.45", asked) == 1
    assert METRIC.corrected("1.4", asked) == 0


@table(
    ("reply", "value"),
    [("4", 1), ("4.0", 1), ("3.6", 1), ("4.5", 1), ("4.6", 0), ("3.5", 1), ("four", 1), ("4 or 5", 0)],
)
def test_points_are_rounded(reply: str, value: int) -> None:
    """Halves go to the even number, as in the authors' evaluation."""
    assert METRIC.corrected(reply, instance("4", "4", "4", calculator="4", category="risk")) == value


def test_a_wrong_answer_is_explained() -> None:
    explained = "25 is outside its limits, 21.717 to 24.003"
    assert METRIC.explain("25 kg/m²", instance("22.86", "21.717", "24.003"), "corrected") == explained
    explained = "3.4, to the nearest whole number, is not 4"
    assert METRIC.explain("3.4", instance("4", calculator="4"), "corrected") == explained


@table(
    ("asked", "words"),
    [
        (open_question("4"), "column `Calculator ID` is missing"),
        (instance("4", calculator="999"), "Calculator ID 999 is unknown"),
        (instance("4", "low", "5"), "`Lower Limit` is 'low'"),
        (instance("4", "3", "nan"), "`Upper Limit` is 'nan'"),
        (instance("soon", calculator="69"), "'soon' holds no number of weeks and days"),
    ],
)
def test_an_instance_that_cannot_be_scored_says_why(asked: Instance, words: str) -> None:
    with pytest.raises(DataError, match=words):
        METRIC.corrected("4", asked)


@pytest.fixture(scope="module")
def rows(data_dir: Path) -> list[dict[str, str]]:
    with (data_dir / "medcalc_bench" / "test_data.csv").open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def test_every_reference_of_the_real_data_is_right(rows: list[dict[str, str]]) -> None:
    """By the corrected rule all are; by the published one two categories never score, which is its ceiling."""
    asked = [of_row(row) for row in rows]
    assert len(asked) == 1047
    assert all(METRIC.corrected(one.expected, one) == 1 for one in asked)
    by_published = [METRIC.function("published")(one.expected, one) for one in asked]
    assert sum(by_published) == 680
    lost = Counter(row["Category"] for row, value in zip(rows, by_published, strict=True) if not value)
    assert lost == {"lab": 327, "dosage": 40}
    drawn = np.random.RandomState(0).permutation(1047)[:1000]
    assert sum(by_published[n] for n in drawn) == 646


def test_another_reference_of_the_real_data_is_rarely_right(rows: list[dict[str, str]]) -> None:
    """Each answer against the question of another calculator: the limits do exclude."""
    right = 0.0
    for n, row in enumerate(rows):
        right += METRIC.corrected(rows[(n + 500) % len(rows)]["Ground Truth Answer"], of_row(row))
    assert right < 0.05 * len(rows)
