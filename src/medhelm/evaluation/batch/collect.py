"""Collecting a batch: its completions go into the cache, as if each had been bought alone, at half the price."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from medhelm.analysis.cost.token_costs import BATCH_FACTOR, cost_of
from medhelm.domain import Completion, Prompt, Request
from medhelm.domain.batch import Batch
from medhelm.errors import ProviderError
from medhelm.models.batch.api import read_completion
from medhelm.models.batch.protocol import RequestResult
from medhelm.models.cache import Cache, worth_keeping
from medhelm.models.limits.budget import Budget, charged
from medhelm.models.provider import OptionalParameter, unsupported_parameter
from medhelm.models.providers.hosted import HttpProvider

MAX_CONCURRENT_WRITES = 512
"""Completions that are written to the cache together."""


@dataclass(slots=True)
class BatchResult:
    """Outcome of a collected batch."""

    missing: set[str]
    """Digests of the requests without a completion that are not submitted again."""
    resubmit: set[str] = field(default_factory=set)
    """Digests of the requests to submit again: the service did not support an optional parameter."""
    reasons: dict[str, str] = field(default_factory=dict)
    """Digest of a request without a completion -> the reason, if the service gave one."""
    is_ours: bool = False
    """True if any result belongs to a request of the batch."""

    @property
    def missing_by_reason(self) -> Counter[str]:
        """Reason -> number of requests without a completion."""
        return Counter(self.reasons.get(digest, "missing") for digest in self.missing)


async def collect(
    batch: Batch, results: Iterator[RequestResult], provider: HttpProvider, cache: Cache, budget: Budget
) -> BatchResult:
    """Commit every completion to the cache and charge half its price.

    Results may come in any order; those about other requests, and second ones about the same request, are skipped.
    `provider` learns which optional parameters the service does not support.
    Raises: StoreError if the cache cannot be written.
    """
    outcome = BatchResult(missing=set(batch.digests))
    template = _template(batch, provider)
    writes: list[asyncio.Future[None]] = []
    for result in results:
        if result.digest not in outcome.missing:
            continue
        outcome.is_ours = True
        completion = _completion(result, template, batch, provider, outcome)
        if completion is not None:
            outcome.missing.discard(result.digest)
            digest = bytes.fromhex(result.digest)
            writes.append(asyncio.ensure_future(_keep(digest, completion, template, cache, budget)))
        if len(writes) >= MAX_CONCURRENT_WRITES:
            await asyncio.gather(*writes)
            writes.clear()
    await asyncio.gather(*writes)
    outcome.resubmit &= outcome.missing
    outcome.missing -= outcome.resubmit
    return outcome


def _template(batch: Batch, provider: HttpProvider) -> Request:
    """Return a request with everything that matters for reading completions; the prompt does not."""
    schema: dict[str, object] | None = {} if batch.role == "judge" else None
    stop = ("",) if batch.has_stop_sequences else ()
    return Request(model=provider.model, prompt=Prompt(()), max_tokens=0, schema=schema, stop=stop)


def _completion(
    result: RequestResult, template: Request, batch: Batch, provider: HttpProvider, outcome: BatchResult
) -> Completion | None:
    """Return the completion in a result; None if there is none to keep, with the reason noted in `outcome`."""
    omitted = [OptionalParameter(name) for name in batch.refused_parameters]
    try:
        completion = read_completion(result, provider, template, omitted)
    except ProviderError as error:
        if unsupported_parameter(error):
            outcome.resubmit.add(result.digest)
        else:
            outcome.reasons[result.digest] = error.code
        return None
    if completion.failure is None or worth_keeping(completion):
        return completion
    outcome.reasons[result.digest] = completion.failure.code
    return None


async def _keep(digest: bytes, completion: Completion, template: Request, cache: Cache, budget: Budget) -> None:
    """Commit one completion and charge it, unless it is in the cache."""
    if cache.get(digest) is not None:
        return
    await cache.put(digest, completion, model=template.model.name)
    if template.model.price is not None:
        budget.charge(BATCH_FACTOR * cost_of(charged(template, completion), template.model.price))
