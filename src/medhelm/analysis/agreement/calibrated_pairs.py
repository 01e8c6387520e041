"""Differences between models in the grades that clinicians would give: ranks that carry the error of the jury.

Jury scores rank models with the jury's preferences. Where clinicians rated some completions, the difference of two
models is estimated from all jury scores and these ratings (prediction-powered inference: Angelopoulos et al. 2023,
arXiv:2301.09633; for ranks Chatzi et al. 2024, arXiv:2402.17826). If enough of the same instances were rated for both
models, the difference of ratings is predicted from the difference of jury scores; else both means are calibrated, and
the contributions of every instance subtracted, so that instances they share count as pairs.

Benchmarks without judges count with their scores as they are. Over several benchmarks the difference is the weighted
mean of the differences, normalized to 0..1. P-values are those of Student's t, adjusted for all pairs by Holm. The
possible ranks follow from the significant differences, as on the leaderboard.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.agreement.calibration import (
    LEAST,
    EstimateParts,
    RatingDesign,
    degrees_of_freedom,
    estimate_parts,
)
from medhelm.analysis.agreement.clinician_means import CalibratedPair
from medhelm.analysis.agreement.reliability import rater_effect
from medhelm.analysis.comparison.significance import holm
from medhelm.analysis.leaderboard.types import Leaderboard
from medhelm.analysis.means import Floats, constant_variance, f_cdf, t_quantile
from medhelm.domain.text import listed

PAIRED = 0.5
"""Share of the rated instances of either model that both must share for their ratings to be compared in pairs."""

UNEQUAL = 0.2
"""Length of the difference in shares of ratings by rater above which two raters do not make models comparable."""

NAMES = 3
"""Most pairs named in a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScoredModel:
    """One model on one benchmark: n instances with scores, and the ratings of some."""

    benchmark: str
    """Id of the benchmark."""
    model: str
    """Name of the model."""
    ids: Sequence[str]
    """Ids of the instances."""
    units: Sequence[str]
    """Independent unit of each instance: its cluster, or its own id."""
    scores: Floats
    """Shape (n,), nan if missing; high is good."""
    low: float
    """The worst score."""
    high: float
    """The best score."""
    ratings: Floats | None = None
    """Shape (n,): mean rating of each instance on the same scale, nan if unrated. None: scores are not a jury's."""
    probabilities: Floats | None = None
    """Shape (n,): probabilities with which instances were drawn to be rated; None if equal."""
    raters: Mapping[str, float] | None = None
    """Rater -> share of the ratings of this model."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CalibratedPairs:
    """All pairs of models, with the ranks that the ratings leave possible."""

    models: tuple[str, ...]
    """Models in the order of the leaderboard."""
    benchmarks: tuple[CalibratedPair, ...]
    """Every pair on every rated benchmark."""
    overall: tuple[CalibratedPair, ...]
    """Every pair over all benchmarks; with one benchmark, the same as there."""
    raw_findings: frozenset[tuple[str, str]]
    """Pairs that differ significantly by the jury's own scores, the better one first."""

    @property
    def is_complete(self) -> bool:
        """True if every pair has a difference."""
        return all(pair.value is not None for pair in self.overall)

    def ranks(self) -> dict[str, tuple[int, int]]:
        """Return model -> best and worst possible rank; empty if a pair has no difference.

        The best is one more than the models that are significantly better, the worst all but those that are worse.
        """
        if not self.is_complete:
            return {}
        better = [(pair.better, pair.second if pair.better == pair.first else pair.first) for pair in self.overall]
        n = len(self.models)
        return {
            model: (1 + sum(worse == model and one is not None for one, worse in better),
                    n - sum(one == model for one, _ in better))
            for model in self.models
        }  # fmt: skip

    def verdict(self) -> list[str]:
        """Return a sentence on the jury's findings that the ratings confirm, and those they do not."""
        if not self.raw_findings:
            return []
        by_pair = {frozenset((pair.first, pair.second)): pair for pair in self.overall}
        known = [(a, b, by_pair[frozenset((a, b))]) for a, b in sorted(self.raw_findings)]
        tested = [(a, b, pair) for a, b, pair in known if pair.value is not None]
        if not tested:
            return ["The clinicians' ratings are too few to check the differences between models."]
        held = [pair for a, _, pair in tested if pair.better == a]
        turned = [(b, a) for a, b, pair in tested if pair.better == b]
        lost = [(a, b) for a, b, pair in tested if pair.better is None]
        n = len(tested)
        held_of = "all" if len(held) == n else f"{len(held) or 'none'} of the"
        count = f"{held_of} {n} significant differences" if n > 1 else "the significant difference"
        sentences = [f"The clinicians' ratings {'confirm' if held or n > 1 else 'do not confirm'} {count}."]
        if lost:
            sentences.append(f"With them, {_pairs_in_words(lost, 'and')} cannot be separated.")
        if turned:
            sentences.append(f"With them, {_pairs_in_words(turned, 'is better than')}.")
        if missing := len(known) - n:
            sentences.append(f"For {missing} more, there are too few ratings.")
        return [" ".join(sentences)]


