"""Judgments on one benchmark as arrays, and the scores of judges and juries.

Everywhere here a high grade is a good one: grades on criteria where the lowest is the best are mirrored on the scale,
and of a criterion that costs points it counts as good if it is not met.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.means import (
    DRAWS,
    LARGE,
    Floats,
    bootstrap_statistic,
    cluster_codes,
    constant_interval,
    draw_means,
    percentile_interval,
)
from medhelm.domain import Estimate

Codes = NDArray[np.intp]
"""Array of places in a list of names."""

FEWEST_DRAWS, MOST_DRAWS = 200, 400
"""Bounds of the number of resamples for a coefficient."""

ROWS_DRAWN = 400_000
"""Rows drawn for one coefficient, between these bounds."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JudgedRun:
    """One model's completions on a benchmark with their judgments, as stored."""

    model: str
    """Name of the model."""
    instances: Sequence[str]
    """Ids of its n instances."""
    clusters: Sequence[str]
    """Name of the cluster of each, "" for none."""
    lengths: Floats
    """Shape (n,): length of each completion in characters; nan if missing."""
    default_scores: Floats
    """Shape (n,): the jury's score of a completion that no judge was shown, such as a blank one; nan elsewhere."""
    judged_instances: Sequence[str]
    """For each of m judgments the id of its instance."""
    judges: Sequence[str]
    """Names of the judges of the m judgments."""
    criteria: Sequence[str]
    """Names of the criteria of the m judgments."""
    grades: Floats
    """Shape (m,): grade as given, or 1 and 0 for met and not met; nan for a failed judgment."""
    points: Floats | None = None
    """Shape (m,): points for meeting the criterion, negative for a harm; None for a rubric of grades."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JudgmentCells:
    """Every judgment on one benchmark: m of them, of J judges on M models' completions of n instances."""

    judges: tuple[str, ...]
    """Names of the judges."""
    criteria: tuple[str, ...]
    """Names of the criteria."""
    models: tuple[str, ...]
    """Names of the models."""
    instances: tuple[str, ...]
    """Ids of the instances."""
    judge: Codes
    """Shape (m,): index of the judge."""
    criterion: Codes
    """Shape (m,): index of the criterion."""
    model: Codes
    """Shape (m,): index of the model."""
    instance: Codes
    """Shape (m,): index of the instance."""
    grades: Floats
    """Shape (m,): grade from `low` to `high`, high is good; nan for a failed judgment."""
    points: Floats | None
    """Shape (m,): points for meeting the criterion; None for a rubric of grades."""
    clusters: Codes
    """Shape (n,): number of each instance's cluster."""
    lengths: Floats
    """Shape (M, n): characters of each completion; nan if missing."""
    default_scores: Floats
    """Shape (M, n): score of a completion that no judge was shown; nan elsewhere."""
    low: float
    """The worst grade."""
    high: float
    """The best grade."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Numbers of judges, models and instances."""
        return len(self.judges), *self.lengths.shape


def collect_judgments(
    runs: Sequence[JudgedRun], *, low: float, high: float, mirrored: Collection[str] = ()
) -> JudgmentCells:
    """Combine the judgments of several models on one benchmark, instances matched by their ids.

    Parameters: runs, one per model; mirrored, names of the criteria whose lowest grade is the best.
    """
    instances = sorted({name for run in runs for name in run.instances})
    place = {name: i for i, name in enumerate(instances)}
    lengths, default_scores = np.full((2, len(runs), len(instances)), np.nan)
    names = np.full(len(instances), "", dtype=object)
    for row, run in enumerate(runs):
        at = _codes(run.instances, place)
        lengths[row, at], default_scores[row, at], names[at] = run.lengths, run.default_scores, run.clusters
    judges = list(dict.fromkeys(name for run in runs for name in run.judges))
    criteria = list(dict.fromkeys(name for run in runs for name in run.criteria))
    judge_place, criterion_place = ({name: i for i, name in enumerate(names_)} for names_ in (judges, criteria))
    criterion = np.concatenate([_codes(run.criteria, criterion_place) for run in runs])
    known = [run.points for run in runs if run.points is not None]
    points = np.concatenate(known) if len(known) == len(runs) else None
    turned = np.isin(criterion, [criterion_place[name] for name in criteria if name in mirrored])
    if points is not None:
        turned |= points < 0
    grades = np.concatenate([run.grades for run in runs])
    return JudgmentCells(
        judges=tuple(judges),
        criteria=tuple(criteria),
        models=tuple(run.model for run in runs),
        instances=tuple(instances),
        judge=np.concatenate([_codes(run.judges, judge_place) for run in runs]),
        criterion=criterion,
        model=np.repeat(np.arange(len(runs)), [len(run.judged_instances) for run in runs]),
        instance=np.concatenate([_codes(run.judged_instances, place) for run in runs]),
        grades=np.where(turned, low + high - grades, grades),
        points=points,
        clusters=cluster_codes(names.astype(np.str_), len(instances))[0],
        lengths=lengths,
        default_scores=default_scores,
        low=low,
        high=high,
    )


