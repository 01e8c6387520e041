"""Publish the progress of an evaluation for readers in other processes, and pass on their request to stop.

A thread beside the event loop reads the counters, which may be read at any time, and writes the status file. If the
disk cannot be written, the status is out of date and the evaluation goes on. The module of the status file is imported
in the thread, so that the first requests do not wait for it.
"""

from __future__ import annotations

import asyncio
import os
import platform
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from medhelm.benchmarks.data.dataset import Dataset
from medhelm.domain import Model
from medhelm.evaluation.recorder import RunRecorder
from medhelm.evaluation.requests import name_in_run
from medhelm.evaluation.scheduler import Scheduler, StopSwitch
from medhelm.models.budget import Budget
from medhelm.storage.store import Store

if TYPE_CHECKING:
    from medhelm.models.client import PoolProvider
    from medhelm.storage.live_status import EndReason, EvaluationState, RunProgress, StatusFile

INTERVAL_S = 1.0
"""Seconds between two statuses, and before the first: shorter evaluations write none unless they end early."""

LARGEST_SHARE = 0.02
"""Largest share of the time that goes into statuses; those of very many runs are written less often."""

SAMPLES = 30
"""Statuses over which the rate of a run is measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedEvaluation:
    """The counters of an evaluation, to be read from another thread."""

    store: Store
    """Store of the evaluation."""
    planned: Sequence[tuple[Model, Dataset]]
    """Models and data sets of all its runs."""
    recorders: Callable[[], Sequence[RunRecorder]]
    """Returns the recorders of the runs so far."""
    scheduler: Scheduler
    """Knows whether the work is stopped."""
    budget: Budget
    """Counts the costs."""
    stop_switch: StopSwitch
    """Stops the work from outside."""
    pools: Sequence[PoolProvider] = ()
    """Pools of servers; they are added when they are used."""


@contextmanager
def published_status(watched: WatchedEvaluation) -> Iterator[None]:
    """Publish the status of an evaluation while the block runs."""
    publisher = _Publisher(watched, asyncio.get_running_loop())
    publisher.start()
    reason: EndReason = "error"
    try:
        yield
        reason = watched.scheduler.stopped
    except (KeyboardInterrupt, asyncio.CancelledError):
        reason = "interrupt"
        raise
    finally:
        publisher.end(reason)


class _Publisher:
    """The thread that writes the status."""

    def __init__(self, watched: WatchedEvaluation, loop: asyncio.AbstractEventLoop) -> None:
        self._watched, self._loop = watched, loop
        self._started = _now()
        self._command = command_line()
        self._folder = _current_folder()
        self._file: StatusFile | None = None
        self._rates: dict[RunRecorder, _Rate] = {}
        self._is_asked_to_stop = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._publish, name="medhelm-status", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def end(self, reason: EndReason) -> None:
        """End the thread. The last status stays if the evaluation ended early, to show how to resume it."""
        self._ended.set()
        self._thread.join()
        if reason == "interrupt" and self._is_asked_to_stop:
            reason = "site"
        with suppress(OSError):
            if reason:
                self._write("ended", reason)
            if self._file:
                self._file.close(keep_status=bool(reason))
            elif self._watched.store.running_folder.exists():
                from medhelm.storage.live_status import forget_resumed

                forget_resumed(self._watched.store, self._command, self._folder)

    def _publish(self) -> None:
        next_s = 0.0
        while not self._ended.wait(INTERVAL_S):
            if not self._is_asked_to_stop and self._file and self._file.is_asked_to_stop:
                self._is_asked_to_stop = True
                self._loop.call_soon_threadsafe(self._watched.stop_switch.press)
            began = perf_counter()
            if began >= next_s:
                with suppress(OSError):
                    self._write("stopping" if self._watched.scheduler.stopped else "running")
                next_s = began + (perf_counter() - began) / LARGEST_SHARE

    def _write(self, state: EvaluationState, reason: EndReason = "") -> None:
        """Write the status. Raises: OSError."""
        from medhelm.storage.live_status import EvaluationStatus, StatusFile, forget_resumed, new_id

        if self._file is None:
            forget_resumed(self._watched.store, self._command, self._folder)
            self._file = StatusFile(self._watched.store, new_id(self._started))
        budget = self._watched.budget
        status = EvaluationStatus(
            id=self._file.evaluation,
            pid=os.getpid(),
            host=platform.node(),
            command=self._command,
            folder=self._folder,
            started=self._started,
            updated=_now(),
            state=state,
            reason=reason,
            spent_usd=round(budget.spent_usd, 9),
            max_cost_usd=budget.limit_usd,
            runs=tuple(self._runs()),
            servers=tuple(server for pool in tuple(self._watched.pools) for server in pool.progress()),
        )
        self._file.write(status)

    def _runs(self) -> Iterator[RunProgress]:
        """Yield the progress of every run, in the order of the arguments."""
        from medhelm.storage.live_status import RunProgress

        found = {(one.model.name, one.dataset): one for one in self._watched.recorders()}
        unusable = self._watched.scheduler.unusable
        for model, dataset in self._watched.planned:
            recorder = found.get((model.name, dataset))
            if recorder is None:
                yield RunProgress(
                    model=name_in_run(dataset.settings, model),
                    benchmark=dataset.benchmark.name,
                    state="waiting",
                    n=len(dataset.positions),
                    unusable=model.name in unusable,
                )
            else:
                rate = self._rates.setdefault(recorder, _Rate(recorder.started))
                yield _progress_of(recorder, rate, unusable)


class _Rate:
    """The rate at which records were added lately.

    Records of cached completions come in a burst and would promise an end that is too early: they count only until
    others come.
    """

    def __init__(self, started: float) -> None:
        self._samples = deque([(started, 0, 0)], maxlen=SAMPLES)

    def add(self, done: int, cached: int) -> float | None:
        """Add the current counts; return the rate per second, None before the first record."""
        self._samples.append((perf_counter(), done, done - cached))
        (before, *low), (now, *high) = self._samples[0], self._samples[-1]
        if not done or now <= before:
            return None
        added, bought = (last - first for first, last in zip(low, high, strict=True))
        return (bought if high[1] else added) / (now - before)


def _progress_of(recorder: RunRecorder, rate: _Rate, unusable: Mapping[str, str]) -> RunProgress:
    """Return the progress of a run that has begun. Counters of failures are copied: they may get new keys meanwhile."""
    from medhelm.storage.live_status import JudgeProgress, RunProgress, TokenCounts

    totals = recorder.totals
    judges = recorder.jury.judges if recorder.jury else {}
    per_s = rate.add(recorder.done, totals.requests_cached)
    return RunProgress(
        model=recorder.name,
        benchmark=recorder.benchmark.name,
        state="running" if recorder.run is None else "ended" if recorder.done else "waiting",
        n=recorder.n,
        done=recorder.done,
        n_failed=recorder.failed,
        failures=dict(recorder.failures),
        requests_cached=totals.requests_cached,
        tokens=TokenCounts(input=totals.usage.input, output=totals.usage.output),
        cost_usd=totals.cost_usd,
        rate_per_s=None if recorder.run else per_s,
        unusable=recorder.model.name in unusable,
        judges={
            name: JudgeProgress(expected=judge.expected, failed=sum(dict(judge.failures).values()))
            for name, judge in judges.items()
        },
    )


def command_line() -> tuple[str, ...]:
    """Return the arguments of the command `medhelm` in this process; empty in other programs.

    Only arguments: keys are in the environment, which is never read here.
    """
    program = Path(sys.argv[0]) if sys.argv and sys.argv[0] else Path()
    is_ours = program.stem == "medhelm" or program.parts[-2:] == ("medhelm", "__main__.py")
    return tuple(sys.argv[1:]) if is_ours else ()


def _current_folder() -> str:
    try:
        return str(Path.cwd())
    except OSError:  # it was removed
        return ""


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
