"""Costs of a plan: tokens for each character, tokens that are still to be bought, and the use of runs."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import numpy as np
import pytest

from medhelm.analysis.cost import (
    BATCH_FACTOR,
    CostSum,
    TokenRatio,
    cost_of,
    cost_with_batches,
    learn_token_ratio,
    pool_token_ratios,
)
from medhelm.analysis.planned_cost import ExpectedAndMax, RunUse, TokenForecast, is_within_limit, pooled_use
from medhelm.domain import Price, Usage
from tests.support.values import present

# --- tokens for each character, learned from a sample, and sums -------------------------------------------------------


def test_a_factor_is_the_ratio_of_the_sums_with_the_error_of_a_ratio() -> None:
    characters, tokens = [100, 300, 250, 900], [30, 70, 66, 210]
    found = present(learn_token_ratio(characters, tokens, "four prompts"))
    x, y = np.array(characters, dtype=float), np.array(tokens, dtype=float)
    ratio = y.sum() / x.sum()
    assert found.tokens_per_character == pytest.approx(ratio)
    # Cochran (1977), equation 6.13 with the sample's own mean, as a share of the ratio.
    standard_error = np.sqrt(((y - ratio * x) ** 2).sum() / 3 / 4) / x.mean()
    t = 3.182446305284263  # of three degrees of freedom
    assert found.error == pytest.approx(t * standard_error / ratio)
    spread = np.sqrt(((y / (ratio * x) - 1) ** 2).sum() / 3)
    assert found.one_error == pytest.approx(found.error + t * spread)
    assert found.most == pytest.approx(ratio * (1 + found.one_error))
    assert found.basis == "four prompts"


@pytest.mark.parametrize("n", [8, 20, 100])
def test_a_single_prompt_seldom_has_more_than_the_most(n: int) -> None:
    """Beyond the upper end of a 95 % interval lies one in forty; the tails of real texts are a little heavier."""
    rng = np.random.default_rng(n)
    sizes = rng.lognormal(7, 0.6, (400, n + 50))
    ratios = rng.lognormal(np.log(0.28), 0.12, sizes.shape)  # as of notes of patients with a common tokenizer
    characters = sizes.astype(int) + 200
    tokens = (characters * ratios).astype(int) + 11
    beyond = held = 0
    for seen, counted in zip(characters, tokens, strict=True):
        found = present(learn_token_ratio(seen[:n].tolist(), counted[:n].tolist(), ""))
        beyond += int((counted[n:] > seen[n:] * found.most).sum())
        held += abs((0.28 * np.exp(0.12**2 / 2) + 11 / 1525) / found.tokens_per_character - 1) <= found.error
    assert 0.005 <= beyond / (400 * 50) <= 0.035
    assert held / 400 >= 0.9


@pytest.mark.parametrize(
    ("characters", "tokens", "expected"),
    [
        ([], [], None),
        ([0, 0], [0, 0], None),
        ([40], [10], TokenRatio(0.25, 0.25, "b")),
        ([40, 80], [10, 20], TokenRatio(0.25, 0.02, "b", 0.02)),
        ([40, 80], [0, 0], TokenRatio(0.0, 0.25, "b")),
    ],
    ids=["nothing", "no characters", "one prompt", "no spread", "no tokens"],
)
def test_the_ends_of_what_can_be_learned(characters: list[int], tokens: list[int], expected: TokenRatio | None) -> None:
    assert learn_token_ratio(characters, tokens, "b") == expected


def test_factors_of_other_texts_are_pooled_and_trusted_less() -> None:
    assert pool_token_ratios([], "b") is None
    assert pool_token_ratios([TokenRatio(0.25, 0.02, "x")], "b") == TokenRatio(0.25, 0.25, "b")
    found = present(pool_token_ratios([TokenRatio(0.1, 0.02, "x"), TokenRatio(0.3, 0.02, "x")], "b"))
    assert (found.tokens_per_character, found.error) == pytest.approx((0.2, 0.5))


@pytest.mark.parametrize(
    ("cost", "expected"),
    [
        (CostSum(1.0), True),
        (CostSum(2.0), True),
        (CostSum(2.1), False),
        (CostSum(1.0, 1), None),
        (CostSum(2.1, 1), False),
    ],
)
def test_whether_a_sum_fits(cost: CostSum, expected: bool | None) -> None:
    assert is_within_limit(cost, 2.0) is expected


# --- tokens still to be bought, directly and through a batch API, against plain arithmetic ----------------------------


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


# --- tokens and time of completions: pooled over benchmarks, and unknown as soon as one part is -----------------------


ONE = RunUse(completions=2, input_tokens=300, output_tokens=20, seconds=np.array([1.0, 3.0]))
OTHER = RunUse(completions=3, input_tokens=100, output_tokens=5, seconds=np.array([2.0, 10.0, 2.0]))


def test_completions_of_all_benchmarks_are_pooled() -> None:
    found = present(pooled_use([ONE, OTHER], 0.02))
    assert (found.completions, found.usd_per_1000) == (5, 4.0)
    assert (found.input_tokens, found.output_tokens, found.tokens) == (80.0, 5.0, 85.0)
    assert (found.seconds, found.mean_seconds) == (2.0, 3.6)


def test_an_unknown_part_makes_the_whole_unknown() -> None:
    found = present(pooled_use([ONE, RunUse(completions=3)], None))
    assert (found.tokens, found.seconds, found.mean_seconds, found.usd_per_1000) == (None, None, None, None)
    assert pooled_use([ONE, None], 1.0) is None
    assert pooled_use([RunUse(completions=0)], 0.0) is None
