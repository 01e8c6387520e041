"""Opens the files of stores, which may be encrypted, and data files, which may be compressed.

Everything that writes or reads text in a store goes through `open_file`, `read_confidential`, `temporary_file`,
`output_folder.write_confidential`, `work_folders.temporary_folder`, or `address` for files that DuckDB opens. In
folders that are not encrypted these functions do the same as those of Python.

A data file whose name ends in `.gz` is decompressed while it is read, with limits against decompression bombs. One that
cannot be opened, decompressed or decoded raises a DataError that names the file, the place in it and the fix.
"""

from __future__ import annotations

import codecs
import errno
import gzip
import io
import os
import stat
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Literal, Protocol, TextIO, cast

from medhelm.errors import DataError, MissingError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


# --- files ------------------------------------------------------------------------------------------------------------

KEY_VARIABLE = "MEDHELM_STORE_KEY"
"""Environment variable with the user's key; with the suffix `_FILE` or `_COMMAND`, with the place to read it from."""

MAGIC = b"MEDHELM\x1a"
"""First bytes of every encrypted file."""

PROTOCOL = "medhelm"
"""DuckDB opens addresses of this protocol through `Cipher.file_system`."""

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


# --- files of stores --------------------------------------------------------------------------------------------------


class CipherKey(Protocol):
    """The key of an encrypted folder, for single values such as those of the cache."""

    def encrypt(self, content: bytes, about: bytes) -> bytes:
        """Encrypt a message. `about`: its context, which must be given again to decrypt it."""

    def decrypt(self, message: bytes, about: bytes) -> bytes:
        """Decrypt a message. Raises: ValueError if it was not encrypted with this key and `about`."""


class Cipher(Protocol):
    """Encrypts the files of stores, and knows the encrypted folders of this process."""

    def new_manifest(self, folder: Path) -> dict[str, Any]:
        """Return what the `store.json` of a new encrypted store holds besides its version. Raises: MedHelmError."""

    def unlock(self, folder: Path, manifest: Mapping[str, Any]) -> None:
        """Make the files of a store readable and writable, and set `cipher`. `manifest`: content of its `store.json`.

        Raises: StoreError for a wrong key, a damaged section, or a store that is being converted; MissingError without
        a key, or without a package that it needs.
        """

    def protect(self, folder: Path) -> None:
        """Encrypt the files of a temporary folder, unless it is in an encrypted one, with a key that is not stored."""

    def forget(self, folder: Path) -> None:
        """Stop encrypting files in a folder that was unlocked or protected itself."""

    def key_of(self, path: Path | str) -> CipherKey | None:
        """Return the key of the encrypted folder that holds a file; None if there is none."""

    def open_file(self, path: Path, mode: Literal["rb", "wb"]) -> BinaryIO:
        """Open a file, encrypted if its folder is. Raises: OSError; ValueError, here or when it is read."""

    def encrypt_temporary(self, file: IO[bytes]) -> IO[bytes]:
        """Encrypt a temporary file, opened for reading and writing, with a key of its own."""

    def file_system(self) -> Any:
        """Return the file system of fsspec through which DuckDB opens files by their `address`."""


cipher: Cipher | None = None
"""The cipher of the encrypted stores that this process has opened; None if there are none.

With one, no temporary file may hold plain text either.
"""

_plain: set[Path] = set()
"""Folders of stores that this process leaves as they are although a key is given."""


def load_cipher(why: str) -> Cipher:
    """Return the cipher of this installation. `why`: the reason, for the message. Raises: MissingError without one."""
    from medhelm.io import plugins  # lazy, here and below: few stores are encrypted

    try:
        loaded: Cipher = plugins.from_extension(plugins.FILES, "vault", extension="vault", what="an encrypted store")
    except MissingError as error:
        raise MissingError(f"{why}: {error} Nothing was read or changed.") from None
    return loaded


def given_variables(environment: Mapping[str, str]) -> list[str]:
    """Return the variables that give the user's key."""
    return [name for end in ("", "_FILE", "_COMMAND") if environment.get(name := f"{KEY_VARIABLE}{end}")]


def required_cipher(folder: Path) -> Cipher | None:
    """Return the cipher if a key is given, so that a store that is not encrypted must not be used; else None.

    Raises: MissingError if a key is given, and the extension that encrypts is missing.
    """
    names = given_variables(os.environ)
    if not names or key_of(folder / "x") is not None or folder.absolute() in _plain:
        return None
    return load_cipher(f"{' and '.join(names)} is set, so that the store {folder} must be encrypted")


def leave_plain(folder: Path) -> None:
    """Let a store be plain although a key is given, such as a copy of one that is published."""
    _plain.add(folder.absolute())


