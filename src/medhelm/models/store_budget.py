"""The limit of a store: reservations and costs of all processes, in the store's ledger."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import asdict, replace
from pathlib import Path

from medhelm.analysis.cost import BATCH_FACTOR, cost_of
from medhelm.domain import Completion, Price, Request
from medhelm.errors import BudgetError, MedHelmError
from medhelm.models.budget import NANO, SpendingLimit, in_nano, largest_cost_usd
from medhelm.storage.budget_ledger import Ledger, Reservation, Settlement

POLL_S = 0.2
"""Interval between looks at what other processes have settled, while nothing is left."""

LONGEST_COMMAND = 300
"""Most characters of a command line that are kept."""


class StoreLimit(SpendingLimit):
    """The limit of one store for this process. Reservations that come together share a commit."""

    def __init__(
        self,
        ledger: Ledger,
        find: Callable[[bytes], Completion | None],
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """Settle what ended processes have left. `find`: digest -> completion in the cache."""
        self._ledger = ledger
        self._find = find
        self._sleep = sleep
        self._number = 0
        self._models: dict[int, str] = {}
        self._waiting: deque[tuple[Reservation, asyncio.Future[None]]] = deque()
        self._settled: list[Settlement] = []
        self._prices: dict[Price | None, str] = {}
        self._changed = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None
        command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])[:LONGEST_COMMAND]
        ledger.register(os.getpid(), time.time(), command)
        self.settle_ended()

    async def reserve(self, request: Request, digest: bytes) -> int:
        """Commit a reservation to the ledger, with others that come at the same time."""
        reservation = self.reservation(request, digest, largest_cost_usd(request))
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((reservation, future))
        self._work()
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                self.settle(reservation.number, 0.0)  # granted just before the cancellation
            raise
        return reservation.number

    def reservation(self, request: Request, digest: bytes, most_usd: float) -> Reservation:
        """Return a reservation for a request."""
        self._number += 1
        price = request.model.price
        if price not in self._prices:
            self._prices[price] = json.dumps(asdict(price or Price(input=0.0, output=0.0)))
        self._models[self._number] = request.model.name
        return Reservation(self._number, digest, request.model.name, in_nano(most_usd), self._prices[price])

    def settle(self, number: int, cost_usd: float) -> None:
        """Replace a reservation by the real cost, in the next commit."""
        self._settled.append(Settlement(number, self._models.pop(number), in_nano(cost_usd)))
        self._work()

    def charge(self, cost_usd: float) -> None:
        """Do nothing: completions of batches are settled by what the cache holds of them."""

    def stop(self, reason: MedHelmError) -> None:
        """Let waiting requests raise `reason`."""
        for _, future in self._waiting:
            if not future.done():
                future.set_exception(reason)
        self._work()

    def settle_ended(self) -> None:
        """Settle what processes that ended and collected batches have left."""
        self._ledger.settle_ended(self._cost)

    def reserve_batch(self, requests: Iterable[tuple[Request, float]]) -> BudgetError | None:
        """Reserve the most that requests in batches can cost, all or none; return the error if they do not fit."""
        self.settle_ended()
        reservations = [self.reservation(request, request.digest, usd) for request, usd in requests]
        if not reservations or self._ledger.reserve_batch(reservations):
            return None
        nano = sum(one.nano for one in reservations)
        return self._error(replace(reservations[0], nano=nano))

    async def close(self) -> None:
        """Commit the last costs and close the ledger."""
        try:
            if self._worker is not None:
                await asyncio.wait((self._worker,))
            if self._settled:
                self._ledger.settle(self._settled)
                self._settled = []
            self.settle_ended()
        finally:
            self._ledger.close()

    def _cost(self, digest: bytes, price: str, most: int) -> int | None:
        completion = self._find(digest)
        if completion is None:
            return None
        if completion.text and not (completion.usage.input and completion.usage.output):
            return most  # the service did not count
        factor = BATCH_FACTOR if completion.batched else 1.0
        return in_nano(factor * cost_of(completion.usage, Price(**json.loads(price))))

    def _work(self) -> None:
        self._changed.set()
        if self._worker is None:
            self._worker = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        """Exchange with the ledger until nothing is left to do: whatever comes during one commit is in the next."""
        try:
            while self._waiting or self._settled:
                self._changed.clear()
                settled, self._settled = self._settled, []
                while self._waiting and self._waiting[0][1].done():
                    self._drop(self._waiting.popleft()[0])
                asked = [(one, future) for one, future in self._waiting if not future.done()]
                granted, may_wait = await asyncio.to_thread(self._ledger.exchange, settled, [one for one, _ in asked])
                self._grant(asked[:granted])
                if granted < len(asked) and not self._changed.is_set():
                    if not may_wait:
                        await self._reject(*asked[granted])
                    else:
                        await self._poll()
        except MedHelmError as error:
            self.stop(error)
            self._waiting.clear()
        finally:
            self._worker = None

    def _grant(self, granted: list[tuple[Reservation, asyncio.Future[None]]]) -> None:
        """Let requests go; a reservation of one that was canceled meanwhile is given back."""
        for one, future in granted:
            if future.done():
                self._settled.append(Settlement(one.number, self._models.pop(one.number, one.model), 0))
            else:
                future.set_result(None)
        numbers = {one.number for one, _ in granted}
        self._waiting = deque(pair for pair in self._waiting if pair[0].number not in numbers)

    def _drop(self, reservation: Reservation) -> None:
        self._models.pop(reservation.number, None)

    async def _reject(self, reservation: Reservation, future: asyncio.Future[None]) -> None:
        """Reject the first request, unless processes that ended have left something after all."""
        before = (await asyncio.to_thread(self._ledger.balance)).held
        await asyncio.to_thread(self.settle_ended)
        balance = await asyncio.to_thread(self._ledger.balance)
        if balance.held >= before and not future.done():
            future.set_exception(self._error(reservation))

    async def _poll(self) -> None:
        """Wait for a change in this process, or for a moment: other processes settle, too."""
        changed = asyncio.ensure_future(self._changed.wait())
        nap = asyncio.ensure_future(self._sleep(POLL_S))
        try:
            await asyncio.wait((changed, nap), return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()
            nap.cancel()

    def _error(self, reservation: Reservation) -> BudgetError:
        balance = self._ledger.balance()
        parts = [f"{nano / NANO:.4f} on {model}" for model, _, nano in balance.by_model[:3]]
        if balance.spent_before:
            parts.append(f"{balance.spent_before / NANO:.4f} before the limit was set")
        if balance.reserved:
            parts.append(f"{balance.reserved / NANO:.4f} is reserved for requests in flight or in batches")
        if balance.lost:
            parts.append(f"{balance.lost / NANO:.4f} may have been spent by commands that were killed")
        return BudgetError(
            f"stopped by the budget of the store: {balance.held / NANO:.4f} of {(balance.limit or 0) / NANO:.4f} US "
            f"dollars are used ({', '.join(parts) or 'nothing was spent'}), and the next request to "
            f"{reservation.model} may cost {reservation.nano / NANO:.4f}. Everything received is kept. "
            "`medhelm budget show` lists who spent it; after `medhelm budget set USD` with a higher limit the same "
            "command continues from here."
        )
