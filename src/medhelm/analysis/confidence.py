"""Calibration of confidences, selective prediction by confidence, and abstention.

An instance counts with its confidence c, from 0 to 1, and whether it is right, y. Equal confidences stay together: in
one bin of a curve, and as ties in the order by confidence, which count as if drawn from in random order.

The expected calibration error is the mean over bins of |mean c - mean y|, weighted by their size. Chance alone makes it
larger than 0, the more the fewer instances there are. So the error that is shown is the one whose expectation, with
what chance adds, is the observed one; its interval holds the errors under which the observed one is no outlier. The
sums of each bin are taken as normal, with the covariance between clusters, and true gaps as in proportion to those
observed beyond chance or in all bins alike, whichever gives the wider interval. Simulated, it holds the true error in
92 to 99% of samples of 60 to 1,000 instances. Other intervals are from resampled clusters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.means import Clusters, Floats, bootstrap_statistic, cluster_codes, estimate
from medhelm.domain import Estimate

MOST_BINS, LEAST_IN_BIN = 10, 10
"""Bins of a curve, and the fewest instances of one with equal mass."""

COVERAGES = (0.8, 0.9)
"""Shares of the instances, those with the highest confidence, whose accuracy is shown."""

DRAWS, SEED = 2_000, 0
"""Resamples of an interval, and the seed of the draws, so that intervals are reproducible."""

DECIMALS = 3
"""Confidences are rounded to so many decimals, which decide what is equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReliabilityBin:
    """Instances with similar confidences."""

    n: int
    """Number of instances."""
    low: float
    """Lowest confidence."""
    high: float
    """Highest confidence."""
    confidence: float
    """Mean confidence."""
    accuracy: Estimate
    """Share that is right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskPoint:
    """A point of a risk-coverage curve."""

    coverage: float
    """Share of the instances that is answered, those with the highest confidence."""
    risk: float
    """Share of these that is wrong."""
    threshold: float
    """Lowest confidence among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfidenceCalibration:
    """Confidences of one model on instances that it answered."""

    n: int
    """Instances with a confidence."""
    accuracy: Estimate
    """Share that is right."""
    mean_confidence: Estimate
    """Mean confidence."""
    overconfidence: Estimate
    """Mean confidence minus accuracy: above 0 for a model that is surer than it is right."""
    ece: Estimate
    """Expected calibration error in bins of equal mass, debiased."""
    ece_plain: float
    """The same, as it is usually computed: not debiased."""
    ece_equal_width: float
    """The same in ten bins of equal width, not debiased."""
    brier: Estimate
    """Mean of (c - y)^2."""
    reliability: float
    """Part of the Brier score that is miscalibration, in the bins of the curve: 0 at best."""
    resolution: float
    """Part by which confidences that separate right from wrong lower it: the more, the better."""
    uncertainty: float
    """Part that depends on the accuracy alone. Brier = reliability - resolution + uncertainty, but for differences
    within bins."""
    aurc: Estimate
    """Area under the risk-coverage curve: the mean risk over all coverages. Equal to the error rate for confidences
    without information."""
    selective: tuple[Estimate, ...]
    """Accuracy at each of `COVERAGES`."""
    low_confidence: Estimate
    """Share of the instances with a confidence below the threshold."""
    curve: tuple[ReliabilityBin, ...]
    """The reliability curve."""
    risks: tuple[RiskPoint, ...]
    """The risk-coverage curve."""


