"""Agreement from all ratings at once: the usual ICC for complete tables, 0 for guesses, and intervals that cover."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bench.studies.clinicians import DESIGNS, crossed_pairs, rated
from medhelm.analysis.agreement.coefficients import icc
from medhelm.analysis.agreement.reliability import (
    LEAST_RATERS,
    LEAST_UNITS,
    Grade,
    jury_and_raters,
    one_rater_agreement,
    rater_effect,
    scale_mismatches,
)
from medhelm.analysis.means import Floats, t_quantile
from tests.support.values import present

NAN = float("nan")


# --- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "raters"), [(12, 2), (15, 3), (30, 6)])
def test_complete_tables_have_the_usual_icc(n: int, raters: int) -> None:
    table = rated(np.ones((n, raters)), 0.5, np.random.default_rng(n), False)
    one = one_rater_agreement(table)
    assert one.value == pytest.approx(icc(table, "3,1").value)
    assert one.of_mean(raters).value == pytest.approx(icc(table, "3,k").value)
    assert (one.n, one.n_raters) == (n, raters)


def test_the_interval_is_a_jackknife_on_fishers_scale() -> None:
    table = rated(np.ones((15, 3)), 0.5, np.random.default_rng(15), False)

    def scaled(ratings: Floats) -> float:
        r = present(icc(ratings, "3,1").value)
        return math.log((1 + 2 * r) / (1 - r))

    without = np.array([scaled(np.delete(table, row, axis=0)) for row in range(15)])
    reach = t_quantile(0.975, 14) * math.sqrt(14 * without.var())
    ends = np.exp(scaled(table) + np.array([-reach, reach]))
    found = one_rater_agreement(table)
    assert [found.low, found.high] == pytest.approx(((ends - 1) / (ends + 2)).tolist())


def test_variances_are_those_of_the_least_squares_fit() -> None:
    """Henderson's method 3 with dense matrices: sums of squares of two regressions, and traces."""
    source = np.random.default_rng(3)
    table = rated(np.where(source.random((14, 4)) < 0.6, 1.0, NAN), 0.6, source, False)
    table[(~np.isnan(table)).sum(axis=1) < 2] = NAN
    rows, columns = np.nonzero(~np.isnan(table))
    y = table[rows, columns]
    of_case, of_rater = np.eye(14)[rows][:, np.unique(rows)], np.eye(4)[columns]

    def residual(design: Floats) -> float:
        return float(((y - design @ np.linalg.lstsq(design, y, rcond=None)[0]) ** 2).sum())

    both = np.concatenate([of_rater, of_case], axis=1)
    rank = int(np.linalg.matrix_rank(both))
    error = residual(both) / (len(y) - rank)
    outside = of_case - of_rater @ np.linalg.lstsq(of_rater, of_case, rcond=None)[0]
    quality = (residual(of_rater) - residual(both) - (rank - 4) * error) / float(np.trace(of_case.T @ outside))
    assert one_rater_agreement(table).value == pytest.approx(quality / (quality + error))


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (np.full((12, 3), NAN), "0 instances with two ratings are too few"),
        (np.full((12, 3), 4.0), "do not vary"),
        (np.array([[1.0, 2.0], [2.0, 3.0]]), "2 independent instances with two ratings are too few for an interval"),
        (np.arange(12.0)[:, None] + np.arange(3), "ratings differ by constants only"),
        (np.where(np.eye(12, 24) + np.eye(12, 24, 12) > 0, 3.0, NAN), "do not vary, or no rater compares two"),
    ],
)
def test_what_is_undefined_has_a_reason(table: Floats, words: str) -> None:
    found = one_rater_agreement(table)
    assert (found.low, found.high) == (None, None)
    assert words in found.reason


# --- raters who guess -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("raters", "shared"), [(5, 2), (3, 10)])
def test_raters_who_guess_come_out_near_0(raters: int, shared: int) -> None:
    """The scenario in which the mean over pairs is 1.000 [1.000, 1.000]."""
    source, design = np.random.default_rng(7), crossed_pairs(raters, shared)
    found = [one_rater_agreement(rated(design, 0.0, source, False)) for _ in range(150)]
    values = [one.value for one in found if one.value is not None]
    assert len(values) == 150
    assert abs(np.mean(values)) < 0.04
    covered = [one.low <= 0 <= one.high for one in found if one.low is not None and one.high is not None]
    assert np.mean(covered) >= 0.93


