"""Probabilities and quantiles of F and of Student's t."""

from __future__ import annotations

import math

import pytest
from scipy import stats

from medhelm.analysis.means import f_cdf, f_quantile, t_quantile

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
