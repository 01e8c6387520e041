"""Rows of a leaderboard: averages, intervals, and the order of the models."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.comparison.all_pairs import AllPairs
from medhelm.analysis.comparison.paired import pair_indices
from medhelm.analysis.cost.use import CompletionUse, Times, pooled_times, pooled_use
from medhelm.analysis.leaderboard.averages import (
    Averages,
    BenchmarkMeans,
    average_over_benchmarks,
    averages_of_benchmarks,
    benchmark_means,
    macro_means,
    share_means,
    win_share_means,
)
from medhelm.analysis.leaderboard.benchmark_numbers import BenchmarkNumbers
from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.analysis.leaderboard.panel import guarded_panel_shares, panel_win_shares
from medhelm.analysis.leaderboard.types import Average, GroupMean, IntervalUnit, RankedBy, Row
from medhelm.analysis.leaderboard.win_rates import (
    DECIMALS,
    competition_ranks,
    guarded_table,
    has_any_value,
    instance_win_shares,
    row_means,
    tie_groups,
    weighted_sd,
    win_rate_sd,
    win_table,
)
from medhelm.analysis.statistics.cluster_bootstrap import Floats
from medhelm.analysis.statistics.threads import in_threads
from medhelm.domain import Rule

Table = Mapping[str, Mapping[str, Cell]]
"""Benchmark -> model -> cell."""


MOST_LACKING = 30
"""Most models with missing scores for which bounds of ranks are computed: each takes two leaderboards."""


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
    shares: Floats
    """Win shares on each benchmark, as `values`; nan throughout where instance scores are not known."""
    rank_shares: Floats
    """The same for ranks: with a panel, a member's own answer counts as one more tie."""
    won: Floats
    """Win rates on each benchmark, as `values`."""
    panel: NDArray[np.bool_] | None = None
    """Shape (n_models,): the models that win shares and win rates are against; None: all others."""
    macro_means: Sequence[BenchmarkMeans] = ()
    """One per benchmark, for the intervals of macro averages; empty where instance scores are not known."""
    share_means: Sequence[BenchmarkMeans] = ()
    """The same for win shares."""


def measure(
    models: Sequence[str], columns: Sequence[Column], table: Table, panel: NDArray[np.bool_] | None = None
) -> LeaderboardMeasures:
    """Averages of each model. `panel`: the models that win rates are against; None: all others."""
    values = np.full((len(models), len(columns)), np.nan)
    for i, model in enumerate(models):
        for j, column in enumerate(columns):
            cell = table[column.benchmark].get(model)
            if cell is not None and cell.value is not None:
                values[i, j] = column.normalize(cell.value)
    weights = np.array([column.weight for column in columns], dtype=float)
    if len(weights):
        weights = weights / weights.mean()
    won = win_table(values) if panel is None else panel_win_shares(values, panel)
    rates, macros = (np.round(row_means(one, weights), DECIMALS) for one in (won, values))
    guarded = _guarded_rates(values, weights, panel)
    none = np.full(values.shape, np.nan)
    return LeaderboardMeasures(
        tuple(models), tuple(columns), values, weights, rates, guarded, macros, none, none, won, panel
    )


def _guarded_rates(values: Floats, weights: Floats, panel: NDArray[np.bool_] | None) -> Floats:
    """Win rates with missing benchmarks counted as losses."""
    if panel is None:
        table = guarded_table(values)
    else:
        table = guarded_panel_shares(instance_win_shares(values, panel), values, panel)
    return np.round(row_means(table, weights), DECIMALS)


def measure_instances(measured: LeaderboardMeasures, numbers: Sequence[BenchmarkNumbers | None]) -> LeaderboardMeasures:
    """Add win shares, and variances for intervals.

    Parameters: numbers, of the scores on each benchmark, None if not known; empty if averages go by benchmarks.
    """
    if not numbers:
        return measured
    values, panel = measured.values, measured.panel
    used = has_any_value(values)
    of_panel = used if panel is None else has_any_value(values[panel])
    shares, rank_shares = np.full((2, *values.shape), np.nan)
    macro: list[BenchmarkMeans] = [benchmark_means(values[:, j]) for j in range(values.shape[1])]
    won = list(macro)
    n_used, n_of_panel = int(used.sum()), int(of_panel.sum())
    known = [(j, one) for j, one in enumerate(numbers) if one is not None and used[j]]
    size = max((values.shape[0] * one.n_instances for _, one in known), default=0) if panel is not None else 0
    for j, one in known:
        macro[j] = macro_means(one.scores, n_used)
    met = [(j, one) for j, one in known if of_panel[j]]
    found = in_threads(lambda place: _share_means(place[1], n_of_panel, panel), met, size=size)
    for (j, _), own in zip(met, found, strict=True):
        rank_shares[:, j], shares[:, j], won[j] = own
    return replace(measured, shares=shares, rank_shares=rank_shares, macro_means=macro, share_means=won)


