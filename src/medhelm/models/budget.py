"""The budget: reserves the most that a request can cost before it is sent, and charges its real cost afterwards.

Two limits may apply: that of one command (`--max-cost`) and that of the store (`medhelm budget set`). A request that
does not fit waits for those in flight to be charged; only if none is left, the work stops. So a limit is never passed,
as long as a service counts no more tokens than it was sent and asked for.
"""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from math import ceil, floor
from types import TracebackType
from typing import Any, Self, TypeGuard

from medhelm.analysis.cost import cost_of
from medhelm.domain import Completion, Request, Usage
from medhelm.errors import BudgetError, MedHelmError, ProviderError
from medhelm.models.provider import BilledError


def charged(request: Request, completion: Completion) -> Usage:
    """Return the usage to charge: as reported, or an upper bound if the service reports no tokens.

    The upper bound counts a token per three characters of the prompt, and a completion up to its limit.
    """
    if completion.is_metered:
        return completion.usage
    characters = sum(len(message.text) for message in request.prompt.messages)
    return Usage(input=characters // 3 + 1, output=request.max_tokens)


class Budget:
    """Counts the costs of this execution, and keeps them within limits."""

    def __init__(self, limit_usd: float | None = None) -> None:
        """`limit_usd`: limit of this execution in US dollars; None: no limit."""
        self.limit_usd = limit_usd
        self.spent_usd = 0.0
        self.limits: list[SpendingLimit] = []
        """Limits that every request must fit into, the command's own first."""
        if limit_usd is not None:
            self.limits.append(CommandLimit(limit_usd))

    def charge(self, cost_usd: float) -> None:
        """Add the cost of a completion of a batch."""
        self.spent_usd += cost_usd
        for limit in self.limits:
            limit.charge(cost_usd)

    def stop(self, reason: MedHelmError) -> None:
        """Let requests that wait for money raise `reason`."""
        for limit in self.limits:
            limit.stop(reason)

    async def close(self) -> None:
        """Store what was charged last."""
        for limit in self.limits:
            await limit.close()

    def purchase(self, request: Request, digest: bytes) -> Purchase:
        """Return the purchase of one completion, to be entered before the request is sent."""
        return Purchase(self, request, digest)


class Purchase:
    """One request: reserves the most it can cost on entry, and charges its real cost on exit.

    Entering raises BudgetError if it does not fit into a limit. The caller sets `sent`, then `completion`. A reply that
    brought no completion is charged by the tokens it reported. If it reported none, or the reply was lost, it counts
    against a limit with the most it can cost. Errors that a service reports instead of a completion cost nothing.
    """

    __slots__ = ("_budget", "_digest", "_request", "_reserved", "completion", "cost_usd", "sent")

    def __init__(self, budget: Budget, request: Request, digest: bytes) -> None:
        """`digest`: key of the completion in the cache."""
        self._budget, self._request, self._digest = budget, request, digest
        self._reserved: list[tuple[SpendingLimit, int]] = []
        self.sent = False
        """True once the request may have left."""
        self.completion: Completion | None = None
        """The completion, once it has arrived."""
        self.cost_usd: float | None = 0.0
        """US dollars charged; None if the price is unknown."""

    async def __aenter__(self) -> Self:
        """Reserve the most that the request can cost. Raises: BudgetError, StoreError, or the reason of a stop."""
        try:
            for limit in self._budget.limits:
                self._reserved.append((limit, await limit.reserve(self._request, self._digest)))
        except BaseException:
            self._settle(0.0)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """Charge the cost instead of the reservation."""
        price = self._request.model.price
        usage = self._billed(error)
        self.cost_usd = None if price is None else cost_of(usage, price)
        self._budget.spent_usd += self.cost_usd or 0.0
        self._settle(self.cost_usd or 0.0)

    def _billed(self, error: BaseException | None) -> Usage:
        """Return the tokens to charge."""
        if self._reserved:
            return billed_within_limit(self._request, self.completion, error) if self.sent else Usage()
        if self.completion is not None:
            return charged(self._request, self.completion)
        return error.usage if isinstance(error, BilledError) else Usage()

    def _settle(self, cost_usd: float) -> None:
        for limit, number in self._reserved:
            limit.settle(number, cost_usd)


# --- spending limit ---------------------------------------------------------------------------------------------------
# Limits on what is spent: a request reserves the most it can cost, and waits while others hold what is left.

NANO = 1_000_000_000
"""Money is counted in whole billionths of a US dollar: sums are exact, and costs are rounded up."""

TOKENS_PER_MESSAGE = 16
"""Upper bound of the tokens that a chat template adds to one message."""

TOKENS_PER_REQUEST = 256
"""Upper bound of the tokens that a chat template, with its default system prompt, adds to one request."""

MOST_CHARACTERS_PER_TOKEN = 16
"""A count below one token for so many characters is not believed: no text is tokenized that well."""


def largest_usage(request: Request) -> Usage:
    """Return the most tokens that a service can count for a request and its completion.

    Tokens are at least one byte long, so the bytes of the prompt and of the schema are an upper bound for every
    tokenizer. The completion has its limit; the model's own parameters may raise it.
    """
    messages = request.prompt.messages
    read = sum(len(message.text.encode(errors="replace")) for message in messages)
    if request.schema is not None:
        read += len(json.dumps(request.schema)) + TOKENS_PER_REQUEST
    parameters = request.model.parameters
    limits = [request.max_tokens, *_token_limits(parameters)]
    copies = [n for name in ("n", "candidateCount") if _is_count(n := parameters.get(name))]
    written = max(limits) * max(copies, default=1)
    return Usage(input=read + TOKENS_PER_MESSAGE * len(messages) + TOKENS_PER_REQUEST, output=written)


def _token_limits(value: object, name: str = "") -> Iterator[int]:
    """Yield the numbers under any name of a parameter that speaks of tokens, however deep."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _token_limits(inner, str(key))
    elif _is_count(value) and "token" in name.lower():
        yield value


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def largest_cost_usd(request: Request) -> float:
    """Return the most that a request can cost in US dollars; 0.0 if its price is unknown."""
    price = request.model.price
    if price is None:
        return 0.0
    usage = largest_usage(request)
    dearest = max(price.input, price.cache_write or 0.0)
    return cost_of(usage, price) + usage.input * (dearest - price.input) / 1_000_000


def billed_within_limit(request: Request, completion: Completion | None, error: BaseException | None) -> Usage:
    """Return the tokens to charge for a request that was sent; `error`: why there is no completion, if there is none.

    What is unknown counts with the most it can be: a useless reply without token counts, and a reply that was lost.
    """
    if completion is not None:
        return credible_usage(request, completion)
    if isinstance(error, BilledError):
        return error.usage if error.usage.input else largest_usage(request)
    return Usage() if isinstance(error, ProviderError) else largest_usage(request)


def credible_usage(request: Request, completion: Completion) -> Usage:
    """Return the usage to charge against a limit: as reported, unless it is too low to be true.

    A count that is missing, or too low for the characters of its text, is replaced by the most there can have been.
    """
    usage, failure = completion.usage, completion.failure
    if failure is not None and not completion.finish_reason:
        return usage  # an error, not a reply of the model
    characters = sum(len(message.text) for message in request.prompt.messages)
    is_input_known = usage.input > 0 and _is_credible(usage.input, characters)
    is_output_known = usage.output >= 0 and _is_credible(usage.output, len(completion.text or ""))
    if is_input_known and is_output_known:
        return usage
    most = largest_usage(request)
    return Usage(
        input=usage.input if is_input_known else max(usage.input, most.input),
        output=usage.output if is_output_known else max(usage.output, most.output),
        cached_input=usage.cached_input,
        cache_write=usage.cache_write,
        reasoning=usage.reasoning,
    )


def _is_credible(tokens: int, characters: int) -> bool:
    return tokens * MOST_CHARACTERS_PER_TOKEN >= characters


def in_nano(usd: float) -> int:
    """Return an amount of US dollars in billionths, rounded up."""
    return ceil(round(usd * NANO, 3))


class SpendingLimit(ABC):
    """A sum that must not be passed by what is spent and what is reserved together."""

    @abstractmethod
    async def reserve(self, request: Request, digest: bytes) -> int:
        """Reserve the most that a request can cost; return the number of the reservation.

        Waits, first come, first served, while requests in flight may leave enough.
        Raises: BudgetError if none is in flight and it still does not fit.
        """

    @abstractmethod
    def settle(self, number: int, cost_usd: float) -> None:
        """Replace a reservation by the real cost."""

    @abstractmethod
    def charge(self, cost_usd: float) -> None:
        """Add a cost that was not reserved."""

    @abstractmethod
    def stop(self, reason: MedHelmError) -> None:
        """Let waiting requests raise `reason`."""

    async def close(self) -> None:  # noqa: B027 - an optional hook
        """Hook: store what was charged last."""


class CommandLimit(SpendingLimit):
    """The limit of one command (`--max-cost`): everything is in memory."""

    def __init__(self, limit_usd: float) -> None:
        """`limit_usd`: US dollars."""
        self._limit_usd = limit_usd
        self._limit = floor(round(limit_usd * NANO, 3))
        self._spent = 0
        self._held = 0
        """Spent and reserved together."""
        self._reserved: dict[int, int] = {}
        self._number = 0
        self._waiting: deque[tuple[int, int, asyncio.Future[None]]] = deque()

    async def reserve(self, request: Request, digest: bytes) -> int:  # noqa: ARG002 - see SpendingLimit
        """Reserve, in memory."""
        self._number += 1
        number, most = self._number, in_nano(largest_cost_usd(request))
        if not self._waiting and self._held + most <= self._limit:
            self._reserved[number] = most
            self._held += most
            return number
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((number, most, future))
        self._admit()
        try:
            await future
        except asyncio.CancelledError:
            if number in self._reserved:  # granted just before the cancellation
                self.settle(number, 0.0)
            raise
        return number

    def settle(self, number: int, cost_usd: float) -> None:
        """Replace a reservation by the real cost, and let others in."""
        self._held -= self._reserved.pop(number)
        self.charge(cost_usd)

    def charge(self, cost_usd: float) -> None:
        """Add a cost, and let others in."""
        cost = in_nano(cost_usd)
        self._spent += cost
        self._held += cost
        self._admit()

    def stop(self, reason: MedHelmError) -> None:
        """Let waiting requests raise `reason`."""
        for _, _, future in self._waiting:
            if not future.done():
                future.set_exception(reason)
        self._waiting.clear()

    def _admit(self) -> None:
        """Grant reservations in their order, as far as they fit; reject the first that never will."""
        while self._waiting:
            number, most, future = self._waiting[0]
            if not future.done():
                if self._held + most <= self._limit:
                    self._reserved[number] = most
                    self._held += most
                    future.set_result(None)
                elif self._reserved:
                    return
                else:
                    future.set_exception(self._error(most))
            self._waiting.popleft()

    def _error(self, most: int) -> BudgetError:
        return BudgetError(
            f"stopped by the budget: {self._spent / NANO:.4f} of {self._limit_usd:.4f} US dollars are spent, and the "
            f"next request may cost {most / NANO:.4f}. Everything received is kept; the same command with a higher "
            "--max-cost continues from here, and `medhelm plan` with the same arguments shows the remaining cost."
        )
