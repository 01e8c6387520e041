"""Measures of ratings against independent computations, and how often their flags are false alarms."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from medhelm.analysis.agreement.coefficients import Level
from medhelm.analysis.comparison.preferences import preferences
from medhelm.extensions.study.progress import (
    LEAST_OF_A_THIRD,
    LEAST_TIMES,
    criterion_agreement,
    drift,
    unusual_times,
)
from tests.support.agreement_by_hand import alpha_by_hand

NO_OTHERS = np.full(300, np.nan)


def some_grades(seed: int, *, low: int = 1, high: int = 5) -> np.ndarray:
    rng = np.random.default_rng(seed)
    quality = rng.normal(3, 1, (40, 1))
    table = np.clip(np.rint(quality + rng.normal(0, 0.8, (40, 3))), low, high)
    table[rng.random(table.shape) < 0.3] = np.nan
    return table


@pytest.mark.parametrize(("level", "seed"), [("ordinal", 0), ("ordinal", 1), ("nominal", 2)])
def test_agreement_equals_a_naive_computation(level: Level, seed: int) -> None:
    table = some_grades(seed)
    found = criterion_agreement(table, "clear", level=level)
    pairs = [[(a, b) for a, b in combinations([value for value in row if not np.isnan(value)], 2)] for row in table]
    shared = [row for row in pairs if row]
    assert (found.n, found.n_raters) == (len(shared), 3)
    assert found.alpha.value == pytest.approx(alpha_by_hand(table, level))
    value, low, high = found.alpha.value, found.alpha.low, found.alpha.high
    assert value is not None and low is not None and high is not None
    assert low < value < high
    assert found.same is not None
    assert found.same.value == pytest.approx(np.mean([np.mean([a == b for a, b in row]) for row in shared]))
    if level == "nominal":
        assert found.near is None
        return
    assert found.near is not None
    assert found.near.value == pytest.approx(np.mean([np.mean([abs(a - b) <= 1 for a, b in row]) for row in shared]))


def test_preferences_agree_if_they_are_on_one_side() -> None:
    table = np.array([[-2, -1], [2, 1], [0, 0], [-1, 1], [0, 2.0]])
    found = criterion_agreement(table, "preference", level="ordinal", is_preference=True)
    assert found.same is not None and found.near is not None
    assert (found.same.value, found.near.value) == pytest.approx((3 / 5, 4 / 5))


@pytest.mark.parametrize("n_units", [9, 10])
def test_intervals_need_ten_independent_instances(n_units: int) -> None:
    units = [f"i{place % n_units}" for place in range(40)]
    found = criterion_agreement(np.repeat(some_grades(1), 2, axis=0)[:40], "clear", level="ordinal", clusters=units)
    shares = preferences(["a", "b"] * 20, ["b", "a"] * 20, np.resize([-1, 0, 1, 2], 40), units).shares
    assert (found.n_units, found.alpha.value is None) == (n_units, False)
    assert {one is None for one in (found.alpha.low, *(share.low for share in shares))} == {n_units < 10}
    few = "9 independent instances are too few for an interval: 10 at least"
    assert found.alpha.reason == (few if n_units < 10 else "")


@pytest.mark.parametrize("table", [np.empty((0, 3)), np.full((4, 2), np.nan), np.array([[1, np.nan], [np.nan, 2]])])
def test_without_shared_cases_there_is_no_agreement(table: np.ndarray) -> None:
    found = criterion_agreement(table, "clear", level="ordinal", clusters=["a"] * len(table))
    assert (found.n, found.same, found.alpha.value) == (0, None, None)


# --- one rater --------------------------------------------------------------------------------------------------------


def test_drift_equals_welchs_interval() -> None:
    rng = np.random.default_rng(3)
    grades = rng.integers(1, 6, 37).astype(float)
    first, last = grades[:12], grades[-12:]
    theirs = stats.ttest_ind(last, first, equal_var=False).confidence_interval(0.95)
    found = drift(grades, NO_OTHERS[:37])
    assert (found.value, found.low, found.high) == pytest.approx((last.mean() - first.mean(), theirs.low, theirs.high))
    assert (found.n, found.is_adjusted) == (24, False)


def test_easier_cases_are_not_taken_for_drift_where_others_rated_them() -> None:
    rng = np.random.default_rng(4)
    quality = np.repeat([2.0, 3.0, 4.0], 10)
    noise = rng.normal(0, 0.3, (2, 30))
    assert drift(quality + noise[0], NO_OTHERS[:30]).is_flagged
    found = drift(quality + noise[0], quality + noise[1])
    assert (found.is_adjusted, found.is_flagged) == (True, False)
    harsher = drift(quality + noise[0] - np.repeat([0.0, 0.5, 1.0], 10), quality + noise[1])
    assert (harsher.is_adjusted, harsher.is_flagged) == (True, True)
    assert harsher.value == pytest.approx(-1, abs=0.4)


def test_few_cases_say_nothing() -> None:
    few = 3 * LEAST_OF_A_THIRD - 1
    assert drift(np.arange(few, dtype=float), NO_OTHERS[:few]).value is None
    assert unusual_times([1.0] * (LEAST_TIMES - 2) + [900.0]) == []
    same = drift(np.full(30, 3.0), NO_OTHERS[:30])
    assert (same.value, same.low, same.is_flagged) == (0.0, None, False)


@pytest.mark.parametrize("n", [18, *(pytest.param(n, marks=pytest.mark.long) for n in (40, 120))])
def test_false_alarms_of_drift_are_rare(n: int) -> None:
    rng = np.random.default_rng(n)
    flagged = []
    for _ in range(1000):
        quality = rng.normal(3.5, 1, n)
        grades, others = (np.clip(np.rint(quality + rng.normal(0, 0.7, n)), 1, 5) for _ in range(2))
        others[rng.random(n) < 0.5] = np.nan
        flagged.append(drift(grades, others).is_flagged)
    assert np.mean(flagged) <= 0.03


@pytest.mark.parametrize("n", [LEAST_TIMES, 20, *(pytest.param(n, marks=pytest.mark.long) for n in (12, 40, 100, 300))])
def test_false_alarms_of_times_are_rare_and_outliers_are_found(n: int) -> None:
    rng = np.random.default_rng(n)
    draws = 1000
    times = np.exp(rng.normal(4, 0.5, (draws, n)))
    assert np.mean([bool(unusual_times(own.tolist())) for own in times]) <= 0.05
    if n >= 20:
        times[:, 3] = np.exp(4 + 0.5 * 9)
        assert np.mean([3 in unusual_times(own.tolist()) for own in times[:200]]) > 0.95
