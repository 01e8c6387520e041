"""One small request to a model: is it there, does the key work, how long does it take?"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from urllib.parse import urlsplit

from medhelm.domain import Completion, Failure, Message, Model, Prompt, Request
from medhelm.errors import MissingError, ProviderError
from medhelm.models.catalog import missing_key
from medhelm.models.http import Gate, Http
from medhelm.models.providers import open_provider

QUESTION = "Reply with the word OK."
"""What is asked: costs next to nothing."""


PATIENCE_S = 60.0
"""Longest wait for the answer."""


def probe(model: Model, *, environment: Mapping[str, str], offline: bool = False) -> Completion:
    """Ask once, without cache and retries; trouble is a completion with a failure.

    Raises: MissingError if the key is not there, UserError if the host may not be reached.
    """
    if missing := missing_key(model, environment):
        raise MissingError(missing)
    return asyncio.run(_ask(model, environment, Gate(offline, {urlsplit(model.base_url).hostname or ""})))


async def _ask(model: Model, environment: Mapping[str, str], gate: Gate) -> Completion:
    http = Http(gate, timeout_s=PATIENCE_S)
    room = 256 if model.reasoning else 8
    request = Request(model=model, prompt=Prompt((Message("user", QUESTION),)), max_tokens=room)
    try:
        return await open_provider(model, http, environment=environment).complete(request)
    except ProviderError as error:
        return Completion(failure=Failure("provider", error.code, str(error)))
    finally:
        await http.close()
