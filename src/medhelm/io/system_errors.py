"""Converts errors of the operating system, in any form in which libraries raise them, to errors that say what to do.

Code that knows what it was writing says so itself (`io.output_folder.output_errors`). This is for all other places.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from medhelm.errors import MedHelmError, StoreError, StoreFullError, UserError

DISK_FULL = frozenset(getattr(errno, name) for name in ("ENOSPC", "EDQUOT") if hasattr(errno, name))
"""Numbers of errors of a full disk, and of a quota that is used up."""

DISK_FAILS = frozenset(
    getattr(errno, name) for name in ("EIO", "EBADF", "ENXIO", "ENODEV", "ESTALE", "EREMOTEIO") if hasattr(errno, name)
)
"""Numbers of errors of a disk, or of the connection to one."""

_ADVICE: Mapping[int, str] = {
    **dict.fromkeys(DISK_FULL, "Free some space, and repeat the command."),
    **dict.fromkeys(DISK_FAILS, "The disk, or the connection to it, fails: check it, and repeat the command."),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "Check the permissions of the file and its folder."),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "Raise the limit on open files (`ulimit -n`)."),
    errno.EFBIG: "Raise the limit on the size of files (`ulimit -f`).",
    errno.ENAMETOOLONG: "Use a shorter name.",
}
"""Number of an error -> what to do. Others are not converted: they are more likely mistakes in this program."""

_DATABASE_ERRORS = ("IOException", "OutOfMemoryException")
"""Names of DuckDB's errors for a full disk and for memory; their text includes the system's reason."""


_SQLITE_DISK_ERRORS = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
"""SQLite's codes for what a disk or a wrong place causes."""


def system_error(error: BaseException) -> MedHelmError | None:
    """Return the error for one of the operating system, or for a group in which all are such; None for any other.

    Of a group, the first error that is already a MedHelmError counts, else the first one.
    """
    if isinstance(error, MedHelmError):
        return error
    if isinstance(error, BaseExceptionGroup):
        found = [system_error(one) for one in error.exceptions]
        if None in found:
            return None
        own = [one for one in error.exceptions if isinstance(one, MedHelmError)]
        return own[0] if own else found[0]
    if isinstance(error, OSError):
        return _from_system(error)
    if isinstance(error, sqlite3.Error) and primary_code(error) in _SQLITE_DISK_ERRORS:
        return store_error(error, Path("a database of the store"), 0.0)
    if is_database_disk_error(error):
        return StoreFullError(f"a file cannot be read or written: {reason(error).rstrip('.')}. {_ADVICE[errno.EIO]}")
    return None


def error_class(error: OSError, otherwise: type[MedHelmError]) -> type[MedHelmError]:
    """Return StoreFullError (exit code 4) for a disk that is full or fails, and `otherwise` for a wrong place."""
    return StoreFullError if error.errno in DISK_FULL | DISK_FAILS else otherwise


def is_database_disk_error(error: BaseException) -> bool:
    """Return True for DuckDB's errors about a disk or about memory, those of encrypted files included."""
    return type(error).__name__ in _DATABASE_ERRORS or "OSError: [Errno" in str(error)


def _from_system(error: OSError) -> MedHelmError | None:
    if "No usable temporary directory" in str(error):  # of `tempfile`, whatever the disk says
        return StoreFullError(f"{error.strerror}. Free some space there, or name another folder with TMPDIR.")
    advice = _ADVICE.get(error.errno or 0)
    if advice is None:
        return None
    place: Any = error.filename
    if isinstance(place, (str, bytes, os.PathLike)):
        what = f"{os.fsdecode(place)} cannot be read or written"
    else:
        what = "the output, or a file, could not be written"
    return error_class(error, UserError)(f"{what}: {error.strerror}. {advice}")


def reason(error: BaseException) -> str:
    """Return in one line why a file cannot be read, from an error of DuckDB or of an encrypted file."""
    lines = str(error).partition("\n\n")[0].splitlines() or [type(error).__name__]
    return lines[-1].partition(": ")[2] if lines[0].startswith("Traceback") else lines[0]


# --- SQLite -----------------------------------------------------------------------------------------------------------


def primary_code(error: sqlite3.Error) -> int:
    """Return SQLite's primary result code; 0 if the error did not come from SQLite."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def store_error(error: sqlite3.Error, path: Path, timeout_s: float) -> StoreError:
    """Convert an error about a file. `timeout_s`: seconds waited for another process that was writing."""
    code = primary_code(error)
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        return StoreFullError(
            f"{path} could not be written ({error}): the disk or your quota is full, or the disk fails. Everything "
            "committed before is kept. Free some space, and repeat the command to continue."
        )
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return StoreError(
            f"{path} is damaged or not a database ({error}). Move it, or choose another store with --store."
        )
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return StoreError(
            f"{path} cannot be opened for writing ({error}). Check that it is a file, and its permissions and those of "
            "its folder, or choose another store with --store."
        )
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreError(
            f"{path} has been in use by another process for {timeout_s:g} s. Everything committed before is kept; "
            "wait until the other process has finished, then repeat the command."
        )
    return StoreError(f"{path} cannot be used: {error}. Everything committed before is kept.")
