"""Non-inferiority of a model to a reference at a margin, on each benchmark and overall.

A change is new minus reference on a scale from 0 (worst) to 1 (best). Its 95% interval and the margin decide:

    pass         the interval lies above -margin
    worse        the interval lies below -margin
    undecided    it contains -margin

A pass is wrong at most 2.5% of the time if the true change is -margin or below (ICH E9, section 3.3.2: a one-sided
level of 2.5%). `worse` is adjusted by Holm in two families, overall changes and single benchmarks, each at 2.5%. If no
true change is below -margin, the chance of any false alarm is at most 5%. Slices are a third family, if they are asked
for: then it is at most 7.5%. Passes need no adjustment: a gate passes only
if all models pass, which is an intersection-union test (Berger 1982, Technometrics 24).

Missing scores count against both verdicts: the interval is moved by all that they could change (Imbens and Manski 2004,
Econometrica 72).

The interval is that of `paired_differences`, extended where nearly all differences are small. It is never shorter than
Wilson's if every difference were the largest one seen, and at least the whole scale: drops that were not seen may be
large. Without that, a drop in one question of twenty on 150 questions that a model had nearly all right passes a margin
of 0.05 in 6% of simulations; on 20 graded answers, the worst grade in place of the best in one of twenty passes in 10%.
Where grades vary, rare large drops are still seen too seldom: if one of 25 best grades drops to the worst, a margin of
0.02 is passed in 4.1% on 50 answers. So half an instance that drops by the whole scale is added, which makes it 2.2% or
less on 20 to 200 answers. Labels, as in balanced accuracy, have an interval each. Limits are combined by MOVER (Zou and
Donner 2008, Stat. Med. 27), with degrees of freedom by Satterthwaite (1946).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from medhelm.analysis.comparison.paired_differences import ENDLESS, PairedScores, t_quantiles
from medhelm.analysis.comparison.power import Noise, PowerDesign, estimate_power, needed_instances
from medhelm.analysis.comparison.significance import holm
from medhelm.analysis.means import MDE_FACTOR, NORMAL, Z95, Clusters, Floats, cluster_codes, f_cdf
from medhelm.domain.result import Remark

Outcome = Literal["pass", "worse", "undecided"]
"""Result of a comparison with a margin."""

ONE_SIDED = 0.025
"""Level of each one-sided test: the 95% interval decides both."""

FEW_DF = 30
"""Degrees of freedom below which quantiles of Student's t are rounded down to one decimal, as in `t_quantiles`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """New minus reference, with its uncertainty."""

    value: float
    """Mean difference, on a scale where 1 is best."""
    errors: tuple[float, float]
    """Distances of the lower and the upper limit from `value`, in quantiles of Student's t."""
    df: float
    """Degrees of freedom of Student's t."""
    means: tuple[float, float]
    """Means of the reference and of the new run, whose difference is `value`."""
    n: int
    """Instances with both scores."""
    n_missing: int = 0
    """Instances of both runs without one of the scores."""
    below: float = 0.0
    """Amount by which missing scores could lower the value."""
    above: float = 0.0
    """Amount by which missing scores could raise the value."""
    sd: float | None = None
    """Standard deviation of the difference on an instance, clusters included; None if unknown."""
    is_paired: bool = True
    """False if only the two means are known, not the scores of instances."""
    lost: tuple[str, ...] = ()
    """Ids of the instances that the reference has right, in the upper half of the scale, and the new run wrong."""
    gained: tuple[str, ...] = ()
    """Ids of those that the reference has wrong, and the new run right."""

    @property
    def low(self) -> float:
        """Lower end of the 95% interval, missing scores left out."""
        return min(max(self.value - _quantile(self.df) * self.errors[0], -1.0), self.value)

    @property
    def high(self) -> float:
        """Upper end of the 95% interval, missing scores left out."""
        return max(min(self.value + _quantile(self.df) * self.errors[1], 1.0), self.value)

    def without_bounds(self) -> Change:
        """Return the same with missing scores left out instead of counted against a verdict."""
        return replace(self, below=0.0, above=0.0)

    def p_not_inferior(self, margin: float) -> float:
        """Return the one-sided p-value of a true change of -margin or below; small if the model passes."""
        return _upper_tail(self.value - self.below + margin, self.errors[0], self.df)

    def p_worse(self, margin: float) -> float:
        """Return the one-sided p-value of a true change of -margin or above; small if the model is worse."""
        return _upper_tail(-margin - self.above - self.value, self.errors[1], self.df)


