"""Limits on requests in flight to one endpoint and on open connections, and messages about silent servers."""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from types import TracebackType
from typing import NamedTuple

from medhelm.domain import FailureCode, Model, Request
from medhelm.errors import ProviderError, UserError

MAX_PAUSE_S = 120.0
"""Longest pause of an endpoint that a service may ask for."""

GROW_UP_TO, SHRINK_FROM = 0.1, 0.2
"""Shares of overloads in a round trip: up to the first, the limit grows; above the second, it shrinks. Busy services
refuse a few requests at random, whatever the limit."""

MIN_REPLIES = 32
"""Replies from which a share of overloads is computed."""

BURST, BURST_SHARE = 4, 1 / 4
"""Overloads that are a burst, as a number and as a share of the requests in flight, if they are at least half of the
replies. Refusals are fast: of requests sent together, a few refused ones return first."""


class ConcurrencyLimiter:
    """An adaptive limit on requests in flight, as in TCP's congestion control.

    It starts at `start` and doubles with each round trip, which is as many replies as the limit, until the endpoint
    refuses more than a few requests. Then the limit shrinks by half the share that was refused (as in DCTCP, Alizadeh
    et al. 2010). With each round trip it grows back halfway to what it was, but no more than twofold, and beyond that
    by 1, 1, 2, 4 ... (as in BIC, Xu et al. 2004): a service that refuses everything for a moment costs little. Requests
    that were sent before it shrank do not count. It never grows beyond what is used.

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
        """Number of times that the limit shrank."""
        self._replies = self._overloads = 0
        """Replies of the current round trip."""
        self._was_full = False
        """True if all slots were in use in the current round trip."""
        self._before = 0.0
        """The limit before it shrank last, without growing in between."""
        self._has_grown = True
        """True if it has grown since it shrank last."""
        self._paused_until = float("-inf")
        self.is_refusing = False
        """True since the endpoint refused most requests, until it completed as many again as are a burst."""
        self._completed = 0
        """Replies since the last burst of overloads that were none."""

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

    def slot(self) -> Slot:
        """Return a slot for one request, to be held while it is in flight: `async with limiter.slot(): ...`."""
        return Slot(self)

    def lower_maximum(self, maximum: int) -> None:
        """Lower the maximum; a higher number than before changes nothing."""
        self._maximum = max(1, min(self._maximum, maximum))
        self._limit = min(self._limit, float(self._maximum))

    def pause(self, seconds: float) -> None:
        """Start no request within the next `seconds`; a longer pause in progress stays."""
        self._paused_until = max(self._paused_until, self._clock() + seconds)

    async def take(self) -> int:
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

    def end(self, round_: int, error: BaseException | None) -> None:
        """Count the reply to a request of this round, and free its slot. `error`: what the request ended with."""
        if error is None:
            self._count(round_, overloaded=False)
        elif isinstance(error, ProviderError):
            if error.overloaded or error.code == FailureCode.TIMEOUT:
                self._count(round_, overloaded=True)
            if self.is_refusing and error.retry_after_s is not None and error.retry_after_s <= MAX_PAUSE_S:
                self.pause(error.retry_after_s)
        self._give_back()

    def _give_back(self) -> None:
        """Free one slot; grant as many as the limit allows."""
        self._in_flight -= 1
        while self._waiting and self._in_flight < int(self._limit):
            place = self._waiting.popleft()
            if not place.done():
                self._in_flight += 1
                place.set_result(None)

    def _count(self, round_: int, *, overloaded: bool) -> None:
        """Count a reply, and adapt the limit after a round trip or a burst of overloads."""
        if round_ != self._round:
            return
        if overloaded and not self._overloads:
            self._replies = 0  # what came before says nothing about an overload that begins here
        self._replies += 1
        self._overloads += overloaded
        self._completed += not overloaded
        self._was_full |= self._in_flight >= int(self._limit)
        share = self._overloads / self._replies
        burst = max(min(BURST, int(self._limit)), BURST_SHARE * self._in_flight)
        is_burst = self._overloads >= burst and share >= 0.5
        self.is_refusing = self.is_refusing and self._completed < burst
        enough = max(MIN_REPLIES, int(self._limit)) if self._overloads else int(self._limit)
        if is_burst or self._replies >= enough:
            self.is_refusing = is_burst
            self._completed = 0
            self._adapt(share)
            self._replies = self._overloads = 0
            self._was_full = False

    def _adapt(self, share: float) -> None:
        """Set the limit for the next round trip by the share of overloads in the last one."""
        if share > SHRINK_FROM:
            if self._has_grown:
                self._before, self._has_grown = self._limit, False
            self._limit = max(1.0, self._limit * (1.0 - share / 2.0))
            self._round += 1
        elif share <= GROW_UP_TO and self._was_full:
            gap = self._before - self._limit
            step = self._limit if not self._round else min(self._limit, max(1.0, gap / 2.0, -gap))
            self._limit = min(self._limit + step, float(self._maximum))
            self._has_grown = True


class Slot:
    """A place among the requests in flight to one endpoint, first come, first served.

    A block without an error counts as a success, a ProviderError that is `overloaded` or has the code `timeout` as an
    overload. Its `retry_after_s` pauses the whole endpoint if most requests are refused, but not for longer than
    `MAX_PAUSE_S`: the caller decides what to do then.
    """

    __slots__ = ("_limiter", "_round")

    def __init__(self, limiter: ConcurrencyLimiter) -> None:
        """Nothing is held before it is entered."""
        self._limiter = limiter

    async def __aenter__(self) -> None:
        self._round = await self._limiter.take()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._limiter.end(self._round, error)


# --- open files -------------------------------------------------------------------------------------------------------
# Limits the number of connections to what the system lets this process open.

RESERVE, PER_MODEL = 24, 6
"""Files that an evaluation needs besides connections: in all, and for the runs of each model or judge."""

MAY_JOIN = 256
"""Servers that there should be room for beyond those of a pool's file, because they may join it later."""


