"""Agreement of juries with clinicians: every number against a computation of its own, and what is missing is said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from medhelm.analysis.agreement.jury_vs_clinicians import (
    RatingMatrix,
    agreement_with_clinicians,
    clinician_agreement,
    measure_agreement,
    pool_benchmarks,
    resampled_pair_icc,
    standardized_icc,
)
from medhelm.analysis.means import Floats, row_means
from tests.support.remarks import texts
from tests.support.values import present

NAN = float("nan")
DRAWS = 200


def rng() -> np.random.Generator:
    return np.random.default_rng(1)


def mean_pair_icc(ratings: Floats) -> float:
    """Mean over pairs of raters of the table itself, nan if undefined."""
    return float(resampled_pair_icc(ratings, np.ones((1, len(ratings))))[0])


def panel(grades: Floats, jury: Sequence[float], **changes: Any) -> RatingMatrix:
    """Grades of shape (n, R, C), and a jury that gives the same grade on every criterion."""
    grades = np.asarray(grades, dtype=float)
    n, raters, criteria = grades.shape
    scores = np.asarray(jury, dtype=float)
    made = RatingMatrix(
        cases=[f"case {i}" for i in range(n)],
        clusters=[""] * n,
        raters=[f"Dr {name}" for name in "ABCDEFGH"[:raters]],
        criteria=["accuracy", "completeness", "clarity"][:criteria],
        grades=grades,
        composites=grades.mean(axis=2),
        jury_grades=np.repeat(scores[:, None], criteria, axis=1),
        jury=scores,
        judges={},
        baselines={},
        low=1.0,
        high=5.0,
    )
    return replace(made, **changes)


def invented(seed: int, n: int = 40, raters: int = 4) -> RatingMatrix:
    """Whole grades around a common quality, some missing, and a jury with noise of its own."""
    source = np.random.default_rng(seed)
    quality = source.normal(3, 1, n)
    grades = np.clip(np.round(quality[:, None, None] + source.normal(0, 0.7, (n, raters, 3))), 1, 5)
    absent = source.random((n, raters)) < 0.4
    absent[absent.all(axis=1), 0] = False
    grades[absent] = NAN
    jury = np.clip(quality + 0.5 + source.normal(0, 0.6, n), 1, 5)
    return panel(grades, jury.tolist())


def anova_icc3k(table: Floats) -> float:
    """By the sums of squares of a two-way table, written out."""
    n, k = len(table), len(table[0])
    grand = sum(map(sum, table)) / (n * k)
    by_row = [sum(row) / k for row in table]
    by_column = [sum(row[j] for row in table) / n for j in range(k)]
    cases = k * sum((mean - grand) ** 2 for mean in by_row) / (n - 1)
    residual = sum((table[i][j] - by_row[i] - by_column[j] + grand) ** 2 for i in range(n) for j in range(k))
    error = residual / ((n - 1) * (k - 1))
    return float((cases - error) / cases)


def standardised(column: Floats) -> Floats:
    scores: Floats = (column - column.mean()) / column.std(ddof=1)
    return scores


# --- the jury against the clinicians ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_consistency_is_the_icc_of_two_standardised_raters(seed: int) -> None:
    given = invented(seed)
    clinicians = np.array([np.nanmean(row) for row in given.composites])
    both = np.stack([standardised(clinicians), standardised(given.jury)], axis=1)
    found = measure_agreement(given, rng(), DRAWS).jury
    r = np.corrcoef(clinicians, given.jury)[0, 1]
    assert found.consistency.value == pytest.approx(anova_icc3k(both))
    assert found.consistency.value == pytest.approx(2 * r / (1 + r))
    assert present(found.difference).value == pytest.approx(given.jury.mean() - clinicians.mean())


def test_its_interval_is_that_of_the_correlation_by_fisher() -> None:
    given = invented(3)
    found = measure_agreement(given, rng(), DRAWS).jury.consistency
    clinicians = np.array([np.nanmean(row) for row in given.composites])
    z, half = np.arctanh(np.corrcoef(clinicians, given.jury)[0, 1]), 1.959964 / np.sqrt(found.n - 3)
    r = np.tanh([z - half, z + half])
    assert (found.low, found.high) == pytest.approx((2 * r / (1 + r)).tolist())


def test_its_interval_covers_the_truth_after_standardizing() -> None:
    """Eight completions: the F interval of ICC(3,k) covers 91 to 93% once each side is standardized."""
    source = np.random.default_rng(5)
    for r in (0.0, 0.5, 0.8):
        tables = source.normal(size=(1500, 8, 2))
        tables[:, :, 1] = r * tables[:, :, 0] + np.sqrt(1 - r * r) * tables[:, :, 1]
        found = [standardized_icc(table) for table in tables]
        covered = np.mean([present(one.low) <= 2 * r / (1 + r) <= present(one.high) for one in found])
        assert 0.93 <= covered <= 0.97, (r, covered)


def test_a_jury_that_is_stricter_by_a_constant_is_consistent_and_does_not_agree() -> None:
    grades = np.array([[[5.0]], [[4.0]], [[3.0]], [[4.0]], [[5.0]]])
    found = measure_agreement(panel(grades, (grades[:, 0, 0] - 2).tolist()), rng(), DRAWS).jury
    assert found.consistency.value == pytest.approx(1.0)
    assert found.spearman.value == pytest.approx(1.0)
    assert present(found.difference).value == -2
    # Means 4.2 and 2.2, variance of the five grades 0.7: rows 1.4, columns 10, error 0.
    assert present(found.agreement).value == pytest.approx(1.4 / (1.4 + 2 * 10 / 5))
    assert present(present(found.kappa).value) < 0.3


def test_kappa_is_of_grades_rounded_half_up() -> None:
    """Means 4.5 and 3.5 become 5 and 4, a jury of 4.5 becomes 5: it then agrees in everything."""
    grades = np.array([[[4.0], [5.0]], [[3.0], [4.0]], [[1.0], [1.0]], [[2.0], [2.0]]])
    found = measure_agreement(panel(grades, [4.5, 4.49, 0.6, 2.2]), rng(), DRAWS).jury
    assert present(found.kappa).value == pytest.approx(1.0)
    without = measure_agreement(panel(grades, [4.5, 4.49, 0.6, 2.2], whole_grades=False), rng(), DRAWS).jury
    assert without.kappa is None
    assert without.consistency.value == found.consistency.value


def test_bootstrap_intervals_hold_the_value_and_respect_clusters() -> None:
    """Forty completions that are ten, each four times: the bootstrap knows, Fisher's interval does not."""
    one = invented(2, n=10)
    many = pool_benchmarks([one, one, one, one])
    alone = measure_agreement(many, rng(), 500).jury
    clustered = measure_agreement(replace(many, clusters=[f"i{i % 10}" for i in range(40)]), rng(), 500).jury
    widths = []
    for found in (alone, clustered):
        low, high = present(present(found.resampled).low), present(present(found.resampled).high)
        assert low <= present(found.consistency.value) <= high
        widths.append(high - low)
    assert widths[1] > 1.5 * widths[0]
    assert alone.consistency.low == clustered.consistency.low


