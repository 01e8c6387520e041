"""Compares every two models on one benchmark: paired differences with intervals and sign-flip tests.

Sums over instances for all pairs are matrix products of the models' scores, so that many models cost little more than a
few. Instances of a cluster count together. The interval of a difference comes from

    0/1 scores    the adjusted Wald interval of Bonett and Price (2012, J. Educ. Behav. Stat. 37): one more question
                  that only the first, and one that only the second model got right
    other scores  Student's t with the standard error over clusters
    equal ones    `constant_interval`: equal differences show no spread
    one cluster   the whole scale: one says nothing of the spread
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.comparison.sign_flip_test import BLOCK, MANY, edgeworth_p, mcnemar_mid_p, sign_flip_tests
from medhelm.analysis.statistics.cluster_bootstrap import Clusters, Floats, cluster_codes, cluster_totals
from medhelm.analysis.statistics.distributions import t_quantile
from medhelm.analysis.statistics.means import MDE_FACTOR, Z95, constant_interval

Ints = NDArray[np.intp]
"""Array of whole numbers; each use documents its shape."""

Pair = tuple[int, int]
"""Two models by their rows."""

ENDLESS = 1e6
"""Degrees of freedom from which Student's t is treated as normal."""

ROUNDING = 1e-12
"""Share of the sum of squares below which a variance is a rounding error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedDifference:
    """Mean difference between two models on the instances both have a score for."""

    value: float
    """Mean of first minus second, on a scale where 1 is best."""
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
class PairedDifferences:
    """A difference for each of many pairs of models: arrays of shape (n_pairs,), fields as in `PairedDifference`.

    Values are nan and `n` is 0 for pairs that share nothing.
    """

    value: Floats
    low: Floats
    high: Floats
    n: Ints
    n_left_out: Ints
    standard_error: Floats
    p_value: Floats
    n_clusters: Ints

    def __getitem__(self, pair: int) -> PairedDifference | None:
        """Return one difference; None if the two models share nothing."""
        if not self.n[pair]:
            return None
        found = {field.name: getattr(self, field.name)[pair].item() for field in fields(self)}
        return PairedDifference(**found)


def pair_indices(n_models: int) -> tuple[Ints, Ints]:
    """Return the first and the second model of every pair, in the order of `PairedDifferences`."""
    return np.triu_indices(n_models, 1)


def paired_difference(a: Floats, b: Floats, clusters: Clusters) -> PairedDifference | None:
    """Compare two models on the same instances.

    Parameters: a and b, shape (n,), aligned by instance, normalized to 0..1, nan for a failure; clusters, n names.
    Returns: None when no instance has both scores.
    """
    scores = np.stack([np.asarray(a, dtype=float), np.asarray(b, dtype=float)])
    return PairedScores(scores, *cluster_codes(clusters, scores.shape[1])).differences()[0]


class PairedScores:
    """Scores of all models on one benchmark, and sums of their differences for every pair."""

    def __init__(self, scores: Floats, codes: Ints, k: int) -> None:
        """Sum the differences of every pair.

        Parameters: scores, shape (n_models, n), normalized to 0..1, nan if missing; codes, shape (n,), cluster of each
        instance from 0 to k - 1.
        """
        self.scores, self.codes, self.k = scores, codes, k
        self.first, self.second = pair_indices(len(scores))
        self._present = ~np.isnan(scores)
        self._complete = bool(self._present.all())
        self.is_independent = k == scores.shape[1]
        if self._complete or self.is_independent:
            self._sum_products()
        else:
            self._sum_each_pair()

    @cached_property
    def is_binary(self) -> bool:
        """True for independent 0/1 scores."""
        return self.is_independent and bool(np.isin(self.scores[self._present], (0.0, 1.0)).all())

    @cached_property
    def _totals(self) -> Floats:
        """Sum of each model's scores by cluster, shape (n_models, k); a missing score is nan if all are independent."""
        if self.is_independent:
            order: Floats = self.scores[:, np.argsort(self.codes)]
            return order
        return cluster_totals(self.scores, self.codes, self.k)[0].T

    def _sum_products(self) -> None:
        """Compute the sums as matrix products."""
        x = np.nan_to_num(self._totals)
        here = (~np.isnan(self._totals)).astype(float)
        sizes = np.ones(self.k) if self.is_independent else np.bincount(self.codes, minlength=self.k).astype(float)
        if self._complete:  # the same for every pair: one number instead of an array
            shape = self.first.shape
            self.n = np.broadcast_to(np.intp(self.scores.shape[1]), shape)
            self.n_clusters = np.broadcast_to(np.intp(self.k), shape)
            self.sizes_squared: Floats = np.broadcast_to(np.float64(sizes @ sizes), shape)
        else:
            self.n = np.rint(self._pairs(here @ (here * sizes).T)).astype(np.intp)
            self.n_clusters = np.rint(self._pairs(here @ here.T)).astype(np.intp)
            self.sizes_squared = self._pairs(here @ (here * sizes**2).T)
        self.total = self._twice(x, here, -1)
        self.squares = self._twice(x**2, here) - 2 * self._pairs(x @ x.T)
        cubes = x**3
        self.fourths = self._twice(x**4, here) - 4 * self._twice(cubes, x) + 6 * self._pairs(x**2 @ (x**2).T)
        self.total_by_size = self._twice(x * sizes, here, -1)

    def _twice(self, left: Floats, right: Floats, sign: int = 1) -> Floats:
        """Return sum over instances of left_i right_j + sign * left_j right_i for every pair (i, j)."""
        product = left @ right.T
        total: Floats = product[self.first, self.second] + sign * product[self.second, self.first]
        return total

    def _pairs(self, matrix: Floats) -> Floats:
        """Return the entries (i, j) of a matrix for every pair."""
        entries: Floats = matrix[self.first, self.second]
        return entries

    def _sum_each_pair(self) -> None:
        """Compute the sums pair by pair: some clusters lack instances, not the same ones for all models."""
        found = np.zeros((7, len(self.first)))
        for pair in range(len(self.first)):
            totals, counts = self._cluster_totals(pair)
            shared = (counts > 0).sum()
            found[:, pair] = (counts.sum(), shared, totals.sum(), totals @ totals, (totals**4).sum(),
                              totals @ counts, counts @ counts)  # fmt: skip
        self.n, self.n_clusters = (np.rint(row).astype(np.intp) for row in found[:2])
        self.total, self.squares, self.fourths, self.total_by_size, self.sizes_squared = found[2:]

    def _cluster_totals(self, pair: int) -> tuple[Floats, Floats]:
        """Return sums and counts of the differences of one pair by cluster, shape (k,) each."""
        values = self.scores[self.first[pair]] - self.scores[self.second[pair]]
        sums, counts = cluster_totals(values[None, :], self.codes, self.k)
        return sums[:, 0], counts[:, 0]

    def forget_sums(self) -> None:
        """Free the sums of all pairs; only `shares` can be used afterwards."""
        for name in ("total", "squares", "fourths", "total_by_size", "value", "variance", "df"):
            self.__dict__.pop(name, None)

    def shares(self, pairs: Ints) -> Floats:
        """Return the contribution of each cluster to the differences of some pairs; rows sum to the differences.

        Returns: shape (len(pairs), k), 0 for a cluster that the two do not share.
        """
        if self.is_independent or self._complete:
            found = np.nan_to_num(self._totals[self.first[pairs]] - self._totals[self.second[pairs]])
        else:
            found = np.stack([self._cluster_totals(pair)[0] for pair in pairs.tolist()])
        result: Floats = found / np.maximum(self.n[pairs], 1)[:, None]
        return result

    @cached_property
    def value(self) -> Floats:
        """Mean difference of each pair, nan if the two share nothing."""
        mean: Floats = np.where(self.n > 0, self.total / np.maximum(self.n, 1), np.nan)
        return mean

    def minimum_detectable_effect(self) -> float | None:
        """Smallest true difference found in four of five tries at the 5% level, on average over pairs.

        (1.96 + 0.84) times the standard error of the paired difference, with the population standard deviation (Bedi et
        al. 2025, appendix E). None unless some pair shares two instances.
        """
        shared = self.n >= 2
        if not shared.any():
            return None
        errors = np.sqrt(np.maximum(self._residual, 0.0)) / np.maximum(self.n, 1)
        return float(MDE_FACTOR * errors[shared].mean())

    @property
    def _residual(self) -> Floats:
        """Sum over clusters of the squared deviations of their totals from what the mean difference gives."""
        d = np.nan_to_num(self.value)
        found: Floats = self.squares - 2 * d * self.total_by_size + d**2 * self.sizes_squared
        return found

    @cached_property
    def variance(self) -> Floats:
        """Variance of each mean difference that keeps its coverage for few instances; see the head of this module."""
        d, n, k = np.nan_to_num(self.value), np.maximum(self.n, 1), self.n_clusters
        if self.is_binary:
            differing = self.squares  # questions that one of the two got right
            first, second = ((differing + side * self.total) / 2 + 1 for side in (1, -1))
            shares = first / (n + 2), second / (n + 2)
            result: Floats = (shares[0] + shares[1] - (shares[0] - shares[1]) ** 2) / (n + 2)
            return result
        residual = self._residual
        spread: Floats = k / np.maximum(k - 1, 1) * residual / n**2
        for pair in np.flatnonzero((residual <= ROUNDING * np.maximum(self.squares, ROUNDING)) & (k > 1)):
            low, high = constant_interval(float(d[pair]), int(k[pair]), -1.0, 1.0)
            spread[pair] = ((high - low) / (2 * Z95)) ** 2
        spread[k < 2] = 1 / 3  # every difference from -1 to 1 is possible
        return spread

    @cached_property
    def df(self) -> Floats:
        """Degrees of freedom of the variance of each pair."""
        if self.is_binary:
            return np.full(len(self.first), ENDLESS)
        df: Floats = np.maximum(self.n_clusters - 1.0, 1.0)
        return df

    def p_values(self) -> Floats:
        """P-value of each pair; see `sign_flip_test`."""
        if self.is_binary:
            count = np.rint(self.squares).astype(np.intp)
            return mcnemar_mid_p((count - np.abs(np.rint(self.total)).astype(np.intp)) // 2, count)
        return sign_flip_p(self.total, self.squares, self.fourths, self.shares)

    def differences(self) -> PairedDifferences:
        """Return the difference of every pair with its interval and test."""
        low, high = self.limits()
        return PairedDifferences(
            value=self.value,
            low=low,
            high=high,
            n=self.n,
            n_left_out=self.scores.shape[1] - self.n,
            standard_error=np.sqrt(self.variance),
            p_value=self.p_values(),
            n_clusters=self.n_clusters,
        )

    def limits(self) -> tuple[Floats, Floats]:
        """Return the ends of the interval of each pair, within the scale and around the difference."""
        half = t_quantiles(self.df) * np.sqrt(self.variance)
        middle = self.value * (self.n / (self.n + 2)) if self.is_binary else self.value
        whole = self.n_clusters < 2
        low, high = np.where(whole, -1.0, middle - half), np.where(whole, 1.0, middle + half)
        return (
            np.minimum(np.maximum(low, -1.0), self.value),
            np.maximum(np.minimum(high, 1.0), self.value),
        )


def sign_flip_p(total: Floats, squares: Floats, fourths: Floats, shares: Callable[[Ints], Floats]) -> Floats:
    """P-values of many pairs: from the sums where these suffice, else from the shares of their clusters.

    Parameters: total, squares and fourths, shape (n_pairs,): sums of the clusters' totals and of their powers; shares,
    a function from numbers of pairs to totals, shape (some, k).
    """
    effective = np.divide(squares**2, fourths, out=np.zeros_like(squares), where=fourths > 0)
    p_values = np.ones(len(total))
    many = effective >= MANY
    p_values[many] = edgeworth_p(np.abs(total[many]) / np.sqrt(squares[many]), effective[many])
    rest = np.flatnonzero(~many & (squares > 0))
    if len(rest):
        width = max(shares(rest[:1]).shape[1], 1)
        block = max(1, BLOCK // width)
        for start in range(0, len(rest), block):
            some = rest[start : start + block]
            p_values[some] = sign_flip_tests(shares(some))
    return p_values


def t_quantiles(df: Floats) -> Floats:
    """Return the 97.5% quantiles of Student's t for many degrees of freedom.

    From 30 by an expansion in 1 / df (Abramowitz and Stegun 1964, 26.7.5; error below 1e-7); fewer are rounded down to
    one decimal, so that not many are computed.
    """
    z = Z95
    large = np.maximum(df, 30.0)
    found: Floats = (
        z
        + (z**3 + z) / (4 * large)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * large**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * large**3)
        + (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * large**4)
    )
    found[df >= ENDLESS] = z
    few = np.flatnonzero(df < 30)
    distinct, places = np.unique(np.maximum(np.floor(df[few] * 10 + 1e-9) / 10, 0.1), return_inverse=True)
    found[few] = np.array([_t_quantile(round(one, 1)) for one in distinct.tolist()])[places] if len(few) else found[few]
    return found


@lru_cache(maxsize=4096)
def _t_quantile(df: float) -> float:
    return t_quantile(0.975, df)


def adjusted_wald_interval(only_first: int, only_second: int, n: int) -> tuple[float, float]:
    """Compute the 95% interval of the difference of two models' accuracy on the same n instances.

    >>> low, high = adjusted_wald_interval(9, 3, 100)
    >>> f"{low:.4f} {high:.4f}"
    '-0.0122 0.1298'
    """
    first, second = (only_first + 1) / (n + 2), (only_second + 1) / (n + 2)
    value = first - second
    half = Z95 * math.sqrt((first + second - value**2) / (n + 2))
    return value - half, value + half
