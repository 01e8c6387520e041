"""Files computed from the runs of a store to save time, such as the index of its runs, and their folder.

A file is a `.npz` with a checksum behind it. It is used only if that is right: damaged files, and those of another
version, are ignored and written again. Nothing is kept in an encrypted store, nor from files so young that a file
system may give two versions of them the same time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b, sha256
from io import BytesIO
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from medhelm.domain import Run
from medhelm.io.files import file_mask, key_of
from medhelm.io.folders import atomic_file
from medhelm.storage.store import NAME, RUN, DamagedRunError, file_name, read_run

if TYPE_CHECKING:
    import numpy as np


# --- folder and files -------------------------------------------------------------------------------------------------

FOLDER = "derived"
"""Folder of a store with these files."""

VERSION = b"kept 3"
"""Version of the content of all files, part of their checksums."""

CHECKSUM = 16
"""Bytes of a checksum."""

LEAST_RUNS = 20
"""Runs of a benchmark from which something is kept: fewer are read at once."""

YOUNG_S = 2.0
"""Age of records below which their scores are not kept, in seconds."""

Identity = tuple[int, int, int, int]
"""Size, times and number of a file: another content has another identity."""


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


def identity_of(path: str) -> Identity | None:
    """Return the identity of a file; None if it is missing."""
    try:
        found = os.stat(path)  # noqa: PTH116 - faster, for thousands of runs
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


def is_young(identity: Identity) -> bool:
    """Return whether a file may be written again within the precision of its times."""
    return time_ns() - max(identity[1:3]) < YOUNG_S * 1e9


def stem_of(benchmark: str) -> str:
    """Return the start of the names of the files of a benchmark."""
    return f"{file_name(benchmark)}-{sha256(benchmark.encode()).hexdigest()[:10]}"


def read_kept(path: Path) -> tuple[Any, Mapping[str, np.ndarray]] | None:
    """Return the JSON value and the arrays in a file; None if it is missing, damaged, or of another version."""
    import numpy as np

    try:
        content = memoryview(path.read_bytes())
    except OSError:
        return None
    if _checksum(content[:-CHECKSUM]) != content[-CHECKSUM:]:
        return None
    with np.load(BytesIO(content[:-CHECKSUM]), allow_pickle=False) as arrays:
        found = dict(arrays)
    return from_json(found.pop("about").tobytes()), found


def write_kept(path: Path, about: Any, arrays: Mapping[str, np.ndarray]) -> None:
    """Write a file with a JSON value and arrays, renamed into place. A store that cannot be written is left alone.

    If several processes do so at once, the file of one of them stays.
    """
    import numpy as np

    content = BytesIO()
    np.savez(content, about=np.frombuffer(json.dumps(about).encode(), np.uint8), **arrays)  # type: ignore[arg-type]
    with suppress(OSError):
        mask = file_mask(path.parents[1])
        path.parent.mkdir(mode=0o770 & ~mask, exist_ok=True)
        with atomic_file(path) as new, new.open("wb") as file:
            new.chmod(0o660 & ~mask)
            file.writelines([content.getbuffer(), _checksum(content.getbuffer())])


def _checksum(content: memoryview) -> bytes:
    return blake2b(content, digest_size=CHECKSUM, person=VERSION).digest()


# --- run index --------------------------------------------------------------------------------------------------------
# Keeps the content of the `run.json` files of a benchmark in one file, so that a large store is listed fast.
#
# STORE/derived/BENCHMARK-DIGEST-runs.npz holds what the files hold. A run is taken from it only if its file has the
# size, the times and the number (inode) that it had before it was read. Files younger than `YOUNG_S`, and those of
# encrypted stores, are not kept. A process that lists runs again takes them from memory on the same terms, and there
# also those of encrypted stores.

MOST_RECENT = 20_000
"""Runs in memory beyond which all of them make room."""

_recent: dict[Path, tuple[Identity, Run]] = {}
"""Folder -> identity of its file, and the run, as last read by this process."""


def read_runs(folders: Sequence[Path]) -> tuple[list[Run], list[DamagedRunError]]:
    """Read the `run.json` in folders of one benchmark, and return the runs and what is wrong with damaged ones.

    A folder without the file is a damaged run; anything that is no folder is ignored. Raises: StoreError for a run of
    a newer version.
    """
    identities = [_identity_of(folder) for folder in folders]
    known = {folder.name: found for folder in folders if (found := _recent.get(folder))}  # threads may clear it
    is_recent = [one[0] for one in known.values()] == identities
    store = derived_folder(folders[0]) if len(folders) >= LEAST_RUNS and not is_recent else None
    index = store / f"{stem_of(folders[0].parent.name)}-runs.npz" if store else None
    if index:
        known = {**_read_index(index, {folder.name: folder for folder in folders}), **known}
    runs, problems, is_changed = [], [], False
    kept: list[tuple[Identity, Run]] = []
    for folder, identity in zip(folders, identities, strict=True):
        if identity is None:
            problems += [DamagedRunError(f"{folder / NAME} is missing.", folder)] if _lacks_file(folder) else []
            continue
        found = known.get(folder.name)
        is_known = found is not None and found[0] == identity
        try:
            run = found[1] if found and is_known else read_run(folder / NAME)
        except DamagedRunError as error:
            problems.append(error)
            continue
        runs.append(run)
        if is_known or not is_young(identity):
            kept.append((identity, run))
            is_changed |= not is_known
    if index and is_changed:
        _write_index(index, kept)
    if not is_recent:
        if len(_recent) > MOST_RECENT:
            _recent.clear()
        _recent.update({run.folder: (identity, run) for identity, run in kept if run.folder})
    return runs, problems


def _lacks_file(folder: Path) -> bool:
    """Return True for a folder without the file; another process may have removed or replaced it a moment ago."""
    return folder.is_dir() and _identity_of(folder) is None and folder.is_dir()


def _identity_of(folder: Path) -> Identity | None:
    return identity_of(f"{folder}/{NAME}")


def _read_index(path: Path, folders: Mapping[str, Path]) -> Mapping[str, tuple[Identity, Run]]:
    """Return name of a folder -> identity of its file, and the run; nothing from the index of another version.

    `folders`: name of a folder -> its path; runs in other folders were deleted.
    """
    if (found := read_kept(path)) is not None:
        with suppress(ValueError, KeyError, TypeError, AttributeError, IndexError):
            about = found[0]
            runs = RUN.read_many(about["runs"], [{"folder": folders.get(name)} for name in about["names"]])
            identities = (tuple(identity) for identity in about["identities"])
            return dict(zip(about["names"], zip(identities, runs, strict=True), strict=True))
    return {}


def _write_index(path: Path, kept: Sequence[tuple[Identity, Run]]) -> None:
    """Write the file."""
    about = {
        "names": [run.folder.name for _, run in kept if run.folder],
        "identities": [identity for identity, _ in kept],
        "runs": RUN.write_many([run for _, run in kept]),
    }
    write_kept(path, about, {})
