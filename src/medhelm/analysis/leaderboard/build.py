"""The leaderboard: win rates, averages, ranks and ties, with their intervals, over a set of benchmarks.

    win rate          mean, over benchmarks, of the share of rivals beaten; a tie counts one half
    its SD            population SD, over rivals, of the share of benchmarks won strictly
    macro average     mean of benchmark values, each normalized to 0..1 by the scale of its metric
    its SD            sample SD of those values over benchmarks
    category          mean of the normalized values of its benchmarks; a subcategory likewise
    guarded win rate  the win rate with every missing value counted as a loss: it decides the rank

All means over benchmarks are weighted; every benchmark has the weight 1 unless a suite gives another. Without weights
the first four are those of table 1 of the MedHELM paper (Bedi et al. 2025). Normalization reverses a metric where lower
is better, so that 1 is always the best value.

A win rate compares models only where both have a value. Ranks, their intervals and tie groups use the guarded win rate,
so that no model gains a rank by skipping a hard benchmark. The two are equal if no value is missing. Failed instances
are left out of a benchmark's mean; a remark names the models whose rank could depend on them.

Intervals of averages and ranks are from 1,000 bootstrap resamples. If every instance score is known, instances are
resampled within each benchmark, the same ones for all models: the intervals describe other questions of the same kind.
If only means are known, benchmarks are resampled instead; `interval_method` records which. Tie groups compare two
models at a time at the 5% level, not adjusted for the number of pairs; `significant_pairs_adjusted` is adjusted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.comparison.multiple_testing import holm
from medhelm.analysis.leaderboard.bootstrap import (
    LeaderboardDraws,
    PairwiseTests,
    compare_pairs,
    draw_benchmarks,
    draw_instances,
    sign_flip_p_values,
)
from medhelm.analysis.leaderboard.remarks import RemarkContext, all_remarks
from medhelm.analysis.leaderboard.rows import (
    LeaderboardMeasures,
    Table,
    make_rows,
    measure,
    ranks_if_failures_scored_worst,
)
from medhelm.analysis.leaderboard.types import Cell, Column, Leaderboard, ResampledUnit
from medhelm.analysis.statistics.alignment import AlignedScores, align
from medhelm.analysis.statistics.means import minimum_detectable_effect
from medhelm.domain import Rule, Tier
from medhelm.errors import UserError

DRAWS = 1000
"""Number of bootstrap resamples."""

LEVEL = 0.05
"""Significance level of adjusted p-values."""

Resample = Literal["instances", "benchmarks", "none"]
"""Unit to resample."""


def build_leaderboard(
    cells: Iterable[Cell],
    columns: Iterable[Column],
    *,
    rng: np.random.Generator,
    benchmarks: Sequence[str] | None = None,
    shared: bool = False,
    resample: Resample | None = None,
    draws: int = DRAWS,
    suite: str = "all",
    scoring: Rule = "corrected",
    tier: Tier = "real",
) -> Leaderboard:
    """Rank the models. The order of cells and columns does not change a number.

    Parameters: cells, one per model and benchmark; columns, one per benchmark of the cells; benchmarks, ids to keep, in
    the order to show them, None for all; shared, whether to keep only those on which every model has a value; resample,
    what is drawn for intervals, None for instances where all scores are known, else benchmarks; suite, scoring and
    tier, carried along for readers.
    Raises: UserError for two cells or columns of the same place, a cell without a column, a scale without bounds, a
    weight that is none, instances to be resampled that are not known, or models that share no benchmark.
    """
    table = _table(cells)
    described = _describe(columns, table)
    wanted = list(dict.fromkeys(described if benchmarks is None else benchmarks))
    found = [described[name] for name in wanted if name in table and name in described]
    shown = _shared(found, table) if shared else found
    models = sorted({model for column in shown for model in table[column.benchmark]})
    measured = measure(models, sorted(shown, key=lambda column: column.benchmark), table)
    method = _method(resample, measured, table)
    instances = _Instances(measured, table)
    drawn = _draw(measured, instances, method, draws, rng)
    pairs = compare_pairs(drawn, measured.guarded) if drawn and len(models) > 1 else None
    if pairs and method == "benchmarks":
        pairs = replace(pairs, p_values=sign_flip_p_values(measured.values, measured.weights, rng))
    one_group = None if drawn is None else np.zeros((len(models), len(models)), dtype=np.bool_)
    rows, order = make_rows(measured, table, drawn, pairs.rank_significant if pairs else one_group)
    board = Leaderboard(
        rows=tuple(rows),
        columns=tuple(shown),
        mde={column.benchmark: instances.mde.get(column.benchmark) for column in shown},
        interval_method=method,
        significant_pairs=_named(measured, order, pairs.significant) if pairs else frozenset(),
        significant_pairs_adjusted=_named(measured, order, pairs.significant & _significant(pairs))
        if pairs
        else frozenset(),
        suite=suite,
        scoring=scoring,
        tier=tier,
    )
    context = RemarkContext(
        absent=[name for name in wanted if name not in table] if benchmarks is not None else [],
        not_shared=[column.benchmark for column in found if column not in shown],
        differing=instances.differing,
        single=instances.single,
        if_failures_were_worst=ranks_if_failures_scored_worst(measured, table),
        draws=draws,
    )
    return replace(board, remarks=tuple(all_remarks(board, context)))


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


def _method(resample: Resample | None, measured: LeaderboardMeasures, table: Table) -> ResampledUnit:
    """Return the unit to resample. Raises UserError for instances whose scores are not known."""
    if resample == "none" or not measured.columns:
        return "nothing" if resample == "none" else "benchmarks"
    lacking = [
        f"{cell.model} on {cell.benchmark}"
        for column in measured.columns
        for cell in table[column.benchmark].values()
        if cell.value is not None and (cell.scores is None or bool(np.isnan(cell.scores).all()))
    ]
    if resample == "instances" and lacking:
        more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
        raise UserError(
            f"instances cannot be resampled: the single scores of {lacking[0]}{more} are not known. "
            "`--resample benchmarks` needs means only."
        )
    return "benchmarks" if resample == "benchmarks" or lacking else "instances within benchmarks"


class _Instances:
    """Instance scores, one benchmark at a time, and findings about them."""

    def __init__(self, measured: LeaderboardMeasures, table: Table) -> None:
        self._measured, self._table = measured, table
        self.mde: dict[str, float | None] = {}
        self.differing: list[str] = []
        self.single: list[str] = []

    def each(self) -> Iterator[AlignedScores | None]:
        """Scores on each benchmark, in order; None where none are known. To be walked through once."""
        for column in self._measured.columns:
            cells = self._table[column.benchmark]
            if all(cell.scores is None for cell in cells.values()):
                yield None
                continue
            aligned = align(cells, column, self._measured.models)
            self.mde[column.benchmark] = minimum_detectable_effect(aligned.scores, aligned.codes)
            if not aligned.same_instances:
                self.differing.append(column.benchmark)
            if aligned.k == 1:
                self.single.append(column.benchmark)
            yield aligned


def _draw(
    measured: LeaderboardMeasures, instances: _Instances, method: ResampledUnit, draws: int, rng: np.random.Generator
) -> LeaderboardDraws | None:
    """Draw what is to be drawn, and look at all single scores that are known."""
    if method == "instances within benchmarks":
        known = (aligned for aligned in instances.each() if aligned is not None)
        return draw_instances(known, measured.values, measured.weights, draws, rng)
    for _ in instances.each():
        pass
    if method == "nothing" or not measured.columns:
        return None
    return draw_benchmarks(measured.values, measured.weights, draws, rng)


def _significant(pairs: PairwiseTests) -> NDArray[np.bool_]:
    """Pairs whose p-values are small even when their number is taken into account."""
    places = np.triu_indices(len(pairs.p_values), 1)
    small = np.zeros(pairs.p_values.shape, dtype=np.bool_)
    small[places] = np.array(holm(pairs.p_values[places].tolist())) < LEVEL
    return small | small.T


def _named(measured: LeaderboardMeasures, order: Sequence[int], apart: NDArray[np.bool_]) -> frozenset[tuple[str, str]]:
    """Pairs of names, better one first."""
    models = measured.models
    return frozenset((models[i], models[j]) for at, i in enumerate(order) for j in order[at + 1 :] if apart[i, j])
