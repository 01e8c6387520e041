"""Readers of column formats: Parquet, Arrow streams, and Arrow files with an index (Feather).

Arrow messages are checked before nanoarrow reads them. The format is described at
https://arrow.apache.org/docs/format/Columnar.html; its metadata are Flatbuffers (https://flatbuffers.dev/internals).
"""

from __future__ import annotations

import glob
import struct
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from os import SEEK_END
from pathlib import Path
from typing import Any, BinaryIO

from medhelm.domain import Source
from medhelm.errors import DataError
from medhelm.io.rows import Row, plain

_MAGIC_SPACE = 8
_ZONED = "TIMESTAMP WITH TIME ZONE"
_PORTION = 1000


def read_parquet(path: Path, _source: Source) -> Iterator[Row]:
    """Read one row per record, in the file's order. Times with a zone are converted to UTC."""
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
        raise DataError(f"{path}: cannot be read as Parquet ({_first_line(error)}). Export it again.") from None


def read_arrow(path: Path, _source: Source) -> Iterator[Row]:
    """Read one row per record of an Arrow stream or file. Buffers may be compressed with LZ4 or ZSTD."""
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
            raise DataError(f"{words}. Save it as Parquet, or export it again.") from None


def _selection(zoned: Mapping[str, str]) -> str:
    """Select all columns; times with a zone are cast, because duckdb needs another package to return zones."""
    casts = (
        f"CAST({_quoted(name)} AS {kind.replace(_ZONED, 'TIMESTAMP')}) AS {_quoted(name)}"
        for name, kind in zoned.items()
    )
    return f"* REPLACE ({', '.join(casts)})" if zoned else "*"


def _with_zone(value: object) -> object:
    """Append the UTC offset to ISO times, in lists and mappings too."""
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
    """Move to the start of the Arrow stream; return False if the file is empty. Raises DataError for other formats."""
    start = file.read(_MAGIC_SPACE)
    if start.startswith(b"FEA1"):
        raise DataError(f"{path}: is a Feather file of version 1. Save it as version 2, or as Parquet.")
    place = 0
    if start.startswith(MAGIC):
        place = _MAGIC_SPACE
        file.seek(-min(len(MAGIC), path.stat().st_size), SEEK_END)
        if file.read() != MAGIC:
            raise DataError(f"{path}: is truncated. Get it again.")
    file.seek(place)
    _check_messages(file, path)
    file.seek(place)
    return bool(start)


def _check_messages(file: BinaryIO, path: Path) -> None:
    """Raise DataError for files that nanoarrow would misread or crash on."""
    try:
        for message in messages(file):
            message.check()
            if message.has_compressed_dictionary():
                raise DataError(
                    f"{path}: has compressed dictionary columns, which cannot be read. Save it with "
                    "`compression='uncompressed'`, convert the categories to text, or save it as Parquet."
                )
    except (OSError, struct.error) as error:
        raise DataError(f"{path}: cannot be read as Arrow (it is damaged: {error}). Get it again.") from None


