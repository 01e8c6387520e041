"""Paired differences of two models, and of all pairs of many at once."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from medhelm.analysis.comparison import paired_differences as paired
from medhelm.analysis.comparison.paired_differences import (
    PairedDifference,
    PairedScores,
    paired_difference,
    t_quantiles,
)
from medhelm.analysis.comparison.significance import adjust_p_values, sign_flip_p
from medhelm.analysis.means import Clusters, Floats, UnitTotals, cluster_codes, spread_of_sum
from tests.support.sign_flips import sign_flip_test
from tests.support.values import present


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def with_limit_of_test(ends: tuple[float, float], mean: float, p_value: float) -> tuple[float, float]:
    """Return the interval, with the limit of Miettinen (1976) next to 0 if it says the opposite of the test."""
    if mean == 0 or (ends[0] <= 0 <= ends[1]) == (p_value > 0.05):
        return ends
    near = max(-1.0, min(mean * min(1 - stats.norm.isf(0.025) / stats.norm.isf(p_value / 2), 0.001), 1.0))
    return (near, ends[1]) if mean > 0 else (ends[0], near)


def adjusted_wald_interval(only_first: int, only_second: int, n: int) -> tuple[float, float]:
    """Return the 95% interval of the difference of two proportions by Bonett and Price (2012), equation 3."""
    first, second = (only_first + 1) / (n + 2), (only_second + 1) / (n + 2)
    value = first - second
    half = stats.norm.ppf(0.975) * math.sqrt((first + second - value**2) / (n + 2))
    return value - half, value + half


def difference(a: Floats, b: Floats, clusters: Clusters = None) -> PairedDifference:
    return present(paired_difference(a, b, clusters))


# --- two models -------------------------------------------------------------------------------------------------------


def test_the_same_scores_do_not_differ_but_are_not_proven_equal() -> None:
    scores = np.array([1.0, 0.0, 1.0, 1.0])
    found, alone = difference(scores, scores), difference(scores[:1], scores[:1])
    assert (found.value, found.p_value) == (0, 1)
    assert found.low < 0 < found.high
    assert (alone.low, alone.high, alone.p_value) == (-1, 1, 1)


def test_the_interval_is_longer_on_the_side_of_a_few_total_failures() -> None:
    a, b = np.full(150, 0.75), np.full(150, 0.75)
    a[:3], a[3:60], b[60:90] = 0.0, 1.0, 1.0
    found = difference(a, b)
    assert found.value - found.low > 1.02 * (found.high - found.value)
    assert found.high - found.value == pytest.approx(float(stats.t.ppf(0.975, 149)) * found.standard_error, rel=1e-4)


# --- 0/1 scores -------------------------------------------------------------------------------------------------------


def test_it_is_what_differences_of_0_1_scores_get() -> None:
    a = np.r_[np.ones(14), np.zeros(5), np.ones(181)]
    b = np.r_[np.zeros(14), np.ones(186)]
    found = difference(a, b)
    assert (found.low, found.high) == pytest.approx(adjusted_wald_interval(14, 5, 200))
    assert found.p_value == pytest.approx(stats.binomtest(14, 19).pvalue - stats.binom.pmf(5, 19, 0.5))


# --- many models ------------------------------------------------------------------------------------------------------


def every_pair(scores: Floats, clusters: Clusters = None) -> PairedScores:
    return PairedScores(scores, *cluster_codes(clusters, scores.shape[1]))


GAPS = ("none", "few", "some", "by cluster", "anywhere")

CLUSTERS = {
    "independent": None,
    "equal clusters": np.repeat(np.arange(40), 3),
    "unequal clusters": np.repeat(np.arange(30), [54, 12, 6, 6, 6, 6, 3, 3, 3, *[1] * 21]),
}


@pytest.mark.parametrize("clustering", CLUSTERS)
@pytest.mark.parametrize("gaps", GAPS)
@pytest.mark.parametrize("kind", ["any numbers", "0/1 scores"])
def test_all_pairs_at_once_are_each_pair_alone(
    clustering: str, gaps: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against plain code: one pair at a time, on the instances both have."""
    scores = rng(8).random((5, 120))
    scores = (scores < 0.6).astype(float) if kind == "0/1 scores" else scores
    if gaps == "few":  # at most `SPARSE`; sums of what is missing are then made for two models at a time
        monkeypatch.setattr(paired, "BLOCK", 15)
        scores[1, :3], scores[4, 50:54] = np.nan, np.nan
    if gaps == "some":
        scores[1, :3], scores[2, 30:], scores[3] = np.nan, np.nan, np.nan
    if gaps == "by cluster":
        scores[1, :3], scores[2, 30:60] = np.nan, np.nan
    if gaps == "anywhere":
        scores[rng(9).random(scores.shape) < 0.3] = np.nan
    clusters = CLUSTERS[clustering]
    together = every_pair(scores, clusters)
    differences = together.differences()
    shares = together.shares(np.arange(10))
    for pair, (i, j) in enumerate(combinations(range(5), 2)):
        values = scores[i] - scores[j]
        shared = ~np.isnan(values)
        if not shared.any():
            assert differences[pair] is None
            continue
        found = present(differences[pair])
        groups = np.arange(120) if clusters is None else clusters
        totals = np.array([values[shared & (groups == g)].sum() for g in np.unique(groups[shared])])
        counts = np.array([(shared & (groups == g)).sum() for g in np.unique(groups[shared])])
        mean, k = values[shared].mean(), len(counts)
        assert (found.n, found.n_left_out, found.n_clusters) == (shared.sum(), (~shared).sum(), k)
        assert found.value == pytest.approx(mean)
        if not together.is_binary:
            assert found.p_value == pytest.approx(sign_flip_test(totals), rel=1e-6)
        assert shares[pair].sum() == pytest.approx(mean)
        if k == 1:
            assert (found.low, found.high) == (-1, 1)
        elif not together.is_binary:
            one = UnitTotals(totals, counts.astype(float))
            assert found.standard_error == pytest.approx(one.standard_error)
            below = above = float(t_quantiles(np.array([one.effective_units - 1]))[0]) * one.standard_error
            if together.is_independent and k > 2:
                spread = spread_of_sum(one.shares())
                below, above = max(below, spread.below), max(above, spread.above)
            ends = max(mean - below, -1), min(mean + above, 1)
            assert (found.low, found.high) == pytest.approx(with_limit_of_test(ends, mean, found.p_value), abs=1e-6)
        else:
            ends = adjusted_wald_interval(int((values > 0).sum()), int((values < 0).sum()), found.n)
            ends = with_limit_of_test((min(ends[0], mean), max(ends[1], mean)), mean, found.p_value)
            assert (found.low, found.high) == pytest.approx(ends)


def test_far_sums_of_many_pairs_get_a_bound_that_is_above_their_p_value() -> None:
    """Hoeffding's bound, where Edgeworth's tail does not hold: 200 totals, worth 21 of one size."""
    totals = 1 / np.sqrt(np.arange(1, 201))[None, :]
    total, squares, fourths = (np.array([(totals**power).sum()]) for power in (1, 2, 4))
    (bound,) = sign_flip_p(total, squares, fourths, lambda pairs: totals[pairs])
    assert 2.0**-199 <= sign_flip_test(totals[0]) < bound < 3e-14


def test_in_a_crowd_of_pairs_the_same_ones_are_significant(monkeypatch: pytest.MonkeyPatch) -> None:
    """30 clusters of grades: sums from clear differences to none."""
    scores = rng(4).normal(size=(40, 30)) + np.linspace(0, 2, 40)[:, None]
    alone = every_pair(scores).p_values
    monkeypatch.setattr("medhelm.analysis.comparison.significance.CROWD", 100)
    crowd = every_pair(scores).p_values
    assert (alone != crowd).sum() > 150
    for way in ("holm", "bh"):
        significant = [adjust_p_values(p, way) <= 0.05 for p in (alone, crowd)]
        assert (significant[0] == significant[1]).all()
