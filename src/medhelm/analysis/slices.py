"""Scores by slice: the parts of a benchmark's instances that have the same value in a column of the data.

    interval       of each slice, by the methods of `means` and `ratios`, with instances of a cluster together
    differences    of two models within each slice: paired, with p-values adjusted over slices
    homogeneity    permutation test: if scores do not depend on the slice, its labels can be exchanged. Labels of
                   clusters that lie in one slice are exchanged among these clusters, other labels within their cluster.
                   The statistic weighs squared distances of the means by their precision (Welch 1951, Biometrika 38),
                   which keeps the level where slices differ in size and spread (Chung and Romano 2013, Ann. Stat. 41)
    worst gap      the best slice minus the worst one. Both are chosen after looking, so the gap seen is too large:
                   equal slices have one, too. Its interval comes from simultaneous limits of all differences between
                   slices: with 95% probability they hold all true differences, and then also the largest. The limits
                   of a difference are those of its slices, combined by MOVER with their correlation (Zou 2007, Psychol.
                   Methods 12), times the critical value of the largest difference over that of a single one. It comes
                   from normal means with the covariance of the slices, by cluster, which are what a multiplier
                   bootstrap of clusters draws (Chernozhukov, Chetverikov and Kato 2013, Ann. Stat. 41)

A slice with one independent unit has no interval and is in none of these comparisons. Small slices of data that is not
public can be hidden, with others so that no total gives them away (`slices_to_hide`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.comparison.paired_differences import PairedDifference, PairedScores
from medhelm.analysis.comparison.significance import Adjustment, adjust_p_values, holm
from medhelm.analysis.leaderboard.cells import Cell, Column, align
from medhelm.analysis.means import DRAWS, FLAT, Z95, Floats, cluster_codes
from medhelm.analysis.ratios import comparison_values, estimate_ratios, linearized
from medhelm.domain import Estimate

MOST_SLICES = 100
"""Most slices of a column that are compared."""

LEAST_SHOWN = 10
"""Least units of a slice of data that is not public; smaller ones are hidden."""

ALONE = "one independent unit: no interval"
"""Reason why a slice has no estimate."""

HIDDEN = f"hidden: fewer than {LEAST_SHOWN} cases, or needed to hide such a slice"
"""Reason why a slice of data that is not public is not shown."""

UNSCORED = "no score"
"""Reason why a slice without any score has no estimate."""

SEED = 37
"""Seed of permutations and of the bootstrap."""

USUAL_UNITS = 5
"""Units of usual spread that are added to those of a slice, so that few equal scores do not look certain."""

BLOCK = 2_000_000
"""Most numbers in an array of permutations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceScore:
    """One model on one slice."""

    name: str
    """Name of the slice."""
    n: int | None
    """Instances in it, with and without a score; None if it is hidden."""
    estimate: Estimate | None
    """Its mean in the metric's own unit, or None for a reason."""
    reason: str = ""
    """Reason why there is no estimate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceGap:
    """The best slice minus the worst one, on a scale from 0 (worst) to 1 (best)."""

    value: float
    """The gap seen: larger than the true one on average, because both slices were chosen after looking."""
    low: float
    """Lower end of the 95% interval of the true largest gap; 0 if all slices may be equal."""
    high: float
    """Upper end of the 95% interval."""
    best: str
    """The slice with the best mean."""
    worst: str
    """The slice with the worst mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlicedModel:
    """One model on the slices of a benchmark."""

    model: str
    """Name of the model."""
    overall: Estimate | None
    """Its mean over all instances."""
    scores: tuple[SliceScore, ...]
    """Its slices, in the order of the benchmark's."""
    gap: SliceGap | None
    """Gap between the best and the worst slice; None with fewer than two slices that have an interval."""
    p_equal: float | None
    """P-value of the hypothesis that the score does not depend on the slice; None as for the gap."""
    p_adjusted: float | None = None
    """The same, adjusted by Holm over the models of the benchmark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceDifference:
    """Two models on one slice."""

    name: str
    """Name of the slice."""
    n: int | None
    """Instances in it; None if it is hidden."""
    means: tuple[Estimate | None, Estimate | None]
    """Means of the two models, in the metric's own unit."""
    difference: PairedDifference | None
    """First minus second on the shared instances, on a scale from 0 to 1; None for a reason."""
    p_adjusted: float | None = None
    """Its p-value, adjusted over all slices that are compared."""
    reason: str = ""
    """Reason why there is no difference."""


