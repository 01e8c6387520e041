"""Power of a suite of benchmarks, from the observed noise between models."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np

from medhelm.analysis.comparison.paired import Pair, PairedScores
from medhelm.analysis.comparison.power import (
    ObservedNoise,
    PowerDesign,
    PowerEstimate,
    detectable_difference,
    estimate_power,
    needed_instances,
    observed_noise,
    power_at,
)
from medhelm.analysis.leaderboard.alignment import AlignedScores, align
from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.analysis.statistics.means import population_standard_error


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkPower:
    """Power of one benchmark."""

    column: Column
    """The benchmark and its metric."""
    observed: ObservedNoise
    """Its instances and the noise between models."""
    detectable: float | None
    """Smallest true difference that its instances detect with the desired power; None if none is large enough."""
    mde: float | None
    """Minimum detectable effect of the leaderboard for this power and level: it takes no account of how few clusters
    there are. None if no two models share two instances."""
    power: float | None
    """Probability that its instances detect the given difference; None if none was given."""
    needed: int | None
    """Instances needed to detect it with the desired power; None if none was given, or no number suffices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdjacentModels:
    """Two models adjacent by macro average, or the two named models."""

    first: str
    """The one with the higher macro average."""
    second: str
    """The other."""
    n_benchmarks: int
    """Benchmarks on which they share instances."""
    observed_difference: float
    """Observed difference of their macro averages over those benchmarks; not negative."""
    standard_error: float
    """Standard error of that difference, from the instances."""
    power_estimate: PowerEstimate
    """The detectable difference; with a given true difference also the power and the instances needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuitePower:
    """Power, benchmark by benchmark and overall."""

    design: PowerDesign
    """Wanted power and significance level."""
    difference: float | None
    """The given true difference; None if none was given."""
    models: tuple[str, ...]
    """The models, by macro average, best first."""
    benchmarks: tuple[BenchmarkPower, ...]
    """Those on which two of the models share instances."""
    adjacent_models: tuple[AdjacentModels, ...]
    """In the order of the models."""


def suite_power(
    cells: Iterable[Cell], columns: Sequence[Column], *, design: PowerDesign, difference: float | None = None
) -> SuitePower:
    """Estimate the power of each benchmark and of the comparison of adjacent models.

    Parameters: cells, of all models that count; only those with single scores are looked at. difference, above 0, on a
    scale where the worst is 0 and the best 1.
    """
    table: dict[str, dict[str, Cell]] = {}
    for cell in cells:
        if cell.scores is not None:
            table.setdefault(cell.benchmark, {})[cell.model] = cell
    used = [column for column in columns if column.benchmark in table]
    models = sorted({model for row in table.values() for model in row})
    aligned = {column.benchmark: align(table[column.benchmark], column, models) for column in used}
    order = _by_macro_average(models, used, aligned)
    pairs = list(combinations(range(len(models)), 2))
    found = [(column, observed_noise(aligned[column.benchmark], pairs)) for column in used]
    near = [_adjacent_models(models, pair, used, aligned, design, difference) for pair in pairwise(order)]
    return SuitePower(
        design=design,
        difference=difference,
        models=tuple(models[i] for i in order),
        benchmarks=tuple(
            _benchmark_power(column, aligned[column.benchmark], observed, design, difference)
            for column, observed in found
            if observed is not None
        ),
        adjacent_models=tuple(one for one in near if one is not None),
    )


def _by_macro_average(
    models: Sequence[str], columns: Sequence[Column], aligned: Mapping[str, AlignedScores]
) -> list[int]:
    """Return the rows of the models, best macro average first."""

    def average(row: int) -> float:
        own = [(aligned[c.benchmark].scores[row], c.weight) for c in columns]
        known = [(float(np.nanmean(scores)), weight) for scores, weight in own if not np.isnan(scores).all()]
        total = math.fsum(weight for _, weight in known)
        return math.fsum(value * weight for value, weight in known) / total if known else -1.0

    return sorted(range(len(models)), key=lambda row: (-round(average(row), 12), models[row]))


def _benchmark_power(
    column: Column, aligned: AlignedScores, observed: ObservedNoise, design: PowerDesign, difference: float | None
) -> BenchmarkPower:
    """Estimate the power of one benchmark."""
    mde = PairedScores(aligned.tested, aligned.codes, aligned.k).minimum_detectable_effect()
    return BenchmarkPower(
        column=column,
        observed=observed,
        detectable=detectable_difference(observed.noise, observed.n, design),
        mde=None if mde is None else mde * design.errors / PowerDesign().errors,
        power=None if difference is None else power_at(observed.noise, observed.n, difference, design),
        needed=None if difference is None else needed_instances(observed.noise, difference, design),
    )


def _adjacent_models(
    models: Sequence[str],
    pair: Pair,
    columns: Sequence[Column],
    aligned: Mapping[str, AlignedScores],
    design: PowerDesign,
    difference: float | None,
) -> AdjacentModels | None:
    """Compare two models over all benchmarks; None if they share no instance."""
    means, variances, weights, clusters = [], [], [], []
    for column in columns:
        at = aligned[column.benchmark]
        values = at.scores[pair[0]] - at.scores[pair[1]]
        shared = ~np.isnan(values)
        if not shared.any():
            continue
        means.append(float(values[shared].mean()))
        # A single cluster gives no variance: any difference from -1 to 1 is possible, with a variance of one third.
        alone = len(np.unique(at.codes[shared])) < 2
        variances.append(1 / 3 if alone else population_standard_error(values[shared], at.codes[shared], at.k) ** 2)
        weights.append(column.weight)
        sizes = np.bincount(at.codes[shared])
        clusters.append(int(shared.sum()) ** 2 / float(sizes @ sizes))
    if not means:
        return None
    shares = np.array(weights) / sum(weights)
    observed, error = float(shares @ means), math.sqrt(float(shares**2 @ variances))
    spread = float(np.std(means, ddof=1)) if len(means) > 1 else None
    first, second = (models[row] for row in (pair if observed >= 0 else pair[::-1]))
    return AdjacentModels(
        first=first,
        second=second,
        n_benchmarks=len(means),
        observed_difference=abs(observed),
        standard_error=error,
        power_estimate=estimate_power(
            difference,
            error,
            spread,
            design,
            clusters=1 / float(shares**2 @ (1 / np.array(clusters))),
            n_benchmarks=len(means),
        ),
    )
