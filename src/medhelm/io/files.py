"""Opens data files, plain or compressed with gzip, as bytes or text, with limits against decompression bombs.

A file whose name ends in `.gz` is decompressed while it is read. A file that cannot be opened, decompressed or decoded
raises a DataError that names the file, the place in it and the fix.
"""

from __future__ import annotations

import codecs
import gzip
import io
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO, cast

from medhelm.errors import DataError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_SUSPICIOUS = 100_000_000
"""Decompressed size that is always accepted, in bytes."""
_GZIP_RATIO = 1000
"""Maximum compression ratio beyond `_SUSPICIOUS`. Text reaches 20, repetition of one byte 1,032."""
_ZIP_RATIO = 200
"""Maximum compression ratio of documents and workbooks. Their markup compresses better than text."""
_LARGEST_DOCUMENT = 1 << 30
"""Maximum decompressed size of a document or workbook, in bytes."""
_LARGEST_WHOLE = 4 << 30
"""Maximum decompressed size of a file that is read as a whole, in bytes."""
_CHUNK = 1 << 20


def open_bytes(path: Path) -> BinaryIO:
    """Open a data file for reading, decompressed if its name ends in `.gz`.

    Raises: FileNotFoundError if it is missing; DataError if it cannot be opened or, while it is read, cannot be
    decompressed or is suspiciously large when decompressed.
    """
    check_file(path)
    if path.suffix != ".gz":
        return path.open("rb")
    return cast("BinaryIO", io.BufferedReader(_Unpacked(path), buffer_size=1 << 16))


def open_text(path: Path, encoding: str = "utf-8-sig", *, newline: str = "") -> TextIO:
    r"""Open a data file as text, decompressed if its name ends in `.gz`. Line endings are kept.

    Parameters: encoding, the default reads UTF-8 with or without a byte order mark; newline, `""` breaks lines at \n,
    \r and \r\n, `"\n"` at \n alone.
    Raises: as `open_bytes`; while it is read, UnicodeDecodeError for bytes that are not in the encoding, which
    `decoded` turns into an error that says where they are.
    """
    return io.TextIOWrapper(open_bytes(path), encoding=encoding, newline=newline)


def read_text(path: Path, encoding: str = "utf-8-sig") -> str:
    """Read the whole text of a data file. Raises: as `open_bytes`; DataError for bytes not in the encoding."""
    with decoded(path, encoding), open_bytes(path) as file:
        content = file.read(_LARGEST_WHOLE + 1) if path.suffix == ".gz" else file.read()
        if path.suffix == ".gz" and len(content) > _LARGEST_WHOLE:
            raise DataError(f"{path}: unpacks to more than 4 GiB, which cannot be read as one text. Split it.")
        return content.decode(encoding)


@contextmanager
def decoded(path: Path, encoding: str) -> Iterator[None]:
    """Convert decoding errors in this block to an error that names the position of the bytes."""
    try:
        yield
    except UnicodeDecodeError as error:
        line, position = _undecodable(path, encoding)
        wrong = f"byte 0x{error.object[error.start]:02x}" if error.start < len(error.object) else "the end"
        words = f"{path}, line {line}, byte {position}: {wrong} is not {encoding.removesuffix('-sig')} text."
        raise DataError(f"{words} {_encoding_advice(path, encoding)}") from None


def _encoding_advice(path: Path, encoding: str) -> str:
    """Return advice on a file that is not in its encoding."""
    if encoding.startswith("utf-8"):
        from medhelm.io.text_encoding import encodings_by_line  # lazy: only this error needs it

        with open_bytes(path) as file:
            found = encodings_by_line(file)
        if found.is_mixed:
            return f"{found.in_words()} Save all of it as UTF-8; read in one encoding, the other lines are garbled."
    return "If the file has another encoding, name it in benchmark.yaml, such as `encoding: cp1252`."


def names_beside(file: Path, ignored: Collection[str] = ()) -> str:
    """Return the files in the folder of a missing file as a sentence, with the most similar name."""
    try:
        names = sorted(path.name for path in file.parent.iterdir() if path.is_file() and path.name not in ignored)
    except OSError:
        return ""
    # Without the endings, which are the same for many files.
    close = get_close_matches(file.stem, [Path(name).stem for name in names], n=1, cutoff=0.7)
    near = next((name for name in names if close and Path(name).stem == close[0]), "")
    held = f" {file.parent}/ holds {', '.join(names[:5])}{', ...' if len(names) > 5 else ''}." if names else ""
    return f"{held} Did you mean `{near}`?" if near else held


def check_file(path: Path) -> None:
    """Check that a file can be read. Raises: FileNotFoundError; DataError if it is a folder or cannot be read."""
    if path.is_fifo():  # opening it would wait for its other end
        raise DataError(f"{path}: is a named pipe, where a file is needed.")
    try:
        path.open("rb").close()
    except FileNotFoundError:
        raise
    except IsADirectoryError:
        raise DataError(f"{path}: is a folder, where a file is needed.") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}). Check its permissions.") from None


def check_zip(path: Path) -> None:
    """Refuse a zip archive that declares a suspiciously large decompressed size, before it is decompressed.

    Raises: DataError; zipfile.BadZipFile and others if it is not a valid archive.
    """
    with zipfile.ZipFile(path) as archive:
        size = sum(entry.file_size for entry in archive.infolist())
    packed = path.stat().st_size
    if size > _LARGEST_DOCUMENT or (size > _SUSPICIOUS and size > _ZIP_RATIO * packed):
        raise DataError(
            f"{path}: {packed:,} bytes unpack to {size:,}, which a normal file of this kind never does. It was not "
            "read. If you trust it, save its data as CSV."
        )


class _Unpacked(io.RawIOBase):
    """The decompressed content of a gzip file. Errors in it become DataErrors."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = gzip.GzipFile(path, "rb")
        self._limit = max(_SUSPICIOUS, _GZIP_RATIO * path.stat().st_size)
        self._read = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        try:
            n = self._file.readinto(buffer)
        except gzip.BadGzipFile as error:
            raise DataError(
                f"{self._path}: is not a valid gzip file ({error}), after {self._read:,} unpacked bytes. "
                "Get it again, or remove `.gz` from its name if it is not compressed."
            ) from None
        except EOFError:
            raise DataError(f"{self._path}: breaks off after {self._read:,} unpacked bytes. Get it again.") from None
        except zlib.error as error:
            raise DataError(
                f"{self._path}: is damaged after {self._read:,} unpacked bytes ({error}). Get it again."
            ) from None
        self._read += n
        if self._read > self._limit:
            raise DataError(
                f"{self._path}: {self._path.stat().st_size:,} bytes unpack to more than {self._limit:,}, which real "
                "data never does. Reading was stopped. If you trust the file, decompress it, and name the result."
            )
        return n

    def close(self) -> None:
        self._file.close()
        super().close()


def _undecodable(path: Path, encoding: str) -> tuple[int, int]:
    """Return the line (from 1) and position (in bytes, from 0) of the first bytes that are not in the encoding."""
    decoder = codecs.getincrementaldecoder(encoding)()
    line, end = 1, 0
    with open_bytes(path) as file:
        while True:
            chunk = file.read(_CHUNK)
            end += len(chunk)
            try:
                decoder.decode(chunk, final=not chunk)
            except UnicodeDecodeError as error:  # its object may begin before this chunk, so count from the end
                return line + error.object.count(b"\n", 0, error.start), end - len(error.object) + error.start
            line += chunk.count(b"\n")
            if not chunk:
                return line, end
