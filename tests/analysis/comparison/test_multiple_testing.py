"""P-values adjusted for the number of tests: by hand, against scipy, and in simulations."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from medhelm.analysis.comparison.significance import Adjustment, adjust_p_values, benjamini_hochberg, holm
from medhelm.analysis.means import Floats

quick = settings(max_examples=100, deadline=None, database=None)


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


def test_benjamini_and_hochberg_by_hand() -> None:
    """The 15 p-values of their article's example: four are below 0.05 times rank / 15, Holm finds three."""
    p = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528,
         0.7590, 1.0000]  # fmt: skip
    assert sum(q <= 0.05 for q in benjamini_hochberg(p)) == 4
    assert sum(q <= 0.05 for q in holm(p)) == 3
    assert benjamini_hochberg(p)[:4] == pytest.approx([15 * 0.0001, 15 * 0.0004 / 2, 15 * 0.0019 / 3, 15 * 0.0095 / 4])


@quick
@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_benjamini_and_hochberg_as_in_scipy(p_values: list[float]) -> None:
    assert benjamini_hochberg(p_values) == pytest.approx(stats.false_discovery_control(p_values).tolist())


@quick
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


def test_both_ways_have_a_name() -> None:
    assert [adjust_p_values([0.01, 0.04], way).tolist() for way in get_args(Adjustment)] == [[0.02, 0.04], [0.02, 0.04]]


def p_values_of_pairs(generator: np.random.Generator, shifts: Floats, n: int = 60) -> Floats:
    """Two-sided p-values of all pairs of models with these means, which depend on each other as pairs do."""
    scores = generator.normal(size=(len(shifts), n)) + shifts[:, None]
    pairs = [(i, j) for i in range(len(shifts)) for j in range(i)]
    z = [(scores[i] - scores[j]).mean() / np.sqrt(2 / n) for i, j in pairs]
    return np.asarray(2 * stats.norm.sf(np.abs(z)))


def test_holm_controls_the_chance_of_any_false_finding() -> None:
    generator = np.random.default_rng(1)
    shifts = np.array([0.0] * 6 + [1.0] * 2)
    null = np.array([shifts[i] == shifts[j] for i in range(8) for j in range(i)])
    any_false = [
        (np.array(holm(p.tolist()))[null] <= 0.05).any()
        for p in (p_values_of_pairs(generator, shifts) for _ in range(1000))
    ]
    assert np.mean(any_false) <= 0.06
    naive = [(p_values_of_pairs(generator, np.zeros(8)) <= 0.05).any() for _ in range(200)]
    assert np.mean(naive) > 0.35


def test_benjamini_and_hochberg_control_the_share_of_false_findings() -> None:
    generator = np.random.default_rng(2)
    shifts = np.array([0.0] * 5 + [0.5, 0.5, 1.0])
    null = np.array([shifts[i] == shifts[j] for i in range(8) for j in range(i)])
    shares, found = [], []
    for _ in range(1000):
        p = p_values_of_pairs(generator, shifts)
        said = np.array(benjamini_hochberg(p.tolist())) <= 0.05
        shares.append((said & null).sum() / max(said.sum(), 1))
        found.append((said.sum(), (np.array(holm(p.tolist())) <= 0.05).sum()))
    assert np.mean(shares) <= 0.055
    more, fewer = np.mean(found, axis=0)
    assert more > fewer + 1
