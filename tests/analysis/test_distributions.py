"""Probabilities and quantiles of F and of Student's t."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from medhelm.analysis.means import f_cdf, f_quantile, t_quantile

quick = settings(max_examples=150, deadline=None, database=None)

DEGREES = [0.05, 0.3, 1, 1.7, 2, 3, 5.5, 10, 33.3, 100, 1234.5, 1e4, 1e5, 1e6]
"""Few and many degrees of freedom, whole or not."""

PROBABILITIES = [1e-6, 0.001, 0.025, 0.2, 0.5, 0.8, 0.975, 0.999, 1 - 1e-6]

degrees = st.floats(-1, 6).map(lambda power: 10**power)
probabilities = st.floats(0.001, 0.999)


@pytest.mark.parametrize("df1", DEGREES)
def test_f_agrees_with_scipy(df1: float) -> None:
    for df2 in DEGREES:
        for f in (0.001, 0.1, 0.5, 0.9, 1, 1.01, 1.2, 3, 50, 1e4):
            assert f_cdf(f, df1, df2) == pytest.approx(float(stats.f.cdf(f, df1, df2)), abs=2e-11)
        for p in PROBABILITIES:
            expected = float(stats.f.ppf(p, df1, df2))
            if 1e-290 < expected < 1e290:
                assert f_quantile(p, df1, df2) == pytest.approx(expected, rel=1e-10), (p, df2)


@pytest.mark.parametrize("df", DEGREES)
def test_t_agrees_with_scipy(df: float) -> None:
    for p in PROBABILITIES:
        assert t_quantile(p, df) == pytest.approx(float(stats.t.ppf(p, df)), rel=1e-8, abs=1e-8), p


@quick
@given(probabilities, degrees, degrees)
@example(0.5, 1e6, 1e6)
@example(0.975, 0.1, 1e6)
def test_a_quantile_has_its_probability_below_it(p: float, df1: float, df2: float) -> None:
    quantile = f_quantile(p, df1, df2)
    assert f_cdf(quantile, df1, df2) == pytest.approx(p, abs=1e-10)


@quick
@given(degrees, degrees, st.floats(-5, 5), st.floats(0, 1))
def test_probability_does_not_fall(df1: float, df2: float, power: float, more: float) -> None:
    low, high = f_cdf(10**power, df1, df2), f_cdf(10 ** (power + more), df1, df2)
    assert 0 <= low <= 1
    assert high >= low - 1e-13


@pytest.mark.parametrize(("f", "expected"), [(-1, 0), (0, 0), (1e-320, 0), (math.inf, 1)])
def test_the_ends_of_f(f: float, expected: float) -> None:
    assert f_cdf(f, 3, 7) == expected


def test_quantiles_beyond_all_floats_are_infinite_or_nothing() -> None:
    assert f_quantile(0.975, 3, 1e-3) == math.inf
    assert f_quantile(1e-9, 1e-4, 3) == 0
    assert t_quantile(1e-9, 0.01) == -math.inf
    assert t_quantile(0.5, 0.01) == 0


@pytest.mark.parametrize("df", [0, -1, math.inf, math.nan])
def test_degrees_of_freedom_are_positive_and_finite(df: float) -> None:
    calls: tuple[Callable[[], float], ...] = (
        lambda: f_cdf(1, df, 1),
        lambda: f_cdf(1, 1, df),
        lambda: f_quantile(0.5, df, 1),
        lambda: f_quantile(0.5, 1, df),
        lambda: t_quantile(0.5, df),
    )
    for call in calls:
        with pytest.raises(ValueError, match="degrees of freedom"):
            call()


@pytest.mark.parametrize("p", [0, 1, -0.1, 1.1, math.nan])
def test_a_quantile_needs_a_probability(p: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        f_quantile(p, 2, 3)
    with pytest.raises(ValueError, match="between 0 and 1"):
        t_quantile(p, 2)


def test_nan_has_no_probability() -> None:
    with pytest.raises(ValueError, match="no probability of nan"):
        f_cdf(math.nan, 1, 1)
