"""The answers of a batch that has ended: into the cache, as if each had been asked for alone, for less."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from medhelm.domain import Batch, Completion, Prompt, Request
from medhelm.errors import ProviderError
from medhelm.models.batch import RequestResult, completion_in
from medhelm.models.budget import BATCH_FACTOR, Budget, charged, cost_of
from medhelm.models.cache import Cache, worth_keeping
from medhelm.models.provider import REFUSED_PARTS
from medhelm.models.providers.hosted import HttpProvider

PUT_TOGETHER = 512
"""Answers that are written to the cache at once."""


@dataclass(slots=True)
class BatchResult:
    """What came of a batch."""

    missing: set[str]
    """Digests of the requests that have no answer, and are not to be handed over again."""
    again: set[str] = field(default_factory=set)
    """Digests of those that are: the service refused a part that they can do without."""
    why: dict[str, str] = field(default_factory=dict)
    """Digest of a request that has no answer -> the reason, where the service gave one."""
    is_ours: bool = False
    """Whether any line was about a request of the batch."""

    @property
    def reasons(self) -> Counter[str]:
        """Why requests have no answer, and how many for each reason."""
        return Counter(self.why.get(digest, "missing") for digest in self.missing)


async def collect(
    batch: Batch, lines: Iterator[RequestResult], provider: HttpProvider, cache: Cache, budget: Budget
) -> BatchResult:
    """Commit every answer in `lines` to the cache, in whatever order they come, and charge half its price.

    Lines about other requests are passed over, and so are those about one that has its answer. `provider` learns which
    parts of requests its service refuses. Raises: StoreError if the cache cannot be written.
    """
    found = BatchResult(missing=set(batch.digests))
    like = _like(batch, provider)
    waiting: list[asyncio.Future[None]] = []
    for line in lines:
        if line.digest not in found.missing:
            continue
        found.is_ours = True
        completion = _answer(line, like, batch.refused_parameters, provider, found)
        if completion is not None:
            found.missing.discard(line.digest)
            waiting.append(asyncio.ensure_future(_keep(bytes.fromhex(line.digest), completion, like, cache, budget)))
        if len(waiting) >= PUT_TOGETHER:
            await asyncio.gather(*waiting)
            waiting.clear()
    await asyncio.gather(*waiting)
    found.again &= found.missing
    found.missing -= found.again
    return found


def _like(batch: Batch, provider: HttpProvider) -> Request:
    """A request with everything that replies are read by; its prompt is not among that."""
    schema: Mapping[str, Any] | None = {} if batch.role == "judge" else None
    return Request(
        model=provider.model, prompt=Prompt(()), max_tokens=0, schema=schema, stop=("",) * batch.has_stop_sequences
    )


def _answer(
    line: RequestResult, like: Request, left_out: Mapping[str, str], provider: HttpProvider, found: BatchResult
) -> Completion | None:
    """The completion in a line; None if it holds none, and the reason is noted."""
    try:
        completion = completion_in(line, provider, like, left_out)
    except ProviderError as error:
        if error.code in REFUSED_PARTS:
            found.again.add(line.digest)
        else:
            found.why[line.digest] = error.code
        return None
    if completion.failure is None or worth_keeping(completion):
        return completion
    found.why[line.digest] = completion.failure.code
    return None


async def _keep(digest: bytes, completion: Completion, like: Request, cache: Cache, budget: Budget) -> None:
    """Commit one answer and charge it, unless it was there already."""
    if cache.get(digest) is not None:
        return
    await cache.put(digest, completion, model=like.model.name)
    if like.model.price is not None:
        budget.charge(BATCH_FACTOR * cost_of(charged(like, completion), like.model.price))
