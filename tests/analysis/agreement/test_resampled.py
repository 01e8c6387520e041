"""Coefficients of many resamples at once are those of tables whose rows are repeated as often as they were drawn."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medhelm.analysis.agreement.coefficients import (
    Coefficient,
    Form,
    Level,
    Weights,
    average_over_pairs,
    icc,
    krippendorff_alpha,
    resampled_alpha,
    resampled_icc,
    resampled_kappa,
    resampled_spearman,
    spearman,
    weighted_kappa,
)
from medhelm.analysis.agreement.jury_vs_clinicians import resampled_pair_icc, standardized_icc
from medhelm.analysis.means import Floats

NAN = float("nan")

One = Callable[[Floats], float | None]
Many = Callable[[Floats, Floats], Floats]


def pair_of_columns(one: Callable[..., Coefficient], many: Callable[..., Floats]) -> tuple[One, Many]:
    """A coefficient of the first two columns."""
    return (
        lambda table: one(table[:, 0], table[:, 1]).value,
        lambda table, counts: many(table[:, 0], table[:, 1], counts),
    )


def kappa(weights: Weights) -> tuple[One, Many]:
    return pair_of_columns(partial(weighted_kappa, weights=weights), partial(resampled_kappa, weights=weights))


def alpha(level: Level) -> tuple[One, Many]:
    return lambda table: krippendorff_alpha(table, level).value, partial(resampled_alpha, level=level)


def consistency(form: Form) -> tuple[One, Many]:
    return lambda table: icc(table, form).value, partial(resampled_icc, form=form)


COEFFICIENTS: dict[str, tuple[One, Many]] = {
    **{f"icc_{form}": consistency(form) for form in get_args(Form)},
    **{f"kappa_{weights}": kappa(weights) for weights in get_args(Weights)},
    **{f"alpha_{level}": alpha(level) for level in get_args(Level)},
    "spearman": pair_of_columns(spearman, resampled_spearman),
    "pairs": (lambda table: average_over_pairs(table, standardized_icc).value, resampled_pair_icc),
}

COMPLETE = {"icc_2,1", "icc_3,1", "icc_3,k", "spearman"}
"""Coefficients of tables without a missing rating."""


@st.composite
def tables_and_counts(draw: st.DrawFn, complete: bool) -> tuple[Floats, Floats]:
    """Ratings of 2 to 4 raters, few distinct or all different, and how often each of 8 resamples drew each row."""
    n, raters = draw(st.integers(2, 8)), draw(st.integers(2, 4))
    grades = draw(st.sampled_from([(1.0, 2.0, 3.0, 4.0, 5.0), (0.0, 1.0), (1 / 3, 2 / 3, 1.0), (1e6 + 1, 1e6 + 2.5)]))
    rating = st.sampled_from(grades if complete else (*grades, NAN))
    table = draw(st.lists(st.lists(rating, min_size=raters, max_size=raters), min_size=n, max_size=n))
    drawn = st.lists(st.integers(0, n - 1), min_size=1, max_size=n)
    counts = [np.bincount(draw(drawn), minlength=n) for _ in range(8)]
    return np.array(table), np.array(counts, dtype=float)


@pytest.mark.parametrize("name", COEFFICIENTS)
@settings(max_examples=15)
@given(data=st.data())
def test_resamples_at_once_are_the_same_as_one_after_another(name: str, data: st.DataObject) -> None:
    one, many = COEFFICIENTS[name]
    table, counts = data.draw(tables_and_counts(name in COMPLETE))
    expected = [one(np.repeat(table, row.astype(int), axis=0)) for row in counts]
    assert many(table, counts) == pytest.approx([NAN if x is None else x for x in expected], abs=1e-7, nan_ok=True)
