"""The arithmetic of a leaderboard, on arrays."""

from __future__ import annotations

import doctest

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from medhelm.analysis import win_rates
from medhelm.analysis.alignment import AlignedScores
from medhelm.analysis.resampling import Floats
from medhelm.analysis.win_rates import (
    draw_benchmarks,
    draw_instances,
    interval,
    rival_spread,
    row_means,
    tie_groups,
    told_apart,
    win_table,
    wins,
)

NAN = float("nan")

tables = arrays.arrays(
    np.float64,
    arrays.array_shapes(min_dims=2, max_dims=2, max_side=6),
    elements=st.one_of(st.just(NAN), st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])),
)
quick = settings(max_examples=80, deadline=None, database=None)


def test_the_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(win_rates).failed == 0


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.2, 0.6, 0.9], [0, 0.5, 1]),
        ([0.6, 0.6], [0.5, 0.5]),
        ([0.6, 0.6, 0.9], [0.25, 0.25, 1]),
        ([0.5, 0.5, 0.5], [0.5, 0.5, 0.5]),
        ([0.2, NAN, 0.9], [0, NAN, 1]),
        ([NAN, 0.3, NAN], [NAN, NAN, NAN]),
        ([0.3], [NAN]),
        ([0.1 + 0.2, 0.3], [0.5, 0.5]),
    ],
)
def test_wins_count_ties_as_halves(values: list[float], expected: list[float]) -> None:
    np.testing.assert_allclose(wins(np.array(values)), expected)


def slow_win_rate(values: Floats, i: int) -> float:
    """Mean over benchmarks of the share of rivals beaten, one comparison at a time."""
    shares = []
    for column in values.T:
        rivals = [x for j, x in enumerate(column) if j != i and not np.isnan(x)]
        if rivals and not np.isnan(column[i]):
            shares.append(sum(1.0 if column[i] > x else 0.5 if column[i] == x else 0.0 for x in rivals) / len(rivals))
    return sum(shares) / len(shares) if shares else NAN


def slow_spread(values: Floats, i: int) -> float:
    """Population SD over rivals of the share of shared benchmarks won strictly."""
    shares = []
    for j in range(len(values)):
        shared = [(a, b) for a, b in zip(values[i], values[j], strict=True) if not np.isnan(a + b)]
        if j != i and shared:
            shares.append(sum(a > b for a, b in shared) / len(shared))
    if not shares:
        return NAN
    mean = sum(shares) / len(shares)
    return float((sum((s - mean) ** 2 for s in shares) / len(shares)) ** 0.5)


@quick
@given(tables)
def test_fast_and_slow_arithmetic_agree(values: Floats) -> None:
    models = range(len(values))
    np.testing.assert_allclose(row_means(win_table(values)), [slow_win_rate(values, i) for i in models])
    np.testing.assert_allclose(rival_spread(values), [slow_spread(values, i) for i in models], atol=1e-12)


@quick
@given(tables)
def test_win_rates_of_each_benchmark_average_to_one_half(values: Floats) -> None:
    table = win_table(values)
    for column in table.T:
        known = column[~np.isnan(column)]
        assert len(known) != 1
        assert len(known) == 0 or known.mean() == pytest.approx(0.5)


@quick
@given(tables, st.sampled_from([0.5, 0.125, 2.0]), st.sampled_from([0.0, 1.0, -3.0]))
def test_stretching_or_moving_a_benchmark_changes_no_win(values: Floats, factor: float, shift: float) -> None:
    np.testing.assert_array_equal(win_table(values), win_table(values * factor + shift))


@quick
@given(tables)
def test_being_better_never_lowers_a_win_rate(values: Floats) -> None:
    before = row_means(win_table(values))[0]
    values[0] = values[0] + 0.25
    after = row_means(win_table(values))[0]
    assert np.isnan(before) or after >= before


def aligned(*scores: list[float], codes: list[int] | None = None) -> AlignedScores:
    n = len(scores[0])
    numbers = list(range(n)) if codes is None else codes
    return AlignedScores(np.array(scores), np.array(numbers), len(set(numbers)), True)


def test_drawn_instances_vary_around_the_means() -> None:
    generator = np.random.default_rng(0)
    scores = generator.random((3, 200)) + np.array([[0.0], [0.05], [0.4]])
    rates, macros = draw_instances([AlignedScores(scores, np.arange(200), 200, True)], 2000, generator)
    assert rates.shape == macros.shape == (2000, 3)
    assert macros.mean(axis=0) == pytest.approx(scores.mean(axis=1), abs=0.01)
    assert macros.std(axis=0) == pytest.approx(scores.std(axis=1) / np.sqrt(200), rel=0.1)
    assert (rates[:, 2] == 1.0).all()
    assert rates.sum(axis=1) == pytest.approx(1.5)


