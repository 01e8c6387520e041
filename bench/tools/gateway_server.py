"""A gateway on 127.0.0.1 whose model answers within its process, for measurements of the gateway alone.

    python -m bench.tools.gateway_server FOLDER

Prints its port. The cache, the locks between processes and the server are real; there is no token and no budget.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import closing
from pathlib import Path

from medhelm.domain import Completion, Model, Price, Request, Usage
from medhelm.io.held_numbers import HeldNumbers
from medhelm.io.http.listening import listen_on
from medhelm.models.cache import Cache
from medhelm.models.cache_reader import CacheReader
from medhelm.models.client import Client
from medhelm.models.gateway.server import Gateway, serve
from medhelm.models.limits.budget import Budget
from medhelm.models.provider import Provider

MODEL = Model(
    name="openai/m",
    provider="openai",
    remote_name="m",
    base_url="http://127.0.0.1:9/v1",
    price=Price(input=1, output=2),
)
IN_FLIGHT = 128


class Instant(Provider):
    """A model that answers at once."""

    endpoint = "http://127.0.0.1:9"

    async def complete(self, request: Request) -> Completion:
        """Answer."""
        del request
        await asyncio.sleep(0)
        return Completion(text="yes", usage=Usage(input=100, output=3))


def client_of(cache: Cache, numbers: HeldNumbers) -> Client:
    """Return the client that is measured, with and without a gateway."""
    return Client(cache=cache, budget=Budget(), numbers=numbers, start=IN_FLIGHT, maximum=IN_FLIGHT)


async def main(folder: Path) -> None:
    """Serve until killed."""
    with closing(Cache(folder / "cache.sqlite")) as cache, closing(HeldNumbers(folder / "numbers")) as numbers:

        def known() -> bytes:
            with CacheReader(folder / "cache.sqlite") as reader:
                return reader.beginnings(8)

        gateway = Gateway(
            client_of(cache, numbers),
            [MODEL],
            {MODEL.name: Instant()},
            tokens=None,
            for_private_data=[MODEL.name],
            known=known,
            note=print,
        )
        listening = listen_on("127.0.0.1", 0)
        print(listening.getsockname()[1], flush=True)
        await serve(gateway, listening, None, asyncio.Event())


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