def slices_to_hide(sizes: Mapping[str, int], least: int = LEAST_SHOWN) -> frozenset[str]:
    """Return the slices to hide: those with fewer than `least` units, and others that keep them secret.

    What is hidden can be computed together, as the total less what is shown. So it must be at least two slices, and at
    least `least` units.

    >>> sorted(slices_to_hide({"a": 50, "b": 4, "c": 20, "d": 30})), sorted(slices_to_hide({"a": 50, "b": 12}))
    (['b', 'c'], [])
    """
    by_size = sorted(sizes, key=lambda name: (sizes[name], name))
    count = sum(n < least for n in sizes.values())
    while 0 < count < len(by_size) and (count < 2 or sum(sizes[name] for name in by_size[:count]) < least):
        count += 1
    return frozenset(by_size[:count])


def units_by_slice(cell: Cell, names: Sequence[str]) -> dict[str, int]:
    """Return the number of independent units in each slice. `names`: the slice of each instance of the cell."""
    codes, _ = cluster_codes(cell.clusters, len(names))
    pairs = set(zip(names, codes.tolist(), strict=True))
    found: dict[str, int] = {}
    for name, _ in pairs:
        found[name] = found.get(name, 0) + 1
    return found


def restricted(cell: Cell, column: Column, places: NDArray[np.intp]) -> Cell:
    """Return the cell of some instances of a cell, which has scores."""
    assert cell.scores is not None, "the caller checks it"
    scores, chosen = cell.scores[places], places.tolist()
    parts = None if cell.parts is None else [cell.parts[i] for i in chosen]
    clusters = None if cell.clusters is None else [cell.clusters[i] for i in chosen]
    found = estimate_ratios(scores, parts, clusters, low=column.low, high=column.high, open_below=column.open_below)
    return replace(
        cell,
        ids=[cell.ids[i] for i in chosen],
        scores=scores if parts is None else linearized(scores, parts),
        parts=parts,
        tested=None if parts is None else comparison_values(scores, parts),
        clusters=clusters,
        estimate=found,
        value=found.value if found else None,
    )


def _slices(
    cell: Cell, column: Column, names: Sequence[str], order: Sequence[str], hidden: frozenset[str]
) -> dict[str, tuple[Cell | None, str]]:
    """Return each slice of a cell, or None and the reason why it has no interval."""
    found: dict[str, tuple[Cell | None, str]] = {}
    labels = np.array(names, dtype=object)
    for name in order:
        places = np.flatnonzero(labels == name)
        own = None if name in hidden or not len(places) else restricted(cell, column, places)
        if own is None:
            found[name] = None, HIDDEN if name in hidden else UNSCORED
            continue
        assert own.scores is not None, "a restricted cell has scores"
        scored = ~np.isnan(own.scores)
        clusters = None if own.clusters is None else np.asarray(own.clusters)[scored]
        units = cluster_codes(clusters, int(scored.sum()))[1]
        found[name] = (own, "") if units > 1 else (None, ALONE if units else UNSCORED)
    return found


def slice_model(
    cell: Cell, column: Column, names: Sequence[str], order: Sequence[str], hidden: frozenset[str] = frozenset()
) -> SlicedModel:
    """Measure a model on slices.

    Parameters: cell, with scores; names, the slice of each instance; order, all slices; hidden, those that must not be
    shown.
    """
    slices = _slices(cell, column, names, order, hidden)
    shown = {name: own for name, (own, _) in slices.items() if own is not None}
    sizes = Counter(names)
    scores = [
        SliceScore(
            name=name,
            n=None if name in hidden else sizes[name],
            estimate=own.estimate if own else None,
            reason=reason,
        )
        for name, (own, reason) in slices.items()
    ]
    assert cell.scores is not None, "the caller checks it"
    return SlicedModel(
        model=cell.model,
        overall=cell.estimate,
        scores=tuple(scores),
        gap=slice_gap(shown, column) if len(shown) > 1 else None,
        p_equal=homogeneity_p(column.normalize(cell.scores), _kept(names, shown), cell.clusters),
    )


