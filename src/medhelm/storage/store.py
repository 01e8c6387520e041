"""The store, one folder with all results of a user's evaluations; its runs put in place, and their `run.json`.

STORE/
├── store.json           marks the folder as a store, with the version of its layout, and holds the wrapped key of an
│                        encrypted store (see `extensions.vault`)
├── cache.sqlite         cache of all completions received (see `models.cache`)
├── budget.sqlite        spending limit of all commands, if there is one (see `storage.budget_ledger`)
├── audit.jsonl          audit log: every request that was sent from this store (see `storage.audit`)
├── audit.head           number, place and hash of its last entry on the disk (see `storage.audit`)
├── prompts/             prompts and constant baselines, once per benchmark and data
├── instances/           instances of runs imported from other harnesses (see `storage.imported_instances`)
├── filters/             marks of references that need more than the prompt (see `extensions.paper`)
├── pairwise/            completions that judges compared with each other (see `extensions.pairwise`)
├── runs/BENCHMARK/MODEL-ID/{run.json, records.parquet, judgments.parquet, replies.parquet}
├── runs/BENCHMARK/MODEL-ID_2of8/   a shard of a run, no result until it is merged
├── removed/             runs that were removed and can be restored (see `storage.run_folders`)
├── derived/             data computed from many runs, kept to save time; can be deleted (see `storage.derived_files`)
├── batches/             batches submitted to providers and not collected yet (see `storage.unfinished`)
├── releases/            frozen leaderboards (see `storage.releases`)
├── deletions/           statements of deleted instances (see `storage.privacy`)
├── studies/             plans, ratings and events of studies by clinicians (see `extensions.study`)
├── ratings/             frozen ratings of closed studies (see `storage.ratings`)
├── annotations.jsonl    notes, tags and stars of people (see `storage.annotations`)
├── benchmark_folders.json   folders of the user's own benchmarks (see `storage.own_benchmarks`)
├── definitions/         definitions of the user's own benchmarks as they were last run (see `storage.own_benchmarks`)
├── exports.json         places of exports (see `storage.privacy`)
├── pseudonyms.key       key of the hashes in place of clusters in exports (see `storage.privacy`)
├── fresh/               start of fresh runs that have not finished yet (see `storage.unfinished`)
├── running/             status of evaluations in progress (see `storage.live_status`)
└── locks/               one file per benchmark and model, so that two processes do not send the same requests; and
                         one for each process that sends requests, with its machine (see `storage.store_host`)
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from shutil import rmtree
from tempfile import gettempdir
from typing import Any, cast

from medhelm.domain import (
    CompletionCounts,
    DeletedInstances,
    Estimate,
    Floor,
    JudgeTally,
    Jury,
    JuryResult,
    Model,
    Origin,
    Price,
    Run,
    RunShard,
    RunStatus,
    Shard,
    Taxonomy,
    Usage,
)
from medhelm.errors import StoreError
from medhelm.io.files import (
    error_class,
    given_variables,
    is_encrypted,
    key_of,
    load_cipher,
    make_shared_folder,
    read_confidential,
    required_cipher,
)
from medhelm.io.folders import (
    DEAD,
    PREFIX,
    WorkFolder,
    clear_leftovers,
    clear_old,
    delete_folder,
    output_error,
    sync_folder,
    sync_tree,
    write_confidential,
)
from medhelm.storage.json_form import TUPLE, JsonForm, Nested, by_name, key_map

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
        """File of the audit log (`storage.audit`); made by the first request."""
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


@contextmanager
def disk_errors(place: Path | str, advice: str) -> Iterator[None]:
    """Convert errors of the disk within the block to StoreError, or StoreFullError. `advice`: sentences at the end."""
    try:
        yield
    except OSError as error:
        text = f"{place} cannot be written: {error.strerror or error}. {advice}"
        raise error_class(error, StoreError)(text) from error


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
        restore_moved_runs(moved, store.lock_file_of)

    clear_store(folder, store.lock_file_of)


def _write_new_manifest(folder: Path) -> None:
    """Write the `store.json` of a new store; that of a process which creates the same one meanwhile counts."""
    content: dict[str, Any] = {"medhelm_store": FORMAT}
    if cipher := required_cipher(folder):
        content = {"medhelm_store": ENCRYPTED, **cipher.new_manifest(folder)}
    manifest = folder / "store.json"
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


# --- permissions ------------------------------------------------------------------------------------------------------
# Permissions of a store: for its owner, and for a group with which its folder was shared on purpose.


def make_private_folder(folder: Path) -> None:
    """Make the folder of a new store, or close an existing one to other users.

    An existing folder that only its owner and group may enter stays as it is.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if os.name == "posix" and folder.stat().st_mode & 0o007:
        with suppress(PermissionError):  # the folder of another user
            folder.chmod(0o700)