# --- coverage ---------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("agreement", [0.0, 0.5, 0.8])
def test_intervals_cover_the_truth(design: str, agreement: float) -> None:
    source = np.random.default_rng(11)
    found = [one_rater_agreement(rated(DESIGNS[design], agreement, source, False)) for _ in range(300)]
    covered = [one.low <= agreement <= one.high for one in found if one.low is not None and one.high is not None]
    assert len(covered) > 290
    assert 0.91 <= np.mean(covered) <= 1


def test_copies_of_instances_are_one_unit() -> None:
    table = rated(np.ones((20, 3)), 0.5, np.random.default_rng(0), False)
    names = [f"i{i}" for i in range(20)] * 3
    once, copied = one_rater_agreement(table), one_rater_agreement(np.tile(table, (3, 1)), names)
    assert present(copied.low) == pytest.approx(present(once.low), abs=0.03)
    assert one_rater_agreement(np.tile(table[: LEAST_UNITS - 1], (3, 1)), names[: LEAST_UNITS - 1] * 3).low is None


# --- the jury beside a rater ------------------------------------------------------------------------------------------


def test_a_jury_that_is_one_more_rater_agrees_as_well_as_another() -> None:
    source = np.random.default_rng(4)
    covered, values = [], []
    for _ in range(120):
        table = rated(np.ones((25, 4)), 0.5, source, False)
        found = jury_and_raters(np.where(source.random((25, 3)) < 0.8, table[:, :3], NAN), table[:, 3])
        covered.append(present(found.difference.low) <= 0 <= present(found.difference.high))
        values.append(found.difference.value)
    assert np.mean(covered) >= 0.9
    assert abs(np.mean(np.array(values, dtype=float))) < 0.02


def test_correlation_with_one_rater_is_that_around_the_raters_means() -> None:
    source = np.random.default_rng(4)
    table, jury = rated(np.ones((25, 3)), 0.5, source, False), source.normal(size=25)
    centered = (table - table.mean(axis=0)).T.ravel()
    found = jury_and_raters(table, jury)
    assert found.jury.value == pytest.approx(np.corrcoef(centered, np.tile(jury, 3))[0, 1])
    assert found.difference.value == pytest.approx((found.jury.value or 0) - (found.raters.value or 0))


# --- variance between raters: against the definition, and the reach that it gives an interval -------------------------


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


# --- raters who used another scale, told from slips of single cells ---------------------------------------------------


def grades(rater: str, values: list[float], low: float = 1, high: float = 5) -> list[Grade]:
    return [
        Grade(rater=rater, value=value, low=low, high=high, line=line, column="accuracy")
        for line, value in enumerate(values, 2)
    ]


@pytest.mark.parametrize(
    ("values", "n_off", "slips"),
    [
        ([1, 3, 5, 50], None, [50]),  # one of four: a slip
        ([1, 3, 50, 45], 2, []),
        ([0.8, 0.6, 1, 1], 2, []),
        ([4, 4, 4, 4, 4, 4, 4, 6, 6], None, [6, 6]),  # two of nine: slips
    ],
)
def test_many_grades_off_the_scale_are_another_scale(
    values: list[float], n_off: int | None, slips: list[float]
) -> None:
    others, off = scale_mismatches(grades("A", values) + grades("B", [1, 5, 3]))
    assert [found.n_off for found in others] == ([] if n_off is None else [n_off])
    assert [grade.value for grade in off] == slips


@pytest.mark.parametrize(
    ("mine", "others", "high", "narrow"),
    [
        ([1, 2, 5, 4, 3, 5], [70, 80, 20], 100, True),
        ([1, 2, 5, 4, 3, 15], [70, 80, 20], 100, False),  # one grade beyond the lowest tenth
        ([1, 2, 5, 4, 3], [70, 80, 20], 100, False),  # too few to tell
        ([1, 2, 5, 4, 3, 5], [7, 8, 20], 100, False),  # nobody uses the rest
        ([0.4, 0, 0, 0.2, 0.5, 0.5], [5, 5, 4], 5, False),  # a narrow scale has no tenths
    ],
)
def test_a_narrow_scale_within_a_wide_one(mine: list[float], others: list[float], high: float, narrow: bool) -> None:
    found, slips = scale_mismatches(grades("A", mine, 0, high) + grades("B", others, 0, high))
    assert [one.grades[0].rater for one in found] == (["A"] if narrow else [])
    assert slips == []
    if narrow:
        assert (found[0].n_off, found[0].highest_of_others) == (0, max(others))