def _quantile(df: float) -> float:
    return float(t_quantiles(np.array([df]))[0])


def _upper_tail(distance: float, error: float, df: float) -> float:
    """Return the probability that Student's t lies above a distance in standard errors."""
    if error == 0:
        return 0.0 if distance > 0 else 1.0
    t = distance / error
    if df >= ENDLESS:
        return NORMAL.cdf(-t)
    tail = (1 - f_cdf(t * t, 1, df)) / 2
    return tail if t > 0 else 1 - tail


def paired_change(new: Floats, old: Floats, clusters: Clusters) -> Change | None:
    """Compare two runs on the same instances.

    Parameters: new and old, shape (n,), aligned by instance, from 0 (worst) to 1 (best), nan for a missing score;
    clusters, n names. Returns: None if no instance has both scores.
    """
    scores = np.stack([np.asarray(new, dtype=float), np.asarray(old, dtype=float)])
    paired = PairedScores(scores, *cluster_codes(clusters, scores.shape[1]))
    n = int(paired.n[0])
    if n == 0:
        return None
    value, df = float(paired.value[0]), float(paired.df[0])
    detectable, quantile = paired.minimum_detectable_effect(), _quantile(df)
    low, high = (float(ends[0]) for ends in paired.limits())
    units = float(paired.effective_units[0])
    largest = max(1 / units, 0.0 if paired.is_binary else float(np.abs(paired.shares(np.array([0]))).max()))
    low = min(low, _sparse_limit(value, largest, units, quantile))
    high = max(high, -_sparse_limit(-value, largest, units, quantile))
    variance = float(paired.variance[0])
    low = min(low, _limit_with_drop(value, variance, units, quantile))
    high = max(high, -_limit_with_drop(-value, variance, units, quantile))
    worst, best = _bounds(scores)
    scored = ~np.isnan(scores).any(axis=0)
    return Change(
        value=value,
        errors=((value - low) / quantile, (high - value) / quantile),
        df=df,
        means=(float(scores[1, scored].mean()), float(scores[0, scored].mean())),
        n=n,
        n_missing=scores.shape[1] - n,
        below=value - worst if n < scores.shape[1] else 0.0,
        above=best - value if n < scores.shape[1] else 0.0,
        sd=None if detectable is None else detectable / MDE_FACTOR * math.sqrt(n),
    )


def _sparse_limit(value: float, largest: float, k: float, quantile: float) -> float:
    """Return the lower limit of a mean of k units if all that differ drop by the largest contribution; else 1.

    A true mean of -L then has the variance largest L - L^2 / k, and solving for L gives Wilson's interval.
    """
    a, b = 1 + quantile**2 / k, quantile**2 * largest - 2 * value
    root = b * b - 4 * a * value * value
    limit = (-b - math.sqrt(root)) / (2 * a) if root > 0 else 1.0
    return limit if limit < 0 else 1.0


UNSEEN = 0.5
"""Number of units that drop by the whole scale and are added to those that were seen."""


def _limit_with_drop(value: float, variance: float, k: float, quantile: float) -> float:
    """Return the lower limit of a mean of k units, if `UNSEEN` others dropped by the whole scale."""
    n = k + UNSEEN
    mean = (k * value - UNSEEN) / n
    squares = variance * k * max(k - 1, 1) + k * (value - mean) ** 2 + UNSEEN * (1 + mean) ** 2
    return max(mean - quantile * math.sqrt(squares / (n * max(n - 1, 1))), -1.0)


def _bounds(scores: Floats) -> tuple[float, float]:
    """Return the mean difference if all missing scores were against the new run, and if all were for it."""
    low, high = min(0.0, float(np.nanmin(scores))), max(1.0, float(np.nanmax(scores)))
    worst = np.nan_to_num(scores[0], nan=low) - np.nan_to_num(scores[1], nan=high)
    best = np.nan_to_num(scores[0], nan=high) - np.nan_to_num(scores[1], nan=low)
    return float(worst.mean()), float(best.mean())


