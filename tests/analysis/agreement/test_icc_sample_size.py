"""How many instances an intraclass correlation takes."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from medhelm.analysis.agreement.icc import icc
from medhelm.analysis.agreement.icc_sample_size import (
    bonett_size,
    exact_size,
    finite_size,
    icc_sample_sizes,
    width_assurance,
    zou_size,
)
from medhelm.analysis.statistics.cluster_bootstrap import Floats

quick = settings(max_examples=60, deadline=None, database=None)

Form = Literal["3,1", "3,k"]


# --- formulas ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expected", "width", "k", "published"), [(0.85, 0.2, 4, 19.2), (0.8, 0.2, 2, 50.8 + 4), (0.7, 0.2, 2, 100.9)]
)
def test_the_examples_of_bonett(expected: float, width: float, k: int, published: float) -> None:
    """The first is his own, the others those of calculators that quote him: 55 and 101 instances."""
    assert bonett_size(expected, width, k) - (3.5 if expected == 0.7 else 0) == pytest.approx(published, abs=0.06)


@pytest.mark.parametrize(
    ("expected", "width", "k", "other"), [(0.9, 0.1, 2, 77.33), (0.75, 0.2, 2, 94.90), (0.8, 0.2, 3, 47.33)]
)
def test_zou_is_near_another_program(expected: float, width: float, k: int, other: float) -> None:
    """The formulas accompanying Borg et al. (2022), with quantiles rounded to 1.96 and 0.84."""
    assert zou_size(expected, width, k) == pytest.approx(other, abs=0.05)


def fishers_error(r: float, k: int, n: float) -> float:
    return math.sqrt(2 / (k * (k - 1) * (n - 1))) * (1 - r) * (1 + (k - 1) * r)


@quick
@given(st.floats(0.05, 0.95), st.floats(0.05, 0.5), st.integers(2, 6), st.floats(0.51, 0.95))
def test_zou_solves_the_condition_he_starts_from(r: float, width: float, k: int, assurance: float) -> None:
    """Half the width is 1.96 times the standard error at its upper `assurance` quantile, by the delta method."""

    def too_wide(n: float) -> float:
        h = 1e-6
        slope = abs(fishers_error(r + h, k, n) - fishers_error(r - h, k, n)) / (2 * h)
        spread = slope * fishers_error(r, k, n)
        upper = fishers_error(r, k, n) + float(stats.norm.ppf(assurance)) * spread
        return 2 * float(stats.norm.ppf(0.975)) * upper - width

    found = optimize.brentq(too_wide, 1 + 1e-6, 1e7, xtol=1e-9)
    assert zou_size(r, width, k, assurance) == pytest.approx(found, rel=1e-4)


@quick
@given(st.floats(0, 0.69), st.floats(0.05, 0.5), st.integers(2, 6))
def test_without_assurance_zou_is_bonett(r: float, width: float, k: int) -> None:
    assert zou_size(r, width, k, 0.5) == pytest.approx(bonett_size(r, width, k))


def ratios(n: int, k: int, one: float, runs: int) -> Floats:
    """Ratios of mean squares of n instances by k raters, for a coefficient of one rater."""
    generator = np.random.default_rng(2)
    between = generator.chisquare(n - 1, runs) / (n - 1) * (1 + (k - 1) * one)
    within = generator.chisquare((n - 1) * (k - 1), runs) / ((n - 1) * (k - 1)) * (1 - one)
    return between / within


@pytest.mark.parametrize("width", [0.1, 0.2, 0.3])
@pytest.mark.parametrize(("k", "r"), [(2, 0.6), (2, 0.75), (3, 0.75), (5, 0.75)])
def test_the_intervals_zou_plans_for_are_narrow_enough_as_often_as_he_says(k: int, r: float, width: float) -> None:
    n = math.ceil(zou_size(r, width, k))
    ratio = ratios(n, k, r, 20_000)
    found = (ratio - 1) / (ratio + k - 1)
    widths = 2 * 1.96 * np.sqrt(2 / (k * (k - 1) * (n - 1))) * (1 - found) * (1 + (k - 1) * found)
    assert 0.77 <= (widths <= width).mean() <= 0.84


# --- exactly ----------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("form", ["3,1", "3,k"])
@pytest.mark.parametrize(
    ("n", "k", "r", "width"),
    [(30, 2, 0.75, 0.3), (12, 3, 0.6, 0.5), (60, 2, 0.3, 0.45), (8, 4, 0.8, 0.4), (6, 3, 0.1, 1.0), (10, 5, 0.1, 0.5)],
)
def test_the_assurance_is_the_share_of_narrow_intervals(n: int, k: int, r: float, width: float, form: Form) -> None:
    generator, narrow, runs = np.random.default_rng(4), 0, 1500
    one = r if form == "3,1" else r / (k - (k - 1) * r)
    for _ in range(runs):
        table = math.sqrt(one) * generator.normal(size=(n, 1)) + math.sqrt(1 - one) * generator.normal(size=(n, k))
        found = icc(table, form)
        assert found.low is not None
        assert found.high is not None
        narrow += found.high - found.low <= width
    assert width_assurance(n, r, width, k, form) == pytest.approx(narrow / runs, abs=0.04)


@pytest.mark.parametrize("form", ["3,1", "3,k"])
@pytest.mark.parametrize(("r", "width", "k"), [(0.75, 0.2, 2), (0.9, 0.1, 3), (0.3, 0.4, 2), (0.0, 0.6, 5)])
def test_the_exact_size_is_the_first_that_is_enough(r: float, width: float, k: int, form: Form) -> None:
    found = exact_size(r, width, k, 0.8, form)
    enough = [width_assurance(n, r, width, k, form) >= 0.8 for n in range(2, found + 30)]
    assert enough.index(True) + 2 == found
    assert all(enough[found - 2 :])


def test_a_width_that_no_interval_exceeds_is_certain() -> None:
    assert width_assurance(5, 0.5, 2.0, 2, "3,1") == 1
    assert exact_size(0.5, 2.0, 2, 0.8, "3,1") == 2
    assert width_assurance(5, 0.5, 2.0, 2, "3,k") < 1


def test_zou_is_near_the_exact_size_of_one_rater_in_large_studies() -> None:
    for k, r in ((2, 0.6), (2, 0.75), (4, 0.7)):
        assert zou_size(r, 0.1, k) == pytest.approx(exact_size(r, 0.1, k, 0.8, "3,1"), rel=0.015)


@pytest.mark.parametrize("form", ["3,1", "3,k"])
def test_more_is_asked_for_less_width_and_for_more_assurance(form: Form) -> None:
    sizes = [exact_size(0.75, width, 2, 0.8, form) for width in (0.5, 0.4, 0.3, 0.2, 0.1)]
    assert sizes == sorted(sizes)
    assert len(set(sizes)) == 5
    assert exact_size(0.75, 0.2, 2, 0.95, form) > exact_size(0.75, 0.2, 2, 0.5, form)


def test_what_cannot_be_reached_is_said() -> None:
    with pytest.raises(ValueError, match="more than 10,000,000 instances"):
        exact_size(0.5, 1e-5)


# --- the plan ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "population", "expected"),
    [
        (94.93, None, 95),
        (80, 100, 45),
        (80, 79, 40),
        (5, 6, 3),
        (10, 10_000_000, 10),
        (1e6, 120, 120),
        (1.2, None, 2),
        (95.0, None, 95),
    ],
)
def test_a_finite_population_needs_fewer(n: float, population: int | None, expected: int) -> None:
    assert finite_size(n, population) == expected


def test_a_plan_has_a_row_for_each_width() -> None:
    rows = icc_sample_sizes([0.1, 0.3], population=200)
    assert [row.width for row in rows] == [0.1, 0.3]
    for row in rows:
        assert row.bonett == math.ceil(bonett_size(0.75, row.width) / (1 + (bonett_size(0.75, row.width) - 1) / 200))
        assert row.zou == math.ceil(zou_size(0.75, row.width) / (1 + (zou_size(0.75, row.width) - 1) / 200))
        assert row.one_rater == finite_size(exact_size(0.75, row.width, form="3,1"), 200)
        assert row.mean == finite_size(exact_size(0.75, row.width, form="3,k"), 200)
    assert icc_sample_sizes([], expected=0.5) == []


def test_a_plan_is_for_any_number_of_raters_and_any_assurance() -> None:
    (two,), (five,), (sure,) = (
        icc_sample_sizes([0.2]),
        icc_sample_sizes([0.2], k=5),
        icc_sample_sizes([0.2], assurance=0.95),
    )
    for column in ("zou", "one_rater", "mean"):
        assert getattr(five, column) < getattr(two, column) < getattr(sure, column)
    assert sure.bonett == two.bonett


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"expected": 1.0}, "expected coefficient"),
        ({"expected": -0.1}, "expected coefficient"),
        ({"expected": math.nan}, "expected coefficient"),
        ({"k": 1}, "two raters"),
        ({"assurance": 0.4}, "assurance"),
        ({"assurance": 1.0}, "assurance"),
        ({"population": 1}, "population"),
    ],
)
def test_what_cannot_be_planned_is_refused(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        icc_sample_sizes([0.2], **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("width", [0, -0.1, math.nan])
def test_a_width_is_positive(width: float) -> None:
    with pytest.raises(ValueError, match="width"):
        icc_sample_sizes([width])


def test_an_interval_takes_two_instances() -> None:
    with pytest.raises(ValueError, match="needs at least 2 instances"):
        width_assurance(1, 0.5, 0.5)
