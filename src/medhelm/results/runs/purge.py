"""Deletes text from a store for good: runs, prompts, instances, marks of references and completions in the cache.

What remaining runs need stays. SQLite overwrites the rows it deletes, rewrites its file and empties its log, so that no
deleted text is left in free pages.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from medhelm.domain import Run
from medhelm.domain.run import RunOnDisk
from medhelm.errors import StoreError, UserError, suggestion
from medhelm.io.system_errors import error_class, store_error
from medhelm.results.options import PurgeFilter
from medhelm.results.runs.stored import request_digests
from medhelm.storage.live_status import known_evaluations
from medhelm.storage.releases import release_names
from medhelm.storage.run_folders import delete_runs, read_removals, read_run_folders
from medhelm.storage.store import Store
from medhelm.storage.unfinished import Batches

TIMEOUT_S = 10.0
"""Most seconds to wait for another process that uses the cache."""

NOT_COVERED = (
    "exports, reports, static sites and files of -o outside the store",
    "backups, snapshots and copies of the store, and blocks that a disk has not overwritten",
    "data that model providers keep under their own terms",
)
"""Places that a purge does not reach."""


class _CachedCompletion(NamedTuple):
    """A completion in the cache."""

    digest: bytes
    model: str
    created: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Purge:
    """The text to be deleted from a store, or that was deleted, and the text that remains."""

    runs: Sequence[RunOnDisk]
    """Runs, removed ones included."""
    files: Sequence[Path]
    """Files with prompts, instances or marks of references."""
    digests: Collection[bytes]
    """Keys of the completions in the cache."""
    n_bytes: int
    """Bytes of the runs and files."""
    runs_left: int
    """Runs that remain."""
    completions_left: int
    """Completions in the cache that remain."""
    orphans_left: int
    """Of these, completions that belong to no run."""
    batches: int
    """Batches whose data a provider may still hold."""
    releases: Sequence[str]
    """Releases; they hold numbers and no text of instances or completions, and stay."""

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to delete."""
        return not (self.runs or self.files or self.digests)


def days_ago(days: float) -> datetime:
    """Return the time `days` days ago."""
    return datetime.now(UTC) - timedelta(days=days)


def plan_purge(store: Store, wanted: PurgeFilter) -> Purge:
    """Return what a purge would delete. Raises: UserError for a benchmark or model that the store does not know."""
    runs = [*read_run_folders(store), *(run for removal in read_removals(store) for run in removal.runs)]
    chosen = [one for one in runs if wanted.selects(one)]
    folders = {one.folder for one in chosen}
    kept = [one for one in runs if one.folder not in folders]
    rows = cached_completions(store.cache_file)
    _check_names(store, wanted, runs, rows)
    own, needed = request_digests(chosen), request_digests(kept)
    old = wanted.before.timestamp() if wanted.before else float("inf")

    def is_deleted(row: _CachedCompletion) -> bool:
        if row.digest in needed:
            return False
        matches = (
            not (wanted.benchmarks or wanted.only_orphans)
            and row.created < old
            and row.model in (wanted.models or [row.model])
        )
        return row.digest in own or matches or wanted.orphans

    digests = {row.digest for row in rows if is_deleted(row)}
    files = _unneeded_files(store, wanted, chosen, kept)
    return Purge(
        runs=chosen,
        files=files,
        digests=digests,
        n_bytes=sum(one.n_bytes for one in chosen) + sum(path.stat().st_size for path in files),
        runs_left=len(kept),
        completions_left=len(rows) - len(digests),
        orphans_left=sum(row.digest not in digests and row.digest not in needed for row in rows),
        batches=len(Batches(store).all()),
        releases=release_names(store),
    )


def purge(store: Store, found: Purge) -> None:
    """Delete what was planned. Raises: StoreError if an evaluation is in progress, or if the disk refuses."""
    if alive := [one.status.id for one in known_evaluations(store) if one.is_alive]:
        raise StoreError(f"evaluations are in progress: {', '.join(alive)}. Stop them first. Nothing was deleted.")
    delete_runs(store, found.runs, before=lambda: delete_completions(store.cache_file, found.digests))
    try:
        for path in found.files:
            path.unlink(missing_ok=True)
    except OSError as error:
        text = f"{store.folder} cannot be written: {error.strerror or error}. Repeat the command."
        raise error_class(error, StoreError)(text) from error


