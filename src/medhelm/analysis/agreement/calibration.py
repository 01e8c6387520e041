"""Means that clinicians would have given, estimated from judges and some ratings, and the draw of what to rate."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.agreement.coefficients import require_scale
from medhelm.analysis.agreement.reliability import RaterEffect
from medhelm.analysis.means import (
    Clusters,
    Floats,
    cluster_codes,
    constant_interval,
    constant_variance,
    spread_of_sum,
    t_quantile,
)

# --- isotonic regression ----------------------------------------------------------------------------------------------
# The rising curve that fits best, by pooling adjacent violators.
#
# Of all functions that never fall, the one with the smallest sum of squares to the points (Ayer et al. 1955, Ann. Math.
# Stat. 26). It assumes nothing about the form of the relation but its direction.


class Curve(NamedTuple):
    """A function that never falls: straight between its knots."""

    knots: Floats
    """Places, rising, each once."""
    heights: Floats
    """Values there, never falling."""

    def at(self, places: Floats, slope: float = 0.0) -> Floats:
        """Return values at any places; outside the knots the curve continues with a slope, level if none is given.

        >>> Curve(np.array([1.0, 3.0]), np.array([2.0, 4.0])).at(np.array([0.0, 2.0, 5.0]), slope=0.5).tolist()
        [1.5, 3.0, 5.0]
        """
        beyond = places - np.clip(places, self.knots[0], self.knots[-1])
        return np.interp(places, self.knots, self.heights) + slope * beyond


def isotonic_curve(x: Floats, y: Floats) -> Curve:
    """Fit y as a function of x that never falls.

    Parameters: x and y, shape (m,) with m >= 1, without nan. Points with the same x are one point with their mean.

    >>> isotonic_curve(np.array([1.0, 2.0, 3.0]), np.array([1.0, 4.0, 2.0])).heights.tolist()
    [1.0, 3.0, 3.0]
    """
    knots, places = np.unique(x, return_inverse=True)
    weights = np.bincount(places).tolist()
    totals = np.bincount(places, weights=y).tolist()
    blocks: list[tuple[int, float, int]] = []
    for weight, total in zip(weights, totals, strict=True):
        width = 1
        while blocks and blocks[-1][1] * weight >= total * blocks[-1][0]:
            earlier = blocks.pop()
            weight, total, width = weight + earlier[0], total + earlier[1], width + earlier[2]
        blocks.append((weight, total, width))
    heights = np.repeat([total / weight for weight, total, _ in blocks], [width for _, _, width in blocks])
    return Curve(knots, heights)


# --- calibrated means -------------------------------------------------------------------------------------------------
# Estimate the mean clinician rating from all jury scores and ratings of some instances.
#
# The target is the mean rating over the population from which the n instances of a run are drawn. A random m of them
# are rated. With jury scores f, ratings y and a weight lambda,
#
#     value = lambda * (mean of f over all n) + mean over the m rated of (y - lambda * f)
#
#     variance = V(y - lambda * (1 - m/n) * f) / m  +  lambda^2 * V(f) * (n - m) / n^2
#
# which is prediction-powered inference (Angelopoulos, Duchi and Zrnic 2023, arXiv:2311.01453) where the rated instances
# are some of the n; their lambda, for two separate samples, is (1 - m/n) times this one. It is equivalent to two-phase
# regression (Cochran 1977, section 12.6). Any lambda gives an unbiased mean; the best is the slope of y on f. From few
# ratings it is uncertain, so every rated instance is corrected with the slope of all others (cross-fitting): the
# variance then carries that uncertainty. A slope below 0 counts as 0: a jury that ranks in reverse order is not used.
#
# Intervals take Student's t and the skewness of the estimate into account (Hall 1992, J. R. Stat. Soc. B 54): near the
# end of the scale symmetrical intervals miss the few bad answers that were not rated. Degrees of freedom are fewer
# where few ratings make up the spread (`degrees_of_freedom`), and instances whose jury scores lie beyond all rated ones
# leave room on both sides (`_beyond_the_rated`). In simulated runs of 200 to 1,000 instances with biased, compressed
# and noisy juries, with grades at the end of the scale and with rare disasters that only the jury has seen, they cover
# the truth in 92 to 99% from 15 ratings up, and in 91 to 99% with 10.
#
# Other clinicians would rate otherwise. With a `RaterEffect` that knows the variance between raters, the target is the
# mean rating by clinicians in general, of whom the raters are a random sample, and the interval is wider. Without, the
# interval holds for these raters only.
#
# The rated instances must be a random sample. If they were drawn with known, unequal probabilities, each weighs one
# over its own (Hajek 1971), in the mean and in the slope, and degrees of freedom are those of the effective number of
# units (Kish 1965). If they were picked by other rules, such as the interesting ones, no formula can correct that.

LEAST = 10
"""Minimum rated units for a calibration: with 8, intervals near the end of the scale cover as little as 90%."""

LEAST_FOR_CURVE = 20
"""Minimum rated units for a curve, which needs more data than a slope."""

FOLDS = 10
"""Number of folds of the rated units for the curve: each fold is corrected with the curve of the others."""

FLAT = 1e-12
"""Relative variance below which a spread is a rounding error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibratedMean:
    """Estimated mean clinician rating of a model, with its interval."""

    value: float
    """Estimated mean rating, on the scale of the ratings."""
    low: float
    """Lower end of the 95% interval."""
    high: float
    """Upper end of the 95% interval."""
    standard_error: float
    """Standard error of the value; 0 if all ratings are equal, where the interval rests on their number alone."""
    n: int
    """Instances with a jury score."""
    n_rated: int
    """Number of ratings used for the correction."""
    n_left_out: int
    """Instances without a jury score, left out, rated or not."""
    lambda_: float
    """Weight of the jury: with 0, the value is the mean of the ratings; always 1 for a curve."""
    between_models: float = 0.0
    """Standard deviation of the jury's mean error from model to model, as estimated; 0 unless pooled."""
    method: str
    """`prediction-powered`, `pooled` or `isotonic`, with `-clustered` where units are clusters; or `constant`."""
    n_raters: int = 0
    """Raters of these ratings; 0 if unknown."""
    between_raters: float | None = None
    """Standard deviation of severity between raters, part of the interval. None: it holds for these raters only."""
    is_weighted: bool = False
    """True if the rated instances were drawn with unequal probabilities, and weigh accordingly."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RatingDesign:
    """The scale of ratings, and how the rated instances and their raters were chosen."""

    low: float
    """Lowest possible rating."""
    high: float
    """Highest possible rating."""
    probabilities: Floats | None = None
    """Probability with which each instance, or each pair of a pool, was drawn to be rated; None if they are equal."""
    raters: RaterEffect | None = None
    """Effect of the choice of raters."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RatedPairs:
    """Jury scores and ratings of the same completions of several models, without nan, on the same scale."""

    jury: Floats
    """Shape (m,)."""
    ratings: Floats
    """Shape (m,)."""
    models: Sequence[str]
    """The model of each pair."""
    clusters: Clusters = None
    """Names of the instances, or of their clusters."""


