"""Intervals of a model's averages over benchmarks: its macro average and its win share.

Both are weighted means of means over instances. Each interval is made from the sum of the benchmarks' variances with
Student's t, degrees of freedom by Satterthwaite (1946, Biom. Bull. 2):

    0/1 scores  a few invented instances, half of them right, represent outcomes that were not seen: 4 over the number
                of benchmarks of the model on each (Price and Bonett 2004, Comput. Stat. Data Anal. 45). Without them a
                model that gets everything right would have an interval of no width
    ratios      limits at least as far away as those of the cell, see `ratio_metrics`
    others      limits at least as far away as those of `means.estimate`, which corrects for skewness

Where limits are farther away than the variance says, their squared distances add up (MOVER: Zou and Donner 2008, Stat.
Med. 27).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.comparison.paired import ENDLESS, FEWEST_DF, t_quantiles
from medhelm.analysis.leaderboard.alignment import AlignedScores
from medhelm.analysis.statistics.cluster_bootstrap import Floats, cluster_totals
from medhelm.analysis.statistics.means import Z95, constant_variance, effective_size, invert_hall


class BenchmarkMeans(NamedTuple):
    """Means of all models on one benchmark, and what they contribute to intervals. Arrays of shape (n_models,)."""

    middle: Floats
    """Mean with the invented instances, nan for a model without a score."""
    variance: Floats
    """Variance of the mean."""
    df: Floats
    """Degrees of freedom of the variance."""
    extra_below: Floats | float = 0.0
    """Amount by which the square of the lower limit's distance, in quantiles of Student's t, exceeds the variance."""
    extra_above: Floats | float = 0.0
    """The same for the upper limit."""


class ScoreMeans(NamedTuple):
    """Means of the scores, or win shares, of all models on one benchmark alone. Arrays of shape (n_models,)."""

    mean: Floats
    """Mean, nan for a model without a score."""
    variance: Floats
    """Variance of the mean."""
    df: Floats
    """Degrees of freedom of the variance."""
    size: Floats
    """Effective number of win shares; that of scores if all are 0/1."""
    is_binary: NDArray[np.bool_]
    """True for models with no other scores than 0 and 1."""
    is_independent: NDArray[np.bool_]
    """True unless instances share clusters."""
    extra_below: Floats
    """See `BenchmarkMeans`."""
    extra_above: Floats
    """See `BenchmarkMeans`."""

    def without_invented(self) -> BenchmarkMeans:
        """Return the means without invented instances."""
        return BenchmarkMeans(self.mean, self.variance, self.df, self.extra_below, self.extra_above)


class Averages(NamedTuple):
    """Averages of all models: arrays of shape (n_models,), nan for a model without a value."""

    value: Floats
    """The average."""
    low: Floats
    """Lower end of the 95% interval."""
    high: Floats
    """Upper end of the 95% interval."""


def averages_for_instances(values: Floats, means: Sequence[BenchmarkMeans], weights: Floats) -> Averages:
    """Average over benchmarks, with intervals for other instances of the same benchmarks.

    Parameters: values, shape (n_models, n_benchmarks), nan if missing; means, one per benchmark.
    """
    present = ~np.isnan(values)
    share = present * weights
    total = share.sum(axis=1)
    share = np.divide(share, total[:, None], out=np.zeros_like(values), where=total[:, None] > 0)
    variances = np.array([mean.variance for mean in means]).T.reshape(values.shape)
    middles = np.array([mean.middle for mean in means]).T.reshape(values.shape)
    dfs = np.array([mean.df for mean in means]).T.reshape(values.shape)
    value = np.where(total > 0, (share * np.nan_to_num(values)).sum(axis=1), np.nan)
    parts = share**2 * np.nan_to_num(variances)
    variance = parts.sum(axis=1)
    fourths = (parts**2 / dfs).sum(axis=1)
    df = np.divide(variance**2, fourths, out=np.full(len(values), ENDLESS), where=fourths > 0)
    quantiles = t_quantiles(np.clip(df, 1.0, ENDLESS))
    middle = (share * np.nan_to_num(middles)).sum(axis=1)
    # The skewness of a sum falls with the root of the number of its terms.
    falling = np.sqrt(np.divide((parts**2).sum(axis=1), variance**2, out=np.ones(len(values)), where=variance > 0))
    below, above = (
        quantiles * np.sqrt(variance + falling * (share**2 * _table(extra, values)).sum(axis=1))
        for extra in ([mean.extra_below for mean in means], [mean.extra_above for mean in means])
    )
    return Averages(
        value,
        np.minimum(np.maximum(middle - below, 0.0), value),
        np.maximum(np.minimum(middle + above, 1.0), value),
    )


def _table(columns: Sequence[Floats | float], values: Floats) -> Floats:
    """Return a table like `values` from its columns, 0 for nan."""
    full = [np.broadcast_to(one, len(values)) for one in columns]
    return np.asarray(np.nan_to_num(np.array(full, dtype=float).T.reshape(values.shape)))


def score_means(aligned: AlignedScores) -> ScoreMeans:
    """Compute the means of the normalized scores on one benchmark."""
    is_binary = _binary_rows(aligned.scores)
    sizes = _effective_sizes(aligned) if is_binary.all() else np.zeros(len(is_binary))
    found = _ratio_means(aligned.scores, aligned, with_skewness=not is_binary.all())
    extra = [found.extra_below, found.extra_above]
    if aligned.ratio_limits is not None:
        for side, limits in enumerate(aligned.ratio_limits):
            of_cells = _extra(np.abs(limits - found.mean), found.variance, found.df)
            extra[side] = np.where(np.isnan(limits), extra[side], of_cells)
    return ScoreMeans(*found[:3], sizes, is_binary, _independence(aligned), *extra)


def share_means(aligned: AlignedScores, shares: Floats, is_binary: NDArray[np.bool_]) -> ScoreMeans:
    """Compute the means of the win shares on one benchmark.

    Parameters: shares, as `aligned.scores`, from `win_shares`, or from `panel_win_shares` for a panel;
    is_binary, of the means of the scores.
    """
    found = _ratio_means(shares, aligned, with_skewness=not is_binary.all())
    is_independent = _independence(aligned)
    size = (~np.isnan(shares)).sum(axis=1).astype(float)
    if not is_independent.all():
        size = _effective_share_sizes(shares - found.mean[:, None], size, found.variance, found.df)
    return ScoreMeans(*found[:3], size, is_binary, is_independent, *found[3:])


def _independence(aligned: AlignedScores) -> NDArray[np.bool_]:
    """Return for each model whether the instances are independent."""
    return np.full(len(aligned.scores), aligned.k == aligned.scores.shape[1])


def _effective_share_sizes(deviations: Floats, n: Floats, variance: Floats, df: Floats) -> Floats:
    """Return the effective number of clustered win shares: as `means.effective_size`, for any scores.

    Parameters: deviations, shape (n_models, n), from the mean of the model; the others, of the means.
    """
    if_independent = np.nansum(deviations**2, axis=1) / np.maximum(n * (n - 1), 1)
    size = np.divide(if_independent, variance, out=np.zeros(len(n)), where=variance > 0)
    size *= (t_quantiles(np.maximum(n - 1, 1.0)) / t_quantiles(df)) ** 2
    return np.asarray(np.clip(size, np.minimum(df + 1, n), n))


def macro_means(found: ScoreMeans, n_benchmarks: int | NDArray[np.intp]) -> BenchmarkMeans:
    """Return the contribution of one benchmark to macro averages.

    `n_benchmarks`: in the average of each model, shape (n_models,), or one number for all.
    """
    if not found.is_binary.all():
        return found.without_invented()
    p, n = np.nan_to_num(found.mean), np.maximum(found.size, 1.0)
    extra = 4 / np.maximum(n_benchmarks, 1)
    shrunk = (p * n + extra / 2) / (n + extra)
    return BenchmarkMeans(
        np.where(np.isnan(found.mean), np.nan, shrunk),
        shrunk * (1 - shrunk) / np.maximum(n - 1 + extra, 1.0),
        np.full(len(p), ENDLESS),
    )


def win_share_means(
    found: ScoreMeans, n_benchmarks: int | NDArray[np.intp], panel: NDArray[np.bool_] | None = None
) -> BenchmarkMeans:
    """Return the contribution of one benchmark to win shares over `n_benchmarks`, as of `macro_means`.

    `panel`: shape (n_models,), its members; None: the rivals are all other models.
    """
    middle, variance, df, size, is_binary, is_independent = found[:6]
    rivals = np.ones(len(middle), dtype=np.bool_) if panel is None else panel
    # With a panel, whether scores are 0/1 depends on the panel and the model alone, as the number itself does.
    is_binary = is_binary & is_binary[rivals].all()
    plain = found.without_invented()
    if not is_binary.any():
        return plain
    extra, n = 4 / np.maximum(n_benchmarks, 1), np.maximum(size, 1)
    n_rivals = int(rivals.sum())
    # Lead over one half of a right answer, where half of the rivals are right; one that is a rival itself has one less.
    reach = np.where(rivals, n_rivals / (4 * max(n_rivals - 1, 1)), 0.25)
    distance = (np.nan_to_num(middle) - 0.5) ** 2
    invented = extra * (reach**2 + distance * n / (n + extra)) / ((n + extra) * np.maximum(n - 1 + extra, 1.0))
    shrunk = np.where(np.isnan(middle), np.nan, (np.nan_to_num(middle) * n + extra / 2) / (n + extra))
    return BenchmarkMeans(
        np.where(is_binary, shrunk, middle),
        np.where(is_binary, variance * n / (n + extra) + invented, variance),
        np.where(is_binary & is_independent, ENDLESS, df),
        np.where(is_binary, 0.0, plain.extra_below),
        np.where(is_binary, 0.0, plain.extra_above),
    )


def means_without_scores(values: Floats) -> BenchmarkMeans:
    """Return the contribution of values without instance scores: their spread over instances is left out."""
    models = len(values)
    return BenchmarkMeans(values, np.zeros(models), np.full(models, ENDLESS))


def averages_for_benchmarks(table: Floats, weights: Floats) -> Averages:
    """Average over benchmarks, with intervals for other benchmarks of the same kind: each is an independent unit.

    Parameters: table, shape (n_models, n_benchmarks), nan if missing.
    """
    present = ~np.isnan(table)
    share, n = present * weights, present.sum(axis=1)
    total = np.where(n > 0, share.sum(axis=1), 1.0)
    filled = np.nan_to_num(table)
    value = np.where(n > 0, (share * filled).sum(axis=1) / total, np.nan)
    residual = (share**2 * (filled - np.nan_to_num(value)[:, None]) ** 2).sum(axis=1)
    variance = n / np.maximum(n - 1, 1) * residual / total**2
    equal = (n > 1) & (residual < 1e-20)
    variance[equal] = constant_variance(n[equal], 0.0, 1.0)
    half = np.where(n > 1, t_quantiles(np.maximum(n - 1.0, 1.0)) * np.sqrt(variance), 1.0)
    return Averages(value, np.maximum(value - half, 0.0), np.minimum(value + half, 1.0))


class _Means(NamedTuple):
    """Means of all models, each alone: arrays of shape (n_models,)."""

    mean: Floats
    variance: Floats
    df: Floats
    extra_below: Floats
    """See `BenchmarkMeans`."""
    extra_above: Floats
    """See `BenchmarkMeans`."""


def _ratio_means(scores: Floats, aligned: AlignedScores, *, with_skewness: bool) -> _Means:
    """Return the mean of each model with the variance of `means.UnitTotals`."""
    sums, counts = cluster_totals(scores, aligned.codes, aligned.k)
    is_independent = aligned.k == scores.shape[1]
    n, k = counts.sum(axis=0), (counts > 0).sum(axis=0)
    mean = np.divide(sums.sum(axis=0), n, out=np.full(len(scores), np.nan), where=n > 0)
    deviations = np.nan_to_num(mean) * counts
    np.subtract(sums, deviations, out=deviations)
    residual = np.einsum("km,km->m", deviations, deviations)
    equal = (k > 1) & (residual <= 1e-20 * np.maximum(n, 1))
    units, squares = n, residual / np.maximum(n, 1) ** 2
    if not is_independent:  # each cluster is compared with all others
        units = n**2 / np.maximum(np.square(counts).sum(axis=0), 1)
        deviations *= n * (1 - 1 / np.maximum(k, 1)) / np.maximum(n - counts, 1)
        squares = np.einsum("km,km->m", deviations, deviations) / np.maximum(n, 1) ** 2
    variance = np.where(k > 1, k / np.maximum(k - 1, 1) * squares, 1 / 12)  # any mean
    variance[equal] = constant_variance(units[equal], 0.0, 1.0)
    df = np.maximum(units - 1.0, 1.0 if is_independent else FEWEST_DF)
    if not with_skewness:
        return _Means(mean, variance, df, np.zeros(len(n)), np.zeros(len(n)))
    cubes = np.einsum("km,km->m", np.square(deviations), deviations) / np.maximum(n, 1) ** 3
    skewness = np.divide(cubes, squares**1.5, out=np.zeros(len(n)), where=(squares > 0) & (k > 2) & ~equal)
    skewness *= np.sqrt(k * np.maximum(k - 1.0, 0.0)) / np.maximum(k - 2, 1)
    return _Means(mean, variance, df, *_extra_of_skewness(np.nan_to_num(mean), variance, skewness, df))


def _extra_of_skewness(mean: Floats, variance: Floats, skewness: Floats, df: Floats) -> tuple[Floats, Floats]:
    """Return what skewness adds to the squared distances of both limits; see `BenchmarkMeans` and `means.estimate`.

    No limit is farther away than Wilson's for as many scores of 0 and 1 as there are units.
    """
    p, n, quantiles = np.clip(mean, 0.0, 1.0), df + 1, t_quantiles(np.maximum(df, 1.0))
    half = Z95 * np.sqrt(p * (1 - p) / n + Z95**2 / (4 * n**2))
    found = []
    for sign in (1, -1):
        hall = sign * np.sqrt(variance) * invert_hall(sign * quantiles, skewness)
        wilson = (half - sign * Z95**2 / n * (0.5 - p)) / (1 + Z95**2 / n)
        found.append(_extra(np.minimum(hall, wilson), variance, df))
    return found[0], found[1]


def _extra(distance: Floats, variance: Floats, df: Floats) -> Floats:
    """Return how far the square of a limit's distance, in quantiles of Student's t, exceeds the variance."""
    quantiles = t_quantiles(np.maximum(df, 1.0))  # as in `averages_for_instances`
    return np.maximum(np.nan_to_num(np.square(distance / quantiles) - variance), 0.0)


def _binary_rows(scores: Floats) -> NDArray[np.bool_]:
    """Return which models have no other scores than 0 and 1: shape (n_models,)."""
    return np.asarray((np.isnan(scores) | (scores == 0.0) | (scores == 1.0)).all(axis=1))


def _effective_sizes(aligned: AlignedScores) -> Floats:
    """Return the effective number of instances of each model."""
    known = ~np.isnan(aligned.scores)
    if aligned.k == aligned.scores.shape[1]:
        sizes: Floats = known.sum(axis=1).astype(float)
        return sizes
    rows = zip(aligned.scores, known, strict=True)
    return np.array([effective_size(row[here], aligned.codes[here]) if here.any() else 0.0 for row, here in rows])