def is_encrypted(path: Path) -> bool:
    """Return True if a file begins like an encrypted file. Raises: OSError."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def key_of(path: Path | str) -> CipherKey | None:
    """Return the key of the encrypted folder that holds a file; None if there is none."""
    return None if cipher is None else cipher.key_of(path)


def open_file(path: Path, mode: Literal["rb", "wb"]) -> BinaryIO:
    """Open a file that may lie in an encrypted folder. Raises: OSError; ValueError if it cannot be decrypted."""
    return path.open(mode) if cipher is None else cipher.open_file(path, mode)


def read_confidential(path: Path) -> str:
    """Read a UTF-8 text that may lie in an encrypted folder. Raises: OSError; ValueError, also for damaged files."""
    with open_file(path, "rb") as file:
        return file.read().decode()


def address(path: Path | str) -> str:
    """Return the name by which DuckDB opens a file: its path, or its address if it is encrypted."""
    text = str(path)
    if cipher is None or text.startswith(f"{PROTOCOL}://") or cipher.key_of(text) is None:
        return text
    return f"{PROTOCOL}://{os.path.abspath(text)}"  # noqa: PTH100 - faster, and called for each file


def temporary_file(folder: Path | None = None) -> IO[bytes]:
    """Create an unnamed file to append to and to read, encrypted if any folder is."""
    file = TemporaryFile(prefix="medhelm-", dir=folder)  # noqa: SIM115 - the caller closes it
    return file if cipher is None else cipher.encrypt_temporary(file)


# --- data files -------------------------------------------------------------------------------------------------------


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
    import zipfile  # lazy: it takes longer to import than all else here

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


# --- shared files -----------------------------------------------------------------------------------------------------
# Files that several processes, and in a store for a team several users, append to or lock.
#
# Each has the permissions of the folder that holds it, whatever the umask of the process that creates it: nothing for
# other users, and for the group what the folder allows. It is a regular file, never a link to one, so that a
# member of a group cannot direct what another one appends to a file elsewhere.


def file_mask(folder: Path) -> int:
    """Return the umask for files of a folder: nothing for other users, and what the folder allows for its group.

    A folder that is open to all users was not shared with its group on purpose.
    """
    try:
        mode = folder.stat().st_mode
    except OSError:
        return 0o077
    return 0o077 if mode & 0o007 else 0o077 & ~mode


def file_mode(path: Path) -> int:
    """Return the mode of a file that everyone who can write to its folder writes to."""
    return 0o660 & ~file_mask(path.parent)


def open_shared(path: Path, flags: int) -> int:
    """Open a regular file, or create it, and return its descriptor. Raises: OSError, also for links and devices."""
    mode = file_mode(path)
    # Without O_NONBLOCK, opening a named pipe would wait for its other end.
    flags |= os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        file = os.open(path, flags, mode)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _not_regular() from None
        raise
    try:
        about = os.fstat(file)
        if not stat.S_ISREG(about.st_mode):
            raise _not_regular()
        if flags & os.O_CREAT:
            _share(file, about, mode)
    except BaseException:
        os.close(file)
        raise
    return file


def prepare_database(path: Path, *, create: bool = True) -> None:
    """Create an empty file for a database of SQLite, which gives its other files the same mode, or correct its mode.

    Raises: OSError if it is there and not a regular file.
    """
    # An existing one is not opened: closing it would release the locks that this process holds on it.
    try:
        about = path.lstat()
    except FileNotFoundError:
        if create:
            with suppress(FileExistsError):
                os.close(open_shared(path, os.O_RDWR | os.O_CREAT | os.O_EXCL))
        return
    if not stat.S_ISREG(about.st_mode):
        raise _not_regular()
    for file in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        with suppress(OSError):
            _share(file, file.lstat(), file_mode(path))


def make_shared_folder(folder: Path) -> None:
    """Create a folder that those can use who can use the one around it, or correct its mode. Raises: OSError."""
    folder.mkdir(mode=0o700, exist_ok=True)
    about, shared = folder.stat(), 0o770 & ~file_mask(folder.parent)
    if os.name == "posix" and about.st_uid == os.geteuid() and ~about.st_mode & shared:
        folder.chmod(stat.S_IMODE(about.st_mode) | shared)  # keeps the bit that passes the group on


def _share(file: int | Path, about: os.stat_result, mode: int) -> None:
    """Set the mode of a regular file that belongs to this user."""
    is_own = hasattr(os, "geteuid") and about.st_uid == os.geteuid() and stat.S_ISREG(about.st_mode)
    if is_own and stat.S_IMODE(about.st_mode) != mode:
        with suppress(OSError):  # a file system without modes
            os.chmod(file, mode)  # noqa: PTH101 - a descriptor or a path


def _not_regular() -> OSError:
    return OSError(errno.EINVAL, "it is not a regular file")
