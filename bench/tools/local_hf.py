"""Tokens per second of `hf/` on CPU, and of two plain loops over the `generate` of transformers: one request after the
other, and batches in the order of arrival.

Each loop runs in a process of its own, so that the threads of one do not slow down another. They alternate, so that all
meet the same load of the machine. The plain loops run with one thread and with all, and the faster one counts.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REQUESTS = 64
"""Requests of mixed lengths."""
LIMITS = (4, 4, 4, 16, 48, 96)
"""Token limits of their completions: mostly letters, some notes."""
PLAIN_BATCH = 16
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
ROUNDS = 3
OURS, ONE, BATCHED = "ours", "one", "batched"


@dataclass(frozen=True, slots=True)
class Job:
    """One request."""

    text: str
    limit: int


def jobs(n: int = REQUESTS) -> list[Job]:
    """Return requests of mixed lengths, the same every time; a character is a token."""
    rng = random.Random(11)
    sizes = [min(900, int(rng.lognormvariate(4.8, 0.8))) for _ in range(n)]
    return [Job("".join(rng.choices("abcdefgh ", k=size)), rng.choice(LIMITS)) for size in sizes]


@contextmanager
def ours(folder: Path, todo: Sequence[Job]) -> Iterator[Callable[[], list[tuple[str, int]]]]:
    """Yield a function that sends all requests to our provider at once and returns texts and token counts."""
    from medhelm.domain import Message, Prompt, Request
    from medhelm.io.http.client import HttpClient
    from medhelm.io.http.egress import EgressPolicy
    from medhelm.models.catalog import find_models
    from medhelm.models.provider import SharedResources
    from medhelm.models.providers import open_provider

    here = {"MEDHELM_HF_DEVICE": "cpu"}
    resources = SharedResources()
    (model,) = find_models([f"hf/{folder}"], file=None, environment=here)
    provider = open_provider(model, HttpClient(EgressPolicy(offline=True)), environment=here, resources=resources)
    requests = [Request(model=model, prompt=Prompt((Message("user", job.text),)), max_tokens=job.limit) for job in todo]

    async def ask() -> list[tuple[str, int]]:
        found = await asyncio.gather(*map(provider.complete, requests))
        return [(each.text or "", each.usage.output) for each in found]

    with asyncio.Runner() as runner:
        yield lambda: runner.run(ask())
        runner.run(resources.close())


def plain(folder: Path, todo: Sequence[Job], size: int) -> Callable[[], list[tuple[str, int]]]:
    """Return a function that calls `generate` with `size` requests at a time, in order of arrival."""
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()
    words = transformers.AutoTokenizer.from_pretrained(folder, padding_side="left")
    network = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    ends = words.convert_tokens_to_ids(["<|endoftext|>", "<|im_end|>"])

    def ask() -> list[tuple[str, int]]:
        found = []
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
                found.append((words.decode(row[: job.limit], skip_special_tokens=True), job.limit))
        return found

    return ask


def work(what: str, folder: Path) -> None:
    """Complete all requests for each input line, and print a line with the seconds and the completions."""
    todo = jobs()
    with (
        ours(folder, todo)
        if what == OURS
        else nullcontext(plain(folder, todo, 1 if what == ONE else PLAIN_BATCH)) as ask
    ):
        ask()  # loading and warm-up are not measured
        print(flush=True)
        for _ in sys.stdin:
            began = time.perf_counter()
            answers = ask()
            print(json.dumps([time.perf_counter() - began, answers]), flush=True)


@contextmanager
def worker(what: str, folder: Path, threads: int) -> Iterator[Callable[[], tuple[float, list[tuple[str, int]]]]]:
    """Run `work` in a process with at most `threads` threads, or with the default of torch if 0."""
    words = [sys.executable, str(Path(__file__).with_name("local_speed.py")), "work", what, str(folder)]
    environment = dict(os.environ) | ({"OMP_NUM_THREADS": str(threads)} if threads else {})
    with subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        asking, answering = process.stdin, process.stdout
        assert asking is not None
        assert answering is not None
        answering.readline()

        def once() -> tuple[float, list[tuple[str, int]]]:
            asking.write("\n")
            asking.flush()
            seconds, answers = json.loads(answering.readline())
            return seconds, [(text, count) for text, count in answers]

        try:
            yield once
        finally:
            asking.close()


def measure() -> dict[str, float]:
    """Return tokens per second of our provider and both plain loops, and the number of identical completions."""
    from bench.tools.random_models import save_random_llama

    kinds = [(OURS, 0), (ONE, 0), (ONE, 1), (BATCHED, 0), (BATCHED, 1)]
    seconds: dict[tuple[str, int], list[float]] = {kind: [] for kind in kinds}
    answers: dict[str, list[tuple[str, int]]] = {}
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        folder = save_random_llama(Path(place) / "small", SMALL)
        asking = {kind: stack.enter_context(worker(kind[0], folder, kind[1])) for kind in kinds}
        for _ in range(ROUNDS):
            for kind, ask in asking.items():
                taken, answers[kind[0]] = ask()
                seconds[kind].append(taken)
    tokens = sum(count for _, count in answers[OURS])
    fastest = {what: min(statistics.median(seconds[kind]) for kind in kinds if kind[0] == what) for what, _ in kinds}
    same = sum(a == b for (a, _), (b, _) in zip(answers[OURS], answers[ONE], strict=True))
    rates = {f"{what}_tokens_per_s": tokens / taken for what, taken in fastest.items()}
    return {"requests": len(answers[OURS]), "tokens": tokens, "same_answers": same, **rates}
