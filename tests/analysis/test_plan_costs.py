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
    fresh = (usage.input - usage.cached_input) * Fraction(price.input)
    return (fresh + usage.cached_input * Fraction(cached) + usage.output * Fraction(price.output)) / 10**6


def test_a_bill_over_batches_is_the_sum_of_its_completions() -> None:
    rng = Random(6)
    for _ in range(100):
        cached = rng.choice([None, rng.uniform(0, 5)])
        price = Price(input=rng.uniform(0, 20), cached_input=cached, output=rng.uniform(0, 80))
        alone, batched = (
            [Usage(input=5000, cached_input=rng.randint(0, 5000), output=rng.randrange(900)) for _ in range(n)]
            for n in (rng.randrange(6), rng.randrange(6))
        )
        bill = sum((exact(one, price) for one in alone), Fraction(0))
        bill += sum((exact(one, price) * Fraction(BATCH_FACTOR) for one in batched), Fraction(0))
        found = cost_with_batches(sum(alone + batched, Usage()), sum(batched, Usage()), price)
        assert found == pytest.approx(float(bill), rel=1e-12, abs=1e-15)
    assert cost_with_batches(Usage(input=10), Usage(), PRICE) == cost_of(Usage(input=10), PRICE)
