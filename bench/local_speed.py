"""How fast models on this machine answer; prints a JSON object. Runs in the environment of our command.

    python bench/local_speed.py hf|hf-gpu|vllm

`hf`: a small model with random weights on the processor, asked through our provider, beside the two plain loops over
`generate` of transformers that people write: one request after the other, and batches in the order of arrival.
`hf-gpu`: a model of realistic size with random weights on a GPU, and its share of the memory's bandwidth. `vllm`: a
stand-in for the server, asked through `vllm/` and through `openai/`.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from medhelm.domain import Completion

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))  # small models and a stand-in are made there

REQUESTS = 64
"""Requests of mixed lengths."""
LIMITS = (4, 4, 4, 16, 48, 96)
"""Tokens of their answers: most questions want a letter, some a note."""
NAIVE_BATCH = 16
"""Requests in a batch of the plain loop."""
SMALL: dict[str, Any] = {
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 2048,
}
"""About 650,000 parameters."""
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
"""Eight billion."""
REPETITIONS = 3
VLLM_REQUESTS, IN_FLIGHT = 1500, 32


@dataclass(frozen=True, slots=True)
class Job:
    """One request."""

    text: str
    limit: int


def jobs(n: int = REQUESTS) -> list[Job]:
    """Requests of mixed lengths, the same every time; a character is a token."""
    rng = random.Random(11)
    sizes = [min(900, int(rng.lognormvariate(4.8, 0.8))) for _ in range(n)]
    return [Job("".join(rng.choices("abcdefgh ", k=size)), rng.choice(LIMITS)) for size in sizes]


def median_s(act: Callable[[], object]) -> float:
    """Seconds that something takes, the median of some times."""
    seconds = []
    for _ in range(REPETITIONS):
        began = time.perf_counter()
        act()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


# --- hf on the processor ----------------------------------------------------------------------------------------------


def ours(folder: Path, todo: Sequence[Job]) -> tuple[Callable[[], list[Completion]], Callable[[], object]]:
    """What asks our provider everything at once, and what ends it; the model is loaded."""
    from medhelm.domain import Message, Prompt, Request
    from medhelm.models.catalog import find_models
    from medhelm.models.http import Gate, Http
    from medhelm.models.providers import open_provider
    from medhelm.models.providers.local.machine import Machine

    here = {"MEDHELM_HF_DEVICE": "cpu"}
    loop, machine = asyncio.new_event_loop(), Machine()
    (model,) = find_models([f"hf/{folder}"], file=None, environment=here)
    provider = open_provider(model, Http(Gate(offline=True)), environment=here, machine=machine)
    requests = [Request(model=model, prompt=Prompt((Message("user", job.text),)), max_tokens=job.limit) for job in todo]

    async def ask(some: Sequence[Request]) -> list[Completion]:
        return await asyncio.gather(*(provider.complete(one) for one in some))

    loop.run_until_complete(ask(requests[:1]))
    return (lambda: loop.run_until_complete(ask(requests))), (lambda: loop.run_until_complete(machine.close()))


def plain(folder: Path, todo: Sequence[Job], size: int) -> Callable[[], list[str]]:
    """What asks `generate`, so many requests at a time, in order of arrival."""
    import torch
    import transformers

    words = transformers.AutoTokenizer.from_pretrained(folder, padding_side="left")
    network = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    ends = words.convert_tokens_to_ids(["<|endoftext|>", "<|im_end|>"])

    def ask() -> list[str]:
        texts = []
        for start in range(0, len(todo), size):
            batch = todo[start : start + size]
            turns = [[{"role": "user", "content": job.text}] for job in batch]
            given = words.apply_chat_template(
                turns, add_generation_prompt=True, padding=True, return_tensors="pt", return_dict=True
            )
            with torch.inference_mode():
                out = network.generate(
                    **given,
                    do_sample=False,
                    max_new_tokens=max(job.limit for job in batch),
                    pad_token_id=0,
                    eos_token_id=ends,
                )
            for row, job in zip(out[:, given["input_ids"].shape[1] :], batch, strict=True):
                texts.append(words.decode(row[: job.limit], skip_special_tokens=True))
        return texts

    return ask


def measure_hf() -> dict[str, float]:
    """Tokens a second of our provider and of both plain loops, over the same requests and the same answers."""
    import tiny_models
    import torch

    torch.set_num_threads(1)  # a small model has no work for more, and waiting for each other would be measured
    todo = jobs()
    with tempfile.TemporaryDirectory() as place:
        folder = tiny_models.save(Path(place) / "small", **SMALL)
        ask, end = ours(folder, todo)
        mine = ask()
        seconds = {
            "ours": median_s(ask)
        }  # first: threads of torch that another thread has used slow those of ours down
        end()
        one, batched = plain(folder, todo, 1), plain(folder, todo, NAIVE_BATCH)
        theirs = one()
        seconds |= {"one": median_s(one), "batched": median_s(batched)}
    same = sum(a.text == b for a, b in zip(mine, theirs, strict=True))
    tokens = sum(each.usage.output for each in mine)
    rates = {f"{name}_tokens_per_s": tokens / taken for name, taken in seconds.items()}
    return {"requests": len(todo), "tokens": tokens, "same_answers": same, **rates}


# --- hf on a GPU ------------------------------------------------------------------------------------------------------


def measure_gpu() -> dict[str, float]:
    """Tokens a second of a model of eight billion random weights, and the share of the memory's bandwidth that reading
    them once for each token of a batch takes; the bandwidth is measured by copying.
    """
    import tiny_models
    import torch
    import transformers

    from medhelm.models.providers.local.chat import Chat
    from medhelm.models.providers.local.engine import Engine
    from medhelm.models.providers.local.generation import Answering, Network, remembers_by_attention
    from medhelm.models.providers.local.loading import Loaded

    config = transformers.LlamaConfig(**LARGE)
    with torch.device("cuda"):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()
    weights = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    network = Network(model, lambda tokens: str(len(tokens)), frozenset(), 0, remembers_by_attention(model))
    loaded = Loaded(
        network=network,
        chat=Chat(tiny_models.tokenizer(), {}),
        window=8192,
        batch_tokens=200_000,
        device="cuda:0",
        dtype="bfloat16",
    )
    rng = random.Random(5)
    rows = [([rng.randrange(1000) for _ in range(rng.randrange(100, 1500))], 256) for _ in range(64)]

    def prepared(prompt: list[int], limit: int) -> Callable[[Loaded], Answering]:
        return lambda _: Answering(prompt=prompt, limit=limit)

    async def ask() -> float:
        import threading

        engine = Engine(lambda: loaded, threading.Lock())
        began = time.perf_counter()
        await asyncio.gather(*(engine.ask(prepared(prompt, limit)) for prompt, limit in rows))
        seconds = time.perf_counter() - began
        await engine.close()
        return seconds

    asyncio.run(ask())
    seconds = asyncio.run(ask())
    bandwidth = _copied_bytes_per_s()
    tokens = sum(limit for _, limit in rows)
    return {
        "requests": len(rows),
        "tokens_per_s": tokens / seconds,
        "weights_gib": weights / 2**30,
        "bandwidth_gb_per_s": bandwidth / 1e9,
        "share_of_bandwidth": 256 * weights / seconds / bandwidth,
    }


def _copied_bytes_per_s() -> float:
    import torch

    source = torch.empty(2**31, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    target.copy_(source)
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(10):
        target.copy_(source)
    torch.cuda.synchronize()
    copied = 10 * 2 * int(source.numel())
    return copied / (time.perf_counter() - began)


# --- vllm -------------------------------------------------------------------------------------------------------------


def measure_vllm() -> dict[str, float]:
    """Requests a second to one and the same stand-in through `vllm/` and through `openai/`."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "m"
        folder.mkdir()
        (folder / "config.json").write_text("{}", encoding="utf-8")
        (folder / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
        (folder / "tokenizer.json").write_text("{}", encoding="utf-8")
        orders = Path(place) / "orders.json"
        orders.write_text("{}", encoding="utf-8")
        return asyncio.run(_ask_vllm(folder, orders))


async def _ask_vllm(folder: Path, orders: Path) -> dict[str, float]:
    from medhelm.domain import Message, Model, Prompt, Request
    from medhelm.models.http import Gate, Http
    from medhelm.models.providers import open_provider
    from medhelm.models.providers.local.machine import Machine
    from medhelm.models.providers.vllm import Vllm

    here = {"PATH": os.environ["PATH"], "MEDHELM_VLLM": str(ROOT / "tests" / "stand_in_vllm.py")}
    here |= {"STAND_IN": str(orders), "CUDA_VISIBLE_DEVICES": ""}
    http, machine = Http(Gate(offline=True)), Machine()
    model = Model(name="m", provider="vllm", remote_name=str(folder))
    provider = open_provider(model, http, environment=here, machine=machine)
    assert isinstance(provider, Vllm)

    async def rate(asked: Any, of: Model) -> float:
        waiting = iter(range(VLLM_REQUESTS))

        async def work() -> None:
            for number in waiting:
                prompt = Prompt((Message("user", f"number {number}"),))
                await asked.complete(Request(model=of, prompt=prompt, max_tokens=5))

        began = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))
        return VLLM_REQUESTS / (time.perf_counter() - began)

    try:
        began = time.perf_counter()
        await provider.server.ready()
        start_s = time.perf_counter() - began
        other = replace(model, provider="openai", base_url=provider.server.base_url, key_variable="KEY")
        plain_path = open_provider(other, http, environment={"KEY": provider.server.key})
        pairs = [(await rate(provider, model), await rate(plain_path, other)) for _ in range(REPETITIONS + 1)][1:]
    finally:
        await machine.close()
        await http.close()
    ours_, theirs = statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs)
    return {"start_s": start_s, "vllm_per_s": ours_, "openai_per_s": theirs, "ratio": theirs / ours_}


MEASURES: dict[str, Callable[[], dict[str, float]]] = {"hf": measure_hf, "hf-gpu": measure_gpu, "vllm": measure_vllm}


if __name__ == "__main__":
    print(json.dumps(MEASURES[sys.argv[1]]()))
