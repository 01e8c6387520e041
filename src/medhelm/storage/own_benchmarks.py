"""Remembers the user's own benchmarks: their folders, and their definitions as they were last run.

STORE/benchmark_folders.json has one entry for each benchmark, so that commands that show or score the runs of a store
find the definitions without `--benchmarks`. A folder is remembered relative to the store and by its absolute path, so
that it is found after both have moved, or the store alone has. It is only a place to look: code in such a folder needs
consent as everywhere (see `benchmarks.hooks`).

STORE/definitions/BENCHMARK holds a copy of the definition, for a store whose folders are gone and for runs of an
earlier definition. The copy has no data and no code; an empty file `hooks.left_out` says that there was code. Encrypted
stores keep none, because prompts may hold examples.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from medhelm.errors import UserError
from medhelm.io.files import file_mask, key_of
from medhelm.io.folders import write_file
from medhelm.storage.store import Store

FOLDERS_FILE = "benchmark_folders.json"
"""Name of the file."""

DEFINITIONS = "definitions"
"""Folder of the copies in a store."""

FOLDERS_FORMAT = 1
"""Version of the file, under its key `format`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberedBenchmark:
    """A benchmark that a store remembers."""

    folder: Path
    """Its folder, which may be gone."""
    digest: str = ""
    """Digest of its definition, and of its code, as it was last run; empty in stores of older versions."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Files of the copy of its definition: name -> content."""
    copy: Path | None = None
    """Folder of the copy, if the store has one."""


def remember_folders(store: Store, benchmarks: Mapping[str, RememberedBenchmark]) -> None:
    """Remember the folders and definitions of benchmarks. A store that cannot be written is left alone."""
    from filelock import FileLock  # lazy: most evaluations have no benchmark of the user's own

    file, here = store.folder / FOLDERS_FILE, store.folder.resolve()
    new = {name: _entry(one, here) for name, one in benchmarks.items()}
    kept = {} if key_of(store.folder / DEFINITIONS) else {name: one.files for name, one in benchmarks.items()}
    known = new.items() <= _entries(file).items()
    if known and all(_files(_copy_of(store.folder, name)) == files for name, files in kept.items()):
        return
    with suppress(OSError, UserError):
        (store.folder / "locks").mkdir(exist_ok=True)
        with FileLock(store.folder / "locks" / "benchmark_folders.lock"):
            for name, files in kept.items():
                _keep(_copy_of(store.folder, name), files, store.folder)
            content = {"format": FOLDERS_FORMAT, "benchmarks": _entries(file) | new}
            _write(file, json.dumps(content, indent=1, ensure_ascii=False) + "\n", store.folder)


def remembered_folders(store: Path) -> dict[str, RememberedBenchmark]:
    """Return the benchmarks by name; none if nothing is remembered, or the file is damaged."""
    found = {}
    for name, entry in _entries(store / FOLDERS_FILE).items():
        near, absolute = store.resolve() / entry["relative"], Path(entry["absolute"])
        copy = _copy_of(store, name)
        files = _files(copy) if PurePath(name).name == name != ".." else {}
        found[name] = RememberedBenchmark(
            folder=near.resolve() if entry["relative"] and near.is_dir() else absolute,
            digest=entry["digest"],
            files=files,
            copy=copy if files else None,
        )
    return found


def is_copy(store: Store, folder: Path) -> bool:
    """Return True if a folder is the copy of a definition in this store."""
    return folder.resolve().parent == _copy_of(store.folder.resolve(), "").resolve()


def _copy_of(store: Path, name: str) -> Path:
    return store / DEFINITIONS / name


def _files(copy: Path) -> dict[str, str]:
    """Return the files of a copy; none if there is none, or one cannot be read."""
    try:
        return {path.name: path.read_text(encoding="utf-8") for path in copy.iterdir()}
    except (OSError, ValueError):
        return {}


def _keep(copy: Path, files: Mapping[str, str], store: Path) -> None:
    """Write the files of a copy, and remove others."""
    if not files:
        return
    copy.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        _write(copy / name, content, store)
    for path in copy.iterdir():
        if path.name not in files:
            path.unlink()


def _write(file: Path, content: str, store: Path) -> None:
    write_file(file, content)
    file.chmod(0o660 & ~file_mask(store))


def _entry(one: RememberedBenchmark, store: Path) -> dict[str, str]:
    folder = one.folder.resolve()
    try:
        relative = PurePath(os.path.relpath(folder, store)).as_posix()
    except ValueError:  # on Windows: another drive
        relative = ""
    return {"relative": relative, "absolute": str(folder), "digest": one.digest}


def _entries(file: Path) -> dict[str, dict[str, str]]:
    """Return the entries of the file that are whole."""
    try:
        entries = json.loads(file.read_text(encoding="utf-8"))["benchmarks"]
        return {
            name: {**{key: str(entry[key]) for key in ("relative", "absolute")}, "digest": str(entry.get("digest", ""))}
            for name, entry in entries.items()
        }
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}