def _codes(names: Sequence[str], place: Mapping[str, int]) -> Codes:
    """Return the place of each name."""
    return np.fromiter((place[name] for name in names), dtype=np.intp, count=len(names))


# --- scores -----------------------------------------------------------------------------------------------------------


def judge_scores(cells: JudgmentCells) -> Floats:
    """Return the score of each completion by each judge alone: shape (J, M, n), nan where a judgment is missing.

    Grades: the mean over criteria. Points: the points earned over those that can be earned, below 0 if harms outweigh.
    """
    shape = cells.shape
    size = int(np.prod(shape))
    key = np.ravel_multi_index((cells.judge, cells.model, cells.instance), shape)
    failed = np.isnan(cells.grades)
    complete = (np.bincount(key, minlength=size) > 0) & (np.bincount(key, failed, size) == 0)
    grades = np.where(failed, 0.0, cells.grades)
    if cells.points is None:
        above, below = np.bincount(key, grades, size), np.bincount(key, minlength=size).astype(float)
    else:
        # Of a harm, the grade is 1 if it is absent.
        earned = np.where(cells.points < 0, cells.points * (1 - grades), cells.points * grades)
        above, below = np.bincount(key, earned, size), np.bincount(key, np.maximum(cells.points, 0), size)
    usable = complete & (below > 0)
    scores: Floats = np.divide(above, below, out=np.full(size, np.nan), where=usable)
    return scores.reshape(shape)


def panel_scores(scores: Floats, default_scores: Floats, panel: Sequence[int], at_least: int) -> Floats:
    """Return the score of each completion by some of the judges together: shape (M, n).

    The mean over those with a score, if they are at least so many, or all of a smaller panel; where a score is given,
    that one.

    Parameters: scores, shape (J, M, n), from `judge_scores`; given, shape (M, n), nan where judges decide; panel,
    places of the judges.
    """
    own = scores[list(panel)]
    there = (~np.isnan(own)).sum(axis=0)
    enough = there >= max(1, min(at_least, len(panel)))
    total = np.where(np.isnan(own), 0.0, own).sum(axis=0)
    joint = np.divide(total, there, out=np.full(total.shape, np.nan), where=enough)
    return np.where(np.isnan(default_scores), joint, default_scores)


def difference_from_others(values: Floats, counts: NDArray[np.bool_] | None = None) -> Floats:
    """Return the difference of each judge's value from the mean of the other judges' values.

    Parameters: values, judges along the first axis; counts, shape (J,), judges that count as others, None for all.
    Returns: the same shape; nan where the judge has none or is alone.
    """
    there = ~np.isnan(values)
    if counts is not None:
        there[~counts] = False
    others = there.sum(axis=0) - there
    total = np.where(there, values, 0.0)
    rest: Floats = np.divide(total.sum(axis=0) - total, others, out=np.full(values.shape, np.nan), where=others > 0)
    return values - rest


def grades_by_judge(cells: JudgmentCells, criterion: int | None = None) -> tuple[Floats, Codes]:
    """Return grades with one row for each judge, and one column for each completion and criterion.

    Parameters: criterion, place of the only one that is looked at; None: all.
    Returns: grades, shape (J, s), nan if missing, and the instance of each column, shape (s,).
    """
    wanted = np.ones(len(cells.grades), dtype=bool) if criterion is None else cells.criterion == criterion
    _, models, instances = cells.shape
    shape = (max(len(cells.criteria), 1), models, instances)
    key = np.ravel_multi_index((cells.criterion[wanted], cells.model[wanted], cells.instance[wanted]), shape)
    subjects, column = np.unique(key, return_inverse=True)
    values = np.full((len(cells.judges), len(subjects)), np.nan)
    values[cells.judge[wanted], column] = cells.grades[wanted]
    return values, subjects % instances


