"""The GPUs of this machine, and how servers share them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

_DRIVER = Path("/proc/driver/nvidia/gpus")

MEMORY_SHARE = 0.9
"""Of a GPU's memory, what all servers on it may take together; vLLM's own choice for one."""


def visible_gpus(environment: Mapping[str, str], driver: Path = _DRIVER) -> list[str]:
    """Names of the GPUs that may be used, as CUDA_VISIBLE_DEVICES has them: numbers, or what that variable says."""
    chosen = environment.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return [name.strip() for name in chosen.split(",") if name.strip() not in ("", "-1", "NoDevFiles")]
    if driver.is_dir():
        return [str(number) for number in range(sum(1 for _ in driver.iterdir()))]
    program = shutil.which("nvidia-smi", path=environment.get("PATH"))
    if not program:
        return []
    try:
        done = subprocess.run([program, "-L"], capture_output=True, text=True, timeout=20, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [str(number) for number in range(sum(line.startswith("GPU ") for line in done.stdout.splitlines()))]


def shares(gpus: Sequence[str], servers: int) -> list[tuple[list[str], float]]:
    """For each of so many servers its GPUs and the part of their memory that it may take.

    As long as there are enough GPUs each server has its own; else several share one, and its memory.

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


def tensor_parallel(gpus: int, heads: int) -> int:
    """Over how many of its GPUs a model is split: as many as divide its attention heads evenly; 0: heads not known.

    >>> tensor_parallel(8, 28), tensor_parallel(3, 32), tensor_parallel(4, 0)
    (7, 2, 4)
    """
    return next((n for n in range(gpus, 0, -1) if heads % n == 0), 1)