def calibrate(
    confidence: Sequence[float],
    right: Sequence[bool],
    *,
    clusters: Clusters = None,
    threshold: float = 0.5,
    draws: int = DRAWS,
) -> ConfidenceCalibration | None:
    """Measure the confidences of one model.

    Parameters: confidence, n numbers from 0 to 1; right, n truth values; clusters, n names; threshold, confidences
    below it are low; draws, for intervals.
    Returns: None without instances.
    Raises: ValueError for a confidence outside of 0 to 1.

    >>> found = calibrate([0.9, 0.9, 0.6, 0.6], [True, False, True, False])
    >>> round(found.overconfidence.value, 2), round(found.ece_plain, 2), round(found.brier.value, 3)
    (0.25, 0.25, 0.335)
    """
    c, y = np.asarray(confidence, dtype=float), np.asarray(right, dtype=float)
    if not len(c):
        return None
    if np.isnan(c).any() or c.min() < 0 or c.max() > 1:
        raise ValueError("a confidence is a number from 0 to 1")
    c = np.round(c, DECIMALS)
    groups = _Groups(c, y)

    def mean(values: Floats, low: float, high: float) -> Estimate:
        found = estimate(values, clusters, low=low, high=high)
        assert found is not None, "there are instances"
        return found

    bins = _equal_mass(c)
    sizes, gaps = _gaps(bins, c, y)
    plain = float(np.abs(gaps).sum() / len(c))
    base = y.mean()
    rates, levels = _bin_means(bins, y), _bin_means(bins, c)
    return ConfidenceCalibration(
        n=len(c),
        accuracy=mean(y, 0, 1),
        mean_confidence=mean(c, 0, 1),
        overconfidence=mean(c - y, -1, 1),
        ece=calibration_error(c, y, clusters=clusters, draws=draws),
        ece_plain=plain,
        ece_equal_width=float(np.abs(_gaps(_equal_width(c), c, y)[1]).sum() / len(c)),
        brier=mean((c - y) ** 2, 0, 1),
        reliability=float((sizes * (levels - rates) ** 2).sum() / len(c)),
        resolution=float((sizes * (rates - base) ** 2).sum() / len(c)),
        uncertainty=float(base * (1 - base)),
        aurc=_resampled(groups.area, len(c), clusters, draws),
        selective=tuple(_resampled(groups.accuracy_at(share), len(c), clusters, draws) for share in COVERAGES),
        low_confidence=mean((c < threshold).astype(float), 0, 1),
        curve=tuple(_curve(bins, c, y, clusters)),
        risks=tuple(groups.points()),
    )


# --- bins -------------------------------------------------------------------------------------------------------------


