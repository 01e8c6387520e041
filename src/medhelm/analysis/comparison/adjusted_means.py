"""Differences of models that were not all run on the same benchmarks, by means adjusted for benchmarks.

Each value is taken as the sum of an effect of the model and one of the benchmark, and both are fitted by least squares
with the weights of the benchmarks (a network meta-analysis; Lu and Ades 2004, Stat. Med. 23). On a complete table the
difference of two models is the weighted mean of their differences, as without a fit. Elsewhere the other models say how
hard the benchmarks are that one model has and another lacks. So a model does not move by lacking a hard benchmark, or
by having an easy one. A benchmark that a single model has says nothing about the others and does not count.

Two models that were run on different benchmarks differ by more than chance explains only if that holds whatever is the
reason why results are missing. Let f be the share of the benchmarks of either that a model lacks, and s the standard
deviation of values around the fit. Then

    interaction   a model can be better or worse on what it lacks than on what it has. The variance of the mean of its
                  benchmarks, drawn from those of both, is added: s^2 (1 / has - 1 / both).
    selection     the missing results can be its worst. If the f smallest of many normal values are left out, the mean
                  of the rest rises by s phi(z) / (1 - f), with Phi(z) = f. A lead counts beyond that only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.comparison.paired_differences import (
    ENDLESS,
    Ints,
    PairedBenchmark,
    PairedDifferences,
    PairedScores,
    PairSums,
    pair_indices,
    t_quantiles,
)
from medhelm.analysis.comparison.significance import normal_p, sign_flip_p, sign_flip_tests
from medhelm.analysis.means import NORMAL, Floats, mean_over_benchmarks

PRIOR_SD = 0.1
"""Standard deviation around the fit that counts as much as one observed residual: a few residuals can all be small."""


@dataclass(frozen=True, slots=True, eq=False)
class AdjustedMeans:
    """The fit of one table of values: arrays of shape (n_models,)."""

    effects: Floats
    """Effects of the models; only differences within a group of `Design.groups` have a meaning."""
    averages: Floats
    """Expected mean over all benchmarks that count in the group of the model; nan for a model without a value."""
    expected: Floats
    """Shape (n_models, n_benchmarks): expected values on the benchmarks that count in the group; nan elsewhere."""
    residual_sd: float
    """Standard deviation of a value around the fit."""
    residual_df: float
    """Degrees of freedom of its square."""


class Design:
    """The pairs of models and benchmarks that have a value, with the weights of benchmarks."""

    def __init__(self, present: NDArray[np.bool_], weights: Floats) -> None:
        """Parameters: present, shape (n_models, n_benchmarks); weights, shape (n_benchmarks,)."""
        self.counted = present.sum(axis=0) > 1
        """Shape (n_benchmarks,): benchmarks that two models or more have."""
        self.present = present & self.counted
        """Shape (n_models, n_benchmarks), without the benchmarks that do not count."""
        self.weights = weights
        self._all_present = present

    @cached_property
    def is_complete(self) -> bool:
        """True if every model has every benchmark that counts: then nothing needs a fit."""
        return bool((self.present == self.counted).all())

    @cached_property
    def groups(self) -> NDArray[np.intp]:
        """Shape (n_models,): models of one group are linked by shared benchmarks; -1 for one that shares none."""
        groups = np.full(len(self.present), -1, dtype=np.intp)
        for start in range(len(groups)):
            if groups[start] >= 0 or not self.present[start].any():
                continue
            members = np.zeros(len(groups), dtype=np.bool_)
            members[start], size = True, 0
            while members.sum() > size:
                size = int(members.sum())
                members |= self.present[:, self.present[members].any(axis=0)].any(axis=1)
            groups[members] = groups.max() + 1
        return groups

    @property
    def _n_groups(self) -> int:
        return int(self.groups.max(initial=-1)) + 1

    def _linked(self) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
        """Yield for each group which models are in it, and which benchmarks they have."""
        for group in range(self._n_groups):
            members = self.groups == group
            yield members, self.present[members].any(axis=0)

    @cached_property
    def main_group(self) -> NDArray[np.bool_]:
        """Shape (n_models,): True for the models of the largest group, which can be ranked; of a tie the first one."""
        if len(self.groups) == 1:
            return np.ones(1, dtype=np.bool_)
        sizes = np.bincount(self.groups[self.groups >= 0], minlength=1)
        return np.asarray(self.groups == int(sizes.argmax()))

    @cached_property
    def differ(self) -> NDArray[np.bool_]:
        """Shape (n_pairs,): pairs of models that were not run on the same benchmarks, of those that count."""
        first, second = pair_indices(len(self.present))
        shared = self.present.astype(float) @ self.present.T
        sizes = self.present.sum(axis=1)
        found: NDArray[np.bool_] = np.rint(shared[first, second]) < np.maximum(sizes[first], sizes[second])
        return found

    @cached_property
    def _solution(self) -> Floats:
        """Pseudo-inverse of the normal equations for the models, benchmarks eliminated: shape (n_models, n_models)."""
        shares = self.present * self.weights / np.maximum(self.present.sum(axis=0), 1)
        normal = np.diag(self.present @ self.weights) - shares @ self.present.T
        found: Floats = np.linalg.pinv(normal, hermitian=True)
        return found

    def influence(self, benchmark: int) -> Floats:
        """Return how much the values of one benchmark contribute to each effect: shape (n_models, n_models).

        Effects are the sum, over benchmarks, of this matrix times the values of all models on the benchmark.
        """
        here = self.present[:, benchmark]
        columns = np.where(here, self._solution * self.weights[benchmark], 0.0)
        means = columns.sum(axis=1, keepdims=True) / max(int(here.sum()), 1)
        return np.where(here, columns - means, 0.0)

    def fit(self, values: Floats) -> AdjustedMeans:
        """Fit a table of values, shape (n_models, n_benchmarks), nan where there is none."""
        present, weights = self.present, self.weights
        filled = np.where(present, np.nan_to_num(values), 0.0)
        sizes = np.maximum(present.sum(axis=0), 1)
        centered = np.where(present, filled - filled.sum(axis=0) / sizes, 0.0)
        if self.is_complete:
            effects = filled @ weights / max(float(weights[self.counted].sum()), 1e-300)
        else:
            effects = self._solution @ (centered @ weights)
        difficulty = (filled - np.where(present, effects[:, None], 0.0)).sum(axis=0) / sizes
        residuals = np.where(present, filled - effects[:, None] - difficulty, 0.0)
        df = int(present.sum()) - int(present.any(axis=1).sum()) - int(self.counted.sum()) + self._n_groups
        scale = weights[self.counted].mean() if self.counted.any() else 1.0
        squares = float((residuals**2 @ weights).sum()) / scale
        return AdjustedMeans(
            effects=effects,
            averages=self._averages(values, effects, difficulty),
            expected=self._expected(effects, difficulty),
            residual_sd=float(np.sqrt((squares + PRIOR_SD**2) / (df + 1))),
            residual_df=df + 1.0,
        )

    def _averages(self, values: Floats, effects: Floats, difficulty: Floats) -> Floats:
        """Return the mean of each model over the benchmarks of its group; of its own ones if it shares none."""
        averages = np.full(len(effects), np.nan)
        own = self._all_present * self.weights
        totals = own.sum(axis=1)
        alone = (self.groups < 0) & (totals > 0)
        np.divide((own * np.nan_to_num(values)).sum(axis=1), totals, where=alone, out=averages)
        for members, linked in self._linked():
            weights = self.weights * linked
            averages[members] = effects[members] + difficulty @ weights / weights.sum()
        return averages

    def _expected(self, effects: Floats, difficulty: Floats) -> Floats:
        """Return the expected values of the models of each group on its benchmarks."""
        expected = np.full(self.present.shape, np.nan)
        for members, linked in self._linked():
            expected[np.ix_(members, linked)] = effects[members][:, None] + difficulty[linked]
        return expected

    @cached_property
    def lacking(self) -> tuple[Floats, Floats]:
        """Share of the benchmarks of either model that the first lacks, and the second: shape (n_pairs,) each."""
        has, both = self._sums(self.weights)
        first, second = pair_indices(len(has))
        return 1 - has[first] / both, 1 - has[second] / both

    def lacking_in_group(self) -> Floats:
        """Return the share of the benchmarks of its group that each model lacks: shape (n_models,)."""
        lacking = np.zeros(len(self.present))
        for members, linked in self._linked():
            weights = self.weights * linked
            lacking[members] = 1 - self.present[members] @ weights / weights.sum()
        return lacking

    @cached_property
    def interaction(self) -> Floats:
        """Factor of the variance around the fit in the variance of each difference, shape (n_pairs,)."""
        has, both = self._sums(self.weights)
        squares, both_squares = self._sums(self.weights**2)
        first, second = pair_indices(len(has))
        own = squares / np.where(has > 0, has, 1.0) ** 2
        found: Floats = np.maximum(own[first] + own[second] - 2 * both_squares / both**2, 0.0)
        return found

    def average_excess(self) -> Floats:
        """Return by how much missing values raise the variance of each model's average, in units of that of a value.

        That is the sum of squared weights of all values in the average, less that of a model which has all benchmarks.
        """
        excess = np.zeros(len(self.present))
        sizes = np.maximum(self.present.sum(axis=0), 1)
        for members, linked in self._linked():
            shares = self.weights * linked
            shares = shares / shares.sum()
            through_difficulty = (self.present * shares / sizes).sum(axis=1) * members
            squares = np.zeros(int(members.sum()))
            for benchmark in np.flatnonzero(shares).tolist():
                influence = self.influence(benchmark)
                own = shares[benchmark] * self.present[:, benchmark] / sizes[benchmark]
                squares += ((influence[members] + own - through_difficulty @ influence) ** 2).sum(axis=1)
            excess[members] = np.maximum(squares - float(shares @ shares), 0.0)
        return excess

    def _sums(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return sums of weights: of each model's benchmarks, and of those of either model of each pair."""
        first, second = pair_indices(len(self.present))
        has = self.present @ weights
        shared = (self.present * weights) @ self.present.T
        both = has[first] + has[second] - shared[first, second]
        return has, np.where(both > 0, both, 1.0)


