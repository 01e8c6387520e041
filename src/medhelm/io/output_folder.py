"""Output that is complete or absent, whatever ends the process: single files and folders.

Everything is written under a hidden name beside its place and then renamed, so that a crash or a full disk never leaves
half a file or folder.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def beside(path: Path, suffix: str = "") -> Path:
    """Return a hidden, unused path next to `path`, to write to before renaming."""
    return path.with_name(f".{path.name}-{secrets.token_hex(4)}{suffix}")


@contextmanager
def atomic_file(path: Path, *, durable: bool = False) -> Iterator[Path]:
    """Yield a hidden path to write to; rename it to `path` if the block succeeds, else remove it.

    `durable`: the file survives a power failure once the block has ended. Raises: OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    new = beside(path.absolute())
    try:
        yield new
        if durable:
            put_file(new, path)
        else:
            new.replace(path)
    except BaseException:
        with suppress(OSError):
            new.unlink(missing_ok=True)
        raise


def write_file(path: Path, content: str, *, durable: bool = False) -> None:
    """Write a UTF-8 text file atomically. Raises: OSError."""
    with atomic_file(path, durable=durable) as new:
        new.write_text(content, encoding="utf-8")


@contextmanager
def atomic_folder(folder: Path, *, replace: bool = True, durable: bool = False) -> Iterator[Path]:
    """Yield a hidden empty folder; rename it to `folder` if the block succeeds, else remove it.

    `replace`: an existing folder is removed once the new one is in place; else it is an error. `durable`: the folder
    survives a power failure once the block has ended. Raises: OSError.
    """
    folder = folder.absolute()
    new = beside(folder)
    try:
        new.mkdir(parents=True)
        yield new
        if durable:
            sync_tree(new)
        if replace:
            replace_folder(new, folder)
        else:
            new.rename(folder)
        if durable:
            sync_folder(folder.parent)
            sync_folder(folder.parent.parent)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def replace_folder(new: Path, folder: Path) -> None:
    """Rename `new` to `folder`. An older folder is moved aside first, and removed last, or restored on failure."""
    old = beside(folder)
    if folder.exists():
        folder.rename(old)
    try:
        new.rename(folder)
    except BaseException:
        if old.exists():
            old.rename(folder)
        raise
    shutil.rmtree(old, ignore_errors=True)


def put_file(new: Path, path: Path) -> None:
    """Rename a file to `path`, where it then survives a power failure. Raises: OSError."""
    _sync(new, os.O_RDWR)
    new.replace(path)
    sync_folder(path.parent)


def sync_tree(folder: Path) -> None:
    """Write a folder and all its files to the disk itself, to survive a power failure. Raises: OSError."""
    for place, _, names in os.walk(folder):
        for name in names:
            _sync(Path(place, name), os.O_RDWR)
        sync_folder(Path(place))


def sync_folder(folder: Path) -> None:
    """Write the entries of a folder to the disk itself, where the system can do so."""
    with suppress(OSError):
        _sync(folder, os.O_RDONLY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
