"""The limit on requests in flight to one endpoint, adapted to what the endpoint can handle."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from medhelm.domain import FailureCode
from medhelm.errors import ProviderError


class ConcurrencyLimiter:
    """An adaptive limit on requests in flight, as in TCP's congestion control (Jacobson 1988).

    It starts at `start` and doubles with each round trip until the endpoint reports an overload; from then on it grows
    by one per round trip. An overload halves it, at most once per round trip: requests that were sent before the last
    halving do not count. It never grows beyond what is used.

    It does not shrink when completions become slow: latency depends mostly on their length, and a suite mixes one-word
    answers with letters of a thousand tokens.
    """

    def __init__(
        self,
        start: int,
        maximum: int,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """`start`, `maximum`: requests in flight, at least 1. `clock` and `sleep` (seconds) are replaced in tests."""
        self._maximum = max(1, maximum)
        self._limit = float(min(max(1, start), self._maximum))
        self._clock = clock
        self._sleep = sleep
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._in_flight = 0
        self._round = 0
        """Number of overloads so far."""
        self._paused_until = float("-inf")

    @property
    def limit(self) -> int:
        """Requests that may be in flight now, from 1 to the maximum."""
        return int(self._limit)

    @property
    def in_flight(self) -> int:
        """Slots in use."""
        return self._in_flight

    @property
    def pause_s(self) -> float:
        """Seconds until the next request may be sent; 0.0 if it may be now."""
        return max(0.0, self._paused_until - self._clock())

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Hold a slot for one request, first come, first served: `async with limiter.slot(): ...`.

        A block without an error counts as a success. A ProviderError that is `overloaded` or has the code `timeout`
        halves the limit, and its `retry_after_s` pauses the whole endpoint.
        """
        round_ = await self._take()
        try:
            yield
            self._succeeded(round_)
        except ProviderError as error:
            if error.overloaded or error.code == FailureCode.TIMEOUT:
                self._overloaded(round_)
            if error.retry_after_s is not None:
                self.pause(error.retry_after_s)
            raise
        finally:
            self._give_back()

    def lower_maximum(self, maximum: int) -> None:
        """Lower the maximum; a higher number than before changes nothing."""
        self._maximum = max(1, min(self._maximum, maximum))
        self._limit = min(self._limit, float(self._maximum))

    def pause(self, seconds: float) -> None:
        """Start no request within the next `seconds`; a longer pause in progress stays."""
        self._paused_until = max(self._paused_until, self._clock() + seconds)

    async def _take(self) -> int:
        """Wait for a slot, then for the end of a pause. Returns the round of the request."""
        if self._in_flight < int(self._limit) and not self._waiting:
            self._in_flight += 1
        else:
            await self._queue()
        try:
            # Wait out the pause with the slot taken: this keeps the order and needs no timer.
            while self._paused_until > self._clock():
                await self._sleep(self._paused_until - self._clock())
        except asyncio.CancelledError:
            self._give_back()
            raise
        return self._round

    async def _queue(self) -> None:
        place = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self._give_back()  # granted just before the cancellation: pass it on
            raise

    def _give_back(self) -> None:
        """Free one slot; grant as many as the limit allows."""
        self._in_flight -= 1
        while self._waiting and self._in_flight < int(self._limit):
            place = self._waiting.popleft()
            if not place.done():
                self._in_flight += 1
                place.set_result(None)

    def _succeeded(self, round_: int) -> None:
        """Grow, if the request was sent after the last overload and all slots are in use."""
        if round_ == self._round and self._limit < self._maximum and self._in_flight >= int(self._limit):
            self._limit = min(self._limit + (1.0 / self._limit if self._round else 1.0), float(self._maximum))

    def _overloaded(self, round_: int) -> None:
        """Halve the limit, unless it was halved after the request was sent."""
        if round_ == self._round:
            self._round += 1
            self._limit = max(1.0, self._limit / 2)
