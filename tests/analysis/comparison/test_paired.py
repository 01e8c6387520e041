"""Paired differences of two models, and of all pairs of many at once."""

from __future__ import annotations

import doctest
import math
from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from medhelm.analysis.comparison import paired
from medhelm.analysis.comparison.paired import (
    PairedDifference,
    adjusted_wald_interval,
    paired_difference,
    paired_differences,
)
from medhelm.analysis.comparison.sign_flip_test import sign_flip_test
from medhelm.analysis.statistics.cluster_bootstrap import LARGE, Clusters, Floats

Made = tuple[Floats, Floats, Clusters]
"""Scores of two models on the same instances, and the instances' clusters."""


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def blocks(k: int, size: int) -> list[str]:
    """k clusters of equal size."""
    return [f"c{i}" for i in range(k) for _ in range(size)]


def difference(a: Floats, b: Floats, clusters: Clusters = None, seed: int = 3, span: float = 1.0) -> PairedDifference:
    found = paired_difference(a, b, clusters, rng(seed), span=span)
    assert found is not None
    return found


def test_the_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(paired).failed == 0


# --- two models -------------------------------------------------------------------------------------------------------


def test_a_paired_difference_is_over_the_shared_instances() -> None:
    found = difference(np.array([1.0, 1.0, 0.0, np.nan, 1.0]), np.array([0.0, 1.0, np.nan, 1.0, 0.0]))
    assert found.value == pytest.approx(2 / 3)
    assert (found.n, found.n_left_out, found.n_clusters) == (3, 2, 3)
    assert found.low <= found.value <= found.high <= 1


def test_a_paired_difference_of_nothing_shared_is_none() -> None:
    assert paired_difference(np.array([1.0, np.nan]), np.array([np.nan, 1.0]), None, rng()) is None


def test_swapping_the_models_turns_the_difference_round() -> None:
    a, b = rng(1).random(200), rng(2).random(200)
    there, back = difference(a, b), difference(b, a)
    assert (-there.value, -there.high, -there.low) == pytest.approx((back.value, back.low, back.high), abs=0.01)
    assert there.p_value == pytest.approx(back.p_value)


def test_pairing_sees_what_two_intervals_cannot() -> None:
    hard = rng(4).random(300)
    found = difference(np.clip(hard + 0.03, 0, 1), hard)
    assert found.low > 0
    assert found.p_value < 1e-6


def test_the_same_scores_do_not_differ_but_are_not_proven_equal() -> None:
    scores = np.array([1.0, 0.0, 1.0, 1.0])
    found = difference(scores, scores)
    assert (found.value, found.p_value) == (0, 1)
    assert found.low < 0 < found.high
    alone = difference(scores[:1], scores[:1], span=4)
    assert (alone.low, alone.high, alone.p_value) == (-4, 4, 1)


def test_one_cluster_says_nothing() -> None:
    found = difference(np.ones(30), np.zeros(30), ["note"] * 30)
    assert (found.value, found.low, found.high, found.p_value, found.n_clusters) == (1, -1, 1, 1, 1)
    assert found.standard_error == 0


def test_the_standard_error_and_the_p_value_take_clusters_whole() -> None:
    a, b = (rng(5).random((2, 40)) < 0.5).astype(float)
    clusters = blocks(10, 4)
    found = difference(a, b, clusters)
    totals = (a - b).reshape(10, 4).sum(axis=1)
    residual = totals - 4 * (a - b).mean()
    assert found.standard_error == pytest.approx(math.sqrt(float(residual @ residual)) / 40)
    assert found.p_value == pytest.approx(sign_flip_test(totals, rng()))


def test_a_difference_of_many_instances_has_the_normal_interval() -> None:
    a, b = rng(6).random((2, LARGE + 10))
    found = difference(a, b)
    half = 1.959964 * (a - b).std(ddof=1) / math.sqrt(LARGE + 10)
    assert (found.low, found.high) == pytest.approx((found.value - half, found.value + half), rel=1e-5)


# --- 0/1 scores -------------------------------------------------------------------------------------------------------


