"""The folder of what is made from the runs of a store, and the rules for it.

Nothing is kept in an encrypted store, nor from files so young that a file system may give two versions of them the same
time.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from time import time_ns

from medhelm.io.encryption.places import key_of
from medhelm.storage.derived.array_file import Identity
from medhelm.storage.store import file_name

FOLDER = "derived"
"""Folder of a store with these files."""

LEAST_RUNS = 50
"""Runs of a benchmark from which something is kept: fewer are read at once."""

YOUNG_S = 2.0
"""Age of records below which their scores are not kept, in seconds."""


def derived_folder(run_folder: Path | None) -> Path | None:
    """Return the folder of the store of a run for such files; None for one in no store, or in an encrypted one."""
    if run_folder is None or run_folder.parent.parent.name != "runs" or key_of(run_folder) is not None:
        return None
    return run_folder.parents[2] / FOLDER


def clear_derived(store: Path, benchmarks: Iterable[str]) -> None:
    """Delete what was made from the runs of some benchmarks. Raises: OSError."""
    for name in set(benchmarks):
        for path in (store / FOLDER).glob(f"{stem_of(name)}-*"):
            path.unlink(missing_ok=True)


def stem_of(benchmark: str) -> str:
    """Return the start of the names of the files of a benchmark."""
    return f"{file_name(benchmark)}-{sha256(benchmark.encode()).hexdigest()[:10]}"


def is_young(identity: Identity) -> bool:
    """Return whether a file may be written again within the precision of its times."""
    return time_ns() - max(identity[1:3]) < YOUNG_S * 1e9
