"""Coefficients of agreement: correlation, intraclass correlation, weighted kappa, alpha, and all of them resampled."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import get_args

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from medhelm.analysis.agreement.coefficients import (
    Coefficient,
    Form,
    Level,
    Weights,
    average_over_pairs,
    icc,
    krippendorff_alpha,
    pearson,
    resampled_alpha,
    resampled_icc,
    resampled_kappa,
    resampled_spearman,
    spearman,
    weighted_kappa,
)
from medhelm.analysis.agreement.jury_vs_clinicians import resampled_pair_icc, standardized_icc
from medhelm.analysis.means import Floats
from tests.support.agreement_by_hand import alpha_by_hand, kappa_by_hand
from tests.support.values import present

# --- intraclass correlation -------------------------------------------------------------------------------------------


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


# --- correlation by grades and by ranks -------------------------------------------------------------------------------


points = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=4, max_size=30).filter(
    lambda rows: min(len({row[side] for row in rows}) for side in (0, 1)) > 1
)


@given(points)
def test_values_and_intervals_agree_with_scipy(rows: list[tuple[int, int]]) -> None:
    x, y = np.array(rows, dtype=float).T
    assert spearman(x, y).value == pytest.approx(float(stats.spearmanr(x, y)[0]))
    found = pearson(x, y)
    assert found.value == pytest.approx(float(stats.pearsonr(x, y)[0]))
    if found.low is not None:
        interval = stats.pearsonr(x, y).confidence_interval(0.95)
        assert (found.low, found.high) == pytest.approx((float(interval.low), float(interval.high)))


def test_intervals_of_ranks_are_those_of_bonett_and_wright() -> None:
    x = np.arange(20.0)
    y = np.array([3, 1, 0, 2, 6, 4, 5, 9, 8, 7, 13, 10, 12, 11, 14, 19, 18, 15, 17, 16], dtype=float)
    found = spearman(x, y)
    r = 1 - 6 * float(((x - y) ** 2).sum()) / (20 * (400 - 1))
    z = 0.5 * math.log((1 + r) / (1 - r))
    ends = [z + sign * 1.959964 * math.sqrt((1 + r * r / 2) / 17) for sign in (-1, 1)]
    expected = [(math.exp(2 * end) - 1) / (math.exp(2 * end) + 1) for end in ends]
    assert found.value == pytest.approx(r)
    assert [found.low, found.high] == pytest.approx(expected, abs=1e-6)


def test_pairs_with_a_missing_side_are_left_out_and_counted() -> None:
    x, y = np.array([1, 2, NAN, 3, 4, 9, 5]), np.array([2, 1, 5, 4, 3, NAN, 9])
    found = spearman(x, y)
    assert (found.n, found.n_left_out) == (5, 2)
    assert found.value == spearman(x[[0, 1, 3, 4, 6]], y[[0, 1, 3, 4, 6]]).value


@pytest.mark.parametrize(
    ("x", "y", "value", "reason"),
    [
        ([1, NAN], [1, 2], None, "at least two"),
        ([0.1, 0.1, 0.1], [1, 2, 3], None, "one side is 0.1 throughout"),
        ([1, 2, 3], [1, 3, 2], 0.5, "too few"),
        ([1, 2, 3, 4], [4, 3, 2, 1], -1, "perfect"),
    ],
)
def test_what_has_no_interval_has_a_reason(x: list[float], y: list[float], value: float | None, reason: str) -> None:
    for found in (pearson(np.array(x), np.array(y)), spearman(np.array(x), np.array(y))):
        assert found.value == (value if value is None else pytest.approx(value))
        assert (found.low, found.high) == (None, None)
        assert reason in found.reason


# --- agreement beyond chance ------------------------------------------------------------------------------------------


WEIGHTS: tuple[Weights, ...] = get_args(Weights)
LEVELS: tuple[Level, ...] = get_args(Level)

OBSERVERS = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, NAN, NAN, NAN],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NAN, 3],
        [NAN, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NAN],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NAN],
    ]
).T
"""Twelve units and four observers: the example with missing data in Krippendorff (2011)."""


def tables_of(*grades: float) -> st.SearchStrategy[Floats]:
    """Tables of grades 1 to 5, and of these."""
    shapes = st.tuples(st.integers(2, 9), st.integers(2, 4))
    return arrays(np.float64, shapes, elements=st.sampled_from([1.0, 2.0, 3.0, 4.0, 5.0, *grades]))


def same(found: float | None, expected: float | None) -> bool:
    """Whether both are missing, or equal but for rounding."""
    return found == expected if expected is None else found == pytest.approx(expected, abs=1e-9)


# --- kappa ------------------------------------------------------------------------------------------------------------


@given(tables_of(), st.sampled_from(WEIGHTS))
def test_kappa_agrees_with_every_rating_against_every_other(table: Floats, weights: Weights) -> None:
    a, b = table[:, 0], table[:, 1]
    assert same(weighted_kappa(a, b, weights=weights).value, kappa_by_hand(a.tolist(), b.tolist(), weights))


@pytest.mark.parametrize(
    ("a", "b", "reason"),
    [([3, NAN], [3, 4], "at least two"), ([3, 3, 3], [3, 3, 3], "both raters give 3 to every instance")],
)
def test_undefined_kappa_is_no_number(a: list[float], b: list[float], reason: str) -> None:
    found = weighted_kappa(np.array(a, dtype=float), np.array(b, dtype=float))
    assert found.value is None
    assert reason in found.reason


# --- alpha ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("level", "published"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_alpha_of_the_observers_is_krippendorffs(level: Level, published: float) -> None:
    found = krippendorff_alpha(OBSERVERS, level)
    assert found.value == pytest.approx(published, abs=5e-4)
    assert (found.n, found.n_left_out) == (11, 1)
    assert alpha_by_hand(OBSERVERS, level) == pytest.approx(published, abs=5e-4)


@given(tables_of(NAN), st.sampled_from(LEVELS))
def test_alpha_agrees_with_the_matrix_of_coincidences(table: Floats, level: Level) -> None:
    found = krippendorff_alpha(table, level)
    assert same(found.value, alpha_by_hand(table, level))
    assert (found.value is None) == bool(found.reason)


@pytest.mark.parametrize(
    ("table", "reason"),
    [([[1, NAN], [NAN, 2]], "no instance has two ratings"), ([[3, 3], [3, 3], [NAN, 4]], "all ratings are the same")],
)
def test_undefined_alpha_is_no_number(table: Floats, reason: str) -> None:
    found = krippendorff_alpha(np.array(table, dtype=float))
    assert (found.value, found.reason) == (None, reason)


# --- many resamples at once are as tables whose rows are repeated as often as they were drawn -------------------------


One = Callable[[Floats], float | None]
Many = Callable[[Floats, Floats], Floats]


def pair_of_columns(one: Callable[..., Coefficient], many: Callable[..., Floats]) -> tuple[One, Many]:
    """A coefficient of the first two columns."""
    return (
        lambda table: one(table[:, 0], table[:, 1]).value,
        lambda table, counts: many(table[:, 0], table[:, 1], counts),
    )


def kappa(weights: Weights) -> tuple[One, Many]:
    return pair_of_columns(partial(weighted_kappa, weights=weights), partial(resampled_kappa, weights=weights))


def alpha(level: Level) -> tuple[One, Many]:
    return lambda table: krippendorff_alpha(table, level).value, partial(resampled_alpha, level=level)


def consistency(form: Form) -> tuple[One, Many]:
    return lambda table: icc(table, form).value, partial(resampled_icc, form=form)


COEFFICIENTS: dict[str, tuple[One, Many]] = {
    **{f"icc_{form}": consistency(form) for form in get_args(Form)},
    **{f"kappa_{weights}": kappa(weights) for weights in get_args(Weights)},
    **{f"alpha_{level}": alpha(level) for level in get_args(Level)},
    "spearman": pair_of_columns(spearman, resampled_spearman),
    "pairs": (lambda table: average_over_pairs(table, standardized_icc).value, resampled_pair_icc),
}

COMPLETE = {"icc_2,1", "icc_3,1", "icc_3,k", "spearman"}
"""Coefficients of tables without a missing rating."""


@st.composite
def tables_and_counts(draw: st.DrawFn, complete: bool) -> tuple[Floats, Floats]:
    """Ratings of 2 to 4 raters, few distinct or all different, and how often each of 8 resamples drew each row."""
    n, raters = draw(st.integers(2, 8)), draw(st.integers(2, 4))
    grades = draw(st.sampled_from([(1.0, 2.0, 3.0, 4.0, 5.0), (0.0, 1.0), (1 / 3, 2 / 3, 1.0), (1e6 + 1, 1e6 + 2.5)]))
    rating = st.sampled_from(grades if complete else (*grades, NAN))
    table = draw(st.lists(st.lists(rating, min_size=raters, max_size=raters), min_size=n, max_size=n))
    drawn = st.lists(st.integers(0, n - 1), min_size=1, max_size=n)
    counts = [np.bincount(draw(drawn), minlength=n) for _ in range(8)]
    return np.array(table), np.array(counts, dtype=float)


@pytest.mark.parametrize("name", COEFFICIENTS)
@settings(max_examples=15)
@given(data=st.data())
def test_resamples_at_once_are_the_same_as_one_after_another(name: str, data: st.DataObject) -> None:
    one, many = COEFFICIENTS[name]
    table, counts = data.draw(tables_and_counts(name in COMPLETE))
    expected = [one(np.repeat(table, row.astype(int), axis=0)) for row in counts]
    assert many(table, counts) == pytest.approx([NAN if x is None else x for x in expected], abs=1e-7, nan_ok=True)