class _ShareMeans(NamedTuple):
    """Win shares of all models on one benchmark, arrays of shape (n_models,); see `LeaderboardMeasures`."""

    rank_shares: Floats
    shares: Floats
    means: BenchmarkMeans


def _share_means(one: BenchmarkNumbers, n_benchmarks: int, panel: NDArray[np.bool_] | None) -> _ShareMeans:
    """Return the win shares on one benchmark of `n_benchmarks`."""
    if panel is None:
        return _ShareMeans(one.mean_shares, one.mean_shares, win_share_means(one.shares, n_benchmarks))
    aligned = one.load()
    instance_shares = aligned.win_shares(panel)
    shown = panel_win_shares(aligned.scores, panel, instance_shares)
    means = win_share_means(share_means(aligned, shown, one.scores.is_binary), n_benchmarks, panel)
    return _ShareMeans(row_means(instance_shares), row_means(shown), means)


def make_rows(
    measured: LeaderboardMeasures, table: Table, method: IntervalUnit, scoring: Rule, times: Times = pooled_times
) -> tuple[list[Row], RankedBy]:
    """Rows in order of rank, and the number that ranks them.

    Parameters: table, benchmark -> model -> cell; method, unit of the intervals; times, as of `pooled_use`.
    """
    models, columns, values = measured.models, measured.columns, measured.values
    share, rate, macro = _averages(measured, table, method)
    guarded_share = _guarded_shares(measured)
    by, keys = _ranking(measured, guarded_share, scoring)
    order = _order(measured, keys)
    places = competition_ranks([keys[i] for i in order])
    spread = win_rate_sd(values, measured.weights, measured.panel)
    wider = _over_benchmarks(measured, method)
    categories = _groups([column.category for column in columns])
    subcategories = _groups([column.subcategory for column in columns])
    cells_of_models = [
        {c.benchmark: table[c.benchmark][models[i]] for c in columns if models[i] in table[c.benchmark]} for i in order
    ]
    rows = []
    for place, i, cells, use in zip(places, order, cells_of_models, _uses(cells_of_models, times), strict=True):
        has = ~np.isnan(values[i])
        rows.append(
            Row(
                model=models[i],
                rank=place,
                rank_low=None,
                rank_high=None,
                tie_group=None,
                win_share=_average(share, i, None),
                win_rate=_average(rate, i, _known(spread[i])),
                macro_average=_average(macro, i, weighted_sd(values[i][has], measured.weights[has])),
                win_share_over_benchmarks=_average(wider[0], i, None) if wider and has.sum() > 1 else None,
                macro_over_benchmarks=_average(wider[1], i, None) if wider and has.sum() > 1 else None,
                n_benchmarks=int(has.sum()),
                coverage=int(has.sum()) / len(columns),
                cost_usd=_cost(cells.values()),
                use=use,
                cells=cells,
                categories=_group_means(values[i], measured.weights, categories),
                subcategories=_group_means(values[i], measured.weights, subcategories),
                guarded_win_rate=_known(measured.guarded[i]),
                guarded_win_share=_known(guarded_share[i]),
                macro_bounds=_macro_bounds(cells, columns, measured.weights),
            )
        )
    return rows, by


def _uses(rows: Sequence[Mapping[str, Cell]], times: Times) -> Iterator[CompletionUse | None]:
    """Yield what the completions of each model took. `rows`: its cells by benchmark."""

    def use_of(cells: Mapping[str, Cell]) -> CompletionUse | None:
        return pooled_use((cell.use for cell in cells.values()), _cost(cells.values()), times)

    return in_threads(use_of, rows, size=max((sum(len(c.ids) for c in cells.values()) for cells in rows), default=0))


def rank_order(measured: LeaderboardMeasures, scoring: Rule) -> list[int]:
    """Return the models in order of rank."""
    return _order(measured, _ranking(measured, _guarded_shares(measured), scoring)[1])


def _order(measured: LeaderboardMeasures, keys: Sequence[float]) -> list[int]:
    """Return the models in the order of these keys.

    Models of equal rank are ordered by macro average with missing values as 0: gaps do not help there either.
    """
    standing = np.round(row_means(np.nan_to_num(measured.values), measured.weights), DECIMALS)
    models = measured.models
    return sorted(range(len(models)), key=lambda i: (keys[i], -np.nan_to_num(standing[i]), models[i]))


