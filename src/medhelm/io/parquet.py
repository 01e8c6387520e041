"""Writes Parquet files by rows or by columns, and opens the DuckDB engine that reads them."""

from __future__ import annotations

import atexit
import json
import os
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medhelm.io import files
from medhelm.io.folders import put_file

if TYPE_CHECKING:
    import duckdb

ROW_GROUP, ROW_GROUP_BYTES = 2048, 2**24
"""Maximum number of rows, and approximate number of bytes, converted to columns at once; limits memory."""

PART_BYTES = 2**20
"""Size of the JSON files that DuckDB reads; it holds one in memory."""

MORE_MEMORY = 8
"""Factor on the memory limit if files are encrypted, because nothing is then spilled to the disk as plain text."""

_NUMBERS = {"DOUBLE": "float64", "INTEGER": "int64", "BIGINT": "int64", "BOOLEAN": "int8"}
"""DuckDB type of a column that is not text -> NumPy type."""

_to_json = json.JSONEncoder(ensure_ascii=False).encode


class ParquetWriter:
    """Writes a Parquet file by rows: appends them to a file of JSON lines and converts it to columns at the end.

    Only the rows' offsets are kept in memory, and a few thousand rows are converted at a time.
    """

    def __init__(self, path: Path, columns: Mapping[str, str]) -> None:
        """`path`: the Parquet file to write. `columns`: name -> DuckDB type, including `position`."""
        from medhelm.io.folders import WorkFolder  # lazy here and below: nothing is written at the start

        self._path, self._columns = path, columns
        path.parent.mkdir(parents=True, exist_ok=True)
        self._work = WorkFolder(path.parent)
        self._lines = self._work.path / "rows.jsonl"
        self._file = files.open_file(self._lines, "wb")
        self._positions, self._starts = array("q"), array("q")
        self._size = self._longest = 0
        self._in_order = True

    def add(self, row: Mapping[str, Any]) -> None:
        """Append one row."""
        # "replace": a lone surrogate, which JSON can carry and UTF-8 cannot, must not make the row unwritable.
        line = _to_json(row).encode("utf-8", "replace") + b"\n"
        self._in_order = self._in_order and row["position"] == len(self._positions)
        self._positions.append(row["position"])
        self._starts.append(self._size)
        self._size += len(line)
        self._longest = max(self._longest, len(line))
        self._file.write(line)

    def finish(self) -> None:
        """Write the Parquet file, in the order of `position`, and rename it into place."""
        self._file.close()
        new = self._work.path / self._path.name
        types = ", ".join(f"{sql_name(name)}: '{kind}'" for name, kind in self._columns.items())
        size = self._longest + 2**20
        n_together = max(1, min(ROW_GROUP, ROW_GROUP_BYTES * len(self._starts) // max(self._size, 1)))
        with connect() as connection:
            parts = ", ".join(sql_path(part) for part in self._in_parts(self._work.path))
            rows = f"read_json([{parts}], format='nd', columns={{{types}}}, maximum_object_size={size})"
            connection.execute(
                f"COPY (SELECT * FROM {rows}) TO {sql_text(files.address(new))} "
                f"(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {n_together}, USE_TMP_FILE false)"
            )
        put_file(new, self._path)
        self._work.close()

    def _in_parts(self, folder: Path) -> list[Path]:
        """Write the lines in the order of `position` to small files: DuckDB holds each file it reads in memory."""
        parts = []
        for number, content in enumerate(self._batches()):
            parts.append(folder / f"{number}.jsonl")
            with files.open_file(parts[-1], "wb") as file:
                file.write(content)
        return parts

    def _batches(self) -> Iterator[bytes]:
        """Yield the lines in the order of `position`, about PART_BYTES at a time."""
        batch = bytearray()
        places: Sequence[int] = range(len(self._positions))
        if not self._in_order:
            places = sorted(places, key=self._positions.__getitem__)
        with files.open_file(self._lines, "rb") as lines:
            for place in places:
                lines.seek(self._starts[place])
                batch += lines.readline()
                if len(batch) >= PART_BYTES:
                    yield bytes(batch)
                    batch.clear()
        yield bytes(batch)

    def discard(self) -> None:
        """Delete all rows added so far."""
        with suppress(OSError):  # a full disk: what closing could not write is deleted anyway
            self._file.close()
        self._work.close()


class ColumnWriter:
    """Writes tables by columns. One engine writes many files, because starting it takes longer than writing one."""

    def __init__(self) -> None:
        """The engine starts with the first table."""
        self._connection: duckdb.DuckDBPyConnection | None = None

    def write(self, path: Path, kinds: Mapping[str, str], columns: Mapping[str, Sequence[Any]]) -> None:
        """Write a file in a hidden folder beside `path` and rename it into place.

        Parameters: kinds, name -> DuckDB type, in the order of the file; columns, name -> values of all rows, None for
        NULL, or one text for all rows. A missing column is all NULL.
        """
        from medhelm.io.folders import WorkFolder

        path.parent.mkdir(parents=True, exist_ok=True)
        if self._connection is None:
            self._connection = connect()
        table, selected = {}, []
        for i, (name, kind) in enumerate(kinds.items()):
            values = columns.get(name)
            if values is None or isinstance(values, str):
                shown = "NULL" if values is None else sql_text(values)
            else:
                table[f"c{i}"], shown = _array(kind, values), f"c{i}"
            selected.append(f"CAST({shown} AS {kind}) AS {sql_name(name)}")
        options = f"(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {ROW_GROUP}, USE_TMP_FILE false)"
        with WorkFolder(path.parent) as work:
            new = work.path / path.name
            query = f"COPY (SELECT {', '.join(selected)} FROM columns) TO {sql_text(files.address(new))} {options}"
            self._connection.register("columns", table)
            try:
                self._connection.execute(query)
            finally:
                self._connection.unregister("columns")
            put_file(new, path)

    def close(self) -> None:
        """Close the engine."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _array(kind: str, values: Sequence[Any]) -> Any:
    """Convert a column to an array that DuckDB reads without copying each value."""
    import numpy as np

    if kind in _NUMBERS:
        with suppress(TypeError):  # which None raises
            return np.array(values, dtype=_NUMBERS[kind])
        present = np.fromiter((value is not None for value in values), dtype=bool, count=len(values))
        filled = np.array([0 if value is None else value for value in values], dtype=_NUMBERS[kind])
        return np.ma.masked_array(filled, mask=~present)
    try:
        "".join(filter(None, values)).encode()
    except UnicodeEncodeError:
        # Replace lone surrogates, which JSON can hold and UTF-8 cannot.
        values = [value and value.encode("utf-8", "replace").decode() for value in values]
    return np.array(values, dtype=object)


def connect() -> duckdb.DuckDBPyConnection:
    """Open a connection of this process's engine, with temporary tables and views of its own."""
    return _engine(os.getpid(), files.cipher is not None).cursor()


@cache
def _engine(process_id: int, encrypted: bool) -> duckdb.DuckDBPyConnection:  # noqa: ARG001 - each needs its own
    """Start the engine of this process, which takes 25 ms: as long as reading 50 runs.

    A forked process needs its own, and so do encrypted files.
    """
    atexit.register(_engine.cache_clear)  # before the interpreter ends: DuckDB reports what is left after it
    return open_engine(memory_mb=512)


@cache
def _spill_folder(process_id: int) -> Path:  # noqa: ARG001 - a forked process needs its own
    """Create the folder for data that does not fit into memory; DuckDB's default is `.tmp` in the current folder."""
    from medhelm.io.folders import temporary_folder

    work = temporary_folder()
    atexit.register(work.close)
    return work.path


def open_engine(*, memory_mb: int, threads: int = 1) -> duckdb.DuckDBPyConnection:
    """Start a private engine with limited memory, no extensions and no network."""
    import duckdb

    cipher = files.cipher
    engine = open_database(
        threads=threads,
        memory_limit=f"{memory_mb * (MORE_MEMORY if cipher else 1)}MB",
        temp_directory="" if cipher else str(_spill_folder(os.getpid())),
    )
    if cipher:
        engine.register_filesystem(cipher.file_system())
    with suppress(duckdb.Error):  # before DuckDB 1.3 there is no such setting, and no such cache
        engine.execute("SET enable_external_file_cache = false")
    return engine


def open_database(**settings: str | int) -> duckdb.DuckDBPyConnection:
    """Open a database in memory that loads no extensions, which could download or contact addresses in paths."""
    import duckdb

    return duckdb.connect(
        ":memory:",
        config={**settings, "autoinstall_known_extensions": False, "autoload_known_extensions": False},
    )


def sql_name(text: str) -> str:
    """Quote a text as an SQL name."""
    return '"' + text.replace('"', '""') + '"'


def sql_path(path: Path | str) -> str:
    """Quote the path of a file to read as an SQL string, in which `*`, `?` and `[` are not wildcards.

    >>> sql_path("ward?/records.parquet")
    "'ward[?]/records.parquet'"
    """
    return sql_text(re.sub(r"([*?\[])", r"[\1]", files.address(path)))


def sql_text(value: Path | str) -> str:
    """Quote a path or text as an SQL string."""
    return "'" + str(value).replace("'", "''") + "'"
