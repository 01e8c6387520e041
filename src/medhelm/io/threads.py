"""Work in threads that a task waits for, even if the task is canceled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


async def finish_in_thread(work: Callable[[], T]) -> T:
    """Return the result of `work`, which runs in a thread.

    A thread cannot be canceled. If the calling task is, it still waits for the end of the thread, so that whatever
    cleans up after the task never deletes what the thread is writing.
    """
    thread = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(thread)
    except asyncio.CancelledError:
        while not thread.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([thread])
        if not thread.cancelled():
            thread.exception()  # the error that canceled the task is reported instead
        raise
