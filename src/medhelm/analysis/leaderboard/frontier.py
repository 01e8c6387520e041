"""The efficient frontier of a leaderboard: macro average against the cost of 1,000 completions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from medhelm.analysis.comparison.paired import pair_indices
from medhelm.analysis.comparison.pairs import AllPairs
from medhelm.analysis.frontier import (
    CostFrontier,
    CostPoint,
    FrontierModel,
    FrontierStep,
    draw_averages,
    efficient_frontier,
    frontier_probabilities,
    joint_means_over_benchmarks,
)
from medhelm.analysis.leaderboard.averages import BenchmarkNumbers
from medhelm.analysis.leaderboard.cells import Column
from medhelm.analysis.leaderboard.types import IntervalUnit, Row
from medhelm.analysis.means import Floats


def cost_frontier(
    rows: Sequence[Row],
    columns: Sequence[Column],
    numbers: Sequence[BenchmarkNumbers | None],
    pairs: AllPairs | None,
    method: IntervalUnit,
) -> CostFrontier | None:
    """Return the frontier among the models of known cost on the same benchmarks; None for fewer than two such models.

    Parameters: columns, sorted by id; numbers, of the scores on each of them, models sorted by name; empty where
    instance scores are not known; pairs, tests of every two models; method, the unit of intervals.
    """
    by_name = sorted(rows, key=lambda row: row.model)
    places = {row.model: place for place, row in enumerate(by_name)}
    priced = [row for row in by_name if row.usd_per_1000 is not None and row.macro_average is not None]
    shared = _most_common_benchmarks(priced)
    alike = [row for row in priced if _benchmarks(row) == shared]
    if len(alike) < 2:
        return None
    used = [place for place, column in enumerate(columns) if column.benchmark in shared]
    order = [places[row.model] for row in alike]
    costs = np.array([row.usd_per_1000 for row in alike], dtype=float)
    values = np.array([row.macro_average.value for row in alike if row.macro_average])
    found = _probabilities(
        alike,
        [columns[place] for place in used],
        [numbers[place] for place in used if numbers],
        order,
        costs,
        values,
        method,
    )
    points = [
        CostPoint(row.model, float(cost), float(value)) for row, cost, value in zip(alike, costs, values, strict=True)
    ]
    efficient = [point.name for point in efficient_frontier(points)]
    models = {
        row.model: FrontierModel(
            model=row.model,
            usd_per_1000=float(costs[i]),
            value=float(values[i]),
            is_efficient=row.model in efficient,
            probability=None if found is None else float(found[i]),
        )
        for i, row in enumerate(alike)
    }
    steps = [(models[cheaper], models[costlier]) for cheaper, costlier in pairwise(efficient)]
    return CostFrontier(
        models=tuple(sorted(models.values(), key=lambda one: (one.usd_per_1000, -one.value, one.model))),
        steps=tuple(_step(a, b, pairs) for a, b in steps if b.usd_per_1000 > a.usd_per_1000),
        unknown_cost=tuple(row.model for row in by_name if row.macro_average and row not in priced),
        other_benchmarks=tuple(row.model for row in priced if row not in alike),
    )


def _benchmarks(row: Row) -> frozenset[str]:
    """Return the benchmarks on which a model has a value."""
    return frozenset(name for name, cell in row.cells.items() if cell.value is not None)


def _most_common_benchmarks(rows: Sequence[Row]) -> frozenset[str]:
    """Return the benchmarks that most models share exactly; of equally common sets the largest."""
    counts = Counter(map(_benchmarks, rows))
    return max(counts, key=lambda names: (counts[names], len(names), sorted(names)), default=frozenset())


def _probabilities(
    rows: Sequence[Row],
    columns: Sequence[Column],
    numbers: Sequence[BenchmarkNumbers | None],
    order: Sequence[int],
    costs: Floats,
    values: Floats,
    method: IntervalUnit,
) -> Floats | None:
    """Return the probability of each model to be on the frontier; None where it has no basis.

    Parameters: order, the places of the models in `numbers`.
    """
    weights = np.array([column.weight for column in columns], dtype=float)
    shares = weights / weights.sum()
    if method == "nothing":
        return None
    if method == "benchmarks":
        table = np.array([[_value(row, column) for column in columns] for row in rows])
        over = joint_means_over_benchmarks(table, shares)
        return None if over is None else frontier_probabilities(costs, draw_averages(values, [(1.0, over)]))
    known = [one for one in numbers if one is not None]
    if len(known) < len(columns):
        return None
    parts = ((float(share), one.joint_means(order)) for share, one in zip(shares, known, strict=True))
    return frontier_probabilities(costs, draw_averages(values, parts))


def _value(row: Row, column: Column) -> float:
    """Return a normalized score."""
    value = row.cells[column.benchmark].value
    return np.nan if value is None else column.normalize(value)


def _step(cheaper: FrontierModel, costlier: FrontierModel, pairs: AllPairs | None) -> FrontierStep:
    """Return a step along the frontier, with the paired difference of the two models where they were tested."""
    value, low, high, is_better = costlier.value - cheaper.value, None, None, False
    if pairs is not None:
        place, is_first = _place_of_pair(costlier.model, cheaper.model, pairs)
        is_better = int(pairs.findings[place]) == (1 if is_first else -1)
        if found := pairs.macro_average.differences[place]:
            value, low, high = (
                (found.value, found.low, found.high) if is_first else (-found.value, -found.high, -found.low)
            )
    return FrontierStep(
        cheaper=cheaper.model,
        costlier=costlier.model,
        usd_per_1000=costlier.usd_per_1000 - cheaper.usd_per_1000,
        points=100 * value,
        points_low=None if low is None else 100 * low,
        points_high=None if high is None else 100 * high,
        is_separated=is_better and value > 0,
    )


def _place_of_pair(one: str, other: str, pairs: AllPairs) -> tuple[int, bool]:
    """Return the place of the pair of two models in `pairs`, and whether `one` is its first model."""
    a, b = pairs.models.index(one), pairs.models.index(other)
    first, second = pair_indices(len(pairs.models))
    return int(np.flatnonzero((first == min(a, b)) & (second == max(a, b)))[0]), a < b
