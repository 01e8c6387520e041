"""The descriptions in Arrow files: what messages there are, where, and whether they can be right.

The format is told at https://arrow.apache.org/docs/format/Columnar.html, its descriptions are Flatbuffers
(https://flatbuffers.dev/internals).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

MAGIC = b"ARROW1"
"""How an Arrow file begins and ends; a stream has no such mark."""
SCHEMA, DICTIONARY, BATCH = 1, 2, 3
"""Kinds of messages: the columns; the values of a column of categories; rows."""

_CONTINUES = b"\xff\xff\xff\xff"
_MOST = 1 << 40
_DEEPEST = 64


@dataclass(frozen=True, slots=True)
class ArrowMessage:
    """One part of an Arrow stream: its description, followed by a body."""

    kind: int
    """`SCHEMA`, `DICTIONARY`, `BATCH`, or another number."""
    start: int
    """Where it starts in the file, in bytes."""
    description: bytes
    """Its Flatbuffer."""
    body: int
    """Bytes of the body, which follows the description."""

    @property
    def content(self) -> FlatbufferTable | None:
        """What it is about, depending on its kind."""
        return FlatbufferTable.root(self.description).table(2)

    def check(self) -> None:
        """Raises: struct.error for columns without a type and for lengths that cannot be."""
        content = self.content
        if content is None:
            raise struct.error("a message says nothing")
        if self.kind == SCHEMA:
            _check_fields(content.tables(1), 0)
        batch = content.table(1) if self.kind == DICTIONARY else content if self.kind == BATCH else None
        if batch and not all(0 <= length < _MOST for length in (batch.scalar(0, "<q"), *batch.numbers(1, "<q8x"))):
            raise struct.error("a length cannot be")

    def has_packed_categories(self) -> bool:
        """Whether it holds values of a column of categories, packed: nanoarrow takes them as they are, and errs."""
        batch = self.content.table(1) if self.kind == DICTIONARY and self.content else None
        return batch is not None and batch.field(3) is not None

    @property
    def length(self) -> int:
        """Bytes before the body."""
        return len(_CONTINUES) + 4 + len(self.description)


def messages(file: BinaryIO) -> Iterator[ArrowMessage]:
    """The messages of an Arrow stream, from where the file stands to the end of the stream; bodies are passed over.

    Raises: struct.error for what is no Arrow stream.
    """
    while (start := file.tell(), file.read(4))[1] == _CONTINUES:
        (size,) = struct.unpack("<i", file.read(4))
        if size <= 0:
            return
        description = file.read(size)
        message = FlatbufferTable.root(description)
        body = message.scalar(3, "<q")
        if len(description) < size or body < 0:
            raise struct.error("the message breaks off")
        yield ArrowMessage(message.scalar(1, "<B"), start, description, body)
        file.seek(start + 8 + size + body)


@dataclass(frozen=True, slots=True)
class FlatbufferTable:
    """A table within a Flatbuffer (https://flatbuffers.dev/internals)."""

    buffer: bytes
    at: int
    """Where the table stands in the buffer."""

    @classmethod
    def root(cls, buffer: bytes) -> FlatbufferTable:
        """The outermost table."""
        return cls(buffer, *struct.unpack_from("<I", buffer, 0))

    def field(self, number: int) -> int | None:
        """Where the field of that number stands in the buffer; None if it is not there."""
        directory = self.at - struct.unpack_from("<i", self.buffer, self.at)[0]
        (size,) = struct.unpack_from("<H", self.buffer, directory)
        if 4 + 2 * number >= size:
            return None
        offset: int = struct.unpack_from("<H", self.buffer, directory + 4 + 2 * number)[0]
        return self.at + offset if offset else None

    def scalar(self, number: int, form: str) -> Any:
        """The number in a field, 0 if it is not there."""
        place = self.field(number)
        return 0 if place is None else struct.unpack_from(form, self.buffer, place)[0]

    def table(self, number: int) -> FlatbufferTable | None:
        """The table a field points at, None if it is not there."""
        place = self.field(number)
        return None if place is None else FlatbufferTable(self.buffer, self._target(place))

    def tables(self, number: int) -> list[FlatbufferTable]:
        """The tables in the list a field points at."""
        return [FlatbufferTable(self.buffer, self._target(place)) for place in self._entries(number, 4)]

    def numbers(self, number: int, form: str) -> list[Any]:
        """The numbers in the list a field points at."""
        places = self._entries(number, struct.calcsize(form))
        return [struct.unpack_from(form, self.buffer, place)[0] for place in places]

    def _entries(self, number: int, size: int) -> range:
        """Where the entries of a list stand in the buffer."""
        place = self.field(number)
        if place is None:
            return range(0)
        start = self._target(place)
        (count,) = struct.unpack_from("<I", self.buffer, start)
        if start + 4 + count * size > len(self.buffer):
            raise struct.error("a list is longer than its message")
        return range(start + 4, start + 4 + count * size, size)

    def _target(self, place: int) -> int:
        """Where the offset at `place` points."""
        offset: int = struct.unpack_from("<I", self.buffer, place)[0]
        return place + offset


def _check_fields(fields: list[FlatbufferTable], depth: int) -> None:
    """Each column, and each column within it, has a type."""
    for column in fields:
        if not column.scalar(2, "<B") or column.field(3) is None or depth > _DEEPEST:
            raise struct.error("a column has no type")
        _check_fields(column.tables(5), depth + 1)
