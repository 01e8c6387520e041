"""Cluster bootstrap of means."""

from __future__ import annotations

import numpy as np
import pytest

from medhelm.analysis.means import (
    CHUNK,
    LARGE,
    cluster_codes,
    cluster_totals,
    draw_means,
    resampling_weights,
)


@pytest.mark.parametrize(
    ("clusters", "n", "k", "same"),
    [
        (None, 4, 4, []),
        (["", "", "", ""], 4, 4, []),
        (["a", "a", "b", "b"], 4, 2, [(0, 1), (2, 3)]),
        (["a", "", "a", ""], 4, 3, [(0, 2)]),
        (["b", "a", "a", "a"], 4, 2, [(1, 2), (2, 3)]),
        ([], 0, 0, []),
    ],
)
def test_clusters_are_numbered_and_empty_names_stand_alone(
    clusters: list[str] | None, n: int, k: int, same: list[tuple[int, int]]
) -> None:
    codes, count = cluster_codes(clusters, n)
    assert count == k
    assert sorted(set(codes.tolist())) == list(range(k))
    together = [(i, j) for i in range(n) for j in range(i + 1, n) if codes[i] == codes[j]]
    assert set(same) <= set(together)
    assert len(together) == (0 if k == n else sum(c * (c - 1) // 2 for c in np.bincount(codes)))


def test_whole_numbers_are_names_too() -> None:
    codes, k = cluster_codes(np.array([7, -1, 7, 0]), 4)
    assert (k, codes.tolist()) == (3, [2, 0, 2, 1])


def test_a_wrong_number_of_cluster_names_is_refused() -> None:
    with pytest.raises(ValueError, match="3 values need 3 cluster names"):
        cluster_codes(["a", "b"], 3)


@pytest.mark.parametrize("clusters", [["a", "b", "a", ""], ["c", "b", "a", ""]])
def test_totals_leave_failures_out(clusters: list[str]) -> None:
    scores = np.array([[1.0, np.nan, 3.0, 4.0], [np.nan, 2.0, 2.0, 0.5]])
    codes, k = cluster_codes(clusters, 4)
    sums, counts = cluster_totals(scores, codes, k)
    assert sums.shape == counts.shape == (k, 2)
    for cluster in range(k):
        for model in range(2):
            inside = [x for x, code in zip(scores[model], codes, strict=True) if code == cluster and not np.isnan(x)]
            assert sums[cluster, model] == sum(inside)
            assert counts[cluster, model] == len(inside)


@pytest.mark.parametrize(("k", "draws"), [(2, 7), (10, 100), (CHUNK // 3, 8), (CHUNK + 1, 2)])
def test_each_draw_takes_one_cluster_less_than_there_are(k: int, draws: int) -> None:
    blocks = list(resampling_weights(k, draws, np.random.default_rng(0)))
    assert sum(len(block) for block in blocks) == draws
    assert all(block.shape[1] == k and (block.sum(axis=1) == k - 1).all() for block in blocks)
    assert max(block.size for block in blocks) <= max(CHUNK, k)


def test_drawn_means_have_the_unbiased_variance_of_a_mean() -> None:
    values = np.random.default_rng(3).normal(size=12)
    means = draw_means(values[:, None], np.ones((12, 1)), np.random.default_rng(4), 20_000)[:, 0]
    assert means.mean() == pytest.approx(values.mean(), abs=0.01)
    assert means.var() == pytest.approx(values.var(ddof=1) / 12, rel=0.05)


def test_all_columns_see_the_same_clusters_and_equal_columns_agree_exactly() -> None:
    rng = np.random.default_rng(5)
    values = rng.random((40, 1))
    sums = np.concatenate([values, values, values + 0.25, values], axis=1)
    means = draw_means(sums, np.ones((40, 4)), rng, 300)
    assert (means[:, 0] == means[:, 1]).all()
    assert (means[:, 0] == means[:, 3]).all()
    assert means[:, 2] - means[:, 0] == pytest.approx(0.25)


def test_many_clusters_are_drawn_from_the_normal_distribution_with_the_same_spread() -> None:
    rng = np.random.default_rng(6)
    k = LARGE + 1
    first = rng.random(k)
    sums = np.stack([first, first, 0.5 * first + 0.5 * rng.random(k)], axis=1)
    means = draw_means(sums, np.ones((k, 3)), rng, 4000)
    assert (means[:, 0] == means[:, 1]).all()
    assert means.std(axis=0) == pytest.approx(sums.std(axis=0) / np.sqrt(k), rel=0.05)
    drawn, given = (np.cov(columns[:, 0], columns[:, 2]) for columns in (means, sums))
    assert drawn[0, 1] * k == pytest.approx(given[0, 1], rel=0.1)


def test_constant_scores_of_many_clusters_do_not_vary() -> None:
    k = LARGE + 1
    assert draw_means(np.ones((k, 1)), np.ones((k, 1)), np.random.default_rng(0), 5) == pytest.approx(1.0)


def test_a_draw_without_any_scored_cluster_is_nan() -> None:
    sums, counts = np.array([[1.0], [0.0], [0.0]]), np.array([[1.0], [0.0], [0.0]])
    means = draw_means(sums, counts, np.random.default_rng(0), 200)
    assert np.isnan(means).any()
    assert (means[~np.isnan(means)] == 1.0).all()
