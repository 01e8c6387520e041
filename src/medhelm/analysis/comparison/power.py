"""Power of paired comparisons: sample sizes and detectable differences.

The test is the sign-flip test of paired differences. If the differences of single instances have variance v and mean d,
its threshold comes from flipped signs, v + c d^2, and the result scatters with v, so that

    n = (z(1 - alpha / 2) sqrt(v + c d^2) + z(power) sqrt(v))^2 / d^2

With 0/1 scores v + d^2 is the share of instances on which the two disagree, and this is the sample size for McNemar's
test (Miettinen 1968, Biometrics 24; Connor 1987, Biometrics 43) with the mid-p value (Fagerland, Lydersen and Laake
2013, BMC Med. Res. Methodol. 13). For small d it is the usual (z + z)^2 v / d^2; for large ones and grades it asks for
up to four instances more than the t test does.
Clusters multiply v by the design effect (Kish 1965, Survey Sampling, section 5.4) and d^2 by c, the mean number of
instances in the cluster of an instance; one of their own has c = 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from medhelm.analysis.comparison.paired import Pair
from medhelm.analysis.leaderboard.alignment import AlignedScores
from medhelm.analysis.statistics.distributions import t_quantile
from medhelm.analysis.statistics.means import NORMAL, population_standard_error

MOST = 10**12
"""Largest sample size to report."""

LEVEL = 0.05
"""Usual level of a test."""

SD_CONFIDENCE = 0.8
"""Confidence of the upper limit of an SD between benchmarks."""

POWER = 0.8
"""Usual power: a true difference is detected with probability 0.8."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Spread of the paired differences of single instances, on a scale of 0 (worst) to 1 (best)."""

    sd: float | None = None
    """Their standard deviation; None if `disagreement` is given."""
    disagreement: float | None = None
    """With 0/1 scores: share of instances on which one model is right and the other wrong."""
    design_effect: float = 1.0
    """Factor by which clusters increase the variance of the mean difference."""
    cluster_size: float = 1.0
    """Mean number of instances in the cluster of an instance."""

    def variance(self, difference: float) -> float:
        """Return the variance of a single difference, times the design effect, if its mean is `difference`."""
        if self.disagreement is not None:
            return max(self.disagreement - difference**2, 0.0) * self.design_effect
        return (self.sd or 0.0) ** 2 * self.design_effect

    @property
    def largest(self) -> float:
        """Largest possible difference."""
        return 1.0 if self.disagreement is None else self.disagreement


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerDesign:
    """Wanted power and significance level of a comparison."""

    power: float = POWER
    """Probability of detecting a true difference."""
    alpha: float = LEVEL
    """Significance level (false-positive rate), for all comparisons together."""
    comparisons: int = 1
    """Number of comparisons; each is tested at alpha / comparisons (Bonferroni, the first step of Holm)."""

    @property
    def threshold(self) -> float:
        """Standard errors beyond which one comparison counts as a difference."""
        return -NORMAL.inv_cdf(self.alpha / self.comparisons / 2)

    @property
    def fewest(self) -> int:
        """Clusters below which a sign-flip test cannot reach the level: all of one sign have the p-value 2 / 2^k.

        With the mid-p value of 0/1 scores it is half of that, so one cluster fewer would do.
        """
        return math.ceil(1 - math.log2(self.alpha / self.comparisons) - 1e-9)

    @property
    def errors(self) -> float:
        """Number of standard errors that a detectable difference must have."""
        return self.threshold + NORMAL.inv_cdf(self.power)


def needed_instances(noise: Noise, difference: float, design: PowerDesign) -> int | None:
    """Return the number of instances that detect a true difference, above 0, between two models.

    Returns: None if the difference cannot be so large, or if it would take more than `MOST`.

    >>> needed_instances(Noise(disagreement=0.18), 0.03, PowerDesign())
    1568
    """
    if not 0 < difference <= noise.largest:
        return None
    variance = noise.variance(difference)
    flipped = variance + noise.cluster_size * difference**2
    n = (
        design.threshold * math.sqrt(flipped) + NORMAL.inv_cdf(design.power) * math.sqrt(variance)
    ) ** 2 / difference**2
    least = math.ceil(design.fewest * noise.cluster_size - 1e-9)
    return max(least, math.ceil(n - 1e-9)) if n <= MOST else None


