"""Intervals of averages over benchmarks: unequal clusters, ratios, skewed scores, and models with few benchmarks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from bench.studies import clusters, few_benchmarks, ratios
from bench.studies.coverage import Scenario, ceiling, rare_hits
from bench.studies.verdicts import leaderboard
from medhelm.analysis.leaderboard.build import build_leaderboard
from medhelm.analysis.leaderboard.cells import Cell
from medhelm.analysis.leaderboard.types import Row
from medhelm.analysis.means import estimate
from tests.support.leaderboards import plain_columns, score_cell
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
