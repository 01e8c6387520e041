"""Raters who used another scale, told from slips of single cells."""

from __future__ import annotations

import pytest

from medhelm.analysis.agreement.reliability import Grade, scale_mismatches


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
