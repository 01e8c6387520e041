"""Readers of column formats: Parquet, Arrow streams, and Arrow files with an index (Feather)."""

from __future__ import annotations

import glob
import struct
import warnings
from collections.abc import Iterator, Mapping
from itertools import islice
from os import SEEK_END
from pathlib import Path
from typing import Any, BinaryIO

from medhelm.benchmarks.data.arrow_ipc import MAGIC, messages
from medhelm.domain import Source
from medhelm.errors import DataError
from medhelm.io.rows import Row, plain

_MAGIC_SPACE = 8
_ZONED = "TIMESTAMP WITH TIME ZONE"
_PORTION = 1000


def read_parquet(path: Path, _source: Source) -> Iterator[Row]:
    """One row per record, in the file's order. Times with a zone come in UTC."""
    import duckdb

    settings: dict[str, str | bool | int | float | list[str]] = {"autoinstall_known_extensions": False, "threads": 1}
    try:
        with duckdb.connect(":memory:", config=settings) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            file = glob.escape(str(path))
            zoned = {
                name: kind
                for name, kind, *_ in connection.execute("DESCRIBE SELECT * FROM read_parquet(?)", [file]).fetchall()
                if _ZONED in kind
            }
            cursor = connection.execute(f"SELECT {_selection(zoned)} FROM read_parquet(?)", [file])  # noqa: S608 - quoted
            names = [column[0] for column in cursor.description or ()]
            while portion := cursor.fetchmany(_PORTION):
                for record in portion:
                    row = {name: plain(value) for name, value in zip(names, record, strict=True)}
                    yield row | {name: _with_zone(row[name]) for name in zoned}
    except duckdb.Error as error:
        raise DataError(f"{path}: cannot be read as Parquet ({_first_line(error)}). Export it anew.") from None


def read_arrow(path: Path, _source: Source) -> Iterator[Row]:
    """One row per record of an Arrow stream or an Arrow file, whichever it is; buffers packed with LZ4 or ZSTD too."""
    import nanoarrow

    with path.open("rb") as file:
        if not _at_stream(file, path):
            return
        try:
            with nanoarrow.ArrayStream.from_readable(file) as stream:
                for batch in stream:
                    records = batch.iter_py()
                    while portion := _portion(records):
                        yield from portion
        except (ArithmeticError, LookupError, NotImplementedError, RuntimeError, ValueError) as error:
            words = f"{path}: cannot be read as Arrow ({_first_line(error)})"
            raise DataError(f"{words}. Save it as Parquet, or export it anew.") from None


def _selection(zoned: Mapping[str, str]) -> str:
    """All columns; those of times with a zone without it, because duckdb needs another package to hand out zones."""
    casts = (
        f"CAST({_quoted(name)} AS {kind.replace(_ZONED, 'TIMESTAMP')}) AS {_quoted(name)}"
        for name, kind in zoned.items()
    )
    return f"* REPLACE ({', '.join(casts)})" if zoned else "*"


def _with_zone(value: object) -> object:
    """ISO times, in lists and mappings too, with the mark of UTC."""
    match value:
        case str():
            return f"{value}+00:00"
        case list():
            return [_with_zone(entry) for entry in value]
        case dict():
            return {key: _with_zone(entry) for key, entry in value.items()}
        case _:
            return value


def _at_stream(file: BinaryIO, path: Path) -> bool:
    """Move to where the Arrow stream begins; False if the file is empty. Raises: DataError for what cannot be read."""
    start = file.read(_MAGIC_SPACE)
    if start.startswith(b"FEA1"):
        raise DataError(f"{path}: is a Feather file of version 1. Save it as version 2, or as Parquet.")
    place = 0
    if start.startswith(MAGIC):
        place = _MAGIC_SPACE
        file.seek(-min(len(MAGIC), path.stat().st_size), SEEK_END)
        if file.read() != MAGIC:
            raise DataError(f"{path}: breaks off before its end. Get it again.")
    file.seek(place)
    _check_messages(file, path)
    file.seek(place)
    return bool(start)


def _check_messages(file: BinaryIO, path: Path) -> None:
    """Look for what nanoarrow would read wrongly or break down over. Raises: DataError."""
    try:
        for message in messages(file):
            message.check()
            if message.has_packed_categories():
                raise DataError(
                    f"{path}: has columns of categories that are packed, which cannot be read. Save it with "
                    "`compression='uncompressed'`, turn the categories into texts, or save it as Parquet."
                )
    except (OSError, struct.error) as error:
        raise DataError(f"{path}: cannot be read as Arrow (it is damaged: {error}). Get it again.") from None


def _portion(records: Iterator[Any]) -> list[Row]:
    """The next records. Fractions of a microsecond and kinds of texts, which are lost, are no cause for a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [{name: plain(value) for name, value in record.items()} for record in islice(records, _PORTION)]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0]
