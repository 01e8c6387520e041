"""The sign-flip test, against counting, against scipy, and against random numbers that favour the tail."""

from __future__ import annotations

import doctest
import math
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from scipy import stats

from medhelm.analysis.comparison import sign_flip_test as sign_flips
from medhelm.analysis.comparison.sign_flip_test import (
    FLIPS,
    HALVES,
    count_as_extreme,
    exact_p,
    monte_carlo_p,
    normal_p,
    p_value,
    random_signs,
    sign_flip_test,
    tail_p,
)
from medhelm.analysis.statistics.cluster_bootstrap import LARGE, Floats


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def counted(totals: Floats) -> float:
    """The p-value by looking at every pattern of signs."""
    sums = np.array(list(product((-1, 1), repeat=len(totals)))) @ totals
    return float(np.mean(np.abs(sums) >= abs(totals.sum()) - 1e-9))


KINDS: dict[str, Callable[[int, np.random.Generator], Floats]] = {
    "any numbers": lambda k, generator: generator.normal(0.4, 1, k),
    "0/1 scores": lambda k, generator: generator.choice([-1.0, 1.0], k, p=[0.3, 0.7]),
    "clusters of 0/1 scores": lambda k, generator: generator.choice([-3.0, -2, -1, 0, 1, 2, 4], k),
    "means of grades": lambda k, generator: generator.integers(-8, 9, k) / 36,
    "one large": lambda k, generator: np.r_[6.0, generator.normal(0, 1, k - 1)],
}


