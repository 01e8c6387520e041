"""Types of a cost plan, and the cost, tokens and time of a model's completions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from medhelm.analysis.cost import BATCH_FACTOR, CostSum, cost_of, sum_costs
from medhelm.analysis.means import Floats
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
    asked: str = ""
    """Setting and variant of the instances, such as `perturb=typos`; empty for the usual way."""
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


# --- use of completions -----------------------------------------------------------------------------------------------
# Tokens and time of a model's own completions: the cost of using it, without judges.


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunUse:
    """Tokens and time of the completions of one run."""

    completions: int
    """Number of completions."""
    has_known_cost: bool = True
    """False for completions from a file, which were bought elsewhere: that they cost nothing here says nothing."""
    input_tokens: int | None = None
    """Input tokens of all of them; None if unknown."""
    output_tokens: int | None = None
    """Output tokens of all of them, reasoning included; None if unknown."""
    seconds: Floats | None = None
    """Seconds of each request without waits and retries, shape (n,): nan for batches and where the time is not known.
    None if no time is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionUse:
    """Cost, tokens and time of a model's completions on several benchmarks, all benchmarks pooled."""

    completions: int
    """Number of completions."""
    usd_per_1000: float | None
    """US dollars for 1,000 completions; None if unknown."""
    input_tokens: float | None
    """Mean input tokens of a completion; None if unknown on any benchmark."""
    output_tokens: float | None
    """Mean output tokens of a completion, reasoning included; None if unknown on any benchmark."""
    seconds: float | None
    """Median seconds of a completion; None if no time is known on any benchmark."""
    mean_seconds: float | None
    """Mean seconds of a completion; None as `seconds`."""

    @property
    def tokens(self) -> float | None:
        """Mean input and output tokens of a completion; None if unknown."""
        if self.input_tokens is None or self.output_tokens is None:
            return None
        return self.input_tokens + self.output_tokens


def pooled_times(runs: Sequence[RunUse]) -> tuple[float, float] | None:
    """Return the median and the mean seconds of a completion of some runs; None if those of any run are unknown."""
    times = [None if run.seconds is None else run.seconds[~np.isnan(run.seconds)] for run in runs]
    timed = [one for one in times if one is not None and len(one)]
    if len(timed) < len(times):
        return None
    seconds = np.concatenate(timed)
    return float(np.median(seconds)), float(seconds.mean())


def pooled_use(runs: Iterable[RunUse | None], cost_usd: float | None) -> CompletionUse | None:
    """Pool the runs of one model.

    Parameters: runs, one per benchmark; cost_usd, of all of them together.
    Returns: None if a run's use is unknown, or no run has a completion.

    >>> pooled_use([RunUse(completions=2, input_tokens=30, output_tokens=10)], 0.5).usd_per_1000
    250.0
    """
    found = list(runs)
    known = [run for run in found if run is not None]
    completions = sum(run.completions for run in known)
    if len(known) < len(found) or not completions:
        return None
    seconds = pooled_times([run for run in known if run.completions])
    known_cost = cost_usd if all(run.has_known_cost for run in known) else None
    return CompletionUse(
        completions=completions,
        usd_per_1000=None if known_cost is None else 1000 * known_cost / completions,
        input_tokens=_mean((run.input_tokens for run in known), completions),
        output_tokens=_mean((run.output_tokens for run in known), completions),
        seconds=seconds and seconds[0],
        mean_seconds=seconds and seconds[1],
    )


def _mean(counts: Iterable[int | None], completions: int) -> float | None:
    """Return the mean per completion; None if a count is unknown."""
    known = list(counts)
    return None if None in known else sum(one for one in known if one is not None) / completions
