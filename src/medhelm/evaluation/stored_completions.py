"""Runs that are there already, in the place of models and judges: for new numbers from what was answered before."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from medhelm.domain import JURY, Completion, Instance, JudgeReply, Jury, Origin, Parts, Request, Run, Score
from medhelm.errors import ProviderError
from medhelm.evaluation.run_recorder import RunRecorder
from medhelm.models.client import ClientResult
from medhelm.scoring.metric import Metric, group_parts
from medhelm.scoring.metrics import METRIC_NAMES
from medhelm.storage.judgments import completion_of, read_replies
from medhelm.storage.runs import parts_column, read_columns, read_records, score_column

_Content = TypeVar("_Content")


class StoredCompletions:
    """A provider that answers with stored completions, and the judges' stored replies."""

    local = True

    def __init__(self, runs: Sequence[Run], judges: Collection[str]) -> None:
        """`runs`: one for each model and benchmark. `judges`: names of those whose stored replies are kept."""
        self.judges = judges
        self.endpoint = "stored"
        self._runs = {(run.model, run.benchmark): run for run in runs}
        self._completions: dict[tuple[str, str], dict[str, Completion]] = {}
        self._shortened: dict[tuple[str, str], dict[str, tuple[bytes, int]]] = {}
        self._scores: dict[tuple[str, str], dict[str, dict[str, _Stored]]] = {}
        self._replies: dict[tuple[str, str], dict[tuple[str, str], list[JudgeReply]]] = {}

    def has(self, model: str, benchmark: str) -> bool:
        """Whether there is such a run."""
        return (model, benchmark) in self._runs

    async def complete(self, request: Request) -> Completion:
        """The stored completion. Raises: ProviderError if the run does not have it."""
        instance_id = request.instance.id if request.instance else ""
        key = (request.model.name, request.benchmark)
        known = _recent(self._completions, key, lambda: _completions(self._runs[key]))
        if instance_id not in known:
            raise ProviderError("not_stored", f"the run of {key[0]} on {key[1]} has no instance {instance_id}")
        return known[instance_id]

    def as_sent(self, request: Request, reply: ClientResult) -> ClientResult:
        """The reply with what was left out of its prompt then; its digest is that of the prompt as it was sent."""
        key = (request.model.name, request.benchmark)
        if key not in self._runs:  # as with answers that are read from elsewhere
            return reply
        shortened = _recent(self._shortened, key, lambda: _shortened(self._runs[key]))
        digest, left_out = shortened.get(request.instance.id if request.instance else "", (reply.digest, 0))
        return replace(reply, digest=digest, left_out=left_out)

    def origin(self, model: str, benchmark: str) -> Origin | None:
        """Where the run, or what it was asked, was read; None for one of our own."""
        return self._runs[model, benchmark].origin

    def settings(self, model: str, benchmark: str) -> Mapping[str, Any]:
        """How the run was asked."""
        return self._runs[model, benchmark].settings

    def fitted(self, model: str, benchmark: str, metrics: Sequence[Metric]) -> list[Metric]:
        """Metrics with scales that hold what another harness gave, where only that harness knows the scale."""
        known = self._published(model, benchmark)
        found = []
        for metric in metrics:
            values = [own[metric.name].value for own in known.values() if metric.name in own]
            if values and metric.name not in METRIC_NAMES:
                metric = replace(metric, low=min(0.0, *values, 0.0), high=max(1.0, *values, 1.0))
            found.append(metric)
        return found

    def with_published(
        self, run: RunRecorder, instance: Instance, scores: Iterable[Score], jury: Jury | None
    ) -> tuple[Score, ...]:
        """Scores of which those by the published rule are the other harness's own, where the run comes from one.

        The jury's is kept as long as the judges are the same.
        """
        own = self._published(run.model.name, run.benchmark.name).get(instance.id)
        if own is None:
            return tuple(scores)
        before = self._runs[run.model.name, run.benchmark.name].jury_result
        same_jury = before is not None and jury is not None and before.jury.judges == jury.judges
        return tuple(
            _published_score(run, instance, score, own[score.metric])
            if score.rule == "published" and score.metric in own and (score.metric != JURY or same_jury)
            else score
            for score in scores
        )

    def _published(self, model: str, benchmark: str) -> dict[str, dict[str, _Stored]]:
        """Instance -> metric -> score of the other harness; empty for runs whose completions were made here."""
        run = self._runs[model, benchmark]
        if run.origin is None or run.origin.completions_made_here or run.origin.is_medhelm_task:
            return {}
        return _recent(self._scores, (model, benchmark), lambda: _scores(run))

    def replies(self, model: str, benchmark: str, instance_id: str) -> list[JudgeReply]:
        """What the judges that are kept said of a completion."""
        key = (model, benchmark)
        known = _recent(self._replies, key, lambda: read_replies(self._runs[key]))
        return [reply for judge in self.judges for reply in known.get((instance_id, judge), [])]


def _completions(run: Run) -> dict[str, Completion]:
    return {row["instance_id"]: completion_of(row, row["completion"]) for row in read_records(run)}


def _shortened(run: Run) -> dict[str, tuple[bytes, int]]:
    """Instance whose prompt was shortened -> digest of what was sent, and how many characters it had lost."""
    if not run.n_truncated:
        return {}
    columns = read_columns(run, ["instance_id", "request_digest", "left_out"])
    return {
        id_: (bytes.fromhex(digest or ""), left_out)
        for id_, digest, left_out in zip(*columns.values(), strict=True)
        if left_out
    }


class _Stored(NamedTuple):
    """A score as it is stored."""

    value: float
    parts: Parts
    """What it contributes to a number that is no mean; empty if that is not stored."""


def _scores(run: Run) -> dict[str, dict[str, _Stored]]:
    columns = {
        metric: (score_column(metric, "published"), parts_column(metric, "published"))
        for metric in run.estimates["published"]
    }
    return {
        row["instance_id"]: {
            metric: _Stored(row[value], json.loads(row.get(parts) or "{}"))
            for metric, (value, parts) in columns.items()
            if row.get(value) is not None
        }
        for row in read_records(run)
    }


def _published_score(run: RunRecorder, instance: Instance, score: Score, stored: _Stored) -> Score:
    """The score as the other harness gave it; where the run's number is no mean of scores, as a mean it took."""
    parts = stored.parts or group_parts(instance, "published", stored.value)
    if not parts and run.is_pooled(score.metric, "published"):
        parts = {"": (stored.value, 1.0)}
    return Score(metric=score.metric, rule="published", value=stored.value, parts=parts)


def _recent(known: dict[tuple[str, str], _Content], key: tuple[str, str], read: Callable[[], _Content]) -> _Content:
    """The content of a run. Models go through benchmarks one by one, so those before the last two can be forgotten."""
    if key not in known:
        for old in [other for other in known if other[0] == key[0]][:-1]:
            del known[old]
        known[key] = read()
    return known[key]
