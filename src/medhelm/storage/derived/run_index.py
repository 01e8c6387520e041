"""Keeps the content of the `run.json` files of a benchmark in one file, so that a large store is listed fast.

STORE/derived/BENCHMARK-DIGEST-runs.index holds what the files hold. A run is taken from it only if its file has the
size, the times and the number (inode) that it had before it was read. Files younger than `YOUNG_S`, and those of
encrypted stores, are not kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from os import stat
from pathlib import Path
from typing import Any

from medhelm.domain import Run
from medhelm.storage.derived.array_file import Identity, file_identity, read_arrays, write_arrays
from medhelm.storage.derived.folder import LEAST_RUNS, derived_folder, is_young, stem_of
from medhelm.storage.permissions import file_mask
from medhelm.storage.run_file import RUN, DamagedRunError, read_run

VERSION = 1
"""Version of the file. Those of another version are made again."""


def read_runs(paths: Sequence[Path]) -> tuple[list[Run], list[DamagedRunError]]:
    """Read the `run.json` files of one benchmark, and return the runs and what is wrong with the others.

    Raises: StoreError for a run of a newer version.
    """
    folder = derived_folder(paths[0].parent) if len(paths) >= LEAST_RUNS else None
    index = _Index(folder / f"{stem_of(paths[0].parent.parent.name)}-runs.index") if folder else None
    runs, problems = [], []
    for path in paths:
        try:
            runs.append(index.read(path) if index else read_run(path))
        except DamagedRunError as error:
            problems.append(error)
    if index:
        index.save()
    return runs, problems


class _Index:
    """The runs of one benchmark by the name of their folder, each with the identity of its file."""

    def __init__(self, path: Path) -> None:
        self._path, self._is_changed = path, False
        found = read_arrays(path)
        about = found.about if found else {}
        self._known: dict[str, tuple[list[int], dict[str, Any]]] = {}
        if isinstance(about, dict) and about.get("version") == VERSION and isinstance(about.get("runs"), dict):
            self._known = about["runs"]
        self._kept: dict[str, tuple[Identity | list[int], dict[str, Any]]] = {}

    def read(self, path: Path) -> Run:
        """Read one run. Raises: StoreError."""
        name = path.parent.name
        try:
            identity = file_identity(stat(path))  # noqa: PTH116 - faster
        except OSError:
            return read_run(path)
        entry = self._known.get(name)
        with suppress(ValueError, KeyError, TypeError, AttributeError, IndexError):
            if entry and tuple(entry[0]) == identity:
                run = RUN.read(entry[1], folder=path.parent)
                self._kept[name] = entry
                return run
        run = read_run(path)
        if not is_young(identity):
            self._kept[name] = (identity, RUN.write(run))
            self._is_changed = True
        return run

    def save(self) -> None:
        """Write the file if any run is new in it; a store that cannot be written is left alone."""
        if not self._is_changed:
            return
        store = self._path.parent.parent
        with suppress(OSError):
            mask = file_mask(store)
            self._path.parent.mkdir(mode=0o770 & ~mask, exist_ok=True)
            write_arrays(self._path, {"version": VERSION, "runs": self._kept}, {}, mode=0o660 & ~mask)
