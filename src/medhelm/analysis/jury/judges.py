"""Judges: severity, self-preference, preference for long or short completions, agreement, and their summaries."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from itertools import chain, combinations
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.agreement.coefficients import (
    Level,
    Weights,
    resampled_alpha,
    resampled_icc,
    resampled_kappa,
    resampled_spearman,
)
from medhelm.analysis.agreement.reliability import (
    LEAST_UNITS,
    RaterAgreement,
    correlation_with_raters,
    one_rater_agreement,
)
from medhelm.analysis.comparison.pairs import separated_matrix
from medhelm.analysis.jury.cells import (
    Codes,
    JudgmentCells,
    JuryWithoutNamed,
    Ranking,
    average_estimates,
    bootstrap_estimate,
    difference_from_others,
    grades_by_judge,
    is_judged,
    judge_scores,
    panel_means,
    panel_scores,
    rank_by_panel,
    ratio_estimate,
    reordered_pairs,
    shared_judges,
)
from medhelm.analysis.leaderboard.cells import AlignedScores
from medhelm.analysis.means import (
    DRAWS,
    Floats,
    constant_interval,
    estimate,
    percentile_interval,
    resampling_weights,
    row_means,
)
from medhelm.domain import Estimate, InjectionEffect, JudgeTally, Rule, Tier
from medhelm.domain.benchmark import group_by
from medhelm.domain.result import Remark

# --- severity ---------------------------------------------------------------------------------------------------------

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


# --- preference for length --------------------------------------------------------------------------------------------


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


# --- agreement on criteria and scores ---------------------------------------------------------------------------------

SCORE = "score"
"""Subject of agreement: each judge's score of a completion, over all criteria."""

MET = "met"
"""The same for whether criteria of a rubric in points are met."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeAgreement:
    """Agreement of all judges on one thing, with bootstrap intervals over instances.

    A coefficient is None where it is undefined: for fewer than two completions, or where all grades are the same.
    """

    on: str
    """A criterion, or `score`, or `met`."""
    n: int
    """Completions, or criteria of completions, that at least two judges graded."""
    level: Level
    """Level of measurement for alpha."""
    icc_2_1: Estimate | None
    """ICC(2,1): absolute agreement of one judge with another; of completions that all judges graded."""
    icc_3_k: Estimate | None
    """ICC(3,k): consistency of the mean of all judges; of the same completions."""
    kappa: Estimate | None
    """Cohen's kappa with quadratic weights (`met`: without), mean over pairs of judges."""
    alpha: Estimate | None
    """Krippendorff's alpha, for all judges and missing grades."""


def judge_agreement(cells: JudgmentCells, scores: Floats, rng: np.random.Generator) -> tuple[JudgeAgreement, ...]:
    """Measure agreement on each criterion and on scores; empty for a single judge.

    Parameters: scores, shape (J, M, n), from `judge_scores`.
    """
    judges, models, _ = cells.shape
    if judges < 2:
        return ()
    joint = scores.reshape(judges, -1)
    on_scores = agreement_on(SCORE, joint, np.tile(cells.clusters, models), "interval", "quadratic", rng)
    if cells.points is not None:
        # As it was judged: a harm that is there is met.
        met = replace(cells, grades=np.where(cells.points < 0, 1 - cells.grades, cells.grades))
        values, instance = grades_by_judge(met)
        on_met = agreement_on(MET, values, cells.clusters[instance], "nominal", "none", rng)
        on_met = replace(on_met, icc_2_1=None, icc_3_k=None)
        return (on_met, on_scores) if on_scores.n else (on_met,)
    found = []
    for place, criterion in enumerate(cells.criteria):
        values, instance = grades_by_judge(cells, place)
        found.append(agreement_on(criterion, values, cells.clusters[instance], "ordinal", "quadratic", rng))
    return *found, on_scores


