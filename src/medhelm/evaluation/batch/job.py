"""The batches of one model: submit, wait, collect, delete.

Each batch passes through the states of `BatchState`, and each state is on disk before the step that follows it. So no
request is submitted twice, whatever ends the process: the next one finds a batch that the service may have accepted
(`intended`), one to wait for (`submitted`), and one to delete there (`collected`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from time import time
from typing import IO, Literal

from medhelm.domain import FailureCode, Model, Request
from medhelm.domain.batch import Batch, BatchState
from medhelm.domain.text import plural
from medhelm.errors import ProviderError
from medhelm.evaluation.batch.collect import BatchResult, collect
from medhelm.evaluation.batch.polling import RetryPolicy
from medhelm.evaluation.session import Session
from medhelm.io.http.audit import SUBJECT, Subject
from medhelm.models.batch.api import read_results
from medhelm.models.batch.protocol import QUEUE_FULL, BatchService, BatchStatus, RemoteState
from medhelm.models.batch.request_file import RequestFile
from medhelm.models.provider import OptionalParameter
from medhelm.models.providers.hosted import HttpProvider
from medhelm.storage.batches import Batches

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
