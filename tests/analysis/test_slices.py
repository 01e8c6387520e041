"""Scores by slice, against independent formulas and by simulation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.analysis.comparison.paired_differences import paired_difference
from medhelm.analysis.comparison.significance import holm
from medhelm.analysis.leaderboard.cells import Cell
from medhelm.analysis.means import Floats
from medhelm.analysis.slices import (
    ALONE,
    HIDDEN,
    LEAST_SHOWN,
    SlicedModel,
    SliceGap,
    homogeneity_p,
    restricted,
    slice_differences,
    slice_gap,
    slice_model,
    slices_to_hide,
    units_by_slice,
    with_adjusted_differences,
)
from medhelm.domain import Estimate
from tests.support.leaderboards import column, score_cell

COLUMN = column("b")
REPEATS = 100
LEVEL, TOLERANCE = 0.05, 3 * math.sqrt(0.05 * 0.95 / REPEATS)
"""Level of tests and intervals, and three standard errors of its estimate by simulation."""


def sliced(cell: Cell, names: Sequence[str], hidden: Sequence[str] = ()) -> SlicedModel:
    return slice_model(cell, COLUMN, names, sorted(set(names)), frozenset(hidden))


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([0.0, 0.5, 1.0, math.nan])), min_size=1, max_size=40))
def test_slices_divide_the_instances_and_their_means_make_up_the_whole(rows: list[tuple[str, float]]) -> None:
    names, scores = [name for name, _ in rows], np.array([score for _, score in rows])
    cell = score_cell("m", "b", scores)
    found = sliced(cell, names)
    assert sum(one.n or 0 for one in found.scores) == len(rows)
    assert all((one.estimate is None) == bool(one.reason) for one in found.scores)
    parts = [restricted(cell, COLUMN, np.flatnonzero(np.array(names) == name)) for name in sorted(set(names))]
    assert sorted(one for part in parts for one in part.ids) == sorted(cell.ids)
    means = [part.estimate for part in parts if part.estimate]
    if means:
        whole = sum(one.value * one.n for one in means) / sum(one.n for one in means)
        assert whole == pytest.approx(np.nanmean(scores))


def test_a_slice_of_one_instance_or_of_one_cluster_is_refused() -> None:
    found = sliced(score_cell("m", "b", [1, 0, 1, 1], ["", "", "c", "c"]), ["a", "b", "c", "c"])
    assert [(one.name, one.n, one.estimate, one.reason) for one in found.scores] == [
        ("a", 1, None, ALONE), ("b", 1, None, ALONE), ("c", 2, None, ALONE),
    ]  # fmt: skip
    assert (found.gap, found.p_equal) == (None, None)


def test_a_ratio_is_estimated_within_each_slice() -> None:
    """Balanced accuracy: the mean over the classes that the slice has."""
    scores, classes, names = [1, 0, 1, 1, 0, 1], "yynnyn", ["a"] * 4 + ["b"] * 2
    parts = [{key: (score, 1.0)} for key, score in zip(classes, scores, strict=True)]
    cell = score_cell("m", "b", scores, parts=parts)
    means = [one.estimate.value for one in sliced(cell, names).scores if one.estimate]
    assert means == [pytest.approx((0.5 + 1.0) / 2), pytest.approx((0.0 + 1.0) / 2)]


# --- small slices -----------------------------------------------------------------------------------------------------


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 30), min_size=1))
def test_hidden_slices_cannot_be_computed_from_the_total(sizes: dict[str, int]) -> None:
    hidden = slices_to_hide(sizes)
    assert hidden >= {name for name, n in sizes.items() if n < LEAST_SHOWN}
    if hidden and hidden != set(sizes):
        assert len(hidden) > 1
        assert sum(sizes[name] for name in hidden) >= LEAST_SHOWN
    if all(n >= LEAST_SHOWN for n in sizes.values()):
        assert not hidden


def test_the_size_of_a_slice_is_its_number_of_patients() -> None:
    cell = score_cell("m", "b", [1, 0, 1, 1, 0], ["p1", "p1", "p1", "p2", ""])
    assert units_by_slice(cell, ["a", "a", "b", "b", "b"]) == {"a": 1, "b": 3}


def test_a_hidden_slice_shows_neither_its_size_nor_its_score() -> None:
    found = sliced(score_cell("m", "b", [1, 0] * 6), list("aaaabbbbcccc"), hidden=["a"])
    assert (found.scores[0].n, found.scores[0].estimate, found.scores[0].reason) == (None, None, HIDDEN)
    assert found.gap is not None
    assert "a" not in (found.gap.best, found.gap.worst)


# --- test of homogeneity ----------------------------------------------------------------------------------------------


def welch(values: Floats, labels: Sequence[str]) -> float:
    """Return the statistic of the test for independent instances, written as sums over the instances of a slice."""
    usual = float(np.mean((values - values.mean()) ** 2))
    means, weights = [], []
    for name in sorted(set(labels)):
        own = values[np.array(labels) == name]
        spread = (((own - own.mean()) ** 2).sum() + 5 * usual) / (len(own) + 5)
        means.append(own.mean())
        weights.append(len(own) / spread)
    center = np.average(means, weights=weights)
    return float(np.dot(weights, (np.array(means) - center) ** 2))


def test_its_p_value_is_the_share_of_all_permutations() -> None:
    values = np.array([0.0, 0.1, 0.3, 0.4, 0.6, 1.0, 0.9])
    labels = [["b", "a"][i in (0, 1, 3)] for i in range(7)]
    every = [welch(values, [["b", "a"][i in chosen] for i in range(7)]) for chosen in combinations(range(7), 3)]
    exact = np.mean([one >= welch(values, labels) * (1 - 1e-9) for one in every])
    assert homogeneity_p(values, labels) == pytest.approx(exact, abs=3 * math.sqrt(exact * (1 - exact) / 2000))


def clustered(rng: np.random.Generator, k: int, size: int, share: float = 0.7) -> tuple[Floats, list[str]]:
    """Return right and wrong answers to questions about k notes, and the note of each."""
    chance = rng.beta(4 * share, 4 * (1 - share), k)
    values = (rng.random((k, size)) < chance[:, None]).astype(float).ravel()
    return values, [f"note {i // size}" for i in range(k * size)]


@pytest.mark.parametrize("is_within", [False, True], ids=["slices of notes", "slices within notes"])
def test_it_keeps_its_level_with_clusters(is_within: bool) -> None:
    rng, rejected = np.random.default_rng(5), 0
    for _ in range(REPEATS):
        values, notes = clustered(rng, 45, 4)
        names = [f"s{(i if is_within else i // 4) % 3}" for i in range(len(values))]
        p = homogeneity_p(values, names, notes, draws=199)
        rejected += p is not None and p <= LEVEL
    assert rejected / REPEATS <= LEVEL + TOLERANCE


def test_it_keeps_its_level_where_slices_differ_in_spread() -> None:
    rng, rejected = np.random.default_rng(6), 0
    names = ["a"] * 60 + ["b"] * 20
    for _ in range(REPEATS):
        values = np.concatenate([rng.choice([0.25, 0.5, 0.75], 60), rng.choice([0.0, 1.0], 20)])
        p = homogeneity_p(values, names, draws=199)
        rejected += p is not None and p <= LEVEL
    assert rejected / REPEATS <= LEVEL + TOLERANCE


def test_equal_scores_and_a_single_slice_say_nothing() -> None:
    assert homogeneity_p(np.ones(9), list("aaabbbccc")) == 1.0
    assert homogeneity_p(np.arange(4.0), ["a"] * 4) is None
    assert homogeneity_p(np.array([1.0, np.nan]), ["a", "b"]) is None


# --- gap between the best and the worst slice -------------------------------------------------------------------------


def interval(found: Estimate | None) -> tuple[float, float, float]:
    assert found is not None
    return found.value, found.low, found.high


def gap_of(cell: Cell, names: Sequence[str]) -> SliceGap:
    places = {name: np.flatnonzero(np.array(names) == name) for name in sorted(set(names))}
    return slice_gap({name: restricted(cell, COLUMN, own) for name, own in places.items()}, COLUMN)


def test_the_gap_of_two_slices_is_their_difference_by_mover() -> None:
    found = sliced(score_cell("m", "b", [1] * 15 + [0] * 5 + [1] * 4 + [0] * 6), ["a"] * 20 + ["b"] * 10)
    a, b = (interval(one.estimate) for one in found.scores)
    gap = found.gap
    assert gap is not None
    assert (gap.best, gap.worst) == ("a", "b")
    assert gap.value == pytest.approx(a[0] - b[0])
    assert gap.low == pytest.approx(max(a[0] - b[0] - math.hypot(a[0] - a[1], b[2] - b[0]), 0))
    assert gap.high == pytest.approx(a[0] - b[0] + math.hypot(a[2] - a[0], b[0] - b[1]))


@pytest.mark.parametrize(
    ("sizes", "shares"),
    [
        ([60, 60, 60, 60, 60], [0.7] * 5),
        ([100, 30, 15], [0.9] * 3),
        ([100, 30, 30], [0.9, 0.8, 0.6]),
    ],
    ids=["equal", "equal, few wrong", "different"],
)
def test_its_interval_holds_the_true_gap_although_the_worst_slice_was_picked(
    sizes: list[int], shares: list[float]
) -> None:
    rng, held, seen = np.random.default_rng(7), 0, []
    true = max(shares) - min(shares)
    names = [f"s{i}" for i, n in enumerate(sizes) for _ in range(n)]
    chances = np.repeat(shares, sizes)
    for _ in range(REPEATS):
        gap = gap_of(score_cell("m", "b", (rng.random(len(names)) < chances).astype(float)), names)
        held += gap.low - 1e-9 <= true <= gap.high + 1e-9
        seen.append(gap.value)
    assert held / REPEATS >= 1 - LEVEL - TOLERANCE
    assert np.mean(seen) > true  # the gap seen is too large, which is why it needs such an interval


def test_a_model_that_is_bad_for_one_group_is_found() -> None:
    """With 80 cases in each of five groups, 0.55 instead of 0.8 right in one of them is found in nine of ten tries."""
    rng, found, tries = np.random.default_rng(8), 0, 40
    names = [f"s{i}" for i in range(5) for _ in range(80)]
    for _ in range(tries):
        chance = np.where(np.array(names) == "s3", 0.55, 0.8)
        cell = score_cell("m", "b", (rng.random(400) < chance).astype(float))
        p = homogeneity_p(np.asarray(cell.scores), names, draws=199)
        found += p is not None and p <= LEVEL and gap_of(cell, names).worst == "s3"
    assert found / tries >= 0.9


# --- two models -------------------------------------------------------------------------------------------------------


def test_two_models_are_compared_within_each_slice() -> None:
    rng = np.random.default_rng(9)
    names = ["a"] * 40 + ["b"] * 40 + ["c"]
    first = (rng.random(81) < 0.8).astype(float)
    second = np.where(np.array(names) == "a", first, (rng.random(81) < 0.3).astype(float))
    x, y = score_cell("x", "b", first), score_cell("y", "b", second)
    slices = dict(zip(x.ids, names, strict=True))
    differences, p_equal = slice_differences(x, y, COLUMN, slices, ["a", "b", "c"])
    ((a, b, c),) = with_adjusted_differences([differences])
    assert (c.difference, c.reason) == (None, ALONE)
    own = [paired_difference(first[part], second[part], None) for part in (slice(0, 40), slice(40, 80))]
    assert [a.difference, b.difference] == own
    assert [a.p_adjusted, b.p_adjusted] == holm([one.p_value for one in own if one]).tolist()
    assert p_equal is not None
    assert p_equal < LEVEL  # no difference on a, a large one on b
