"""Bootstrap of any statistic over instances."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from scipy.stats import norm, t

from medhelm.analysis.agreement.coefficients import resampled_icc
from medhelm.analysis.means import (
    MIN_RESAMPLES,
    Floats,
    bootstrap_statistic,
    cluster_codes,
    cluster_totals,
    draw_means,
    percentile_interval,
    resampling_weights,
)
from tests.support.values import present


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def mean(values: Floats, counts: Floats) -> Floats:
    """Mean of each resample."""
    means: Floats = counts @ values / counts.sum(axis=1)
    return means


@pytest.mark.parametrize("k", [None, 8], ids=["independent", "clustered"])
def test_of_a_mean_it_is_the_interval_of_means(k: int | None) -> None:
    values = rng(1).gamma(2.0, size=40)
    clusters = None if k is None else [f"c{i % k}" for i in range(40)]
    found = bootstrap_statistic(40, partial(mean, values), rng(2), 4000, clusters=clusters)
    codes, k = cluster_codes(clusters, 40)
    sums, counts = cluster_totals(values[None, :], codes, k)
    tail = norm.cdf(-t.ppf(0.975, k - 1))
    expected = np.quantile(draw_means(sums, counts, rng(3), 4000)[:, 0], [tail, 1 - tail])
    assert found.low == pytest.approx(expected[0], abs=0.04)
    assert found.high == pytest.approx(expected[1], abs=0.04)
    assert found.value == pytest.approx(values.mean())
    assert found.reason == ""


@pytest.mark.parametrize("clusters", [None, ["a", "b", "a", "", "b", "b", ""]])
def test_clusters_are_drawn_whole_and_one_fewer_than_there_are(clusters: list[str] | None) -> None:
    seen: list[Floats] = []

    def note(counts: Floats) -> Floats:
        seen.append(counts)
        return np.zeros(len(counts))

    bootstrap_statistic(7, note, rng(4), 60, clusters=clusters)
    assert seen[0].tolist() == [[1.0] * 7]
    counts = np.concatenate(seen[1:])
    groups = [[0, 2], [1, 4, 5], [3], [6]] if clusters else [[place] for place in range(7)]
    assert all((counts[:, group] == counts[:, group[:1]]).all() for group in groups)
    assert (counts[:, [group[0] for group in groups]].sum(axis=1) == len(groups) - 1).all()
    assert len(counts) == 60
    assert (counts.max(axis=0) > 1).all()


def test_undefined_draws_are_left_out() -> None:
    values = np.arange(6.0)

    def sometimes(counts: Floats) -> Floats:
        return np.where(counts[:, 0] > 0, mean(values, counts), math.inf)

    found = bootstrap_statistic(6, sometimes, rng(7), 500)
    drawn = np.concatenate([sometimes(counts) for counts in resampling_weights(6, 500, rng(7))])
    assert (found.low, found.high) == percentile_interval(drawn[np.isfinite(drawn)], 6)
    assert 0 < int((~np.isfinite(drawn)).sum()) < 500
    assert percentile_interval(drawn[: MIN_RESAMPLES - 1], 6) == (-math.inf, math.inf)
    assert 0 <= present(found.low) < 2.5 < present(found.high) <= 5


@pytest.mark.parametrize(
    ("values", "clusters", "reason"),
    [
        ([], None, "the statistic is undefined"),
        ([2.0, 2.0, 2.0], None, "the statistic is undefined"),
        ([1.0, 2.0], ["a", "a"], "one independent unit"),
        ([1.0, 2.0], None, "undefined for 100 of 100 draws"),
    ],
)
def test_without_enough_there_is_no_interval(values: list[float], clusters: list[str] | None, reason: str) -> None:
    def spread(counts: Floats) -> Floats:
        of_draw = [np.repeat(values, row.astype(int)) for row in counts]
        return np.array([np.ptp(one) or math.nan for one in of_draw])

    found = bootstrap_statistic(len(values), spread, rng(8), 100, clusters=clusters)
    assert (found.low, found.high) == (None, None)
    assert reason in found.reason


@pytest.mark.parametrize(("n", "agreement"), [(12, 0.25), pytest.param(25, 0.6, marks=pytest.mark.long)])
def test_intervals_of_agreement_cover_the_truth(n: int, agreement: float) -> None:
    """ICC(3,k) of two raters: 2 r / (1 + r) for a share r of variance between instances."""
    generator, held, runs = rng(13), 0, 200
    for _ in range(runs):
        cases = math.sqrt(agreement) * generator.normal(size=(n, 1))
        ratings = cases + math.sqrt(1 - agreement) * generator.normal(size=(n, 2))
        found = bootstrap_statistic(n, partial(resampled_icc, ratings), generator, 100)
        held += present(found.low) <= 2 * agreement / (1 + agreement) <= present(found.high)
    assert 0.91 <= held / runs <= 0.98
