"""Ratings by rater and by pair of raters."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from medhelm.analysis.agreement.coefficients import average_over_pairs, icc, pearson, weighted_kappa
from medhelm.analysis.agreement.jury_vs_clinicians import standardized_icc
from medhelm.analysis.means import Floats

NAN = np.nan


def some_ratings(seed: int, n: int, k: int, missing: float) -> Floats:
    """Grades 1 to 5 that agree somewhat, some of them missing."""
    generator = np.random.default_rng(seed)
    table = np.clip(np.round(3 + generator.normal(size=(n, 1)) + generator.normal(size=(n, k))), 1, 5)
    table[generator.random((n, k)) < missing] = NAN
    return table


def test_pairs_are_measured_on_what_both_have_rated_and_count_the_same() -> None:
    table = some_ratings(3, 40, 5, 0.5)
    found = average_over_pairs(table, standardized_icc)
    values = []
    for pair, (first, second) in zip(found.pairs, combinations(range(5), 2), strict=True):
        both = np.array([row[[first, second]] for row in table if not np.isnan(row[[first, second]]).any()])
        r = float(np.corrcoef(both.T)[0, 1])
        assert (pair.first, pair.second, pair.n, pair.reason) == (first, second, len(both), "")
        assert pair.value == pytest.approx(2 * r / (1 + r))
        values.append(2 * r / (1 + r))
    assert found.n_pairs == 10
    assert found.value == pytest.approx(sum(values) / 10)


def test_a_mean_of_kappas_over_three_raters() -> None:
    table = some_ratings(4, 25, 3, 0.0)
    found = average_over_pairs(table, lambda both: weighted_kappa(both[:, 0], both[:, 1]))
    kappas = [weighted_kappa(table[:, i], table[:, j]).value for i, j in ((0, 1), (0, 2), (1, 2))]
    assert found.value == pytest.approx(np.mean([kappa for kappa in kappas if kappa is not None]))


def test_pairs_without_a_value_are_told_and_left_out_of_the_mean() -> None:
    table = np.array([[1, 2, 4, NAN], [2, 1, 4, NAN], [3, 4, 4, NAN], [4, 5, NAN, 1]], dtype=float)
    found = average_over_pairs(table, lambda both: pearson(both[:, 0], both[:, 1]))
    told = {(pair.first, pair.second): pair for pair in found.pairs}
    assert sorted(told) == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3)]
    assert told[0, 2].reason == "one side is 4 throughout"
    assert told[0, 3].reason == "shares 1 instance of the 2 needed"
    assert (found.n_pairs, found.value) == (1, told[0, 1].value)


@pytest.mark.parametrize("table", [np.empty((0, 3)), np.ones((4, 1)), np.array([[1, NAN], [NAN, 2]])])
def test_without_shared_instances_there_are_no_pairs(table: Floats) -> None:
    found = average_over_pairs(table, icc)
    assert (found.value, found.n_pairs, found.pairs) == (None, 0, ())
