"""Means and paired differences by criterion of a rubric.

Each criterion of a judged benchmark is treated as a benchmark of its own: its mean has the interval of any mean score,
by cluster, and two models are compared on the instances on which both have a grade. Since a completion's jury score is
the mean of its grades on all criteria, the jury's mean is the mean of the means on the criteria, where those on which
low is good are turned around; a rubric in points has no such rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from medhelm.analysis.comparison.paired_differences import PairedDifference, PairedScores
from medhelm.analysis.comparison.significance import LEVEL, Adjustment, adjust_p_values
from medhelm.analysis.leaderboard.cells import Cell, Column, GradedCriterion, align
from medhelm.analysis.means import estimate
from medhelm.domain import Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class CriterionMean:
    """The mean grade of a model's completions on a criterion."""

    column: Column
    """The benchmark."""
    criterion: GradedCriterion
    """The criterion, or the tag of criteria with points."""
    model: str
    """Name of the model."""
    estimate: Estimate | None
    """Mean grade with its interval, on the scale of the criterion; None without any grade."""
    n_missing: int | None
    """Instances without a grade; None for a tag, which not every instance has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CriterionDifference:
    """Two models on a criterion; the difference is on a scale from 0 (worst) to 1 (best)."""

    column: Column
    """The benchmark."""
    criterion: GradedCriterion
    """The criterion, or the tag of criteria with points."""
    means: tuple[float, float]
    """Means of the first and the second model on its scale, on the instances of both."""
    difference: PairedDifference
    """First minus second."""
    p_adjusted: float
    """P-value adjusted for all criteria of all benchmarks that both models share."""

    @property
    def direction(self) -> int:
        """1 if the first model is significantly better, -1 if the second one is, else 0."""
        return int(np.sign(self.difference.value)) if self.p_adjusted <= LEVEL else 0


def criterion_column(column: Column, criterion: GradedCriterion) -> Column:
    """Return a criterion of a benchmark as a benchmark of its own."""
    return replace(
        column,
        metric=criterion.name,
        metric_title="",
        low=criterion.low,
        high=criterion.high,
        open_below=criterion.is_tag,
        higher_is_better=criterion.higher_is_better,
        constant_baseline=None,
        constant_scores=None,
    )


def criteria_among(cells: Iterable[Cell]) -> list[GradedCriterion]:
    """Return the criteria of some models on a benchmark, in order."""
    return list(dict.fromkeys(criterion for cell in cells for criterion in cell.criteria))


def criterion_means(cell: Cell, column: Column) -> Iterator[CriterionMean]:
    """Yield the mean grade of a model on each criterion of a benchmark."""
    for criterion, values in cell.criteria.items():
        yield CriterionMean(
            column=column,
            criterion=criterion,
            model=cell.model,
            estimate=estimate(
                values, cell.clusters, low=criterion.low, high=criterion.high, open_below=criterion.is_tag
            ),
            n_missing=None if criterion.is_tag else int(np.isnan(values).sum()),
        )


def compare_criteria(
    cells: Iterable[Cell], columns: Sequence[Column], first: str, second: str, adjustment: Adjustment = "holm"
) -> tuple[CriterionDifference, ...]:
    """Compare two models on every criterion that both have, on the instances on which both have a grade.

    P-values are adjusted for all of these criteria together, on all benchmarks.
    """
    by_place = {(cell.benchmark, cell.model): cell for cell in cells}
    found = []
    for column in columns:
        pair = {name: cell for name in (first, second) if (cell := by_place.get((column.benchmark, name)))}
        if len(pair) < 2:
            continue
        for criterion in criteria_among(pair.values()):
            if all(criterion in cell.criteria for cell in pair.values()):
                found += [one] if (one := _compare_on(pair, column, criterion)) else []
    adjusted = adjust_p_values([one.difference.p_value for one in found], adjustment)
    return tuple(replace(one, p_adjusted=float(p)) for one, p in zip(found, adjusted, strict=True))


def _compare_on(pair: Mapping[str, Cell], column: Column, criterion: GradedCriterion) -> CriterionDifference | None:
    """Compare two models on a criterion, before any adjustment; None if they share no instance with a grade."""
    own = {name: replace(cell, scores=cell.criteria[criterion], tested=None, parts=None) for name, cell in pair.items()}
    scale = criterion_column(column, criterion)
    aligned = align(own, scale, list(own))
    difference = PairedScores(aligned.scores, aligned.codes, aligned.k).differences()[0]
    if difference is None:
        return None
    shared = aligned.scores[:, ~np.isnan(aligned.scores).any(axis=0)].mean(axis=1)
    first, second = (share if criterion.higher_is_better else 1 - share for share in shared.tolist())
    span = criterion.high - criterion.low
    return CriterionDifference(
        column=column,
        criterion=criterion,
        means=(criterion.low + span * first, criterion.low + span * second),
        difference=difference,
        p_adjusted=difference.p_value,
    )
