"""Readers of column formats: Parquet, Arrow streams, and Arrow files with an index (Feather)."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping
from os import SEEK_END
from pathlib import Path
from typing import Any

from medhelm.domain import Source
from medhelm.errors import DataError, MissingError
from medhelm.io.parquet import open_database, sql_name
from medhelm.io.rows import Row, header, plain

_ZONED = "TIMESTAMP WITH TIME ZONE"
_ROWS_AT_A_TIME = 1000
_MAGIC = b"ARROW1"
"""First and last bytes of an Arrow file; a stream has none."""


def read_parquet(path: Path, _source: Source) -> Iterator[Row]:
    """Read one row per record, in the file's order. Times with a zone are converted to UTC."""
    import duckdb

    try:
        with open_database(threads=1) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            file = glob.escape(str(path))
            zoned = {
                name: kind
                for name, kind, *_ in connection.execute("DESCRIBE SELECT * FROM read_parquet(?)", [file]).fetchall()
                if _ZONED in kind
            }
            cursor = connection.execute(f"SELECT {_select_list(zoned)} FROM read_parquet(?)", [file])  # noqa: S608 - quoted
            names = [column[0] for column in cursor.description or ()]
            while records := cursor.fetchmany(_ROWS_AT_A_TIME):
                for record in records:
                    row = {name: plain(value) for name, value in zip(names, record, strict=True)}
                    yield row | {name: _append_utc_offset(row[name]) for name in zoned}
    except duckdb.Error as error:
        reason = str(error).strip().partition("\n")[0]
        raise DataError(f"{path}: cannot be read as Parquet ({reason}). Export it again.") from None


def read_arrow(path: Path, _source: Source) -> Iterator[Row]:
    """Read one row per record of an Arrow stream or file; an empty file has no rows.

    Arrow reads invalid metadata safely, but trusts offsets and indices: each batch is validated before it is read.
    """
    pyarrow = import_pyarrow(path)
    try:
        for batch in _batches(path):
            batch.validate(full=True)
            for start in range(0, batch.num_rows, _ROWS_AT_A_TIME):
                for record in batch.slice(start, _ROWS_AT_A_TIME).to_pylist(maps_as_pydicts="strict"):
                    yield {name: plain(value) for name, value in record.items()}
    except (pyarrow.ArrowException, ArithmeticError, LookupError, MemoryError, OSError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise DataError(
            f"{path}: cannot be read as Arrow ({reason}). Save it as Parquet, or export it again."
        ) from None


def import_pyarrow(path: Path) -> Any:
    """Import pyarrow to read or write `path`. Raises: MissingError if it is not installed."""
    try:
        import pyarrow.ipc
    except ImportError:
        raise MissingError(
            f"{path}: Arrow and Feather files need pyarrow. Install `medhelm-eval[arrow]` (in a checkout, "
            "`pip install '.[arrow]'`), or save the data as Parquet."
        ) from None
    return pyarrow


def _batches(path: Path) -> Iterator[Any]:
    """Yield the record batches of a file. Raises: DataError for other formats and duplicate columns; Arrow's errors."""
    import pyarrow.ipc

    options = pyarrow.ipc.IpcReadOptions(use_threads=False)
    with path.open("rb") as file:
        start = file.read(len(_MAGIC))
        file.seek(0)
        if not start:
            return
        if start.startswith(b"FEA1"):
            raise DataError(f"{path}: is a Feather file of version 1. Save it as version 2, or as Parquet.")
        if start == _MAGIC:
            file.seek(-len(_MAGIC), SEEK_END)
            if file.read() != _MAGIC:
                raise DataError(f"{path}: is truncated. Get it again.")
            reader = pyarrow.ipc.open_file(file, options=options)
            header(reader.schema.names, path)
            yield from map(reader.get_batch, range(reader.num_record_batches))
        else:
            reader = pyarrow.ipc.open_stream(file, options=options)
            header(reader.schema.names, path)
            yield from reader


def _select_list(zoned: Mapping[str, str]) -> str:
    """Select all columns; times with a zone are cast, because duckdb needs another package to return zones."""
    casts = (
        f"CAST({sql_name(name)} AS {kind.replace(_ZONED, 'TIMESTAMP')}) AS {sql_name(name)}"
        for name, kind in zoned.items()
    )
    return f"* REPLACE ({', '.join(casts)})" if zoned else "*"


def _append_utc_offset(value: object) -> object:
    """Append the UTC offset to ISO times, in lists and mappings too."""
    match value:
        case str():
            return f"{value}+00:00"
        case list():
            return [_append_utc_offset(entry) for entry in value]
        case dict():
            return {key: _append_utc_offset(entry) for key, entry in value.items()}
        case _:
            return value
