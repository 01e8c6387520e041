"""Encrypted files, which can be read from any position.

A file is a header (magic, version, id of the key, random id of the file) and chunks of CHUNK bytes, each encrypted
with a random nonce. Authenticated with each chunk are the header, the role of the file in its store, the number of the
chunk, and a flag for the last chunk, as in the STREAM construction (Hoang et al., 2015). So chunks cannot be changed,
reordered or dropped, and one file cannot take the place of another.

Keys of encrypted stores: the user's, from the environment, and the store's own, which it wraps.

The files of a store are encrypted with a random key that never changes. `store.json` holds it, itself encrypted
("wrapped") with the user's key. So a new user's key needs one small file to be written, and no two stores share a key.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
import os
import shlex
import struct
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Literal, cast

from medhelm.errors import MissingError, StoreError
from medhelm.io.files import KEY_VARIABLE, MAGIC, given_variables

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

# --- keys -------------------------------------------------------------------------------------------------------------

ALGORITHM = "AES-256-GCM"
"""Name of the algorithm in `store.json`."""

KEY_BYTES, NONCE_BYTES, ID_BYTES = 32, 12, 8
"""Sizes of a key, of the random number that makes each message different, and of the id of a store's key."""

COMMAND_S = 120.0
"""Maximum number of seconds for a command that prints the key."""

_WRAPPED = b"medhelm store key 1 "
"""Authenticated with a wrapped key and its id."""


class DecryptionError(StoreError, ValueError):
    """Encrypted bytes were changed, truncated, moved from elsewhere, or encrypted with another key."""


class StoreKey:
    """Encrypts and decrypts with the key of a store. Its text never shows the key."""

    def __init__(self, key: bytes, key_id: bytes) -> None:
        """`key`: KEY_BYTES random bytes; `key_id`: its public id, of ID_BYTES."""
        self.id = key_id
        self._cipher = _cipher(key)

    def encrypt(self, content: bytes, about: bytes) -> bytes:
        """Encrypt a message. `about`: its context, which must be given again to decrypt it."""
        nonce = os.urandom(NONCE_BYTES)
        sealed: bytes = self._cipher.encrypt(nonce, content, about)
        return nonce + sealed

    def decrypt(self, message: bytes, about: bytes) -> bytes:
        """Decrypt a message. Raises: DecryptionError if it was not encrypted with this key and `about`."""
        from cryptography.exceptions import InvalidTag

        try:
            content: bytes = self._cipher.decrypt(message[:NONCE_BYTES], message[NONCE_BYTES:], about)
        except (InvalidTag, ValueError):
            raise DecryptionError("it was changed, or is not what was encrypted for this place") from None
        return content


def new_key() -> StoreKey:
    """Return a random key that is not stored, for temporary files."""
    return StoreKey(os.urandom(KEY_BYTES), os.urandom(ID_BYTES))


def _cipher(key: bytes) -> Any:
    try:
        import fsspec  # noqa: F401 - DuckDB opens encrypted files with it: known now, not after the first request
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        raise MissingError(
            f"the store is encrypted, which needs the package `{error.name}`. "
            "Install it, in a checkout with `pip install '.[encryption]'`."
        ) from None
    return AESGCM(key)


# --- the section of store.json ----------------------------------------------------------------------------------------


def fingerprint(key: bytes) -> str:
    """Return the public name of a user's key."""
    return hashlib.sha256(_WRAPPED + key).hexdigest()[:16]


def new_section(user_key: bytes) -> dict[str, str]:
    """Make a key for a store and return the section of `store.json` that holds it, wrapped with the user's."""
    return _section(os.urandom(KEY_BYTES), os.urandom(ID_BYTES), user_key)


def wrap_again(section: Mapping[str, Any], user_keys: Sequence[bytes]) -> dict[str, str]:
    """Return the section with the same key, wrapped with the first user's key. Raises: StoreError."""
    return _section(_unwrap(section, user_keys), bytes.fromhex(section["key_id"]), user_keys[0])


def open_section(section: Mapping[str, Any], user_keys: Sequence[bytes]) -> StoreKey:
    """Return the key of a store. Raises: StoreError if no user's key is the right one, or the section is damaged."""
    return StoreKey(_unwrap(section, user_keys), bytes.fromhex(section["key_id"]))


