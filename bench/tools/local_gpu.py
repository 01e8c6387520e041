"""Tokens per second of `hf/` with a model of realistic size on a GPU, beside `generate` of transformers.

Each step of a batch reads all weights and the whole key-value cache, so the memory bandwidth limits the speed.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
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
    """Most tokens of a completion."""
    mixed: bool = False
    """True if completions end after 1 to `limit` tokens, which nobody knows before; else all have `limit` tokens."""
    batch_tokens: int = 200_000
    """Limit of the tokens in a batch."""
    generate_batch: int = 16
    """Requests in one call of `generate`."""
    copied: int = 2**31
    """Bytes that are copied to measure the bandwidth."""


def measure(setting: Setting | None = None) -> dict[str, float]:
    """Return generated tokens per second and the share of the memory bandwidth, in the second of two runs.

    Also those of `generate`, with the batches of `hf/` and with batches by arrival, and all of them with completions of
    mixed lengths. Each number is also written to standard error as soon as it is known.
    """
    import torch

    from bench.tools.random_models import random_llama
    from medhelm.extensions.local.generation import LoadedNetwork, remembers_by_attention

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
    told: dict[str, float] = {"requests": setting.requests, "weights_gib": weights / 2**30}
    for mixed in (False, True):
        told |= _rates(network, replace(setting, mixed=mixed))
    bandwidth = _copied_bytes_per_s(setting)
    prompts = [len(prompt) for prompt, _ in _requests(setting)]
    read = told["batches"] * setting.limit * weights + cache_bytes(setting, prompts, model.dtype.itemsize)
    seconds = len(prompts) * setting.limit / told["tokens_per_s"]
    return {**told, "bandwidth_gb_per_s": bandwidth / 1e9, "share_of_bandwidth": read / bandwidth / seconds}


def _rates(network: Any, setting: Setting) -> dict[str, float]:
    """Return the tokens per second of each way to complete the requests."""
    requests = _requests(setting)
    ours, size = _batches(requests, setting), setting.generate_batch
    arrival = [requests[start : start + size] for start in range(0, len(requests), size)]
    ways: dict[str, Callable[[], None]] = {
        "tokens_per_s": lambda: _hf(network, ours, setting),
        "same_batches_tokens_per_s": lambda: _generate(network.model, ours, setting),
        "batched_tokens_per_s": lambda: _generate(network.model, arrival, setting),
    }
    rates: dict[str, float] = {}
    for name, way in ways.items():
        for _ in range(2):
            began = time.perf_counter()
            way()
            rates[name] = sum(end for _, end in requests) / (time.perf_counter() - began)
        print(f"mixed={setting.mixed} {name} {rates[name]:.1f}", file=sys.stderr, flush=True)
    return {f"mixed_{name}": rate for name, rate in rates.items()} if setting.mixed else rates | {"batches": len(ours)}


def _requests(setting: Setting) -> list[tuple[list[int], int]]:
    """Return the prompt and the number of generated tokens of each request; the same every time."""
    rng = random.Random(5)
    prompts = [[rng.randrange(200) for _ in range(rng.randint(*setting.prompts))] for _ in range(setting.requests)]
    return [(prompt, rng.randint(1, setting.limit) if setting.mixed else setting.limit) for prompt in prompts]


def _batches(requests: Sequence[tuple[list[int], int]], setting: Setting) -> list[list[tuple[list[int], int]]]:
    """Return the batches of `hf/`, which does not know where a completion ends."""
    from medhelm.extensions.local.huggingface import MOST_ROWS, RequestSize, next_batch

    waiting, batches = list(requests), []
    while waiting:
        sizes = [RequestSize(len(prompt), setting.limit) for prompt, _ in waiting]
        batch = next_batch(sizes, tokens=setting.batch_tokens, rows=MOST_ROWS)
        batches.append([waiting[position] for position in batch])
        waiting = [request for position, request in enumerate(waiting) if position not in batch]
    return batches


def _hf(network: Any, batches: Sequence[Sequence[tuple[list[int], int]]], setting: Setting) -> None:
    """Complete batches as `hf/` does; a completion leaves its batch at its end."""
    from medhelm.extensions.local.generation import GenerationState, generate

    def unended(states: Sequence[GenerationState], ends: Sequence[int]) -> Callable[[GenerationState], bool]:
        end_of = {id(state): end for state, end in zip(states, ends, strict=True)}
        return lambda state: len(state.written) < end_of[id(state)]

    for batch in batches:
        states = [GenerationState(prompt=prompt, limit=setting.limit) for prompt, _ in batch]
        ends = [end for _, end in batch]
        generate(network, states, ended=lambda _: None, wanted=unended(states, ends))
        assert [len(state.written) for state in states] == ends


def cache_bytes(setting: Setting, prompts: list[int], itemsize: int) -> int:
    """Return the bytes of keys and values that generation reads, without padding."""
    sizes = setting.sizes
    width = sizes["hidden_size"] // sizes["num_attention_heads"]
    each = 2 * sizes["num_hidden_layers"] * sizes["num_key_value_heads"] * width * itemsize
    return sum(each * (setting.limit * prompt + setting.limit * (setting.limit - 1) // 2) for prompt in prompts)


def _generate(model: Any, batches: Sequence[Sequence[tuple[list[int], int]]], setting: Setting) -> None:
    """Call `generate` of transformers, which goes on until the last completion of a batch ends.

    The attention is that of `hf/`: with cuDNN's, each token takes several times as long.
    """
    import torch

    from medhelm.extensions.local.generation import without_cudnn_attention

    for requests in batches:
        batch, longest = [prompt for prompt, _ in requests], max(end for _, end in requests)
        width = max(map(len, batch))
        padded = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in batch], device=setting.device)
        mask = torch.tensor([[0] * (width - len(one)) + [1] * len(one) for one in batch], device=setting.device)
        with torch.inference_mode(), without_cudnn_attention():
            written = model.generate(
                padded, attention_mask=mask, max_new_tokens=longest, do_sample=False, pad_token_id=0
            )
        assert written.shape[1] == width + longest


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
