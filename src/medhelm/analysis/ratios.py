"""Linearize and estimate metrics that are not means over instances: precision, balanced accuracy, F1, group means.

All of them have one form. Every instance contributes a numerator and a denominator to some labels; the number is the
mean over labels of the ratios of their sums:

    precision, recall, micro F1   one label for all
    balanced accuracy             a label for each class
    macro F1                      a label for each class, and each instance to several
    means of groups               a label for each group

Linearized values (Woodruff 1971, J. Am. Stat. Assoc. 66) carry such a number through everything that is made for means:
their mean is the number itself, and their spread gives its standard error. They do not show how few instances a label
has: precision of three queries, all of them right, has no spread. So intervals are made label by label, each on its own
instances, and combined (`estimate_ratios`), and two models are compared by other values where possible
(`comparison_values`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.means import (
    BY_CLUSTER,
    FLAT,
    Clusters,
    Floats,
    UnitTotals,
    check_scores,
    cluster_codes,
    effective_units,
    estimate,
    estimate_within,
    ratio_interval,
    t_quantile,
    unit_totals,
)
from medhelm.domain import Estimate, Parts

DIGITS = 12
"""Linearized values are rounded to so many decimals, so that a 1 among them is one."""

MANY = 4
"""Number of labels from which the interval of their mean is at least as wide as Student's, shared units or not."""

LONE_VARIANCE = 2 / 9
"""Variance of a label with one unit, on a scale of length 1: p (1 - p) for p = 2 / 3, one hit of one with a hit and a
miss added (Price and Bonett 2004, Comput. Stat. Data Anal. 45)."""


class _Entries(NamedTuple):
    """The parts of all scored instances, one row for each label of an instance; each array has shape (m,)."""

    rows: NDArray[np.intp]
    """Place of the instance among those scored."""
    labels: NDArray[np.intp]
    """Number of the label."""
    above: Floats
    """Numerators."""
    below: Floats
    """Denominators."""
    n_labels: int
    """Number of labels."""


def _entries(scored: NDArray[np.intp], parts: Sequence[Parts]) -> _Entries:
    """Collect the parts of the scored instances, whose places are given."""
    labels: dict[str, int] = {}
    found = [
        (row, labels.setdefault(label, len(labels)), *pair)
        for row, i in enumerate(scored.tolist())
        for label, pair in parts[i].items()
    ]
    rows, columns, above, below = np.array(found, dtype=float).reshape(-1, 4).T
    return _Entries(rows.astype(np.intp), columns.astype(np.intp), above, below, len(labels))


def linearized(values: Floats, parts: Sequence[Parts] | None) -> Floats:
    """Return values whose mean is the number that `parts` make.

    Parameters: values, shape (n,), each instance's own score, nan for a failure; parts, n of them, those of failures
    not looked at; None if the number is the mean of the scores, which then are returned as they are.
    Returns: shape (n,), nan for failures; all nan if no label has a denominator, for then there is no number.

    >>> float(linearized(np.array([1.0, 0.0, 1.0]), [{"a": (1, 1)}, {"a": (0, 1)}, {"b": (1, 1)}]).mean())
    0.75
    """
    if parts is None:
        return values
    scored = np.flatnonzero(~np.isnan(values))
    rows, columns, numerators, denominators, n_labels = _entries(scored, parts)
    above = np.bincount(columns, numerators, n_labels)
    below = np.bincount(columns, denominators, n_labels)
    defined = below > 0
    result = np.full(len(values), np.nan)
    if not defined.any():
        return result
    ratios = np.divide(above, below, out=np.zeros(n_labels), where=defined)
    weights = np.divide(len(scored), below * defined.sum(), out=np.zeros(n_labels), where=defined)
    shares = (numerators - ratios[columns] * denominators) * weights[columns]
    spread = np.bincount(rows, shares, len(scored))
    result[scored] = np.round(ratios[defined].mean() + spread, DIGITS)
    return result


