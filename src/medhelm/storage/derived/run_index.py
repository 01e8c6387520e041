"""Keeps the content of the `run.json` files of a benchmark in one file, so that a large store is listed fast.

STORE/derived/BENCHMARK-DIGEST-runs.npz holds what the files hold. A run is taken from it only if its file has the
size, the times and the number (inode) that it had before it was read. Files younger than `YOUNG_S`, and those of
encrypted stores, are not kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from medhelm.domain import Run
from medhelm.storage.derived.folder import (
    LEAST_RUNS,
    Identity,
    derived_folder,
    identity_of,
    is_young,
    read_kept,
    stem_of,
    write_kept,
)
from medhelm.storage.store import NAME, RUN, DamagedRunError, read_run


def read_runs(folders: Sequence[Path]) -> tuple[list[Run], list[DamagedRunError]]:
    """Read the `run.json` in folders of one benchmark, and return the runs and what is wrong with damaged ones.

    A folder without the file is a damaged run; anything that is no folder is ignored. Raises: StoreError for a run of
    a newer version.
    """
    store = derived_folder(folders[0]) if len(folders) >= LEAST_RUNS else None
    index = store / f"{stem_of(folders[0].parent.name)}-runs.npz" if store else None
    known = _read_index(index, folders[0].parent) if index else {}
    identities = {folder: identity for folder in folders if (identity := _identity_of(folder))}
    runs, is_changed = [], False
    lacking = [folder for folder in folders if folder not in identities and _lacks_file(folder)]
    problems = [DamagedRunError(f"{folder / NAME} is missing.", folder) for folder in lacking]
    kept: list[tuple[Identity, Run]] = []
    for folder, identity in identities.items():
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
    return runs, problems


def _lacks_file(folder: Path) -> bool:
    """Return True for a folder without the file; another process may have removed or replaced it a moment ago."""
    return folder.is_dir() and _identity_of(folder) is None and folder.is_dir()


def _identity_of(folder: Path) -> Identity | None:
    return identity_of(f"{folder}/{NAME}")


def _read_index(path: Path, place: Path) -> Mapping[str, tuple[Identity, Run]]:
    """Return name of a folder -> identity of its file, and the run; nothing from the index of another version."""
    if (found := read_kept(path)) is not None:
        with suppress(ValueError, KeyError, TypeError, AttributeError, IndexError):
            about = found[0]
            runs = RUN.read_many(about["runs"], [{"folder": place / name} for name in about["names"]])
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
