"""Agreement beyond chance: weighted kappa and alpha."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from medhelm.analysis.agreement.coefficients import (
    Level,
    Weights,
    krippendorff_alpha,
    resampled_alpha,
    resampled_kappa,
    weighted_kappa,
)
from medhelm.analysis.means import Floats

quick = settings(max_examples=100, deadline=None, database=None)

WEIGHTS: tuple[Weights, ...] = get_args(Weights)
LEVELS: tuple[Level, ...] = get_args(Level)

NAN = np.nan

OBSERVERS = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, NAN, NAN, NAN],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NAN, 3],
        [NAN, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NAN],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NAN],
    ]
).T
"""Twelve units and four observers: the example with missing data in Krippendorff (2011)."""

MAMMOGRAMS = np.array([[21, 12, 0, 0], [4, 17, 1, 0], [3, 9, 15, 2], [0, 0, 0, 1]])
"""85 mammograms read by two radiologists (Boyd et al. 1982), as in the manual of Stata."""

SCALE = (1, 2, 3, 4, 5)


def tables(*, missing: bool) -> st.SearchStrategy[Floats]:
    """Tables of grades 1 to 5, some of them missing."""
    grade = st.sampled_from([*map(float, SCALE), NAN] if missing else [*map(float, SCALE)])
    shapes = st.tuples(st.integers(2, 9), st.integers(2, 4))
    return shapes.flatmap(
        lambda shape: st.lists(
            st.lists(grade, min_size=shape[1], max_size=shape[1]), min_size=shape[0], max_size=shape[0]
        ).map(np.array)
    )


def two_raters(counts: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Grades of two raters from a table of counts."""
    rows, columns = np.nonzero(counts)
    times = counts[rows, columns]
    return np.repeat(rows, times).astype(float), np.repeat(columns, times).astype(float)


def disagreement(x: float, y: float, weights: Weights) -> float:
    return {"none": float(x != y), "quadratic": (x - y) ** 2}[weights]


def kappa_by_hand(a: list[float], b: list[float], weights: Weights) -> float | None:
    """Disagreement of each instance against that of every rating of one rater with every rating of the other."""
    observed = sum(disagreement(x, y, weights) for x, y in zip(a, b, strict=True)) / len(a)
    expected = sum(disagreement(x, y, weights) for x in a for y in b) / len(a) ** 2
    return 1 - observed / expected if expected else None


def alpha_by_hand(table: Floats, level: Level) -> float | None:
    """By the matrix of coincidences, as Krippendorff writes it."""
    units = [unit for row in table.tolist() if len(unit := [x for x in row if x == x]) > 1]
    grades = sorted({x for unit in units for x in unit})
    together = {(c, k): 0.0 for c in grades for k in grades}
    for unit in units:
        for i, c in enumerate(unit):
            for j, k in enumerate(unit):
                if i != j:
                    together[c, k] += 1 / (len(unit) - 1)
    totals = {c: sum(together[c, k] for k in grades) for c in grades}

    def squared(c: float, k: float) -> float:
        low, high = min(c, k), max(c, k)
        between = sum(totals[g] for g in grades if low <= g <= high) - (totals[c] + totals[k]) / 2
        return {"nominal": float(c != k), "ordinal": between**2, "interval": (c - k) ** 2}[level]

    observed = sum(together[c, k] * squared(c, k) for c in grades for k in grades)
    expected = sum(totals[c] * totals[k] * squared(c, k) for c in grades for k in grades)
    n = sum(totals.values())
    return 1 - (n - 1) * observed / expected if expected else None


def same(found: float | None, expected: float | None) -> bool:
    """Whether both are missing, or equal but for rounding."""
    return found == expected if expected is None else found == pytest.approx(expected, abs=1e-9)