def selection_gain(lacking: Floats) -> Floats:
    """Return by how many standard deviations a mean rises if the smallest values, this share of them, are left out.

    >>> f"{selection_gain(np.array([0.5]))[0]:.3f}"
    '0.798'
    """
    shares, places = np.unique(np.clip(lacking, 0.0, 1 - 1e-9), return_inverse=True)
    gains = [NORMAL.pdf(NORMAL.inv_cdf(one)) / (1 - one) if one > 1e-12 else 0.0 for one in shares.tolist()]
    return np.array(gains)[places]


# --- differences of adjusted means ------------------------------------------------------------------------------------
# Estimates, intervals and tests for two models that were not run on the same benchmarks.
#
# The difference is that of the adjusted means, a weighted sum of the values of all models. Its variance follows on each
# benchmark from the variances of the differences of every two models: for weights a that add up to zero, it is minus
# one half of the sum of a_i a_j var(x_i - x_j). To this comes what the missing benchmarks could change; see the
# docstring of this module. Student's t has degrees of freedom by Satterthwaite (1946, Biom. Bull. 2).

LARGEST_VARIANCE = 1 / 3
"""Variance of a difference of which nothing is known: every value from -1 to 1 is possible."""


class AdjustedDifferences(NamedTuple):
    """Differences of adjusted means: arrays of shape (n_pairs,)."""

    value: Floats
    low: Floats
    high: Floats
    standard_error: Floats
    p_value: Floats


