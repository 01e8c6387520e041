"""Preferences between pairs of completions: strengths of models, shares of wins, and position bias.

The model is that of Bradley and Terry with ties (Davidson 1970, J. Am. Stat. Assoc. 65). Intervals are by bootstrap
over clusters of instances: they hold for the raters or judges that were asked.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.agreement.reliability import LEAST_UNITS
from medhelm.analysis.comparison.paired_differences import paired_difference
from medhelm.analysis.comparison.significance import holm
from medhelm.analysis.means import Floats, estimate, percentile_interval, resampling_weights
from medhelm.domain import Estimate
from medhelm.domain.benchmark import group_by

DRAWS = 500
"""Bootstrap resamples of an interval: the numbers are computed at each look at the page."""

RIDGE = 0.05
"""Weight of the penalty on squared strengths: it keeps them finite where a model wins or loses always."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WinShare:
    """Share of comparisons in which raters prefer a model to the others."""

    model: str
    """Name of the model."""
    value: float
    """Mean over the other models of the probability to be preferred, plus half of that of a tie: 0 to 1."""
    low: float | None
    """Lower end of the 95% interval; None with too few instances."""
    high: float | None
    """Upper end, or None."""
    n: int
    """Ratings of pairs with this model."""
    strength: Estimate
    """Log strength in the fitted model less the mean over models: a difference of 1 makes a win e times as likely as a
    loss. Infinite ends with too few instances."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferenceResult:
    """Preferences of raters between models."""

    shares: tuple[WinShare, ...]
    """Each model, the most preferred first."""
    n: int
    """Ratings of pairs."""
    n_ties: int
    """Ratings that prefer neither."""
    left: Estimate | None
    """Share of the other ratings that prefer the left one: 0.5 without position bias. None if all are ties."""


def preferences(
    left: Sequence[str],
    right: Sequence[str],
    preferred: Floats,
    instances: Sequence[str],
    *,
    has_sides: bool = True,
    seed: int = 0,
) -> PreferenceResult:
    """Fit the model of Bradley and Terry with ties and an effect of the side.

    The strengths have a small penalty, see `RIDGE`. The interval is by bootstrap over at least `LEAST_UNITS` instances.

    Parameters: left and right, n names of models; preferred, shape (n,), below 0 for the left one, above 0 for the
    right one, 0 for a tie; instances, n names of independent units; has_sides, False if sides have no effect, because
    every preference combines both orders; seed, of the bootstrap.
    """
    models = sorted({*left, *right})
    sides = np.array([[models.index(one) for one in side] for side in (left, right)])
    signs = np.sign(np.asarray(preferred, dtype=float))
    _, codes = np.unique(np.asarray(instances), return_inverse=True)
    k = int(codes.max()) + 1
    different, groups = np.unique(np.vstack([sides, signs]), axis=1, return_inverse=True)
    counts = np.zeros((k, different.shape[1]))
    np.add.at(counts, (codes, groups.ravel()), 1.0)

    rng = np.random.default_rng(seed)
    resampled = [np.ones((1, k)), *(resampling_weights(k, DRAWS, rng) if k >= LEAST_UNITS else ())]
    fitted = _fit(
        different[:2].astype(np.intp),
        different[2],
        np.concatenate(resampled) @ counts,
        len(models),
        has_sides=has_sides,
    )
    strengths = fitted[:, : len(models)]
    numbers = np.stack([_win_shares(fitted, len(models)), strengths - strengths.mean(axis=1, keepdims=True)], axis=2)
    shares = [
        _win_share(model, numbers[0, place], numbers[1:, place], k, n)
        for place, model in enumerate(models)
        for n in [int((sides == place).sum())]
    ]
    decided = signs != 0
    names = np.asarray(instances)[decided]
    return PreferenceResult(
        shares=tuple(sorted(shares, key=lambda one: -one.value)),
        n=len(signs),
        n_ties=int((~decided).sum()),
        left=estimate((signs[decided] < 0).astype(float), names, low=0.0, high=1.0),
    )


def _win_share(model: str, values: Floats, drawn: Floats, k: int, n: int) -> WinShare:
    """Return the share and the strength of a model: `values`, and `drawn`, shape (draws, 2), with k clusters."""
    share, strength = (float(value) for value in values)
    found = WinShare(
        model=model,
        value=share,
        low=None,
        high=None,
        n=n,
        strength=Estimate(value=strength, low=-math.inf, high=math.inf, n=n, method="single"),
    )
    if not len(drawn):
        return found
    ends, limits = (percentile_interval(column, k) for column in drawn.T)
    low, high = min(limits[0], strength), max(limits[1], strength)
    return replace(
        found,
        low=max(min(ends[0], share), 0.0),
        high=min(max(ends[1], share), 1.0),
        strength=Estimate(value=strength, low=low, high=high, n=n, method=f"bootstrap-{DRAWS}"),
    )


def _fit(sides: NDArray[np.intp], signs: Floats, weights: Floats, n_models: int, *, has_sides: bool) -> Floats:
    """Return the log strengths, the effect of the left side and the log of the tie parameter, by Newton's method.

    Parameters: sides, shape (2, n), places of the models; signs, shape (n,); weights, shape (d, n), of d resamples;
    has_sides, False to leave the effect of the side at 0. Returns: shape (d, models + 2).

    The three outcomes have the log weights a + b / 2 (left), c - b / 2 (right) and t + (a + c) / 2 (tie), a and c being
    the strengths. The likelihood is concave.
    """
    n = len(signs)
    design = np.zeros((n, 3, n_models + 2))
    rows = np.arange(n)
    design[rows, 0, sides[0]] = design[rows, 1, sides[1]] = 1.0
    design[rows, 2, sides[0]] += 0.5
    design[rows, 2, sides[1]] += 0.5
    design[:, 2, n_models + 1] = 1.0
    if has_sides:
        design[:, 0, n_models], design[:, 1, n_models] = 0.5, -0.5
    chosen = np.where(signs < 0, 0, np.where(signs > 0, 1, 2))
    squares = np.einsum("nop,noq->nopq", design, design).reshape(3 * n, -1)
    size = n_models + 2
    parameters = np.zeros((len(weights), size))
    for _ in range(50):
        logs = (parameters @ design.reshape(3 * n, size).T).reshape(-1, n, 3)
        chances = np.exp(logs - logs.max(axis=2, keepdims=True))
        chances /= chances.sum(axis=2, keepdims=True)
        expected = (chances.transpose(1, 0, 2) @ design).transpose(1, 0, 2)
        gradient = (weights[:, None, :] @ (design[rows, chosen] - expected))[:, 0] - RIDGE * parameters
        spread = ((chances * weights[:, :, None]).reshape(len(weights), -1) @ squares).reshape(-1, size, size)
        spread -= (expected * weights[:, :, None]).transpose(0, 2, 1) @ expected
        step = np.linalg.solve(spread + RIDGE * np.eye(size), gradient[:, :, None])[:, :, 0]
        largest = np.abs(step).max(axis=1, keepdims=True)
        step *= np.minimum(1.0, 2.0 / np.maximum(largest, 1e-12))
        parameters += step
        if largest.max() < 1e-9:
            break
    return parameters


def _win_shares(parameters: Floats, n_models: int) -> Floats:
    """Return for each model the mean over the others of the probability to be preferred, plus half of that of a tie.

    Parameters: parameters, shape (d, models + 2), from `_fit`. Returns: shape (d, models).
    """
    strengths, tie = np.exp(parameters[:, :n_models]), np.exp(parameters[:, n_models + 1])
    ties = tie[:, None, None] * np.sqrt(strengths[:, :, None] * strengths[:, None, :])
    total = strengths[:, :, None] + strengths[:, None, :] + ties
    wins = (strengths[:, :, None] + ties / 2) / total
    found: Floats = (wins.sum(axis=2) - wins.diagonal(axis1=1, axis2=2)) / max(n_models - 1, 1)
    return found


# --- verdicts on both orders ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PairVerdicts:
    """The verdicts of one judge on two completions for one instance, shown in both orders."""

    instance: str
    """Id of the instance."""
    cluster: str
    """Independent unit of the instance."""
    first: str
    """One model."""
    second: str
    """The other model."""
    judge: str
    """Name of the judge."""
    forward: int | None
    """Preference with that of `first` on top: -1 for `first`, 1 for `second`, 0 for a tie; None if missing."""
    backward: int | None
    """Preference with that of `second` on top, in the same signs."""
    longer: int = 0
    """-1 if the completion of `first` is longer, 1 if that of `second` is."""
    is_judged: bool = True
    """False if the judge was not asked, because a completion is blank or both are the same."""

    @property
    def preferred(self) -> int | None:
        """Preference in both orders; 0 if they differ, None if a verdict is missing."""
        if self.forward is None or self.backward is None:
            return None
        return self.forward if self.forward == self.backward else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedPair:
    """Two models beside each other, over all judges."""

    first: str
    """The model that is preferred more often."""
    second: str
    """The other one."""
    wins: int
    """Preferences for `first`."""
    ties: int
    """Ties, and verdicts that depend on the order."""
    losses: int
    """Preferences for `second`."""
    share: Estimate
    """Share of the preferences for `first`, half of the ties included, instances with equal weights."""
    p_adjusted: float
    """P-value of the paired test that neither is preferred, adjusted by Holm's method for all pairs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgePosition:
    """Effects of order and length on the verdicts of a judge."""

    judge: str
    """Name of the judge."""
    n: int
    """Pairs with a verdict in both orders."""
    n_missing: int
    """Pairs without one."""
    consistent: Estimate | None
    """Share of the pairs with the same verdict in both orders; None without pairs."""
    top: Estimate | None
    """Share of the verdicts other than ties that prefer the completion on top: 0.5 without position bias. None if all
    are ties."""
    longer: Estimate | None
    """Share of the preferences in both orders that are for the longer completion, which can be better; None without
    any."""