def power_at(noise: Noise, n: float, difference: float, design: PowerDesign) -> float:
    """Return the probability that n instances detect a true difference, above 0."""
    if n < design.fewest * noise.cluster_size * (1 - 1e-9):
        return 0.0
    variance = noise.variance(difference) / n
    flipped = variance + noise.cluster_size * difference**2 / n
    limit = design.threshold * math.sqrt(flipped)
    if variance == 0:
        return float(difference >= limit)
    error = math.sqrt(variance)
    return NORMAL.cdf((difference - limit) / error) + NORMAL.cdf((-difference - limit) / error)


def detectable_difference(noise: Noise, n: float, design: PowerDesign) -> float | None:
    """Return the smallest true difference that n instances detect with the wanted power; None if there is none.

    >>> round(detectable_difference(Noise(disagreement=0.18), 1000, PowerDesign()), 4)
    0.0375
    """
    low, high = 0.0, noise.largest
    too_few = n < design.fewest * noise.cluster_size * (1 - 1e-9)
    if too_few or high <= 0 or _short_of(noise, n, high, design):
        return None
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _short_of(noise, n, middle, design) else (low, middle)
    return high


def _short_of(noise: Noise, n: float, difference: float, design: PowerDesign) -> bool:
    """Return True if n instances are too few for this difference."""
    variance = noise.variance(difference)
    limit = design.threshold * math.sqrt(variance + noise.cluster_size * difference**2)
    return difference * math.sqrt(n) < limit + NORMAL.inv_cdf(design.power) * math.sqrt(variance)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedNoise:
    """Noise between models, estimated from the scores of one benchmark."""

    n: int
    """Instances that two models share: the mean over pairs, rounded."""
    n_pairs: int
    """Number of pairs."""
    noise: Noise
    """Mean over pairs."""
    disagreement: float | None
    """With 0/1 scores, the share of instances on which two models differ; None for other scores."""


