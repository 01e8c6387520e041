"""How much memory there is on this machine, and what a model and its batches need of it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

SHARE_OF_MEMORY = 0.5
"""Of the memory that is free once the weights are loaded, how much a batch may take by our reckoning."""

FEWEST_TOKENS, MOST_TOKENS = 4096, 262_144
"""Tokens that a batch may hold: at least, so that long prompts are tried at all, and at most."""

MOST_ON_PROCESSOR = 16_384
"""Tokens that a batch may hold at most on a processor. It computes no faster on larger ones, and what is not answered
yet is lost at Ctrl-C and shows no progress."""

UNKNOWN = 2 * 2**30
"""Bytes that are taken to be free where nobody says."""

MEMORY, GROUP = Path("/proc/meminfo"), Path("/sys/fs/cgroup")
"""Where Linux tells how much is free, of the machine and of the container that we may be in."""


def free_bytes(device: str) -> int | None:
    """Bytes that are free on a device such as `cuda:0` or `cpu`; None if nobody says."""
    if device.startswith("cuda"):
        import torch

        return int(torch.cuda.mem_get_info(device)[0])
    return free_of_machine(MEMORY, GROUP) if device == "cpu" else None


def free_of_machine(memory: Path, group: Path) -> int | None:
    """Bytes that may still be taken: what the machine has available, or what is left of a container's limit if less.

    Who takes more is killed by the kernel, without a word. Source: proc(5), and the kernel's `cgroup-v2`.
    """
    free: list[int] = []
    with suppress(OSError, ValueError):
        for line in memory.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                free.append(int(line.split()[1]) * 1024)
    with suppress(OSError, ValueError):
        limit = int((group / "memory.max").read_text(encoding="ascii"))  # `max`: there is none
        rows = (line.split() for line in (group / "memory.stat").read_text(encoding="ascii").splitlines())
        of_files = next(int(row[1]) for row in rows if row[0] == "inactive_file")  # given back when it is needed
        free.append(limit - int((group / "memory.current").read_text(encoding="ascii")) + of_files)
    return max(min(free), 0) if free else None


def bytes_per_token(config: Mapping[str, Any], itemsize: int) -> int:
    """Bytes that attention remembers of one token, by the configuration; reckoned twice, for what else it needs.

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
    """Tokens of a batch, given the bytes that are free, if that is known, and those that one token needs.

    >>> tokens_that_fit(10 * 2**30, 262144), tokens_that_fit(0, 262144)
    (20480, 4096)
    """
    return max(FEWEST_TOKENS, min(most, int((UNKNOWN if free is None else free) * SHARE_OF_MEMORY) // max(each, 1)))


def is_short_of_memory(error: BaseException) -> bool:
    """Whether a computation failed for want of memory, of a GPU or of the machine."""
    import torch

    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and "not enough memory" in str(error).lower()
