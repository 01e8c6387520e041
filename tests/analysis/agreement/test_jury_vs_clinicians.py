"""Agreement of juries with clinicians: every number against a computation of its own, and what is missing is said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from bench.studies.clinicians import SIZES, VERDICTS, called_as_good
from medhelm.analysis.agreement.jury_vs_clinicians import (
    SHARE,
    Conclusion,
    RatingMatrix,
    clinician_agreement,
    conclude,
    measure_agreement,
    pool_benchmarks,
    resampled_pair_icc,
    standardized_icc,
)
from medhelm.analysis.agreement.reliability import JuryAndRaters, RaterAgreement, jury_and_raters
from medhelm.analysis.means import Floats
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


def consistency(a: Floats, b: Floats) -> float:
    """ICC(3,k) of two standardized raters, from their correlation."""
    r = float(np.corrcoef(a, b)[0, 1])
    return 2 * r / (1 + r)


# --- the jury against the clinicians ----------------------------------------------------------------------------------


def test_consistency_is_the_icc_of_two_standardized_raters() -> None:
    given = invented(0)
    clinicians = np.array([np.nanmean(row) for row in given.composites])
    found = measure_agreement(given, rng(), DRAWS).jury
    assert found.consistency.value == pytest.approx(consistency(clinicians, given.jury))
    assert present(found.difference).value == pytest.approx(given.jury.mean() - clinicians.mean())


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


def test_bootstrap_intervals_respect_clusters() -> None:
    """Forty completions that are ten, each four times: the bootstrap knows, Fisher's interval does not."""
    many = pool_benchmarks([invented(2, n=10)] * 4)
    alone, clustered = (
        measure_agreement(replace(many, clusters=clusters), rng(), 500).jury
        for clusters in (many.clusters, [f"i{i % 10}" for i in range(40)])
    )
    widths = [present(present(one.resampled).high) - present(present(one.resampled).low) for one in (alone, clustered)]
    assert widths[1] > 1.5 * widths[0]
    assert alone.consistency.low == clustered.consistency.low


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
    assert found.criteria["accuracy"].consistency.value == pytest.approx(consistency(on_accuracy, given.jury))
    assert (found.criteria["completeness"].spearman.value or 0) < 0
    assert found.criteria["clarity"].consistency.value is None
    assert found.judges["kind"].consistency.value == pytest.approx(1.0)
    assert found.judges["contrary"].spearman.value == pytest.approx(-1.0)
    rouge = found.baselines["rouge_l"]
    assert rouge.n == 30
    assert rouge.consistency.value == pytest.approx(1.0)
    assert (rouge.kappa, rouge.agreement, rouge.difference) == (None, None, None)


# --- clinicians among themselves --------------------------------------------------------------------------------------


def test_the_mean_over_pairs_is_that_of_each_two_on_what_they_share() -> None:
    given = invented(0)
    found = measure_agreement(given, rng(), DRAWS).clinicians
    expected = {}
    for first, second in combinations(range(4), 2):
        shared = ~np.isnan(given.composites[:, [first, second]]).any(axis=1)
        expected[first, second] = consistency(*given.composites[shared][:, [first, second]].T)
    assert {(p.first, p.second): p.value for p in found.pairs.pairs} == pytest.approx(expected)
    assert found.pairs.value == pytest.approx(np.mean(list(expected.values())))
    assert mean_pair_icc(given.composites) == pytest.approx(found.pairs.value)
    assert present(found.low) < present(found.pairs.value) < present(found.high)


def test_a_rater_who_is_constant_but_for_rounding_has_no_standard_scores() -> None:
    shared = [[x, 3.4] for x in (2.24, 2.94, 4.56, 4.74, 2.43, 3.29, 2.29)]
    table = np.array([*shared, [NAN, 2.35], [NAN, 2.57], [NAN, 4.56]])
    assert clinician_agreement(table, [""] * len(table), rng(), 50).pairs.value is None
    assert np.isnan(mean_pair_icc(table))


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


def test_infinite_grades_and_broken_scales_are_refused() -> None:
    grades = np.ones((3, 2, 1))
    with pytest.raises(ValueError, match="1 of 3 ratings is infinite"):
        panel(grades, [1, np.inf, 3])
    for low, high in ((5.0, 1.0), (1.0, NAN)):
        with pytest.raises(ValueError, match="a scale needs finite ends"):
            panel(grades, [1, 2, 3], low=low, high=high)


# --- several benchmarks -----------------------------------------------------------------------------------------------


def test_benchmarks_together_have_the_same_raters_and_their_own_criteria() -> None:
    first, second = invented(1, n=12), invented(2, n=9, raters=2)
    criteria = ["accuracy", "structure", "clarity"]
    second = replace(second, raters=["Dr B", "Dr Z"], criteria=criteria, judges={"j": np.arange(9.0)})
    both = pool_benchmarks([first, second])
    assert both.raters == ["Dr A", "Dr B", "Dr C", "Dr D", "Dr Z"]
    assert both.criteria == ["accuracy", "completeness", "clarity", "structure"]
    np.testing.assert_array_equal(both.composites[12:, [1, 4]], second.composites)
    np.testing.assert_array_equal(both.grades[12:, 4, 3], second.grades[:, 1, 1])
    assert np.isnan(both.grades[12:, :, 1]).all() and np.isnan(both.composites[12:, [0, 2, 3]]).all()
    np.testing.assert_array_equal(both.judges["j"], [NAN] * 12 + list(range(9)))
    assert (both.low, both.high, both.whole_grades, len(both.cases)) == (1, 5, True, 21)


