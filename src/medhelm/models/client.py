"""Asks any provider: from the cache if possible, within limits and budget, with retries, and never twice for the same.

The road of one request: cache -> one in flight per digest -> budget -> place at the endpoint -> provider, again if that
may help -> cache. What cannot be had becomes a completion with a failure; an exception means that nothing more can be
had from this model (`ModelUnusable`), or at all (`BudgetError`, `StoreError`).
"""

from __future__ import annotations

import asyncio
import random as random_numbers
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass, field

from medhelm.domain import Completion, Failure, Model, Request
from medhelm.errors import MedHelmError, ProviderError, StoreError
from medhelm.models.budget import Budget, charged, cost_of
from medhelm.models.cache import Cache, worth_keeping
from medhelm.models.concurrency import ConcurrencyLimiter
from medhelm.models.prompt_caching import PrefixGate
from medhelm.models.provider import REFUSED_PARTS, Provider

BACKOFF_S = 1.0
"""Longest wait before the second attempt; doubles with each further one."""

OVERLOAD_BACKOFF_S = 4.0
"""The same after an overload without a word on how long: rate limits are mostly counted by the minute."""

LONGEST_BACKOFF_S = 60.0
"""No wait that was chosen here is longer."""

LONGEST_PAUSE_S = 120.0
"""Longest wait that a service may ask for; asked for more, requests fail until it is over, and are not sent."""

UNREACHABLE = frozenset({"connection", "timeout"})
"""Codes of errors that came from the way and not from the service."""

AT_ONCE = nullcontext()
"""The turn of a request that waits for no other."""

EXHAUSTED_IN_A_ROW, SILENT_ROUNDS = 10, 3
"""So many requests without any answer, after all their attempts, in so many rounds: then the service is taken for dead.
Of requests that are in flight together, those that are lost come back first: their number alone says little."""


class ModelUnusable(MedHelmError):  # noqa: N818 - a state of the model, in the words of this package
    """No request to this model can succeed now: wrong key, unknown name, no quota, or nobody who answers."""

    exit_code = 4

    def __init__(self, model: str, message: str, requests_sent: int = 0) -> None:
        """`model`: its name. `requests_sent`: how many this request had cost until then."""
        super().__init__(message if message.startswith(model) else f"{model} cannot be used: {message}")
        self.model = model
        self.requests_sent = requests_sent


@dataclass(frozen=True, slots=True)
class ClientResult:
    """What became of one request."""

    completion: Completion
    """A text, or a failure."""
    cached: bool
    """Whether it was there already, or bought at the same time for an equal request."""
    requests_sent: int
    """Requests that left for it, retries included."""
    cost_usd: float | None
    """What it cost now; 0.0 if nothing was bought, None if the model's price is not known."""
    digest: bytes = b""
    """Key of the completion in the cache; empty for providers that answer within this process."""
    left_out: int = 0
    """Characters of the prompt that were left out before it was sent; the caller's doing."""


@dataclass(slots=True)
class _Endpoint:
    """What is known of a service in this session."""

    limiter: ConcurrencyLimiter
    answered: bool = False
    """Whether it ever did, be it with an error."""
    round: int = 0
    """Number of the round of requests that is being sent; the first of a round that finds nobody ends it."""
    silent_rounds: int = 0
    """Rounds in a row that ended so, without any answer since."""
    exhausted: int = 0
    """Requests in a row that found nobody in all their attempts."""
    dead: str = ""
    """Why nothing more is sent to it."""
    closed_until: float = field(default=float("-inf"))
    """Time, on the client's clock, until which it wants no requests."""
    closed: tuple[str, str] = ("", "")
    """Code and message of the failure of requests until then."""

    def heard(self) -> None:
        """It answered, be it with an error."""
        self.answered = True
        self.silent_rounds = self.exhausted = 0