def _kept(names: Sequence[str], kept: Mapping[str, object]) -> list[str | None]:
    return [name if name in kept else None for name in names]


def with_adjusted_p(models: Sequence[SlicedModel]) -> list[SlicedModel]:
    """Return the models with p-values of homogeneity that are adjusted by Holm over all of them."""
    known = [one.p_equal for one in models if one.p_equal is not None]
    adjusted = iter(holm(known).tolist())
    return [one if one.p_equal is None else replace(one, p_adjusted=next(adjusted)) for one in models]


def slice_differences(
    first: Cell,
    second: Cell,
    column: Column,
    slices: Mapping[str, str],
    order: Sequence[str],
    hidden: frozenset[str] = frozenset(),
) -> tuple[list[SliceDifference], float | None]:
    """Compare two models within each slice.

    Parameters: slices, instance id -> its slice; the rest as of `slice_model`.
    Returns: the differences, and the p-value of the hypothesis that the difference does not depend on the slice.
    """
    sides = [_slices(cell, column, [slices[one] for one in cell.ids], order, hidden) for cell in (first, second)]
    found = []
    for name in order:
        (a, reason), (b, other) = (side[name] for side in sides)
        both = _paired(a, b, column)[0].differences()[0] if a and b else None
        n = None if name in hidden else sum(slices[one] == name for one in first.ids)
        means = a.estimate if a else None, b.estimate if b else None
        reason = reason or other or ("" if both else "no instance has both scores")
        found.append(SliceDifference(name=name, n=n, means=means, difference=both, reason=reason))
    paired, ids, clusters = _paired(first, second, column)
    shown = {one.name: one for one in found if one.difference}
    return found, homogeneity_p(paired.scores[0] - paired.scores[1], _kept([slices[i] for i in ids], shown), clusters)


def with_adjusted_differences(
    families: Sequence[Sequence[SliceDifference]], way: Adjustment = "holm"
) -> list[tuple[SliceDifference, ...]]:
    """Return the differences on several benchmarks with p-values that are adjusted over all of them."""
    p_values = [one.difference.p_value for own in families for one in own if one.difference]
    adjusted = iter(adjust_p_values(p_values, way).tolist())
    return [
        tuple(replace(one, p_adjusted=next(adjusted)) if one.difference else one for one in own) for own in families
    ]


def _paired(first: Cell, second: Cell, column: Column) -> tuple[PairedScores, list[str], NDArray[np.intp]]:
    """Return the values of two models to compare, the instances in this order, and the number of each one's cluster."""
    aligned = align({"first": first, "second": second}, column, ["first", "second"])
    ids = sorted({*first.ids, *second.ids})
    return PairedScores(aligned.tested, aligned.codes, aligned.k), ids, aligned.codes


# --- test of homogeneity ----------------------------------------------------------------------------------------------


def homogeneity_p(
    values: Floats, names: Sequence[str | None], clusters: object = None, *, draws: int = DRAWS - 1
) -> float | None:
    """Test by permutation whether the mean of some values depends on the slice.

    Parameters: values, shape (n,), nan if missing; names, slice of each instance, None for those left out; clusters, n
    names or numbers, None if all instances are independent.
    Returns: the p-value; None with fewer than two slices.

    >>> homogeneity_p(np.arange(40.0), ["low"] * 20 + ["high"] * 20)
    0.0005
    """
    known = ~np.isnan(values) & np.array([name is not None for name in names], dtype=bool)
    found, labels = np.unique(np.array(names, dtype=object)[known].astype(str), return_inverse=True)
    if len(found) < 2:
        return None
    chosen = None if clusters is None else np.asarray(clusters)[known]
    codes, k = cluster_codes(chosen, int(known.sum()))
    return _LabelPermutation(values[known], labels, codes, k, len(found)).p_value(draws)


