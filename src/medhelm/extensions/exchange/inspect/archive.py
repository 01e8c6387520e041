"""Read Inspect's `.eval` files: a zip of JSON documents, compressed with deflate (until 2025) or Zstandard (since).

Python before 3.14 cannot decompress Zstandard. DuckDB, which the store needs anyway, can: compressed members are
written to files and read as tables with one column.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from zipfile import BadZipFile, ZipFile, ZipInfo

from medhelm.errors import DataError
from medhelm.io.files import address, open_file
from medhelm.io.parquet import connect, open_engine
from medhelm.io.work_folders import temporary_folder

ZSTANDARD = 93
"""Number of the Zstandard method in zip files."""

LARGEST_MEMBER = 2**28
"""Maximum size, in bytes, of one document."""

TOGETHER_BYTES, TOGETHER = 2**26, 500
"""Limits on the members decompressed at a time: total bytes and number."""

_BROKEN = (BadZipFile, OSError, ValueError, OverflowError, NotImplementedError, LookupError, struct.error)
"""Exceptions that `zipfile` raises for damaged archives."""

_LOCAL_HEADER = struct.Struct("<4s22xHH")


class EvalArchive:
    """An `.eval` file that is open for reading. All errors are DataErrors with the problem and the remedy."""

    def __init__(self, path: Path) -> None:
        """Open the file."""
        self._path = path
        try:
            self._zip = ZipFile(path)
        except _BROKEN as error:
            why = (isinstance(error, OSError) and error.strerror) or "it is truncated, or not an .eval file"
            raise DataError(
                f"cannot be read: {why}. Copy it again, or try `inspect log recover` on the original."
            ) from error
        self._members = {info.filename: info for info in self._zip.infolist()}  # if a name is repeated, the last counts

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._zip.close()

    @property
    def names(self) -> list[str]:
        """Return the names of all members."""
        return list(self._members)

    def read(self, name: str) -> Any:
        """Read one document."""
        ((_, content),) = self.read_many([name])
        return content

    def read_many(self, names: Sequence[str]) -> Iterator[tuple[str, Any]]:
        """Yield documents in the given order, with few of them in memory at a time."""
        for batch in self._batches(names):
            for info, content in zip(batch, self._unpacked(batch), strict=True):
                yield info.filename, self._parsed(info, content)

    def _batches(self, names: Sequence[str]) -> Iterator[list[ZipInfo]]:
        batch: list[ZipInfo] = []
        size = 0
        for name in names:
            info = self._members[name]
            if info.file_size > LARGEST_MEMBER:
                raise DataError(
                    f"{name} in the archive has {info.file_size:,} bytes; the limit is {LARGEST_MEMBER:,} bytes."
                )
            if batch and (size + info.file_size > TOGETHER_BYTES or len(batch) == TOGETHER):
                yield batch
                batch, size = [], 0
            batch.append(info)
            size += info.file_size
        if batch:
            yield batch

    def _unpacked(self, batch: Sequence[ZipInfo]) -> list[bytes]:
        """Return the decompressed bytes of members, in order."""
        packed = {info.filename: self._packed(info) for info in batch if info.compress_type == ZSTANDARD}
        found = dict(zip(packed, _from_zstandard(list(packed.values()), batch), strict=True))
        return [
            self._checked(info, found[info.filename]) if info.filename in found else self._plain(info) for info in batch
        ]

    def _packed(self, info: ZipInfo) -> bytes:
        """Return the compressed bytes of a member."""
        stream = self._zip.fp
        assert stream is not None, "it is open"
        try:
            stream.seek(info.header_offset)
        except (OSError, ValueError, OverflowError) as error:  # before the beginning of the file
            raise self._damaged(info) from error
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
        """Return the bytes of a member that Python can decompress."""
        try:
            with self._zip.open(info) as member:
                return member.read(LARGEST_MEMBER)
        except NotImplementedError as error:
            raise DataError(
                f"{info.filename} in the archive has an unknown compression method ({info.compress_type}): "
                "use `inspect log convert --to json --output-dir DIR FILE` to decompress it."
            ) from error
        except (*_BROKEN, zlib.error, EOFError, RuntimeError) as error:
            raise self._damaged(info) from error

    def _checked(self, info: ZipInfo, content: bytes | None) -> bytes:
        """Return the bytes that match the checksum, with or without a final newline."""
        if content is not None and info.CRC in (zlib.crc32(content), zlib.crc32(content + b"\n")):
            return content
        raise self._damaged(info)

    def _parsed(self, info: ZipInfo, content: bytes) -> Any:
        try:
            return json.loads(content)
        except (ValueError, RecursionError) as error:
            raise self._damaged(info) from error

    def _damaged(self, info: ZipInfo) -> DataError:
        return DataError(f"{info.filename} in the archive is damaged. Copy the file again.")


def _from_zstandard(packed: Sequence[bytes], batch: Sequence[ZipInfo]) -> list[bytes | None]:
    """Decompress Zstandard frames, up to the size in the zip directory; None for damaged ones."""
    if not packed:
        return []
    largest = max(info.file_size for info in batch) + 1
    with temporary_folder() as work:
        files = [work.path / f"{number}.zst" for number in range(len(packed))]
        for file, content in zip(files, packed, strict=True):
            with open_file(file, "wb") as target:
                target.write(content)
        lines = _lines(files, largest)
        if lines is None and len(files) > 1:  # one file is damaged: decompress them one by one
            alone = [_lines([file], largest) for file in files]
            return [None if own is None else b"\n".join(own[file.name]) for file, own in zip(files, alone, strict=True)]
    return [None if lines is None else b"\n".join(lines[file.name]) for file in files]


def _lines(files: Sequence[Path], largest: int) -> dict[str, list[bytes]] | None:
    """Map the name of each file to its lines; None if a file cannot be decompressed."""
    import duckdb

    query = (
        "SELECT filename, line FROM read_csv($files, compression = 'zstd', header = false, filename = true, "
        "auto_detect = false, columns = {'line': 'VARCHAR'}, delim = '\x01', quote = '', escape = '', "
        "strict_mode = false, new_line = '\\n', max_line_size = $largest, buffer_size = $buffer)"
    )
    largest = max(largest, 2**21)
    given = {"files": list(map(address, files)), "largest": largest, "buffer": 2 * largest}
    lines: dict[str, list[bytes]] = {file.name: [] for file in files}
    try:
        # DuckDB copies long lines: these need an engine with more memory.
        with connect() if largest <= 2**21 else open_engine(memory_mb=512 + 8 * (largest >> 20)) as connection:
            cursor = connection.execute(query, given)
            while rows := cursor.fetchmany(100):
                for name, line in rows:
                    lines[Path(name).name].append((line or "").encode())
    except duckdb.Error:
        return None
    return lines
