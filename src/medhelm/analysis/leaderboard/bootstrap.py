"""Bootstrap of a leaderboard: resample instances within each benchmark, or benchmarks.

Each resample is the same for all models, so that questions that are hard for all do not count as a difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.comparison.sign_flip_test import sign_flip_test
from medhelm.analysis.leaderboard.win_rates import (
    TAIL,
    guarded_table,
    has_any_value,
    row_means,
    separable_pairs,
    win_shares,
    win_table,
)
from medhelm.analysis.statistics.alignment import AlignedScores
from medhelm.analysis.statistics.cluster_bootstrap import Floats, cluster_totals, draw_means, resampling_weights
from medhelm.analysis.statistics.means import NORMAL

NOTHING = 1e-6
"""Sums of drawn differences below this are rounding."""


@dataclass(frozen=True, slots=True, eq=False)
class LeaderboardDraws:
    """Bootstrap resamples of the averages. Every array has one row per resample, one column per model."""

    win_rates: Floats
    """Shape (draws, n_models); nan where a model has none."""
    macros: Floats
    """Macro averages, alike."""
    guarded: Floats
    """Guarded win rates, never nan if there are two models."""
    shared: Mapping[tuple[int, int], NDArray[np.float32]]
    """Two models i < j that lack different benchmarks -> shape (draws,): how much more i wins than j, summed over the
    benchmarks that both have."""


@dataclass(frozen=True, slots=True, eq=False)
class PairwiseTests:
    """Every two models: arrays of shape (n_models, n_models), symmetric."""

    rank_significant: NDArray[np.bool_]
    """Their guarded win rates differ by more than chance."""
    significant: NDArray[np.bool_]
    """And so do their win rates over the benchmarks that both have: no gap alone makes a difference."""
    p_values: Floats
    """Two-sided, for no difference, the larger of both: by the normal limit of the draws."""


def draw_instances(
    columns: Iterable[AlignedScores], values: Floats, weights: Floats, draws: int, rng: np.random.Generator
) -> LeaderboardDraws:
    """Resample instances within fixed benchmarks.

    A benchmark with a single cluster says nothing of its spread: there every mean on the scale is taken as possible.

    Parameters: columns, one for each benchmark, with the same models in the same order; looked at one after the other
    and not kept; values, shape (n_models, n_benchmarks), nan where a model has none; weights, shape (n_benchmarks,).
    """
    sums = _Sums(values, weights, draws)
    for place, column in enumerate(columns):
        has = ~np.isnan(column.scores).all(axis=1)
        means = np.full((draws, len(values)), np.nan)
        if not has.any():
            continue  # no model has a score there, so it affects no average
        if column.k > 1:
            means[:, has] = draw_means(*cluster_totals(column.scores[has], column.codes, column.k), rng, draws)
        else:
            means[:, has] = rng.random((draws, int(has.sum())))
        sums.add(place, means)
    return sums.finish()


def draw_win_rates(columns: Sequence[AlignedScores], draws: int, rng: np.random.Generator) -> Floats:
    """Win rates drawn from other instances, every benchmark counting once: shape (draws, n_models)."""
    values = np.stack([row_means(column.scores) for column in columns], axis=1)
    return draw_instances(columns, values, np.ones(len(columns)), draws, rng).win_rates


def draw_benchmarks(values: Floats, weights: Floats, draws: int, rng: np.random.Generator) -> LeaderboardDraws:
    """Draw from other benchmarks, each as likely as any other and taking its weight along.

    Parameters: as `draw_instances`. A single benchmark says nothing of the spread: then every average from 0 to 1 is
    taken as possible.
    """
    models, k = values.shape
    won, guarded = win_table(values), guarded_table(values)
    present = ~np.isnan(values)
    shared = {(i, j): present[i] & present[j] for i, j in _unlike(present)}
    if k == 1:
        drawn = [np.where(~np.isnan(table[:, 0]), rng.random((draws, models)), np.nan) for table in (won, values)]
        lost = np.where(present[:, 0], np.where(np.isnan(drawn[0]), 1.0, drawn[0]), 0.0)
        return LeaderboardDraws(drawn[0], drawn[1], lost, {pair: np.zeros(draws, np.float32) for pair in shared})
    known = [~np.isnan(won), present, np.broadcast_to(has_any_value(values), values.shape)]
    filled = [np.where(here, table, 0.0) for here, table in zip(known, (won, values, guarded), strict=True)]
    apart = [np.where(both, filled[0][i] - filled[0][j], 0.0) for (i, j), both in shared.items()]
    columns = np.concatenate([*filled, *known, np.reshape(apart, (len(apart), k))]).T.astype(float) * weights[:, None]
    sums = np.concatenate([times @ columns for times in resampling_weights(k, draws, rng)])
    with np.errstate(invalid="ignore"):
        means = sums[:, : 3 * models] / sums[:, 3 * models : 6 * models]
    differences = sums[:, 6 * models :].astype(np.float32)
    return LeaderboardDraws(
        means[:, :models],
        means[:, models : 2 * models],
        np.nan_to_num(means[:, 2 * models :], nan=0.5),
        {pair: differences[:, place] for place, pair in enumerate(shared)},
    )


class _Sums:
    """Weighted sums over benchmarks, one benchmark after the other."""

    def __init__(self, values: Floats, weights: Floats, draws: int) -> None:
        models = len(values)
        self._present, self._weights = ~np.isnan(values), weights
        self._totals, self._counts = np.zeros((2, draws, models)), np.zeros((2, draws, models))
        self._guarded, self._weight = np.zeros((draws, models)), 0.0
        self._shared = {pair: np.zeros(draws, np.float32) for pair in _unlike(self._present)}

    def add(self, place: int, means: Floats) -> None:
        """Count the drawn means of one benchmark, shape (draws, n_models)."""
        weight, has = float(self._weights[place]), self._present[:, place]
        won, guarded = win_shares(means)
        for total, count, drawn in zip(self._totals, self._counts, (won, means), strict=True):
            present = ~np.isnan(drawn)
            total += np.where(present, drawn * weight, 0.0)
            count += present * weight
        self._guarded += guarded * weight
        self._weight += weight
        for (i, j), difference in self._shared.items():
            if has[i] and has[j]:
                difference += np.nan_to_num(won[:, i] - won[:, j]).astype(np.float32) * np.float32(weight)

    def finish(self) -> LeaderboardDraws:
        """Means of what was counted."""
        counts = self._counts
        means = np.where(counts > 0, self._totals / np.where(counts > 0, counts, 1.0), np.nan)
        guarded = self._guarded / self._weight if self._weight else self._guarded
        return LeaderboardDraws(means[0], means[1], guarded, self._shared)


def _unlike(present: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Pairs of models that do not have the same benchmarks."""
    return [(i, j) for i, j in combinations(range(len(present)), 2) if (present[i] != present[j]).any()]


