"""Judges: their agreement with the others and their reliability.

Agreement of judges on each criterion and on their scores of completions.

Agreement of each judge with the other judges, and the judges whose grades say nothing, or the opposite.

A judge's number is the correlation of its scores with the mean score of the others on the same completions, with a
jackknife interval over instances (`agreement.reliability`). Judges are named step by step, the lowest number first,
because one judge who guesses, or grades the wrong way round, lowers the numbers of all:

    constant     it gave every completion the same score, while others did not
    guesses      the interval holds 0, and the number is less than half of the agreement among the others
    against      the interval lies below 0

The others are those who are not named. If they are not shown to agree with each other, it is
unknown who is wrong, and only constant judges are named. The same holds for two judges.

Summaries of judges and juries, by benchmark and overall.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.agreement.coefficients import Level, Weights, resampled_alpha, resampled_icc, resampled_kappa
from medhelm.analysis.agreement.reliability import (
    LEAST_UNITS,
    RaterAgreement,
    correlation_with_raters,
    one_rater_agreement,
)
from medhelm.analysis.comparison.pairs import separated_matrix
from medhelm.analysis.jury.bias import LengthBias, judge_severity, length_bias, self_preference
from medhelm.analysis.jury.cells import (
    Codes,
    JudgmentCells,
    average_estimates,
    bootstrap_estimate,
    difference_from_others,
    grades_by_judge,
    is_judged,
    judge_scores,
    panel_scores,
    shared_judges,
)
from medhelm.analysis.jury.ranking import JuryWithoutNamed, Ranking, panel_means, rank_by_panel, reordered_pairs
from medhelm.analysis.leaderboard.cells import AlignedScores
from medhelm.analysis.means import Floats, estimate, row_means
from medhelm.domain import Estimate, InjectionEffect, JudgeTally, Rule, Tier
from medhelm.domain.result import Remark

# --- agreement --------------------------------------------------------------------------------------------------------

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
    on_scores = _agreement_on(SCORE, joint, np.tile(cells.clusters, models), "interval", "quadratic", rng)
    if cells.points is not None:
        # As it was judged: a harm that is there is met.
        met = replace(cells, grades=np.where(cells.points < 0, 1 - cells.grades, cells.grades))
        values, instance = grades_by_judge(met)
        on_met = _agreement_on(MET, values, cells.clusters[instance], "nominal", "none", rng)
        on_met = replace(on_met, icc_2_1=None, icc_3_k=None)
        return (on_met, on_scores) if on_scores.n else (on_met,)
    found = []
    for place, criterion in enumerate(cells.criteria):
        values, instance = grades_by_judge(cells, place)
        found.append(_agreement_on(criterion, values, cells.clusters[instance], "ordinal", "quadratic", rng))
    return *found, on_scores


def _agreement_on(
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
    groups: dict[tuple[str, Level], list[JudgeAgreement]] = {}
    for parts in found:
        for part in parts:
            groups.setdefault((part.on, part.level), []).append(part)
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


# --- reliability ------------------------------------------------------------------------------------------------------


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
                and one.low is not None
                and one.low <= 0
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


# --- judges -----------------------------------------------------------------------------------------------------------


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

    @property
    def named(self) -> tuple[JudgeSummary, ...]:
        """Judges whose scores say nothing, or the opposite."""
        return tuple(judge for judge in self.judges if judge.finding.is_named)

    @property
    def is_by_chance(self) -> bool:
        """True if the judges are not shown to agree better than chance, although there is enough to show it."""
        return self.one_judge is not None and self.one_judge.low is not None and self.one_judge.low <= 0


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


def _rank_models(benchmark: JudgedBenchmark, scores: Floats, shared: Sequence[int]) -> Ranking | None:
    """Rank the models by the judges who judged all of them; None without such a judge."""
    cells = benchmark.cells
    if not shared:
        return None
    judges, own = [cells.judges[i] for i in shared], scores[shared]
    full = panel_scores(own, cells.default_scores, range(len(shared)), benchmark.at_least)
    scores_01 = (full - cells.low) / (cells.high - cells.low)
    aligned = AlignedScores(scores_01, cells.clusters, int(cells.clusters.max()) + 1, True)
    separated = separated_matrix(cells.models, [aligned])
    means = panel_means(own, cells.default_scores, judges, benchmark.at_least)
    return rank_by_panel(means, judges, cells.models, separated)