def observed_noise(aligned: AlignedScores, pairs: Sequence[Pair]) -> ObservedNoise | None:
    """Estimate the noise between models on one benchmark; None if no pair shares two clusters.

    Parameters: aligned, all models' scores; pairs, their rows.
    """
    found = []
    tested = aligned.tested
    binary = bool(np.isin(tested[~np.isnan(tested)], (0.0, 1.0)).all())
    for i, j in pairs:
        difference = tested[i] - tested[j]
        shared = ~np.isnan(difference)
        values, codes = difference[shared], aligned.codes[shared]
        sizes = np.bincount(codes, minlength=1)
        if (sizes > 0).sum() < 2:
            continue
        n = len(values)
        of_mean = math.sqrt(n) * population_standard_error(values, codes, aligned.k)
        found.append((n, float(values.std()), of_mean, float(sizes @ sizes) / n, float((values != 0).mean())))
    if not found:
        return None
    instances, alone, together, size, differ = (float(np.mean(column)) for column in zip(*found, strict=True))
    noise = Noise(sd=alone, design_effect=(together / alone) ** 2 if alone > 0 else 1.0, cluster_size=size)
    return ObservedNoise(n=round(instances), n_pairs=len(found), noise=noise, disagreement=differ if binary else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerEstimate:
    """Power of the comparison of two macro averages, and the instances it needs."""

    difference: float | None
    """The true difference that is assumed, above 0; None if none was given. The observed one is never taken for it:
    the power at the observed difference says no more than its p-value (Hoenig and Heisey 2001, Am. Stat. 55)."""
    detectable: float | None
    """Smallest difference that these instances detect; None if there is none."""
    power: float | None
    """Probability that these instances detect the assumed difference; None if none was given."""
    times_instances: float | None
    """Factor for the instances of every benchmark; at most 1 if they suffice; None if no difference was given."""
    benchmarks_needed: int | None
    """Benchmarks needed, if they are a random sample of many and differ as much as these may do: by the upper limit of
    their SD (one-sided, 80%). None if unknown, more than `MOST`, or no difference was given."""
    benchmarks_needed_low: int | None
    """The same if they differ as much as these do."""


def estimate_power(
    difference: float | None,
    standard_error: float,
    spread: float | None,
    design: PowerDesign,
    *,
    clusters: float = math.inf,
    n_benchmarks: int = 0,
) -> PowerEstimate:
    """Plan the comparison of two macro averages by the same test as that of single benchmarks.

    Parameters: difference, above 0, None for the detectable one alone; standard_error, of the difference, from the
    instances; spread, sample SD of the differences of `n_benchmarks` benchmarks, None for fewer than two; clusters,
    effective number of independent instances behind the difference, infinite for the normal limit.
    """
    detectable = _detectable(standard_error, clusters, design)
    if difference is None:
        return PowerEstimate(
            difference=None,
            detectable=detectable,
            power=None,
            times_instances=None,
            benchmarks_needed=None,
            benchmarks_needed_low=None,
        )
    limit = design.threshold * math.hypot(standard_error, difference / math.sqrt(clusters))
    if clusters < design.fewest * (1 - 1e-9):
        power = 0.0
    elif standard_error > 0:
        power = NORMAL.cdf((difference - limit) / standard_error) + NORMAL.cdf((-difference - limit) / standard_error)
    else:
        power = float(difference >= limit)
    times = ((limit + NORMAL.inv_cdf(design.power) * standard_error) / difference) ** 2
    low = high = None
    if spread is not None and n_benchmarks > 1:
        low = needed_benchmarks(spread, difference, design)
        high = needed_benchmarks(spread * sd_limit_factor(n_benchmarks), difference, design)
    return PowerEstimate(
        difference=difference,
        detectable=detectable,
        power=power,
        times_instances=max(times, design.fewest / clusters),
        benchmarks_needed=high,
        benchmarks_needed_low=low,
    )


def needed_benchmarks(sd: float, difference: float, design: PowerDesign) -> int | None:
    """Return how many benchmarks detect a difference by the sign-flip test over benchmarks; None if more than `MOST`.

    The t test's approximation, with normal differences, at the level that the flips of so many signs attain. With the
    fewest benchmarks that can be significant at all, every single difference must have one sign: one more is needed.
    Parameters: sd, of the differences between benchmarks; difference, their mean, above 0.

    >>> needed_benchmarks(0.001, 0.1, PowerDesign()), needed_benchmarks(0.05, 0.04, PowerDesign())
    (7, 15)
    """
    ratio = (sd / difference) ** 2
    n = max(design.fewest + 1, math.ceil(design.errors**2 * ratio))
    while n <= MOST:
        level = design.alpha / design.comparisons
        attained = math.floor(level * 2.0 ** (n - 1)) / 2.0 ** (n - 1) if n < 60 else level
        errors = t_quantile(1 - attained / 2, n - 1) + t_quantile(design.power, n - 1)
        if (least := math.ceil(errors**2 * ratio - 1e-9)) <= n:
            return n
        n = max(n + 1, min(least, n + max(1, n // 50)))
    return None


def sd_limit_factor(n: int) -> float:
    """Return the factor from the SD of n normal values to its upper limit, one-sided with 80% confidence.

    So much is added to the SD of a small pilot study (Browne 1995, Stat. Med. 14). The quantile of chi-squared is that
    of Wilson and Hilferty (1931, PNAS 17).

    >>> round(sd_limit_factor(4), 2), round(sd_limit_factor(30), 2)
    (1.72, 1.14)
    """
    df = n - 1
    cube = 1 - 2 / (9 * df) + NORMAL.inv_cdf(1 - SD_CONFIDENCE) * math.sqrt(2 / (9 * df))
    return 1 / math.sqrt(cube**3)


def _detectable(standard_error: float, clusters: float, design: PowerDesign) -> float | None:
    """Return the difference d with d = z(1 - alpha / 2) sqrt(se^2 + d^2 / clusters) + z(power) se; None above 1."""
    z, y = design.threshold, NORMAL.inv_cdf(design.power)
    room = 1 - z**2 / clusters
    if room <= 0 or clusters < design.fewest * (1 - 1e-9):
        return None
    found = standard_error * (y + math.sqrt(y**2 + room * (z**2 - y**2))) / room
    return found if found <= 1 else None
