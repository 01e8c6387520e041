"""Output that is complete or absent, whatever ends the process: single files and folders.

Everything is written to a hidden folder beside its place (see `io.work_folders`) and then renamed, so that a crash or a
full disk never leaves half a file or folder.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from medhelm.errors import MedHelmError, StoreFullError, UserError
from medhelm.io.files import open_file
from medhelm.io.system_errors import DISK_FULL, error_class, is_database_disk_error, reason


@contextmanager
def output_errors(place: Path, kind: str = "folder") -> Iterator[None]:
    """Convert disk errors about an output, also those of DuckDB, see `output_error`. `kind`: a file or a folder."""
    try:
        yield
    except OSError as error:
        raise output_error(place, error, f"name another {kind}") from error
    except Exception as error:
        if not is_database_disk_error(error):
            raise
        text = f"{place} cannot be written: {reason(error)}. Free some space, or name another {kind}."
        raise StoreFullError(text) from error


def output_error(place: Path | str, error: OSError, advice: str, wrong: type[MedHelmError] = UserError) -> MedHelmError:
    """Return the error for a place that cannot be written: StoreFullError if the disk is full or fails, else `wrong`.

    `advice`: the fix, without its capital letter and its period.
    """
    is_full = error.errno in DISK_FULL
    advice = f"Free some space, or {advice}" if is_full else advice[0].upper() + advice[1:]
    return error_class(error, wrong)(f"{place} cannot be written: {error.strerror or error}. {advice}.")


@contextmanager
def atomic_file(path: Path, *, durable: bool = False, hidden_in: Path | None = None) -> Iterator[Path]:
    """Yield a hidden path to write to; rename it to `path` if the block succeeds, else remove it.

    `durable`: the file survives a power failure once the block has ended. `hidden_in`: folder of the hidden path, which
    later commands look into; that of the file by default, or if the two are not on one file system. Raises: OSError.
    """
    from medhelm.io.work_folders import WorkFolder  # lazy here and below: nothing is written at the start

    path.parent.mkdir(parents=True, exist_ok=True)
    if hidden_in is None or hidden_in.stat().st_dev != path.parent.stat().st_dev:
        hidden_in = path.parent
    with WorkFolder(hidden_in.absolute()) as work:
        new = work.path / path.name
        yield new
        if durable:
            put_file(new, path)
        else:
            new.replace(path)


def write_file(path: Path, content: str, *, durable: bool = False) -> None:
    """Write a UTF-8 text file atomically. Raises: OSError."""
    with atomic_file(path, durable=durable) as new:
        new.write_text(content, encoding="utf-8")


def write_confidential(path: Path, content: str) -> None:
    """Write a UTF-8 text file atomically, encrypted if its folder is. Raises: OSError."""
    with atomic_file(path) as new, open_file(new, "wb") as file:
        file.write(content.encode())


@contextmanager
def atomic_folder(folder: Path, *, replace: bool = True, durable: bool = False) -> Iterator[Path]:
    """Yield a hidden empty folder; rename it to `folder` if the block succeeds, else remove it.

    `replace`: an existing folder is removed once the new one is in place; else it is an error. `durable`: the folder
    survives a power failure once the block has ended. Raises: OSError.
    """
    from medhelm.io.work_folders import WorkFolder

    folder = folder.absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with WorkFolder(folder.parent) as work:
        new = work.path / folder.name
        new.mkdir(mode=0o770)  # never for all users of the machine; a stricter umask counts
        yield new
        if durable:
            sync_tree(new)
        if replace:
            replace_folder(new, folder, old=work.place_of_older(folder.name))
        else:
            new.rename(folder)
        if durable:
            sync_folder(folder.parent)
            sync_folder(folder.parent.parent)


def replace_folder(new: Path, folder: Path, *, old: Path) -> None:
    """Rename `new` to `folder`. An older folder moves to `old`, and is removed last, or restored on failure."""
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
    """Rename a file to `path`, and sync both to the disk, so that it survives a power failure. Raises: OSError."""
    _sync(new, os.O_RDWR)
    new.replace(path)
    sync_folder(path.parent)


def sync_tree(folder: Path) -> None:
    """Sync a folder and all its files to the disk, so that they survive a power failure. Raises: OSError."""
    for place, _, names in os.walk(folder):
        for name in names:
            _sync(Path(place, name), os.O_RDWR)
        sync_folder(Path(place))


def sync_folder(folder: Path) -> None:
    """Sync the entries of a folder to the disk, if the system can."""
    with suppress(OSError):
        _sync(folder, os.O_RDONLY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