class _Sample(NamedTuple):
    """Jury scores and ratings without missing values, and the independent unit that each belongs to."""

    jury: Floats
    """Shape (n,)."""
    units: NDArray[np.intp]
    """Shape (n,), values 0 to k - 1."""
    rated_jury: Floats
    """Shape (m,)."""
    ratings: Floats
    """Shape (m,)."""
    rated_units: NDArray[np.intp]
    """Shape (m,), of the same k units."""
    k: int
    """Number of units."""
    n_left_out: int
    """Instances without a jury score."""
    weights: Floats
    """Shape (m,): one over the probability with which each rated instance was drawn; equal ones are all 1."""
    design: RatingDesign
    """Scale of the ratings, and choice of raters."""


class EstimateParts(NamedTuple):
    """A calibrated mean as the contributions of independent units, so that two means can be subtracted."""

    value: float
    """Estimated mean rating, not cut to the scale."""
    shares: Floats
    """Shape (k,): contribution of each unit beyond the mean; their squares sum to the variance of the value."""
    is_rated: NDArray[np.bool_]
    """Shape (k,): units with a rating."""
    below: float
    """Room below the value for what the ratings do not show; see `_beyond_the_rated`."""
    above: float
    """Room above it."""
    least_variance: float
    """Variance of the value if no unit differs from another, which few ratings cannot exclude; else 0."""


class _Beyond(NamedTuple):
    """Room for what the ratings do not show: instances whose jury scores lie beyond all scores that were rated."""

    below: float
    """Addition to the lower side of the interval."""
    above: float
    """Addition to the upper side."""


