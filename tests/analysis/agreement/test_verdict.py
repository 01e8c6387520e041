"""Conclusions about a jury: every case, and none that an interval contradicts."""

from __future__ import annotations

import pytest

from medhelm.analysis.agreement.reliability import JuryAndRaters, RaterAgreement
from medhelm.analysis.agreement.verdict import Conclusion, conclude

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
        ((0.1, 0.4), (0.5, 0.8), (-0.5, -0.2), Conclusion.WORSE),
    ],
)
def test_conclusions(jury: Ends, raters: Ends, difference: Ends, expected: Conclusion) -> None:
    found = JuryAndRaters(jury=around(jury), raters=around(raters), difference=around(difference))
    assert conclude(found) is expected
