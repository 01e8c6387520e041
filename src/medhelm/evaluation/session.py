"""What every command that asks models needs: a cache, a budget, a gate to the network, and a client over them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from urllib.parse import urlsplit

from medhelm.domain import Model
from medhelm.evaluation.settings import FIRST_IN_FLIGHT, MAXIMUM_IN_FLIGHT, Settings
from medhelm.io.http_client import EgressPolicy, HttpClient
from medhelm.models.budget import Budget
from medhelm.models.cache import Cache
from medhelm.models.client import Client
from medhelm.models.local.runtime import LocalRuntime
from medhelm.storage.store import Store

GRACE_S = 10.0
"""How long requests in flight may still finish after the first Ctrl-C."""

LOCK_POLL_S = 0.2
"""How often to look whether another process has finished."""


@dataclass(frozen=True, slots=True)
class Session:
    """The means of asking, open together."""

    client: Client
    """Asks any provider."""
    http: HttpClient
    """What providers send with; it knows which hosts are allowed."""
    budget: Budget
    """What was spent, and when to stop."""
    machine: LocalRuntime
    """What is started for models on this machine."""
    cache: Cache
    """Every completion that was bought."""


@asynccontextmanager
async def open_session(
    store: Store, settings: Settings, models: Iterable[Model], note: Callable[[str], object] | None = None
) -> AsyncIterator[Session]:
    """Open everything that is needed to ask `models`, whose hosts alone are allowed; close it in the end.

    `note` is told what a person should know of models that are started on this machine.
    """
    hosts = {urlsplit(model.base_url).hostname or "" for model in models if model.base_url}
    budget = Budget(settings.max_cost_usd)
    with closing(Cache(store.cache_file)) as cache:
        http = HttpClient(EgressPolicy(offline=settings.offline, allowed=hosts), timeout_s=settings.timeout_s)
        client = Client(
            cache=cache,
            budget=budget,
            attempts=settings.attempts,
            start=settings.concurrency or FIRST_IN_FLIGHT,
            maximum=settings.concurrency or MAXIMUM_IN_FLIGHT,
        )
        machine = LocalRuntime(note)
        try:
            yield Session(client, http, budget, machine, cache)
        finally:
            try:
                await machine.close()
            finally:
                await http.close()
