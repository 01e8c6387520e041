"""Overall differences of every two models: weighted means over benchmarks, from sums of one benchmark at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.comparison.adjusted_means import Design
from medhelm.analysis.comparison.incomplete import ContrastVariances
from medhelm.analysis.comparison.pair_numbers import PairedBenchmark, PairSums
from medhelm.analysis.comparison.paired import (
    ENDLESS,
    Ints,
    PairedDifferences,
    PairedScores,
    pair_indices,
    t_quantiles,
)
from medhelm.analysis.comparison.sign_flip_test import sign_flip_p, sign_flip_tests
from medhelm.analysis.statistics.cluster_bootstrap import Floats
from medhelm.analysis.statistics.means import constant_variance

NO_SPREAD = 1e-24
"""Sum of squared deviations below which differences are equal."""


class MissingScores:
    """Bounds of what missing scores could change in the difference of each pair, averaged over benchmarks.

    A model's mean with all missing scores the worst, or the best, is compared with the other's mean over all of its
    instances: on what one model lacks, the other may have been right or wrong. An interval that is moved by as much
    covers whatever the missing scores would have been (Imbens and Manski 2004).
    """

    def __init__(self, design: Design) -> None:
        """Start without any benchmark."""
        self._design = design
        self._first, self._second = pair_indices(len(design.present))
        self._worst, self._best, self._weight = np.zeros((3, len(self._first)))
        self._is_missing = np.zeros(len(self._first), dtype=np.bool_)
        self._adjusted = np.zeros((2, len(self._first)))

    def add(self, benchmark: int, missing: Floats, mean: Floats) -> None:
        """Add a benchmark: the share of missing scores or win shares of each model, and the mean of the others."""
        low = (1 - missing) * mean
        high = low + missing
        share = np.maximum(missing[self._first], missing[self._second])
        here = self._design.weights[benchmark] * (share < 1)
        self._worst += here * (low[self._first] - high[self._second])
        self._best += here * (high[self._first] - low[self._second])
        self._weight += here
        self._is_missing |= (share > 0) & (share < 1)
        if self._design.is_complete:
            return
        influence = self._design.influence(benchmark)
        for model in np.flatnonzero((missing > 0) & (missing < 1)).tolist():
            part = influence[self._first, model] - influence[self._second, model]
            rise, fall = np.maximum(part, 0.0), np.maximum(-part, 0.0)
            down, up = mean[model] - low[model], high[model] - mean[model]
            self._adjusted += rise * [[down], [up]] + fall * [[up], [down]]

    def shifts(self, value: Floats) -> Floats:
        """Return how far missing scores could lower, and raise, the difference of each pair: shape (2, n_pairs).

        One of both is negative where the difference on shared instances is beyond all that missing scores allow.
        `value`: shape (n_pairs,), the differences on shared instances.
        """
        weight = np.where(self._weight > 0, self._weight, 1.0)
        shared = np.stack([value - self._worst / weight, self._best / weight - value])
        shared = np.where(self._is_missing, np.nan_to_num(shared), 0.0)
        return shared if self._design.is_complete else np.where(self._design.differ, self._adjusted, shared)


class OverallDifferences:
    """Weighted mean of the differences of every pair over benchmarks, from sums of one benchmark at a time."""

    def __init__(self, design: Design, select: Callable[[PairedBenchmark], PairedScores]) -> None:
        """Start without any benchmark.

        Parameters: design, which model has a value on which benchmark; select, returns the scores or the win shares of
        a benchmark.
        """
        self._design, self._select = design, select
        n_pairs = len(pair_indices(len(design.present))[0])
        self._weight, self._value, self._variance, self._below = np.zeros((4, n_pairs))
        self._squares, self._fourths = np.zeros((2, n_pairs))
        self._counts = np.zeros((3, n_pairs), dtype=np.intp)
        self._parts: list[_ComparedBenchmark] = []
        self._contrasts = None if design.is_complete else ContrastVariances(design)
        self.n_benchmarks: Ints = np.zeros(n_pairs, dtype=np.intp)
        """Benchmarks that the two models of each pair share."""
        self.are_scores: NDArray[np.bool_] = np.zeros(n_pairs, dtype=np.bool_)
        """True for pairs whose only benchmark has 0/1 scores: there the difference of win shares is that of scores."""

    def add(self, benchmark: int, sums: PairSums, paired: PairedBenchmark, raw: PairSums | None = None) -> None:
        """Add a benchmark.

        Parameters: paired, the scores behind the sums; raw, the sums of the scores behind win shares: on 0/1 scores the
        variance of win shares is a multiple of theirs.
        """
        here, weight = sums.n > 0, float(self._design.weights[benchmark])
        n = np.maximum(sums.n, 1)
        variance, df = sums.variance, sums.df
        is_scaled = raw is not None and raw.is_binary
        if raw is not None and is_scaled:
            ratio = np.divide(sums.squares, raw.squares, out=np.full(len(n), 0.25), where=raw.squares > 0)
            variance, df = raw.variance * ratio, raw.df
        self._weight += weight * here
        self._value += np.where(here, weight * sums.total / n, 0.0)
        self._variance += here * weight**2 * variance
        self._below += here * weight**4 * variance**2 / df
        self._squares += here * weight**2 * sums.squares / n**2
        self._fourths += here * weight**4 * sums.fourths / _fourth_power(n)
        self._counts += np.stack([sums.n, sums.n_instances - sums.n, sums.n_clusters]) * here
        self.n_benchmarks += here
        self._parts.append(_ComparedBenchmark(here, weight, paired, is_scaled))
        if self._contrasts is not None and self._design.counted[benchmark]:
            self._contrasts.add(benchmark, variance, df, here)

    def _shares(self, pairs: Ints) -> Floats:
        """Return the weighted contribution of each cluster of each benchmark to some differences."""
        parts = [one.weight * self._select(one.paired).shares(pairs) for one in self._parts]
        return np.concatenate(parts, axis=1)

    def differences(
        self, values: Floats, scores: PairedDifferences | None = None, *, are_proportional: bool = False
    ) -> PairedDifferences:
        """Return the overall difference of every pair.

        Parameters: values, shape (n_models, n_benchmarks), nan where there is none; scores, for win shares, the
        differences of scores; are_proportional, True if win shares are a multiple of them: then p-values are equal.
        """
        here = self._weight > 0
        weight = np.where(here, self._weight, 1.0)
        value = np.where(here, self._value / weight, np.nan)
        variance = self._variance / weight**2
        df = np.divide(self._variance**2, self._below, out=np.full(len(weight), ENDLESS), where=self._below > 0)
        half = t_quantiles(np.clip(df, 1.0, ENDLESS)) * np.sqrt(variance)
        low, high = np.maximum(value - half, -1.0), np.minimum(value + half, 1.0)
        found = PairedDifferences(
            value=value,
            low=low,
            high=high,
            n=self._counts[0],
            n_left_out=self._counts[1],
            standard_error=np.sqrt(variance),
            p_value=scores.p_value.copy() if scores and are_proportional else self._p_values(),
            n_clusters=self._counts[2],
        )
        self._set_single_benchmarks(found, scores)
        if self._contrasts is not None:
            adjusted = self._contrasts.differences(values)
            where = self._design.differ & here
            for name, numbers in adjusted._asdict().items():
                getattr(found, name)[where] = numbers[where]
        return found.match_limits_to_tests()

    def _p_values(self) -> Floats:
        """Compute p-values of pairs that share several benchmarks; nan for the others."""
        p_values = np.full(len(self._value), np.nan)
        several = np.flatnonzero(self.n_benchmarks > 1)
        p_values[several] = sign_flip_p(
            self._value[several],
            self._squares[several],
            self._fourths[several],
            lambda some: self._shares(several[some]),
        )
        return p_values

    def _set_single_benchmarks(self, differences: PairedDifferences, scores: PairedDifferences | None) -> None:
        """Give pairs that share one benchmark the interval and the p-value that they have there."""
        alone = self.n_benchmarks == 1
        for one in self._parts:
            pairs = np.flatnonzero(alone & one.here)
            if len(pairs) == 0:
                continue
            if one.is_scaled and scores is not None:
                self.are_scores[pairs] = True
                continue
            paired = self._select(one.paired)
            low, high = paired.limits()
            differences.low[pairs], differences.high[pairs] = low[pairs], high[pairs]
            differences.p_value[pairs] = paired.p_values_of(pairs)
        if scores is not None:
            replace_differences(differences, scores, self.are_scores)


class _ComparedBenchmark(NamedTuple):
    """A benchmark in an overall difference."""

    here: NDArray[np.bool_]
    """Shape (n_pairs,): True for pairs that share an instance."""
    weight: float
    paired: PairedBenchmark
    is_scaled: bool
    """True for win shares of 0/1 scores, whose differences are multiples of those of the scores."""


def _fourth_power(counts: Ints) -> Floats:
    """Raise whole numbers to the fourth power."""
    squares = counts.astype(float) ** 2
    return np.asarray(squares * squares)


def replace_differences(differences: PairedDifferences, new: PairedDifferences, where: NDArray[np.bool_]) -> None:
    """Replace the differences at some places by those of another array."""
    for name in PairedDifferences.__slots__:
        getattr(differences, name)[where] = getattr(new, name)[where]


def differences_over_benchmarks(table: Floats, design: Design) -> PairedDifferences:
    """Compare the weighted means of every two models over benchmarks, each benchmark an independent unit.

    `table`: shape (n_models, n_benchmarks), values or win rates, nan if missing.
    """
    first, second = pair_indices(len(table))
    found = table[first] - table[second]
    share = ~np.isnan(found) * design.weights
    n = (share > 0).sum(axis=1)
    total = np.where(n > 0, share.sum(axis=1), 1.0)
    found = np.nan_to_num(found)
    value = np.where(n > 0, (share * found).sum(axis=1) / total, np.nan)
    middle = np.nan_to_num(value)
    residual = (share**2 * (found - middle[:, None]) ** 2).sum(axis=1)
    variance = n / np.maximum(n - 1, 1) * residual / total**2
    equal = (n > 1) & (residual < NO_SPREAD)
    variance[equal] = constant_variance(n[equal], -1.0, 1.0)
    half = np.where(n > 1, t_quantiles(np.maximum(n - 1.0, 1.0)) * np.sqrt(variance), 2.0)
    result = PairedDifferences(
        value=value,
        low=np.maximum(value - half, -1.0),
        high=np.minimum(value + half, 1.0),
        n=n,
        n_left_out=table.shape[1] - n,
        standard_error=np.sqrt(variance),
        p_value=np.where(n > 0, sign_flip_tests(share * found), np.nan),
        n_clusters=n,
    )
    if not design.is_complete:
        contrasts = ContrastVariances(design)
        for benchmark in np.flatnonzero(design.counted).tolist():
            contrasts.add_equal(benchmark)
        where = design.differ & (n > 0)
        for name, numbers in contrasts.differences(table, within=False)._asdict().items():
            getattr(result, name)[where] = numbers[where]
    return result.match_limits_to_tests()
