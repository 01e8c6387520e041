"""Compares two models, or all pairs of many, on one benchmark: paired differences with intervals and sign-flip tests.

All pairs share their draws: one set of resampling weights and one set of coin tosses for the benchmark, each multiplied
with the scores of all models at once. A pair of models with scores for the same instances is the difference of two
columns of the products; a pair that lacks some gets its own column.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.comparison.sign_flip_test import FLIPS, p_value, random_signs, sign_flip_test
from medhelm.analysis.statistics.cluster_bootstrap import (
    LARGE,
    Clusters,
    Floats,
    cluster_codes,
    cluster_totals,
    draw_means,
    ratio_standard_error,
)
from medhelm.analysis.statistics.means import DRAWS, Z95, constant_interval, percentile_t_interval

ENOUGH = 50
"""Minimum number of clusters for a pair that lacks some instances to share the draws of the others."""

Pair = tuple[int, int]
"""Two models by their rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedDifference:
    """Mean difference between two models on the instances both have a score for."""

    value: float
    """Mean of first minus second, in the metric's own unit."""
    low: float
    """Lower end of the 95% interval."""
    high: float
    """Upper end of the 95% interval."""
    n: int
    """Number of instances with both scores."""
    n_left_out: int
    """Number of instances with a score of one model or none."""
    standard_error: float
    """Standard error of the mean, instances of a cluster taken together."""
    p_value: float
    """Two-sided, for the hypothesis that the sign of each cluster's difference is a coin toss."""
    n_clusters: int
    """Number of clusters with such an instance; equal to `n` if all instances are independent."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairedBenchmark:
    """Paired differences of every pair on one benchmark, and the resamples behind them."""

    differences: tuple[PairedDifference | None, ...]
    """Difference of each pair; None if the two share no instance."""
    shares: tuple[Floats, ...]
    """Contribution of each cluster to each pair's difference; they sum to the difference."""
    drawn: Floats
    """Shape (draws, n_pairs): differences on resampled instances."""
    flipped: Floats
    """Shape (flips, n_pairs): differences under random signs of the clusters."""
    drawn_means: Floats
    """Shape (draws, n_models): means on the same resampled instances; nan for a model without a score."""
    totals: Floats
    """Shape (2, n_models): sum and count of each model's scores."""
    flipped_sums: Floats
    """Shape (flips, 2, n_models): sums and counts of each model under the same signs."""
    n_clusters: int
    """Number of clusters of the benchmark."""


def paired_difference(
    a: Floats,
    b: Floats,
    clusters: Clusters,
    rng: np.random.Generator,
    *,
    span: float = 1.0,
    draws: int = DRAWS,
) -> PairedDifference | None:
    """Compare two models on the same instances: bootstrap interval and sign-flip test of the mean difference.

    Parameters: a and b, shape (n,), aligned by instance, nan for a failure; clusters, n names; span, length of the
    metric's scale, which bounds the interval when all differences are equal.
    Returns: None when no instance has both scores.
    """
    both = np.stack([np.asarray(a, dtype=float), np.asarray(b, dtype=float)])
    return paired_differences(both, clusters, [(0, 1)], rng, span=span, draws=draws, flips=0).differences[0]


def paired_differences(
    scores: Floats,
    clusters: Clusters,
    pairs: Sequence[Pair],
    rng: np.random.Generator,
    *,
    span: float = 1.0,
    draws: int = DRAWS,
    flips: int = FLIPS,
    weights: Floats | None = None,
) -> PairedBenchmark:
    """Compare many pairs of models on the same instances.

    Parameters: scores, shape (n_models, n), aligned by instance, nan if missing; clusters, n names; pairs,
    first minus second; span, length of the scale; weights, shape (n,), how much each instance counts in a mean, None
    for all alike; only where all instances are independent; flips, 0 where `PairedBenchmark.flipped` is not used.
    """
    codes, k = cluster_codes(clusters, scores.shape[1])
    sums, counts = cluster_totals(scores, codes, k)
    apart, own_rows = _pairs_apart(scores, pairs)
    own_sums, own_counts = cluster_totals(own_rows, codes, k) if apart else (np.empty((k, 0)), np.empty((k, 0)))
    sums, counts = np.concatenate([sums, own_sums], axis=1), np.concatenate([counts, own_counts], axis=1)
    if weights is not None:
        sums, counts = sums * weights[np.argsort(codes), None], counts * weights[np.argsort(codes), None]
    means, flipped_sums = _draw(sums, counts, draws, rng), _swing(sums, counts, flips, rng)
    models = len(scores)
    found: list[PairedDifference | None] = []
    shares: list[Floats] = []
    drawn, flipped = np.full((draws, len(pairs)), np.nan), np.full((flips, len(pairs)), np.nan)
    for place, (i, j) in enumerate(pairs):
        if place in apart:
            column = models + apart[place]
            total, count = sums[:, column], counts[:, column]
            pair_means, swing = means[:, column], flipped_sums[:, 0, column]
        else:
            total, count = sums[:, i] - sums[:, j], counts[:, i]
            pair_means, swing = means[:, i] - means[:, j], flipped_sums[:, 0, i] - flipped_sums[:, 0, j]
        here = count > 0
        if not here.any():
            found.append(None)
            shares.append(np.empty(0))
            continue
        values = scores[i] - scores[j]
        part = _Part(values, codes, total[here], count[here], span, weights)
        one, drawn[:, place] = part.described(pair_means, swing, k, rng)
        flipped[:, place] = swing / count.sum()
        found.append(one)
        shares.append(part.totals / count.sum())
    return PairedBenchmark(
        differences=tuple(found),
        shares=tuple(shares),
        drawn=drawn,
        flipped=flipped,
        drawn_means=means[:, :models],
        totals=np.stack([sums[:, :models].sum(axis=0), counts[:, :models].sum(axis=0)]),
        flipped_sums=flipped_sums[:, :, :models],
        n_clusters=k,
    )


