"""Finds damaged files of runs. Readers leave out such a run with a warning, unless every run must be readable."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from warnings import warn

from medhelm.domain import Run
from medhelm.errors import StoreError
from medhelm.io.encryption.places import is_active, open_file
from medhelm.io.parquet import connect, reason, sql_path
from medhelm.storage.run_file import ADVICE, DamagedRunError

_MARK = b"PAR1"
_FOOTER_END = 8
_ROWS = "SELECT num_rows FROM parquet_file_metadata({})"
_REQUIRED: ContextVar[bool] = ContextVar("every run must be readable", default=False)


class DamagedRunWarning(UserWarning):
    """A run was left out, because one of its files is damaged."""


@contextmanager
def no_damaged_runs() -> Iterator[None]:
    """Make readers raise StoreError for damaged runs, where a result without them would be wrong."""
    token = _REQUIRED.set(True)
    try:
        yield
    finally:
        _REQUIRED.reset(token)


def leave_out(errors: Iterable[DamagedRunError]) -> None:
    """Warn about damaged runs. Raises: StoreError naming all of them within `no_damaged_runs`."""
    found = list(errors)
    if found and _REQUIRED.get():
        raise StoreError("\n".join(map(str, found)))
    for error in found:
        model, _, run_id = error.folder.name.rpartition("-")
        words = str(error).removesuffix(ADVICE).rstrip()
        warn(
            f"the run of {model} on {error.folder.parent.name} is left out: {words} Restore the file from a copy, or "
            f"use `medhelm runs remove {run_id}` and run or import it again; completions in the cache are not bought "
            "again.",
            DamagedRunWarning,
            stacklevel=3,
        )


def intact_runs(runs: Iterable[Run]) -> list[Run]:
    """Return the runs with records; others are left out with a warning. Reads the last bytes of each file."""
    found, errors = [], []
    for run in runs:
        if error := _damage_of_records(run):
            errors.append(error)
        else:
            found.append(run)
    leave_out(errors)
    return found


def _damage_of_records(run: Run) -> DamagedRunError | None:
    """Return an error if the records of a run are missing, or do not end as a Parquet file."""
    if run.folder is None:
        return None
    path = f"{run.folder}/records.parquet"  # no Path: there may be thousands of runs
    try:
        end, size = _end_of(path)
    except OSError as error:
        why = "the file is empty" if Path(path).is_file() else str(error.strerror)
        return DamagedRunError(f"{path} is missing or damaged ({why}). {ADVICE}", run.folder)
    except ValueError as error:  # an encrypted file
        return DamagedRunError(f"{path} is damaged ({error}). {ADVICE}", run.folder)
    if end[4:] == _MARK and int.from_bytes(end[:4], "little") < size:
        return None
    return DamagedRunError(f"{path} is damaged (it does not end as a Parquet file). {ADVICE}", run.folder)


def _end_of(path: str) -> tuple[bytes, int]:
    """Return the last bytes of a file and its size. Raises: OSError; ValueError for a damaged encrypted file."""
    if not is_active():  # faster, for thousands of runs
        file = os.open(path, os.O_RDONLY)
        try:
            size = os.lseek(file, -_FOOTER_END, os.SEEK_END) + _FOOTER_END
            return os.read(file, _FOOTER_END), size
        finally:
            os.close(file)
    with open_file(Path(path), "rb") as opened:
        opened.seek(-_FOOTER_END, os.SEEK_END)
        return opened.read(), opened.tell()


@contextmanager
def prompt_errors(path: Path) -> Iterator[None]:
    """Convert errors in a damaged file of prompts to StoreError."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        raise StoreError(
            f"{path} is damaged ({reason(error)}). Remove the file and run the same command again."
        ) from error


def damaged(paths: Iterable[Path], advice: str = ADVICE) -> list[str]:
    """Return a message for each Parquet file that is missing or damaged; reads only the footers."""
    return [f"{path} cannot be read: {why}. {advice}" for path, why in damage(paths).items()]


def damage(paths: Iterable[Path]) -> dict[Path, str]:
    """Return why Parquet files cannot be read, for those that are missing or damaged; reads only the footers."""
    import duckdb

    found = {}
    with connect() as connection:
        for path in paths:
            try:
                connection.execute(_ROWS.format(sql_path(path))).fetchall()
            except duckdb.Error as error:
                found[path] = reason(error) if path.exists() else "it is missing"
    return found
