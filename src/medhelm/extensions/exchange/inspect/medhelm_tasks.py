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
from medhelm.benchmarks.data.sampling import InstanceSelection, SampleOptions
from medhelm.benchmarks.prompts import render
from medhelm.domain import Benchmark, Completion, Failure, Instance, JudgeReply, Jury, Model, Origin, Run
from medhelm.domain.completion import strip_reasoning
from medhelm.domain.jury import AT_LEAST
from medhelm.errors import MissingError, UserError
from medhelm.evaluation.completion_source import CompletionSource, PendingCompletion
from medhelm.evaluation.evaluate import run_in_event_loop
from medhelm.evaluation.recorder import NullListener
from medhelm.evaluation.runner import EvaluationRunner
from medhelm.evaluation.settings import Settings
from medhelm.extensions.exchange.fields import model_of
from medhelm.extensions.exchange.importer import ImportedRun
from medhelm.models.client import ClientResult
from medhelm.storage.store import Store, write_run

_SELECTION = ("sample", "limit", "seed")
_DIGEST = re.compile(r"[0-9a-f]{64}")


def instances_with_our_prompts(log: ImportedRun, benchmark: Benchmark, data: Path | None) -> list[Instance]:
    """Return the instances in MedHELM's form, in order; none if the prompts sent differ from those of `benchmark`.

    A log has the messages that were sent; here the prompt is built from an instance, unless it is a conversation.
    `data`: the folder with one data folder per benchmark, if there is one.
    """
    of_data = _instances_of_data(log, benchmark, data)
    found = []
    for instance in log.instances:
        turns = tuple(turn for turn in instance.turns if turn.role != "system") if benchmark.conversation_column else ()
        own = of_data.get(instance.id) or replace(instance, turns=turns)
        try:
            same = render(benchmark, own).messages == instance.turns
        except UserError:
            same = False
        if not same:
            return []
        found.append(own)
    return found


def _instances_of_data(log: ImportedRun, benchmark: Benchmark, data: Path | None) -> dict[str, Instance]:
    """Return the instances of the data by id, if the data is available and unchanged."""
    if log.tier == "real" and data is None:
        return {}
    try:
        options = SampleOptions(**{name: log.medhelm_task[name] for name in _SELECTION})
        dataset = open_dataset(benchmark, data=data, tier=log.tier, options=options, scoring=True)
    except (UserError, MissingError):
        return {}
    same = dataset.digest == log.medhelm_task.get("data_digest")
    return {instance.id: instance for instance in dataset} if same else {}


def score_again(log: ImportedRun, benchmark: Benchmark, instances: Sequence[Instance], store: Store) -> Run:
    """Score the completions of `instances` in a log again, and store them as a run.

    Raises: StoreError; UserError if the log has no completion.
    """
    logged = _LoggedCompletions(log)
    chosen = log.medhelm_task
    runner = EvaluationRunner(
        [_dataset(log, benchmark, instances)],
        [model_of(log.model)],
        store,
        Settings(tier=log.tier, sample=chosen["sample"], limit=chosen["limit"], seed=chosen["seed"], offline=True),
        {},
        NullListener(),
        _jury(log),
        logged,
    )
    (run,) = run_in_event_loop(runner).runs
    if (folder := run.folder) is None:
        raise UserError("it has no completion.")
    run = replace(run, started=log.started or run.started, seconds=0.0)
    write_run(folder, run)
    return run


def _jury(log: ImportedRun) -> Jury | None:
    """Return the judges of the log, and the minimum of judges per instance."""
    judges = tuple(log.judges)
    if not judges:
        return None
    needed = log.medhelm_task.get("min_judges") or AT_LEAST
    return Jury(judges=judges, min_judges=min(needed, len(judges)))


def _dataset(log: ImportedRun, benchmark: Benchmark, instances: Sequence[Instance]) -> Dataset:
    """Return the instances as a data set; an interrupted log has fewer than expected."""
    n = max(log.n_expected or 0, len(instances))
    return Dataset(
        benchmark=benchmark,
        tier=log.tier,
        digest=_digest(log, n),
        selection=InstanceSelection(n_total=n, n=n),
        read=lambda: iter(instances),
        instances=instances,
    )


def _digest(log: ImportedRun, n: int) -> str:
    """Return the data's hash from the log, or a different one if Inspect ran only part of the selection."""
    stated = str(log.medhelm_task.get("data_digest"))
    if _DIGEST.fullmatch(stated) and n == log.medhelm_task.get("n"):
        return stated
    return hashlib.sha256(json.dumps([stated, [instance.id for instance in log.instances], n]).encode()).hexdigest()


class _LoggedCompletions(CompletionSource):
    """A source of completions that reads a log of Inspect."""

    def __init__(self, log: ImportedRun) -> None:
        self._log = log
        self.judges = [judge.name for judge in log.judges]
        self.has_codes = all(reply.verification_code for replies in log.replies.values() for reply in replies)

    def origin(self, model: Model, dataset: Dataset) -> Origin | None:  # noqa: ARG002
        """Return the log."""
        return replace(self._log.origin, is_medhelm_task=True)

    def settings(self, model: Model, dataset: Dataset) -> Mapping[str, Any]:  # noqa: ARG002
        """Return the settings in the log; its name distinguishes runs of the same model."""
        log = self._log
        return {
            **{name: log.medhelm_task.get(name) for name in _SELECTION},
            "max_tokens": log.max_tokens or None,
            "temperature": log.temperature,
            "imported": f"{log.origin.harness}:{log.origin.run}",
            "deployment": log.deployment,
        }

    def completions(self, model: Model, dataset: Dataset) -> Iterator[PendingCompletion]:  # noqa: ARG002
        """Yield the completions of the log."""
        for position, instance in enumerate(dataset):
            yield PendingCompletion(position, instance, partial(self._complete, instance.id))

    async def _complete(self, instance_id: str) -> ClientResult:
        """Return the completion in the log, without the model's hidden reasoning; a failure if it has none."""
        found = self._log.completions.get(instance_id)
        if found is None:
            found = Completion(failure=Failure("provider", "not_stored", f"the log has no instance {instance_id}"))
        elif found.text is not None:
            found = replace(found, text=strip_reasoning(found.text))
        return ClientResult(found, False, 0, 0.0)

    def judge_completions(self, model: str, benchmark: str, instance_id: str) -> list[JudgeReply]:  # noqa: ARG002
        """Return the judges' completions in the log."""
        return list(self._log.replies.get(instance_id, ()))
