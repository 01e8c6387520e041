"""Count a run again from its stored records, after some of them were deleted. Needs no data, and scores nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import numpy as np

from medhelm.analysis.means import estimate
from medhelm.domain import (
    JURY,
    RULES,
    Estimate,
    JudgeTally,
    Judgment,
    Jury,
    JuryResult,
    Model,
    Record,
    Run,
)
from medhelm.domain.benchmark import group_by
from medhelm.evaluation.recorder import RecordedScores
from medhelm.evaluation.request_totals import CompletionCounter, JudgeRecorder, RequestTotals
from medhelm.scoring.metric import Metric, is_blank, not_computed
from medhelm.scoring.metrics import METRICS
from medhelm.storage.run_scores import stored_records
from medhelm.storage.runs import (
    parts_column,
    read_columns,
    run_metrics,
)


def recounted(run: Run, folder: Path, *, n: int) -> Run:
    """Return a run with the numbers of the records in a folder.

    Times, requests and the reason of an early end stay those of the run. `n`: its number of instances now.
    Raises: StoreError for damaged files.
    """
    stored = replace(run, folder=folder)
    metrics = [_metric(run, name) for name in run_metrics(run)]
    columns = RecordedScores(metrics, is_grouped=bool(run.groups))
    known = read_columns(stored).keys()
    pooled = [(one.name, rule) for one in metrics for rule in RULES if parts_column(one.name, rule) in known]
    columns.parts = {key: [] for key in pooled}
    model = run.resolved_model or Model(name=run.model, provider="", remote_name=run.model)
    totals, jury = RequestTotals(model), _JuryCount(run.jury_result) if run.jury_result else None
    completions = CompletionCounter(metrics[0])
    failures: dict[str, int] = {}
    n_truncated = truncated = n_completions = 0
    for record in stored_records(stored, [one.name for one in metrics]):
        columns.add(record)
        completions.add(record.completion, unreadable=record.is_unreadable, scores=record.scores)
        totals.add(record.completion, requests_sent=0, cached=True)
        n_truncated += record.truncated_characters > 0
        truncated += record.truncated_characters
        if record.completion.failure:
            failures[record.completion.failure.code] = failures.get(record.completion.failure.code, 0) + 1
        else:
            n_completions += 1
        if jury:
            jury.add(record)
    columns.put_in_order()
    estimates = columns.estimates(metrics) if n_completions else {rule: {} for rule in RULES}
    return replace(
        run,
        n=n,
        n_failed=n - n_completions,
        failures=failures,
        usage=totals.usage,
        cost_usd=None if run.cost_usd is None or totals.cost_usd is None else round(totals.cost_usd, 9),
        n_truncated=n_truncated,
        truncated_characters=truncated,
        completion_counts=completions.counts() if run.completion_counts else None,
        snapshots=totals.snapshots if run.snapshots else {},
        fingerprints=totals.fingerprints if run.fingerprints else {},
        refused_parameters=totals.refused_parameters if run.refused_parameters else {},
        completion_days=totals.completion_days if run.completion_days else {},
        estimates={rule: _as_before(run, estimates[rule], rule) for rule in RULES if rule in run.estimates},
        groups=columns.group_means(run.main_metric) if run.groups else {},
        jury_result=jury.result(columns) if jury else None,
    )


def _as_before(run: Run, now: dict[str, Estimate], rule: str) -> dict[str, Estimate]:
    """Return the estimates of the metrics that the run has by this rule, in its order."""
    return {name: now[name] for name in run.estimates[rule] if name in now}  # type: ignore[index]  # a rule


def _metric(run: Run, name: str) -> Metric:
    """Return a metric with its scale; one that is not known here as another harness reported it."""
    open_below = False
    if name == JURY and run.jury_result:
        low, high, open_below = run.jury_result.low, run.jury_result.high, run.jury_result.open_below
    elif known := METRICS.if_usable(name):
        return known
    else:
        values = [one.value for by_metric in run.estimates.values() if (one := by_metric.get(name))]
        low, high = min(0.0, *values, 0.0), max(1.0, *values, 1.0)
    text = "computed when the run was made"
    return Metric(
        name=name,
        title=name,
        description=text,
        source=text,
        corrected=not_computed(text),
        low=low,
        high=high,
        open_below=open_below,
    )


class _JuryCount:
    """The numbers of a jury, from stored judgments and replies."""

    def __init__(self, before: JuryResult) -> None:
        self._before = before
        self._judges = {judge.name: JudgeRecorder(judge) for judge in before.jury.judges}
        self._n_blank = self._n_too_few = self._n_signs = 0
        self._subscores: list[dict[str, float]] = []

    def add(self, record: Record) -> None:
        """Add a record with the replies behind its judgments."""
        verdict = record.jury_verdict
        judgments = verdict.judgments if verdict else ()
        for reply in record.judge_replies:
            if judge := self._judges.get(reply.judge):
                judge.totals.add(reply.completion, requests_sent=0, cached=True)
        for judgment in judgments:
            if judge := self._judges.get(judgment.judge):
                judge.expected += 1
                if judgment.failure:
                    judge.failures[judgment.failure.code] += 1
        score = next((one.value for one in record.scores if one.metric == JURY), None)
        self._n_blank += is_blank(record.completion)
        self._n_too_few += bool(judgments) and score is None
        self._n_signs += bool(record.injection_signs)
        stored = dict(verdict.subscores) if verdict else {}
        self._subscores.append(stored or _subscores(judgments, self._before.jury, self._before.form))

    def result(self, columns: RecordedScores) -> JuryResult:
        """Return the result as it is stored, without scores on tags of criteria: only `rescore` knows the tags."""
        before, found = self._before, {}
        for name in before.subscores:
            values = np.array([one.get(name, np.nan) for one in self._subscores])
            mean = estimate(values, columns.clusters, low=before.low, high=before.high, open_below=before.open_below)
            if mean is not None:
                found[name] = mean
        return replace(
            before,
            tallies={name: self._tally(name, tally) for name, tally in before.tallies.items()},
            n_blank=self._n_blank,
            n_too_few_judges=min(self._n_too_few, before.n_too_few_judges),
            n_with_injection_signs=self._n_signs,
            subscores=found,
        )

    def _tally(self, name: str, before: JudgeTally) -> JudgeTally:
        """Return the tally of a judge, with the request counts of its run."""
        if name not in self._judges:
            return before
        now = self._judges[name].tally()
        return replace(
            now,
            cost_usd=None if before.cost_usd is None else now.cost_usd,
            requests_sent=before.requests_sent,
            requests_cached=before.requests_cached,
        )


def _subscores(judgments: Iterable[Judgment], jury: Jury, form: str) -> dict[str, float]:
    """Return the mean grade on each criterion of the judges that graded all; empty if they are too few."""
    by_judge = group_by(judgments, lambda one: one.judge)
    complete = [own for own in by_judge.values() if all(one.failure is None for one in own)]
    if form != "grades" or not complete or len(complete) < jury.min_judges:
        return {}
    by_criterion = group_by((one for own in complete for one in own), lambda one: one.criterion)
    return {name: fmean(one.score or 0.0 for one in same) for name, same in by_criterion.items()}
