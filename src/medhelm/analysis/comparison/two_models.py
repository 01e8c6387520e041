"""Compares two models by paired differences on shared instances, benchmark by benchmark and overall."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from medhelm.analysis.comparison.all_pairs import AdjustedDifference, Unit, compare_all_pairs
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
    """P-value adjusted for the number of benchmarks."""


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

    Parameters: cells, of all models of the leaderboard: the win share and its adjustment depend on them, so that the
    verdict is the one that the leaderboard shows.
    Returns: None if the two share nothing.
    """
    cells = list(cells)
    others = sorted({cell.model for cell in cells if cell.value is not None} - {first, second})
    pair = compare_all_pairs(cells, columns, models=[first, second, *others], single_benchmarks=False)[0]
    if pair.macro_average is None or pair.win_share is None:
        return None
    both = [cell for cell in cells if cell.model in (first, second)]
    single = compare_all_pairs(both, columns, models=[first, second])[0].benchmarks
    names = [column.benchmark for column in columns if column.benchmark in single]
    adjusted = adjust_p_values([single[name].difference.p_value for name in names], adjustment)
    described = {column.benchmark: column for column in columns}
    return Comparison(
        first=first,
        second=second,
        benchmarks=tuple(
            ComparedBenchmark(column=described[name], difference=single[name].difference, p_adjusted=float(p))
            for name, p in zip(names, adjusted, strict=True)
        ),
        n_benchmarks=pair.n_benchmarks,
        macro_average=pair.macro_average,
        win_share=pair.win_share,
        n_models=len(others) + 2,
        unit=pair.unit,
        adjustment=adjustment,
    )
