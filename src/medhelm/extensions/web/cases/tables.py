"""The records and judgments of a benchmark as tables in memory, so that page after page need not open all files."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from medhelm.io.parquet import connect, open_engine, sql_path
from medhelm.storage.derived_files import Identity, identity_of

if TYPE_CHECKING:
    import duckdb

MOST_BYTES = 4 * 2**20
"""Size of the content of a benchmark's files up to which it is kept; it takes several times as much memory."""

EMPTY_BYTES = 6_000
"""About the size of a file without rows, which takes no memory: its columns and their statistics."""

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
    """The SQL of the tables of records and judgments of a benchmark, and connections to them."""

    def __init__(self, records: Sequence[Path], judgments: Sequence[Path]) -> None:
        """Open the tables in memory if the files are small enough, else the files. Raises: duckdb.Error."""
        self._kept = _kept_tables(tuple(records), tuple(judgments))
        self.records = records_table(records) if self._kept is None else "kept_records"
        self.judgments = judgments_table(judgments) if self._kept is None else "kept_judgments"

    def connect(
        self, purpose: Hashable, prepare: Callable[[duckdb.DuckDBPyConnection], None]
    ) -> duckdb.DuckDBPyConnection:
        """Return a connection that is prepared for a purpose; to tables in memory one that was returned already is."""
        if self._kept is not None:
            with suppress(IndexError, KeyError):
                return self._kept.idle[purpose].pop()
        made = connect() if self._kept is None else self._kept.engine.cursor()
        prepare(made)
        return made

    def give_back(self, purpose: Hashable, connection: duckdb.DuckDBPyConnection) -> None:
        """Keep a connection for the next page with the same purpose."""
        if self._kept is None:
            connection.close()
        else:
            self._kept.idle.setdefault(purpose, []).append(connection)


@dataclass(frozen=True, slots=True)
class _KeptTables:
    """Tables in memory."""

    engine: duckdb.DuckDBPyConnection
    """Engine that holds them; freed with its last connection."""
    idle: dict[Hashable, list[duckdb.DuckDBPyConnection]] = field(default_factory=dict)
    """Purpose -> prepared connections that no page uses at the moment."""


Files = tuple[tuple[Path, Identity], ...]

_kept: OrderedDict[Files, _KeptTables] = OrderedDict()
_lock = Lock()


def _kept_tables(records: Sequence[Path], judgments: Sequence[Path]) -> _KeptTables | None:
    """Return the content of these files as they are now; None if it is too large, or a file is missing."""
    paths = sorted([*records, *judgments])  # in any order of the models
    files = tuple((path, identity) for path in paths if (identity := identity_of(str(path))))
    if len(files) < len(paths) or sum(max(0, identity[0] - EMPTY_BYTES) for _, identity in files) > MOST_BYTES:
        return None
    with _lock:
        if found := _kept.pop(files, None):
            _kept[files] = found
            return found
    import duckdb

    engine = open_engine(memory_mb=MEMORY_MB)
    try:
        engine.execute(f"CREATE TABLE kept_records AS SELECT * FROM {records_table(records)}")  # noqa: S608 - our files
        if judgments:
            engine.execute(f"CREATE TABLE kept_judgments AS SELECT * FROM {judgments_table(judgments)}")  # noqa: S608
    except duckdb.OutOfMemoryException:
        return None
    with _lock:
        _kept[files] = made = _KeptTables(engine)
        while len(_kept) > MOST_TABLES:
            _kept.popitem(last=False)
    return made
