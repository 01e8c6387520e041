"""Evaluations in progress: totals, time left, and the command that resumes one.

An evaluation is known by the status file that its process writes about once a second (see `storage.live_status`).
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from medhelm.analysis.cost import sum_costs
from medhelm.domain.benchmark import group_by
from medhelm.results.formats.fields import plain_json, select
from medhelm.storage.live_status import (
    EvaluationStatus,
    JudgeProgress,
    KnownEvaluation,
    RunProgress,
    TokenCounts,
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
class ModelProgress:
    """The runs of one model in an evaluation."""

    model: str
    """Name of the model."""
    totals: RunProgress
    """Sum of its runs."""
    runs: Sequence[RunProgress]
    """Its runs, in the order of the command."""
    seconds_left: float | None
    """Seconds until all is done at this rate; None if it is unknown."""

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
    totals: RunProgress
    """Sum of all its runs."""
    seconds_left: float | None
    """Seconds until all is done; None if it is unknown."""
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
    status, is_alive = known.status, known.is_alive
    models = [
        ModelProgress(
            model=model,
            totals=total_progress(runs, is_running=is_alive),
            runs=runs,
            seconds_left=seconds_left(runs) if is_alive else None,
        )
        for model, runs in group_by(status.runs, lambda run: run.model).items()
    ]
    left = [one.seconds_left for one in models if not one.totals.unusable]
    certain = [seconds for seconds in left if seconds is not None]
    updated = _time(status.updated, now)
    until = now if is_alive else updated
    return EvaluationProgress(
        store=store,
        status=status,
        phase=_phase(known),
        elapsed_s=max(0.0, (until - _time(status.started, now)).total_seconds()),
        is_silent=is_alive and (now - updated).total_seconds() > SILENT_S,
        totals=total_progress(status.runs, is_running=is_alive),
        seconds_left=max(certain, default=0.0) if is_alive and len(certain) == len(left) else None,
        models=models,
        command=_command(status),
    )


def _phase(known: KnownEvaluation) -> EvaluationPhase:
    if not known.is_alive:
        return "stopped" if known.status.state == "ended" else "lost"
    return "running" if known.status.state == "running" and not known.is_asked_to_stop else "stopping"


def total_progress(runs: Sequence[RunProgress], *, is_running: bool = True) -> RunProgress:
    """Return the sum of some runs, its failures by number. `is_running`: False if nothing more will come."""
    failures, expected, failed = Counter[str](), Counter[str](), Counter[str]()
    for run in runs:
        failures.update(run.failures)
        expected.update({name: judge.expected for name, judge in run.judges.items()})
        failed.update({name: judge.failed for name, judge in run.judges.items()})
    return RunProgress(
        model="",
        benchmark="",
        state="running" if is_running else "ended",
        n=sum(run.n for run in runs),
        done=sum(run.done for run in runs),
        n_failed=sum(run.n_failed for run in runs),
        failures=dict(sorted(failures.items(), key=lambda pair: (-pair[1], pair[0]))),
        requests_cached=sum(run.requests_cached for run in runs),
        tokens=TokenCounts(input=sum(run.tokens.input for run in runs), output=sum(run.tokens.output for run in runs)),
        cost_usd=sum_costs(run.cost_usd for run in runs if run.state != "waiting").usd,
        rate_per_s=_rate(runs) if is_running else None,
        unusable=any(run.unusable for run in runs),
        judges={name: JudgeProgress(expected=expected[name], failed=failed[name]) for name in expected},
    )


def seconds_left(runs: Sequence[RunProgress]) -> float | None:
    """Return the seconds until the runs of one model, one after another, are done at their rate; None if unknown."""
    remaining, rate = sum(run.n - run.done for run in runs if run.state != "ended"), _rate(runs)
    return remaining / rate if rate else None if remaining else 0.0


def _rate(runs: Sequence[RunProgress]) -> float | None:
    """Return the records per second of the runs in progress; None if there are none."""
    rates = [run.rate_per_s for run in runs if run.state == "running" and run.rate_per_s is not None]
    return sum(rates) if rates else None


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
    return {
        **plain_json(replace(one.status, runs=(), servers=())),
        "store": one.store.resolve().name,
        "state": one.phase,
        "silent": one.is_silent,
        "seconds": round(one.elapsed_s, 3),
        **select(one, "seconds_left n=totals.n done=totals.done n_failed=totals.n_failed"),
        "runs": [_run_json(run, names) for model in one.models for run in model.runs],
        "servers": [
            {**plain_json(server), "model": names.get(server.model, server.model)} for server in one.status.servers
        ],
    }


def _run_json(run: RunProgress, names: Mapping[str, str]) -> dict[str, Any]:
    judges = {names.get(name, name): plain_json(judge) for name, judge in run.judges.items()}
    return {**plain_json(run), "model": names.get(run.model, run.model), "judges": judges}
