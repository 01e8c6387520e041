"""Buying an evaluation's completions through batch APIs before it runs: the models' first, then the judges'.

Completions go into the cache, so the run itself knows nothing of batches: it finds what a batch has brought, and sends
the rest directly.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from medhelm.analysis.cost.token_costs import BATCH_FACTOR, cost_of
from medhelm.benchmarks.data.dataset import Dataset
from medhelm.domain import JURY, Benchmark, Completion, FailureCode, Model, Request, Usage
from medhelm.errors import BudgetError, ProviderError
from medhelm.evaluation.batch.job import BatchJob, BatchTarget
from medhelm.evaluation.batch.polling import RetryPolicy, WaitCancelled
from medhelm.evaluation.context_window.fit import ContextFitter
from medhelm.evaluation.context_window.truncate import n_characters
from medhelm.evaluation.fresh_runs import FreshRuns
from medhelm.evaluation.request_counts import complete_locally
from medhelm.evaluation.requests import ModelRequest, judge_requests, model_requests
from medhelm.evaluation.scheduler import Scheduler, acquire_lock
from medhelm.evaluation.session import Session
from medhelm.evaluation.settings import MAXIMUM_IN_FLIGHT, Settings, StopReason
from medhelm.io.threads import finish_in_thread
from medhelm.models.batch.api import has_batch_api, open_batch_service
from medhelm.models.limits.spending_limit import largest_cost_usd
from medhelm.models.limits.store_limit import StoreLimit
from medhelm.models.provider import Provider
from medhelm.models.providers import answers_in_process
from medhelm.scoring.jury.aggregation import is_blank
from medhelm.storage.batches import Batches
from medhelm.storage.store import Store


@dataclass(slots=True)
class BatchSubmitter:
    """Submits the requests of an evaluation, waits for them, and fills the cache."""

    datasets: Sequence[Dataset]
    """The data sets."""
    models: Sequence[tuple[Model, Provider]]
    """The models with their providers."""
    judges: Mapping[str, Provider]
    """Judge -> its provider."""
    session: Session
    """Cache, budget and network."""
    store: Store
    """Holds the records of batches, and locks."""
    settings: Settings
    """The user's settings."""
    note: Callable[[str], object]
    """Receives messages for the user."""
    fresh: FreshRuns | None
    """The fresh runs of the evaluation; None if there are none."""
    scheduler: Scheduler = field(init=False)
    retries: RetryPolicy = field(init=False)
    batches: Batches = field(init=False)
    fitter: ContextFitter = field(init=False)
    judge_fitter: ContextFitter = field(init=False)
    in_flight: set[bytes] = field(init=False)
    """Digests of the requests in batches."""

    def __post_init__(self) -> None:
        """Read the records of batches; nothing is sent."""
        self.retries = RetryPolicy(self.note, self.settings.attempts)
        self.batches = Batches(self.store)
        self.in_flight = self.batches.in_flight()
        self.scheduler = Scheduler(self.note, self._stop_waiting, self.session.stop_switch)
        # A prompt in a batch counts as bought: it must not be truncated to another length meanwhile.
        self.fitter, self.judge_fitter = (ContextFitter.of(self.store, self._is_known, self.note) for _ in range(2))

    def _is_known(self, request: Request) -> bool:
        return request.digest in self.in_flight or self.session.client.is_known(request)

    async def buy(self) -> StopReason:
        """Buy the models' completions, which the judges read, then the judges'; return why it stopped early."""
        providers = {**{model.name: provider for model, provider in self.models}, **self.judges}
        direct = [name for name, provider in providers.items() if not has_batch_api(provider) and not provider.local]
        if direct:
            self.note(f"{', '.join(direct)}: requests are sent directly, because its service has no batch API")
        batched = [(model, provider) for model, provider in self.models if has_batch_api(provider)]
        await self._buy_batches(
            [BatchTarget(provider, "model", partial(self._model_requests, model)) for model, provider in batched]
        )
        again = [(model, provider) for model, provider in batched if next(self._roomy_requests(model), None)]
        if again:
            await self._buy_batches(
                [BatchTarget(provider, "model", partial(self._roomy_requests, model)) for model, provider in again]
            )
        judges = [provider for provider in self.judges.values() if has_batch_api(provider)]
        if judges and any(self._judged()):
            await self._complete_directly()
            await self._buy_batches([BatchTarget(p, "judge", partial(self._judge_requests, p.model)) for p in judges])
        return self.scheduler.stopped

    def _stop_waiting(self) -> None:
        self.retries.cancelled.set()
        self.note(
            "submitted batches continue at their service: `medhelm batches` lists them, and the same command collects "
            "them"
        )

    async def _buy_batches(self, targets: Sequence[BatchTarget]) -> None:
        """Buy everything that the cache lacks, except what batches left unanswered, unless the work is stopped.

        A model that cannot be used is given up at the client, with the reason. Raises: StoreError.
        """
        async with self.scheduler.running():
            if targets and not self.scheduler.stopped:
                await self.scheduler.attempt(finish_in_thread(partial(self._check_budget, targets)))
            for target in targets:
                if not self.scheduler.stopped:
                    self.scheduler.start(self._buy_from(target))

    async def _buy_from(self, target: BatchTarget) -> None:
        """Buy from one model; only one process per store does so at a time."""
        name = target.model.name
        service = open_batch_service(target.provider, self.session.http)
        job = BatchJob(target, service, self.batches, self.session, self.retries, delete=not self.settings.keep_batches)
        lock = None
        try:
            lock = await acquire_lock(
                self.store.folder / "locks" / f"batches--{target.model.digest}.lock",
                on_wait=lambda: self.note(
                    f"{name}: another process collects its batches for this store; waiting for it"
                ),
                sleep=self.retries.pause,  # raises when the user cancels the wait
            )
            await self.scheduler.attempt(job.run())
        except WaitCancelled:
            pass
        except ProviderError as error:
            if error.code == FailureCode.NO_BATCHES:
                self.note(f"{name}: its server has no batch API ({error}); requests are sent directly")
            else:
                self.session.client.give_up(target.model, str(error))
        finally:
            if lock is not None:
                lock.release()

    async def _complete_directly(self) -> None:
        """Get the completions that judges will read and that no batch has brought; the run reports failures."""
        async with self.scheduler.running():
            for model, provider in self.models:
                if not provider.local:
                    complete = partial(self._complete, provider)
                    limit = partial(self._concurrency, provider)
                    self.scheduler.start_each(self._judged_requests(model), complete, limit)

    def _concurrency(self, provider: Provider) -> int:
        """Return how many requests to a model may be in progress; servers may join a pool meanwhile."""
        return (self.settings.concurrency or MAXIMUM_IN_FLIGHT) * provider.n_servers

    async def _judged_requests(self, model: Model) -> AsyncIterator[tuple[Benchmark, Request]]:
        """Yield the requests to a model whose completions go to judges, until the work is stopped."""
        for dataset in self._judged():
            for _, _, request in self._requests(dataset, model):
                if self.scheduler.is_stopped(model.name):
                    return
                yield dataset.benchmark, request

    async def _complete(self, provider: Provider, item: tuple[Benchmark, Request]) -> None:
        benchmark, request = item
        await self.scheduler.attempt(self.fitter.ask(self.session.client, provider, request, benchmark))

    # --- requests -----------------------------------------------------------------------------------------------------

    def _judged(self) -> Iterator[Dataset]:
        """Yield the data sets with completions for the judges."""
        return (dataset for dataset in self.datasets if self.judges and JURY in dataset.benchmark.metrics)

    def _requests(self, dataset: Dataset, model: Model) -> Iterator[ModelRequest]:
        """Yield the requests to a model on a data set."""
        fresh = self.fresh.start_of(model, dataset) if self.fresh else ""
        return model_requests(dataset, model, fresh=fresh)

    def _model_requests(self, model: Model) -> Iterator[Request]:
        """Yield all requests to a model."""
        for dataset in self.datasets:
            for _, _, request in self._requests(dataset, model):
                fit = self.fitter.fit(request, dataset.benchmark)
                if fit.failure is None:
                    yield fit.request

    def _roomy_requests(self, model: Model) -> Iterator[Request]:
        """Yield requests again, with more room, whose limit was used up by reasoning."""
        for dataset in self.datasets:
            benchmark = dataset.benchmark
            for _, _, request in self._requests(dataset, model):
                fit = self.fitter.fit(request, benchmark)
                known = None if fit.failure else self.session.cache.find(fit.request)
                roomy = self.fitter.roomier(request, known.completion, benchmark) if known else None
                if roomy is not None:
                    self.fitter.say_that_it_reasons(request, roomy)
                    yield roomy

    def _judge_requests(self, judge: Model) -> Iterator[Request]:
        """Yield the first request about every completion that is known; a second depends on the judge's completion."""
        for dataset in self._judged():
            benchmark = dataset.benchmark
            for model, provider in self.models:
                provider.prepare(benchmark.name, dataset)
                for _, instance, request in self._requests(dataset, model):
                    completion = self._known(model, provider, request, benchmark)
                    if completion is None or completion.failure or is_blank(completion):
                        continue
                    for _, to_judge in judge_requests(
                        benchmark,
                        (judge,),
                        instance,
                        completion.text or "",
                        self._is_known,
                        with_codes=self.settings.verification_codes,
                    ):
                        named = replace(to_judge, benchmark=benchmark.name)
                        if not self.judge_fitter.unfit(named, benchmark):
                            yield named

    def _known(self, model: Model, provider: Provider, request: Request, benchmark: Benchmark) -> Completion | None:
        """Return a model's completion, if it is known without a request."""
        if answers_in_process(model.provider):
            return complete_locally(provider, request)
        if provider.local:
            return None
        fit = self.fitter.fit(request, benchmark)
        known = None if fit.failure else self.session.cache.find(fit.request)
        return known.completion if known else None

    # --- cost ---------------------------------------------------------------------------------------------------------

    def _check_budget(self, targets: Sequence[BatchTarget]) -> None:
        """Raises: BudgetError if the batches may cost more than may still be spent."""
        limit_usd = self.settings.max_cost_usd
        unanswered = {bytes.fromhex(d) for batch in self.batches.all() for d in batch.unanswered}
        self._reserve(targets, unanswered)
        if limit_usd is None:
            return
        n_missing, max_usd = 0, 0.0
        for target in targets:
            n, usd = self._max_cost(target, unanswered)
            n_missing += n
            max_usd += usd
        left_usd = limit_usd - self.session.budget.spent_usd
        if n_missing and max_usd > left_usd:
            raise BudgetError(
                f"stopped by the budget: the batches may cost {max_usd:.4f} US dollars, and {left_usd:.4f} may still "
                "be spent. A batch cannot stop at a limit, so none was submitted. `medhelm plan --batch` shows the "
                "expected cost; raise --max-cost, or omit --batch, which can stop at any request."
            )

    def _reserve(self, targets: Sequence[BatchTarget], unanswered: set[bytes]) -> None:
        """Reserve the most that the batches can cost, if the store has a limit. Raises: BudgetError."""
        for limit in self.session.budget.limits[-1:]:
            if isinstance(limit, StoreLimit):
                requests = {
                    request.digest: (request, BATCH_FACTOR * largest_cost_usd(request))
                    for target in targets
                    for request in target.requests()
                    if request.digest not in unanswered and not self.session.client.is_known(request)
                }
                if error := limit.reserve_batch(requests.values()):
                    raise error

    def _max_cost(self, target: BatchTarget, unanswered: set[bytes]) -> tuple[int, float]:
        """Return the number of a target's requests to submit, and the most that all its missing ones can cost."""
        price = target.model.price
        assert price is not None, "a budget requires all prices"
        benchmarks = {dataset.benchmark.name: dataset.benchmark for dataset in self.datasets}
        seen: set[bytes] = set()
        n, usd = 0, 0.0
        for request in target.requests():
            digest = request.digest
            if digest in seen or self.session.client.is_known(request):
                continue
            seen.add(digest)
            n += digest not in self.in_flight and digest not in unanswered
            ratio = self.fitter.estimator.ratio(target.model, benchmarks[request.benchmark])
            tokens = n_characters(request.prompt) * ratio.tokens_per_character * (1 + ratio.error)
            usage = Usage(input=round(tokens), output=request.max_tokens)
            usd += (1.0 if digest in unanswered else BATCH_FACTOR) * cost_of(usage, price)
        return n, usd
