"""Conclusions about a jury: every case, and none that an interval contradicts."""

from __future__ import annotations

import numpy as np
import pytest

from bench.studies.clinicians import SIZES, VERDICTS, called_as_good
from medhelm.analysis.agreement.jury_vs_clinicians import SHARE, Conclusion, conclude
from medhelm.analysis.agreement.reliability import JuryAndRaters, RaterAgreement, jury_and_raters
from tests.support.values import present

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
