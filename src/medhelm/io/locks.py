"""Numbers that one process at a time may hold: requests in flight, so that two processes do not pay for the same one.

A number is a position in a file, and holding it is an advisory lock on that position. The operating system releases
the locks of a process however it ends, so nothing is left to clean up and no process id can be mistaken for another. It
takes microseconds and writes nothing, unlike a row in a database. The file has one byte for each time it was opened.
"""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from medhelm.errors import StoreError
from medhelm.io.files import open_shared
from medhelm.io.system_errors import error_class

# --- number locks -----------------------------------------------------------------------------------------------------

try:
    import fcntl
except ImportError:  # Windows: each process then sends its own requests
    fcntl = None  # type: ignore[assignment]

POSITIONS = 2**62
"""Positions of a file that represent numbers."""

FIRST = POSITIONS
"""Position that is held by a process that opened the file while no other had it open."""


class NumberLocks:
    """Numbers held by this process, among all that open the same file on a local disk."""

    def __init__(self, path: Path) -> None:
        """Open or create the file. Raises: StoreError."""
        try:
            self._file = open_shared(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        except OSError as error:
            raise error_class(error, StoreError)(
                f"{path} cannot be opened for writing: {error.strerror}. Check its permissions."
            ) from error
        self._was_first = self._lock(FIRST, held=True) is True
        self._size = self._add_byte()

    @property
    def is_alone(self) -> bool:
        """True if no other process has had the file open since this one opened it."""
        return self._was_first and os.fstat(self._file).st_size == self._size

    def take(self, number: int) -> bool:
        """Hold a number; return False if another process holds it. Without locks every number can be held."""
        return self._lock(number % POSITIONS, held=True) is not False

    def release(self, number: int) -> None:
        """Stop holding a number."""
        self._lock(number % POSITIONS, held=False)

    def close(self) -> None:
        """Close the file and release all numbers. May be called more than once."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

    def _add_byte(self) -> int:
        """Append a byte, which shows others that this process came; return where it ends, -1 if there is no room."""
        try:
            os.write(self._file, b"\0")
        except OSError:  # a full disk
            return -1
        return os.lseek(self._file, 0, os.SEEK_CUR)

    def _lock(self, position: int, *, held: bool) -> bool | None:
        """Lock or unlock a position; False if another process holds it, None on a system or disk without locks."""
        if fcntl is None:
            return None
        try:
            if hasattr(fcntl, "F_OFD_SETLK") and struct.calcsize("P") == 8:
                # A lock of the open file, not of the process: two sessions in one process exclude each other, too.
                lock = struct.pack("hhqqi4x", fcntl.F_WRLCK if held else fcntl.F_UNLCK, os.SEEK_SET, position, 1, 0)
                fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, lock)
            else:
                fcntl.lockf(self._file, (fcntl.LOCK_EX | fcntl.LOCK_NB) if held else fcntl.LOCK_UN, 1, position)
        except OSError as error:
            return False if isinstance(error, BlockingIOError | PermissionError) else None
        return True


def number_of(digest: bytes) -> int:
    """Return the number of a request: a part of its digest."""
    return int.from_bytes(digest[:8]) % POSITIONS


# --- threads ----------------------------------------------------------------------------------------------------------
# Work in threads that a task waits for, even if the task is canceled.

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
