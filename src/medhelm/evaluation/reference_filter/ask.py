"""Every reference goes to every judge once: from the cache if possible, within limits and budget, ready to go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import perf_counter
from typing import Literal

from medhelm.benchmarks.data.dataset import Dataset
from medhelm.domain import (
    Completion,
    Failure,
    Instance,
    Model,
    Prompt,
    ReferenceMark,
    ReferenceMarks,
    ReferenceOpinion,
    Usage,
)
from medhelm.errors import BudgetError, Interrupted, MedHelmError
from medhelm.evaluation.context_window.fit import ContextFitter
from medhelm.evaluation.interruption import on_interrupt
from medhelm.evaluation.reference_filter.question import VERSION, ask_about, problem_of, prompt_text, read_opinion
from medhelm.evaluation.session import GRACE_S, LOCK_POLL_S, open_session
from medhelm.evaluation.settings import MAXIMUM_IN_FLIGHT, Settings
from medhelm.io.http_client import HttpClient
from medhelm.models.budget import cost_of, is_metered
from medhelm.models.client import Client, ModelUnusable
from medhelm.models.local.runtime import LocalRuntime
from medhelm.models.provider import Provider
from medhelm.models.providers import open_provider
from medhelm.reports.reference_filter import JudgeWork
from medhelm.scoring.jury.panel import request_to_judge
from medhelm.scoring.jury.prompts import retry_prompt
from medhelm.storage.reference_filters import read_marks
from medhelm.storage.store import Store

LOCK = "reference filter"
"""What stands in the place of a model's name in the name of the lock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkingResult:
    """What came of asking."""

    marks: tuple[ReferenceMarks, ...]
    """One for each benchmark, in the order asked for."""
    work: Mapping[str, tuple[JudgeWork, ...]]
    """Benchmark -> what each judge did."""
    stopped: Literal["", "budget", "interrupt"]
    """Why it ended early; empty if it did not."""
    messages: tuple[str, ...]
    """What a person must know: one for each judge that had to be given up."""
    cost_usd: float
    """Spent in this execution, on judges whose price is known."""
    seconds: float
    """Wall-clock time."""

    @property
    def exit_code(self) -> int:
        """0 all marked, 1 judges failed on some, 3 stopped by the budget, 4 a judge cannot be used, 130 interrupted.

        Judges that disagree have not failed.
        """
        if self.stopped:
            return {"budget": 3, "interrupt": 130}[self.stopped]
        if self.messages:
            return 4
        return int(any(count for marks in self.marks for count in marks.failures.values()))


def mark_references(
    datasets: Sequence[Dataset],
    judges: Sequence[Model],
    *,
    store: Store,
    settings: Settings,
    environment: Mapping[str, str],
    note: Callable[[str], object],
    progress: Callable[[int, int], object] | None,
) -> MarkingResult:
    """Have every judge mark every reference that the cache does not hold a reply about.

    Parameters: judges, with their prices, and with keys in `environment`; note, takes words for people; progress, how
    many opinions came in, and of how many at most.
    Raises: UserError or StoreError before anything is sent, StoreFullError if the disk fills up.
    """
    for dataset in datasets:  # a damaged file shall show before anything is sent
        read_marks(store, dataset.benchmark.name, dataset.benchmark.digest, dataset.digest)
    asking = _Asking(datasets, judges, store, settings, environment, note, progress)
    return asyncio.run(asking.ask_all())


@dataclass(slots=True)
class _Tally:
    """What one judge did for one benchmark."""

    requests_sent: int = 0
    requests_cached: int = 0
    usage: Usage = field(default_factory=Usage)
    metered: bool = True