NOTHING_BEYOND = _Beyond(0.0, 0.0)
"""No such room, as for a weight of the jury that is given."""


class _ModelEffect(NamedTuple):
    """Differences in the jury's mean error between models, and their effect on the estimate for one model."""

    deviation: float
    """Standard deviation of the mean error from model to model."""
    error: float
    """Addition to the standard error, in quadrature."""
    reach: float
    """Addition to either side of the interval, in quadrature."""


NO_MODEL_EFFECT = _ModelEffect(0.0, 0.0, 0.0)
"""No differences between models."""


def prediction_powered(
    jury: Floats, ratings: Floats, clusters: Clusters = None, *, design: RatingDesign, lambda_: float | None = None
) -> CalibratedMean:
    """Estimate the mean rating of a run from some rated instances: see the head of this section.

    Parameters: jury, shape (n,), nan where the jury has no score, in any unit; ratings, shape (n,), nan where no
    clinician rated, else the mean over the instance's raters; clusters, n names, "" or None for independent instances;
    design, with n probabilities if they differ; lambda_, None for the slope found in the data, and of no effect if all
    are rated. The rated instances, or the clusters they are in, must have been picked by chance.
    Raises: ValueError if fewer than `LEAST` units are rated, a rating is off the scale, a score is infinite, or a rated
    instance has no probability above 0 and up to 1.
    """
    sample = _sample_of_run(jury, ratings, clusters, design, LEAST)
    if len(sample.ratings) == len(sample.jury):
        lambda_ = 0.0
    weights = _slopes_without_own_unit(sample) if lambda_ is None else np.full(len(sample.ratings), float(lambda_))
    weight = float((sample.weights * weights).sum() / sample.weights.sum())
    corrected = sample.ratings + weights * (sample.jury.mean() - sample.rated_jury)
    beyond = _beyond_the_rated(sample, weight) if lambda_ is None else NOTHING_BEYOND
    predictions = weight * sample.jury
    return _calibrated_mean(sample, corrected, predictions, lambda_=weight, method="prediction-powered", beyond=beyond)


def estimate_parts(
    jury: Floats,
    ratings: Floats,
    codes: NDArray[np.intp],
    k: int,
    design: RatingDesign,
) -> EstimateParts:
    """Compute the value of `prediction_powered` as contributions of units, for differences between models.

    Parameters: as of `prediction_powered`; codes, shape (n,), number of the unit of each instance, 0 to k - 1, the same
    numbers for all models. Raises: ValueError as there.
    """
    sample = _sample_of_run(jury, ratings, codes, design, LEAST)
    slopes = _slopes_without_own_unit(sample) * (len(sample.ratings) < len(sample.jury))
    slope = float((sample.weights * slopes).sum() / sample.weights.sum())
    corrected = sample.ratings + slopes * (sample.jury.mean() - sample.rated_jury)
    mean, shares, is_rated = _unit_shares(sample, corrected, slope * sample.jury)
    of_units = np.bincount(sample.rated_units, sample.weights, sample.k)[is_rated]
    units = float(of_units.sum() ** 2 / (of_units @ of_units))
    shares[is_rated] *= math.sqrt(units / max(units - 1, 1.0))
    beyond = _beyond_the_rated(sample, slope)
    flat = np.abs(shares).max() <= FLAT * (design.high - design.low)
    places = np.unique(codes[~np.isnan(jury)])
    everywhere, rated = np.zeros(k), np.zeros(k, dtype=np.bool_)
    everywhere[places], rated[places] = shares, is_rated
    least = float(constant_variance(np.array([units]), design.low, design.high)[0]) if flat else 0.0
    return EstimateParts(mean, everywhere, rated, beyond.below, beyond.above, least)