def agreement_on(
    on: str, values: Floats, clusters: Codes, level: Level, weights: Weights, rng: np.random.Generator
) -> JudgeAgreement:
    """Compute all coefficients of one table of grades, shape (J, s), whose columns belong to these clusters."""
    given = (~np.isnan(values)).sum(axis=0)
    rows, codes = values.T[given > 1], clusters[given > 1]
    complete = given[given > 1] == len(values)

    every = np.ones(len(rows), dtype=bool)

    def coefficient(
        statistic: Callable[[Floats, Floats], Floats], wanted: NDArray[np.bool_] = every
    ) -> Estimate | None:
        return bootstrap_estimate(partial(statistic, rows[wanted]), codes[wanted], rng)

    return JudgeAgreement(
        on=on,
        n=len(rows),
        level=level,
        icc_2_1=coefficient(partial(resampled_icc, form="2,1"), complete),
        icc_3_k=coefficient(partial(resampled_icc, form="3,k"), complete),
        kappa=coefficient(partial(_mean_kappa, weights=weights)),
        alpha=coefficient(partial(resampled_alpha, level=level)),
    )


def _mean_kappa(rows: Floats, counts: Floats, weights: Weights) -> Floats:
    """Compute the mean kappa over the pairs of judges that have one, for many resamples at once."""
    kappas = [resampled_kappa(a, b, counts, weights=weights) for a, b in combinations(rows.T, 2)]
    return row_means(np.stack(kappas, axis=1))


def average_agreement(found: Sequence[Sequence[JudgeAgreement]]) -> tuple[JudgeAgreement, ...]:
    """Average agreement on each criterion, and on scores, over the benchmarks on which it was graded."""
    groups = group_by(chain.from_iterable(found), lambda part: (part.on, part.level))
    return tuple(
        JudgeAgreement(
            on=on,
            n=sum(part.n for part in parts),
            level=level,
            icc_2_1=average_estimates([part.icc_2_1 for part in parts]),
            icc_3_k=average_estimates([part.icc_3_k for part in parts]),
            kappa=average_estimates([part.kappa for part in parts]),
            alpha=average_estimates([part.alpha for part in parts]),
        )
        for (on, level), parts in sorted(groups.items(), key=lambda item: item[0][0] == SCORE)
    )


# --- agreement with the other judges ----------------------------------------------------------------------------------
# A judge's number is the correlation of its scores with the mean score of the others on the same completions, with a
# jackknife interval over instances (`agreement.reliability`). Judges are named step by step, the lowest number first,
# because one judge who guesses, or grades the wrong way round, lowers the numbers of all:
#
#     constant     it gave every completion the same score, while others did not
#     guesses      the interval holds 0, and the number is less than half of the agreement among the others
#     against      the interval lies below 0
#
# The others are those who are not named. If they are not shown to agree with each other, it is unknown who is wrong,
# and only constant judges are named. The same holds for two judges.


