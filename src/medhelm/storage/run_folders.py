"""Lists the folders of runs, damaged ones included, and removes, restores and deletes them.

STORE/removed/ID/
├── removal.json                  time and names of the runs; written first
└── BENCHMARK/MODEL-ID/           each run as it was

Removing and restoring rename one folder after another, so a killed process loses nothing: each run is in one of the two
places. Runs are locked meanwhile, as by an evaluation, and readers of a store never look into `removed`.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from medhelm.domain.run import Removal, RunOnDisk
from medhelm.errors import StoreError, UserError
from medhelm.io.files import make_shared_folder
from medhelm.io.folders import atomic_folder, delete_folder, sync_folder
from medhelm.storage.damage import damage, run_tables
from medhelm.storage.derived_files import clear_derived
from medhelm.storage.store import NAME, DamagedRunError, Store, disk_errors, read_run, restore_run

FORMAT = 1
"""Version of `removal.json`, under its key `format`."""

MANIFEST = "removal.json"
"""File that describes a removal to people; the runs of a removal are the folders next to it."""

WAIT_S = 10.0
"""Most seconds to wait for another process that removes, restores or deletes."""

_TIME = "%Y%m%dT%H%M%SZ"
"""Format of the time at the beginning of the id of a removal."""

# --- reading ----------------------------------------------------------------------------------------------------------


def read_run_folders(store: Store) -> list[RunOnDisk]:
    """Return all runs of a store, damaged ones included, sorted by benchmark and folder."""
    return _read(_folders(store.folder / "runs"))


def read_removals(store: Store) -> list[Removal]:
    """Return the removals that hold runs, the latest first."""
    found = []
    for folder in store.removed_folder.glob("[!.]*"):
        runs = [replace(run, removal=folder.name) for run in _read(_folders(folder))]
        if runs:
            found.append((_removal_time(folder), folder.stat().st_mtime_ns, runs))
    found.sort(key=lambda one: one[:2], reverse=True)
    return [Removal(id=runs[0].removal, removed=time, runs=runs) for time, _, runs in found]


def _folders(place: Path) -> list[Path]:
    """Return the folders of runs below a folder, without hidden ones, which are being written."""
    return sorted(path for path in place.glob("*/[!.]*") if path.is_dir())


def _read(folders: Sequence[Path]) -> list[RunOnDisk]:
    """Read runs and the damage in their files."""
    found = [_read_folder(folder) for folder in folders]
    expected = {path: one for one in found if one.run for path in run_tables(one.run)}
    problems: dict[Path, str] = {}
    for path, reason in damage(expected).items():
        text = reason.replace(f"'{path}'", path.name).rstrip(".")
        problems.setdefault(expected[path].folder, f"{path.name} cannot be read: {text}.")
    return [replace(one, problem=one.problem or problems.get(one.folder, "")) for one in found]


def _read_folder(folder: Path) -> RunOnDisk:
    path = folder / NAME
    run, problem = None, ""
    try:
        run = read_run(path)
    except StoreError as error:
        words = error.problem if isinstance(error, DamagedRunError) else str(error)
        problem = words.replace(f"{path} ", f"{NAME} ", 1)
    if not path.is_file():
        problem = f"{NAME} is missing."
    return RunOnDisk(folder=folder, run=run, problem=problem, files=_sizes(folder))


def _sizes(folder: Path) -> dict[str, int]:
    sizes = {}
    for path in sorted(folder.rglob("*")):
        with suppress(OSError):  # removed by another process in between
            if path.is_file():
                sizes[path.relative_to(folder).as_posix()] = path.stat().st_size
    return sizes


def _removal_time(folder: Path) -> str:
    """Return the time of a removal: the one in its name, or the time of the folder."""
    try:
        time = datetime.strptime(folder.name.partition("-")[0], _TIME).replace(tzinfo=UTC)
    except ValueError:
        time = datetime.fromtimestamp(folder.stat().st_mtime, UTC)
    return time.isoformat(timespec="seconds")


# --- removing ---------------------------------------------------------------------------------------------------------


def remove_runs(store: Store, runs: Sequence[RunOnDisk]) -> Removal:
    """Move runs to `removed`, where no reader looks.

    Raises: StoreError if a run is in progress on one of the models and benchmarks, or if the disk refuses.
    """
    now = datetime.now(UTC)
    place = store.removed_folder / f"{now.strftime(_TIME)}-{secrets.token_hex(3)}"
    about = {
        "format": FORMAT,
        "removed": now.isoformat(timespec="seconds"),
        "runs": [{"benchmark": one.benchmark, "model": one.model, "id": one.id} for one in runs],
    }
    with locked_runs(store, _in_words(runs), "removed"):
        with _disk_errors(place):
            make_shared_folder(place.parent)
        with _disk_errors(place), atomic_folder(place, replace=False, durable=True) as new:
            (new / MANIFEST).write_text(json.dumps(about, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        for one in runs:
            with _disk_errors(one.folder):
                restore_run(one.folder)  # deletes leftovers of an interrupted replacement
        moved = _move(runs, lambda one: place / one.folder.parent.name / one.folder.name)
        _clear_derived(store, runs)
    return Removal(
        id=place.name, removed=str(about["removed"]), runs=[replace(one, removal=place.name) for one in moved]
    )


def restore_runs(store: Store, runs: Sequence[RunOnDisk]) -> list[RunOnDisk]:
    """Move removed runs back.

    Raises: UserError if the same run was made again since, or two of them are the same; StoreError as `remove_runs`.
    Then nothing is restored.
    """
    target = store.folder / "runs"

    def place_of(one: RunOnDisk) -> Path:
        return target / one.folder.parent.name / one.folder.name

    with locked_runs(store, _in_words(runs), "restored"):
        places = [place_of(one) for one in runs]
        problems = [
            f"{one.benchmark} with {one.model} (run {one.short_id}) was made again after it was removed. "
            f"Remove the newer run first: medhelm runs remove {one.short_id}"
            for one, place in zip(runs, places, strict=True)
            if place.exists()
        ]
        problems += [
            f"{one.benchmark} with {one.model} (run {one.short_id}) was removed more than once. Name one removal."
            for one, place in zip(runs, places, strict=True)
            if places.count(place) > 1
        ]
        if problems:
            raise UserError("\n".join([*dict.fromkeys(problems), "Nothing was restored."]))
        moved = _move(runs, place_of)
        for one in moved:
            _remove_if_empty(store.removed_folder / one.removal)
    return [replace(one, folder=place_of(one), removal="") for one in moved]


def purge(store: Store, removals: Sequence[Removal]) -> None:
    """Delete removed runs for good, and leftovers of killed processes. Raises: StoreError if the disk refuses."""
    with _guard(store), _disk_errors(store.removed_folder):
        for removal in removals:
            _clear_derived(store, removal.runs)
            delete_folder(store.removed_folder / removal.id)
        for folder in store.removed_folder.glob("*"):
            if folder.name.startswith(".") or not _folders(folder):
                delete_folder(folder)


def delete_runs(store: Store, runs: Sequence[RunOnDisk], *, before: Callable[[], None]) -> None:
    """Delete runs for good, whether they were removed before or not. `before`: called first, with the runs locked.

    Raises: StoreError if a run is in progress on one of the models and benchmarks, or if the disk refuses.
    """
    present = _in_words([one for one in runs if not one.removal])
    with locked_runs(store, present, "deleted"), _disk_errors(store.folder):
        before()
        for one in runs:
            delete_folder(one.folder)
            if one.removal:
                _remove_if_empty(store.removed_folder / one.removal)
        _clear_derived(store, runs)


def _clear_derived(store: Store, runs: Sequence[RunOnDisk]) -> None:
    """Delete the derived scores of the benchmarks of these runs; those of other runs are derived again."""
    with _disk_errors(store.folder):
        clear_derived(store.folder, {one.folder.parent.name for one in runs})


def _move(runs: Sequence[RunOnDisk], place_of: Callable[[RunOnDisk], Path]) -> list[RunOnDisk]:
    """Rename the folders of runs; those that another process moved first are left out."""
    moved = []
    for one in runs:
        place = place_of(one)
        with _disk_errors(place):
            place.parent.mkdir(parents=True, exist_ok=True)
            try:
                one.folder.rename(place)
            except FileNotFoundError:
                continue
            for folder in (place.parent, place.parent.parent, one.folder.parent):
                sync_folder(folder)
        moved.append(replace(one, folder=place))
    return moved


def _remove_if_empty(folder: Path) -> None:
    """Remove the folder of a removal that holds no more runs."""
    if folder.is_dir() and not _folders(folder):
        with suppress(OSError):
            delete_folder(folder)


# --- locks ------------------------------------------------------------------------------------------------------------


@contextmanager
def locked_runs(store: Store, runs: Mapping[Path, str], what: str) -> Iterator[None]:
    """Lock runs against evaluations, and the store against other removals.

    Parameters: runs, folder -> the run in words; what, the end of "Nothing was".
    Raises: StoreError naming those in progress.
    """
    with ExitStack() as held:
        held.enter_context(_guard(store))
        busy = []
        for file, name in {store.lock_file_of(folder): name for folder, name in runs.items()}.items():
            lock = FileLock(file)
            try:
                lock.acquire(blocking=False)
            except Timeout:
                busy.append(name)
            else:
                held.callback(lock.release)
        if busy:
            raise StoreError(
                f"in progress: {', '.join(busy)}. Wait until the evaluation ends, or stop it. Nothing was {what}."
            )
        yield


def _in_words(runs: Sequence[RunOnDisk]) -> dict[Path, str]:
    """Return folder -> benchmark and model of each run."""
    return {one.folder: f"{one.benchmark} with {one.model}" for one in runs}


@contextmanager
def _guard(store: Store) -> Iterator[None]:
    """Let one process at a time remove, restore or delete."""
    file = store.folder / "locks" / "removed.lock"
    with _disk_errors(file):
        file.parent.mkdir(exist_ok=True)
        lock = FileLock(file)
        try:
            lock.acquire(timeout=WAIT_S)
        except Timeout:
            raise StoreError(
                f"another process is removing or restoring runs in {store.folder}. Try again later."
            ) from None
    try:
        yield
    finally:
        lock.release()


def _disk_errors(place: Path) -> AbstractContextManager[None]:
    """Convert disk errors to StoreError."""
    return disk_errors(place, "Runs already moved are in `medhelm runs list` or `medhelm runs list --removed`.")