def comparison_values(values: Floats, parts: Sequence[Parts]) -> Floats:
    """Return values whose mean is the number that `parts` make, and whose differences between models can be tested.

    Where every instance counts once, in one label, as in balanced accuracy and means of groups, these are the scores,
    weighted so that labels count alike: an instance on which two models score the same has no difference. Linearized
    values would have one, and of a label with few instances they hide the spread. Other numbers are linearized.

    Parameters and returns: as of `linearized`.

    >>> balanced = [{"sick": (1.0, 1.0)}, {"well": (1.0, 1.0)}, {"well": (0.0, 1.0)}, {"well": (1.0, 1.0)}]
    >>> comparison_values(np.array([1.0, 1.0, 0.0, 1.0]), balanced).round(2).tolist()
    [2.0, 0.67, 0.0, 0.67]
    """
    scored = np.flatnonzero(~np.isnan(values))
    rows, labels, numerators, denominators, n_labels = _entries(scored, parts)
    if len(rows) != len(scored) or (np.diff(rows) != 1).any() or (denominators != 1).any():
        return linearized(values, parts)
    result = np.full(len(values), np.nan)
    sizes = np.bincount(labels, minlength=n_labels)
    result[scored] = np.round(numerators * len(scored) / (sizes[labels] * n_labels), DIGITS)
    return result


def label_scores(values: Floats, parts: Sequence[Parts]) -> tuple[list[str], Floats] | None:
    """Return the label of each instance and its own score, where each counts once, in one label.

    Parameters: as of `linearized`. Returns: labels, "" where they are not known, and scores, nan for failures; None for
    other numbers, and where all instances have the same label.
    """
    labels = [next(iter(own), "") for own in parts]
    pairs = [own.get(label, (np.nan, 1.0)) for own, label in zip(parts, labels, strict=True)]
    scores = np.where(np.isnan(values), np.nan, [above for above, _ in pairs])
    is_single = all(len(own) <= 1 for own in parts) and all(below == 1 for _, below in pairs)
    is_known = not np.isnan(scores[~np.isnan(values)]).any()
    return (labels, scores) if is_single and is_known and len({*labels} - {""}) > 1 else None


def estimate_ratios(
    values: Floats,
    parts: Sequence[Parts] | None,
    clusters: Clusters = None,
    *,
    low: float,
    high: float,
    open_below: bool = False,
) -> Estimate | None:
    """Estimate the number that `parts` make, with its 95% interval.

    The interval of a single label is that of `means.ratio_interval`, on the label's own instances: Wilson's, if each is
    a hit or a miss. Those of several labels are combined by MOVER (Zou and Donner 2008, Stat. Med. 27), with the
    correlation between labels that share instances or clusters (Zou 2007, Psychol. Methods 12). Where labels share
    some, and from `MANY` labels on, it is at least as wide as Student's: MOVER alone contains the truth in as little as
    80% of simulations with two clusters, with three labels of macro F1, or with many labels of few instances each.
    Labels that balance out in every unit leave no spread: the interval is then that of equal scores, by
    `means.estimate`.

    Parameters: values and parts as of `linearized`; the others as of `means.estimate`, which this is without parts.
    Returns: None when nothing was scored, or no label has a denominator.
    Raises: ValueError if a score is infinite, or the scale has no length.

    >>> queries = [{"": (1.0, 1.0)}] * 3 + [{}] * 497
    >>> precision = estimate_ratios(np.ones(500), queries, low=0, high=1)
    >>> f"{precision.value} {precision.low:.2f} {precision.high} {precision.method}"
    '1.0 0.44 1.0 mover'
    """
    if parts is None:
        return estimate(values, clusters, low=low, high=high, open_below=open_below)
    check_scores(values, low, high)
    number = linearized(values, parts)
    scored = np.flatnonzero(~np.isnan(number))
    if len(scored) == 0:
        return None
    codes = cluster_codes(None if clusters is None else np.asarray(clusters)[scored], len(scored))[0]
    value = float(number[scored].mean())
    labels = _labels(_entries(scored, parts), codes, -math.inf if open_below else low, high)
    limits = labels[0].limits
    if len(labels) > 1:
        below, above = _combined(labels, int(codes.max()) + 1, high - low)
        if max(below, above) <= FLAT * (high - low):  # what one label gains in a unit, another one loses
            return estimate(number, clusters, low=low, high=high, open_below=open_below)
        limits = value - below, value + above
    method = "mover" + (BY_CLUSTER if any(label.is_clustered for label in labels) else "")
    n_failed = len(values) - len(scored)
    value = max(value, low) if open_below else value
    return estimate_within(value, limits, (low, high), n=len(scored), n_failed=n_failed, method=method)


