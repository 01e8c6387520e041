"""Prompt caching: the order in which prompts with shared prefixes are sent.

Many providers cache the prefix of a prompt for some minutes and charge a tenth to a half of the price when it is sent
again. It is cached once the first completion has begun. Requests sent at the same time pay in full, at some providers
even more, because writing to the cache has its own price. So one request is sent first, and the others with the same
prefix after it.
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

MIN_CHARACTERS = 2560
"""No provider caches shorter prefixes: the minimum is 1,024 tokens, at 2.5 characters per token."""

MAX_KNOWN = 65_536
"""Most prefixes that are remembered: judges alone have one for each completion."""


@dataclass(frozen=True, slots=True)
class CachePrices:
    """Prices of a provider's cache, relative to the price of input."""

    read: float
    """Price of a token read from the cache."""
    write: float
    """Price of a token written to the cache; 1 if that is not charged."""

    def saved(self, n: int) -> float:
        """Return what `n` prompts with the same prefix save, in prices of the prefix; negative if it costs more."""
        return n - self.write - self.read * (n - 1)


def cache_prices(model: Model) -> CachePrices | None:
    """Return the cache prices of a model's provider; None if it saves nothing, or the prices are unknown."""
    price = model.price
    if price is None or price.cached_input is None or not price.cached_input < price.input:
        return None
    write = price.input if price.cache_write is None else price.cache_write
    return CachePrices(price.cached_input / price.input, write / price.input)


@dataclass(frozen=True, slots=True)
class OrderedPrompt:
    """One prompt in the order of sending."""

    position: int
    """Its position among the prompts."""
    shared: int
    """Length of the prefix that its group shares, in characters; 0 if it is in no group."""


def order_by_shared_prefix(prompts: Sequence[str], rates: CachePrices, lead: int) -> list[OrderedPrompt]:
    """Return the order of sending in which shared prefixes save the most.

    Prompts that share a long prefix form a group and are sent one after another, from the position of the first; all
    others keep their positions. The first of each group is sent `lead` positions earlier, so that its prefix is cached
    when the others follow. Each prompt belongs to one group: of nested groups, those that save the most are taken.
    """
    order = sorted(range(len(prompts)), key=prompts.__getitem__)
    alike = [_common_prefix(prompts[one], prompts[other]) for one, other in pairwise(order)]
    groups = [(sorted(order[one] for one in members), length) for members, length in _groups(alike, rates)]
    grouped = {position for members, _ in groups for position in members}
    groups += [([position], 0) for position in range(len(prompts)) if position not in grouped]
    ordered: list[tuple[int, OrderedPrompt]] = []
    for members, length in sorted(groups):
        for position in members:
            is_first = length and position == members[0]
            ordered.append((len(ordered) - (lead if is_first else 0), OrderedPrompt(position, length)))
    return [prompt for _, prompt in sorted(ordered, key=lambda one: one[0])]


def shared_prefix(prompts: Sequence[str], rates: CachePrices) -> int:
    """Return the length of the prefix of all prompts, if sending one first is cheaper; else 0."""
    length = _common_prefix(min(prompts), max(prompts)) if len(prompts) > 1 else 0
    return length if length >= MIN_CHARACTERS and rates.saved(len(prompts)) > 0 else 0


def _common_prefix(one: str, other: str) -> int:
    """Return the length of the common prefix, up to the end of a word: a cut inside a word changes its tokens."""
    length = bisect_left(range(1, min(len(one), len(other)) + 1), True, key=lambda n: one[:n] != other[:n])
    return max(one.rfind("\n", 0, length) + 1, one.rfind(" ", 0, length), 0)


def _groups(alike: Sequence[int], rates: CachePrices) -> list[tuple[range, int]]:
    """Return the groups that save the most together: positions among the sorted prompts, and the shared length.

    `alike`: the length that each of the sorted prompts shares with the next. Solved by dynamic programming over the
    first 1, 2, 3, ... prompts.
    """
    saved, last = [0.0, 0.0], [(range(0), 0), (range(0), 0)]
    for end in range(2, len(alike) + 2):
        best, group, length = saved[-1], (range(0), 0), alike[end - 2]
        for start in range(end - 2, -1, -1):
            length = min(length, alike[start])
            if length < MIN_CHARACTERS:
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
    """Sends the first request with a prefix before all others that share it."""

    def __init__(self) -> None:
        """Start without any known prefix."""
        self._in_flight: dict[bytes, asyncio.Event] = {}
        self._known: set[bytes] = set()

    @asynccontextmanager
    async def turn(self, request: Request) -> AsyncIterator[None]:
        """Wait until a request may be sent: at once if it is the first, else once the first has completed or failed."""
        text = f"{request.model.name}\0{request.shared_prefix}"
        key = hashlib.blake2b(text.encode(errors="replace"), digest_size=16).digest()
        if key in self._known:
            yield
        elif first := self._in_flight.get(key):
            await first.wait()
            yield
        else:
            self._in_flight[key] = asyncio.Event()
            try:
                yield
            finally:
                if len(self._known) >= MAX_KNOWN:
                    self._known.clear()  # then one is sent first again, which costs little
                self._known.add(key)
                self._in_flight.pop(key).set()
