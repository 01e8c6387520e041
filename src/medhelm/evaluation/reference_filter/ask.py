"""Ask judges to mark references that rest on outside information: the requests of the reference filter.

Every judge gets every reference once. Completions come from the cache if they were bought before.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from time import perf_counter

from medhelm.benchmarks.catalog import GROUPS
from medhelm.benchmarks.data.dataset import Dataset
from medhelm.domain import (
    Benchmark,
    Completion,
    Failure,
    Instance,
    Model,
    Prompt,
    ReferenceMark,
    ReferenceMarks,
    ReferenceOpinion,
)
from medhelm.errors import Interrupted, UserError
from medhelm.evaluation.context_window.fit import ContextFitter
from medhelm.evaluation.reference_filter.question import VERSION, ask_about, problem_of, prompt_text, read_opinion
from medhelm.evaluation.request_totals import RequestTotals
from medhelm.evaluation.scheduler import Scheduler, acquire_lock
from medhelm.evaluation.session import open_providers, open_session
from medhelm.evaluation.settings import MAXIMUM_IN_FLIGHT, Settings, StopReason
from medhelm.models.client import Client, ModelUnusable
from medhelm.models.provider import Provider
from medhelm.reports.reference_filter import JudgeWork
from medhelm.scoring.jury.panel import request_to_judge
from medhelm.scoring.jury.prompts import retry_prompt
from medhelm.storage.reference_filters import read_marks
from medhelm.storage.store import Store

LOCK = "reference filter"
"""Stands for the model in the name of the lock file."""


def filterable(benchmarks: Sequence[Benchmark], names: Sequence[str]) -> tuple[list[Benchmark], list[str]]:
    """Select the benchmarks with a free-text reference for every instance; also return why others were left out.

    `names`: the arguments of the user. A benchmark named by itself, and not as a member of a group, must qualify.
    Raises: UserError with the reason for each such benchmark, or if none is left.
    """
    reasons = {benchmark.name: reason for benchmark in benchmarks if (reason := _unfilterable(benchmark))}
    groups = {*GROUPS, *(place for b in benchmarks for place in (b.taxonomy.category, b.taxonomy.subcategory))}
    by_group = bool(groups.intersection(names))
    named = {b.name for b in benchmarks if not by_group or {b.name, *b.aliases}.intersection(names)}
    left = [benchmark for benchmark in benchmarks if benchmark.name not in reasons]
    if refused := [reasons[name] for name in reasons if name in named] or ([] if left else list(reasons.values())):
        raise UserError("\n".join([*refused, "Nothing was sent."]))
    return left, list(reasons.values())


def _unfilterable(benchmark: Benchmark) -> str:
    """Return why the references of a benchmark cannot be filtered; empty if they can."""
    if benchmark.rubric is None:
        return (
            f"{benchmark.name} is closed: its answers are options, numbers, labels or queries that are right or wrong. "
            "Only references in free text are filtered; `medhelm filter-references open` takes all that have them."
        )
    if not benchmark.rubric.shows_reference:
        return f"{benchmark.name} has no references that count: its judges grade without one."
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkingResult:
    """The marks of references, and how the work ended."""

    marks: tuple[ReferenceMarks, ...]
    """One for each benchmark, in the order of the arguments."""
    work: Mapping[str, tuple[JudgeWork, ...]]
    """Benchmark -> requests, tokens and cost of each judge."""
    stopped: StopReason
    """Why it ended early; empty if it did not."""
    messages: tuple[str, ...]
    """Messages for the user: one for each judge that could not be used."""
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
    """Have every judge mark every reference.

    Parameters: judges, with their prices, and with keys in `environment`; note, receives messages for the user;
    progress, receives how many opinions came in, and of how many at most.
    Raises: UserError or StoreError before anything is sent, StoreFullError if the disk is full.
    """
    for dataset in datasets:  # a damaged file is reported before anything is sent
        read_marks(store, dataset.benchmark.name, dataset.benchmark.digest, dataset.digest)
    return asyncio.run(_mark_references(datasets, judges, store, settings, environment, note, progress))


async def _mark_references(
    datasets: Sequence[Dataset],
    judges: Sequence[Model],
    store: Store,
    settings: Settings,
    environment: Mapping[str, str],
    note: Callable[[str], object],
    progress: Callable[[int, int], object] | None,
) -> MarkingResult:
    started = perf_counter()
    async with open_session(store, settings, judges, note) as session, AsyncExitStack() as locks:
        marking = _Marking(
            datasets,
            judges,
            settings,
            session.client,
            ContextFitter.of(store, session.client.is_known, note),
            Scheduler(note, partial(session.client.stop, Interrupted("interrupted"))),
            progress,
        )
        providers = open_providers(judges, session, environment, settings, datasets)
        async with marking.scheduler.running():
            if await marking.lock(store, note, locks):
                for judge in judges:
                    marking.start(judge, providers[judge.name])
    return MarkingResult(
        marks=tuple(marking.marks(dataset) for dataset in datasets),
        work={dataset.benchmark.name: marking.work_on(dataset.benchmark.name) for dataset in datasets},
        stopped=marking.scheduler.stopped,
        messages=tuple(marking.scheduler.unusable.values()),
        cost_usd=session.budget.spent_usd,
        seconds=round(perf_counter() - started, 3),
    )


@dataclass(slots=True)
class _Marking:
    """The marking of some benchmarks in progress."""

    datasets: Sequence[Dataset]
    judges: Sequence[Model]
    settings: Settings
    client: Client
    fitter: ContextFitter
    scheduler: Scheduler
    progress: Callable[[int, int], object] | None
    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    opinions: dict[tuple[str, str, str], ReferenceOpinion] = field(default_factory=dict)
    """Benchmark, instance and judge -> the judge's opinion."""
    totals: dict[tuple[str, str], RequestTotals] = field(default_factory=dict)
    """Benchmark and judge -> its work."""

    async def lock(self, store: Store, note: Callable[[str], object], locks: AsyncExitStack) -> bool:
        """Wait until no other process marks one of these benchmarks; its completions are then in the cache.

        `locks` releases the locks. False if the work stops before all are acquired.
        """
        for name in sorted(dataset.benchmark.name for dataset in self.datasets):  # one order for all processes
            lock = await acquire_lock(
                store.lock_file(name, LOCK),
                on_wait=partial(note, f"{name}: another process marks its references in this store; waiting"),
                is_stopped=self.scheduler.is_stopped,
            )
            if lock is None:
                return False
            locks.callback(lock.release)
        return True

    def start(self, judge: Model, provider: Provider) -> None:
        """Start to ask one judge about every reference."""

        async def mark(reference: tuple[Dataset, Instance]) -> None:
            dataset, instance = reference
            opinion = await self.scheduler.attempt(self._ask(dataset, instance, judge, provider))
            if opinion:
                self.opinions[dataset.benchmark.name, instance.id, judge.name] = opinion
                if self.progress:
                    self.progress(len(self.opinions), len(self.judges) * sum(each.n for each in self.datasets))

        limit = 1 if provider.local else self.settings.concurrency or MAXIMUM_IN_FLIGHT
        self.scheduler.start_each(self._references(judge), mark, limit)

    async def _references(self, judge: Model) -> AsyncIterator[tuple[Dataset, Instance]]:
        """Yield every instance, until the work stops."""
        for dataset in self.datasets:
            for instance in dataset:
                if self.scheduler.is_stopped(judge.name):
                    return
                yield dataset, instance

    async def _ask(self, dataset: Dataset, instance: Instance, judge: Model, provider: Provider) -> ReferenceOpinion:
        """Ask about one reference, and once more if the completion cannot be parsed."""
        totals = self._totals(dataset.benchmark.name, judge)
        question = ask_about(dataset.benchmark, instance)

        async def complete(prompt: Prompt) -> Completion:
            request = request_to_judge(judge, prompt, question.schema)
            try:
                result = await self.fitter.ask_whole(self.client, provider, request, dataset.benchmark)
            except ModelUnusable as error:
                totals.requests_sent += error.requests_sent
                raise
            totals.add(result.completion, requests_sent=result.requests_sent, cached=result.cached)
            return result.completion

        shown = (prompt_text(dataset.benchmark, instance), instance.correct[0])
        completion = await complete(question.prompt)
        opinion = read_opinion(judge.name, completion, shown)
        if not (problem := problem_of(opinion)):
            return opinion
        completion = await complete(retry_prompt(question, completion.text or "", problem))
        return read_opinion(judge.name, completion, shown)

    # --- the result ---------------------------------------------------------------------------------------------------

    def marks(self, dataset: Dataset) -> ReferenceMarks:
        """Return all marks of one benchmark; a reference that was not marked is a failure like any other."""
        benchmark, settings = dataset.benchmark, self.settings
        return ReferenceMarks(
            benchmark=benchmark.name,
            benchmark_digest=benchmark.digest,
            data_digest=dataset.digest,
            tier=dataset.tier,
            selection={"sample": settings.sample, "limit": settings.limit, "seed": settings.seed},
            judges=tuple(judge.name for judge in self.judges),
            prompt_version=VERSION,
            status="partial" if self.scheduler.stopped or self.scheduler.unusable else "complete",
            started=self.began.isoformat(timespec="seconds"),
            by_instance={
                instance.id: ReferenceMark(
                    tuple(self._opinion(benchmark.name, instance.id, judge.name) for judge in self.judges)
                )
                for instance in dataset
            },
        )

    def _opinion(self, benchmark: str, instance: str, judge: str) -> ReferenceOpinion:
        """Return the opinion of a judge, or the failure that stands for it."""
        if (opinion := self.opinions.get((benchmark, instance, judge))) is not None:
            return opinion
        if reason := self.scheduler.unusable.get(judge):
            return ReferenceOpinion(judge=judge, outside_prompt=None, failure=Failure("judge", "unusable", reason))
        why = self.scheduler.stopped or "interrupt"
        return ReferenceOpinion(
            judge=judge, outside_prompt=None, failure=Failure(why, "not_asked", f"stopped before: {why}")
        )

    def work_on(self, benchmark: str) -> tuple[JudgeWork, ...]:
        """Return requests, tokens and cost of each judge on one benchmark."""
        work = []
        for judge in self.judges:
            totals = self._totals(benchmark, judge)
            work.append(
                JudgeWork(
                    judge=judge.name,
                    requests_sent=totals.requests_sent,
                    requests_cached=totals.requests_cached,
                    usage=totals.usage,
                    cost_usd=totals.cost_usd,
                )
            )
        return tuple(work)

    def _totals(self, benchmark: str, judge: Model) -> RequestTotals:
        return self.totals.setdefault((benchmark, judge.name), RequestTotals(judge))
