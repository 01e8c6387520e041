"""The client: gets a completion from the cache or a provider, within limits and budget, with retries, never twice.

A request passes: cache -> one in flight per digest -> slot at the endpoint -> lock that other processes see
(`io.files`) -> budget -> provider, with retries -> cache. A failed request becomes a completion with a failure.
An exception means that nothing more can be requested from this model (`ModelUnusable`), or at all (`BudgetError`,
`StoreError`).
"""

from __future__ import annotations

import asyncio
import random as random_numbers
import time
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from medhelm.domain import Completion, Failure, FailureCode, Model, Request
from medhelm.errors import MedHelmError, ProviderError, StoreError
from medhelm.io.files import NumberLocks, number_of
from medhelm.io.http.client import was_suspended
from medhelm.io.http.hosts import SUBJECT, Subject
from medhelm.models.budget import Budget
from medhelm.models.cache import Cache, worth_keeping
from medhelm.models.concurrency import MAX_PAUSE_S, ConcurrencyLimiter
from medhelm.models.prompt_caching import PrefixGate
from medhelm.models.provider import Provider, separate_reasoning, unsupported_parameter

if TYPE_CHECKING:
    from medhelm.storage.live_status import ServerProgress

BACKOFF_S = 1.0
"""Longest wait before the second attempt; doubles with each further one."""

OVERLOAD_BACKOFF_S = 4.0
"""The same from a service that refuses most requests and states no time: most rate limits are per minute."""

MAX_BACKOFF_S = 60.0
"""Longest backoff."""

SHORT_SILENCE_S = 30.0
"""Time after which a service is given up that has never replied, if all attempts of a request ended at the timeout."""

UNREACHABLE = frozenset({FailureCode.CONNECTION, FailureCode.TIMEOUT})
"""Codes of errors of the connection, not of the service."""

NO_WAIT = nullcontext()
"""The turn of a request that does not wait for another."""

OTHER_PROCESS_POLL_S = 0.1
"""Interval between looks at a request that another process has in flight."""

MAX_SILENCE_S = 300.0
"""Longest time without any reply from an endpoint, whatever the limit on a single request, before it is given up."""

SILENCE_NOTE_S = 60.0
"""Silence after which the user gets a message."""

EXHAUSTED_IN_A_ROW, SILENT_ROUNDS = 10, 3
"""Requests in a row without any reply after all attempts, in this many rounds, after which an endpoint counts as down.
The number alone is not enough: of requests in flight together, lost ones return first."""


class ModelUnusable(MedHelmError):  # noqa: N818 - a state, not an error
    """No request to this model can succeed now: wrong key, unknown name, no quota, or no connection."""

    exit_code = 4

    def __init__(self, model: str, message: str, requests_sent: int = 0) -> None:
        """`requests_sent`: attempts of this request until then."""
        super().__init__(message if message.startswith(model) else f"{model} cannot be used: {message}")
        self.model = model
        self.requests_sent = requests_sent


@dataclass(frozen=True, slots=True)
class ClientResult:
    """Result of one request."""

    completion: Completion
    """A text, or a failure."""
    cached: bool
    """True if it came from the cache, or was bought at the same time for an equal request."""
    requests_sent: int
    """Requests sent for it, retries included."""
    cost_usd: float | None
    """Cost of this request; 0.0 if nothing was bought, None if the price is unknown."""
    digest: bytes = b""
    """Key of the completion in the cache; empty for providers within this process."""
    left_out: int = 0
    """Characters of the prompt that the caller truncated before it was sent."""


@dataclass(slots=True)
class Attempts:
    """Attempts at one completion."""

    sent: int = 0
    """Requests sent."""
    round: int = 0
    """Round of the endpoint in which the last one was sent."""


@dataclass(slots=True)
class Endpoint:
    """State of an endpoint in this session."""

    limiter: ConcurrencyLimiter
    title: str = "its service"
    """Its name in messages about the model."""
    answered: bool = False
    """True if it ever replied, even with an error."""
    round: int = 0
    """Number of the current round of requests; the first request without a reply ends its round."""
    silent_rounds: int = 0
    """Rounds in a row that ended so, without any reply since."""
    exhausted: int = 0
    """Requests in a row without a reply in all their attempts."""
    down: str = ""
    """Reason that nothing more is sent to it."""
    closed_until: float = field(default=float("-inf"))
    """Time, on the client's clock, until which it accepts no requests."""
    closed: tuple[str, str] = ("", "")
    """Code and message of the failure of requests until then."""
    last_error: str = ""
    """Message of the last request without a reply since the last reply; empty if there was none."""
    last_reply: float = 0.0
    """Time of the last reply, or of the first request after a time without any in flight."""
    waiting: set[asyncio.Timeout] = field(default_factory=set)
    """Requests in flight whose wait for a reply can be ended."""
    is_watched: bool = False
    """True while a timer runs that ends the wait."""
    is_reported: bool = False
    """True once the user has a message about the current silence."""

    def replied(self, now: float) -> None:
        """Note a reply, even an error."""
        self.answered = True
        self.silent_rounds = self.exhausted = 0
        self.last_reply = now
        self.last_error = ""
        self.is_reported = False

    def end_waits(self, reason: str) -> None:
        """Give it up: end the waits for its replies."""
        self.down = _down(self.title, reason)
        now = asyncio.get_running_loop().time()
        for wait in self.waiting:
            wait.reschedule(now)


