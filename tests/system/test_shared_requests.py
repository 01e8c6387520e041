"""Requests in flight in several processes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from medhelm.domain import Completion, Message, Model, Price, Prompt, Request, Usage
from medhelm.errors import Interrupted
from medhelm.io.files import NumberLocks, number_of
from medhelm.models.budget import Budget
from medhelm.models.cache import Cache
from medhelm.models.client import Client, ClientResult, Timing
from medhelm.models.provider import Provider

MODEL = Model(name="test/m", provider="test", remote_name="m", price=Price(input=1.0, output=1.0))
ASKED = Request(model=MODEL, prompt=Prompt((Message("user", "Is it?"),)), max_tokens=10)

HOLDER = """
import sys, time
from pathlib import Path
from medhelm.io.files import NumberLocks
numbers = NumberLocks(Path(sys.argv[1]))
assert numbers.take(int(sys.argv[2]))
print("held", flush=True)
time.sleep(60)
"""


class Slow(Provider):
    """A model that waits for a sign."""

    endpoint = "test"

    def __init__(self) -> None:
        self.asked = 0
        self.go_on = asyncio.Event()

    async def complete(self, request: Request) -> Completion:
        self.asked += 1
        await self.go_on.wait()
        return Completion(text="yes", usage=Usage(input=1, output=1))


def test_a_request_that_another_session_has_in_flight_is_sent_once(tmp_path: Path) -> None:
    async def main() -> tuple[list[ClientResult], int]:
        provider, naps = Slow(), 0

        async def sleep(seconds: float) -> None:
            nonlocal naps
            naps += 1
            if naps == 5:
                provider.go_on.set()
            await asyncio.sleep(0.001 if naps < 500 else seconds)

        with Cache(tmp_path / "c.sqlite") as one, Cache(tmp_path / "c.sqlite") as two:
            clients = [
                Client(cache=cache, budget=Budget(), numbers=NumberLocks(tmp_path / "lock"), timing=Timing(sleep=sleep))
                for cache in (one, two)
            ]
            results = await asyncio.gather(*[client.complete(provider, ASKED) for client in clients])
            return results, provider.asked

    results, asked = asyncio.run(main())
    assert asked == 1
    assert sorted((r.cached, r.cost_usd, r.completion.text) for r in results)[1] == (True, 0.0, "yes")


def test_the_request_of_a_process_that_is_killed_is_taken_over(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "lock"), str(number_of(ASKED.digest))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        naps = 0

        async def sleep(seconds: float) -> None:
            nonlocal naps
            naps += 1
            if naps == 3:
                os.kill(holder.pid, signal.SIGKILL)
                holder.wait()
            await asyncio.sleep(0)

        async def main() -> ClientResult:
            provider = Slow()
            provider.go_on.set()
            with Cache(tmp_path / "c.sqlite") as cache:
                numbers = NumberLocks(tmp_path / "lock")
                client = Client(cache=cache, budget=Budget(), numbers=numbers, timing=Timing(sleep=sleep))
                return await client.complete(provider, ASKED)

        result = asyncio.run(main())
    assert (naps, result.cached, result.requests_sent) == (3, False, 1)


def test_a_stop_ends_the_wait_for_another_process(tmp_path: Path) -> None:
    async def main() -> None:
        other, numbers = NumberLocks(tmp_path / "lock"), NumberLocks(tmp_path / "lock")
        asked = replace(ASKED, sample=1)
        assert other.take(number_of(asked.digest))
        with Cache(tmp_path / "c.sqlite") as cache:
            client = Client(
                cache=cache, budget=Budget(), numbers=numbers, timing=Timing(sleep=lambda _: asyncio.sleep(0))
            )
            waiting = asyncio.create_task(client.complete(Slow(), asked))
            await asyncio.sleep(0)
            client.stop(Interrupted("interrupted"))
            with pytest.raises(Interrupted):
                await waiting

    asyncio.run(main())