def isotonic_mapped(
    jury: Floats, ratings: Floats, clusters: Clusters = None, *, design: RatingDesign, rng: np.random.Generator
) -> CalibratedMean:
    """Estimate the mean rating of a run with an increasing curve of the jury's scores instead of a straight line.

    The curve replaces lambda * f in the formula at the head of this section and is cross-fitted in `FOLDS` folds
    (Zrnic and Candes 2024, Proc. Natl. Acad. Sci. 121); beyond the rated scores it continues with the slope of the
    straight line, because a flat end misses the rare bad completions. Useful only if ratings follow the jury
    in a clear bend: there the interval is up to a third narrower than that of `prediction_powered`, for a straight
    relation up to a tenth wider. In the simulations it covers 93 to 97% from 30 ratings up. With 20 it is 91% if
    nearly all ratings are at the end of the scale; if they also bend, 87 to 90%, and 50 are needed.

    Parameters and errors: as of `prediction_powered`, with at least `LEAST_FOR_CURVE` rated units; rng divides them.
    """
    sample = _sample_of_run(jury, ratings, clusters, design, LEAST_FOR_CURVE)
    found, places = np.unique(sample.rated_units, return_inverse=True)
    folds = (rng.permutation(len(found)) % FOLDS)[places]
    corrected = sample.ratings.copy()
    curve = np.zeros(len(sample.jury))
    if len(corrected) == len(curve):
        return _calibrated_mean(sample, corrected, curve, lambda_=0.0, method="isotonic")
    low, high = design.low, design.high
    for fold in range(FOLDS):
        outside = folds == fold
        x, y = sample.rated_jury[~outside], sample.ratings[~outside]
        fitted, slope = isotonic_curve(x, y), _slope(x, y)
        mapped = np.clip(fitted.at(sample.jury, slope), low, high)
        corrected[outside] += mapped.mean() - np.clip(fitted.at(sample.rated_jury[outside], slope), low, high)
        curve += mapped / FOLDS
    beyond = _beyond_the_rated(sample, _slope(sample.rated_jury, sample.ratings))
    return _calibrated_mean(sample, corrected, curve, lambda_=1.0, method="isotonic", beyond=beyond)


def prediction_powered_pooled(
    jury: Floats,
    pairs: RatedPairs,
    *,
    model: str,
    design: RatingDesign,
    clusters: Clusters = None,
    lambda_: float = 1.0,
) -> CalibratedMean:
    """Estimate the mean rating of one model, with the jury's error learned from several models.

    For models with too few ratings each, on the same benchmark with the same jury. The mean of (rating - lambda * jury
    score) over all rated pairs is added to lambda times the model's own mean jury score. This takes the jury to err
    alike with every model, up to chance differences between models, whose variance is estimated (method of moments) and
    added, once for this model and once for the pool. lambda is fixed: the one with the least variance would be that
    which ignores the model, and would pull every model to the mean of all. 1 means that what is alike is the difference
    of rating and score.

    In simulations this covers in 95 to 99% if errors are alike, and in 91 to 99% however much they differ, provided
    the model has ratings among the pairs. If it has none and errors differ, it covers less, 86 to 96%, with two or
    three models by an interval nearly as long as the scale.

    Parameters: jury, shape (n,), the model's own scores, nan if missing; pairs, of any models; model, the one to
    estimate; design, with m probabilities if they differ; clusters, names of the model's own instances (or of their
    clusters), in one naming with those of the pairs: pairs of the same instance are not independent. Both or neither.
    Raises: ValueError if fewer than `LEAST` units or two models are rated, no model twice, a rating is off the scale,
    or a pair incomplete.
    """
    sample = _sample_of_pool(jury, pairs, clusters, design)
    sample = sample._replace(weights=_weights(design.probabilities, len(pairs.ratings)))
    errors = sample.ratings - lambda_ * sample.rated_jury
    return _calibrated_mean(
        sample,
        errors + lambda_ * sample.jury.mean(),
        lambda_ * sample.jury,
        lambda_=lambda_,
        method="pooled",
        beyond=_beyond_the_rated(sample, lambda_),
        models=_model_effect(errors, pairs.models, model, sample),
    )


def _sample_of_run(jury: Floats, ratings: Floats, clusters: Clusters, design: RatingDesign, least: int) -> _Sample:
    """Drop instances without a jury score, and separate the rated ones. Raises: ValueError as `prediction_powered`."""
    jury, ratings = np.asarray(jury, dtype=float), np.asarray(ratings, dtype=float)
    if jury.ndim != 1 or jury.shape != ratings.shape:
        raise ValueError(f"each instance needs a jury score and a rating, or nan: {jury.shape} and {ratings.shape}")
    kept = ~np.isnan(jury)
    units, k = cluster_codes(_clusters_of(clusters, kept), int(kept.sum()))
    jury, ratings = jury[kept], ratings[kept]
    rated = ~np.isnan(ratings)
    probabilities = design.probabilities
    drawn = None if probabilities is None else np.asarray(probabilities, dtype=float)[kept][rated]
    weights = _weights(drawn, int(rated.sum()))
    sample = _Sample(jury, units, jury[rated], ratings[rated], units[rated], k, int((~kept).sum()), weights, design)
    _check_sample(sample, least)
    return sample


