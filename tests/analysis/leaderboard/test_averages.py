"""Averages over benchmarks: intervals with unequal clusters, ratios, skewed scores, few benchmarks; a fixed panel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from bench.studies import clusters, few_benchmarks, ratios
from bench.studies.coverage import Scenario, ceiling, rare_hits
from bench.studies.rivals import GradedModels
from bench.studies.verdicts import leaderboard
from medhelm.analysis.leaderboard.averages import overtaken
from medhelm.analysis.leaderboard.build import build_leaderboard
from medhelm.analysis.leaderboard.cells import Cell
from medhelm.analysis.leaderboard.types import Leaderboard, Row
from medhelm.analysis.means import Floats, estimate
from medhelm.domain.ranking import RankingOptions
from medhelm.errors import UserError
from tests.support.leaderboards import UNEVEN, plain_columns, score_cell, score_cells
from tests.support.remarks import texts
from tests.support.values import ends, present


def binary_cell(model: str, benchmark: str, right: int, n: int) -> Cell:
    """A model with so many right answers."""
    scores = (np.arange(n) < right).astype(float)
    return score_cell(model, benchmark, scores, estimate=estimate(scores, low=0.0, high=1.0))


def row_of(model: str, cells: list[Cell], names: list[str]) -> Row:
    (found,) = [row for row in build_leaderboard(cells, plain_columns(*names)).rows if row.model == model]
    return found


def test_a_model_with_one_benchmark_has_the_interval_of_its_cell() -> None:
    names = [f"b{i:02}" for i in range(12)]
    few = binary_cell("few", "b00", 0, 80)
    found = row_of("few", [few, *(binary_cell("all", name, 60, 80) for name in names)], names)
    assert ends(found.macro_average) == pytest.approx((present(few.estimate).low, 0.0, present(few.estimate).high))


def test_benchmarks_of_other_models_do_not_shorten_intervals() -> None:
    """Two models on two benchmarks; a third model has one other benchmark, or 35."""
    both = [binary_cell(model, name, right, 50) for model, right in (("a", 49), ("b", 45)) for name in ("b00", "b01")]
    names = [f"b{i:02}" for i in range(37)]
    others = [binary_cell("c", name, 30, 50) for name in names[2:]]
    one, many = (row_of("a", [*both, *cells], names[: 2 + len(cells)]) for cells in (others[:1], others))
    assert ends(one.macro_average) == pytest.approx(ends(many.macro_average))
    assert ends(one.win_share) == pytest.approx(ends(many.win_share))


# --- simulations ------------------------------------------------------------------------------------------------------


def least(nominal: float, runs: int) -> float:
    """Return the least share that agrees with a nominal one, among so many simulations."""
    return 0.9 if runs < 100 else nominal - 3.5 * math.sqrt(nominal * (1 - nominal) / runs)


def most(nominal: float, runs: int) -> float:
    """Return the greatest share of errors that agrees with a nominal one."""
    return 1 - least(1 - nominal, runs)


def study(scenarios: Sequence[Any], short: Any, n_short: int, n_long: int) -> pytest.MarkDecorator:
    """One scenario with few simulations, and all at length."""
    long = [pytest.param(scenario, n_long, id=scenario.title, marks=pytest.mark.long) for scenario in scenarios]
    return pytest.mark.parametrize(("scenario", "n"), [pytest.param(short, n_short, id=short.title), *long])


@study(clusters.SCENARIOS, next(one for one in clusters.SCENARIOS if "two clusters of 100" in one.title), 15, 300)
def test_intervals_and_gates_hold_if_clusters_differ_in_size(scenario: clusters.Scenario, n: int) -> None:
    found = clusters.rates(scenario, n)
    assert min(found.coverages) >= least(0.94, n)
    assert found.contradiction == 0
    assert found.finding <= most(0.05, n)
    assert max(found.false_pass, found.false_worse) <= most(0.025, n)


@study(ratios.SCENARIOS, ratios.Scenario(positives=4, n=200, benchmarks=3), 15, 300)
def test_numbers_of_ratios_hold(scenario: ratios.Scenario, n: int) -> None:
    found = ratios.rates(scenario, n)
    assert min(found.score, found.difference, found.macro_average) >= least(0.94, n)
    assert max(found.false_pass, found.false_worse) <= most(0.025, n)


@study(few_benchmarks.SCENARIOS, few_benchmarks.SCENARIOS[0], 20, 400)
def test_averages_of_models_with_few_benchmarks_hold(scenario: few_benchmarks.Scenario, n: int) -> None:
    assert min(few_benchmarks.coverage(scenario, n)) >= least(0.94, n)


@pytest.mark.long
@pytest.mark.parametrize(
    ("scenario", "benchmarks"), [(ceiling(20), 2), (ceiling(100), 2), (ceiling(20), 12), (rare_hits(50), 2)]
)
def test_averages_of_skewed_scores_hold(scenario: Scenario, benchmarks: int) -> None:
    rng, held = np.random.default_rng(5), []
    for _ in range(150):
        scores = [np.stack([scenario.draw(rng)[0] for _ in range(3)]) for _ in range(benchmarks)]
        for row in leaderboard(scores).rows:
            (low, _, high), (least_share, _, most_share) = ends(row.macro_average), ends(row.win_share)
            held.append((low <= scenario.truth <= high, least_share <= 0.5 <= most_share))
    assert min(np.mean(held, axis=0)) >= 0.94 - 2 * math.sqrt(0.94 * 0.06 / 450)


# --- against a panel: by hand, unmoved by other models, and with the same verdict -------------------------------------


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
