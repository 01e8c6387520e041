"""Reads the completions in the records of a store's runs, by request digest.

They replace a lost cache, or a damaged row of it. Completions that are not in records, such as those of runs that were
interrupted before anything was scored, are only in the cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from itertools import chain
from typing import NamedTuple

from medhelm.domain import Completion, Run
from medhelm.errors import StoreError
from medhelm.io.parquet import connect, sql_path
from medhelm.storage.judgments import completion_of, read_replies
from medhelm.storage.runs import read_records
from medhelm.storage.store import NAME, DamagedRunError, Store, read_run


class BoughtCompletion(NamedTuple):
    """A completion of a service, from a record."""

    digest: bytes
    """Digest of its request: its key in the cache."""
    model: str
    """Name of the model or judge."""
    completion: Completion
    """The completion."""


def bought_completions(store: Store) -> Iterator[BoughtCompletion]:
    """Yield the completions of all runs, removed ones included, the latest run first.

    Runs whose files are damaged, and models that cost nothing, are left out.
    """
    for run in _runs(store):
        yield from _of_run(run)


def find_bought(store: Store, digest: bytes) -> BoughtCompletion | None:
    """Return the completion of a request from the latest run that holds it; None if there is none."""
    for run in _runs(store):
        if _holds(run, digest):
            for one in _of_run(run):
                if one.digest == digest:
                    return one
    return None


def _runs(store: Store) -> list[Run]:
    """Return the runs with requests to a service, the latest first."""
    found = []
    for path in chain(store.folder.glob(f"runs/*/[!.]*/{NAME}"), store.removed_folder.glob(f"[!.]*/*/[!.]*/{NAME}")):
        try:
            run = read_run(path)
        except StoreError:
            continue
        judges = run.judges
        if run.resolved_model is None or any(model.base_url for model in (run.resolved_model, *judges)):
            found.append(run)
    return sorted(found, key=lambda run: run.started, reverse=True)


def _of_run(run: Run) -> Iterator[BoughtCompletion]:
    try:
        for row in read_records(run):
            if digest := row["request_digest"]:
                completion = completion_of(row, row["completion"])
                yield BoughtCompletion(bytes.fromhex(digest), run.model, _dated(completion, run))
        for reply in chain.from_iterable(read_replies(run).values()):
            if reply.request_digest:
                yield BoughtCompletion(reply.request_digest, reply.judge, _dated(reply.completion, run))
    except (DamagedRunError, ValueError, KeyError, TypeError):
        return  # damaged: the commands that read the run report it


def _dated(completion: Completion, run: Run) -> Completion:
    """Add the time of arrival if an older version did not record it: the start of the run."""
    if completion.received is not None:
        return completion
    try:
        return replace(completion, received=datetime.fromisoformat(run.started).timestamp())
    except ValueError:
        return completion


def _holds(run: Run, digest: bytes) -> bool:
    """Return True if one of the files of a run names a request."""
    import duckdb

    if run.folder is None:
        return False
    with connect() as connection:
        for name in ("records.parquet", "replies.parquet"):
            query = f"SELECT 1 FROM read_parquet({sql_path(run.folder / name)}) WHERE request_digest = ? LIMIT 1"  # noqa: S608
            try:
                if (run.folder / name).exists() and connection.execute(query, [digest.hex()]).fetchone():
                    return True
            except duckdb.Error:
                continue
    return False
