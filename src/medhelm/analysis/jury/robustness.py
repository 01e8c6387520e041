"""Reactions of judges to changes that say nothing new: shifted grades, reordered models, and their own repeats.

A changed judgment is paired with the plain one of the same judge on the same completion, so that the quality of the
completion cancels. Instances of a cluster are drawn together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.comparison.paired_differences import paired_difference
from medhelm.analysis.comparison.significance import LEVEL, holm
from medhelm.analysis.jury.cells import (
    ALL_JUDGES,
    Codes,
    JudgmentCells,
    judge_scores,
    panel_scores,
)
from medhelm.analysis.jury.judges import JudgeAgreement, LengthBias, agreement_on, length_bias
from medhelm.analysis.leaderboard.cells import DECIMALS
from medhelm.analysis.means import DRAWS, Floats, estimate, resampling_weights
from medhelm.domain import Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeShift:
    """Difference between a judge's grades of changed completions and of the same ones as they are."""

    change: str
    """Name of the change."""
    judge: str
    """Name of the judge."""
    shift: Estimate | None = None
    """Mean of changed minus plain grade, in grades, high being good; None without a completion graded both times."""
    p_adjusted: float | None = None
    """P-value of the paired test, adjusted by Holm's method for all judges and changes of the benchmark."""
    moved: Estimate | None = None
    """Share of these completions with another score, 0..1."""
    by_criterion: Mapping[str, Estimate] = field(default_factory=dict)
    """Criterion -> mean shift of its grade; empty where instances have criteria of their own."""

    @property
    def is_significant(self) -> bool:
        """True if the grades shift significantly."""
        return self.p_adjusted is not None and self.p_adjusted <= LEVEL