def add_ranks(rows: Sequence[Row], pairs: AllPairs | None) -> list[Row]:
    """Add the places that each model can have, and groups of ties, from the tests of all pairs.

    Against a panel the order of the tests can differ from that of the ranks. A rank is always one of the places.
    `pairs`: None for a single model.
    """
    n = len(rows)
    apart = np.zeros((n, n), dtype=np.bool_)
    if pairs is not None:
        place = {row.model: i for i, row in enumerate(rows)}
        at = np.array([place[model] for model in pairs.models])
        first, second = (at[some[pairs.is_separated]] for some in pair_indices(n))
        apart[first, second] = True
    worse, better = apart.sum(axis=1), apart.sum(axis=0)
    groups = tie_groups(apart | apart.T)
    return [
        replace(
            row,
            rank_low=min(int(1 + better[i]), row.rank or n),
            rank_high=max(int(n - worse[i]), row.rank or 1),
            tie_group=groups[i],
        )
        for i, row in enumerate(rows)
    ]


def _averages(measured: LeaderboardMeasures, table: Table, method: IntervalUnit) -> tuple[Averages, Averages, Averages]:
    """Win shares, win rates and macro averages with the intervals that they have."""
    n, weights = len(measured.models), measured.weights
    none = np.full(n, np.nan)
    if method == "benchmarks":
        rate = averages_of_benchmarks(measured.won, weights)
        macro = averages_of_benchmarks(measured.values, weights)
        return Averages(none, none, none), _rounded(rate), _rounded(macro)
    rate = Averages(measured.win_rates, none, none)
    if method == "nothing":
        return Averages(none, none, none), rate, Averages(measured.macros, none, none)
    macro = average_over_benchmarks(measured.values, measured.macro_means, weights)
    share = average_over_benchmarks(measured.shares, measured.share_means, weights)
    if len(measured.columns) == 1:
        macro = _of_cells(macro, measured, table)
    return _rounded(share), rate, _rounded(macro)


def _over_benchmarks(measured: LeaderboardMeasures, method: IntervalUnit) -> tuple[Averages, Averages] | None:
    """Win shares and macro averages with intervals for other benchmarks, where theirs are for other instances."""
    if method != "instances within benchmarks":
        return None
    share, macro = (averages_of_benchmarks(one, measured.weights) for one in (measured.shares, measured.values))
    return _rounded(share), _rounded(macro)


def _rounded(averages: Averages) -> Averages:
    """Cut off what depends on the order of sums."""
    return Averages(*(np.round(one, DECIMALS) for one in averages))


def _of_cells(macro: Averages, measured: LeaderboardMeasures, table: Table) -> Averages:
    """With one benchmark the interval of the macro average is that of the cell."""
    (column,) = measured.columns
    low, high = macro.low.copy(), macro.high.copy()
    for i, model in enumerate(measured.models):
        cell = table[column.benchmark].get(model)
        if cell is not None and cell.estimate is not None:
            ends = sorted((column.normalize(cell.estimate.low), column.normalize(cell.estimate.high)))
            low[i], high[i] = min(ends[0], macro.value[i]), max(ends[1], macro.value[i])
    return Averages(macro.value, low, high)


def _guarded_shares(measured: LeaderboardMeasures) -> Floats:
    """Win shares with missing benchmarks counted as losses to all that have one; nan where there are none."""
    shares, n = measured.rank_shares, len(measured.models)
    if n < 2 or np.isnan(shares).all():
        return np.full(n, np.nan)
    if measured.panel is not None:
        table = guarded_panel_shares(shares, measured.values, measured.panel)
        return np.round(row_means(table, measured.weights), DECIMALS)
    present = ~np.isnan(measured.values)
    any_value = present.any(axis=0)
    rivals = np.maximum(present.sum(axis=0) - 1, 0)
    lacking = n - 1 - rivals
    won = np.nan_to_num(shares, nan=0.5)  # no instance in common with a rival: neither won nor lost
    guarded = np.where(present, (won * rivals + lacking) / (n - 1), (lacking - 1) / 2 / (n - 1))
    return np.round(row_means(np.where(any_value, guarded, np.nan), measured.weights), DECIMALS)


def _ranking(measured: LeaderboardMeasures, guarded_share: Floats, scoring: Rule) -> tuple[RankedBy, list[float]]:
    """Return the number that ranks, and a sort key per model, lowest for the best."""
    if int(has_any_value(measured.values).sum()) == 1:
        return "mean score", np.nan_to_num(-measured.macros, nan=1.0).tolist()
    if scoring == "corrected" and not np.isnan(guarded_share).all():
        return "win share", np.nan_to_num(-guarded_share).tolist()
    return "win rate", np.nan_to_num(-measured.guarded).tolist()


