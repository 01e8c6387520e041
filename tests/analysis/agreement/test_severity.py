"""Variance between raters: against the definition, and the reach that it gives an interval."""

from __future__ import annotations

import math

import numpy as np
import pytest

from medhelm.analysis.agreement.reliability import LEAST_RATERS, rater_effect
from medhelm.analysis.means import Floats, t_quantile

NAN = float("nan")


def equal(raters: int) -> Floats:
    return np.full(raters, 1 / raters)


def test_complete_tables_give_the_estimate_of_the_analysis_of_variance() -> None:
    source = np.random.default_rng(0)
    table = source.normal(size=(30, 1)) + 0.5 * source.normal(size=4) + 0.3 * source.normal(size=(30, 4))
    around = table - table.mean(axis=1, keepdims=True)
    error = float(((around - around.mean(axis=0)) ** 2).sum()) / (29 * 3)
    found = rater_effect(table, equal(4))
    assert found.deviation == pytest.approx(math.sqrt(table.mean(axis=0).var(ddof=1) - error / 30))
    assert found.reach == pytest.approx(t_quantile(0.975, 3) * (found.deviation or 0) / 2)
    assert found.n_raters == 4


@pytest.mark.parametrize(
    "table",
    [
        np.arange(20.0).reshape(10, 2),  # fewer than three raters
        np.where(np.eye(3).repeat(5, axis=0) > 0, 3.0, NAN),  # nothing is shared
        np.array([[1, 2, NAN, NAN], [2, 4, NAN, NAN], [NAN, NAN, 3, 1], [NAN, NAN, 2, 2], [NAN, NAN, 5, 1]]),
        np.full((0, 3), NAN),
        np.array([[1.0, 2.0, 3.0]]),  # no residual
    ],
)
def test_what_cannot_be_estimated_holds_for_these_raters_only(table: Floats) -> None:
    found = rater_effect(table, equal(table.shape[1]))
    assert (found.deviation, found.reach) == (None, 0.0)
    assert LEAST_RATERS == 3
