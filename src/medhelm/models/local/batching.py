"""Which of the requests that wait are answered together. Pure: numbers in, numbers out.

A batch is padded to its longest prompt, and goes on until its last answer ends. So requests of like limits are put
together first, and of those the ones of like length; the longest go first, so that what does not fit into memory shows
at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MOST_PADDING = 1.5
"""Places of a batch, padding included, for each that its prompts and answers may need; more would cost too much."""


@dataclass(frozen=True, slots=True)
class RequestSize:
    """How large one request is, in tokens."""

    prompt: int
    """Tokens of its prompt."""
    limit: int
    """Most tokens of its answer."""


def next_batch(waiting: Sequence[RequestSize], *, tokens: int, rows: int) -> list[int]:
    """Positions in `waiting`, which is in order of arrival, of the requests to answer next, longest prompt first.

    `tokens`: most tokens that the batch may hold at its end, padding included; `rows`: most requests. There is no more
    padding than `MOST_PADDING` allows, and one request is taken whatever its size. The oldest request says which limits
    have their turn, so that none waits for ever.

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
    chosen: list[int] = []
    limit = needed = 0
    for position in alike[:rows]:
        limit = max(limit, waiting[position].limit)
        needed += waiting[position].prompt + waiting[position].limit
        if chosen and (len(chosen) + 1) * (width + limit) > min(tokens, MOST_PADDING * needed):
            break
        chosen.append(position)
    return chosen
