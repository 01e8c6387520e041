"""Win rates and averages drawn anew, and what the draws say of pairs."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from medhelm.analysis.comparison.multiple_testing import holm
from medhelm.analysis.leaderboard.bootstrap import (
    LeaderboardDraws,
    compare_pairs,
    draw_win_rates,
    sign_flip_p_values,
)
from medhelm.analysis.leaderboard.bootstrap import draw_benchmarks as drawn_benchmarks
from medhelm.analysis.leaderboard.bootstrap import draw_instances as drawn_instances
from medhelm.analysis.leaderboard.win_rates import guarded_table, row_means, win_table
from medhelm.analysis.statistics.alignment import AlignedScores
from medhelm.analysis.statistics.cluster_bootstrap import Floats

NAN = float("nan")


def known(columns: list[AlignedScores]) -> Floats:
    return np.stack([row_means(column.scores) for column in columns], axis=1)


def draw_all(columns: list[AlignedScores], draws: int, rng: np.random.Generator) -> LeaderboardDraws:
    return drawn_instances(iter(columns), known(columns), np.ones(len(columns)), draws, rng)


def draw_instances(columns: list[AlignedScores], draws: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    found = draw_all(columns, draws, rng)
    return found.win_rates, found.macros


def draw_benchmarks(values: Floats, draws: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    found = drawn_benchmarks(values, np.ones(values.shape[1]), draws, rng)
    return found.win_rates, found.macros


def aligned(*scores: list[float] | Floats, codes: list[int] | None = None) -> AlignedScores:
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


# --- gaps and weights -------------------------------------------------------------------------------------------------


def random_columns(rng: np.random.Generator, models: int, k: int, n: int = 40) -> list[AlignedScores]:
    return [aligned(*(rng.random(n) + 0.05 * i for i in range(models))) for _ in range(k)]


def test_without_gaps_guarded_draws_are_the_win_rates() -> None:
    columns = random_columns(np.random.default_rng(0), 4, 3)
    found = draw_all(columns, 200, np.random.default_rng(1))
    np.testing.assert_array_equal(found.guarded, found.win_rates)
    assert found.shared == {}
    np.testing.assert_array_equal(draw_win_rates(columns, 200, np.random.default_rng(1)), found.win_rates)
    values = np.random.default_rng(2).random((4, 9))
    benchmarks = drawn_benchmarks(values, np.ones(9), 200, np.random.default_rng(1))
    np.testing.assert_allclose(benchmarks.guarded, benchmarks.win_rates)
    assert benchmarks.shared == {}


def test_a_gap_is_lost_in_every_draw_and_only_shared_benchmarks_are_compared() -> None:
    rng = np.random.default_rng(3)
    columns = random_columns(rng, 3, 4)
    columns[0].scores[2] = NAN
    found = draw_all(columns, 300, np.random.default_rng(4))
    rest = draw_all(columns[1:], 300, np.random.default_rng(5))
    assert found.guarded[:, 2].mean() == pytest.approx(0.75 * rest.win_rates[:, 2].mean(), abs=0.03)
    assert found.win_rates[:, 2].mean() == pytest.approx(rest.win_rates[:, 2].mean(), abs=0.03)
    assert set(found.shared) == {(0, 2), (1, 2)}
    difference = rest.win_rates[:, 0] - rest.win_rates[:, 2]
    assert found.shared[0, 2].mean() / 3 == pytest.approx(difference.mean(), abs=0.03)


@pytest.mark.parametrize("gaps", [False, True])
def test_a_weighted_benchmark_is_one_that_stands_so_often(gaps: bool) -> None:
    columns = random_columns(np.random.default_rng(6), 3, 2)
    if gaps:
        columns[1].scores[0] = NAN
    weights = np.array([1.0, 3.0])
    found = drawn_instances(columns, known(columns), weights, 100, np.random.default_rng(7))
    single = [draw_all([column], 100, rng) for rng in [np.random.default_rng(7)] for column in columns]
    guarded = np.stack([one.guarded for one in single], axis=2)
    np.testing.assert_allclose(found.guarded, guarded @ weights / 4)
    macros = np.stack([one.macros for one in single], axis=2)
    expected = np.nansum(macros * weights, axis=2) / (~np.isnan(macros) @ weights)
    np.testing.assert_allclose(found.macros, expected)


def test_drawn_benchmarks_take_their_weights_along() -> None:
    values = np.random.default_rng(8).random((3, 30))
    values[0, :5] = NAN
    weights = np.random.default_rng(9).random(30) + 0.5
    found = drawn_benchmarks(values, weights, 4000, np.random.default_rng(10))
    assert found.win_rates.mean(axis=0) == pytest.approx(row_means(win_table(values), weights), abs=0.01)
    assert found.guarded.mean(axis=0) == pytest.approx(row_means(guarded_table(values), weights), abs=0.01)
    assert found.macros.mean(axis=0) == pytest.approx(row_means(values, weights), abs=0.01)
    assert set(found.shared) == {(0, 1), (0, 2)}
    won = np.nan_to_num(win_table(values))
    both = ((won[0] - won[1]) * weights)[5:].sum() * 29 / 30
    assert found.shared[0, 1].mean() == pytest.approx(both, abs=0.1)


# --- pairs ------------------------------------------------------------------------------------------------------------


def test_a_gap_alone_tells_nobody_apart() -> None:
    scores = np.random.default_rng(11).random((2, 100))
    near = AlignedScores(np.stack([scores[0], scores[0] + np.tile([0.001, -0.001], 50)]), np.arange(100), 100, True)
    gap = AlignedScores(np.stack([scores[0], np.full(100, NAN)]), np.arange(100), 100, True)
    columns = [near, gap, gap]
    draws = draw_all(columns, 500, np.random.default_rng(12))
    found = compare_pairs(draws, row_means(guarded_table(known(columns))))
    assert found.rank_significant[0, 1]
    assert not found.significant[0, 1]
    assert found.p_values[0, 1] > 0.05
    clear = AlignedScores(np.stack([scores[0] + 1, scores[1]]), np.arange(100), 100, True)
    columns = [clear, gap]
    draws = draw_all(columns, 500, np.random.default_rng(12))
    found = compare_pairs(draws, row_means(guarded_table(known(columns))))
    assert found.significant[0, 1]
    assert found.significant[1, 0]
    assert found.p_values[0, 1] == found.p_values[1, 0] < 0.001


def test_models_without_a_common_benchmark_are_never_told_apart() -> None:
    scores = np.random.default_rng(13).random(50)
    columns = [aligned(scores.tolist(), [NAN] * 50), aligned([NAN] * 50, (scores + 1).tolist())]
    draws = draw_all(columns, 100, np.random.default_rng(14))
    found = compare_pairs(draws, np.array([0.6, 0.4]))
    assert not found.significant.any()
    assert found.p_values[0, 1] == 1.0


def test_p_values_are_those_of_the_normal_distribution() -> None:
    from scipy.stats import norm

    rng = np.random.default_rng(15)
    guarded = rng.normal([0.6, 0.5, 0.4], 0.04, (2000, 3))
    found = compare_pairs(LeaderboardDraws(guarded, guarded, guarded, {}), np.array([0.6, 0.5, 0.4]))
    difference = guarded[:, 0] - guarded[:, 1]
    assert found.p_values[0, 1] == pytest.approx(2 * norm.sf(difference.mean() / difference.std()))
    assert found.p_values[0, 2] < found.p_values[0, 1]
    across = compare_pairs(LeaderboardDraws(guarded, guarded, guarded, {}), np.array([0.4, 0.5, 0.6]))
    assert across.p_values[0, 2] == 1.0
    equal = compare_pairs(LeaderboardDraws(guarded, guarded, guarded[:, [0, 0, 2]], {}), np.array([0.6, 0.6, 0.4]))
    assert equal.p_values[0, 1] == 1.0


def test_p_values_of_drawn_benchmarks_are_those_of_all_their_signs() -> None:
    values = np.array([[0.9, 0.8, 0.7, 0.6], [0.5, 0.7, 0.65, 0.1], [0.6, 0.3, 0.9, 0.2]])
    found = sign_flip_p_values(values, np.ones(4), np.random.default_rng(17))
    won = win_table(values)
    for i, j in combinations(range(3), 2):
        difference = won[i] - won[j]
        signs = np.array(list(product((-1.0, 1.0), repeat=4)))
        as_far = np.abs(signs @ difference) >= abs(difference.sum()) - 1e-9
        assert found[i, j] == found[j, i] == pytest.approx(as_far.mean())
    assert (np.diag(found) == 1).all()
    assert (sign_flip_p_values(values[:, :1], np.ones(1), np.random.default_rng(17)) == 1.0).all()


def test_a_gap_alone_makes_no_small_p_value() -> None:
    """The second model lacks all but one benchmark, and wins there."""
    values = np.full((2, 12), 0.9)
    values[1] = np.nan
    values[1, 0] = 0.95
    assert sign_flip_p_values(values, np.ones(12), np.random.default_rng(18))[0, 1] == 1.0
    whole = np.vstack([values[0], np.full(12, 0.5)])
    assert sign_flip_p_values(whole, np.ones(12), np.random.default_rng(18))[0, 1] == pytest.approx(2 / 2**12)


def test_equal_models_are_hardly_ever_told_apart_after_adjustment() -> None:
    """Of 60 boards of five equally good models, at most 7 may tell any two apart: 5 % would be 3."""
    rng = np.random.default_rng(16)
    wrong = 0
    for _ in range(60):
        columns = [AlignedScores((rng.random((5, 50)) < 0.6).astype(float), np.arange(50), 50, True) for _ in range(8)]
        found = compare_pairs(draw_all(columns, 200, rng), np.round(row_means(guarded_table(known(columns))), 12))
        places = np.triu_indices(5, 1)
        wrong += min(holm(found.p_values[places].tolist())) < 0.05
    assert wrong <= 7
