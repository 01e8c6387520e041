"""Ctrl-C and its like, heard by an event loop."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def on_interrupt(action: Callable[[], None]) -> Iterator[None]:
    """Call `action` in the running loop at every Ctrl-C or request to end, as long as the block lasts.

    Where there are no signal handlers, on some systems and in all threads but the first, the default ends the program.
    """
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM)
    try:
        for number in numbers:
            loop.add_signal_handler(number, action)
    except (NotImplementedError, ValueError, RuntimeError):
        yield
        return
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
