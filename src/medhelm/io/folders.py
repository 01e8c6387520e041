"""Output that is complete or absent, whatever ends the process: files, folders, exports and reports.

Everything is written to a hidden folder beside its place (`WorkFolder`) and then renamed, so that a crash or a full
disk never leaves half a file or folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from tempfile import gettempdir
from time import time
from types import TracebackType
from typing import Any, Self

from medhelm.domain.text import listed
from medhelm.errors import MedHelmError, StoreFullError, UserError
from medhelm.io import files
from medhelm.io.files import DISK_FULL, error_class, is_database_disk_error, open_file, reason

# --- files and folders ------------------------------------------------------------------------------------------------


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


# --- exports and reports ----------------------------------------------------------------------------------------------
# Folders that list their own content in a manifest.
#
# A folder that holds anything else, or something changed by hand, is never replaced.

EXPORT_MANIFEST = "medhelm-export.json"
"""File that marks a folder as an export and lists its entries; written last."""

REPORT_MANIFEST = "report.json"
"""File that marks a folder as a report and lists its files with their digests; written last."""

REPORT_FORMAT = 1
"""Version of the layout of a report."""

_SYSTEM_FILES = frozenset({".DS_Store", "Thumbs.db"})
"""Files that operating systems put into every folder they display; they may be deleted."""

_MAX_NAMES = 5
"""Most file names in one message."""


@contextmanager
def new_export(folder: Path, kind: str, about: Mapping[str, Any]) -> Iterator[Path]:
    """Yield a hidden folder to fill; add the manifest and rename it to `folder` if the block succeeds.

    Parameters: folder, a new or empty folder, or an export of the same kind with nothing else in it; kind, such as
    `csv`; about, further keys of the manifest.
    Raises: UserError for any other folder, before anything is written, and for one that cannot be made; StoreFullError
    if the disk is full.
    """
    check_export(folder, kind)
    with output_errors(folder), atomic_folder(folder) as new:
        yield new
        entries = sorted(path.name for path in new.iterdir())
        manifest = {"medhelm_export": kind, "entries": [*entries, EXPORT_MANIFEST], **about}
        text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
        (new / EXPORT_MANIFEST).write_text(text, encoding="utf-8")


def check_export(folder: Path, kind: str) -> None:
    """Raise UserError unless an export of this kind can be written to `folder`."""
    entries = _entries(folder)
    if not entries:
        return
    manifest = _read_manifest(folder / EXPORT_MANIFEST)
    if "medhelm_export" not in manifest:
        raise UserError(f"{folder} is not empty and not a medhelm export. Name a new or empty folder.")
    if manifest["medhelm_export"] != kind:
        raise UserError(f"{folder} holds an export of kind `{manifest['medhelm_export']}`. Name a new or empty folder.")
    own = manifest.get("entries")
    if others := sorted(entries - set(own if isinstance(own, list) else ())):
        raise UserError(
            f"{folder} holds more than the export: {listed(others, _MAX_NAMES)}. A new export would delete it. "
            "Move it, or name another folder."
        )


def write_report(folder: Path, files: Mapping[str, bytes], about: Mapping[str, Any]) -> None:
    """Write a report and replace an older one.

    Parameters: files, path within the folder -> content; about, further keys of the manifest.
    Raises: UserError as `check_report`, and for a folder that cannot be made; StoreFullError if the disk is full, and
    then the folder is unchanged.
    """
    check_report(folder)
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    manifest = {"medhelm_report": REPORT_FORMAT, **about, "files": digests}
    with output_errors(folder), atomic_folder(folder) as new:
        for name, content in files.items():
            path = new / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        text = json.dumps(manifest, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        (new / REPORT_MANIFEST).write_text(text, encoding="utf-8")


def check_report(folder: Path) -> None:
    """Raise UserError unless a report may be written to `folder`: it is new, empty, or an unchanged report."""
    if not _entries(folder):
        return
    try:
        manifest = _read_manifest(folder / REPORT_MANIFEST)
        digests: Any = manifest.get("files")
        is_report = manifest.get("medhelm_report") == REPORT_FORMAT and isinstance(digests, dict)
        if not is_report or not all(isinstance(digest, str) for digest in digests.values()):
            raise UserError(f"{folder} is not empty and not a medhelm report. Name a new or empty folder.")
        found = _files(folder)
        others = sorted(found - set(digests) - {REPORT_MANIFEST})
        changed = sorted(name for name, digest in digests.items() if name in found and _digest(folder / name) != digest)
    except OSError as error:
        raise UserError(f"{folder} cannot be read: {error.strerror or error}. Name another folder.") from None
    problems = [
        f"{folder}: {words}: {listed(names, _MAX_NAMES)}. A new report would delete it. Move it, or name another "
        "folder."
        for names, words in ((others, "not part of the report"), (changed, "changed by hand"))
        if names
    ]
    if problems:
        raise UserError("\n".join(problems))


# --- contents of a folder ---------------------------------------------------------------------------------------------


def _entries(folder: Path) -> set[str]:
    """Return the names in a folder; none if it does not exist. Raises: UserError if it is not a replaceable folder."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UserError(f"{folder} is a file or a link. Name a new or empty folder.")
    if folder.resolve() == Path.cwd():
        raise UserError(f"{folder} is the current folder, which cannot be replaced. Name a new folder in it.")
    try:
        return {path.name for path in folder.iterdir()} - _SYSTEM_FILES if folder.exists() else set()
    except OSError as error:
        raise UserError(f"{folder} cannot be read: {error.strerror or error}. Name another folder.") from None


def _files(folder: Path) -> set[str]:
    """Return the paths of all files, links and empty folders in a folder, relative to it."""
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.name not in _SYSTEM_FILES and (path.is_symlink() or not path.is_dir() or not any(path.iterdir()))
    }


def _read_manifest(path: Path) -> dict[str, Any]:
    """Read a JSON object; a missing or damaged file gives an empty one."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# --- work folders -----------------------------------------------------------------------------------------------------
# Folders for unfinished output, which a later process removes if their own process was killed.
#
# A working folder lies beside its target under the name `.medhelm-HEX`, so that finished output is renamed into place.
# Its process holds a lock on it, which the operating system releases however the process ends. So a folder whose lock
# is free is a leftover. Only its owner can read it. File systems without locks on folders, such as NFS, keep leftovers.

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