def _section(key: bytes, key_id: bytes, user_key: bytes) -> dict[str, str]:
    wrapped = StoreKey(user_key, b"").encrypt(key, _WRAPPED + key_id)
    return {
        "cipher": ALGORITHM,
        "key_id": key_id.hex(),
        "wrapped_by": fingerprint(user_key),
        "wrapped_key": base64.b64encode(wrapped).decode(),
    }


def _unwrap(section: Mapping[str, Any], user_keys: Sequence[bytes]) -> bytes:
    try:
        wanted, cipher, key_id = section["wrapped_by"], section["cipher"], bytes.fromhex(section["key_id"])
        wrapped = base64.b64decode(section["wrapped_key"], validate=True)
        if cipher != ALGORITHM or len(key_id) != ID_BYTES:
            raise ValueError(cipher)
    except (KeyError, TypeError, ValueError):
        raise StoreError("store.json is damaged: its section `encryption` cannot be read. Restore it.") from None
    for key in user_keys:
        if fingerprint(key) == wanted:
            try:
                return StoreKey(key, b"").decrypt(wrapped, _WRAPPED + key_id)
            except DecryptionError:
                raise StoreError("store.json is damaged: its wrapped key was changed. Restore it.") from None
    given = ", ".join(map(fingerprint, user_keys))
    raise StoreError(
        f"the store is encrypted with the key of fingerprint {wanted}, and {KEY_VARIABLE}* gave {given}. "
        "Give the right key. Nothing was changed."
    )


# --- the user's key ---------------------------------------------------------------------------------------------------


def read_user_keys(environment: Mapping[str, str]) -> list[bytes]:
    """Return the keys that the environment names, at least one; the first is for new stores.

    Raises: MissingError if it names none; StoreError if it names more than one place, or a place without a key.
    """
    named = given_variables(environment)
    if not named:
        raise MissingError(
            f"the store's key is missing. Set {KEY_VARIABLE}_FILE to its file, {KEY_VARIABLE}_COMMAND to a command "
            f"that prints it, or {KEY_VARIABLE} to the key itself: 32 random bytes, such as those of "
            "`openssl rand -base64 32`."
        )
    if len(named) > 1:
        raise StoreError(f"{' and '.join(named)} are both set. Set one of them.")
    name, value = named[0], environment[named[0]]
    if name == KEY_VARIABLE:
        content = value.encode()
    elif name.endswith("_FILE"):
        try:
            content = Path(value).expanduser().read_bytes()
        except OSError as error:
            raise StoreError(f"{name}: {value} cannot be read: {error.strerror or error}.") from None
    else:
        content = _run_command(name, value)
    return _parse_keys(content, name)


def _run_command(name: str, command: str) -> bytes:
    """Return the standard output of a command; its standard error goes to the terminal."""
    try:
        done = subprocess.run(shlex.split(command), stdout=subprocess.PIPE, timeout=COMMAND_S, check=True)  # noqa: S603
    except subprocess.CalledProcessError as error:
        raise StoreError(f"the command in {name} failed with exit code {error.returncode}.") from None
    except subprocess.TimeoutExpired:
        raise StoreError(f"the command in {name} did not end within {COMMAND_S:g} s.") from None
    except (OSError, ValueError) as error:
        raise StoreError(f"the command in {name} cannot be run: {getattr(error, 'strerror', None) or error}.") from None
    return done.stdout


def _parse_keys(content: bytes, name: str) -> list[bytes]:
    """Return the keys in a text, one per line, in base64 or hexadecimal digits; or the 32 bytes themselves."""
    keys = [_decode_key(word) for word in content.split()]
    if keys and all(key is not None for key in keys):
        return [key for key in keys if key is not None]
    if len(content) == KEY_BYTES:
        return [content]
    raise StoreError(
        f"{name} holds no key. A key is {KEY_BYTES} bytes in base64 or hexadecimal digits, such as those of "
        "`openssl rand -base64 32`; several keys are written one per line."
    )


def _decode_key(word: bytes) -> bytes | None:
    for decode in (bytes.fromhex, base64.urlsafe_b64decode):
        try:
            key = decode(word.decode("ascii").replace("+", "-").replace("/", "_"))
        except (ValueError, binascii.Error):
            continue
        if len(key) == KEY_BYTES:
            return key
    return None


# --- files ------------------------------------------------------------------------------------------------------------

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
