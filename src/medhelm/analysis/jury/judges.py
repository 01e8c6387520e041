"""Summaries of judges and juries, by benchmark and overall."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from medhelm.analysis.agreement.reliability import RaterAgreement
from medhelm.analysis.comparison.all_pairs import separated_matrix
from medhelm.analysis.jury.agreement import JudgeAgreement, judge_agreement
from medhelm.analysis.jury.bias import LengthBias, judge_severity, length_bias, self_preference
from medhelm.analysis.jury.cells import (
    Codes,
    JudgmentCells,
    difference_from_others,
    is_judged,
    judge_scores,
    panel_scores,
    shared_judges,
)
from medhelm.analysis.jury.ranking import JuryWithoutNamed, Ranking, panel_means, rank_by_panel, reordered_pairs
from medhelm.analysis.jury.reliability import JudgeFinding, JudgeScores, JuryReliability, jury_reliability
from medhelm.analysis.leaderboard.alignment import AlignedScores
from medhelm.analysis.statistics.cluster_bootstrap import Floats
from medhelm.analysis.statistics.means import estimate
from medhelm.domain import Estimate, InjectionEffect, JudgeTally, Rule, Tier
from medhelm.domain.remark import Remark


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
