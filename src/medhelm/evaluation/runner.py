"""Run an evaluation: take completions from models or from stored runs, score them, and record them.

Publish the progress of an evaluation for readers in other processes, and pass on their request to stop.

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
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from medhelm.benchmarks.data.dataset import Dataset
from medhelm.domain import JURY, Instance, JudgeReply, Jury, Model, Origin, Record, Run, Score
from medhelm.errors import Interrupted
from medhelm.evaluation.context_window import ContextFitter
from medhelm.evaluation.recorder import ProgressListener, RunRecorder, import_engines
from medhelm.evaluation.requests import model_requests, name_in_run, run_settings
from medhelm.evaluation.scheduler import Scheduler, StopSwitch, acquire_lock
from medhelm.evaluation.session import Cluster, Session, open_providers, open_session
from medhelm.evaluation.settings import MAXIMUM_IN_FLIGHT, Evaluation, Settings, StopReason
from medhelm.io.files import finish_in_thread
from medhelm.io.http.hosts import Subject
from medhelm.io.plugins import CLIENTS, from_extension
from medhelm.models.budget import Budget
from medhelm.models.client import ClientResult, ModelUnusable
from medhelm.models.provider import Provider
from medhelm.scoring.metric import Metric, answer_part, apply, is_unreadable
from medhelm.scoring.metrics import METRIC_NAMES, metrics_of
from medhelm.storage.store import Store

if TYPE_CHECKING:
    from filelock import FileLock

    from medhelm.evaluation.fresh_runs import FreshRuns
    from medhelm.models.client import PoolProvider
    from medhelm.scoring.jury.panel import CompletionJudgment, JudgePanel
    from medhelm.storage.live_status import EndReason, EvaluationState, RunProgress, StatusFile

# --- live status ------------------------------------------------------------------------------------------------------

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


# --- sources of completions -------------------------------------------------------------------------------------------


class PendingCompletion(NamedTuple):
    """The completion for one instance, before it is requested."""

    position: int
    """Position of the instance in the data set."""
    instance: Instance
    request: Callable[[], Awaitable[ClientResult]]
    """Requests the completion; raises ModelUnusable, BudgetError or Interrupted if nothing more can be requested."""


class CompletionSource(ABC):
    """Provides the completions of an evaluation, and what belongs to them: settings, origin and other scores."""

    judges: Collection[str] = ()
    """Names of the judges whose completions are stored, so that they are not asked again."""

    has_codes: bool = False
    """True if the prompts of these judges asked for verification codes."""

    judge_sample: int = 0
    """Number of the judges' completions among several for the same prompt, from 0."""

    async def prepare(self, judges: Mapping[str, Provider]) -> StopReason:  # noqa: ARG002
        """Do what comes before the first completion; return why the evaluation must end, or ""."""
        return ""

    def has_run(self, model: Model, dataset: Dataset) -> bool:  # noqa: ARG002
        """Return whether the source has completions of the model on the data set."""
        return True

    def concurrency(self, model: Model) -> int:  # noqa: ARG002
        """Return how many completions of a model may be requested at a time; 1 if they are read from memory."""
        return 1

    @abstractmethod
    def origin(self, model: Model, dataset: Dataset) -> Origin | None:
        """Return the harness that the completions or prompts come from; None if that is this one."""

    @abstractmethod
    def settings(self, model: Model, dataset: Dataset) -> Mapping[str, Any]:
        """Return the settings of the requests; they identify the run."""

    def metrics(self, model: Model, dataset: Dataset, *, judged: bool) -> Sequence[Metric]:
        """Return the metrics to compute, the main one first."""
        origin = self.origin(model, dataset)
        harness = origin.harness if origin and not origin.is_medhelm_task else None
        return metrics_of(dataset.benchmark, judged=judged, harness=harness)

    @abstractmethod
    def completions(self, model: Model, dataset: Dataset) -> Iterator[PendingCompletion]:
        """Yield one completion to request for each instance, in the order of sending."""

    def judge_completions(self, model: str, benchmark: str, instance_id: str) -> list[JudgeReply]:  # noqa: ARG002
        """Return the stored completions of judges about the completion of a model."""
        return []

    def ended(self, runs: Sequence[Run]) -> None:  # noqa: ARG002
        """Note that the evaluation ended with these runs, and was not stopped."""
        return

    def final_scores(
        self,
        recorder: RunRecorder,  # noqa: ARG002
        instance: Instance,  # noqa: ARG002
        scores: Sequence[Score],
    ) -> Sequence[Score]:
        """Return the scores to record, given those computed here."""
        return scores