def test_rights_and_wrongs_by_hand() -> None:
    """Bonett and Price: (f + 1) / (n + 2) for both kinds of disagreement, then Wald."""
    low, high = adjusted_wald_interval(14, 5, 200)
    p, q = 15 / 202, 6 / 202
    half = 1.959964 * math.sqrt((p + q - (p - q) ** 2) / 202)
    assert (low, high) == pytest.approx((p - q - half, p - q + half), abs=1e-6)
    assert adjusted_wald_interval(5, 14, 200) == pytest.approx((-high, -low))


def test_it_is_what_differences_of_0_1_scores_get() -> None:
    a = np.r_[np.ones(14), np.zeros(5), np.ones(181)]
    b = np.r_[np.zeros(14), np.ones(186)]
    found = difference(a, b)
    assert (found.low, found.high) == pytest.approx(adjusted_wald_interval(14, 5, 200))
    wide = difference(4 * a, 4 * b, span=4)
    assert (wide.low, wide.high) == pytest.approx((4 * found.low, 4 * found.high))
    assert found.p_value == pytest.approx(stats.binomtest(14, 19).pvalue)


@pytest.mark.parametrize("n", [10, 30, 100, 300])
def test_rights_and_wrongs_cover_the_truth(n: int) -> None:
    """All outcomes counted, each with its probability: 93 % or more everywhere, 94 to 97.5 % where 5 are expected."""
    i, j = np.meshgrid(np.arange(n + 1), np.arange(n + 1), indexing="ij")
    possible = i + j <= n
    i, j = i[possible], j[possible]
    ends = np.array([adjusted_wald_interval(int(x), int(y), n) for x, y in zip(i, j, strict=True)])
    for disagreement, share in ((0.04, 0.5), (0.1, 0.7), (0.18, 0.6), (0.3, 0.5), (0.4, 0.8)):
        p, q = disagreement * share, disagreement * (1 - share)
        chances = stats.multinomial.pmf(np.stack([i, j, n - i - j], axis=1), n, [p, q, 1 - p - q])
        covered = float(chances[(ends[:, 0] <= p - q) & (p - q <= ends[:, 1])].sum())
        assert covered > 0.93
        if n * disagreement * (1 - share) >= 5:
            assert covered < 0.975


# --- other scores -----------------------------------------------------------------------------------------------------


def outcomes(make: Callable[[np.random.Generator], Made], truth: float, tries: int) -> tuple[float, float]:
    """How often the interval holds the truth, and how often the test says that the models differ."""
    generator = rng(30)
    held = said = 0
    for _ in range(tries):
        found = paired_difference(*make(generator), generator, draws=400)
        assert found is not None
        held += found.low <= truth <= found.high
        said += found.p_value <= 0.05
    return held / tries, said / tries


def grades(n: int, better: float) -> Callable[[np.random.Generator], Made]:
    """Two models graded from 1 to 5 in ninths, on hard and easy questions, put on 0..1."""

    def make(generator: np.random.Generator) -> Made:
        easy = generator.normal(size=n)
        both = [
            np.clip(np.rint((easy + generator.normal(size=n) + shift) * 9) / 9 + 3, 1, 5) for shift in (better, 0.0)
        ]
        return (both[0] - 1) / 4, (both[1] - 1) / 4, None

    return make


def noted(k: int, size: int) -> Callable[[np.random.Generator], Made]:
    """Two equal models, right or wrong on several questions about each of k notes, with luck of their own per note."""

    def make(generator: np.random.Generator) -> Made:
        note = np.repeat(generator.normal(size=(3, k)), size, axis=1)
        a, b = (note[0] + note[side] + generator.normal(size=k * size) > 0 for side in (1, 2))
        return a.astype(float), b.astype(float), blocks(k, size)

    return make


@pytest.mark.parametrize("n", [12, 40, 150])
def test_differences_of_grades_are_covered(n: int) -> None:
    held, said = outcomes(grades(n, 0.0), 0.0, 500)
    assert 0.92 <= held <= 0.98
    assert said <= 0.08


@pytest.mark.parametrize(("k", "size"), [(10, 8), (25, 4), (60, 5)])
def test_differences_within_clusters_are_covered(k: int, size: int) -> None:
    held, said = outcomes(noted(k, size), 0.0, 500)
    assert 0.92 <= held <= 0.985
    assert said <= 0.075


def test_a_true_difference_is_covered_and_found() -> None:
    truths = [float(np.mean(a - b)) for a, b, _ in (grades(200_000, 0.4)(rng(seed)) for seed in range(2))]
    held, said = outcomes(grades(80, 0.4), float(np.mean(truths)), 300)
    assert 0.92 <= held <= 0.98
    assert said > 0.6


