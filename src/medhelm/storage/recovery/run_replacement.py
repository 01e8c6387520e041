"""Puts run folders in place of older ones, and restores a run whose replacement was interrupted.

runs/BENCHMARK/
├── NAME/          a run
├── .new-NAME/     a run that is being written
├── .old-NAME/     a run that is being replaced: moved here, then deleted once the new one is in place and was read
└── .purged-HEX/   a folder that is being deleted

A process that is killed between the two renames leaves no NAME. The older run, which is complete, then returns to its
place when the store is next opened, and the same command replaces it again. `run.json` is written last, and a folder
is renamed before it is deleted, so that half a folder is never mistaken for a run. All of this happens under the lock
of the run.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from medhelm.errors import StoreError
from medhelm.io.output_folder import sync_folder, sync_tree
from medhelm.io.work_folders import PREFIX, delete_folder
from medhelm.storage.run_file import MOVED, NAME, DamagedRunError, new_folder, read_run


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
