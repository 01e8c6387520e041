"""Tokens that are still to be bought from one model, and what they cost: directly, or through a batch API."""

from __future__ import annotations

from dataclasses import dataclass

from medhelm.analysis.cost.plan import ExpectedAndMax
from medhelm.analysis.cost.prices import BATCH_FACTOR, cost_of
from medhelm.domain import Price, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenForecast:
    """Expected, and at most."""

    input: float
    """Tokens of prompts."""
    input_max: float
    """The most they can be."""
    output: float
    """Tokens of replies."""
    output_max: float
    """The most they can be."""

    @property
    def written(self) -> ExpectedAndMax:
        """The output."""
        return ExpectedAndMax(expected=round(self.output), max=round(self.output_max))

    def cost(self, price: Price | None) -> ExpectedAndMax | None:
        """US dollars; None where the price is not known, unless nothing is to be bought."""
        if not (self.input or self.output or self.output_max):
            return ExpectedAndMax(expected=0.0, max=0.0)
        if price is None:
            return None
        least = Usage(input=round(self.input), output=round(self.output))
        most = Usage(input=round(self.input_max), output=round(self.output_max))
        return ExpectedAndMax(expected=cost_of(least, price), max=cost_of(most, price))

    def batch_cost(self, price: Price | None, batched: TokenForecast | None) -> ExpectedAndMax | None:
        """The same, where `batched` of them go through a batch API; None: no such thing is to be had.

        >>> whole = TokenForecast(input=1000, input_max=2000, output=100, output_max=400)
        >>> whole.batch_cost(Price(input=1.0, output=10.0), whole)
        ExpectedAndMax(expected=0.001, max=0.003)
        """
        whole, part = self.cost(price), batched.cost(price) if batched else None
        if whole is None or part is None:
            return whole
        saved = 1 - BATCH_FACTOR
        return ExpectedAndMax(expected=whole.expected - saved * part.expected, max=whole.max - saved * part.max)
