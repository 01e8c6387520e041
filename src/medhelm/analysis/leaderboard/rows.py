"""Rows of a leaderboard: averages, intervals, and the order of the models."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.leaderboard.bootstrap import LeaderboardDraws
from medhelm.analysis.leaderboard.types import Average, Cell, Column, GroupMean, Row
from medhelm.analysis.leaderboard.win_rates import (
    DECIMALS,
    competition_ranks,
    guarded_table,
    rank_interval,
    ranks_in_draws,
    row_means,
    symmetric_interval,
    tie_groups,
    weighted_sd,
    win_rate_sd,
    win_table,
)
from medhelm.analysis.statistics.cluster_bootstrap import Floats

Table = Mapping[str, Mapping[str, Cell]]
"""Benchmark -> model -> cell."""


@dataclass(frozen=True, slots=True, eq=False)
class LeaderboardMeasures:
    """Values and averages without intervals. Arrays have one row per model and one column per benchmark."""

    models: tuple[str, ...]
    """Names, sorted."""
    columns: tuple[Column, ...]
    """Benchmarks, sorted by id, so that no number depends on the order in which they are shown."""
    values: Floats
    """Normalized to 0..1, nan if missing."""
    weights: Floats
    """Shape (n_benchmarks,): the weights of the columns, divided by their mean."""
    win_rates: Floats
    """Shape (n_models,), nan for a model without a benchmark in common with another."""
    guarded: Floats
    """Guarded win rates, alike; nan throughout where there is one model, or no value."""
    macros: Floats
    """Macro averages, alike; nan for a model without any value."""


def measure(models: Sequence[str], columns: Sequence[Column], table: Table) -> LeaderboardMeasures:
    """Averages of each model."""
    values = np.full((len(models), len(columns)), np.nan)
    for i, model in enumerate(models):
        for j, column in enumerate(columns):
            cell = table[column.benchmark].get(model)
            if cell is not None and cell.value is not None:
                values[i, j] = column.normalize(cell.value)
    weights = np.array([column.weight for column in columns], dtype=float)
    if len(weights):
        weights = weights / weights.mean()
    tables = (win_table(values), guarded_table(values), values)
    averages = (np.round(row_means(one, weights), DECIMALS) for one in tables)
    return LeaderboardMeasures(tuple(models), tuple(columns), values, weights, *averages)


def make_rows(
    measured: LeaderboardMeasures, table: Table, draws: LeaderboardDraws | None, apart: NDArray[np.bool_] | None
) -> tuple[list[Row], list[int]]:
    """Rows in order of rank, and which model each of them is.

    Parameters: draws and apart, from `bootstrap`, in the order of `measured.models`; None if nothing was drawn.
    """
    models, columns, values = measured.models, measured.columns, measured.values
    keys = np.nan_to_num(-measured.guarded).tolist()
    # Models of equal rank are ordered by macro average with missing values as 0: gaps do not help there either.
    standing = row_means(np.nan_to_num(values), measured.weights)
    order = sorted(range(len(models)), key=lambda i: (keys[i], -np.nan_to_num(standing[i]), models[i]))
    places = competition_ranks([keys[i] for i in order])
    groups = None if apart is None else tie_groups(apart[np.ix_(order, order)])
    drawn_ranks = ranks_in_draws(draws.guarded) if draws else None
    spread = win_rate_sd(values, measured.weights)
    rows = []
    for at, (place, i) in enumerate(zip(places, order, strict=True)):
        has = ~np.isnan(values[i])
        cells = {c.benchmark: table[c.benchmark][models[i]] for c in columns if models[i] in table[c.benchmark]}
        best, worst = (None, None) if drawn_ranks is None else rank_interval(drawn_ranks[:, i], place)
        rows.append(
            Row(
                model=models[i],
                rank=place,
                rank_low=best,
                rank_high=worst,
                tie_group=None if groups is None else groups[at],
                win_rate=_average(measured.win_rates[i], draws.win_rates[:, i] if draws else None, _known(spread[i])),
                macro_average=_average(
                    measured.macros[i],
                    draws.macros[:, i] if draws else None,
                    weighted_sd(values[i][has], measured.weights[has]),
                ),
                n_benchmarks=int(has.sum()),
                coverage=int(has.sum()) / len(columns),
                cost_usd=_cost(cells.values()),
                cells=cells,
                categories=_group_means(values[i], measured.weights, [c.category for c in columns]),
                subcategories=_group_means(values[i], measured.weights, [c.subcategory for c in columns]),
                guarded_win_rate=_known(measured.guarded[i]),
            )
        )
    return rows, order


def ranks_if_failures_scored_worst(measured: LeaderboardMeasures, table: Table) -> dict[str, int]:
    """Model -> the place that it would have if each of its failed instances counted as the worst answer.

    One model at a time, the others unchanged; only for those with failures of which the number is known.
    """
    found = {}
    for i, model in enumerate(measured.models):
        changed = measured.values.copy()
        for j, column in enumerate(measured.columns):
            cell = table[column.benchmark].get(model)
            n_failed = cell.n_failed if cell else None
            if cell is not None and cell.estimate is not None and n_failed:
                changed[i, j] *= cell.estimate.n / (cell.estimate.n + n_failed)
        if not np.array_equal(changed, measured.values, equal_nan=True):
            guarded = np.round(row_means(guarded_table(changed), measured.weights), DECIMALS)
            found[model] = 1 + int((guarded > guarded[i]).sum())
    return found


def _known(value: float) -> float | None:
    """A number, or None for nan."""
    return None if np.isnan(value) else float(value)


def _average(value: float, draws: Floats | None, sd: float | None) -> Average | None:
    """An average with its interval within 0..1; None if there is none."""
    if np.isnan(value):
        return None
    if draws is None:
        return Average(value=float(value), low=None, high=None, sd=sd)
    low, high = symmetric_interval(draws, float(value))
    return Average(
        value=float(value), low=min(max(low, 0.0), float(value)), high=max(min(high, 1.0), float(value)), sd=sd
    )


def _cost(cells: Iterable[Cell]) -> float | None:
    """Sum of the costs; None if one is unknown."""
    costs = [cell.cost_usd for cell in cells]
    known = [cost for cost in costs if cost is not None]
    return math.fsum(known) if known and len(known) == len(costs) else None


def _group_means(values: Floats, weights: Floats, groups: Sequence[str]) -> dict[str, GroupMean]:
    """Group -> weighted mean of one model's normalized values, shape (n_benchmarks,), in it."""
    means = {}
    for group in sorted(set(groups)):
        own = np.array([name == group for name in groups]) & ~np.isnan(values)
        mean = float(values[own] @ weights[own] / weights[own].sum()) if own.any() else None
        means[group] = GroupMean(value=mean, n_benchmarks=int(own.sum()))
    return means
