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
