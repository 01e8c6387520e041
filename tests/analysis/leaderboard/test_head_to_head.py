"""Models head to head: shares by hand, on published results, and triples that beat in a circle."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from medhelm.analysis.comparison import pairs
from medhelm.analysis.leaderboard.build import build_leaderboard
from medhelm.analysis.leaderboard.rows import HeadToHead, head_to_head
from medhelm.errors import UserError
from tests.support.leaderboards import UNEVEN, plain_columns, score_cell


def share(found: HeadToHead, first: str, second: str) -> tuple[float, int]:
    i, j = found.models.index(first), found.models.index(second)
    assert found.win_share[i, j] == pytest.approx(1 - found.win_share[j, i])
    return float(found.win_share[i, j]), int(found.n_benchmarks[i, j])


def test_a_toy_by_hand() -> None:
    """A and C meet on x and y, B meets both on x only; z has a single model."""
    found = head_to_head(build_leaderboard(UNEVEN, plain_columns("x", "y", "z")))
    assert found.unit == "instances"
    assert share(found, "A", "B") == (0.25, 1)
    assert share(found, "A", "C") == (0.5, 2)
    assert share(found, "B", "C") == (1.0, 1)
    assert np.isnan(np.diag(found.win_share)).all()
    assert found.circles == ()


def test_thousands_of_models_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    board = build_leaderboard(UNEVEN, plain_columns("x", "y", "z"))
    monkeypatch.setattr(pairs, "MOST_MODELS", 2)
    with pytest.raises(UserError, match=r"3 models are too many to compare each with each: at most 2\. Select models"):
        head_to_head(board)


DICE = np.array(list(product((2, 4, 9), (1, 6, 8), (3, 5, 7)))).T / 9
"""The 27 results of three dice of which each beats the next in 5 of 9 rolls."""


def test_uneven_dice_beat_in_a_circle() -> None:
    names = ["a", "b"]
    cells = [score_cell(f"die {i}", name, np.tile(DICE[i], 30)) for i in range(3) for name in names]
    board = build_leaderboard(cells, plain_columns(*names))
    found = head_to_head(board)
    assert share(found, "die 0", "die 1")[0] == pytest.approx(5 / 9)
    (circle,) = found.circles
    start = circle.index("die 0")
    assert (*circle[start:], *circle[:start]) == ("die 0", "die 1", "die 2")
    (remark,) = found.remarks
    assert str(remark).endswith("each significantly: their order depends on the models they are compared with.")
