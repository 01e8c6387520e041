"""Agreement and plans as tables and JSON: every key of the contract, nothing undefined shown as a number."""

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
    pool_benchmarks,
)
from medhelm.analysis.agreement.reliability import JuryAndRaters, RaterAgreement
from medhelm.domain import Estimate
from medhelm.domain.result import Remark
from medhelm.results.agreement import as_json, to_table, verdict

Ends = tuple[float, float] | None

N = 12


def panel(seed: int) -> RatingMatrix:
    rng = np.random.default_rng(seed)
    quality = rng.normal(3, 1, N)
    grades = np.clip(np.round(quality[:, None, None] + rng.normal(0, 0.5, (N, 3, 2))), 1, 5)
    grades[0, 1:] = np.nan
    grades[2:, 2] = np.nan
    grades[:2, 2] = 3  # shares one completion with the others
    jury = np.clip(quality + rng.normal(0, 0.5, (N, 2)).mean(axis=1), 1, 5)
    return RatingMatrix(
        cases=[f"d i{i} of m" for i in range(N)],
        clusters=[""] * N,
        raters=[f"Dr A{seed}", f"Dr B{seed}", f"Dr C{seed}"],
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


def clinical(*seeds: int) -> JuryAgreement:
    panels = {f"d{seed}": panel(seed) for seed in seeds}
    rng = np.random.default_rng(0)
    return JuryAgreement(
        place="ratings.csv",
        datasets={name: measure_agreement(one, rng, 60) for name, one in panels.items()},
        combined=measure_agreement(pool_benchmarks(list(panels.values())), rng, 60),
        jury_from="store",
        remarks=(Remark("of_the_file", "d1", "d1: something of the file"),),
    )


ONE, TWO = clinical(1), clinical(1, 2)


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


def test_json_has_numbers_and_reasons_for_missing_ones() -> None:
    found, one = ONE.datasets["d1"], as_json(ONE)["datasets"]["d1"]
    jury, gap = found.jury, found.jury.difference
    assert gap is not None
    assert one["n_raters"] == 3
    assert one["jury_vs_clinicians"]["icc3k"] == pytest.approx(jury.consistency.value, abs=1e-6)
    against = one["jury_vs_clinicians"]
    assert (against["low"], against["high"]) == pytest.approx((jury.consistency.low, jury.consistency.high), abs=1e-6)
    assert jury.resampled is not None
    drawn = (jury.resampled.low, jury.resampled.high)
    assert (against["bootstrap_low"], against["bootstrap_high"]) == pytest.approx(drawn, abs=1e-6)
    assert jury.agreement is not None
    single = jury.agreement
    assert list(against["absolute"].values()) == pytest.approx([single.value, single.low, single.high], abs=1e-6)
    assert one["jury_vs_clinicians"]["difference"]["value"] == pytest.approx(gap.value, abs=1e-6)
    assert one["spearman"] == pytest.approx(jury.spearman.value, abs=1e-6)
    clarity = one["criteria"]["clarity"]
    assert (clarity["icc3k"], clarity["spearman"]) == (None, None)
    assert clarity["reason"] == "one side gives all 12 completions the same grade"
    rouge = one["baselines"]["rouge_l"]
    assert rouge["weighted_kappa"] is None
    assert "absolute" not in rouge
    pairs = one["clinicians"]["pairs"]
    assert [pair["raters"] for pair in pairs] == [["Dr A1", "Dr B1"], ["Dr A1", "Dr C1"], ["Dr B1", "Dr C1"]]
    assert pairs[2]["icc3k"] is None
    assert pairs[2]["reason"] == "shares 1 instance of the 2 needed"
    values = [pair["icc3k"] for pair in pairs if pair["icc3k"] is not None]
    assert (one["clinicians"]["min"], one["clinicians"]["max"]) == (
        min(values, default=None),
        max(values, default=None),
    )


@pytest.mark.parametrize(
    ("found", "advises"),
    [
        (one_clinician((0.5, 0.7), (0.4, 0.6), (0, 0.2)), True),
        (one_clinician((0.1, 0.3), (0.4, 0.6), (-0.4, -0.2)), True),
        (one_clinician((0.1, 0.7), (-0.2, 0.6), (-0.4, 0.4)), False),
        (one_clinician((-0.1, 0.3), (0.4, 0.6), (-0.4, -0.2)), False),
        (one_clinician(None, (0.4, 0.6), None), False),
    ],
)
def test_calibration_is_advised_only_where_jury_and_clinicians_agree(found: JuryAndRaters, advises: bool) -> None:
    lenient = Estimate(value=0.5, low=0.3, high=0.7, n=12, n_failed=0, method="x")
    one = ONE.datasets["d1"]
    changed = replace(one, jury=replace(one.jury, difference=lenient), one_clinician=found)
    assert ("only after calibration" in " ".join(verdict(replace(ONE, datasets={"d1": changed})))) == advises


def test_the_published_number_has_its_own_key_and_no_text_uses_it() -> None:
    for one in as_json(TWO)["datasets"].values():
        assert one["clinicians_published"] == one["clinicians"]
        assert set(one["clinicians_all_ratings"]) >= {"icc3k", "low", "high"}
        published = f"{one['clinicians_published']['icc3k']:.3f}"
        assert published not in to_table(TWO, wide=True)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (one_clinician((0.5, 0.7), (0.4, 0.6), (0, 0.2)), "The jury can be used in place of a clinician to rank"),
        (one_clinician((0.1, 0.3), (0.4, 0.6), (-0.4, -0.2)), "Do not use the jury in place of a clinician:"),
        (one_clinician((0.1, 0.7), (0.2, 0.6), (-0.4, 0.4)), "the ratings are too few to compare the two"),
        (one_clinician((0.1, 0.7), None, None), "is unknown: nothing was rated."),
        (one_clinician((0.1, 0.7), (-0.2, 0.6), (-0.4, 0.4)), "the clinicians are not shown to agree with each other"),
        (one_clinician((-0.1, 0.3), (0.4, 0.6), (-0.4, -0.2)), "Do not rely on the jury"),
        (one_clinician(None, (0.4, 0.6), None), "No completion has both a complete rating and a jury score yet"),
    ],
)
def test_the_verdict_in_words_comes_first_and_has_the_numbers_of_the_table(found: JuryAndRaters, words: str) -> None:
    one = replace(ONE, datasets={"d1": replace(ONE.datasets["d1"], one_clinician=found)})
    first, *_ = sentences = verdict(one)
    assert words in first
    assert " ".join(to_table(one).split()).startswith(first)
    assert as_json(one)["verdict"] == sentences
    (row,) = csv.DictReader(io.StringIO(to_table(one, "csv")))
    for number in re.findall(r"-?[\d.]+ \[.*?\]", first):
        assert number in row.values()
    if share := re.search(r"(?:at least|to reach) (\d+)%", first):
        assert int(share[1]) == int(100 * (found.share.low or 0) + 1e-9)


