"""How many of a processor's threads a step of a computation is worth.

Threads wait for each other after every operation. Where an operation is small that costs more than it saves, and on a
machine that has other things to do a hundred times more. So a step takes a further thread only for work that is worth
it, by its size alone: the same batch is always computed in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

WORTH_S = 1e-4
"""Work of one operation for which a further thread is taken; waiting for one costs about a tenth of it."""

OPERATIONS_PER_S, BYTES_PER_S = 5e10, 1e10
"""What one thread computes, and reads from memory, of today's processors; their order of magnitude."""


def threads_for(parameters: float, tokens: int, *, most: int, itemsize: int = 4) -> int:
    """Threads for a step over so many tokens, with matrices of so many `parameters` on average; 1 to `most`.

    A model of a few thousand parameters takes one, unless it reads a long prompt; one of billions takes all.

    >>> threads_for(23_000, 16, most=8), threads_for(23_000, 2000, most=8), threads_for(3e7, 1, most=64)
    (1, 8, 64)
    """
    seconds = max(2 * parameters * tokens / OPERATIONS_PER_S, itemsize * parameters / BYTES_PER_S)
    return max(1, min(most, int(seconds / WORTH_S)))


@contextmanager
def as_many_as_before() -> Iterator[int]:
    """Within it the number of torch's threads may change; it is given, and comes back."""
    import torch

    before = torch.get_num_threads()
    try:
        yield before
    finally:
        torch.set_num_threads(before)