def compare_pairs(draws: LeaderboardDraws, points: Floats) -> PairwiseTests:
    """Test every pair of models from the resamples.

    P-values rest on the mean and the spread of the drawn differences. Drawn win rates crowd toward one half, so that
    for nearly equal models they come out too large rather than too small. They are for drawn instances; for drawn
    benchmarks `sign_flip_p_values` gives them.

    Parameters: points, shape (n_models,): guarded win rates as measured.
    """
    ranked = separable_pairs(draws.guarded, points)
    told, p_values = ranked.copy(), np.ones(ranked.shape)
    for i in range(len(points) - 1):
        later = slice(i + 1, None)
        differences = draws.guarded[:, [i]] - draws.guarded[:, later]
        p_values[i, later] = _p_values(differences, points[i] - points[later])
    for (i, j), difference in draws.shared.items():
        side = np.sign(points[i] - points[j])
        told[i, j] &= bool(np.quantile(difference * side, TAIL) > NOTHING)
        told[j, i] = told[i, j]
        p = _p_values(difference[:, None].astype(float), np.array([side]))[0]
        p_values[i, j] = max(p_values[i, j], p)
    return PairwiseTests(ranked, told, np.minimum(p_values, p_values.T))


def sign_flip_p_values(values: Floats, weights: Floats, rng: np.random.Generator) -> Floats:
    """Two-sided p-values of the difference of two win rates if its sign on each benchmark were a coin toss.

    The test of `all_pairs.compare_all_pairs` for benchmarks without instance scores. For two models that
    do not have the same benchmarks, the larger of two: missing values taken as lost, and left out.

    Parameters: values, shape (n_models, n_benchmarks), nan where a model has none; weights, shape (n_benchmarks,).
    Returns: shape (n_models, n_models), symmetric, 1 on the diagonal.
    """
    tables = [np.nan_to_num(guarded_table(values)) * weights, win_table(values) * weights]
    p_values = np.ones((len(values), len(values)))
    for i, j in combinations(range(len(values)), 2):
        differences = [table[i] - table[j] for table in tables]
        p_values[i, j] = p_values[j, i] = max(sign_flip_test(d[~np.isnan(d)], rng) for d in differences)
    return p_values


def _p_values(differences: Floats, points: Floats) -> Floats:
    """P-values of columns of drawn differences, shape (draws, n); 1 for those that lie across zero from the point."""
    mean, spread = differences.mean(axis=0) * np.sign(points), differences.std(axis=0)
    spread = np.maximum(spread, NOTHING)  # the same difference in every resample
    return np.array([2 * NORMAL.cdf(-z) if z > 0 else 1.0 for z in (mean / spread).tolist()])