class JudgeFinding(StrEnum):
    """Conclusion about a judge, from the other judges."""

    AGREES = "agrees"
    """It agrees with the others better than chance."""
    UNKNOWN = "unknown"
    """It is not shown to agree, and nothing is shown against it."""
    GUESSES = "guesses"
    """It does not agree with the others, who agree with each other."""
    CONSTANT = "constant"
    """It gave every completion the same score."""
    AGAINST = "against"
    """It grades low what the others grade high."""

    @property
    def is_named(self) -> bool:
        """Return True if the verdict names the judge."""
        return self not in (JudgeFinding.AGREES, JudgeFinding.UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeReliability:
    """One judge beside the others."""

    judge: str
    """Name of the judge."""
    agreement: RaterAgreement
    """Correlation with the mean of the other judges who are not named."""
    finding: JudgeFinding
    """Conclusion from that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JuryReliability:
    """All judges of a jury beside each other."""

    judges: tuple[JudgeReliability, ...]
    """Each judge with scores."""
    one_judge: RaterAgreement
    """Agreement of one judge with another, severity set aside, ICC(3,1)."""
    without_named: RaterAgreement | None
    """The same without the judges that are named; None if none are."""

    @property
    def named(self) -> tuple[JudgeReliability, ...]:
        """Judges whose scores say nothing, or the opposite."""
        return tuple(judge for judge in self.judges if judge.finding.is_named)

    def renamed(self, names: Mapping[str, str]) -> JuryReliability:
        """Return the same with other names of judges."""
        return replace(self, judges=tuple(replace(one, judge=names.get(one.judge, one.judge)) for one in self.judges))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JudgeScores:
    """Scores of J judges for N completions on B benchmarks, each benchmark on a scale of length 1."""

    judges: tuple[str, ...]
    """Names of the judges."""
    values: Floats
    """Shape (J, N), nan if missing."""
    benchmark: Codes
    """Shape (N,): number of the benchmark of each completion."""
    units: Codes
    """Shape (N,): number of the independent unit of each completion, over all benchmarks."""

    @classmethod
    def stack(cls, tables: Sequence[tuple[Sequence[str], Floats, Codes]]) -> JudgeScores:
        """Combine benchmarks.

        Parameters: tables, of each benchmark the names of its judges; their scores on a scale of length 1, shape
        (J, N), nan if missing; and the number of the independent unit of each completion, shape (N,).
        """
        names = tuple(dict.fromkeys(name for judges, _, _ in tables for name in judges))
        parts, units, start = [], [], 0
        for judges, scores, codes in tables:
            part = np.full((len(names), scores.shape[1]), np.nan)
            part[[names.index(name) for name in judges]] = scores
            parts.append(part)
            units.append(codes + start)
            start += int(codes.max(initial=-1)) + 1
        sizes = [part.shape[1] for part in parts]
        return cls(
            judges=names,
            values=np.concatenate(parts, axis=1) if parts else np.empty((0, 0)),
            benchmark=np.repeat(np.arange(len(parts)), sizes),
            units=np.concatenate(units) if units else np.empty(0, dtype=np.intp),
        )

    def centered(self) -> Floats:
        """Return the values less each judge's mean on each benchmark."""
        found = self.values.copy()
        for place in np.unique(self.benchmark):
            own = found[:, self.benchmark == place]
            there = ~np.isnan(own)
            count = np.maximum(there.sum(axis=1, keepdims=True), 1)
            own -= np.where(there, own, 0.0).sum(axis=1, keepdims=True) / count
            found[:, self.benchmark == place] = own
        return found


FLAT = 1e-9
"""Spread of scores, on a scale of length 1, below which they are equal."""


def jury_reliability(scores: JudgeScores) -> JuryReliability:
    """Compare each judge with the others, and find those whose grades say nothing or the opposite."""
    panel = _Panel(scores)
    named, core = panel.find_named()
    findings = []
    for place, judge in enumerate(scores.judges):
        agreement = panel.with_others(place, core)
        if place in panel.constant:
            finding = JudgeFinding.CONSTANT
        elif agreement.low is None or agreement.high is None:
            finding = JudgeFinding.UNKNOWN
        elif place in named and agreement.low <= 0:
            finding = JudgeFinding.AGAINST if agreement.high < 0 else JudgeFinding.GUESSES
        else:
            finding = JudgeFinding.AGREES if agreement.low > 0 else JudgeFinding.UNKNOWN
        findings.append(JudgeReliability(judge=judge, agreement=agreement, finding=finding))
    kept = [place for place, one in enumerate(findings) if not one.finding.is_named]
    return JuryReliability(
        judges=tuple(findings),
        one_judge=panel.one_judge(range(len(findings))),
        without_named=panel.one_judge(kept) if len(kept) < len(findings) else None,
    )


class _Panel:
    """Judges whose scores are compared."""

    def __init__(self, scores: JudgeScores) -> None:
        self._scores = scores
        self._centered = scores.centered()
        there = ~np.isnan(self._centered)
        spread = np.array(
            [np.abs(own[given]).max(initial=0.0) for own, given in zip(self._centered, there, strict=True)]
        )
        varying = spread > FLAT
        units = np.array([len(np.unique(scores.units[given])) for given in there], dtype=np.intp)
        self.constant = {int(i) for i in np.flatnonzero(~varying & (units >= LEAST_UNITS))} if varying.any() else set()
        """Places of the judges who gave every completion the same score, while others did not."""
        self._varying = [int(i) for i in np.flatnonzero(varying)]

    def find_named(self) -> tuple[list[int], list[int]]:
        """Return the places of judges who do not agree with the rest, and of the rest."""
        rest, named = list(self._varying), list[int]()
        while len(rest) > 2:
            found = {judge: self.with_others(judge, rest) for judge in rest}
            doubtful = {
                judge: one.value
                for judge, one in found.items()
                if one.value is not None
                and one.is_by_chance
                and one.value < self._mean_agreement([other for other in rest if other != judge]) / 2
            }
            if not doubtful:
                break
            worst = min(doubtful, key=lambda judge: doubtful[judge])
            rest.remove(worst)
            named.append(worst)
        if named:
            among = self.one_judge(rest)
            if among.low is None or among.low <= 0:
                return [], list(self._varying)
        return named, rest

    def one_judge(self, judges: Sequence[int]) -> RaterAgreement:
        """Estimate the agreement of one of these judges with another."""
        return one_rater_agreement(self._centered[list(judges)].T, self._scores.units)

    def with_others(self, judge: int, others: Sequence[int]) -> RaterAgreement:
        """Correlate a judge with the mean of the others, within benchmarks."""
        own = [place for place in others if place != judge]
        there = ~np.isnan(self._centered[own])
        count = there.sum(axis=0)
        total = np.where(there, self._centered[own], 0.0).sum(axis=0)
        mean = np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0)
        by_benchmark = np.full((len(mean), int(self._scores.benchmark.max(initial=0)) + 1), np.nan)
        by_benchmark[np.arange(len(mean)), self._scores.benchmark] = mean
        return correlation_with_raters(by_benchmark, self._scores.values[judge], self._scores.units)

    def _mean_agreement(self, judges: Sequence[int]) -> float:
        """Return the mean over these judges of the correlation with the others of them; -1 if it is unknown."""
        values = [self.with_others(judge, judges).value for judge in judges]
        return float(np.mean([-1.0 if value is None else value for value in values]))


