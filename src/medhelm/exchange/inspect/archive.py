"""Inspect's `.eval` files: a zip of JSON documents, packed by deflate (until 2025) or Zstandard (since).

Python before 3.14 cannot unpack the latter. DuckDB, which the store needs anyway, can: the packed members are laid out
as files and read as tables of one column.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self
from zipfile import BadZipFile, ZipFile, ZipInfo

from medhelm.errors import DataError
from medhelm.io.parquet import connect

ZSTANDARD = 93
"""How zip files call Zstandard."""

LARGEST_MEMBER = 2**28
"""Bytes that one document may have."""

TOGETHER_BYTES, TOGETHER = 2**26, 500
"""Members that are unpacked at once: so many bytes, or so many."""

_LOCAL_HEADER = struct.Struct("<4s22xHH")


class EvalArchive:
    """One file, open for reading. Every error is a DataError that says what is wrong and what helps."""

    def __init__(self, path: Path) -> None:
        """Open it."""
        self._path = path
        try:
            self._zip = ZipFile(path)
        except (BadZipFile, OSError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is cut off, or no .eval file"
            raise DataError(
                f"cannot be read: {why}. Copy it again; `inspect log recover` may mend the original."
            ) from error
        self._members = {info.filename: info for info in self._zip.infolist()}  # the last of a name counts

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._zip.close()

    @property
    def names(self) -> list[str]:
        """Names of all members."""
        return list(self._members)

    def read(self, name: str) -> Any:
        """One document."""
        ((_, content),) = self.read_many([name])
        return content

    def read_many(self, names: Sequence[str]) -> Iterator[tuple[str, Any]]:
        """Documents, in this order, few of them in memory at a time."""
        for batch in self._batches(names):
            for info, content in zip(batch, self._unpacked(batch), strict=True):
                yield info.filename, self._parsed(info, content)

    def _batches(self, names: Sequence[str]) -> Iterator[list[ZipInfo]]:
        batch: list[ZipInfo] = []
        size = 0
        for name in names:
            info = self._members[name]
            if info.file_size > LARGEST_MEMBER:
                raise DataError(f"{name} in it has {info.file_size:,} bytes, and {LARGEST_MEMBER:,} are read at most.")
            if batch and (size + info.file_size > TOGETHER_BYTES or len(batch) == TOGETHER):
                yield batch
                batch, size = [], 0
            batch.append(info)
            size += info.file_size
        if batch:
            yield batch

    def _unpacked(self, batch: Sequence[ZipInfo]) -> list[bytes]:
        """The bytes of members, in order."""
        packed = {info.filename: self._packed(info) for info in batch if info.compress_type == ZSTANDARD}
        found = dict(zip(packed, _from_zstandard(list(packed.values()), batch), strict=True))
        return [
            self._checked(info, found[info.filename]) if info.filename in found else self._plain(info) for info in batch
        ]

    def _packed(self, info: ZipInfo) -> bytes:
        """The bytes of a member as they stand in the file."""
        stream = self._zip.fp
        assert stream is not None, "it is open"
        stream.seek(info.header_offset)
        header = stream.read(_LOCAL_HEADER.size)
        if len(header) < _LOCAL_HEADER.size or not header.startswith(b"PK\3\4") or info.flag_bits & 1:
            raise self._damaged(info)
        _, name_length, extra_length = _LOCAL_HEADER.unpack(header)
        stream.seek(name_length + extra_length, 1)
        content = stream.read(info.compress_size)
        if len(content) < info.compress_size:
            raise self._damaged(info)
        return content

    def _plain(self, info: ZipInfo) -> bytes:
        """The bytes of a member that Python can unpack."""
        try:
            with self._zip.open(info) as member:
                return member.read(LARGEST_MEMBER)
        except NotImplementedError as error:
            raise DataError(
                f"{info.filename} in it is packed by a method that is not known here ({info.compress_type}): "
                "`inspect log convert --to json --output-dir DIR FILE` unpacks it."
            ) from error
        except (BadZipFile, zlib.error, EOFError, RuntimeError, OSError) as error:
            raise self._damaged(info) from error

    def _checked(self, info: ZipInfo, content: bytes | None) -> bytes:
        """Bytes that have the right checksum, with or without the end of the last line."""
        if content is not None and info.CRC in (zlib.crc32(content), zlib.crc32(content + b"\n")):
            return content
        raise self._damaged(info)

    def _parsed(self, info: ZipInfo, content: bytes) -> Any:
        try:
            return json.loads(content)
        except (ValueError, RecursionError) as error:
            raise self._damaged(info) from error

    def _damaged(self, info: ZipInfo) -> DataError:
        return DataError(f"{info.filename} in it is damaged. Copy the file again.")


def _from_zstandard(packed: Sequence[bytes], batch: Sequence[ZipInfo]) -> list[bytes | None]:
    """Unpack Zstandard frames; None for what cannot be unpacked. What is unpacked is never larger than announced."""
    if not packed:
        return []
    largest = max(info.file_size for info in batch) + 1
    with TemporaryDirectory(prefix="medhelm-") as folder:
        files = [Path(folder, f"{number}.zst") for number in range(len(packed))]
        for file, content in zip(files, packed, strict=True):
            file.write_bytes(content)
        lines = _lines(files, largest)
        if lines is None and len(files) > 1:  # one of them is damaged: the others are not
            alone = [_lines([file], largest) for file in files]
            return [None if own is None else b"\n".join(own[file.name]) for file, own in zip(files, alone, strict=True)]
    return [None if lines is None else b"\n".join(lines[file.name]) for file in files]


def _lines(files: Sequence[Path], largest: int) -> dict[str, list[bytes]] | None:
    """Name of each file -> its lines; None if one of them cannot be unpacked."""
    import duckdb

    query = (
        "SELECT filename, line FROM read_csv($files, compression = 'zstd', header = false, filename = true, "
        "auto_detect = false, columns = {'line': 'VARCHAR'}, delim = '\x01', quote = '', escape = '', "
        "strict_mode = false, new_line = '\\n', max_line_size = $largest, buffer_size = $buffer)"
    )
    largest = max(largest, 2**21)
    given = {"files": list(map(str, files)), "largest": largest, "buffer": 2 * largest}
    lines: dict[str, list[bytes]] = {file.name: [] for file in files}
    try:
        with connect() as connection:
            connection.execute(f"SET memory_limit = '{512 + 8 * (largest >> 20)}MB'")  # a line is there several times
            cursor = connection.execute(query, given)
            while rows := cursor.fetchmany(100):
                for name, line in rows:
                    lines[Path(name).name].append((line or "").encode())
    except duckdb.Error:
        return None
    return lines
