"""Costs of tokens that are still to be bought, directly and through a batch API, against plain arithmetic."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest

from medhelm.analysis.cost import BATCH_FACTOR, cost_of, cost_with_batches
from medhelm.analysis.planned_cost import ExpectedAndMax, TokenForecast
from medhelm.domain import Price, Usage
from tests.support.values import present

PRICE = Price(input=3.0, cached_input=0.3, output=15.0)


def tokens(read: float, read_max: float, written: float, written_max: float) -> TokenForecast:
    return TokenForecast(input=read, input_max=read_max, output=written, output_max=written_max)


NOTHING = tokens(0, 0, 0, 0)
SOME = tokens(1_000_000, 2_000_000, 100_000, 400_000)
PART = tokens(600_000, 900_000, 60_000, 200_000)


def test_costs_by_hand() -> None:
    assert SOME.cost(PRICE) == ExpectedAndMax(expected=4.5, max=12.0)
    assert SOME.batch_cost(PRICE, SOME) == ExpectedAndMax(expected=2.25, max=6.0)
    assert SOME.batch_cost(PRICE, None) == SOME.cost(PRICE)
    found = present(SOME.batch_cost(PRICE, PART))
    assert (found.expected, found.max) == pytest.approx((3.15, 9.15))
    assert SOME.written == ExpectedAndMax(expected=100_000, max=400_000)


def test_nothing_costs_nothing_and_an_unknown_price_is_not_0() -> None:
    assert NOTHING.cost(None) == NOTHING.batch_cost(None, NOTHING) == ExpectedAndMax(expected=0.0, max=0.0)
    assert SOME.cost(None) is None
    assert SOME.batch_cost(None, SOME) is None
    assert SOME.batch_cost(PRICE, NOTHING) == SOME.cost(PRICE)


def exact(usage: Usage, price: Price) -> Fraction:
    """US dollars, without any rounding."""
    cached = price.input if price.cached_input is None else price.cached_input
    parts = (
        (usage.input - usage.cached_input, price.input),
        (usage.cached_input, cached),
        (usage.output, price.output),
    )
    return sum((n * Fraction(p) for n, p in parts), Fraction(0)) / 10**6


def test_a_bill_over_batches_is_the_sum_of_its_completions() -> None:
    rng = Random(6)
    for _ in range(200):
        price = Price(
            input=rng.uniform(0, 20), cached_input=rng.choice([None, rng.uniform(0, 5)]), output=rng.uniform(0, 80)
        )
        calls = []
        for _ in range(rng.randrange(12)):
            read = rng.randrange(5000)
            calls.append(
                (Usage(input=read, cached_input=rng.randint(0, read), output=rng.randrange(900)), rng.random() < 0.5)
            )
        whole = sum((usage for usage, _ in calls), Usage())
        batched = sum((usage for usage, is_batched in calls if is_batched), Usage())
        bill = sum((exact(u, price) * (Fraction(BATCH_FACTOR) if b else 1) for u, b in calls), Fraction(0))
        assert cost_with_batches(whole, batched, price) == pytest.approx(float(bill), rel=1e-12, abs=1e-15)
    assert cost_with_batches(Usage(input=10), Usage(), PRICE) == cost_of(Usage(input=10), PRICE)