def test_the_bootstrap_is_the_same_each_time() -> None:
    assert measure_agreement(invented(1), rng(), DRAWS) == measure_agreement(invented(1), rng(), DRAWS)


def test_single_criteria_judges_and_baselines_are_compared_as_well() -> None:
    given = invented(4)
    quality = np.array([np.nanmean(row) for row in given.composites])
    given = replace(
        given,
        jury_grades=np.stack([given.jury, 6 - given.jury, np.full(40, 3.0)], axis=1),
        judges={"kind": quality + 1, "contrary": -quality},
        baselines={"rouge_l": np.where(np.arange(40) < 10, NAN, quality / 100)},
    )
    found = measure_agreement(given, rng(), DRAWS)
    on_accuracy = np.array([np.nanmean(row) for row in given.grades[:, :, 0]])
    r = np.corrcoef(on_accuracy, given.jury)[0, 1]
    assert found.criteria["accuracy"].consistency.value == pytest.approx(2 * r / (1 + r))
    assert (found.criteria["completeness"].spearman.value or 0) < 0
    assert found.criteria["clarity"].consistency.value is None
    assert found.judges["kind"].consistency.value == pytest.approx(1.0)
    assert found.judges["contrary"].spearman.value == pytest.approx(-1.0)
    rouge = found.baselines["rouge_l"]
    assert rouge.n == 30
    assert rouge.consistency.value == pytest.approx(1.0)
    assert (rouge.kappa, rouge.agreement, rouge.difference) == (None, None, None)