def _sample_of_pool(jury: Floats, pairs: RatedPairs, clusters: Clusters, design: RatingDesign) -> _Sample:
    """Bring a model's own scores and rated pairs of several models together, the units of both numbered alike."""
    jury = np.asarray(jury, dtype=float)
    rated_jury, ratings, models = np.asarray(pairs.jury, float), np.asarray(pairs.ratings, float), pairs.models
    if not (rated_jury.shape == ratings.shape == (len(models),)):
        raise ValueError(f"{len(models)} models for {rated_jury.shape} jury scores and {ratings.shape} ratings")
    if np.isnan(rated_jury).any() or np.isnan(ratings).any():
        raise ValueError("a rated pair needs a jury score and a rating")
    if (clusters is None) != (pairs.clusters is None):
        raise ValueError("clusters are named for own instances and rated ones, or for neither")
    if not 2 <= len(set(models)) < len(models):
        raise ValueError("pooling needs ratings of two models at least, and two of one of them")
    kept = ~np.isnan(jury)
    n = int(kept.sum())
    own = _clusters_of(clusters, kept)
    names = None if own is None else np.concatenate([own, np.asarray(pairs.clusters)])
    units, k = cluster_codes(names, n + len(ratings))
    weights = np.ones(len(ratings))
    sample = _Sample(jury[kept], units[:n], rated_jury, ratings, units[n:], k, int((~kept).sum()), weights, design)
    _check_sample(sample, LEAST)
    return sample


def _weights(probabilities: Floats | None, m: int) -> Floats:
    """Return one over each probability, relative to the mean; 1 for equal ones."""
    if probabilities is None or m == 0:
        return np.ones(m)
    drawn = np.asarray(probabilities, dtype=float)
    if drawn.shape != (m,):
        raise ValueError(f"{m} rated instances need {m} probabilities, not {drawn.shape}")
    if not ((drawn > 0) & (drawn <= 1)).all():
        raise ValueError("each rated instance needs the probability with which it was drawn, above 0 and up to 1")
    if drawn.min() == drawn.max():
        return np.ones(m)
    weights: Floats = 1 / drawn
    return weights / float(weights.mean())


def _clusters_of(clusters: Clusters, kept: NDArray[np.bool_]) -> NDArray[np.str_] | NDArray[np.integer] | None:
    """Return the cluster names of the instances that are kept."""
    if clusters is None:
        return None
    if len(clusters) != len(kept):
        raise ValueError(f"{len(kept)} instances need {len(kept)} cluster names, not {len(clusters)}")
    names: NDArray[np.str_] | NDArray[np.integer] = np.asarray(clusters)[kept]
    return names


def _check_sample(sample: _Sample, least: int) -> None:
    """Raise ValueError if the sample cannot be calibrated."""
    low, high = sample.design.low, sample.design.high
    require_scale(low, high)
    if not (np.isfinite(sample.jury).all() and np.isfinite(sample.rated_jury).all()):
        raise ValueError("a jury score is infinite")
    found = len(np.unique(sample.rated_units))
    if len(sample.jury) < 2:
        raise ValueError(f"{len(sample.jury)} instances with a jury score are too few for a mean with an interval")
    if found < least:
        raise ValueError(f"{found} rated units are too few to calibrate the jury: {least} at least")
    if sample.ratings.min() < low or sample.ratings.max() > high:
        raise ValueError(
            f"ratings from {sample.ratings.min():g} to {sample.ratings.max():g} on a scale {low:g}..{high:g}"
        )


def _slopes_without_own_unit(sample: _Sample) -> Floats:
    """Compute for each rating the weighted slope over all rated units except its own: shape (m,), at least 0."""
    x, y = sample.rated_jury - sample.rated_jury.mean(), sample.ratings - sample.ratings.mean()
    parts = tuple(sample.weights * part for part in (np.ones(len(x)), x, y, x * x, x * y))
    sums = np.stack([np.bincount(sample.rated_units, weights=part, minlength=sample.k) for part in parts])
    count, sum_x, sum_y, sum_xx, sum_xy = sums.sum(axis=1, keepdims=True) - sums
    spread = sum_xx - sum_x * sum_x / count
    together = sum_xy - sum_x * sum_y / count
    least = FLAT * float(sample.rated_jury @ sample.rated_jury)
    slopes = np.divide(together, spread, out=np.zeros(sample.k), where=spread > least)
    steepness: Floats = np.maximum(slopes, 0.0)[sample.rated_units]
    return steepness


