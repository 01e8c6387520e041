"""Numbers that one process at a time may hold: requests in flight, so that two processes do not pay for the same one.

A number is a byte of an empty file, and holding it is an advisory lock on that byte. The operating system releases
the locks of a process however it ends, so nothing is left to clean up and no process id can be mistaken for another. It
takes microseconds and writes nothing, unlike a row in a database.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

from medhelm.errors import StoreError

try:
    import fcntl
except ImportError:  # Windows: each process then sends its own requests
    fcntl = None  # type: ignore[assignment]

POSITIONS = 2**62
"""Positions of a file that can be locked."""


class HeldNumbers:
    """Numbers held by this process, among all that open the same file on a local disk."""

    def __init__(self, path: Path) -> None:
        """Open or create the file. Raises: StoreError."""
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreError(
                f"{path} cannot be opened for writing: {error.strerror}. Check its permissions."
            ) from error

    def take(self, number: int) -> bool:
        """Hold a number; return False if another process holds it."""
        return self._set(number, held=True)

    def release(self, number: int) -> None:
        """Stop holding a number."""
        self._set(number, held=False)

    def close(self) -> None:
        """Close the file and release all numbers. May be called more than once."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

    def _set(self, number: int, *, held: bool) -> bool:
        if fcntl is None:
            return True
        start = number % POSITIONS
        try:
            if hasattr(fcntl, "F_OFD_SETLK") and struct.calcsize("P") == 8:
                # A lock of the open file, not of the process: two sessions in one process exclude each other, too.
                lock = struct.pack("hhqqi4x", fcntl.F_WRLCK if held else fcntl.F_UNLCK, os.SEEK_SET, start, 1, 0)
                fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, lock)
            else:
                fcntl.lockf(self._file, (fcntl.LOCK_EX | fcntl.LOCK_NB) if held else fcntl.LOCK_UN, 1, start)
        except OSError as error:
            # Any other error: a file system without locks, where requests are sent without them.
            return not isinstance(error, BlockingIOError | PermissionError)
        return True


def number_of(digest: bytes) -> int:
    """Return the number of a request: a part of its digest."""
    return int.from_bytes(digest[:8]) % POSITIONS