def compared_pairs(verdicts: Sequence[PairVerdicts]) -> tuple[ComparedPair, ...]:
    """Compare every two models on the instances that a judge compared in both orders."""
    models = sorted({model for one in verdicts for model in (one.first, one.second)})
    found = [pair for pair in (_compared(verdicts, *two) for two in combinations(models, 2)) if pair]
    adjusted = holm([pair.p_adjusted for pair in found]) if found else ()
    return tuple(replace(pair, p_adjusted=float(p)) for pair, p in zip(found, adjusted, strict=True))


def _compared(verdicts: Sequence[PairVerdicts], one: str, other: str) -> ComparedPair | None:
    """Compare two models; the p-value is not adjusted yet. None without a preference."""
    signs: dict[tuple[str, str], list[int]] = {}
    for verdict in verdicts:
        if {verdict.first, verdict.second} == {one, other} and verdict.preferred is not None:
            sign = verdict.preferred if verdict.first == one else -verdict.preferred
            signs.setdefault((verdict.instance, verdict.cluster), []).append(sign)
    if not signs:
        return None
    if sum(sum(own) for own in signs.values()) > 0:  # 1 prefers the other one
        one, other = other, one
        signs = {key: [-sign for sign in own] for key, own in signs.items()}
    shares = np.array([0.5 - sum(own) / len(own) / 2 for own in signs.values()])
    tested = paired_difference(shares, 1 - shares, [cluster for _, cluster in signs])
    assert tested is not None, "there are shares"
    every = [sign for own in signs.values() for sign in own]
    return ComparedPair(
        first=one,
        second=other,
        wins=every.count(-1),
        ties=every.count(0),
        losses=every.count(1),
        share=Estimate(
            value=float(shares.mean()),
            low=0.5 + tested.low / 2,
            high=0.5 + tested.high / 2,
            n=tested.n,
            method="paired",
        ),
        p_adjusted=tested.p_value,
    )


