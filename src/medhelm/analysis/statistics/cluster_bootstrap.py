"""Cluster bootstrap of means: the one place where instances are resampled.

Means are ratios, total score over number of scored instances, so that clusters of unequal size and failed instances
need no special case. From k clusters k - 1 are drawn with replacement, not k: this makes the variance of the drawn
means unbiased (Rao and Wu 1988, J. Am. Stat. Assoc. 83). Above `LARGE` clusters the drawn means are normal for all
practical purposes and are drawn from their joint normal distribution, which needs no resampling.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
"""Array of 64-bit floats; each use documents its shape."""

Clusters = Sequence[str] | NDArray[np.str_] | NDArray[np.integer] | None
"""For each instance the name of its cluster, or "" if it is independent of all others; None: all are independent.

Whole numbers instead of names are faster; every number is a cluster.
"""

LARGE = 10_000
"""Number of clusters above which means are taken as normal."""

CHUNK = 100_000
"""Most weights made at once: three arrays of 800 kB stay in the processor's cache."""


def cluster_codes(clusters: Clusters, n: int) -> tuple[NDArray[np.intp], int]:
    """Number the clusters of `n` instances.

    Returns: codes of shape (n,) from 0 to k - 1, and k. Every "" is a cluster of its own.
    """
    if clusters is None:
        return np.arange(n), n
    names = np.asarray(clusters)
    if names.shape != (n,):
        raise ValueError(f"{n} values need {n} cluster names, not {names.shape}")
    if np.issubdtype(names.dtype, np.integer):
        numbers, codes = np.unique(names, return_inverse=True)
        return codes, len(numbers)
    names = names.astype(np.str_)
    codes = np.empty(n, dtype=np.intp)
    alone = names == ""
    found, codes[~alone] = np.unique(names[~alone], return_inverse=True)
    k = len(found)
    codes[alone] = np.arange(k, k + int(alone.sum()))
    return codes, k + int(alone.sum())


def cluster_totals(scores: Floats, codes: NDArray[np.intp], k: int) -> tuple[Floats, Floats]:
    """Return sums and counts of the scores in each cluster.

    Parameters: scores, shape (m, n), nan if missing; codes, shape (n,), values 0 to k - 1.
    Returns: sums and counts, both of shape (k, m).
    """
    scored = ~np.isnan(scores)
    if k == len(codes):
        filled = np.where(scored, scores, 0.0)
        if (codes == np.arange(k)).all():
            return filled.T, scored.T.astype(float)
        order = np.argsort(codes)
        return filled[:, order].T, scored[:, order].T.astype(float)
    sizes = np.bincount(codes, minlength=k)
    # Row by row, because a copy of all scores would not stay in the processor's cache.
    sums = [np.bincount(codes, np.where(known, row, 0.0), k) for row, known in zip(scores, scored, strict=True)]
    counts = [sizes - np.bincount(codes[~known], minlength=k) for known in scored]  # few are missing
    return np.stack(sums, axis=1), np.stack(counts, axis=1).astype(float)


def resampling_weights(k: int, draws: int, rng: np.random.Generator, *, width: int = 0) -> Iterator[Floats]:
    """Yield blocks of weights, shape (some draws, k), `draws` rows in all: how often each of k clusters was drawn.

    Parameters: width, length of the rows that the caller makes of them; the longer, the fewer rows in a block.
    """
    size = max(1, CHUNK // max(k, width))
    for start in range(0, draws, size):
        rows = min(size, draws - start)
        drawn = rng.integers(0, k, size=(rows, k - 1))
        drawn += np.arange(0, rows * k, k)[:, None]
        yield np.bincount(drawn.ravel(), minlength=rows * k).reshape(rows, k).astype(float)


def draw_means(sums: Floats, counts: Floats, rng: np.random.Generator, draws: int) -> Floats:
    """Draw the means that other clusters might have given, the same clusters for every column.

    Parameters: sums and counts, shape (k, m) with k >= 2, from `cluster_totals`.
    Returns: shape (draws, m); nan where none of the drawn clusters has a score. Equal columns give equal draws.
    """
    distinct, columns = _distinct_columns(sums, counts)
    sums, counts = sums[:, distinct], counts[:, distinct]
    k, m = sums.shape
    if k > LARGE:
        means = sums.sum(axis=0) / counts.sum(axis=0)
        influence = (sums - means * counts) / counts.sum(axis=0)
        covariance = influence.T @ influence * (k / (k - 1))
        drawn: Floats = rng.multivariate_normal(means, covariance, size=draws, method="eigh")
        return drawn[:, columns]
    both = np.concatenate([sums, counts], axis=1)
    totals = np.concatenate([weights @ both for weights in resampling_weights(k, draws, rng)])
    with np.errstate(invalid="ignore"):
        drawn = totals[:, :m] / totals[:, m:]
    return drawn[:, columns]


def _distinct_columns(sums: Floats, counts: Floats) -> tuple[list[int], list[int]]:
    """Return the first of each set of equal columns, and for every column which of those it equals."""
    seen: dict[bytes, int] = {}
    first: list[int] = []
    place: list[int] = []
    for j in range(sums.shape[1]):
        key = sums[:, j].tobytes() + counts[:, j].tobytes()
        if key not in seen:
            seen[key] = len(first)
            first.append(j)
        place.append(seen[key])
    return first, place