@dataclass(frozen=True, slots=True)
class LiveCompletions(CompletionSource):
    """Requests completions from models, or takes them from the cache if they were bought before."""

    datasets: Sequence[Dataset]
    providers: Mapping[str, Provider]
    """Model -> its provider."""
    models: Sequence[Model]
    session: Session
    store: Store
    options: Settings
    note: Callable[[str], object]
    """Receives messages for the user."""
    fitter: ContextFitter
    fresh: FreshRuns | None
    """The fresh runs of the evaluation; None if there are none."""

    async def prepare(self, judges: Mapping[str, Provider]) -> StopReason:
        """Send all requests through batch APIs first, if the user asks for it; the rest is sent directly later."""
        if not self.options.batch:
            return ""
        from medhelm.evaluation.batches import BatchSubmitter  # imported late: most runs have no batches

        pairs = [(model, self.providers[model.name]) for model in self.models]
        submitter = BatchSubmitter(
            self.datasets, pairs, judges, self.session, self.store, self.options, self.note, self.fresh
        )
        return await submitter.buy()

    def concurrency(self, model: Model) -> int:
        """Return 1 for providers within this process, else half as many again as requests may be in flight.

        The servers of a pool have limits of their own, and may become more. While a request waits for its next attempt,
        another one uses its slot.
        """
        provider = self.providers[model.name]
        if provider.local:
            return 1
        limit = (self.options.concurrency or MAXIMUM_IN_FLIGHT) * provider.copies
        return (limit + limit // 2) * provider.n_servers

    def origin(self, model: Model, dataset: Dataset) -> Origin | None:  # noqa: ARG002
        """Return the origin of the prompts."""
        return dataset.origin

    def settings(self, model: Model, dataset: Dataset) -> Mapping[str, Any]:
        """Return the settings of the requests; they identify the run."""
        fresh = self._fresh_start(model, dataset)
        return {**run_settings(dataset, model, self.options), **({"fresh": fresh} if fresh else {})}

    def completions(self, model: Model, dataset: Dataset) -> Iterator[PendingCompletion]:
        """Yield the requests to the model; prompts that do not fit its context window are truncated when sent."""
        provider, benchmark = self.providers[model.name], dataset.benchmark
        if not dataset.variant:  # baselines answer a variant as they answer the plain instances
            provider.prepare(benchmark.name, dataset)
        for position, instance, request in model_requests(
            dataset, model, fresh=self._fresh_start(model, dataset), in_order=True
        ):
            yield PendingCompletion(
                position, instance, partial(self.fitter.ask, self.session.client, provider, request, benchmark)
            )

    def ended(self, runs: Sequence[Run]) -> None:
        """Note that the evaluation ended, so that the next fresh one asks again."""
        if self.fresh:
            self.fresh.ended(runs)

    def _fresh_start(self, model: Model, dataset: Dataset) -> str:
        return self.fresh.start_of(model, dataset) if self.fresh else ""


# --- from instances to runs -------------------------------------------------------------------------------------------
# Evaluate models on data sets: each instance becomes a record, and the records become stored runs.
#
# Every model goes through all data sets at its own speed, so that a slow model never holds up a fast one; models of one
# endpoint share its limit. Requests are made when they are needed, and a record is on disk before it is forgotten, so
# that memory does not grow with the size of the data.

SWITCH_INTERVAL_S = 0.0005
"""Longest time a thread may keep the interpreter while another waits: a tenth of Python's default, so that threads
which work beside the event loop do not delay requests."""

STARTUP_S = 0.15
"""Work that is not urgent is delayed by this time, so that the first requests are sent first."""


@dataclass(frozen=True, slots=True)
class EvaluationRunner:
    """Evaluates models on data sets and stores the runs."""

    datasets: Sequence[Dataset]
    models: Sequence[Model]
    store: Store
    settings: Settings
    environment: Mapping[str, str]
    """Environment variables with API keys."""
    listener: ProgressListener
    jury: Jury | None = None
    """Judges of the benchmarks that have the jury among their metrics."""
    stored: CompletionSource | None = None
    """Completions to score instead of calling the models."""

    async def run(self) -> Evaluation:
        """Run until all is done, the budget is spent, or the user interrupts. Raises: StoreError, UserError."""
        started = perf_counter()
        from medhelm.benchmarks.catalog import remember_benchmarks  # lazy: most callers have it already

        benchmarks = [dataset.benchmark for dataset in self.datasets]
        remember_benchmarks(self.store, benchmarks, metrics=METRIC_NAMES)
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        asyncio.get_running_loop().call_later(STARTUP_S, import_engines)
        models = (*self.models, *(self.jury.judges if self.jury else ()))
        async with open_session(self.store, self.settings, models, self.listener.note, self.environment) as session:
            if self.settings.cluster:
                session = replace(session, cluster=self._join_cluster(session, models))
            panel = self._open_panel(session)
            source = self.stored or self._open_models(session)
            if not self.settings.batch and self.store.batches_folder.is_dir():
                from medhelm.storage.unfinished import Batches  # lazy, like all of the batch APIs

                for batch in Batches(self.store).waiting_for(models):
                    self.listener.note(batch.reminder)
            self.listener.watch(session.client.pools)
            work = _Work(self, session, source, panel)
            with published_status(self._watched(work, session)):
                work.scheduler.stopped = await source.prepare(panel.providers if panel else {})
                if not work.scheduler.stopped:
                    await work.run()
            runs = tuple(active.recorder.run for active in work.in_order() if active.recorder.run)
            if not work.scheduler.stopped:
                source.ended(runs)
            messages = await work.messages()
        return Evaluation(
            runs=runs,
            stopped=work.scheduler.stopped,
            messages=tuple(messages),
            cost_usd=session.budget.spent_usd,
            seconds=round(perf_counter() - started, 3),
        )

    def _watched(self, work: _Work, session: Session) -> WatchedEvaluation:
        return WatchedEvaluation(
            store=self.store,
            planned=[(m, data) for m in self.models for data in self.datasets if work.source.has_run(m, data)],
            recorders=lambda: [active.recorder for active in tuple(work.active)],
            scheduler=work.scheduler,
            budget=session.budget,
            stop_switch=session.stop_switch,
            pools=session.client.pools,
        )

    def _join_cluster(self, session: Session, models: Sequence[Model]) -> Cluster | None:
        """Start actors for the models and metrics that a cluster computes, if there are any."""
        join = from_extension(CLIENTS, "ray", extension="cluster", what="--cluster")
        called = models if self.stored is None else models[len(self.models) :]
        settings = self.settings
        cluster: Cluster | None = join(
            called, self.datasets, session.resources, session.http, settings, settings.own_data, self.environment
        )
        return cluster

    def _open_models(self, session: Session) -> LiveCompletions:
        providers = open_providers(self.models, session, self.environment, self.settings, self.datasets)
        fitter = ContextFitter.of(self.store, session.client.is_known, self.listener.note)
        fresh, note = None, self.listener.note
        if self.settings.fresh or self.store.fresh_folder.exists():
            from medhelm.evaluation.fresh_runs import open_fresh_runs  # imported late: most stores have no fresh runs

            fresh = open_fresh_runs(self.store, self.datasets, self.models, self.settings, note)
        return LiveCompletions(
            self.datasets, providers, self.models, session, self.store, self.settings, note, fitter, fresh
        )

    def _open_panel(self, session: Session) -> JudgePanel | None:
        """Open the judges, except those whose completions are stored; None without judges."""
        if self.jury is None:
            return None
        from medhelm.scoring.jury.panel import JudgePanel  # lazy: most runs have no judges

        stored = self.stored.judges if self.stored else ()
        judges = [judge for judge in self.jury.judges if judge.name not in stored]
        judged = [dataset for dataset in self.datasets if JURY in dataset.benchmark.metrics]
        providers = open_providers(judges, session, self.environment, self.settings, judged)
        fitter = ContextFitter.of(self.store, session.client.is_known, self.listener.note)
        ask = partial(fitter.ask_whole, session.client)
        replies = self.stored.judge_completions if self.stored else None
        # `rejudge` asks the judges that it names with codes; a run uses what was bought.
        is_known = None if self.stored else session.client.is_known
        has_codes = not stored or (self.stored is not None and self.stored.has_codes)
        jury, with_codes = replace(self.jury, has_codes=has_codes), self.settings.verification_codes
        sample = self.stored.judge_sample if self.stored else 0
        return JudgePanel(jury, providers, ask, replies, is_known, with_codes=with_codes, sample=sample)


@dataclass(slots=True)
class _ActiveRun:
    """A run in progress: its recorder, its judges, and how far it is."""

    recorder: RunRecorder
    panel: JudgePanel | None
    """The judges of its benchmark; None if it has no rubric or the evaluation no judges."""
    lock: FileLock | None = None
    n_queued: int = 0
    n_settled: int = 0
    is_queued: bool = False
    """All completions that will be requested have been queued."""

    @property
    def is_settled(self) -> bool:
        """Return whether every completion is recorded or given up, and the run is not stored yet."""
        return self.is_queued and self.n_settled == self.n_queued and self.recorder.run is None


class _Job(NamedTuple):
    """One instance to evaluate."""

    run: _ActiveRun
    pending: PendingCompletion


class _Work:
    """The state of an evaluation in progress. An instance goes through `_jobs`, `_complete`, `_record`, `_score`."""

    def __init__(
        self, config: EvaluationRunner, session: Session, source: CompletionSource, panel: JudgePanel | None
    ) -> None:
        self.config, self.source, self.panel = config, source, panel
        self.cluster = session.cluster
        self.listener = config.listener
        interrupted = Interrupted("interrupted")
        stop_sending = partial(session.client.stop, interrupted)
        self.scheduler = Scheduler(self.listener.note, stop_sending, session.stop_switch)
        self.active: list[_ActiveRun] = []
        self.stored_prompts: set[Path] = set()
        self.first_run_ended = asyncio.Event()

    async def run(self) -> None:
        """Evaluate all models. What was received is stored; after an error, only runs that were being stored are."""
        try:
            async with self.scheduler.running():
                for model in self.config.models:
                    self.scheduler.start_each(
                        self._jobs(model), self._complete, partial(self.source.concurrency, model)
                    )
        finally:  # no job is left: each waited for the end of its thread
            for active in self.active:
                active.recorder.discard()
                if active.lock:
                    active.lock.release()

    async def _jobs(self, model: Model) -> AsyncIterator[_Job]:
        """Yield the instances of all data sets, each with the request for the model's completion."""
        for dataset in self.config.datasets:
            if not self.source.has_run(model, dataset):
                continue
            active = self._new_run(model, dataset)
            if await self._lock(active):
                active.recorder.open(self.config.store)
                self.listener.began(active.recorder)
                self.scheduler.start(self._store_prompts(dataset))
                for pending in self.source.completions(model, dataset):
                    if self.scheduler.is_stopped(model.name):
                        break
                    active.n_queued += 1
                    yield _Job(active, pending)
            active.is_queued = True
            if active.is_settled:
                await self._finish(active)

    async def _complete(self, job: _Job) -> None:
        """Get the completion of an instance, and pass it on to be judged and scored."""
        if job.run.panel:
            await job.run.panel.room.acquire()
        result = None
        if not self.scheduler.is_stopped(job.run.recorder.model.name):
            result = await self.scheduler.attempt(self._request(job))
        # As a job of its own, so that the worker sends the next request first.
        self.scheduler.start(self._record(job, result))

    async def _request(self, job: _Job) -> ClientResult:
        try:
            return await job.pending.request()
        except ModelUnusable as error:
            job.run.recorder.totals.requests_sent += error.requests_sent
            raise

    async def _record(self, job: _Job, result: ClientResult | None) -> None:
        """Judge and score a completion, and record it; the last one of a run finishes the run."""
        active, instance = job.run, job.pending.instance
        recorder = active.recorder
        if result:
            judgment = None
            if active.panel:
                judgment = await self.scheduler.attempt(
                    active.panel.judge(
                        recorder.name, recorder.benchmark, instance, answer_part(recorder.benchmark, result.completion)
                    )
                )
            if judgment or not active.panel:  # otherwise the work stopped before all judges were asked: no record yet
                recorder.add(await self._score(job, result, judgment), result, judgment.verdicts if judgment else ())
        active.n_settled += 1
        if active.panel:
            active.panel.room.release()
        if active.is_settled:
            await self._finish(active)

    async def _score(self, job: _Job, result: ClientResult, judgment: CompletionJudgment | None) -> Record:
        """Score a completion by every metric."""
        recorder, instance = job.run.recorder, job.pending.instance
        completion = answer_part(recorder.benchmark, result.completion)
        metrics = [metric for metric in recorder.metrics if metric.name != JURY]
        if (cluster := self.cluster) and any(metric.neural for metric in metrics):
            subject = Subject(recorder.model.name, recorder.benchmark.name, result.digest.hex(), 0)
            scores = await cluster.apply(metrics, instance, completion, subject)
        elif any(metric.slow for metric in metrics):
            scores = await asyncio.to_thread(apply, metrics, instance, completion)
        else:
            scores = apply(metrics, instance, completion)
        if judgment:
            scores = (*scores, *judgment.verdict.scores)
        return Record(
            position=job.pending.position,
            instance_id=instance.id,
            cluster=instance.cluster,
            group=instance.group,
            request_digest=result.digest,
            completion=result.completion,
            truncated_characters=result.left_out,
            is_unreadable=is_unreadable(recorder.metrics[0], instance, completion, scores),
            scores=tuple(self.source.final_scores(recorder, instance, scores)),
            judge_replies=tuple(one.reply for one in judgment.verdicts) if judgment else (),
            jury_verdict=judgment.verdict if judgment else None,
            injection_signs=tuple(judgment.injection_signs) if judgment else (),
        )

    async def _finish(self, active: _ActiveRun) -> None:
        """Store a run."""
        recorder = active.recorder
        reason = self.scheduler.unusable.get(recorder.model.name, "")
        self.first_run_ended.set()
        finish = partial(recorder.finish, reason or self.scheduler.stopped, is_unusable=bool(reason))
        await finish_in_thread(finish)
        if active.lock:
            active.lock.release()
        self.listener.ended(recorder)
        dataset = recorder.dataset
        ended = sum(other.recorder.run is not None for other in self.active if other.recorder.dataset is dataset)
        if ended == sum(self.source.has_run(model, dataset) for model in self.config.models):
            dataset.release()

    # --- parts of a run -----------------------------------------------------------------------------------------------

    def _new_run(self, model: Model, dataset: Dataset) -> _ActiveRun:
        panel = self.panel if JURY in dataset.benchmark.metrics else None
        recorder = RunRecorder(
            model=model,
            dataset=dataset,
            metrics=self.source.metrics(model, dataset, judged=panel is not None),
            settings=dict(self.source.settings(model, dataset)),
            jury=panel.jury if panel else None,
            origin=self.source.origin(model, dataset),
        )
        active = _ActiveRun(recorder, panel)
        self.active.append(active)
        return active

    async def _lock(self, active: _ActiveRun) -> bool:
        """Wait until no other process runs this model on this benchmark; its completions are then in the cache.

        False if the work stops before that.
        """
        benchmark, model = active.recorder.benchmark.name, active.recorder.model.name
        name = active.recorder.name
        active.lock = await acquire_lock(
            self.config.store.lock_file(benchmark, name),
            on_wait=lambda: self.listener.note(
                f"{benchmark} with {name}: another process is running this; waiting for it to finish"
            ),
            is_stopped=lambda: self.scheduler.is_stopped(model),
        )
        return active.lock is not None

    async def _store_prompts(self, dataset: Dataset) -> None:
        """Store prompts and constant baseline of a benchmark, once for all models, after the first requests."""
        benchmark, store = dataset.benchmark, self.config.store
        prompts = store.prompts_file(benchmark.name, benchmark.digest, dataset.digest)
        baseline = store.baseline_file(benchmark.name, benchmark.digest, dataset.digest)
        if prompts in self.stored_prompts or (prompts.exists() and baseline.exists()):
            return
        self.stored_prompts.add(prompts)
        with suppress(TimeoutError):
            await asyncio.wait_for(self.first_run_ended.wait(), STARTUP_S)

        def store_both() -> None:
            # Imported late and in the thread: it imports numpy, which is not needed before the first completions.
            from medhelm.evaluation.check import store_prompts_and_baseline

            store_prompts_and_baseline(dataset, prompts, baseline)

        await finish_in_thread(store_both)

    # --- the result ---------------------------------------------------------------------------------------------------

    def in_order(self) -> list[_ActiveRun]:
        """Return the runs by benchmark, then model, in the order of the arguments."""
        benchmarks = [dataset.benchmark.name for dataset in self.config.datasets]
        models = [model.name for model in self.config.models]
        return sorted(
            self.active,
            key=lambda a: (benchmarks.index(a.recorder.benchmark.name), models.index(a.recorder.model.name)),
        )

    async def messages(self) -> list[str]:
        """Return what the user must know, in sentences."""
        from medhelm.evaluation import (
            remarks as run_remarks,  # imported_benchmarks late: not needed before the last completion
        )

        runs = [active.recorder.run for active in self.active if active.recorder.run]
        is_interrupted = self.scheduler.stopped == "interrupt" and isinstance(self.source, LiveCompletions)
        found = [
            *(["everything received is stored; run the same command again to continue"] if is_interrupted else ()),
            *self.scheduler.unusable.values(),
            *(self.panel.unusable.values() if self.panel else ()),
            *run_remarks.failure_sentences(active.recorder.failure_summary for active in self.active),
            *map(str, run_remarks.drift_remarks(runs)),
            *map(str, run_remarks.cut_text_remarks(runs)),
            *map(str, run_remarks.code_remarks(runs)),
        ]
        if isinstance(self.source, LiveCompletions):
            from medhelm.evaluation.silent_truncation import plateau_remarks

            found += map(str, run_remarks.age_remarks(runs))
            found += map(str, plateau_remarks(runs, self.config.store))
            found += run_remarks.replay_remarks(runs, self.source.providers)
            found += run_remarks.skipped_row_remarks(self.config.datasets)
            if not self.config.settings.offline and not self.scheduler.stopped:
                found += await run_remarks.server_remarks(runs, self.source.providers)
        return found
