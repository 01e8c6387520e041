"""Decides what ratings say about a jury: whether it agrees with a clinician as well as another clinician does."""

from __future__ import annotations

from enum import StrEnum

from medhelm.analysis.agreement.reliability import JuryAndRaters

SHARE = 0.8
"""Share of the agreement of two clinicians that a jury must be shown to exceed to count as good as a clinician.

A share, and not a difference: a correlation 0.1 lower is a tenth of an agreement of 1 and half of one of 0.2.
"""


class Conclusion(StrEnum):
    """Meaning of the ratings for the use of a jury."""

    AS_GOOD = "as_good"
    """The jury agrees with a clinician nearly as well as another clinician does: by more than `SHARE` of that."""
    WORSE = "worse"
    """It agrees with a clinician, but less than another clinician does."""
    UNCLEAR = "unclear"
    """It agrees with a clinician; the interval of the difference leaves open how well by comparison."""
    NO_COMPARISON = "no_comparison"
    """It agrees with a clinician; agreement among clinicians is unknown."""
    NO_YARDSTICK = "no_yardstick"
    """The clinicians were not shown to agree with each other, so that their ratings cannot validate a jury."""
    NO_AGREEMENT = "no_agreement"
    """The jury was not shown to agree with a clinician."""
    TOO_FEW = "too_few"
    """There are too few ratings of completions with a jury score."""


def conclude(found: JuryAndRaters) -> Conclusion:
    """Choose the conclusion that all intervals support."""
    jury, raters, difference = found.jury, found.raters, found.difference
    if jury.low is None:
        return Conclusion.TOO_FEW
    if raters.low is not None and raters.low <= 0:
        return Conclusion.NO_YARDSTICK
    if jury.low <= 0:
        return Conclusion.NO_AGREEMENT
    if raters.low is None or difference.low is None or difference.high is None:
        return Conclusion.NO_COMPARISON
    if found.share.low is not None and found.share.low > SHARE:
        return Conclusion.AS_GOOD
    return Conclusion.WORSE if difference.high < 0 else Conclusion.UNCLEAR
