"""Servers of a pool without sockets, for tests in virtual time (`tests.support.virtual_time`)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from medhelm.domain import POOL, Completion, Message, Model, Prompt, Request, Usage
from medhelm.errors import ProviderError
from medhelm.extensions.cluster.server_pool import ReplicaPool
from medhelm.io.http.egress import EgressPolicy, HostList
from medhelm.models.budget import Budget
from medhelm.models.client import Client, ClientResult, SendingLimits, Timing
from medhelm.models.providers.hosted import HttpProvider

SECONDS = 1.0
"""Time that a server takes for a completion."""


class SimulatedServer(HttpProvider):
    """Completes `capacity` requests a second at most; a test decides when it dies, hangs or fails."""

    def __init__(self, model: Model, address: str, capacity: int) -> None:
        """`capacity`: requests that it works on at the same time."""
        self.model = replace(model, base_url=address, replicas=(), endpoints_file="")
        self.endpoint = address
        self.listed: list[str] = []
        """Models that it lists."""
        self.failure: ProviderError | None = None
        """Error of every request."""
        self.good: Counter[int] = Counter()
        """Sample -> completions that were delivered."""
        self.received: list[Request] = []
        self.in_flight = 0
        self._dead = asyncio.Event()
        self._hanging = asyncio.Event()
        self._room = asyncio.Semaphore(capacity)

    def die(self) -> None:
        """Break all connections, and refuse new ones."""
        self._dead.set()

    def hang(self) -> None:
        """Accept requests, and never reply."""
        self._hanging.set()

    def restart(self) -> None:
        """Accept requests again."""
        self._dead, self._hanging = asyncio.Event(), asyncio.Event()

    async def list_models(self, url: str = "", *, timeout_s: float = 1.0) -> tuple[int, list[str]]:
        if self._dead.is_set():
            raise ProviderError("connection", "refused", retryable=True)
        if self._hanging.is_set():
            await asyncio.sleep(timeout_s)
            raise ProviderError("timeout", "no response", retryable=True)
        return (200, self.listed) if self.listed else (404, [])

    async def complete(self, request: Request) -> Completion:
        if self._dead.is_set():
            raise ProviderError("connection", "refused", retryable=True)
        self.received.append(request)
        self.in_flight += 1
        dies = asyncio.ensure_future(self._dead.wait())
        try:
            async with self._room:
                await asyncio.wait((dies,), timeout=SECONDS)
                if self._hanging.is_set():
                    await asyncio.wait((dies,))
        finally:
            self.in_flight -= 1
            dies.cancel()
        if self._dead.is_set():
            raise ProviderError("connection", "reset", retryable=True, reply_lost=True)
        if self.failure:
            raise self.failure
        self.good[request.sample] += 1
        return Completion(text=self.endpoint, usage=Usage(input=1, output=1))


class SimulatedPool:
    """A pool of simulated servers and a client, to be made in a virtual event loop."""

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        file: Path | None = None,
        capacity: int = 8,
        joining: Sequence[str] = (),
        max_silence_s: float = 300.0,
        connections: int = 0,
    ) -> None:
        """`joining`: values of --allow-host. `connections`: most in flight at all servers."""
        self.model = Model(
            name="openai/m@pool",
            provider="openai",
            remote_name="m",
            base_url=POOL,
            replicas=tuple(addresses),
            endpoints_file=str(file or ""),
        )
        self.servers: dict[str, SimulatedServer] = {}
        self.notes: list[str] = []
        self.capacity = capacity
        policy = EgressPolicy(offline=False, allowed=["known"], joining=HostList.of(joining))
        self.pool = ReplicaPool(self.model, policy, self.server)
        loop = asyncio.get_running_loop()
        self.client = Client(
            cache=None,
            budget=Budget(),
            limits=SendingLimits(
                start=capacity, maximum=capacity, connections=connections, max_silence_s=max_silence_s
            ),
            note=self.notes.append,
            timing=Timing(clock=loop.time),
        )

    def server(self, address: str) -> SimulatedServer:
        """Return the server at an address, the same each time."""
        return self.servers.setdefault(address, SimulatedServer(self.model, address, self.capacity))

    def request(self, number: int, text: str = "") -> Request:
        """Return one of many requests."""
        prompt = Prompt((Message("user", text or f"Is patient {number} called Ada?"),))
        return Request(model=self.model, prompt=prompt, max_tokens=1, sample=number)

    async def ask(self, number: int, text: str = "") -> ClientResult:
        """Request one completion."""
        return await self.client.complete(self.pool, self.request(number, text))

    async def ask_all(self, numbers: Sequence[int], lanes: int) -> list[ClientResult]:
        """Request many, `lanes` at a time."""
        waiting, results = iter(numbers), list[ClientResult]()

        async def lane() -> None:
            for number in waiting:
                results.append(await self.ask(number))

        await asyncio.gather(*[lane() for _ in range(lanes)])
        return results

    def good(self) -> Counter[int]:
        """Return sample -> completions that all servers delivered."""
        return sum((server.good for server in self.servers.values()), Counter[int]())
