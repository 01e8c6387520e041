"""The sign-flip test against counting, scipy and random numbers that favor the tail; p-values of many tests."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from medhelm.analysis.comparison.significance import (
    MANY,
    adjust_p_values,
    benjamini_hochberg,
    edgeworth_p,
    holm,
    mcnemar_mid_p,
    saddlepoint_p,
)
from medhelm.analysis.means import Floats
from tests.support.sign_flips import sign_flip_test


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def counted(totals: Floats) -> float:
    """The p-value by looking at every pattern of signs."""
    sums = np.array(list(product((-1, 1), repeat=len(totals)))) @ totals
    return float(np.mean(np.abs(sums) >= abs(totals.sum()) - 1e-9))


KINDS: dict[str, Callable[[int, np.random.Generator], Floats]] = {
    "0/1 scores": lambda k, generator: generator.choice([-1.0, 1.0], k, p=[0.3, 0.7]),
    "clusters of 0/1 scores": lambda k, generator: generator.choice([-3.0, -2, -1, 0, 1, 2, 4], k),
    "one large": lambda k, generator: np.r_[6.0, generator.normal(0, 1, k - 1)],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [2, 5, 9, 13])
def test_few_totals_are_counted_exactly(kind: str, k: int) -> None:
    generator = rng(k)
    for _ in range(5):
        totals = KINDS[kind](k, generator)
        assert sign_flip_test(totals) == pytest.approx(counted(totals), abs=1e-12)


@pytest.mark.parametrize(("more", "less"), [(130, 60), (900, 60), (12, 12), (1, 0), (40, 31)])
def test_0_and_1_scores_give_the_test_of_mcnemar(more: int, less: int) -> None:
    totals = np.r_[np.ones(more), -np.ones(less), np.zeros(50)]
    expected = stats.binomtest(more, more + less).pvalue
    assert sign_flip_test(totals) == pytest.approx(expected, rel=1e-9)
    assert sign_flip_test(totals / 7) == pytest.approx(expected, rel=1e-9)
    observed = float(stats.binom.pmf(less, more + less, 0.5))
    mid = mcnemar_mid_p(np.array([less]), np.array([more + less]))[0]
    assert mid == pytest.approx(min(2 * float(stats.binom.cdf(less, more + less, 0.5)) - observed, 1), rel=1e-9)


def tail(totals: Floats) -> float:
    """The p-value by saddlepoint approximation."""
    return float(saddlepoint_p(np.abs(totals)[None, :], np.abs(totals.sum(keepdims=True)))[0])


def test_the_saddlepoint_agrees_with_draws_that_favor_the_tail() -> None:
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
        assert tail(totals) == pytest.approx(2 * weights.mean(), rel=5 * weights.std() / weights.mean() / 63 + 0.02)
        assert tail(totals) < 1e-3


@pytest.mark.parametrize("n", [120, 200, 1000])
def test_the_edgeworth_tail_errs_a_little_and_on_the_safe_side(n: int) -> None:
    shift = rng(n + 1).uniform(0, 5 / math.sqrt(n), (400, 1))
    totals = np.round((np.clip(rng(n).normal(0, 1, (400, n)), -1.5, 1.5) + shift) * 9) / 9
    sizes, observed = np.abs(totals), np.abs(totals.sum(axis=1))
    squares = (sizes**2).sum(axis=1)
    effective = squares**2 / (sizes**4).sum(axis=1)
    theirs, ours = saddlepoint_p(sizes, observed), edgeworth_p(observed / np.sqrt(squares), effective)
    used = (effective >= MANY) & (theirs > 1e-7)
    ratios = ours[used] / theirs[used]
    assert ratios.min() > 0.97
    assert ratios.max() < 1.3
    assert (ratios[theirs[used] > 1e-3] < 1.05).all()


def test_many_totals_are_normal() -> None:
    totals = rng(1).normal(0.01, 1, 10_005)
    z = totals.sum() / math.sqrt(float(totals @ totals))
    assert sign_flip_test(totals) == pytest.approx(math.erfc(abs(z) / math.sqrt(2)), rel=1e-3)
    huge = np.ones(10_005) + rng(2).normal(0, 0.1, 10_005)
    assert 0 <= sign_flip_test(huge) < 1e-300


def test_a_change_of_unit_or_of_sides_changes_nothing() -> None:
    totals = rng(6).normal(0.2, 1, 60)
    p = sign_flip_test(totals)
    assert sign_flip_test(25 * totals) == pytest.approx(p)
    assert sign_flip_test(-totals) == pytest.approx(p)
    assert sign_flip_test(np.array([0.1 + 0.2, -0.3, 0.3])) == 1  # the last digit counts for nothing


LEVELS: dict[str, Callable[[np.random.Generator], Floats]] = {
    "0/1 scores": lambda generator: generator.choice([-1.0, 0, 1], (1500, 60), p=[0.1, 0.8, 0.1]),
    "grades": lambda generator: generator.integers(-6, 7, (1500, 40)) / 36,
    "clusters": lambda generator: generator.choice([-1.0, 0, 1], (1500, 12, 8)).cumsum(axis=2)[:, :, -1],
    "anything": lambda generator: generator.standard_t(3, (1500, 20)),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("kind", LEVELS)
def test_it_keeps_its_level(kind: str) -> None:
    """No more than 5% of equal models differ; fewer, where scores are few and whole."""
    generator = rng(12)
    found = np.array([sign_flip_test(row) for row in LEVELS[kind](generator)])
    assert np.mean(found <= 0.05) <= 0.0625
    assert np.mean(found <= 0.01) <= 0.0175
    if kind == "anything":
        assert np.mean(found <= 0.05) == pytest.approx(0.05, abs=0.015)
        assert np.mean(found) == pytest.approx(0.5, abs=0.025)


# --- p-values adjusted for the number of tests: by hand, against scipy, and in simulations ----------------------------


@pytest.mark.parametrize(
    ("given_values", "expected"),
    [
        ([], []),
        ([0.2], [0.2]),
        ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),
        ([0.5, 0.9], [1.0, 1.0]),
        ([0.02, 0.02, 0.02], [0.06, 0.06, 0.06]),
    ],
)
def test_holm_by_hand(given_values: list[float], expected: list[float]) -> None:
    assert holm(given_values) == pytest.approx(expected)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_benjamini_and_hochberg_as_in_scipy(p_values: list[float]) -> None:
    assert benjamini_hochberg(p_values) == pytest.approx(stats.false_discovery_control(p_values).tolist())


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_adjusted_values_keep_their_order_and_holm_asks_for_more(p_values: list[float]) -> None:
    strict, mild = adjust_p_values(p_values, "holm"), adjust_p_values(p_values, "bh")
    for p, first, second in zip(p_values, strict, mild, strict=True):
        assert p <= second + 1e-12
        assert second <= first + 1e-12
        assert first <= 1
    order = np.argsort(p_values, kind="stable")
    for values in (strict, mild):
        assert (np.diff(np.array(values)[order]) >= 0).all()
    assert min(strict) == pytest.approx(min(1, len(p_values) * min(p_values)))
