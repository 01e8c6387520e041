"""The verdict on a jury in words and numbers, and nothing undefined shown as a number."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace

import numpy as np
import pytest

from medhelm.analysis.agreement.jury_vs_clinicians import (
    JuryAgreement,
    RatingMatrix,
    measure_agreement,
)
from medhelm.analysis.agreement.reliability import JuryAndRaters, RaterAgreement
from medhelm.domain import Estimate
from medhelm.results.agreement import as_json, to_table, verdict

Ends = tuple[float, float] | None

N = 12


def panel() -> RatingMatrix:
    rng = np.random.default_rng(1)
    quality = rng.normal(3, 1, N)
    grades = np.clip(np.round(quality[:, None, None] + rng.normal(0, 0.5, (N, 3, 2))), 1, 5)
    jury = np.clip(quality + rng.normal(0, 0.4, N), 1, 5)
    return RatingMatrix(
        cases=[f"d i{i} of m" for i in range(N)],
        clusters=[""] * N,
        raters=["Dr A", "Dr B", "Dr C"],
        criteria=["accuracy", "clarity"],
        grades=grades,
        composites=grades.mean(axis=2),
        jury_grades=np.stack([jury, np.full(N, 5.0)], axis=1),
        jury=jury,
        judges={"lab/j": jury[::-1]},
        baselines={"rouge_l": jury / 10},
        low=1,
        high=5,
    )


def clinical(matrix: RatingMatrix) -> JuryAgreement:
    agreed = measure_agreement(matrix, np.random.default_rng(0), 60)
    return JuryAgreement(place="ratings.csv", datasets={"d1": agreed}, combined=agreed, jury_from="store", remarks=())


ONE = clinical(panel())


def one_clinician(jury: Ends, clinicians: Ends, difference: Ends) -> JuryAndRaters:
    def around(ends: Ends) -> RaterAgreement:
        if ends is None:
            return RaterAgreement(value=None, low=None, high=None, n=0, n_raters=1, reason="nothing was rated")
        return RaterAgreement(value=sum(ends) / 2, low=ends[0], high=ends[1], n=30, n_raters=3)

    share = None
    if clinicians and difference:
        middle = sum(clinicians) / 2
        share = (1 + difference[0] / middle, 1 + difference[1] / middle)
    return JuryAndRaters(
        jury=around(jury), raters=around(clinicians), difference=around(difference), share=around(share)
    )


GOOD = one_clinician((0.5, 0.7), (0.4, 0.6), (0, 0.2))
BAD = one_clinician((0.1, 0.3), (0.4, 0.6), (-0.4, -0.2))
UNRELATED = one_clinician((-0.1, 0.3), (0.4, 0.6), (-0.4, -0.2))
UNRATED = one_clinician(None, (0.4, 0.6), None)


def with_verdict(found: JuryAndRaters, difference: float | None = None) -> JuryAgreement:
    """The first agreement, with another comparison of jury and clinicians, and a jury more lenient by `difference`."""
    one = replace(ONE.datasets["d1"], one_clinician=found)
    if difference is not None:
        low, high = difference - 0.2, difference + 0.2
        lenient = Estimate(value=difference, low=low, high=high, n=12, n_failed=0, method="x")
        one = replace(one, jury=replace(one.jury, difference=lenient))
    return replace(ONE, datasets={"d1": one})


@pytest.mark.parametrize(("found", "advises"), [(GOOD, True), (BAD, True), (UNRELATED, False), (UNRATED, False)])
def test_calibration_is_advised_only_where_jury_and_clinicians_agree(found: JuryAndRaters, advises: bool) -> None:
    assert ("only after calibration" in " ".join(verdict(with_verdict(found, 0.5)))) == advises


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (GOOD, "The jury can be used in place of a clinician to rank"),
        (BAD, "Do not use the jury in place of a clinician:"),
        (one_clinician((0.1, 0.7), (0.2, 0.6), (-0.4, 0.4)), "the ratings are too few to compare the two"),
        (one_clinician((0.1, 0.7), None, None), "is unknown: nothing was rated."),
        (one_clinician((0.1, 0.7), (-0.2, 0.6), (-0.4, 0.4)), "the clinicians are not shown to agree with each other"),
        (one_clinician((0.1, 0.4), (0.1, 0.5), (-0.05, 0.2)), "Two clinicians agree weakly"),
        (UNRELATED, "Do not rely on the jury"),
        (UNRATED, "No completion has both a complete rating and a jury score yet"),
    ],
)
def test_the_verdict_in_words_comes_first_and_has_the_numbers_of_the_table(found: JuryAndRaters, words: str) -> None:
    one = with_verdict(found)
    first, *_ = sentences = verdict(one)
    assert words in first
    assert " ".join(to_table(one).split()).startswith(first)
    assert as_json(one)["verdict"] == sentences
    (row,) = csv.DictReader(io.StringIO(to_table(one, "csv")))
    for number in re.findall(r"-?[\d.]+ \[.*?\]", first):
        assert number in row.values()
    if share := re.search(r"(?:at least|to reach) (\d+)%", first):
        assert int(share[1]) == int(100 * (found.share.low or 0) + 1e-9)


def test_the_verdict_names_benchmarks_and_leniency() -> None:
    two = replace(ONE, datasets={**with_verdict(GOOD, -0.5).datasets, "d2": ONE.datasets["d1"]})
    found = verdict(two)
    assert [sentence[:3] for sentence in found] == ["d1:", "d1:", "d2:"]
    assert "Its grades are lower than clinicians' by 0.500 [0.300, 0.700]" in found[1]


def test_undefined_numbers_are_dashes_in_the_table() -> None:
    rated, nobody = panel(), np.full(N, np.nan)
    empty = replace(rated, grades=rated.grades[:, :, :0], jury_grades=rated.jury_grades[:, :0], criteria=[])
    found = clinical(replace(empty, jury=nobody, judges={}, baselines={}, composites=rated.grades[:, :, 0]))
    (row,) = csv.DictReader(io.StringIO(to_table(found, "csv")))
    of_the_jury = [name for name in row if "Jury" in name or name in ("Difference", "Spearman", "Weighted kappa")]
    assert len(of_the_jury) == 8
    assert {row[name] for name in of_the_jury} == {""}
    assert "nan" not in to_table(found) + str(as_json(found))
