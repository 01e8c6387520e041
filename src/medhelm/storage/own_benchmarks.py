"""Remembers the folders of the user's own benchmarks: STORE/benchmark_folders.json, one entry for each benchmark.

So commands that show or score the runs of a store find the definitions without `--benchmarks`. A folder is remembered
relative to the store and by its absolute path, so that it is found after both have moved, or the store alone has. It is
only a place to look: code in such a folder needs consent as everywhere (see `benchmarks.hooks`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path, PurePath

from medhelm.errors import UserError
from medhelm.io.files import file_mask
from medhelm.io.folders import write_file
from medhelm.storage.store import Store

FOLDERS_FILE = "benchmark_folders.json"
"""Name of the file."""

FOLDERS_FORMAT = 1
"""Version of the file, under its key `format`."""


def remember_folders(store: Store, folders: Mapping[str, Path]) -> None:
    """Remember the folders of benchmarks. A store that cannot be written is left alone."""
    from filelock import FileLock  # lazy: most evaluations have no benchmark of the user's own

    file, here = store.folder / FOLDERS_FILE, store.folder.resolve()
    new = {name: _entry(folder.resolve(), here) for name, folder in folders.items()}
    if not new or new.items() <= _entries(file).items():
        return
    with suppress(OSError, UserError):
        (store.folder / "locks").mkdir(exist_ok=True)
        with FileLock(store.folder / "locks" / "benchmark_folders.lock"):
            content = {"format": FOLDERS_FORMAT, "benchmarks": _entries(file) | new}
            write_file(file, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
            file.chmod(0o660 & ~file_mask(store.folder))


def remembered_folders(store: Path) -> dict[str, Path]:
    """Return benchmark -> its folder, which may be gone; empty if nothing is remembered, or the file is damaged."""
    found = {}
    for name, entry in _entries(store / FOLDERS_FILE).items():
        near, absolute = store.resolve() / entry["relative"], Path(entry["absolute"])
        found[name] = near.resolve() if entry["relative"] and near.is_dir() else absolute
    return found


def _entry(folder: Path, store: Path) -> dict[str, str]:
    try:
        relative = PurePath(os.path.relpath(folder, store)).as_posix()
    except ValueError:  # on Windows: another drive
        relative = ""
    return {"relative": relative, "absolute": str(folder)}


def _entries(file: Path) -> dict[str, dict[str, str]]:
    """Return the entries of the file that are whole."""
    try:
        entries = json.loads(file.read_text(encoding="utf-8"))["benchmarks"]
        return {
            name: {"relative": str(entry["relative"]), "absolute": str(entry["absolute"])}
            for name, entry in entries.items()
        }
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}
