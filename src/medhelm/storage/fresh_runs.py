"""Fresh runs: evaluations that requested new completions although the cache held some.

The start of a fresh run is part of its settings and of the keys of its completions in the cache, so that earlier runs
and completions stay. Until its evaluation ends, a file in `fresh/` holds its start: after `kill -9` the next fresh run
continues it and requests only what is missing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from filelock import FileLock

from medhelm.domain import Run
from medhelm.errors import StoreError
from medhelm.io.files import read_confidential
from medhelm.io.output_folder import write_file
from medhelm.io.system_errors import error_class
from medhelm.storage.run_file import NAME, read_run
from medhelm.storage.store import Store, file_name

FORMAT = 1
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
    start = _read(_file(store, key))
    return start if start and now - datetime.fromisoformat(start) <= CONTINUED_FOR else ""


def start_all(store: Store, keys: Sequence[RunKey], now: datetime) -> dict[RunKey, str]:
    """Return the start of a fresh run for each key: that of an interrupted one, or now.

    Processes that start together get the same start, so that they share completions.
    Raises: StoreError if the store cannot be written.
    """
    try:
        with FileLock(store.folder / "locks" / "fresh.lock"):
            store.fresh_folder.mkdir(exist_ok=True)
            starts = {}
            for key in keys:
                starts[key] = interrupted_start(store, key, now) or now.isoformat(timespec="milliseconds")
                content = {"format": FORMAT, "started": starts[key], "benchmark": key.benchmark, "model": key.model}
                write_file(_file(store, key), json.dumps(content, ensure_ascii=False) + "\n", durable=True)
    except OSError as error:
        raise error_class(error, StoreError)(
            f"the store {store.folder} cannot be written: {error.strerror or error}. Nothing was sent."
        ) from error
    return starts


def finish(store: Store, run: Run) -> None:
    """Mark a fresh run as complete, so that the next one requests everything again."""
    file = _file(store, RunKey.of_run(run))
    if run.is_complete and run.folder and _read(file) == run.fresh:
        file.unlink(missing_ok=True)


def _file(store: Store, key: RunKey) -> Path:
    return store.fresh_folder / f"{key.benchmark}--{file_name(key.model)}-{key.digest[:10]}.json"


def _read(file: Path) -> str:
    """Return the start in a file; empty if the file is missing or damaged."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        start = content["started"] if content["format"] == FORMAT else ""
        return start if datetime.fromisoformat(start).tzinfo == UTC else ""
    except (OSError, ValueError, KeyError, TypeError):
        return ""
