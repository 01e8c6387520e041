"""Encrypted files, which can be read from any position.

A file is a header (magic, version, id of the key, random id of the file) and chunks of CHUNK bytes, each encrypted
with a random nonce. Authenticated with each chunk are the header, the role of the file in its store, the number of the
chunk, and a flag for the last chunk, as in the STREAM construction (Hoang et al., 2015). So chunks cannot be changed,
reordered or dropped, and one file cannot take the place of another.
"""

from __future__ import annotations

import io
import os
import struct
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO, Literal, cast

from medhelm.extensions.vault.keys import ID_BYTES, NONCE_BYTES, DecryptionError, StoreKey, new_key
from medhelm.io.files import MAGIC

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

VERSION = 1
"""Version of the encryption."""

CHUNK = 2**16
"""Bytes that are encrypted together."""

_HEADER = struct.Struct(f"8sB{ID_BYTES}s16s")
_EXTRA = NONCE_BYTES + 16
"""Bytes that encryption adds to a chunk: the nonce and the authentication tag."""
_STRIDE = CHUNK + _EXTRA


def open_encrypted(path: Path, mode: Literal["rb", "wb"], key: StoreKey, role: str) -> BinaryIO:
    """Open an encrypted file. Raises: OSError; DecryptionError, here or when it is read."""
    if mode == "wb":
        return cast("BinaryIO", EncryptedFile(path.open("wb"), key, role, is_new=True))
    file = path.open("rb", buffering=0)
    try:
        return cast("BinaryIO", io.BufferedReader(EncryptedFile(file, key, role), CHUNK))
    except BaseException:
        file.close()
        raise


def encrypted_scratch(file: IO[bytes]) -> IO[bytes]:
    """Encrypt a temporary file, opened for reading and writing, with a key of its own."""
    return cast(
        "IO[bytes]", io.BufferedRandom(EncryptedFile(cast("BinaryIO", file), new_key(), "", is_new=True), CHUNK)
    )


def plain_size(path: Path) -> int:
    """Return the size of the content of an encrypted file, from the size of the file. Raises: OSError."""
    size = path.stat().st_size - _HEADER.size
    return max(0, size - _EXTRA * -(-size // _STRIDE))


class EncryptedFile(io.RawIOBase):
    """Encrypts appended bytes, and decrypts bytes that are read. Keeps the last chunk in memory until it is closed."""

    def __init__(self, file: BinaryIO | io.FileIO, key: StoreKey, role: str, *, is_new: bool = False) -> None:
        """Start a new file, or check an existing one by its last chunk. Raises: DecryptionError."""
        super().__init__()
        self._file, self._key, self._role, self._is_new = file, key, role.encode(), is_new
        self._position = self._n_full = 0
        self._tail = bytearray()
        self._recent = (-1, b"")
        if is_new:
            self._header = _HEADER.pack(MAGIC, VERSION, key.id, os.urandom(16))
            file.write(self._header)
        else:
            self._open()

    def _open(self) -> None:
        self._header = self._file.read(_HEADER.size)
        magic, version, key_id, _ = _HEADER.unpack(self._header) if len(self._header) == _HEADER.size else (b"",) * 4
        if magic != MAGIC:
            raise DecryptionError("it is not encrypted, as a file of this store must be")
        if version != VERSION:
            raise DecryptionError(f"its encryption has version {version}, and this medhelm reads {VERSION}")
        if key_id != self._key.id:
            raise DecryptionError("it was encrypted with the key of another store")
        size = self._file.seek(0, os.SEEK_END) - _HEADER.size
        self._n_full = max(0, -(-size // _STRIDE) - 1)
        self._tail = bytearray(self._read_chunk(self._n_full, is_last=True))

    # --- chunks -------------------------------------------------------------------------------------------------------

    def _about(self, number: int, *, is_last: bool) -> bytes:
        return b"%b%b\0%b%d" % (self._header, self._role, number.to_bytes(8), is_last)

    def _read_chunk(self, number: int, *, is_last: bool = False) -> bytes:
        self._file.seek(_HEADER.size + number * _STRIDE)
        return self._key.decrypt(self._file.read(_STRIDE) or b"", self._about(number, is_last=is_last))

    def _chunk(self, number: int) -> bytes | bytearray:
        if number == self._n_full:
            return self._tail
        if self._recent[0] != number:
            self._recent = number, self._read_chunk(number)
        return self._recent[1]

    def _write_chunk(self, content: bytes, *, is_last: bool) -> None:
        self._file.seek(_HEADER.size + self._n_full * _STRIDE)
        self._file.write(self._key.encrypt(content, self._about(self._n_full, is_last=is_last)))

    # --- the interface of files ---------------------------------------------------------------------------------------

    def readable(self) -> bool:
        """Return True, except for a new file with a name."""
        return self._file.readable()

    def writable(self) -> bool:
        """Return True for a new file."""
        return self._is_new

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set the position of the next read."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        if start + offset < 0:
            raise OSError(f"negative position {start + offset}")
        self._position = start + offset
        return self._position

    @property
    def _size(self) -> int:
        return self._n_full * CHUNK + len(self._tail)

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Read into a buffer and return the number of bytes. Raises: DecryptionError."""
        view, done = memoryview(buffer).cast("B"), 0
        while done < len(view) and self._position < self._size:
            number, offset = divmod(self._position, CHUNK)
            part = memoryview(self._chunk(number))[offset : offset + len(view) - done]
            view[done : done + len(part)] = part
            done += len(part)
            self._position += len(part)
        return done

    def write(self, content: ReadableBuffer) -> int:
        """Append bytes."""
        if not self._is_new or self._position != self._size:
            raise io.UnsupportedOperation("an encrypted file can only be appended to")
        self._tail += memoryview(content).cast("B")
        while len(self._tail) > CHUNK:
            self._write_chunk(bytes(self._tail[:CHUNK]), is_last=False)
            del self._tail[:CHUNK]
            self._n_full += 1
        n = memoryview(content).nbytes
        self._position += n
        return n

    def truncate(self, size: int | None = None) -> int:
        """Remove everything after a position, by default that of the next read."""
        size = self._position if size is None else size
        number, rest = divmod(min(size, self._size), CHUNK)
        if number < self._n_full:
            self._tail = bytearray(self._chunk(number))
            self._n_full, self._recent = number, (-1, b"")
        else:
            rest = min(size, self._size) - self._n_full * CHUNK
        del self._tail[rest:]
        return size

    def close(self) -> None:
        """Write the last chunk and close the file. Raises: OSError."""
        if self.closed:
            return
        try:
            if self._is_new:
                self._write_chunk(bytes(self._tail), is_last=True)
        finally:
            super().close()
            self._file.close()
