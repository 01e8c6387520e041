"""Waiting for batches, in virtual time: how often services are polled, and what ends the wait."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Any, cast

import pytest

from medhelm.domain import Message, Model, Prompt, Request
from medhelm.domain.completion import Batch, BatchState
from medhelm.errors import ProviderError
from medhelm.evaluation.batches import (
    ENCODED_AT_ONCE,
    FIRST_POLL_S,
    FIRST_RETRY_S,
    MAX_POLL_S,
    MAX_RETRY_S,
    NOTE_INTERVAL_S,
    BatchJob,
    BatchTarget,
    RetryPolicy,
    WaitCancelled,
)
from medhelm.evaluation.session import Session
from medhelm.io.http.client import HttpClient
from medhelm.io.http.egress import EgressPolicy
from medhelm.models.batch.api import BatchService, BatchStatus, RemoteState, RequestFile
from medhelm.models.batch.openai import OpenAIBatches
from medhelm.models.budget import Budget
from medhelm.models.client import Client
from medhelm.models.provider import SharedResources
from medhelm.models.providers.hosted import HttpProvider
from medhelm.models.providers.openai import SERVICE, ChatCompletions
from medhelm.storage.store import Store
from medhelm.storage.unfinished import Batches
from tests.support import virtual_time

run_test = virtual_time.run
MODEL = Model(name="openai/m", provider="openai", remote_name="m", base_url="http://127.0.0.1:9/v1")
DAY_S = 24 * 3600.0
BATCH = Batch(
    id="medhelm-1",
    provider="openai",
    base_url=MODEL.base_url,
    model=MODEL.name,
    remote_name="m",
    model_digest=MODEL.digest,
    role="model",
    state=BatchState.SUBMITTED,
    created=0.0,
    n=100,
    remote_id="batch_1",
)


@dataclass
class Slow:
    """A service whose batches take `ready_s`."""

    ready_s: float
    trouble: Callable[[int], ProviderError | None] = lambda n: None
    max_requests: int = 10
    max_bytes: int = 1000
    carries_name: bool = True
    looked_at: list[float] = field(default_factory=list)

    async def status(self, remote_id: str) -> BatchStatus:
        now = asyncio.get_running_loop().time()
        self.looked_at.append(now)
        if error := self.trouble(len(self.looked_at)):
            raise error
        if now >= self.ready_s:
            return BatchStatus(state=RemoteState.ENDED, service_state="completed")
        return BatchStatus(state=RemoteState.RUNNING, service_state="in_progress", n_done=int(now // 1000))


def job_with(service: Slow, store: Path, notes: list[str]) -> BatchJob:
    http = HttpClient(EgressPolicy(offline=True))
    budget = Budget()
    session = Session(Client(cache=None, budget=budget), http, budget, SharedResources(notes.append), None)  # type: ignore[arg-type]
    target = BatchTarget(HttpProvider(MODEL, http, ChatCompletions(MODEL), SERVICE), "model", lambda: iter(()))
    return BatchJob(target, cast(BatchService, service), Batches(Store(store)), session, RetryPolicy(notes.append))


async def test_a_long_batch_is_polled_less_and_less_often(tmp_path: Path) -> None:
    service, notes = Slow(ready_s=DAY_S), list[str]()
    status = await job_with(service, tmp_path, notes)._wait(BATCH)
    assert status.state == "ended"
    waits = [b - a for a, b in zip(service.looked_at, service.looked_at[1:], strict=False)]
    assert waits[0] == pytest.approx(FIRST_POLL_S)
    assert max(waits) == pytest.approx(MAX_POLL_S)
    assert all(b >= a - 1e-6 for a, b in itertools.pairwise(waits))
    assert DAY_S <= service.looked_at[-1] <= DAY_S + MAX_POLL_S
    assert len(service.looked_at) < 300
    assert len(notes) <= DAY_S / NOTE_INTERVAL_S + 1
    assert notes[0] == "openai/m: batch batch_1 is in_progress"
    assert "86 of 100 done" in notes[-1]


@pytest.mark.parametrize("ready_s", [1.0, 60.0, 400.0])
async def test_a_quick_batch_is_collected_within_half_again_of_its_time(tmp_path: Path, ready_s: float) -> None:
    service = Slow(ready_s=ready_s)
    await job_with(service, tmp_path, [])._wait(BATCH)
    assert service.looked_at[-1] <= ready_s * 1.5 + FIRST_POLL_S


async def test_connection_errors_are_retried_and_noted_once(tmp_path: Path) -> None:
    """The network is down for hours; the batch is not given up."""
    down = ProviderError("connection", "cannot connect", retryable=True)
    service, notes = Slow(ready_s=0.0, trouble=lambda n: down if n < 50 else None), list[str]()
    assert (await job_with(service, tmp_path, notes)._wait(BATCH)).state == "ended"
    assert len(service.looked_at) == 50
    waits = [b - a for a, b in zip(service.looked_at, service.looked_at[1:], strict=False)]
    assert waits[:3] == pytest.approx([FIRST_RETRY_S, 2 * FIRST_RETRY_S, 4 * FIRST_RETRY_S])
    assert max(waits) == pytest.approx(MAX_RETRY_S)
    assert notes == ["cannot connect; retrying"]


async def test_a_retry_waits_as_long_as_the_service_asks(tmp_path: Path) -> None:
    limited = ProviderError("rate_limit", "slower", retryable=True, retry_after_s=1234.0)
    service = Slow(ready_s=0.0, trouble=lambda n: limited if n == 1 else None)
    await job_with(service, tmp_path, [])._wait(BATCH)
    assert service.looked_at == pytest.approx([0.0, 1234.0])


@pytest.mark.parametrize(
    "error",
    [
        ProviderError("key", "wrong key", fatal=True),
        ProviderError("bad_request", "no"),
        ProviderError("unknown_batch", "?"),
    ],
)
async def test_a_permanent_error_ends_the_wait(tmp_path: Path, error: ProviderError) -> None:
    service = Slow(ready_s=0.0, trouble=lambda n: error)
    with pytest.raises(ProviderError) as caught:
        await job_with(service, tmp_path, [])._wait(BATCH)
    assert caught.value.code == error.code
    assert len(service.looked_at) == 1


async def test_the_user_can_cancel_the_wait(tmp_path: Path) -> None:
    service = Slow(ready_s=DAY_S)
    job = job_with(service, tmp_path, [])

    asyncio.get_running_loop().call_later(100.0, job.retries.cancelled.set)
    with pytest.raises(WaitCancelled):
        await job._wait(BATCH)
    assert service.looked_at[-1] < 100.0


async def test_the_user_can_cancel_while_requests_are_encoded(tmp_path: Path) -> None:
    """A suite can have hundreds of thousands of requests, and making them ready takes minutes."""
    made: list[int] = []

    def requests() -> Iterator[Request]:
        for n in range(100_000):
            made.append(n)
            yield Request(model=MODEL, prompt=Prompt((Message("user", str(n)),)), max_tokens=1)

    job = job_with(Slow(ready_s=0.0), tmp_path, [])
    service = OpenAIBatches(job.target.provider, HttpClient(EgressPolicy(offline=True)))

    asyncio.get_running_loop().call_soon(job.retries.cancelled.set)
    with pytest.raises(WaitCancelled):
        await job._fill(RequestFile(service, BytesIO(), 100_000), None, requests())
    assert len(made) <= 2 * ENCODED_AT_ONCE


async def test_retries_end_after_the_given_number_of_attempts() -> None:
    async def fail() -> None:
        raise ProviderError("connection", "cannot connect", retryable=True)

    notes: list[str] = []
    with pytest.raises(ProviderError):
        await RetryPolicy(notes.append).retry(fail, attempts=3)
    assert len(notes) == 1
    assert RetryPolicy(notes.append).delay_s(1, ProviderError("x", "")) == FIRST_RETRY_S
    assert RetryPolicy(notes.append).delay_s(40, ProviderError("x", "")) == MAX_RETRY_S
    assert RetryPolicy(notes.append).delay_s(1, ProviderError("x", "", retry_after_s=77.0)) == 77.0


def test_the_same_model_under_two_names_is_one_customer() -> None:
    assert replace(MODEL, name="ours").digest == MODEL.digest
    others: list[dict[str, Any]] = [
        {"remote_name": "n"},
        {"base_url": "http://127.0.0.1:10/v1"},
        {"reasoning": True},
        {"parameters": {"k": 1}},
    ]
    assert len({MODEL.digest, *(replace(MODEL, **other).digest for other in others)}) == 5
