"""Paired differences of every two models on the instances of one benchmark, with intervals and sign-flip tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.comparison.significance import BLOCK, LEVEL, SMALLEST_SPREAD, mcnemar_mid_p, sign_flip_p
from medhelm.analysis.leaderboard.cells import AlignedScores
from medhelm.analysis.means import ENDLESS as ENDLESS
from medhelm.analysis.means import (
    MDE_FACTOR,
    NORMAL,
    Z95,
    Clusters,
    Floats,
    cluster_codes,
    cluster_totals,
    constant_variance,
    in_threads,
    invert_hall,
    row_means,
)
from medhelm.analysis.means import t_quantiles as t_quantiles


def power_of(values: Floats, exponent: int) -> Floats:
    """Raise to a power of 1 to 4 by multiplication, which is ten times as fast as `**`."""
    squares = values if exponent == 1 else values * values
    if exponent < 3:
        return squares
    return squares * values if exponent == 3 else squares * squares


@dataclass(frozen=True, slots=True)
class ClusterSums:
    """Sums over clusters for every pair, shape (n_pairs,) each: see the properties of `PairedScores`."""

    n: Floats
    n_clusters: Floats
    total: Floats
    squares: Floats
    fourths: Floats
    total_by_size: Floats
    sizes_squared: Floats


# --- differences on one benchmark -------------------------------------------------------------------------------------
# Sums over instances for all pairs are matrix products of the models' scores, so that many models cost little more than
# a few. Instances of a cluster count together. The interval of a difference comes from
#
#     0/1 scores    the adjusted Wald interval of Bonett and Price (2012, J. Educ. Behav. Stat. 37): one more question
#                   that only the first, and one that only the second model got right
#     other scores  Student's t, longer on the side of a few large differences (Hall's correction for skewness)
#     clusters      Student's t with the variance and the degrees of freedom of `means.UnitTotals`: each cluster is
#                   compared with all others, and clusters of different size count as fewer units
#     equal ones    `constant_interval`: equal differences show no spread
#     one cluster   the whole scale: one says nothing of the spread
#
# An interval includes 0 if and only if the test finds no difference. Where the two methods disagree, as with few
# clusters, the limit next to 0 is the test's own, d (1 - z(0.975) / z(1 - p / 2)): Miettinen 1976, Am. J. Epidemiol.
# 103. It goes no farther than just beyond 0, since the interval says how uncertain the size of the difference is.

Ints = NDArray[np.intp]
"""Array of whole numbers; each use documents its shape."""

Pair = tuple[int, int]
"""Two models by their rows."""

BEYOND_ZERO = 0.001
"""Share of a difference that the limit next to 0 has at most, if the test alone finds the difference."""

SMALLEST_P = 1e-300
"""P-value below which its normal quantile is not computed."""

NOISE = 1e-14
"""Rounding error of a sum of squares, as a share of it."""

SPARSE = 0.05
"""Share of missing scores up to which sums over shared instances are sums of all less those of the missing ones."""

MOST_COUNTED = 2**24
"""Number of instances from which counts are not exact in single precision."""

ROUNDING = 1e-12
"""Share of the sum of squares below which a variance is a rounding error."""

FEWEST_DF = 0.1
"""Least degrees of freedom, those of a cluster that outweighs all others together ten times."""


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
    """Standard error of the mean, instances of a cluster select together."""
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

    def match_limits_to_tests(self) -> PairedDifferences:
        """Return the same differences, with intervals that include 0 if and only if the p-value is above 5%."""
        includes_zero = (self.low <= 0) & (self.high >= 0)
        wrong = np.flatnonzero((includes_zero != (self.p_value > LEVEL)) & ~np.isnan(self.p_value) & (self.value != 0))
        z = np.array([-NORMAL.inv_cdf(max(p, SMALLEST_P) / 2) for p in self.p_value[wrong].tolist()])
        near = self.value[wrong] * np.minimum(1 - Z95 / np.maximum(z, SMALLEST_SPREAD), BEYOND_ZERO)
        near = np.clip(near, -1.0, 1.0)
        is_positive = self.value[wrong] > 0
        low, high = self.low.copy(), self.high.copy()
        low[wrong[is_positive]], high[wrong[~is_positive]] = near[is_positive], near[~is_positive]
        return replace(self, low=low, high=high)

    def select(self, places: Ints, is_swapped: NDArray[np.bool_]) -> PairedDifferences:
        """Return the differences at `places`, with the sign changed where `is_swapped`."""
        found = {one.name: getattr(self, one.name)[places] for one in fields(self)}
        value, low, high = found["value"], found["low"], found["high"]
        found["value"] = np.where(is_swapped, -value, value)
        found["low"], found["high"] = np.where(is_swapped, -high, low), np.where(is_swapped, -low, high)
        return PairedDifferences(**found)

    def __getitem__(self, pair: int) -> PairedDifference | None:
        """Return one difference; None if the two models share nothing."""
        if not self.n[pair]:
            return None
        found = {field.name: getattr(self, field.name)[pair].item() for field in fields(self)}
        return PairedDifference(**found)


@lru_cache(maxsize=8)
def pair_indices(n_models: int) -> tuple[Ints, Ints]:
    """Return the first and the second model of every pair, in the order of `PairedDifferences`: read-only arrays."""
    first, second = np.triu_indices(n_models, 1)
    first.flags.writeable = second.flags.writeable = False
    return first, second


@lru_cache(maxsize=8)
def _flat_pair_indices(n_models: int) -> Ints:
    """Return the place of every pair in a flattened matrix."""
    first, second = pair_indices(n_models)
    places: Ints = first * n_models + second
    places.flags.writeable = False
    return places


def paired_difference(a: Floats, b: Floats, clusters: Clusters) -> PairedDifference | None:
    """Compare two models on the same instances.

    Parameters: a and b, shape (n,), aligned by instance, normalized to 0..1, nan for a failure; clusters, n names.
    Returns: None when no instance has both scores.
    """
    scores = np.stack([np.asarray(a, dtype=float), np.asarray(b, dtype=float)])
    return PairedScores(scores, *cluster_codes(clusters, scores.shape[1])).differences()[0]


class PairedScores:
    """Scores of all models on one benchmark, and sums of their differences for every pair.

    Sums are computed when they are first needed. Each is a combination of moments: sums over clusters of one model's
    total to one power times another's to another.
    """

    def __init__(self, scores: Floats, codes: Ints, k: int) -> None:
        """Keep the scores.

        Parameters: scores, shape (n_models, n), normalized to 0..1, nan if missing; codes, shape (n,), cluster of each
        instance from 0 to k - 1.
        """
        self.scores, self.codes, self.k = scores, codes, k
        self.first, self.second = pair_indices(len(scores))
        self._present = ~np.isnan(scores)
        self._is_complete = bool(self._present.all())
        self.is_independent = k == scores.shape[1]
        self._moments: dict[tuple[int, int], Floats] = {}

    @cached_property
    def is_binary(self) -> bool:
        """True for independent 0/1 scores."""
        return self.is_independent and bool(((self.scores == 0) | (self.scores == 1) | ~self._present).all())

    @property
    def _has_whole_clusters(self) -> bool:
        """True unless a model has some instances of a cluster and lacks others."""
        return self._is_complete or self.is_independent

    @cached_property
    def _totals(self) -> Floats:
        """Sum of each model's scores by cluster, shape (n_models, k); nan if it lacks an instance of the cluster."""
        if self.is_independent:
            return self.scores
        totals, counts = cluster_totals(self.scores, self.codes, self.k)
        return np.where(counts == self._sizes[:, None], totals, np.nan).T

    @property
    def _sizes(self) -> Ints:
        """Number of instances in each cluster, shape (k,)."""
        return np.bincount(self.codes, minlength=self.k)

    def _power(self, exponent: int) -> Floats:
        """Return the totals to a power, 0 where a score is missing."""
        if exponent == 0:
            return (~self._missing).astype(self._filled.dtype)
        return self._filled if self.is_binary else power_of(self._filled, exponent)

    @cached_property
    def _missing(self) -> NDArray[np.bool_]:
        """True where a total is missing, shape (n_models, k)."""
        return ~self._present if self.is_independent else np.isnan(self._totals)

    @cached_property
    def _filled(self) -> Floats:
        """The totals, 0 where a score is missing."""
        filled = np.where(self._missing, 0.0, self._totals)
        # Counts of right answers are exact in single precision, which takes half the time.
        return filled.astype(np.float32) if self.is_binary and filled.shape[1] < MOST_COUNTED else filled

    def _moment(self, left: int, right: int) -> Floats:
        """Return the sum, over clusters that both models have, of x_i^left x_j^right: shape (n_models, n_models)."""
        key = (min(left, 1), min(right, 1)) if self.is_binary else (left, right)
        if key not in self._moments:
            mine = self._power(left)
            if right == 0:
                sums = self._sums_where_present(mine)
            else:  # of one array BLAS computes half of the symmetric product
                sums = mine @ (mine if left == right else self._power(right)).T
            self._moments[key] = sums.astype(float, copy=False)
        return self._moments[key]

    def _sums_where_present(self, mine: Floats) -> Floats:
        """Return the sum of each row over the clusters that each other model has: shape (n_models, n_models)."""
        if self._missing.mean() > SPARSE:
            sums: Floats = mine @ self._power(0).T
            return sums
        found = np.repeat(mine.sum(axis=1)[:, None], len(mine), axis=1)
        lacking, places, starts = self._missing_totals
        block = max(1, BLOCK // max(len(places), 1))
        for start in range(0, len(mine) if len(places) else 0, block):
            some = slice(start, start + block)
            found[some, lacking] -= np.add.reduceat(mine[some].take(places, axis=1), starts, axis=1)
        return found

    @cached_property
    def _missing_totals(self) -> tuple[Ints, Ints, Ints]:
        """Models that lack totals; the clusters of these totals, model by model; where each model begins in them."""
        models, clusters = np.nonzero(self._missing)
        starts = np.flatnonzero(np.diff(models, prepend=-1))
        return models[starts], clusters, starts

    def _pair_entries(self, matrix: Floats) -> Floats:
        """Return entry (i, j) of a matrix for every pair."""
        entries: Floats = matrix.take(_flat_pair_indices(len(self.scores)))
        return entries

    def _combined_entries(self, matrix: Floats, sign: int) -> Floats:
        """Return entry (i, j) of a matrix plus (sign 1) or minus (sign -1) entry (j, i) for every pair."""
        return self._pair_entries(matrix + matrix.T if sign > 0 else matrix - matrix.T)

    @cached_property
    def n(self) -> Ints:
        """Instances that the two models of each pair share."""
        if self._is_complete:
            return np.broadcast_to(np.intp(self.scores.shape[1]), self.first.shape)
        if self.is_independent:
            return np.rint(self._pair_entries(self._moment(0, 0))).astype(np.intp)
        return self._cluster_sums.n.astype(np.intp)

    @cached_property
    def n_clusters(self) -> Ints:
        """Clusters in which the two models of each pair share an instance."""
        if self._is_complete:
            return np.broadcast_to(np.intp(self.k), self.first.shape)
        if self.is_independent:
            return self.n
        return self._cluster_sums.n_clusters.astype(np.intp)

    @cached_property
    def total(self) -> Floats:
        """Sum of the differences."""
        if not self._has_whole_clusters:
            return self._cluster_sums.total
        return self._combined_entries(self._moment(1, 0), -1)

    @cached_property
    def squares(self) -> Floats:
        """Sum over clusters of the squared totals of the differences."""
        if not self._has_whole_clusters:
            return self._cluster_sums.squares
        alone = self._moment(2, 0)
        return self._pair_entries(alone + alone.T - 2 * self._moment(1, 1))

    @cached_property
    def fourths(self) -> Floats:
        """Sum over clusters of their fourth powers."""
        if not self._has_whole_clusters:
            return self._cluster_sums.fourths
        alone, mixed = self._moment(4, 0), self._moment(3, 1)
        return self._pair_entries(alone + alone.T - 4 * (mixed + mixed.T) + 6 * self._moment(2, 2))

    @cached_property
    def _total_by_size(self) -> Floats:
        """Sum over clusters of the total of the differences times the number of instances."""
        if self.is_independent:
            return self.total
        if not self._is_complete:
            return self._cluster_sums.total_by_size
        sums = self._totals @ self._sizes
        found: Floats = sums[self.first] - sums[self.second]
        return found

    @cached_property
    def _sizes_squared(self) -> Floats:
        """Sum over clusters of the squared number of instances."""
        if self._is_complete:
            return np.broadcast_to(np.float64(self._sizes @ self._sizes), self.first.shape)
        if self.is_independent:
            return self.n.astype(float)
        return self._cluster_sums.sizes_squared

    @cached_property
    def _cluster_sums(self) -> ClusterSums:
        """Sums over the clusters of which a model may have some instances and lack others."""
        found = np.zeros((len(fields(ClusterSums)), len(self.first)))
        for pairs, totals, counts in self._differences_by_cluster():
            squares = totals * totals
            parts = (counts, counts > 0, totals, squares, squares * squares, totals * counts, counts * counts)
            found[:, pairs] = [part.sum(axis=1) for part in parts]
        return ClusterSums(*found)

    def _differences_by_cluster(self) -> Iterator[tuple[Ints, Floats, Floats]]:
        """Yield some pairs at a time, with sums and counts of their differences; see `_cluster_totals`."""
        block = max(1, BLOCK // max(self.scores.shape[1], 1))
        for start in range(0, len(self.first), block):
            pairs = np.arange(start, min(start + block, len(self.first)))
            yield pairs, *self._cluster_totals(pairs)

    @cached_property
    def _by_cluster(self) -> tuple[Floats, Ints]:
        """The scores, instances ordered by cluster, and the place where each cluster begins."""
        order = np.argsort(self.codes, kind="stable")
        return self.scores[:, order], np.flatnonzero(np.diff(self.codes[order], prepend=-1))

    def _cluster_totals(self, pairs: Ints) -> tuple[Floats, Floats]:
        """Return sums and counts of the differences of some pairs by cluster, shape (len(pairs), k) each."""
        scores, starts = self._by_cluster
        differences = scores[self.first[pairs]] - scores[self.second[pairs]]
        known = ~np.isnan(differences)
        sums = np.add.reduceat(np.where(known, differences, 0.0), starts, axis=1)
        return sums, np.add.reduceat(known.astype(float), starts, axis=1)

    def forget_sums(self) -> None:
        """Free the sums of all pairs; they are computed again if needed."""
        for name in [name for name in self.__dict__ if isinstance(getattr(type(self), name, None), cached_property)]:
            if name not in ("is_binary", "_totals", "_by_cluster"):
                del self.__dict__[name]
        self._moments.clear()

    def shares(self, pairs: Ints) -> Floats:
        """Return the contribution of each cluster to the differences of some pairs; rows sum to the differences.

        Returns: shape (len(pairs), k), 0 for a cluster that the two do not share.
        """
        if self._has_whole_clusters:
            found = self._totals[self.first[pairs]] - self._totals[self.second[pairs]]
            n = (~np.isnan(found)).sum(axis=1) if self.is_independent else self.scores.shape[1]
        else:
            found, counts = self._cluster_totals(pairs)
            n = counts.sum(axis=1)
        result: Floats = np.nan_to_num(found) / np.maximum(n, 1).reshape(-1, 1)
        return result

    @cached_property
    def value(self) -> Floats:
        """Mean difference of each pair, nan if the two share nothing."""
        mean: Floats = np.where(self.n > 0, self.total / np.maximum(self.n, 1), np.nan)
        return mean

    def detectable_effects(self) -> Floats:
        """Return the smallest true difference found in four of five tries at the 5% level, for pairs that share two.

        (1.96 + 0.84) times the standard error of the paired difference, with the population standard deviation (Bedi et
        al. 2025, appendix E).
        """
        errors: Floats = np.sqrt(np.maximum(self._residual, 0.0)) / np.maximum(self.n, 1)
        return MDE_FACTOR * errors[self.n >= 2]

    def minimum_detectable_effect(self) -> float | None:
        """Return the mean of `detectable_effects` over pairs; None if no pair shares two instances."""
        effects = self.detectable_effects()
        return float(effects.mean()) if len(effects) else None

    @property
    def _residual(self) -> Floats:
        """Sum over clusters of the squared deviation of the total from the mean difference times the size."""
        d = np.nan_to_num(self.value)
        found: Floats = self.squares - 2 * d * self._total_by_size + d**2 * self._sizes_squared
        return found

    @cached_property
    def _residual_rounding(self) -> Floats:
        """Largest rounding error of `_residual`, which is a small difference of sums of squares."""
        alone = self._moment(2, 0)
        return NOISE * self._pair_entries(alone + alone.T)

    @cached_property
    def variance(self) -> Floats:
        """Variance of each mean difference that keeps its coverage for few instances; see the head of this section."""
        n, k = np.maximum(self.n, 1), self.n_clusters
        if self.is_binary:
            differing = self.squares  # questions that one of the two got right
            first, second = ((differing + side * self.total) / 2 + 1 for side in (1, -1))
            shares = first / (n + 2), second / (n + 2)
            result: Floats = (shares[0] + shares[1] - (shares[0] - shares[1]) ** 2) / (n + 2)
            return result
        residual = self._residual
        if self.is_independent:
            spread: Floats = k / np.maximum(k - 1, 1) * residual / n**2
        else:
            spread = (k - 1) / np.maximum(k, 1) * self._residual_to_others
        equal = residual <= np.maximum(ROUNDING * np.maximum(self.squares, ROUNDING), self._residual_rounding)
        spread[equal] = constant_variance(self.effective_units[equal], -1.0, 1.0)
        spread[k < 2] = 1 / 3  # every difference from -1 to 1 is possible
        return spread

    @cached_property
    def _residual_to_others(self) -> Floats:
        """Sum over clusters of the squared deviation, each divided by the number of all other instances.

        A large cluster pulls the mean toward itself, so that its deviation from the mean alone is too small; see
        `means.UnitTotals.shares`.
        """
        d = np.nan_to_num(self.value)
        if self._is_complete:
            weights, present = 1 / np.maximum(len(self.codes) - self._sizes, 1), self._power(0)
            totals, sizes = self._filled * weights, self._sizes * weights
            alone, sums = totals**2 @ present.T, (totals * sizes) @ present.T
            residual = self._pair_entries(alone + alone.T - 2 * totals @ totals.T)
            residual -= 2 * d * self._combined_entries(sums, -1)
            return np.maximum(residual + d**2 * self._pair_entries((present * sizes**2) @ present.T), 0.0)
        found = np.zeros(len(self.first))
        for pairs, totals, counts in self._differences_by_cluster():
            deviations = totals - d[pairs, None] * counts
            found[pairs] = ((deviations / np.maximum(self.n[pairs, None] - counts, 1)) ** 2).sum(axis=1)
        return found

    @cached_property
    def effective_units(self) -> Floats:
        """Effective number of clusters of each pair; see `means.effective_units`."""
        if self.is_independent:
            return self.n.astype(float)
        return self.n.astype(float) ** 2 / np.maximum(self._sizes_squared, 1.0)

    @cached_property
    def df(self) -> Floats:
        """Degrees of freedom of the variance of each pair."""
        if self.is_binary:
            return np.full(len(self.first), ENDLESS)
        df: Floats = np.maximum(self.effective_units - 1.0, 1.0 if self.is_independent else FEWEST_DF)
        return df

    @cached_property
    def p_values(self) -> Floats:
        """P-value of each pair; see `sign_flip_p`."""
        return self.p_values_of(np.arange(len(self.first)))

    def p_values_of(self, pairs: Ints) -> Floats:
        """Compute the p-value of each of some pairs."""
        if self.is_binary:
            count = np.rint(self.squares[pairs]).astype(np.intp)
            return mcnemar_mid_p((count - np.abs(np.rint(self.total[pairs])).astype(np.intp)) // 2, count)
        return sign_flip_p(
            self.total[pairs], self.squares[pairs], self.fourths[pairs], lambda some: self.shares(pairs[some])
        )

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
            p_value=self.p_values,
            n_clusters=self.n_clusters,
        ).match_limits_to_tests()

    def limits(self) -> tuple[Floats, Floats]:
        """Return the ends of the interval of each pair, within the scale and around the difference.

        Scores below the scale, as harms can have, widen it.
        """
        quantiles, error = t_quantiles(self.df), np.sqrt(self.variance)
        middle = self.value * (self.n / (self.n + 2)) if self.is_binary else self.value
        below = above = quantiles * error
        if self.is_independent and not self.is_binary:
            below, above = (self._skewed_distance(sign, quantiles, error) for sign in (1, -1))
        whole = self.n_clusters < 2
        reach = max(1.0, float(np.nanmax(self.scores, initial=0.0) - np.nanmin(self.scores, initial=0.0)))
        low, high = np.where(whole, -reach, middle - below), np.where(whole, reach, middle + above)
        return (
            np.minimum(np.maximum(low, -reach), self.value),
            np.maximum(np.minimum(high, reach), self.value),
        )

    def _skewed_distance(self, sign: int, quantiles: Floats, error: Floats) -> Floats:
        """Return the distance of the lower limit (sign 1) or the upper one (-1), at least that of Student's t.

        Where a model fails totally on a few instances, differences are skewed: the limit on the side of the few is
        that of `means.spread_of_sum`, but no farther away than Wilson's if all differences were -1 or 1.
        """
        n, d = np.maximum(self.n, 3).astype(float), np.nan_to_num(self.value)
        cubes = self._third - 3 * d * self.squares + 2 * n * d**3
        residual = np.maximum(self._residual, 0.0)
        is_skewed = (residual > self._residual_rounding) & (residual > ROUNDING) & (self.n > 2)
        skewness = np.divide(cubes, residual**1.5, out=np.zeros(len(n)), where=is_skewed)
        skewness *= np.sqrt(n * (n - 1)) / (n - 2)
        hall = sign * error * invert_hall(sign * quantiles, skewness)
        root = Z95 * np.sqrt(np.maximum(1 - d**2, 0.0) / n + Z95**2 / n**2)
        wilson = (root + sign * d * Z95**2 / n) / (1 + Z95**2 / n)
        return np.asarray(np.maximum(quantiles * error, np.minimum(hall, wilson)))

    @property
    def _third(self) -> Floats:
        """Sum of the third powers of the differences, of independent instances."""
        return self._combined_entries(self._moment(3, 0), -1) - 3 * self._combined_entries(self._moment(2, 1), -1)


# --- numbers of all pairs ---------------------------------------------------------------------------------------------
# Sums of the paired differences on one benchmark: all that tests over several benchmarks need.
#
# They are small beside the scores of many instances. Tests that need single differences get them from the scores.


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairSums:
    """Sums over the instances of one benchmark: arrays of shape (n_pairs,), as the properties of `PairedScores`."""

    n: Ints
    n_clusters: Ints
    total: Floats
    squares: Floats
    fourths: Floats
    variance: Floats
    df: Floats
    is_binary: bool
    """True for independent 0/1 scores."""
    n_instances: int
    """Instances of the benchmark."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairNumbers:
    """Numbers of one benchmark for the tests of all pairs."""

    scores: PairSums
    """Of the differences of scores."""
    shares: PairSums
    """Of the differences of win shares."""
    lacking: Floats
    """Shape (n_models,): share of the instances without a score."""
    lacking_shares: Floats
    """The same of win shares."""
    mean: Floats
    """Mean score, 0 for none."""
    mean_share: Floats
    """Mean win share, 0 for none."""
    mde: float | None
    """Minimum detectable effect, mean over pairs."""


class PairedBenchmark:
    """The scores and the win shares of one benchmark, loaded when tests need more than sums."""

    def __init__(self, load: Callable[[], AlignedScores]) -> None:
        """`load`: returns the scores of all models."""
        self._load = load

    @cached_property
    def _aligned(self) -> AlignedScores:
        return self._load()

    @cached_property
    def scores(self) -> PairedScores:
        """The scores of all models."""
        return PairedScores(self._aligned.tested, self._aligned.codes, self._aligned.k)

    @cached_property
    def shares(self) -> PairedScores:
        """Their win shares."""
        return PairedScores(self._aligned.win_shares(), self._aligned.codes, self._aligned.k)


def pair_numbers(
    aligned: AlignedScores, *, single_benchmarks: bool = False
) -> tuple[PairNumbers, PairedDifferences | None, PairedBenchmark]:
    """Compute the numbers of one benchmark; with `single_benchmarks` also its differences."""
    found = PairedBenchmark(lambda: aligned)
    kinds = [found.scores, found.shares]
    of_scores, of_shares = in_threads(_sums, kinds, size=aligned.scores.size)
    mde = found.scores.minimum_detectable_effect()
    single = found.scores.differences() if single_benchmarks else None
    for paired in kinds:
        paired.forget_sums()  # memory stays small for many models
    numbers = PairNumbers(
        scores=of_scores,
        shares=of_shares,
        lacking=np.isnan(aligned.scores).mean(axis=1),
        lacking_shares=np.isnan(found.shares.scores).mean(axis=1),
        mean=np.nan_to_num(row_means(aligned.scores)),
        mean_share=np.nan_to_num(row_means(found.shares.scores)),
        mde=mde,
    )
    return numbers, single, found


def _sums(paired: PairedScores) -> PairSums:
    return PairSums(
        n=paired.n,
        n_clusters=paired.n_clusters,
        total=paired.total,
        squares=paired.squares,
        fourths=paired.fourths,
        variance=paired.variance,
        df=paired.df,
        is_binary=paired.is_binary,
        n_instances=paired.scores.shape[1],
    )
