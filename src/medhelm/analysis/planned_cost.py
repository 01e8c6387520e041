"""Types of a cost plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from medhelm.analysis.cost import BATCH_FACTOR, CostSum, cost_of, sum_costs
from medhelm.domain import Price, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedAndMax:
    """An expected number and its maximum."""

    expected: float
    """The mean."""
    max: float
    """The maximum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenForecast:
    """Tokens still to be bought from one model: the expected number and the maximum."""

    input: float
    """Tokens of prompts."""
    input_max: float
    """Maximum of them."""
    output: float
    """Tokens of replies."""
    output_max: float
    """Maximum of them."""

    @property
    def written(self) -> ExpectedAndMax:
        """Expected and maximum output tokens."""
        return ExpectedAndMax(expected=round(self.output), max=round(self.output_max))

    def cost(self, price: Price | None) -> ExpectedAndMax | None:
        """Compute the cost in US dollars; None if the price is unknown, unless nothing has to be bought."""
        if not (self.input or self.output or self.output_max):
            return ExpectedAndMax(expected=0.0, max=0.0)
        if price is None:
            return None
        least = Usage(input=round(self.input), output=round(self.output))
        most = Usage(input=round(self.input_max), output=round(self.output_max))
        return ExpectedAndMax(expected=cost_of(least, price), max=cost_of(most, price))

    def batch_cost(self, price: Price | None, batched: TokenForecast | None) -> ExpectedAndMax | None:
        """Compute the cost if the part `batched` goes through a batch API; None: no part of it.

        >>> whole = TokenForecast(input=1000, input_max=2000, output=100, output_max=400)
        >>> whole.batch_cost(Price(input=1.0, output=10.0), whole)
        ExpectedAndMax(expected=0.001, max=0.003)
        """
        whole, part = self.cost(price), batched.cost(price) if batched else None
        if whole is None or part is None:
            return whole
        saved = 1 - BATCH_FACTOR
        return ExpectedAndMax(expected=whole.expected - saved * part.expected, max=whole.max - saved * part.max)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRow:
    """One model, or one judge, on one benchmark. Tokens and money are those of requests that are still to be bought."""

    benchmark: str
    """Benchmark."""
    model: str
    """Model or judge."""
    role: Literal["model", "judge"]
    """Model under test or judge."""
    requests: int
    """Number of requests; without the data, the number in the definition, or 0 if unknown."""
    cached: int
    """Requests that are not sent: their completion is in the cache, or bought for an equal request of the run."""
    duplicate: int = 0
    """Of these, requests that are equal to another one of the run."""
    input_tokens: int | None
    """Expected input tokens; None if the data is missing."""
    output_tokens: ExpectedAndMax | None
    """Output tokens; None if the data is missing."""
    cost_usd: ExpectedAndMax | None
    """Cost in US dollars; None if the price or the data is missing."""
    batch_cost_usd: ExpectedAndMax | None = None
    """The same with everything possible sent through a batch API."""
    waiting: int = 0
    """Requests submitted to a batch API earlier and not collected yet; their costs are included."""
    missing: tuple[str, ...] = ()
    """Missing prerequisites, for people."""
    input_basis: str = ""
    """Basis of `input_tokens`."""
    input_error: float = 0.0
    """Its relative error."""
    output_basis: str = ""
    """Basis of the expected output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostPlan:
    """Requests and costs of an evaluation that is not run yet."""

    rows: tuple[PlanRow, ...]
    """By benchmark, models before judges."""
    warnings: tuple[str, ...] = ()
    """Reasons not to run it as planned."""
    max_cost_usd: float | None = None
    """The cost limit; None if not set."""
    is_batched: bool = False
    """True if batch APIs were requested."""

    @property
    def batch_expected(self) -> CostSum:
        """Expected total cost with everything possible sent through batch APIs."""
        return sum_costs(row.batch_cost_usd.expected if row.batch_cost_usd else None for row in self.rows)

    @property
    def batch_most(self) -> CostSum:
        """Maximum of that cost, if no batch leaves a request unanswered, which is then sent at the full price."""
        return sum_costs(row.batch_cost_usd.max if row.batch_cost_usd else None for row in self.rows)

    @property
    def expected(self) -> CostSum:
        """Expected total cost."""
        return sum_costs(row.cost_usd.expected if row.cost_usd else None for row in self.rows)

    @property
    def most(self) -> CostSum:
        """Maximum total cost."""
        return sum_costs(row.cost_usd.max if row.cost_usd else None for row in self.rows)

    @property
    def requests(self) -> int:
        """Total number of requests, including cached ones."""
        return sum(row.requests for row in self.rows)

    @property
    def waiting(self) -> int:
        """Number of requests that a batch API may be processing already."""
        return sum(row.waiting for row in self.rows)

    @property
    def is_missing_something(self) -> bool:
        """Return whether the evaluation could not start."""
        return any(row.missing for row in self.rows)


def is_within_limit(cost: CostSum, limit_usd: float) -> bool | None:
    """Return whether a sum stays within a limit; None if too little of it is known to say.

    >>> is_within_limit(CostSum(3.0, n_unknown=1), 2.0), is_within_limit(CostSum(1.0, n_unknown=1), 2.0)
    (False, None)
    >>> is_within_limit(CostSum(1.0), 2.0)
    True
    """
    if cost.known_usd > limit_usd:
        return False
    return None if cost.n_unknown else True
