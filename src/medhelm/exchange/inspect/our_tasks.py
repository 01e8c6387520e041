"""Import MedHELM tasks that ran in Inspect, and score them again like completions received here.

The log contains instances, prompts and judges' completions, so judges are not needed. Data is needed only for metrics
that use more than the instance, such as a database. If the data is available, instances are read from it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from medhelm.benchmarks.data.dataset import Dataset, open_dataset
from medhelm.benchmarks.data.sampling import InstanceSelection
from medhelm.benchmarks.prompts import render
from medhelm.domain import Benchmark, Completion, Failure, Instance, JudgeReply, Jury, Model, Origin, Run
from medhelm.domain.imported_run import ImportedRun
from medhelm.errors import MissingError, UserError
from medhelm.evaluation.completion_source import CompletionSource, PendingCompletion
from medhelm.evaluation.evaluate import run_in_event_loop
from medhelm.evaluation.run_recorder import NullListener
from medhelm.evaluation.runner import EvaluationRunner
from medhelm.evaluation.settings import Settings
from medhelm.exchange.fields import model_of
from medhelm.models.client import ClientResult
from medhelm.models.jury import AT_LEAST
from medhelm.models.providers.response_fields import without_thinking
from medhelm.storage.run_file import write_run
from medhelm.storage.store import Store

_SELECTION = ("sample", "limit", "seed")
_DIGEST = re.compile(r"[0-9a-f]{64}")


def as_asked_here(one: ImportedRun, benchmark: Benchmark, data: Path | None) -> list[Instance]:
    """Return the instances in MedHELM's form, in order; none if the prompts sent differ from those of `benchmark`.

    A log has the messages that were sent; here the prompt is built from an instance, unless it is a conversation.
    `data`: the folder with one data folder per benchmark, if there is one.
    """
    at_hand = _at_hand(one, benchmark, data)
    found = []
    for instance in one.instances:
        turns = tuple(turn for turn in instance.turns if turn.role != "system") if benchmark.conversation_column else ()
        own = at_hand.get(instance.id) or replace(instance, turns=turns)
        try:
            same = render(benchmark, own).messages == instance.turns
        except UserError:
            same = False
        if not same:
            return []
        found.append(own)
    return found


def _at_hand(one: ImportedRun, benchmark: Benchmark, data: Path | None) -> dict[str, Instance]:
    """Return the instances of the data by id, if the data is available and unchanged."""
    if one.tier == "real" and data is None:
        return {}
    try:
        dataset = open_dataset(
            benchmark, data=data, tier=one.tier, **{name: one.medhelm_task[name] for name in _SELECTION}, scoring=True
        )
    except (UserError, MissingError):
        return {}
    same = dataset.digest == one.medhelm_task.get("data_digest")
    return {instance.id: instance for instance in dataset} if same else {}


def score(one: ImportedRun, benchmark: Benchmark, instances: Sequence[Instance], store: Store) -> Run:
    """Score the completions of `instances` again and store them as a run; `one` is the log's run.

    Raises: StoreError; UserError if the log has no completion.
    """
    logged = _LoggedCompletions(one)
    chosen = one.medhelm_task
    runner = EvaluationRunner(
        [_dataset(one, benchmark, instances)],
        [model_of(one.model)],
        store,
        Settings(tier=one.tier, sample=chosen["sample"], limit=chosen["limit"], seed=chosen["seed"], offline=True),
        {},
        NullListener(),
        _jury(one),
        logged,
    )
    (run,) = run_in_event_loop(runner).runs
    if run.folder is None:
        raise UserError("it has no completion.")
    run = replace(run, started=one.started or run.started, seconds=0.0)
    write_run(run.folder or store.folder, run)
    return run


def _jury(one: ImportedRun) -> Jury | None:
    """Return the judges of the log, and the minimum of judges per instance."""
    judges = tuple(one.judges)
    if not judges:
        return None
    needed = one.medhelm_task.get("min_judges") or AT_LEAST
    return Jury(judges=judges, min_judges=min(needed, len(judges)))


def _dataset(one: ImportedRun, benchmark: Benchmark, instances: Sequence[Instance]) -> Dataset:
    """Return the instances as a data set; an interrupted log has fewer than expected."""
    n = max(one.n_expected or 0, len(instances))
    return Dataset(
        benchmark=benchmark,
        tier=one.tier,
        digest=_digest(one, n),
        selection=InstanceSelection(n_total=n, n=n),
        n_skipped=0,
        read=lambda: iter(instances),
        instances=instances,
    )


def _digest(one: ImportedRun, n: int) -> str:
    """Return the data's hash from the log, or a different one if Inspect ran only part of the selection."""
    stated = str(one.medhelm_task.get("data_digest"))
    if _DIGEST.fullmatch(stated) and n == one.medhelm_task.get("n"):
        return stated
    return hashlib.sha256(json.dumps([stated, [instance.id for instance in one.instances], n]).encode()).hexdigest()


class _LoggedCompletions(CompletionSource):
    """A source of completions that reads a log of Inspect."""

    def __init__(self, one: ImportedRun) -> None:
        self._run = one
        self.judges = [judge.name for judge in one.judges]
        self.has_codes = all(reply.verification_code for replies in one.replies.values() for reply in replies)

    def origin(self, model: Model, dataset: Dataset) -> Origin | None:  # noqa: ARG002
        """Return the log."""
        return replace(self._run.origin, is_medhelm_task=True)

    def settings(self, model: Model, dataset: Dataset) -> Mapping[str, Any]:  # noqa: ARG002
        """Return the settings in the log; its name distinguishes runs of the same model."""
        one = self._run
        return {
            **{name: one.medhelm_task.get(name) for name in _SELECTION},
            "max_tokens": one.max_tokens or None,
            "temperature": one.temperature,
            "imported": f"{one.origin.harness}:{one.origin.run}",
            "deployment": one.deployment,
        }

    def completions(self, model: Model, dataset: Dataset) -> Iterator[PendingCompletion]:  # noqa: ARG002
        """Yield the completions of the log."""
        for position, instance in enumerate(dataset):
            yield PendingCompletion(position, instance, partial(self._complete, instance.id))

    async def _complete(self, instance_id: str) -> ClientResult:
        """Return the completion in the log, without the model's hidden reasoning; a failure if it has none."""
        found = self._run.completions.get(instance_id)
        if found is None:
            found = Completion(failure=Failure("provider", "not_stored", f"the log has no instance {instance_id}"))
        elif found.text is not None:
            found = replace(found, text=without_thinking(found.text))
        return ClientResult(found, False, 0, 0.0)

    def judge_completions(self, model: str, benchmark: str, instance_id: str) -> list[JudgeReply]:  # noqa: ARG002
        """Return the judges' completions in the log."""
        return list(self._run.replies.get(instance_id, ()))