def ratio_change(new: Floats, old: Floats, labels: Sequence[str], clusters: Clusters) -> Change | None:
    """Compare two runs by a mean over labels of the means of their instances, such as balanced accuracy.

    The interval of each label is made on its own instances. Parameters: new, old and clusters, as of `paired_change`;
    labels, n names, "" if unknown: the instance then belongs to the rarest label. Returns: None if no instance of some
    label has both scores.
    """
    known = Counter(label for label in labels if label)
    rarest = min(known, key=lambda label: (known[label], label), default="")
    named = np.array([label or rarest for label in labels])
    codes, k = cluster_codes(clusters, len(named))
    found = []
    for label in sorted(set(named.tolist())):
        here = named == label
        change = paired_change(new[here], old[here], codes[here])
        if change is None:
            return None
        found.append(change)
    mean = mean_change(found)
    place = np.unique(named, return_inverse=True)[1]
    if len(np.unique(codes * len(found) + place)) == k:
        return mean
    # Clusters have instances of several labels, whose changes then agree in part.
    weights = len(named) / (np.bincount(place)[place] * len(found))
    whole = paired_change(new * weights, old * weights, codes)
    assert whole is not None, "some instance has both scores"
    errors = max(mean.errors[0], whole.errors[0]), max(mean.errors[1], whole.errors[1])
    return replace(mean, errors=errors, df=min(mean.df, whole.df))


def unpaired_change(
    new: tuple[float, float, float], old: tuple[float, float, float], n: int, share_missing: tuple[float, float]
) -> Change:
    """Compare two means with their 95% intervals, combined by MOVER (Zou and Donner 2008, Stat. Med. 27).

    The means rest on the same instances, whose scores agree in part, so that the interval is too wide rather than too
    short. Parameters: new and old, value, low and high from 0 (worst) to 1 (best); n, instances of the smaller run;
    share_missing, of the instances of each.
    """
    value = new[0] - old[0]
    below = share_missing[0] * new[0] + share_missing[1] * (1 - old[0])
    above = share_missing[0] * (1 - new[0]) + share_missing[1] * old[0]
    return Change(
        value=value,
        errors=(math.hypot(new[0] - new[1], old[2] - old[0]) / Z95, math.hypot(new[2] - new[0], old[0] - old[1]) / Z95),
        df=ENDLESS,
        means=(old[0], new[0]),
        n=n,
        n_missing=round(n * max(share_missing)),
        below=below,
        above=above,
        is_paired=False,
    )


