"""Buying through batch APIs: what the road will ask is handed over beforehand, and its answers are put into the cache.

So the road itself knows nothing of batches: where it comes by, the answers are there, and what a batch left open is
asked directly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from medhelm.errors import MedHelmError, ProviderError
from medhelm.evaluation.batch.job import BatchJob, BatchTarget
from medhelm.evaluation.batch.polling import RetryPolicy, WaitCancelled
from medhelm.evaluation.scheduler import acquire_lock
from medhelm.evaluation.session import Session
from medhelm.models.batch import NO_BATCHES, open_service
from medhelm.storage.batches import Batches
from medhelm.storage.store import Store


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
            name = desk.model.name
            lock = await acquire_lock(  # the pause raises when the wait is cancelled
                self.store.folder / "locks" / f"batches--{desk.model.digest}.lock",
                on_wait=lambda: self.patience.note(
                    f"{name}: another process in this store waits for its batches; waiting for them"
                ),
                sleep=self.patience.pause,
            )
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
