"""A report on disk: one folder, written whole beside its place and then renamed into it, so that none is ever half.

`report.json` lists the other files with their digests. A folder that holds anything else, or a file that was changed
by hand, is not written over.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from medhelm.errors import StoreError
from medhelm.io.output_folder import beside

FORMAT = 1
"""Version of the layout."""

MANIFEST = "report.json"
"""The file that says which folder is a report, and of which files."""

NOT_OURS = frozenset({".DS_Store", "Thumbs.db"})
"""Files that systems put into every folder they show: not worth keeping."""

NAMES = 5
"""Most files that a message names."""


def check(folder: Path) -> None:
    """Raise StoreError unless a report may be written to `folder`: it is not there, empty, or an untouched report."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise StoreError(f"{folder} is no folder. Name a new one for the report.")
    if folder.resolve() == Path.cwd():
        raise StoreError(f"{folder} is the folder you are in, which cannot be replaced. Name a new one in it.")
    try:
        found = _files(folder)
        if not found:
            return
        listed = _listed(folder)
        if listed is None:
            raise StoreError(f"{folder} is not empty and no report of ours. Name an empty or new folder.")
        foreign = sorted(found - set(listed) - {MANIFEST})
        changed = sorted(name for name, digest in listed.items() if name in found and _digest(folder / name) != digest)
    except OSError as error:
        raise StoreError(f"{folder} cannot be read: {error.strerror or error}. Name another folder.") from None
    problems = [
        f"{folder}: {words}: {_names(names)}. A new report would not have it: move it away, or name another folder."
        for names, words in ((foreign, "not part of the report"), (changed, "changed by hand"))
        if names
    ]
    if problems:
        raise StoreError("\n".join(problems))


def write(folder: Path, files: Mapping[str, bytes], manifest: Mapping[str, Any]) -> None:
    """Write a report: `files` by their paths within the folder, and `manifest` as report.json.

    The report that stood there before is replaced at once, when the new one is complete. Raises: StoreError as `check`,
    or if the disk does not take it; then the folder is as it was.
    """
    folder = folder.absolute()
    check(folder)
    new = beside(folder)
    old = beside(folder)
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    content = {"medhelm_report": FORMAT, **manifest, "files": digests}
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        new.mkdir()
        for name, body in files.items():
            path = new / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body)
        text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        (new / MANIFEST).write_text(text, encoding="utf-8")
        if folder.exists():
            folder.rename(old)
        new.rename(folder)
    except OSError as error:
        if old.exists() and not folder.exists():
            old.rename(folder)
        raise StoreError(f"{folder} cannot be written: {error.strerror or error}. Name another folder.") from None
    finally:
        shutil.rmtree(new, ignore_errors=True)
        if folder.exists():
            shutil.rmtree(old, ignore_errors=True)


def _files(folder: Path) -> set[str]:
    """Everything in a folder that is no folder, and empty or linked folders, by its path within."""
    if not folder.is_dir():
        return set()
    found = set()
    for path in folder.rglob("*"):
        is_leaf = path.is_symlink() or not path.is_dir() or not any(path.iterdir())
        if is_leaf and path.name not in NOT_OURS:
            found.add(path.relative_to(folder).as_posix())
    return found


def _listed(folder: Path) -> dict[str, str] | None:
    """The files that a report lists, with their digests; None if the folder is no report of this version."""
    try:
        content = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        files = content["files"]
        known = content["medhelm_report"] == FORMAT and all(isinstance(text, str) for text in files.values())
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return dict(files) if known else None


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _names(names: list[str]) -> str:
    """Names in a row, cut after the first few."""
    text = ", ".join(names[:NAMES])
    return text if len(names) <= NAMES else f"{text} and {len(names) - NAMES} more"