def _pairs_apart(scores: Floats, pairs: Sequence[Pair]) -> tuple[dict[int, int], Floats]:
    """Find pairs with unequal instances: their position -> row, and the rows of their differences."""
    missing = np.isnan(scores)
    places = [place for place, (i, j) in enumerate(pairs) if (missing[i] != missing[j]).any()]
    rows = [scores[pairs[place][0]] - scores[pairs[place][1]] for place in places]
    return {place: row for row, place in enumerate(places)}, np.array(rows).reshape(len(rows), scores.shape[1])


def _draw(sums: Floats, counts: Floats, draws: int, rng: np.random.Generator) -> Floats:
    """Compute means on resampled clusters, shape (draws, columns); all nan for a single cluster."""
    means = np.full((draws, sums.shape[1]), np.nan)
    has = counts.sum(axis=0) > 0
    if len(sums) > 1 and has.any():
        means[:, has] = draw_means(sums[:, has], counts[:, has], rng, draws)
    return means


def _swing(sums: Floats, counts: Floats, flips: int, rng: np.random.Generator) -> Floats:
    """Compute sums and counts under random signs of clusters, shape (flips, 2, columns); normal above `LARGE`."""
    k, columns = sums.shape
    if flips == 0:
        return np.empty((0, 2, columns))
    both = np.concatenate([sums, counts], axis=1)
    if k > LARGE:
        drawn = rng.multivariate_normal(np.zeros(2 * columns), both.T @ both, size=flips, method="eigh")
    else:
        drawn = np.concatenate([heads @ both for heads in random_signs(k, flips, rng)]) * 2 - both.sum(axis=0)
    return drawn.reshape(flips, 2, columns)


def adjusted_wald_interval(only_first: int, only_second: int, n: int) -> tuple[float, float]:
    """Compute the 95% interval of the difference of two models' accuracy on the same n instances.

    The adjusted Wald interval of Bonett and Price (2012, J. Educ. Behav. Stat. 37): one more question that only the
    first, and one that only the second got right. The bootstrap is too short where few questions divide the models.

    >>> low, high = adjusted_wald_interval(9, 3, 100)
    >>> f"{low:.4f} {high:.4f}"
    '-0.0122 0.1298'
    """
    first, second = (only_first + 1) / (n + 2), (only_second + 1) / (n + 2)
    value = first - second
    half = Z95 * math.sqrt((first + second - value**2) / (n + 2))
    return value - half, value + half


class _Part:
    """Scores of a pair on the instances that both share."""

    def __init__(
        self,
        values: Floats,
        codes: NDArray[np.intp],
        totals: Floats,
        counts: Floats,
        span: float,
        weights: Floats | None,
    ) -> None:
        shared = ~np.isnan(values)
        self.values = values[shared]
        self.codes = codes[shared]
        self.totals = totals
        self.counts = counts
        self.span = span
        self.k = len(totals)
        self.n_left_out = len(values) - len(self.values)
        self.mean = float(totals.sum() / counts.sum())
        self.weighted = weights is not None

    def described(
        self, means: Floats, swing: Floats, k: int, rng: np.random.Generator
    ) -> tuple[PairedDifference, Floats]:
        """Return the difference and its draws, shape (draws,); `means` and `swing` are those of all `k` clusters."""
        if self.k < 2:
            means = rng.uniform(-self.span, self.span, len(means))
        elif self.k < min(k, ENOUGH):
            means = draw_means(self.totals[:, None], self.counts[:, None], rng, len(means))[:, 0]
        elif np.isnan(means).any():
            means = np.where(np.isnan(means), self.mean, means)
        low, high = self._limits(means)
        if self._is_constant():
            # Resampling equal differences gives no spread, so use the interval of unobserved outcomes.
            means = self.mean + rng.normal(0.0, (high - low) / (2 * Z95), len(means))
        error = ratio_standard_error(self.totals, self.counts) * math.sqrt(1 - 1 / self.k) if self.k > 1 else 0.0
        difference = PairedDifference(
            value=self.mean,
            low=min(max(low, -self.span), self.mean),
            high=max(min(high, self.span), self.mean),
            n=len(self.values),
            n_left_out=self.n_left_out,
            standard_error=error,
            p_value=p_value(self.totals, swing) if len(swing) else sign_flip_test(self.totals, rng),
            n_clusters=self.k,
        )
        return difference, means

    def _is_of_rights_and_wrongs(self) -> bool:
        """Return True for differences of independent 0/1 scores."""
        alone = self.k == len(self.values) and not self.weighted
        return alone and bool(np.isin(self.values, (-self.span, 0.0, self.span)).all())

    def _is_constant(self) -> bool:
        return self.k > 1 and bool(self.values.min() == self.values.max())

    def _limits(self, means: Floats) -> tuple[float, float]:
        if self.k < 2:
            return -self.span, self.span
        if self._is_of_rights_and_wrongs():
            low, high = adjusted_wald_interval(
                int((self.values > 0).sum()), int((self.values < 0).sum()), len(self.values)
            )
            return min(low * self.span, self.mean), max(high * self.span, self.mean)
        if self._is_constant():
            return constant_interval(self.mean, self.k, -self.span, self.span)
        if self.k > LARGE:
            half = Z95 * ratio_standard_error(self.totals, self.counts)
            return self.mean - half, self.mean + half
        return percentile_t_interval(means, self.mean, self.k - 1)
