"""Numbers that are no mean over instances."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bench.studies.coverage import Scenario, balanced, coverage, groups, macro_f1, shifted
from medhelm.analysis.means import wilson_interval
from medhelm.analysis.ratios import comparison_values, estimate_ratios, linearized
from tests.support.values import present

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


PART = st.dictionaries(
    st.sampled_from("abc"), st.integers(0, 5).flatmap(lambda below: st.tuples(st.integers(0, below), st.just(below)))
)


PLACED = st.sampled_from("abc").flatmap(lambda label: st.sampled_from([{label: (0.0, 1.0)}, {label: (1.0, 1.0)}]))
"""Parts of an instance that counts once, in one label."""


@given(st.lists(PART, min_size=1, max_size=30) | st.lists(PLACED, min_size=1, max_size=30))
def test_the_mean_of_the_values_is_the_number(parts: list[Parts]) -> None:
    expected = ratios(parts)
    for values in (linearized(np.zeros(len(parts)), parts), comparison_values(np.zeros(len(parts)), parts)):
        if expected is None:
            assert np.isnan(values).all()
        else:
            assert values.mean() == pytest.approx(expected, abs=1e-9)


def test_the_interval_of_a_ratio_is_that_of_its_bootstrap() -> None:
    """Micro F1 over 400 instances, beside a bootstrap of the ratio itself."""
    rng = np.random.default_rng(5)
    below = rng.integers(1, 20, 400)
    above = rng.binomial(below, 0.4)
    parts: list[Parts] = [{"": (float(a), float(b))} for a, b in zip(above, below, strict=True)]
    found = present(estimate_ratios(above / below, parts, low=0, high=1))
    draws = rng.integers(0, 400, (4000, 400))
    low, high = np.quantile(above[draws].sum(axis=1) / below[draws].sum(axis=1), [0.025, 0.975])
    assert found.value == pytest.approx(above.sum() / below.sum())
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.004)


# --- intervals --------------------------------------------------------------------------------------------------------


def hits_of(label: str, scores: Sequence[float]) -> list[Parts]:
    return [{label: (score, 1.0)} for score in scores]


def test_nothing_scored_and_no_denominator_are_no_number() -> None:
    assert estimate_ratios(np.array([np.nan]), [{}], low=0, high=1) is None
    assert estimate_ratios(np.array([1.0]), [{}], low=0, high=1) is None


def test_limits_of_two_independent_labels_add_up_as_squares() -> None:
    first, second = [1.0] * 18 + [0.0] * 2, [1.0] * 50 + [0.0] * 30
    found = present(
        estimate_ratios(np.array(first + second), hits_of("a", first) + hits_of("b", second), low=0, high=1)
    )
    (low_a, high_a), (low_b, high_b) = wilson_interval(18, 20), wilson_interval(50, 80)
    assert found.value == pytest.approx((18 / 20 + 50 / 80) / 2)
    assert found.value - found.low == pytest.approx(math.hypot(0.9 - low_a, 0.625 - low_b) / 2)
    assert found.high - found.value == pytest.approx(math.hypot(high_a - 0.9, high_b - 0.625) / 2)
    assert (found.n, found.method) == (100, "mover")


def test_f1_of_a_class_follows_from_its_share_of_hits() -> None:
    """12 right, 8 wrong: F1 is 24 of 32, and its limits those of 12 of 20 in the same formula."""
    parts: Sequence[Parts] = [{"a": (2.0, 2.0)}] * 12 + [{"a": (0.0, 1.0)}] * 8
    found = present(estimate_ratios(np.array([1.0] * 12 + [0.0] * 8), parts, low=0, high=1))
    assert (found.low, found.high) == pytest.approx([2 * p / (1 + p) for p in wilson_interval(12, 20)])
    assert found.value == pytest.approx(24 / 32)


@given(st.lists(PART, min_size=1, max_size=30), st.integers(1, 6))
@example([{"a": (0, 2), "b": (2, 2)}, {"a": (2, 2), "b": (0, 2)}], 2)  # labels that balance out
def test_any_interval_holds_the_number_and_stays_on_the_scale(parts: list[Parts], k: int) -> None:
    found = estimate_ratios(np.ones(len(parts)), parts, [f"c{i % k}" for i in range(len(parts))], low=0, high=1)
    expected = ratios(parts)
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        assert found.value == pytest.approx(expected, abs=1e-9)
        assert 0 <= found.low <= found.value <= found.high <= 1
        assert found.high > found.low


@pytest.mark.long
@pytest.mark.parametrize(
    "scenario",
    [
        balanced(4, 200, 0.8, 0.9),
        balanced(20, 400, 0.95, 0.9),
        groups([5] * 10, 0.8),
        groups([1] * 37, 0.5),
        *(shifted(k, 20, 0.7, 0.2) for k in (2, 3)),
        *(macro_f1(labels, 10, 0.85) for labels in (2, 3)),
    ],
    ids=lambda scenario: scenario.title,
)
def test_ratios_with_small_denominators_are_covered(scenario: Scenario) -> None:
    assert coverage(scenario, 250).share >= 0.92
