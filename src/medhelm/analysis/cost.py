"""Costs: sums with unknown parts, token estimates, costs from tokens and prices, and the published rule."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from math import fsum, sqrt
from statistics import median

from medhelm.domain import Price, Usage

# --- sums -------------------------------------------------------------------------------------------------------------
# Sums of which parts may be unknown, and the cost of one more model, from those of others.


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
    """Sum costs, None for those that are not known.

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
    """Return US dollars per 0.01 of a number on the 0..1 scale; None if either is unknown or the number is not above 0.

    >>> cost_per_point(30.0, 0.6)
    0.5
    """
    if cost_usd is None or value is None or not value > 0:
        return None
    return cost_usd / (100 * value)


# --- token estimates --------------------------------------------------------------------------------------------------
# Token counts estimated from earlier runs.

CHARACTERS_PER_TOKEN = 4.0
"""Assumed for English text and an unknown tokenizer."""

MOST_TOKENS_PER_CHARACTER = 1 / 3
"""Upper bound for an unknown tokenizer: more than any common tokenizer needs for English text."""

UNTESTED_ERROR = 0.25
"""Relative error assumed for a ratio from another benchmark or model: tokenizers and texts differ by about as much."""

LEAST_ERROR = 0.02
"""Minimum relative error of a ratio."""


@dataclass(frozen=True, slots=True)
class TokenRatio:
    """Input tokens for each character of a prompt."""

    tokens_per_character: float
    """The factor."""
    error: float
    """Maximum relative error of the number of tokens."""
    basis: str
    """Basis of the estimate, for people."""
    one_error: float = UNTESTED_ERROR
    """The same for the tokens of a single prompt, which vary more than those of many together."""

    @property
    def most(self) -> float:
        """Upper bound of the tokens per character of a single prompt."""
        return self.tokens_per_character * (1 + self.one_error)


_UNKNOWN_ERROR = CHARACTERS_PER_TOKEN * MOST_TOKENS_PER_CHARACTER - 1
UNKNOWN = TokenRatio(1 / CHARACTERS_PER_TOKEN, _UNKNOWN_ERROR, "4 characters per token", _UNKNOWN_ERROR)
"""Token ratio of a model without earlier runs."""


def learn_token_ratio(characters: Sequence[int], tokens: Sequence[int], basis: str) -> TokenRatio | None:
    """Estimate the tokens per character as the ratio of the sums; None without any character.

    Parameters: characters and tokens, shape (n,), of n prompts. The error is the half-width of the 95% interval of a
    ratio estimator (Cochran 1977, ch. 6) by Student's t with n - 1 degrees of freedom, at least 2%; 25% for a single
    prompt, which says nothing of others. That of one further prompt is t standard deviations of the prompts' own ratios
    about it (1.98 of a hundred prompts, 2.36 of eight), and the error of the factor.

    >>> learn_token_ratio([400, 800], [100, 200], "two prompts").tokens_per_character
    0.25
    """
    n, sent = len(characters), sum(characters)
    if not sent:
        return None
    ratio = sum(tokens) / sent
    if n < 2 or not ratio:
        return TokenRatio(ratio, UNTESTED_ERROR, basis)
    from medhelm.analysis.means import t_quantile  # lazy: a run needs no interval of tokens

    residuals = fsum((t - ratio * c) ** 2 for c, t in zip(characters, tokens, strict=True))
    t = t_quantile(0.975, n - 1)
    half_width = t * sqrt(residuals / (n - 1) / n) / (sum(tokens) / n)
    error = max(LEAST_ERROR, half_width)
    spread = fsum((t / (ratio * c) - 1) ** 2 for c, t in zip(characters, tokens, strict=True) if c) / (n - 1)
    return TokenRatio(ratio, error, basis, error + t * sqrt(spread))


def pool_token_ratios(factors: Sequence[TokenRatio], basis: str) -> TokenRatio | None:
    """Average token ratios, for a text that none of them was learned on; None without any.

    The error is the largest distance of one of them from the mean, at least 25%: other texts are tokenized otherwise.

    >>> pool_token_ratios([TokenRatio(0.2, 0.02, ""), TokenRatio(0.3, 0.02, "")], "others").tokens_per_character
    0.25
    """
    if not factors:
        return None
    mean = fsum(one.tokens_per_character for one in factors) / len(factors)
    furthest = max(abs(one.tokens_per_character / mean - 1) for one in factors)
    error = max(UNTESTED_ERROR, furthest)
    return TokenRatio(mean, error, basis, max(error, *(one.one_error for one in factors)))


@dataclass(frozen=True, slots=True)
class CompletionLength:
    """Tokens of a reply."""

    tokens: float
    """Expected mean."""
    basis: str
    """Basis of the estimate, for people."""
    again: float = 0.0
    """Share of completions that need a second request; judges only."""
    hidden: float = 0.0
    """Share of hidden reasoning tokens."""


# --- token costs ------------------------------------------------------------------------------------------------------
# Costs from tokens and prices. Prices are `Price`: US dollars per million tokens.

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
