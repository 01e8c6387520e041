"""Finds damaged files of runs. Readers leave out such a run with a warning, unless every run must be readable."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from warnings import warn

from medhelm.domain import Run
from medhelm.errors import StoreError
from medhelm.io import files
from medhelm.io.files import reason
from medhelm.io.parquet import connect, sql_path
from medhelm.storage.store import DamagedRunError, stored_folder

_MARK = b"PAR1"
_FOOTER_END = 8
_ROWS = "SELECT num_rows FROM parquet_file_metadata({})"
_IS_NEEDED: ContextVar[Callable[[DamagedRunError], bool] | None] = ContextVar("which run is needed", default=None)
_LEFT_OUT: ContextVar[list[DamagedRunError] | None] = ContextVar("runs left out so far", default=None)


class DamagedRunWarning(UserWarning):
    """A run was left out, because one of its files is damaged."""


@contextmanager
def no_damaged_runs(is_needed: Callable[[DamagedRunError], bool] = lambda _: True) -> Iterator[None]:
    """Make readers raise StoreError for damaged runs that are needed, where a result without them would be wrong."""
    token = _IS_NEEDED.set(is_needed)
    try:
        yield
    finally:
        _IS_NEEDED.reset(token)


@contextmanager
def runs_left_out() -> Iterator[list[DamagedRunError]]:
    """Yield the list of runs that readers leave out within the block, some maybe twice."""
    found: list[DamagedRunError] = []
    token = _LEFT_OUT.set(found)
    try:
        yield found
    finally:
        _LEFT_OUT.reset(token)


def leave_out(errors: Iterable[DamagedRunError], others: Iterable[Run] = ()) -> None:
    """Warn about damaged runs.

    Raises, within `no_damaged_runs` if one of them is needed: StoreError naming all that are, those among `others` with
    a file that cannot be read included.
    """
    found = list(errors)
    if (is_needed := _IS_NEEDED.get()) and any(map(is_needed, found)):
        known = {error.folder for error in found}
        more = damaged(path for run in others if run.folder not in known for path in run_tables(run))
        raise StoreError("\n".join(map(str, filter(is_needed, [*found, *more]))))
    if (left_out := _LEFT_OUT.get()) is not None:
        left_out += found
    for error in found:
        text = f"the run of {error.model} on {error.benchmark} is left out: {error}"
        warn(text, DamagedRunWarning, stacklevel=3)


def intact_runs(runs: Iterable[Run]) -> list[Run]:
    """Return the runs with records; others are left out with a warning. Reads the last bytes of each file."""
    runs = list(runs)
    errors = damaged_records(runs)
    folders = {error.folder for error in errors}
    found = [run for run in runs if run.folder not in folders] if errors else runs
    leave_out(errors, found)
    return found


def damaged_records(runs: Iterable[Run]) -> list[DamagedRunError]:
    """Return an error for each run without records that can be read. Reads the last bytes of each file."""
    return [error for run in runs if (error := _damage_of_records(run))]


def _damage_of_records(run: Run) -> DamagedRunError | None:
    """Return an error if the records of a run are missing, or do not end as a Parquet file."""
    if run.folder is None:
        return None
    path = f"{run.folder}/records.parquet"  # no Path: there may be thousands of runs
    try:
        end, size = _end_of(path)
    except OSError as error:
        why = "the file is empty" if Path(path).is_file() else str(error.strerror)
        return DamagedRunError(f"{path} is missing or damaged ({why}).", run.folder)
    except ValueError as error:  # an encrypted file
        return DamagedRunError(f"{path} is damaged ({error}).", run.folder)
    if end[4:] == _MARK and int.from_bytes(end[:4], "little") < size:
        return None
    return DamagedRunError(f"{path} is damaged (it does not end as a Parquet file).", run.folder)


def _end_of(path: str) -> tuple[bytes, int]:
    """Return the last bytes of a file and its size. Raises: OSError; ValueError for a damaged encrypted file."""
    if files.cipher is None:  # faster, for thousands of runs
        file = os.open(path, os.O_RDONLY)
        try:
            size = os.lseek(file, -_FOOTER_END, os.SEEK_END) + _FOOTER_END
            return os.read(file, _FOOTER_END), size
        finally:
            os.close(file)
    with files.open_file(Path(path), "rb") as opened:
        opened.seek(-_FOOTER_END, os.SEEK_END)
        return opened.read(), opened.tell()


def run_tables(run: Run) -> list[Path]:
    """Return the Parquet files that a stored run must have."""
    names = ["records.parquet", *(["judgments.parquet"] if run.jury_result else [])]
    return [stored_folder(run) / name for name in names]


@contextmanager
def run_errors(path: Path) -> Iterator[None]:
    """Convert errors in a file of a run that is missing or damaged to DamagedRunError."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        raise damaged_file(path, error) from error


def damaged_file(path: Path, error: Exception) -> DamagedRunError:
    """Return the error for a file of a run that cannot be read."""
    return DamagedRunError(f"{path} is missing or damaged ({reason(error)}).", path.parent)


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


def damaged(paths: Iterable[Path]) -> list[DamagedRunError]:
    """Return an error for each file of a run that is missing or damaged; reads only the footers."""
    return [DamagedRunError(f"{path} cannot be read: {why}.", path.parent) for path, why in damage(paths).items()]


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
