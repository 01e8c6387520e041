"""Differences between models as clinicians would see them: right for every kind of jury, and in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from bench.studies.clinicians import PAIR_JURIES, has_finding, scored_models
from medhelm.analysis.agreement.calibrated_pairs import CalibratedPairs, ScoredModel, calibrated_pairs
from medhelm.analysis.agreement.calibration import RatingDesign, prediction_powered
from medhelm.analysis.agreement.clinician_means import CalibratedPair
from medhelm.analysis.comparison.significance import holm
from medhelm.analysis.means import Floats
from tests.support.values import present

SCALE = RatingDesign(low=1, high=5)

NAN = float("nan")


def compared(found: Sequence[ScoredModel]) -> CalibratedPairs:
    return calibrated_pairs(found, "abc", {}, {})


# --- values -----------------------------------------------------------------------------------------------------------


def test_where_the_same_instances_are_rated_the_difference_of_ratings_is_predicted_from_that_of_scores() -> None:
    first, second, _ = found = scored_models("good", True, 30, 0.0, 0)
    every = compared(found).overall
    pair, p_values = every[0], [present(one.p_value) for one in every]
    assert [one.p_holm for one in every] == holm(p_values).tolist() != p_values
    one = prediction_powered(
        first.scores - second.scores,
        present(first.ratings) - present(second.ratings),
        design=RatingDesign(low=-4, high=4),
    )
    assert (pair.first, pair.second) == ("a", "b")
    assert pair.value == pytest.approx(one.value)
    assert present(pair.high) - present(pair.low) == pytest.approx(one.high - one.low, rel=0.1)


def test_where_others_are_rated_two_calibrated_means_are_subtracted() -> None:
    first, second, _ = found = scored_models("good", False, 30, 0.0, 0)
    pair = compared(found).overall[0]
    means = [prediction_powered(one.scores, present(one.ratings), design=SCALE).value for one in (first, second)]
    assert pair.value == pytest.approx(means[0] - means[1])


def test_over_benchmarks_differences_are_averaged_from_0_to_1_and_other_metrics_count_as_they_are() -> None:
    rng = np.random.default_rng(0)
    judged = scored_models("good", True, 30, 0.0, 0)
    ids = [f"q{i}" for i in range(100)]
    exact = [
        ScoredModel(benchmark="exact", model=one.model, ids=ids, units=ids,
                    scores=(rng.random(100) < 0.5).astype(float), low=0, high=1)
        for one in judged
    ]  # fmt: skip
    found = compared([*judged, *exact])
    on_letters = present(found.benchmarks[0].value)
    expected = (on_letters / 4 + float(exact[0].scores.mean() - exact[1].scores.mean())) / 2
    assert found.overall[0].value == pytest.approx(expected)
    assert {pair.benchmark for pair in found.benchmarks} == {"x"}
    heavy = calibrated_pairs([*judged, *exact], "abc", {"x": 3.0, "exact": 1.0}, {})
    assert heavy.overall[0].value == pytest.approx((3 * on_letters / 4 + 2 * expected - on_letters / 4) / 4)


@pytest.mark.parametrize("case", ["few", "none", "raters"])
def test_what_cannot_be_compared_has_a_reason(case: str) -> None:
    first, second, third = scored_models("good", False, 30, 0.0, 0)
    tables: dict[str, tuple[Sequence[str], Floats]] = {}
    if case == "raters":
        first, second = replace(first, raters={"Dr A": 1.0}), replace(second, raters={"Dr B": 1.0})
        tables["x"] = (("Dr A", "Dr B"), np.array([[3.0, NAN]] * 30 + [[NAN, 3.0]] * 30))
    else:
        kept = np.flatnonzero(~np.isnan(present(first.ratings)))[: 9 if case == "few" else 0]
        first = replace(first, ratings=np.where(np.isin(np.arange(300), kept), present(first.ratings), NAN))
    found = calibrated_pairs([first, second, third], "abc", {}, tables)
    pair = found.overall[0]
    words = {"few": "9 rated units are too few", "none": "0 rated units", "raters": "different clinicians rated"}
    assert pair.value is None
    assert words[case] in pair.reason
    assert found.ranks() == {}


def test_severity_of_different_raters_widens_the_interval() -> None:
    rng = np.random.default_rng(0)
    first, second, _ = scored_models("good", False, 30, 0.0, 0)
    table = 3 + rng.normal(size=(40, 1)) + np.array([0.0, 0.5, -0.5, 0.2]) + 0.3 * rng.normal(size=(40, 4))
    same = [replace(one, raters=dict.fromkeys("ABCD", 0.25)) for one in (first, second)]
    apart = [replace(first, raters={"A": 0.5, "B": 0.5}), replace(second, raters={"C": 0.5, "D": 0.5})]
    narrow, wide = (calibrated_pairs(pair, "ab", {}, {"x": ("ABCD", table)}).overall[0] for pair in (same, apart))
    assert narrow.value == wide.value
    assert present(wide.low) < present(narrow.low) - 0.3


# --- level and power --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jury", PAIR_JURIES)
def test_equal_models_are_rarely_told_apart(jury: str) -> None:
    assert np.mean([has_finding(jury, True, 30, 0.0, seed) for seed in range(50)]) <= 0.1


@pytest.mark.long
@pytest.mark.parametrize("jury", PAIR_JURIES)
@pytest.mark.parametrize("shared", [True, False])
def test_the_family_wise_error_and_the_power(jury: str, shared: bool) -> None:
    """5%, and three standard errors of the simulation; the jury favors one model."""
    rate = np.mean([has_finding(jury, shared, 30, 0.0, seed) for seed in range(400)])
    assert rate <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400)
    if shared:
        power = np.mean([has_finding(jury, shared, 50, 0.4, seed) for seed in range(200)])
        assert power >= (0.9 if jury == "good" else 0.5)


# --- ranks and words --------------------------------------------------------------------------------------------------


def pairs(values: dict[str, float | None], findings: set[str]) -> CalibratedPairs:
    """Pairs of a, b and c: significant if the value is not 0."""
    found = [
        CalibratedPair(benchmark="x", first=name[0], second=name[1], value=value, p_value=0.5,
                       p_holm=1.0 if not value else 0.01)
        for name, value in values.items()
    ]  # fmt: skip
    return CalibratedPairs(
        models=("a", "b", "c"),
        benchmarks=tuple(found),
        overall=tuple(found),
        raw_findings=frozenset((name[0], name[1]) for name in findings),
    )


def test_ranks_follow_from_the_findings() -> None:
    found = pairs({"ab": 1.0, "ac": 1.0, "bc": 0.0}, set())
    assert found.ranks() == {"a": (1, 1), "b": (2, 3), "c": (2, 3)}
    assert pairs({"ab": -1.0, "ac": 0.0, "bc": 1.0}, set()).ranks() == {"a": (2, 3), "b": (1, 1), "c": (2, 3)}


@pytest.mark.parametrize(
    ("values", "findings", "expected"),
    [
        ({"ab": 1.0, "ac": 1.0, "bc": 0.0}, {"ab", "ac", "bc"},
         ["The clinicians' ratings confirm 2 of the 3 significant differences. "
          "With them, b and c cannot be separated."]),
        ({"ab": -1.0, "ac": 0.0, "bc": 0.0}, {"ab"},
         ["The clinicians' ratings do not confirm the significant difference. With them, b is better than a."]),
        ({"ab": None, "ac": 1.0, "bc": 0.0}, {"ab", "ac"},
         ["The clinicians' ratings confirm the significant difference. For 1 more, there are too few ratings."]),
        ({"ab": None, "ac": None, "bc": None}, {"ab"},
         ["The clinicians' ratings are too few to check the differences between models."]),
        ({"ab": 1.0, "ac": 1.0, "bc": 0.0}, set(), []),
    ],
)  # fmt: skip
def test_the_verdict_says_which_findings_survive(
    values: dict[str, float | None], findings: set[str], expected: list[str]
) -> None:
    assert pairs(values, findings).verdict() == expected