def _slope(x: Floats, y: Floats) -> float:
    """Fit the slope of a straight line, at least 0; 0 if all x are equal."""
    centered = x - x.mean()
    spread = float(centered @ centered)
    return max(0.0, float(centered @ y) / spread) if spread > FLAT * float(x @ x) else 0.0


def _model_effect(errors: Floats, models: Sequence[str], model: str, sample: _Sample) -> _ModelEffect:
    """Estimate how much the jury's mean error varies between models, and the effect on the estimate for one model.

    The variance is that of the models' means, less what chance adds to it: the covariance of the means over independent
    units.
    """
    names, codes = np.unique(np.asarray(models), return_inverse=True)
    units, places = np.unique(sample.rated_units, return_inverse=True)
    count = np.bincount(codes).astype(float)
    means = np.bincount(codes, weights=errors) / count
    shares = (errors - means[codes]) / np.sqrt(count * np.maximum(count - 1, 1))[codes]
    parts = np.bincount(places * len(names) + codes, shares, len(units) * len(names)).reshape(len(units), len(names))
    chance = float((parts**2).sum() - (parts.sum(axis=1) ** 2).sum() / len(names)) / (len(names) - 1)
    deviation = math.sqrt(max(0.0, float(means.var(ddof=1)) - chance))
    error = deviation * math.sqrt(1 + float(count @ count) / len(errors) ** 2)
    # A model in the pool takes part of its own error with it; for any other, only the few models are informative.
    known = len(units) if model in models else len(names)
    return _ModelEffect(deviation, error, t_quantile(0.975, known - 1) * error)


def _beyond_the_rated(sample: _Sample, slope: float) -> _Beyond:
    """Return what ratings beyond the rated scores can change: there they may follow the jury fully, or not at all.

    Without that, intervals of a model with a few disasters that only the jury has seen cover 70 to 80%. To follow fully
    is to use the whole scale of the ratings where the jury uses the whole range of its scores.

    Parameters: slope, that of ratings on scores which the estimate assumes.
    """
    span = float(np.ptp(sample.jury))
    if span == 0:
        return NOTHING_BEYOND
    under = float(np.maximum(sample.rated_jury.min() - sample.jury, 0.0).mean())
    over = float(np.maximum(sample.jury - sample.rated_jury.max(), 0.0).mean())
    more = max((sample.design.high - sample.design.low) / span - slope, 0.0)
    return _Beyond(more * under + slope * over, slope * under + more * over)


def degrees_of_freedom(shares: Floats, weights: Floats) -> float:
    """Return the degrees of freedom of the spread of the rated units' shares, at least 1.

    One less than their effective number (Kish 1965); fewer if few units make up the spread, as those that are not at
    the end of the scale: with kurtosis b, the variance of k values has 2 k / (b - 1) degrees of freedom.
    """
    units = float(weights.sum() ** 2 / (weights @ weights))
    squares = (shares - shares.mean()) ** 2
    total = float(squares.sum())
    kurtosis = len(shares) * float(squares @ squares) / total**2 if total > 0 else 1.0
    return max(min(units - 1, 2 * units / max(kurtosis - 1, 1e-9)), 1.0)


def _unit_shares(sample: _Sample, corrected: Floats, predictions: Floats) -> tuple[float, Floats, NDArray[np.bool_]]:
    """Return the mean of the corrected ratings, the contribution of each unit beyond it, and which units are rated."""
    weights = sample.weights / sample.weights.sum()
    mean = float((sample.weights * corrected).sum() / sample.weights.sum())
    shares = np.zeros(sample.k)
    shares += np.bincount(sample.units, (predictions - predictions.mean()) / len(predictions), sample.k)
    shares += np.bincount(sample.rated_units, weights * (corrected - mean), sample.k)
    return mean, shares, np.bincount(sample.rated_units, minlength=sample.k) > 0


