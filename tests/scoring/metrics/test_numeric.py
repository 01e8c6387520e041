"""Numbers within limits."""

from __future__ import annotations

import pytest

from medhelm.domain import RULES, Instance, Rule
from medhelm.errors import DataError
from medhelm.scoring.metrics import METRICS
from tests.support.benchmarks.questions import open_question as asked
from tests.support.cases import table

METRIC = METRICS["numeric_tolerance"]


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
    assert (METRIC.function("published")(reply, BMI), METRIC.corrected(reply, BMI)) == (published, corrected)


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
    assert [METRIC.corrected(reply, case) for reply in right] == [1.0] * len(right)
    assert [METRIC.corrected(reply, case) for reply in wrong] == [0.0] * len(wrong)


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
        METRIC.function(rule)("4", case)


def test_a_wrong_number_is_explained() -> None:
    assert METRIC.explain("30", BMI, "corrected") == "30 is outside its limits, 26.03 to 28.77"
    assert METRIC.explain("5", asked("4"), "corrected") == "5 is not 4"
    assert METRIC.explain("27 kg/m2", BMI, "corrected") == METRIC.explain("?", BMI, "corrected") == ""
