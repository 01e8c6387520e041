"""The verdict: sentences that hold for the table below them."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from medhelm.analysis.leaderboard.build import build_leaderboard
from medhelm.analysis.leaderboard.findings import with_doubts
from medhelm.analysis.leaderboard.types import Leaderboard
from medhelm.analysis.planned_cost import RunUse
from tests.support.leaderboards import plain_columns, score_cell, toy_board

BENCHMARKS = ("a", "b", "c")


def board(
    accuracy: dict[str, float], *, costs: dict[str, float] | None = None, seconds: dict[str, float] | None = None
) -> Leaderboard:
    """Models that are right on a fixed share of 60 questions on each of three benchmarks."""
    cells = []
    for model, name in product(accuracy, BENCHMARKS):
        scores = (np.arange(60) < round(60 * accuracy[model])).astype(float)
        use = RunUse(completions=60, seconds=np.full(60, seconds[model]) if seconds and model in seconds else None)
        cells.append(score_cell(model, name, scores, cost_usd=(costs or {}).get(model), use=use))
    return build_leaderboard(cells, plain_columns(*BENCHMARKS))


def test_a_leader_is_better_than_every_other_model_only_if_all_are_separated() -> None:
    (clear,) = board({"x": 0.9, "y": 0.5, "z": 0.2}).verdict
    assert clear.startswith("x leads (macro average 0.")
    assert clear.endswith("and is significantly better than every other model.")
    (close,) = board({"x": 0.9, "y": 0.9 - 1 / 60, "z": 0.2}).verdict
    assert close.endswith("but cannot be separated from y.")


def test_ties_have_no_superlative() -> None:
    (tied,) = board({"x": 0.5, "y": 0.5, "z": 0.5}).verdict
    assert tied == "All 3 models share the first rank (macro average 0.500)."
    (close,) = board({"x": 0.5, "y": 0.5 - 1 / 60, "z": 0.5 - 1 / 60}).verdict
    assert close.startswith("No two of the 3 models differ significantly. x ranks first (macro average 0.5")


X_DEARER, X_CHEAPEST = {"x": 2.0, "y": 1.0, "z": 3.0}, {"x": 1.0, "y": 2.0, "z": 2.0}
CHEAPER = "x cost 6.00 US dollars. Of the models that may be as good, y cost least (3.00)"
CHEAPEST = "x cost 3.00 US dollars. None of the models that may be as good cost less"


@pytest.mark.parametrize(
    ("costs", "seconds", "said"),
    [
        (X_DEARER, (3.4, 2.0, 1.2), f"{CHEAPER} and z answered fastest (1.2 s, median; x 3.4 s)."),
        (X_DEARER, (3.4, 1.2, 2.0), f"{CHEAPER} and answered fastest (1.2 s, median; x 3.4 s)."),
        (X_DEARER, (1.0, 1.2, 2.0), f"{CHEAPER}."),
        (X_DEARER, (1.2, 1.1, 1.3), f"{CHEAPER}."),
        (X_CHEAPEST, (3.4, 2.0, 1.2), f"{CHEAPEST}. Of them, z answered fastest (1.2 s, median; x 3.4 s)."),
        (X_CHEAPEST, (1.0, 2.0, 1.2), f"{CHEAPEST} or answered faster."),
        (X_CHEAPEST, (1.0, 2.0), f"{CHEAPEST}."),
        ({}, (3.4, 2.0, 1.2), "Of the models that may be as good as x, z answered fastest (1.2 s, median; x 3.4 s)."),
    ],
    ids=["two models", "one model", "leader fastest", "hardly faster", "leader cheapest", "both", "unknown", "no cost"],
)
def test_the_fastest_model_that_cannot_be_separated_is_named_in_the_same_sentence(
    costs: dict[str, float], seconds: tuple[float, ...], said: str
) -> None:
    accuracy = {"x": 0.9, "y": 0.9 - 1 / 60, "z": 0.9 - 1 / 60}
    found = board(accuracy, costs=costs, seconds=dict(zip("xyz", seconds, strict=False))).verdict
    assert " ".join(found[1:]) == said


def test_after_doubts_about_the_jury_ranks_are_what_its_scores_show() -> None:
    board = toy_board(3, 3, n=40)
    judged = tuple(replace(column, judges=("lab/judge",)) for column in board.columns)
    for columns, start in ((judged, "By the jury's scores, "), (board.columns, "By these scores, ")):
        found = with_doubts(replace(board, columns=columns), ["Do not rely on the jury."])
        assert found == ("Do not rely on the jury.", start + board.verdict[0], *board.verdict[1:])
        assert with_doubts(replace(board, verdict=found), ["More."])[1:] == found