def shared_judges(cells: JudgmentCells) -> list[str]:
    """Return the judges who judged every model with judgments."""
    judges, models, _ = cells.shape
    sat = np.zeros((judges, models), dtype=bool)
    sat[cells.judge, cells.model] = True
    judged = sat.any(axis=0)
    return [judge for judge, own in zip(cells.judges, sat, strict=True) if own[judged].all()]


def is_judged(cells: JudgmentCells) -> np.ndarray:
    """Return which completions were shown to judges: shape (M, n)."""
    found = np.zeros(cells.lengths.shape, dtype=bool)
    found[cells.model, cells.instance] = True
    return found


# --- numbers with intervals -------------------------------------------------------------------------------------------


def ratio_estimate(
    above: Floats, below: Floats, codes: Codes, rng: np.random.Generator, *, span: float = math.inf, n: int
) -> Estimate | None:
    """Estimate a ratio of sums with its 95% interval: cluster bootstrap with the tails of Student's t.

    Parameters: above and below, shape (s,), what each observation adds to numerator and denominator, nothing negative
    below; codes, shape (s,), cluster of each; span, greatest distance from 0 the ratio can have, which bounds the
    interval, and is all that is known from a single cluster; n, observations to report.
    Returns: None if there is nothing below.
    """
    _, own = np.unique(codes, return_inverse=True)
    totals = np.stack([np.bincount(own, weights) for weights in (above, below)]).astype(float)
    sums, counts = totals[:, totals[1] > 0]
    k = len(counts)
    if k == 0:
        return None
    value = float(sums.sum() / counts.sum())
    clustered = "-clustered" if k < len(above) else ""
    if k == 1:
        low, high, method = -span, span, "single"
    elif np.allclose(sums, value * counts, rtol=0, atol=1e-12 * max(1.0, abs(value)) * counts.max()):
        low, high = constant_interval(value, k, -span, span) if math.isfinite(span) else (value, value)
        method = "constant"
    else:
        drawn = draw_means(sums[:, None], counts[:, None], rng, DRAWS)[:, 0]
        low, high = percentile_interval(drawn, k)
        method = ("normal" if k > LARGE else f"bootstrap-{DRAWS}") + clustered
    return Estimate(value=value, low=max(min(low, value), -span), high=min(max(high, value), span), n=n, method=method)


def bootstrap_estimate(
    statistic: Callable[[Floats], Floats], codes: Codes, rng: np.random.Generator
) -> Estimate | None:
    """Estimate any statistic of observations with its 95% interval, by cluster bootstrap (`bootstrap_statistic`).

    The more observations the fewer draws, from `MOST_DRAWS` down to `FEWEST_DRAWS`: coefficients of many take long.

    Parameters: statistic, from how often each resample drew each observation; codes, cluster of each observation.
    Returns: None where the statistic is undefined; infinite ends where there is no interval.
    """
    n = len(codes)
    draws = min(max(ROWS_DRAWN // max(n, 1), FEWEST_DRAWS), MOST_DRAWS)
    found = bootstrap_statistic(n, statistic, rng, draws, clusters=codes)
    if found.value is None:
        return None
    if found.low is None or found.high is None:
        return Estimate(value=found.value, low=-math.inf, high=math.inf, n=n, method=found.reason)
    method = f"bootstrap-{draws}{'-clustered' if len(np.unique(codes)) < n else ''}"
    return Estimate(value=found.value, low=found.low, high=found.high, n=n, method=method)


def average_estimates(estimates: Sequence[Estimate | None]) -> Estimate | None:
    """Average independent estimates, all of the same weight; None is left out.

    The interval follows from the limits of theirs, whose distances add up as squares (method of variance estimates
    recovery, Zou and Donner 2008, Stat. Med. 27). Returns: None if there are none; one alone as it is.
    """
    there = [estimate for estimate in estimates if estimate is not None]
    if len(there) < 2:
        return there[0] if there else None
    value = math.fsum(e.value for e in there) / len(there)
    below = math.sqrt(math.fsum((e.value - e.low) ** 2 for e in there)) / len(there)
    above = math.sqrt(math.fsum((e.high - e.value) ** 2 for e in there)) / len(there)
    return Estimate(
        value=value,
        low=value - below,
        high=value + above,
        n=sum(e.n for e in there),
        n_failed=sum(e.n_failed for e in there),
        method=f"mean of {len(there)}",
    )
