"""The efficient frontier against every pair.

The probability of being on it: closed forms, the paired tests' variances, and calibration.
"""

from __future__ import annotations

from itertools import pairwise
from math import erf, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from bench.studies.frontier import SCENARIOS, calibration
from medhelm.analysis.comparison.paired_differences import PairedScores
from medhelm.analysis.frontier import (
    CostPoint,
    draw_averages,
    efficient_frontier,
    frontier_probabilities,
    joint_means,
    joint_means_over_benchmarks,
)
from medhelm.analysis.leaderboard.cells import AlignedScores
from medhelm.analysis.means import Floats
from tests.support.values import present


def normal_cdf(z: float) -> float:
    return 0.5 * (1 + erf(z / sqrt(2)))


def aligned(scores: Floats, codes: NDArray[np.signedinteger[Any]] | None = None) -> AlignedScores:
    own = np.arange(scores.shape[1]) if codes is None else codes.astype(np.intp)
    return AlignedScores(scores, own, int(own.max()) + 1, True)


def test_the_costlier_of_two_models_is_on_the_frontier_if_it_is_better() -> None:
    """P(better) = Phi(difference / standard error), with the variance that the paired test uses."""
    scores = np.zeros((2, 100))
    scores[0, :60], scores[1, :52], scores[1, 60:72] = 1, 1, 1  # right alone: 8 and 12
    means = scores.mean(axis=1)
    drawn = draw_averages(means, [(1.0, joint_means(aligned(scores)))])
    cheap, costly = frontier_probabilities(np.array([1.0, 2.0]), drawn)
    variance = (9 + 13) / 102**2 - 4**2 / 102**3
    assert cheap == 1.0
    assert costly == pytest.approx(normal_cdf(0.04 / sqrt(variance)), abs=0.01)
    # At the same cost only the better one is on the frontier.
    same = frontier_probabilities(np.array([1.0, 1.0]), drawn)
    assert same == pytest.approx([1 - costly, costly], abs=1e-3)


@pytest.mark.parametrize("kind", ["right or wrong", "grades", "clustered"])
def test_differences_have_the_variance_of_the_paired_test(kind: str) -> None:
    rng = np.random.default_rng(4)
    scores = rng.integers(0, 5, (4, 60)) / 4 if kind == "grades" else (rng.random((4, 60)) < 0.6).astype(float)
    one = aligned(scores, np.arange(60) % 12 if kind == "clustered" else None)
    found, paired = joint_means(one).covariance, PairedScores(one.scores, one.codes, one.k)
    spread = np.diag(found)[:, None] + np.diag(found) - 2 * found
    assert spread[paired.first, paired.second] == pytest.approx(paired.variance, rel=1e-9)


def test_instances_that_all_lack_leave_the_variance_of_the_others() -> None:
    scores = np.random.default_rng(4).integers(0, 5, (4, 60)) / 4
    scores[:, :6] = np.nan
    found, paired = joint_means(aligned(scores)).covariance, PairedScores(scores[:, 6:], np.arange(54), 54)
    spread = np.diag(found)[:, None] + np.diag(found) - 2 * found
    assert spread[paired.first, paired.second] == pytest.approx(paired.variance, rel=0.01)


def test_benchmarks_as_units() -> None:
    values = np.array([[0.5, 0.6, 0.7], [0.6, 0.9, 0.6]])
    found = present(joint_means_over_benchmarks(values, np.full(3, 1 / 3)))
    spread = found.covariance[0, 0] + found.covariance[1, 1] - 2 * found.covariance[0, 1]
    assert spread == pytest.approx(np.var([0.1, 0.3, -0.1], ddof=1) / 3)
    assert found.df == 2
    assert joint_means_over_benchmarks(values[:, :1], np.ones(1)) is None


def test_the_probability_is_calibrated() -> None:
    """Of the models given a probability, that share is on the true frontier."""
    for scenario in SCENARIOS[1:3]:
        counts, given, true = calibration(scenario, 200)
        error = np.sqrt(given * (1 - given) / counts)
        assert (np.abs(true - given) < 0.03 + 3 * error).all()


# --- points -----------------------------------------------------------------------------------------------------------


# Few different numbers, so that there are ties.
some_points = st.lists(st.tuples(st.sampled_from([0.0, 1.0, 2.0, 3.0]), st.sampled_from([0.0, 0.2, 0.5])), max_size=9)


@given(some_points)
def test_the_frontier_is_what_no_other_beats(pairs: list[tuple[float, float]]) -> None:
    points = [CostPoint(str(number), cost, value) for number, (cost, value) in enumerate(pairs)]

    def beats(one: tuple[float, float], other: tuple[float, float]) -> bool:
        return one[0] <= other[0] and one[1] >= other[1] and one != other

    expected = {str(n) for n, pair in enumerate(pairs) if not any(beats(other, pair) for other in pairs)}
    found = efficient_frontier(points)
    assert {point.name for point in found} == expected
    assert all((a.cost_usd or 0) <= (b.cost_usd or 0) for a, b in pairwise(found))
