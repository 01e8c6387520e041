"""The process on a node, here in this process: what it computes, and how it reports errors."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from medhelm.domain import Completion, Message, Model, Prompt, Request
from medhelm.extensions.cluster.ray import ClusterWorker, WorkerFailure
from medhelm.models.catalog import find_models
from medhelm.models.providers import SERVICES
from tests.extensions.local.test_weights import write
from tests.support.plugins import Install

PLUGIN = """
from medhelm.domain import Completion
from medhelm.errors import ProviderError
from medhelm.models.provider import Provider

opened = []


class Engine(Provider):
    endpoint = "ward"

    async def complete(self, request):
        if request.max_tokens == 1:
            raise ProviderError("context_length", "together the model can hold 100")
        return Completion(text=request.prompt.messages[-1].text.upper(), finish_reason="stop")


def open_engine(model, context):
    opened.append(model.name)
    context.resources.note("ward/x has no chat template")
    return Engine()
"""

WARD = Model(name="ward/x", provider="ward", remote_name="x")


def completed(*requests: Request) -> list[Completion | WorkerFailure]:
    async def act() -> list[Completion | WorkerFailure]:
        worker = ClusterWorker(host="10.0.0.7")
        return [(await worker.complete(request, 0)).value for request in requests]

    return asyncio.run(act())


def request(model: Model, text: str = "a", max_tokens: int = 5) -> Request:
    return Request(model=model, prompt=Prompt((Message("user", text),)), max_tokens=max_tokens)


def test_a_model_is_opened_once_and_its_errors_are_returned(install: Install) -> None:
    module = install("ward", PLUGIN, providers={"ward": "open_engine"})
    found = completed(request(WARD, "a"), request(WARD, "b"), request(WARD, max_tokens=1))
    assert found[:2] == [Completion(text="A", finish_reason="stop"), Completion(text="B", finish_reason="stop")]
    # The message is that of one process, because the size of the window is read from it.
    assert found[2] == WorkerFailure("context_length", "together the model can hold 100", retryable=False, fatal=False)
    assert __import__(module).opened == ["ward/x"]

    async def notes() -> list[tuple[str, ...]]:
        worker = ClusterWorker(host="10.0.0.7")
        return [(await worker.complete(request(WARD), 0)).notes for _ in range(2)]

    assert asyncio.run(notes()) == [("ward/x has no chat template",), ()]
    assert [SERVICES[name].on_cluster for name in ("ward", "hf", "openai")] == [False, True, False]


def test_other_weights_than_those_of_the_run_are_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "m", max_position_embeddings=2048)
    (model,) = find_models([f"hf/{folder}"], file=None, environment={})
    versions = [{"version": "another"}, {}]
    for found in completed(*(request(replace(model, parameters=parameters)) for parameters in versions)):
        assert isinstance(found, WorkerFailure)
        assert (found.code, found.fatal) == ("not_loaded", True)
        assert found.message.startswith(f"on node 10.0.0.7: hf/{folder}: the version of its files is ")
        assert "Copy the same files" in found.message
    (missing,) = completed(request(Model(name="hf/x", provider="hf", remote_name=str(tmp_path / "nowhere"))))
    assert isinstance(missing, WorkerFailure)
    assert (missing.code, missing.fatal) == ("not_started", True)
