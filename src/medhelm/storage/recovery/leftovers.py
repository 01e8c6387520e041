"""Removes what killed processes left in a store and in the system's temporary folder.

Nothing that is the only copy of a run is removed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from tempfile import gettempdir

from medhelm.io.work_folders import DEAD, clear_leftovers, clear_old, delete_folder
from medhelm.storage.run_file import MOVED, NAME, NEW, DamagedRunError, read_run

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
            _finish_or_remove(new, lock_file_of)


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


def _finish_or_remove(new: Path, lock_file_of: Callable[[Path], Path]) -> None:
    """Put a whole new run in its place if that is empty; remove any other, unless a process is writing it."""
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