class Client:
    """Wraps providers. One client serves all models of a run, in one event loop."""

    def __init__(
        self,
        *,
        cache: Cache | None,
        budget: Budget,
        attempts: int = 5,
        start: int = 32,
        maximum: int = 64,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        random: Callable[[], float] = random_numbers.random,
    ) -> None:
        """`attempts`: most requests sent for one completion. `start`, `maximum`: in flight per endpoint.

        A model's own `max_concurrency` takes the place of `maximum` for its endpoint; the lowest counts if several
        models share one. `clock`, `sleep` (seconds) and `random` (0 to 1) can be replaced in tests.
        """
        self.requests_sent = 0
        self._cache = cache
        self._budget = budget
        self._attempts = attempts
        self._start = start
        self._maximum = maximum
        self._clock = clock
        self._sleep = sleep
        self._random = random
        self._endpoints: dict[str, _Endpoint] = {}
        self._unusable: dict[str, str] = {}
        self._in_flight: dict[bytes, asyncio.Future[ClientResult | None]] = {}
        self._openings = PrefixGate()
        self._store_error: StoreError | None = None
        self._stopped: MedHelmError | None = None

    def stop(self, reason: MedHelmError) -> None:
        """Send nothing more: what is in flight may finish, everything else raises `reason`."""
        self._stopped = reason

    def give_up(self, model: Model, reason: str) -> None:
        """Send nothing more to a model; what was bought from it before is still given out."""
        self._unusable.setdefault(model.name, reason)

    def is_known(self, digest: bytes) -> bool:
        """Whether the completion of the request with this digest was bought before. Raises: StoreError."""
        return self._cache is not None and self._cache.get(digest) is not None

    async def complete(self, provider: Provider, request: Request) -> ClientResult:
        """The completion of `request`, bought only if nobody has bought it before.

        A cancelled request whose answer had arrived is still kept; others are dropped.
        Raises: ModelUnusable, at once for every further request of that model; BudgetError; StoreError if what is
        bought cannot be kept; UserError if the host may not be reached.
        """
        if provider.local:
            return await _ask_local(provider, request)
        digest = request.digest
        while (first := self._in_flight.get(digest)) is not None:
            await asyncio.wait((first,))
            if (reply := first.result()) is not None:
                return ClientResult(reply.completion, worth_keeping(reply.completion), 0, 0.0, digest)
        if self._cache is not None and (known := self._cache.get(digest)) is not None:
            return ClientResult(known, True, 0, 0.0, digest)
        bought: asyncio.Future[ClientResult | None] = asyncio.get_running_loop().create_future()
        self._in_flight[digest] = bought
        result = None
        try:
            result = await self._buy(provider, request, digest)
            return result
        finally:
            del self._in_flight[digest]
            bought.set_result(result)  # None, after a cancellation or an error: who waits tries by itself

    async def _buy(self, provider: Provider, request: Request, digest: bytes) -> ClientResult:
        """Ask until there is an answer, or no hope of one."""
        model = request.model
        endpoint = self._endpoint(provider, model)
        sent = round_ = 0
        while True:
            try:
                self._check(model, endpoint, sent)
                turn = self._openings.turn(request) if request.shared_characters else AT_ONCE
                async with turn, endpoint.limiter.slot():
                    self._check(model, endpoint, sent)  # again: much may have happened while it waited
                    round_ = endpoint.round
                    sent += 1
                    self.requests_sent += 1
                    completion = await provider.complete(request)
                    endpoint.heard()
                    cost_usd = None if model.price is None else cost_of(charged(request, completion), model.price)
                    self._budget.charge(cost_usd or 0.0)
                    # Before its place goes to another: a kill can lose what is in flight, and no more.
                    await self._keep(digest, completion, model)
            except ProviderError as error:
                verdict = self._after(error, model, endpoint, sent, round_)
                if isinstance(verdict, Completion):
                    return ClientResult(verdict, False, sent, 0.0, digest)
                await self._sleep(verdict)
                continue
            return ClientResult(completion, False, sent, cost_usd, digest)

    def _endpoint(self, provider: Provider, model: Model) -> _Endpoint:
        endpoint = self._endpoints.get(provider.endpoint)
        if endpoint is None:
            maximum = self._maximum if model.max_concurrency is None else model.max_concurrency
            # Who answers many in the time of one is to have many from the start.
            start = maximum if getattr(provider, "gathers", False) else self._start
            endpoint = _Endpoint(ConcurrencyLimiter(start, maximum, self._clock, self._sleep))
            self._endpoints[provider.endpoint] = endpoint
        elif model.max_concurrency is not None:
            endpoint.limiter.lower_maximum(model.max_concurrency)
        return endpoint

    def _check(self, model: Model, endpoint: _Endpoint, sent: int) -> None:
        """Raises whatever forbids to send one more request now."""
        if self._stopped is not None:
            raise self._stopped
        if reason := self._unusable.get(model.name) or endpoint.dead:
            raise ModelUnusable(model.name, reason, sent)
        if self._store_error is not None:
            raise type(self._store_error)(*self._store_error.args)
        if endpoint.closed_until > self._clock():
            raise ProviderError(*endpoint.closed)
        self._budget.check()

    async def _keep(self, digest: bytes, completion: Completion, model: Model) -> None:
        """Commit what was bought; if that fails, nothing more is bought."""
        if self._cache is None or not worth_keeping(completion):
            return
        try:
            await self._cache.put(digest, completion, model=model.name)
        except StoreError as error:
            self._store_error = error
            raise

    def _after(
        self, error: ProviderError, model: Model, endpoint: _Endpoint, sent: int, round_: int
    ) -> float | Completion:
        """What an error comes to: seconds to wait before asking again, or a completion with a failure.

        Raises: ModelUnusable if nobody should ask again.
        """
        if error.fatal:
            said = str(error).removeprefix(f"{model.name}: ")
            self._unusable[model.name] = f"{model.name} cannot be used ({error.code}): {said}"
            raise ModelUnusable(model.name, self._unusable[model.name], sent) from error
        if error.code in REFUSED_PARTS:  # the provider asks without it from now on: at once, and beside the attempts
            endpoint.heard()
            return 0.0
        if error.retry_after_s is not None:
            if error.retry_after_s > LONGEST_PAUSE_S:
                message = f"{error}; it wants no requests for {error.retry_after_s:.0f} s. Try again after that"
                endpoint.closed_until = self._clock() + error.retry_after_s
                endpoint.closed = (error.code, message)
                return _failed(ProviderError(error.code, message), sent)
            endpoint.limiter.pause(error.retry_after_s)
        again = error.retryable and sent < self._attempts
        if error.code in UNREACHABLE:
            self._nobody_there(error, model, endpoint, sent, round_, exhausted=not again)
        else:
            endpoint.heard()
        return self._delay_s(error, sent) if again else _failed(error, sent)

    def _nobody_there(
        self, error: ProviderError, model: Model, endpoint: _Endpoint, sent: int, round_: int, *, exhausted: bool
    ) -> None:
        """Count silence. While an endpoint is silent, all its requests wait together instead of each using up its own
        attempts; when that lasts, it is given up, so that a dead service does not cost every attempt of every request.

        Raises: ModelUnusable if it is given up.
        """
        endpoint.exhausted += exhausted
        if round_ == endpoint.round:
            endpoint.round += 1
            endpoint.silent_rounds += 1
            if endpoint.silent_rounds > 1 or not endpoint.answered:  # one that just answered had a passing trouble
                endpoint.limiter.pause(self._delay_s(error, max(sent, endpoint.silent_rounds)))
        never = error.code == "connection" and not endpoint.answered and endpoint.silent_rounds >= self._attempts
        lasting = endpoint.exhausted >= EXHAUSTED_IN_A_ROW and endpoint.silent_rounds >= SILENT_ROUNDS
        if never or lasting:
            since = "has never answered" if never else f"left {endpoint.exhausted} requests in a row without an answer"
            endpoint.dead = (
                f"its service {since}: {str(error).rstrip('.')}. "
                "Everything received is kept; the same command goes on from here."
            )
            raise ModelUnusable(model.name, endpoint.dead, sent) from error

    def _delay_s(self, error: ProviderError, times: int) -> float:
        """Exponential backoff with full jitter, or as long as the service asks for and up to a second more."""
        if error.retry_after_s is not None:
            return error.retry_after_s + self._random()
        longest = (OVERLOAD_BACKOFF_S if error.overloaded else BACKOFF_S) * 2.0 ** (times - 1)
        return self._random() * min(longest, LONGEST_BACKOFF_S)


async def _ask_local(provider: Provider, request: Request) -> ClientResult:
    """Ask a provider that answers within this process; nothing is sent and nothing costs.

    One that has an endpoint all the same gives back what was bought there before.
    """
    try:
        completion = await provider.complete(request)
    except ProviderError as error:
        completion = _failed(error, 0)
    bought = bool(provider.endpoint and request.model.base_url)
    return ClientResult(completion, bought, 0, 0.0, request.digest if bought else b"")


def _failed(error: ProviderError, sent: int) -> Completion:
    tried = f" ({sent} attempts)" if sent > 1 else ""
    return Completion(failure=Failure("provider", error.code, f"{error}{tried}"))