class _LabelPermutation:
    """Exchanges of labels that leave the distribution of scores as it is if scores do not depend on labels."""

    def __init__(
        self, values: Floats, labels: NDArray[np.intp], codes: NDArray[np.intp], k: int, n_slices: int
    ) -> None:
        """Divide the clusters into those within one slice and others."""
        self.n_slices = n_slices
        self.deviations = values - values.mean()
        lowest, highest = np.full(k, n_slices), np.full(k, -1)
        np.minimum.at(lowest, codes, labels)
        np.maximum.at(highest, codes, labels)
        is_whole = lowest == highest
        sums, sizes = np.bincount(codes, self.deviations, k)[is_whole], np.bincount(codes, minlength=k)[is_whole]
        self.whole = np.stack([sizes, sums, sums**2, sums * sizes, sizes**2.0, np.ones(len(sizes))])
        self.whole_labels = lowest[is_whole]
        mixed = np.flatnonzero(~is_whole[codes])
        mixed = mixed[np.argsort(codes[mixed], kind="stable")]
        self.mixed, self.mixed_labels = self.deviations[mixed], labels[mixed]
        self.mixed_codes = np.unique(codes[mixed], return_inverse=True)[1]
        self.n_mixed = int(self.mixed_codes.max()) + 1 if len(mixed) else 0
        totals = np.bincount(codes * n_slices + labels, self.deviations, k * n_slices)
        self.one_unit = float(np.mean(totals[np.bincount(codes * n_slices + labels, minlength=k * n_slices) > 0] ** 2))

    def p_value(self, draws: int) -> float:
        """Return the share of permutations whose slices differ as much as those seen, these included."""
        if self.one_unit <= FLAT**2:
            return 1.0
        rng = np.random.default_rng(SEED)
        seen = self._statistics(self.whole_labels[None], self.mixed_labels[None])[0]
        size = max(1, BLOCK // max(len(self.whole_labels) + len(self.mixed) + self.n_mixed * self.n_slices, 1))
        as_large = 0
        for start in range(0, draws, size):
            rows = min(size, draws - start)
            whole = rng.permuted(np.tile(self.whole_labels, (rows, 1)), axis=1)
            order = np.argsort(self.mixed_codes + rng.random((rows, len(self.mixed))), axis=1)
            as_large += int((self._statistics(whole, self.mixed_labels[order]) >= seen * (1 - 1e-9)).sum())
        return (1 + as_large) / (1 + draws)

    def _statistics(self, whole: NDArray[np.intp], mixed: NDArray[np.intp]) -> Floats:
        """Return the statistic of each row of labels, of the whole clusters and of the instances of the others."""
        rows, n_slices = len(whole), self.n_slices
        place = whole + n_slices * np.arange(rows)[:, None]
        sums = [np.bincount(place.ravel(), np.tile(one, rows), rows * n_slices) for one in self.whole]
        n, total, squares, products, sizes, units = (one.reshape(rows, n_slices) for one in sums)
        if self.n_mixed:
            place = (self.mixed_codes + self.n_mixed * np.arange(rows)[:, None]) * n_slices + mixed
            shape = rows, self.n_mixed, n_slices
            counts = np.bincount(place.ravel(), minlength=rows * self.n_mixed * n_slices).reshape(shape)
            own = np.bincount(place.ravel(), np.tile(self.mixed, rows), rows * self.n_mixed * n_slices).reshape(shape)
            n, total, squares = n + counts.sum(axis=1), total + own.sum(axis=1), squares + (own**2).sum(axis=1)
            products, sizes = products + (own * counts).sum(axis=1), sizes + (counts**2).sum(axis=1)
            units = units + (counts > 0).sum(axis=1)
        means = total / n
        residual = squares - 2 * means * products + means**2 * sizes
        spread = (residual + USUAL_UNITS * self.one_unit) / (units + USUAL_UNITS)
        weights = n**2 / (units * spread)
        center = (weights * means).sum(axis=1) / weights.sum(axis=1)
        found: Floats = (weights * (means - center[:, None]) ** 2).sum(axis=1)
        return found


# --- the gap between the best and the worst slice ---------------------------------------------------------------------


def slice_gap(slices: Mapping[str, Cell], column: Column) -> SliceGap:
    """Return the best slice minus the worst one, with its interval.

    Parameters: slices, at least two, each `restricted` to its instances and with an interval.
    """
    cells = list(slices.values())
    ends = [
        sorted(float(column.normalize(end)) for end in (one.estimate.low, one.estimate.high))
        for one in cells
        if one.estimate
    ]
    means = np.array([float(column.normalize(one.estimate.value)) for one in cells if one.estimate])
    below, above = means - np.array([low for low, _ in ends]), np.array([high for _, high in ends]) - means
    shares = _shares(cells, column)
    errors = np.linalg.norm(shares, axis=0)
    flat = errors <= FLAT
    covariance = shares.T @ shares
    correlation = np.divide(
        covariance, np.outer(errors, errors), out=np.zeros_like(covariance), where=~np.logical_or.outer(flat, flat)
    )
    differences = means[:, None] - means
    scale = _critical_ratio(shares)
    reach_low = _combined(below, above, correlation) * scale
    reach_high = _combined(above, below, correlation) * scale
    apart = ~np.eye(len(cells), dtype=bool)
    names = list(slices)
    return SliceGap(
        value=float(means.max() - means.min()),
        low=max(float((differences - reach_low)[apart].max()), 0.0),
        high=min(float((differences + reach_high)[apart].max()), math.inf if column.open_below else 1.0),
        best=names[int(means.argmax())],
        worst=names[int(means.argmin())],
    )


def _shares(cells: Sequence[Cell], column: Column) -> Floats:
    """Return what each cluster contributes to the mean of each slice beyond its share, shape (k, n_slices)."""
    clusters = [cell.clusters if cell.clusters is not None else [""] * len(cell.ids) for cell in cells]
    codes, k = cluster_codes([name for own in clusters for name in own], sum(map(len, clusters)))
    found, start = np.zeros((k, len(cells))), 0
    for place, cell in enumerate(cells):
        assert cell.scores is not None, "a slice has scores"
        values, own = column.normalize(cell.scores), codes[start : start + len(cell.ids)]
        start += len(cell.ids)
        scored = ~np.isnan(values)
        units = len(np.unique(own[scored]))
        deviations = (values[scored] - values[scored].mean()) / scored.sum()
        found[:, place] = np.bincount(own[scored], deviations, k) * np.sqrt(units / (units - 1))
    return found


def _combined(reach: Floats, other: Floats, correlation: Floats) -> Floats:
    """Return the distances of the limits of all differences, rows minus columns, from the difference."""
    squares = reach[:, None] ** 2 + other**2 - 2 * correlation * np.outer(reach, other)
    return np.sqrt(np.maximum(squares, 0.0))


def _critical_ratio(shares: Floats) -> float:
    """Return the 95% critical value of the largest standardized difference, relative to that of a single one."""
    first, second = np.triu_indices(shares.shape[1], 1)
    errors = np.linalg.norm(shares[:, first] - shares[:, second], axis=0)
    first, second, errors = (one[errors > FLAT] for one in (first, second, errors))
    if len(errors) < 2:
        return 1.0
    values, vectors = np.linalg.eigh(shares.T @ shares)
    drawn = np.random.default_rng(SEED).standard_normal((DRAWS, len(values))) * np.sqrt(np.maximum(values, 0.0))
    drawn = drawn @ vectors.T
    largest = np.zeros(DRAWS)
    for a, b, error in zip(first, second, errors, strict=True):
        np.maximum(largest, np.abs(drawn[:, a] - drawn[:, b]) / error, out=largest)
    return max(float(np.quantile(largest, 0.95)) / Z95, 1.0)
