"""Mean rating of a model by clinicians, and the difference of two models in what clinicians would give.

A mean comes from the rated completions alone. Each counts with the mean over its raters, and with one over the
probability with which it was drawn to be rated. The interval is that of `calibration.prediction_powered` without a
jury: by Student's t over independent instances, with the variance between raters added where there are enough to
estimate it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np

from medhelm.analysis.agreement.calibration import LEAST, RatingDesign, prediction_powered
from medhelm.analysis.agreement.reliability import RaterEffect, rater_effect
from medhelm.analysis.comparison.significance import LEVEL
from medhelm.analysis.means import Clusters, Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class ClinicianMean:
    """Mean rating by clinicians, with its 95% interval."""

    value: float
    """The mean; high is good."""
    low: float | None
    """Lower end of the interval; None if too few completions were rated."""
    high: float | None
    """Upper end of the interval, or None."""
    n: int
    """Completions that were rated."""
    raters: Sequence[str]
    """Those who rated them."""
    between_raters: float | None
    """Standard deviation of severity between raters, part of the interval. None: it holds for these raters only."""
    raters_reach: float
    """Part of either side of the interval that comes from the raters; the rest adds to it in quadrature."""
    is_weighted: bool
    """True if completions were drawn with unequal probabilities, and weigh accordingly."""
    worst: float
    """The worst possible rating."""
    best: float
    """The best possible rating."""
    n_benchmarks: int = 1
    """Benchmarks behind it."""
    reason: str = ""
    """Reason if it has no interval."""

    @property
    def n_raters(self) -> int:
        """Number of raters."""
        return len(self.raters)

    @property
    def normalized(self) -> float:
        """The mean on a scale of 0 to 1."""
        return (self.value - self.worst) / (self.best - self.worst)


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibratedPair:
    """The difference of two models in the grades that clinicians would give."""

    benchmark: str
    """Id of the benchmark; "" for the weighted mean over all, normalized to 0..1."""
    first: str
    """One model."""
    second: str
    """The other."""
    value: float | None
    """First minus second; None if it cannot be estimated."""
    low: float | None = None
    """Lower end of the 95% interval, without adjustment for other pairs."""
    high: float | None = None
    """Upper end of it."""
    p_value: float | None = None
    """P-value of the test that both are equal."""
    p_holm: float | None = None
    """The same, adjusted for all pairs on this benchmark."""
    reason: str = ""
    """Reason if there is no value."""

    @property
    def better(self) -> str | None:
        """The model that is significantly better after adjustment; None if neither is."""
        if self.value is None or self.p_holm is None or self.p_holm > LEVEL or self.value == 0:
            return None
        return self.first if self.value > 0 else self.second


@dataclass(frozen=True, slots=True, kw_only=True)
class RatedCompletion:
    """Ratings of one completion."""

    composites: Mapping[str, float]
    """Rater -> mean of the grades, high ones good; ratings with gaps are left out."""
    probability: float | None
    """Probability with which it was drawn; None if unknown."""

    @property
    def mean(self) -> float:
        """Return the mean over raters."""
        return fmean(self.composites.values())


def ratings_table(completions: Sequence[RatedCompletion]) -> tuple[list[str], Floats]:
    """Return the raters, and a table of ratings, shape (completions, raters), nan if missing."""
    raters = list(dict.fromkeys(rater for one in completions for rater in one.composites))
    table = np.array([[one.composites.get(rater, np.nan) for rater in raters] for one in completions])
    return raters, table.reshape(len(completions), len(raters))


def effect_of_raters(used: Sequence[RatedCompletion], completions: Sequence[RatedCompletion]) -> RaterEffect:
    """Estimate the effect of the choice of raters on the mean of some of a benchmark's rated completions."""
    raters, table = ratings_table(completions)
    shares = dict.fromkeys(raters, 0.0)
    total = sum(1 / (one.probability or 1) for one in used)
    for one in used:
        for rater in one.composites:
            shares[rater] += 1 / (one.probability or 1) / total / len(one.composites)
    return rater_effect(table, np.array(list(shares.values())))


def drawn_probabilities(rated: Sequence[RatedCompletion | None]) -> Floats | None:
    """Return the probabilities of completions, nan if unrated; None if none is known."""
    found = [np.nan if one is None or one.probability is None else one.probability for one in rated]
    return None if all(map(math.isnan, found)) else np.array(found)