def _pairs_in_words(pairs: Sequence[tuple[str, str]], between: str) -> str:
    """Return pairs of models as a list in a sentence."""
    return listed([f"{a} {between} {b}" for a, b in pairs], NAMES)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CalibratedLeaderboard(Leaderboard):
    """A leaderboard with differences between models that carry the error of the jury."""

    calibrated_pairs: CalibratedPairs
    """The differences."""


class _Difference(NamedTuple):
    """A difference with what its test needs."""

    value: float
    variance: float
    df: float
    below: float
    """Room below and above for what the ratings do not show."""
    above: float


def calibrated_pairs(
    scored: Iterable[ScoredModel],
    models: Sequence[str],
    weights: Mapping[str, float],
    tables: Mapping[str, tuple[Sequence[str], Floats]],
    raw_findings: frozenset[tuple[str, str]] = frozenset(),
) -> CalibratedPairs:
    """Compare every two models in the grades that clinicians would give.

    Parameters: scored, each model on each benchmark; models, those to compare, in order; weights, of the benchmarks;
    tables, benchmark -> its raters and all ratings, shape (n, raters), from which differences in severity are
    estimated; raw_findings, pairs that differ by the jury's scores, the better one first.
    """
    by_benchmark: dict[str, dict[str, ScoredModel]] = {}
    for one in scored:
        by_benchmark.setdefault(one.benchmark, {})[one.model] = one
    pairs = list(combinations(models, 2))
    found: dict[tuple[str, str], dict[str, _Difference | str]] = {pair: {} for pair in pairs}
    spans: dict[str, float] = {}
    rated: list[CalibratedPair] = []
    for name, own in by_benchmark.items():
        one = next(iter(own.values()))
        spans[name] = one.high - one.low
        for pair in pairs:
            if pair[0] in own and pair[1] in own:
                found[pair][name] = _difference(own[pair[0]], own[pair[1]], tables.get(name))
        if any(of.ratings is not None and not np.isnan(of.ratings).all() for of in own.values()):
            rated += _adjusted(name, [(pair, found[pair][name]) for pair in pairs if name in found[pair]])
    overall = rated
    if len(by_benchmark) > 1:
        overall = _adjusted("", [(pair, _over_benchmarks(found[pair], weights, spans)) for pair in pairs])
    return CalibratedPairs(
        models=tuple(models), benchmarks=tuple(rated), overall=tuple(overall), raw_findings=raw_findings
    )


