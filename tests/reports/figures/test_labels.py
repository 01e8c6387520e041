"""Names beside points cover neither each other nor the points, and stay in the picture."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medhelm.analysis.leaderboard.types import Average
from medhelm.reports.figures.labels import PlacedLabel, overlap_area, place, text_width
from medhelm.reports.figures.plot_area import FONT_SIZE, PlotPoint, plot_area, spread

BOUNDS = (620.0, 420.0)


def covers(label: PlacedLabel, point: tuple[float, float]) -> bool:
    left, top, right, bottom = label.box
    return left < point[0] < right and top < point[1] < bottom


def scattered(n: int, seed: int) -> list[tuple[float, float]]:
    rng = np.random.default_rng(seed)
    return [(float(x), float(y)) for x, y in rng.uniform([30, 30], [590, 390], (n, 2))]


@pytest.mark.parametrize("seed", range(6))
def test_fifteen_scattered_points_have_names_that_cover_nothing(seed: int) -> None:
    points = scattered(15, seed)
    labels = place(points, [f"provider/model-{i}" for i in range(15)], bounds=BOUNDS)
    for i, one in enumerate(labels):
        assert all(overlap_area(one, other) == 0 for other in labels[i + 1 :])
        assert not any(covers(one, point) for point in points)


def test_points_in_one_place_have_names_in_different_ones() -> None:
    labels = place([(300.0, 200.0)] * 5, [f"model-{i}" for i in range(5)], bounds=BOUNDS)
    assert all(overlap_area(a, b) == 0 for i, a in enumerate(labels) for b in labels[i + 1 :])


def test_a_lone_name_stands_right_beside_its_point_at_the_same_height() -> None:
    (label,) = place([(100.0, 100.0)], ["model"], bounds=BOUNDS)
    assert label.y == pytest.approx(100)
    assert 100 < label.box[0] < 112


def test_names_avoid_error_bars_where_there_is_room() -> None:
    bar = (98.0, 20.0, 102.0, 380.0)
    (label,) = place([(100.0, 200.0)], ["a-model"], bounds=BOUNDS, bars=[bar])
    assert label.box[0] >= bar[2]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 620), st.floats(0, 420)), min_size=1, max_size=12),
    st.integers(1, 44),
)
def test_names_stay_in_the_picture(points: list[tuple[float, float]], length: int) -> None:
    labels = place(points, ["n" * length] * len(points), bounds=BOUNDS)
    for label in labels:
        left, top, right, bottom = label.box
        assert left >= -1 and top >= -1 and right <= BOUNDS[0] + 1 and bottom <= BOUNDS[1] + 1


def test_the_same_points_give_the_same_places() -> None:
    points, texts = scattered(9, 1), [f"model-{i}" for i in range(9)]
    assert place(points, texts, bounds=BOUNDS) == place(points, texts, bounds=BOUNDS)
    assert place([], [], bounds=BOUNDS) == []


def test_wide_letters_are_wider() -> None:
    assert text_width("iii", 10) < text_width("aaa", 10) < text_width("MMM", 10) < text_width("模型名", 10) + 1
    assert text_width("abc", 20) == pytest.approx(2 * text_width("abc", 10))


# --- the plane --------------------------------------------------------------------------------------------------------


def average(value: float, half: float | None = 0.05) -> Average:
    low, high = (None, None) if half is None else (value - half, value + half)
    return Average(value=value, low=low, high=high, sd=None)


def test_pixels_and_numbers_are_inverse() -> None:
    sheet = plot_area([average(0.3), average(0.7)], [804.74, 1806.17])
    for dollars in (804.74, 1000.0, 1806.17):
        assert sheet.dollars(sheet.across(dollars)) == pytest.approx(dollars, rel=1e-4)
        assert 0 < sheet.across(dollars) < sheet.width
    for value in (0.3, 0.5, 0.7):
        assert sheet.win_rate(sheet.down(value)) == pytest.approx(value, abs=1e-6)
        assert 0 < sheet.down(value) < sheet.height
    assert sheet.across(math.sqrt(804.74 * 1806.17)) == pytest.approx(sheet.width / 2)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(1e-6, 1e7), min_size=1, max_size=8))
def test_every_axis_of_dollars_has_some_round_amounts_in_order(costs: list[float]) -> None:
    sheet = plot_area([average(0.5)] * len(costs), costs)
    ticks = sheet.ticks
    assert 1 <= len(ticks) <= 12
    assert ticks == sorted(set(ticks))
    assert all(sheet.cheap <= tick <= sheet.dear for tick in ticks)
    assert all(sheet.cheap < cost < sheet.dear for cost in costs)


def test_the_published_axis_has_the_amounts_one_expects() -> None:
    sheet = plot_area([average(0.5)] * 2, [804.74, 1806.17])
    assert sheet.ticks == [800, 900, 1000, 1200, 1400, 1600, 1800]


def test_win_rates_of_nothing_and_everything_fit() -> None:
    sheet = plot_area([average(0.0, None), average(1.0, None)], [1.0, 2.0])
    assert (sheet.low, sheet.high) == (0.0, 1.0)
    assert plot_area([average(0.5, 0.5)], [1.0]).high == 1.0


def test_a_far_name_is_joined_to_its_point_and_a_near_one_is_not() -> None:
    sheet = plot_area([average(0.5)], [10.0])
    spot = PlotPoint("model", 10.0, 0.5, 0.45, 0.55)
    x, y = sheet.across(10.0), sheet.down(0.5)
    assert sheet.leader(spot, PlacedLabel(x + 30, y, 40, 12)) is None
    line = sheet.leader(spot, PlacedLabel(x + 100, y, 40, 12))
    assert line is not None
    assert (line["x"], line["y"]) == (10.0, 0.5)
    assert sheet.across(line["x2"]) == pytest.approx(x + 80, abs=0.1)


@pytest.mark.parametrize("heights", [[5.0], [10.0, 11.0, 12.0], [0.0] * 6, [420.0] * 4, [float(i) for i in range(60)]])
def test_names_below_each_other_are_moved_apart(heights: list[float]) -> None:
    found = spread(heights, 420)
    gap = min(FONT_SIZE * 1.3, 420 / len(heights))
    ordered = sorted(found)
    assert all(b - a >= gap - 1e-6 for a, b in pairwise(ordered))
    assert ordered[0] >= gap / 2 - 1e-6 and ordered[-1] <= 420 - gap / 2 + 1e-6