@dataclass(slots=True)
class _Asking:
    """The marking of some benchmarks under way."""

    datasets: Sequence[Dataset]
    judges: Sequence[Model]
    store: Store
    settings: Settings
    environment: Mapping[str, str]
    note: Callable[[str], object]
    progress: Callable[[int, int], object] | None
    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    stopped: Literal["", "budget", "interrupt"] = ""
    unusable: dict[str, str] = field(default_factory=dict)
    opinions: dict[tuple[str, str, str], ReferenceOpinion] = field(default_factory=dict)
    """Benchmark, instance and judge -> what was said."""
    tallies: dict[tuple[str, str], _Tally] = field(default_factory=dict)
    """Benchmark and judge -> its work."""
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    fitter: ContextFitter = field(init=False)

    async def ask_all(self) -> MarkingResult:
        """Ask, and gather what was said."""
        started = perf_counter()
        async with open_session(self.store, self.settings, self.judges, self.note) as session:
            providers = self._open_providers(session.http, session.machine)
            self.fitter = ContextFitter.of(self.store, session.client.is_known, self.note)
            with self._interruptible(session.client):
                async with self._locked() as ours:
                    if ours:
                        await self._ask_judges(session.client, providers)
        return MarkingResult(
            marks=tuple(self._marks(dataset) for dataset in self.datasets),
            work={dataset.benchmark.name: self._work_on(dataset.benchmark.name) for dataset in self.datasets},
            stopped=self.stopped,
            messages=tuple(self.unusable.values()),
            cost_usd=session.budget.spent_usd,
            seconds=round(perf_counter() - started, 3),
        )

    def _open_providers(self, http: HttpClient, machine: LocalRuntime) -> list[Provider]:
        """One for each judge; what is wrong with any shows before the first request."""
        for judge in self.judges:
            if judge.base_url:
                http.gate.admit(judge.base_url)
        return [open_provider(judge, http, environment=self.environment, machine=machine) for judge in self.judges]

    async def _ask_judges(self, client: Client, providers: Sequence[Provider]) -> None:
        """All judges at once, each at its own speed; questions are made as they are needed."""
        try:
            async with asyncio.TaskGroup() as group:
                for judge, provider in zip(self.judges, providers, strict=True):
                    lanes = 1 if provider.local else self.settings.concurrency or MAXIMUM_IN_FLIGHT
                    questions = self._questions()
                    self.tasks += [
                        group.create_task(self._work(questions, client, judge, provider)) for _ in range(lanes)
                    ]
        except* MedHelmError as errors:
            raise _first(errors) from errors

    def _questions(self) -> Iterator[tuple[Dataset, Instance]]:
        """Every instance; the workers of one judge share one such iterator."""
        return ((dataset, instance) for dataset in self.datasets for instance in dataset)

    async def _work(
        self, questions: Iterator[tuple[Dataset, Instance]], client: Client, judge: Model, provider: Provider
    ) -> None:
        """Ask one judge until there are no more questions, or nothing more may be asked."""
        for dataset, instance in questions:
            if self.stopped or judge.name in self.unusable:
                return
            try:
                opinion = await self._ask(dataset, instance, client, judge, provider)
            except ModelUnusable as error:
                self._tally(dataset, judge).requests_sent += error.requests_sent
                self.unusable.setdefault(judge.name, str(error))
            except BudgetError as error:
                self._stop("budget", str(error))
            except Interrupted:
                pass  # said already
            else:
                self.opinions[dataset.benchmark.name, instance.id, judge.name] = opinion
                if self.progress:
                    self.progress(len(self.opinions), len(self.judges) * sum(each.n for each in self.datasets))

    async def _ask(
        self, dataset: Dataset, instance: Instance, client: Client, judge: Model, provider: Provider
    ) -> ReferenceOpinion:
        """One question, and once more with what was wrong if the reply cannot be read."""
        ask = ask_about(dataset.benchmark, instance)

        async def say(prompt: Prompt) -> Completion:
            request = request_to_judge(judge, prompt, ask.schema)
            reply = await self.fitter.ask_whole(client, provider, request, dataset.benchmark)
            tally = self._tally(dataset, judge)
            tally.requests_sent += reply.requests_sent
            tally.requests_cached += reply.cached
            tally.usage += reply.completion.usage
            tally.metered &= provider.local or is_metered(reply.completion)
            return reply.completion

        shown = (prompt_text(dataset.benchmark, instance), instance.correct[0])
        completion = await say(ask.prompt)
        opinion = read_opinion(judge.name, completion, shown)
        if not (problem := problem_of(opinion)):
            return opinion
        completion = await say(retry_prompt(ask, completion.text or "", problem))
        return read_opinion(judge.name, completion, shown)

    def _tally(self, dataset: Dataset, judge: Model) -> _Tally:
        return self.tallies.setdefault((dataset.benchmark.name, judge.name), _Tally())

    # --- what came of it ----------------------------------------------------------------------------------------------

    def _marks(self, dataset: Dataset) -> ReferenceMarks:
        """All marks of one benchmark; what was not asked is a failure like any other."""
        benchmark, settings = dataset.benchmark, self.settings
        return ReferenceMarks(
            benchmark=benchmark.name,
            benchmark_digest=benchmark.digest,
            data_digest=dataset.digest,
            tier=dataset.tier,
            selection={"sample": settings.sample, "limit": settings.limit, "seed": settings.seed},
            judges=tuple(judge.name for judge in self.judges),
            prompt_version=VERSION,
            status="partial" if self.stopped or self.unusable else "complete",
            started=self.began.isoformat(timespec="seconds"),
            by_instance={
                instance.id: ReferenceMark(
                    tuple(self._opinion(benchmark.name, instance.id, judge.name) for judge in self.judges)
                )
                for instance in dataset
            },
        )

    def _opinion(self, benchmark: str, instance: str, judge: str) -> ReferenceOpinion:
        """What a judge said, or why it said nothing."""
        if (said := self.opinions.get((benchmark, instance, judge))) is not None:
            return said
        if judge in self.unusable:
            return ReferenceOpinion(
                judge=judge, outside_prompt=None, failure=Failure("judge", "unusable", self.unusable[judge])
            )
        why = self.stopped or "interrupt"
        return ReferenceOpinion(
            judge=judge, outside_prompt=None, failure=Failure(why, "not_asked", f"stopped before: {why}")
        )

    def _work_on(self, benchmark: str) -> tuple[JudgeWork, ...]:
        found = []
        for judge in self.judges:
            tally = self.tallies.get((benchmark, judge.name), _Tally())
            known = judge.price is not None and tally.metered
            found.append(
                JudgeWork(
                    judge=judge.name,
                    requests_sent=tally.requests_sent,
                    requests_cached=tally.requests_cached,
                    usage=tally.usage,
                    cost_usd=cost_of(tally.usage, judge.price) if known and judge.price else None,
                )
            )
        return tuple(found)

    # --- stopping early, and others at work ---------------------------------------------------------------------------

    def _stop(self, why: Literal["budget", "interrupt"], text: str) -> None:
        if not self.stopped:
            self.stopped = why
            self.note(text)

    @asynccontextmanager
    async def _locked(self) -> AsyncIterator[bool]:
        """Wait until no other process marks one of these benchmarks in this store; its replies then are ours.

        False if it came to a stop before that.
        """
        from filelock import FileLock, Timeout

        async with AsyncExitStack() as stack:
            for name in sorted(dataset.benchmark.name for dataset in self.datasets):  # one order for all processes
                lock = FileLock(self.store.lock_file(name, LOCK))
                waiting = False
                while not self.stopped:
                    try:
                        lock.acquire(blocking=False)
                    except Timeout:
                        if not waiting:
                            self.note(f"{name}: another process marks its references in this store; waiting")
                        waiting = True
                        await asyncio.sleep(LOCK_POLL_S)
                    else:
                        stack.callback(lock.release)
                        break
            yield not self.stopped

    def _interruptible(self, client: Client) -> AbstractContextManager[None]:
        """Ctrl-C lets requests in flight finish the first time, and gives them up the second."""

        def abandon() -> None:
            for task in self.tasks:
                task.cancel()

        def interrupt() -> None:
            if self.stopped == "interrupt":
                abandon()
                return
            client.stop(Interrupted("interrupted"))
            self._stop("interrupt", "stopping; requests in flight may finish, Ctrl-C again abandons them")
            self.stopped = "interrupt"
            asyncio.get_running_loop().call_later(GRACE_S, abandon)

        return on_interrupt(interrupt)


def _first(errors: BaseExceptionGroup[MedHelmError]) -> MedHelmError:
    """The first error of a group."""
    error = errors.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
