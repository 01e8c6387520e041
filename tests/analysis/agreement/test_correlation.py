"""Correlation by grades and by ranks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from medhelm.analysis.agreement.coefficients import pearson, spearman

NAN = np.nan

points = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=4, max_size=30).filter(
    lambda rows: min(len({row[side] for row in rows}) for side in (0, 1)) > 1
)


@given(points)
def test_values_and_intervals_agree_with_scipy(rows: list[tuple[int, int]]) -> None:
    x, y = np.array(rows, dtype=float).T
    assert spearman(x, y).value == pytest.approx(float(stats.spearmanr(x, y)[0]))
    found = pearson(x, y)
    assert found.value == pytest.approx(float(stats.pearsonr(x, y)[0]))
    if found.low is not None:
        interval = stats.pearsonr(x, y).confidence_interval(0.95)
        assert (found.low, found.high) == pytest.approx((float(interval.low), float(interval.high)))


def test_intervals_of_ranks_are_those_of_bonett_and_wright() -> None:
    x = np.arange(20.0)
    y = np.array([3, 1, 0, 2, 6, 4, 5, 9, 8, 7, 13, 10, 12, 11, 14, 19, 18, 15, 17, 16], dtype=float)
    found = spearman(x, y)
    r = 1 - 6 * float(((x - y) ** 2).sum()) / (20 * (400 - 1))
    z = 0.5 * math.log((1 + r) / (1 - r))
    ends = [z + sign * 1.959964 * math.sqrt((1 + r * r / 2) / 17) for sign in (-1, 1)]
    expected = [(math.exp(2 * end) - 1) / (math.exp(2 * end) + 1) for end in ends]
    assert found.value == pytest.approx(r)
    assert [found.low, found.high] == pytest.approx(expected, abs=1e-6)


def test_pairs_with_a_missing_side_are_left_out_and_counted() -> None:
    x, y = np.array([1, 2, NAN, 3, 4, 9, 5]), np.array([2, 1, 5, 4, 3, NAN, 9])
    found = spearman(x, y)
    assert (found.n, found.n_left_out) == (5, 2)
    assert found.value == spearman(x[[0, 1, 3, 4, 6]], y[[0, 1, 3, 4, 6]]).value


@pytest.mark.parametrize(
    ("x", "y", "value", "reason"),
    [
        ([1, NAN], [1, 2], None, "at least two"),
        ([0.1, 0.1, 0.1], [1, 2, 3], None, "one side is 0.1 throughout"),
        ([1, 2, 3], [1, 3, 2], 0.5, "too few"),
        ([1, 2, 3, 4], [4, 3, 2, 1], -1, "perfect"),
    ],
)
def test_what_has_no_interval_has_a_reason(x: list[float], y: list[float], value: float | None, reason: str) -> None:
    for found in (pearson(np.array(x), np.array(y)), spearman(np.array(x), np.array(y))):
        assert found.value == (value if value is None else pytest.approx(value))
        assert (found.low, found.high) == (None, None)
        assert reason in found.reason