def test_the_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(sign_flips).failed == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [1, 2, 5, 9, 13])
def test_few_totals_are_counted_exactly(kind: str, k: int) -> None:
    generator = rng(k)
    for _ in range(5):
        totals = KINDS[kind](k, generator)
        assert sign_flip_test(totals, generator) == pytest.approx(counted(totals), abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_the_permutation_test_of_scipy(kind: str) -> None:
    totals = KINDS[kind](10, rng(3))

    def total(x: Floats, axis: int) -> Floats:
        return np.asarray(x.sum(axis=axis))

    theirs = stats.permutation_test((totals,), total, permutation_type="samples", n_resamples=np.inf, vectorized=True)
    assert sign_flip_test(totals, rng()) == pytest.approx(theirs.pvalue)


@pytest.mark.parametrize(("more", "less"), [(130, 60), (900, 60), (12, 12), (1, 0), (40, 31)])
def test_0_and_1_scores_give_the_exact_test_of_mcnemar(more: int, less: int) -> None:
    totals = np.r_[np.ones(more), -np.ones(less), np.zeros(50)]
    expected = stats.binomtest(more, more + less).pvalue
    assert sign_flip_test(totals, rng()) == pytest.approx(expected, rel=1e-9)
    assert sign_flip_test(totals / 7, rng()) == pytest.approx(expected, rel=1e-9)


def test_both_ways_of_counting_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = rng(4)
    rows = [row[row != 0] for row in generator.integers(-4, 6, (20, HALVES)).astype(float)]
    by_convolution = [exact_p(row) for row in rows]
    monkeypatch.setattr(sign_flips, "STEPS", 0)
    assert by_convolution == pytest.approx([exact_p(row) for row in rows], rel=1e-9)


def test_many_totals_of_any_kind_are_not_counted() -> None:
    assert exact_p(rng().normal(size=HALVES + 1)) is None
    assert exact_p(np.full(100_000, 0.1)) is None


def test_no_totals_or_equal_ones_do_not_differ() -> None:
    assert sign_flip_test(np.empty(0), rng()) == 1
    assert sign_flip_test(np.zeros(30), rng()) == 1
    assert sign_flip_test(np.array([1e-14, 1e-13, 3e-15]), rng()) == 1
    assert sign_flip_test(np.array([1.0, -1.0]), rng()) == 1


def test_drawn_p_values_agree_with_counted_ones() -> None:
    totals = rng(7).normal(0.25, 1, 20)
    exact = exact_p(totals)
    assert exact is not None
    assert 0.02 < exact < 0.9
    drawn = np.concatenate([2 * heads @ totals for heads in random_signs(20, 40_000, rng(1))]) - totals.sum()
    assert monte_carlo_p(totals, drawn) == pytest.approx(exact, abs=0.008)
    assert p_value(totals, drawn) == pytest.approx(exact)


def test_coins_fall_on_both_sides_and_on_their_own() -> None:
    blocks = list(random_signs(1001, 2500, rng(2)))
    heads = np.concatenate(blocks)
    assert len(blocks) > 1
    assert heads.shape == (2500, 1001)
    assert set(np.unique(heads)) == {0.0, 1.0}
    assert heads.mean() == pytest.approx(0.5, abs=0.002)
    assert np.abs(np.corrcoef(heads[:, :40], rowvar=False) - np.eye(40)).max() < 0.1


@pytest.mark.parametrize("k", [18, 24])
def test_the_tail_is_near_the_exact_p_value_for_ordinary_totals_and_for_outliers(k: int) -> None:
    generator = rng(k)
    ratios, small = [], 0
    for trial in range(300):
        totals = generator.normal(0.9, 1, k) if trial % 2 else generator.standard_cauchy(k) + 1.5
        exact = exact_p(totals)
        assert exact is not None
        if exact < 0.012 and exact * 2 ** (k - 1) > 50:
            ratios.append(tail_p(totals) / exact)
            small += exact < 1e-3
    assert small >= 5
    assert np.mean(ratios) == pytest.approx(1, abs=0.03)
    assert 0.75 < min(ratios) <= max(ratios) < 1.25


def test_the_tail_agrees_with_draws_that_favour_it() -> None:
    """Exponential tilting (Siegmund 1976): signs are drawn so that the observed sum is the rule, and weighted back."""
    generator = rng(9)
    for n, shift in ((200, 0.3), (600, 0.22), (1000, 0.25)):
        totals = generator.normal(shift, 1, n) ** 3
        observed = abs(totals.sum())
        s = observed / float(totals @ totals)
        for _ in range(100):
            s += (observed - float(totals @ np.tanh(s * totals))) / float(totals**2 @ (1 - np.tanh(s * totals) ** 2))
        heads = generator.random((4000, n)) < 1 / (1 + np.exp(-2 * s * totals))
        sums = (2.0 * heads - 1) @ totals
        weights = np.exp(np.log(np.cosh(s * totals)).sum() - s * sums) * (sums >= observed)
        assert tail_p(totals) == pytest.approx(2 * weights.mean(), rel=5 * weights.std() / weights.mean() / 63 + 0.02)
        assert tail_p(totals) < 1e-3


def test_the_largest_sum_there_can_be_has_two_patterns() -> None:
    assert tail_p(np.arange(1.0, 31.0)) == pytest.approx(2.0**-29)
    assert tail_p(np.full(2000, 0.5)) == 0


def test_a_p_value_small_enough_for_a_thousand_tests_is_resolved() -> None:
    """Holm's first step over 1,332 tests asks for 0.05 / 1332: 9,999 flips alone never give it."""
    totals = rng(5).normal(0.3, 1, 400)
    assert 1 / (FLIPS + 1) > 0.05 / 1332
    found = sign_flip_test(totals, rng())
    assert 0 < found < 0.05 / 1332
    assert found == pytest.approx(stats.ttest_1samp(totals, 0).pvalue, rel=0.2)


def test_many_totals_are_normal() -> None:
    totals = rng(1).normal(0.01, 1, LARGE + 5)
    z = totals.sum() / math.sqrt(float(totals @ totals))
    assert sign_flip_test(totals, rng()) == pytest.approx(math.erfc(abs(z) / math.sqrt(2)))
    assert normal_p(np.zeros(3)) == 1
    huge = np.ones(LARGE + 5) + rng(2).normal(0, 0.1, LARGE + 5)
    assert 0 <= sign_flip_test(huge, rng()) < 1e-300


def test_a_change_of_unit_or_of_sides_changes_nothing() -> None:
    totals = rng(6).normal(0.2, 1, 60)
    p = sign_flip_test(totals, rng(1))
    assert sign_flip_test(25 * totals, rng(1)) == pytest.approx(p)
    assert sign_flip_test(-totals, rng(1)) == pytest.approx(p)


def test_equality_is_blind_to_the_last_digits() -> None:
    third = np.array([0.1 + 0.2, -0.3, 0.3])
    assert count_as_extreme(third, 0.3, 1.0) == 3


LEVELS: dict[str, Callable[[np.random.Generator], Floats]] = {
    "0/1 scores": lambda generator: generator.choice([-1.0, 0, 1], (1500, 60), p=[0.1, 0.8, 0.1]),
    "grades": lambda generator: generator.integers(-6, 7, (1500, 40)) / 36,
    "clusters": lambda generator: generator.choice([-1.0, 0, 1], (1500, 12, 8)).cumsum(axis=2)[:, :, -1],
    "anything": lambda generator: generator.standard_t(3, (1500, 20)),
}  # fmt: skip


@pytest.mark.parametrize("kind", LEVELS)
def test_it_keeps_its_level(kind: str) -> None:
    """No more than 5 % of equal models differ; fewer, where scores are few and whole."""
    generator = rng(12)
    found = np.array([sign_flip_test(row, generator) for row in LEVELS[kind](generator)])
    assert np.mean(found <= 0.05) <= 0.0625
    assert np.mean(found <= 0.01) <= 0.0175
    if kind == "anything":
        assert np.mean(found <= 0.05) == pytest.approx(0.05, abs=0.015)
        assert np.mean(found) == pytest.approx(0.5, abs=0.025)


def test_drawn_p_values_keep_the_level_too() -> None:
    generator = rng(13)
    totals = generator.normal(size=(400, 40))
    heads = np.concatenate(list(random_signs(40, 1999, generator)))
    drawn = 2 * heads @ totals.T - totals.sum(axis=1)
    found = np.array([p_value(row, sums) for row, sums in zip(totals, drawn.T, strict=True)])
    assert np.mean(found <= 0.05) == pytest.approx(0.05, abs=0.03)
    assert np.mean(found) == pytest.approx(0.5, abs=0.05)
