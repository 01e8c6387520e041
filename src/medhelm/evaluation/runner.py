"""One evaluation under way: every model walks through all benchmarks at its own speed.

A slow model never holds up a fast one; models of one endpoint share its limit. Work is made as it is needed, and a
record is on disk before it is forgotten: memory does not grow with the suite.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

from medhelm.benchmarks.data.dataset import Dataset
from medhelm.benchmarks.prompts import render
from medhelm.domain import JURY, Completion, Instance, Jury, Model, Record
from medhelm.errors import BudgetError, Interrupted, MedHelmError
from medhelm.evaluation.context_window.fit import ContextFitter, request_of
from medhelm.evaluation.evaluation_result import Evaluation
from medhelm.evaluation.failure_summary import FailureSummary
from medhelm.evaluation.interruption import on_interrupt
from medhelm.evaluation.model_drift import drift_remarks
from medhelm.evaluation.request_order import QueuedInstance, in_request_order
from medhelm.evaluation.run_recorder import ProgressListener, RunRecorder, import_engines
from medhelm.evaluation.session import GRACE_S, LOCK_POLL_S, MAXIMUM_IN_FLIGHT, open_session
from medhelm.evaluation.settings import Settings, completion_limit
from medhelm.evaluation.stored_completions import StoredCompletions
from medhelm.io.http_client import HttpClient
from medhelm.models.client import Client, ClientResult, ModelUnusable
from medhelm.models.local.runtime import LocalRuntime
from medhelm.models.prompt_caching import cache_prices
from medhelm.models.provider import Provider
from medhelm.models.providers import open_provider
from medhelm.models.providers.baseline import Baseline
from medhelm.scoring.jury.aggregation import JudgeVerdict, injection_signs, jury_verdict
from medhelm.scoring.jury.panel import JudgePanel
from medhelm.scoring.metric import apply
from medhelm.scoring.metrics import metrics_of
from medhelm.storage.batches import Batches
from medhelm.storage.store import Store

if TYPE_CHECKING:
    from filelock import FileLock

_Queue = asyncio.Queue[tuple[RunRecorder, QueuedInstance] | None]

SWITCH_INTERVAL_S = 0.0005
"""How long a thread may keep the interpreter to itself; Python's own choice is ten times as long."""

FIRST_THINGS_FIRST_S = 0.15
"""Work that is not urgent waits so long, for the first questions to be on their way."""

JUDGED_AT_ONCE = 256
"""Completions that judges may be at, at most: models wait for judges, so that completions do not pile up."""