def mean_of_ratings(
    used: Sequence[RatedCompletion],
    completions: Sequence[RatedCompletion],
    *,
    low: float,
    high: float,
    clusters: Clusters,
) -> ClinicianMean:
    """Compute the mean rating of a model on one benchmark; see `clinician_mean`.

    Parameters: used, its rated completions, at least one; completions, those of all models on the benchmark; low and
    high, ends of the scale.
    """
    effect = effect_of_raters(used, completions)
    design = RatingDesign(low=low, high=high, probabilities=drawn_probabilities(used), raters=effect)
    raters = list(dict.fromkeys(rater for one in used for rater in one.composites))
    return clinician_mean(np.array([one.mean for one in used]), raters, design, clusters)


def clinician_mean(ratings: Floats, raters: Sequence[str], design: RatingDesign, clusters: Clusters) -> ClinicianMean:
    """Compute the mean rating of a model on one benchmark.

    Parameters: ratings, shape (m,), without nan, at least one: mean rating of each rated completion; raters, those who
    rated them; design, with m probabilities if they differ; clusters, m names, "" or None for independent instances.
    Raises: ValueError for ratings off the scale, and for probabilities that are missing.

    >>> found = clinician_mean(np.array([3.0, 4, 5]), ["R1"], RatingDesign(low=1, high=5), None)
    >>> found.value, found.low, found.reason
    (4.0, None, '3 independent instances are too few for an interval: 10 at least')
    """
    values = np.asarray(ratings, dtype=float)
    weights = np.ones(len(values)) if design.probabilities is None else 1 / np.asarray(design.probabilities)
    n_units = len(values) if clusters is None else len({name or place for place, name in enumerate(clusters)})
    effect = design.raters
    mean = ClinicianMean(
        value=float(weights @ values / weights.sum()),
        low=None,
        high=None,
        n=len(values),
        raters=tuple(raters),
        between_raters=effect.deviation if effect else None,
        raters_reach=effect.reach if effect else 0.0,
        is_weighted=bool(np.ptp(weights) > 0),
        worst=design.low,
        best=design.high,
    )
    if n_units < LEAST:
        reason = f"{n_units} independent instances are too few for an interval: {LEAST} at least"
        return replace(mean, reason=reason)
    found = prediction_powered(np.zeros(len(values)), values, clusters, design=design, lambda_=0.0)
    return replace(mean, value=found.value, low=found.low, high=found.high)


def average_over_benchmarks(means: Mapping[str, ClinicianMean], weights: Mapping[str, float]) -> ClinicianMean | None:
    """Return the weighted mean over benchmarks on a scale of 0 to 1; None without any.

    Instances of different benchmarks are independent. The same clinicians are taken to be as severe on every benchmark,
    so that the part of the interval that comes from raters does not shrink with the number of benchmarks.
    Parameters: means, benchmark -> mean on its own scale; weights, of the benchmarks.

    >>> one = clinician_mean(np.full(3, 4.0), ["R1"], RatingDesign(low=1, high=5), None)
    >>> average_over_benchmarks({"a": one, "b": one}, {"a": 1.0, "b": 3.0}).value
    0.75
    """
    total = sum(weights[name] for name in means)
    if not means or total <= 0:
        return None
    parts = [(weights[name] / total / (one.best - one.worst), one) for name, one in means.items()]
    value = sum(weights[name] / total * one.normalized for name, one in means.items())
    ends = [(share, one, one.low, one.high) for share, one in parts if one.low is not None and one.high is not None]
    reach = sum(share * one.raters_reach for share, one in parts)
    below = math.hypot(reach, *(share * _without_raters(one.value - low, one) for share, one, low, _ in ends))
    above = math.hypot(reach, *(share * _without_raters(high - one.value, one) for share, one, _, high in ends))
    has_interval = len(ends) == len(parts)
    deviations = [one.between_raters for one in means.values()]
    return ClinicianMean(
        value=value,
        low=max(value - below, 0.0) if has_interval else None,
        high=min(value + above, 1.0) if has_interval else None,
        n=sum(one.n for one in means.values()),
        raters=tuple(dict.fromkeys(rater for one in means.values() for rater in one.raters)),
        between_raters=None if None in deviations else sum(share * (one.between_raters or 0.0) for share, one in parts),
        raters_reach=reach,
        is_weighted=any(one.is_weighted for one in means.values()),
        worst=0.0,
        best=1.0,
        n_benchmarks=len(means),
        reason=next((f"{name}: {one.reason}" for name, one in means.items() if one.reason), ""),
    )


def _without_raters(side: float, one: ClinicianMean) -> float:
    """Return the part of a side of an interval that comes from instances alone."""
    return math.sqrt(max(side**2 - one.raters_reach**2, 0.0))
