"""The store: one folder with all results of a user's evaluations.

STORE/
├── store.json           marks the folder as a store, with the version of its layout, and holds the wrapped key of an
│                        encrypted store (see `io.encryption`)
├── cache.sqlite         cache of all completions received (see `models.cache`)
├── budget.sqlite        spending limit of all commands, if there is one (see `storage.budget_ledger`)
├── audit.jsonl          audit log: every request that was sent from this store (see `storage.audit_log`)
├── audit.head           number, place and hash of its last entry on the disk (see `storage.audit_chain`)
├── prompts/             prompts and constant baselines, once per benchmark and data
├── instances/           instances of runs imported from other harnesses (see `storage.imported_instances`)
├── filters/             marks of references that need more than the prompt (see `extensions.paper`)
├── runs/BENCHMARK/MODEL-ID/{run.json, records.parquet, judgments.parquet, replies.parquet}
├── runs/BENCHMARK/MODEL-ID_2of8/   a shard of a run, no result until it is merged
├── removed/             runs that were removed and can be restored (see `storage.run_folders`)
├── derived/             data computed from many runs, kept to save time; can be deleted (see `storage.derived`)
├── batches/             batches submitted to providers and not collected yet (see `storage.batches`)
├── releases/            frozen leaderboards (see `storage.releases`)
├── deletions/           statements of deleted instances (see `storage.privacy.deletions`)
├── exports.json         places of exports (see `storage.privacy.export_log`)
├── pseudonyms.key       key of the hashes in place of clusters in exports (see `storage.privacy.pseudonyms`)
├── fresh/               start of fresh runs that have not finished yet (see `storage.fresh_runs`)
├── running/             status of evaluations in progress (see `storage.live_status`)
└── locks/               one file per benchmark and model, so that two processes do not send the same requests; and
                         one for each process that sends requests, with its machine (see `storage.store_host`)
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, cast

from medhelm.domain import Shard
from medhelm.errors import StoreError
from medhelm.io.files import given_variables, is_encrypted, key_of, load_cipher, required_cipher
from medhelm.io.output_folder import output_error
from medhelm.io.shared_files import make_shared_folder
from medhelm.storage.run_file import MOVED

FORMAT, ENCRYPTED = 1, 2
"""Versions of the layout: with plain and with encrypted files. Stores of other versions are refused."""

MOST_CHECKED = 16
"""Files of a kind that are looked at to see whether a plain store holds encrypted ones: they are converted together."""

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


class Store:
    """A folder that was checked to be a store of this version."""

    def __init__(self, folder: Path) -> None:
        """Trust the folder. Use `open_store` or `create` to check it."""
        self.folder = folder

    @property
    def cache_file(self) -> Path:
        """File of the completion cache."""
        return self.folder / "cache.sqlite"

    @property
    def budget_file(self) -> Path:
        """File of the ledger (`storage.budget_ledger`); made when a limit is set for the first time."""
        return self.folder / "budget.sqlite"

    @property
    def audit_file(self) -> Path:
        """File of the audit log (`storage.audit_log`); made by the first request."""
        return self.folder / "audit.jsonl"

    @property
    def batches_folder(self) -> Path:
        """Folder of the files of batch jobs."""
        return self.folder / "batches"

    @property
    def removed_folder(self) -> Path:
        """Folder of removed runs; made by the first removal."""
        return self.folder / "removed"

    @property
    def fresh_folder(self) -> Path:
        """Folder of the starts of fresh runs; made by the first one, and never removed."""
        return self.folder / "fresh"

    @property
    def running_folder(self) -> Path:
        """Folder of the status files of evaluations; made by the first one."""
        return self.folder / "running"

    def run_folder(self, benchmark: str, model: str, run_id: str, shard: Shard | None = None) -> Path:
        """Return the folder of the run with this id; of a shard, its name ends like `_2of8`."""
        end = f"_{shard.index}of{shard.count}" if shard else ""
        return self.folder / "runs" / benchmark / f"{file_name(model)}-{run_id[:10]}{end}"

    def prompts_file(self, benchmark: str, benchmark_digest: str, data_digest: str) -> Path:
        """Return the file of the prompts of this benchmark on this data."""
        return self.folder / "prompts" / f"{benchmark}-{benchmark_digest[:10]}-{data_digest[:10]}.parquet"

    def baseline_file(self, benchmark: str, benchmark_digest: str, data_digest: str) -> Path:
        """Return the file of the constant baseline of this benchmark on this data."""
        return self.prompts_file(benchmark, benchmark_digest, data_digest).with_suffix(".floor.json")

    def lock_file(self, benchmark: str, model: str) -> Path:
        """Return the lock file held by the process that runs this model on this benchmark."""
        return self.folder / "locks" / f"{benchmark}--{file_name(model)}.lock"

    def lock_file_of(self, run_folder: Path) -> Path:
        """Return the lock file of the run in a folder, from its name: `run.json` may be damaged."""
        return self.folder / "locks" / f"{run_folder.parent.name}--{run_folder.name.rpartition('-')[0]}.lock"


def file_name(text: str) -> str:
    """Convert a text to a part of a file name that is valid on every system; different texts can become equal."""
    return _UNSAFE.sub("_", text).strip("._")[:80] or "_"


def create(folder: Path) -> Store:
    """Open the store in `folder`, or create one, which is encrypted if a key is given.

    Raises: StoreError if the folder is not a store, of another version, or not writable; StoreFullError; as
    `open_store`.
    """
    manifest = folder / "store.json"
    try:
        if manifest.exists():
            store = open_store(folder)
        else:
            _refuse_other_content(folder)
            from medhelm.storage.permissions import make_private_folder  # lazy: only for a new store

            make_private_folder(folder)
            _write_new_manifest(folder)
            store = open_store(folder)
        for part in ("runs", "prompts", "locks"):
            make_shared_folder(folder / part)
        _check_writable(folder)
    except OSError as error:
        advice = "name another folder with --store. Nothing was sent"
        raise output_error(f"the store {folder}", error, advice, StoreError) from error
    return store


def find_store(folder: Path) -> Store:
    """Return the store in `folder`, for reading files that are never encrypted: it is not unlocked, nor repaired.

    Raises: StoreError as `open_store`.
    """
    _read_manifest(folder)
    return Store(folder)


def _read_manifest(folder: Path) -> dict[str, Any]:
    """Return the content of `store.json`. Raises: StoreError if it is missing, damaged, or of another version."""
    manifest = folder / "store.json"
    try:
        content = json.loads(manifest.read_text(encoding="utf-8"))
        found = content["medhelm_store"]
    except FileNotFoundError:
        raise StoreError(
            f"no store at {folder}. `medhelm run` and `medhelm demo` create one; --store names another."
        ) from None
    except OSError as error:
        _refuse_file(folder)
        raise StoreError(f"the store {folder} cannot be read: {error.strerror or error}.") from error
    except (ValueError, KeyError, TypeError):
        raise StoreError(
            f"{manifest} is damaged, or does not belong to a store. Name another folder with --store."
        ) from None
    if found not in (FORMAT, ENCRYPTED):
        raise StoreError(
            f"the store {folder} has layout version {found!r}; this version of medhelm reads and writes {FORMAT} "
            f"and {ENCRYPTED}. Use the version that wrote it, or name another folder with --store."
        )
    return cast("dict[str, Any]", content)


def open_store(folder: Path) -> Store:
    """Open the store in `folder` for reading; runs whose replacement was interrupted return to their places.

    Raises: StoreError if it is missing, a file, or of another version; for a store that is not encrypted although a key
    is given, or although its files are; for a wrong key. MissingError without the key of an encrypted store, or
    without the extension that encrypts.
    """
    content = _read_manifest(folder)
    store = Store(folder)
    if content["medhelm_store"] == ENCRYPTED:
        load_cipher(f"the store {folder} is encrypted").unlock(folder, content)
    else:
        _refuse_plain(folder)
    repair(store)
    return store


def repair(store: Store) -> None:
    """Return runs whose replacement was interrupted to their places, and remove what killed processes left."""
    folder = store.folder
    if moved := sorted(folder.glob(f"runs/*/{MOVED}*")):
        from medhelm.storage.recovery.run_replacement import restore_moved_runs  # lazy: only if a process was killed

        restore_moved_runs(moved, store.lock_file_of)
    from medhelm.storage.recovery.leftovers import clear_store  # lazy: the core stays small

    clear_store(folder, store.lock_file_of)


def _write_new_manifest(folder: Path) -> None:
    """Write the `store.json` of a new store; that of a process which creates the same one meanwhile counts."""
    content: dict[str, Any] = {"medhelm_store": FORMAT}
    if cipher := required_cipher(folder):
        content = {"medhelm_store": ENCRYPTED, **cipher.new_manifest(folder)}
    manifest = folder / "store.json"
    from medhelm.io.work_folders import WorkFolder

    with WorkFolder(folder) as work:
        new = work.path / manifest.name
        new.write_text(json.dumps(content) + "\n", encoding="utf-8")
        try:
            manifest.hardlink_to(new)  # fails if there is one, unlike a renamed file
        except FileExistsError:
            return
        except OSError:  # a file system without links
            new.replace(manifest)


def _refuse_plain(folder: Path) -> None:
    """Raise StoreError for a plain store if it must be encrypted, or if some of its files are."""
    if required_cipher(folder):
        names = " and ".join(given_variables(os.environ))
        raise StoreError(
            f"the store {folder} is not encrypted, and {names} is set. Encrypt it with `medhelm encrypt --store "
            f"{folder}`, or unset the variable to use it as it is. Nothing was read or changed."
        )
    if key_of(folder / "x"):  # a temporary store of a command that uses an encrypted one
        return
    for pattern in ("runs/*/*/run.json", "prompts/*.parquet"):
        for path in islice(folder.glob(pattern), MOST_CHECKED):
            with suppress(OSError):
                if is_encrypted(path):
                    raise StoreError(
                        f"{folder / 'store.json'} says that the store is not encrypted, and {path} is: it was replaced "
                        "by an older copy, or changed. Restore the one that `medhelm encrypt` wrote. Nothing was read "
                        "or changed."
                    )


def _check_writable(folder: Path) -> None:
    """Detect a full or read-only disk before anything is sent, by writing and removing a small file."""
    from medhelm.io.work_folders import WorkFolder

    with WorkFolder(folder) as work:
        (work.path / "probe").write_bytes(b"\0" * 4096)


def _refuse_file(folder: Path) -> None:
    """Raise StoreError for a file."""
    if folder.exists() and not folder.is_dir():
        raise StoreError(f"the store {folder} is a file. Name a folder with --store.")


def _refuse_other_content(folder: Path) -> None:
    """Raise StoreError for a file, and for a folder with other content."""
    _refuse_file(folder)
    occupied = folder.is_dir() and any(not path.name.startswith(".") for path in folder.iterdir())
    # Checked last, because another process may have created the store in between.
    if occupied and not (folder / "store.json").exists():
        raise StoreError(
            f"{folder} is not empty and not a store: it has no store.json. Name a new or empty folder with --store."
        )
