"""Computes costs from tokens and prices, and ceilings by the published rule.

Prices are `Price`: US dollars per million tokens. This module does no input or output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

from medhelm.domain import Price, Usage

TOKENS_PER_PRICE = 1_000_000
"""Number of tokens that a price refers to."""

BATCH_FACTOR = 0.5
"""Batch price as a fraction of the usual price, for all kinds of tokens, at OpenAI and Anthropic (November 2026)."""

CEILING_JUDGE_TOKENS = 4096
"""Tokens of every judge's response by the published rule: the judges' limit."""

CENT = Decimal("0.01")


def cost_of(usage: Usage, price: Price) -> float:
    """Return the US dollars for `usage` at `price`.

    Input tokens that the provider had cached cost `price.cached_input`, those it wrote into its cache
    `price.cache_write`, or the full price where that is None. A count below zero counts as none and such tokens beyond
    the input not at all, so a provider's slip never earns money.

    >>> cost_of(Usage(input=1000, cached_input=400, output=100), Price(input=2.5, cached_input=1.25, output=10.0))
    0.003
    """
    read = max(0, usage.input)
    cached = min(max(0, usage.cached_input), read)
    stored = min(max(0, usage.cache_write), read - cached)
    cached_price = price.input if price.cached_input is None else price.cached_input
    stored_price = price.input if price.cache_write is None else price.cache_write
    dollars = (read - cached - stored) * price.input + cached * cached_price + stored * stored_price
    return (dollars + max(0, usage.output) * price.output) / TOKENS_PER_PRICE


def cost_with_batches(usage: Usage, batched: Usage, price: Price) -> float:
    """Return the US dollars for `usage`, of which `batched` went through a batch API.

    >>> cost_with_batches(Usage(input=1000, output=100), Usage(input=1000, output=50), Price(input=2.0, output=10.0))
    0.00175
    """
    return cost_of(usage, price) - (1 - BATCH_FACTOR) * cost_of(batched, price)


# --- the published rule -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CostCeiling:
    """One model on one benchmark by the published rule: four token counts, and four cells rounded to cents."""

    input_tokens: int
    """Tokens of all prompts."""
    output_tokens: int
    """Requests x limit."""
    judge_input_tokens: int
    """Input and output together, once, however many judges there are; 0 without judges."""
    judge_output_tokens: int
    """4096 x instances, once, however many judges there are; 0 without judges."""
    input_usd: Decimal
    """Price of the input, in whole cents."""
    output_usd: Decimal
    """Price of the output, in whole cents."""
    judge_input_usd: Decimal
    """Price of the judges' input at all judges' prices together, in whole cents."""
    judge_output_usd: Decimal
    """Price of the judges' output at all judges' prices together, in whole cents."""
    total_usd: Decimal
    """All four together, rounded once: it can differ by a cent or two from the sum of the four cells."""


def cost_ceiling(
    *,
    input_tokens: int,
    instances: int,
    max_tokens: int,
    price: Price,
    jury: Sequence[Price] = (),
    output_tokens: int | None = None,
) -> CostCeiling:
    """Return the cost of a run by the published rule, which counts every completion at its full limit.

    Parameters: input_tokens, of all prompts; instances, requests sent; max_tokens, the limit on a completion (4000 for
    models that reason); price, the model's; jury, one price for each judge, none for a benchmark without judges;
    output_tokens, the published count where it is not instances x max_tokens (three rows of N2C2-CT).
    Returns: token counts, and cells in US dollars, each rounded to cents, halves up, as in the published table.
    Raises: ValueError for a count below 0.

    What the rule leaves out: the words of the rubric and the reference, prompt caching, and second attempts. What it
    overstates: every length, since a completion is rarely as long as its limit.
    Source: `costs.csv` of the MedHELM paper (2025), whose judges cost 6.21 and 25.71 US dollars together.

    >>> gpt_4o, claude, llama = Price(input=2.5, output=10), Price(input=3, output=15), Price(input=0.71, output=0.71)
    >>> row = cost_ceiling(
    ...     input_tokens=188837, instances=120, max_tokens=768, price=gpt_4o, jury=[gpt_4o, claude, llama]
    ... )
    >>> print(row.input_usd, row.output_usd, row.judge_input_usd, row.judge_output_usd, row.total_usd)
    0.47 0.92 1.74 12.64 15.78
    """
    written = instances * max_tokens if output_tokens is None else output_tokens
    if min(input_tokens, instances, max_tokens, written) < 0:
        raise ValueError(f"a count below zero: {input_tokens=}, {instances=}, {max_tokens=}, {output_tokens=}")
    judge_read = input_tokens + written if jury else 0
    judge_written = CEILING_JUDGE_TOKENS * instances if jury else 0
    exact = [
        input_tokens * _exactly(price.input),
        written * _exactly(price.output),
        judge_read * sum((_exactly(judge.input) for judge in jury), Decimal(0)),
        judge_written * sum((_exactly(judge.output) for judge in jury), Decimal(0)),
    ]
    cells = [to_cents(dollars / TOKENS_PER_PRICE) for dollars in exact]
    return CostCeiling(
        input_tokens=input_tokens,
        output_tokens=written,
        judge_input_tokens=judge_read,
        judge_output_tokens=judge_written,
        input_usd=cells[0],
        output_usd=cells[1],
        judge_input_usd=cells[2],
        judge_output_usd=cells[3],
        total_usd=to_cents(sum(exact, Decimal(0)) / TOKENS_PER_PRICE),
    )


def to_cents(dollars: Decimal) -> Decimal:
    """Round to whole cents, halves up.

    >>> to_cents(Decimal("0.045"))
    Decimal('0.05')
    """
    return dollars.quantize(CENT, rounding=ROUND_HALF_UP)


def _exactly(price: float) -> Decimal:
    """Convert a price to an exact decimal: 0.71, not the nearest binary fraction."""
    return Decimal(str(price))
