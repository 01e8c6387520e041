"""Scores of several models brought together by instance id, and the arithmetic of a leaderboard on arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from medhelm.analysis.leaderboard.cells import (
    Cell,
    align,
    guarded_win_shares,
    ratio_win_shares,
    tie_groups,
    tie_letters,
    weighted_sd,
    win_shares,
)
from medhelm.analysis.means import Floats, row_means
from medhelm.errors import UserError
from tests.support.leaderboards import column

NAN = float("nan")

tables = arrays.arrays(
    np.float64,
    arrays.array_shapes(min_dims=2, max_dims=2, max_side=6),
    elements=st.one_of(st.just(NAN), st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])),
)


def guarded(values: Floats) -> Floats:
    return guarded_win_shares(win_shares(values), values)


def test_equal_but_for_rounding_is_a_tie() -> None:
    assert win_shares(np.array([[0.1 + 0.2], [0.3]])).ravel().tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    ("n", "apart", "expected"),
    [
        (1, [], [1]),
        (3, [(0, 1), (0, 2), (1, 2)], [1, 2, 3]),
        (4, [(0, 2), (2, 3)], [1, 1, 2, 3]),
        (3, [(1, 2)], [1, 1, 1]),
    ],
)
def test_a_tie_group_is_what_cannot_be_told_from_its_best(
    n: int, apart: list[tuple[int, int]], expected: list[int]
) -> None:
    matrix = np.zeros((n, n), dtype=np.bool_)
    for i, j in apart:
        matrix[i, j] = matrix[j, i] = True
    assert tie_groups(matrix) == expected


relations = arrays.arrays(np.bool_, st.integers(0, 9).map(lambda n: (n, n)))


@given(relations)
def test_two_models_share_a_letter_if_and_only_if_they_are_not_apart(drawn: NDArray[np.bool_]) -> None:
    apart = np.triu(drawn, 1) | np.triu(drawn, 1).T
    letters = list(map(set, tie_letters(apart)))
    assert [[not one & other for other in letters] for one in letters] == apart.tolist()
    groups = {letter: {i for i, own in enumerate(letters) if letter in own} for letter in set().union(*letters)}
    assert not any(one < other for one in groups.values() for other in groups.values())


@pytest.mark.parametrize(
    ("n", "apart", "letters"),
    [
        (3, [(0, 2)], ["a", "ab", "b"]),
        (4, [(0, 2), (0, 3), (1, 3)], ["a", "ab", "bc", "c"]),
        (2, [(0, 1)], ["a", "b"]),
        (60, [(i, j) for i in range(60) for j in range(i)], [""] * 60),
    ],
    ids=["overlap", "chain", "apart", "too many"],
)
def test_letters_of_ties(n: int, apart: list[tuple[int, int]], letters: list[str]) -> None:
    matrix = np.zeros((n, n), dtype=np.bool_)
    for i, j in apart:
        matrix[i, j] = matrix[j, i] = True
    assert tie_letters(matrix) == letters


# --- gaps -------------------------------------------------------------------------------------------------------------


@given(tables, st.data())
def test_nobody_gains_by_leaving_out_a_benchmark(values: Floats, data: st.DataObject) -> None:
    held = np.argwhere(~np.isnan(values))
    if len(held) == 0 or len(values) == 1:
        return
    weights = np.array(data.draw(st.lists(st.sampled_from([0.5, 1.0, 3.0]), min_size=len(values.T), max_size=100)))
    weights = weights[: len(values.T)]
    i, j = data.draw(st.sampled_from([tuple(place) for place in held.tolist()]))
    before = row_means(guarded(values), weights)
    less = values.copy()
    less[i, j] = NAN
    after = np.nan_to_num(row_means(guarded(less), weights))
    near = 1e-9
    assert after[i] <= before[i] + near
    assert (after > after[i] + near).sum() >= (before > before[i] + near).sum(), "its rank did not improve"
    for rival in range(len(values)):
        assert not (before[rival] >= before[i] - near and after[rival] < after[i] - near), "no rival was overtaken"
        if not np.isnan(less[:, j]).all():
            assert after[i] - after[rival] <= before[i] - before[rival] + near, "no lead has grown"


# --- weights ----------------------------------------------------------------------------------------------------------


def test_a_weighted_sd_by_hand() -> None:
    # mean 0.25 of 0, 0, 1 with weights 1, 2, 1; squares 1/16 * 3 + 9/16; divisor 4 - 6 / 4
    assert weighted_sd(np.array([0.0, 0.0, 1.0]), np.array([1.0, 2.0, 1.0])) == pytest.approx((0.75 / 2.5) ** 0.5)
    assert weighted_sd(np.array([0.5]), np.array([2.0])) is None


# --- win shares -------------------------------------------------------------------------------------------------------


def slow_win_shares(scores: Floats, panel: list[int] | None) -> Floats:
    """Count wins and ties one answer at a time."""
    found = np.full(scores.shape, NAN)
    for j in range(scores.shape[1]):
        for i in range(len(scores)):
            rivals = [r for r in (range(len(scores)) if panel is None else panel) if not np.isnan(scores[r, j])]
            rivals = [r for r in rivals if panel is not None or r != i]
            if rivals and not np.isnan(scores[i, j]):
                won = [1.0 if scores[i, j] > scores[r, j] else 0.5 * (scores[i, j] == scores[r, j]) for r in rivals]
                found[i, j] = np.mean(won)
    return found


@given(tables, st.data())
def test_win_shares_of_ratios_are_those_of_right_or_wrong_answers(values: Floats, data: st.DataObject) -> None:
    scores = np.where(np.isnan(values), NAN, values > 0.5)
    panel = np.isin(np.arange(len(scores)), data.draw(st.lists(st.integers(0, len(scores) - 1), min_size=1)))
    np.testing.assert_allclose(ratio_win_shares(scores), win_shares(scores), atol=1e-12)
    np.testing.assert_allclose(ratio_win_shares(scores, panel), win_shares(scores, panel), atol=1e-12)


@given(tables, st.data())
def test_win_shares_are_counted_answer_by_answer(scores: Floats, data: st.DataObject) -> None:
    np.testing.assert_allclose(win_shares(scores), slow_win_shares(scores, None))
    panel = data.draw(st.lists(st.integers(0, len(scores) - 1), min_size=1, unique=True))
    chosen = np.isin(np.arange(len(scores)), panel)
    np.testing.assert_allclose(win_shares(scores, chosen), slow_win_shares(scores, panel))


# --- alignment by instance id -----------------------------------------------------------------------------------------


COLUMN = column("b", 1.0, 5.0)


def cell(model: str, scores: dict[str, float], clusters: Sequence[str] | None = None) -> Cell:
    values = np.array(list(scores.values()))
    return Cell(model=model, benchmark="b", value=3.0, ids=tuple(scores), scores=values, clusters=clusters)


def test_scores_meet_by_id_in_the_order_of_ids_and_on_the_unit_scale() -> None:
    cells = {"m": cell("m", {"q2": 5.0, "q1": 1.0, "q3": np.nan}), "k": cell("k", {"q1": 3.0, "q4": 2.0})}
    found = align(cells, COLUMN, ["k", "m", "other"])
    expected = [[0.5, np.nan, np.nan, 0.25], [0.0, 1.0, np.nan, np.nan], [np.nan] * 4]
    np.testing.assert_array_equal(found.scores, expected)
    assert found.k == 4
    assert not found.same_instances


@pytest.mark.parametrize(
    ("ids", "scores", "clusters", "message"),
    [
        (("a",), [1.0, 2.0], None, "1 ids, 2 scores and 2 clusters do not match"),
        (("a", "b"), [1.0, 2.0], ["x"], "2 ids, 2 scores and 1 clusters do not match"),
        (("a", "a"), [1.0, 2.0], None, "an instance id comes twice"),
        (("a", "b"), [1.0, float("inf")], None, "the score of instance b is infinite"),
    ],
)
def test_parts_that_do_not_fit_are_refused(
    ids: tuple[str, ...], scores: list[float], clusters: list[str] | None, message: str
) -> None:
    broken = Cell(model="m", benchmark="b", value=1.0, ids=ids, scores=np.array(scores), clusters=clusters)
    with pytest.raises(UserError, match=f"m on b: .*{message}"):
        align({"m": broken}, COLUMN, ["m"])


def test_shared_lists_give_what_lists_of_their_own_give() -> None:
    ids, clusters = ["q2", "q10", "q1"], ["p", "", "p"]
    shared = {
        m: Cell(model=m, benchmark="b", value=3.0, ids=ids, scores=np.array(values), clusters=clusters)
        for m, values in (("k", [1.0, 2.0, np.nan]), ("m", [5.0, 4.0, 3.0]))
    }
    own = {m: replace(one, ids=list(ids), clusters=list(clusters)) for m, one in shared.items()}
    one, other = (align(cells, COLUMN, ["k", "m"]) for cells in (shared, own))
    for found in (one, other):
        np.testing.assert_array_equal(found.scores, [[np.nan, 0.25, 0.0], [0.5, 0.75, 1.0]])
        assert (found.k, found.same_instances, found.codes.tolist()) == (2, True, one.codes.tolist())


def test_shared_clusters_of_other_instances_are_not_mixed_up() -> None:
    clusters = ["p", "p", ""]
    cells = {
        m: Cell(model=m, benchmark="b", value=3.0, ids=ids, scores=np.ones(3), clusters=clusters)
        for m, ids in (("k", ["a", "b", "c"]), ("m", ["d", "e", "f"]))
    }
    found = align(cells, COLUMN, ["k", "m"])
    assert found.k == 3, "a, b, d and e are of one patient"
    assert len({found.codes[i] for i in (0, 1, 3, 4)}) == 1
    assert not found.same_instances