def _difference(
    first: ScoredModel, second: ScoredModel, table: tuple[Sequence[str], Floats] | None
) -> _Difference | str:
    """Estimate the difference of two models on one benchmark; return the reason if that is not possible."""
    ids = sorted({*first.ids, *second.ids})
    place = {name: i for i, name in enumerate(ids)}
    unit_of = dict(zip([*first.ids, *second.ids], [*first.units, *second.units], strict=True))
    _, codes = np.unique([unit_of[name] for name in ids], return_inverse=True)
    k = int(codes.max()) + 1
    sides = [_aligned(one, place) for one in (first, second)]
    if first.ratings is None or second.ratings is None:
        return _plain_difference(sides[0][0] - sides[1][0], codes, k, first.high - first.low)
    try:
        parts = _paired_parts(sides, codes, k, first) or _subtracted_parts(sides, codes, k, first)
    except ValueError as error:
        return str(error)
    raters = _variance_of_raters(first, second, table)
    if raters is None:
        return "different clinicians rated the two models"
    variance = max(float(parts.shares @ parts.shares), parts.least_variance)
    rated = parts.shares[parts.is_rated]
    df = degrees_of_freedom(rated, np.ones(len(rated)))
    extra, df_raters = raters
    if extra > 0:
        df = (variance + extra) ** 2 / (variance**2 / df + extra**2 / df_raters)
    return _Difference(parts.value, variance + extra, df, parts.below, parts.above)


_Side = tuple[Floats, Floats, Floats | None]
"""Scores, ratings and probabilities of a model, aligned with all instances."""


def _aligned(one: ScoredModel, place: Mapping[str, int]) -> _Side:
    """Align a model's scores, ratings and probabilities with all instances of two models."""
    at = [place[name] for name in one.ids]

    def filled(values: Floats) -> Floats:
        found = np.full(len(place), np.nan)
        found[at] = values
        return found

    ratings = np.full(len(one.ids), np.nan) if one.ratings is None else one.ratings
    return filled(one.scores), filled(ratings), None if one.probabilities is None else filled(one.probabilities)


def _paired_parts(sides: Sequence[_Side], codes: NDArray[np.intp], k: int, of: ScoredModel) -> EstimateParts | None:
    """Predict the difference of ratings from that of jury scores; None if too few instances were rated for both."""
    (scores_a, ratings_a, drawn_a), (scores_b, ratings_b, drawn_b) = sides
    if not (_are_equal(drawn_a) and _are_equal(drawn_b)):
        return None
    scores, ratings = scores_a - scores_b, ratings_a - ratings_b
    n_both = int((~np.isnan(ratings) & ~np.isnan(scores)).sum())
    n_most = max(int((~np.isnan(one)).sum()) for one in (ratings_a, ratings_b))
    units = len(np.unique(codes[~np.isnan(ratings) & ~np.isnan(scores)]))
    if units < LEAST or n_both < PAIRED * n_most:
        return None
    span = of.high - of.low
    return estimate_parts(scores, ratings, codes, k, design=RatingDesign(low=-span, high=span))


def _are_equal(drawn: Floats | None) -> bool:
    """Return whether all instances that were drawn had the same probability."""
    return drawn is None or bool(np.nanmin(drawn) == np.nanmax(drawn))


def _subtracted_parts(sides: Sequence[_Side], codes: NDArray[np.intp], k: int, of: ScoredModel) -> EstimateParts:
    """Subtract two calibrated means, unit by unit. Raises: ValueError if a model has too few ratings."""
    one, other = (
        estimate_parts(scores, ratings, codes, k, design=RatingDesign(low=of.low, high=of.high, probabilities=drawn))
        for scores, ratings, drawn in sides
    )
    return EstimateParts(
        value=one.value - other.value,
        shares=one.shares - other.shares,
        is_rated=one.is_rated | other.is_rated,
        below=one.below + other.above,
        above=one.above + other.below,
        least_variance=one.least_variance + other.least_variance,
    )


