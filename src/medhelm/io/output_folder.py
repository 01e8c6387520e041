"""Output that is complete or absent: single files, folders, exports and reports.

Everything is written in a hidden folder beside its place (see `io.work_folders`) and then renamed, so that a crash or a
full disk never leaves half a file or folder. Exports and reports list their own content in a manifest; a folder that
holds anything else, or something changed by hand, is never replaced.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from medhelm.errors import StoreFullError, UserError

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


# --- atomic writing ---------------------------------------------------------------------------------------------------


def beside(path: Path, suffix: str = "") -> Path:
    """Return a hidden, unused path next to `path`, to write to before renaming."""
    return path.with_name(f".{path.name}-{secrets.token_hex(4)}{suffix}")


@contextmanager
def atomic_file(path: Path, *, durable: bool = False) -> Iterator[Path]:
    """Yield a hidden path to write to; rename it to `path` if the block succeeds, else remove it.

    `durable`: the file survives a power failure once the block has ended. Raises: OSError.
    """
    from medhelm.io.work_folders import WorkFolder  # lazy here and below: nothing is written at the start

    path.parent.mkdir(parents=True, exist_ok=True)
    with WorkFolder(path.parent.absolute()) as work:
        new = work.path / path.name
        yield new
        if durable:
            _sync(new, os.O_RDWR)
        new.replace(path)
    if durable:
        with suppress(OSError):  # not every system can sync a folder
            _sync(path.parent, os.O_RDONLY)


def write_file(path: Path, content: str, *, durable: bool = False) -> None:
    """Write a UTF-8 text file atomically. Raises: OSError."""
    with atomic_file(path, durable=durable) as new:
        new.write_text(content, encoding="utf-8")


@contextmanager
def atomic_folder(folder: Path, *, replace: bool = True) -> Iterator[Path]:
    """Yield a hidden empty folder; rename it to `folder` if the block succeeds, else remove it.

    `replace`: an existing folder is removed once the new one is in place; else it is an error. Raises: OSError.
    """
    from medhelm.io.work_folders import WorkFolder

    folder = folder.absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with WorkFolder(folder.parent) as work:
        new = work.path / folder.name
        new.mkdir(mode=0o770)  # never for all users of the machine; a stricter umask counts
        yield new
        if replace:
            replace_folder(new, folder, old=work.place_of_older(folder.name))
        else:
            new.rename(folder)


def replace_folder(new: Path, folder: Path, *, old: Path | None = None) -> None:
    """Rename `new` to `folder`. An older folder moves to `old`, and is removed last, or restored on failure."""
    old = old or beside(folder)
    if folder.exists():
        folder.rename(old)
    try:
        new.rename(folder)
    except BaseException:
        if old.exists():
            old.rename(folder)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _disk_errors(folder: Path) -> Iterator[None]:
    """Turn disk errors, DuckDB's among them, into StoreFullError."""
    try:
        yield
    except Exception as error:
        # DuckDB has its own exceptions for a full disk and for memory; their text includes the system's reason.
        if isinstance(error, OSError) or type(error).__name__ in ("IOException", "OutOfMemoryException"):
            reason = getattr(error, "strerror", None) or error
            raise StoreFullError(
                f"{folder} cannot be written: {reason}. Free some space, or name another folder."
            ) from error
        raise


# --- exports ----------------------------------------------------------------------------------------------------------


@contextmanager
def new_export(folder: Path, kind: str, about: Mapping[str, Any]) -> Iterator[Path]:
    """Yield a hidden folder to fill; add the manifest and rename it to `folder` if the block succeeds.

    Parameters: folder, a new or empty folder, or an export of the same kind with nothing else in it; kind, such as
    `csv`; about, further keys of the manifest.
    Raises: UserError for any other folder, before anything is written; StoreFullError if the disk refuses.
    """
    check_export(folder, kind)
    with _disk_errors(folder), atomic_folder(folder) as new:
        yield new
        entries = sorted(path.name for path in new.iterdir())
        manifest = {"medhelm_export": kind, "entries": [*entries, EXPORT_MANIFEST], **about}
        text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
        (new / EXPORT_MANIFEST).write_text(text, encoding="utf-8")


def check_export(folder: Path, kind: str) -> None:
    """Raise UserError unless an export of this kind may be written to `folder`."""
    entries = _entries(folder)
    if not entries:
        return
    manifest = _read_manifest(folder / EXPORT_MANIFEST)
    if "medhelm_export" not in manifest:
        raise UserError(f"{folder} is not empty and not a medhelm export. Name a new or empty folder.")
    if manifest["medhelm_export"] != kind:
        raise UserError(f"{folder} holds an export of kind `{manifest['medhelm_export']}`. Name a new or empty folder.")
    listed = manifest.get("entries")
    if others := sorted(entries - set(listed if isinstance(listed, list) else ())):
        raise UserError(
            f"{folder} holds more than the export: {_list(others)}. A new export would delete it: move it away, or "
            "name another folder."
        )


# --- reports ----------------------------------------------------------------------------------------------------------


def write_report(folder: Path, files: Mapping[str, bytes], about: Mapping[str, Any]) -> None:
    """Write a report and replace an older one.

    Parameters: files, path within the folder -> content; about, further keys of the manifest.
    Raises: UserError as `check_report`; StoreFullError if the disk refuses, and then the folder is unchanged.
    """
    check_report(folder)
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    manifest = {"medhelm_report": REPORT_FORMAT, **about, "files": digests}
    with _disk_errors(folder), atomic_folder(folder) as new:
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
        listed: Any = manifest.get("files")
        is_report = manifest.get("medhelm_report") == REPORT_FORMAT and isinstance(listed, dict)
        if not is_report or not all(isinstance(digest, str) for digest in listed.values()):
            raise UserError(f"{folder} is not empty and not a medhelm report. Name a new or empty folder.")
        found = _files(folder)
        others = sorted(found - set(listed) - {REPORT_MANIFEST})
        changed = sorted(name for name, digest in listed.items() if name in found and _digest(folder / name) != digest)
    except OSError as error:
        raise UserError(f"{folder} cannot be read: {error.strerror or error}. Name another folder.") from None
    problems = [
        f"{folder}: {words}: {_list(names)}. A new report would delete it: move it away, or name another folder."
        for names, words in ((others, "not part of the report"), (changed, "changed by hand"))
        if names
    ]
    if problems:
        raise UserError("\n".join(problems))


# --- what a folder holds ----------------------------------------------------------------------------------------------


def _entries(folder: Path) -> set[str]:
    """Names in a folder, or none if it does not exist. Raises: UserError if it cannot be replaced as a folder."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UserError(f"{folder} is a file or a link. Name a new or empty folder.")
    if folder.resolve() == Path.cwd():
        raise UserError(f"{folder} is the current folder, which cannot be replaced. Name a new folder in it.")
    try:
        return {path.name for path in folder.iterdir()} - _SYSTEM_FILES if folder.exists() else set()
    except OSError as error:
        raise UserError(f"{folder} cannot be read: {error.strerror or error}. Name another folder.") from None


def _files(folder: Path) -> set[str]:
    """Paths within a folder of all files, links and empty folders."""
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


def _list(names: list[str]) -> str:
    """Join names, cut after the first few."""
    text = ", ".join(names[:_MAX_NAMES])
    return text if len(names) <= _MAX_NAMES else f"{text} and {len(names) - _MAX_NAMES} more"
