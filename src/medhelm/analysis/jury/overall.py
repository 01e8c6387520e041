"""Summaries of judges over several benchmarks: means in which each benchmark counts once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

import numpy as np

from medhelm.analysis.comparison.all_pairs import separated_matrix
from medhelm.analysis.jury.agreement import average_agreement
from medhelm.analysis.jury.bias import LengthBias
from medhelm.analysis.jury.cells import average_estimates, judge_scores, panel_scores, shared_judges
from medhelm.analysis.jury.judges import JudgedBenchmark, JudgeSummary, JurySummary, stacked_scores, without_named
from medhelm.analysis.jury.ranking import ALL_JUDGES, Ranking, average_by_panel, judge_panels, rank_by_panel
from medhelm.analysis.jury.reliability import JudgeFinding, JudgeReliability, JudgeScores, jury_reliability
from medhelm.analysis.leaderboard.alignment import AlignedScores
from medhelm.analysis.statistics.means import row_means
from medhelm.domain import Estimate, JudgeTally, Usage


def summarize_benchmarks(benchmarks: Sequence[JudgedBenchmark], numbers: Sequence[JurySummary]) -> JurySummary:
    """Summarize all benchmarks together: in grades if all have one scale, else from 0 (worst) to 1 (best).

    Every number with an interval is the mean over the benchmarks that have it; as on the leaderboard, models are ranked
    by macro average, by those judges who judged all models on all benchmarks.

    Parameters: benchmarks and numbers, in the same order, at least one.
    """
    first = numbers[0]
    one_scale = all((own.low, own.high) == (first.low, first.high) for own in numbers)
    even = [own if one_scale else _on_unit_scale(own) for own in numbers]
    forms = {own.form for own in numbers}
    names = dict.fromkeys(judge.judge for own in numbers for judge in own.judges)
    reliability = jury_reliability(
        JudgeScores.stack([stacked_scores(b.cells, judge_scores(b.cells)) for b in benchmarks])
    )
    by_judge = {one.judge: one for one in reliability.judges}
    ranking = _rank_models(benchmarks)
    return JurySummary(
        benchmark="",
        title="All benchmarks",
        low=first.low if one_scale else 0.0,
        high=first.high if one_scale else 1.0,
        form=first.form if len(forms) == 1 else "mixed",
        rubric="",
        models=tuple(dict.fromkeys(model for own in numbers for model in own.models)),
        n_instances=sum(own.n_instances for own in numbers),
        n_completions=sum(own.n_completions for own in numbers),
        judges=tuple(
            _summarize_judge([judge for own in even for judge in own.judges if judge.judge == name], by_judge.get(name))
            for name in names
        ),
        one_judge=None,
        agreement=average_agreement([own.agreement for own in numbers]),
        best=average_estimates([own.best for own in numbers]),
        worst=average_estimates([own.worst for own in numbers]),
        length=_average_length_bias([own.length for own in even]),
        ranking=ranking,
        all_judges_shared=all(own.all_judges_shared and len(own.judges) == len(names) for own in numbers),
        without_named=without_named(reliability, ranking, lambda named: _rank_models(benchmarks, named)),
    )


def _summarize_judge(parts: Sequence[JudgeSummary], found: JudgeReliability | None) -> JudgeSummary:
    """Summarize one judge over the benchmarks it judged. `found`: its scores beside the others', over all of them."""
    spreads = [part.sd for part in parts if part.sd is not None]
    return JudgeSummary(
        judge=parts[0].judge,
        family=parts[0].family,
        tally=sum_tallies([part.tally for part in parts]),
        mean=average_estimates([part.mean for part in parts]),
        sd=float(np.mean(spreads)) if spreads else None,
        best=average_estimates([part.best for part in parts]),
        worst=average_estimates([part.worst for part in parts]),
        severity=average_estimates([part.severity for part in parts]),
        own_models=tuple(dict.fromkeys(model for part in parts for model in part.own_models)),
        self_preference=average_estimates([part.self_preference for part in parts]),
        length=_average_length_bias([part.length for part in parts]),
        agreement=found.agreement if found else None,
        finding=found.finding if found else JudgeFinding.UNKNOWN,
    )


