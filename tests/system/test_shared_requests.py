"""Requests in flight in several processes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

from medhelm.domain import Completion, Message, Model, Price, Prompt, Request, Usage
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


class Agreeing(Provider):
    endpoint = "test"

    async def complete(self, request: Request) -> Completion:
        return Completion(text="yes", usage=Usage(input=1, output=1))


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
            with Cache(tmp_path / "c.sqlite") as cache:
                numbers = NumberLocks(tmp_path / "lock")
                client = Client(cache=cache, budget=Budget(), numbers=numbers, timing=Timing(sleep=sleep))
                return await client.complete(Agreeing(), ASKED)

        result = asyncio.run(main())
    assert (naps, result.cached, result.requests_sent) == (3, False, 1)
