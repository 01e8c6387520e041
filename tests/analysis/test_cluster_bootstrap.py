"""Cluster bootstrap of means."""

from __future__ import annotations

import numpy as np
import pytest

from medhelm.analysis.means import CHUNK, LARGE, Clusters, cluster_codes, cluster_totals, draw_means, resampling_weights


@pytest.mark.parametrize(
    ("clusters", "groups"),
    [
        (None, [[0], [1], [2], [3]]),
        (["", "", "", ""], [[0], [1], [2], [3]]),
        (["a", "", "a", ""], [[0, 2], [1], [3]]),
        (["b", "a", "a", "a"], [[0], [1, 2, 3]]),
        (np.array([7, -1, 7, 0]), [[0, 2], [1], [3]]),
    ],
)
def test_clusters_are_numbered_and_empty_names_stand_alone(clusters: Clusters, groups: list[list[int]]) -> None:
    codes, k = cluster_codes(clusters, 4)
    assert sorted(np.flatnonzero(codes == code).tolist() for code in range(k)) == groups
    assert cluster_codes([], 0)[1] == 0


def test_totals_leave_failures_out() -> None:
    scores = np.array([[1.0, np.nan, 3.0, 4.0], [np.nan, 2.0, 2.0, 0.5]])
    unsorted = (["c", "b", "a", ""], [[3, 2], [0, 2], [1, 0], [4, 0.5]])
    for clusters, sums in (unsorted, (list("abaa"), [[8, 2.5], [0, 2]])):
        codes, k = cluster_codes(clusters, 4)
        found, counts = cluster_totals(scores, codes, k)
        assert found.tolist() == sums
        assert counts.sum(axis=0).tolist() == [3, 3]


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
