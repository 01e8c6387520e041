"""The store: one folder that holds everything a user's evaluations produced.

STORE/
├── store.json           what this folder is, and the version of its layout
├── cache.sqlite         every completion received: the journal (see `models.cache`)
├── prompts/             the prompts, once per benchmark and data, not once per model
├── instances/           what else was asked, where that came from another harness (see `storage.instances`)
├── filters/             which references rest on more than the prompt (see `storage.filters`)
├── runs/BENCHMARK/MODEL-ID/{run.json, records.parquet, judgments.parquet, replies.parquet}
├── batches/             what was handed to batch APIs and is not collected yet (see `storage.batches`)
└── locks/               one file per benchmark and model, so that two processes do not ask the same questions
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from medhelm.errors import StoreError
from medhelm.io.output_folder import beside, write_file

FORMAT = 1
"""Version of the layout. A store of another version is refused, never guessed at."""

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


class Store:
    """A folder that is known to be a store of our version."""

    def __init__(self, folder: Path) -> None:
        """Use `open` or `create`; this trusts the folder."""
        self.folder = folder

    @property
    def cache_file(self) -> Path:
        """The journal of completions."""
        return self.folder / "cache.sqlite"

    @property
    def batches_folder(self) -> Path:
        """Folder of the files of batch jobs."""
        return self.folder / "batches"

    def run_folder(self, benchmark: str, model: str, run_id: str) -> Path:
        """Return the folder of the run with this id."""
        return self.folder / "runs" / benchmark / f"{file_name(model)}-{run_id[:10]}"

    def prompts_file(self, benchmark: str, benchmark_digest: str, data_digest: str) -> Path:
        """Return the file of the prompts of this benchmark on this data."""
        return self.folder / "prompts" / f"{benchmark}-{benchmark_digest[:10]}-{data_digest[:10]}.parquet"

    def floor_file(self, benchmark: str, benchmark_digest: str, data_digest: str) -> Path:
        """Return the file of the constant baseline of this benchmark on this data."""
        return self.prompts_file(benchmark, benchmark_digest, data_digest).with_suffix(".floor.json")

    def lock_file(self, benchmark: str, model: str) -> Path:
        """Held by the process that asks this model the questions of this benchmark."""
        return self.folder / "locks" / f"{benchmark}--{file_name(model)}.lock"


def file_name(text: str) -> str:
    """`text` as a part of a file name on every system; the identity stays in the record."""
    return _UNSAFE.sub("_", text).strip("._")[:80] or "_"


def create(folder: Path) -> Store:
    """Open the store in `folder`, or make one.

    Raises StoreError if it is not a store, of another version, or not writable.
    """
    manifest = folder / "store.json"
    try:
        if manifest.exists():
            store = open_store(folder)
        else:
            _refuse_other_content(folder)
            folder.mkdir(parents=True, exist_ok=True)
            _write_manifest(manifest)
            store = Store(folder)
        for part in ("runs", "prompts", "locks"):
            (folder / part).mkdir(exist_ok=True)
        _probe(folder)
    except OSError as error:
        raise StoreError(
            f"the store {folder} cannot be written: {error.strerror or error}. "
            "Free some space, or name another folder with --store. Nothing was sent."
        ) from error
    return store


def open_store(folder: Path) -> Store:
    """The store in `folder`, for reading. Raises StoreError if there is none or it has another version."""
    manifest = folder / "store.json"
    try:
        content = json.loads(manifest.read_text(encoding="utf-8"))
        found = content["medhelm_store"]
    except FileNotFoundError:
        raise StoreError(
            f"there is no store at {folder}. `medhelm run` and `medhelm demo` make one; --store names another."
        ) from None
    except OSError as error:
        raise StoreError(f"the store {folder} cannot be read: {error.strerror or error}.") from error
    except (ValueError, KeyError, TypeError):
        raise StoreError(f"{manifest} is damaged or not ours. Name another folder with --store.") from None
    if found != FORMAT:
        raise StoreError(
            f"the store {folder} has layout version {found!r}; this version of medhelm reads and writes {FORMAT}. "
            "Use the version that wrote it, or name another folder with --store."
        )
    return Store(folder)


def _write_manifest(manifest: Path) -> None:
    write_file(manifest, json.dumps({"medhelm_store": FORMAT}) + "\n")


def _probe(folder: Path) -> None:
    """Write and remove a small file, to detect a full or read-only disk before anything is sent."""
    probe = beside(folder / "probe")
    probe.write_bytes(b"\0" * 4096)
    probe.unlink()


def _refuse_other_content(folder: Path) -> None:
    """Refuse a folder with other content: it is not a store."""
    if folder.exists() and not folder.is_dir():
        raise StoreError(f"the store {folder} is a file. Name a folder with --store.")
    occupied = folder.is_dir() and any(not path.name.startswith(".") for path in folder.iterdir())
    # Looked at after the rest: another process may have made the store in between.
    if occupied and not (folder / "store.json").exists():
        raise StoreError(f"{folder} is not empty and holds no store.json. Name an empty or new folder with --store.")
