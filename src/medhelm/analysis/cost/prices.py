"""Computes costs from tokens and prices: bills, ceilings by the published rule, and the efficient frontier.

Prices are `Price`: US dollars per million tokens. This module does no input or output.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from math import fsum, isfinite
from statistics import median
from typing import Generic, TypeVar

from medhelm.domain import Price, Usage

TOKENS_PER_PRICE = 1_000_000
"""Number of tokens that a price refers to."""

BATCH_FACTOR = 0.5
"""Batch price as a fraction of the usual price, for all kinds of tokens, at OpenAI and Anthropic (November 2026)."""

CEILING_JUDGE_TOKENS = 4096
"""Tokens of every judge's response by the published rule: the judges' limit."""

CENT = Decimal("0.01")

Name = TypeVar("Name", bound=Hashable)


def cost_of(usage: Usage, price: Price) -> float:
    """US dollars for `usage` at `price`.

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
    """US dollars for `usage`, of which `batched` went through a batch API.

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
    """Rounded to whole cents, halves up.

    >>> to_cents(Decimal("0.045"))
    Decimal('0.05')
    """
    return dollars.quantize(CENT, rounding=ROUND_HALF_UP)


def _exactly(price: float) -> Decimal:
    """Convert a price to an exact decimal: 0.71, not the nearest binary fraction."""
    return Decimal(str(price))


# --- efficient frontier -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CostPoint(Generic[Name]):
    """Quality and cost of one model."""

    name: Name
    """Name of the model."""
    cost_usd: float | None
    """Cost in US dollars; None if unknown: the point is then ignored."""
    value: float | None
    """Quality, such as the win rate; higher is better; None if unknown."""


def efficient_frontier(points: Iterable[CostPoint[Name]]) -> list[CostPoint[Name]]:
    """The efficient frontier: points that no other beats at the same or lower cost, cheapest first.

    A point is beaten by another that costs no more and is better, or that is as good and costs less. Points with equal
    cost and equal value are both on the frontier. One whose cost or value is not known is neither on it nor beats any.

    >>> points = [CostPoint("a", 1, 0.5), CostPoint("b", 2, 0.4), CostPoint("c", 2, 0.9), CostPoint("?", None, 1)]
    >>> efficient_frontier(points)
    [CostPoint(name='a', cost_usd=1, value=0.5), CostPoint(name='c', cost_usd=2, value=0.9)]
    """
    usable: list[tuple[float, float, CostPoint[Name]]] = []
    for point in points:
        cost, value = point.cost_usd, point.value
        if cost is not None and value is not None and isfinite(cost) and isfinite(value):
            usable.append((cost, -value, point))
    found: list[CostPoint[Name]] = []
    best = (float("inf"), float("inf"))
    for cost, negative, point in sorted(usable, key=lambda one: one[:2]):
        if negative < best[1] or (cost, negative) == best:
            found.append(point)
            best = (cost, negative)
    return found


# --- sums -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CostSum:
    """A sum of money of which parts may be unknown."""

    known_usd: float = 0.0
    """Sum of the known parts: a lower bound."""
    n_unknown: int = 0
    """Parts whose cost is not known."""

    @property
    def usd(self) -> float | None:
        """The sum; None if any part is unknown, which never counts as free."""
        return None if self.n_unknown else self.known_usd


def sum_costs(costs: Iterable[float | None]) -> CostSum:
    """The sum of some costs, None for those that are not known.

    >>> sum_costs([1.5, None, 0.25])
    CostSum(known_usd=1.75, n_unknown=1)
    """
    parts = list(costs)
    known = [cost for cost in parts if cost is not None]
    return CostSum(fsum(known), len(parts) - len(known))


@dataclass(frozen=True, slots=True)
class CostRange:
    """Cost as observed on several models."""

    expected: float
    """The median."""
    low: float
    """The lowest."""
    high: float
    """The highest."""


def update_cost(by_benchmark: Iterable[Sequence[float]]) -> CostRange | None:
    """Estimate the cost of one more model: sums over benchmarks of the median, lowest and highest cost.

    Parameters: by_benchmark, US dollars of each model on it, at least one. The lowest sum takes the cheapest model of
    each benchmark, so no single model need have been as cheap. None without any benchmark.

    >>> update_cost([[1.0, 2.0, 9.0], [4.0]])
    CostRange(expected=6.0, low=5.0, high=13.0)
    """
    costs = [list(own) for own in by_benchmark]
    if not costs:
        return None
    return CostRange(fsum(map(median, costs)), fsum(map(min, costs)), fsum(map(max, costs)))


def cost_per_point(cost_usd: float | None, value: float | None) -> float | None:
    """US dollars for each 0.01 of a number on the 0..1 scale; None if either is unknown, or the number is not above 0.

    >>> cost_per_point(30.0, 0.6)
    0.5
    """
    if cost_usd is None or value is None or not value > 0:
        return None
    return cost_usd / (100 * value)
