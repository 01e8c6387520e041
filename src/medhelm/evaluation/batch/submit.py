"""What the road will ask, bought in batches before it sets out: the models first, then their judges."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, TypeGuard

from medhelm.benchmarks.data.dataset import Dataset
from medhelm.domain import JURY, Benchmark, Completion, Instance, Model, Request, Usage
from medhelm.errors import BudgetError, Interrupted
from medhelm.evaluation.batch.batching import BatchSession
from medhelm.evaluation.batch.job import BatchTarget
from medhelm.evaluation.batch.polling import RetryPolicy, WaitCancelled
from medhelm.evaluation.context_window.fit import ContextFitter
from medhelm.evaluation.context_window.truncate import n_characters
from medhelm.evaluation.pending import at_once
from medhelm.evaluation.requests import judge_requests, model_requests
from medhelm.evaluation.scheduler import on_interrupt
from medhelm.evaluation.session import Session
from medhelm.evaluation.settings import MAXIMUM_IN_FLIGHT, Settings
from medhelm.models.batch import has_batches
from medhelm.models.budget import BATCH_FACTOR, cost_of
from medhelm.models.client import ModelUnusable
from medhelm.models.prices import LOCAL_PROVIDERS
from medhelm.models.provider import Provider, prepare
from medhelm.models.providers.hosted import HttpProvider
from medhelm.scoring.jury.aggregation import is_blank
from medhelm.storage.store import Store


@dataclass(slots=True)
class BatchSubmitter:
    """The questions of an evaluation, and who answers them."""

    datasets: Sequence[Dataset]
    """What is asked."""
    models: Sequence[tuple[Model, Provider]]
    """Who is asked, and how."""
    judges: Mapping[str, Provider]
    """Judge -> how it is asked."""
    session: Session
    """Cache, budget and network."""
    store: Store
    """Where it is kept what was handed over."""
    settings: Settings
    """What the user chose."""
    note: Callable[[str], object]
    """Told what a person should know."""
    patience: RetryPolicy = field(init=False)
    batching: BatchSession = field(init=False)
    fitter: ContextFitter = field(init=False)
    judge_fitter: ContextFitter = field(init=False)
    in_flight: set[bytes] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Nothing is asked yet."""
        self.patience = RetryPolicy(self.note, self.settings.attempts)
        delete = not self.settings.keep_batches
        self.batching = BatchSession(self.session, self.store, self.patience, delete)
        self.in_flight = self.batching.kept.in_flight()
        # A prompt that waits in a batch is as good as bought: it must not be cut to another length meanwhile.
        self.fitter, self.judge_fitter = (ContextFitter.of(self.store, self._is_known, self.note) for _ in range(2))

    def _is_known(self, digest: bytes) -> bool:
        return digest in self.in_flight or self.session.client.is_known(digest)

    async def buy(self) -> Literal["", "budget", "interrupt"]:
        """Fill the cache; why it came to a stop before that, "" if it did not."""
        task = asyncio.current_task()

        def interrupt() -> None:
            if self.patience.stopping.is_set() and task:
                task.cancel()
                return
            self.patience.stopping.set()
            self.note(
                "stopping; what was handed over goes on at its service: `medhelm batches` lists it, and the same "
                "command comes back to it"
            )

        with on_interrupt(interrupt):
            try:
                await self._in_waves()
            except BudgetError as error:
                self.note(str(error))
                return "budget"
            except (WaitCancelled, Interrupted, asyncio.CancelledError):
                if not self.patience.stopping.is_set():
                    raise
                if task:
                    task.uncancel()
                return "interrupt"
        return ""

    async def _in_waves(self) -> None:
        """Judges read completions: so these come first."""
        reached = {**{model.name: provider for model, provider in self.models}, **self.judges}
        direct = [n for n, p in reached.items() if not has_batches_of(p) and not p.local]
        if direct:
            self.note(f"{', '.join(direct)}: asked directly, for want of a batch API")
        desks = [BatchTarget(p, "model", partial(self._to_model, m)) for m, p in self.models if has_batches_of(p)]
        await self._buy(desks)
        judges = {name: provider for name, provider in self.judges.items() if has_batches_of(provider)}
        if judges and any(self._judged()):
            await self._ask_directly()
            await self._buy([BatchTarget(p, "judge", partial(self._to_judge, p.model)) for p in judges.values()])

    async def _buy(self, desks: Sequence[BatchTarget]) -> None:
        if desks:
            await asyncio.to_thread(self._check_budget, desks)
            await self.batching.buy(desks)

    # --- what is asked ------------------------------------------------------------------------------------------------

    def _judged(self) -> Iterator[Dataset]:
        """What goes to the judges."""
        return (dataset for dataset in self.datasets if self.judges and JURY in dataset.benchmark.metrics)

    def _asked(self, model: Model, dataset: Dataset) -> Iterator[tuple[Instance, Request]]:
        """The requests to one model on one benchmark, as the road makes them, before they are cut to fit."""
        for _, instance, request in model_requests(dataset, model):
            yield instance, request

    def _to_model(self, model: Model) -> Iterator[Request]:
        """Everything that a model is asked."""
        for dataset in self.datasets:
            for _, request in self._asked(model, dataset):
                fit = self.fitter.fit(request, dataset.benchmark)
                if fit.failure is None:
                    yield fit.request

    def _to_judge(self, judge: Model) -> Iterator[Request]:
        """The first question about every completion that is known; second tries depend on the answer."""
        for dataset in self._judged():
            benchmark = dataset.benchmark
            for model, provider in self.models:
                prepare(provider, benchmark.name, dataset)
                for instance, request in self._asked(model, dataset):
                    completion = self._known(model, provider, request, benchmark)
                    if completion is None or completion.failure or is_blank(completion):
                        continue
                    for _, to_judge in judge_requests(benchmark, (judge,), instance, completion.text or ""):
                        asked = replace(to_judge, benchmark=benchmark.name)
                        if not self.judge_fitter.unfit(asked, benchmark):
                            yield asked

    def _known(self, model: Model, provider: Provider, request: Request, benchmark: Benchmark) -> Completion | None:
        """What a model answered, if that is known."""
        if model.provider in LOCAL_PROVIDERS:
            return at_once(provider, request)
        if provider.local:
            return None
        fit = self.fitter.fit(request, benchmark)
        return None if fit.failure else self.session.cache.get(fit.request.digest)

    async def _ask_directly(self) -> None:
        """Have answered what judges will read and no batch has brought; what fails here is told by the road."""
        lanes = self.settings.concurrency or MAXIMUM_IN_FLIGHT
        async with asyncio.TaskGroup() as group:
            for model, provider in self.models:
                if not provider.local:
                    questions = self._open_questions(model)
                    for _ in range(lanes):
                        group.create_task(self._work(provider, questions))

    def _open_questions(self, model: Model) -> Iterator[tuple[Benchmark, Request]]:
        for dataset in self._judged():
            for _, request in self._asked(model, dataset):
                yield dataset.benchmark, request

    async def _work(self, provider: Provider, questions: Iterator[tuple[Benchmark, Request]]) -> None:
        """Ask until there are no more questions, or no more answers."""
        for benchmark, request in questions:
            if self.patience.stopping.is_set():
                return
            try:
                await self.fitter.ask(self.session.client, provider, request, benchmark)
            except (ModelUnusable, BudgetError):
                return  # the road comes to the same end, and says so

    # --- what it costs ------------------------------------------------------------------------------------------------

    def _check_budget(self, desks: Sequence[BatchTarget]) -> None:
        """Raises: BudgetError if what is to be handed over may cost more than may still be spent."""
        limit_usd = self.settings.max_cost_usd
        if limit_usd is None:
            return
        open_, most_usd = 0, 0.0
        unanswered = {bytes.fromhex(d) for batch in self.batching.kept.all() for d in batch.unanswered}
        for desk in desks:
            n, usd = self._most(desk, unanswered)
            open_ += n
            most_usd += usd
        left_usd = limit_usd - self.session.budget.spent_usd
        if open_ and most_usd > left_usd:
            raise BudgetError(
                f"stopped by the budget: the batches may cost {most_usd:.4f} US dollars, and {left_usd:.4f} may still "
                "be spent. A batch cannot be stopped at a sum, so none was handed over. `medhelm plan --batch` shows "
                "what is expected; raise --max-cost, or leave --batch out and stop on the way."
            )

    def _most(self, desk: BatchTarget, unanswered: set[bytes]) -> tuple[int, float]:
        """Requests of one model that are not handed over yet, and the most that all its open ones can cost."""
        price = desk.model.price
        assert price is not None, "a budget wants all prices"
        benchmarks = {dataset.benchmark.name: dataset.benchmark for dataset in self.datasets}
        seen: set[bytes] = set()
        n, usd = 0, 0.0
        for request in desk.requests():
            digest = request.digest
            if digest in seen or self.session.cache.get(digest) is not None:
                continue
            seen.add(digest)
            n += digest not in self.in_flight and digest not in unanswered
            factor = self.fitter.gauge.factor(desk.model, benchmarks[request.benchmark])
            tokens = n_characters(request.prompt) * factor.tokens_per_character * (1 + factor.error)
            most = Usage(input=round(tokens), output=request.max_tokens)
            usd += (1.0 if digest in unanswered else BATCH_FACTOR) * cost_of(most, price)
        return n, usd


def has_batches_of(provider: Provider) -> TypeGuard[HttpProvider]:
    """Whether a provider is reached over a network and has a batch API."""
    return isinstance(provider, HttpProvider) and has_batches(provider.model)