def _calibrated_mean(
    sample: _Sample,
    corrected: Floats,
    predictions: Floats,
    *,
    lambda_: float,
    method: str,
    beyond: _Beyond = NOTHING_BEYOND,
    models: _ModelEffect = NO_MODEL_EFFECT,
) -> CalibratedMean:
    """Compute the mean of the corrected ratings with its interval.

    Parameters: corrected, shape (m,), the estimate of the mean from each rating; predictions, shape (n,), contribution
    of the jury's scores; beyond, room for scores beyond the rated ones; models, effect of differences between
    models.
    """
    low, high, raters = sample.design.low, sample.design.high, sample.design.raters
    weights = sample.weights / sample.weights.sum()
    mean, shares, is_rated = _unit_shares(sample, corrected, predictions)
    value = min(max(mean, low), high)
    is_weighted = bool(np.ptp(sample.weights) > 0)
    reach = math.hypot(models.reach, raters.reach if raters else 0.0)
    if np.abs(shares).max() <= FLAT * (high - low):
        limits = constant_interval(value, int(is_rated.sum()), low, high)
        error, below, above, method = 0.0, value - limits[0], limits[1] - value, "constant"
    else:
        of_units = np.bincount(sample.rated_units, weights, sample.k)[is_rated].astype(float)
        df = degrees_of_freedom(shares[is_rated], of_units)
        error, below, above = spread_of_sum(shares, is_rated, df, weights=of_units if is_weighted else None)
        below, above = below + beyond.below, above + beyond.above
        method += "-clustered" if sample.k < len(sample.jury) else ""
    return CalibratedMean(
        value=value,
        low=max(value - math.hypot(below, reach), low),
        high=min(value + math.hypot(above, reach), high),
        standard_error=math.hypot(error, models.error),
        n=len(sample.jury),
        n_rated=len(sample.ratings),
        n_left_out=sample.n_left_out,
        lambda_=lambda_,
        between_models=models.deviation,
        method=method,
        n_raters=raters.n_raters if raters else 0,
        between_raters=raters.deviation if raters else None,
        is_weighted=is_weighted,
    )


# --- completions to rate ----------------------------------------------------------------------------------------------
# Draw completions for clinicians to rate, and compare the rated with the others.
#
# Half of a stratified draw is in proportion to the strata, thirds of the scale of the jury's scores, and half in equal
# parts: rare bad completions are rated more often, and no completion less than half as often as in a simple draw. The
# probability of each completion is known, so that calibration can weigh it.

STRATA = 3
"""Number of equal parts of the jury's scale."""

