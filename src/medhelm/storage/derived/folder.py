"""The folder of what is made from the runs of a store, and the rules for it.

Nothing is kept in an encrypted store, nor from files so young that a file system may give two versions of them the same
time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from threading import Lock
from time import time_ns
from typing import TYPE_CHECKING, Any

from medhelm.io.encryption.places import key_of
from medhelm.io.output_folder import atomic_file
from medhelm.io.shared_files import file_mask
from medhelm.storage.derived.array_file import ArrayFile, Identity, read_arrays, write_arrays
from medhelm.storage.store import file_name

if TYPE_CHECKING:
    import numpy as np

FOLDER = "derived"
"""Folder of a store with these files."""

LEAST_RUNS = 50
"""Runs of a benchmark from which something is kept: fewer are read at once."""

CHECKED = "checked.json"
"""File with the identity that each file had when its checksum was right: it takes long to compute."""

YOUNG_S = 2.0
"""Age of records below which their scores are not kept, in seconds."""


_remembering = Lock()
"""Held while `CHECKED` is read and written again: benchmarks are read in several threads."""


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


def read_kept(path: Path) -> ArrayFile | None:
    """Map a file of the folder into memory; None if it is missing, damaged, or of another layout."""
    intact = _checked(path.parent).get(path.name)
    found = read_arrays(path, intact)
    if found is not None and found.identity != intact:
        _remember(path, found.identity)
    return found


def write_kept(path: Path, about: Any, arrays: Mapping[str, Sequence[np.ndarray]], *, is_short: bool = False) -> None:
    """Write a file of the folder, see `write_arrays`. A store that cannot be written is left alone.

    `is_short`: its checksum is computed whenever it is read.
    """
    with suppress(OSError):
        mask = file_mask(path.parents[1])
        path.parent.mkdir(mode=0o770 & ~mask, exist_ok=True)
        identity = write_arrays(path, about, arrays, mode=0o660 & ~mask)
        if not is_short:
            _remember(path, identity)


def _checked(folder: Path) -> dict[str, Identity]:
    """Return the identities of files whose checksums were right, by name."""
    try:
        found = json.loads((folder / CHECKED).read_text(encoding="utf-8"))
        return {name: tuple(identity) for name, identity in found.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def _remember(path: Path, identity: Identity) -> None:
    """Note that the checksum is right of the file with this identity."""
    folder = path.parent
    with suppress(OSError), _remembering, atomic_file(folder / CHECKED) as new:
        new.write_text(json.dumps({**_checked(folder), path.name: identity}), encoding="utf-8")
        new.chmod(0o660 & ~file_mask(folder.parent))


def stem_of(benchmark: str) -> str:
    """Return the start of the names of the files of a benchmark."""
    return f"{file_name(benchmark)}-{sha256(benchmark.encode()).hexdigest()[:10]}"


def is_young(identity: Identity) -> bool:
    """Return whether a file may be written again within the precision of its times."""
    return time_ns() - max(identity[1:3]) < YOUNG_S * 1e9