def sum_tallies(tallies: Iterable[JudgeTally]) -> JudgeTally:
    """Sum the tallies of one judge; the cost is unknown if any of them is."""
    total = JudgeTally(usage=Usage(), cost_usd=0.0)
    for tally in tallies:
        codes = dict.fromkeys([*total.failures, *tally.failures])
        known = total.cost_usd is not None and tally.cost_usd is not None
        total = JudgeTally(
            expected=total.expected + tally.expected,
            failures={code: total.failures.get(code, 0) + tally.failures.get(code, 0) for code in codes},
            usage=total.usage + tally.usage,
            cost_usd=(total.cost_usd or 0.0) + (tally.cost_usd or 0.0) if known else None,
            requests_sent=total.requests_sent + tally.requests_sent,
            requests_cached=total.requests_cached + tally.requests_cached,
        )
    return total


def _average_length_bias(parts: Sequence[LengthBias | None]) -> LengthBias | None:
    """Average length bias over benchmarks: only those with the more frequent basis."""
    there = [part for part in parts if part is not None]
    if not there:
        return None
    within = [part for part in there if part.basis == "within instances"]
    used = within if 2 * len(within) >= len(there) else [part for part in there if part not in within]
    return LengthBias(
        basis=used[0].basis,
        slope=average_estimates([part.slope for part in used]),
        relative_to_others=average_estimates([part.relative_to_others for part in used]),
        spearman=average_estimates([part.spearman for part in used]),
    )


def _on_unit_scale(own: JurySummary) -> JurySummary:
    """Convert the numbers of a benchmark to a scale from 0 to 1."""
    span = own.high - own.low

    def length(part: LengthBias | None) -> LengthBias | None:
        return part and replace(
            part, slope=_scaled(part.slope, 0, span), relative_to_others=_scaled(part.relative_to_others, 0, span)
        )

    return replace(
        own,
        length=length(own.length),
        judges=tuple(
            replace(
                judge,
                mean=_scaled(judge.mean, own.low, span),
                sd=None if judge.sd is None else judge.sd / span,
                severity=_scaled(judge.severity, 0, span),
                self_preference=_scaled(judge.self_preference, 0, span),
                length=length(judge.length),
            )
            for judge in own.judges
        ),
    )


def _scaled(estimate: Estimate | None, start: float, span: float) -> Estimate | None:
    """Convert an estimate to another origin and unit."""
    if estimate is None:
        return None
    value, low, high = ((number - start) / span for number in (estimate.value, estimate.low, estimate.high))
    return replace(estimate, value=value, low=low, high=high)


def _rank_models(benchmarks: Sequence[JudgedBenchmark], left_out: Collection[str] = ()) -> Ranking | None:
    """Rank models by macro average over the benchmarks, with and without each judge that judged all of them.

    `left_out`: judges that do not count.
    """
    names = list(dict.fromkeys(model for benchmark in benchmarks for model in benchmark.cells.models))
    shared = [set(shared_judges(benchmark.cells)) for benchmark in benchmarks]
    judges = [
        judge for judge in benchmarks[0].cells.judges if all(judge in own for own in shared) and judge not in left_out
    ]
    if not judges:
        return None
    panels = judge_panels(judges)
    aligned = [
        {name: _align_by_panel(benchmark, [judges[i] for i in panel], names) for name, panel in panels.items()}
        for benchmark in benchmarks
    ]
    means = [{name: row_means(own.scores) for name, own in found.items()} for found in aligned]
    return rank_by_panel(
        average_by_panel(means), judges, names, separated_matrix(names, [found[ALL_JUDGES] for found in aligned])
    )


def _align_by_panel(benchmark: JudgedBenchmark, judges: Sequence[str], models: Sequence[str]) -> AlignedScores:
    """Return the scores that some judges together give to each of these models, from 0 (worst) to 1 (best)."""
    cells = benchmark.cells
    scores = panel_scores(
        judge_scores(cells), cells.default_scores, [cells.judges.index(judge) for judge in judges], benchmark.at_least
    )
    filled = np.full((len(models), len(cells.clusters)), np.nan)
    filled[[models.index(model) for model in cells.models]] = (scores - cells.low) / (cells.high - cells.low)
    return AlignedScores(filled, cells.clusters, int(cells.clusters.max()) + 1, True)
