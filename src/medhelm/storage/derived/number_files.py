"""Keeps numbers that a leaderboard computed from the scores of one benchmark.

STORE/derived/BENCHMARK-DIGEST-SLOT.numbers holds arrays of numbers, and the key that they were computed under. A key
covers all inputs: the identity of every file of records, what was done to its scores, and versions. So numbers of runs
that were replaced, added or removed are not found, and are computed again.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from medhelm.storage.derived.folder import derived_folder, read_kept, stem_of, write_kept

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

VERSION = 1
"""Version of the files. Those of another version are made again."""

MOST_SLOTS = 4
"""Most files of one benchmark, such as those for selections of models. The oldest is removed."""


class NumberFiles:
    """The kept numbers of a store."""

    def __init__(self, folder: Path) -> None:
        """`folder`: see `derived_folder`."""
        self._folder = folder

    def find(self, benchmark: str, slot: str, key: str) -> Mapping[str, np.ndarray] | None:
        """Return the arrays in a slot of a benchmark; None unless they were kept under this key."""
        found = read_kept(self._path(benchmark, slot))
        if found is None or found.about != {"version": VERSION, "key": key}:
            return None
        return found.arrays

    def add(self, benchmark: str, slot: str, key: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Keep some arrays, in place of those that the slot had; a store that cannot be written is left alone."""
        write_kept(
            self._path(benchmark, slot),
            {"version": VERSION, "key": key},
            {name: [array] for name, array in arrays.items()},
        )
        with suppress(OSError):
            files = sorted(self._folder.glob(f"{stem_of(benchmark)}-*.numbers"), key=lambda one: one.stat().st_mtime_ns)
            for old in files[:-MOST_SLOTS]:
                old.unlink(missing_ok=True)

    def _path(self, benchmark: str, slot: str) -> Path:
        return self._folder / f"{stem_of(benchmark)}-{slot}.numbers"


def number_files(store: Path) -> NumberFiles | None:
    """Return the kept numbers of a store; None for an encrypted one."""
    folder = derived_folder(store / "runs" / "any" / "run")
    return NumberFiles(folder) if folder else None