def test_equal_models_tie_in_every_draw() -> None:
    scores = np.random.default_rng(1).random(50)
    rates, _ = draw_instances([aligned(scores.tolist(), scores.tolist())], 200, np.random.default_rng(2))
    assert (rates == 0.5).all()


def test_a_model_that_is_better_on_every_question_wins_every_draw() -> None:
    scores = np.random.default_rng(3).random(20)
    rates, _ = draw_instances([aligned(scores.tolist(), (scores + 0.01).tolist())], 200, np.random.default_rng(2))
    assert (rates[:, 1] == 1.0).all()


def test_one_instance_leaves_everything_open() -> None:
    rates, macros = draw_instances([aligned([1.0], [0.0])], 500, np.random.default_rng(0))
    assert set(np.unique(rates)) == {0.0, 1.0}
    assert 0.4 < macros.mean() < 0.6


def test_models_without_scores_are_left_out_of_draws() -> None:
    columns = [aligned([1.0, 0.0, 1.0], [NAN] * 3, [0.0, 0.0, 1.0]), aligned([NAN] * 3, [NAN] * 3, [0.5, 0.4, 0.6])]
    rates, macros = draw_instances(columns, 100, np.random.default_rng(0))
    assert np.isnan(rates[:, 1]).all()
    assert np.isnan(macros[:, 1]).all()
    assert not np.isnan(rates[:, [0, 2]]).any()


def test_clusters_widen_the_draws() -> None:
    scores = np.repeat(np.random.default_rng(4).random((1, 40)), 5, axis=1).tolist()
    alone = draw_instances([aligned(*scores)], 500, np.random.default_rng(5))[1]
    together = draw_instances(
        [aligned(*scores, codes=np.repeat(np.arange(40), 5).tolist())], 500, np.random.default_rng(5)
    )[1]
    assert together.std() > 1.8 * alone.std()


def test_drawn_benchmarks_vary_around_the_averages() -> None:
    values = np.random.default_rng(6).random((4, 30))
    rates, macros = draw_benchmarks(values, 4000, np.random.default_rng(7))
    assert rates.mean(axis=0) == pytest.approx(row_means(win_table(values)), abs=0.01)
    assert macros.std(axis=0) == pytest.approx(values.std(axis=1) / np.sqrt(30), rel=0.1)
    assert rates.sum(axis=1) == pytest.approx(2.0)


def test_one_benchmark_leaves_everything_open() -> None:
    rates, macros = draw_benchmarks(np.array([[0.2], [NAN], [0.4]]), 400, np.random.default_rng(0))
    assert np.isnan(rates[:, 1]).all()
    assert np.isnan(macros[:, 1]).all()
    assert rates[:, 0].min() < 0.1
    assert macros[:, 2].max() > 0.9


@pytest.mark.parametrize(
    ("point", "expected"),
    [(0.5, (0.025, 0.975)), (0.9, (0.025, 1.775)), (1.0, (0.025, 1.975)), (-0.5, (-1.975, 0.975))],
)
def test_an_interval_is_the_percentiles_and_their_mirror_image(point: float, expected: tuple[float, float]) -> None:
    assert interval(np.linspace(0, 1, 1001), point) == pytest.approx(expected)


def test_missing_draws_are_left_out_of_an_interval() -> None:
    assert interval(np.array([NAN, 0.3, NAN]), 0.3) == (0.3, 0.3)
    assert interval(np.array([NAN]), 0.3) == (0.3, 0.3)


def test_models_are_told_apart_by_their_paired_difference() -> None:
    noise = np.random.default_rng(0).normal(0, 1, 1000)
    draws = np.stack([noise + 0.1, noise, -noise, np.full(1000, NAN)], axis=1)
    apart = told_apart(draws, np.array([0.1, 0.0, 0.0, NAN]))
    expected = np.zeros((4, 4), dtype=bool)
    expected[0, 1] = expected[1, 0] = True
    np.testing.assert_array_equal(apart, expected)


@pytest.mark.parametrize(
    ("n", "apart", "expected"),
    [
        (0, [], []),
        (1, [], [1]),
        (3, [], [1, 1, 1]),
        (3, [(0, 1), (0, 2), (1, 2)], [1, 2, 3]),
        (4, [(0, 2), (0, 3)], [1, 1, 2, 2]),
        (4, [(0, 2), (2, 3)], [1, 1, 2, 3]),
        (3, [(1, 2)], [1, 1, 1]),
    ],
)
def test_a_tie_group_is_what_cannot_be_told_from_its_best(
    n: int, apart: list[tuple[int, int]], expected: list[int]
) -> None:
    matrix = np.zeros((n, n), dtype=np.bool_)
    for i, j in apart:
        matrix[i, j] = matrix[j, i] = True
    assert tie_groups(matrix) == expected
