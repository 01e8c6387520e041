"""Benchmarks of ours that Inspect asked, as runs of ours: scored here anew, as if the completions had come in here.

Instances, prompts and judges' replies stand in the log, so judges are not needed, and data only for metrics that need
more than an instance, such as a database. Where the data is at hand, the instances are taken from it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from medhelm.benchmarks.data.dataset import Dataset, open_dataset
from medhelm.benchmarks.data.sampling import InstanceSelection
from medhelm.benchmarks.prompts import render
from medhelm.domain import (
    Benchmark,
    Completion,
    ImportedRun,
    Instance,
    JudgeReply,
    Jury,
    Origin,
    Request,
    Run,
    Score,
)
from medhelm.errors import MissingError, ProviderError, UserError
from medhelm.evaluation.evaluate import run_in_event_loop
from medhelm.evaluation.run_recorder import NullListener, RunRecorder
from medhelm.evaluation.runner import EvaluationRunner
from medhelm.evaluation.settings import Settings
from medhelm.evaluation.stored_completions import StoredCompletions
from medhelm.exchange.run_folder import model_of
from medhelm.models.jury_file import AT_LEAST
from medhelm.models.providers.openai_wire import without_thinking
from medhelm.scoring.metric import Metric
from medhelm.storage.run_file import write_run
from medhelm.storage.store import Store

_SELECTION = ("sample", "limit", "seed")
_DIGEST = re.compile(r"[0-9a-f]{64}")


def as_asked_here(one: ImportedRun, benchmark: Benchmark, data: Path | None) -> list[Instance]:
    """The instances as they are here, in order; none if the prompts that were sent are no longer those of `benchmark`.

    A log has the messages that were sent; here the prompt is made of an instance, unless it continues a conversation.
    `data`: the folder with one folder of data per benchmark, if there is one.
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
    """Id -> instance of the data, if it is here and the same as then."""
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
    """Score what was asked of `instances`, and store it as a run; `one`: the log it stands in.

    Raises: StoreError; UserError if there is nothing to store, because no question was answered.
    """
    logged = _Logged(one)
    chosen = one.medhelm_task
    road = EvaluationRunner(
        [_dataset(one, benchmark, instances)],
        [model_of(one.model)],
        store,
        Settings(tier=one.tier, sample=chosen["sample"], limit=chosen["limit"], seed=chosen["seed"], offline=True),
        {},
        NullListener(),
        _jury(one),
        logged,
    )
    (run,) = run_in_event_loop(road).runs
    if run.folder is None:
        raise UserError("no question was answered.")
    run = replace(run, started=one.started or run.started, seconds=0.0)
    write_run(run.folder or store.folder, run)
    return run


def _jury(one: ImportedRun) -> Jury | None:
    """The judges of the log, and how many an instance needs."""
    judges = tuple(one.judges)
    if not judges:
        return None
    needed = one.medhelm_task.get("min_judges") or AT_LEAST
    return Jury(judges=judges, min_judges=min(needed, len(judges)))


def _dataset(one: ImportedRun, benchmark: Benchmark, instances: Sequence[Instance]) -> Dataset:
    """The instances as a data set; a log that was stopped has fewer than should be there."""
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
    """Hash of the data, as the log has it; another one if Inspect itself left out a part of it."""
    stated = str(one.medhelm_task.get("data_digest"))
    if _DIGEST.fullmatch(stated) and n == one.medhelm_task.get("n"):
        return stated
    return hashlib.sha256(json.dumps([stated, [instance.id for instance in one.instances], n]).encode()).hexdigest()


class _Logged(StoredCompletions):
    """A log in the place of models and judges."""

    def __init__(self, one: ImportedRun) -> None:
        super().__init__([], [judge.name for judge in one.judges])
        self._one = one

    def has(self, model: str, benchmark: str) -> bool:  # noqa: ARG002
        """There is nothing else in it."""
        return True

    async def complete(self, request: Request) -> Completion:
        """The completion in the log, without what the model thought. Raises: ProviderError if it has none."""
        instance_id = request.instance.id if request.instance else ""
        found = self._one.completions.get(instance_id)
        if found is None:
            raise ProviderError("not_stored", f"the log has no instance {instance_id}")
        return found if found.text is None else replace(found, text=without_thinking(found.text))

    def origin(self, model: str, benchmark: str) -> Origin | None:  # noqa: ARG002
        """The log."""
        return replace(self._one.origin, is_medhelm_task=True)

    def settings(self, model: str, benchmark: str) -> Mapping[str, Any]:  # noqa: ARG002
        """How the log says it was asked. The log's name keeps runs of the same model apart."""
        one = self._one
        return {
            **{name: one.medhelm_task.get(name) for name in _SELECTION},
            "max_tokens": one.max_tokens or None,
            "temperature": one.temperature,
            "imported": f"{one.origin.harness}:{one.origin.run}",
            "deployment": one.deployment,
        }

    def fitted(self, model: str, benchmark: str, metrics: Sequence[Metric]) -> list[Metric]:  # noqa: ARG002
        """The metrics of the benchmark as they are."""
        return list(metrics)

    def with_published(
        self,
        run: RunRecorder,  # noqa: ARG002
        instance: Instance,  # noqa: ARG002
        scores: Iterable[Score],
        jury: Jury | None,  # noqa: ARG002
    ) -> tuple[Score, ...]:
        """Both rules are computed here."""
        return tuple(scores)

    def replies(self, model: str, benchmark: str, instance_id: str) -> list[JudgeReply]:  # noqa: ARG002
        """What the judges said of a completion."""
        return list(self._one.replies.get(instance_id, ()))