# --- clinicians among themselves --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_the_mean_over_pairs_is_that_of_each_two_on_what_they_share(seed: int) -> None:
    given = invented(seed)
    found = measure_agreement(given, rng(), DRAWS).clinicians
    expected = {}
    for first, second in combinations(range(4), 2):
        shared = ~np.isnan(given.composites[:, [first, second]]).any(axis=1)
        columns = given.composites[shared][:, [first, second]].T
        expected[first, second] = anova_icc3k(np.stack([standardised(column) for column in columns], axis=1))
    assert {(p.first, p.second): p.value for p in found.pairs.pairs} == pytest.approx(expected)
    assert found.pairs.value == pytest.approx(np.mean(list(expected.values())))
    assert mean_pair_icc(given.composites) == pytest.approx(found.pairs.value)
    assert present(found.low) < present(found.pairs.value) < present(found.high)


@pytest.mark.parametrize(
    "table",
    [
        [[1, 2, NAN], [2, 4, NAN], [3, 3, NAN], [NAN, 1, 5], [NAN, 2, 4]],
        [[1, 5, 3], [2, 5, 1], [4, 5, 2], [3, 5, NAN]],  # one gives everybody the same
        [[1, NAN, 3], [NAN, 5, 1], [4, 5, NAN]],  # two share one at most
        [[1e6 + 1, 1e6 + 2], [1e6 + 2, 1e6 + 1], [1e6 + 4, 1e6 + 5]],
        [[1, 3], [2, 2], [3, 1]],  # contrary: no value
        [[1 / 3, 1 / 3], [1 / 3, 2 / 3], [1 / 3, 1]],
        # The second is constant where they meet, but for what is lost in rounding.
        [*([x, 3.4] for x in (2.24, 2.94, 4.56, 4.74, 2.43, 3.29, 2.29)), [NAN, 2.35], [NAN, 2.57], [NAN, 4.56]],
    ],
)
def test_all_pairs_at_once_give_the_same_as_one_after_another(table: list[list[float]]) -> None:
    values = np.array(table, dtype=float)
    expected = clinician_agreement(values, [""] * len(values), rng(), 50).pairs.value
    assert mean_pair_icc(values) == pytest.approx(NAN if expected is None else expected, rel=1e-6, nan_ok=True)


def test_a_constant_side_has_no_standard_scores() -> None:
    found = standardized_icc(np.array([[1.0, 4.0], [2.0, 4.0], [3.0, 4.0]]))
    assert (found.value, found.reason) == (None, "one side gives all 3 completions the same grade")
    assert standardized_icc(np.array([[1.0, 4.0]])).value is None


def test_means_of_rows() -> None:
    values = np.array([[1.0, NAN, 4.0], [NAN, NAN, NAN]])
    assert row_means(values).tolist() == [2.5, pytest.approx(NAN, nan_ok=True)]


# --- what is missing --------------------------------------------------------------------------------------------------


def test_what_is_missing_is_said_and_nothing_is_filled_in() -> None:
    grades = np.full((8, 4, 1), NAN)
    grades[:6, 0, 0] = [1, 2, 3, 4, 5, 4]
    grades[:3, 1, 0] = 4  # constant
    grades[5:7, 2, 0] = [2, 3]  # shares one with the first
    jury = [1, 2, NAN, 4, 5, NAN, 2, 5]  # the last one was rated by nobody
    found = measure_agreement(panel(grades, jury), rng(), DRAWS)
    assert (found.n_instances, found.raters, found.jury.n) == (7, ("Dr A", "Dr B", "Dr C"), 5)
    assert found.clinicians.pairs.value is None
    assert texts(found.remarks) == (
        "1 completion (case 7) without a composite: no clinician graded all criteria",
        "3 of 7 completions have a single rater: they do not count in agreement of clinicians",
        "2 completions (case 2, case 5) without a jury score: not compared with the jury",
        "Dr B gave all 3 completions the same composite, 4",
        "Dr A and Dr B have no ICC: one side gives all 3 completions the same grade",
        "Dr A and Dr C have no ICC: shares 1 instance of the 2 needed",
    )


