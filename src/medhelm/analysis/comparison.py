"""Two models side by side: paired differences on shared instances, benchmark by benchmark and overall."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from medhelm.analysis.alignment import align
from medhelm.analysis.board import Cell, Column
from medhelm.analysis.statistics import NORMAL, Z95, Difference, holm, paired_difference


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedBenchmark:
    """Two models on one benchmark; differences on the 0..1 scale, where 1 is the best the metric can give."""

    column: Column
    """The benchmark and its metric."""
    difference: Difference
    """First minus second."""
    p_adjusted: float
    """P-value adjusted for the number of benchmarks (Holm)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two models on all benchmarks they share."""

    first: str
    """Name of one model."""
    second: str
    """Name of the other."""
    benchmarks: tuple[ComparedBenchmark, ...]
    """One for each benchmark with shared instances, in the order of the columns."""
    value: float
    """Mean of the differences over benchmarks, each once: by how much the macro averages differ."""
    low: float
    """Lower end of its 95 % interval."""
    high: float
    """Upper end of its 95 % interval."""
    p_value: float
    """Two-sided, for no difference overall; by the normal limit, benchmarks taken as they are."""


def compare(
    first: Mapping[str, Cell], second: Mapping[str, Cell], columns: Sequence[Column], rng: np.random.Generator
) -> Comparison | None:
    """Compare two models on the benchmarks both have scores for.

    Parameters: first and second, benchmark -> cell of one model each.
    Returns: None if they share no instance.
    """
    found = []
    for column in columns:
        cells = [model.get(column.benchmark) for model in (first, second)]
        if (difference := _difference(cells, column, rng)) is not None:
            found.append((column, difference))
    if not found:
        return None
    adjusted = holm([difference.p_value for _, difference in found])
    value = math.fsum(difference.value for _, difference in found) / len(found)
    error = math.sqrt(math.fsum(difference.standard_error**2 for _, difference in found)) / len(found)
    return Comparison(
        first=next(iter(first.values())).model,
        second=next(iter(second.values())).model,
        benchmarks=tuple(
            ComparedBenchmark(column=column, difference=difference, p_adjusted=p)
            for (column, difference), p in zip(found, adjusted, strict=True)
        ),
        value=value,
        low=max(-1.0, value - Z95 * error),
        high=min(1.0, value + Z95 * error),
        p_value=2 * NORMAL.cdf(-abs(value) / error) if error > 0 else float(value == 0),
    )


def _difference(cells: Sequence[Cell | None], column: Column, rng: np.random.Generator) -> Difference | None:
    """First minus second on one benchmark; None if one of them has no scores."""
    if any(cell is None or cell.scores is None for cell in cells):
        return None
    # One name may stand for both, as when a model is compared with itself in another store.
    pair = {str(place): cell for place, cell in enumerate(cells) if cell is not None}
    aligned = align(pair, column, ["0", "1"])
    return paired_difference(aligned.scores[0], aligned.scores[1], aligned.codes.astype(np.str_), rng)
