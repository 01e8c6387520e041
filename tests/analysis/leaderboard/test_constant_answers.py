"""Models against the constant answer of each benchmark, all tests together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from medhelm.analysis.leaderboard.build import build_leaderboard
from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.analysis.leaderboard.findings import MAJORITY, beats_constant_answer, constant_answer_tests
from medhelm.analysis.leaderboard.types import Leaderboard
from medhelm.analysis.means import ALIKE_IN_CLUSTERS
from medhelm.domain import Estimate
from tests.support import leaderboards
from tests.support.leaderboards import score_cell as cell
from tests.support.remarks import texts


def column(name: str, **changes: Any) -> Column:
    return leaderboards.column(name, title=name.upper(), **changes)


def said(board: Leaderboard) -> list[str]:
    """What the board says about constant answers: verdict, then remarks."""
    return [text for text in (*board.verdict, *texts(board.remarks)) if "always" in text.lower() or "constant" in text]


HALF = [1.0] * 50 + [0.0] * 50
"""Scores of an answer that is right on every other question."""

MORE = [0.0] * 20 + [1.0] * 30 + [1.0] * 28 + [0.0] * 22
"""Eight more questions are right than by `HALF`, which is chance."""


def known_scores(scores: list[float]) -> dict[str, float]:
    return {f"q{i}": score for i, score in enumerate(scores)}


@pytest.mark.parametrize("is_run", [True, False])
def test_the_verdict_does_not_depend_on_whether_the_baseline_was_run(is_run: bool) -> None:
    scores = {"near": MORE, "far": [1.0] * 90 + [0.0] * 10, "below": [0.0] * 60 + [1.0] * 40}
    cells = [cell(model, "a", own) for model, own in scores.items()]
    cells += [cell(MAJORITY, "a", HALF)] if is_run else []
    known = column(
        "a", constant_baseline=0.5, constant_answer="A", constant_scores=None if is_run else known_scores(HALF)
    )
    board = build_leaderboard(cells, [known])
    assert {row.model: beats_constant_answer(board, row, known) for row in board.rows} == {
        "far": True, "near": False, "below": False,
    }  # fmt: skip
    assert said(board) == ["On A always answering `A` is right in 50%. Not clearly better: near and below."]


def test_the_opposite_of_the_constant_answer_is_rarely_shown_to_be_better() -> None:
    """Both are right half of the time, but never together: a test against the mean alone would often err."""
    rng, shown = np.random.default_rng(4), 0
    for _ in range(80):
        constant = (rng.random(40) < 0.5).astype(float)
        known = column("a", constant_baseline=float(constant.mean()))
        board = build_leaderboard([cell("x", "a", 1 - constant)], [known])
        shown += bool(beats_constant_answer(board, board.rows[0], known))
    assert shown / 80 <= 0.05


@pytest.mark.parametrize(
    ("n_models", "n_benchmarks", "boards", "only_means"),
    [
        (3, 12, 20, False),
        *(
            pytest.param(*size, 300, only_means, marks=pytest.mark.long)
            for size in ((3, 12), (9, 12), (3, 37), (9, 37))
            for only_means in (False, True)
        ),
    ],
)
def test_the_chance_of_any_finding_is_at_most_5_percent(
    n_models: int, n_benchmarks: int, boards: int, only_means: bool
) -> None:
    """No model is better than a constant answer. One-sided tests at 5% each found one on 84% of such boards."""
    rng, found, n = np.random.default_rng(n_models + n_benchmarks), 0, 100
    for _ in range(boards):
        cells, columns = [], []
        for b, chance in enumerate(rng.uniform(0.4, 0.7, n_benchmarks)):
            constant = (rng.random(n) < chance).astype(float)
            cells += [cell(f"m{i}", f"b{b}", (rng.random(n) < chance).astype(float)) for i in range(n_models)]
            scores = None if only_means else known_scores(constant.tolist())
            columns.append(column(f"b{b}", constant_baseline=float(constant.mean()), constant_scores=scores))
        tests = constant_answer_tests(build_leaderboard(cells, columns))
        found += any(test.is_better for test in tests.values())
    assert found / boards <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / boards)


@pytest.mark.parametrize(("method", "is_tested"), [("wilson", True), (f"wilson, {ALIKE_IN_CLUSTERS}", False)])
def test_the_widest_interval_of_clusters_does_not_make_a_model_not_clearly_better(method: str, is_tested: bool) -> None:
    """A published 0.874 against 0.503 is far apart; its interval is wide because answers of a cluster are unknown."""
    wide = Estimate(value=0.874, low=0.548, high=0.976, n=100, method=method)
    cells = [Cell(model=name, benchmark="a", value=0.874, n=100, estimate=wide) for name in ("x", "y")]
    board = build_leaderboard(cells, [column("a", constant_baseline=0.503)])
    assert bool(constant_answer_tests(board)) is is_tested
    assert any("not clearly better" in text.lower() or "No model is" in text for text in said(board)) is is_tested