def test_benchmarks_with_other_scales_are_brought_to_one() -> None:
    first, second = invented(1, n=12), invented(2, n=9)
    stretched = {key: (getattr(second, key) - 1) * 25 for key in ("grades", "composites", "jury", "jury_grades")}
    wide = replace(second, **stretched, baselines={"rouge_l": np.arange(9.0)}, low=0.0, high=100.0)
    same, different = (
        measure_agreement(pool_benchmarks([first, other]), rng(), DRAWS).jury for other in (second, wide)
    )
    assert different.consistency.value == pytest.approx(same.consistency.value)
    assert different.kappa is None
    assert present(different.difference).value == pytest.approx(present(same.difference).value / 4)
    assert pool_benchmarks([first, wide]).baselines["rouge_l"][12:].tolist() == list(range(9))


# --- conclusions: every case, and none that an interval contradicts ---------------------------------------------------


Ends = tuple[float, float] | None


def around(ends: Ends) -> RaterAgreement:
    if ends is None:
        return RaterAgreement(value=None, low=None, high=None, n=0, n_raters=0, reason="nothing was rated")
    return RaterAgreement(value=sum(ends) / 2, low=ends[0], high=ends[1], n=30, n_raters=3)


@pytest.mark.parametrize(
    ("jury", "raters", "difference", "expected"),
    [
        (None, (0.3, 0.7), None, Conclusion.TOO_FEW),
        ((0.3, 0.7), (-0.1, 0.4), (-0.2, 0.5), Conclusion.NO_YARDSTICK),
        ((-0.1, 0.4), (-0.1, 0.4), (-0.2, 0.2), Conclusion.NO_YARDSTICK),
        ((-0.1, 0.4), (0.3, 0.7), (-0.6, -0.1), Conclusion.NO_AGREEMENT),
        ((-0.1, 0.4), None, None, Conclusion.NO_AGREEMENT),
        ((0.3, 0.7), None, None, Conclusion.NO_COMPARISON),
        ((0.3, 0.7), (0.3, 0.7), (-0.09, 0.2), Conclusion.AS_GOOD),
        ((0.3, 0.7), (0.3, 0.7), (-0.3, 0.2), Conclusion.UNCLEAR),
        # 0.09 less is little beside 0.5, and much beside 0.2.
        ((0.1, 0.3), (0.1, 0.3), (-0.09, 0.2), Conclusion.UNCLEAR),
        ((0.1, 0.4), (0.5, 0.8), (-0.5, -0.2), Conclusion.WORSE),
    ],
)
def test_conclusions(jury: Ends, raters: Ends, difference: Ends, expected: Conclusion) -> None:
    share = None
    if raters and difference:
        middle = sum(raters) / 2
        share = (1 + difference[0] / middle, 1 + difference[1] / middle)
    found = JuryAndRaters(jury=around(jury), raters=around(raters), difference=around(difference), share=around(share))
    assert conclude(found) is expected


# --- at the margin ----------------------------------------------------------------------------------------------------


def test_a_jury_at_the_margin_is_rarely_called_as_good() -> None:
    assert called_as_good(3, 30, 0.5, 0, SHARE, 150) <= 0.04


@pytest.mark.long
@pytest.mark.parametrize(("raters", "n", "correlation", "clusters"), [*VERDICTS, (2, 30, 0.5, 0), (3, 30, 0.8, 0)])
def test_the_false_rate_at_the_margin(raters: int, n: int, correlation: float, clusters: int) -> None:
    """2.5%, and three standard errors of the simulation."""
    rate = called_as_good(raters, n, correlation, clusters, SHARE, 2000)
    assert rate <= 0.025 + 3 * np.sqrt(0.025 * 0.975 / 2000)


@pytest.mark.long
@pytest.mark.parametrize(("raters", "correlation", "n"), SIZES)
def test_the_documented_size_shows_a_jury_that_is_one_more_clinician(raters: int, correlation: float, n: int) -> None:
    assert 0.72 <= called_as_good(raters, n, correlation, 0, 1.0, 500) <= 0.87


def test_the_share_is_the_quotient_and_says_why_it_has_no_interval() -> None:
    rng = np.random.default_rng(0)
    quality = rng.normal(size=60)
    ratings = quality[:, None] + 0.7 * rng.normal(size=(60, 3))
    jury = quality + 0.7 * rng.normal(size=60)
    found = jury_and_raters(ratings, jury)
    assert found.jury.value
    assert found.raters.value
    assert found.share.value == pytest.approx(found.jury.value / found.raters.value)
    assert present(found.share.low) < present(found.share.value) < present(found.share.high)
    few = jury_and_raters(ratings[:8], jury[:8]).share
    assert (few.low, few.reason) == (None, "8 independent instances are too few for an interval: 10 at least")
    guesses = jury_and_raters(rng.normal(size=(40, 3)), jury[:40]).share
    assert guesses.value is None
    assert guesses.reason == "raters do not agree with each other in every part of the ratings"
