"""Readers of column formats: Parquet, Arrow streams, and Arrow files with an index (Feather).

Arrow messages are checked before nanoarrow reads them. The format is described at
https://arrow.apache.org/docs/format/Columnar.html; its metadata are Flatbuffers (https://flatbuffers.dev/internals).
"""

from __future__ import annotations

import glob
import json
import os
import select
import signal
import struct
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from os import SEEK_END
from pathlib import Path
from secrets import token_hex
from typing import IO, TYPE_CHECKING, Any, BinaryIO

from medhelm.domain import Source
from medhelm.errors import DataError
from medhelm.io.parquet import open_database, sql_name
from medhelm.io.rows import Row, plain

if TYPE_CHECKING:
    from subprocess import Popen

_MAGIC_SPACE = 8
_ZONED = "TIMESTAMP WITH TIME ZONE"
_ROWS_AT_A_TIME = 1000
_LONGEST_SILENCE_S = 300
_KEPT_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


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
    """Read one row per record of an Arrow stream or file. Buffers may be compressed with LZ4 or ZSTD.

    nanoarrow corrupts memory on some malformed files, so it runs in a separate process (`arrow_worker.py`).
    """
    with path.open("rb") as file:
        if not _seek_to_stream(file, path):
            return
        os.lseek(file.fileno(), file.tell(), os.SEEK_SET)  # the process reads on from here
        with _arrow_process(file, path) as (process, bytes_key):
            yield from _worker_rows(process, path, bytes_key)


@contextmanager
def _arrow_process(file: BinaryIO, path: Path) -> Iterator[tuple[Popen[bytes], str]]:
    """Start the process that reads `file`, with the key of its binary values; it ends with the context."""
    from subprocess import DEVNULL, PIPE, Popen

    bytes_key = token_hex(16)
    script = Path(__file__).resolve().with_name("arrow_worker.py")
    command = [sys.executable, "-I", str(script), bytes_key, json.dumps(sys.path)]
    variables = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    try:
        process = Popen(command, stdin=file, stdout=PIPE, stderr=DEVNULL, env=variables)  # noqa: S603 - our own script
    except OSError as error:
        raise DataError(f"{path}: the process that reads Arrow does not start ({error}). Save it as Parquet.") from None
    with process:
        try:
            yield process, bytes_key
        finally:
            process.kill()


def _worker_rows(process: Popen[bytes], path: Path, bytes_key: str) -> Iterator[Row]:
    """Yield the rows that the process writes. Raises: DataError if it finds an error, dies or falls silent."""
    end: Mapping[str, str] | None = None
    for line in _lines(process.stdout):
        try:
            found = json.loads(line, object_hook=_bytes_decoder(bytes_key) if bytes_key.encode() in line else None)
        except (ValueError, RecursionError):  # only a process whose memory is corrupt writes this
            break
        if not isinstance(found, list):
            end = found if isinstance(found, dict) else None
            break
        yield from found
    if end == {}:
        return
    process.kill()
    reason = end.get("error", "") if end else f"the process that reads it ended with {_status(process.wait())}"
    raise DataError(f"{path}: cannot be read as Arrow ({reason}). Save it as Parquet, or export it again.")


def _lines(output: IO[bytes] | None) -> Iterator[bytes]:
    """Yield whole lines until the output ends, or nothing comes for a long time."""
    assert output is not None
    poll = select.poll()
    poll.register(output, select.POLLIN)
    parts: list[bytes] = []
    while poll.poll(_LONGEST_SILENCE_S * 1000) and (part := os.read(output.fileno(), 2**20)):
        *whole, rest = part.split(b"\n")
        for line in whole:
            yield b"".join((*parts, line))
            parts = []
        parts.append(rest)


def _bytes_decoder(bytes_key: str) -> Callable[[dict[str, Any]], object]:
    """Return a decoder of JSON objects that restores binary values."""
    return lambda found: bytes.fromhex(found[bytes_key]) if bytes_key in found else found


def _status(code: int) -> str:
    """Describe the exit status of a process."""
    return signal.Signals(-code).name if -code in set(signal.Signals) else f"exit status {code}"


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


def _seek_to_stream(file: BinaryIO, path: Path) -> bool:
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


MAGIC = b"ARROW1"
"""First and last bytes of an Arrow file; a stream has none."""
SCHEMA, DICTIONARY, BATCH = 1, 2, 3
"""Kinds of messages: the columns; the values of a dictionary column; rows."""

_CONTINUES = b"\xff\xff\xff\xff"
_MOST = 1 << 40
_DEEPEST = 64


@dataclass(frozen=True, slots=True)
class ArrowMessage:
    """The metadata of one message of an Arrow stream; a body follows it in the file."""

    kind: int
    """`SCHEMA`, `DICTIONARY`, `BATCH`, or another number."""
    start: int
    """Offset in the file, in bytes."""
    description: bytes
    """Metadata, a Flatbuffer."""

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
        """Return True if it holds compressed values of a dictionary column, which nanoarrow misreads."""
        batch = self.content.table(1) if self.kind == DICTIONARY and self.content else None
        return batch is not None and batch.field(3) is not None


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
        yield ArrowMessage(message.scalar(1, "<B"), start, description)
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