def _portion(records: Iterator[Any]) -> list[Row]:
    """Return the next records. Warnings about lost fractions of a microsecond and text types are suppressed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [{name: plain(value) for name, value in record.items()} for record in islice(records, _PORTION)]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0]


MAGIC = b"ARROW1"
"""First and last bytes of an Arrow file; a stream has none."""
SCHEMA, DICTIONARY, BATCH = 1, 2, 3
"""Kinds of messages: the columns; the values of a dictionary column; rows."""

_CONTINUES = b"\xff\xff\xff\xff"
_MOST = 1 << 40
_DEEPEST = 64


@dataclass(frozen=True, slots=True)
class ArrowMessage:
    """One message of an Arrow stream: metadata followed by a body."""

    kind: int
    """`SCHEMA`, `DICTIONARY`, `BATCH`, or another number."""
    start: int
    """Offset in the file, in bytes."""
    description: bytes
    """Metadata, a Flatbuffer."""
    body: int
    """Bytes of the body, which follows the metadata."""

    @property
    def content(self) -> FlatbufferTable | None:
        """Content of the metadata, which depends on the kind."""
        return FlatbufferTable.root(self.description).table(2)

    def check(self) -> None:
        """Raise struct.error for columns without a type and for invalid lengths."""
        content = self.content
        if content is None:
            raise struct.error("a message has no content")
        if self.kind == SCHEMA:
            _check_fields(content.tables(1), 0)
        batch = content.table(1) if self.kind == DICTIONARY else content if self.kind == BATCH else None
        if batch and not all(0 <= length < _MOST for length in (batch.scalar(0, "<q"), *batch.numbers(1, "<q8x"))):
            raise struct.error("a length is invalid")

    def has_compressed_dictionary(self) -> bool:
        """Tell whether it holds compressed values of a dictionary column, which nanoarrow misreads."""
        batch = self.content.table(1) if self.kind == DICTIONARY and self.content else None
        return batch is not None and batch.field(3) is not None

    @property
    def length(self) -> int:
        """Bytes before the body."""
        return len(_CONTINUES) + 4 + len(self.description)


def messages(file: BinaryIO) -> Iterator[ArrowMessage]:
    """Yield the messages of an Arrow stream from the current position; bodies are skipped.

    Raises struct.error if it is not an Arrow stream.
    """
    while (start := file.tell(), file.read(4))[1] == _CONTINUES:
        (size,) = struct.unpack("<i", file.read(4))
        if size <= 0:
            return
        description = file.read(size)
        message = FlatbufferTable.root(description)
        body = message.scalar(3, "<q")
        if len(description) < size or body < 0:
            raise struct.error("a message is truncated")
        yield ArrowMessage(message.scalar(1, "<B"), start, description, body)
        file.seek(start + 8 + size + body)


@dataclass(frozen=True, slots=True)
class FlatbufferTable:
    """A table within a Flatbuffer (https://flatbuffers.dev/internals)."""

    buffer: bytes
    at: int
    """Offset of the table in the buffer."""

    @classmethod
    def root(cls, buffer: bytes) -> FlatbufferTable:
        """Return the outermost table."""
        return cls(buffer, *struct.unpack_from("<I", buffer, 0))

    def field(self, number: int) -> int | None:
        """Return the offset of a field; None if it is absent."""
        directory = self.at - struct.unpack_from("<i", self.buffer, self.at)[0]
        (size,) = struct.unpack_from("<H", self.buffer, directory)
        if 4 + 2 * number >= size:
            return None
        offset: int = struct.unpack_from("<H", self.buffer, directory + 4 + 2 * number)[0]
        return self.at + offset if offset else None

    def scalar(self, number: int, form: str) -> Any:
        """Return the number in a field, 0 if it is absent."""
        place = self.field(number)
        return 0 if place is None else struct.unpack_from(form, self.buffer, place)[0]

    def table(self, number: int) -> FlatbufferTable | None:
        """Return the table that a field points to, None if it is absent."""
        place = self.field(number)
        return None if place is None else FlatbufferTable(self.buffer, self._target(place))

    def tables(self, number: int) -> list[FlatbufferTable]:
        """Return the tables in the list that a field points to."""
        return [FlatbufferTable(self.buffer, self._target(place)) for place in self._entries(number, 4)]

    def numbers(self, number: int, form: str) -> list[Any]:
        """Return the numbers in the list that a field points to."""
        places = self._entries(number, struct.calcsize(form))
        return [struct.unpack_from(form, self.buffer, place)[0] for place in places]

    def _entries(self, number: int, size: int) -> range:
        """Return the offsets of the entries of a list."""
        place = self.field(number)
        if place is None:
            return range(0)
        start = self._target(place)
        (count,) = struct.unpack_from("<I", self.buffer, start)
        if start + 4 + count * size > len(self.buffer):
            raise struct.error("a list is longer than its message")
        return range(start + 4, start + 4 + count * size, size)

    def _target(self, place: int) -> int:
        """Return the target of the offset at `place`."""
        offset: int = struct.unpack_from("<I", self.buffer, place)[0]
        return place + offset


def _check_fields(fields: list[FlatbufferTable], depth: int) -> None:
    """Raise struct.error unless each column, nested ones included, has a type."""
    for column in fields:
        if not column.scalar(2, "<B") or column.field(3) is None or depth > _DEEPEST:
            raise struct.error("a column has no type")
        _check_fields(column.tables(5), depth + 1)
