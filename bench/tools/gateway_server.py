"""A gateway on 127.0.0.1 for measurements: its model answers within its process, or is a server.

    python -m bench.tools.gateway_server FOLDER [URL | none]

Prints its port. The cache, the locks between processes and the server are real, and with a URL the audit log of what
is sent there; there is no token and no budget. `none`: no gateway, only a server of the same HTTP library that returns
a completion of the same length.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from medhelm.__main__ import GARBAGE_AFTER
from medhelm.domain import Completion, Model, Price, Request, Usage
from medhelm.extensions.cluster.gateway_server import Access, Gateway, chat_response, serve
from medhelm.io.files import NumberLocks
from medhelm.io.http.client import HttpClient
from medhelm.io.http.egress import EgressPolicy
from medhelm.io.http.listening import listen_on
from medhelm.models.budget import Budget
from medhelm.models.cache import Cache
from medhelm.models.cache_reader import CacheReader
from medhelm.models.client import Client, ClientResult, SendingLimits
from medhelm.models.provider import Provider
from medhelm.models.providers import open_provider
from medhelm.storage.audit import AuditLog

IN_FLIGHT = 128


def model_at(url: str) -> Model:
    """Return the model that is asked; without a server the address is never used."""
    base_url, price = f"{url or 'http://127.0.0.1:9'}/v1", Price(input=1, output=2)
    return Model(name="openai/m", provider="openai", remote_name="m", base_url=base_url, price=price)


class Instant(Provider):
    """A model that answers at once."""

    endpoint = "http://127.0.0.1:9"

    async def complete(self, request: Request) -> Completion:
        """Answer."""
        del request
        await asyncio.sleep(0)
        return Completion(text="yes", usage=Usage(input=100, output=3))


@dataclass(frozen=True)
class Means:
    """What a process needs to call the model."""

    client: Client
    provider: Provider


@asynccontextmanager
async def opened(folder: Path, url: str) -> AsyncIterator[Means]:
    """Open cache, locks, audit log and model; the same with and without a gateway."""
    with (
        closing(Cache(folder / "cache.sqlite")) as cache,
        closing(NumberLocks(folder / "numbers")) as numbers,
        closing(AuditLog(folder / "sent.jsonl")) as audit,
    ):
        http = HttpClient(EgressPolicy(offline=True), audit=audit)
        provider = open_provider(model_at(url), http, environment={}) if url else Instant()
        client = Client(
            cache=cache, budget=Budget(), numbers=numbers, limits=SendingLimits(start=IN_FLIGHT, maximum=IN_FLIGHT)
        )
        try:
            yield Means(client, provider)
        finally:
            await http.close()


async def main(folder: Path, url: str) -> None:
    """Serve until killed."""
    model = model_at(url)

    def known() -> bytes:
        with CacheReader(folder / "cache.sqlite") as reader:
            return reader.beginnings(8)

    async with opened(folder, url) as means:
        gateway = Gateway(
            means.client,
            [model],
            {model.name: means.provider},
            access=Access(tokens=None, without_consent={}, public=()),
            known=known,
            note=print,
        )
        listening = listen_on("127.0.0.1", 0)
        print(listening.getsockname()[1], flush=True)
        await serve(gateway, listening, None, asyncio.Event())


async def serve_nothing() -> None:
    """Serve one completion until killed, with what any server of the HTTP library needs and nothing else."""
    completion = Completion(text="yes", usage=Usage(input=100, output=3), received=1.0)
    _, content = chat_response(model_at(""), ClientResult(completion, True, 0, 0.0, bytes(32)))
    body = json.dumps(content).encode()

    async def answer(request: web.BaseRequest) -> web.Response:
        await request.read()
        return web.Response(body=body, content_type="application/json")

    runner = web.ServerRunner(web.Server(answer, access_log=None))
    await runner.setup()
    listening = listen_on("127.0.0.1", 0)
    print(listening.getsockname()[1], flush=True)
    await web.SockSite(runner, listening).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    gc.set_threshold(GARBAGE_AFTER)
    url = "".join(sys.argv[2:])
    asyncio.run(serve_nothing() if url == "none" else main(Path(sys.argv[1]), url))
