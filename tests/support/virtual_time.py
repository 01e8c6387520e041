"""An event loop whose time passes only when there is nothing else to do: hours of waiting are simulated in no time."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Selector(selectors.SelectSelector):
    """Does not wait for a timeout, but says that it is over."""

    passed_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "deadlock: everybody waits, and no timer is set"
        self.passed_s += max(0.0, timeout)
        return super().select(0)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """For coroutines that wait for each other and for timers only, not for other processes or threads."""

    def __init__(self) -> None:
        """Time starts at 0."""
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        """Seconds that were waited."""
        return self._virtual.passed_s

    def suspend(self, seconds: float) -> None:
        """Let time pass in which nothing runs, as after Ctrl-Z."""
        self._virtual.passed_s += seconds


def run(main: Coroutine[Any, Any, T]) -> T:
    """Like `asyncio.run`, in virtual time; `asyncio.get_running_loop().time` is the clock."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)
