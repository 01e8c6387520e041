"""Waiting for batches, in virtual time: how often services are asked, and what ends the waiting."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import pytest

from medhelm.domain import Batch, Message, Model, Prompt, Request
from medhelm.errors import ProviderError
from medhelm.evaluation.batch.job import (
    FIRST_POLL_S,
    LONGEST_POLL_S,
    PREPARED_AT_ONCE,
    TOLD_EVERY_S,
    BatchJob,
    BatchTarget,
)
from medhelm.evaluation.batch.polling import FIRST_RETRY_S, LONGEST_RETRY_S, RetryPolicy, WaitCancelled
from medhelm.evaluation.session import Session
from medhelm.io.http_client import EgressPolicy, HttpClient
from medhelm.models.batch import LOST, BatchFraming, BatchStatus, RequestFile, RequestResult
from medhelm.models.batch.openai import OpenAIBatches
from medhelm.models.budget import Budget
from medhelm.models.client import Client
from medhelm.models.local.runtime import LocalRuntime
from medhelm.models.providers.hosted import HttpProvider
from medhelm.models.providers.openai import ChatCompletions
from medhelm.storage.batches import Batches
from medhelm.storage.store import Store
from tests.support import virtual_time

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
    state="submitted",
    created=0.0,
    n=100,
    remote_id="batch_1",
)


@dataclass
class Slow:
    """A service that takes its time."""

    ready_s: float
    trouble: Callable[[int], ProviderError | None] = lambda n: None
    most_requests: int = 10
    most_bytes: int = 1000
    verifiable: bool = True
    looked_at: list[float] = field(default_factory=list)

    def line(self, name: str, digest: str, body: Mapping[str, Any]) -> bytes:
        raise AssertionError

    def frame(self, name: str) -> BatchFraming:
        raise AssertionError

    async def submit(self, name: str, file: IO[bytes]) -> str:
        raise AssertionError

    async def find(self, name: str, *, since: float, n: int, known: frozenset[str]) -> str:
        raise AssertionError

    async def save(self, place: str, file: IO[bytes]) -> None:
        raise AssertionError

    def read(self, name: str, line: Mapping[str, Any]) -> RequestResult | None:
        raise AssertionError

    async def discard(self, name: str, remote_id: str) -> None:
        raise AssertionError

    async def look(self, remote_id: str) -> BatchStatus:
        now = asyncio.get_running_loop().time()
        self.looked_at.append(now)
        if error := self.trouble(len(self.looked_at)):
            raise error
        if now >= self.ready_s:
            return BatchStatus(state="ended", word="completed")
        return BatchStatus(state="running", word="in_progress", done=int(now // 1000))


def dealings(service: Slow, store: Path, notes: list[str]) -> BatchJob:
    http = HttpClient(EgressPolicy(offline=True))
    budget = Budget()
    session = Session(Client(cache=None, budget=budget), http, budget, LocalRuntime(notes.append), None)  # type: ignore[arg-type]
    desk = BatchTarget(HttpProvider(MODEL, http, ChatCompletions(MODEL)), "model", lambda: iter(()))
    return BatchJob(desk, service, Batches(Store(store)), session, RetryPolicy(notes.append))


def test_a_batch_of_a_day_is_looked_at_ever_more_seldom(tmp_path: Path) -> None:
    service, notes = Slow(ready_s=DAY_S), list[str]()
    standing = virtual_time.run(dealings(service, tmp_path, notes)._ended(BATCH))
    assert standing.state == "ended"
    waits = [b - a for a, b in zip(service.looked_at, service.looked_at[1:], strict=False)]
    assert waits[0] == pytest.approx(FIRST_POLL_S)
    assert max(waits) == pytest.approx(LONGEST_POLL_S)
    assert all(b >= a - 1e-6 for a, b in itertools.pairwise(waits))
    assert DAY_S <= service.looked_at[-1] <= DAY_S + LONGEST_POLL_S
    assert len(service.looked_at) < 300
    assert len(notes) <= DAY_S / TOLD_EVERY_S + 1
    assert notes[0] == "openai/m: batch batch_1 is in_progress"
    assert "86 of 100 done" in notes[-1]


def test_a_quick_batch_is_there_within_a_third_more_than_it_took(tmp_path: Path) -> None:
    for ready_s in (1.0, 60.0, 400.0):
        service = Slow(ready_s=ready_s)
        virtual_time.run(dealings(service, tmp_path, [])._ended(BATCH))
        assert service.looked_at[-1] <= max(FIRST_POLL_S, ready_s * 1.5 + FIRST_POLL_S)


def test_trouble_on_the_way_is_waited_out_and_told_once(tmp_path: Path) -> None:
    """The network is away for hours; the batch is not given up."""
    down = ProviderError("connection", "cannot connect", retryable=True)
    service, notes = Slow(ready_s=0.0, trouble=lambda n: down if n < 50 else None), list[str]()
    assert virtual_time.run(dealings(service, tmp_path, notes)._ended(BATCH)).state == "ended"
    assert len(service.looked_at) == 50
    waits = [b - a for a, b in zip(service.looked_at, service.looked_at[1:], strict=False)]
    assert waits[:3] == pytest.approx([FIRST_RETRY_S, 2 * FIRST_RETRY_S, 4 * FIRST_RETRY_S])
    assert max(waits) == pytest.approx(LONGEST_RETRY_S)
    assert notes == ["cannot connect; trying again"]


def test_a_service_that_asks_for_time_gets_it(tmp_path: Path) -> None:
    limited = ProviderError("rate_limit", "slower", retryable=True, retry_after_s=1234.0)
    service = Slow(ready_s=0.0, trouble=lambda n: limited if n == 1 else None)
    virtual_time.run(dealings(service, tmp_path, [])._ended(BATCH))
    assert service.looked_at == pytest.approx([0.0, 1234.0])


@pytest.mark.parametrize(
    "error",
    [ProviderError("key", "wrong key", fatal=True), ProviderError("bad_request", "no"), ProviderError(LOST, "?")],
)
def test_what_time_does_not_mend_ends_the_waiting(tmp_path: Path, error: ProviderError) -> None:
    service = Slow(ready_s=0.0, trouble=lambda n: error)
    with pytest.raises(ProviderError) as caught:
        virtual_time.run(dealings(service, tmp_path, [])._ended(BATCH))
    assert caught.value.code == error.code
    assert len(service.looked_at) == 1


def test_a_user_who_does_not_want_to_wait_need_not(tmp_path: Path) -> None:
    service = Slow(ready_s=DAY_S)
    dealing = dealings(service, tmp_path, [])

    async def main() -> None:
        asyncio.get_running_loop().call_later(100.0, dealing.patience.stopping.set)
        await dealing._ended(BATCH)

    with pytest.raises(WaitCancelled):
        virtual_time.run(main())
    assert service.looked_at[-1] < 100.0


def test_a_user_need_not_wait_until_everything_is_made_ready(tmp_path: Path) -> None:
    """A suite can have hundreds of thousands of requests, and making them ready takes minutes."""
    made: list[int] = []

    def requests() -> Iterator[Request]:
        for n in range(100_000):
            made.append(n)
            yield Request(model=MODEL, prompt=Prompt((Message("user", str(n)),)), max_tokens=1)

    dealing = dealings(Slow(ready_s=0.0), tmp_path, [])
    service = OpenAIBatches(dealing.desk.provider, HttpClient(EgressPolicy(offline=True)))

    async def main() -> None:
        asyncio.get_running_loop().call_soon(dealing.patience.stopping.set)
        await dealing._fill(RequestFile(service, BytesIO(), 100_000), None, requests())

    with pytest.raises(WaitCancelled):
        virtual_time.run(main())
    assert len(made) <= 2 * PREPARED_AT_ONCE


def test_patience_gives_up_after_so_many_times_only_if_it_is_told_to() -> None:
    async def fail() -> None:
        raise ProviderError("connection", "cannot connect", retryable=True)

    notes: list[str] = []
    with pytest.raises(ProviderError):
        virtual_time.run(RetryPolicy(notes.append).insist(fail, times=3))
    assert len(notes) == 1
    assert RetryPolicy(notes.append).wait_s(1, ProviderError("x", "")) == FIRST_RETRY_S
    assert RetryPolicy(notes.append).wait_s(40, ProviderError("x", "")) == LONGEST_RETRY_S
    assert RetryPolicy(notes.append).wait_s(1, ProviderError("x", "", retry_after_s=77.0)) == 77.0


def test_the_same_model_under_two_names_is_one_customer() -> None:
    assert replace(MODEL, name="ours").digest == MODEL.digest
    others: list[dict[str, Any]] = [
        {"remote_name": "n"},
        {"base_url": "http://127.0.0.1:10/v1"},
        {"reasoning": True},
        {"parameters": {"k": 1}},
    ]
    assert len({MODEL.digest, *(replace(MODEL, **other).digest for other in others)}) == 5
