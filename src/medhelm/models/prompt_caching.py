"""Prompt caching: prompts that begin alike, and in which order they are sent.

Many providers keep the beginning of a prompt for some minutes and read it at a tenth to a half of the price when it
comes again. It is there once the first answer has begun; what is sent at the same time pays in full, and at some
providers more than that, because writing into the cache has a price of its own. So one request goes first, and the
others with the same beginning after it.
"""

from __future__ import annotations

import asyncio
import hashlib
from bisect import bisect_left
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise

from medhelm.domain import Model, Request

LEAST_CHARACTERS = 2560
"""Shorter beginnings are kept by nobody: 1,024 tokens is the least there is, at 2.5 characters a token."""

MOST_KNOWN = 65_536
"""Beginnings that are remembered at once: judges alone have one for each completion."""


@dataclass(frozen=True, slots=True)
class CachePrices:
    """What a provider's cache costs, in parts of the price of input."""

    read: float
    """A token that was there."""
    write: float
    """A token that is put there, 1 where nothing is charged for it."""

    def saved(self, n: int) -> float:
        """What `n` prompts with the same beginning save, in prices of one beginning; below 0 if it costs more."""
        return n - self.write - self.read * (n - 1)


def cache_prices(model: Model) -> CachePrices | None:
    """What the cache of a model's provider costs; None if it saves nothing, or that is not known."""
    price = model.price
    if price is None or price.cached_input is None or not price.cached_input < price.input:
        return None
    write = price.input if price.cache_write is None else price.cache_write
    return CachePrices(price.cached_input / price.input, write / price.input)


@dataclass(frozen=True, slots=True)
class OrderedPrompt:
    """One prompt in the order in which it is sent."""

    position: int
    """Its place among the prompts."""
    shared: int
    """Characters it begins with that others of its group share; 0 if it stands alone."""


def order_by_shared_prefix(prompts: Sequence[str], rates: CachePrices, ahead: int) -> list[OrderedPrompt]:
    """The order of sending in which beginnings that prompts share are worth the most.

    Prompts that share a long beginning form a group and are sent one after another, from where the first of them
    stands; all others keep their places. The first of each group is sent `ahead` places earlier, so that the cache has
    its beginning when the others come. Each prompt belongs to one group: where groups lie within others, those are
    taken that save the most.
    """
    order = sorted(range(len(prompts)), key=prompts.__getitem__)
    alike = [_alike(prompts[one], prompts[other]) for one, other in pairwise(order)]
    groups = [(sorted(order[one] for one in members), length) for members, length in _groups(alike, rates)]
    grouped = {position for members, _ in groups for position in members}
    groups += [([position], 0) for position in range(len(prompts)) if position not in grouped]
    found: list[tuple[int, OrderedPrompt]] = []
    for members, length in sorted(groups):
        for position in members:
            leads = length and position == members[0]
            found.append((len(found) - (ahead if leads else 0), OrderedPrompt(position, length)))
    return [turn for _, turn in sorted(found, key=lambda one: one[0])]


def shared_prefix(prompts: Sequence[str], rates: CachePrices) -> int:
    """Characters that all prompts begin with, if sending them once before the others is cheaper; else 0."""
    length = _alike(min(prompts), max(prompts)) if len(prompts) > 1 else 0
    return length if length >= LEAST_CHARACTERS and rates.saved(len(prompts)) > 0 else 0


def _alike(one: str, other: str) -> int:
    """Characters that both begin with, up to the end of a line or of a word: within a word, tokens would be others."""
    length = bisect_left(range(1, min(len(one), len(other)) + 1), True, key=lambda n: one[:n] != other[:n])
    return max(one.rfind("\n", 0, length) + 1, one.rfind(" ", 0, length), 0)


def _groups(alike: Sequence[int], rates: CachePrices) -> list[tuple[range, int]]:
    """The groups that save the most together: members among the sorted prompts, and the characters they share.

    `alike`: what each of the sorted prompts shares with the next. The best ways to divide the first 1, 2, 3, ... of
    them follow from each other.
    """
    saved, last = [0.0, 0.0], [(range(0), 0), (range(0), 0)]
    for end in range(2, len(alike) + 2):
        best, group, length = saved[-1], (range(0), 0), alike[end - 2]
        for start in range(end - 2, -1, -1):
            length = min(length, alike[start])
            if length < LEAST_CHARACTERS:
                break
            if (total := saved[start] + rates.saved(end - start) * length) > best:
                best, group = total, (range(start, end), length)
        saved.append(best)
        last.append(group)
    found, end = [], len(saved) - 1
    while end > 0:
        members, length = last[end]
        found += [(members, length)] if members else []
        end -= len(members) or 1
    return found


class PrefixGate:
    """Lets the first request with a beginning go ahead of all others that share it."""

    def __init__(self) -> None:
        """Nobody has gone ahead yet."""
        self._under_way: dict[bytes, asyncio.Event] = {}
        self._known: set[bytes] = set()

    @asynccontextmanager
    async def turn(self, request: Request) -> AsyncIterator[None]:
        """Within it a request may be sent: at once if it is the first, else when the first was answered, or failed."""
        text = f"{request.model.name}\0{request.shared_prefix}"
        key = hashlib.blake2b(text.encode(errors="replace"), digest_size=16).digest()
        if key in self._known:
            yield
        elif first := self._under_way.get(key):
            await first.wait()
            yield
        else:
            self._under_way[key] = asyncio.Event()
            try:
                yield
            finally:
                if len(self._known) >= MOST_KNOWN:
                    self._known.clear()  # then they go ahead once more, which takes a little time and costs nothing
                self._known.add(key)
                self._under_way.pop(key).set()
