"""Exports and reports: folders that list their own content in a manifest.

A folder that holds anything else, or something changed by hand, is never replaced.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from medhelm.domain.text import listed
from medhelm.errors import UserError
from medhelm.io.output_folder import atomic_folder, output_errors

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


# --- exports ----------------------------------------------------------------------------------------------------------


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


# --- reports ----------------------------------------------------------------------------------------------------------


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


# --- what a folder holds ----------------------------------------------------------------------------------------------


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