@dataclass(slots=True)
class EvaluationRunner:
    """One evaluation under way."""

    datasets: Sequence[Dataset]
    models: Sequence[Model]
    store: Store
    settings: Settings
    environment: Mapping[str, str]
    watcher: ProgressListener
    jury: Jury | None = None
    stored: StoredCompletions | None = None
    runs: list[RunRecorder] = field(default_factory=list)
    stopped: Literal["", "budget", "interrupt"] = ""
    unusable: dict[str, str] = field(default_factory=dict)
    prompted: set[Path] = field(default_factory=set)
    locks: dict[str, FileLock] = field(default_factory=dict)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    hearings: set[asyncio.Future[list[JudgeVerdict]]] = field(default_factory=set)
    group: asyncio.TaskGroup = field(init=False)
    fitter: ContextFitter = field(init=False)
    first_finished: asyncio.Event = field(default_factory=asyncio.Event)
    panel: JudgePanel | None = None
    room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(JUDGED_AT_ONCE))

    async def travel(self) -> Evaluation:
        """Walk the whole road."""
        started = perf_counter()
        # The event loop shall not wait long for the interpreter while a thread works beside it.
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        asyncio.get_running_loop().call_later(FIRST_THINGS_FIRST_S, import_engines)
        asked = (*self.models, *(self.jury.judges if self.jury else ()))
        async with open_session(self.store, self.settings, asked, self.watcher.note) as session:
            providers = self._open_providers(session.http, session.client, session.machine)
            self.fitter = ContextFitter.of(self.store, session.client.is_known, self.watcher.note)
            if self.settings.batch and not self.stored:
                pairs = tuple(zip(self.models, providers, strict=True))
                judges = self.panel.providers if self.panel else {}
                from medhelm.evaluation.batch.submit import BatchSubmitter  # late: most runs hand nothing over

                ahead = BatchSubmitter(
                    self.datasets, pairs, judges, session, self.store, self.settings, self.watcher.note
                )
                self.stopped = await ahead.buy()
            else:
                for batch in Batches(self.store).waiting_for(asked):
                    self.watcher.note(batch.reminder)
            if not self.stopped:
                with self._interruptible(session.client):
                    await self._ask_all(session.client, providers)
        return Evaluation(
            runs=tuple(run.run for run in self._in_order() if run.run),
            stopped=self.stopped,
            messages=(
                *self.unusable.values(),
                *(self.panel.unusable.values() if self.panel else ()),
                *FailureSummary.of_all(run.troubles for run in self.runs).in_words(),
                *drift_remarks(run.run for run in self.runs if run.run),
            ),
            cost_usd=session.budget.spent_usd,
            seconds=round(perf_counter() - started, 3),
        )

    def _open_providers(self, http: HttpClient, client: Client, machine: LocalRuntime) -> list[Provider]:
        """One for each model and each judge; what is wrong with any shows before the first request."""
        aliases = {alias: d.benchmark.name for d in self.datasets for alias in d.benchmark.aliases}

        def opened(model: Model) -> Provider:
            if model.base_url:
                http.gate.admit(model.base_url)
            return open_provider(
                model, http, machine=machine, environment=self.environment, seed=self.settings.seed, aliases=aliases
            )

        if self.jury:
            kept = self.stored.judges if self.stored else ()
            judges = {judge.name: opened(judge) for judge in self.jury.judges if judge.name not in kept}
            fitter = ContextFitter.of(self.store, client.is_known, self.watcher.note)
            replies = self.stored.replies if self.stored else None
            self.panel = JudgePanel(self.jury, judges, partial(fitter.ask_whole, client), replies)
        return [self.stored or opened(model) for model in self.models]

    async def _ask_all(self, client: Client, providers: Sequence[Provider]) -> None:
        try:
            async with asyncio.TaskGroup() as self.group:
                for model, provider in zip(self.models, providers, strict=True):
                    self._start(self._ask_model(client, provider, model))
        except* MedHelmError as errors:
            for run in self.runs:
                run.discard()
            for lock in self.locks.values():
                lock.release()
            raise _first(errors) from errors
        for run in self.runs:
            if run.run is None:  # abandoned: what came in is kept
                await self._finish(run)

    async def _ask_model(self, client: Client, provider: Provider, model: Model) -> None:
        """Put all questions of one model into a short queue that its workers empty."""
        lanes = 1 if provider.local else self.settings.concurrency or MAXIMUM_IN_FLIGHT
        queue: _Queue = asyncio.Queue(maxsize=lanes)
        for _ in range(lanes):
            self._start(self._work(queue, client, provider))
        for dataset in self.datasets:
            if self._is_asked(model, dataset):
                await self._ask(dataset, model, provider, queue)
        for _ in range(lanes):
            await queue.put(None)

    async def _ask(self, dataset: Dataset, model: Model, provider: Provider, queue: _Queue) -> None:
        """Put the questions of one benchmark into the queue."""
        benchmark = dataset.benchmark
        jury = self.jury if JURY in benchmark.metrics else None
        origin = self.stored.origin(model.name, benchmark.name) if self.stored else dataset.origin
        metrics = metrics_of(benchmark, judged=jury is not None, imported=origin is not None and not origin.our_task)
        if self.stored:
            metrics = self.stored.fitted(model.name, benchmark.name, metrics)
        settings = self._asked_for(dataset, model)
        run = RunRecorder(model=model, dataset=dataset, metrics=metrics, settings=settings, jury=jury, origin=origin)
        self.runs.append(run)
        if await self._lock(run):
            run.open(self.store)
            self.watcher.began(run)
            self._start(self._store_prompts(dataset))
            if isinstance(provider, Baseline):
                provider.prepare(benchmark.name, dataset)
            for question in in_request_order(benchmark, dataset, None if self.stored else cache_prices(model)):
                if self._is_stopped(model):
                    break
                run.asked += 1
                await queue.put((run, question))
        run.sealed = True
        if run.is_over:
            await self._finish(run)

    def _asked_for(self, dataset: Dataset, model: Model) -> dict[str, Any]:
        """How the questions are asked, which tells the run from others."""
        if self.stored and self.stored.origin(model.name, dataset.benchmark.name):
            return dict(self.stored.settings(model.name, dataset.benchmark.name))
        temperature = dataset.settings.get("temperature", 0.0)
        return {
            "sample": self.settings.sample,
            "limit": self.settings.limit,
            "seed": self.settings.seed,
            "max_tokens": completion_limit(dataset.benchmark, model),
            **dataset.settings,
            "temperature": None if model.reasoning else temperature,
        }

    async def _store_prompts(self, dataset: Dataset) -> None:
        """Store prompts and floor of a benchmark, once for all models, while the first answers are on their way."""
        benchmark = dataset.benchmark
        file = self.store.prompts_file(benchmark.name, benchmark.digest, dataset.digest)
        floor_file = self.store.floor_file(benchmark.name, benchmark.digest, dataset.digest)
        if file not in self.prompted and not (file.exists() and floor_file.exists()):
            self.prompted.add(file)
            with suppress(TimeoutError):
                await asyncio.wait_for(self.first_finished.wait(), FIRST_THINGS_FIRST_S)
            from medhelm.evaluation.constant_baseline import (
                store_prompts_and_baseline,  # late: it takes numpy, which nobody needs before the first answers
            )

            await asyncio.to_thread(store_prompts_and_baseline, dataset, file, floor_file)

    async def _work(self, queue: _Queue, client: Client, provider: Provider) -> None:
        """Have questions answered until there are no more."""
        while (item := await queue.get()) is not None:
            run, question = item
            if run.jury:
                await self.room.acquire()
            reply = await self._ask_one(run, question, client, provider)
            # As a task of its own, so that the next question leaves first.
            self.group.create_task(self._take_in(run, question.position, question.instance, reply))

    async def _ask_one(
        self, run: RunRecorder, question: QueuedInstance, client: Client, provider: Provider
    ) -> ClientResult | None:
        """One question: prompt and completion; None if nothing more may be asked."""
        if self._is_stopped(run.model):
            return None
        prompt, temperature = render(run.benchmark, question.instance), run.settings.get("temperature")
        request = request_of(run.benchmark, run.model, question.instance, prompt, temperature, question.shared)
        try:
            if self.stored:
                return self.stored.as_sent(request, await client.complete(provider, request))
            return await self.fitter.ask(client, provider, request, run.benchmark)
        except ModelUnusable as error:
            self.unusable.setdefault(run.model.name, str(error))
            run.requests_sent += error.requests_sent
        except BudgetError as error:
            self._stop("budget", str(error))
        except Interrupted:
            pass  # said already
        return None

    async def _take_in(self, run: RunRecorder, position: int, instance: Instance, reply: ClientResult | None) -> None:
        """Score a completion and keep its record; the last one of a run finishes it."""
        heard = await self._hear(run, instance, reply.completion) if reply else None
        if reply is not None and heard is not None:
            run.add(await self._record(run, position, instance, reply, heard), reply, heard)
        run.settled += 1
        if run.jury:
            self.room.release()
        if run.is_over:
            await self._finish(run)

    async def _hear(
        self, run: RunRecorder, instance: Instance, completion: Completion
    ) -> Sequence[JudgeVerdict] | None:
        """What the judges say of a completion; None if nothing more may be asked: then it is no record yet."""
        if not run.jury or self.panel is None:
            return ()
        # As a task of its own, which can be abandoned while its record is not.
        hearing = asyncio.ensure_future(self.panel.judge(run.model.name, run.benchmark, instance, completion))
        self.hearings.add(hearing)
        try:
            await asyncio.wait((hearing,))
            return None if hearing.cancelled() else hearing.result()
        except BudgetError as error:
            self._stop("budget", str(error))
        except Interrupted:
            pass  # said already
        finally:
            hearing.cancel()  # of effect only if the whole road was given up
            self.hearings.discard(hearing)
        return None

    async def _record(
        self, run: RunRecorder, position: int, instance: Instance, reply: ClientResult, heard: Sequence[JudgeVerdict]
    ) -> Record:
        """All scores of one completion."""
        completion = reply.completion
        metrics = [metric for metric in run.metrics if metric.name != JURY]
        if any(metric.slow for metric in metrics):
            scores = await asyncio.to_thread(apply, metrics, instance, completion)
        else:
            scores = apply(metrics, instance, completion)
        verdict = jury_verdict(run.benchmark, instance, completion, run.jury.jury, heard) if run.jury else None
        scores = (*scores, *(verdict.scores if verdict else ()))
        if self.stored:
            scores = self.stored.with_published(run, instance, scores, run.jury.jury if run.jury else None)
        return Record(
            position=position,
            instance_id=instance.id,
            cluster=instance.cluster,
            group=instance.group,
            request_digest=reply.digest,
            completion=completion,
            left_out=reply.left_out,
            scores=scores,
            replies=tuple(one.reply for one in heard),
            judged=verdict,
            suspicions=injection_signs(run.benchmark, instance, completion) if run.jury else (),
        )

    async def _finish(self, run: RunRecorder) -> None:
        """Store a run."""
        run.gave_up = run.model.name in self.unusable
        run.message = self.unusable.get(run.model.name, self.stopped)
        self.first_finished.set()
        await asyncio.to_thread(run.finish)
        if lock := self.locks.pop(run.id, None):
            lock.release()
        self.watcher.ended(run)
        finished = sum(other.run is not None for other in self.runs if other.dataset is run.dataset)
        if finished == sum(self._is_asked(model, run.dataset) for model in self.models):
            run.dataset.release()

    async def _lock(self, run: RunRecorder) -> bool:
        """Wait until no other process asks this model the questions of this benchmark; their answers then are ours.

        False if it came to a stop before that.
        """
        from filelock import FileLock, Timeout

        lock = FileLock(self.store.lock_file(run.benchmark.name, run.model.name))
        waiting = False
        while not self._is_stopped(run.model):
            try:
                lock.acquire(blocking=False)
            except Timeout:
                if not waiting:
                    self.watcher.note(
                        f"{run.benchmark.name} with {run.model.name}: another process is at it in this store; waiting"
                    )
                waiting = True
                await asyncio.sleep(LOCK_POLL_S)
            else:
                self.locks[run.id] = lock
                return True
        return False

    def _in_order(self) -> list[RunRecorder]:
        """Runs by benchmark, then model, as asked for; they begin in whatever order models get to them."""
        benchmarks = [dataset.benchmark.name for dataset in self.datasets]
        models = [model.name for model in self.models]
        return sorted(self.runs, key=lambda r: (benchmarks.index(r.benchmark.name), models.index(r.model.name)))

    def _is_asked(self, model: Model, dataset: Dataset) -> bool:
        """Whether there is such a run: all there can be, or those that are stored."""
        return self.stored is None or self.stored.has(model.name, dataset.benchmark.name)

    # --- stopping early -----------------------------------------------------------------------------------------------

    def _is_stopped(self, model: Model) -> bool:
        return bool(self.stopped) or model.name in self.unusable

    def _stop(self, why: Literal["budget", "interrupt"], text: str) -> None:
        """Ask nothing more; what is in flight may finish."""
        if not self.stopped:
            self.stopped = why
            self.watcher.note(text)

    def _start(self, work: Coroutine[None, None, None]) -> None:
        self.tasks.append(self.group.create_task(work))

    def _abandon(self) -> None:
        """Wait for nothing more."""
        for task in self.tasks:
            task.cancel()
        for hearing in self.hearings:
            hearing.cancel()

    def _interruptible(self, client: Client) -> AbstractContextManager[None]:
        """Ctrl-C stops gently at first, and at once the second time."""

        def interrupt() -> None:
            if self.stopped == "interrupt":
                self._abandon()
                return
            client.stop(Interrupted("interrupted"))
            self._stop("interrupt", "stopping; requests in flight may finish, Ctrl-C again abandons them")
            self.stopped = "interrupt"
            asyncio.get_running_loop().call_later(GRACE_S, self._abandon)

        return on_interrupt(interrupt)


def _first(errors: BaseExceptionGroup[MedHelmError]) -> MedHelmError:
    """The first error of a group."""
    error = errors.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