def judge_positions(verdicts: Sequence[PairVerdicts]) -> tuple[JudgePosition, ...]:
    """Measure the effects of order and length on each judge; pairs that it was not asked about do not count."""
    by_judge = group_by(verdicts, lambda one: one.judge)
    return tuple(_position(judge, [one for one in own if one.is_judged]) for judge, own in by_judge.items())


def _position(judge: str, own: Sequence[PairVerdicts]) -> JudgePosition:
    both = [one for one in own if one.preferred is not None]
    on_top = [(float(sign == top), one.cluster) for one in own for sign, top in _in_order(one) if sign]
    longer = [(float(one.preferred == one.longer), one.cluster) for one in both if one.preferred and one.longer]
    same = [(float(one.forward == one.backward), one.cluster) for one in both]
    return JudgePosition(
        judge=judge,
        n=len(both),
        n_missing=len(own) - len(both),
        consistent=_share(same),
        top=_share(on_top),
        longer=_share(longer),
    )


def _in_order(one: PairVerdicts) -> Iterator[tuple[int, int]]:
    """Yield each verdict, and the sign of the completion on top."""
    yield one.forward or 0, -1
    yield one.backward or 0, 1


def _share(found: Sequence[tuple[float, str]]) -> Estimate | None:
    """Estimate the share of ones. `found`: values with the cluster of each."""
    if not found:
        return None
    return estimate(np.array([value for value, _ in found]), [cluster for _, cluster in found], low=0.0, high=1.0)
