"""Accumulates overall differences of many pairs of models, benchmark by benchmark, without storing all draws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from medhelm.analysis.comparison.paired import Pair, PairedBenchmark, PairedDifference
from medhelm.analysis.comparison.sign_flip_test import count_as_extreme, p_value
from medhelm.analysis.leaderboard.win_rates import DECIMALS, symmetric_interval, wins
from medhelm.analysis.statistics.cluster_bootstrap import Floats
from medhelm.analysis.statistics.means import Z95, percentile_t_interval

ENDLESS = 1e6
"""Degrees of freedom above which Student's t is treated as normal."""


class _Spread(NamedTuple):
    """Contribution of one benchmark to the uncertainty of a mean over benchmarks."""

    variance: float
    """Variance of its weighted difference."""
    df: int
    """Degrees of freedom of the variance."""


class PairSums:
    """Sums over benchmarks for every pair: differences, draws, flips and swaps, each times the benchmark's weight."""

    def __init__(self, n_pairs: int, draws: int, flips: int) -> None:
        """Allocate sums for this number of pairs, draws and flips."""
        self._weight = np.zeros(n_pairs)
        self._value = np.zeros(n_pairs)
        self._drawn = np.zeros((draws, n_pairs))
        self._flipped = np.zeros((flips, n_pairs))
        self._shares: list[list[Floats]] = [[] for _ in range(n_pairs)]
        self._spreads: list[list[_Spread]] = [[] for _ in range(n_pairs)]
        self._n = np.zeros((3, n_pairs), dtype=int)
        self._won = np.zeros(n_pairs)
        self._drawn_wins = np.zeros((draws, n_pairs))
        self._swapped_wins = np.zeros((flips, n_pairs))

    def add(
        self,
        found: PairedBenchmark,
        places: Sequence[int],
        pairs: Sequence[Pair],
        values: Floats,
        weight: float,
        rng: np.random.Generator,
    ) -> None:
        """Add a benchmark.

        Parameters: places, number of each pair of `found` here; values, shape (n_models,), normalized, nan if
        missing.
        """
        means = np.where(np.isnan(found.drawn_means), values, found.drawn_means)
        if found.n_clusters < 2:
            means = np.where(np.isnan(values), np.nan, rng.random(means.shape))
        observed, drawn = wins(values), wins(means)
        for column, (place, (i, j)) in enumerate(zip(places, pairs, strict=True)):
            difference = found.differences[column]
            if difference is None:
                continue
            self._weight[place] += weight
            self._value[place] += weight * difference.value
            self._drawn[:, place] += weight * found.drawn[:, column]
            self._flipped[:, place] += weight * found.flipped[:, column]
            shares = found.shares[column]
            self._shares[place].append(weight * shares[shares != 0])
            self._spreads[place].append(_spread(difference, weight))
            self._n[:, place] += difference.n, difference.n_left_out, difference.n_clusters
            self._won[place] += weight * (observed[i] - observed[j])
            self._drawn_wins[:, place] += weight * (drawn[:, i] - drawn[:, j])
            self._swapped_wins[:, place] += weight * swapped_win_differences(found, (i, j), values)

    def differences(self, place: int) -> tuple[PairedDifference | None, PairedDifference | None]:
        """Return the differences of macro average and win rate of one pair; None if nothing was added."""
        total = self._weight[place]
        if total == 0:
            return None, None
        macro = self._macro(place, total)
        value = self._won[place] / total
        drawn, swapped = self._drawn_wins[:, place] / total, self._swapped_wins[:, place] / total
        low, high = symmetric_interval(drawn, value)
        hits = count_as_extreme(swapped, value, 1.0)
        win_rate = PairedDifference(
            value=value,
            low=max(low, -1.0),
            high=min(high, 1.0),
            n=macro.n,
            n_left_out=macro.n_left_out,
            standard_error=float(drawn.std()),
            p_value=(hits + 1) / (len(swapped) + 1),
            n_clusters=macro.n_clusters,
        )
        return macro, win_rate

    def _macro(self, place: int, total: float) -> PairedDifference:
        value = self._value[place] / total
        spreads = self._spreads[place]
        variance = math.fsum(spread.variance for spread in spreads)
        below = math.fsum(spread.variance**2 / spread.df for spread in spreads)
        df = min(variance**2 / below, ENDLESS) if below > 0 else ENDLESS
        low, high = percentile_t_interval(self._drawn[:, place] / total, value, df)
        shares = np.concatenate(self._shares[place])
        n, n_left_out, n_clusters = self._n[:, place].tolist()
        return PairedDifference(
            value=value,
            low=max(low, -1.0),
            high=min(high, 1.0),
            n=n,
            n_left_out=n_left_out,
            standard_error=math.sqrt(variance) / total,
            p_value=p_value(shares, self._flipped[:, place]),
            n_clusters=n_clusters,
        )


def _spread(difference: PairedDifference, weight: float) -> _Spread:
    """Compute variance and degrees of freedom of one benchmark's weighted difference."""
    k = difference.n_clusters
    if k < 2:  # a single cluster gives no variance: every difference from -1 to 1 is possible
        return _Spread(weight**2 / 3, 1)
    error = difference.standard_error * math.sqrt(k / (k - 1))
    if error == 0:
        error = (difference.high - difference.low) / (2 * Z95)
    return _Spread((weight * error) ** 2, k - 1)


def swapped_win_differences(found: PairedBenchmark, pair: Pair, values: Floats) -> Floats:
    """Compute the difference of two win rates on one benchmark with some completions swapped, shape (flips,).

    Clusters are swapped whole, the rivals' values stay. Parameters: values, shape (n_models,), nan if missing.
    """
    i, j = pair
    halves = (found.flipped_sums[:, :, i] - found.flipped_sums[:, :, j]) / 2
    middle = (found.totals[:, i] + found.totals[:, j]) / 2
    with np.errstate(invalid="ignore", divide="ignore"):
        first, second = (
            np.round((middle[0] + side * halves[:, 0]) / (middle[1] + side * halves[:, 1]), DECIMALS)
            for side in (1, -1)
        )
    rivals = np.sort(np.round(np.delete(values, [i, j]), DECIMALS))
    rivals = rivals[~np.isnan(rivals)]
    beaten = [
        (np.searchsorted(rivals, mine, side="left") + np.searchsorted(rivals, mine, side="right")) / 2
        for mine in (first, second)
    ]
    difference: Floats = (beaten[0] - beaten[1] + np.sign(first - second)) / (len(rivals) + 1)
    return np.where(np.isnan(first + second), 0.0, difference)