def rank_bounds(
    measured: LeaderboardMeasures, table: Table, numbers: Sequence[BenchmarkNumbers | None], scoring: Rule
) -> dict[str, tuple[int, int]]:
    """Model -> its rank if each of its missing scores were the best, and if each were the worst.

    One model at a time, so that the others lose or win what it gained or lost; for those with missing scores, unless
    they are many.

    Parameters: numbers, as in `measure_instances`; empty if averages go by benchmarks.
    """
    kept = {
        i: np.array([1 - cells[model].share_missing if model in cells else 1.0 for cells in _cells_of(measured, table)])
        for i, model in enumerate(measured.models)
    }
    lacking = [i for i, shares in kept.items() if (shares < 1).any()]
    if len(lacking) > MOST_LACKING:
        return {}
    found = {}
    for i in lacking:
        best, worst = (_rank_with(measured, numbers, i, kept[i], score, scoring) for score in (1.0, 0.0))
        found[measured.models[i]] = (best, worst)
    return found


def _rank_with(
    measured: LeaderboardMeasures,
    numbers: Sequence[BenchmarkNumbers | None],
    i: int,
    kept: Floats,
    score: float,
    scoring: Rule,
) -> int:
    """Rank of model i with a score, 0..1, in place of each missing one. `kept`: its share of scores per benchmark."""
    values, shares = measured.values.copy(), measured.rank_shares.copy()
    values[i] = values[i] * kept + score * (1 - kept)
    for j in np.flatnonzero((kept < 1) & ~np.isnan(shares[i])).tolist():
        if (one := numbers[j]) is not None:
            shares[:, j] = row_means(one.load().completed(i, score).win_shares(measured.panel))
    changed = replace(
        measured,
        values=values,
        rank_shares=shares,
        guarded=_guarded_rates(values, measured.weights, measured.panel),
        macros=np.round(row_means(values, measured.weights), DECIMALS),
    )
    _, keys = _ranking(changed, _guarded_shares(changed), scoring)
    return 1 + sum(key < keys[i] for key in keys)


def _cells_of(measured: LeaderboardMeasures, table: Table) -> list[Mapping[str, Cell]]:
    """The cells of each benchmark, in order."""
    return [table[column.benchmark] for column in measured.columns]


def _known(value: float) -> float | None:
    """A number, or None for nan."""
    return None if np.isnan(value) else float(value)


def _average(averages: Averages, i: int, sd: float | None) -> Average | None:
    """One model's average; None if it has none."""
    value, low, high = (_known(one[i]) for one in averages)
    return None if value is None else Average(value=value, low=low, high=high, sd=sd)


def _macro_bounds(cells: Mapping[str, Cell], columns: Sequence[Column], weights: Floats) -> tuple[float, float] | None:
    """Macro average with all missing scores the worst, and the best; None if nothing is missing."""
    sums, total, is_missing = [0.0, 0.0], 0.0, False
    for column, weight in zip(columns, weights.tolist(), strict=True):
        cell = cells.get(column.benchmark)
        if cell is None or cell.value is None:
            continue
        bounds = cell.bounds(column)
        is_missing |= bounds is not None
        total += weight
        for place, value in enumerate(bounds or (cell.value, cell.value)):
            sums[place] += weight * column.normalize(value)
    return (sums[0] / total, sums[1] / total) if is_missing else None


def _cost(cells: Iterable[Cell]) -> float | None:
    """Sum of the costs; None if one is unknown."""
    costs = [cell.cost_usd for cell in cells]
    known = [cost for cost in costs if cost is not None]
    return math.fsum(known) if known and len(known) == len(costs) else None


def _groups(names: Sequence[str]) -> dict[str, NDArray[np.bool_]]:
    """Group -> which benchmarks are in it, by name."""
    return {group: np.array([name == group for name in names]) for group in sorted(set(names))}


def _group_means(values: Floats, weights: Floats, groups: Mapping[str, NDArray[np.bool_]]) -> dict[str, GroupMean]:
    """Group -> weighted mean of one model's normalized values, shape (n_benchmarks,), in it."""
    means = {}
    is_known = ~np.isnan(values)
    for group, members in groups.items():
        own = members & is_known
        known, own_weights = values[own], weights[own]
        mean = float(known @ own_weights / own_weights.sum()) if len(known) else None
        means[group] = GroupMean(value=mean, n_benchmarks=len(known))
    return means
