"""Models of Hugging Face in this process, asked in tests: a machine for each play, closed at its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from medhelm.domain import Completion, Message, Model, Prompt, Request
from medhelm.extensions.local.huggingface import HuggingFace
from medhelm.io.http.client import HttpClient
from medhelm.io.http.egress import EgressPolicy
from medhelm.models.catalog import find_models
from medhelm.models.provider import SharedResources
from medhelm.models.providers import open_provider

WORDS = ["the", "patient", "was", "seen", "with", "chest pain", "and", "sent", "home", "after", "two", "hours"]


def model_in(folder: Path, **parameters: Any) -> Model:
    (model,) = find_models([f"hf/{folder}"], file=None, environment={})
    return Model(
        name=model.name,
        provider="hf",
        remote_name=model.remote_name,
        window=model.window,
        parameters={**model.parameters, **parameters},
    )


def play(act: Callable[[SharedResources], Coroutine[Any, Any, Any]], notes: list[str] | None = None) -> Any:
    async def run() -> Any:
        resources = SharedResources(notes.append if notes is not None else None)
        try:
            return await act(resources)
        finally:
            await resources.close()

    return asyncio.run(run())


def opened(model: Model, resources: SharedResources, **environment: str) -> HuggingFace:
    http = HttpClient(EgressPolicy(offline=True))
    provider = open_provider(model, http, environment={"MEDHELM_HF_DEVICE": "cpu", **environment}, resources=resources)
    assert isinstance(provider, HuggingFace)
    return provider


def question(model: Model, text: str, *, max_tokens: int = 12, system: str = "", **changes: Any) -> Request:
    messages = (Message("system", system),) if system else ()
    return Request(model=model, prompt=Prompt((*messages, Message("user", text))), max_tokens=max_tokens, **changes)


def answers(requests: Sequence[Request], notes: list[str] | None = None) -> list[Completion]:
    """All at once."""

    async def act(resources: SharedResources) -> list[Completion]:
        provider = opened(requests[0].model, resources)
        return await asyncio.gather(*(provider.complete(request) for request in requests))

    found: list[Completion] = play(act, notes)
    return found


def mixed(model: Model, n: int) -> list[Request]:
    """Questions of all lengths, with limits of all sizes."""
    return [
        question(model, " ".join(WORDS[i % 5 :] * (1 + i % 4)) + f" {i}?", max_tokens=3 + (7 * i) % 40, system="Brief.")
        for i in range(n)
    ]