@dataclass(frozen=True, slots=True, kw_only=True)
class PairStability:
    """Order of two models before and after a change."""

    better: str
    """The one that ranks first by the plain grades."""
    worse: str
    """The other."""
    is_kept: bool
    """True if the changed grades rank it first, too."""
    share: float
    """Share of the bootstrap draws in which plain and changed grades put the two in the same order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankStability:
    """Order of the models by plain and by changed grades."""

    change: str
    """Name of the change."""
    judge: str
    """Name of the judge, or `all judges`."""
    pairs: tuple[PairStability, ...]
    """Every pair of models whose plain means differ."""

    @property
    def n_kept(self) -> int:
        """Number of pairs in the same order."""
        return sum(pair.is_kept for pair in self.pairs)

    @property
    def least(self) -> PairStability | None:
        """The pair whose order is least certain to stay; None without pairs."""
        return min(self.pairs, key=lambda pair: pair.share, default=None)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JudgeRobustness:
    """Reactions of the judges of one benchmark to changes that say nothing new."""

    benchmark: str
    """Id of the benchmark."""
    title: str
    """Its name for people."""
    low: float
    """The worst grade."""
    high: float
    """The best grade."""
    shifts: tuple[JudgeShift, ...]
    """Each judge under each change; none under a change that leaves all completions as they are."""
    ranks: tuple[RankStability, ...]
    """Order of the models under each change: by all judges, and by each."""
    repeats: tuple[JudgeAgreement, ...]
    """Agreement of each judge with itself when it gets the same prompts again; `on` is its name."""
    lengths: Mapping[str, LengthBias]
    """Judge -> association of its plain grades with the length of the completion."""
    models: tuple[str, ...]
    """Models whose completions were graded."""
    judges: tuple[str, ...]
    """Judges of the plain completions."""


@dataclass(frozen=True, slots=True, eq=False)
class ChangedJudgments:
    """The judgments of one benchmark under a change."""

    change: str
    """Name of the change."""
    cells: JudgmentCells
    """The judgments."""
    changes_completions: bool
    """True if only completions whose length differs were changed."""


def judge_robustness(
    benchmark: str,
    title: str,
    plain: JudgmentCells,
    changed: Sequence[ChangedJudgments],
    repeats: Sequence[JudgmentCells],
    *,
    at_least: int,
    rng: np.random.Generator,
) -> JudgeRobustness:
    """Compare plain judgments with those under each change, and with repeats of the same prompts.

    Parameters: at_least, judges that a completion needs to have a score.
    """
    pairs = [(one, before, after) for one in changed for before, after in [_aligned(plain, one.cells)]]
    pairs = [(one, before, after) for one, before, after in pairs if _is_changed(one, before, after).any()]
    shifts = [shift for one, before, after in pairs for shift in _shifts(one, before, after)]
    tested = [place for place, one in enumerate(shifts) if one.p_adjusted is not None]
    for place, p in zip(tested, holm([shifts[place].p_adjusted or 0.0 for place in tested]), strict=True):
        shifts[place] = replace(shifts[place], p_adjusted=float(p))
    scores = judge_scores(plain)
    lengths = {
        judge: found
        for judge, own in zip(plain.judges, scores, strict=True)
        if (found := length_bias(own, plain.lengths, plain.clusters, rng))
    }
    return JudgeRobustness(
        benchmark=benchmark,
        title=title,
        low=plain.low,
        high=plain.high,
        shifts=tuple(shifts),
        ranks=tuple(rank for one, before, after in pairs for rank in _ranks(one.change, before, after, at_least, rng)),
        repeats=tuple(_repeats(plain, repeats, rng)),
        lengths=lengths,
        models=plain.models,
        judges=plain.judges,
    )


class _Aligned:
    """Judgments on the judges, models and instances that they share with others, in their order."""

    def __init__(self, cells: JudgmentCells, judges: list[str], models: list[str], instances: list[str]) -> None:
        """Select the scores of these judges on these completions; all of them are in `cells`."""
        self.cells, self.judges, self.models = cells, judges, models
        names = ((cells.judges, judges), (cells.models, models), (cells.instances, instances))
        first, *rest = (_places(known, wanted) for known, wanted in names)
        self.clusters = cells.clusters[rest[1]]
        self.lengths, self.defaults = (table[np.ix_(*rest)] for table in (cells.lengths, cells.default_scores))
        self.scores = judge_scores(cells)[np.ix_(first, *rest)]
        """Shape (J, M, n)."""
        self._rest = rest

    def grades(self, judge: str, criterion: str) -> Floats:
        """Return the grades of a judge on one criterion: shape (M, n)."""
        cells = self.cells
        own = (cells.judge == cells.judges.index(judge)) & (cells.criterion == cells.criteria.index(criterion))
        table = np.full(cells.lengths.shape, np.nan)
        table[cells.model[own], cells.instance[own]] = cells.grades[own]
        return table[np.ix_(*self._rest)]


def _places(known: Sequence[str], wanted: Sequence[str]) -> Codes:
    place = {name: i for i, name in enumerate(known)}
    return np.array([place[name] for name in wanted], dtype=np.intp)


def _aligned(first: JudgmentCells, second: JudgmentCells) -> tuple[_Aligned, _Aligned]:
    """Return both on the judges, models and instances that both have."""
    shared = []
    for one, other in (
        (first.judges, second.judges),
        (first.models, second.models),
        (first.instances, second.instances),
    ):
        names = set(other)
        shared.append([name for name in one if name in names])
    return _Aligned(first, *shared), _Aligned(second, *shared)


# --- shifts -----------------------------------------------------------------------------------------------------------


def _is_changed(one: ChangedJudgments, before: _Aligned, after: _Aligned) -> NDArray[np.bool_]:
    """Return which completions judges saw in changed form: shape (M, n)."""
    differs = before.lengths != after.lengths
    return differs if one.changes_completions else np.ones_like(differs)


def _shifts(one: ChangedJudgments, before: _Aligned, after: _Aligned) -> Iterator[JudgeShift]:
    """Yield the shift of each judge; its p-value is not adjusted yet."""
    is_changed = _is_changed(one, before, after)
    clusters = np.broadcast_to(before.clusters, is_changed.shape)[is_changed]
    scale = one.cells.low, one.cells.high

    def compare(plain: Floats, changed: Floats) -> tuple[Estimate, float] | None:
        return _paired_shift(plain[is_changed], changed[is_changed], clusters, scale)

    for place, judge in enumerate(before.judges):
        plain, changed = before.scores[place], after.scores[place]
        found = compare(plain, changed)
        if found is None:
            yield JudgeShift(change=one.change, judge=judge)
            continue
        apart = np.abs(changed - plain)[is_changed]
        criteria = [name for name in before.cells.criteria if name in after.cells.criteria]
        by_criterion = {
            name: mean[0]
            for name in (criteria if before.cells.points is None else ())
            if (mean := compare(before.grades(judge, name), after.grades(judge, name)))
        }
        yield JudgeShift(
            change=one.change,
            judge=judge,
            shift=found[0],
            p_adjusted=found[1],
            moved=estimate(np.where(np.isnan(apart), np.nan, apart > 10.0**-DECIMALS), clusters, low=0.0, high=1.0),
            by_criterion=by_criterion,
        )


def _paired_shift(
    plain: Floats, changed: Floats, clusters: Codes, scale: tuple[float, float]
) -> tuple[Estimate, float] | None:
    """Return the mean of changed minus plain grades, and its p-value; None without a completion that has both."""
    low, span = scale[0], scale[1] - scale[0]
    found = paired_difference((changed - low) / span, (plain - low) / span, clusters) if len(plain) else None
    if found is None:
        return None
    value, least, most = (end * span for end in (found.value, found.low, found.high))
    mean = Estimate(value=value, low=least, high=most, n=found.n, n_failed=found.n_left_out, method="paired")
    return mean, found.p_value


# --- order of the models ----------------------------------------------------------------------------------------------


def _ranks(
    change: str, before: _Aligned, after: _Aligned, at_least: int, rng: np.random.Generator
) -> Iterator[RankStability]:
    """Yield the order of the models by all judges, and by each of several."""
    everyone = range(len(before.judges))
    panels = {ALL_JUDGES: list(everyone)}
    panels |= {before.judges[place]: [place] for place in everyone} if len(before.judges) > 1 else {}
    for name, panel in panels.items() if len(before.models) > 1 else ():
        plain, changed = (panel_scores(part.scores, part.defaults, panel, at_least) for part in (before, after))
        both = ~np.isnan(plain) & ~np.isnan(changed)
        sums = np.stack([_by_cluster(np.where(both, table, 0.0), before.clusters) for table in (plain, changed)])
        counts = _by_cluster(both.astype(float), before.clusters)
        yield RankStability(change=change, judge=name, pairs=tuple(_pairs(before.models, sums, counts, rng)))


def _by_cluster(table: Floats, clusters: Codes) -> Floats:
    """Return the sums of a table, shape (M, n), by cluster: shape (M, k)."""
    _, codes = np.unique(clusters, return_inverse=True)
    return np.stack([np.bincount(codes, row) for row in table])


def _pairs(models: Sequence[str], sums: Floats, counts: Floats, rng: np.random.Generator) -> Iterator[PairStability]:
    """Yield the order of every two models whose plain means differ.

    Parameters: sums, shape (2, M, k), plain and changed scores by cluster; counts, shape (M, k).
    """
    weights = np.concatenate([np.ones((1, counts.shape[1])), *resampling_weights(counts.shape[1], DRAWS, rng)])
    drawn = weights @ counts.T
    means = np.round(np.where(drawn > 0, weights @ sums.transpose(0, 2, 1) / np.maximum(drawn, 1), np.nan), DECIMALS)
    for i, j in combinations(range(len(models)), 2):
        order = np.sign(means[:, :, i] - means[:, :, j])
        if np.isnan(order[:, 0]).any() or order[0, 0] == 0:
            continue
        better, worse = (i, j) if order[0, 0] > 0 else (j, i)
        yield PairStability(
            better=models[better],
            worse=models[worse],
            is_kept=bool(order[0, 0] == order[1, 0]),
            share=float((order[0, 1:] == order[1, 1:]).mean()),
        )


# --- repeats ----------------------------------------------------------------------------------------------------------


def _repeats(
    plain: JudgmentCells, repeats: Sequence[JudgmentCells], rng: np.random.Generator
) -> Iterator[JudgeAgreement]:
    """Yield the agreement of each judge with itself, on the scores that it gave each time."""
    for judge in plain.judges:
        again = [cells for cells in repeats if judge in cells.judges]
        if not again:
            continue
        shared = [
            [name for name in getattr(plain, kind) if all(name in set(getattr(cells, kind)) for cells in again)]
            for kind in ("models", "instances")
        ]
        parts = [_Aligned(cells, [judge], *shared) for cells in (plain, *again)]
        values = np.stack([part.scores[0].ravel() for part in parts])
        clusters = np.tile(parts[0].clusters, len(shared[0]))
        yield agreement_on(judge, values, clusters, "interval", "quadratic", rng)
