"""Measure requests per second to a fake `vllm serve`, through `vllm/` and through `openai/`."""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

REQUESTS, IN_FLIGHT, ROUNDS = 1500, 32, 3


def measure() -> dict[str, float]:
    """Return requests per second to the same fake server through both providers."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "m"
        folder.mkdir()
        (folder / "config.json").write_text("{}", encoding="utf-8")
        (folder / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
        (folder / "tokenizer.json").write_text("{}", encoding="utf-8")
        return asyncio.run(_ask(folder))


async def _ask(folder: Path) -> dict[str, float]:
    from medhelm.domain import Message, Model, Prompt, Request
    from medhelm.extensions.local.vllm import Vllm
    from medhelm.io.http.client import HttpClient
    from medhelm.io.http.egress import EgressPolicy
    from medhelm.models.provider import SharedResources
    from medhelm.models.providers import open_provider

    here = {"PATH": os.environ["PATH"], "MEDHELM_VLLM": str(Path(__file__).with_name("fake_vllm.py"))}
    here |= {"CUDA_VISIBLE_DEVICES": ""}
    http, resources = HttpClient(EgressPolicy(offline=True)), SharedResources()
    model = Model(name="m", provider="vllm", remote_name=str(folder))
    provider = open_provider(model, http, environment=here, resources=resources)
    assert isinstance(provider, Vllm)

    async def rate(asked: Any, of: Model) -> float:
        waiting = iter(range(REQUESTS))

        async def work() -> None:
            for number in waiting:
                prompt = Prompt((Message("user", f"number {number}"),))
                await asked.complete(Request(model=of, prompt=prompt, max_tokens=5))

        began = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))
        return REQUESTS / (time.perf_counter() - began)

    try:
        began = time.perf_counter()
        await provider.server.ready()
        start_s = time.perf_counter() - began
        other = replace(model, provider="openai", base_url=provider.server.base_url, key_variable="KEY")
        plain_path = open_provider(other, http, environment={"KEY": provider.server.key})
        pairs = [(await rate(provider, model), await rate(plain_path, other)) for _ in range(ROUNDS + 1)][1:]
    finally:
        await resources.close()
        await http.close()
    ours_, theirs = statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs)
    return {"start_s": start_s, "vllm_per_s": ours_, "openai_per_s": theirs, "ratio": theirs / ours_}