def test_clinicians_who_agree_weakly_are_a_weak_yardstick() -> None:
    found = one_clinician((0.1, 0.4), (0.1, 0.5), (-0.05, 0.2))
    one = replace(ONE, datasets={"d1": replace(ONE.datasets["d1"], one_clinician=found)})
    assert "Two clinicians agree weakly" in verdict(one)[0]
    assert "agree weakly" not in str(
        verdict(
            replace(
                one,
                datasets={
                    "d1": replace(ONE.datasets["d1"], one_clinician=one_clinician((0.5, 0.7), (0.5, 0.7), (-0.05, 0.2)))
                },
            )
        )
    )


def test_the_verdict_names_benchmarks_and_leniency() -> None:
    lenient = replace(
        ONE.datasets["d1"].jury, difference=Estimate(value=-0.5, low=-0.7, high=-0.3, n=12, n_failed=0, method="x")
    )
    good = one_clinician((0.5, 0.7), (0.4, 0.6), (0, 0.2))
    two = replace(
        TWO, datasets={"d1": replace(ONE.datasets["d1"], jury=lenient, one_clinician=good), "d2": TWO.datasets["d2"]}
    )
    found = verdict(two)
    assert [sentence[:3] for sentence in found] == ["d1:", "d1:", "d2:"]
    assert "Its grades are lower than clinicians' by 0.500 [0.300, 0.700]" in found[1]


def test_the_published_rule_shows_pairs_and_gives_no_verdict() -> None:
    text = to_table(ONE, rule="published")
    assert verdict(ONE)[0] not in " ".join(text.split())
    (row,) = csv.DictReader(io.StringIO(to_table(ONE, "csv", "published")))
    pairs = ONE.datasets["d1"].clinicians
    assert row["Clinicians ICC(3,k)"].startswith(f"{pairs.pairs.value:.3f} [")
    assert row["Pairs"] == str(pairs.pairs.n_pairs)
    corrected = as_json(ONE)["datasets"]["d1"]
    assert corrected["clinicians"]["icc3k"] == pytest.approx(pairs.pairs.value, abs=1e-6)
    assert corrected["clinicians_all_ratings"]["icc3k"] is None or corrected["clinicians_all_ratings"]["icc3k"] <= 1


def test_undefined_numbers_are_dashes_in_the_table() -> None:
    empty = replace(
        panel(1), jury=np.full(N, np.nan), judges={}, baselines={}, criteria=[], composites=panel(1).grades[:, :, 0]
    )
    nothing = replace(empty, grades=empty.grades[:, :, :0], jury_grades=empty.jury_grades[:, :0])
    agreed = measure_agreement(nothing, np.random.default_rng(0), 60)
    found = JuryAgreement(place="x.csv", datasets={"d": agreed}, combined=agreed, jury_from="file", remarks=())
    (row,) = csv.DictReader(io.StringIO(to_table(found, "csv")))
    of_the_jury = [name for name in row if "Jury" in name or name in ("Difference", "Spearman", "Weighted kappa")]
    assert len(of_the_jury) == 8
    assert {row[name] for name in of_the_jury} == {""}
    assert "nan" not in to_table(found) + str(as_json(found))
