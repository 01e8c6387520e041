"""Biases of judges: severity, self-preference, and preference for long or short completions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from medhelm.analysis.agreement.coefficients import resampled_spearman
from medhelm.analysis.jury.cells import (
    Codes,
    JudgmentCells,
    bootstrap_estimate,
    difference_from_others,
    grades_by_judge,
    ratio_estimate,
)
from medhelm.analysis.means import DRAWS, Floats, constant_interval, percentile_interval, resampling_weights
from medhelm.domain import Estimate

Basis = Literal["within instances", "across instances"]
"""Completions that are compared: of several models on one instance, or of one model on all."""

DIGITS = 12
"""Decimals that count in the distance of a value from a mean."""

TOLERANCE = 1e-9
"""Share of the largest number below which another one counts as zero."""


def judge_severity(cells: JudgmentCells, rng: np.random.Generator) -> list[Estimate | None]:
    """Estimate how much lower each judge grades than the other judges do on the same completion and criterion.

    Above zero: harsher than the others. Cluster bootstrap over instances; `n` counts the pairs. None for a judge that
    shares no graded completion with another.
    """
    values, instance = grades_by_judge(cells)
    found = []
    for difference in -difference_from_others(values):
        there = ~np.isnan(difference)
        codes = cells.clusters[instance[there]]
        ones, span = np.ones(int(there.sum())), cells.high - cells.low
        found.append(ratio_estimate(difference[there], ones, codes, rng, span=span, n=len(ones)))
    return found


# --- self-preference --------------------------------------------------------------------------------------------------


def self_preference(
    scores: Floats, own: np.ndarray, clusters: Codes, rng: np.random.Generator, *, span: float
) -> list[Estimate | None]:
    """Estimate how much each judge favors models of its own family, beyond its usual difference from the others.

    A difference in differences within each instance: (judge minus other judges) on completions of its family minus the
    same on those of other models. It is found by least squares: the score is a sum of how the judge grades this
    instance, how good the completion is, and a preference of the judge if the completion is of its family. Where one
    judge alone has family among the models, that is the plain difference of means; where several have, it keeps what
    the others do for their own from counting as this judge's preference.

    Parameters: scores, shape (J, M, n), nan if missing; own, shape (J, M), whether judge and model are of one
    family; clusters, shape (n,), number of each instance's cluster; span, length of the scale.
    Returns: one for each judge, in grades, `n` being the instances that say something of it. None for a judge without
    family among the models, or whose preference cannot be identified, as of two judges that grade only
    each other's models and their own. Cluster bootstrap over instances.
    """
    partial = np.flatnonzero(own.any(axis=1))
    found: list[Estimate | None] = [None] * len(own)
    if len(partial) == 0:
        return found
    grams, rights = np.zeros((scores.shape[2], len(partial), len(partial))), np.zeros((scores.shape[2], len(partial)))
    for block, instances, cells in _blocks_of_instances(scores):
        grams[instances], rights[instances] = _normal_equations(block, own, partial, cells)
    telling = grams.diagonal(axis1=1, axis2=2) > TOLERANCE
    useful = telling.any(axis=1)
    if not useful.any():
        return found
    _, codes = np.unique(clusters[useful], return_inverse=True)
    k = int(codes.max()) + 1
    left, right = np.zeros((k, len(partial), len(partial))), np.zeros((k, len(partial)))
    np.add.at(left, codes, grams[useful])
    np.add.at(right, codes, rights[useful])
    points = _solve(left.sum(axis=0)[None], right.sum(axis=0)[None])[0]
    drawn = None if k == 1 or _is_exact_fit(left, right, points) else _draw_solutions(left, right, rng)
    evidence = (left.diagonal(axis1=1, axis2=2) > TOLERANCE).sum(axis=0)
    for place, judge in enumerate(partial):
        if not math.isnan(points[place]):
            draws = None if drawn is None else drawn[:, place]
            n, k = int(telling[:, place].sum()), int(evidence[place])
            found[judge] = _preference_estimate(float(points[place]), draws, k, 2 * span, n)
    return found


def _blocks_of_instances(scores: Floats) -> Iterator[tuple[Floats, Codes, Codes]]:
    """Yield instances that lack the same scores: their scores, shape (instances, cells), their places, and the cells.

    Cells are counted through judges and models; blocks that cannot compare judges across models are left out.
    """
    judges, models, n = scores.shape
    flat = scores.reshape(judges * models, n).T
    patterns, kind = np.unique(~np.isnan(flat), axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        square = pattern.reshape(judges, models)
        if square.any(axis=1).sum() > 1 and square.any(axis=0).sum() > 1:
            instances, cells = np.flatnonzero(kind.reshape(-1) == number), np.flatnonzero(pattern)
            yield flat[np.ix_(instances, cells)], instances, cells


def _normal_equations(block: Floats, own: np.ndarray, partial: Codes, cells: Codes) -> tuple[Floats, Floats]:
    """Return the normal equations of the preferences for instances of one block, judges and completions swept out.

    Returns: the left side, which they share, shape (S, S), and the right sides, shape (instances, S).
    """
    judges, models = own.shape
    judge, model = np.divmod(cells, models)
    levels = np.concatenate([judge[:, None] == np.arange(judges), model[:, None] == np.arange(models)], axis=1)
    dummies = levels.astype(float)
    wanted = (judge[:, None] == partial) & own[judge, model][:, None]
    swept = wanted - dummies @ (np.linalg.pinv(dummies) @ wanted)
    return wanted.T @ swept, block @ swept


def _solve(left: Floats, right: Floats) -> Floats:
    """Solve many systems, shapes (d, S, S) and (d, S); nan for an unknown that the equations leave open."""
    inverse = np.linalg.pinv(left, rcond=TOLERANCE, hermitian=True)
    settled = np.einsum("dij,dji->di", left, inverse) > 1 - 1e-6
    return np.where(settled, np.einsum("dij,dj->di", inverse, right), np.nan)


def _draw_solutions(left: Floats, right: Floats, rng: np.random.Generator) -> Floats:
    """Draw solutions that other clusters might have given: shape (draws, S)."""
    k, size = right.shape
    both = np.concatenate([left.reshape(k, size * size), right], axis=1)
    totals = np.concatenate([weights @ both for weights in resampling_weights(k, DRAWS, rng)])
    return _solve(totals[:, : size * size].reshape(-1, size, size), totals[:, size * size :])


def _is_exact_fit(left: Floats, right: Floats, points: Floats) -> bool:
    """Return whether every cluster says the same, so that resampling would show no spread."""
    rest = right - left @ np.nan_to_num(points)
    return bool(np.allclose(rest, 0, rtol=0, atol=TOLERANCE * max(1.0, float(np.abs(right).max()))))


def _preference_estimate(value: float, drawn: Floats | None, k: int, span: float, n: int) -> Estimate:
    """Return a preference with its interval, from the draws if there are any.

    `k` is the number of clusters that inform it; a single one does not show any spread.
    """
    if k == 1:
        low, high, method = -span, span, "single"
    elif drawn is None:
        (low, high), method = constant_interval(value, k, -span, span), "constant"
    else:
        (low, high), method = percentile_interval(drawn, k), f"bootstrap-{DRAWS}"
    return Estimate(value=value, low=max(min(low, value), -span), high=min(max(high, value), span), n=n, method=method)


# --- length -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthBias:
    """Association of grades with the length of the completion."""

    basis: Basis
    """Completions that are compared."""
    slope: Estimate | None
    """Grades more for a completion twice as long; None if lengths or grades do not differ."""
    relative_to_others: Estimate | None
    """The same for the judge's distance from the other judges, in which the quality of the completion cancels; None
    for a jury, or a judge alone."""
    spearman: Estimate | None
    """Rank correlation of grade and length, each less its mean on the same basis."""


def length_bias(
    scores: Floats, lengths: Floats, clusters: Codes, rng: np.random.Generator, *, others: Floats | None = None
) -> LengthBias | None:
    """Estimate the slope of the score over the logarithm of the length, and their rank correlation.

    Within instances, if any was answered by several models: completions are compared with those of other models to the
    same instance, so that what makes a question long to answer plays no part. Else across the instances of each model.
    Longer completions may well be better. A slope that is larger than the other judges' can be bias, or the others do
    not look closely.

    Parameters: scores, shape (M, n), nan if missing; lengths, shape (M, n), in characters; clusters, shape
    (n,); others, shape (M, n), distance from the other judges. Returns: None if no completion has both.
    """
    doublings = np.log2(np.where(lengths > 0, lengths, np.nan))
    there = ~np.isnan(doublings) & ~np.isnan(scores)
    if not there.any():
        return None
    axis = 0 if (there.sum(axis=0) > 1).any() else 1
    x, y, codes = _centered(doublings, scores, clusters, axis)
    return LengthBias(
        basis="within instances" if axis == 0 else "across instances",
        slope=_slope(x, y, codes, rng),
        relative_to_others=None if others is None else _slope(*_centered(doublings, others, clusters, axis), rng),
        spearman=bootstrap_estimate(partial(resampled_spearman, x, y), codes, rng),
    )


def _centered(x: Floats, y: Floats, clusters: Codes, axis: int) -> tuple[Floats, Floats, Codes]:
    """Return both values less their means along an axis, where at least two have both, and the cluster of each."""
    there = ~np.isnan(x) & ~np.isnan(y)
    company = there.sum(axis=axis, keepdims=True)
    several = there & (company > 1)
    centered = []
    for values in (x, y):
        filled = np.where(several, values, 0.0)
        # Rounded, so that equal values stay equal when their mean is taken off.
        centered.append(
            np.round(filled - filled.sum(axis=axis, keepdims=True) / np.maximum(company, 1), DIGITS)[several]
        )
    return centered[0], centered[1], np.broadcast_to(clusters, x.shape)[several]


def _slope(x: Floats, y: Floats, codes: Codes, rng: np.random.Generator) -> Estimate | None:
    """Fit a slope by least squares, with a cluster bootstrap over instances; None if either does not vary."""
    return ratio_estimate(x * y, x * x, codes, rng, n=len(x)) if x.any() and y.any() else None
