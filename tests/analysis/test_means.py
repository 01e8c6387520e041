"""Means with intervals, paired differences, and what a benchmark can detect."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.studies.coverage import Scenario, ceiling, clustered, coverage, overlap, rare_hits, spread_grades
from medhelm.analysis.means import effective_size, estimate, wilson_interval
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
