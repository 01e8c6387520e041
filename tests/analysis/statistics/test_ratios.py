"""Numbers that are no mean over instances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.analysis.statistics.means import estimate
from medhelm.analysis.statistics.ratios import linearized

Parts = Mapping[str, tuple[float, float]]


def ratios(parts: Sequence[Parts]) -> float | None:
    """The definition, written down plainly."""
    labels = {label for entry in parts for label in entry}
    found = []
    for label in labels:
        pairs = [entry[label] for entry in parts if label in entry]
        below = sum(pair[1] for pair in pairs)
        if below:
            found.append(sum(pair[0] for pair in pairs) / below)
    return sum(found) / len(found) if found else None


def test_without_parts_the_scores_are_what_they_were() -> None:
    scores = np.array([1.0, np.nan, 0.0])
    assert linearized(scores, None) is scores


PART = st.dictionaries(
    st.sampled_from("abc"), st.integers(0, 5).flatmap(lambda below: st.tuples(st.integers(0, below), st.just(below)))
)


@given(st.lists(PART, min_size=1, max_size=30))
def test_the_mean_is_the_number(parts: list[Parts]) -> None:
    values = linearized(np.zeros(len(parts)), parts)
    expected = ratios(parts)
    if expected is None:
        assert np.isnan(values).all()
    else:
        assert values.mean() == pytest.approx(expected, abs=1e-9)


def test_failures_contribute_nothing() -> None:
    parts: list[Parts] = [{"": (1, 1)}, {"": (5, 5)}, {"": (0, 1)}]
    values = linearized(np.array([1.0, np.nan, 0.0]), parts)
    assert np.isnan(values[1])
    assert np.nanmean(values) == 0.5


def test_groups_of_one_label_are_the_scores_themselves() -> None:
    scores = np.array([1.0, 0.0, 1.0, 1.0])
    assert linearized(scores, [{"g": (score, 1.0)} for score in scores]).tolist() == scores.tolist()


def test_the_interval_of_a_ratio_is_that_of_its_bootstrap() -> None:
    """Micro F1 over 400 instances, beside a bootstrap of the ratio itself."""
    rng = np.random.default_rng(5)
    below = rng.integers(1, 20, 400)
    above = rng.binomial(below, 0.4)
    parts: list[Parts] = [{"": (float(a), float(b))} for a, b in zip(above, below, strict=True)]
    found = estimate(linearized(above / below, parts), low=0, high=1, rng=np.random.default_rng(0))
    assert found is not None
    draws = rng.integers(0, 400, (4000, 400))
    low, high = np.quantile(above[draws].sum(axis=1) / below[draws].sum(axis=1), [0.025, 0.975])
    assert found.value == pytest.approx(above.sum() / below.sum())
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.004)


def test_balanced_accuracy_of_always_no_is_a_half() -> None:
    labels = ["no"] * 90 + ["yes"] * 10
    parts: list[Parts] = [{label: (float(label == "no"), 1.0)} for label in labels]
    right = np.array([float(label == "no") for label in labels])
    assert (right.mean(), linearized(right, parts).mean()) == (0.9, 0.5)
