"""Minimum detectable effect of a benchmark, by the paper's implementation and by a corrected formula.

Both are (1.96 + 0.84) times the standard error of the mean difference between two models, averaged over pairs, with the
population SD over pairs beside it (Bedi et al. 2025, table E4).

    published   scores above 1 are divided by 5, so that the lowest grade of a jury, exactly 1, stays 1 and counts as
                the highest; every instance is independent; a pair counts if both models were asked the same instances
    corrected   scores are put on 0..1 by the scale of their metric, instances of a cluster are taken together, and a
                pair is compared on the instances that both have a score for

The original pairs scores by their position in two files of equal length. Here they are paired by id: where the files
hold the same instances in the same order, as they should, the numbers are the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from medhelm.analysis.leaderboard.alignment import align
from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.analysis.statistics.cluster_bootstrap import Clusters, Floats, cluster_codes
from medhelm.analysis.statistics.means import MDE_FACTOR, population_standard_error


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectableEffect:
    """Smallest true difference between two models that is detected with a power of 80% at the 5% level."""

    value: float
    """Mean over pairs of models, on a scale of 0 to 1."""
    sd: float
    """Population SD over those pairs; 0 for a single pair."""
    n_pairs: int
    """Number of pairs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkEffects:
    """Detectable effects of one benchmark by both rules."""

    benchmark: str
    """Id of the benchmark."""
    n: int
    """Maximum number of instances that two of the models share."""
    published: DetectableEffect | None
    """By the paper's implementation; None if no two models have the same instances."""
    corrected: DetectableEffect | None
    """By the corrected formula; None if no two models share two instances."""


def detectable_effects(cells: Iterable[Cell], columns: Sequence[Column]) -> dict[str, BenchmarkEffects]:
    """Compute both effects of every benchmark with instance scores of at least two models, in the order of columns.

    For numbers like those of the paper the scores must follow the published rule as well.
    """
    table: dict[str, dict[str, Cell]] = {}
    for cell in cells:
        if cell.scores is not None:
            table.setdefault(cell.benchmark, {})[cell.model] = cell
    found = {column.benchmark: _effects(table.get(column.benchmark, {}), column) for column in columns}
    return {name: effects for name, effects in found.items() if effects is not None}


def published_scale(scores: Floats) -> Floats:
    """Scale scores as the paper's script does: those above 1 are divided by 5.

    >>> published_scale(np.array([0.4, 1.0, 2.0, 5.0])).tolist()
    [0.4, 1.0, 0.4, 1.0]
    """
    return np.where(scores > 1, scores / 5, scores)


def _effects(cells: Mapping[str, Cell], column: Column) -> BenchmarkEffects | None:
    """Compute both effects of one benchmark; None if no pair of models shares an instance."""
    models = sorted(cells)
    aligned = align(cells, column, models)
    scored = ~np.isnan(aligned.scores)
    shared = [int((scored[i] & scored[j]).sum()) for i, j in combinations(range(len(models)), 2)]
    if max(shared, default=0) == 0:
        return None
    return BenchmarkEffects(
        benchmark=column.benchmark,
        n=max(shared),
        published=_over_pairs(_published([cells[model] for model in models])),
        corrected=_over_pairs(_corrected(aligned.tested, aligned.codes)),
    )


def _published(cells: Sequence[Cell]) -> list[float]:
    """Compute the effect over all pairs of models with the same instances."""
    effects = []
    asked = [frozenset(cell.ids) for cell in cells]
    by_id = [_in_order_of_ids(cell) for cell in cells]
    for i, j in combinations(range(len(cells)), 2):
        if asked[i] != asked[j]:
            continue
        difference = by_id[i] - by_id[j]
        difference = difference[~np.isnan(difference)]
        if len(difference):
            effects.append(MDE_FACTOR * float(difference.std()) / math.sqrt(len(difference)))
    return effects


def _corrected(scores: Floats, clusters: Clusters) -> list[float]:
    """Compute the effect over all pairs of models that share two instances or more.

    (1.96 + 0.84) times the standard error of the paired difference. With independent instances that error is
    sd / sqrt(n), sd being the population standard deviation of the differences (Bedi et al. 2025, appendix E).

    Parameters: scores, shape (n_models, n), aligned by instance, normalized to 0..1, nan if missing.
    """
    codes, k = cluster_codes(clusters, scores.shape[1])
    effects = []
    for i, j in combinations(range(len(scores)), 2):
        difference = scores[i] - scores[j]
        shared = ~np.isnan(difference)
        if int(shared.sum()) >= 2:
            effects.append(MDE_FACTOR * population_standard_error(difference[shared], codes[shared], k))
    return effects


def _in_order_of_ids(cell: Cell) -> Floats:
    """Return a cell's scores on the published scale, in the order of its ids."""
    scores = np.empty(0) if cell.scores is None else cell.scores
    order = np.argsort(np.array(cell.ids, dtype=np.str_), kind="stable")
    return published_scale(scores[order])


def _over_pairs(effects: Sequence[float]) -> DetectableEffect | None:
    """Compute mean and standard deviation over pairs."""
    if not effects:
        return None
    return DetectableEffect(value=float(np.mean(effects)), sd=float(np.std(effects)), n_pairs=len(effects))
