"""Resources on this machine that the models of one session share, and their cleanup."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any, Protocol, TypeVar, cast

from medhelm.io.http.audit import Subject


class Closable(Protocol):
    """A model or server that was started on this machine and has to be closed."""

    async def close(self) -> None:
        """Close it and release all its resources. May be called more than once."""


class Cluster(Closable, Protocol):
    """Actors on the machines of a cluster, which compute models and neural metrics."""

    size: int

    async def call(self, method: str, *arguments: object, subject: Subject, n_bytes: int) -> Any:
        """Call a method of some actor."""


T = TypeVar("T", bound=Closable)


class LocalRuntime:
    """Holds the models and servers of a session, shares them between names of one model, and closes them."""

    def __init__(self, note: Callable[[str], object] | None = None) -> None:
        """`note` shows a message to the user; it is called in the event loop."""
        import asyncio  # lazy here and below: commands that read results need the names of the providers only

        self.note = note or (lambda _: None)
        self.turn = threading.Lock()
        """Held by the model that computes in this process: several at once would only slow each other down."""
        self.starting = asyncio.Lock()
        """Held by the server that is starting: each start measures the free memory."""
        self.cluster: Cluster | None = None
        """The actors that compute models and neural metrics in place of this process; None without a cluster."""
        self._opened: dict[Hashable, Closable] = {}

    def shared(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the object of this key; the first call makes it with `make`."""
        if key not in self._opened:
            self._opened[key] = make()
        return cast("T", self._opened[key])

    def opened(self, kind: type[T]) -> list[T]:
        """Return all objects of one type, in the order of opening."""
        return [each for each in list(self._opened.values()) if isinstance(each, kind)]

    async def close(self) -> None:
        """Close everything concurrently, then raise the first error."""
        import asyncio

        ending = [each.close() for each in self._opened.values()]
        self._opened.clear()
        for outcome in await asyncio.gather(*ending, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome
