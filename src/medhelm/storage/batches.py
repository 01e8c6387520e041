"""Stores batch jobs submitted to providers: one small file per batch.

The file is written before its batch is submitted, and kept as long as the provider may hold data of it. If the process
dies, the next one reads there what to collect and what to delete. It holds digests of requests, but no text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import IO

from medhelm.domain import Model
from medhelm.domain.batch import Batch, BatchState
from medhelm.errors import StoreError
from medhelm.io.files import temporary_file
from medhelm.io.output_folder import write_file
from medhelm.io.system_errors import error_class
from medhelm.storage.json_form import TUPLE, JsonForm, key_map
from medhelm.storage.store import Store

_DIGEST = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")


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
        try:
            write_file(path, json.dumps(BATCH.write(batch)), durable=True)
        except OSError as error:
            raise error_class(error, StoreError)(
                f"{path} cannot be written ({error.strerror or error}). No more batches are submitted."
            ) from error
        return batch

    def remove(self, batch: Batch) -> None:
        """Delete the file of a batch that is finished and whose data is deleted at its provider."""
        self.path(batch).unlink(missing_ok=True)

    def scratch(self) -> IO[bytes]:
        """Create a temporary file in the folder of batches, deleted when it is closed. Raises: StoreError."""
        try:
            self.folder.mkdir(exist_ok=True)
            return temporary_file(self.folder)
        except OSError as error:
            text = f"{self.folder} cannot be written ({error.strerror or error})."
            raise error_class(error, StoreError)(text) from error

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
                found.append(_read(path))
            except (OSError, ValueError, TypeError, KeyError) as error:
                problems.append(
                    f"{path} is damaged ({error}). It lists requests that the provider may be processing. Check "
                    "the provider for unfinished batches, then remove the file to send these requests again."
                )
        if problems:
            raise StoreError("\n".join(problems))
        return sorted(found, key=lambda batch: batch.created)


def _read(path: Path) -> Batch:
    """Read the batch in a file. Raises: ValueError, KeyError or TypeError if the file is damaged."""
    content = json.loads(path.read_text(encoding="utf-8"))
    batch = BATCH.read({key: content[key] for key in BATCH.keys if key in content})
    digests, unanswered = (tuple(map(str, names)) for names in (batch.digests, batch.unanswered))
    if not all(_DIGEST.fullmatch(digest) for own in (digests, unanswered) for digest in own):
        raise ValueError("invalid digest")
    names = [batch.id, *([batch.remote_id] if batch.remote_id else [])]
    if batch.id != path.stem or not all(_NAME.fullmatch(name) for name in names):
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