def _variance_of_raters(
    first: ScoredModel, second: ScoredModel, table: tuple[Sequence[str], Floats] | None
) -> tuple[float, float] | None:
    """Return the variance that comes from different raters of the two models, and its degrees of freedom.

    None if the raters differ, and their severities cannot be compared.
    """
    if table is None or first.raters is None or second.raters is None:
        return 0.0, 1.0
    names, ratings = table
    apart = np.array([first.raters.get(name, 0.0) - second.raters.get(name, 0.0) for name in names])
    length = float(np.sqrt(apart @ apart))
    if length < 1e-9:
        return 0.0, 1.0
    deviation = rater_effect(ratings, np.abs(apart)).deviation
    if deviation is None:
        return None if length > UNEQUAL else (0.0, 1.0)
    return (deviation * length) ** 2, max(len(names) - 1.0, 1.0)


def _plain_difference(differences: Floats, codes: NDArray[np.intp], k: int, span: float) -> _Difference | str:
    """Return the mean difference of scores that do not come from a jury."""
    there = ~np.isnan(differences)
    if not there.any():
        return "no instance has a score of both"
    mean = float(differences[there].mean())
    n = int(there.sum())
    by_unit = np.bincount(codes[there], (differences[there] - mean) / n, k)
    shares = np.asarray(by_unit[np.unique(codes[there])], dtype=float)
    units = len(shares)
    if units < 2:
        return "a single independent instance shows no spread"
    variance = float(shares @ shares) * units / (units - 1)
    if variance < 1e-24:
        variance = float(constant_variance(np.array([float(units)]), -span, span)[0])
    return _Difference(mean, variance, degrees_of_freedom(shares, np.ones(units)), 0.0, 0.0)


def _over_benchmarks(
    found: Mapping[str, _Difference | str], weights: Mapping[str, float], spans: Mapping[str, float]
) -> _Difference | str:
    """Average the differences of one pair over benchmarks, each from 0 to 1; the reason if one is missing."""
    if not found:
        return "they share no benchmark"
    known: dict[str, _Difference] = {}
    for name, one in found.items():
        if isinstance(one, str):
            return f"on {name}, {one}"
        known[name] = one
    total = math.fsum(weights.get(name, 1.0) for name in known)
    if total <= 0:
        return "no benchmark that they share has a weight"
    scale = {name: weights.get(name, 1.0) / total / spans[name] for name in known}
    variances = {name: scale[name] ** 2 * one.variance for name, one in known.items()}
    variance = math.fsum(variances.values())
    df = variance**2 / math.fsum(variances[name] ** 2 / one.df for name, one in known.items())
    return _Difference(
        value=math.fsum(scale[name] * one.value for name, one in known.items()),
        variance=variance,
        df=df,
        below=math.fsum(scale[name] * one.below for name, one in known.items()),
        above=math.fsum(scale[name] * one.above for name, one in known.items()),
    )


def _adjusted(benchmark: str, found: Sequence[tuple[tuple[str, str], _Difference | str]]) -> list[CalibratedPair]:
    """Return the differences of all pairs with intervals and adjusted p-values."""
    tested = {pair: one for pair, one in found if not isinstance(one, str)}
    p_values = {pair: _p_value(one) for pair, one in tested.items()}
    adjusted = dict(zip(p_values, holm(list(p_values.values())).tolist(), strict=True)) if p_values else {}
    pairs = []
    for (first, second), one in found:
        if isinstance(one, str):
            pairs.append(CalibratedPair(benchmark=benchmark, first=first, second=second, value=None, reason=one))
            continue
        half = t_quantile(0.975, one.df) * math.sqrt(one.variance)
        pairs.append(
            CalibratedPair(
                benchmark=benchmark,
                first=first,
                second=second,
                value=one.value,
                low=one.value - half - one.below,
                high=one.value + half + one.above,
                p_value=p_values[first, second],
                p_holm=adjusted[first, second],
            )
        )
    return pairs


def _p_value(one: _Difference) -> float:
    """Return the two-sided p-value that agrees with the interval."""
    distance = max(one.value - one.below, 0.0) if one.value > 0 else max(-one.value - one.above, 0.0)
    return 1 - f_cdf(distance**2 / one.variance, 1, one.df) if one.variance > 0 else float(distance == 0)