def is_open_to_others(folder: Path) -> bool:
    """Return True if all users of this machine can enter or list the folder of a store; False if it is no store."""
    try:
        folder = folder.resolve(strict=True)
        is_open = (folder / "store.json").is_file() and bool(folder.stat().st_mode & 0o005)
        return os.name == "posix" and is_open and all(parent.stat().st_mode & 0o001 for parent in folder.parents)
    except OSError:
        return False


# --- leftovers --------------------------------------------------------------------------------------------------------
# Removes what killed processes left in a store and in the system's temporary folder.
#
# Nothing that is the only copy of a run is removed.

_UNFINISHED = re.compile(r"\.(?!old-|new-).+-[0-9a-f]{8}(?:\.jsonl|-parts)?")
"""Name of an unfinished file or folder in a store of version 0.1, which had no lock."""

_TEMPORARY = re.compile(r"medhelm-(?:verify|plan|ehrshot)-\w+")
"""Name of a temporary folder without a lock, of version 0.1 or of a benchmark's own code."""

_cleared: set[Path] = set()
"""Stores that this process has cleared."""


def clear_store(folder: Path, lock_file_of: Callable[[Path], Path]) -> None:
    """Clear a store and the temporary folder, once per process.

    `lock_file_of`: folder of a run -> its lock file.
    """
    folder = folder.absolute()
    if folder in _cleared:
        return
    _cleared.add(folder)
    temporary = Path(gettempdir())
    clear_leftovers(temporary)
    clear_old(temporary, _TEMPORARY)
    for place in (folder, *folder.glob("*"), *folder.glob("runs/*"), *folder.glob(f"runs/*/{NEW}*")):
        clear_leftovers(place)
        clear_old(place, _UNFINISHED, keep=_is_only_copy)
    for purged in (path for place in ("runs/*", "removed", "removed/*/*") for path in folder.glob(f"{place}/{DEAD}*")):
        rmtree(purged, ignore_errors=True)
    for new in folder.glob(f"runs/*/{NEW}*"):
        with suppress(OSError):
            finish_or_remove(new, lock_file_of)


def _is_only_copy(unfinished: Path) -> bool:
    """Return True for a run that is not in its place."""
    place = unfinished.with_name(unfinished.name[1:].rpartition("-")[0])
    return (unfinished / NAME).exists() and not place.exists()


def _is_whole(new: Path) -> bool:
    """Return True for a folder with all of a run: a power failure or an older version can leave half a `run.json`."""
    try:
        read_run(new / NAME)
    except DamagedRunError:
        return False
    return True


def finish_or_remove(new: Path, lock_file_of: Callable[[Path], Path]) -> None:
    """Put a whole new run in its place if that is empty; remove any other, unless a process is writing it.

    Raises: OSError.
    """
    from filelock import FileLock, Timeout

    final = new.with_name(new.name.removeprefix(NEW))
    try:
        with FileLock(lock_file_of(final), blocking=False):
            if final.exists() or not _is_whole(new):
                delete_folder(new)
            elif not final.with_name(MOVED + final.name).exists():
                new.rename(final)
    except Timeout:
        return


# --- run replacement --------------------------------------------------------------------------------------------------
# Puts run folders in place of older ones, and restores a run whose replacement was interrupted.
#
# runs/BENCHMARK/
# ├── NAME/          a run
# ├── .new-NAME/     a run that is being written
# ├── .old-NAME/     a run that is being replaced: moved here, then deleted once the new one is in place and was read
# └── .purged-HEX/   a folder that is being deleted
#
# A process that is killed between the two renames leaves no NAME. The older run, which is complete, then returns to its
# place when the store is next opened, and the same command replaces it again. `run.json` is written last, and a folder
# is renamed before it is deleted, so that half a folder is never mistaken for a run. All of this happens under the lock
# of the run.


@contextmanager
def new_run(final: Path) -> Iterator[Path]:
    """Yield the new folder of a run to fill; put it in place if the block succeeds, else remove it.

    The caller holds the run's lock. Raises: OSError.
    """
    new = new_folder(final)
    delete_folder(new)
    new.mkdir(mode=0o770, parents=True)
    try:
        yield new
        put_in_place(final)
    finally:
        with suppress(OSError):  # the next command removes it
            delete_folder(new)


