"""Unfinished work of a store: batches submitted to providers, and fresh runs that were interrupted."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any

from filelock import FileLock

from medhelm.domain import Model, Run
from medhelm.domain.completion import Batch, BatchState
from medhelm.errors import StoreError
from medhelm.io.files import read_confidential, temporary_file
from medhelm.io.folders import write_file
from medhelm.storage.json_form import TUPLE, JsonForm, key_map
from medhelm.storage.store import NAME, Store, disk_errors, file_name, read_run

# --- batches ----------------------------------------------------------------------------------------------------------
# Batches submitted to providers: one small file per batch.
#
# The file is written before its batch is submitted, and kept as long as the provider may hold data of it. If the
# process dies, the next one reads there what to collect and what to delete. It holds digests of requests, but no text.

_DIGEST = re.compile(r"[0-9a-f]{64}")
_BATCH_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")


BATCH = JsonForm(
    Batch,
    key_map(
        "id provider base_url model remote_name asked=model_digest role state created n digests "
        "stops=has_stop_sequences remote_id unanswered left_out=refused_parameters"
    ),
    nested={"digests": TUPLE, "unanswered": TUPLE},
)
"""The JSON form of a batch."""


class Batches:
    """The batches of a store, each in its own file."""

    def __init__(self, store: Store) -> None:
        """Remember the store, without accessing the disk."""
        self.folder = store.batches_folder

    def path(self, batch: Batch) -> Path:
        """Return the file of a batch."""
        return self.folder / f"{batch.id}.json"

    def write(self, batch: Batch) -> Batch:
        """Write the current state of a batch and sync it to disk; return the batch.

        Raises: StoreError if it cannot be written.
        """
        path = self.path(batch)
        with disk_errors(path, "No more batches are submitted."):
            write_file(path, json.dumps(BATCH.write(batch)), durable=True)
        return batch

    def remove(self, batch: Batch) -> None:
        """Delete the file of a batch that is finished and whose data is deleted at its provider."""
        self.path(batch).unlink(missing_ok=True)

    def scratch(self) -> IO[bytes]:
        """Create a temporary file in the folder of batches, deleted when it is closed. Raises: StoreError."""
        with disk_errors(self.folder, "Nothing was sent."):
            self.folder.mkdir(exist_ok=True)
            return temporary_file(self.folder)

    def in_flight(self) -> set[bytes]:
        """Return the digests of all requests that a provider may be processing. Raises: StoreError, as `all`."""
        return {bytes.fromhex(digest) for batch in self.all() for digest in batch.digests}

    def waiting_for(self, models: Iterable[Model]) -> list[Batch]:
        """Return the batches with requests to any of these models. Raises: StoreError, as `all`."""
        asked = {model.digest for model in models}
        return [batch for batch in self.all() if batch.model_digest in asked and batch.is_pending]

    def all(self) -> list[Batch]:
        """Read all batches of the store, oldest first. Raises: StoreError naming every damaged file."""
        found, problems = [], []
        for path in sorted(self.folder.glob("[!.]*.json")):
            try:
                found.append(_read_batch(path))
            except (OSError, ValueError, TypeError, KeyError) as error:
                problems.append(
                    f"{path} is damaged ({error}). It lists requests that the provider may be processing. Check "
                    "the provider for unfinished batches, then remove the file to send these requests again."
                )
        if problems:
            raise StoreError("\n".join(problems))
        return sorted(found, key=lambda batch: batch.created)


def _read_batch(path: Path) -> Batch:
    """Read the batch in a file. Raises: ValueError, KeyError or TypeError if the file is damaged."""
    content = json.loads(path.read_text(encoding="utf-8"))
    batch = BATCH.read({key: content[key] for key in BATCH.keys if key in content})
    digests, unanswered = (tuple(map(str, names)) for names in (batch.digests, batch.unanswered))
    if not all(_DIGEST.fullmatch(digest) for own in (digests, unanswered) for digest in own):
        raise ValueError("invalid digest")
    names = [batch.id, *([batch.remote_id] if batch.remote_id else [])]
    if batch.id != path.stem or not all(_BATCH_NAME.fullmatch(name) for name in names):
        raise ValueError("invalid id")
    if batch.role not in ("model", "judge"):
        raise ValueError("invalid role")
    if not isinstance(batch.created, int | float) or not isinstance(batch.n, int):
        raise ValueError("invalid number")
    return replace(
        batch,
        state=BatchState(batch.state),
        digests=digests,
        unanswered=unanswered,
        refused_parameters=dict(batch.refused_parameters),
    )


# --- fresh runs -------------------------------------------------------------------------------------------------------
# Fresh runs: evaluations that requested new completions although the cache held some.
#
# The start of a fresh run is part of its settings and of the keys of its completions in the cache, so that earlier runs
# and completions stay. Until its evaluation ends, a file in `fresh/` holds its start: after `kill -9` the next fresh
# run continues it and requests only what is missing.

FRESH_FORMAT = 1
"""Version of the files, under their key `format`."""

CONTINUED_FOR = timedelta(days=7)
"""Maximum age of an interrupted fresh run that is continued; batches take a day or two."""


@dataclass(frozen=True, slots=True)
class RunKey:
    """Identity of a run apart from its age, jury and data: what `--fresh` repeats."""

    benchmark: str
    """Name of the benchmark."""
    model: str
    """Name of the model."""
    tier: str
    """Real data or sample rows."""
    digest: str
    """Hash of the model and of the settings of its requests."""

    @classmethod
    def of(cls, benchmark: str, model: str, tier: str, model_digest: str, settings: Mapping[str, Any]) -> RunKey:
        """Make the key of a run with these settings."""
        others = {name: value for name, value in settings.items() if name != "fresh"}
        content = json.dumps([benchmark, model, tier, model_digest, others], sort_keys=True)
        return cls(benchmark, model, tier, hashlib.sha256(content.encode()).hexdigest())

    @classmethod
    def of_run(cls, run: Run) -> RunKey:
        """Return the key of a stored run."""
        digest = run.resolved_model.digest if run.resolved_model else ""
        return cls.of(run.benchmark, run.model, run.tier, digest, run.settings)


def latest_start(store: Store, key: RunKey) -> str:
    """Return the start of the latest complete fresh run with this key; empty if there is none. Skips damaged runs."""
    found = [""]
    for path in (store.folder / "runs" / key.benchmark).glob(f"{file_name(key.model)}-*/{NAME}"):
        try:
            if '"fresh"' in read_confidential(path):
                run = read_run(path)
                if run.is_complete and RunKey.of_run(run) == key:
                    found.append(run.fresh)
        except (OSError, ValueError, StoreError):
            continue
    return max(found)


def interrupted_start(store: Store, key: RunKey, now: datetime) -> str:
    """Return the start of a fresh run that was interrupted not long ago; empty if there is none."""
    start = _read_start(_file(store, key))
    return start if start and now - datetime.fromisoformat(start) <= CONTINUED_FOR else ""


def start_all(store: Store, keys: Sequence[RunKey], now: datetime) -> dict[RunKey, str]:
    """Return the start of a fresh run for each key: that of an interrupted one, or now.

    Processes that start together get the same start, so that they share completions.
    Raises: StoreError if the store cannot be written.
    """
    with (
        disk_errors(f"the store {store.folder}", "Nothing was sent."),
        FileLock(store.folder / "locks" / "fresh.lock"),
    ):
        store.fresh_folder.mkdir(exist_ok=True)
        starts = {}
        for key in keys:
            starts[key] = interrupted_start(store, key, now) or now.isoformat(timespec="milliseconds")
            content = {"format": FRESH_FORMAT, "started": starts[key], "benchmark": key.benchmark, "model": key.model}
            write_file(_file(store, key), json.dumps(content, ensure_ascii=False) + "\n", durable=True)
    return starts


def finish(store: Store, run: Run) -> None:
    """Mark a fresh run as complete, so that the next one requests everything again."""
    file = _file(store, RunKey.of_run(run))
    if run.is_complete and run.folder and _read_start(file) == run.fresh:
        file.unlink(missing_ok=True)


def _file(store: Store, key: RunKey) -> Path:
    return store.fresh_folder / f"{key.benchmark}--{file_name(key.model)}-{key.digest[:10]}.json"


def _read_start(file: Path) -> str:
    """Return the start in a file; empty if the file is missing or damaged."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        start = content["started"] if content["format"] == FRESH_FORMAT else ""
        return start if datetime.fromisoformat(start).tzinfo == UTC else ""
    except (OSError, ValueError, KeyError, TypeError):
        return ""