def _equal_mass(c: Floats) -> NDArray[np.intp]:
    """Return the bin of each confidence: about equally many in each, equal confidences together. Shape (n,)."""
    n_bins = max(1, min(MOST_BINS, len(c) // LEAST_IN_BIN))
    _, place, counts = np.unique(c, return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - counts / 2
    of_value = np.minimum((middle * n_bins / len(c)).astype(np.intp), n_bins - 1)
    return np.unique(of_value, return_inverse=True)[1][place]


def _equal_width(c: Floats) -> NDArray[np.intp]:
    """Return the bin of each confidence, of ten with the same width. Shape (n,)."""
    of_instance = np.minimum((c * MOST_BINS).astype(np.intp), MOST_BINS - 1)
    return np.unique(of_instance, return_inverse=True)[1]


def _gaps(bins: NDArray[np.intp], c: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return the size of each bin, and its sum of confidences minus its number of right instances."""
    return np.bincount(bins).astype(float), np.bincount(bins, c - y).astype(float)


def _bin_means(bins: NDArray[np.intp], values: Floats) -> Floats:
    """Return the mean of each bin."""
    means: Floats = np.bincount(bins, values) / np.bincount(bins)
    return means


def _curve(bins: NDArray[np.intp], c: Floats, y: Floats, clusters: Clusters) -> list[ReliabilityBin]:
    """Return the reliability curve."""
    names = None if clusters is None else np.asarray(clusters)
    found = []
    for number in range(int(bins.max()) + 1):
        inside = bins == number
        accuracy = estimate(y[inside], None if names is None else names[inside], low=0, high=1)
        assert accuracy is not None, "no bin is empty"
        own = c[inside]
        found.append(
            ReliabilityBin(
                n=len(own),
                low=float(own.min()),
                high=float(own.max()),
                confidence=float(own.mean()),
                accuracy=accuracy,
            )
        )
    return found


def calibration_error(c: Floats, y: Floats, *, clusters: Clusters = None, draws: int = DRAWS) -> Estimate:
    """Return the expected calibration error in bins of equal mass, without what chance adds (see the module).

    Parameters: c, shape (n,), from 0 to 1; y, shape (n,), 1.0 where right; clusters, n names; draws, for its interval.
    """
    n, bins = len(c), _equal_mass(c)
    codes, k = cluster_codes(clusters, n)
    sizes, gaps = _gaps(bins, c, y)
    observed = float(np.abs(gaps).sum() / n)
    if k < 2:
        return Estimate(value=observed, low=0.0, high=1.0, n=n, n_failed=0, method="none")
    covariance, rng = _covariance_of_gaps(bins, c, y, codes, k), np.random.default_rng(SEED)
    noise = rng.multivariate_normal(np.zeros(len(gaps)), covariance, size=draws, method="eigh") / n
    beyond_chance = np.sqrt(np.maximum(gaps**2 - (noise**2).mean(axis=0) * n**2, 0.0))
    even, uneven = sizes / n, (beyond_chance if beyond_chance.any() else sizes) / (beyond_chance.sum() or n)
    signs = np.where(gaps < 0, -1.0, 1.0)
    lows, _, _ = _errors_at(observed, uneven * signs, noise)
    low, value, high = _errors_at(observed, even * signs, noise)
    low = min(low, lows)
    return _within(value, low, high, n, k)


def _errors_at(observed: float, shape: Floats, noise: Floats) -> tuple[float, float, float]:
    """Return the errors of which the observed one is the 97.5th, the 50th and the 2.5th percentile.

    Parameters: shape, part of each bin in the error, with its sign; noise, shape (draws, bins).
    """
    errors = np.concatenate([np.linspace(0.0, 0.2, 81), np.linspace(0.22, 1.0, 40)])
    drawn = (np.abs(error * shape + noise).sum(axis=1) for error in errors)
    percentiles = np.maximum.accumulate([np.quantile(one, [0.975, 0.5, 0.025]) for one in drawn])
    low, middle, high = (float(np.interp(observed, rising, errors)) for rising in percentiles.T)
    return low, middle, high


def _covariance_of_gaps(bins: NDArray[np.intp], c: Floats, y: Floats, codes: NDArray[np.intp], k: int) -> Floats:
    """Return the covariance of what sampling adds to the sum of differences in each bin.

    The covariance of the sums is that between clusters. The variance of a bin is at least that of a share with one
    more right and one more wrong instance: a bin without a wrong one is not certain.
    """
    n_bins, differences = int(bins.max()) + 1, c - y
    sizes, hits = np.bincount(bins), np.bincount(bins, y)
    sums = np.bincount(codes * n_bins + bins, differences - _bin_means(bins, differences)[bins], k * n_bins)
    sums = sums.reshape(k, n_bins)
    covariance = sums.T @ sums * k / (k - 1)
    share = (hits + 1) / (sizes + 2)
    least: Floats = np.maximum(sizes * share * (1 - share) - covariance.diagonal(), 0.0)
    found: Floats = covariance + np.diag(least)
    return found


# --- order by confidence ----------------------------------------------------------------------------------------------


class _Groups:
    """Instances in groups of equal confidence, the highest first."""

    def __init__(self, c: Floats, y: Floats) -> None:
        self.order = np.argsort(-c, kind="stable")
        self.values, self.starts = np.unique(-c[self.order], return_index=True)
        self.wrong = (1 - y)[self.order]

    def sums(self, counts: Floats) -> tuple[Floats, Floats]:
        """Return the size of each group and its wrong instances in each resample, both of shape (m, groups)."""
        ordered = counts[:, self.order]
        size: Floats = np.add.reduceat(ordered, self.starts, axis=1)
        wrong: Floats = np.add.reduceat(ordered * self.wrong, self.starts, axis=1)
        return size, wrong

    def area(self, counts: Floats) -> Floats:
        """Return the mean risk over all coverages in each resample, shape (m,).

        Within a group the risk moves from that of the groups before it to that of all so far: its integral over the
        share x of the group, (E + r x) / (W + x), is r w + (E - r W) ln((W + w) / W).
        """
        size, wrong = self.sums(counts)
        before = np.cumsum(size, axis=1) - size
        wrong_before = np.cumsum(wrong, axis=1) - wrong
        with np.errstate(divide="ignore", invalid="ignore"):
            rate = np.where(size > 0, wrong / size, 0.0)
            grown = np.where(before > 0, np.log1p(size / before), 0.0)
        found: Floats = (wrong + (wrong_before - rate * before) * grown).sum(axis=1) / size.sum(axis=1)
        return found

    def accuracy_at(self, coverage: float) -> Callable[[Floats], Floats]:
        """Return the statistic that is the accuracy at a coverage."""

        def accuracy(counts: Floats) -> Floats:
            size, wrong = self.sums(counts)
            wanted = coverage * size.sum(axis=1, keepdims=True)
            taken = np.clip(wanted - (np.cumsum(size, axis=1) - size), 0.0, size)
            with np.errstate(divide="ignore", invalid="ignore"):
                rate = np.where(size > 0, wrong / size, 0.0)
            found: Floats = 1 - (taken * rate).sum(axis=1) / wanted[:, 0]
            return found

        return accuracy

    def points(self) -> list[RiskPoint]:
        """Return the risk-coverage curve: a point for each confidence that occurs, at most a hundred."""
        size, wrong = (np.cumsum(one[0]) for one in self.sums(np.ones((1, len(self.order)))))
        shown = np.unique(np.linspace(0, len(size) - 1, 100).round().astype(int))
        return [
            RiskPoint(
                coverage=float(size[at] / size[-1]),
                risk=float(wrong[at] / size[at]),
                threshold=float(-self.values[at]),
            )
            for at in shown
        ]


def _resampled(statistic: Callable[[Floats], Floats], n: int, clusters: Clusters, draws: int) -> Estimate:
    """Return a statistic from 0 to 1 with its bootstrap interval; the whole scale if there is none."""
    found = bootstrap_statistic(n, statistic, np.random.default_rng(SEED), draws, clusters=clusters)
    value = float(statistic(np.ones((1, n)))[0])
    k = cluster_codes(clusters, n)[1]
    if found.low is None or found.high is None:
        return Estimate(value=value, low=0.0, high=1.0, n=n, n_failed=0, method="none")
    return _within(value, found.low, found.high, n, k)


def _within(value: float, low: float, high: float, n: int, k: int) -> Estimate:
    """Return an estimate from 0 to 1 by resampling; an interval without length gets that of one more cluster."""
    if math.isclose(low, high):
        low, high = low - 3 / k, high + 3 / k  # the rule of three: what k clusters cannot rule out
    method = "bootstrap" + ("-clusters" if k < n else "")
    low, high = max(0.0, min(low, value)), min(1.0, max(high, value))
    return Estimate(value=value, low=low, high=high, n=n, n_failed=0, method=method)


# --- abstention -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Abstention:
    """Completions of one model that decline to answer."""

    n: int
    """Instances with a completion."""
    n_failed: int
    """Instances without one."""
    n_abstained: int
    """Completions that decline to answer."""
    rate: Estimate
    """Share of the completions that decline to answer."""
    answered_accuracy: Estimate | None
    """Share of the other completions that is right; None without any, or where nothing can be right."""


def count_abstentions(
    abstained: Sequence[bool | None], scores: Sequence[float | None], *, clusters: Clusters = None
) -> Abstention | None:
    """Count the completions of a model that decline to answer.

    Parameters: abstained, n truth values, None for a failed request; scores, n scores from 0 to 1, None if missing;
    clusters, n names.
    Returns: None without any completion.
    """
    values = np.array([np.nan if one is None else float(one) for one in abstained])
    rate = estimate(values, clusters, low=0, high=1)
    if rate is None:
        return None
    pairs = zip(abstained, scores, strict=True)
    answered = np.array([score if said is False and score is not None else np.nan for said, score in pairs])
    return Abstention(
        n=rate.n,
        n_failed=rate.n_failed,
        n_abstained=int(np.nansum(values)),
        rate=rate,
        answered_accuracy=estimate(answered, clusters, low=0, high=1),
    )
