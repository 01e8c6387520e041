"""Waiting for batches, in virtual time, and collecting their results."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, cast

import pytest

from medhelm.domain import Completion, Model, Price
from medhelm.domain.completion import Batch
from medhelm.errors import ProviderError, StoreError
from medhelm.evaluation.batches import (
    FIRST_POLL_S,
    FIRST_RETRY_S,
    MAX_CONCURRENT_WRITES,
    MAX_POLL_S,
    MAX_RETRY_S,
    NOTE_INTERVAL_S,
    BatchJob,
    BatchResult,
    BatchTarget,
    RetryPolicy,
    WaitCancelled,
    collect,
)
from medhelm.evaluation.session import Session
from medhelm.io.http.client import HttpClient
from medhelm.io.http.egress import EgressPolicy
from medhelm.models.batch.api import BatchService, BatchStatus, RemoteState, RequestResult
from medhelm.models.budget import Budget
from medhelm.models.cache import Cache
from medhelm.models.client import Client
from medhelm.models.provider import SharedResources
from medhelm.models.providers import open_provider
from medhelm.models.providers.hosted import HttpProvider
from medhelm.models.providers.openai import SERVICE, ChatCompletions
from medhelm.storage.store import Store
from medhelm.storage.unfinished import Batches
from tests.support import virtual_time
from tests.support.servers.vendors import KEYS, OPENAI
from tests.support.stores import make_batch

run_test = virtual_time.run
MODEL = Model(name="openai/m", provider="openai", remote_name="m", base_url="http://127.0.0.1:9/v1")
DAY_S = 24 * 3600.0
BATCH = make_batch(n=100)


@dataclass
class Slow:
    """A service whose batches take `ready_s`; its first answers are errors."""

    ready_s: float
    errors: Sequence[ProviderError] = ()
    max_requests: int = 10
    max_bytes: int = 1000
    carries_name: bool = True
    looked_at: list[float] = field(default_factory=list)

    async def status(self, remote_id: str) -> BatchStatus:
        now = asyncio.get_running_loop().time()
        self.looked_at.append(now)
        if len(self.looked_at) <= len(self.errors):
            raise self.errors[len(self.looked_at) - 1]
        if now >= self.ready_s:
            return BatchStatus(state=RemoteState.ENDED, service_state="completed")
        return BatchStatus(state=RemoteState.RUNNING, service_state="in_progress", n_done=int(now // 1000))

    @property
    def waits(self) -> list[float]:
        return [later - earlier for earlier, later in itertools.pairwise(self.looked_at)]


def job_with(service: Slow, store: Path, notes: list[str]) -> BatchJob:
    http = HttpClient(EgressPolicy(offline=True))
    budget = Budget()
    session = Session(Client(cache=None, budget=budget), http, budget, SharedResources(notes.append), None)  # type: ignore[arg-type]
    target = BatchTarget(HttpProvider(MODEL, http, ChatCompletions(MODEL), SERVICE), "model", lambda: iter(()))
    return BatchJob(target, cast(BatchService, service), Batches(Store(store)), session, RetryPolicy(notes.append))


async def test_the_user_can_cancel_the_wait(tmp_path: Path) -> None:
    service = Slow(ready_s=DAY_S)
    job = job_with(service, tmp_path, [])
    asyncio.get_running_loop().call_later(100.0, job.retries.cancelled.set)
    with pytest.raises(WaitCancelled):
        await job._wait(BATCH)
    assert service.looked_at[-1] < 100.0


async def test_a_batch_is_polled_less_and_less_often(tmp_path: Path) -> None:
    service, notes = Slow(ready_s=DAY_S), list[str]()
    assert (await job_with(service, tmp_path, notes)._wait(BATCH)).state == "ended"
    assert service.waits[0] == pytest.approx(FIRST_POLL_S)
    assert max(service.waits) == pytest.approx(MAX_POLL_S)
    assert all(later >= earlier - 1e-6 for earlier, later in itertools.pairwise(service.waits))
    assert DAY_S <= service.looked_at[-1] <= DAY_S + MAX_POLL_S
    assert len(service.looked_at) < 300
    assert len(notes) <= DAY_S / NOTE_INTERVAL_S + 1
    assert notes[0] == "openai/m: batch batch_1 is in_progress"
    assert "86 of 100 done" in notes[-1]


async def test_connection_errors_are_retried_and_noted_once_and_a_permanent_error_ends_the_wait(tmp_path: Path) -> None:
    """The network is down for hours; the batch is not given up."""
    down = ProviderError("connection", "cannot connect", retryable=True)
    wrong_key = ProviderError("key", "wrong key", fatal=True)
    service, notes = Slow(ready_s=0.0, errors=[*[down] * 49, wrong_key]), list[str]()
    with pytest.raises(ProviderError, match="wrong key"):
        await job_with(service, tmp_path, notes)._wait(BATCH)
    assert len(service.looked_at) == 50
    assert service.waits[:3] == pytest.approx([FIRST_RETRY_S, 2 * FIRST_RETRY_S, 4 * FIRST_RETRY_S])
    assert max(service.waits) == pytest.approx(MAX_RETRY_S)
    assert notes == ["cannot connect; retrying"]


# --- from the results of a batch to the cache and the budget ----------------------------------------------------------

PRICE = Price(input=1.0, cached_input=0.25, output=10.0)
HALF_USD = (16 * 1.0 + 4 * 0.25 + 5 * 10.0) / 2e6
DIGESTS = tuple(f"{n:064x}" for n in range(4))
COLLECTED = make_batch(digests=DIGESTS)


def provider() -> HttpProvider:
    model = OPENAI.model("http://127.0.0.1:1", price=PRICE)
    opened = open_provider(model, HttpClient(EgressPolicy(offline=True)), environment=KEYS)
    assert isinstance(opened, HttpProvider)
    return opened


def answer(digest: str, text: str = "yes") -> RequestResult:
    return RequestResult(digest=digest, document=OPENAI.said(text))


def refused(digest: str) -> RequestResult:
    body = OPENAI.errors["temperature"].body
    assert isinstance(body, dict)
    return RequestResult(digest=digest, status=400, error=body)


def collected(
    path: Path, lines: Sequence[RequestResult], *, batch: Batch = COLLECTED, by: HttpProvider | None = None
) -> tuple[BatchResult, list[Completion | None], float]:
    """Return the outcome, the completions in the cache, and the amount charged."""
    budget = Budget()
    with Cache(path / "cache.sqlite") as cache:
        result = asyncio.run(collect(batch, iter(lines), by or provider(), cache, budget))
        return result, [cache.get(bytes.fromhex(digest)) for digest in batch.digests], budget.spent_usd


def texts(completions: Sequence[Completion | None]) -> list[str | None]:
    return [completion.text if completion else None for completion in completions]


def test_each_answer_counts_and_is_charged_once_in_whatever_order(tmp_path: Path) -> None:
    lines = [answer(DIGESTS[2], "c"), answer(DIGESTS[0], "a"), answer(DIGESTS[2], "again"), answer("f" * 64, "stray")]
    result, kept, spent_usd = collected(tmp_path, lines)
    assert texts(kept) == ["a", None, "c", None]
    assert all(completion is None or completion.batched for completion in kept)
    assert (result.missing, result.missing_by_reason) == ({DIGESTS[1], DIGESTS[3]}, {"missing": 2})
    assert result.is_ours
    assert spent_usd == pytest.approx(2 * HALF_USD)
    result, kept, spent_usd = collected(tmp_path, [answer(DIGESTS[0], "second"), answer(DIGESTS[1])])
    assert texts(kept) == ["a", "yes", "c", None]
    assert result.missing == set(DIGESTS[2:])
    assert spent_usd == pytest.approx(HALF_USD), "what was in the cache is not charged again"
    result, _, spent_usd = collected(tmp_path / "other", [answer("f" * 64)])
    assert (result.is_ours, spent_usd) == (False, 0.0)


def test_of_two_lines_about_one_request_the_answer_counts_and_reasons_are_counted(tmp_path: Path) -> None:
    first, second, third, fourth = DIGESTS
    lines = [RequestResult(digest=first, reason="expired"), answer(first, "a"), answer(second, "b")]
    lines += [RequestResult(digest=second, reason="expired"), refused(third), answer(third, "c"), refused(fourth)]
    asked = provider()
    result, kept, _ = collected(tmp_path, lines, by=asked)
    assert texts(kept) == ["a", "b", "c", None]
    assert (result.missing, result.resubmit, set(asked.unsupported)) == (set(), {fourth}, {"temperature"})
    # Without that part the same complaint is no help any more.
    again = replace(COLLECTED, refused_parameters={str(name): text for name, text in asked.unsupported.items()})
    lines = [
        RequestResult(digest=first, reason="expired"),
        RequestResult(digest=second, status=500, error={"error": {"message": "oops"}}),
        RequestResult(digest=third, document=OPENAI.said("part", finish="content_filter")),
        refused(fourth),
    ]
    result, kept, spent_usd = collected(tmp_path / "again", lines, batch=again, by=asked)
    assert (result.resubmit, result.missing_by_reason) == (set(), {"expired": 1, "server_error": 1, "parameter": 1})
    assert kept[2] and kept[2].failure and kept[2].failure.code == "refusal", "which is an answer"
    assert spent_usd == pytest.approx(HALF_USD)


@pytest.mark.parametrize("role", ["judge", "model"])
def test_many_replies_are_kept_as_they_were_received(tmp_path: Path, role: Literal["judge", "model"]) -> None:
    """Reasoning is taken out when a completion is handed out; how much depends on whether it is a judge's."""
    digests = tuple(f"{n:064x}" for n in range(2 * MAX_CONCURRENT_WRITES + 7))
    replies = [f'{{"explanation": "{digest} says </think> 5"}}' for digest in digests]
    batch = replace(COLLECTED, digests=digests, n=len(digests), role=role)
    lines = [answer(digest, reply) for digest, reply in zip(digests, replies, strict=True)]
    _, kept, spent_usd = collected(tmp_path, lines, batch=batch)
    assert texts(kept) == replies
    assert spent_usd == pytest.approx(len(digests) * HALF_USD)


def test_a_cache_that_cannot_be_written_stops_the_collecting(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache.sqlite")
    cache.close()
    budget = Budget()
    with pytest.raises(StoreError, match="closed"):
        asyncio.run(collect(COLLECTED, iter([answer(digest) for digest in DIGESTS]), provider(), cache, budget))
    assert budget.spent_usd == 0
