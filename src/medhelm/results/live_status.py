"""Evaluations in progress: totals, time left, and the command that resumes one.

An evaluation is known by the status file that its process writes about once a second (see `storage.live_status`).
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from medhelm.analysis.cost.sums import sum_costs
from medhelm.domain.grouping import group_by
from medhelm.reports.formats.json_output import select
from medhelm.storage.live_status import (
    SERVER,
    EvaluationStatus,
    KnownEvaluation,
    RunProgress,
    ask_to_stop,
    forget,
    known_evaluations,
)
from medhelm.storage.store import open_store

SILENT_S = 20.0
"""Seconds without a new status after which a living process counts as silent."""

EvaluationPhase = Literal["running", "stopping", "stopped", "lost"]
"""`lost`: its process no longer exists, and it did not say how it ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressTotals:
    """Counts over some runs of an evaluation."""

    n: int
    """Instances."""
    done: int
    """Instances with a record."""
    failed: int
    """Of these, instances without a completion."""
    failures: Mapping[str, int]
    """Failure code -> instances, most frequent first."""
    cached: int
    """Completions that were in the cache."""
    judgments_missing: int
    """Judgments that failed."""
    tokens: int
    """Tokens of all completions, input and output."""
    cost_usd: float | None
    """Cost of all completions, whenever they were bought; None if that of a run is unknown."""
    rate_per_s: float | None
    """Records per second; None if nothing is running."""
    seconds_left: float | None
    """Seconds until all is done at this rate; None if it is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelProgress:
    """The runs of one model in an evaluation."""

    model: str
    """Name of the model."""
    totals: ProgressTotals
    """Counts over its runs."""
    runs: Sequence[RunProgress]
    """Its runs, in the order of the command."""
    is_unusable: bool
    """True if the model cannot be used."""

    @property
    def is_done(self) -> bool:
        """Return True if all its runs are complete."""
        return all(run.state == "ended" and run.done == run.n for run in self.runs)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationProgress:
    """An evaluation with its totals."""

    store: Path
    """Folder of its store."""
    status: EvaluationStatus
    """Its last status."""
    phase: EvaluationPhase
    """Its state, as far as its process and its status show it."""
    elapsed_s: float
    """Seconds from its start to now, or to its last status if it ended."""
    is_silent: bool
    """True if its process exists, but has written no status for `SILENT_S`: it is suspended, or its disk is full."""
    totals: ProgressTotals
    """Counts over all its runs."""
    models: Sequence[ModelProgress]
    """Its models, in the order of the command."""
    command: str
    """Commands that resume it, quoted for a POSIX shell; "" if they are not known or hold control characters."""


def evaluations(stores: Sequence[Path], now: datetime | None = None) -> list[EvaluationProgress]:
    """Return the evaluations of these stores that are running or ended early: running ones first, then the latest.

    Raises: StoreError for a folder that is not a store.
    """
    now = now or datetime.now(UTC)
    found = [_progress(store, known, now) for store in stores for known in known_evaluations(open_store(store))]
    return sorted(found, key=lambda one: one.phase not in ("running", "stopping"))


def stop(stores: Sequence[Path], evaluation: str) -> bool:
    """Ask an evaluation to stop, as Ctrl-C in its terminal does; return False if none of this name is running.

    Raises: StoreError if the request cannot be written.
    """
    return any(ask_to_stop(open_store(store), evaluation) for store in stores)


def remove(stores: Sequence[Path], evaluation: str) -> bool:
    """Remove the status of an evaluation that ended; return False if there is none. Raises: StoreError."""
    return any(forget(open_store(store), evaluation) for store in stores)


def as_json(found: Sequence[EvaluationProgress], names: Mapping[str, str]) -> dict[str, Any]:
    """Return the evaluations as JSON. `names`: name of a model or judge -> the name to show."""
    return {"evaluations": [_evaluation_json(one, names) for one in found]}


def _progress(store: Path, known: KnownEvaluation, now: datetime) -> EvaluationProgress:
    status = known.status
    models = [
        ModelProgress(
            model=model,
            totals=progress_totals(runs, is_running=known.is_alive),
            runs=runs,
            is_unusable=any(run.is_unusable for run in runs),
        )
        for model, runs in group_by(status.runs, lambda run: run.model).items()
    ]
    left = [one.totals.seconds_left for one in models if not one.is_unusable]
    updated = _time(status.updated, now)
    until = now if known.is_alive else updated
    return EvaluationProgress(
        store=store,
        status=status,
        phase=_phase(known),
        elapsed_s=max(0.0, (until - _time(status.started, now)).total_seconds()),
        is_silent=known.is_alive and (now - updated).total_seconds() > SILENT_S,
        totals=progress_totals(status.runs, is_running=known.is_alive, models_left=left),
        models=models,
        command=_command(status),
    )


def _phase(known: KnownEvaluation) -> EvaluationPhase:
    if not known.is_alive:
        return "stopped" if known.status.state == "ended" else "lost"
    return "running" if known.status.state == "running" and not known.is_asked_to_stop else "stopping"


def progress_totals(
    runs: Sequence[RunProgress], *, is_running: bool, models_left: Sequence[float | None] | None = None
) -> ProgressTotals:
    """Return the totals of some runs.

    Parameters: is_running, False if nothing more will come; models_left, seconds left of each model, which run side by
    side; without it the runs are those of one model, one after another.
    """
    failures = Counter[str]()
    for run in runs:
        failures.update(run.failures)
    n, done = sum(run.n for run in runs), sum(run.done for run in runs)
    rates = [run.rate_per_s for run in runs if run.state == "running" and run.rate_per_s is not None]
    rate = sum(rates) if is_running and rates else None
    if models_left is None:
        remaining = sum(run.n - run.done for run in runs if run.state != "ended")
        left = remaining / rate if rate else 0.0 if not remaining else None
    else:
        certain = [seconds for seconds in models_left if seconds is not None]
        left = max(certain, default=0.0) if len(certain) == len(models_left) else None
    return ProgressTotals(
        n=n,
        done=done,
        failed=sum(run.failed for run in runs),
        failures=dict(sorted(failures.items(), key=lambda pair: (-pair[1], pair[0]))),
        cached=sum(run.cached for run in runs),
        judgments_missing=sum(judge.missing for run in runs for judge in run.judges),
        tokens=sum(run.input_tokens + run.output_tokens for run in runs),
        cost_usd=sum_costs(run.cost_usd for run in runs if run.state != "waiting").usd,
        rate_per_s=rate,
        seconds_left=left if is_running else None,
    )


def _command(status: EvaluationStatus) -> str:
    """Return the command as text. Control characters could do something else in a terminal than they show."""
    if not status.command:
        return ""
    text = f"cd {shlex.quote(status.folder)} && {shlex.join(('medhelm', *status.command))}"
    return text if text.isprintable() else ""


def _time(text: str, default: datetime) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return default
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _evaluation_json(one: EvaluationProgress, names: Mapping[str, str]) -> dict[str, Any]:
    status = one.status
    return {
        "id": status.id,
        "store": one.store.resolve().name,
        "state": one.phase,
        **select(status, "reason pid host command folder started updated"),
        "silent": one.is_silent,
        "seconds": round(one.elapsed_s, 3),
        **select(one.totals, "seconds_left n done n_failed=failed"),
        **select(status, "spent_usd max_cost_usd"),
        "runs": [_run_json(run, names) for model in one.models for run in model.runs],
        "servers": [
            {**SERVER.write(server), "model": names.get(server.model, server.model)} for server in status.servers
        ],
    }


def _run_json(run: RunProgress, names: Mapping[str, str]) -> dict[str, Any]:
    return {
        "model": names.get(run.model, run.model),
        **select(run, "benchmark state n done n_failed=failed failures requests_cached=cached"),
        "tokens": {"input": run.input_tokens, "output": run.output_tokens},
        **select(run, "cost_usd rate_per_s unusable=is_unusable"),
        "judges": {
            names.get(one.judge, one.judge): {"expected": one.expected, "failed": one.missing} for one in run.judges
        },
    }
