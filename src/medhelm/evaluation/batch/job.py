"""The business with the batch API of one model: hand over, wait, collect, and have deleted what lies there.

A file in the store says of each batch which requests it holds, before the service gets it, so that whatever happens
between, no request is handed over twice. The file stays until the service holds nothing of the batch any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from time import time
from typing import IO, Literal

from medhelm.domain import Batch, Model, Request
from medhelm.errors import ProviderError
from medhelm.evaluation.batch.collect import BatchResult, collect
from medhelm.evaluation.batch.polling import RetryPolicy
from medhelm.evaluation.session import Session
from medhelm.models.batch import LOST, TOO_MUCH_QUEUED, BatchService, BatchStatus, RequestFile, lines_in, payload
from medhelm.models.providers.hosted import HttpProvider
from medhelm.storage.batches import Batches

FIRST_POLL_S, POLL_GROWTH, LONGEST_POLL_S = 10.0, 1.5, 300.0
"""Seconds before a batch is looked at for the first time, how they grow, and the most they become."""

TOLD_EVERY_S = 300.0
"""A batch that goes on is spoken of again after so long."""

PREPARED_AT_ONCE = 256
"""Requests that are made ready before others have their turn: some suites have hundreds of thousands."""

Role = Literal["model", "judge"]


@dataclass(slots=True)
class BatchTarget:
    """What is bought in batches from one model in one role."""

    provider: HttpProvider
    """Reaches the model."""
    role: Role
    """What it is asked as."""
    requests: Callable[[], Iterator[Request]]
    """Everything it will be asked, the same each time."""

    @property
    def model(self) -> Model:
        """Who is asked."""
        return self.provider.model

    def is_for(self, batch: Batch) -> bool:
        """Whether a batch is one of these."""
        return (batch.model_digest, batch.role) == (self.model.digest, self.role)


class BatchJob:
    """The business with one service for one model."""

    def __init__(
        self,
        desk: BatchTarget,
        service: BatchService,
        kept: Batches,
        session: Session,
        patience: RetryPolicy,
        *,
        delete: bool = True,
    ) -> None:
        """Nothing is asked yet. `delete`: whether the service is told to delete what is collected."""
        self.desk, self.service, self.kept, self.patience = desk, service, kept, patience
        self.model, self.session, self.delete = desk.model, session, delete
        self.most_requests = service.most_requests
        self.most_batches = 1_000_000
        """So many may wait at once."""
        self.refusals = 0
        """Rounds, one after the other, in which the account had no room for any batch."""

    # --- one round after the other ------------------------------------------------------------------------------------

    async def serve(self) -> None:
        """Take up what was handed over before, hand over the rest, and collect, until nothing is open.

        Raises: ProviderError if nothing can be had in this way; Stopped; StoreError.
        """
        for batch in self._own():
            self.desk.provider.left_out.update(batch.refused_parameters)
            if batch.state == "intended":
                await self._recover(batch)
            elif batch.state == "collected":
                await self._clear(batch)
        while True:
            await self._hand_over()
            running = [batch for batch in self._own() if batch.state == "submitted"]
            if not running:
                return
            outcomes = await asyncio.gather(
                *(self._finish(batch, alone=len(running) == 1) for batch in running), return_exceptions=True
            )
            for outcome in outcomes:
                if isinstance(outcome, BaseException):
                    raise outcome
            await self._make_room(max(batch.n for batch in running), outcomes.count(True), outcomes.count(False))

    def _own(self) -> list[Batch]:
        return [batch for batch in self.kept.all() if self.desk.is_for(batch)]

    def _open(self) -> Iterator[Request]:
        """Requests that nobody has answered, or is answering, and that no batch left open."""
        seen = {bytes.fromhex(d) for batch in self._own() for d in (*batch.digests, *batch.unanswered)}
        for request in self.desk.requests():
            if (digest := request.digest) not in seen and self.session.cache.get(digest) is None:
                seen.add(digest)
                yield request

    async def _make_room(self, n: int, n_taken: int, n_refused: int) -> None:
        """Learn how much the account may have waiting: `n_refused` batches, of at most `n` requests, were too much."""
        if not n_refused:
            self.most_batches *= 2
        else:
            self.most_batches = max(1, n_taken)
        if n_taken:
            self.refusals = 0
            return
        self.most_requests = max(1, n // 2)
        await self.patience.pause(min(FIRST_POLL_S * POLL_GROWTH**self.refusals, LONGEST_POLL_S))
        self.refusals += 1

    # --- handing over -------------------------------------------------------------------------------------------------

    async def _hand_over(self) -> None:
        """Make batches of everything that is open, as far as it may wait at once."""
        n_waiting = sum(batch.state == "submitted" for batch in self._own())
        requests = self._open()
        left: Request | None = None
        while n_waiting < self.most_batches:
            with self.kept.scratch() as file:
                parcel = RequestFile(self.service, file, self.most_requests)
                left = await self._fill(parcel, left, requests)
                if not parcel.digests:
                    return
                parcel.seal()
                try:
                    await self._submit(parcel)
                except ProviderError as error:
                    if not n_waiting or error.fatal or not error.retryable:
                        raise
                    # A full queue, most likely: what stands in it is collected first.
                    text = str(error).rstrip(".")
                    self.patience.note(f"{text}; the rest is handed over once the other batches are done")
                    return
            n_waiting += 1

    async def _fill(self, parcel: RequestFile, first: Request | None, requests: Iterator[Request]) -> Request | None:
        """Put in requests until there is no room; the one that has none. Raises: Stopped; StoreFullError."""
        n, request = 0, first or next(requests, None)
        while request is not None:
            body = payload(self.desk.provider, request)
            if not parcel.add(request.digest.hex(), body, stops=bool(request.stop)) and parcel.digests:
                return request
            # What is too long for a batch of its own is asked directly: its server says what is wrong with it.
            n += 1
            if n % PREPARED_AT_ONCE == 0:
                await asyncio.sleep(0)
                self.patience.check()
            request = next(requests, None)
        return None

    async def _submit(self, parcel: RequestFile) -> None:
        """One batch: on disk as an intention, then at the service, then on disk as a fact."""
        self.patience.check()
        model = self.model
        intended = self.kept.write(
            Batch(
                id=parcel.name,
                provider=model.provider,
                base_url=model.base_url,
                model=model.name,
                remote_name=model.remote_name,
                model_digest=model.digest,
                role=self.desk.role,
                state="intended",
                created=time(),
                n=len(parcel.digests),
                digests=tuple(parcel.digests),
                has_stop_sequences=parcel.stops,
                refused_parameters=dict(self.desk.provider.left_out),
            )
        )
        remote_id, adopted = await self._taken(intended, parcel.file)
        self.kept.write(replace(intended, state="submitted", remote_id=remote_id, is_uncertain_match=adopted))
        self.patience.note(f"{model.name}: {_n(intended)} handed over as batch {remote_id}")

    async def _taken(self, batch: Batch, file: IO[bytes]) -> tuple[str, bool]:
        """What the service calls a batch that it took, and whether it had to be looked for.

        Where its answer did not arrive, the batch may be there all the same: it is looked for before it is handed over
        again. Raises: ProviderError if the service does not want it; Stopped.
        """
        attempt = 0
        while True:
            attempt += 1
            try:
                return await self.service.submit(batch.id, file), False
            except ProviderError as error:
                failure = error
            if not failure.fatal and failure.retryable:
                # Also where it was the last: what may have been taken is not left behind unknown.
                await self.patience.pause(self.patience.wait_s(attempt, failure))
                if found := await self._find(batch):
                    return found, not self.service.verifiable
                if attempt < self.patience.attempts:
                    continue
            await self._drop(batch)
            raise failure

    async def _recover(self, batch: Batch) -> None:
        """A batch that was about to be handed over when a process ended: take it up if the service has it."""
        found = await self._find(batch)
        if not found:
            await self._drop(batch)
            return
        self.kept.write(
            replace(batch, state="submitted", remote_id=found, is_uncertain_match=not self.service.verifiable)
        )
        self.patience.note(
            f"{batch.model}: {_n(batch)} were handed over as batch {found} when a process ended; taken up"
        )

    async def _find(self, batch: Batch) -> str:
        """What the service calls a batch of ours; "" if it has none. Raises: ProviderError if it does not say."""
        others = [one.remote_id for one in self.kept.all() if one.id != batch.id]
        return await self.patience.insist(
            lambda: self.service.find(
                batch.id, since=batch.created, n=batch.n, known=frozenset((*others, *batch.rejected_remote_ids))
            ),
            times=self.patience.attempts,
        )

    # --- waiting and collecting ---------------------------------------------------------------------------------------

    async def _finish(self, batch: Batch, *, alone: bool) -> bool:
        """Wait for one batch and put its answers into the cache; False if it has to be handed over in smaller parts.

        Raises: ProviderError if the service did not work on all of it, and never will; Stopped.
        """
        with self.kept.scratch() as file:
            standing = await self._answers(batch, file)
            if standing.state == "ended":
                await self._collect(batch, standing, file)
                return True
        await self._drop(batch)
        if standing.code == TOO_MUCH_QUEUED and not (alone and batch.n == 1):
            how = "in smaller parts" if alone else "once the others are done"
            self.patience.note(
                f"{batch.model}: batch {batch.remote_id} is more than may wait at once; handed over {how}"
            )
            return False
        raise ProviderError(
            "batch_failed",
            f"{batch.model}: batch {batch.remote_id} was refused as a whole: "
            f"{standing.reason or 'no reason given'}. Nothing of it was bought. "
            "Mend that and run the same command again, or leave --batch out.",
        )

    async def _answers(self, batch: Batch, file: IO[bytes]) -> BatchStatus:
        """Wait until a batch has ended, and have its answers written to a file. Raises: ProviderError; Stopped."""
        try:
            standing = await self._ended(batch)
            for place in standing.places:
                await self.patience.insist(partial(self._download, place, file))
        except ProviderError as error:
            if error.code != LOST:
                raise
            raise ProviderError(
                LOST,
                f"{batch.model}: the service has no batch {batch.remote_id}, or no answers of it any more ({error}). "
                "Is this the key it was handed over with? Answers are kept there for a month, and until a copy of this "
                f"store has collected them. To have the {_n(batch)} answered anew, remove {self.kept.path(batch)}.",
            ) from error
        file.seek(0)
        return standing

    async def _ended(self, batch: Batch) -> BatchStatus:
        """Look at a batch now and then until it has ended."""
        loop = asyncio.get_running_loop()
        wait_s, told, word = FIRST_POLL_S, loop.time(), ""
        while True:
            standing = await self.patience.insist(lambda: self.service.look(batch.remote_id))
            if standing.state != "running":
                return standing
            if standing.word != word or loop.time() - told >= TOLD_EVERY_S:
                done = f", {standing.done} of {batch.n} done" if standing.done else ""
                self.patience.note(f"{batch.model}: batch {batch.remote_id} is {standing.word}{done}")
                told, word = loop.time(), standing.word
            await self.patience.pause(wait_s)
            wait_s = min(wait_s * POLL_GROWTH, LONGEST_POLL_S)

    async def _download(self, place: str, file: IO[bytes]) -> None:
        """Add the answers at an address to a file; what came of a download that broke off is taken back."""
        start = file.tell()
        try:
            await self.service.save(place, file)
        except ProviderError:
            file.seek(start)
            file.truncate()
            raise
        file.write(b"\n")

    async def _collect(self, batch: Batch, standing: BatchStatus, file: IO[bytes]) -> None:
        """Put the answers of a batch that has ended into the cache, and note what it left open.

        Raises: ProviderError if somebody stopped it.
        """
        provider, session = self.desk.provider, self.session
        lines = lines_in(file, self.service, batch.id)
        found = await collect(batch, lines, provider, session.cache, session.budget)
        if batch.is_uncertain_match and not found.is_ours:
            # It was somebody else's of the same size: known from now on, and the next one is looked for.
            strangers = (*batch.rejected_remote_ids, batch.remote_id)
            await self._recover(
                self.kept.write(
                    replace(
                        batch, state="intended", remote_id="", is_uncertain_match=False, rejected_remote_ids=strangers
                    )
                )
            )
            return
        # Who stops a batch does not want its requests bought at the full price instead.
        unanswered = () if standing.is_cancelled else tuple(sorted(found.missing))
        left_out = dict(provider.left_out)
        done = replace(batch, state="collected", digests=(), unanswered=unanswered, refused_parameters=left_out)
        self.patience.note(_summary(self.kept.write(done), found))
        await self._clear(done)
        if standing.is_cancelled and found.missing:
            raise ProviderError(
                "cancelled",
                f"{batch.model}: batch {batch.remote_id} was cancelled at its service, and {len(found.missing)} of its "
                "requests have no answer. The same command hands them over again; without --batch they are asked "
                "directly, at the full price.",
            )

    # --- what stays there ---------------------------------------------------------------------------------------------

    async def _drop(self, batch: Batch) -> None:
        """Give up a batch that the service never took, or never worked on: its requests are open again."""
        await self._delete(self.kept.write(replace(batch, state="collected", digests=(), refused_parameters={})))

    async def _clear(self, batch: Batch) -> None:
        """Be done with a batch whose answers are here."""
        if self.delete and await self._delete(batch):
            self.patience.note(f"{batch.model}: batch {batch.remote_id} is deleted at its service")

    async def _delete(self, batch: Batch) -> bool:
        """Have deleted what the service still holds of a batch. A failure is told, no more."""
        try:
            await self.patience.insist(
                lambda: self.service.discard(batch.id, batch.remote_id), times=self.patience.attempts
            )
        except ProviderError as error:
            if error.code != LOST:
                self.patience.note(
                    f"{batch.model}: batch {batch.remote_id or batch.id} could not be deleted at its service "
                    f"({error}). The next run with --batch tries again; `medhelm batches` lists it until then."
                )
                return False
        if batch.unanswered or batch.refused_parameters:
            self.kept.write(replace(batch, state="deleted"))
        else:
            self.kept.remove(batch)
        return True


def _n(batch: Batch) -> str:
    return f"{batch.n} request{'' if batch.n == 1 else 's'}"


def _summary(batch: Batch, found: BatchResult) -> str:
    """What came of a batch, in a sentence."""
    answered = batch.n - len(found.missing) - len(found.again)
    text = f"{batch.model}: batch {batch.remote_id} is done, {answered} of {batch.n} answered"
    if batch.unanswered:
        why = ", ".join(f"{n} {code}" for code, n in sorted(found.reasons.items()))
        text += f"; {len(batch.unanswered)} to be asked directly, at the full price ({why})"
    if found.again:
        text += f"; {len(found.again)} are handed over again without {', '.join(batch.refused_parameters)}"
    return text
