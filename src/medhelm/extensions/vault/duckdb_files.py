"""Lets DuckDB read and write encrypted files: a file system of fsspec for the addresses of `io.files.address`.

DuckDB cannot write encrypted Parquet by itself without an extension that it downloads.
"""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock, local
from typing import Any, BinaryIO

from fsspec import AbstractFileSystem

from medhelm.extensions.vault.files import plain_size
from medhelm.io.files import PROTOCOL, open_file


class SharedFile:
    """A file that several threads read, each from its own position.

    DuckDB sets the position of a file and then reads, in two calls, and its threads share an open file. Another thread
    would move the position between the two.
    """

    def __init__(self, file: BinaryIO) -> None:
        """`file`: closed with this one."""
        self._file, self._lock, self._own = file, Lock(), local()

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set the position of this thread's next read."""
        with self._lock:
            if whence == os.SEEK_CUR:
                self._file.seek(self.tell())
            self._own.position = self._file.seek(offset, whence)
        return self.tell()

    def tell(self) -> int:
        """Return the position of this thread's next read."""
        return getattr(self._own, "position", 0)

    def read(self, size: int = -1) -> bytes:
        """Read at this thread's position."""
        with self._lock:
            self._file.seek(self.tell())
            found = self._file.read(size)
            self._own.position = self._file.tell()
        return found

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._file.close()


class EncryptedFiles(AbstractFileSystem):  # type: ignore[misc] # fsspec has no types
    """Files in encrypted folders, by address."""

    protocol = PROTOCOL
    cachable = False

    def open(self, path: str, mode: str = "rb", **_: Any) -> BinaryIO | SharedFile:
        """Open a file."""
        return open_file(_path(path), "wb") if "w" in mode else SharedFile(open_file(_path(path), "rb"))

    def glob(self, path: str, **_: Any) -> list[str]:
        """Return the one file with this address: `sql_path` marks characters that are not wildcards."""
        return [re.sub(r"\[([*?\[])\]", r"\1", path)]

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Return the size of a file."""
        return {"name": path, "size": plain_size(_path(path)), "type": "file"}

    def modified(self, path: str) -> datetime:
        """Return the time of the last change."""
        return datetime.fromtimestamp(_path(path).stat().st_mtime, UTC)


def _path(address: str) -> Path:
    return Path(address.removeprefix(f"{PROTOCOL}://"))