class ContrastVariances:
    """Variances of the differences of adjusted means, from one benchmark at a time."""

    def __init__(self, design: Design) -> None:
        """Start without any benchmark."""
        self._design = design
        self._first, self._second = pair_indices(len(design.present))
        self._variance, self._below = np.zeros((2, len(self._first)))

    def add(self, benchmark: int, variance: Floats, df: Floats, known: NDArray[np.bool_]) -> None:
        """Add a benchmark.

        Parameters: variance and df, shape (n_pairs,), of the difference of every two models on it; known, alike, True
        for pairs that share an instance.
        """
        if not known.any():
            return
        n = len(self._design.present)
        table = np.zeros((n, n))
        here = self._design.present[:, benchmark]
        filled = np.where(known, variance, np.max(variance, where=known, initial=LARGEST_VARIANCE))
        filled = np.where(here[self._first] & here[self._second], filled, 0.0)
        table[self._first, self._second] = table[self._second, self._first] = filled
        influence = self._design.influence(benchmark)
        self._add(-(influence @ table @ influence.T) / 2, np.where(known, df, np.min(df, where=known, initial=ENDLESS)))

    def add_equal(self, benchmark: int) -> None:
        """Add a benchmark on which all values have the variance 1 and vary independently of each other."""
        influence = self._design.influence(benchmark)
        self._add(influence @ influence.T, np.full(len(self._first), ENDLESS))

    def _add(self, covariance: Floats, df: Floats) -> None:
        own = np.diag(covariance)
        part = np.maximum(own[self._first] + own[self._second] - 2 * covariance[self._first, self._second], 0.0)
        self._variance += part
        self._below += part**2 / df

    def differences(self, values: Floats, *, within: bool = True) -> AdjustedDifferences:
        """Return the difference of every two models with its interval and test.

        Parameters: values, shape (n_models, n_benchmarks), nan where there is none; within, True if variances are those
        of instances, to which the choice of benchmarks is added; False if benchmarks are the units, each with the
        variance around the fit.
        """
        fit, design = self._design.fit(values), self._design
        squared = fit.residual_sd**2
        if within:
            extra = squared * design.interaction
            variance, below = self._variance + extra, self._below + extra**2 / fit.residual_df
        else:
            variance = squared * self._variance
            below = variance**2 / fit.residual_df
        df = np.divide(variance**2, below, out=np.full(len(variance), ENDLESS), where=below > 0)
        df = np.clip(df, 1.0, ENDLESS)
        value = fit.effects[self._first] - fit.effects[self._second]
        gain_first, gain_second = (fit.residual_sd * selection_gain(share) for share in design.lacking)
        error = np.sqrt(variance)
        half = t_quantiles(df) * error
        lead = np.abs(value) - np.where(value > 0, gain_first, gain_second)
        t = np.divide(np.maximum(lead, 0.0), error, out=np.zeros_like(error), where=error > 0)
        return AdjustedDifferences(
            value,
            np.maximum(value - half - gain_first, -1.0),
            np.minimum(value + half + gain_second, 1.0),
            error,
            normal_p(normal_deviates(t, df)),
        )


def normal_deviates(t: Floats, df: Floats) -> Floats:
    """Return normal deviates with about the tails of Student's t (Wallace 1959, Ann. Math. Stat. 30): shape (m,).

    >>> f"{normal_deviates(np.array([2.228]), np.array([10.0]))[0]:.2f}"
    '1.96'
    """
    deviates: Floats = np.sqrt(df * np.log1p(t * t / df)) * (8 * df + 1) / (8 * df + 3)
    return deviates


# --- overall differences ----------------------------------------------------------------------------------------------
# Weighted means over benchmarks for every two models, from sums of one benchmark at a time.


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
    mean = mean_over_benchmarks(found, design.weights, lowest=-1.0)
    n = (~np.isnan(found)).sum(axis=1)
    contributions = np.nan_to_num(found) * design.weights
    result = PairedDifferences(
        value=mean.value,
        low=mean.low,
        high=mean.high,
        n=n,
        n_left_out=table.shape[1] - n,
        standard_error=mean.standard_error,
        p_value=np.where(n > 0, sign_flip_tests(contributions), np.nan),
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
