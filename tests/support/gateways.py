"""A gateway in the event loop of a test, and its workers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from medhelm.domain import Completion, Message, Model, Price, Prompt, Request, Usage
from medhelm.extensions.cluster.gateway import GatewayClient, NamedToken, RemoteGateway, Tokens
from medhelm.extensions.cluster.gateway_server import Access, Gateway, serve
from medhelm.io.http.egress import EgressPolicy
from medhelm.io.http.listening import listen_on_file
from medhelm.models.budget import Budget
from medhelm.models.cache import Cache
from medhelm.models.cache_reader import CacheReader
from medhelm.models.client import Client, ClientResult, Timing
from medhelm.models.gateway import GATEWAY_VARIABLE
from medhelm.models.provider import Provider
from medhelm.storage.audit import AuditLog

OUTSIDE = Model(
    name="openai/m",
    provider="openai",
    remote_name="m",
    base_url="https://api.openai.com/v1",
    price=Price(input=1.0, output=2.0),
)
INSIDE = Model(name="openai/near", provider="openai", remote_name="near", base_url="http://127.0.0.1:9/v1")
TOKEN = "t" * 32
FINE = Completion(text="yes", usage=Usage(input=100, output=3), finish_reason="stop", latency_s=0.25)


def request(number: int = 0, model: Model = OUTSIDE) -> Request:
    prompt = Prompt((Message("system", "Be brief."), Message("user", f"Is patient {number} called Ada?")))
    return Request(model=model, prompt=prompt, max_tokens=8, stop=("\n",), benchmark="toy")


class Scripted(Provider):
    """A model that does what `answer` says."""

    endpoint = "http://127.0.0.1:9"

    def __init__(self, answer: Callable[[Request], Awaitable[Completion]]) -> None:
        self.answer = answer
        self.asked: list[Request] = []

    async def complete(self, request: Request) -> Completion:
        self.asked.append(request)
        return await self.answer(request)


async def fine(request: Request) -> Completion:
    return FINE


@dataclass
class World:
    """One gateway after the other on one socket file, with one cache."""

    folder: Path
    provider: Scripted
    cache: Cache
    budget: Budget = field(default_factory=Budget)
    tokens: bool = False
    notes: list[str] = field(default_factory=list)
    without_consent: Mapping[str, list[str]] = field(default_factory=dict)
    gateway: Gateway | None = None
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        return {GATEWAY_VARIABLE: f"unix:{self.folder}/g.sock", "MEDHELM_GATEWAY_TOKEN": TOKEN if self.tokens else ""}

    def known(self) -> bytes:
        with CacheReader(self.cache.path) as reader:
            return reader.beginnings(8)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Gateway]:
        """Run a gateway until the block ends, gently."""
        self.gateway = Gateway(
            Client(
                cache=self.cache, budget=self.budget, timing=Timing(sleep=lambda _: asyncio.sleep(0)), **self.options
            ),
            [OUTSIDE, INSIDE],
            {OUTSIDE.name: self.provider, INSIDE.name: self.provider},
            access=Access(
                tokens=Tokens([NamedToken("ward", TOKEN)]) if self.tokens else None,
                without_consent=self.without_consent,
                public=("toy",),
            ),
            known=self.known,
            note=self.notes.append,
        )
        listening, ended = listen_on_file(self.folder / "g.sock"), asyncio.Event()
        serving = asyncio.ensure_future(serve(self.gateway, listening, None, ended))
        try:
            yield self.gateway
        finally:
            ended.set()
            await serving
            listening.close()

    @asynccontextmanager
    async def worker(
        self, *, max_silence_s: float = 30.0, public: tuple[str, ...] = ("toy",)
    ) -> AsyncIterator[Callable[[Request], Awaitable[ClientResult]]]:
        """Yield a function that asks as a worker does."""
        async with self.client(max_silence_s=max_silence_s) as client:
            providers = RemoteGateway(self.environment).open_providers([OUTSIDE, INSIDE], client, public)
            yield lambda one: client.complete(providers[one.model.name], one)

    @asynccontextmanager
    async def client(
        self, *, max_silence_s: float = 30.0, budget: Budget | None = None
    ) -> AsyncIterator[GatewayClient]:
        async with AsyncExitStack() as stack:
            audit = AuditLog(self.folder / f"audit-{id(stack)}.jsonl")
            stack.callback(audit.close)
            yield await stack.enter_async_context(
                RemoteGateway(self.environment).open_client(
                    EgressPolicy(True), Budget(), audit, max_silence_s, self.notes.append
                )
            )


@asynccontextmanager
async def world(
    folder: Path, answer: Callable[[Request], Awaitable[Completion]] = fine, **fields: object
) -> AsyncIterator[World]:
    """Make a cache and a scripted model; the gateway starts with `running`."""
    with Cache(folder / "cache.sqlite") as cache:
        yield World(folder, Scripted(answer), cache, **fields)  # type: ignore[arg-type]
