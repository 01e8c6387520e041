"""The leaderboard: who does best, how sure that is, on how many benchmarks, at what cost.

    win rate        mean, over benchmarks, of the share of rivals beaten; a tie counts one half
    its SD          population SD, over rivals, of the share of benchmarks won strictly
    macro average   unweighted mean of benchmark values, each normalised to 0..1 by the scale of its metric
    its SD          sample SD of those values over benchmarks
    category        unweighted mean of its benchmarks' normalised values; a subcategory alike

The first four are those of table 1 of the MedHELM paper (Bedi et al. 2025). A metric where lower is better is turned
round when it is normalised, so that 1 is best everywhere. Models are compared on the benchmarks they have; `coverage`
and a warning tell who lacks some.

Intervals of averages come from 1000 draws. Where every score is known, instances are resampled within each benchmark,
the same for all models: they tell what other questions of the same kind would give on these benchmarks. Where only
means are known, benchmarks are resampled: another question, and named so in `interval_method`. Tie groups compare two
models at a time at the 5 % level, without adjustment for the number of pairs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from medhelm.analysis import remarks
from medhelm.analysis.alignment import AlignedScores, align
from medhelm.analysis.board import Average, Cell, Column, GroupMean, Leaderboard, Row
from medhelm.analysis.resampling import Floats
from medhelm.analysis.statistics import minimum_detectable_effect
from medhelm.analysis.win_rates import (
    DECIMALS,
    draw_benchmarks,
    draw_instances,
    interval,
    ranks,
    rival_spread,
    row_means,
    tie_groups,
    told_apart,
    win_table,
)
from medhelm.domain import Rule, Tier
from medhelm.errors import UserError

DRAWS = 1000
"""How often averages are drawn anew for their intervals."""


def build(
    cells: Iterable[Cell],
    columns: Iterable[Column],
    *,
    rng: np.random.Generator,
    benchmarks: Sequence[str] | None = None,
    draws: int = DRAWS,
    suite: str = "all",
    scoring: Rule = "corrected",
    tier: Tier = "real",
) -> Leaderboard:
    """Rank the models. The order of cells and columns does not change a number.

    Parameters: cells, one per model and benchmark; columns, one per benchmark of the cells; benchmarks, ids to keep, in
    the order to show them, None for all; suite, scoring and tier, carried along for readers.
    Raises: UserError for two cells or columns of the same place, a cell without a column, or a scale without bounds.
    """
    table = _table(cells)
    described = _describe(columns, table)
    wanted = list(dict.fromkeys(described if benchmarks is None else benchmarks))
    shown = [described[name] for name in wanted if name in table and name in described]
    ordered = sorted(shown, key=lambda column: column.benchmark)
    models = sorted({model for column in shown for model in table[column.benchmark]})
    aligned = {c.benchmark: align(table[c.benchmark], c, models) for c in ordered if _has_scores(table[c.benchmark])}
    by_instance = bool(shown) and all(_all_scored(table[column.benchmark]) for column in shown)
    values = _values(models, ordered, table)
    if not shown:
        drawn = (np.empty((draws, 0)), np.empty((draws, 0)))
    elif by_instance:
        drawn = draw_instances([aligned[column.benchmark] for column in ordered], draws, rng)
    else:
        drawn = draw_benchmarks(values, draws, rng)
    rows, pairs = _rank(models, ordered, table, values, drawn)
    method = "instances within benchmarks" if by_instance else "benchmarks"
    absent = [name for name in wanted if name not in table] if benchmarks is not None else []
    return Leaderboard(
        rows=tuple(rows),
        columns=tuple(shown),
        mde={c.benchmark: _mde(aligned.get(c.benchmark)) for c in shown},
        interval_method=method,
        told_apart=pairs,
        warnings=tuple(remarks.all_remarks(rows, shown, aligned, absent, pairs, method, tier)),
        suite=suite,
        scoring=scoring,
        tier=tier,
    )


def _table(cells: Iterable[Cell]) -> dict[str, dict[str, Cell]]:
    """Benchmark -> model -> cell."""
    table: dict[str, dict[str, Cell]] = {}
    for cell in cells:
        row = table.setdefault(cell.benchmark, {})
        if cell.model in row:
            raise UserError(f"{cell.model} has two results on {cell.benchmark}. Choose one of them.")
        row[cell.model] = cell
    return table


def _describe(columns: Iterable[Column], table: Mapping[str, object]) -> dict[str, Column]:
    """Benchmark -> column, checked."""
    described: dict[str, Column] = {}
    for column in columns:
        if described.setdefault(column.benchmark, column) != column:
            raise UserError(f"{column.benchmark} is described in two ways: one metric and one scale per benchmark.")
        if not (math.isfinite(column.low) and math.isfinite(column.high) and column.low < column.high):
            scale = f"{column.low} to {column.high}"
            raise UserError(f"{column.benchmark}: metric {column.metric} has the scale {scale}; averages need bounds.")
    unknown = sorted(set(table) - set(described))
    if unknown:
        raise UserError(f"No column describes {', '.join(unknown)}: title, category and metric are needed.")
    return described


def _has_scores(cells: Mapping[str, Cell]) -> bool:
    """Whether any model's single scores are known."""
    return any(cell.scores is not None for cell in cells.values())


