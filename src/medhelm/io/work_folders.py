"""Folders for unfinished output, which a later process removes if their own process was killed.

A working folder lies beside its target under the name `.medhelm-HEX`, so that finished output is renamed into place.
Its process holds a lock on it, which the operating system releases however the process ends. So a folder whose lock is
free is a leftover. Only its owner can read it. File systems without locks on folders, such as NFS, keep leftovers.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from tempfile import gettempdir
from time import time
from types import TracebackType
from typing import Self

from medhelm.io import files

try:
    import fcntl
except ImportError:  # Windows: nothing is locked, and nothing is cleared
    fcntl = None  # type: ignore[assignment]

PREFIX = ".medhelm-"
"""First characters of the names of working folders."""

REPLACED = "replaced"
"""Subfolder with older output, under its own name, while the new output takes its place."""

DEAD = ".purged-"
"""First characters of the name of a folder that is being deleted."""

_NO_LOCK = -1

_DAY_S = 24 * 3600.0
"""Age from which output without a lock is a leftover."""

_cleared: set[Path] = set()
"""Folders that this process has looked into; leftovers appear rarely, and output is written often."""


class WorkFolder:
    """A folder for unfinished output, removed when it is closed."""

    def __init__(self, *parents: Path) -> None:
        """Make the folder in the first of `parents` that can be written, and clear leftovers there. Raises: OSError."""
        for place in parents[:-1]:
            with suppress(OSError):
                self._make(place)
                return
        self._make(parents[-1])

    def _make(self, parent: Path) -> None:
        clear_leftovers(parent)
        while True:
            self.path = parent / f"{PREFIX}{token_hex(4)}"
            self.path.mkdir(mode=0o700)
            try:
                lock = _lock(self.path, wait=True)
            except OSError:  # such as too many open files
                self.path.rmdir()
                raise
            if lock is not None:  # else a process that clears leftovers came between
                self._lock = lock
                return

    def place_of_older(self, name: str) -> Path:
        """Return the place for older output while new output takes its name. It returns if the process is killed."""
        (self.path / REPLACED).mkdir()
        return self.path / REPLACED / name

    def close(self) -> None:
        """Remove the folder with all that is in it. May be called more than once."""
        with suppress(OSError):
            _remove(self.path)
        lock, self._lock = self._lock, _NO_LOCK
        if lock != _NO_LOCK:
            os.close(lock)
        if files.cipher is not None:
            files.cipher.forget(self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def temporary_folder(*parents: Path) -> WorkFolder:
    """Make a working folder in the first of `parents` that can be written, else in the system's temporary folder."""
    work = WorkFolder(*parents, Path(gettempdir()))
    if files.cipher is not None:  # what belongs to an encrypted store is not copied as plain text
        files.cipher.protect(work.path)
    return work


def delete_folder(folder: Path) -> None:
    """Delete a folder for good, if it exists.

    It first gets a name that no other code knows. So nothing can put it in place, or write to it by its name, while it
    is being deleted, and a deletion that is cut short leaves nothing that looks whole. Raises: OSError.
    """
    dead = folder.with_name(f"{DEAD}{token_hex(8)}")
    with suppress(FileNotFoundError):
        folder.rename(dead)
        shutil.rmtree(dead)


def clear_leftovers(parent: Path) -> None:
    """Remove the working folders that killed processes of this user left in a folder. Looks once per process."""
    parent = parent.absolute()
    if parent in _cleared:
        return
    _cleared.add(parent)
    for name in _names(parent):
        if name.startswith(PREFIX):
            with suppress(OSError):
                _clear(parent / name)


def clear_old(parent: Path, names: re.Pattern[str], *, keep: Callable[[Path], bool] = lambda _: False) -> None:
    """Remove files and folders of this user that have such names, no lock, and more than a day of age.

    `keep`: returns True for a folder that stays.
    """
    for name in filter(names.fullmatch, _names(parent)):
        path = parent / name
        with suppress(OSError):
            about = path.lstat()
            if about.st_uid != os.geteuid() or time() - about.st_mtime < _DAY_S:
                continue
            if not path.is_dir() or path.is_symlink():
                path.unlink()
            elif not keep(path):
                shutil.rmtree(path)


def _names(folder: Path) -> Iterable[str]:
    """Return the names in a folder; none if it cannot be read."""
    try:
        return os.listdir(folder)  # noqa: PTH208 - called by every command, on folders with thousands of files
    except OSError:
        return []


def _clear(folder: Path) -> None:
    """Remove a working folder unless its process lives."""
    lock = _lock(folder, wait=False)
    if lock is None or lock == _NO_LOCK:
        return
    try:
        if os.fstat(lock).st_uid == os.geteuid():
            _remove(folder)
    finally:
        os.close(lock)


def _remove(folder: Path) -> None:
    """Remove a working folder; output in `REPLACED` goes back to its place, unless the new output is there."""
    for older in (folder / REPLACED).glob("*"):
        place = folder.parent / older.name
        if not place.exists():
            older.rename(place)
    shutil.rmtree(folder)


def _lock(folder: Path, *, wait: bool) -> int | None:
    """Lock a folder; return a descriptor, `_NO_LOCK` without locks, None if it is locked or gone. Raises: OSError."""
    if fcntl is None:
        return _NO_LOCK
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        if folder.exists():
            return descriptor
    except BlockingIOError:
        pass
    except OSError:
        os.close(descriptor)
        return _NO_LOCK
    os.close(descriptor)
    return None
