"""Intervals of averages over benchmarks: unequal clusters, ratios, skewed scores, and models with few benchmarks."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from bench.studies import clusters, few_benchmarks, ratios
from bench.studies.verdicts import leaderboard
from medhelm.analysis.leaderboard.build import build_leaderboard
from medhelm.analysis.leaderboard.cells import Cell
from medhelm.analysis.leaderboard.types import Row
from medhelm.analysis.means import Floats, estimate
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


def least(nominal: float, runs: int, errors: float = 3.5) -> float:
    """Return the least share that agrees with a nominal one, among so many simulations."""
    return nominal - errors * math.sqrt(nominal * (1 - nominal) / runs)


DOMINATED = [one for one in clusters.SCENARIOS if "two clusters of 100" in one.title or "200, 50" in one.title]


@pytest.mark.parametrize("scenario", DOMINATED[::3], ids=lambda one: one.title)
def test_intervals_hold_if_clusters_differ_in_size(scenario: clusters.Scenario) -> None:
    found = clusters.rates(scenario, 20)
    assert min(found.coverages) >= 0.9
    assert found.contradiction == 0
    assert max(found.false_pass, found.false_worse, found.finding) <= 0.1


@pytest.mark.long
@pytest.mark.parametrize("scenario", clusters.SCENARIOS, ids=lambda one: one.title)
def test_intervals_and_gates_hold_for_all_clusters(scenario: clusters.Scenario) -> None:
    found = clusters.rates(scenario, 300)
    assert min(found.coverages) >= least(0.94, 300)
    assert found.finding <= 0.05 + 3.5 * 0.0126
    assert found.contradiction == 0
    assert max(found.false_pass, found.false_worse) <= 0.025 + 3.5 * 0.009


def test_averages_of_ratios_hold() -> None:
    found = ratios.rates(ratios.Scenario(positives=4, n=200, benchmarks=3), 30)
    assert found.macro_average >= 0.94
    assert found.false_pass <= 0.05


@pytest.mark.long
@pytest.mark.parametrize("scenario", ratios.SCENARIOS, ids=lambda one: one.title)
def test_numbers_of_ratios_hold(scenario: ratios.Scenario) -> None:
    found = ratios.rates(scenario, 300)
    assert min(found.score, found.difference, found.macro_average) >= least(0.94, 300)
    assert max(found.false_pass, found.false_worse) <= 0.025 + 3.5 * 0.009


def test_the_macro_average_of_a_model_with_few_benchmarks_holds() -> None:
    assert few_benchmarks.coverage(few_benchmarks.SCENARIOS[0], 30)[0] >= 0.9


@pytest.mark.long
@pytest.mark.parametrize("scenario", few_benchmarks.SCENARIOS, ids=lambda one: one.title)
def test_averages_of_models_with_few_benchmarks_hold(scenario: few_benchmarks.Scenario) -> None:
    assert min(few_benchmarks.coverage(scenario, 400)) >= least(0.94, 400)


Draw = Callable[[np.random.Generator, int], Floats]
"""Simulates the scores of three equal models on so many instances."""


def grades_at_the_ceiling(rng: np.random.Generator, n: int) -> Floats:
    return rng.choice([0.0, 0.75, 1.0], (3, n), p=[0.02, 0.08, 0.9])


def mostly_zeros(rng: np.random.Generator, n: int) -> Floats:
    return np.where(rng.random((3, n)) < 0.95, 0.0, rng.beta(2, 2, (3, n)))


def two_ended(rng: np.random.Generator, n: int) -> Floats:
    return rng.beta(0.3, 0.1, (3, n))


@pytest.mark.long
@pytest.mark.parametrize(
    ("draw", "truth", "benchmarks", "n"),
    [
        (grades_at_the_ceiling, 0.96, 2, 20),
        (grades_at_the_ceiling, 0.96, 2, 50),
        (grades_at_the_ceiling, 0.96, 2, 100),
        (grades_at_the_ceiling, 0.96, 12, 20),
        (mostly_zeros, 0.025, 2, 50),
        (two_ended, 0.75, 2, 10),
    ],
)
def test_averages_of_skewed_scores_hold(draw: Draw, truth: float, benchmarks: int, n: int) -> None:
    rng, held = np.random.default_rng(5), []
    for _ in range(150):
        rows = leaderboard([draw(rng, n) for _ in range(benchmarks)]).rows
        macros, shares = [ends(row.macro_average) for row in rows], [ends(row.win_share) for row in rows]
        held.append(
            [[low <= truth <= high for low, _, high in macros], [low <= 0.5 <= high for low, _, high in shares]]
        )
    assert min(np.mean(held, axis=(0, 2))) >= least(0.94, 450, 2.0)
