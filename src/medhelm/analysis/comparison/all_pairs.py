"""Compares every pair of models on every benchmark they share, and overall, and tests the differences.

Where the scores of single instances are known, an overall difference is tested on them, the benchmarks taken as they
are: instances are resampled within each benchmark, and the two models' answers are swapped cluster by cluster. Where a
value is published without its instances, benchmarks take the place of instances: another question, named as such.

    macro average   mean of the differences on the benchmarks both have, with their weights; interval from the sum of
                    the benchmarks' draws, its tails from Student's t with degrees of freedom by Satterthwaite (1946,
                    Biom. Bull. 2); sign-flip test
    win rate        mean over those benchmarks of the share of rivals one beats minus the share the other beats;
                    interval of the draws as on the leaderboard; swap test with fixed rivals

P-values are adjusted twice, by Holm and by Benjamini and Hochberg: those of single benchmarks over all pairs and
benchmarks together, those of macro averages and of win rates each over all pairs.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

import numpy as np

from medhelm.analysis.comparison.minimum_detectable_effect import BenchmarkEffects
from medhelm.analysis.comparison.multiple_testing import Adjustment, benjamini_hochberg, holm
from medhelm.analysis.comparison.overall import PairSums
from medhelm.analysis.comparison.paired import Pair, PairedDifference, paired_differences
from medhelm.analysis.comparison.sign_flip_test import FLIPS
from medhelm.analysis.leaderboard.types import Cell, Column
from medhelm.analysis.leaderboard.win_rates import guarded_table, win_table
from medhelm.analysis.statistics.alignment import align
from medhelm.analysis.statistics.cluster_bootstrap import Floats
from medhelm.analysis.statistics.means import DRAWS
from medhelm.domain import Remark, Rule, Tier

LEVEL = 0.05
"""Significance level."""

MOST_NUMBERS = 20_000_000
"""Maximum number of flips over all pairs held in memory (160 MB); with many models, each pair gets fewer."""

FEWEST_FLIPS = 999
"""Minimum number of flips per pair."""

Unit = Literal["instances", "benchmarks"]
"""Unit that is resampled and flipped for an overall difference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdjustedDifference:
    """A difference with its test, adjusted for all tests of its kind."""

    difference: PairedDifference
    """First minus second, on a scale where 1 is best."""
    p_holm: float = 1.0
    """P-value adjusted by Holm."""
    p_bh: float = 1.0
    """P-value adjusted by Benjamini and Hochberg."""

    def p_adjusted(self, way: Adjustment) -> float:
        """The adjusted p-value of one kind."""
        return self.p_holm if way == "holm" else self.p_bh


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPair:
    """Two models on everything they share."""

    first: str
    """The higher-ranked model, unless another order was requested."""
    second: str
    """The other."""
    unit: Unit
    """Unit that the overall tests resample and flip."""
    n_benchmarks: int
    """Number of benchmarks in the overall differences."""
    macro_average: AdjustedDifference | None
    """Difference of their macro averages over those benchmarks; None if there is none."""
    win_rate: AdjustedDifference | None
    """Difference of their win rates over those benchmarks; None if there is none."""
    benchmarks: Mapping[str, AdjustedDifference]
    """Benchmark -> difference on it, if instance scores of both are known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllPairs:
    """Every pair of models."""

    models: tuple[str, ...]
    """Best first, unless another order was requested."""
    columns: tuple[Column, ...]
    """The benchmarks, in the requested order."""
    pairs: tuple[ModelPair, ...]
    """Every pair once, in the order of the models."""
    flips: int
    """Number of random flips for the p-values of win rates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedPairs:
    """Every pair of models, and the settings of the comparison."""

    all_pairs: AllPairs
    """The tests."""
    effects: Mapping[str, BenchmarkEffects]
    """Benchmark -> its detectable effects, if instance scores are known."""
    suite: str = "all"
    """Name of the selection of benchmarks."""
    scoring: Rule = "corrected"
    """Scoring rule."""
    tier: Tier = "real"
    """Real data or sample rows."""
    remarks: tuple[Remark, ...] = ()
    """Limits of the comparison."""


