"""Win shares and win rates against a panel: by hand, unmoved by other models, and with the same verdict."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from bench.studies.rivals import GradedModels
from medhelm.analysis.leaderboard.averages import overtaken
from medhelm.analysis.leaderboard.build import build_leaderboard
from medhelm.analysis.leaderboard.cells import Cell
from medhelm.analysis.leaderboard.types import Leaderboard, Row
from medhelm.analysis.means import Floats
from medhelm.domain.ranking import RankingOptions
from medhelm.errors import UserError
from tests.support.leaderboards import UNEVEN, plain_columns, score_cell, score_cells
from tests.support.remarks import texts
from tests.support.values import present


def by_name(board: Leaderboard) -> dict[str, Row]:
    return {row.model: row for row in board.rows}


def test_a_toy_by_hand() -> None:
    """A and B are the panel; B lacks y, and both lack z."""
    board = build_leaderboard(UNEVEN, plain_columns("x", "y", "z"), options=RankingOptions(panel=["A", "B"]))
    rows = by_name(board)
    shares = {name: row.win_share.value for name, row in rows.items() if row.win_share}
    assert shares == {"A": 0.25, "B": 0.75, "C": (0.25 + 0.5) / 2}
    rates = {name: row.win_rate.value for name, row in rows.items() if row.win_rate}
    assert rates == {"A": 0.0, "B": 1.0, "C": (0.0 + 0.5) / 2}
    # Against the whole panel a member ties with itself. On y, B loses to A, and ties with itself.
    assert {name: row.guarded_win_share for name, row in rows.items()} == {
        "A": (0.375 + 0.75) / 2, "B": (0.625 + 0.25) / 2, "C": (0.25 + 0.75) / 2,
    }  # fmt: skip
    found = texts(board.remarks)
    assert any(text.startswith("Win shares and win rates are against a panel of 2 models: A and B.") for text in found)
    assert "No panel model has a value on z, which is left out of win shares and win rates." in found
    assert "B has no value on y: there models meet the others of the panel only." in found


def graded_cells(scores: Sequence[Floats]) -> list[Cell]:
    return [cell for place, rows in enumerate(scores) for cell in score_cells(f"b{place}", rows)]


def against_panel(row: Row) -> list[float | None]:
    """Win share with its interval, win rate with its SD, and the numbers that rank."""
    means = [
        getattr(mean, key) for mean in (row.win_share, row.win_rate) if mean for key in ("value", "low", "high", "sd")
    ]
    return [*means, row.guarded_win_share, row.guarded_win_rate]


@pytest.mark.parametrize("seed", range(4))
def test_other_models_change_nothing(seed: int) -> None:
    """With gaps, clusters, 0/1 benchmarks and grades: neither new models and benchmarks nor dropped models matter."""
    rng = np.random.default_rng(seed)
    few: list[Cell] = []
    for b, n in enumerate((8, 15, 30, 12)):
        clusters = [f"c{i // 2}" for i in range(n)] if b == 1 else None
        for i in range(5):
            if rng.random() < 0.15:
                continue
            scores = rng.integers(0, 2, n).astype(float) if b < 2 else rng.integers(0, 5, n) / 4
            scores[rng.random(n) < 0.1] = np.nan
            few.append(score_cell(f"m{i}", f"b{b}", scores, clusters))
    more = [score_cell(f"new{i}", f"b{b}", rng.integers(0, 5, 40) / 4) for i in range(4) for b in (0, 1, 2, 4)]
    names = plain_columns("b0", "b1", "b2", "b3", "b4")
    options = RankingOptions(panel=["m0", "m3"])
    fewer = [one for one in few if one.model in ("m0", "m1", "m3")]
    boards = [by_name(build_leaderboard(cells, names, options=options)) for cells in (few, [*few, *more], fewer)]
    for model, row in boards[0].items():
        for other in (other[model] for other in boards[1:] if model in other):
            assert against_panel(row) == pytest.approx(against_panel(other), abs=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_a_panel_changes_no_finding(seed: int) -> None:
    """The significant pairs are those without a panel, and every rank is among the places."""
    cells = graded_cells(GradedModels(models=10, benchmarks=3, n=150).draw(np.random.default_rng(seed)))
    plain = build_leaderboard(cells, plain_columns("b0", "b1", "b2"))
    panel = build_leaderboard(cells, plain_columns("b0", "b1", "b2"), options=RankingOptions(panel=["m1", "m8"]))
    assert panel.separated == plain.separated != frozenset()
    places = {row.model: (row.rank_low, row.rank_high) for row in plain.rows}
    for row in panel.rows:
        low, high = places[row.model]
        rank = present(row.rank)
        assert (row.rank_low, row.rank_high) == (min(present(low), rank), max(present(high), rank))


def test_a_test_against_the_ranks_is_reported() -> None:
    """By published scoring ranks go by win rate: Y beats P, the panel, by a little on two of three benchmarks."""
    scores = {"P": (0.50, 0.50, 0.9), "X": (0.49, 0.49, 0.9), "Y": (0.51, 0.51, 0.1)}
    cells = [
        score_cell(model, name, (np.arange(1000) < 1000 * value).astype(float))
        for model, values in scores.items()
        for name, value in zip("abc", values, strict=True)
    ]
    options = RankingOptions(panel=["P"])
    board = build_leaderboard(cells, plain_columns("a", "b", "c"), options=options, scoring="published")
    assert ("X", "Y") in overtaken(board)
    said = "No winner: Y ranks first (win rate against the panel 0.667), but P and X are significantly better."
    assert board.verdict[0] == said
    assert any(
        text.startswith("X is significantly better than Y, but ranks lower by win rate against the panel")
        for text in texts(board.remarks)
    )


def test_unknown_members_are_refused_together() -> None:
    named = [score_cell(f"{model}", "x", [0.0, 1.0]) for model in ("lab/alpha", "lab/beta", "baseline/majority")]
    with pytest.raises(UserError) as raised:
        build_leaderboard(
            named, plain_columns("x"), options=RankingOptions(panel=["lab/alhpa", "lab/beta", "baseline/majority"])
        )
    assert "`lab/alhpa` is not on the leaderboard. Did you mean `lab/alpha`?" in str(raised.value)
    assert "`baseline/majority` is a baseline, which does not compete. Add --rank-baselines" in str(raised.value)
    assert "lab/beta" not in str(raised.value).replace("Known: lab/alpha, lab/beta", "")