# --- many models ------------------------------------------------------------------------------------------------------


def test_all_pairs_at_once_are_each_pair_alone() -> None:
    scores = np.round(rng(8).random((5, 120)) * 4) / 4
    clusters = np.repeat(np.arange(40), 3)
    pairs = list(combinations(range(5), 2))
    together = paired_differences(scores, clusters, pairs, rng(1))
    for (i, j), found in zip(pairs, together.differences, strict=True):
        alone = difference(scores[i], scores[j], clusters)
        assert found is not None
        assert (found.value, found.standard_error) == pytest.approx((alone.value, alone.standard_error))
        assert (found.low, found.high) == pytest.approx((alone.low, alone.high), abs=0.02)
        assert found.p_value == pytest.approx(alone.p_value, rel=1e-6)
        assert (found.n, found.n_left_out, found.n_clusters) == (alone.n, alone.n_left_out, alone.n_clusters)


def test_pairs_that_lack_instances_are_compared_where_both_have_one() -> None:
    scores = rng(9).random((4, 200))
    scores[1, :3] = np.nan
    scores[2, 30:] = np.nan
    scores[3] = np.nan
    pairs = list(combinations(range(4), 2))
    found = paired_differences(scores, None, pairs, rng(1))
    for (i, j), one, share in zip(pairs, found.differences, found.shares, strict=True):
        shared = ~np.isnan(scores[i] - scores[j])
        if not shared.any():
            assert one is None
            assert len(share) == 0
            continue
        alone = difference(scores[i], scores[j])
        assert one is not None
        assert (one.n, one.n_left_out) == (alone.n, alone.n_left_out)
        assert one.value == pytest.approx(float((scores[i] - scores[j])[shared].mean()))
        assert (one.low, one.high) == pytest.approx((alone.low, alone.high), abs=0.25 * (alone.high - alone.low))
        assert one.p_value == pytest.approx(alone.p_value, abs=0.03)
        assert share.sum() == pytest.approx(one.value)


def test_draws_and_flips_are_about_the_difference_and_about_nothing() -> None:
    scores = rng(10).random((3, 300))
    scores[2, :5] = np.nan
    pairs = list(combinations(range(3), 2))
    found = paired_differences(scores, None, pairs, rng(1))
    for place, one in enumerate(found.differences):
        assert one is not None
        assert found.drawn[:, place].mean() == pytest.approx(one.value, abs=0.004)
        assert found.drawn[:, place].std() == pytest.approx(one.standard_error, rel=0.06)
        assert found.flipped[:, place].mean() == pytest.approx(0, abs=0.002)
        assert found.flipped[:, place].std() == pytest.approx(
            math.hypot(one.standard_error, one.value / 17.3), rel=0.05
        )
    assert found.drawn_means.mean(axis=0) == pytest.approx(np.nanmean(scores, axis=1), abs=0.004)
    assert found.totals[0] / found.totals[1] == pytest.approx(np.nanmean(scores, axis=1))


def test_weights_make_some_instances_count_more() -> None:
    values, weights = rng(11).random((2, 12)), np.r_[np.full(3, 5.0), np.ones(9)]
    (found,) = paired_differences(values, None, [(0, 1)], rng(1), weights=weights).differences
    assert found is not None
    assert found.value == pytest.approx(float(np.average(values[0] - values[1], weights=weights)))
    assert found.p_value == pytest.approx(sign_flip_test(weights * (values[0] - values[1]), rng()))
    assert found.n == 12


def test_many_clusters_are_drawn_from_the_normal_distribution() -> None:
    scores = rng(12).random((2, LARGE + 1))
    found = paired_differences(scores, None, [(0, 1)], rng(1), flips=2000)
    (one,) = found.differences
    assert one is not None
    assert found.flipped[:, 0].std() == pytest.approx(one.standard_error, rel=0.1)
    assert found.drawn[:, 0].std() == pytest.approx(one.standard_error, rel=0.1)


def test_a_seed_gives_the_same_numbers_again() -> None:
    scores = rng(13).random((3, 50))
    first, again = (paired_differences(scores, None, [(0, 1), (1, 2)], rng(1)).differences for _ in range(2))
    assert first == again