# --- summaries of judges and juries -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JudgedBenchmark:
    """Judgments of one benchmark and the tallies of its judges."""

    benchmark: str
    """Id of the benchmark."""
    title: str
    """Its name for people."""
    rubric: str = ""
    """Name of the rubric; empty if the benchmark has one only."""
    cells: JudgmentCells
    """Every judgment."""
    tallies: Mapping[str, JudgeTally]
    """Judge -> its work on all models together."""
    at_least: int
    """Judges a completion needs to have a score."""
    families: Mapping[str, str]
    """Judge or model -> its family."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSummary:
    """One judge, on one benchmark or over several. Numbers are in grades, high is good."""

    judge: str
    """Name of the judge."""
    family: str
    """Its family."""
    tally: JudgeTally
    """Judgments expected and missing, tokens, cost."""
    mean: Estimate | None = None
    """Mean grade; None without a judgment."""
    by_criterion: Mapping[str, Estimate] = field(default_factory=dict)
    """Criterion -> its mean grade; empty over several benchmarks, and where instances have criteria of their own."""
    sd: float | None = None
    """Sample standard deviation of its grades; None for fewer than two."""
    best: Estimate | None = None
    """Share of the best grade among its grades, 0..1; for points the share of completions with all of them."""
    worst: Estimate | None = None
    """Share of the worst."""
    severity: Estimate | None = None
    """By how much it grades lower than the other judges on the same."""
    own_models: tuple[str, ...] = ()
    """Models under test of its own family."""
    self_preference: Estimate | None = None
    """Estimated preference for these."""
    length: LengthBias | None = None
    """Association of its grades with length."""
    agreement: RaterAgreement | None = None
    """Correlation of its scores with the mean of the other judges'; None without a judgment."""
    finding: JudgeFinding = JudgeFinding.UNKNOWN
    """Conclusion about the judge from that."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JurySummary:
    """A jury's work on one benchmark, or over several."""

    benchmark: str
    """Id of the benchmark; empty for several."""
    title: str
    """Name for people."""
    low: float
    """The worst grade."""
    high: float
    """The best grade."""
    form: str
    """`grades` or `points`; `mixed` for several that differ."""
    rubric: str
    """Name of the rubric; empty if there is one only, or for several benchmarks."""
    models: tuple[str, ...]
    """Models whose completions were judged."""
    n_instances: int
    """Instances behind them."""
    n_completions: int
    """Completions with a judgment."""
    judges: tuple[JudgeSummary, ...]
    """Each judge."""
    agreement: tuple[JudgeAgreement, ...]
    """Agreement of the judges on each criterion, and on their scores."""
    one_judge: RaterAgreement | None
    """Agreement of one judge's scores with another's, severity set aside, ICC(3,1); None over several benchmarks."""
    best: Estimate | None
    """Share of the best grade among all grades."""
    worst: Estimate | None
    """Share of the worst."""
    length: LengthBias | None
    """Association of the jury's score with length."""
    ranking: Ranking | None
    """Ranking of the models with and without each judge; None if there is nothing to rank."""
    all_judges_shared: bool
    """True if every judge judged every model; if not, the ranking is by those who did."""
    without_named: JuryWithoutNamed | None = None
    """The jury without judges whose scores say nothing, or the opposite; None if there are none."""
    harms: Mapping[str, Estimate] = field(default_factory=dict)
    """Model -> share of harmful criteria, those with negative points, that judges found in its completions; empty for
    a rubric without any, and over several benchmarks."""

    @property
    def named(self) -> tuple[JudgeSummary, ...]:
        """Judges whose scores say nothing, or the opposite."""
        return tuple(judge for judge in self.judges if judge.finding.is_named)

    @property
    def is_by_chance(self) -> bool:
        """True if the judges are not shown to agree better than chance, although there is enough to show it."""
        return self.one_judge is not None and self.one_judge.is_by_chance


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JuryAnalysis:
    """All numbers on the judges of some stores."""

    benchmarks: tuple[JurySummary, ...]
    """On each benchmark."""
    overall: JurySummary
    """Over all of them."""
    families: Mapping[str, str]
    """Judge or model -> its family."""
    verdict: tuple[str, ...]
    """Sentences on the use of the jury: agreement of its judges, and models that it separates."""
    remarks: tuple[Remark, ...]
    """Limits of the numbers, and significant biases."""
    tier: Tier
    """Real data or sample rows."""
    scoring: Rule
    """Scoring rule of the ranking."""
    injection_effects: tuple[InjectionEffect, ...] = ()
    """Completions with signs of a prompt injection, and the mean score with and without them."""


