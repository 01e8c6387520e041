"""Judgments on one benchmark as arrays, the scores of judges and juries, and the models ranked by them.

Everywhere here a high grade is a good one: grades on criteria where the lowest is the best are mirrored on the scale,
and of a criterion that costs points it counts as good if it is not met.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.agreement.reliability import RaterAgreement
from medhelm.analysis.leaderboard.cells import DECIMALS, competition_ranks
from medhelm.analysis.means import (
    DRAWS,
    LARGE,
    Floats,
    bootstrap_statistic,
    cluster_codes,
    constant_interval,
    draw_means,
    percentile_interval,
    row_means,
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


# --- rankings ---------------------------------------------------------------------------------------------------------
# The models by the full jury, without each judge, and by each judge alone.

ALL_JUDGES = "all judges"
"""Name of the panel that holds every judge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSwap:
    """Two models that a smaller panel ranks in another order."""

    better: str
    """The one the full jury puts first."""
    worse: str
    """The other."""
    is_significant: bool
    """True if the full jury's difference between them is significant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgePanelRanking:
    """The models as some of the judges rank them."""

    name: str
    """Name of the panel: `all judges`, `without NAME` or `NAME alone`."""
    judges: tuple[str, ...]
    """Their names."""
    models: tuple[str, ...]
    """Models with a value, best first."""
    values: tuple[float, ...]
    """Value of each: the mean score; over several benchmarks, the macro average on a scale of 0 to 1."""
    ranks: tuple[int, ...]
    """Place of each, from 1; equal values share a place."""
    tau: float | None
    """Kendall's tau-b with the ranking by all judges; None where one of both puts all models on one place."""
    swaps: tuple[RankSwap, ...]
    """Pairs in another order than with all judges."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ranking:
    """Rankings of the models by all judges and by smaller panels."""

    panels: tuple[JudgePanelRanking, ...]
    """All judges first, then without each of them, then each alone."""
    n_pairs: int
    """Pairs of models that can be compared."""
    n_significant: int
    """Pairs that all judges separate significantly, by the test of the leaderboard."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JuryWithoutNamed:
    """A jury without the judges whose scores say nothing, or the opposite."""

    judges: tuple[str, ...]
    """The judges that are left out."""
    one_judge_of_all: RaterAgreement
    """Agreement of one judge with another among all judges, ICC(3,1), over all benchmarks together."""
    one_judge: RaterAgreement
    """The same among those that are kept."""
    ranking: Ranking | None
    """Ranking by those that are kept, its first panel; None if there is nothing to rank, or no judge for it."""
    reordered: tuple[tuple[str, str], ...]
    """Pairs of models in another order than with all judges: the one that now ranks higher, and the other."""

    @property
    def all_are_by_chance(self) -> bool:
        """True if all judges together are not shown to agree better than chance."""
        return self.one_judge_of_all.is_by_chance


def reordered_pairs(before: Ranking | None, after: Ranking | None) -> tuple[tuple[str, str], ...]:
    """Return the pairs of models that two rankings put in opposite orders, the one that now ranks higher first."""
    if before is None or after is None:
        return ()
    old, new = (dict(zip(of.panels[0].models, of.panels[0].ranks, strict=True)) for of in (before, after))
    shared = [model for model in new if model in old]
    return tuple(
        (first, second)
        for first, second in combinations(shared, 2)
        if new[first] < new[second] and old[first] > old[second]
    )


def judge_panels(judges: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Return panel -> places of its judges: all, without each of three or more, and each alone of two or more."""
    every = tuple(range(len(judges)))
    found = {ALL_JUDGES: every}
    if len(judges) > 2:
        found |= {f"without {name}": every[:i] + every[i + 1 :] for i, name in enumerate(judges)}
    if len(judges) > 1:
        found |= {f"{name} alone": (i,) for i, name in enumerate(judges)}
    return found


def panel_means(scores: Floats, default_scores: Floats, judges: Sequence[str], at_least: int) -> dict[str, Floats]:
    """Return panel -> mean score of each model, shape (M,); nan for a model without any score. See `panel_scores`."""
    return {
        name: row_means(panel_scores(scores, default_scores, panel, at_least))
        for name, panel in judge_panels(judges).items()
    }


def rank_by_panel(
    values: Mapping[str, Floats], judges: Sequence[str], models: Sequence[str], separated: np.ndarray
) -> Ranking | None:
    """Rank the models by each panel.

    Parameters: values, panel -> value of each model, nan if missing; separated, shape (M, M), whether the full
    jury separates two models. Returns: None if fewer than two models have a value.
    """
    full = values[ALL_JUDGES]
    pairs = [(i, j) for i, j in combinations(range(len(models)), 2) if not np.isnan(full[[i, j]]).any()]
    if not pairs:
        return None
    places = judge_panels(judges)
    return Ranking(
        panels=tuple(
            _rank_by_one_panel(name, [judges[i] for i in places[name]], models, own, full, separated)
            for name, own in values.items()
        ),
        n_pairs=len(pairs),
        n_significant=sum(bool(separated[pair]) for pair in pairs),
    )


def _rank_by_one_panel(
    name: str, judges: Sequence[str], models: Sequence[str], own: Floats, full: Floats, separated: np.ndarray
) -> JudgePanelRanking:
    """Rank the models by one panel, and compare with the full one."""
    own, full = np.round(own, DECIMALS), np.round(full, DECIMALS)
    order = [i for i in np.argsort(-own, kind="stable") if not math.isnan(own[i])]
    swaps = []
    for i, j in combinations(range(len(models)), 2):
        if (full[i] - full[j]) * (own[i] - own[j]) < 0:
            first, second = (i, j) if full[i] > full[j] else (j, i)
            swaps.append(RankSwap(better=models[first], worse=models[second], is_significant=bool(separated[i, j])))
    return JudgePanelRanking(
        name=name,
        judges=tuple(judges),
        models=tuple(models[i] for i in order),
        values=tuple(float(own[i]) for i in order),
        ranks=tuple(competition_ranks([float(own[i]) for i in order])),
        tau=kendall_tau(full, own),
        swaps=tuple(swaps),
    )


def kendall_tau(first: Floats, second: Floats) -> float | None:
    """Rank correlation of two lists of values, -1 to 1, with the correction for ties (tau-b, Kendall 1945).

    Pairs with a nan do not count. Returns: None if all pairs are ties in one of the lists.

    >>> kendall_tau(np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0]))
    0.3333333333333333
    """
    there = ~np.isnan(first) & ~np.isnan(second)
    a, b = (np.sign(values[there][:, None] - values[there][None, :]) for values in (first, second))
    untied = math.sqrt(float((a != 0).sum()) * float((b != 0).sum()))
    return float((a * b).sum()) / untied if untied else None


def average_by_panel(values: Sequence[Mapping[str, Floats]]) -> dict[str, Floats]:
    """Return panel -> mean of each model's values over several benchmarks, for the panels that all of these have.

    Parameters: values, for each benchmark panel -> value of each model, shape (M,), nan if missing.
    """
    shared = [name for name in values[0] if all(name in found for found in values)]
    return {name: row_means(np.stack([found[name] for found in values], axis=1)) for name in shared}
