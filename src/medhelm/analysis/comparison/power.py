"""Power: the differences that can be detected on a benchmark and on a suite, and the sizes that detect them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np

from medhelm.analysis.comparison.paired_differences import Pair, PairedScores
from medhelm.analysis.comparison.significance import LEVEL
from medhelm.analysis.leaderboard.cells import AlignedScores, Cell, Column, align, by_benchmark
from medhelm.analysis.means import (
    MDE_FACTOR,
    NORMAL,
    Floats,
    population_standard_error,
    t_quantile,
)

# --- minimum detectable effect ----------------------------------------------------------------------------------------
# Of a benchmark, by the paper's implementation and by a corrected formula.
#
# Both are (1.96 + 0.84) times the standard error of the mean difference between two models, averaged over pairs, with
# the population SD over pairs beside it (Bedi et al. 2025, table E4).
#
#     published   scores above 1 are divided by 5, so that the lowest grade of a jury, exactly 1, stays 1 and counts as
#                 the highest; every instance is independent; a pair counts if both models were asked the same instances
#     corrected   scores are put on 0..1 by the scale of their metric, instances of a cluster are taken together, and a
#                 pair is compared on the instances that both have a score for
#
# The original pairs scores by their position in two files of equal length. Here they are paired by id: where the files
# hold the same instances in the same order, as they should, the numbers are the same.


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectableEffect:
    """Smallest true difference between two models that is detected with a power of 80% at the 5% level."""

    value: float
    """Mean over pairs of models, on a scale of 0 to 1."""
    sd: float
    """Population SD over those pairs; 0 for a single pair."""
    n_pairs: int
    """Number of pairs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkEffects:
    """Detectable effects of one benchmark by both rules."""

    benchmark: str
    """Id of the benchmark."""
    n: int
    """Maximum number of instances that two of the models share."""
    published: DetectableEffect | None
    """By the paper's implementation; None if no two models have the same instances."""
    corrected: DetectableEffect | None
    """By the corrected formula; None if no two models share two instances."""


def detectable_effects(cells: Iterable[Cell], columns: Sequence[Column]) -> dict[str, BenchmarkEffects]:
    """Compute both effects of every benchmark with instance scores of at least two models, in the order of columns.

    For numbers like those of the paper the scores must follow the published rule as well.
    """
    table = by_benchmark(cell for cell in cells if cell.scores is not None)
    found = {column.benchmark: _effects(table.get(column.benchmark, {}), column) for column in columns}
    return {name: effects for name, effects in found.items() if effects is not None}


def published_scale(scores: Floats) -> Floats:
    """Scale scores as the paper's script does: those above 1 are divided by 5.

    >>> published_scale(np.array([0.4, 1.0, 2.0, 5.0])).tolist()
    [0.4, 1.0, 0.4, 1.0]
    """
    return np.where(scores > 1, scores / 5, scores)


def _effects(cells: Mapping[str, Cell], column: Column) -> BenchmarkEffects | None:
    """Compute both effects of one benchmark; None if no pair of models shares an instance."""
    models = sorted(cells)
    aligned = align(cells, column, models)
    scored = ~np.isnan(aligned.scores)
    shared = [int((scored[i] & scored[j]).sum()) for i, j in combinations(range(len(models)), 2)]
    if max(shared, default=0) == 0:
        return None
    return BenchmarkEffects(
        benchmark=column.benchmark,
        n=max(shared),
        published=_over_pairs(_published([cells[model] for model in models])),
        corrected=_over_pairs(PairedScores(aligned.tested, aligned.codes, aligned.k).detectable_effects().tolist()),
    )


def _published(cells: Sequence[Cell]) -> list[float]:
    """Compute the effect over all pairs of models with the same instances."""
    effects = []
    asked = [frozenset(cell.ids) for cell in cells]
    by_id = [_in_order_of_ids(cell) for cell in cells]
    for i, j in combinations(range(len(cells)), 2):
        if asked[i] != asked[j]:
            continue
        difference = by_id[i] - by_id[j]
        difference = difference[~np.isnan(difference)]
        if len(difference):
            effects.append(MDE_FACTOR * float(difference.std()) / math.sqrt(len(difference)))
    return effects


def _in_order_of_ids(cell: Cell) -> Floats:
    """Return a cell's scores on the published scale, in the order of its ids."""
    scores = np.empty(0) if cell.scores is None else cell.scores
    order = np.argsort(np.array(cell.ids, dtype=np.str_), kind="stable")
    return published_scale(scores[order])


