"""Models in this process: memory that runs out, threads, several models, and an end."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from medhelm.domain import Completion
from medhelm.errors import ProviderError
from medhelm.extensions.local import generation, loading
from medhelm.models.provider import SharedResources
from tests.support.models.in_process import answers, model_in, opened, play, question

torch = pytest.importorskip("torch", reason="torch comes with the extra hf")
transformers = pytest.importorskip("transformers", reason="transformers comes with the extra hf")

pytestmark = pytest.mark.usefixtures("no_network")

PATIENCE_S = 600.0
"""How long a test waits for something that must happen."""


def test_memory_that_runs_out_halves_the_batch_and_goes_on(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_in(tiny)
    requests = [question(model, f"number {i}?", max_tokens=8) for i in range(12)]
    expected = [each.text for each in answers(requests)]
    real, tried = generation._padded, []

    def short(rows: Sequence[generation.GenerationState], *more: Any) -> Any:
        tried.append(len(rows))
        if len(rows) > 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return real(rows, *more)

    monkeypatch.setattr(generation, "_padded", short)

    async def act(resources: SharedResources) -> list[Completion]:
        provider = opened(model, resources)
        first = await asyncio.gather(*(provider.complete(request) for request in requests))
        tried.append(0)
        second = await asyncio.gather(*(provider.complete(request) for request in requests))
        assert [each.text for each in second] == expected
        return first

    assert [each.text for each in play(act)] == expected
    assert tried[: tried.index(0)] == [12, 6, 3, 3, 6, 3, 3]
    assert max(tried[tried.index(0) :]) == 3  # it has learned


def test_a_request_that_breaks_or_needs_too_much_memory_fails_alone(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = model_in(tiny)
    real, calls = generation._padded, iter([True])

    def short(rows: Sequence[generation.GenerationState], *more: Any) -> Any:
        if next(calls, False):
            raise RuntimeError("shapes do not match")
        if max(len(row.prompt) for row in rows) > 200:
            raise RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes")
        return real(rows, *more)

    monkeypatch.setattr(generation, "_padded", short)

    async def act(resources: SharedResources) -> list[Completion | BaseException]:
        provider = opened(model, resources)
        with pytest.raises(ProviderError, match="RuntimeError: shapes do not match") as raised:
            await provider.complete(question(model, "x"))
        assert raised.value.code == "broken"
        texts = ("a", "b" * 300, "c")
        return await asyncio.gather(*(provider.complete(question(model, t)) for t in texts), return_exceptions=True)

    first, large, last = play(act)
    assert isinstance(large, ProviderError)
    assert (large.code, large.fatal) == ("out_of_memory", False)
    assert isinstance(first, Completion)
    assert isinstance(last, Completion)


def test_models_that_do_not_fit_together_are_loaded_in_turns(
    tiny: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each answers as by itself: memory that holds one of them holds one after the other."""
    one, two = model_in(tiny), model_in(base)
    alone = {model.name: answers([question(model, text) for text in "abc"]) for model in (one, two)}
    held: list[weakref.ref[Any]] = []
    most: list[int] = []
    real = loading.load

    def narrow(weights: Any, **settings: Any) -> loading.LoadedModel:
        if any(network() is not None for network in held):
            raise ProviderError("out_of_memory", "there is room for one", fatal=True)
        loaded = real(weights, **settings)
        held.append(weakref.ref(loaded.network.model))
        most.append(sum(network() is not None for network in held))
        return loaded

    monkeypatch.setattr(loading, "load", narrow)
    notes: list[str] = []

    async def act(resources: SharedResources) -> None:
        providers = {model.name: opened(model, resources) for model in (one, two)}
        for number, text in enumerate("abc"):  # in turns
            for name, provider in providers.items():
                found = await provider.complete(question(provider.model, text))
                assert found.text == alone[name][number].text

    play(act, notes)
    assert len(held) == 6
    assert max(most) == 1
    assert sum("are loaded in turns" in note for note in notes) == 2  # each says it once


def test_a_model_that_is_larger_than_the_memory_is_not_loaded(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that runs out of memory would end the process without a word."""
    size = sum(parameter.numel() for parameter in transformers.AutoModelForCausalLM.from_pretrained(tiny).parameters())
    weights = opened(model_in(tiny), SharedResources()).weights
    monkeypatch.setattr(loading, "free_bytes", lambda device: 4 * size - 1)
    with pytest.raises(ProviderError) as raised:
        loading.load(weights, device="cpu")
    assert (raised.value.code, raised.value.fatal) == ("out_of_memory", True)
    assert "in float32, and cpu has" in str(raised.value)
    assert "models.yaml: `parameters: {dtype: bfloat16}`" in str(raised.value)
    assert loading.load(weights, device="cpu", dtype="bfloat16").network.model.dtype == torch.bfloat16
    for free in (4 * size, None):
        monkeypatch.setattr(loading, "free_bytes", lambda device, free=free: free)
        assert loading.load(weights, device="cpu").network.model.dtype == torch.float32


def test_who_gives_up_leaves_the_batch_and_the_end_waits_for_one_token(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = model_in(tiny)
    steps: list[int] = []
    arrived, go_on = threading.Semaphore(0), threading.Semaphore(0)
    real = generation._next_tokens

    def watched(logits: Any, rows: Any, dice: Any) -> list[int]:
        steps.append(len(rows))
        arrived.release()
        assert go_on.acquire(timeout=PATIENCE_S)
        return real(logits, rows, dice)

    monkeypatch.setattr(generation, "_next_tokens", watched)

    async def act(resources: SharedResources) -> None:
        provider = opened(model, resources)
        asking = [asyncio.ensure_future(provider.complete(question(model, t, max_tokens=400))) for t in "abc"]
        assert await asyncio.to_thread(arrived.acquire, timeout=PATIENCE_S)
        for task in asking[:2]:
            task.cancel()
        await asyncio.wait(asking[:2])
        go_on.release()  # the first token
        assert await asyncio.to_thread(arrived.acquire, timeout=PATIENCE_S)
        closing = asyncio.ensure_future(resources.close())
        await asyncio.sleep(0)
        go_on.release()  # the second
        await asyncio.wait_for(closing, PATIENCE_S)
        with pytest.raises(ProviderError, match="closed"):
            await asyncio.wait_for(asking[2], PATIENCE_S)
        with pytest.raises(ProviderError, match="closed"):
            await provider.complete(question(model, "d"))

    play(act)
    assert steps == [3, 1]
