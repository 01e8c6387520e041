"""Buying completions through batch APIs, at half the price: requests are submitted, awaited and collected."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from time import time
from typing import IO, Literal, TypeVar

from medhelm.analysis.cost import BATCH_FACTOR, cost_of
from medhelm.benchmarks.data.dataset import Dataset
from medhelm.domain import JURY, Benchmark, Completion, FailureCode, Model, Prompt, Request, Usage
from medhelm.domain.completion import Batch, BatchState
from medhelm.domain.text import plural
from medhelm.errors import BudgetError, MedHelmError, ProviderError
from medhelm.evaluation.context_window import ContextFitter, n_characters
from medhelm.evaluation.fresh_runs import FreshRuns
from medhelm.evaluation.plan import complete_locally
from medhelm.evaluation.requests import ModelRequest, judge_requests, model_requests
from medhelm.evaluation.scheduler import Scheduler, acquire_lock
from medhelm.evaluation.session import Session
from medhelm.evaluation.settings import MAXIMUM_IN_FLIGHT, Settings, StopReason
from medhelm.io.files import finish_in_thread
from medhelm.io.http.hosts import SUBJECT, Subject
from medhelm.models.batch.api import (
    QUEUE_FULL,
    BatchService,
    BatchStatus,
    RemoteState,
    RequestFile,
    RequestResult,
    has_batch_api,
    open_batch_service,
    read_completion,
    read_results,
)
from medhelm.models.budget import Budget, charged, largest_cost_usd
from medhelm.models.cache import Cache
from medhelm.models.provider import OptionalParameter, Provider, unsupported_parameter
from medhelm.models.providers import answers_in_process
from medhelm.models.providers.hosted import HttpProvider
from medhelm.models.store_budget import StoreLimit
from medhelm.scoring.metric import is_blank
from medhelm.storage.store import Store
from medhelm.storage.unfinished import Batches

# --- collect ----------------------------------------------------------------------------------------------------------
# The completions of a batch go into the cache, as if each had been bought alone.

MAX_CONCURRENT_WRITES = 512
"""Completions that are written to the cache together."""


@dataclass(slots=True)
class BatchResult:
    """Outcome of a collected batch."""

    missing: set[str]
    """Digests of the requests without a completion that are not submitted again."""
    resubmit: set[str] = field(default_factory=set)
    """Digests of the requests to submit again: the service did not support an optional parameter."""
    reasons: dict[str, str] = field(default_factory=dict)
    """Digest of a request without a completion -> the reason, if the service gave one."""
    is_ours: bool = False
    """True if any result belongs to a request of the batch."""

    @property
    def missing_by_reason(self) -> Counter[str]:
        """Reason -> number of requests without a completion."""
        return Counter(self.reasons.get(digest, "missing") for digest in self.missing)


async def collect(
    batch: Batch, results: Iterator[RequestResult], provider: HttpProvider, cache: Cache, budget: Budget
) -> BatchResult:
    """Commit every completion to the cache and charge half its price.

    Results may come in any order; those about other requests, and second ones about the same request, are skipped.
    `provider` learns which optional parameters the service does not support.
    Raises: StoreError if the cache cannot be written.
    """
    outcome = BatchResult(missing=set(batch.digests))
    template = _template(batch, provider)
    writes: list[asyncio.Future[None]] = []
    for result in results:
        if result.digest not in outcome.missing:
            continue
        outcome.is_ours = True
        completion = _completion(result, template, batch, provider, outcome)
        if completion is not None:
            outcome.missing.discard(result.digest)
            digest = bytes.fromhex(result.digest)
            writes.append(asyncio.ensure_future(_keep(digest, completion, template, cache, budget)))
        if len(writes) >= MAX_CONCURRENT_WRITES:
            await asyncio.gather(*writes)
            writes.clear()
    await asyncio.gather(*writes)
    outcome.resubmit &= outcome.missing
    outcome.missing -= outcome.resubmit
    return outcome


def _template(batch: Batch, provider: HttpProvider) -> Request:
    """Return a request with everything that matters for reading completions; the prompt does not."""
    schema: dict[str, object] | None = {} if batch.role == "judge" else None
    stop = ("",) if batch.has_stop_sequences else ()
    return Request(model=provider.model, prompt=Prompt(()), max_tokens=0, schema=schema, stop=stop)


def _completion(
    result: RequestResult, template: Request, batch: Batch, provider: HttpProvider, outcome: BatchResult
) -> Completion | None:
    """Return the completion in a result; None if there is none to keep, with the reason noted in `outcome`."""
    omitted = [OptionalParameter(name) for name in batch.refused_parameters]
    try:
        return read_completion(result, provider, template, omitted)
    except ProviderError as error:
        if unsupported_parameter(error):
            outcome.resubmit.add(result.digest)
        else:
            outcome.reasons[result.digest] = error.code
        return None


async def _keep(digest: bytes, completion: Completion, template: Request, cache: Cache, budget: Budget) -> None:
    """Commit one completion and charge it, unless it is in the cache."""
    if cache.get(digest) is not None:
        return
    await cache.put(digest, completion, model=template.model.name)
    if template.model.price is not None:
        budget.charge(BATCH_FACTOR * cost_of(charged(template, completion), template.model.price))


# --- job --------------------------------------------------------------------------------------------------------------
# The batches of one model: submit, wait, collect, delete.
#
# Each batch passes through the states of `BatchState`, and each state is on disk before the step that follows it. So no
# request is submitted twice, whatever ends the process: the next one finds a batch that the service may have accepted
# (`intended`), one to wait for (`submitted`), and one to delete there (`collected`).

FIRST_POLL_S, POLL_GROWTH, MAX_POLL_S = 10.0, 1.5, 300.0
"""Seconds before the first look at a batch, their growth factor, and their maximum."""

NOTE_INTERVAL_S = 300.0
"""Seconds between two notes on a batch whose state does not change."""

ENCODED_AT_ONCE = 256
"""Requests that are encoded before other tasks run: some suites have hundreds of thousands."""

Role = Literal["model", "judge"]


@dataclass(slots=True)
class BatchTarget:
    """A model in one role, with the requests to it."""

    provider: HttpProvider
    """Provider of the model."""
    role: Role
    """Its role: a model under test, or a judge."""
    requests: Callable[[], Iterator[Request]]
    """Makes all requests to it, the same each time."""

    @property
    def model(self) -> Model:
        """The model."""
        return self.provider.model


@dataclass(slots=True)
class BatchJob:
    """Buys the completions of one target through a batch API."""

    target: BatchTarget
    """The model and its requests."""
    service: BatchService
    """The batch API."""
    batches: Batches
    """The records of the store's batches."""
    session: Session
    """Cache and budget."""
    retries: RetryPolicy
    """Number and length of retries."""
    delete: bool = True
    """Delete collected batches at the service."""
    max_requests: int = field(init=False)
    """Most requests in one batch; lowered if the account's queue is too small."""
    max_batches: int = 1_000_000
    """Most batches in the queue; lowered and raised with what the account accepts."""
    rejected_rounds: int = 0
    """Rounds in a row in which the account's queue had no room for any batch."""

    def __post_init__(self) -> None:
        """Start with the service's own limit."""
        self.max_requests = self.service.max_requests

    async def run(self) -> None:
        """Recover batches of earlier processes, submit what is missing, and collect, until nothing is missing.

        Raises: ProviderError if the service cannot be used; WaitCancelled; StoreError.
        """
        for batch in self._own_batches():
            self.target.provider.unsupported.update(_optional_parameters(batch))
            if batch.state == BatchState.INTENDED:
                await self._recover(batch)
            elif batch.state == BatchState.COLLECTED:
                await self._delete_collected(batch)
        while True:
            await self._submit_missing()
            running = [batch for batch in self._own_batches() if batch.state == BatchState.SUBMITTED]
            if not running:
                return
            outcomes = await asyncio.gather(
                *(self._finish(batch, alone=len(running) == 1) for batch in running), return_exceptions=True
            )
            for outcome in outcomes:
                if isinstance(outcome, BaseException):
                    raise outcome
            await self._adapt_to_queue(max(batch.n for batch in running), outcomes.count(True), outcomes.count(False))

    def _own_batches(self) -> list[Batch]:
        """Return the target's batches in the store."""
        key = (self.target.model.digest, self.target.role)
        return [batch for batch in self.batches.all() if (batch.model_digest, batch.role) == key]

    def _missing(self) -> Iterator[Request]:
        """Yield the requests that are neither in the cache nor in a batch, and were not left unanswered by one."""
        seen = {bytes.fromhex(d) for batch in self._own_batches() for d in (*batch.digests, *batch.unanswered)}
        for request in self.target.requests():
            if (digest := request.digest) not in seen and not self.session.client.is_known(request):
                seen.add(digest)
                yield request

    async def _adapt_to_queue(self, n: int, n_accepted: int, n_rejected: int) -> None:
        """Learn how much the account may have queued: `n_rejected` batches of at most `n` requests were too much."""
        self.max_batches = max(1, n_accepted) if n_rejected else self.max_batches * 2
        if n_accepted:
            self.rejected_rounds = 0
            return
        self.max_requests = max(1, n // 2)
        await self.retries.pause(min(FIRST_POLL_S * POLL_GROWTH**self.rejected_rounds, MAX_POLL_S))
        self.rejected_rounds += 1

    # --- submit -------------------------------------------------------------------------------------------------------

    async def _submit_missing(self) -> None:
        """Submit all missing requests, up to the number of batches that may be queued."""
        n_queued = sum(batch.state == BatchState.SUBMITTED for batch in self._own_batches())
        requests = self._missing()
        carried: Request | None = None
        while n_queued < self.max_batches:
            with self.batches.scratch() as file:
                request_file = RequestFile(self.service, file, self.max_requests)
                carried = await self._fill(request_file, carried, requests)
                if not request_file.digests:
                    return
                request_file.finish()
                try:
                    await self._submit(request_file)
                except ProviderError as error:
                    if not n_queued or error.fatal or not error.retryable:
                        raise
                    # Most likely the queue is full: collect what is in it first.
                    message = str(error).rstrip(".")
                    self.retries.note(f"{message}; the rest is submitted once the other batches are done")
                    return
            n_queued += 1

    async def _fill(
        self, request_file: RequestFile, first: Request | None, requests: Iterator[Request]
    ) -> Request | None:
        """Add requests up to a limit; return the one that did not fit. Raises: WaitCancelled; StoreFullError."""
        n, request = 0, first or next(requests, None)
        while request is not None:
            body = self.target.provider.payload(request)
            is_added = request_file.add(request.digest.hex(), body, has_stop_sequences=bool(request.stop))
            if not is_added and request_file.digests:
                return request
            request_file.benchmarks.add(request.benchmark)
            # A request that alone exceeds the limit is sent directly: its server reports what is wrong with it.
            n += 1
            if n % ENCODED_AT_ONCE == 0:
                await asyncio.sleep(0)
                self.retries.check()
            request = next(requests, None)
        return None

    async def _submit(self, request_file: RequestFile) -> None:
        """Submit one batch: record the intention on disk, submit, then record the fact."""
        self.retries.check()
        model = self.target.model
        batch = self.batches.write(
            Batch(
                id=request_file.name,
                provider=model.provider,
                base_url=model.base_url,
                model=model.name,
                remote_name=model.remote_name,
                model_digest=model.digest,
                role=self.target.role,
                state=BatchState.INTENDED,
                created=time(),
                n=len(request_file.digests),
                digests=tuple(request_file.digests),
                has_stop_sequences=request_file.has_stop_sequences,
                refused_parameters=_stored_parameters(self.target.provider),
            )
        )
        SUBJECT.set(Subject(model.name, ", ".join(sorted(request_file.benchmarks)), requests=batch.n, in_file=True))
        remote_id = await self._submit_or_find(batch, request_file.file)
        SUBJECT.set(Subject(model.name, requests=0))
        self.batches.write(replace(batch, state=BatchState.SUBMITTED, remote_id=remote_id))
        self.retries.note(f"{model.name}: {plural(batch.n, 'request')} submitted as batch {remote_id}")

    async def _submit_or_find(self, batch: Batch, file: IO[bytes]) -> str:
        """Submit a batch and return the service's ID of it.

        If the reply is lost, the service may have accepted the batch: it is looked for before it is submitted again.
        Raises: ProviderError if the service rejects it; WaitCancelled.
        """
        attempt = 0
        while True:
            attempt += 1
            try:
                return await self.service.submit(batch.id, file)
            except ProviderError as error:
                failure = error
            if not failure.fatal and failure.retryable:
                # Search after the last attempt too: an accepted batch must not be lost.
                await self.retries.pause(self.retries.delay_s(attempt, failure))
                if found := await self._find(batch):
                    return found
                if attempt < self.retries.attempts:
                    continue
            await self._discard(batch)
            raise failure

    async def _recover(self, batch: Batch) -> None:
        """Continue with a batch that a process was about to submit when it ended, if the service accepted it."""
        found = await self._find(batch)
        if not found:
            await self._discard(batch)
            return
        self.batches.write(replace(batch, state=BatchState.SUBMITTED, remote_id=found))
        self.retries.note(
            f"{batch.model}: {plural(batch.n, 'request')} were submitted as batch {found} by a process that ended; "
            "continuing"
        )

    async def _find(self, batch: Batch) -> str:
        """Return the service's ID of a batch; "" if it has none. Raises: ProviderError if it does not reply."""
        known = frozenset(other.remote_id for other in self.batches.all() if other.id != batch.id)
        return await self.retries.retry(
            lambda: self.service.find(batch.id, since=batch.created, n=batch.n, known=known),
            attempts=self.retries.attempts,
        )

    # --- wait and collect ---------------------------------------------------------------------------------------------

    async def _finish(self, batch: Batch, *, alone: bool) -> bool:
        """Wait for one batch and collect it; return False if it must be submitted again in smaller parts.

        Raises: ProviderError if the service did not process all of it, and never will; WaitCancelled.
        """
        with self.batches.scratch() as file:
            status = await self._download(batch, file)
            if status.state == RemoteState.ENDED:
                await self._collect(batch, status, file)
                return True
        await self._discard(batch)
        if status.error_code == QUEUE_FULL and not (alone and batch.n == 1):
            how = "in smaller parts" if alone else "once the others are done"
            self.retries.note(
                f"{batch.model}: batch {batch.remote_id} exceeds the account's queue; it is submitted again {how}"
            )
            return False
        raise ProviderError(
            FailureCode.BATCH_FAILED,
            f"{batch.model}: batch {batch.remote_id} was rejected as a whole: "
            f"{(status.error_message or 'no reason given').rstrip('.')}. Nothing of it was bought. "
            "Resolve that and repeat the command, or omit --batch.",
        )

    async def _download(self, batch: Batch, file: IO[bytes]) -> BatchStatus:
        """Wait until a batch has ended, and write its results to a file. Raises: ProviderError; WaitCancelled."""
        try:
            status = await self._wait(batch)
            for url in status.result_urls:
                await self.retries.retry(partial(self._append, url, file))
        except ProviderError as error:
            if error.code != FailureCode.UNKNOWN_BATCH:
                raise
            raise ProviderError(
                FailureCode.UNKNOWN_BATCH,
                f"{batch.model}: the service no longer has batch {batch.remote_id}, or its results ({error}). Is this "
                "the key it was submitted with? Results are kept for a month, and until a copy of this store has "
                f"collected them. To submit the {plural(batch.n, 'request')} again, delete {self.batches.path(batch)}.",
            ) from error
        file.seek(0)
        return status

    async def _wait(self, batch: Batch) -> BatchStatus:
        """Poll a batch until it has ended."""
        loop = asyncio.get_running_loop()
        wait_s, noted_at, last_state = FIRST_POLL_S, loop.time(), ""
        while True:
            status = await self.retries.retry(lambda: self.service.status(batch.remote_id))
            if status.state != RemoteState.RUNNING:
                return status
            if status.service_state != last_state or loop.time() - noted_at >= NOTE_INTERVAL_S:
                done = f", {status.n_done} of {batch.n} done" if status.n_done else ""
                self.retries.note(f"{batch.model}: batch {batch.remote_id} is {status.service_state}{done}")
                noted_at, last_state = loop.time(), status.service_state
            await self.retries.pause(wait_s)
            wait_s = min(wait_s * POLL_GROWTH, MAX_POLL_S)

    async def _append(self, url: str, file: IO[bytes]) -> None:
        """Append the results at an address to a file; the rest of a failed download is removed."""
        start = file.tell()
        try:
            await self.service.download(url, file)
        except ProviderError:
            file.seek(start)
            file.truncate()
            raise
        file.write(b"\n")

    async def _collect(self, batch: Batch, status: BatchStatus, file: IO[bytes]) -> None:
        """Put the completions of a batch into the cache, and record what has none.

        Raises: ProviderError if the batch was canceled at the service, or belongs to another program.
        """
        provider, session = self.target.provider, self.session
        results = read_results(file, self.service, batch.id)
        result = await collect(batch, results, provider, session.cache, session.budget)
        if not (result.is_ours or self.service.carries_name):  # then it was found by time and size
            raise ProviderError(
                FailureCode.UNKNOWN_BATCH,
                f"{batch.model}: batch {batch.remote_id} was found by its time and size, but holds no result of the "
                f"{plural(batch.n, 'request')} that were submitted. Check the service's console for another batch of "
                f"this size. If there is none, delete {self.batches.path(batch)} to submit the requests again.",
            )
        # If the user canceled the batch, its requests must not be bought at the full price instead.
        unanswered = () if status.is_cancelled else tuple(sorted(result.missing))
        collected = replace(
            batch,
            state=BatchState.COLLECTED,
            digests=(),
            unanswered=unanswered,
            refused_parameters=_stored_parameters(provider),
        )
        self.retries.note(_summary(self.batches.write(collected), result))
        await self._delete_collected(collected)
        if status.is_cancelled and result.missing:
            raise ProviderError(
                FailureCode.CANCELLED,
                f"{batch.model}: batch {batch.remote_id} was canceled at its service, and {len(result.missing)} of "
                "its requests have no completion. Repeat the command to submit them again, or without --batch to send "
                "them directly, at the full price.",
            )

    # --- delete -------------------------------------------------------------------------------------------------------

    async def _discard(self, batch: Batch) -> None:
        """Discard a batch that the service never accepted or never processed: its requests are missing again."""
        await self._delete(
            self.batches.write(replace(batch, state=BatchState.COLLECTED, digests=(), refused_parameters={}))
        )

    async def _delete_collected(self, batch: Batch) -> None:
        """Delete a collected batch at the service, unless the user wants to keep it there."""
        if self.delete and await self._delete(batch):
            self.retries.note(f"{batch.model}: batch {batch.remote_id} is deleted at its service")

    async def _delete(self, batch: Batch) -> bool:
        """Delete what the service still holds of a batch; return False, with a note, if that fails."""
        try:
            await self.retries.retry(
                lambda: self.service.delete(batch.id, batch.remote_id), attempts=self.retries.attempts
            )
        except ProviderError as error:
            if error.code != FailureCode.UNKNOWN_BATCH:
                self.retries.note(
                    f"{batch.model}: batch {batch.remote_id or batch.id} could not be deleted at its service "
                    f"({error}). The next run with --batch tries again; `medhelm batches` lists it until then."
                )
                return False
        if batch.unanswered or batch.refused_parameters:
            self.batches.write(replace(batch, state=BatchState.DELETED))
        else:
            self.batches.remove(batch)
        return True


def _optional_parameters(batch: Batch) -> dict[OptionalParameter, str]:
    return {OptionalParameter(name): message for name, message in batch.refused_parameters.items()}


def _stored_parameters(provider: HttpProvider) -> dict[str, str]:
    return {str(parameter): message for parameter, message in provider.unsupported.items()}


def _summary(batch: Batch, result: BatchResult) -> str:
    """Summarize a collected batch in one sentence."""
    completed = batch.n - len(result.missing) - len(result.resubmit)
    text = f"{batch.model}: batch {batch.remote_id} is done, {completed} of {batch.n} completed"
    if batch.unanswered:
        reasons = ", ".join(f"{n} {reason}" for reason, n in sorted(result.missing_by_reason.items()))
        text += f"; {len(batch.unanswered)} to be sent directly, at the full price ({reasons})"
    if result.resubmit:
        text += f"; {len(result.resubmit)} are submitted again without {', '.join(batch.refused_parameters)}"
    return text


# --- polling ----------------------------------------------------------------------------------------------------------
# Waiting for a batch API: retries with backoff, until the user cancels the wait.

FIRST_RETRY_S, MAX_RETRY_S = 2.0, 300.0
"""Seconds between the first two attempts, doubled with each further one, and their maximum."""

T = TypeVar("T")


class WaitCancelled(MedHelmError):  # noqa: N818 - a decision, not an error
    """The user canceled the wait. Submitted batches continue at their service."""


@dataclass(slots=True)
class RetryPolicy:
    """Number and length of retries, and the request to stop."""

    note: Callable[[str], object]
    """Receives messages for the user."""
    attempts: int = 5
    """Most attempts of calls that may be given up."""
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the user cancels the wait."""

    async def pause(self, seconds: float) -> None:
        """Sleep. Raises: WaitCancelled as soon as the user cancels."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.cancelled.wait(), seconds)
        self.check()

    def check(self) -> None:
        """Raises: WaitCancelled if the user has canceled."""
        if self.cancelled.is_set():
            raise WaitCancelled

    async def retry(self, call: Callable[[], Awaitable[T]], *, attempts: int = 0) -> T:
        """Call until it succeeds; `attempts` 0 means for as long as it takes.

        Raises: ProviderError if a retry cannot help, or after the last attempt; WaitCancelled.
        """
        attempt = 0
        while True:
            attempt += 1
            try:
                return await call()
            except ProviderError as error:
                if error.fatal or not error.retryable or attempt == attempts:
                    raise
                failure = error
            if attempt == 1:
                self.note(f"{str(failure).rstrip('.')}; retrying")
            await self.pause(self.delay_s(attempt, failure))

    def delay_s(self, attempt: int, error: ProviderError) -> float:
        """Return the seconds to wait after an attempt, counted from 1, that failed with this error."""
        return max(min(FIRST_RETRY_S * 2.0 ** (attempt - 1), MAX_RETRY_S), error.retry_after_s or 0.0)


# --- submit -----------------------------------------------------------------------------------------------------------
# Buying an evaluation's completions through batch APIs before it runs: the models' first, then the judges'.
#
# Completions go into the cache, so the run itself knows nothing of batches: it finds what a batch has brought, and
# sends the rest directly.


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
                if not dataset.variant:
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