def summarize_jury(benchmark: JudgedBenchmark, rng: np.random.Generator) -> JurySummary:
    """Compute all numbers of one benchmark; equal generators give equal numbers."""
    cells = benchmark.cells
    scores = judge_scores(cells)
    shared = [cells.judges.index(judge) for judge in shared_judges(cells)]
    joint = panel_scores(scores, np.full(cells.lengths.shape, np.nan), range(len(cells.judges)), benchmark.at_least)
    best, worst = (_share_at(edge, cells, scores) for edge in (cells.high, cells.low))
    reliability = jury_reliability(JudgeScores.stack([stacked_scores(cells, scores)]))
    ranking = _rank_models(benchmark, scores, shared)
    return JurySummary(
        benchmark=benchmark.benchmark,
        title=benchmark.title,
        low=cells.low,
        high=cells.high,
        form="grades" if cells.points is None else "points",
        rubric=benchmark.rubric,
        models=cells.models,
        n_instances=len(cells.clusters),
        n_completions=int(is_judged(cells).sum()),
        judges=_summarize_judges(benchmark, scores, reliability, rng),
        agreement=judge_agreement(cells, scores, rng),
        one_judge=reliability.one_judge if len(scores) else None,
        best=best,
        worst=worst,
        length=length_bias(joint, cells.lengths, cells.clusters, rng),
        ranking=ranking,
        all_judges_shared=len(shared) == len(cells.judges),
        without_named=without_named(
            reliability,
            ranking,
            lambda named: _rank_models(benchmark, scores, [i for i in shared if cells.judges[i] not in named]),
        ),
        harms=_harms(cells),
    )