def test_raters_who_share_nothing_and_a_constant_jury_are_said() -> None:
    grades = np.full((4, 2, 1), NAN)
    grades[:2, 0, 0], grades[2:, 1, 0] = [1, 2], [4, 3]
    given = panel(grades, [3, 3, 3, 3], clusters=["a", "a", "", ""])
    assert texts(measure_agreement(given, rng(), DRAWS).remarks)[1:] == (
        "no two clinicians rated the same completion",
        "the jury and the clinicians have no ICC: one side gives all 4 completions the same grade",
        "4 completions belong to 3 independent instances: intervals by bootstrap and jackknife account for that, those "
        "by Fisher and F do not",
    )


def test_nothing_rated_is_no_number() -> None:
    found = measure_agreement(panel(np.full((3, 2, 1), NAN), [1, 2, 3]), rng(), DRAWS)
    assert (found.n_instances, found.raters, found.jury.n) == (0, (), 0)
    assert (found.jury.consistency.value, found.jury.difference, found.clinicians.pairs.value) == (None, None, None)


def test_a_match_of_two_completions_has_no_interval_by_rank() -> None:
    found = agreement_with_clinicians(
        np.array([1.0, 2.0]), np.array([2.0, 3.0]), ["", ""], scale=None, rounds=False, rng=rng(), draws=0
    )
    assert (found.n, found.spearman.low, found.resampled) == (2, None, None)
    assert found.spearman.value == pytest.approx(1.0)


def test_infinite_grades_and_broken_scales_are_refused() -> None:
    grades = np.ones((3, 2, 1))
    with pytest.raises(ValueError, match="1 of 3 ratings is infinite"):
        panel(grades, [1, np.inf, 3])
    for low, high in ((5.0, 1.0), (1.0, NAN), (-np.inf, 5.0)):
        with pytest.raises(ValueError, match="a scale needs finite ends"):
            panel(grades, [1, 2, 3], low=low, high=high)


# --- several benchmarks -----------------------------------------------------------------------------------------------


def test_benchmarks_together_have_the_same_raters_and_their_own_criteria() -> None:
    first, second = invented(1, n=12), invented(2, n=9, raters=2)
    second = replace(
        second,
        raters=["Dr B", "Dr Z"],
        criteria=["accuracy", "structure", "clarity"],
        judges={"j": np.arange(9.0)},
    )
    both = pool_benchmarks([first, second])
    assert both.raters == ["Dr A", "Dr B", "Dr C", "Dr D", "Dr Z"]
    assert both.criteria == ["accuracy", "completeness", "clarity", "structure"]
    np.testing.assert_array_equal(both.composites[12:, [1, 4]], second.composites)
    np.testing.assert_array_equal(both.grades[12:, 4, 3], second.grades[:, 1, 1])
    assert np.isnan(both.grades[12:, :, 1]).all()
    assert np.isnan(both.composites[12:, [0, 2, 3]]).all()
    assert np.isnan(both.judges["j"][:12]).all()
    assert both.judges["j"][12:].tolist() == list(range(9))
    assert (both.low, both.high, both.whole_grades, len(both.cases)) == (1, 5, True, 21)
    assert measure_agreement(both, rng(), DRAWS).n_instances == 21


def test_benchmarks_with_other_scales_are_brought_to_one() -> None:
    first, second = invented(1, n=12), invented(2, n=9)
    wide = replace(
        second,
        grades=(second.grades - 1) * 25,
        composites=(second.composites - 1) * 25,
        jury=(second.jury - 1) * 25,
        jury_grades=(second.jury_grades - 1) * 25,
        baselines={"rouge_l": np.arange(9.0)},
        low=0.0,
        high=100.0,
    )
    same, different = (
        measure_agreement(pool_benchmarks([first, second]), rng(), DRAWS),
        measure_agreement(pool_benchmarks([first, wide]), rng(), DRAWS),
    )
    assert different.jury.consistency.value == pytest.approx(same.jury.consistency.value)
    assert different.jury.kappa is None
    assert present(different.jury.difference).value == pytest.approx(present(same.jury.difference).value / 4)
    assert pool_benchmarks([first, wide]).baselines["rouge_l"][12:].tolist() == list(range(9))