def _over_pairs(effects: Sequence[float]) -> DetectableEffect | None:
    """Compute mean and standard deviation over pairs."""
    if not effects:
        return None
    return DetectableEffect(value=float(np.mean(effects)), sd=float(np.std(effects)), n_pairs=len(effects))


# --- power of paired comparisons --------------------------------------------------------------------------------------
# Sample sizes and detectable differences.
#
# The test is the sign-flip test of paired differences. If the differences of single instances have variance v and mean
# d, its threshold comes from flipped signs, v + c d^2, and the result scatters with v, so that
#
#     n = (z(1 - alpha / 2) sqrt(v + c d^2) + z(power) sqrt(v))^2 / d^2
#
# With 0/1 scores v + d^2 is the share of instances on which the two disagree, and this is the sample size for McNemar's
# test (Miettinen 1968, Biometrics 24; Connor 1987, Biometrics 43) with the mid-p value (Fagerland, Lydersen and Laake
# 2013, BMC Med. Res. Methodol. 13). For small d it is the usual (z + z)^2 v / d^2; for large ones and grades it asks
# for up to four instances more than the t test does. Clusters multiply v by the design effect (Kish 1965, Survey
# Sampling, section 5.4) and d^2 by c, the mean number of instances in the cluster of an instance; c is 1 without
# clusters.

MOST = 10**12
"""Largest sample size to report."""

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
    return _power(difference, math.sqrt(variance), design.threshold * math.sqrt(flipped))


