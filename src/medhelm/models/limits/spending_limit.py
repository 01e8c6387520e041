"""Limits on what is spent: a request reserves the most it can cost, and waits while others hold what is left."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from math import ceil, floor
from typing import Any, TypeGuard

from medhelm.analysis.cost.token_costs import cost_of
from medhelm.domain import Completion, Request, Usage
from medhelm.errors import BudgetError, MedHelmError, ProviderError
from medhelm.models.provider import BilledError

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