class ConnectionLimit(NamedTuple):
    """Connections that may be open at once."""

    in_all: int
    """Over all endpoints, those that join later included; 0 for no limit."""
    per_endpoint: int
    """To one endpoint."""


def limit_connections(
    models: Collection[Model], asked: int | None, default: int, note: Callable[[str], object] | None
) -> ConnectionLimit:
    """Return how many connections fit within the limit on open files, which is raised if the system allows it.

    Parameters: models, with judges; asked, connections per endpoint that the user asked for, None for `default`;
    note, receives a message if the number is lowered. Room for servers that join a pool later is made if the system
    allows it, and nothing is said if not.
    Raises: UserError if there is no room for one connection.
    """
    wanted = asked or default
    endpoints = len({address for model in models for address in model.addresses})
    try:
        import resource
    except ImportError:  # a system without such limits
        return ConnectionLimit(0, wanted)
    reserve = _open_now() + RESERVE + PER_MODEL * len(models)
    needed = wanted * endpoints + reserve
    joining = wanted * MAY_JOIN * sum(bool(model.endpoints_file) for model in models)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if not endpoints or soft == resource.RLIM_INFINITY:
        return ConnectionLimit(0, wanted)
    for enough in dict.fromkeys((needed + joining, needed)):
        if soft < enough:
            raised = enough if hard == resource.RLIM_INFINITY else min(enough, hard)
            with suppress(OSError, ValueError):  # macOS allows less than it says
                resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
                soft = raised
    if soft >= needed:
        return ConnectionLimit(soft - reserve if joining else 0, wanted)
    fitting = (soft - reserve) // endpoints
    advice = f"This process may open {soft} files (`ulimit -n`); `ulimit -n {2 * needed}` before the command"
    if fitting < 1:
        raise UserError(f"too few files may be open to send requests. {advice} raises the limit. Nothing was sent.")
    if note:
        lowered = f"--concurrency {wanted} is lowered to {fitting}: at most" if asked else "at most"
        note(f"{lowered} {fitting} requests at once are sent to each endpoint. {advice} allows more.")
    return ConnectionLimit(soft - reserve, fitting)


def _open_now() -> int:
    """Return the number of files open in this process."""
    try:
        return len(os.listdir("/dev/fd"))  # noqa: PTH208 - numbers, not paths
    except OSError:
        return 16


# --- silent servers ---------------------------------------------------------------------------------------------------
# Messages about a server that has not replied to anything for some time.

LONG_REPLY = 1000
"""Tokens of a reply that a slow server may need minutes for."""


def silence_reason(request: Request, silence_s: float, last_error: str) -> str:
    """Return the reason for which a server is given up, to follow its name. `last_error`: its last one, or ""."""
    cause = f": {last_error}" if last_error else _room_advice(request)
    return f"has not replied to anything for {silence_s:.0f} s{cause}"


def silence_note(request: Request, title: str, silence_s: float, limit_s: float) -> str:
    """Return the note on a server, named `title`, that is still waited for. `limit_s`: when it is given up."""
    return (
        f"{request.model.name}: {title} has not replied to anything for {silence_s:.0f} s. It is given up after "
        f"{limit_s:.0f} s without a reply (--give-up-after){_room_advice(request)}."
    )


def _room_advice(request: Request) -> str:
    """Return advice if the server may still write a long reply; "" if the limit is short or the user's.

    Judges and models that reason may write thousands of tokens unless `max_tokens` is set.
    """
    if request.model.max_tokens or request.max_tokens < LONG_REPLY:
        return ""
    return (
        f". A reply may have {request.max_tokens:,} tokens: if the server is still writing one, set a lower "
        "`max_tokens` in models.yaml"
    )
