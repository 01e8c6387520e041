"""Agreement from all ratings at once: the usual ICC for complete tables, 0 for guesses, and intervals that cover."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from medhelm.analysis.agreement.coefficients import average_over_pairs, icc, pearson
from medhelm.analysis.agreement.jury_vs_clinicians import standardized_icc
from medhelm.analysis.agreement.reliability import LEAST_UNITS, jury_and_raters, one_rater_agreement
from medhelm.analysis.means import Floats
from tests.support.values import present

NAN = float("nan")


def pairs_design(raters: int, shared: int) -> Floats:
    """One row per shared completion, each rated by two raters: ones and nan."""
    rows = [pair for pair in combinations(range(raters), 2) for _ in range(shared)]
    table = np.full((len(rows), raters), NAN)
    for row, pair in zip(table, rows, strict=True):
        row[list(pair)] = 1.0
    return table


def rated(design: Floats, agreement: float, rng: np.random.Generator, *, severity: float = 0.5) -> Floats:
    """Ratings of a design whose raters agree so much with each other, severity aside."""
    n, raters = design.shape
    quality = np.sqrt(agreement) * rng.normal(size=(n, 1))
    error = np.sqrt(1 - agreement) * rng.normal(size=(n, raters))
    return np.asarray(design * (3 + quality + error + severity * rng.normal(size=raters)))


def grades(ratings: Floats) -> Floats:
    """Whole grades of 1 to 5, most of them 4 or 5."""
    return np.clip(np.round(ratings + 1.6), 1, 5)


# --- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "raters"), [(12, 2), (15, 3), (30, 6)])
def test_complete_tables_have_the_usual_icc(n: int, raters: int) -> None:
    table = rated(np.ones((n, raters)), 0.5, np.random.default_rng(n))
    one = one_rater_agreement(table)
    assert one.value == pytest.approx(icc(table, "3,1").value)
    assert one.of_mean(raters).value == pytest.approx(icc(table, "3,k").value)
    assert (one.n, one.n_raters) == (n, raters)


def test_variances_are_those_of_the_least_squares_fit() -> None:
    """Henderson's method 3 with dense matrices: sums of squares of two regressions, and traces."""
    source = np.random.default_rng(3)
    table = rated(np.where(source.random((14, 4)) < 0.6, 1.0, NAN), 0.6, source)
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


def test_an_instance_with_one_rating_says_nothing_of_agreement() -> None:
    table = rated(np.ones((20, 3)), 0.5, np.random.default_rng(0))
    more = np.concatenate([table, [[5.0, NAN, NAN]] * 7])
    found, same = one_rater_agreement(more), one_rater_agreement(table)
    assert found.n == same.n
    assert found.value == pytest.approx(same.value)
    assert found.low == pytest.approx(same.low)


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


def test_infinite_ratings_are_refused() -> None:
    with pytest.raises(ValueError, match="infinite"):
        one_rater_agreement(np.array([[1.0, 2.0], [np.inf, 3.0]]))
    with pytest.raises(ValueError, match="infinite"):
        jury_and_raters(np.ones((2, 2)), np.array([1.0, -np.inf]))


# --- raters who guess -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("raters", "shared"), [(5, 2), (5, 3), (5, 5), (3, 10), (2, 30)])
def test_raters_who_guess_come_out_near_0(raters: int, shared: int) -> None:
    """The scenario in which the mean over pairs is 1.000 [1.000, 1.000]."""
    source, design = np.random.default_rng(7), pairs_design(raters, shared)
    found = [one_rater_agreement(rated(design, 0.0, source)) for _ in range(300)]
    values = [one.value for one in found if one.value is not None]
    assert len(values) == 300
    assert abs(np.mean(values)) < 0.04
    covered = [one.low <= 0 <= one.high for one in found if one.low is not None and one.high is not None]
    assert np.mean(covered) >= 0.93