class _Label(NamedTuple):
    """One label with its interval."""

    totals: UnitTotals
    """Its numerators and denominators by unit."""
    units: NDArray[np.intp]
    """Number of each of these units."""
    limits: tuple[float, float]
    """Limits of its ratio, cut to the scale."""
    is_clustered: bool
    """True if some of its instances share a unit."""


def _labels(entries: _Entries, codes: NDArray[np.intp], low: float, high: float) -> list[_Label]:
    """Return every label that has a denominator, with the interval of its ratio."""
    weights = _hit_and_miss(entries) if (low, high) == (0, 1) else None
    order = np.argsort(entries.labels, kind="stable")
    order = order[entries.below[order] > 0]
    ends = np.searchsorted(entries.labels[order], np.arange(1, entries.n_labels))
    found = []
    for own in np.split(order, ends):
        above, below = entries.above[own], entries.below[own]
        if len(own) == 0:
            continue
        units, places = np.unique(codes[entries.rows[own]], return_inverse=True)
        limits, _ = ratio_interval(above, below, places, low=low, high=high, weights=weights)
        limits = max(limits[0], low), min(limits[1], high)
        found.append(_Label(unit_totals(above, below, places), units, limits, len(units) < len(own)))
    return found


def _hit_and_miss(entries: _Entries) -> tuple[float, float] | None:
    """Return the denominators of hits and of misses if every entry is one of the two; see `means.ratio_interval`.

    For accuracies both are 1. For F1 they are 2 and 1: a label that is found and right counts twice.
    """
    used = entries.below > 0
    above, below = entries.above[used], entries.below[used]
    is_hit = above == below
    hits, misses = np.unique(below[is_hit]), np.unique(below[~is_hit])
    if above[~is_hit].any() or len(hits) > 1 or len(misses) > 1:
        return None
    hit = float(hits[0]) if len(hits) else float(misses[0])
    return hit, float(misses[0]) if len(misses) else hit


def _combined(labels: Sequence[_Label], n_units: int, span: float) -> tuple[float, float]:
    """Return the distances of both limits of the mean of several labels from that mean.

    Distances of single labels add up as vectors do whose angles are the correlations of their ratios; a label without
    spread counts as uncorrelated.
    """
    vectors = np.zeros((3, n_units))
    apart = np.zeros(3)
    weights = np.zeros(n_units)
    for label in labels:
        value, k = label.totals.value, len(label.units)
        weights[label.units] += label.totals.below / label.totals.below.sum()
        reach = np.array([value - label.limits[0], label.limits[1] - value, 0.0])
        error = label.totals.standard_error if k > 1 else 0.0
        if error <= FLAT * min(span, abs(value) or 1.0):
            reach[2] = math.sqrt(LONE_VARIANCE) * span if k == 1 else 0.0
            apart += reach**2
        else:
            reach[2] = error
            shares = label.totals.shares()
            vectors[:, label.units] += np.outer(reach, shares / np.linalg.norm(shares))
    below, above, error = np.sqrt((vectors**2).sum(axis=1) + apart) / len(labels)
    share_none = sum(len(label.units) for label in labels) == np.count_nonzero(weights)
    if share_none and len(labels) < MANY:
        return float(below), float(above)
    least = t_quantile(0.975, max(effective_units(weights) - 1, 1.0)) * float(error)
    return max(float(below), least), max(float(above), least)
