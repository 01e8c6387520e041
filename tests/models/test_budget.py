"""What things cost, and when it is enough."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.analysis.cost.prices import cost_of
from medhelm.domain import Completion, Failure, Message, Model, Price, Prompt, Request, Usage
from medhelm.errors import BudgetError
from medhelm.models.budget import Budget, charged, is_metered
from tests.support.cases import table

PRICE = Price(input=2.0, output=8.0, cached_input=0.5)
FULL_PRICE = Price(input=2.0, output=8.0)
MILLION = 1_000_000


@table(
    ("usage", "price", "dollars"),
    [
        (Usage(), PRICE, 0.0),
        (Usage(input=MILLION), PRICE, 2.0),
        (Usage(output=MILLION), PRICE, 8.0),
        (Usage(input=MILLION, cached_input=MILLION), PRICE, 0.5),
        (Usage(input=MILLION, cached_input=MILLION // 2), PRICE, 1.25),
        (Usage(input=MILLION, cached_input=MILLION // 2), FULL_PRICE, 2.0),
        # reasoning is part of the output already
        (Usage(output=MILLION, reasoning=MILLION), PRICE, 8.0),
        (Usage(input=MILLION, cache_write=MILLION // 2), FULL_PRICE, 2.0),
        (Usage(input=MILLION, cache_write=MILLION // 2), replace(PRICE, cache_write=2.5), 2.25),
        (Usage(input=MILLION, cached_input=MILLION // 2, cache_write=MILLION), replace(PRICE, cache_write=2.5), 1.5),
        # slips of a provider: more cached than read, and counts below zero
        (Usage(input=MILLION, cached_input=3 * MILLION), PRICE, 0.5),
        (Usage(input=-MILLION, cached_input=-5, output=-MILLION), PRICE, 0.0),
        (Usage(input=MILLION, cached_input=-MILLION), PRICE, 2.0),
        (Usage(input=MILLION), Price(input=0.0, output=0.0), 0.0),
    ],
)
def test_cost(usage: Usage, price: Price, dollars: float) -> None:
    assert cost_of(usage, price) == pytest.approx(dollars)


counts = st.integers(min_value=0, max_value=10**9)
prices = st.floats(min_value=0, max_value=1000)


@given(counts, counts, counts, counts, prices, prices)
def test_the_cost_of_two_calls_is_the_sum(a: int, b: int, c: int, d: int, price_in: float, price_out: float) -> None:
    price = Price(input=price_in, output=price_out)
    first, second = Usage(input=a, output=b), Usage(input=c, output=d)
    assert cost_of(first, price) >= 0
    assert cost_of(first + second, price) == pytest.approx(cost_of(first, price) + cost_of(second, price))


def test_without_a_limit_everything_is_allowed_and_counted() -> None:
    budget = Budget()
    budget.charge(1e6)
    budget.check()
    assert budget.spent_usd == 1e6


@pytest.mark.parametrize(
    ("limit", "charges", "stopped"),
    [(1.0, [], False), (1.0, [0.5, 0.4], False), (1.0, [0.5, 0.5], True), (1.0, [3.0], True), (0.0, [], True)],
)
def test_the_limit(limit: float, charges: list[float], stopped: bool) -> None:
    budget = Budget(limit)
    for charge in charges:
        budget.charge(charge)
    if not stopped:
        budget.check()
        return
    with pytest.raises(BudgetError, match=f"{sum(charges):.4f} of {limit:.4f} US dollars.* --max-cost") as caught:
        budget.check()
    assert caught.value.exit_code == 3


def asked(text: str, max_tokens: int) -> Request:
    model = Model(name="m", provider="openai", remote_name="m")
    return Request(model=model, prompt=Prompt((Message("user", text),)), max_tokens=max_tokens)


@pytest.mark.parametrize(
    ("completion", "expected"),
    [
        (Completion(text="yes", usage=Usage(input=7, output=1)), Usage(input=7, output=1)),
        (Completion(text="yes", usage=Usage(input=7)), Usage(input=7)),
        (Completion(text="yes"), Usage(input=101, output=50)),
        (Completion(text=""), Usage(input=101, output=50)),
        (Completion(failure=Failure("provider", "refusal", "no")), Usage()),
    ],
    ids=["reported", "no output", "nothing reported", "empty and nothing reported", "failed"],
)
def test_a_service_that_reports_no_tokens_is_charged_the_most_it_can_have_used(
    completion: Completion, expected: Usage
) -> None:
    assert charged(asked("x" * 300, 50), completion) == expected
    assert is_metered(completion) == (completion.usage == expected)