# --- kappa ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("weights", "published"), [("none", 0.4728), ("quadratic", 0.6714)])
def test_kappa_of_the_mammograms_is_what_stata_prints(weights: Weights, published: float) -> None:
    a, b = two_raters(MAMMOGRAMS)
    found = weighted_kappa(a, b, weights=weights)
    assert found.value == pytest.approx(published, abs=5e-5)
    assert (found.n, found.n_left_out) == (85, 0)


@quick
@given(tables(missing=False), st.sampled_from(WEIGHTS))
def test_kappa_agrees_with_every_rating_against_every_other(table: Floats, weights: Weights) -> None:
    a, b = table[:, 0], table[:, 1]
    assert same(weighted_kappa(a, b, weights=weights).value, kappa_by_hand(a.tolist(), b.tolist(), weights))


@quick
@given(tables(missing=True), st.sampled_from(WEIGHTS))
def test_kappa_counts_what_it_leaves_out_and_says_why_it_is_missing(table: Floats, weights: Weights) -> None:
    a, b = table[:, 0], table[:, 1]
    found = weighted_kappa(a, b, weights=weights)
    assert found.n + found.n_left_out == len(table)
    assert (found.value is None) == bool(found.reason)


@pytest.mark.parametrize(
    ("a", "b", "reason"),
    [
        ([], [], "at least two"),
        ([3, NAN], [NAN, 3], "at least two"),
        ([3, NAN], [3, 4], "at least two"),
        ([3, 3, 3], [3, 3, 3], "both raters give 3 to every instance"),
    ],
)
def test_undefined_kappa_is_no_number(a: list[float], b: list[float], reason: str) -> None:
    found = weighted_kappa(np.array(a, dtype=float), np.array(b, dtype=float))
    assert found.value is None
    assert reason in found.reason


# --- alpha ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("level", "published"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_alpha_of_the_observers_is_krippendorffs(level: Level, published: float) -> None:
    found = krippendorff_alpha(OBSERVERS, level)
    assert found.value == pytest.approx(published, abs=5e-4)
    assert (found.n, found.n_left_out) == (11, 1)


@quick
@given(tables(missing=True), st.sampled_from(LEVELS))
def test_alpha_agrees_with_the_matrix_of_coincidences(table: Floats, level: Level) -> None:
    found = krippendorff_alpha(table, level)
    assert same(found.value, alpha_by_hand(table, level))
    assert (found.value is None) == bool(found.reason)


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (np.empty((0, 2)), "no instance has two ratings"),
        ([[1, NAN], [NAN, 2]], "no instance has two ratings"),
        ([[3, 3], [3, 3], [NAN, 4]], "all ratings are the same"),
    ],
)
def test_undefined_alpha_is_no_number(table: Floats, reason: str) -> None:
    found = krippendorff_alpha(np.array(table, dtype=float))
    assert (found.value, found.reason) == (None, reason)


def test_infinite_ratings_are_refused() -> None:
    with pytest.raises(ValueError, match="1 of 6 ratings is infinite"):
        weighted_kappa(np.array([1.0, np.inf, 3.0]), np.array([1.0, 2.0, 3.0]))
    with pytest.raises(ValueError, match="2 of 4 ratings are infinite"):
        krippendorff_alpha(np.array([[1.0, np.inf], [-np.inf, 2.0]]))


def test_weights_and_levels_that_are_not_computed_are_refused() -> None:
    a, b = np.array([1.0, 2, 3]), np.array([1.0, 3, 3])
    with pytest.raises(ValueError, match="weights `linear` is not computed: choose one of quadratic and none"):
        weighted_kappa(a, b, weights="linear")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="weights `linear` is not computed"):
        resampled_kappa(a, b, np.ones((1, 3)), weights="linear")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="level `ratio` is not computed: choose one of nominal, ordinal and interval"):
        krippendorff_alpha(np.stack([a, b]).T, "ratio")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="level `ratio` is not computed"):
        resampled_alpha(np.stack([a, b]).T, np.ones((1, 3)), "ratio")  # type: ignore[arg-type]
