"""Correlation of two raters, by grades and by ranks, with Fisher's interval."""

from __future__ import annotations

import math

import numpy as np

from medhelm.analysis.agreement.raters import Coefficient
from medhelm.analysis.statistics.cluster_bootstrap import Floats
from medhelm.analysis.statistics.means import Z95

PERFECT = 1 - 1e-12
"""Correlation above which points lie on a line but for rounding errors."""


def pearson(x: Floats, y: Floats) -> Coefficient:
    """Compute the product-moment correlation with Fisher's 95% interval: z has the standard error 1 / sqrt(n - 3).

    Parameters: x and y, shape (n,), nan if missing; pairs with a nan are left out and counted.
    Returns: value -1..1, None for fewer than two pairs or if one side is constant. No interval for fewer than four
    pairs or for points on a line.
    """
    return _correlation(x, y, ranked=False)


def spearman(x: Floats, y: Floats) -> Coefficient:
    """Compute the rank correlation, ties getting their average rank, with Fisher's 95% interval.

    The standard error of the z-transform is sqrt((1 + r^2 / 2) / (n - 3)) (Bonett and Wright 2000, Psychometrika 65),
    meant for continuous values; for grades with many ties see `bootstrap_statistic`.

    Parameters and returns: as for `pearson`.

    >>> found = spearman(np.arange(8.0), np.array([2, 1, 4, 3, 6, 5, 8, 7.0]))
    >>> f"{found.value:.3f} ({found.low:.3f} to {found.high:.3f})"
    '0.905 (0.428 to 0.988)'
    """
    return _correlation(x, y, ranked=True)


def resampled_spearman(x: Floats, y: Floats, counts: Floats) -> Floats:
    """Compute the rank correlation of many resamples at once.

    Parameters: x and y, shape (n,), without nan; counts, shape (m, n), how often each resample drew each pair.
    Returns: shape (m,), nan where one side is constant.
    """
    n = counts.sum(axis=1, keepdims=True)
    left, right = (_ranks_from_their_mean(side, counts, n) for side in (x, y))
    product, squares = (counts * left * right).sum(axis=1), (counts * left**2).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Floats = product / np.sqrt(squares * (counts * right**2).sum(axis=1))
    return np.clip(found, -1, 1)


def _ranks_from_their_mean(values: Floats, counts: Floats, n: Floats) -> Floats:
    """Return each value's average rank among the n drawn ones of each resample, less the mean of those ranks."""
    order = np.argsort(values)
    _, first, codes = np.unique(values[order], return_index=True, return_inverse=True)
    of_each = np.add.reduceat(counts[:, order], first, axis=1)
    ranks = np.empty(counts.shape)
    ranks[:, order] = (np.cumsum(of_each, axis=1) - (of_each + n) / 2)[:, codes]
    return ranks


def average_ranks(values: Floats) -> Floats:
    """Return ranks from 1; equal values share the mean of their ranks.

    >>> average_ranks(np.array([30.0, 10.0, 30.0])).tolist()
    [2.5, 1.0, 2.5]
    """
    ordered = np.sort(values)
    ranks: Floats = (np.searchsorted(ordered, values) + np.searchsorted(ordered, values, side="right") + 1) / 2
    return ranks


def _correlation(x: Floats, y: Floats, *, ranked: bool) -> Coefficient:
    """Compute either correlation: Spearman's is Pearson's of the ranks."""
    both = np.stack([np.asarray(x, dtype=float), np.asarray(y, dtype=float)])
    there = ~np.isnan(both).any(axis=0)
    left, right = both[:, there]
    n, left_out = len(left), int((~there).sum())
    if n < 2:
        return Coefficient(value=None, n=n, n_left_out=left_out, reason="needs at least two instances")
    for side in (left, right):
        if side.min() == side.max():
            return Coefficient(value=None, n=n, n_left_out=left_out, reason=f"one side is {side[0]:g} throughout")
    if ranked:
        left, right = average_ranks(left), average_ranks(right)
    left, right = left - left.mean(), right - right.mean()  # np.corrcoef takes three times as long, and draws are many
    value = float(np.clip(left @ right / math.sqrt((left @ left) * (right @ right)), -1, 1))
    if n < 4:
        reason = f"{n} instances are too few for an interval"
        return Coefficient(value=value, n=n, n_left_out=left_out, reason=reason)
    if abs(value) > PERFECT:
        reason = "a perfect correlation has no interval by this formula"
        return Coefficient(value=value, n=n, n_left_out=left_out, reason=reason)
    half = Z95 * math.sqrt((1 + (value**2 / 2 if ranked else 0)) / (n - 3))
    low, high = math.tanh(math.atanh(value) - half), math.tanh(math.atanh(value) + half)
    return Coefficient(value=value, low=low, high=high, n=n, n_left_out=left_out)
