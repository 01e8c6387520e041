"""Buying through batch APIs: what the road will ask is handed over beforehand, and its answers are put into the cache.

So the road itself knows nothing of batches: where it comes by, the answers are there, and what a batch left open is
asked directly. A file in the store says of each batch which requests it holds, before the service gets it, so that
whatever happens between, no request is handed over twice.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from secrets import token_hex
from tempfile import TemporaryFile
from time import time
from typing import IO, TYPE_CHECKING, Literal

from medhelm.collecting import collect
from medhelm.domain import Model, Request
from medhelm.errors import MedHelmError, ProviderError
from medhelm.models.batches import (
    LOST,
    NO_BATCHES,
    TOO_MUCH_QUEUED,
    Service,
    Standing,
    lines_in,
    open_service,
    payload,
)
from medhelm.models.providers.hosted import Hosted
from medhelm.patience import Patience, Stopped
from medhelm.session import LOCK_POLL_S, Session
from medhelm.storage.batches import Batch, Batches
from medhelm.storage.store import Store

if TYPE_CHECKING:
    from filelock import FileLock

FIRST_POLL_S, POLL_GROWTH, LONGEST_POLL_S = 10.0, 1.5, 300.0
"""Seconds before a batch is looked at for the first time, how they grow, and the most they become."""

TOLD_EVERY_S = 300.0
"""A batch that goes on is spoken of again after so long."""

Role = Literal["model", "judge"]


@dataclass(slots=True)
class Desk:
    """What is bought in batches from one model in one role."""

    provider: Hosted
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
        return (batch.asked, batch.role) == (identity(self.model), self.role)


@dataclass(slots=True)
class Batching:
    """Hands over, waits and collects, for all models at once."""

    session: Session
    """Cache, budget and network."""
    store: Store
    """Where it is kept what was handed over."""
    patience: Patience
    """How long to wait, and who hears of it."""
    kept: Batches = field(init=False)
    """What was handed over."""

    def __post_init__(self) -> None:
        """The batches of the store."""
        self.kept = Batches(self.store)

    def in_flight(self) -> set[bytes]:
        """Digests of all requests that a service may be answering."""
        return {bytes.fromhex(digest) for batch in self.kept.all() for digest in batch.digests}

    async def buy(self, desks: Sequence[Desk]) -> None:
        """Have everything answered that the cache lacks, except what batches left open.

        A model that cannot be had is given up at the client, with the reason.
        Raises: Stopped; StoreError.
        """
        try:
            async with asyncio.TaskGroup() as group:
                for desk in desks:
                    group.create_task(self._buy(desk))
        except* MedHelmError as errors:
            raise errors.exceptions[0] from errors
        self.patience.check()

    async def _buy(self, desk: Desk) -> None:
        """One model; nobody else buys its batches for this store at the same time."""
        service = open_service(desk.provider, self.session.http)
        if service is None:
            return
        lock = None
        try:
            lock = await self._lock(desk.model)
            await Dealings(self, desk, service).serve()
        except Stopped:
            pass
        except ProviderError as error:
            if error.code == NO_BATCHES:
                self.patience.note(f"{desk.model.name}: its server has no batch API ({error}); it is asked directly")
            else:
                self.session.client.give_up(desk.model, str(error))
        finally:
            if lock is not None:
                lock.release()

    async def _lock(self, model: Model) -> FileLock:
        """Wait until no other process buys batches of this model for this store. Raises: Stopped."""
        from filelock import FileLock, Timeout

        lock = FileLock(self.store.folder / "locks" / f"batches--{identity(model)}.lock")
        told = False
        while True:
            with suppress(Timeout):
                lock.acquire(blocking=False)
                return lock
            if not told:
                self.patience.note(f"{model.name}: somebody else in this store waits for its batches; waiting for them")
                told = True
            await self.patience.pause(LOCK_POLL_S)


class Dealings:
    """The business with one service for one model."""

    def __init__(self, batching: Batching, desk: Desk, service: Service) -> None:
        """Nothing is asked yet."""
        self.batching, self.desk, self.service = batching, desk, service
        self.kept, self.patience, self.model = batching.kept, batching.patience, desk.model
        self.cache = batching.session.cache
        self.most_requests = service.most_requests

    # --- one round after the other ------------------------------------------------------------------------------------

    async def serve(self) -> None:
        """Take up what was handed over before, hand over the rest, and collect, until nothing is open.

        Raises: ProviderError if nothing can be had in this way; Stopped; StoreError.
        """
        for batch in self._own():
            if self.desk.role == batch.role:
                self.desk.provider.left_out.update(batch.left_out)
            if batch.state == "intended":
                await self._recover(batch)
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
            if not any(outcomes):  # all of them are more than the account may have waiting
                self.most_requests = max(1, max(batch.n for batch in running) // 2)

    def _own(self) -> list[Batch]:
        return [batch for batch in self.kept.all() if self.desk.is_for(batch)]

    def _open(self) -> Iterator[Request]:
        """Requests that nobody has answered, or is answering, and that no batch left open."""
        seen = {bytes.fromhex(d) for batch in self._own() for d in (*batch.digests, *batch.unanswered)}
        for request in self.desk.requests():
            if (digest := request.digest) not in seen and self.cache.get(digest) is None:
                seen.add(digest)
                yield request

    # --- handing over -------------------------------------------------------------------------------------------------

    async def _hand_over(self) -> None:
        """Make batches of everything that is open."""
        digests: list[str] = []
        lines: list[bytes] = []
        size, stops = 0, False
        for request in self._open():
            digest = request.digest.hex()
            line = self.service.line(digest, payload(self.desk.provider, request))
            if len(line) > self.service.most_bytes:
                continue  # asked directly, its server says what is wrong with it
            if lines and (len(lines) >= self.most_requests or size + len(line) > self.service.most_bytes):
                await self._submit(digests, lines, stops)
                digests, lines, size, stops = [], [], 0, False
            digests.append(digest)
            lines.append(line)
            size += len(line) + 1
            stops = stops or bool(request.stop)
        if lines:
            await self._submit(digests, lines, stops)

    async def _submit(self, digests: Sequence[str], lines: Sequence[bytes], stops: bool) -> None:
        """One batch: on disk as an intention, then at the service, then on disk as a fact."""
        self.patience.check()
        model = self.model
        intended = self.kept.write(
            Batch(
                id=f"medhelm-{token_hex(12)}",
                provider=model.provider,
                base_url=model.base_url,
                model=model.name,
                remote_name=model.remote_name,
                asked=identity(model),
                role=self.desk.role,
                state="intended",
                created=time(),
                n=len(digests),
                digests=tuple(digests),
                stops=stops,
                left_out=dict(self.desk.provider.left_out),
            )
        )
        remote_id, adopted = await self._taken(intended, lines)
        self.kept.write(replace(intended, state="submitted", remote_id=remote_id, adopted=adopted))
        self.patience.note(f"{model.name}: {_n(intended)} handed over as batch {remote_id}")

    async def _taken(self, batch: Batch, lines: Sequence[bytes]) -> tuple[str, bool]:
        """What the service calls a batch that it took, and whether it had to be looked for.

        Where its answer did not arrive, the batch may be there all the same: it is looked for before it is handed over
        again. Raises: ProviderError if the service does not want it; Stopped.
        """
        attempt = 0
        while True:
            attempt += 1
            try:
                return await self.service.submit(batch.id, lines), False
            except ProviderError as error:
                failure = error
            if not failure.fatal and failure.retryable:
                # Also where it was the last: what may have been taken is not left behind unknown.
                await self.patience.pause(self.patience.wait_s(attempt, failure))
                if found := await self._find(batch):
                    return found, not self.service.verifiable
                if attempt < self.patience.attempts:
                    continue
            self.kept.remove(batch)
            raise failure

    async def _recover(self, batch: Batch) -> None:
        """A batch that was about to be handed over when a process ended: take it up if the service has it."""
        found = await self._find(batch)
        if not found:
            self.kept.remove(batch)
            return
        self.kept.write(replace(batch, state="submitted", remote_id=found, adopted=not self.service.verifiable))
        self.patience.note(
            f"{batch.model}: {_n(batch)} were handed over as batch {found} when a process ended; taken up"
        )

    async def _find(self, batch: Batch) -> str:
        """What the service calls a batch of ours; "" if it has none. Raises: ProviderError if it does not say."""
        known = frozenset(one.remote_id for one in self.kept.all() if one.id != batch.id)
        return await self.patience.insist(
            lambda: self.service.find(batch.id, since=batch.created, n=batch.n, known=known),
            times=self.patience.attempts,
        )

    # --- waiting and collecting ---------------------------------------------------------------------------------------

    async def _finish(self, batch: Batch, *, alone: bool) -> bool:
        """Wait for one batch and put its answers into the cache; False if it has to be handed over in smaller parts.

        Raises: ProviderError if the service did not work on it at all; Stopped.
        """
        standing = await self._ended(batch)
        if standing.state == "failed":
            self.kept.remove(batch)
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
        with TemporaryFile() as file:
            for place in standing.places:
                await self.patience.insist(partial(self._download, place, file))
            file.seek(0)
            await self._collect(batch, file)
        return True

    async def _ended(self, batch: Batch) -> Standing:
        """Look at a batch now and then until it has ended."""
        loop = asyncio.get_running_loop()
        wait_s, told, word = FIRST_POLL_S, loop.time(), ""
        while True:
            try:
                standing = await self.patience.insist(lambda: self.service.look(batch.remote_id))
            except ProviderError as error:
                if error.code != LOST:
                    raise
                raise ProviderError(
                    LOST,
                    f"{batch.model}: the service does not know batch {batch.remote_id} ({error}). Is this the key "
                    "it was handed over with? Answers are kept for a month; to have them anew, remove "
                    f"{self.kept.path(batch)}.",
                ) from error
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

    async def _collect(self, batch: Batch, file: IO[bytes]) -> None:
        """Put the answers of a batch that has ended into the cache, and note what it left open."""
        provider, session = self.desk.provider, self.batching.session
        found = await collect(batch, lines_in(file, self.service), provider, session.cache, session.budget)
        if batch.adopted and not found.is_ours:
            # It was somebody else's of the same size: known from now on, and the next one is looked for.
            self.kept.write(replace(batch, id=f"{batch.id}-not", state="collected", digests=()))
            await self._recover(replace(batch, state="intended", remote_id="", adopted=False))
            return
        left_out, unanswered = dict(provider.left_out), tuple(sorted(found.missing))
        self.kept.write(replace(batch, state="collected", digests=(), unanswered=unanswered, left_out=left_out))
        n_open = len(found.missing)
        answered = batch.n - n_open - len(found.again)
        text = f"{batch.model}: batch {batch.remote_id} is done, {answered} of {batch.n} answered"
        if n_open:
            why = ", ".join(f"{n} {code}" for code, n in sorted(found.reasons.items()))
            text += f"; {n_open} to be asked directly, at the full price ({why})"
        if found.again:
            text += f"; {len(found.again)} are handed over again without {', '.join(provider.left_out)}"
        self.patience.note(text)


def identity(model: Model) -> str:
    """Hash of everything that decides who answers, the same for every name that leads there."""
    who = [model.provider, model.base_url, model.remote_name, model.reasoning, model.reasoning_effort]
    return hashlib.sha256(json.dumps([who, sorted(model.parameters.items())]).encode()).hexdigest()[:32]


def _n(batch: Batch) -> str:
    return f"{batch.n} request{'' if batch.n == 1 else 's'}"
