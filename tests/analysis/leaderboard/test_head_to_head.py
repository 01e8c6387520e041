"""Models head to head: shares by hand, on published results, and triples that beat in a circle."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from bench.studies.rivals import GradedModels
from bench.studies.verdicts import EqualModels, leaderboard
from medhelm.analysis.leaderboard.build import build_leaderboard
from medhelm.analysis.leaderboard.rows import HeadToHead, head_to_head
from medhelm.results.published.boards import published_leaderboard
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


def test_win_shares_are_means_of_the_rows() -> None:
    """On complete scores, a win share is the mean of the model's shares head to head; pairs are the board's."""
    board = leaderboard(GradedModels(models=10, benchmarks=3, n=60).draw(np.random.default_rng(5)))
    found = head_to_head(board)
    means = np.nanmean(found.win_share, axis=1)
    assert means == pytest.approx([row.win_share.value for row in board.rows if row.win_share])
    pairs = {
        (found.models[i], found.models[j])
        for i, j in combinations(range(len(found.models)), 2)
        if found.separated[i, j]
    }
    assert pairs == set(board.separated) != set()
    assert (found.separated == found.separated.T).all()


def test_published_results_are_compared_by_benchmark() -> None:
    """Claude 3.5 has a higher win rate than Claude 3.7, but wins fewer benchmarks against it."""
    board = published_leaderboard()
    found = head_to_head(board)
    assert found.unit == "benchmarks"
    value, n = share(found, "Claude 3.5 Sonnet", "Claude 3.7 Sonnet")
    assert (round(value, 3), n) == (0.473, 37)
    rates = {row.model: row.win_rate.value for row in board.rows if row.win_rate}
    assert rates["Claude 3.5 Sonnet"] > rates["Claude 3.7 Sonnet"]


DICE = np.array(list(product((2, 4, 9), (1, 6, 8), (3, 5, 7)))).T / 9
"""The 27 results of three dice of which each beats the next in 5 of 9 rolls."""


@pytest.mark.parametrize("names", [["a"], ["a", "b"]], ids=["one benchmark", "two benchmarks"])
def test_uneven_dice_beat_in_a_circle(names: list[str]) -> None:
    cells = [score_cell(f"die {i}", name, np.tile(DICE[i], 30)) for i in range(3) for name in names]
    board = build_leaderboard(cells, plain_columns(*names))
    found = head_to_head(board)
    assert share(found, "die 0", "die 1")[0] == pytest.approx(5 / 9)
    (circle,) = found.circles
    start = circle.index("die 0")
    assert (*circle[start:], *circle[:start]) == ("die 0", "die 1", "die 2")
    (remark,) = found.remarks
    assert str(remark).endswith("each significantly: their order depends on the models they are compared with.")


def test_few_rolls_are_no_circle() -> None:
    cells = [score_cell(f"die {i}", "a", DICE[i]) for i in range(3)]
    assert head_to_head(build_leaderboard(cells, plain_columns("a"))).circles == ()


def test_equal_models_seldom_beat_in_a_circle() -> None:
    """Equal models have no circle; three significant pairs of them are rarer than one, which 5% of boards have."""
    rng = np.random.default_rng(8)
    scenario = EqualModels(models=8, benchmarks=2, n=60, kind="grades")
    assert sum(bool(head_to_head(leaderboard(scenario.draw(rng))).circles) for _ in range(40)) == 0
