"""The leaderboard: win shares, win rates, averages, ranks and ties over a set of benchmarks.

    win share         mean, over instances and then over benchmarks, of the share of rivals that the model's answer
                      beats; a tie counts one half (a probabilistic index: Acion et al. 2006, Stat. Med. 25)
    win rate          mean, over benchmarks, of the share of rivals whose mean is beaten; a tie counts one half
    its SD            population SD, over rivals, of the share of benchmarks won strictly
    macro average     mean of benchmark values, each normalized to 0..1 by the scale of its metric
    its SD            sample SD of those values over benchmarks
    category          mean of the normalized values of its benchmarks; a subcategory likewise
    guarded ...       a win share or win rate with every missing benchmark counted as a loss

All means over benchmarks are weighted; every benchmark has the weight 1 unless a suite gives another. Without weights
win rate, macro average and their SDs are those of table 1 of the MedHELM paper (Bedi et al. 2025). Normalization
reverses a metric where lower is better, so that 1 is always the best value.

Ranks go by the guarded win share. The win rate is shown as the paper defines it, and does not rank: it counts signs of
differences, however small, so that no interval around it can be trusted (Hall and Miller 2009, Ann. Stat. 37). Where
instance scores are not known, and with published scoring, the guarded win rate ranks; with one benchmark, its mean.

Two models are separated if their difference is significant after Holm correction for all pairs on the board, by the
paired test of `comparison.all_pairs`. The places a model can have follow from that: below all that are significantly
better, above all that are significantly worse (Mogstad, Romano, Shaikh and Wilhelm 2024, Rev. Econ. Stud. 91).

With a panel of models win shares, win rates and ranks are against its members alone; see `panel`. Tests stay the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from medhelm.analysis.comparison.all_pairs import MOST_MODELS, AlignedBenchmark, AllPairs, compare_aligned
from medhelm.analysis.cost.use import KeptTimes
from medhelm.analysis.leaderboard.benchmark_numbers import BenchmarkNumbers, ScoredBenchmarks
from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.analysis.leaderboard.frontier import cost_frontier
from medhelm.analysis.leaderboard.panel import find_members
from medhelm.analysis.leaderboard.remarks import RemarkContext, all_remarks
from medhelm.analysis.leaderboard.rows import (
    LeaderboardMeasures,
    Table,
    add_ranks,
    make_rows,
    measure,
    measure_instances,
    rank_bounds,
    rank_order,
)
from medhelm.analysis.leaderboard.types import IntervalUnit, Leaderboard, Row
from medhelm.analysis.leaderboard.verdict import verdict
from medhelm.analysis.statistics.numbers_cache import NumbersCache
from medhelm.domain import Rule, Tier
from medhelm.domain.remark import Remark
from medhelm.errors import UserError

BASELINE = "baseline/"
"""Beginning of the names of baselines."""

Resample = Literal["instances", "benchmarks", "none"]
"""Unit to resample."""


def build_leaderboard(
    cells: Iterable[Cell],
    columns: Iterable[Column],
    *,
    benchmarks: Sequence[str] | None = None,
    shared: bool = False,
    resample: Resample | None = None,
    rank_baselines: bool = False,
    panel: Sequence[str] = (),
    suite: str = "all",
    scoring: Rule = "corrected",
    tier: Tier = "real",
    cache: NumbersCache | None = None,
) -> Leaderboard:
    """Rank the models. The order of cells and columns does not change a number.

    Parameters: cells, one per model and benchmark; columns, one per benchmark of the cells; benchmarks, ids to keep, in
    the order to show them, None for all; shared, whether to keep only those on which every model has a value; resample,
    the unit of intervals and tests, None for instances where all scores are known, else benchmarks; rank_baselines,
    whether baselines compete, as they do where there is nothing else; panel, models that win shares and win rates are
    against, none for the other models on the board; suite, scoring and tier, carried along for readers;
    cache, where numbers of single benchmarks are kept.
    Raises: UserError for two cells or columns of the same place, a cell without a column, a scale or weight that is
    none, instances as the unit where scores are not known, models that share no benchmark, or an unknown panel model.
    """
    chosen = _select(cells, columns, benchmarks, shared=shared, rank_baselines=rank_baselines)
    table, shown = chosen.table, chosen.columns
    models, by_id = chosen.models, sorted(shown, key=lambda column: column.benchmark)
    measured = measure(models, by_id, table)
    every = ScoredBenchmarks(models, by_id, table, cache).numbers(with_pairs=True)
    method = _method(resample, measured, table, every)
    numbers = every if method == "instances within benchmarks" else []
    measured, tested = measure_instances(measured, numbers), method != "nothing" and len(models) <= MOST_MODELS
    pairs = _test_pairs(measured, numbers, rank_order(measured, scoring), tuple(shown)) if tested else None
    if panel:
        members = find_members(panel, models, chosen.baselines)
        measured = measure_instances(measure(models, by_id, table, members), numbers)
    times = KeptTimes(cache)
    rows, ranked_by = make_rows(measured, table, method, scoring, times)
    times.save()
    bounds = rank_bounds(measured, table, numbers, scoring)
    rows = [replace(row, rank_bounds=bounds.get(row.model)) for row in rows]
    described = list(zip(by_id, every, strict=True))
    board = Leaderboard(
        rows=tuple(add_ranks(rows, pairs, tested=tested)),
        columns=tuple(shown),
        mde=_detectable(described, pairs),
        interval_method=method,
        ranked_by=ranked_by,
        pairs=pairs,
        panel=tuple(dict.fromkeys(panel)) or None,
        frontier=cost_frontier(rows, by_id, numbers, pairs, method if tested else "nothing"),
        baselines=_baseline_rows(chosen.baselines, by_id, method, cache),
        suite=suite,
        scoring=scoring,
        tier=tier,
    )
    return replace(board, remarks=tuple(_remarks(board, chosen, described)), verdict=tuple(verdict(board)))


def _remarks(
    board: Leaderboard, chosen: _Selection, described: Sequence[tuple[Column, BenchmarkNumbers | None]]
) -> list[Remark]:
    """Return the remarks on a leaderboard, on what was left out of it and on the instances of each benchmark."""
    context = RemarkContext(
        absent=chosen.absent,
        not_shared=chosen.not_shared,
        only_baselines=chosen.only_baselines,
        differing=[column.benchmark for column, one in described if one and not one.same_instances],
        single=[column.benchmark for column, one in described if one and one.n_clusters == 1],
    )
    return list(all_remarks(board, context))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Selection:
    """Cells and columns of a leaderboard, and what is left out."""

    table: Table
    """Benchmark -> model -> cell of a model that competes."""
    baselines: Sequence[Cell]
    """Cells of baselines that do not compete."""
    columns: Sequence[Column]
    """Benchmarks to show, in order."""
    absent: Sequence[str]
    """Requested benchmarks without a result."""
    only_baselines: Sequence[str]
    """Requested benchmarks that only baselines have."""
    not_shared: Sequence[str]
    """Benchmarks without a value of every model, if those are left out."""

    @property
    def models(self) -> list[str]:
        """Models that compete, by name."""
        return sorted({model for column in self.columns for model in self.table[column.benchmark]})


def _select(
    cells: Iterable[Cell],
    columns: Iterable[Column],
    benchmarks: Sequence[str] | None,
    *,
    shared: bool,
    rank_baselines: bool,
) -> _Selection:
    """Select cells and columns; parameters and errors as `build_leaderboard`."""
    ranked, baselines = _split(cells, rank_baselines)
    table = _table(ranked)
    known = {**table, **_table(baselines)}
    described = _describe(columns, known)
    wanted = list(dict.fromkeys(described if benchmarks is None else benchmarks))
    found = [described[name] for name in wanted if name in table and name in described]
    shown = _shared(found, table) if shared else found
    return _Selection(
        table=table,
        baselines=baselines,
        columns=shown,
        absent=[] if benchmarks is None else [name for name in wanted if name not in known],
        only_baselines=sorted({cell.benchmark for cell in baselines if cell.benchmark not in table} & set(wanted)),
        not_shared=[column.benchmark for column in found if column not in shown],
    )


def _split(cells: Iterable[Cell], rank_baselines: bool) -> tuple[list[Cell], list[Cell]]:
    """Return the cells of models that compete, and those of baselines that do not."""
    given = list(cells)
    ranked = given if rank_baselines else without_baselines(given)
    names = {cell.model for cell in ranked}
    return ranked, [cell for cell in given if cell.model not in names]


def _test_pairs(
    measured: LeaderboardMeasures,
    numbers: Sequence[BenchmarkNumbers | None],
    order: Sequence[int],
    shown: tuple[Column, ...],
) -> AllPairs | None:
    """Test every two models, in this order; None if there is one. `numbers`: empty to test over benchmarks."""
    if len(order) < 2:
        return None
    known = zip(measured.columns, numbers or [None] * len(measured.columns), strict=True)
    compared = [one.as_compared(column) if one else AlignedBenchmark(column, None) for column, one in known]
    models, values = measured.models, measured.values
    found = compare_aligned(models, compared, values, kept=shown, macro_averages=False, single_benchmarks=False)
    return found.reordered(order)


def rank_models(cells: Sequence[Cell], columns: Sequence[Column], scoring: Rule = "corrected") -> list[str]:
    """Return the models in the order of the leaderboard, without testing anything. Raises: as `build_leaderboard`."""
    table = _table(cells)
    described = _describe(columns, table)
    shown = sorted((described[name] for name in table), key=lambda column: column.benchmark)
    measured = measure(sorted({model for row in table.values() for model in row}), shown, table)
    numbers = ScoredBenchmarks(measured.models, shown, table).numbers(with_pairs=False)
    if _method(None, measured, table, numbers) == "instances within benchmarks":
        measured = measure_instances(measured, numbers)
    return [measured.models[i] for i in rank_order(measured, scoring)]


def without_baselines(cells: Sequence[Cell], *, keep: Sequence[str] = ()) -> list[Cell]:
    """Return the cells of models that compete: no baselines but those named, or all cells if there is nothing else."""
    competing = [cell for cell in cells if not cell.model.startswith(BASELINE)]
    named = [cell for cell in cells if cell.model.startswith(BASELINE) and cell.model in keep]
    return [*competing, *named] if competing else list(cells)


def _baseline_rows(
    cells: Sequence[Cell], columns: Sequence[Column], method: IntervalUnit, cache: NumbersCache | None
) -> tuple[Row, ...]:
    """Rows of baselines on the benchmarks of the board, by macro average: no ranks, no win shares, no win rates."""
    table = {name: row for name, row in _table(cells).items() if any(name == c.benchmark for c in columns)}
    models = sorted({model for row in table.values() for model in row})
    if not models:
        return ()
    measured = measure(models, columns, _every(table, columns))
    numbers = ScoredBenchmarks(models, columns, _every(table, columns), cache).numbers(with_pairs=False)
    if method == "instances within benchmarks":
        has = [bool(table.get(column.benchmark)) for column in columns]
        is_known = all(one is not None for one, here in zip(numbers, has, strict=True) if here)
        method = method if is_known else "nothing"
        measured = measure_instances(measured, numbers) if is_known else measured
    rows, _ = make_rows(measured, _every(table, columns), method, "corrected")
    bare = [
        replace(row, rank=None, win_share=None, win_rate=None, guarded_win_rate=None, guarded_win_share=None)
        for row in rows
    ]
    return tuple(sorted(bare, key=lambda row: -(row.macro_average.value if row.macro_average else 0.0)))


def _every(table: Table, columns: Sequence[Column]) -> Table:
    """The table with an entry for every column."""
    return {column.benchmark: table.get(column.benchmark, {}) for column in columns}


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
        if not (math.isfinite(column.weight) and column.weight > 0):
            raise UserError(f"{column.benchmark}: the weight {column.weight} is not a number above 0.")
    unknown = sorted(set(table) - set(described))
    if unknown:
        raise UserError(f"No column describes {', '.join(unknown)}: title, category and metric are needed.")
    return described


def _shared(columns: Sequence[Column], table: Table) -> list[Column]:
    """Columns on which every model has a value."""
    models = {model for column in columns for model in table[column.benchmark]}
    having = {c.benchmark: {m for m, cell in table[c.benchmark].items() if cell.value is not None} for c in columns}
    kept = [column for column in columns if having[column.benchmark] == models]
    if columns and not kept:
        counts = {model: sum(model in own for own in having.values()) for model in sorted(models)}
        fewest = sorted(counts, key=lambda model: counts[model])[:3]
        least = ", ".join(f"{model} has {counts[model]} of {len(columns)}" for model in fewest)
        raise UserError(
            f"no benchmark has a value for all {len(models)} models; {least}. "
            "Leave out --shared, or name a --suite that they have."
        )
    return kept


def _detectable(
    described: Sequence[tuple[Column, BenchmarkNumbers | None]], pairs: AllPairs | None
) -> dict[str, float | None]:
    """Benchmark -> minimum detectable effect; None where scores are not known. Tests that were made have it already."""
    known = {} if pairs is None else pairs.mde
    missing = {
        column.benchmark: one.minimum_detectable_effect() if one else None
        for column, one in described
        if column.benchmark not in known
    }
    return {**known, **missing}


def _method(
    resample: Resample | None,
    measured: LeaderboardMeasures,
    table: Table,
    numbers: Sequence[BenchmarkNumbers | None],
) -> IntervalUnit:
    """Return the unit to resample. Raises UserError for instances whose scores are not known."""
    if resample == "none" or not measured.columns:
        return "nothing" if resample == "none" else "benchmarks"
    place = {model: i for i, model in enumerate(measured.models)}
    lacking = [
        f"{cell.model} on {cell.benchmark}"
        for column, one in zip(measured.columns, numbers, strict=True)
        for cell in table[column.benchmark].values()
        if cell.value is not None
        and (cell.scores is None or one is None or bool(np.isnan(one.scores.mean[place[cell.model]])))
    ]
    if resample == "instances" and lacking:
        more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
        raise UserError(
            f"instances cannot be resampled: the single scores of {lacking[0]}{more} are not known. "
            "`--resample benchmarks` needs means only."
        )
    return "benchmarks" if resample == "benchmarks" or lacking else "instances within benchmarks"