def stacked_scores(cells: JudgmentCells, scores: Floats) -> tuple[tuple[str, ...], Floats, Codes]:
    """Return the judges of a benchmark, their scores of all completions from 0 to 1, and the unit of each completion.

    Parameters: scores, shape (J, M, n), from `judge_scores`. See `JudgeScores.stack`.
    """
    flat = scores.reshape(len(scores), scores.shape[1] * scores.shape[2])
    return cells.judges, (flat - cells.low) / (cells.high - cells.low), np.tile(cells.clusters, len(cells.models))


def without_named(
    found: JuryReliability, ranking: Ranking | None, rank: Callable[[Collection[str]], Ranking | None]
) -> JuryWithoutNamed | None:
    """Return what a jury says without its named judges; None if none are named.

    Parameters: ranking, by all judges; rank, returns the ranking without some judges.
    """
    if found.without_named is None:
        return None
    named = tuple(judge.judge for judge in found.named)
    after = rank(named)
    return JuryWithoutNamed(
        judges=named,
        one_judge_of_all=found.one_judge,
        one_judge=found.without_named,
        ranking=after,
        reordered=reordered_pairs(ranking, after),
    )


def _summarize_judges(
    benchmark: JudgedBenchmark, scores: Floats, reliability: JuryReliability, rng: np.random.Generator
) -> tuple[JudgeSummary, ...]:
    """Summarize each judge that was asked; one without any judgment has its tally only."""
    cells = benchmark.cells
    span, families = cells.high - cells.low, benchmark.families
    own = np.array([[families[judge] == families[model] for model in cells.models] for judge in cells.judges])
    own = own.reshape(len(cells.judges), len(cells.models))
    severities = judge_severity(cells, rng)
    # A judge who guesses does not see which models are good: beside it, the others would seem to prefer the good ones.
    is_named = np.array([judge.finding.is_named for judge in reliability.judges], dtype=bool)
    preferences = self_preference(
        np.where(is_named[:, None, None], np.nan, scores), own, cells.clusters, rng, span=span
    )
    differences = difference_from_others(scores, ~is_named)
    found = []
    for i, judge in enumerate(cells.judges):
        grades = cells.grades[cells.judge == i]
        codes = cells.clusters[cells.instance[cells.judge == i]]
        best, worst = (_share_at(edge, cells, scores, i) for edge in (cells.high, cells.low))
        found.append(
            JudgeSummary(
                judge=judge,
                family=families[judge],
                tally=benchmark.tallies[judge],
                mean=estimate(grades, codes, low=cells.low, high=cells.high),
                by_criterion=_means_by_criterion(cells, i),
                sd=_sample_sd(grades),
                best=best,
                worst=worst,
                severity=severities[i],
                own_models=tuple(model for model, is_own in zip(cells.models, own[i], strict=True) if is_own),
                self_preference=preferences[i],
                length=length_bias(scores[i], cells.lengths, cells.clusters, rng, others=differences[i]),
                agreement=reliability.judges[i].agreement,
                finding=reliability.judges[i].finding,
            )
        )
    without_judgments = [name for name in benchmark.tallies if name not in cells.judges]
    return (
        *found,
        *(JudgeSummary(judge=name, family=families[name], tally=benchmark.tallies[name]) for name in without_judgments),
    )


