"""Scores of several models brought together by instance id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from medhelm.analysis.leaderboard.cells import Cell, align
from medhelm.errors import UserError
from tests.support.leaderboards import column

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


def test_the_same_instances_in_another_order_are_the_same() -> None:
    found = align({"m": cell("m", {"a": 1, "b": 2}), "k": cell("k", {"b": 2, "a": 1})}, COLUMN, ["k", "m"])
    assert found.same_instances
    np.testing.assert_array_equal(found.scores[0], found.scores[1])


def test_clusters_travel_with_their_instances() -> None:
    found = align({"m": cell("m", {"z": 1, "a": 2, "b": 3}, ["p1", "", "p1"])}, COLUMN, ["m"])
    assert found.k == 2
    assert found.codes[1] == found.codes[2] != found.codes[0]


def test_a_metric_where_lower_is_better_is_turned_round() -> None:
    errors = column("b", high=2.0, higher_is_better=False)
    found = align({"m": cell("m", {"a": 0.0, "b": 0.5, "c": 2.0})}, errors, ["m"])
    np.testing.assert_array_equal(found.scores, [[1.0, 0.75, 0.0]])


def test_a_cell_without_scores_is_a_row_without_scores() -> None:
    cells = {"m": Cell(model="m", benchmark="b", value=3.0), "k": cell("k", {"a": 1})}
    found = align(cells, COLUMN, ["k", "m"])
    np.testing.assert_array_equal(found.scores, [[0.0], [np.nan]])
    assert found.same_instances


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
    values = {"k": [1.0, 2.0, np.nan], "m": [5.0, 4.0, 3.0]}
    shared = {
        m: Cell(model=m, benchmark="b", value=3.0, ids=ids, scores=np.array(v), clusters=clusters)
        for m, v in values.items()
    }
    own = {m: replace(one, ids=list(ids), clusters=list(clusters)) for m, one in shared.items()}
    one, other = (align(cells, COLUMN, ["k", "m"]) for cells in (shared, own))
    np.testing.assert_array_equal(one.scores, other.scores)
    np.testing.assert_array_equal(one.scores, [[np.nan, 0.25, 0.0], [0.5, 0.75, 1.0]])
    np.testing.assert_array_equal(one.codes, other.codes)
    assert one.k == other.k == 2
    assert one.same_instances
    assert other.same_instances


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


def test_without_any_cluster_all_instances_stand_alone() -> None:
    found = align({"m": cell("m", {"a": 1, "b": 2}), "k": cell("k", {"a": 1, "b": 2}, ["", ""])}, COLUMN, ["k", "m"])
    assert found.k == 2


def test_a_name_that_comes_twice_is_found_in_a_shared_list() -> None:
    ids = ["a", "a"]
    cells = {m: Cell(model=m, benchmark="b", value=1.0, ids=ids, scores=np.ones(2)) for m in "km"}
    with pytest.raises(UserError, match="k on b: an instance id comes twice"):
        align(cells, COLUMN, ["k", "m"])
