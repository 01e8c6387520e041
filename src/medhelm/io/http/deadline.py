"""A time limit that a suspended process does not use up.

A process that was suspended (Ctrl-Z, a frozen container, a paused virtual machine) finds all its timers overdue, and in
the buffers of the operating system the replies that arrived meanwhile. Those were paid for, so they are read first.
"""

from __future__ import annotations

import asyncio
from types import TracebackType

LATE_S = 0.05
"""A timer that is later than this was held up, by a suspension or by other work of the process."""

GRACE_S = 2.0
"""Time to read what has arrived: once, and again after each suspension of at least this length."""


class Deadline:
    """Ends a wait after some seconds: `async with Deadline(30.0): ...`. Raises TimeoutError."""

    def __init__(self, seconds: float) -> None:
        """Nothing runs until it is entered."""
        self._seconds = seconds
        self._wait = asyncio.timeout(None)
        self._is_extended = False

    async def __aenter__(self) -> None:
        await self._wait.__aenter__()
        self._start(self._seconds)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._timer.cancel()
        await self._wait.__aexit__(kind, error, at)

    def _start(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._due = loop.time() + seconds
        self._timer = loop.call_at(self._due, self._expire, loop)

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        if was_suspended(loop, self._due) or (loop.time() - self._due > LATE_S and not self._is_extended):
            self._is_extended = True
            self._start(GRACE_S)
        else:
            self._wait.reschedule(loop.time())


def was_suspended(loop: asyncio.AbstractEventLoop, due: float) -> bool:
    """Return True if a timer is so late that the process must have been suspended. `due`: its time, by the loop."""
    return loop.time() - due > GRACE_S
