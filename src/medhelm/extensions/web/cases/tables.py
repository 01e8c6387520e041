"""The records and judgments of a benchmark as tables in memory, so that page after page need not open all files."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from medhelm.io.parquet import connect, open_engine, sql_path
from medhelm.storage.derived_files import Identity, identity_of

if TYPE_CHECKING:
    import duckdb

MOST_BYTES = 4 * 2**20
"""Size of the files of a benchmark up to which their content is kept; it takes several times as much memory."""

MOST_TABLES = 8
"""Benchmarks whose content is kept in memory; that which was not used for longest makes room."""

MEMORY_MB = 256
"""Memory of the tables of one benchmark."""


def records_table(paths: Iterable[Path | str]) -> str:
    """Return the SQL of the rows in files of records, with the name of the file."""
    return f"read_parquet([{', '.join(map(sql_path, paths))}], union_by_name = true, filename = true)"


def judgments_table(paths: Iterable[Path | str]) -> str:
    """Return the SQL of the rows in files of judgments, with the name of the file and the number of the row."""
    return (
        f"read_parquet([{', '.join(map(sql_path, paths))}], union_by_name = true, filename = true, "
        "file_row_number = true)"
    )


class Tables:
    """A connection, and the SQL of the tables of records and judgments of a benchmark."""

    def __init__(self, records: Sequence[Path], judgments: Sequence[Path]) -> None:
        """Open the tables in memory if the files are small enough, else the files. Raises: duckdb.Error."""
        engine = _engine_of(tuple(records), tuple(judgments))
        self.connection = connect() if engine is None else engine.cursor()
        self.records = records_table(records) if engine is None else "kept_records"
        self.judgments = judgments_table(judgments) if engine is None else "kept_judgments"


Files = tuple[tuple[Path, Identity], ...]

_kept: OrderedDict[Files, duckdb.DuckDBPyConnection] = OrderedDict()
_lock = Lock()


def _engine_of(records: Sequence[Path], judgments: Sequence[Path]) -> duckdb.DuckDBPyConnection | None:
    """Return the engine with the content of these files as they are now; None if they are too large, or one is missing.

    Content that is no longer used is freed with its last connection.
    """
    paths = sorted([*records, *judgments])  # in any order of the models
    files = tuple((path, identity) for path in paths if (identity := identity_of(str(path))))
    if len(files) < len(paths) or sum(identity[0] for _, identity in files) > MOST_BYTES:
        return None
    with _lock:
        if found := _kept.pop(files, None):
            _kept[files] = found
            return found
    made = open_engine(memory_mb=MEMORY_MB)
    made.execute(f"CREATE TABLE kept_records AS SELECT * FROM {records_table(records)}")  # noqa: S608 - our own files
    if judgments:
        made.execute(f"CREATE TABLE kept_judgments AS SELECT * FROM {judgments_table(judgments)}")  # noqa: S608
    with _lock:
        _kept[files] = made
        while len(_kept) > MOST_TABLES:
            _kept.popitem(last=False)
    return made
