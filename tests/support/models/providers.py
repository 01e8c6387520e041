"""Providers in tests: one request, what is sent for it, and a provider that reaches this machine only."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from medhelm.domain import Completion, Message, Model, Prompt, Request
from medhelm.io.http.client import HttpClient
from medhelm.io.http.egress import EgressPolicy
from medhelm.models.provider import Provider
from medhelm.models.providers import open_provider

T = TypeVar("T")


def asked(model: Model, text: str = "Is it?", **settings: Any) -> Request:
    """A request to a model."""
    known = {"model": model, "prompt": Prompt((Message("user", text),)), "max_tokens": 5}
    return Request(**{**known, **settings})


def payload(dialect: Callable[[Model], Any], request: Request) -> dict[str, Any]:
    """What is sent for a request while nothing was refused."""
    opened = dialect(request.model)
    return dict(opened.payload(request, opened.optional_parameters(request)))


def with_provider(model: Model, act: Callable[[Any], Awaitable[T]], environment: Mapping[str, str] | None = None) -> T:
    """Open the model's provider, act, close."""

    async def main() -> T:
        http = HttpClient(EgressPolicy(offline=True))
        try:
            return await act(open_provider(model, http, environment=environment or {}))
        finally:
            await http.close()

    return asyncio.run(main())


def complete(request: Request, environment: Mapping[str, str] | None = None) -> Completion:
    """The completion of one request, without retries."""

    async def once(provider: Provider) -> Completion:
        return await provider.complete(request)

    return with_provider(request.model, once, environment)