def _all_scored(cells: Mapping[str, Cell]) -> bool:
    """Whether the single scores behind every value are known."""
    return all(cell.value is None or cell.scores is not None for cell in cells.values())


def _values(models: Sequence[str], columns: Sequence[Column], table: Mapping[str, Mapping[str, Cell]]) -> Floats:
    """Normalised values, shape (n_models, n_benchmarks), nan where a model has none."""
    values = np.full((len(models), len(columns)), np.nan)
    for i, model in enumerate(models):
        for j, column in enumerate(columns):
            cell = table[column.benchmark].get(model)
            if cell is not None and cell.value is not None:
                values[i, j] = column.normalise(cell.value)
    return values


def _mde(aligned: AlignedScores | None) -> float | None:
    """Minimum detectable effect of one benchmark on the 0..1 scale."""
    return None if aligned is None else minimum_detectable_effect(aligned.scores, aligned.codes)


def _rank(
    models: Sequence[str],
    columns: Sequence[Column],
    results: Mapping[str, Mapping[str, Cell]],
    values: Floats,
    drawn: tuple[Floats, Floats],
) -> tuple[list[Row], frozenset[tuple[str, str]]]:
    """Rows in order of rank, and the pairs of models that can be told apart."""
    win_rates, macros = (np.round(row_means(table), DECIMALS) for table in (win_table(values), values))
    spread = rival_spread(values)
    keys = [_key(float(win), float(macro)) for win, macro in zip(win_rates, macros, strict=True)]
    order = sorted(range(len(models)), key=lambda i: (*keys[i], -np.nan_to_num(macros[i]), models[i]))
    apart = told_apart(drawn[0][:, order], win_rates[order])
    places, groups = ranks([keys[i] for i in order]), tie_groups(apart)
    rows = []
    for place, group, i in zip(places, groups, order, strict=True):
        own = values[i][~np.isnan(values[i])]
        macro_sd = float(own.std(ddof=1)) if len(own) > 1 else None
        cells = {c.benchmark: results[c.benchmark][models[i]] for c in columns if models[i] in results[c.benchmark]}
        rows.append(
            Row(
                model=models[i],
                rank=place,
                rank_low=place,
                rank_high=place,
                tie_group=group,
                win_rate=_average(win_rates[i], drawn[0][:, i], None if np.isnan(spread[i]) else float(spread[i])),
                macro_average=_average(macros[i], drawn[1][:, i], macro_sd),
                n_benchmarks=len(own),
                coverage=len(own) / len(columns),
                cost_usd=_cost(cells.values()),
                cells=cells,
                categories=_group_means(values[i], [c.category for c in columns]),
                subcategories=_group_means(values[i], [c.subcategory for c in columns]),
            )
        )
    names = [row.model for row in rows]
    pairs = frozenset((names[i], names[j]) for i, j in np.argwhere(np.triu(apart)))
    return rows, pairs


def _key(win_rate: float, macro: float) -> tuple[bool, float]:
    """What decides the rank: the win rate; models without one come last, by macro average."""
    if np.isnan(win_rate):
        return True, -float(np.nan_to_num(macro))
    return False, -win_rate


def _average(value: float, draws: Floats, sd: float | None) -> Average | None:
    """An average with its interval within 0..1; None if there is none."""
    if np.isnan(value):
        return None
    low, high = interval(draws, float(value))
    return Average(
        value=float(value), low=min(max(low, 0.0), float(value)), high=max(min(high, 1.0), float(value)), sd=sd
    )


def _cost(cells: Iterable[Cell]) -> float | None:
    """Sum of the costs; None if one is unknown."""
    costs = [cell.cost_usd for cell in cells]
    known = [cost for cost in costs if cost is not None]
    return math.fsum(known) if known and len(known) == len(costs) else None


def _group_means(values: Floats, groups: Sequence[str]) -> dict[str, GroupMean]:
    """Group -> mean of one model's normalised values, shape (n_benchmarks,), in it."""
    means = {}
    for group in sorted(set(groups)):
        own = values[[name == group for name in groups]]
        own = own[~np.isnan(own)]
        means[group] = GroupMean(value=float(own.mean()) if len(own) else None, n_benchmarks=len(own))
    return means