def test_the_mean_over_pairs_is_1_where_all_at_once_are_0() -> None:
    source, design = np.random.default_rng(7), pairs_design(5, 2)
    tables = [rated(design, 0.0, source) for _ in range(100)]
    of_pairs = [average_over_pairs(table, standardized_icc).value or NAN for table in tables]
    assert np.median(of_pairs) == pytest.approx(1.0)
    assert abs(np.median([one_rater_agreement(table).value or NAN for table in tables])) < 0.1


# --- coverage ---------------------------------------------------------------------------------------------------------

DESIGNS = {
    "5 raters, 2 shared by each pair": pairs_design(5, 2),
    "2 raters, 10": np.ones((10, 2)),
    "3 raters, 20": np.ones((20, 3)),
    "4 raters, half of 40": np.where(np.random.default_rng(0).random((40, 4)) < 0.5, 1.0, NAN),
}


@pytest.mark.long
@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("agreement", [0.0, 0.5, 0.8])
def test_intervals_cover_the_truth(design: str, agreement: float) -> None:
    source = np.random.default_rng(11)
    found = [one_rater_agreement(rated(DESIGNS[design], agreement, source)) for _ in range(300)]
    covered = [one.low <= agreement <= one.high for one in found if one.low is not None and one.high is not None]
    assert len(covered) > 290
    assert 0.91 <= np.mean(covered) <= 1


def test_intervals_cover_where_most_grades_are_the_best() -> None:
    source = np.random.default_rng(12)
    truth = pearson(*grades(rated(np.ones((200_000, 2)), 0.5, source, severity=0.0)).T).value or NAN
    design = DESIGNS["3 raters, 20"]
    found = [one_rater_agreement(grades(rated(design, 0.5, source, severity=0.0))) for _ in range(800)]
    covered = [one.low <= truth <= one.high for one in found if one.low is not None and one.high is not None]
    assert np.mean(covered) >= 0.91


def test_copies_of_instances_are_one_unit() -> None:
    table = rated(np.ones((20, 3)), 0.5, np.random.default_rng(0))
    names = [f"i{i}" for i in range(20)] * 3
    once, copied = one_rater_agreement(table), one_rater_agreement(np.tile(table, (3, 1)), names)
    assert present(copied.low) == pytest.approx(present(once.low), abs=0.03)
    assert one_rater_agreement(np.tile(table[: LEAST_UNITS - 1], (3, 1)), names[: LEAST_UNITS - 1] * 3).low is None


# --- the jury beside a rater ------------------------------------------------------------------------------------------


def test_a_jury_that_is_one_more_rater_agrees_as_well_as_another() -> None:
    source = np.random.default_rng(4)
    covered, values = [], []
    for _ in range(300):
        table = rated(np.ones((25, 4)), 0.5, source)
        found = jury_and_raters(np.where(source.random((25, 3)) < 0.8, table[:, :3], NAN), table[:, 3])
        covered.append(present(found.difference.low) <= 0 <= present(found.difference.high))
        values.append(found.difference.value)
    assert 0.92 <= np.mean(covered) <= 0.98
    assert abs(np.mean(np.array(values, dtype=float))) < 0.02


def test_correlation_with_one_rater_is_that_around_the_raters_means() -> None:
    source = np.random.default_rng(4)
    table, jury = rated(np.ones((25, 3)), 0.5, source), source.normal(size=25)
    centered = (table - table.mean(axis=0)).T.ravel()
    found = jury_and_raters(table, jury)
    assert found.jury.value == pytest.approx(np.corrcoef(centered, np.tile(jury, 3))[0, 1])
    assert found.difference.value == pytest.approx((found.jury.value or 0) - (found.raters.value or 0))


def test_without_a_jury_raters_are_compared_all_the_same() -> None:
    table = rated(np.ones((25, 3)), 0.5, np.random.default_rng(4))
    found = jury_and_raters(table, np.full(25, NAN))
    assert (found.jury.value, found.jury.n, found.raters.n) == (None, 0, 25)
    assert found.difference.value is None
    assert jury_and_raters(table, np.full(25, 3.0)).jury.value is None
