"""Choose the waiting requests that form the next batch.

A batch is padded to its longest prompt, and runs until its last completion ends. So requests are grouped by similar
limits first, and then by similar length. The longest go first, so that lack of memory shows early.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MOST_PADDING = 1.5
"""Largest ratio of a batch's size with padding to the tokens that its prompts and completions may need."""


@dataclass(frozen=True, slots=True)
class RequestSize:
    """Size of one request in tokens."""

    prompt: int
    """Tokens of its prompt."""
    limit: int
    """Most tokens of its completion."""


def next_batch(waiting: Sequence[RequestSize], *, tokens: int, rows: int) -> list[int]:
    """Return the positions in `waiting` (in order of arrival) of the next batch, longest prompt first.

    `tokens`: most tokens that the batch may hold at its end, with padding; `rows`: most requests. Padding stays within
    `MOST_PADDING`, and a batch has at least one request of any size. The oldest request determines the limits of the
    batch, so that none waits forever.

    >>> sizes = [RequestSize(10, 1), RequestSize(90, 400), RequestSize(80, 1), RequestSize(75, 1)]
    >>> next_batch(sizes, tokens=200, rows=8)
    [2, 3]
    """
    if not waiting:
        return []
    turn = waiting[0].limit.bit_length()
    alike = [position for position, size in enumerate(waiting) if size.limit.bit_length() == turn]
    alike.sort(key=lambda position: -waiting[position].prompt)
    width = waiting[alike[0]].prompt
    batch: list[int] = []
    limit = needed = 0
    for position in alike[:rows]:
        limit = max(limit, waiting[position].limit)
        needed += waiting[position].prompt + waiting[position].limit
        if batch and (len(batch) + 1) * (width + limit) > min(tokens, MOST_PADDING * needed):
            break
        batch.append(position)
    return batch