def _means_by_criterion(cells: JudgmentCells, judge: int) -> dict[str, Estimate]:
    """Return the mean grades of a judge by criterion, where all instances share the criteria."""
    if cells.points is not None:
        return {}
    found = {}
    for place, criterion in enumerate(cells.criteria):
        own = (cells.judge == judge) & (cells.criterion == place)
        mean = estimate(cells.grades[own], cells.clusters[cells.instance[own]], low=cells.low, high=cells.high)
        if mean is not None:
            found[criterion] = mean
    return found


def _harms(cells: JudgmentCells) -> dict[str, Estimate]:
    """Return the share of harmful criteria that judges found in the completions of each model."""
    if cells.points is None:
        return {}
    found = {}
    for place, model in enumerate(cells.models):
        own = (cells.model == place) & (cells.points < 0)
        # A harm that is not there has the good grade, 1.
        share = estimate(1 - cells.grades[own], cells.clusters[cells.instance[own]], low=0.0, high=1.0)
        if share is not None:
            found[model] = share
    return found


def _sample_sd(grades: Floats) -> float | None:
    """Return the sample standard deviation of grades, nan left out; None for fewer than two."""
    known = grades[~np.isnan(grades)]
    return float(known.std(ddof=1)) if len(known) > 1 else None


def _share_at(edge: float, cells: JudgmentCells, scores: Floats, judge: int | None = None) -> Estimate | None:
    """Estimate the share of grades at an edge of the scale, of one judge or all, with Wilson's interval.

    For points it is the share of the judge's scores: a single criterion is either met or not.
    """
    if cells.points is None:
        wanted = slice(None) if judge is None else cells.judge == judge
        values, clusters = cells.grades[wanted], cells.clusters[cells.instance[wanted]]
    else:
        there = is_judged(cells)
        own = scores if judge is None else scores[judge : judge + 1]
        values = own[:, there].reshape(-1)
        clusters = np.tile(np.broadcast_to(cells.clusters, there.shape)[there], len(own))
    is_there = np.isclose(values, edge) | (values < cells.low if edge == cells.low else False)
    return estimate(np.where(np.isnan(values), np.nan, is_there), clusters, low=0.0, high=1.0)


def align_panel(benchmark: JudgedBenchmark, judges: Sequence[str], models: Sequence[str]) -> AlignedScores:
    """Return the scores that some judges together give to each of these models, from 0 (worst) to 1 (best)."""
    cells = benchmark.cells
    panel = [cells.judges.index(judge) for judge in judges]
    scores = panel_scores(judge_scores(cells), cells.default_scores, panel, benchmark.at_least)
    filled = np.full((len(models), len(cells.clusters)), np.nan)
    filled[[models.index(model) for model in cells.models]] = (scores - cells.low) / (cells.high - cells.low)
    return AlignedScores(filled, cells.clusters, int(cells.clusters.max()) + 1, True)


def _rank_models(benchmark: JudgedBenchmark, scores: Floats, shared: Sequence[int]) -> Ranking | None:
    """Rank the models by the judges who judged all of them; None without such a judge."""
    cells = benchmark.cells
    if not shared:
        return None
    judges, own = [cells.judges[i] for i in shared], scores[shared]
    separated = separated_matrix(cells.models, [align_panel(benchmark, judges, cells.models)])
    means = panel_means(own, cells.default_scores, judges, benchmark.at_least)
    return rank_by_panel(means, judges, cells.models, separated)
