"""Buying through batch APIs: what the road will ask is handed over beforehand, and its answers are put into the cache.

So the road itself knows nothing of batches: where it comes by, the answers are there, and what a batch left open is
asked directly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from medhelm.domain import Model
from medhelm.errors import MedHelmError, ProviderError
from medhelm.evaluation.batch.job import BatchJob, BatchTarget
from medhelm.evaluation.batch.polling import RetryPolicy, WaitCancelled
from medhelm.evaluation.session import LOCK_POLL_S, Session
from medhelm.models.batch import NO_BATCHES, open_service
from medhelm.storage.batches import Batches
from medhelm.storage.store import Store

if TYPE_CHECKING:
    from filelock import FileLock


@dataclass(slots=True)
class BatchSession:
    """Hands over, waits and collects, for all models at once."""

    session: Session
    """Cache, budget and network."""
    store: Store
    """Where it is kept what was handed over."""
    patience: RetryPolicy
    """How long to wait, and who hears of it."""
    delete: bool = True
    """Whether services are told to delete what is collected."""
    kept: Batches = field(init=False)
    """What was handed over."""

    def __post_init__(self) -> None:
        """The batches of the store."""
        self.kept = Batches(self.store)

    async def buy(self, desks: Sequence[BatchTarget]) -> None:
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

    async def _buy(self, desk: BatchTarget) -> None:
        """One model; nobody else buys its batches for this store at the same time."""
        service = open_service(desk.provider, self.session.http)
        if service is None:
            return
        lock = None
        try:
            lock = await self._lock(desk.model)
            await BatchJob(desk, service, self.kept, self.session, self.patience, delete=self.delete).serve()
        except WaitCancelled:
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

        lock = FileLock(self.store.folder / "locks" / f"batches--{model.digest}.lock")
        told = False
        while True:
            with suppress(Timeout):
                lock.acquire(blocking=False)
                return lock
            if not told:
                self.patience.note(f"{model.name}: somebody else in this store waits for its batches; waiting for them")
                told = True
            await self.patience.pause(LOCK_POLL_S)