@dataclass(frozen=True, slots=True, kw_only=True)
class SendingLimits:
    """Limits on what a client sends."""

    attempts: int = 5
    """Most requests sent for one completion."""
    start: int = 32
    """Requests in flight per endpoint, at first."""
    maximum: int = 64
    """The same, at most. A model's own `max_concurrency` replaces it; of several models at one endpoint, the lowest."""
    connections: int = 0
    """Most requests in flight over all endpoints; if servers join a pool, each endpoint gets fewer. 0: no limit."""
    max_silence_s: float = MAX_SILENCE_S
    """Longest time without any reply from an endpoint before it is given up, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The passing of time and chance, which tests replace."""

    clock: Callable[[], float] = time.monotonic
    """Return the time in seconds."""
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    """Wait for some seconds."""
    random: Callable[[], float] = random_numbers.random
    """Return a number from 0 to 1."""


USUAL_LIMITS, REAL_TIME = SendingLimits(), Timing()
"""The defaults of a client."""


class Client:
    """Serves all models of a run, in one event loop."""

    def __init__(
        self,
        *,
        cache: Cache | None,
        budget: Budget,
        numbers: NumberLocks | None = None,
        limits: SendingLimits = USUAL_LIMITS,
        note: Callable[[str], object] | None = None,
        timing: Timing = REAL_TIME,
    ) -> None:
        """`numbers`: requests in flight in all processes that share the cache; None: other processes do not matter.

        `note` receives messages for the user.
        """
        self.requests_sent = 0
        self._cache = cache
        self._budget = budget
        self._numbers = numbers
        self.limits = limits
        """Limits on what is sent."""
        self.note: Callable[[str], object] = note or _ignore
        """Shows a message to the user."""
        self.clock, self.sleep = timing.clock, timing.sleep
        """Return the time in seconds, and wait for some seconds."""
        self._random = timing.random
        self._endpoints: dict[str, Endpoint] = {}
        self._unusable: dict[str, str] = {}
        self._in_flight: dict[bytes, asyncio.Future[ClientResult | None]] = {}
        self._prefix_gate = PrefixGate()
        self._store_error: StoreError | None = None
        self._stopped: MedHelmError | None = None
        self.pools: list[PoolProvider] = []
        """Pools of servers that were used; each adds itself."""

    def stop(self, reason: MedHelmError) -> None:
        """Stop sending: requests in flight may finish, all others raise `reason`."""
        self._stopped = reason
        self._budget.stop(reason)

    def give_up(self, model: Model, reason: str) -> None:
        """Stop sending to a model; its cached completions are still returned."""
        self._unusable.setdefault(model.name, reason)

    def try_again(self) -> None:
        """Send again to models and services that were given up, as a new command would."""
        self._unusable.clear()
        self._store_error = None
        for endpoint in self._endpoints.values():
            endpoint.down = endpoint.last_error = ""
            endpoint.silent_rounds = endpoint.exhausted = 0

    def is_known(self, request: Request) -> bool:
        """Return True if the completion of a request is in the cache. Raises: StoreError."""
        return self._cache is not None and self._cache.find(request) is not None

    async def complete(self, provider: Provider, request: Request) -> ClientResult:
        """Return the completion of `request`, bought only if it is not in the cache.

        If the call is canceled, a completion that has arrived is still kept.
        Raises: ModelUnusable, from then on for every request to that model; BudgetError; StoreError if a completion
        cannot be kept; UserError if the host is not allowed.
        """
        if provider.local:
            return await _complete_in_process(provider, request)
        digest = request.digest
        return self.find(request, digest) or await self.buy(provider, request, digest)

    def find(self, request: Request, digest: bytes) -> ClientResult | None:
        """Return the completion of a request if it is in the cache. `digest`: the request's. Raises: StoreError."""
        known = None if self._cache is None else self._cache.find(request, digest)
        return None if known is None else ClientResult(known.completion, True, 0, 0.0, known.digest)

    async def buy(self, provider: Provider, request: Request, digest: bytes) -> ClientResult:
        """Return the completion of a request that was not in the cache just now.

        It is looked up again once nothing else can buy it. `digest`: the request's. Raises: as `complete`.
        """
        while (first := self._in_flight.get(digest)) is not None:
            await asyncio.wait((first,))
            if (other := first.result()) is not None:
                return ClientResult(other.completion, worth_keeping(other.completion), 0, 0.0, digest)
        if self._numbers is None and (known := self.find(request, digest)) is not None:
            return known
        bought: asyncio.Future[ClientResult | None] = asyncio.get_running_loop().create_future()
        self._in_flight[digest] = bought
        result = None
        try:
            if isinstance(provider, PoolProvider):
                result = await provider.buy(self, request, digest)
            else:
                result = await self._buy(provider, request, digest)
            return result
        finally:
            del self._in_flight[digest]
            bought.set_result(result)  # None after a cancellation or error: waiting requests try themselves

    def turn(self, request: Request) -> AbstractAsyncContextManager[None]:
        """Wait until no other request is the first to send the same long prefix."""
        return self._prefix_gate.turn(request) if request.shared_characters else NO_WAIT

    def is_given_up(self, model: Model) -> bool:
        """Return True if nothing more is sent to a model."""
        return model.name in self._unusable

    async def _hold(self, number: int) -> None:
        """Hold a request among all processes, once the one that has it in flight is done with it, or has ended."""
        while self._numbers and not self._numbers.take(number):
            if self._stopped is not None:
                raise self._stopped
            await self.sleep(OTHER_PROCESS_POLL_S)

    async def _buy(self, provider: Provider, request: Request, digest: bytes) -> ClientResult:
        """Retry until the request succeeds or cannot succeed."""
        model, attempts = request.model, Attempts()
        endpoint = self.endpoint(provider, model)
        while True:
            try:
                self._check(model, endpoint, attempts.sent)
                async with self.turn(request):
                    return await self.attempt(provider, request, digest, endpoint, attempts)
            except ProviderError as error:
                verdict = self._after_error(error, model, endpoint, attempts)
                if isinstance(verdict, Completion):
                    return ClientResult(verdict, False, attempts.sent, 0.0, digest)
                await self.sleep(verdict)

    async def attempt(
        self, provider: Provider, request: Request, digest: bytes, endpoint: Endpoint, attempts: Attempts
    ) -> ClientResult:
        """Send a request once, when it is allowed, and keep its completion.

        Parameters: endpoint, that of the provider; attempts, those at this request, which are counted there.
        Raises: ProviderError, and what `complete` raises.
        """
        async with endpoint.limiter.slot():
            number = number_of(digest)
            await self._hold(number)
            try:
                if self._numbers and not self._numbers.is_alone and (known := self.find(request, digest)) is not None:
                    return known  # another process has just bought it
                return await self._send(provider, request, digest, endpoint, attempts)
            finally:
                if self._numbers:
                    self._numbers.release(number)

    async def _send(
        self, provider: Provider, request: Request, digest: bytes, endpoint: Endpoint, attempts: Attempts
    ) -> ClientResult:
        """Send a request within the budget and keep its completion. Raises: as `attempt`."""
        model = request.model
        async with self._budget.purchase(request, digest) as purchase:
            self._check(model, endpoint, attempts.sent)  # again, after the waits
            attempts.round = endpoint.round
            attempts.sent += 1
            self.requests_sent += 1
            purchase.sent = True
            SUBJECT.set(Subject(model.name, request.benchmark, digest.hex()))
            completion = await self._reply(provider, request, endpoint, attempts.sent)
            if completion.received is None:
                completion = replace(completion, received=time.time())
            purchase.completion = completion
            endpoint.replied(self.clock())
            # Commit before the slot is free: a kill loses only what is in flight.
            await self._keep(digest, completion, model)
        return ClientResult(separate_reasoning(completion, request), False, attempts.sent, purchase.cost_usd, digest)

    async def _reply(self, provider: Provider, request: Request, endpoint: Endpoint, sent: int) -> Completion:
        """Send a request and wait for the reply; `sent`: attempts so far, this one included.

        Raises: ModelUnusable if the endpoint is silent for too long.
        """
        if not provider.replies_in_time:
            return await provider.complete(request)
        if not endpoint.waiting and not endpoint.silent_rounds:
            endpoint.last_reply = self.clock()
        try:
            async with asyncio.timeout(None) as wait:
                endpoint.waiting.add(wait)
                self._watch(request, endpoint)
                try:
                    return await provider.complete(request)
                finally:
                    endpoint.waiting.discard(wait)
        except TimeoutError:
            if not wait.expired():
                raise  # the provider's own
            raise ModelUnusable(request.model.name, endpoint.down, sent) from None

    def _watch(self, request: Request, endpoint: Endpoint) -> None:
        """Report a silent endpoint, then give it up, at the time for it; called again by a timer until then."""
        if endpoint.is_watched or not endpoint.waiting:
            return
        from medhelm.models.concurrency import silence_note, silence_reason  # lazy: models in this process need none

        silence_s = self.clock() - endpoint.last_reply
        if silence_s >= SILENCE_NOTE_S and not endpoint.is_reported and silence_s < self.limits.max_silence_s:
            endpoint.is_reported = True
            self.note(silence_note(request, endpoint.title, silence_s, self.limits.max_silence_s))
        loop = asyncio.get_running_loop()
        if silence_s >= self.limits.max_silence_s:
            endpoint.end_waits(silence_reason(request, silence_s, endpoint.last_error))
            return
        until = self.limits.max_silence_s if endpoint.is_reported else min(SILENCE_NOTE_S, self.limits.max_silence_s)
        endpoint.is_watched = True
        due = loop.time() + until - silence_s
        loop.call_at(due, self._watch_again, request, endpoint, due)

    def _watch_again(self, request: Request, endpoint: Endpoint, due: float) -> None:
        endpoint.is_watched = False
        if was_suspended(asyncio.get_running_loop(), due):  # replies may have arrived that were not read
            endpoint.last_reply = self.clock()
        self._watch(request, endpoint)

    def endpoint(self, provider: Provider, model: Model) -> Endpoint:
        """Return the state of a provider's endpoint, with its limit on requests in flight."""
        endpoint = self._endpoints.get(provider.endpoint)
        if endpoint is None:
            maximum = self.limits.maximum * provider.copies if model.max_concurrency is None else model.max_concurrency
            start = maximum if provider.starts_at_maximum else self.limits.start
            endpoint = Endpoint(ConcurrencyLimiter(start, maximum, self.clock, self.sleep))
            self._endpoints[provider.endpoint] = endpoint
            if self.limits.connections:
                for one in self._endpoints.values():
                    one.limiter.lower_maximum(self.limits.connections // len(self._endpoints))
        elif model.max_concurrency is not None:
            endpoint.limiter.lower_maximum(model.max_concurrency)
        return endpoint

    def _check(self, model: Model, endpoint: Endpoint, sent: int) -> None:
        """Raise whatever forbids another request now."""
        if self._stopped is not None:
            raise self._stopped
        if reason := self._unusable.get(model.name) or endpoint.down:
            raise ModelUnusable(model.name, reason, sent)
        if self._store_error is not None:
            raise type(self._store_error)(*self._store_error.args)
        if endpoint.closed_until > self.clock():
            raise ProviderError(*endpoint.closed)

    async def _keep(self, digest: bytes, completion: Completion, model: Model) -> None:
        """Commit a completion; if that fails, nothing more is bought."""
        if self._cache is None or not worth_keeping(completion):
            return
        try:
            await self._cache.put(digest, completion, model=model.name)
        except StoreError as error:
            self._store_error = error
            raise

    def _after_error(
        self, error: ProviderError, model: Model, endpoint: Endpoint, attempts: Attempts
    ) -> float | Completion:
        """Return the seconds before the next attempt, or a completion with a failure.

        Raises: ModelUnusable if no request to the model can succeed.
        """
        sent = attempts.sent
        if error.fatal:
            message = str(error).removeprefix(f"{model.name}: ")
            self._unusable[model.name] = f"{model.name} cannot be used ({error.code}): {message}"
            raise ModelUnusable(model.name, self._unusable[model.name], sent) from error
        if unsupported_parameter(error):  # sent again at once without it; does not count as an attempt
            endpoint.replied(self.clock())
            return 0.0
        if error.retry_after_s is not None:
            endpoint.replied(self.clock())
            if error.retry_after_s > MAX_PAUSE_S:
                message = (
                    f"{error}; it accepts no requests for {error.retry_after_s:.0f} s, {_until(error.retry_after_s)}"
                )
                if endpoint.closed_until <= self.clock():
                    self.note(f"{model.name}: {message}. Requests until then fail without being sent.")
                endpoint.closed_until = self.clock() + error.retry_after_s
                endpoint.closed = (error.code, message)
                return failed_completion(ProviderError(error.code, message), sent)
        again = error.retryable and sent < self.limits.attempts
        if error.code in UNREACHABLE:
            self._no_reply(error, model, endpoint, attempts, exhausted=not again)
        else:
            endpoint.replied(self.clock())
        return self.delay_s(error, sent, endpoint) if again else failed_completion(error, sent)

    def _no_reply(
        self, error: ProviderError, model: Model, endpoint: Endpoint, attempts: Attempts, *, exhausted: bool
    ) -> None:
        """Count missing replies, and give up an endpoint that is down.

        All requests to it wait together, so that a service that is down does not use up all attempts of every request.
        Raises: ModelUnusable if it is given up.
        """
        sent = attempts.sent
        endpoint.last_error = str(error).rstrip(".")
        endpoint.exhausted += exhausted
        if attempts.round == endpoint.round:
            endpoint.round += 1
            endpoint.silent_rounds += 1
            if endpoint.silent_rounds > 1 or not endpoint.answered:  # else a passing problem
                endpoint.limiter.pause(self.delay_s(error, max(sent, endpoint.silent_rounds), endpoint))
        never = (
            error.code == FailureCode.CONNECTION
            and not endpoint.answered
            and endpoint.silent_rounds >= self.limits.attempts
        )
        is_too_slow = (
            error.code == FailureCode.TIMEOUT
            and not endpoint.answered
            and endpoint.silent_rounds >= self.limits.attempts
            and self.clock() - endpoint.last_reply >= SHORT_SILENCE_S
        )
        if is_too_slow:
            words = f"has not replied to one of {endpoint.silent_rounds} rounds of requests: {endpoint.last_error}"
            endpoint.down = _down(endpoint.title, f"{words}. Raise --timeout if it needs longer")
            raise ModelUnusable(model.name, endpoint.down, sent) from error
        lasting = endpoint.exhausted >= EXHAUSTED_IN_A_ROW and endpoint.silent_rounds >= SILENT_ROUNDS
        if never or lasting:
            since = "never responded" if never else f"left {endpoint.exhausted} requests in a row without a reply"
            endpoint.down = _down(endpoint.title, f"{since}: {endpoint.last_error}")
            raise ModelUnusable(model.name, endpoint.down, sent) from error

    def delay_s(self, error: ProviderError, times: int, endpoint: Endpoint) -> float:
        """Return exponential backoff with full jitter, or the time that the service asks for plus up to 1 s."""
        if error.retry_after_s is not None:
            return error.retry_after_s + self._random()
        is_busy = error.overloaded and endpoint.limiter.is_refusing
        longest = (OVERLOAD_BACKOFF_S if is_busy else BACKOFF_S) * 2.0 ** (times - 1)
        return self._random() * min(longest, MAX_BACKOFF_S)


class PoolProvider(Provider):
    """A model that several servers serve: it decides which of them gets each attempt at a request."""

    @abstractmethod
    def servers(self) -> Sequence[Provider]:
        """Return the provider of each server that was known at the start."""

    @abstractmethod
    def progress(self) -> Sequence[ServerProgress]:
        """Return the progress of each server that is known now. May be called from any thread."""

    @abstractmethod
    async def buy(self, client: Client, request: Request, digest: bytes) -> ClientResult:
        """Return the completion of a request that is not in the cache, sent by `client.attempt` to some server.

        `digest`: the request's. Raises: as `Client.complete`.
        """


async def _complete_in_process(provider: Provider, request: Request) -> ClientResult:
    """Call a provider within this process; nothing is sent and nothing costs.

    One with an endpoint returns completions that were bought there before.
    """
    try:
        completion = await provider.complete(request)
    except ProviderError as error:
        completion = failed_completion(error, 0)
    is_stored = bool(provider.endpoint and request.model.base_url)
    return ClientResult(completion, is_stored, 0, 0.0, request.digest if is_stored else b"")


def _ignore(text: str) -> None:
    """Do nothing with a message."""


def _down(title: str, reason: str) -> str:
    """Return the message about an endpoint that is given up."""
    return f"{title} {reason}. Everything received is kept; run the same command again to continue."


def _until(seconds: float) -> str:
    """Return the time after some seconds, as the user's clock shows it."""
    try:
        return f"until {datetime.fromtimestamp(time.time() + seconds):%Y-%m-%d %H:%M}"
    except (OverflowError, ValueError, OSError):
        return "longer than a calendar shows"


def failed_completion(error: ProviderError, sent: int) -> Completion:
    """Return the completion of a request that failed with an error, after `sent` attempts."""
    tried = f" ({sent} attempts)" if sent > 1 else ""
    return Completion(failure=Failure("provider", error.code, f"{error}{tried}"))
