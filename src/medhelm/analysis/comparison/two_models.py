"""Compares two models by paired differences on shared instances, benchmark by benchmark and overall."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from medhelm.analysis.comparison.all_pairs import AdjustedDifference, AllPairs, ModelPair, Unit, compare_all_pairs
from medhelm.analysis.comparison.multiple_testing import Adjustment, adjust_p_values
from medhelm.analysis.comparison.paired import PairedDifference
from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.domain.display import Displayable
from medhelm.domain.remark import LeftOut, Remark


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedBenchmark:
    """Two models on one benchmark; differences on a scale from 0 (worst) to 1 (best)."""

    column: Column
    """The benchmark and its metric."""
    difference: PairedDifference
    """First minus second."""
    p_adjusted: float
    """P-value adjusted for all pairs of models on the leaderboard and all benchmarks."""
    p_adjusted_alone: float
    """P-value adjusted for the benchmarks of these two models only: for two that were named before any result."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Comparison(Displayable):
    """Two models on all benchmarks they share."""

    VIEW: ClassVar[str] = "medhelm.reports.comparison:VIEW"

    first: str
    """Name of one model."""
    second: str
    """Name of the other."""
    benchmarks: tuple[ComparedBenchmark, ...]
    """One for each benchmark with shared instances, in the order of the columns."""
    n_benchmarks: int
    """Number of benchmarks in the overall difference."""
    macro_average: AdjustedDifference
    """Difference of their macro averages over those benchmarks."""
    win_share: AdjustedDifference
    """Difference of their win shares over those benchmarks: the test that decides on the leaderboard."""
    n_models: int
    """Models on the leaderboard, whose pairs the overall p-values are adjusted for."""
    unit: Unit
    """Unit of the overall tests: instances within benchmarks, or benchmarks."""
    pair: ModelPair
    """The two among all pairs of the leaderboard, which these overall numbers come from."""
    adjustment: Adjustment
    """Adjustment of the p-values of benchmarks."""
    left_out: tuple[LeftOut, ...] = ()
    """Benchmarks on which one of the two does not count, because it was measured under other conditions."""
    remarks: tuple[Remark, ...] = ()
    """Limits of the comparison."""


def compare_two_models(
    cells: Iterable[Cell], columns: Sequence[Column], first: str, second: str, *, adjustment: Adjustment = "holm"
) -> Comparison | None:
    """Compare two models on the benchmarks that have scores of both.

    Parameters: cells, of all models of the leaderboard: win shares and adjusted p-values depend on them, so that the
    verdict is the one that the leaderboard shows, and the numbers are those of a comparison of all models.
    Returns: None if the two share nothing.
    """
    tested = _test_all(tuple(cells), tuple(columns))
    if not {first, second} <= set(tested.models):
        return None
    rest = [model for model in tested.models if model not in (first, second)]
    pair = tested.reordered([tested.models.index(model) for model in (first, second, *rest)])[0]
    if pair.macro_average is None or pair.win_share is None:
        return None
    shared = [column for column in columns if column.benchmark in pair.benchmarks]
    alone = adjust_p_values([pair.benchmarks[one.benchmark].difference.p_value for one in shared], adjustment)
    return Comparison(
        first=first,
        second=second,
        benchmarks=tuple(
            ComparedBenchmark(
                column=column,
                difference=pair.benchmarks[column.benchmark].difference,
                p_adjusted=pair.benchmarks[column.benchmark].p_adjusted(adjustment),
                p_adjusted_alone=float(p),
            )
            for column, p in zip(shared, alone, strict=True)
        ),
        n_benchmarks=pair.n_benchmarks,
        macro_average=pair.macro_average,
        win_share=pair.win_share,
        n_models=len(tested.models),
        unit=pair.unit,
        pair=pair,
        adjustment=adjustment,
    )


@lru_cache(maxsize=1)
def _test_all(cells: tuple[Cell, ...], columns: tuple[Column, ...]) -> AllPairs:
    """Test every pair of models; kept for the next pair of the same models, as a site shows one pair after another."""
    return compare_all_pairs(cells, columns)
