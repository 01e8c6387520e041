"""Win shares and win rates against a panel: by hand, unmoved by other models, and with the same verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from bench.studies.rivals import GradedModels
from bench.studies.verdicts import EqualModels
from medhelm.analysis.leaderboard.averages import overtaken
from medhelm.analysis.leaderboard.build import build_leaderboard
from medhelm.analysis.leaderboard.cells import Cell
from medhelm.analysis.leaderboard.types import Leaderboard, Row
from medhelm.analysis.means import Floats, estimate
from medhelm.domain.ranking import RankingOptions
from medhelm.errors import UserError
from tests.support.leaderboards import UNEVEN, plain_columns, score_cell, score_cells
from tests.support.remarks import texts
from tests.support.values import present

MODELS = [f"m{i}" for i in range(6)]
"""Names of six simulated models."""


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


def test_a_panel_of_one_model_has_no_number_for_itself() -> None:
    rows = by_name(build_leaderboard(UNEVEN, plain_columns("x", "y", "z"), options=RankingOptions(panel=["A"])))
    assert (rows["A"].win_share, rows["A"].win_rate, rows["A"].guarded_win_share) == (None, None, 0.5)
    assert rows["B"].win_share
    assert rows["B"].win_share.value == 0.75
    assert rows["C"].win_share
    assert rows["C"].win_share.value == (0.5 + 0.5) / 2  # wins and loses on x, ties on y


def test_a_panel_of_all_models_gives_the_numbers_without_a_panel() -> None:
    """Numbers, intervals, ranks and places are equal where no benchmark is missing."""
    cells = graded_cells(GradedModels(models=6, benchmarks=3, n=40).draw(np.random.default_rng(3)))
    plain = build_leaderboard(cells, plain_columns("b0", "b1", "b2"))
    panel = build_leaderboard(cells, plain_columns("b0", "b1", "b2"), options=RankingOptions(panel=MODELS))
    for one, other in zip(plain.rows, panel.rows, strict=True):
        assert (one.model, one.rank, one.rank_low, one.rank_high, one.tie_group) == (
            other.model, other.rank, other.rank_low, other.rank_high, other.tie_group,
        )  # fmt: skip
        assert_same(one, other, guarded=False)


def graded_cells(scores: Sequence[Floats]) -> list[Cell]:
    return [cell for place, rows in enumerate(scores) for cell in score_cells(f"b{place}", rows)]


def assert_same(one: Row, other: Row, *, guarded: bool = True) -> None:
    """Win share with its interval, win rate with its SD, and the numbers that rank."""
    for mine, theirs in ((one.win_share, other.win_share), (one.win_rate, other.win_rate)):
        assert (mine is None) == (theirs is None)
        if mine and theirs:
            for key in ("value", "low", "high", "sd"):
                assert getattr(mine, key) == pytest.approx(getattr(theirs, key), abs=1e-9)
    if guarded:
        assert one.guarded_win_share == pytest.approx(other.guarded_win_share, abs=1e-9)
        assert one.guarded_win_rate == pytest.approx(other.guarded_win_rate, abs=1e-9)


@pytest.mark.parametrize("seed", range(6))
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
    panel = ["m0", "m3"]
    before = build_leaderboard(few, names, options=RankingOptions(panel=panel))
    after = by_name(build_leaderboard([*few, *more], names, options=RankingOptions(panel=panel)))
    fewer = by_name(
        build_leaderboard(
            [one for one in few if one.model in ("m0", "m1", "m3")], names, options=RankingOptions(panel=panel)
        )
    )
    for row in before.rows:
        assert_same(row, after[row.model])
        if row.model in fewer:
            assert_same(row, fewer[row.model])


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


@pytest.mark.parametrize("members", [[0], [1, 3], [0, 2, 4]])
def test_right_or_wrong_answers_have_one_order_against_any_panel(members: list[int]) -> None:
    scores = EqualModels(models=6, benchmarks=3, n=40, kind="right or wrong").draw(np.random.default_rng(6))
    names = plain_columns("b0", "b1", "b2")
    cells = graded_cells(scores)
    plain = build_leaderboard(cells, names)
    panel = build_leaderboard(cells, names, options=RankingOptions(panel=[f"m{i}" for i in members]))
    assert [(row.model, row.rank) for row in panel.rows] == [(row.model, row.rank) for row in plain.rows]


def test_a_test_against_the_ranks_is_reported() -> None:
    """By published scoring ranks go by win rate: Y beats P, the panel, by a little on two of three benchmarks."""
    scores = {"P": (0.50, 0.50, 0.9), "X": (0.49, 0.49, 0.9), "Y": (0.51, 0.51, 0.1)}
    cells = [
        score_cell(model, name, (np.arange(1000) < 1000 * value).astype(float))
        for model, values in scores.items()
        for name, value in zip("abc", values, strict=True)
    ]
    board = build_leaderboard(
        cells, plain_columns("a", "b", "c"), options=RankingOptions(panel=["P"]), scoring="published"
    )
    assert board.ranked_by == "win rate"
    assert board.rows[0].model == "Y"
    assert ("X", "Y") in overtaken(board)
    assert board.verdict[0] == (
        "Y ranks first (win rate against the panel 0.667), but P and X are significantly better."
    )
    assert any(
        text.startswith("X is significantly better than Y, but ranks lower by win rate against the panel")
        for text in texts(board.remarks)
    )


def test_missing_scores_count_as_worst_against_the_panel_too() -> None:
    """The remark names the rank of a leaderboard on which the missing scores are 0; m1 is in the panel."""
    scores = GradedModels(models=6, benchmarks=2, n=30).draw(np.random.default_rng(3))
    worst = [rows.copy() for rows in scores]
    for rows, lost in ((scores[0], np.nan), (worst[0], 0.0)):
        rows[1, :9] = lost
    cells = [
        replace(one, n_failed=int(np.isnan(one.scores).sum()), estimate=estimate(one.scores, low=0.0, high=1.0))
        for one in graded_cells(scores)
        if one.scores is not None
    ]
    names = plain_columns("b0", "b1")
    options = RankingOptions(panel=["m1", "m4"])
    before = present(by_name(build_leaderboard(cells, names, options=options))["m1"].rank)
    after = present(by_name(build_leaderboard(graded_cells(worst), names, options=options))["m1"].rank)
    found = texts(build_leaderboard(cells, names, options=options).remarks)
    assert before < after
    assert any(f"its rank would fall from {before} to {after}." in text for text in found)


def test_unknown_members_are_refused_together() -> None:
    named = [score_cell(f"{model}", "x", [0.0, 1.0]) for model in ("lab/alpha", "lab/beta", "baseline/majority")]
    with pytest.raises(UserError) as raised:
        build_leaderboard(
            named, plain_columns("x"), options=RankingOptions(panel=["lab/alhpa", "lab/beta", "baseline/majority"])
        )
    assert "`lab/alhpa` is not on the leaderboard. Did you mean `lab/alpha`?" in str(raised.value)
    assert "`baseline/majority` is a baseline, which does not compete. Add --rank-baselines" in str(raised.value)
    assert "lab/beta" not in str(raised.value).replace("Known: lab/alpha, lab/beta", "")
