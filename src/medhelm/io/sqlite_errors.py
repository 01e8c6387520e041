"""Converts SQLite errors to errors that say what to do."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from medhelm.errors import StoreError, StoreFullError


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