IMBALANCE = 0.25
"""Standardized difference above which rated and unrated completions differ too much (Rubin 2001)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Selection:
    """Completions drawn to be rated."""

    drawn: NDArray[np.intp]
    """Their positions, in random order."""
    probabilities: Floats
    """Shape (n,): probability with which each completion was drawn; nan without a jury score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnCompletion:
    """A completion to be rated."""

    benchmark: str
    """Name of the benchmark."""
    model: str
    """Name of the model."""
    instance_id: str
    """Id of the instance."""
    prompt: str
    """Text that the model was sent; "" if the store does not have it."""
    references: tuple[str, ...]
    """Correct completions."""
    completion: str
    """Text to rate."""
    probability: float
    """Probability with which it was drawn among the model's completions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RatingSample:
    """Completions to be rated, and the criteria to rate them by."""

    criteria: tuple[str, ...]
    """Criteria of all benchmarks."""
    completions: tuple[DrawnCompletion, ...]
    """In random order within each benchmark."""
    scales: Mapping[tuple[str, str], tuple[float, float, bool]] = field(default_factory=dict)
    """Benchmark and criterion -> lowest and highest grade, and whether the highest is the best."""
    left_out: tuple[str, ...] = ()
    """Baselines that nothing was drawn from."""

    def texts(self) -> Iterator[str]:
        """Yield each text that a rater reads."""
        for one in self.completions:
            yield from (one.prompt, "\n\n".join(one.references), one.completion)


@dataclass(frozen=True, slots=True, kw_only=True)
class Imbalance:
    """Difference between rated and unrated completions."""

    value: float
    """Mean of the rated minus that of the others, in standard deviations."""
    by_chance: float
    """Size of the difference that a random draw exceeds in 5% of cases."""


def draw_completions(
    scores: Floats, size: int, rng: np.random.Generator, *, scale: tuple[float, float] | None = None
) -> Selection:
    """Draw completions at random, without replacement.

    Parameters: scores, shape (n,), the jury's, nan if missing: those are not drawn; size, number to draw, of which
    there may be fewer; scale, ends of the jury's scale to stratify by score, None for equal probabilities.

    >>> found = draw_completions(np.array([1.0, 5, 5, 5, 5, 5]), 2, np.random.default_rng(0), scale=(1, 5))
    >>> found.probabilities.tolist()
    [1.0, 0.2, 0.2, 0.2, 0.2, 0.2]
    """
    scores = np.asarray(scores, dtype=float)
    there = np.flatnonzero(~np.isnan(scores))
    strata = np.zeros(len(there), dtype=np.intp)
    if scale:
        require_scale(*scale)
        low, high = scale
        edges = low + (high - low) * np.arange(1, STRATA) / STRATA
        strata = np.searchsorted(edges, scores[there], side="right")
        if size < len(np.unique(strata)):
            strata[:] = 0  # too few for one of each: every completion must have a chance
    sizes = np.bincount(strata, minlength=1)
    probabilities = np.full(len(scores), np.nan)
    drawn = []
    for stratum, number in enumerate(_allocate(sizes, min(size, len(there)))):
        members = there[strata == stratum]
        if len(members):
            probabilities[members] = number / len(members)
            drawn.append(rng.permutation(members)[:number])
    chosen = rng.permutation(np.concatenate(drawn)) if drawn else np.array([], dtype=np.intp)
    return Selection(drawn=chosen.astype(np.intp), probabilities=probabilities)


def draw_shared(scores: Floats, size: int, rng: np.random.Generator) -> Selection:
    """Draw completions at random so that equal generators draw the same instances, whatever else has a score.

    Parameters: scores, shape (n,), of instances in the same order for all models, nan if missing: those are not drawn;
    size, number to draw, of which there may be fewer.

    >>> one, other = (draw_shared(np.array([4.0, 5, 3, gap]), 2, np.random.default_rng(0)) for gap in (2.0, np.nan))
    >>> sorted(one.drawn.tolist()), sorted(other.drawn.tolist())
    ([0, 2], [0, 2])
    """
    there = ~np.isnan(np.asarray(scores, dtype=float))
    order = rng.permutation(len(there))
    drawn = order[there[order]][:size]
    share = len(drawn) / max(int(there.sum()), 1)
    return Selection(drawn=drawn.astype(np.intp), probabilities=np.where(there, share, np.nan))


def _allocate(sizes: NDArray[np.intp], total: int) -> list[int]:
    """Divide a draw among strata: half in proportion, half equally, at least 1 and at most all of each if possible."""
    present = sizes > 0
    if not present.any() or total == 0:
        return [0] * len(sizes)
    wanted = total * (sizes / sizes.sum() + present / present.sum()) / 2
    given = np.minimum(present.astype(np.intp), sizes)
    if given.sum() > total:
        given[:] = 0
    while given.sum() < total:
        lacking = np.where(given < sizes, wanted - given, -np.inf)
        given[int(lacking.argmax())] += 1
    return [int(number) for number in given]


def imbalance(values: Floats, is_rated: NDArray[np.bool_], weights: Floats | None = None) -> Imbalance | None:
    """Compare the rated completions with the others in one property, such as the jury's score.

    Parameters: values, shape (n,), nan if missing; is_rated, shape (n,); weights, shape (n,), one over the probability
    with which each rated completion was drawn, None if equal: the rated then represent all, and are compared with all.
    Returns: None if fewer than two are rated or unrated, and if all values are the same.
    """
    there = ~np.isnan(values)
    rated, others = there & is_rated, there & ~is_rated
    m, u = int(rated.sum()), int(others.sum())
    if m < 2 or u < 2:
        return None
    spread = float(values[there].std(ddof=1))
    if spread <= 1e-12 * max(1.0, float(np.abs(values[there]).max())):
        return None
    if weights is None:
        value = float(values[rated].mean() - values[others].mean()) / spread
        return Imbalance(value=value, by_chance=1.96 * float(np.sqrt(1 / m + 1 / u)))
    shares = weights[rated] / weights[rated].sum()
    value = float(shares @ values[rated] - values[there].mean()) / spread
    return Imbalance(value=value, by_chance=1.96 * float(np.sqrt(shares @ shares)))
