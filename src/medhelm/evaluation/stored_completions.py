"""Completions, scores and judges' completions of stored runs, to be scored again without any request to the model."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

from medhelm.benchmarks.data.dataset import Dataset
from medhelm.domain import JURY, Completion, Failure, Instance, JudgeReply, Model, Origin, Parts, Run, Score
from medhelm.evaluation.completion_source import CompletionSource, PendingCompletion
from medhelm.evaluation.run_recorder import RunRecorder
from medhelm.models.client import ClientResult
from medhelm.scoring.metric import Metric, group_parts
from medhelm.scoring.metrics import METRIC_NAMES
from medhelm.storage.judgments import completion_of, read_replies
from medhelm.storage.runs import parts_column, read_records, score_column

_Content = TypeVar("_Content")


class StoredCompletions(CompletionSource):
    """A source of completions that reads stored runs, with those judges' completions that are kept."""

    def __init__(self, runs: Sequence[Run], judges: Collection[str]) -> None:
        """`runs`: one for each model and benchmark. `judges`: names of the judges whose completions are kept."""
        self.judges = judges
        self.has_codes = all(run.jury_result.jury.has_codes for run in runs if run.jury_result)
        self._runs = {(run.model, run.benchmark): run for run in runs}
        self._completions: dict[tuple[str, str], dict[str, ClientResult]] = {}
        self._scores: dict[tuple[str, str], dict[str, dict[str, _StoredScore]]] = {}
        self._replies: dict[tuple[str, str], dict[tuple[str, str], list[JudgeReply]]] = {}

    def has_run(self, model: Model, dataset: Dataset) -> bool:
        """Return whether there is a run of the model on the benchmark."""
        return (model.name, dataset.benchmark.name) in self._runs

    def origin(self, model: Model, dataset: Dataset) -> Origin | None:
        """Return the harness that the run or its prompts come from; None if that is this one."""
        return self._run(model, dataset).origin

    def settings(self, model: Model, dataset: Dataset) -> Mapping[str, Any]:
        """Return the settings of the run; one whose judges are all asked again, now with codes, does not replace it."""
        run = self._run(model, dataset)
        if self.judges or not run.jury_result or run.jury_result.jury.has_codes or run.origin:
            return run.settings
        return {**run.settings, "has_codes": True}

    def metrics(self, model: Model, dataset: Dataset, *, judged: bool) -> Sequence[Metric]:
        """Return the metrics of the benchmark; a scale that only another harness knows is that of its scores."""
        found = []
        known = self._published(self._run(model, dataset))
        for metric in super().metrics(model, dataset, judged=judged):
            values = [scores[metric.name].value for scores in known.values() if metric.name in scores]
            if values and metric.name not in METRIC_NAMES:
                metric = replace(metric, low=min(0.0, *values, 0.0), high=max(1.0, *values, 1.0))
            found.append(metric)
        return found

    def completions(self, model: Model, dataset: Dataset) -> Iterator[PendingCompletion]:
        """Yield the stored completions; a failure where the run does not have the instance."""
        for position, instance in enumerate(dataset):
            yield PendingCompletion(position, instance, partial(self._complete, model, dataset, instance))

    async def _complete(self, model: Model, dataset: Dataset, instance: Instance) -> ClientResult:
        run = self._run(model, dataset)
        known = _recent(self._completions, (run.model, run.benchmark), lambda: _completions(run, model))
        if instance.id in known:
            return known[instance.id]
        missing = Failure(
            "provider", "not_stored", f"the run of {run.model} on {run.benchmark} has no instance {instance.id}"
        )
        return ClientResult(Completion(failure=missing), bool(model.base_url), 0, 0.0)

    def judge_completions(self, model: str, benchmark: str, instance_id: str) -> list[JudgeReply]:
        """Return the stored completions of the judges that are kept."""
        key = (model, benchmark)
        known = _recent(self._replies, key, lambda: read_replies(self._runs[key]))
        return [reply for judge in self.judges for reply in known.get((instance_id, judge), [])]

    def final_scores(self, recorder: RunRecorder, instance: Instance, scores: Sequence[Score]) -> Sequence[Score]:
        """Return the scores, with those of the harness that the run comes from under the published rule.

        The score of its jury is used as long as the judges are the same.
        """
        run = self._run(recorder.model, recorder.dataset)
        own = self._published(run).get(instance.id)
        if own is None:
            return scores
        before, now = run.jury_result, recorder.jury
        same_jury = before is not None and now is not None and before.jury.judges == now.jury.judges
        return tuple(
            _published_score(recorder, instance, score, own[score.metric])
            if score.rule == "published" and score.metric in own and (score.metric != JURY or same_jury)
            else score
            for score in scores
        )

    def _run(self, model: Model, dataset: Dataset) -> Run:
        return self._runs[model.name, dataset.benchmark.name]

    def _published(self, run: Run) -> dict[str, dict[str, _StoredScore]]:
        """Return instance -> metric -> score of the other harness; empty if the completions were made here."""
        if run.origin is None or run.origin.completions_made_here or run.origin.is_medhelm_task:
            return {}
        return _recent(self._scores, (run.model, run.benchmark), lambda: _scores(run))


def _completions(run: Run, model: Model) -> dict[str, ClientResult]:
    """Return instance -> its completion, with the digest of its request and the characters cut from its prompt."""
    return {
        row["instance_id"]: ClientResult(
            completion_of(row, row["completion"]),
            bool(model.base_url),
            0,
            0.0,
            bytes.fromhex(row["request_digest"] or ""),
            row.get("left_out") or 0,
        )
        for row in read_records(run)
    }


class _StoredScore(NamedTuple):
    """A score as it is stored."""

    value: float
    parts: Parts
    """Its contribution to a run's number that is not a mean; empty if that is not stored."""


def _scores(run: Run) -> dict[str, dict[str, _StoredScore]]:
    """Return instance -> metric -> its score under the published rule."""
    columns = {
        metric: (score_column(metric, "published"), parts_column(metric, "published"))
        for metric in run.estimates["published"]
    }
    return {
        row["instance_id"]: {
            metric: _StoredScore(row[value], json.loads(row.get(parts) or "{}"))
            for metric, (value, parts) in columns.items()
            if row.get(value) is not None
        }
        for row in read_records(run)
    }


def _published_score(recorder: RunRecorder, instance: Instance, score: Score, stored: _StoredScore) -> Score:
    """Return the score of the other harness; if the run's number is not a mean over instances, as one part of it."""
    parts = stored.parts or group_parts(instance, "published", stored.value)
    if not parts and recorder.is_pooled(score.metric, "published"):
        parts = {"": (stored.value, 1.0)}
    return Score(metric=score.metric, rule="published", value=stored.value, parts=parts)


def _recent(known: dict[tuple[str, str], _Content], key: tuple[str, str], read: Callable[[], _Content]) -> _Content:
    """Return the content of a run, and forget all but the last two of its model, which goes through them in turn."""
    if key not in known:
        for old in [other for other in known if other[0] == key[0]][:-1]:
            del known[old]
        known[key] = read()
    return known[key]
