"""The rising curve that fits best."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.analysis.agreement.calibration import Curve, isotonic_curve

POINTS = st.lists(st.tuples(st.integers(0, 6), st.integers(-8, 8)), min_size=1, max_size=14)


def minimax(points: list[tuple[int, int]]) -> dict[int, float]:
    """The definition by all intervals: the largest over starts of the smallest over ends of the mean between them."""
    knots = sorted({x for x, _ in points})

    def mean(start: int, end: int) -> float:
        inside = [y for x, y in points if start <= x <= end]
        return sum(inside) / len(inside)

    return {
        knot: max(min(mean(start, end) for end in knots if end >= knot) for start in knots if start <= knot)
        for knot in knots
    }


@given(POINTS)
def test_the_curve_is_that_of_all_intervals(points: list[tuple[int, int]]) -> None:
    expected = minimax(points)
    curve = isotonic_curve(np.array([x for x, _ in points], float), np.array([y for _, y in points], float))
    assert curve.knots.tolist() == list(expected)
    assert curve.heights.tolist() == pytest.approx(list(expected.values()), abs=1e-12)


def test_beyond_the_knots_it_goes_on_as_told() -> None:
    curve = Curve(np.array([2.0, 3.0]), np.array([1.0, 5.0]))
    places = np.array([0.0, 2.0, 2.25, 3.0, 4.0])
    assert curve.at(places).tolist() == [1, 1, 2, 5, 5]
    assert curve.at(places, slope=2).tolist() == [-3, 1, 2, 5, 7]
