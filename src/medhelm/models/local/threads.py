"""Choose the number of CPU threads for a step of a computation.

Threads wait for each other after every operation. For a small operation that costs more than it saves, and on a busy
machine a hundred times more. So a step gets a further thread only for enough work. The choice depends on the size of
the work alone, so that the same batch is always computed in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

SECONDS_PER_THREAD = 1e-4
"""Work of one operation that justifies a further thread; waiting for a thread costs about a tenth of it."""

OPERATIONS_PER_S, BYTES_PER_S = 5e10, 1e10
"""Speed of one thread of current CPUs in computing and in reading memory; orders of magnitude."""


def threads_for(parameters: float, tokens: int, *, most: int, itemsize: int = 4) -> int:
    """Return the threads, 1 to `most`, for a step over `tokens` with matrices of `parameters` on average.

    A model with a few thousand parameters gets one thread, except for a long prompt; one with billions gets all.

    >>> threads_for(23_000, 16, most=8), threads_for(23_000, 2000, most=8), threads_for(3e7, 1, most=64)
    (1, 8, 64)
    """
    seconds = max(2 * parameters * tokens / OPERATIONS_PER_S, itemsize * parameters / BYTES_PER_S)
    return max(1, min(most, int(seconds / SECONDS_PER_THREAD)))


@contextmanager
def restored_threads() -> Iterator[int]:
    """Yield the number of torch's threads, and restore it at the end."""
    import torch

    before = torch.get_num_threads()
    try:
        yield before
    finally:
        torch.set_num_threads(before)
