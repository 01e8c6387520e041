"""Free memory of this machine, and the memory that models and batches need."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

SHARE_OF_MEMORY = 0.5
"""Share of the memory free after loading the weights that a batch may take, by estimate."""

FEWEST_TOKENS, MOST_TOKENS = 4096, 262_144
"""Limits of the tokens of a batch. The lower one lets long prompts be tried at all."""

MOST_TOKENS_ON_CPU = 16_384
"""Most tokens of a batch on a CPU. Larger batches are not faster there, show less progress, and lose more at Ctrl-C."""

UNKNOWN = 2 * 2**30
"""Bytes that are assumed to be free if the amount is unknown."""

MEMORY, GROUP = Path("/proc/meminfo"), Path("/sys/fs/cgroup")
"""Linux files about free memory: of the machine, and of the container of this process."""


def free_bytes(device: str) -> int | None:
    """Return the free bytes of a device such as `cuda:0` or `cpu`; None if unknown."""
    if device.startswith("cuda"):
        import torch

        return int(torch.cuda.mem_get_info(device)[0])
    return free_of_machine(MEMORY, GROUP) if device == "cpu" else None


def free_of_machine(memory: Path, group: Path) -> int | None:
    """Return the bytes available on the machine, or those left of the container's limit if that is less.

    The kernel kills a process that takes more, without a message. Source: proc(5), and the kernel's `cgroup-v2`.
    """
    free: list[int] = []
    with suppress(OSError, ValueError):
        for line in memory.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                free.append(int(line.split()[1]) * 1024)
    with suppress(OSError, ValueError):
        limit = int((group / "memory.max").read_text(encoding="ascii"))  # `max`: unlimited
        rows = (line.split() for line in (group / "memory.stat").read_text(encoding="ascii").splitlines())
        of_files = next(int(row[1]) for row in rows if row[0] == "inactive_file")  # reclaimed when needed
        free.append(limit - int((group / "memory.current").read_text(encoding="ascii")) + of_files)
    return max(min(free), 0) if free else None


def bytes_per_token(config: Mapping[str, Any], itemsize: int) -> int:
    """Return twice the bytes of keys and values per token, by the configuration; doubled for temporary memory.

    >>> bytes_per_token({"num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    ...                  "hidden_size": 4096}, itemsize=2)
    262144
    """

    def number(*names: str) -> int:
        found = (config.get(name) for name in names)
        return next((value for value in found if isinstance(value, int) and value > 0), 0)

    heads = number("num_attention_heads", "n_head", "num_heads") or 1
    width = number("head_dim") or number("hidden_size", "n_embd", "d_model") // heads or 64
    layers = number("num_hidden_layers", "n_layer", "num_layers") or 1
    return 2 * 2 * layers * (number("num_key_value_heads") or heads) * width * itemsize


def tokens_that_fit(free: int | None, each: int, most: int = MOST_TOKENS) -> int:
    """Return the most tokens of a batch, from the free bytes (None if unknown) and the bytes per token.

    >>> tokens_that_fit(10 * 2**30, 262144), tokens_that_fit(0, 262144)
    (20480, 4096)
    """
    return max(FEWEST_TOKENS, min(most, int((UNKNOWN if free is None else free) * SHARE_OF_MEMORY) // max(each, 1)))


def is_short_of_memory(error: BaseException) -> bool:
    """Return True if a computation failed because the GPU or the machine ran out of memory."""
    import torch

    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and "not enough memory" in str(error).lower()
