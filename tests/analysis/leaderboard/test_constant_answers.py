"""Models against the constant answer of each benchmark, all tests together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from medhelm.analysis.leaderboard.build import build_leaderboard
from medhelm.analysis.leaderboard.cells import Column
from medhelm.analysis.leaderboard.findings import MAJORITY, beats_constant_answer, constant_answer_tests
from medhelm.analysis.leaderboard.types import Leaderboard
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


@pytest.mark.parametrize(
    ("scores", "first"),
    [
        (MORE, "On A, x is not clearly better than always giving the same answer (58% against 50%)."),
        ([0.0] * 60 + [1.0] * 40, "On A, x is no better than always giving the same answer (40% against 50%)."),
        ([1.0] * 95 + [0.0] * 5, None),
    ],
)
def test_the_verdict_says_where_the_leader_is_no_better(scores: list[float], first: str | None) -> None:
    board = build_leaderboard([cell("x", "a", scores), cell(MAJORITY, "a", HALF)], [column("a")])
    verdict = [text for text in board.verdict if "same answer" in text]
    assert verdict == ([first] if first else [])
    remarks = [text for text in texts(board.remarks) if "constant answer" in text]
    assert remarks == (["On A a constant answer is right in 50%. No model is clearly better."] if first else [])


def test_grades_are_not_shares_of_right_answers() -> None:
    graded = column("a", low=1.0, high=5.0)
    cells = [cell("x", "a", [3.0, 4.0, 2.0, 3.0] * 10), cell(MAJORITY, "a", [3.0, 2.0, 4.0, 3.0] * 10)]
    assert said(build_leaderboard(cells, [graded])) == [
        "On A, x is no better than always giving the same answer (3.000 against 3.000).",
        "On A a constant answer scores 3.000. No model is clearly better.",
    ]


def test_many_benchmarks_share_one_sentence_and_long_answers_are_cut() -> None:
    names = [f"b{i}" for i in range(8)]
    columns = [column(name, constant_baseline=0.975, constant_answer="a very long answer " * 3) for name in names]
    cells = [cell(model, name, own) for name in names for model, own in (("x", HALF), ("y", MORE))]
    found = said(build_leaderboard(cells, columns))
    assert found[1] == (
        "On B0 always answering `a very long answer a very long...` is right in 98%. No model is clearly better."
    )
    assert found[-1] == "On B5, B6 and B7, too, not every model is clearly better than a constant answer."


def test_baselines_that_are_ranked_are_compared_like_models() -> None:
    near = cell("baseline/lexical", "a", MORE)
    board = build_leaderboard([cell(MAJORITY, "a", HALF), near], [column("a")])
    assert said(board) == ["On A a constant answer is right in 50%. No model is clearly better."]


def test_the_opposite_of_the_constant_answer_is_rarely_shown_to_be_better() -> None:
    """Both are right half of the time, but never together: a test against the mean alone would often err."""
    rng, shown = np.random.default_rng(4), 0
    for _ in range(200):
        constant = (rng.random(40) < 0.5).astype(float)
        known = column("a", constant_baseline=float(constant.mean()))
        board = build_leaderboard([cell("x", "a", 1 - constant)], [known])
        shown += bool(beats_constant_answer(board, board.rows[0], known))
    assert shown / 200 <= 0.05


def test_a_benchmark_without_a_known_constant_answer_is_not_tested() -> None:
    board = build_leaderboard([cell("x", "a", HALF)], [column("a")])
    assert beats_constant_answer(board, board.rows[0], board.columns[0]) is None
    assert said(board) == []


def test_a_baseline_on_other_instances_tells_nothing() -> None:
    other = replace(cell(MAJORITY, "a", HALF), ids=[f"other{i}" for i in range(100)])
    board = build_leaderboard([cell("x", "a", MORE), other], [column("a")])
    assert beats_constant_answer(board, board.rows[0], board.columns[0]) is None


# --- all tests together -----------------------------------------------------------------------------------------------


def boards_with_a_finding(
    *, n_models: int, n_benchmarks: int, boards: int, only_means: bool = False, n: int = 100, seed: int = 1
) -> float:
    """Share of boards on which some model is better than a constant answer, though none is: all are right as often."""
    rng, found = np.random.default_rng(seed), 0
    for _ in range(boards):
        chances = rng.uniform(0.4, 0.7, n_benchmarks)
        cells, columns = [], []
        for b, chance in enumerate(chances):
            constant = (rng.random(n) < chance).astype(float)
            cells += [cell(f"m{i}", f"b{b}", (rng.random(n) < chance).astype(float)) for i in range(n_models)]
            scores = None if only_means else known_scores(constant.tolist())
            columns.append(column(f"b{b}", constant_baseline=float(constant.mean()), constant_scores=scores))
        board = build_leaderboard(cells, columns)
        found += any(test.is_better for test in constant_answer_tests(board).values())
    return found / boards


def test_few_boards_of_models_that_are_no_better_have_a_finding() -> None:
    """One-sided tests at 5% each found one on 84% of such boards."""
    assert boards_with_a_finding(n_models=3, n_benchmarks=12, boards=60) <= 0.1


@pytest.mark.long
@pytest.mark.parametrize("only_means", [False, True])
@pytest.mark.parametrize(("n_models", "n_benchmarks"), [(3, 12), (9, 12), (3, 37), (9, 37)])
def test_the_chance_of_any_finding_is_at_most_5_percent(n_models: int, n_benchmarks: int, only_means: bool) -> None:
    share = boards_with_a_finding(
        n_models=n_models, n_benchmarks=n_benchmarks, boards=300, only_means=only_means, seed=n_models + n_benchmarks
    )
    assert share <= 0.05 + 3 * 0.0126


def test_a_clear_lead_is_found_among_many_tests() -> None:
    rng = np.random.default_rng(2)
    cells, columns = [], []
    for b in range(12):
        constant = (rng.random(200) < 0.5).astype(float)
        cells += [cell(f"m{i}", f"b{b}", (rng.random(200) < 0.75).astype(float)) for i in range(3)]
        columns.append(column(f"b{b}", constant_baseline=0.5, constant_scores=known_scores(constant.tolist())))
    tests = constant_answer_tests(build_leaderboard(cells, columns))
    assert sum(test.is_better for test in tests.values()) >= 33
