"""Means of models that were not all run on the same benchmarks: least squares on model and benchmark.

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

from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.comparison.paired import pair_indices
from medhelm.analysis.statistics.cluster_bootstrap import Floats

PRIOR_SD = 0.1
"""Standard deviation around the fit that counts as much as one observed residual: a few residuals can all be small."""

NORMAL = NormalDist()
"""The standard normal distribution."""


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
        n_groups = int(self.groups.max(initial=-1)) + 1
        df = int(present.sum()) - int(present.any(axis=1).sum()) - int(self.counted.sum()) + n_groups
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
        for group in range(-1, int(self.groups.max(initial=-1)) + 1):
            members = self.groups == group
            if group < 0:
                weights = self._all_present * self.weights
                totals = weights.sum(axis=1)
                own = np.divide((weights * np.nan_to_num(values)).sum(axis=1), totals, where=totals > 0, out=averages)
                averages = np.where(members, own, np.nan)
                continue
            weights = self.weights * self.present[members].any(axis=0)
            averages[members] = effects[members] + difficulty @ weights / weights.sum()
        return averages

    def _expected(self, effects: Floats, difficulty: Floats) -> Floats:
        """Return the expected values of the models of each group on its benchmarks."""
        expected = np.full(self.present.shape, np.nan)
        for group in range(int(self.groups.max(initial=-1)) + 1):
            members = self.groups == group
            linked = self.present[members].any(axis=0)
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
        for group in range(int(self.groups.max(initial=-1)) + 1):
            members = self.groups == group
            linked = self.weights * self.present[members].any(axis=0)
            lacking[members] = 1 - self.present[members] @ linked / linked.sum()
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
        for group in range(int(self.groups.max(initial=-1)) + 1):
            members = self.groups == group
            shares = self.weights * self.present[members].any(axis=0)
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
