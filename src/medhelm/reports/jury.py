"""The judges of a store, for programs (`to_json`) and for people (`to_text`).

JSON of `medhelm jury --json`:

    benchmarks   ID -> numbers on it
    overall      the same over all benchmarks: means over benchmarks, each counted once
    families     judge or model -> its family
    warnings     sentences
    tier, scoring

    numbers:
      title, models, n_instances, n_completions
      scale      {low, high, form}: all grades are turned so that `high` is good
      judges     NAME -> a judge's numbers
      agreement  a list of {on, n, level, icc_2_1, icc_3_k, weighted_kappa, alpha}; `on` is a criterion, `score` (each
                 judge's score of a completion), or `met` (criteria met or not met); `level` is how alpha counts
                 distances: nominal, ordinal or interval
      best, worst   share of the best and of the worst grade, 0..1
      length     {basis, slope, spearman} of the jury's score
      ranking    {pairs, pairs_told_apart, panels: [{name, judges, models: [{model, rank, value}], tau, swaps: [{better,
                 worse, told_apart}]}]} or null; `better` is the one that all judges together put first

    a judge's numbers:
      family, own_models
      judgments  {expected, present, failed, failures: CODE -> count}
      tokens     {input, cached_input, output, reasoning, cache_write}; cost_usd
      mean, sd, best, worst
      harshness  mean of the other judges minus its own grade on the same
      self_preference   see `analysis.judge_bias.self_preference`
      length     {basis, slope, against_others, spearman}: grades for a doubling of length

A number with an interval is {value, low, high, n, method}: 95 %, `low` and `high` null where there is no interval; the
whole is null where there is no number. `method` says how the interval was made: see `NOTES`.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from medhelm.reports.leaderboard import number

if TYPE_CHECKING:
    from medhelm.analysis.jury.agreement import JudgeAgreement
    from medhelm.analysis.jury.bias import LengthBias
    from medhelm.analysis.jury.judges import JudgeSummary, JuryAnalysis, JurySummary
    from medhelm.analysis.jury.ranking import JudgePanelRanking, Ranking
    from medhelm.domain import Estimate, JudgeTally


def to_json(analysis: JuryAnalysis) -> dict[str, Any]:
    """The analysis as plain lists and dictionaries; None where there is no number, never nan."""
    return {
        "benchmarks": {own.benchmark: _numbers(own) for own in analysis.benchmarks},
        "overall": _numbers(analysis.overall),
        "families": dict(analysis.families),
        "warnings": list(analysis.warnings),
        "tier": analysis.tier,
        "scoring": analysis.scoring,
    }


def interval(estimate: Estimate | None) -> dict[str, Any] | None:
    """A number with its interval."""
    if estimate is None:
        return None
    ends = {name: number(getattr(estimate, name)) for name in ("value", "low", "high")}
    return {**ends, "n": estimate.n, "method": estimate.method}


def _numbers(own: JurySummary) -> dict[str, Any]:
    """A jury on one benchmark, or over all."""
    return {
        "title": own.title,
        "models": list(own.models),
        "n_instances": own.n_instances,
        "n_completions": own.n_completions,
        "scale": {"low": own.low, "high": own.high, "form": own.form},
        "judges": {judge.judge: _judge(judge) for judge in own.judges},
        "agreement": [_agreement(part) for part in own.agreement],
        "best": interval(own.best),
        "worst": interval(own.worst),
        "length": _length(own.length),
        "ranking": _ranking(own.ranking),
    }


def _judge(judge: JudgeSummary) -> dict[str, Any]:
    """One judge."""
    return {
        "family": judge.family,
        "own_models": list(judge.own_models),
        "judgments": _judgments(judge.tally),
        "tokens": asdict(judge.tally.usage),
        "cost_usd": number(judge.tally.cost_usd),
        "mean": interval(judge.mean),
        "sd": number(judge.sd),
        "best": interval(judge.best),
        "worst": interval(judge.worst),
        "harshness": interval(judge.harshness),
        "self_preference": interval(judge.self_preference),
        "length": _length(judge.length),
    }


def _judgments(tally: JudgeTally) -> dict[str, Any]:
    """What became of a judge's work."""
    return {
        "expected": tally.expected,
        "present": tally.expected - tally.failed,
        "failed": tally.failed,
        "failures": dict(tally.failures),
    }


def _agreement(part: JudgeAgreement) -> dict[str, Any]:
    """Coefficients on one criterion, or on scores."""
    return {
        "on": part.on,
        "n": part.n,
        "level": part.level,
        "icc_2_1": interval(part.icc_2_1),
        "icc_3_k": interval(part.icc_3_k),
        "weighted_kappa": interval(part.kappa),
        "alpha": interval(part.alpha),
    }


def _length(length: LengthBias | None) -> dict[str, Any] | None:
    """How grades go with length."""
    if length is None:
        return None
    return {
        "basis": length.basis,
        "slope": interval(length.slope),
        "against_others": interval(length.against_others),
        "spearman": interval(length.spearman),
    }


def _ranking(ranking: Ranking | None) -> dict[str, Any] | None:
    """How all judges rank the models, and how fewer do."""
    if ranking is None:
        return None
    return {
        "pairs": ranking.n_pairs,
        "pairs_told_apart": ranking.n_told_apart,
        "panels": [_panel(panel) for panel in ranking.panels],
    }


def _panel(panel: JudgePanelRanking) -> dict[str, Any]:
    """One ranking."""
    rows = zip(panel.models, panel.ranks, panel.values, strict=True)
    return {
        "name": panel.name,
        "judges": list(panel.judges),
        "models": [{"model": model, "rank": rank, "value": number(value)} for model, rank, value in rows],
        "tau": number(panel.tau),
        "swaps": [asdict(swap) for swap in panel.swaps],
    }
