"""The options of an evaluation, and its result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from medhelm.domain import STANDARD, Run, Shard, Tier
from medhelm.domain.display import Displayable

FIRST_IN_FLIGHT, MAXIMUM_IN_FLIGHT = 16, 128
"""Requests in flight per endpoint, at first and at most, unless the user sets a limit."""

StopReason = Literal["", "budget", "interrupt"]
"""Reason for an early end; empty if there was none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Options of an evaluation that the user chooses."""

    tier: Tier = "real"
    """Real data, or the sample rows that ship with each benchmark."""
    sample: str = "default"
    """Name of the selection of instances that is evaluated, for benchmarks that define several."""
    limit: int | None = None
    """Evaluate only the first so many instances of each selection; None: all."""
    subset: int | None = None
    """Evaluate only a random draw of so many instances of each selection; None: all."""
    shard: Shard | None = None
    """Evaluate only this part of the selected instances; `medhelm merge` combines the parts. None: all."""
    own_data: bool = False
    """The data is the user's own instead of the published files: neither checksums nor counts are compared."""
    rubric: str = STANDARD
    """Name of the rubric that judges use, for benchmarks that have two."""
    verification_codes: bool = True
    """Judges copy a code from their prompt into each verdict, which a verdict planted in a text cannot have."""
    seed: int = 0
    """Seed of the selection and of the random baseline."""
    concurrency: int | None = None
    """Requests in flight per endpoint, from the start; None: grows from 16 to 128 while that helps."""
    max_cost_usd: float | None = None
    """Stop when this much has been spent."""
    timeout_s: float = 600.0
    """Longest wait for one response."""
    max_silence_s: float = 300.0
    """Longest time without any reply from a service before it is given up."""
    attempts: int = 5
    """Most attempts for one request."""
    batch: bool = False
    """Send requests through the provider's batch API first, where there is one: slower, at a lower price."""
    keep_batches: bool = False
    """Leave collected requests and completions at the batch API until it deletes them itself."""
    fresh: bool = False
    """Request new completions, whatever the cache holds; an interrupted fresh run continues."""
    offline: bool = False
    """Send requests to this machine only."""
    proxy: str = ""
    """Address of the proxy for hosts outside this machine and private networks; empty: none."""
    cluster: str = ""
    """Ray cluster that computes models of this process and neural metrics: `auto` or HOST:PORT; empty: none."""
    actors: int | None = None
    """Number of actors on the cluster; None: one for each GPU, or without GPUs one for each node."""
    allow_hosts: tuple[str, ...] = ()
    """Hosts, `*.ENDING` and networks that may get gated and private benchmarks and the user's own data, and whose
    servers may join a pool later."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Evaluation(Displayable):
    """The runs of an evaluation, and how it ended."""

    VIEW: ClassVar[str] = "medhelm.results.runs.counted_failures:EVALUATION_VIEW"

    runs: tuple[Run, ...]
    """One for each model and benchmark, in the order of the arguments."""
    stopped: StopReason
    """Reason for an early end; empty if there was none."""
    messages: tuple[str, ...]
    """Messages for the user: models and judges that could not be used, failures, and changed model versions."""
    cost_usd: float
    """Spent in this execution, on models and judges whose price is known."""
    seconds: float
    """Wall-clock time."""
    n_damaged: int = 0
    """Number of stored runs that were not scored again, because one of their files is damaged."""

    @property
    def requests_sent(self) -> int:
        """Number of requests sent in this execution, including retries and those to judges."""
        return sum(requests_sent(run) for run in self.runs)

    @property
    def exit_code(self) -> int:
        """0 all done, 1 some requests, judgments or scores failed, 3 stopped by the budget, 130 interrupted."""
        if self.stopped:
            return {"budget": 3, "interrupt": 130}[self.stopped]
        has_failures = any(not run.is_complete or run.n_failed or _has_missing_scores(run) for run in self.runs)
        return int(has_failures or self.n_damaged > 0)


def requests_sent(run: Run) -> int:
    """Return how many requests a run sent to its model and its judges."""
    judges = run.tallies.values()
    return run.requests_sent + sum(tally.requests_sent for tally in judges)


def _has_missing_scores(run: Run) -> bool:
    """Return whether a judgment failed, or the main metric could not score a completion that exists.

    The published rule counts only where there is no corrected one: it cannot score all that the corrected rule can.
    """
    if any(tally.failed for tally in run.tallies.values()):
        return True
    by_metric = run.estimates["corrected"] or run.estimates["published"]
    main = by_metric.get(run.main_metric)
    return run.n > 0 and (main is None or main.n_failed > run.n_failed)
