"""Detects grades off the scale: single errors, and raters who used another scale."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

WIDE = 20.0
"""Minimum width of a scale on which the use of a much narrower one can be detected."""

ENOUGH = 6
"""Minimum grades of a rater to detect that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """A grade as it was given."""

    rater: str
    """Name of the rater."""
    value: float
    """The grade."""
    low: float
    """The lowest grade of the scale it should be on."""
    high: float
    """The highest."""
    line: int
    """Line in the file."""
    column: str
    """Column in the file."""

    @property
    def is_off(self) -> bool:
        """Return True if the grade is off the scale."""
        return not self.low <= self.value <= self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleMismatch:
    """A rater who used another scale."""

    grades: tuple[Grade, ...]
    """All grades of the rater."""
    n_off: int
    """Number of grades off the scale; 0 if the rater used only the lowest tenth of a wide scale."""
    highest_of_others: float
    """Highest grade of all other raters; the lowest of the scale if there are none."""


def scale_mismatches(grades: Sequence[Grade]) -> tuple[list[ScaleMismatch], list[Grade]]:
    """Find raters who used another scale, and all other grades off the scale.

    A rater used another scale if at least a quarter of the grades, and at least two, are off the scale; or if none of
    at least `ENOUGH` grades exceeds the lowest tenth of a scale of at least `WIDE`, while others exceed three tenths.
    """
    by_rater: dict[str, list[Grade]] = defaultdict(list)
    for grade in grades:
        by_rater[grade.rater].append(grade)
    others, slips = [], []
    for rater, mine in by_rater.items():
        off = [grade for grade in mine if grade.is_off]
        low, high = mine[0].low, mine[0].high
        highest = max((grade.value for grade in grades if grade.rater != rater), default=low)
        width = high - low
        is_narrow = max(grade.value for grade in mine) <= low + 0.1 * width and highest > low + 0.3 * width
        if len(off) >= max(2, len(mine) / 4) or (not off and is_narrow and len(mine) >= ENOUGH and width >= WIDE):
            others.append(ScaleMismatch(grades=tuple(mine), n_off=len(off), highest_of_others=highest))
        else:
            slips += off
    return others, slips
