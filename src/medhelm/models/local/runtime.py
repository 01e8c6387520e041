"""What the models of one session share on this machine: memory, processors, and an end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Hashable
from typing import Protocol, TypeVar, cast


class Closable(Protocol):
    """Something that was started on this machine and has to be ended."""

    async def close(self) -> None:
        """End it, and leave nothing behind. May be called more than once."""


T = TypeVar("T", bound=Closable)


def _say_nothing(text: str) -> None:
    """Nobody listens."""


class LocalRuntime:
    """Keeps what is started for models, so that two names for one model share it, and ends it all at the end."""

    def __init__(self, note: Callable[[str], object] | None = None) -> None:
        """`note` is told what a person should know; it is called in the event loop."""
        self.note = note or _say_nothing
        self.turn = threading.Lock()
        """Held by the one model that computes in this process now: together they would only slow each other down."""
        self.starting = asyncio.Lock()
        """Held by the one server that starts now: each measures the memory that is free."""
        self._opened: dict[Hashable, Closable] = {}

    def shared(self, key: Hashable, make: Callable[[], T]) -> T:
        """What was made for this key before, or what `make` makes now."""
        if key not in self._opened:
            self._opened[key] = make()
        return cast("T", self._opened[key])

    def opened(self, kind: type[T]) -> list[T]:
        """All of one kind, in the order in which they were opened."""
        return [each for each in list(self._opened.values()) if isinstance(each, kind)]

    async def close(self) -> None:
        """End everything, all at once: none waits for the others, whose errors do not keep it alive."""
        ending = [each.close() for each in self._opened.values()]
        self._opened.clear()
        for outcome in await asyncio.gather(*ending, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome
