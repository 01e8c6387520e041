"""Arrays of win rates, with and without missing values counted as losses, their spread, ranks and groups of ties.

`values` has one row per model and one column per benchmark: normalized so that 1 is best, nan where a model has none.
`weights` has one number above 0 per benchmark, how much it counts. Two values are equal when they agree to twelve
decimals, so that the order of a sum cannot make a winner.

A win rate compares a model only with rivals that have a value too. Ranks go by the guarded win rate, in which a missing
value is below every other value and ties with another missing one. So a model never gains by leaving out a benchmark,
neither against all rivals nor, where every instance has a score, against one rival.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.statistics.cluster_bootstrap import Floats

DECIMALS = 12
"""Decimals to which two means are compared."""

BLOCK = 100_000
"""Most scores sorted at once: they stay in the processor's cache."""


def win_shares(scores: Floats, panel: NDArray[np.bool_] | None = None) -> Floats:
    """Return the share of rivals that each model beats, column by column; a tie counts one half.

    A column is an instance, or a benchmark with its means: then these are win rates.

    Parameters: scores, shape (n_models, n), nan if missing; panel, shape (n_models,), the models to be beaten; None:
    all. Where a panel is given, a member's own score counts as one more tie: all models meet the same panel.
    Returns: shape (n_models, n); nan where a model has no score, or meets no model that has one.
    """
    members = np.ones(len(scores)) if panel is None else panel.astype(float)
    own_ties = 1.0 if panel is None else 0.0
    if ((scores == 0) | (scores == 1) | np.isnan(scores)).all():
        return _binary_win_shares(scores, members, own_ties)
    shares = np.empty_like(scores)
    block = max(1, BLOCK // max(len(scores), 1))
    for start in range(0, scores.shape[1], block):
        some = np.s_[:, start : start + block]
        shares[some] = _sorted_win_shares(np.ascontiguousarray(scores[some].T), members, own_ties).T
    return shares


def _binary_win_shares(scores: Floats, members: Floats, own_ties: float) -> Floats:
    """Compute win shares of 0/1 scores: in each column there is one for each score."""
    is_right = scores == 1
    right, met = members @ is_right, members @ ~np.isnan(scores)
    wrong, rivals = met - right, met - own_ties
    with np.errstate(invalid="ignore", divide="ignore"):
        of_right = np.where(rivals > 0, (wrong + (right - own_ties) / 2) / rivals, np.nan)
        of_wrong = np.where(rivals > 0, (wrong - own_ties) / 2 / rivals, np.nan)
    return np.where(is_right, of_right, np.where(scores == 0, of_wrong, np.nan))


def _sorted_win_shares(scores: Floats, members: Floats, own_ties: float) -> Floats:
    """Compute win shares of any scores: shape (n, n_models), one row per column of `win_shares`.

    Parameters: members, shape (n_models,), 1 for a model to be beaten; own_ties, number of ties that are a model's own.
    """
    order = np.argsort(scores, axis=1)
    ranked = np.round(np.take_along_axis(scores, order, axis=1), DECIMALS)  # missing ones last
    there = members[order] * ~np.isnan(ranked)
    starts = np.ones(ranked.shape, dtype=np.bool_)
    starts[:, 1:] = ranked[:, 1:] != ranked[:, :-1]
    group = np.cumsum(starts.ravel()) - 1
    equal = np.bincount(group, weights=there.ravel())
    before = np.cumsum(there, axis=1) - there
    below = before.ravel()[np.flatnonzero(starts.ravel())][group].reshape(scores.shape)
    met = there.sum(axis=1, keepdims=True) - own_ties
    ties = equal[group].reshape(scores.shape) - own_ties
    with np.errstate(invalid="ignore", divide="ignore"):
        won = np.where(np.isnan(ranked) | (met <= 0), np.nan, (below + ties / 2) / met)
    shares = np.empty_like(scores)
    np.put_along_axis(shares, order, won, axis=1)
    return shares


def ratio_win_shares(values: Floats, panel: NDArray[np.bool_] | None = None) -> Floats:
    """Compute win shares on a benchmark whose number is a ratio, such as balanced accuracy: 1/2 plus half the lead.

    A single instance has no score there that could be better or worse than another model's. The mean over instances is
    one half plus half the lead over the mean of the rivals, as it is for right-or-wrong answers.

    Parameters: values, shape (n_models, n), normalized, with the ratios as their means, nan if missing; panel and
    returns, as of `win_shares`.
    """
    present = ~np.isnan(values)
    filled = np.nan_to_num(values)
    members = np.ones(len(values)) if panel is None else panel.astype(float)
    total, met = members @ filled, members @ present
    if panel is None:
        total, met = total - filled, met - present
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(present & (met > 0), 0.5 + (values - total / met) / 2, np.nan)


def guarded_win_shares(shares: Floats, values: Floats) -> Floats:
    """Return win shares among all rivals, a missing value being below all others and equal to another missing one.

    Parameters: shares, shape (n_models, n_benchmarks), against the rivals that have a value; values, alike, nan if
    missing. Returns: the same shape; nan for benchmarks without any value, and throughout if there is a single model.
    """
    n = len(values)
    if n == 1:
        return np.full(values.shape, np.nan)
    present = ~np.isnan(values)
    rivals = np.maximum(present.sum(axis=0) - 1, 0)
    lacking = n - 1 - rivals
    beaten = np.nan_to_num(shares, nan=0.5) * rivals + lacking  # no instance in common: neither won nor lost
    guarded = np.where(present, beaten, (lacking - 1) / 2) / (n - 1)
    return np.where(has_any_value(values), guarded, np.nan)


def has_any_value(values: Floats) -> NDArray[np.bool_]:
    """Return which columns hold any value: shape (n_benchmarks,)."""
    return np.asarray(~np.isnan(values).all(axis=0))


def win_rate_sd(values: Floats, weights: Floats | None = None, panel: NDArray[np.bool_] | None = None) -> Floats:
    """Return the population SD, over rivals, of the share of benchmarks that a model wins strictly.

    Parameters: values, shape (n_models, n_benchmarks). Only benchmarks that both have count, each by its weight; panel,
    shape (n_models,), the rivals; None: all.
    Returns: shape (n_models,); nan for a model that shares no benchmark with any rival.
    """
    rounded = np.round(values, DECIMALS)
    present = ~np.isnan(rounded)
    weights = np.ones(values.shape[1]) if weights is None else weights
    spread = np.full(len(values), np.nan)
    for i in range(len(values)):
        shared = (present[i] & present) @ weights
        won = (rounded[i] > rounded) @ weights
        rivals = (shared > 0) if panel is None else (shared > 0) & panel
        rivals[i] = False
        if rivals.any():
            spread[i] = (won[rivals] / shared[rivals]).std()
    return spread


def weighted_sd(values: Floats, weights: Floats) -> float | None:
    """Return the sample SD of weighted values: sum of w (v - m)^2 over W - (sum of w^2) / W, W being the sum of w.

    For equal weights, of whatever size, it is the SD with divisor n - 1: a weight says how much a benchmark counts, and
    does not turn one benchmark into two.
    Parameters: values, shape (n,), without nan. Returns: None for fewer than two.
    """
    if len(values) < 2:
        return None
    total = weights.sum()
    mean = values @ weights / total
    return float(np.sqrt(weights @ (values - mean) ** 2 / (total - weights @ weights / total)))


def competition_ranks(keys: Sequence[object]) -> list[int]:
    """Return the ranks of sorted entries, best first: equal keys share a rank, the next rank is skipped.

    >>> competition_ranks(["a", "b", "b", "c"])
    [1, 2, 2, 4]
    """
    result: list[int] = []
    for place, key in enumerate(keys):
        result.append(result[-1] if place and key == keys[place - 1] else place + 1)
    return result


def tie_groups(apart: NDArray[np.bool_]) -> list[int]:
    """Return groups of models that cannot be separated from the best of the group, numbered from 1.

    Parameters: apart, shape (n_models, n_models), in the order of the ranking.
    """
    groups: list[int] = []
    best = 0
    for i in range(len(apart)):
        if i and apart[best, i]:
            best = i
            groups.append(groups[-1] + 1)
        else:
            groups.append(groups[-1] if groups else 1)
    return groups
