"""The GPUs of this machine, and their distribution among servers."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

_DRIVER = Path("/proc/driver/nvidia/gpus")

MEMORY_SHARE = 0.9
"""Share of a GPU's memory for all servers on it together; vLLM's default for one server."""


def visible_gpus(environment: Mapping[str, str], driver: Path = _DRIVER) -> list[str]:
    """Return the names of usable GPUs in the form of CUDA_VISIBLE_DEVICES: its values, or else numbers."""
    chosen = environment.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return [name.strip() for name in chosen.split(",") if name.strip() not in ("", "-1", "NoDevFiles")]
    if program := shutil.which("nvidia-smi", path=environment.get("PATH")):  # lists only the GPUs of this container
        with suppress(OSError, subprocess.TimeoutExpired):
            done = subprocess.run([program, "-L"], capture_output=True, text=True, timeout=20, check=False)  # noqa: S603
            if done.returncode == 0:
                n = sum(line.startswith("GPU ") for line in done.stdout.splitlines())
                return [str(number) for number in range(n)]
    if driver.is_dir():
        return [str(number) for number in range(len(list(driver.iterdir())))]
    return []


def shares(gpus: Sequence[str], servers: int) -> list[tuple[list[str], float]]:
    """Return for each server its GPUs and its share of their memory.

    With enough GPUs each server has its own; otherwise several servers share a GPU and its memory.

    >>> shares(["0", "1", "2", "3"], 2)
    [(['0', '1'], 0.9), (['2', '3'], 0.9)]
    >>> shares(["0"], 2)
    [(['0'], 0.45), (['0'], 0.45)]
    """
    if not gpus:
        return [([], MEMORY_SHARE)] * servers
    if servers <= len(gpus):
        each = len(gpus) // servers
        return [(list(gpus[number * each : (number + 1) * each]), MEMORY_SHARE) for number in range(servers)]
    places = [number % len(gpus) for number in range(servers)]
    return [([gpus[place]], round(MEMORY_SHARE / places.count(place), 3)) for place in places]


def tensor_parallel(gpus: int, config: Mapping[str, Any]) -> int:
    """Return the largest number of its GPUs over which vLLM can split a model, by its configuration.

    The number is a power of two, because vocabularies and layers are multiples only of those. It divides attention
    heads and width. Heads of keys and values are divided or, if fewer, copied evenly. Missing values are ignored.

    >>> tensor_parallel(8, {"num_attention_heads": 28, "num_key_value_heads": 4, "intermediate_size": 18944})
    4
    >>> tensor_parallel(3, {"num_attention_heads": 32}), tensor_parallel(8, {})
    (2, 8)
    """

    def number(name: str) -> int:
        found = config.get(name)
        return found if isinstance(found, int) else 0

    heads, width = number("num_attention_heads"), number("intermediate_size")
    shared = number("num_key_value_heads") or heads
    largest = 1
    while (parts := 2 * largest) <= gpus and heads % parts == 0 and width % parts == 0:
        if shared and shared % parts and parts % shared:
            break
        largest = parts
    return largest
