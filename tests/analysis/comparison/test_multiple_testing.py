"""P-values adjusted for the number of tests: by hand, against scipy, and in simulations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from medhelm.analysis.comparison.significance import adjust_p_values, benjamini_hochberg, holm


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