def _check_names(
    store: Store, wanted: PurgeFilter, runs: Sequence[RunOnDisk], rows: Sequence[_CachedCompletion]
) -> None:
    """Raise UserError for a name that occurs nowhere in the store: with a typing error, text would stay unnoticed."""
    benchmarks = {one.benchmark for one in runs} | {benchmark for _, benchmark, *_ in _shared_files(store)}
    models = {one.model for one in runs} | {row.model for row in rows}
    for kind, names, known in (("benchmark", wanted.benchmarks, benchmarks), ("model", wanted.models, models)):
        for name in names:
            if name not in known:
                hint = suggestion(name, known)
                raise UserError(f"{store.folder} holds nothing of the {kind} `{name}`. {hint} Nothing was deleted.")


# --- files that runs share --------------------------------------------------------------------------------------------


class _SharedFile(NamedTuple):
    """A file that the runs of a benchmark on some data share. Digests are shortened, as in file names."""

    path: Path
    benchmark: str
    benchmark_digest: str
    """"" if it does not matter."""
    data_digest: str

    def serves(self, run: Run) -> bool:
        """Return whether it belongs to a run."""
        return (
            self.benchmark == run.benchmark
            and run.benchmark_digest.startswith(self.benchmark_digest)
            and run.data_digest.startswith(self.data_digest)
        )


def _shared_files(store: Store) -> Iterator[_SharedFile]:
    """Yield the files of prompts, instances and marks of references."""
    for folder, n_digests in (("prompts", 2), ("filters", 2), ("instances", 1)):
        for path in sorted(store.folder.glob(f"{folder}/[!.]*")):
            name = path.name.removesuffix(".floor.json").removesuffix(path.suffix)
            benchmark, *digests = name.rsplit("-", n_digests)
            yield _SharedFile(path, benchmark, *["", *digests][-2:])


def _unneeded_files(
    store: Store, wanted: PurgeFilter, chosen: Sequence[RunOnDisk], kept: Sequence[RunOnDisk]
) -> list[Path]:
    """Return the shared files that meet the conditions and that no remaining run needs."""
    damaged = {one.benchmark for one in kept if one.run is None}
    used, needed = ([one.run for one in runs if one.run] for runs in (chosen, kept))
    found = []
    for file in _shared_files(store):
        if file.benchmark in damaged or any(map(file.serves, needed)):
            continue
        modified = datetime.fromtimestamp(file.path.stat().st_mtime, UTC)
        is_old = wanted.before is None or modified < wanted.before
        is_named = file.benchmark in (wanted.benchmarks or [file.benchmark])
        matches = is_named and is_old and not (wanted.models or wanted.only_orphans)
        if matches or any(map(file.serves, used)):
            found.append(file.path)
    return found


# --- the cache --------------------------------------------------------------------------------------------------------


def cached_completions(cache: Path) -> list[_CachedCompletion]:
    """Return all completions of the cache, without their texts. Raises: StoreError."""
    if not cache.is_file() or not cache.stat().st_size:
        return []
    try:
        with closing(sqlite3.connect(cache, timeout=TIMEOUT_S)) as connection:
            return [
                _CachedCompletion(*row) for row in connection.execute("SELECT digest, model, created FROM completions")
            ]
    except sqlite3.Error as error:
        raise store_error(error, cache, TIMEOUT_S) from error


def delete_completions(cache: Path, digests: Collection[bytes]) -> None:
    """Delete completions, and overwrite what they leave in the file and its log. Raises: StoreError."""
    if not cache.is_file():
        return
    try:
        with closing(sqlite3.connect(cache, timeout=TIMEOUT_S, isolation_level=None)) as connection:
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("DELETE FROM completions WHERE digest = ?", [(digest,) for digest in digests])
            connection.execute("COMMIT")
            connection.execute("VACUUM")
            is_busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.Error as error:
        raise store_error(error, cache, TIMEOUT_S) from error
    if is_busy:
        raise StoreError(
            f"{cache} is in use, so that its log still holds deleted text. End the processes that use the store, such "
            "as `medhelm serve`, and repeat the command."
        )
