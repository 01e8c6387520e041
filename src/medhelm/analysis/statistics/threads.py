"""Compute several results at a time: NumPy lets other threads work while it sorts, multiplies and sums."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from os import cpu_count
from typing import TypeVar

LEAST = 200_000
"""Numbers in one result from which threads are worth their cost."""

MOST_THREADS = 4
"""More threads would need more memory, each for arrays of its own."""

REUSED_BYTES = 31 * 2**20
"""Size of arrays up to which freed memory is used again, see `_reuse_memory`; the C library's limit is 32 MiB."""

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_threads(function: Callable[[Item], Result], items: Sequence[Item], *, size: int) -> Iterator[Result]:
    """Yield the result of each item, in order; a few results are computed ahead of the one that is used.

    `size`: numbers that one result is made from. Few are not worth a thread.
    """
    n_threads = min(MOST_THREADS, cpu_count() or 1, len(items))
    if n_threads < 2 or size < LEAST:
        yield from map(function, items)
        return
    _reuse_memory()
    with ThreadPoolExecutor(n_threads) as pool:
        waiting: deque[Future[Result]] = deque()
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > n_threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _reuse_memory() -> None:
    """Let the C library of Linux keep the memory of freed arrays for the next ones.

    Otherwise the system takes it back and clears it again for each array: a seventh of the time of a large leaderboard.
    The library keeps blocks up to the size of the largest one that was ever freed, so this makes and frees one. It is
    never written, and takes no memory.
    """
    import numpy as np

    np.empty(REUSED_BYTES, np.uint8)
