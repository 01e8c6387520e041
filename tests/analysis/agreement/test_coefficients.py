"""Intraclass correlation."""

from __future__ import annotations

import math
from typing import get_args

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from medhelm.analysis.agreement.coefficients import Form, icc
from medhelm.analysis.means import Floats
from tests.support.values import present

FORMS: tuple[Form, ...] = get_args(Form)

JUDGES = np.array([[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]], dtype=float)
"""Six subjects and four judges: table 2 of Shrout and Fleiss (1979)."""

NAN = np.nan


tables = arrays(
    np.float64, st.tuples(st.integers(3, 9), st.integers(2, 5)), elements=st.sampled_from([1.0, 2.0, 3.0, 4.0, 5.0])
)
"""Tables of grades 1 to 5."""


def by_hand(table: Floats, form: Form) -> tuple[float, float, float]:
    """The coefficient and its ends from raw sums of squares, in the letters of McGraw and Wong (1996)."""
    n, k = table.shape
    correction = table.sum() ** 2 / (n * k)
    total = sum(float(x) ** 2 for x in table.flat) - correction
    rows = sum(float(row.sum()) ** 2 for row in table) / k - correction
    columns = sum(float(column.sum()) ** 2 for column in table.T) / n - correction
    msr, msc, mse = rows / (n - 1), columns / (k - 1), (total - rows - columns) / ((n - 1) * (k - 1))
    if form in ("3,1", "3,k"):
        observed = msr / mse
        low = observed / stats.f.ppf(0.975, n - 1, (n - 1) * (k - 1))
        high = observed * stats.f.ppf(0.975, (n - 1) * (k - 1), n - 1)
        ratios = (observed, low, high)
        return tuple(1 - 1 / f if form == "3,k" else (f - 1) / (f + k - 1) for f in ratios)
    rho = (msr - mse) / (msr + (k - 1) * mse + k / n * (msc - mse))
    a, b = k * rho / (n * (1 - rho)), 1 + k * rho * (n - 1) / (n * (1 - rho))
    v = (a * msc + b * mse) ** 2 / ((a * msc) ** 2 / (k - 1) + (b * mse) ** 2 / ((n - 1) * (k - 1)))
    lower, upper = stats.f.ppf(0.975, n - 1, v), stats.f.ppf(0.975, v, n - 1)
    rest = k * msc + (k * n - k - n) * mse
    return (rho, n * (msr - lower * mse) / (lower * rest + n * msr), n * (upper * msr - mse) / (rest + n * upper * msr))


@pytest.mark.parametrize(
    ("form", "value", "low", "high"),
    [("2,1", 0.29, 0.019, 0.76), ("3,1", 0.71, 0.342, 0.95), ("3,k", 0.91, 0.676, 0.99)],
)
def test_the_published_table_and_its_intervals_as_r_gives_them(
    form: Form, value: float, low: float, high: float
) -> None:
    """Values: Shrout and Fleiss (1979, table 4); ends: the package psych for R."""
    found = icc(JUDGES, form)
    assert found.value == pytest.approx(value, abs=0.005)
    assert found.low == pytest.approx(low, abs=5e-4)
    assert found.high == pytest.approx(high, abs=5e-3)
    assert (found.n, found.k, found.n_left_out, found.form, found.reason) == (6, 4, 0, form, "")


@given(tables, st.sampled_from(FORMS))
def test_values_and_ends_agree_with_raw_sums_of_squares(table: Floats, form: Form) -> None:
    found = icc(table, form)
    assume(found.value is not None and found.low is not None and found.high is not None)
    assert [found.value, found.low, found.high] == pytest.approx(by_hand(table, form), rel=1e-7, abs=1e-7)


def test_instances_with_a_missing_rating_are_left_out_and_counted() -> None:
    extra = np.array([[1, 2, NAN, 4], [NAN, NAN, NAN, NAN]])
    found = icc(np.concatenate([extra[:1], JUDGES, extra[1:]]))
    assert (found.n, found.n_left_out) == (6, 2)
    assert found.value == icc(JUDGES).value


@pytest.mark.parametrize(
    ("table", "form", "value", "reason"),
    [
        (np.empty((0, 3)), "3,k", None, "here 0 by 3"),
        ([[1, NAN], [NAN, 2], [3, 3]], "3,k", None, "here 1 by 2"),
        ([[1], [2], [3]], "2,1", None, "here 3 by 1"),
        ([[0.1, 0.1], [0.1, 0.1], [0.1, 0.1]], "2,1", None, "all ratings are the same"),
        ([[4, 5], [4, 5], [4, 5]], "3,1", None, "same grade"),
        ([[1, 3], [2, 2], [3, 1]], "3,k", None, "contradict"),
        ([[1, 1], [3, 3], [5, 5]], "2,1", 1, "agree completely"),
        ([[0.1, 0.3], [0.2, 0.4], [0.5, 0.7]], "3,k", 1, "leaves no residual"),
        ([[1, 3], [2, 2], [3, 1]], "3,1", -1, "do not differ"),
        ([[1, 4], [2, 3], [3, 3]], "2,1", -0.4286, "breaks down"),
    ],
)
def test_what_has_no_value_or_no_interval_has_a_reason(
    table: Floats, form: Form, value: float | None, reason: str
) -> None:
    found = icc(np.array(table, dtype=float), form)
    assert found.value == (None if value is None else pytest.approx(value, abs=5e-4))
    assert found.low is None
    assert reason in found.reason


def normal_table(generator: np.random.Generator, n: int, k: int, agreement: float, strictness: float) -> Floats:
    """Ratings with a given share of variance between instances, and with raters of their own strictness."""
    cases = math.sqrt(agreement) * generator.normal(size=(n, 1))
    noise = math.sqrt(1 - agreement - strictness) * generator.normal(size=(n, k))
    return cases + math.sqrt(strictness) * generator.normal(size=(1, k)) + noise


@pytest.mark.long
@pytest.mark.parametrize(
    ("form", "n", "k", "agreement", "strictness", "truth"),
    [
        ("3,k", 10, 2, 0.6, 0.0, 0.75),
        ("3,k", 30, 3, 0.25, 0.0, 0.5),
        ("3,1", 20, 4, 0.5, 0.3, 0.5 / 0.7),
        ("2,1", 20, 6, 0.6, 0.1, 0.6),
    ],
)
def test_intervals_cover_the_truth(
    form: Form, n: int, k: int, agreement: float, strictness: float, truth: float
) -> None:
    generator, held, runs = np.random.default_rng(5), 0, 1000
    for _ in range(runs):
        found = icc(normal_table(generator, n, k, agreement, strictness), form)
        held += present(found.low) <= truth <= present(found.high)
    assert 0.93 <= held / runs <= 0.97
