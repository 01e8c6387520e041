"""What things cost, and when it is enough."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from medhelm.analysis.cost import cost_of
from medhelm.domain import Completion, Failure, Message, Model, Price, Prompt, Request, Usage
from medhelm.errors import BudgetError, Interrupted, ProviderError
from medhelm.models.budget import Budget, largest_cost_usd, largest_usage
from medhelm.models.provider import BilledError
from tests.support import virtual_time
from tests.support.cases import table

run_test = virtual_time.run
PRICE = Price(input=2.0, output=8.0, cached_input=0.5)
FULL_PRICE = Price(input=2.0, output=8.0)
MILLION = 1_000_000


@table(
    ("usage", "price", "dollars"),
    [
        (Usage(input=MILLION, cached_input=MILLION // 2), PRICE, 1.25),
        # reasoning is part of the output already
        (Usage(output=MILLION, reasoning=MILLION), PRICE, 8.0),
        (Usage(input=MILLION, cache_write=MILLION // 2), FULL_PRICE, 2.0),
        (Usage(input=MILLION, cached_input=MILLION // 2, cache_write=MILLION), replace(PRICE, cache_write=2.5), 1.5),
        # slips of a provider: more cached than read, and counts below zero
        (Usage(input=MILLION, cached_input=3 * MILLION), PRICE, 0.5),
        (Usage(input=-MILLION, cached_input=-5, output=-MILLION), PRICE, 0.0),
    ],
)
def test_cost(usage: Usage, price: Price, dollars: float) -> None:
    assert cost_of(usage, price) == pytest.approx(dollars)


def asked(text: str, max_tokens: int, **model: Any) -> Request:
    named = Model(name="m", provider="openai", remote_name="m", **model)
    return Request(model=named, prompt=Prompt((Message("user", text),)), max_tokens=max_tokens)


LOST = BilledError(ProviderError("timeout", "no reply"), Usage())
USELESS = BilledError(ProviderError("empty_choice", "no completion"), Usage(input=50, output=7))
REFUSED = ProviderError("overloaded", "busy")


def bought(budget: Budget, request: Request, outcome: Completion | BaseException | None) -> float:
    """Return what one purchase costs; an outcome of None: it is not sent."""

    async def buy() -> float:
        before = budget.spent_usd
        with suppress(BilledError, ProviderError, asyncio.CancelledError):
            async with budget.purchase(request, b"") as purchase:
                purchase.sent = outcome is not None
                if isinstance(outcome, BaseException):
                    raise outcome
                purchase.completion = outcome
        return budget.spent_usd - before

    return asyncio.run(buy())


ASKED = asked("x" * 300, 50, price=Price(input=MILLION, output=MILLION))
MOST = 300 + 16 + 256 + 50
"""Dollars that the request can cost at a dollar a token."""


@table(
    ("outcome", "without", "within"),
    [
        (Completion(text="yes", usage=Usage(input=100, output=1)), 101, 101),
        (Completion(text="yes", usage=Usage(input=100)), 100, 150),  # a text without tokens
        (Completion(text="y" * 100, usage=Usage(input=100, output=2)), 102, 150),  # 50 characters a token
        (Completion(text="yes"), 151, MOST),
        (Completion(failure=Failure("provider", "refusal", "no")), 0, 0),
        (Completion(failure=Failure("provider", "refusal", "no"), finish_reason="stop"), 0, MOST - 50),
        (USELESS, 57, 57),
        (LOST, 0, MOST),
        (REFUSED, 0, 0),
        (asyncio.CancelledError(), 0, MOST),
        (None, 0, 0),
    ],
)
def test_what_is_charged(outcome: Completion | BaseException | None, without: int, within: int) -> None:
    """Without a limit nothing is guessed but the tokens of a service that counts none."""
    assert bought(Budget(), ASKED, outcome) == pytest.approx(without)
    assert bought(Budget(1000.0), ASKED, outcome) == pytest.approx(within)


@table(
    ("request_", "usage"),
    [
        (asked("\N{SNOWMAN}" * 10, 50), Usage(input=30 + 16 + 256, output=50)),
        (asked("", 50, parameters={"max_tokens": 900, "n": 2}), Usage(input=16 + 256, output=1800)),
        (asked("", 50, parameters={"thinking": {"budget_tokens": 70}}), Usage(input=16 + 256, output=70)),
        (replace(asked("", 50), schema={}), Usage(input=2 + 16 + 512, output=50)),
    ],
)
def test_the_most_that_a_request_can_use(request_: Request, usage: Usage) -> None:
    assert largest_usage(request_) == usage
    price = Price(input=1.0, output=0.0, cache_write=1.25)  # writing to a cache may cost more than reading
    dear = replace(request_, model=replace(request_.model, price=price))
    assert largest_cost_usd(dear) == pytest.approx(usage.input * 1.25 / MILLION)


async def test_a_request_that_does_not_fit_waits_and_the_last_is_rejected() -> None:
    """Two fit at once; the third waits for them, and is rejected when they have cost too much."""
    budget = Budget(2.5 * MOST)
    events: list[str] = []

    async def buy(name: str, go_on: asyncio.Event) -> None:
        try:
            async with budget.purchase(ASKED, b"") as purchase:
                events.append(f"{name} sent")
                purchase.sent = True
                await go_on.wait()
                purchase.completion = Completion(text="yes", usage=Usage(input=MOST // 2, output=MOST // 2))
        except BudgetError as error:
            assert error.exit_code == 3
            assert f"{2 * MOST:.4f} of {2.5 * MOST:.4f} US dollars are spent, and the next" in str(error)
            assert f"may cost {MOST:.4f}" in str(error)
            events.append(f"{name} rejected")

    go_on = [asyncio.Event() for _ in range(3)]
    tasks = [asyncio.create_task(buy(str(n), event)) for n, event in enumerate(go_on)]
    for event in go_on:
        await asyncio.sleep(0.001)
        events.append("reply")
        event.set()
    await asyncio.gather(*tasks)
    assert events == ["0 sent", "1 sent", "reply", "reply", "2 rejected", "reply"]
    assert budget.spent_usd == 2 * MOST


async def test_a_stop_ends_the_wait_for_money() -> None:
    budget = Budget(1.5 * MOST)
    async with budget.purchase(ASKED, b""):
        waiting = asyncio.create_task(budget.purchase(ASKED, b"").__aenter__())
        await asyncio.sleep(0)
        budget.stop(Interrupted("interrupted"))
        with pytest.raises(Interrupted):
            await waiting
    async with budget.purchase(ASKED, b""):  # what was not sent is free again
        pass
