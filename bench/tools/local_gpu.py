"""Tokens per second of `hf/` with a model of realistic size on a GPU, relative to its memory bandwidth.

Each step of a batch reads all weights and the whole key-value cache, so the memory bandwidth limits the speed.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

LARGE: dict[str, Any] = {
    "vocab_size": 128_256,
    "hidden_size": 4096,
    "intermediate_size": 14_336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 8192,
    "eos_token_id": None,
}
"""Eight billion parameters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Model, device and requests of one measurement."""

    sizes: dict[str, Any] = field(default_factory=lambda: dict(LARGE))
    """Configuration of the model."""
    device: str = "cuda:0"
    dtype: str = "bfloat16"
    requests: int = 64
    prompts: tuple[int, int] = (100, 1500)
    """Tokens of the shortest and the longest prompt."""
    limit: int = 64
    """Tokens of each completion; none stops earlier."""
    batch_tokens: int = 200_000
    """Limit of the tokens in a batch."""
    generate_batch: int = 16
    """Requests in one call of `generate`."""
    copied: int = 2**31
    """Bytes that are copied to measure the bandwidth."""


def measure(setting: Setting | None = None) -> dict[str, float]:
    """Return generated tokens per second and the share of the memory bandwidth, in the second of two runs.

    Also those of `generate` in batches. All completions have one length, so no batch waits for its longest one.
    """
    import torch

    from bench.tools.random_models import byte_tokenizer, random_llama
    from medhelm.extensions.local.generation import GenerationState, LoadedNetwork, remembers_by_attention
    from medhelm.extensions.local.huggingface import Engine
    from medhelm.extensions.local.loading import ChatTemplate, LoadedModel

    setting = setting or Setting()
    model = random_llama(setting.sizes, device=setting.device, dtype=getattr(torch, setting.dtype))
    weights = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    network = LoadedNetwork(
        model=model,
        decode=lambda tokens: str(len(tokens)),
        ends=frozenset(),
        padding=0,
        batches=remembers_by_attention(model),
        matrix=weights / model.dtype.itemsize / (7 * setting.sizes["num_hidden_layers"] + 2),
    )
    loaded = LoadedModel(
        network=network,
        chat=ChatTemplate(byte_tokenizer(), {}),
        window=setting.sizes["max_position_embeddings"],
        batch_tokens=setting.batch_tokens,
        device=setting.device,
    )
    rng = random.Random(5)
    prompts = [[rng.randrange(200) for _ in range(rng.randint(*setting.prompts))] for _ in range(setting.requests)]

    def prepared(prompt: list[int]) -> Callable[[LoadedModel], GenerationState]:
        return lambda _: GenerationState(prompt=prompt, limit=setting.limit)

    async def ask() -> tuple[float, int]:
        engine = Engine(lambda: loaded, threading.Lock())
        began = time.perf_counter()
        answers = await asyncio.gather(*(engine.ask(prepared(prompt)) for prompt in prompts))
        seconds = time.perf_counter() - began
        await engine.close()
        assert all(len(answering.written) == setting.limit for answering, _ in answers)
        return seconds, len(engine.batch_sizes)

    asyncio.run(ask())
    seconds, batches = asyncio.run(ask())
    held = cache_bytes(setting, [len(prompt) for prompt in prompts], model.dtype.itemsize)
    _generate(model, prompts, setting)
    began = time.perf_counter()
    _generate(model, prompts, setting)
    batched = time.perf_counter() - began
    bandwidth = _copied_bytes_per_s(setting)
    return {
        "requests": len(prompts),
        "batches": batches,
        "tokens_per_s": len(prompts) * setting.limit / seconds,
        "batched_tokens_per_s": len(prompts) * setting.limit / batched,
        "weights_gib": weights / 2**30,
        "bandwidth_gb_per_s": bandwidth / 1e9,
        "share_of_bandwidth": (batches * setting.limit * weights + held) / bandwidth / seconds,
    }


def cache_bytes(setting: Setting, prompts: list[int], itemsize: int) -> int:
    """Return the bytes of keys and values that generation reads, without padding."""
    sizes = setting.sizes
    width = sizes["hidden_size"] // sizes["num_attention_heads"]
    each = 2 * sizes["num_hidden_layers"] * sizes["num_key_value_heads"] * width * itemsize
    return sum(each * (setting.limit * prompt + setting.limit * (setting.limit - 1) // 2) for prompt in prompts)


def _generate(model: Any, prompts: list[list[int]], setting: Setting) -> None:
    """Call `generate` of transformers with batches of requests in order of arrival."""
    import torch

    for start in range(0, len(prompts), setting.generate_batch):
        batch = prompts[start : start + setting.generate_batch]
        width = max(map(len, batch))
        padded = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in batch], device=setting.device)
        mask = torch.tensor([[0] * (width - len(one)) + [1] * len(one) for one in batch], device=setting.device)
        with torch.no_grad():
            written = model.generate(
                padded, attention_mask=mask, max_new_tokens=setting.limit, do_sample=False, pad_token_id=0
            )
        assert written.shape[1] == width + setting.limit


def _copied_bytes_per_s(setting: Setting, times: int = 10) -> float:
    """Return the bytes that the device reads and writes per second."""
    import torch

    source = torch.ones(setting.copied, dtype=torch.uint8, device=setting.device)
    target = torch.empty_like(source)

    def copy(times: int) -> float:
        began = time.perf_counter()
        for _ in range(times):
            target.copy_(source)
        if setting.device.startswith("cuda"):
            torch.cuda.synchronize()
        return time.perf_counter() - began

    copy(1)
    return times * 2 * setting.copied / copy(times)
