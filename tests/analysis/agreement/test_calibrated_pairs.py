"""Differences between models as clinicians would see them: right for every kind of jury, and in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from medhelm.analysis.agreement.calibrated_pairs import (
    CalibratedPair,
    CalibratedPairs,
    ScoredModel,
    calibrated_pairs,
)
from medhelm.analysis.agreement.calibration import RatingDesign, prediction_powered
from medhelm.analysis.means import Floats
from tests.support.values import present

SCALE = RatingDesign(low=1, high=5)

NAN = float("nan")
NAMES = ("a", "b", "c", "d", "e", "f")

JURIES = {
    "good": (3.4, 0.8, 0.35),
    "useless": (3.4, 0.0, 0.7),
    "reversed": (3.0, -0.8, 0.35),
}
"""How the jury sees a completion: level, slope over its quality, and noise."""


def models(
    rng: np.random.Generator,
    jury: str = "good",
    *,
    n_models: int = 3,
    n: int = 200,
    rated: int = 30,
    shared: bool = True,
    worse: float = 0.0,
    favored: float = 0.0,
) -> list[ScoredModel]:
    """Models on the same instances; all but the first are worse, and the jury favors the first."""
    level, slope, noise = JURIES[jury]
    difficulty, same, ids = 0.3 * rng.normal(size=n), rng.permutation(n)[:rated], [f"i{i}" for i in range(n)]
    found = []
    for place in range(n_models):
        quality = 3.3 + difficulty + 0.7 * rng.normal(size=n) - (worse if place else 0.0)
        given = np.clip(np.round(quality * 3) / 3, 1, 5)
        scores = level + slope * (quality - 3) + noise * rng.normal(size=n) + (0.0 if place else favored)
        drawn = same if shared else rng.permutation(n)[:rated]
        ratings = np.where(np.isin(np.arange(n), drawn), given, NAN)
        found.append(
            ScoredModel(
                benchmark="letters",
                model=NAMES[place],
                ids=ids,
                units=ids,
                scores=np.clip(np.round(scores * 9) / 9, 1, 5),
                low=1,
                high=5,
                ratings=ratings,
            )
        )
    return found


def compared(found: Sequence[ScoredModel], **options: object) -> CalibratedPairs:
    names = list(dict.fromkeys(one.model for one in found))
    return calibrated_pairs(found, names, {}, {}, **options)  # type: ignore[arg-type]


# --- values -----------------------------------------------------------------------------------------------------------


def test_where_the_same_instances_are_rated_the_difference_of_ratings_is_predicted_from_that_of_scores() -> None:
    first, second, _ = found = models(np.random.default_rng(0))
    pair = compared(found).overall[0]
    one = prediction_powered(
        first.scores - second.scores,
        present(first.ratings) - present(second.ratings),
        design=RatingDesign(low=-4, high=4),
    )
    assert (pair.first, pair.second) == ("a", "b")
    assert pair.value == pytest.approx(one.value)
    assert present(pair.high) - present(pair.low) == pytest.approx(one.high - one.low, rel=0.1)


def test_where_others_are_rated_two_calibrated_means_are_subtracted() -> None:
    first, second, _ = found = models(np.random.default_rng(0), shared=False)
    pair = compared(found).overall[0]
    means = [prediction_powered(one.scores, present(one.ratings), design=SCALE).value for one in (first, second)]
    assert pair.value == pytest.approx(means[0] - means[1])


def test_unequal_probabilities_are_weighed() -> None:
    found = models(np.random.default_rng(0), shared=False)
    drawn = [replace(one, probabilities=np.where(one.scores < 3, 0.5, 0.1)) for one in found]
    plain, weighed = compared(found).overall[0].value, compared(drawn).overall[0].value
    means = [
        prediction_powered(
            one.scores, present(one.ratings), design=replace(SCALE, probabilities=one.probabilities)
        ).value
        for one in drawn[:2]
    ]
    assert weighed == pytest.approx(means[0] - means[1])
    assert weighed != pytest.approx(plain)


def test_a_jury_that_favors_a_model_is_corrected() -> None:
    found = models(np.random.default_rng(0), favored=1.0, rated=60)
    raw = float(found[0].scores.mean() - found[1].scores.mean())
    pair = compared(found).overall[0]
    assert raw > 0.8
    assert abs(present(pair.value)) < 0.3
    assert pair.better is None


def test_over_benchmarks_differences_are_averaged_from_0_to_1_and_other_metrics_count_as_they_are() -> None:
    rng = np.random.default_rng(0)
    judged = models(rng)
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
    assert {pair.benchmark for pair in found.benchmarks} == {"letters"}
    heavy = calibrated_pairs([*judged, *exact], NAMES[:3], {"letters": 3.0, "exact": 1.0}, {})
    assert heavy.overall[0].value == pytest.approx((3 * on_letters / 4 + 2 * expected - on_letters / 4) / 4)


@pytest.mark.parametrize("case", ["few", "none", "raters"])
def test_what_cannot_be_compared_has_a_reason(case: str) -> None:
    first, second, third = models(np.random.default_rng(0), shared=False)
    tables: dict[str, tuple[Sequence[str], Floats]] = {}
    if case == "raters":
        first, second = replace(first, raters={"Dr A": 1.0}), replace(second, raters={"Dr B": 1.0})
        tables["letters"] = (("Dr A", "Dr B"), np.array([[3.0, NAN]] * 30 + [[NAN, 3.0]] * 30))
    else:
        kept = np.flatnonzero(~np.isnan(present(first.ratings)))[: 9 if case == "few" else 0]
        first = replace(first, ratings=np.where(np.isin(np.arange(200), kept), present(first.ratings), NAN))
    found = calibrated_pairs([first, second, third], NAMES[:3], {}, tables)
    pair = found.overall[0]
    words = {"few": "9 rated units are too few", "none": "0 rated units", "raters": "different clinicians rated"}
    assert pair.value is None
    assert words[case] in pair.reason
    assert found.ranks() == {}


def test_severity_of_different_raters_widens_the_interval() -> None:
    rng = np.random.default_rng(0)
    first, second, _ = models(rng, shared=False)
    table = 3 + rng.normal(size=(40, 1)) + np.array([0.0, 0.5, -0.5, 0.2]) + 0.3 * rng.normal(size=(40, 4))
    tables = {"letters": (("A", "B", "C", "D"), table)}
    same = [replace(one, raters=dict.fromkeys("ABCD", 0.25)) for one in (first, second)]
    apart = [replace(first, raters={"A": 0.5, "B": 0.5}), replace(second, raters={"C": 0.5, "D": 0.5})]
    narrow, wide = (calibrated_pairs(pair, NAMES[:2], {}, tables).overall[0] for pair in (same, apart))
    assert narrow.value == wide.value
    assert present(wide.low) < present(narrow.low) - 0.3


# --- level and power --------------------------------------------------------------------------------------------------


def error_rate(runs: int, jury: str, **options: object) -> float:
    """Share of boards of equal models with any finding."""
    rng = np.random.default_rng(0)
    found = [compared(models(rng, jury, **options)) for _ in range(runs)]  # type: ignore[arg-type]
    return float(np.mean([any(pair.better for pair in one.overall) for one in found]))


@pytest.mark.parametrize("jury", JURIES)
def test_equal_models_are_rarely_told_apart(jury: str) -> None:
    assert error_rate(100, jury, favored=0.5) <= 0.09


@pytest.mark.long
@pytest.mark.parametrize("jury", JURIES)
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(("n_models", "rated"), [(3, 30), (6, 15)])
def test_the_family_wise_error(jury: str, shared: bool, n_models: int, rated: int) -> None:
    """5%, and three standard errors of the simulation; the jury favors one model."""
    rate = error_rate(400, jury, shared=shared, n_models=n_models, rated=rated, favored=0.5)
    assert rate <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400)


@pytest.mark.long
@pytest.mark.parametrize(("jury", "power"), [("good", 0.9), ("useless", 0.5), ("reversed", 0.5)])
def test_a_model_that_is_better_is_found(jury: str, power: float) -> None:
    rng = np.random.default_rng(0)
    found = [compared(models(rng, jury, worse=0.4, rated=50, n=300)) for _ in range(200)]
    assert np.mean([one.overall[0].better == "a" for one in found]) >= power
    assert not any(one.overall[0].better == "b" for one in found)


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
    assert pairs({"ab": 0.0, "ac": 0.0, "bc": 0.0}, set()).ranks() == dict.fromkeys("abc", (1, 3))
    assert pairs({"ab": -1.0, "ac": 0.0, "bc": 1.0}, set()).ranks() == {"a": (2, 3), "b": (1, 1), "c": (2, 3)}


@pytest.mark.parametrize(
    ("values", "findings", "expected"),
    [
        ({"ab": 1.0, "ac": 1.0, "bc": 0.0}, {"ab", "ac", "bc"},
         ["With the clinicians' ratings 2 of 3 findings still hold; b and c can no longer be separated."]),
        ({"ab": 1.0, "ac": 1.0, "bc": 1.0}, {"ab", "ac", "bc"},
         ["With the clinicians' ratings 3 of 3 findings still hold."]),
        ({"ab": 1.0, "ac": 0.0, "bc": 0.0}, {"ab", "ac"},
         ["With the clinicians' ratings 1 of 2 findings still holds; a and c can no longer be separated."]),
        ({"ab": 1.0, "ac": 0.0, "bc": 0.0}, {"ab"}, ["With the clinicians' ratings the finding still holds."]),
        ({"ab": 0.0, "ac": 0.0, "bc": 0.0}, {"ab"},
         ["With the clinicians' ratings the finding no longer holds; a and b can no longer be separated."]),
        ({"ab": -1.0, "ac": 0.0, "bc": 0.0}, {"ab"},
         ["With the clinicians' ratings the finding no longer holds; b is better than a."]),
        ({"ab": None, "ac": 1.0, "bc": 0.0}, {"ab", "ac"},
         ["With the clinicians' ratings the finding still holds. 1 cannot be checked: too few ratings."]),
        ({"ab": None, "ac": None, "bc": None}, {"ab"},
         ["The clinicians' ratings are too few to check the differences between models."]),
        ({"ab": 1.0, "ac": 1.0, "bc": 0.0}, set(), []),
    ],
)  # fmt: skip
def test_the_verdict_says_which_findings_survive(
    values: dict[str, float | None], findings: set[str], expected: list[str]
) -> None:
    assert pairs(values, findings).verdict() == expected
