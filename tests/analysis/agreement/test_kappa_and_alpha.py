"""Agreement beyond chance: weighted kappa and alpha."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from medhelm.analysis.agreement.coefficients import Level, Weights, krippendorff_alpha, weighted_kappa
from medhelm.analysis.means import Floats
from tests.support.agreement_by_hand import alpha_by_hand, kappa_by_hand

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


def tables(*grades: float) -> st.SearchStrategy[Floats]:
    """Tables of grades 1 to 5, and of these."""
    shapes = st.tuples(st.integers(2, 9), st.integers(2, 4))
    return arrays(np.float64, shapes, elements=st.sampled_from([1.0, 2.0, 3.0, 4.0, 5.0, *grades]))


def same(found: float | None, expected: float | None) -> bool:
    """Whether both are missing, or equal but for rounding."""
    return found == expected if expected is None else found == pytest.approx(expected, abs=1e-9)


# --- kappa ------------------------------------------------------------------------------------------------------------


@given(tables(), st.sampled_from(WEIGHTS))
def test_kappa_agrees_with_every_rating_against_every_other(table: Floats, weights: Weights) -> None:
    a, b = table[:, 0], table[:, 1]
    assert same(weighted_kappa(a, b, weights=weights).value, kappa_by_hand(a.tolist(), b.tolist(), weights))


@pytest.mark.parametrize(
    ("a", "b", "reason"),
    [([3, NAN], [3, 4], "at least two"), ([3, 3, 3], [3, 3, 3], "both raters give 3 to every instance")],
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
    assert alpha_by_hand(OBSERVERS, level) == pytest.approx(published, abs=5e-4)


@given(tables(NAN), st.sampled_from(LEVELS))
def test_alpha_agrees_with_the_matrix_of_coincidences(table: Floats, level: Level) -> None:
    found = krippendorff_alpha(table, level)
    assert same(found.value, alpha_by_hand(table, level))
    assert (found.value is None) == bool(found.reason)


@pytest.mark.parametrize(
    ("table", "reason"),
    [([[1, NAN], [NAN, 2]], "no instance has two ratings"), ([[3, 3], [3, 3], [NAN, 4]], "all ratings are the same")],
)
def test_undefined_alpha_is_no_number(table: Floats, reason: str) -> None:
    found = krippendorff_alpha(np.array(table, dtype=float))
    assert (found.value, found.reason) == (None, reason)