def _power(difference: float, error: float, limit: float) -> float:
    """Return the probability that an estimate of a difference, with this standard error, is beyond a limit."""
    if error == 0:
        return float(difference >= limit)
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

    difference: float | None = None
    """The true difference that is assumed, above 0; None if none was given. The observed one is never taken for it:
    the power at the observed difference says no more than its p-value (Hoenig and Heisey 2001, Am. Stat. 55)."""
    detectable: float | None
    """Smallest difference that these instances detect; None if there is none."""
    power: float | None = None
    """Probability that these instances detect the assumed difference; None if none was given."""
    times_instances: float | None = None
    """Factor for the instances of every benchmark; at most 1 if they suffice; None if no difference was given."""
    benchmarks_needed: int | None = None
    """Benchmarks needed, if they are a random sample of many and differ as much as these may do: by the upper limit of
    their SD (one-sided, 80%). None if unknown, more than `MOST`, or no difference was given."""
    benchmarks_needed_low: int | None = None
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
        return PowerEstimate(detectable=detectable)
    limit = design.threshold * math.hypot(standard_error, difference / math.sqrt(clusters))
    is_enough = clusters >= design.fewest * (1 - 1e-9)
    times = ((limit + NORMAL.inv_cdf(design.power) * standard_error) / difference) ** 2
    low = high = None
    if spread is not None and n_benchmarks > 1:
        low = needed_benchmarks(spread, difference, design)
        high = needed_benchmarks(spread * sd_limit_factor(n_benchmarks), difference, design)
    return PowerEstimate(
        difference=difference,
        detectable=detectable,
        power=_power(difference, standard_error, limit) if is_enough else 0.0,
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


# --- power of a suite -------------------------------------------------------------------------------------------------
# From the observed noise between models.


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkPower:
    """Power of one benchmark."""

    column: Column
    """The benchmark and its metric."""
    observed: ObservedNoise
    """Its instances and the noise between models."""
    detectable: float | None
    """Smallest true difference that its instances detect with the desired power; None if none is large enough."""
    mde: float | None
    """Minimum detectable effect of the leaderboard for this power and level: it takes no account of how few clusters
    there are. None if no two models share two instances."""
    power: float | None
    """Probability that its instances detect the given difference; None if none was given."""
    needed: int | None
    """Instances needed to detect it with the desired power; None if none was given, or no number suffices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdjacentModels:
    """Two models adjacent by macro average, or the two named models."""

    first: str
    """The one with the higher macro average."""
    second: str
    """The other."""
    n_benchmarks: int
    """Benchmarks on which they share instances."""
    observed_difference: float
    """Observed difference of their macro averages over those benchmarks; not negative."""
    standard_error: float
    """Standard error of that difference, from the instances."""
    power_estimate: PowerEstimate
    """The detectable difference; with a given true difference also the power and the instances needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuitePower:
    """Power, benchmark by benchmark and overall."""

    design: PowerDesign
    """Wanted power and significance level."""
    difference: float | None
    """The given true difference; None if none was given."""
    models: tuple[str, ...]
    """The models, by macro average, best first."""
    benchmarks: tuple[BenchmarkPower, ...]
    """Those on which two of the models share instances."""
    adjacent_models: tuple[AdjacentModels, ...]
    """In the order of the models."""


def suite_power(
    cells: Iterable[Cell], columns: Sequence[Column], *, design: PowerDesign, difference: float | None = None
) -> SuitePower:
    """Estimate the power of each benchmark and of the comparison of adjacent models.

    Parameters: cells, of all models that count; only those with single scores are looked at. difference, above 0, on a
    scale where the worst is 0 and the best 1.
    """
    table = by_benchmark(cell for cell in cells if cell.scores is not None)
    used = [column for column in columns if column.benchmark in table]
    models = sorted({model for row in table.values() for model in row})
    aligned = {column.benchmark: align(table[column.benchmark], column, models) for column in used}
    order = _by_macro_average(models, used, aligned)
    pairs = list(combinations(range(len(models)), 2))
    found = [(column, observed_noise(aligned[column.benchmark], pairs)) for column in used]
    near = [_adjacent_models(models, pair, used, aligned, design, difference) for pair in pairwise(order)]
    return SuitePower(
        design=design,
        difference=difference,
        models=tuple(models[i] for i in order),
        benchmarks=tuple(
            _benchmark_power(column, aligned[column.benchmark], observed, design, difference)
            for column, observed in found
            if observed is not None
        ),
        adjacent_models=tuple(one for one in near if one is not None),
    )


def _by_macro_average(
    models: Sequence[str], columns: Sequence[Column], aligned: Mapping[str, AlignedScores]
) -> list[int]:
    """Return the rows of the models, best macro average first."""

    def average(row: int) -> float:
        own = [(aligned[c.benchmark].scores[row], c.weight) for c in columns]
        known = [(float(np.nanmean(scores)), weight) for scores, weight in own if not np.isnan(scores).all()]
        total = math.fsum(weight for _, weight in known)
        return math.fsum(value * weight for value, weight in known) / total if known else -1.0

    return sorted(range(len(models)), key=lambda row: (-round(average(row), 12), models[row]))


def _benchmark_power(
    column: Column, aligned: AlignedScores, observed: ObservedNoise, design: PowerDesign, difference: float | None
) -> BenchmarkPower:
    """Estimate the power of one benchmark."""
    mde = PairedScores(aligned.tested, aligned.codes, aligned.k).minimum_detectable_effect()
    return BenchmarkPower(
        column=column,
        observed=observed,
        detectable=detectable_difference(observed.noise, observed.n, design),
        mde=None if mde is None else mde * design.errors / PowerDesign().errors,
        power=None if difference is None else power_at(observed.noise, observed.n, difference, design),
        needed=None if difference is None else needed_instances(observed.noise, difference, design),
    )


def _adjacent_models(
    models: Sequence[str],
    pair: Pair,
    columns: Sequence[Column],
    aligned: Mapping[str, AlignedScores],
    design: PowerDesign,
    difference: float | None,
) -> AdjacentModels | None:
    """Compare two models over all benchmarks; None if they share no instance."""
    means, variances, weights, clusters = [], [], [], []
    for column in columns:
        at = aligned[column.benchmark]
        values = at.scores[pair[0]] - at.scores[pair[1]]
        shared = ~np.isnan(values)
        if not shared.any():
            continue
        means.append(float(values[shared].mean()))
        # A single cluster gives no variance: any difference from -1 to 1 is possible, with a variance of one third.
        alone = len(np.unique(at.codes[shared])) < 2
        variances.append(1 / 3 if alone else population_standard_error(values[shared], at.codes[shared], at.k) ** 2)
        weights.append(column.weight)
        sizes = np.bincount(at.codes[shared])
        clusters.append(int(shared.sum()) ** 2 / float(sizes @ sizes))
    if not means:
        return None
    shares = np.array(weights) / sum(weights)
    observed, error = float(shares @ means), math.sqrt(float(shares**2 @ variances))
    spread = float(np.std(means, ddof=1)) if len(means) > 1 else None
    first, second = (models[row] for row in (pair if observed >= 0 else pair[::-1]))
    return AdjacentModels(
        first=first,
        second=second,
        n_benchmarks=len(means),
        observed_difference=abs(observed),
        standard_error=error,
        power_estimate=estimate_power(
            difference,
            error,
            spread,
            design,
            clusters=1 / float(shares**2 @ (1 / np.array(clusters))),
            n_benchmarks=len(means),
        ),
    )