def mean_change(changes: Sequence[Change]) -> Change:
    """Average changes on several benchmarks, all of the same weight; the change itself if there is one.

    Squared distances of the limits add up. Ids of instances are those of a benchmark, so the mean has none.
    """
    if len(changes) == 1:
        return replace(changes[0], lost=(), gained=())
    m = len(changes)
    variances = np.array([one.errors for one in changes]) ** 2
    total = variances.sum(axis=0)
    df = np.array([one.df for one in changes])
    fourths = (variances**2 / df[:, None]).sum(axis=0)
    freedom = float(np.clip(np.divide(total**2, fourths, out=np.full(2, ENDLESS), where=fourths > 0), 1, ENDLESS).min())
    if freedom < FEW_DF:
        freedom = math.floor(freedom * 10 + 1e-9) / 10
    value = sum(one.value for one in changes) / m
    errors = np.sqrt(total) / m
    return Change(
        value=value,
        errors=(float(errors[0]), float(errors[1])),
        df=freedom,
        means=(sum(one.means[0] for one in changes) / m, sum(one.means[1] for one in changes) / m),
        n=sum(one.n for one in changes),
        n_missing=sum(one.n_missing for one in changes),
        below=sum(one.below for one in changes) / m,
        above=sum(one.above for one in changes) / m,
        is_paired=all(one.is_paired for one in changes),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """Size at which a comparison would be decided, in four of five tries."""

    instances: int | None
    """Number of instances, on one benchmark; None if unknown."""
    times: float
    """Factor for the instances of each benchmark."""
    assumed: float
    """True change that is assumed: 0, or the observed one if the instances would suffice for 0."""


def needed_to_decide(change: Change, margin: float) -> Needed | None:
    """Return the size that would decide; None if it is not known, or would be too large to matter.

    For an unchanged model it is the number of instances that detects a difference as large as the margin, and at least
    the number at which the interval of a model without any differing instance would pass.
    """
    for assumed in (0.0, change.value):
        distance = abs(assumed + margin)
        if distance == 0:
            return None
        design = PowerDesign()
        times = estimate_power(distance, max(change.errors), None, design).times_instances
        instances = None
        if change.sd is not None:
            found = needed_instances(Noise(sd=change.sd), distance, design) if change.sd > 0 else 1
            least = math.ceil(Z95**2 * (1 - distance) / distance) + 1
            instances = None if found is None else max(found, least)
            times = instances / change.n if instances else times
        if times is not None and times > 1:
            return Needed(instances=instances, times=times, assumed=assumed)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class GateTest:
    """One model compared with its reference, on one benchmark or overall."""

    model: str
    """The model."""
    baseline_model: str
    """Its name in the reference."""
    benchmark: str
    """Id of the benchmark; empty overall."""
    title: str
    """Name of the benchmark for people."""
    metric: str
    """Name of the metric; empty overall."""
    metric_title: str = ""
    """Its heading; empty: as `metric`."""
    is_criterion: bool = False
    """True if `metric` is a criterion of the judges' rubric, or the score with floors."""
    slice: str = ""
    """Slice of the benchmark; empty for all of it."""
    change: Change
    """New minus reference."""
    outcome: Outcome = "undecided"
    """Verdict at the margin."""
    p_adjusted: float = 1.0
    """P-value of `worse`, adjusted by Holm."""
    needed: Needed | None = None
    """Size that would decide, if it is undecided for another reason than missing scores."""
    lacks_scores: bool = False
    """True if it would pass, but for scores that are missing: if those of the new model were all wrong and those of the
    reference all right, it would not."""

    @property
    def is_overall(self) -> bool:
        """True for the mean over benchmarks."""
        return not self.benchmark


@dataclass(frozen=True, slots=True, kw_only=True)
class NotCompared:
    """A benchmark of the reference on which a model cannot be compared."""

    model: str
    """The model."""
    baseline_model: str
    """Its name in the reference."""
    benchmark: str
    """Id of the benchmark."""
    title: str
    """Name of the benchmark for people."""
    reason: str
    """Reason, such as `it was not run`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """The verdict of a gate."""

    against: str
    """The reference, as the user named it."""
    margin: float
    """Largest drop that passes, on a scale from 0 to 1."""
    tests: tuple[GateTest, ...]
    """By model: its benchmarks, each with its slices, then overall."""
    not_compared: tuple[NotCompared, ...] = ()
    """Benchmarks of the reference that were not compared."""
    allow_missing: bool = False
    """True if those do not keep the gate from passing."""
    each: bool = False
    """True if each benchmark must pass, not the mean over benchmarks alone."""
    criteria: tuple[GateTest, ...] = ()
    """The grades by criterion of the judges' rubrics, and the scores with floors; `metric` is the criterion."""
    by_criterion: bool = False
    """True if a model that is worse by a criterion does not pass."""
    remarks: tuple[Remark, ...] = ()
    """Limits of the comparison."""

    @property
    def outcome(self) -> Outcome:
        """Worse if anything is; pass if every model passes and nothing of the reference is missing.

        Criteria on which nothing is decided do not keep a model from passing.
        """
        if any(one.outcome == "worse" for one in (*self.tests, *(self.criteria if self.by_criterion else ()))):
            return "worse"
        needed = [one for one in self.tests if one.is_overall or (self.each and not one.slice)]
        if not needed or any(one.outcome != "pass" for one in needed):
            return "undecided"
        return "undecided" if self.not_compared and not self.allow_missing else "pass"

    @property
    def exit_code(self) -> int:
        """0 pass, 1 worse, 5 undecided."""
        return {"pass": 0, "worse": 1, "undecided": 5}[self.outcome]


def decide(tests: Sequence[GateTest], margin: float) -> tuple[GateTest, ...]:
    """Return the tests with their verdicts. Raises: ValueError unless the margin is above 0."""
    if not margin > 0:
        raise ValueError(f"the margin must be above 0, is {margin}")
    adjusted: dict[int, float] = {}
    for family in ((True, False), (False, False), (False, True)):
        places = [place for place, one in enumerate(tests) if (one.is_overall, bool(one.slice)) == family]
        p_values = holm([tests[place].change.p_worse(margin) for place in places])
        adjusted |= dict(zip(places, map(float, p_values), strict=True))
    return tuple(_decide_one(one, margin, adjusted[place]) for place, one in enumerate(tests))


def _decide_one(test: GateTest, margin: float, p_adjusted: float) -> GateTest:
    outcome: Outcome = "undecided"
    if test.change.p_not_inferior(margin) <= ONE_SIDED:
        outcome = "pass"
    elif p_adjusted <= ONE_SIDED:
        outcome = "worse"
    is_open = outcome == "undecided"
    lacks_scores = is_open and test.change.without_bounds().p_not_inferior(margin) <= ONE_SIDED
    needed = needed_to_decide(test.change, margin) if is_open and not lacks_scores else None
    return replace(test, outcome=outcome, p_adjusted=p_adjusted, needed=needed, lacks_scores=lacks_scores)