def put_in_place(final: Path) -> None:
    """Rename the new folder of a run to `final`, and delete an older run there. The caller holds the run's lock.

    The run survives a power failure once this returns. Raises: OSError; the older run is then in its place, or returns
    to it when the store is next opened.
    """
    new, old = new_folder(final), final.with_name(MOVED + final.name)
    restore_run(final)
    for left in new.glob(f"{PREFIX}*"):  # what could not be deleted after a file was written
        delete_folder(left)
    sync_tree(new)
    if final.exists():
        final.rename(old)
    try:
        new.rename(final)
        _read_back(final)
    except BaseException:
        if old.exists():
            restore_run(final)
        elif not _is_readable(final):
            delete_folder(final)
        raise
    sync_folder(final.parent)
    sync_folder(final.parent.parent)
    with suppress(OSError):  # the next command deletes it
        delete_folder(old)


def restore_run(final: Path) -> None:
    """Finish an interrupted replacement of a run. The caller holds its lock. Raises: OSError."""
    old = final.with_name(MOVED + final.name)
    if not old.exists():
        return
    if not (old / NAME).exists() or _is_readable(final):
        delete_folder(old)
        return
    delete_folder(final)
    old.rename(final)
    sync_folder(final.parent)


def _read_back(final: Path) -> None:
    """Read a run that was put in place. Raises: OSError."""
    try:
        read_run(final / NAME)
    except DamagedRunError as error:
        raise OSError(errno.EIO, f"what was written there cannot be read: {error.problem.rstrip('.')}") from error


def _is_readable(final: Path) -> bool:
    """Return True if there is a run, and its `run.json` is not damaged. Raises: OSError if the disk does not say."""
    try:
        read_run(final / NAME)
    except DamagedRunError as error:
        if isinstance(error.__cause__, OSError) and (final / NAME).exists():
            raise error.__cause__ from error
        return False
    except StoreError:  # of a newer version
        return True
    return True


def restore_moved_runs(moved: Iterable[Path], lock_file_of: Callable[[Path], Path]) -> None:
    """Finish interrupted replacements, except those of runs that another process has locked.

    Parameters: moved, folders of runs that were moved aside; lock_file_of, folder of a run -> its lock file.
    Raises: StoreError if a run is out of its place and the store cannot be written.
    """
    from filelock import FileLock, Timeout  # lazy: a run that begins does not need it

    for old in moved:
        final = old.with_name(old.name.removeprefix(MOVED))
        try:
            with FileLock(lock_file_of(final), blocking=False):
                restore_run(final)
        except Timeout:
            continue
        except OSError as error:
            if (old / NAME).exists() and not final.exists():
                raise StoreError(
                    f"{final} is missing: its replacement was interrupted, and the store cannot be written "
                    f"({error.strerror or error}). Run any command that reads the store, such as `medhelm "
                    f"leaderboard`, where the store is writable: that restores the run from {old.name}."
                ) from error


# --- run file ---------------------------------------------------------------------------------------------------------
# Reads and writes `run.json`: a run's numbers and settings, without any text of patients or models.

NAME = "run.json"
"""Name of the file in a run's folder. It is written last, so that its existence means that the run is complete."""

NEW, MOVED = ".new-", ".old-"
"""Starts of the names of a run folder that is being written, and of one that is being replaced (see
`storage.store`)."""


class DamagedRunError(StoreError):
    """A file of a run cannot be read."""

    def __init__(self, problem: str, folder: Path) -> None:
        """`problem`: a sentence that names the file. `folder`: that of the run."""
        super().__init__(
            f"{problem} Restore the file from a copy, or use `medhelm runs remove {folder.name.rpartition('-')[2]}` "
            "and run or import it again; completions in the cache are not bought again."
        )
        self.problem, self.folder = problem, folder

    @property
    def benchmark(self) -> str:
        """Name of the benchmark."""
        return self.folder.parent.name

    @property
    def model(self) -> str:
        """Name of the model, as the folder spells it."""
        return self.folder.name.rpartition("-")[0]


RUN_FORMAT = 1
"""Version of the file, under its key `format`. Files without the key have version 1."""

TAXONOMY = JsonForm(Taxonomy, key_map("category subcategory task"), shared=True)

USAGE = JsonForm(Usage, key_map("input cached_input output reasoning cache_write"))

ESTIMATE = JsonForm(Estimate, key_map("value low high n n_failed method"))

PRICE = JsonForm(Price, key_map("input output cached_input cache_write source"))

MODEL = JsonForm(
    Model,
    key_map(
        "name provider remote_name base_url key_variable reasoning reasoning_effort window max_tokens "
        "max_concurrency price parameters structured scope reasoning_tags"
    ),
    nested={"price": PRICE.one_or_none, "reasoning_tags": Nested(list, lambda pairs: tuple(map(tuple, pairs)))},
    not_stored=("proxy", "ca_file", "client_certificate", "client_key", "replicas", "endpoints_file"),
    not_if_empty=("scope", "reasoning_tags"),
    shared=True,
)

