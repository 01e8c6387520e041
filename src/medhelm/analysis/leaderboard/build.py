"""The leaderboard: win shares, win rates, averages, ranks and ties over a set of benchmarks.

    win share         mean, over instances and then over benchmarks, of the share of rivals that the model's answer
                      beats; a tie counts one half (a probabilistic index: Acion et al. 2006, Stat. Med. 25)
    win rate          mean, over benchmarks, of the share of rivals whose mean is beaten; a tie counts one half
    its SD            population SD, over rivals, of the share of benchmarks won strictly
    macro average     mean of benchmark values, each normalized to 0..1 by the scale of its metric
    its SD            sample SD of those values over benchmarks
    category          mean of the normalized values of its benchmarks; the same for subcategories
    adjusted average  macro average as if every model had every benchmark: `comparison.adjusted_means`

All means over benchmarks are weighted; every benchmark has the weight 1 unless a suite gives another. Without weights
win rate, macro average and their SDs are those of table 1 of the MedHELM paper (Bedi et al. 2025). Normalization
reverses a metric where lower is better, so that 1 is always the best value.

Ranks go by the adjusted average, which equals the macro average if no model lacks a benchmark. The win rate is shown as
the paper defines it: it counts signs of differences, however small, so that no interval around it can be trusted (Hall
and Miller 2009, Ann. Stat. 37). It ranks where instance scores are not known, and with published scoring, adjusted in
the same way. Models that no shared benchmark links to the others have no rank.

Two models are separated if win shares and macro averages differ in one direction, both significantly after Holm
correction for all pairs on the board (`comparison.pairs`), whatever the missing scores would have been. The places a
model can have follow from that: below all that are significantly better, above all that are significantly worse
(Mogstad, Romano, Shaikh and Wilhelm 2024, Rev. Econ. Stud. 91).

With a panel of models win shares and win rates are against its members alone; see `averages`. Tests stay the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from medhelm.analysis.comparison.pairs import MOST_MODELS, AlignedBenchmark, AllPairs, compare_aligned
from medhelm.analysis.leaderboard.averages import BenchmarkNumbers, ScoredBenchmarks, find_members
from medhelm.analysis.leaderboard.cells import Cell, Column, has_any_value
from medhelm.analysis.leaderboard.findings import RemarkContext, all_remarks, verdict
from medhelm.analysis.leaderboard.rows import (
    LeaderboardMeasures,
    Table,
    add_ranks,
    cost_frontier,
    make_rows,
    measure,
    measure_instances,
    rank_bounds,
    rank_order,
)
from medhelm.analysis.leaderboard.types import IntervalUnit, Leaderboard, RankedBy, Row
from medhelm.analysis.means import in_background
from medhelm.domain import Rule, Tier
from medhelm.domain.ranking import USUAL_RANKING, RankingOptions
from medhelm.domain.result import Resample
from medhelm.domain.text import as_names
from medhelm.errors import UserError

BASELINE = "baseline/"
"""Beginning of the names of baselines."""


def build_leaderboard(
    cells: Iterable[Cell],
    columns: Iterable[Column],
    *,
    benchmarks: Sequence[str] | None = None,
    options: RankingOptions = USUAL_RANKING,
    suite: str = "all",
    scoring: Rule = "corrected",
    tier: Tier = "real",
) -> Leaderboard:
    """Rank the models. The order of cells and columns does not change a number.

    Parameters: cells, one per model and benchmark; columns, one per benchmark of the cells; benchmarks, ids to keep, in
    the order to show them, None for all; options, among them whether baselines compete, as they do where there is
    nothing else; suite, scoring and tier, shown with the result.
    Raises: UserError for two cells or columns of the same place, a cell without a column, an invalid scale or weight,
    instances as the unit where scores are not known, models that share no benchmark, or an unknown panel model.
    """
    selection = _select(cells, columns, benchmarks, shared=options.shared, rank_baselines=options.rank_baselines)
    table, models = selection.table, selection.models
    columns = sorted(selection.columns, key=lambda column: column.benchmark)
    # Averages, win shares and their variances, from the scores of one benchmark at a time
    all_numbers = ScoredBenchmarks(models, columns, table).numbers(with_pairs=True)
    measures = measure(models, columns, table)
    unit = _interval_unit(options.resample, measures, table, all_numbers)
    numbers = all_numbers if unit == "instances within benchmarks" else []
    measures = measure_instances(measures, numbers)
    # Tests of every two models; a panel changes what models are compared with, not the tests
    is_tested = unit != "nothing" and len(models) <= MOST_MODELS and bool(has_any_value(measures.values).any())
    test = partial(_test_pairs, measures, numbers, scoring, selection.columns)
    size = len(models) ** 2 * len(columns)
    with in_background(test if is_tested else lambda: None, size=size) as tested_pairs:
        if panel := as_names(options.panel, "panel"):
            members = find_members(panel, models, selection.baselines)
            measures = measure_instances(measure(models, columns, table, members), numbers)
        rows, ranked_by = _ranked_rows(measures, table, unit, scoring)
        pairs = tested_pairs()
    board = Leaderboard(
        rows=tuple(add_ranks(rows, pairs) if is_tested else rows),
        columns=selection.columns,
        mde=_detectable_effects(columns, all_numbers, pairs),
        interval_method=unit,
        ranked_by=ranked_by,
        pairs=pairs,
        panel=tuple(dict.fromkeys(panel)) or None,
        frontier=cost_frontier(rows, columns, pairs, unit if is_tested else "nothing"),
        baselines=_baseline_rows(selection.baselines, columns, unit),
        suite=suite,
        scoring=scoring,
        tier=tier,
    )
    context = _remark_context(selection, columns, all_numbers)
    return replace(board, remarks=tuple(all_remarks(board, context)), verdict=tuple(verdict(board)))


def _ranked_rows(
    measures: LeaderboardMeasures,
    table: Mapping[str, Mapping[str, Cell]],
    unit: IntervalUnit,
    scoring: Rule,
) -> tuple[list[Row], RankedBy]:
    """Make one row per model, in order of rank, and return what ranks them."""
    rows, ranked_by = make_rows(measures, table, unit, scoring)
    bounds = rank_bounds(measures, table, scoring)
    return [replace(row, rank_bounds=bounds.get(row.model)) for row in rows], ranked_by


def _remark_context(
    selection: _Selection, columns: Sequence[Column], numbers: Sequence[BenchmarkNumbers | None]
) -> RemarkContext:
    """Return what remarks need to know beyond the board: what was left out, and the instances of each benchmark."""
    known = [(column.title, one) for column, one in zip(columns, numbers, strict=True) if one]
    return RemarkContext(
        absent=selection.absent,
        not_shared=selection.not_shared,
        only_baselines=selection.only_baselines,
        different_instances=[title for title, one in known if not one.same_instances],
        single_instance=[title for title, one in known if one.n_clusters == 1],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Selection:
    """Cells and columns of a leaderboard, and what is left out."""

    table: Table
    """Benchmark -> model -> cell of a model that competes."""
    baselines: Sequence[Cell]
    """Cells of baselines that do not compete."""
    columns: tuple[Column, ...]
    """Benchmarks to show, in order."""
    absent: Sequence[str]
    """Requested benchmarks without a result, by id."""
    only_baselines: Sequence[str]
    """Titles of requested benchmarks that only baselines have."""
    not_shared: Sequence[str]
    """Titles of benchmarks without a value of every model, if those are left out."""

    @property
    def models(self) -> list[str]:
        """Names of the models that compete, sorted."""
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
    all_cells = list(cells)
    ranked = all_cells if rank_baselines else without_baselines(all_cells)
    names = {cell.model for cell in ranked}
    baselines = [cell for cell in all_cells if cell.model not in names]
    table = _cells_by_benchmark(ranked)
    known = {**table, **_cells_by_benchmark(baselines)}
    by_id = _columns_by_id(columns, known)
    wanted = list(dict.fromkeys(by_id if benchmarks is None else benchmarks))
    found = [by_id[name] for name in wanted if name in table and name in by_id]
    shown = _shared_columns(found, table) if shared else found
    return _Selection(
        table=table,
        baselines=baselines,
        columns=tuple(shown),
        absent=[] if benchmarks is None else [name for name in wanted if name not in known],
        only_baselines=[by_id[name].title for name in wanted if name in known and name not in table and name in by_id],
        not_shared=[column.title for column in found if column not in shown],
    )


def _test_pairs(
    measures: LeaderboardMeasures,
    numbers: Sequence[BenchmarkNumbers | None],
    scoring: Rule,
    shown: tuple[Column, ...],
) -> AllPairs | None:
    """Test every two models, in order of rank; None for a single model. `numbers`: empty if benchmarks are the unit."""
    order = rank_order(measures, scoring)
    if len(order) < 2:
        return None
    known = zip(measures.columns, numbers or [None] * len(measures.columns), strict=True)
    benchmarks = [one.as_aligned(column) if one else AlignedBenchmark(column, None) for column, one in known]
    pairs = compare_aligned(measures.models, benchmarks, measures.values, kept=shown, single_benchmarks=False)
    return pairs.reordered(order)


def rank_models(cells: Sequence[Cell], columns: Sequence[Column], scoring: Rule = "corrected") -> list[str]:
    """Return the models in the order of the leaderboard, without testing anything. Raises: as `build_leaderboard`."""
    table = _cells_by_benchmark(cells)
    by_id = _columns_by_id(columns, table)
    used = [by_id[name] for name in sorted(table)]
    measures = measure(_models_in(table), used, table)
    numbers = ScoredBenchmarks(measures.models, used, table).numbers(with_pairs=False)
    if _interval_unit(None, measures, table, numbers) == "instances within benchmarks":
        measures = measure_instances(measures, numbers)
    return [measures.models[i] for i in rank_order(measures, scoring)]


def without_baselines(cells: Sequence[Cell], *, keep: Sequence[str] = ()) -> list[Cell]:
    """Return the cells of models and of the baselines in `keep`; all cells if there are baselines only."""
    competing = [cell for cell in cells if not cell.model.startswith(BASELINE)]
    named = [cell for cell in cells if cell.model.startswith(BASELINE) and cell.model in keep]
    return [*competing, *named] if competing else list(cells)


def _baseline_rows(cells: Sequence[Cell], columns: Sequence[Column], unit: IntervalUnit) -> tuple[Row, ...]:
    """Return rows of baselines on the benchmarks of the board, by macro average: no ranks, win shares or win rates."""
    by_benchmark = _cells_by_benchmark(cells)
    table = {column.benchmark: by_benchmark.get(column.benchmark, {}) for column in columns}
    models = _models_in(table)
    if not models:
        return ()
    measures = measure(models, columns, table)
    numbers = ScoredBenchmarks(models, columns, table).numbers(with_pairs=False)
    if unit == "instances within benchmarks":
        if all(one is not None for one, row in zip(numbers, table.values(), strict=True) if row):
            measures = measure_instances(measures, numbers)
        else:
            unit = "nothing"
    rows, _ = make_rows(measures, table, unit, "corrected")
    bare = [
        replace(row, rank=None, win_share=None, win_rate=None, guarded_win_rate=None, guarded_win_share=None)
        for row in rows
    ]
    return tuple(sorted(bare, key=lambda row: -(row.macro_average.value if row.macro_average else 0.0)))


def _models_in(table: Table) -> list[str]:
    """Return the names of all models with a cell, sorted."""
    return sorted({model for row in table.values() for model in row})


def _cells_by_benchmark(cells: Iterable[Cell]) -> dict[str, dict[str, Cell]]:
    """Return benchmark -> model -> cell. Raises: UserError for two cells of the same place."""
    table: dict[str, dict[str, Cell]] = {}
    for cell in cells:
        row = table.setdefault(cell.benchmark, {})
        if cell.model in row:
            raise UserError(f"{cell.model} has two results on {cell.benchmark}. Choose one of them.")
        row[cell.model] = cell
    return table


def _columns_by_id(columns: Iterable[Column], table: Table) -> dict[str, Column]:
    """Return benchmark -> column. Raises: UserError for contradicting or invalid columns, and cells without one."""
    by_id: dict[str, Column] = {}
    for column in columns:
        if by_id.setdefault(column.benchmark, column) != column:
            raise UserError(f"{column.benchmark} is described in two ways: one metric and one scale per benchmark.")
        if not (math.isfinite(column.low) and math.isfinite(column.high) and column.low < column.high):
            scale = f"{column.low} to {column.high}"
            raise UserError(f"{column.benchmark}: metric {column.metric} has the scale {scale}; averages need bounds.")
        if not (math.isfinite(column.weight) and column.weight > 0):
            raise UserError(f"{column.benchmark}: the weight {column.weight} is not a number above 0.")
    unknown = sorted(set(table) - set(by_id))
    if unknown:
        raise UserError(f"No column describes {', '.join(unknown)}: title, category and metric are needed.")
    return by_id


def _shared_columns(columns: Sequence[Column], table: Table) -> list[Column]:
    """Return the columns on which every model has a value. Raises: UserError if there are none."""
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


def _detectable_effects(
    columns: Sequence[Column], numbers: Sequence[BenchmarkNumbers | None], pairs: AllPairs | None
) -> dict[str, float | None]:
    """Return benchmark -> minimum detectable effect: from the tests if they have it; None where scores are unknown."""
    tested = {} if pairs is None else pairs.mde
    untested = {
        column.benchmark: one.minimum_detectable_effect() if one else None
        for column, one in zip(columns, numbers, strict=True)
        if column.benchmark not in tested
    }
    return {**tested, **untested}


def _interval_unit(
    resample: Resample | None,
    measures: LeaderboardMeasures,
    table: Table,
    numbers: Sequence[BenchmarkNumbers | None],
) -> IntervalUnit:
    """Return the unit to resample. Raises: UserError for instances whose scores are not known."""
    if resample == "none" or not measures.columns:
        return "nothing" if resample == "none" else "benchmarks"
    place = {model: i for i, model in enumerate(measures.models)}
    lacking = [
        f"{cell.model} on {cell.benchmark}"
        for column, one in zip(measures.columns, numbers, strict=True)
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
