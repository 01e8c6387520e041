"""Compares two models by paired differences on shared instances, benchmark by benchmark and overall."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from medhelm.analysis.comparison.all_pairs import Unit, compare_all_pairs
from medhelm.analysis.comparison.multiple_testing import Adjustment
from medhelm.analysis.comparison.paired import PairedDifference
from medhelm.analysis.leaderboard.types import Cell, Column


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedBenchmark:
    """Two models on one benchmark; differences on a scale from 0 (worst) to 1 (best)."""

    column: Column
    """The benchmark and its metric."""
    difference: PairedDifference
    """First minus second."""
    p_adjusted: float
    """P-value adjusted for the number of benchmarks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two models on all benchmarks they share."""

    first: str
    """Name of one model."""
    second: str
    """Name of the other."""
    benchmarks: tuple[ComparedBenchmark, ...]
    """One for each benchmark with shared instances, in the order of the columns."""
    n_benchmarks: int
    """Number of benchmarks in the overall difference."""
    value: float
    """Mean of the differences over benchmarks: the difference of the macro averages."""
    low: float
    """Lower end of its 95% interval."""
    high: float
    """Upper end of its 95% interval."""
    p_value: float
    """Two-sided, for no difference overall: sign-flip test over all clusters, or over benchmarks."""
    unit: Unit
    """Unit that the overall interval and test resample: instances within benchmarks, or benchmarks."""
    adjustment: Adjustment
    """Adjustment of the p-values of benchmarks."""


def compare_two_models(
    first: Mapping[str, Cell],
    second: Mapping[str, Cell],
    columns: Sequence[Column],
    rng: np.random.Generator,
    *,
    adjustment: Adjustment = "holm",
) -> Comparison | None:
    """Compare two models on the benchmarks that have scores of both.

    Parameters: first and second, benchmark -> cell of one model each.
    Returns: None if they share nothing.
    """
    # Both can have the same name, if a model is compared with itself in another store.
    sides = [replace(cell, model=str(side)) for side, cells in enumerate((first, second)) for cell in cells.values()]
    (pair,) = compare_all_pairs(sides, columns, rng, models=["0", "1"]).pairs
    if pair.macro_average is None:
        return None
    overall = pair.macro_average.difference
    return Comparison(
        first=next(iter(first.values())).model,
        second=next(iter(second.values())).model,
        benchmarks=tuple(
            ComparedBenchmark(column=column, difference=test.difference, p_adjusted=test.p_adjusted(adjustment))
            for column in columns
            if (test := pair.benchmarks.get(column.benchmark)) is not None
        ),
        n_benchmarks=len(pair.benchmarks) if pair.unit == "instances" else pair.n_benchmarks,
        value=overall.value,
        low=overall.low,
        high=overall.high,
        p_value=overall.p_value,
        unit=pair.unit,
        adjustment=adjustment,
    )
