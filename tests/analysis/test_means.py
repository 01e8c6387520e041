"""Means with intervals, paired differences, and what a benchmark can detect."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.studies.coverage import Scenario, ceiling, clustered, coverage, overlap, rare_hits, spread_grades
from medhelm.analysis.means import (
    Floats,
    constant_interval,
    effective_size,
    estimate,
    wilson_interval,
)
from tests.support.values import present

quick = settings(max_examples=60, deadline=None, database=None)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def blocks(k: int, size: int) -> list[str]:
    """k clusters of equal size."""
    return [f"c{i}" for i in range(k) for _ in range(size)]


# --- Wilson -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_agrees_with_newcombe_1998_table_1(successes: int, n: int, low: float, high: float) -> None:
    assert wilson_interval(successes, n) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize(("successes", "n"), [(1, 0), (-1, 5), (6, 5)])
def test_wilson_refuses_what_is_not_a_proportion(successes: float, n: float) -> None:
    with pytest.raises(ValueError, match=f"{successes} of {n} is not a proportion"):
        wilson_interval(successes, n)


@quick
@given(st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_is_within_the_scale_symmetric_and_never_of_width_zero(case: tuple[int, int]) -> None:
    successes, n = case
    low, high = wilson_interval(successes, n)
    assert 0 <= low <= successes / n <= high <= 1
    assert high > low
    mirrored = wilson_interval(n - successes, n)
    assert (1 - mirrored[1], 1 - mirrored[0]) == pytest.approx((low, high))


@pytest.mark.parametrize("n", [20, 50, 300])
def test_wilson_covers_the_truth_as_often_as_it_says(n: int) -> None:
    intervals = [wilson_interval(s, n) for s in range(n + 1)]
    truths = np.linspace(0.05, 0.95, 181)
    covered = [
        math.fsum(
            math.comb(n, s) * p**s * (1 - p) ** (n - s) for s, (low, high) in enumerate(intervals) if low <= p <= high
        )
        for p in truths
    ]
    assert 0.94 <= np.mean(covered) <= 0.965
    assert min(covered) > 0.88


# --- the effective number of instances --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scores", "clusters", "expected"),
    [
        ([1, 0, 1, 0], None, 4),
        ([1, 1, 1, 1], ["a", "a", "b", "c"], 16 / 6),
        ([0, 0, 0, 0], ["a", "a", "a", "a"], 1),
        ([1, 0, 0, 1], ["a", "a", "a", "a"], 1),
        ([1, 1, 0, 0, 1, 1, 0, 0], ["a", "a", "b", "b", "c", "c", "d", "d"], 4),
        ([1, 0, 1, 0, 1, 0, 1, 0], ["a", "a", "b", "b", "c", "c", "d", "d"], 8),
    ],
)
def test_effective_size_of_small_cases(scores: list[float], clusters: list[str] | None, expected: float) -> None:
    assert effective_size(np.array(scores, dtype=float), clusters) == pytest.approx(expected)


def test_effective_size_follows_the_agreement_within_clusters() -> None:
    generator, k, size, p = rng(1), 400, 6, 0.7
    for agreement in (0.1, 0.4):
        shape = (1 - agreement) / agreement
        chances = generator.beta(p * shape, (1 - p) * shape, k)
        scores = (generator.random((k, size)) < chances[:, None]).astype(float).ravel()
        expected = k * size / (1 + (size - 1) * agreement)
        assert effective_size(scores, blocks(k, size)) == pytest.approx(expected, rel=0.2)


@quick
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
        ([1, 1, 1], None, (0, 1), "wilson"),
        ([1], None, (0, 1), "wilson"),
        ([1, 0, 1], ["a", "a", "b"], (0, 1), "wilson-by-cluster"),
        ([1, 0, 0.5], None, (0, 1), "wilson-effective"),
        ([1, 0, 0.4], ["a", "a", "b"], (0, 1), "wilson-effective-by-cluster"),
        ([1, 2, 1], None, (1, 5), "wilson-effective"),
        ([1, 0.5] * 10, None, (0, 1), "skew-t"),
        ([1, 0.5] * 20, [f"c{i // 3}" for i in range(39)] + ["c0"], (0, 1), "wilson-effective-by-cluster"),
        ([1, 2, 1], None, (0, math.inf), "t"),
        ([1, 2, 1, 4, 9], None, (0, math.inf), "skew-t"),
        ([2, 2], None, (0, math.inf), "constant"),
        ([0.5, 0.5], None, (0, 1), "constant"),
        ([1, 1, 1], None, (1, 5), "constant"),
        ([0.5], None, (0, 1), "single"),
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


def test_numbered_clusters_give_what_named_ones_give() -> None:
    values = np.array([1, 0, 1, 1, np.nan, 0])
    named = estimate(values, ["a", "a", "b", "c", "c", "c"], low=0, high=1)
    assert named == estimate(values, np.array([4, 4, -1, 2, 2, 2]), low=0, high=1)


def test_failures_are_counted_and_left_out() -> None:
    values = np.array([1, np.nan, 0, 1, np.nan])
    found = present(estimate(values, ["a", "a", "b", "c", "c"], low=0, high=1))
    assert found.value == pytest.approx(2 / 3)
    assert (found.n, found.n_failed, found.method) == (3, 2, "wilson")


@pytest.mark.parametrize("values", [[], [np.nan], [np.nan, np.nan]])
def test_nothing_scored_is_no_number(values: list[float]) -> None:
    assert estimate(np.array(values), low=0, high=1) is None


def test_one_score_off_the_ends_says_nothing_of_the_spread() -> None:
    found = present(estimate(np.array([3.0]), low=1, high=5))
    assert (found.low, found.value, found.high, found.n) == (1, 3, 5, 1)


def test_equal_scores_still_have_an_interval_which_is_wilsons_at_the_ends() -> None:
    assert constant_interval(1.0, 20, 0.0, 1.0) == pytest.approx(wilson_interval(20, 20))
    assert constant_interval(5.0, 20, 1.0, 5.0) == pytest.approx((1 + 4 * wilson_interval(20, 20)[0], 5.0))
    low, high = constant_interval(3.0, 10, 1.0, 5.0)
    assert 1 < low < 3 < high < 5


@quick
@given(
    st.lists(st.floats(1, 5), min_size=1, max_size=30),
    st.integers(0, 3),
    st.one_of(st.none(), st.integers(1, 5)),
)
def test_an_interval_holds_the_mean_and_stays_on_the_scale(values: list[float], failed: int, k: int | None) -> None:
    array = np.array(values + [np.nan] * failed)
    clusters = None if k is None else [f"c{i % k}" for i in range(len(array))]
    found = present(estimate(array, clusters, low=1, high=5))
    assert found.n == len(values)
    assert found.n_failed == failed
    assert found.low <= found.value <= found.high
    assert 1 - 1e-9 <= found.low <= found.high <= 5 + 1e-9


def grades_in_clusters(rng: np.random.Generator) -> tuple[Floats, None, Floats]:
    """25 clusters of four, which agree by half."""
    values = np.repeat(rng.normal(0.5, 0.1, 25), 4) + rng.normal(0, 0.1, 100)
    return values, None, np.repeat(np.arange(25.0), 4)


@pytest.mark.parametrize(
    "scenario",
    [
        clustered("40 clusters of 8", [8] * 40, 0.1, 0.8),
        clustered("60 clusters of 5", [5] * 60, 0.4, 0.6),
        clustered("80 clusters of 4", [4] * 80, 1e-6, 0.7),
        clustered("clusters of unequal size", [*range(1, 12)] * 5, 0.18, 0.67),
        spread_grades(80),
        Scenario(title="grades in clusters", truth=0.5, draw=grades_in_clusters),
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


@pytest.mark.parametrize("k", [1, 2, 3, 5, 20, 200])
@pytest.mark.parametrize("value", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("size", [1, 3])
def test_equal_scores_of_any_number_have_a_width(k: int, value: float, size: int) -> None:
    for high in (1, 5, math.inf):
        found = present(estimate(np.full(k * size, value), blocks(k, size), low=0, high=high))
        assert found.high > found.low


def test_a_cluster_that_dominates_counts_as_little_more_than_one_unit() -> None:
    scores = np.array([1.0] * 160 + [0.0] * 40 + [1.0] * 5 + [0.0] * 5)
    found = present(estimate(scores, ["big"] * 200 + [""] * 10, low=0, high=1))
    assert found.high - found.low > 0.7


def test_an_interval_is_never_wider_than_that_of_scores_at_the_ends() -> None:
    scores = np.array([1.0] * 28 + [0.5, 0.0])
    found = present(estimate(scores, low=0, high=1))
    low, high = wilson_interval(28.5, 30)
    assert low <= found.low < found.high <= high
    assert found.method == "skew-t"


@pytest.mark.parametrize(("values", "low", "high"), [([1, math.inf], 0, 1), ([1, 0], 1, 1), ([1, 0], 0, math.nan)])
def test_infinite_scores_and_scales_without_length_are_refused(values: list[float], low: float, high: float) -> None:
    with pytest.raises(ValueError, match=r"infinite|two ends"):
        estimate(np.array(values), low=low, high=high)
