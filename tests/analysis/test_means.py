"""Means with intervals, paired differences, and what a benchmark can detect; threads, F and t, cluster bootstrap."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bench.studies.coverage import Scenario, ceiling, clustered, coverage, overlap, rare_hits, spread_grades
from medhelm.analysis import means as threads
from medhelm.analysis.means import (
    CHUNK,
    LARGE,
    Clusters,
    cluster_codes,
    cluster_totals,
    draw_means,
    effective_size,
    estimate,
    f_cdf,
    f_quantile,
    in_threads,
    resampling_weights,
    t_quantile,
    wilson_interval,
)
from tests.support.values import present

# --- Wilson -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_agrees_with_newcombe_1998_table_1(successes: int, n: int, low: float, high: float) -> None:
    assert wilson_interval(successes, n) == pytest.approx((low, high), abs=5e-5)


@given(st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_is_within_the_scale_symmetric_and_never_of_width_zero(case: tuple[int, int]) -> None:
    successes, n = case
    low, high = wilson_interval(successes, n)
    assert 0 <= low <= successes / n <= high <= 1
    assert high > low
    mirrored = wilson_interval(n - successes, n)
    assert (1 - mirrored[1], 1 - mirrored[0]) == pytest.approx((low, high))


# --- the effective number of instances --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scores", "clusters", "expected"),
    [
        ([1, 1, 1, 1], ["a", "a", "b", "c"], 16 / 6),
        ([0, 0, 0, 0], ["a", "a", "a", "a"], 1),
        ([1, 1, 0, 0, 1, 1, 0, 0], ["a", "a", "b", "b", "c", "c", "d", "d"], 4),
        ([1, 0, 1, 0, 1, 0, 1, 0], ["a", "a", "b", "b", "c", "c", "d", "d"], 8),
    ],
)
def test_effective_size_of_small_cases(scores: list[float], clusters: list[str] | None, expected: float) -> None:
    assert effective_size(np.array(scores, dtype=float), clusters) == pytest.approx(expected)


@given(st.lists(st.tuples(st.integers(0, 1), st.sampled_from(["", "a", "b", "c"])), min_size=1, max_size=40))
def test_effective_size_lies_between_its_bounds(case: list[tuple[int, str]]) -> None:
    scores, names = np.array([s for s, _ in case], dtype=float), [c for _, c in case]
    sizes = [names.count(c) for c in set(names) - {""}] + [1] * names.count("")
    n = len(names)
    assert n * n / sum(s * s for s in sizes) - 1e-9 <= effective_size(scores, names) <= n + 1e-9
    found = present(estimate(scores, names, low=0, high=1))
    assert 0 <= found.low <= found.value <= found.high <= 1


# --- the estimate -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "clusters", "scale", "method"),
    [
        ([1, 0, 1], None, (0, 1), "wilson"),
        ([1, 0, 1], ["a", "a", "b"], (0, 1), "wilson-by-cluster"),
        ([1, 0, 0.5], None, (0, 1), "wilson-effective"),
        ([1, 0, 0.4], ["a", "a", "b"], (0, 1), "wilson-effective-by-cluster"),
        ([1, 0.5] * 10, None, (0, 1), "skew-t"),
        ([1, 0.5] * 20, [f"c{i // 3}" for i in range(39)] + ["c0"], (0, 1), "wilson-effective-by-cluster"),
        ([1, 2, 1], None, (0, math.inf), "t"),
        ([1, 2, 1, 4, 9], None, (0, math.inf), "skew-t"),
        ([1, 1, 1], None, (1, 5), "constant"),
        ([0.5, 0.7], ["a", "a"], (0, 1), "single"),
        ([0.2, 0.8] * 3, ["a", "a", "b", "b", "c", "c"], (0, 1), "constant-by-cluster"),
    ],
)
def test_the_method_fits_the_scores(
    values: list[float], clusters: list[str] | None, scale: tuple[float, float], method: str
) -> None:
    found = present(estimate(np.array(values, dtype=float), clusters, low=scale[0], high=scale[1]))
    assert found.method == method
    assert found.value == pytest.approx(np.mean(values))


def test_failures_are_counted_and_left_out() -> None:
    values = np.array([1, np.nan, 0, 1, np.nan])
    found = present(estimate(values, ["a", "a", "b", "c", "c"], low=0, high=1))
    assert found.value == pytest.approx(2 / 3)
    assert (found.n, found.n_failed, found.method) == (3, 2, "wilson")
    assert estimate(np.array([np.nan]), low=0, high=1) is None


@given(st.lists(st.floats(1, 5), min_size=1, max_size=30), st.integers(0, 3), st.one_of(st.none(), st.integers(1, 5)))
def test_an_interval_holds_the_mean_and_stays_on_the_scale(values: list[float], failed: int, k: int | None) -> None:
    array = np.array(values + [np.nan] * failed)
    clusters = None if k is None else [f"c{i % k}" for i in range(len(array))]
    found = present(estimate(array, clusters, low=1, high=5))
    assert found.n == len(values)
    assert found.n_failed == failed
    assert found.low <= found.value <= found.high
    assert 1 - 1e-9 <= found.low <= found.high <= 5 + 1e-9


@pytest.mark.parametrize(
    "scenario",
    [
        clustered("40 clusters of 8", [8] * 40, 0.1, 0.8),
        clustered("clusters of unequal size", [*range(1, 12)] * 5, 0.18, 0.67),
        spread_grades(80),
    ],
    ids=lambda scenario: scenario.title,
)
def test_intervals_cover_the_truth_as_often_as_they_say(scenario: Scenario) -> None:
    assert 0.92 <= coverage(scenario, 400).share <= 0.98


@pytest.mark.long
@pytest.mark.parametrize(
    "scenario",
    [
        *(ceiling(n) for n in (12, 20, 50, 150)),
        *(spread_grades(n) for n in (2, 3, 5, 12)),
        *(overlap(n) for n in (2, 3, 5)),
        rare_hits(50),
        clustered("one cluster of 200", [200] + [1] * 10, 0.3, 0.5),
        clustered("one cluster of 50", [50] + [1] * 50, 0.3, 0.85),
        clustered("two clusters of 100", [100, 100] + [1] * 30, 0.3, 0.85),
    ],
    ids=lambda scenario: scenario.title,
)
def test_few_skewed_and_dominated_scores_are_covered(scenario: Scenario) -> None:
    assert coverage(scenario, 400).share >= 0.91


# --- no interval without a width --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("values", "low", "high"), [([1, math.inf], 0, 1), ([1, 0], 1, 1), ([1, 0], 0, math.nan)])
def test_infinite_scores_and_scales_without_length_are_refused(values: list[float], low: float, high: float) -> None:
    with pytest.raises(ValueError, match=r"infinite|two ends"):
        estimate(np.array(values), low=low, high=high)


# --- cluster bootstrap of means ---------------------------------------------------------------------------------------


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


# --- probabilities and quantiles of F and of Student's t --------------------------------------------------------------


DEGREES = [0.05, 0.3, 1, 1.7, 2, 3, 5.5, 10, 33.3, 100, 1234.5, 1e4, 1e5, 1e6]
"""Few and many degrees of freedom, whole or not."""

PROBABILITIES = [1e-6, 0.001, 0.025, 0.2, 0.5, 0.8, 0.975, 0.999, 1 - 1e-6]


@pytest.mark.parametrize("df1", DEGREES)
def test_f_agrees_with_scipy(df1: float) -> None:
    for df2 in DEGREES:
        values = (0.001, 0.1, 0.5, 0.9, 1, 1.01, 1.2, 3, 50, 1e4)
        assert [f_cdf(f, df1, df2) for f in values] == pytest.approx(stats.f.cdf(values, df1, df2), abs=2e-11)
        for p, expected in zip(PROBABILITIES, stats.f.ppf(PROBABILITIES, df1, df2), strict=True):
            if 1e-290 < expected < 1e290:
                assert f_quantile(p, df1, df2) == pytest.approx(expected, rel=1e-10), (p, df2)


@pytest.mark.parametrize("df", DEGREES)
def test_t_agrees_with_scipy(df: float) -> None:
    expected = stats.t.ppf(PROBABILITIES, df)
    assert [t_quantile(p, df) for p in PROBABILITIES] == pytest.approx(expected, rel=1e-8, abs=1e-8)


def test_quantiles_beyond_all_floats_are_infinite_or_nothing() -> None:
    assert f_quantile(0.975, 3, 1e-3) == math.inf
    assert f_quantile(1e-9, 1e-4, 3) == 0
    assert t_quantile(1e-9, 0.01) == -math.inf
    assert t_quantile(0.5, 0.01) == 0


# --- threads ----------------------------------------------------------------------------------------------------------


def test_results_come_in_order_from_several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "cpu_count", lambda: 2)
    both = threading.Barrier(2, timeout=600)

    def square(item: int) -> int:
        both.wait()  # passes only with two at a time
        return item * item

    assert list(in_threads(square, range(8), size=threads.LEAST)) == [item * item for item in range(8)]


def test_errors_reach_the_caller() -> None:
    with pytest.raises(ZeroDivisionError):
        list(in_threads(lambda item: 1 / item, [1, 0, 2], size=threads.LEAST))
