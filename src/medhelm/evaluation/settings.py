"""What a user may choose about an evaluation, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass

from medhelm.domain import Benchmark, Model, Tier
from medhelm.domain.completion import REASONING_TOKENS


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a user may choose about an evaluation."""

    tier: Tier = "real"
    """Real data, or the sample rows that ship with each benchmark."""
    sample: str = "default"
    """Which of a benchmark's named selections is evaluated."""
    limit: int | None = None
    """Only the first so many instances of each selection."""
    seed: int = 0
    """Seed of the selection and of the random baseline."""
    concurrency: int | None = None
    """Requests in flight per endpoint, from the start; None: grows from 16 to 128 while that helps."""
    max_cost_usd: float | None = None
    """Stop when this much was spent."""
    timeout_s: float = 600.0
    """Longest wait for one reply."""
    attempts: int = 5
    """How often one request is tried."""
    batch: bool = False
    """Whether models and judges whose provider has a batch API are asked through it first: later, for less."""
    keep_batches: bool = False
    """Whether requests and answers stay at the batch API once they are collected, until it deletes them itself."""
    offline: bool = False
    """Whether only this machine may be asked."""


def completion_limit(benchmark: Benchmark, model: Model) -> int:
    """Tokens this model may write on this benchmark: its own limit, the reasoning limit, or the benchmark's."""
    return model.max_tokens or (REASONING_TOKENS if model.reasoning else benchmark.max_tokens)