def compare_all_pairs(
    cells: Iterable[Cell],
    columns: Sequence[Column],
    rng: np.random.Generator,
    *,
    models: Sequence[str] | None = None,
    draws: int = DRAWS,
    flips: int = FLIPS,
) -> AllPairs:
    """Test every pair of models. The order of cells and columns does not change a number.

    Parameters: cells, one per model and benchmark; those without a column are left out. A cell without `scores` counts
    with its value alone. models, the order in which to pair them; None: best first.
    """
    board = _board(cells, columns, models)
    n_pairs = len(board.pairs)
    flips = min(flips, max(FEWEST_FLIPS, MOST_NUMBERS // max(n_pairs, 1)))
    seed = int(rng.integers(2**32))
    total = PairSums(n_pairs, draws, flips)
    single: list[dict[str, PairedDifference]] = [{} for _ in board.pairs]
    for place, column in enumerate(board.columns):
        # Each benchmark has its own stream: what one pair shares does not change the draws of another benchmark.
        own = np.random.default_rng([seed, zlib.crc32(column.benchmark.encode())])
        _add_benchmark(board, place, total, single, own, draws=draws, flips=flips)
    overall = [total.differences(p) if board.by_instance[p] else (None, None) for p in range(n_pairs)]
    _fill_in_by_benchmark(overall, board, np.random.default_rng([seed, 1]), draws=draws, flips=flips)
    made = [
        ModelPair(
            first=board.models[i],
            second=board.models[j],
            unit="instances" if board.by_instance[p] else "benchmarks",
            n_benchmarks=len(single[p]) if board.by_instance[p] else board.n_shared(i, j),
            macro_average=_contrast(overall[p][0]),
            win_rate=_contrast(overall[p][1]),
            benchmarks={
                column.benchmark: AdjustedDifference(difference=single[p][column.benchmark])
                for column in columns
                if column.benchmark in single[p]
            },
        )
        for p, (i, j) in enumerate(board.pairs)
    ]
    kept = tuple(column for column in columns if column.benchmark in board.table)
    return AllPairs(models=tuple(board.models), columns=kept, pairs=tuple(_adjusted(made)), flips=flips)


@dataclass(frozen=True, slots=True, eq=False)
class _Board:
    """Models, benchmarks and values to compare, in the order of computation."""

    models: list[str]
    columns: list[Column]
    table: Mapping[str, Mapping[str, Cell]]
    values: Floats
    weights: Floats
    pairs: list[Pair]
    by_instance: list[bool]

    def n_shared(self, i: int, j: int) -> int:
        """Benchmarks on which two models have a value."""
        return int((~np.isnan(self.values[i] - self.values[j])).sum())


def _board(cells: Iterable[Cell], columns: Sequence[Column], models: Sequence[str] | None) -> _Board:
    """Return the cells with a value and a column, sorted."""
    shown = {column.benchmark: column for column in columns}
    table: dict[str, dict[str, Cell]] = {}
    for cell in cells:
        if cell.benchmark in shown and cell.value is not None:
            table.setdefault(cell.benchmark, {})[cell.model] = cell
    used = [shown[name] for name in sorted(table)]
    weights = np.array([column.weight for column in used])
    order = list(models) if models else sorted({model for row in table.values() for model in row})
    values = _values(order, used, table)
    if not models:
        order, values = _in_order(order, values, weights)
    pairs = list(combinations(range(len(order)), 2))
    return _Board(order, used, table, values, weights, pairs, _by_instance(order, pairs, table))


def _add_benchmark(
    board: _Board,
    place: int,
    total: PairSums,
    single: list[dict[str, PairedDifference]],
    rng: np.random.Generator,
    *,
    draws: int,
    flips: int,
) -> None:
    """Test every pair on one benchmark where single scores of both are known, and add what it says to the total."""
    column = board.columns[place]
    row = board.table[column.benchmark]
    known = [model in row and row[model].scores is not None for model in board.models]
    places = [p for p, (i, j) in enumerate(board.pairs) if known[i] and known[j]]
    if not places:
        return
    chosen = [board.pairs[p] for p in places]
    aligned = align(row, column, board.models)
    found = paired_differences(aligned.scores, aligned.codes, chosen, rng, draws=draws, flips=flips)
    for p, difference in zip(places, found.differences, strict=True):
        if difference is not None:
            single[p][column.benchmark] = difference
    total.add(found, places, chosen, board.values[:, place], column.weight, rng)


def _values(models: Sequence[str], columns: Sequence[Column], table: Mapping[str, Mapping[str, Cell]]) -> Floats:
    """Normalized values, shape (n_models, n_benchmarks), nan where a model has none."""
    values = np.full((len(models), len(columns)), np.nan)
    for j, column in enumerate(columns):
        for i, model in enumerate(models):
            cell = table[column.benchmark].get(model)
            if cell is not None and cell.value is not None:
                values[i, j] = column.normalize(cell.value)
    return values


def _in_order(models: list[str], values: Floats, weights: Floats) -> tuple[list[str], Floats]:
    """Return the models and their values, best first."""

    def mean(row: Floats) -> float:
        known = ~np.isnan(row)
        return round(float(np.average(row[known], weights=weights[known])), 12) if known.any() else -1.0

    # Rank as the leaderboard does: a model gains nothing by lacking a benchmark.
    wins = guarded_table(values) if len(models) else values
    order = sorted(range(len(models)), key=lambda i: (-mean(wins[i]), -mean(values[i]), models[i]))
    return [models[i] for i in order], values[order]


def _by_instance(models: Sequence[str], pairs: Sequence[Pair], table: Mapping[str, Mapping[str, Cell]]) -> list[bool]:
    """Return for each pair if instance scores of both are known on every benchmark that both have."""
    known = [{name for name, row in table.items() if m in row and row[m].scores is not None} for m in models]
    has = [{name for name, row in table.items() if m in row} for m in models]
    return [has[i] & has[j] <= known[i] & known[j] for i, j in pairs]


def _fill_in_by_benchmark(
    overall: list[tuple[PairedDifference | None, PairedDifference | None]],
    board: _Board,
    rng: np.random.Generator,
    *,
    draws: int,
    flips: int,
) -> None:
    """Compare pairs without instance scores over benchmarks."""
    places = [p for p, known in enumerate(board.by_instance) if not known]
    if not places:
        return
    chosen = [board.pairs[p] for p in places]
    macro, wins = (
        paired_differences(table, None, chosen, rng, draws=draws, flips=flips, weights=board.weights).differences
        for table in (board.values, win_table(board.values))
    )
    for p, first, second in zip(places, macro, wins, strict=True):
        overall[p] = first, second


def _contrast(difference: PairedDifference | None) -> AdjustedDifference | None:
    return None if difference is None else AdjustedDifference(difference=difference)


def _adjusted(pairs: Sequence[ModelPair]) -> list[ModelPair]:
    """Adjust the p-values of all pairs, separately for each kind of test."""
    macro = _all_adjusted([pair.macro_average for pair in pairs])
    wins = _all_adjusted([pair.win_rate for pair in pairs])
    keys = [(place, name) for place, pair in enumerate(pairs) for name in pair.benchmarks]
    tests = _all_adjusted([pairs[place].benchmarks[name] for place, name in keys])
    single: list[dict[str, AdjustedDifference]] = [{} for _ in pairs]
    for (place, name), test in zip(keys, tests, strict=True):
        if test is not None:
            single[place][name] = test
    return [
        replace(pair, macro_average=macro[place], win_rate=wins[place], benchmarks=single[place])
        for place, pair in enumerate(pairs)
    ]


def _all_adjusted(tests: Sequence[AdjustedDifference | None]) -> list[AdjustedDifference | None]:
    """Adjust the p-values of tests of one kind."""
    known = [test for test in tests if test is not None]
    p_values = [test.difference.p_value for test in known]
    done = iter(
        replace(test, p_holm=first, p_bh=second)
        for test, first, second in zip(known, holm(p_values), benjamini_hochberg(p_values), strict=True)
    )
    return [None if test is None else next(done) for test in tests]
