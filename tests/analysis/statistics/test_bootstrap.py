"""Bootstrap of any statistic over instances."""

from __future__ import annotations

import doctest
import math

import numpy as np
import pytest
from scipy.stats import norm, t

from medhelm.analysis.agreement.correlation import pearson
from medhelm.analysis.agreement.icc import icc
from medhelm.analysis.statistics import bootstrap
from medhelm.analysis.statistics.bootstrap import MIN_RESAMPLES, bootstrap_statistic
from medhelm.analysis.statistics.cluster_bootstrap import Floats, cluster_codes, cluster_totals, draw_means


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def mean(rows: Floats) -> float:
    return float(rows.mean())


def test_the_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(bootstrap).failed == 0


@pytest.mark.parametrize("k", [None, 8], ids=["independent", "clustered"])
def test_of_a_mean_it_is_the_interval_of_means(k: int | None) -> None:
    values = rng(1).gamma(2.0, size=40)
    clusters = None if k is None else [f"c{i % k}" for i in range(40)]
    found = bootstrap_statistic(values, mean, rng(2), 4000, clusters=clusters)
    codes, k = cluster_codes(clusters, 40)
    sums, counts = cluster_totals(values[None, :], codes, k)
    tail = norm.cdf(-t.ppf(0.975, k - 1))
    expected = np.quantile(draw_means(sums, counts, rng(3), 4000)[:, 0], [tail, 1 - tail])
    assert found.low == pytest.approx(expected[0], abs=0.04)
    assert found.high == pytest.approx(expected[1], abs=0.04)
    assert (found.value, found.draws, found.undefined, found.reason) == (mean(values), 4000, 0, "")


def test_rows_are_drawn_whole_and_one_fewer_than_there_are() -> None:
    rows = np.stack([np.arange(12.0), 100 + np.arange(12.0)], axis=1)
    seen: list[Floats] = []

    def note(drawn: Floats) -> float:
        seen.append(drawn)
        return float(drawn[0, 0])

    bootstrap_statistic(rows, note, rng(4), 60)
    assert seen[0] is rows
    for drawn in seen[1:]:
        assert drawn.shape == (11, 2)
        assert (drawn[:, 1] - drawn[:, 0] == 100).all()
    assert {row[0] for drawn in seen[1:] for row in drawn} == set(range(12))


def test_clusters_are_drawn_whole() -> None:
    names = ["a", "b", "a", "", "b", "b", ""]
    rows = np.arange(7.0)
    seen: list[list[float]] = []

    def note(drawn: Floats) -> float:
        seen.append(drawn.tolist())
        return 0.0

    bootstrap_statistic(rows, note, rng(5), 60, clusters=names)
    for drawn in seen[1:]:
        assert drawn.count(0) == drawn.count(2)
        assert drawn.count(1) == drawn.count(4) == drawn.count(5)
        assert drawn.count(0) + drawn.count(1) + drawn.count(3) + drawn.count(6) == 3


def test_equal_seeds_give_equal_intervals() -> None:
    values = rng(6).normal(size=15)
    assert bootstrap_statistic(values, mean, rng(1), 100) == bootstrap_statistic(values, mean, rng(1), 100)


@pytest.mark.parametrize("nothing", [None, math.nan, math.inf])
def test_undefined_draws_are_left_out_and_counted(nothing: float | None) -> None:
    values = np.array([0.0, 1, 2, 3, 4, 5])
    seen = []

    def sometimes(drawn: Floats) -> float | None:
        defined = len(drawn) == 6 or bool((drawn == 0).any())
        seen.append(defined)
        return mean(drawn) if defined else nothing

    found = bootstrap_statistic(values, sometimes, rng(7), 500)
    assert found.undefined == seen.count(False)
    assert 0 < found.undefined < 500
    assert found.draws == 500 - found.undefined
    assert found.low is not None
    assert found.high is not None
    assert 0 <= found.low < 2.5 < found.high <= 5


@pytest.mark.parametrize(
    ("rows", "clusters", "reason"),
    [
        ([], None, "the statistic is undefined"),
        ([2.0, 2.0, 2.0], None, "the statistic is undefined"),
        ([1.0, 2.0], ["a", "a"], "one independent unit"),
        ([1.0, 2.0], None, "undefined for 100 of 100 draws"),
    ],
)
def test_without_enough_there_is_no_interval(rows: list[float], clusters: list[str] | None, reason: str) -> None:
    def deviation(drawn: Floats) -> float | None:
        return float(drawn.std(ddof=1)) if len(drawn) > 1 and drawn.min() < drawn.max() else None

    found = bootstrap_statistic(np.array(rows), deviation, rng(8), 100, clusters=clusters)
    assert (found.low, found.high) == (None, None)
    assert reason in found.reason


def test_fewer_draws_than_an_end_takes_give_no_interval() -> None:
    values = rng(9).normal(size=10)
    assert bootstrap_statistic(values, mean, rng(1), MIN_RESAMPLES - 1).low is None
    assert bootstrap_statistic(values, mean, rng(1), MIN_RESAMPLES).low is not None


def test_an_interval_is_widened_to_hold_the_value() -> None:
    values = np.arange(10.0)
    found = bootstrap_statistic(values, lambda rows: float(len(np.unique(rows))), rng(10), 200)
    assert found.value == found.high == 10
    assert found.low is not None
    assert found.low < 8


def test_few_rows_take_their_tails_from_student() -> None:
    values = rng(11).normal(size=5)
    found = bootstrap_statistic(values, mean, rng(12), 20_000)
    assert found.low is not None
    assert found.high is not None
    normal = 2 * 1.96 * values.std(ddof=1) / math.sqrt(5)
    assert found.high - found.low > 1.15 * normal


@pytest.mark.parametrize(("n", "agreement"), [(12, 0.25), pytest.param(25, 0.6, marks=pytest.mark.long)])
@pytest.mark.long
def test_intervals_of_agreement_cover_the_truth(n: int, agreement: float) -> None:
    """ICC(3,k) of two raters: 2 r / (1 + r) for a share r of variance between instances."""
    generator, held, runs = rng(13), 0, 200
    for _ in range(runs):
        cases = math.sqrt(agreement) * generator.normal(size=(n, 1))
        ratings = cases + math.sqrt(1 - agreement) * generator.normal(size=(n, 2))
        found = bootstrap_statistic(ratings, lambda rows: icc(rows).value, generator, 100)
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 2 * agreement / (1 + agreement) <= found.high
    assert 0.91 <= held / runs <= 0.98


def test_a_correlation_and_its_formula_give_much_the_same_interval() -> None:
    x = rng(14).normal(size=80)
    y = 0.6 * x + 0.8 * rng(15).normal(size=80)
    formula = pearson(x, y)
    rows = np.stack([x, y], axis=1)
    found = bootstrap_statistic(rows, lambda drawn: pearson(drawn[:, 0], drawn[:, 1]).value, rng(16))
    assert found.low == pytest.approx(formula.low, abs=0.06)
    assert found.high == pytest.approx(formula.high, abs=0.06)