ORIGIN = JsonForm(
    Origin, key_map("harness version run sha256 asked_here=completions_made_here our_task=is_medhelm_task")
)

SHARD = JsonForm(RunShard, key_map("index count run=run_id n_in_run"))

COMPLETION_COUNTS = JsonForm(CompletionCounts, key_map("n blank blank_with_reasoning unreadable answer at_limit"))

DELETED = JsonForm(DeletedInstances, key_map("deletion time n numbers_kept"))

JURY = JsonForm(
    Jury,
    key_map("judges at_least=min_judges has_codes"),
    nested={"judges": MODEL.many},
    not_if_empty=("has_codes",),
    shared=True,
)

TALLY = JsonForm(
    JudgeTally,
    key_map(
        "expected failures usage cost_usd requests_sent requests_cached snapshots fingerprints "
        "refused_parts=refused_parameters"
    ),
    nested={"usage": USAGE.one},
)

FLOOR = JsonForm(Floor, key_map("criterion at_least at_most"), shared=True)

JURY_RESULT = JsonForm(
    JuryResult,
    key_map(
        "jury low high rubric rubric_digest form lower_is_better floors tallies n_blank n_below_floor=n_too_few_judges "
        "n_suspicious=n_with_injection_signs labels=subscores"
    ),
    nested={
        "jury": JURY.one,
        "lower_is_better": TUPLE,
        "floors": FLOOR.many,
        "tallies": TALLY.by_name,
        "labels": ESTIMATE.by_name,
    },
    not_if_empty=("rubric", "rubric_digest", "floors"),
)

RUN = JsonForm(
    Run,
    key_map(
        "id benchmark title taxonomy benchmark_digest data_digest model tier status settings started seconds n "
        "n_failed failures requests_sent requests_cached usage cost_usd main_metric n_shortened=n_truncated "
        "left_out=truncated_characters completion_counts snapshots fingerprints refused_parts=refused_parameters "
        "completion_days estimates groups not_computed cut_texts message sitting=jury_result reached=resolved_model "
        "versions origin shard deletions"
    ),
    nested={
        "taxonomy": TAXONOMY.one,
        "status": Nested(str, RunStatus),
        "usage": USAGE.one,
        "estimates": by_name(ESTIMATE.by_name),
        "sitting": JURY_RESULT.one_or_none,
        "reached": MODEL.one_or_none,
        "origin": ORIGIN.one_or_none,
        "shard": SHARD.one_or_none,
        "deletions": DELETED.many,
        "completion_counts": COMPLETION_COUNTS.one_or_none,
    },
    not_if_empty=("completion_counts", "completion_days", "cut_texts", "shard", "deletions"),
    not_stored=("folder", "requests_retried", "requests_duplicate", "completers"),
)
"""The JSON form of a run. Its folder is not stored: it is the folder of the file.

Keys with words that are no longer used, such as `sitting`, stay as they are: every version that reads this format takes
a file with an unknown key for damaged, and stores are copied between versions.
"""


def stored_folder(run: Run) -> Path:
    """Return the folder of a run. Raises: StoreError if the run is not stored."""
    if run.folder is None:
        raise StoreError(f"the run of {run.model} on {run.benchmark} is not stored")
    return run.folder


def new_folder(final: Path) -> Path:
    """Return the folder in which a run is written before it is put in place."""
    return final.with_name(NEW + final.name)


def write_run(folder: Path, run: Run) -> None:
    """Write the file, which is whole or absent: a folder that has one is a run. Raises: OSError."""
    content = {"format": RUN_FORMAT, **RUN.write(run)}
    write_confidential(folder / NAME, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def read_run(path: Path) -> Run:
    """Read the run in a file. Raises: StoreError if it is damaged, or of a newer version."""
    try:
        content = json.loads(read_confidential(path))
        if not isinstance(content, dict):
            raise TypeError("it is not a JSON object")
        version = content.pop("format", RUN_FORMAT)
        if isinstance(version, int) and version > RUN_FORMAT:
            raise StoreError(
                f"{path} has format {version}, and this version of medhelm reads formats up to {RUN_FORMAT}: a newer "
                "medhelm wrote it. Update medhelm, or name another folder with --store."
            )
        if version != RUN_FORMAT:
            raise ValueError(f"its format is {version!r}")
        return RUN.read(content, folder=path.parent)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedRunError(f"{path} is damaged ({error}).", path.parent) from error
