"""Files of stores and data files: opened, shared and locked safely, in any encoding, with helpful errors."""

from __future__ import annotations

import codecs
import errno
import gzip
import io
import os
import re
import sqlite3
import stat
import struct
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Literal, Protocol, TextIO, TypeVar, cast

from medhelm.errors import DataError, MedHelmError, MissingError, StoreError, StoreFullError, UserError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


# --- system errors ----------------------------------------------------------------------------------------------------
# Errors of the operating system and of DuckDB, with advice on a full or failing disk.
#
# Code that knows what it was writing says so itself (`io.folders.output_errors`). This is for all other places.

DISK_FULL = frozenset(getattr(errno, name) for name in ("ENOSPC", "EDQUOT") if hasattr(errno, name))
"""Numbers of errors of a full disk, and of a quota that is used up."""

DISK_FAILS = frozenset(
    getattr(errno, name) for name in ("EIO", "EBADF", "ENXIO", "ENODEV", "ESTALE", "EREMOTEIO") if hasattr(errno, name)
)
"""Numbers of errors of a disk, or of the connection to one."""

_ADVICE: Mapping[int, str] = {
    **dict.fromkeys(DISK_FULL, "Free some space, and repeat the command."),
    **dict.fromkeys(DISK_FAILS, "The disk, or the connection to it, fails: check it, and repeat the command."),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "Check the permissions of the file and its folder."),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "Raise the limit on open files (`ulimit -n`)."),
    errno.EFBIG: "Raise the limit on the size of files (`ulimit -f`).",
    errno.ENAMETOOLONG: "Use a shorter name.",
}
"""Number of an error -> what to do. Others are not converted: they are more likely mistakes in this program."""

_DATABASE_ERRORS = ("IOException", "OutOfMemoryException")
"""Names of DuckDB's errors for a full disk and for memory; their text includes the system's reason."""


_SQLITE_DISK_ERRORS = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
"""SQLite's codes for what a disk or a wrong place causes."""


def system_error(error: BaseException) -> MedHelmError | None:
    """Return the error for one of the operating system, or for a group in which all are such; None for any other.

    Of a group, the first error that is already a MedHelmError counts, else the first one.
    """
    if isinstance(error, MedHelmError):
        return error
    if isinstance(error, BaseExceptionGroup):
        found = [system_error(one) for one in error.exceptions]
        if None in found:
            return None
        own = [one for one in error.exceptions if isinstance(one, MedHelmError)]
        return own[0] if own else found[0]
    if isinstance(error, OSError):
        return _from_system(error)
    if isinstance(error, sqlite3.Error) and primary_code(error) in _SQLITE_DISK_ERRORS:
        return store_error(error, Path("a database of the store"), 0.0)
    if is_database_disk_error(error):
        return StoreFullError(f"a file cannot be read or written: {reason(error).rstrip('.')}. {_ADVICE[errno.EIO]}")
    return None


def error_class(error: OSError, otherwise: type[MedHelmError]) -> type[MedHelmError]:
    """Return StoreFullError (exit code 4) for a disk that is full or fails, and `otherwise` for a wrong place."""
    return StoreFullError if error.errno in DISK_FULL | DISK_FAILS else otherwise


def is_database_disk_error(error: BaseException) -> bool:
    """Return True for DuckDB's errors about a disk or about memory, those of encrypted files included."""
    return type(error).__name__ in _DATABASE_ERRORS or "OSError: [Errno" in str(error)


def _from_system(error: OSError) -> MedHelmError | None:
    if "No usable temporary directory" in str(error):  # of `tempfile`, whatever the disk says
        return StoreFullError(f"{error.strerror}. Free some space there, or name another folder with TMPDIR.")
    advice = _ADVICE.get(error.errno or 0)
    if advice is None:
        return None
    place: Any = error.filename
    if isinstance(place, (str, bytes, os.PathLike)):
        what = f"{os.fsdecode(place)} cannot be read or written"
    else:
        what = "the output, or a file, could not be written"
    return error_class(error, UserError)(f"{what}: {error.strerror}. {advice}")


def reason(error: BaseException) -> str:
    """Return in one line why a file cannot be read, from an error of DuckDB or of an encrypted file."""
    first, *others = str(error).splitlines() or [type(error).__name__]
    if not first.startswith("Traceback"):
        return first
    # DuckDB puts a traceback of Python before its own words, since Python 3.13 with a blank line after each place.
    return next((line for line in others if line and not line.startswith(" ")), first).partition(": ")[2]


# --- SQLite -----------------------------------------------------------------------------------------------------------


def primary_code(error: sqlite3.Error) -> int:
    """Return SQLite's primary result code; 0 if the error did not come from SQLite."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def store_error(error: sqlite3.Error, path: Path, timeout_s: float) -> StoreError:
    """Convert an error about a file. `timeout_s`: seconds waited for another process that was writing."""
    code = primary_code(error)
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        return StoreFullError(
            f"{path} could not be written ({error}): the disk or your quota is full, or the disk fails. Everything "
            "committed before is kept. Free some space, and repeat the command to continue."
        )
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return StoreError(
            f"{path} is damaged or not a database ({error}). Move it, or choose another store with --store."
        )
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return StoreError(
            f"{path} cannot be opened for writing ({error}). Check that it is a file, and its permissions and those of "
            "its folder, or choose another store with --store."
        )
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreError(
            f"{path} has been in use by another process for {timeout_s:g} s. Everything committed before is kept; "
            "wait until the other process has finished, then repeat the command."
        )
    return StoreError(f"{path} cannot be used: {error}. Everything committed before is kept.")


# --- text encoding ----------------------------------------------------------------------------------------------------
# Finds the encoding of a text file, and names the lines of a file that mixes two encodings.
#
# Spreadsheet programs write UTF-8, UTF-16 or the Windows code page, and rows pasted from another system can have a
# different encoding. Decoding such a file in either encoding would garble the other lines, so it is refused with the
# line numbers.

DEFAULT = "utf-8-sig"
"""UTF-8 with or without a byte order mark."""

WINDOWS = "cp1252"
"""The encoding of files that are not Unicode: Windows-1252."""

_BYTE_ORDER_MARKS = ((codecs.BOM_UTF8, DEFAULT), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_ONE_BYTE = frozenset({"cp1252", "iso8859-1", "iso8859-15"})
"""Western encodings, by the names of Python's codecs. They decode every UTF-8 file to wrong text without an error."""

_UTF8_PAIR = re.compile(rb"[\xc2-\xc5][\x80-\xbf]|\xe2[\x80-\x9f][\x80-\xbf]")
"""UTF-8 of a letter or sign that western text holds. In Windows-1252 it would read `Ã©`, `Â°` or `â€“`."""

_SNIFFED = 1 << 16
_SHOWN = 6
"""Ranges of lines in a message."""


@dataclass(slots=True)
class LineEncodings:
    """Lines of a file that are not ASCII, by their encoding; numbered from 1."""

    utf8: list[int] = field(default_factory=list)
    """Lines in UTF-8."""
    windows: list[int] = field(default_factory=list)
    """Lines in Windows-1252 or another encoding with one byte per character."""
    both: list[int] = field(default_factory=list)
    """Lines with characters in either encoding."""

    @property
    def is_mixed(self) -> bool:
        """Return True if no single encoding can read the file."""
        return bool(self.both or (self.utf8 and self.windows))

    def in_words(self) -> str:
        """List the lines of each encoding."""
        kinds = {"in UTF-8": self.utf8, "in Windows-1252": self.windows, "in both": self.both}
        parts = [f"{words}: {line_ranges(lines)}" for words, lines in kinds.items() if lines]
        return f"The file mixes encodings. Lines {'; '.join(parts)}."


def marked_encoding(content: bytes) -> str | None:
    """Return the encoding that a byte order mark at the beginning of `content` announces; None without a mark."""
    return next((name for mark, name in _BYTE_ORDER_MARKS if content.startswith(mark)), None)


def find_encoding(open_file: Callable[[], BinaryIO]) -> str:
    """Return the encoding of a file: UTF-8, UTF-16, or else Windows-1252. Reads all of it.

    A file that mixes UTF-8 and Windows-1252, is neither, or cannot be read to its end counts as UTF-8: reading it as
    such raises the error.
    """
    try:
        with open_file() as file:
            head = file.read(1000)
        if found := marked_encoding(head) or _unmarked_utf16(head):
            return found
        if _is_decodable(open_file, "utf-8"):
            return DEFAULT
        with open_file() as file:
            is_mixed = encodings_by_line(file).is_mixed
        return WINDOWS if not is_mixed and _is_decodable(open_file, WINDOWS) else DEFAULT
    except DataError:
        return DEFAULT


def has_one_byte_characters(encoding: str) -> bool:
    """Return True for Windows-1252 and Latin-1, which decode any UTF-8 file without an error, but to wrong text."""
    return codecs.lookup(encoding).name in _ONE_BYTE


def encodings_by_line(file: BinaryIO) -> LineEncodings:
    """Sort the lines of a file that are not ASCII by their encoding. A line whose encoding is in doubt is left out."""
    found = LineEncodings()
    for number, line in enumerate(file, 1):
        if line.isascii():
            continue
        has_pairs = _UTF8_PAIR.search(line) is not None
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            (found.both if has_pairs else found.windows).append(number)
        else:
            if has_pairs or sum(not character.isascii() for character in text) > 2:
                found.utf8.append(number)
    return found


def line_ranges(lines: Sequence[int]) -> str:
    """Format ascending line numbers, neighbors as a range.

    >>> line_ranges([1, 2, 3, 7])
    '1-3, 7'
    """
    ranges: list[list[int]] = []
    for line in lines:
        if ranges and ranges[-1][1] == line - 1:
            ranges[-1][1] = line
        else:
            ranges.append([line, line])
    shown = [str(first) if first == last else f"{first}-{last}" for first, last in ranges[:_SHOWN]]
    return ", ".join([*shown, "..."] if len(ranges) > _SHOWN else shown)


def _is_decodable(open_file: Callable[[], BinaryIO], encoding: str) -> bool:
    decoder = codecs.getincrementaldecoder(encoding)()
    with open_file() as file:
        try:
            while chunk := file.read(_SNIFFED):
                decoder.decode(chunk)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return False
    return True


def _unmarked_utf16(content: bytes) -> str | None:
    """Detect UTF-16 without a byte order mark by the zero bytes of ASCII characters."""
    head = content[:200]
    if len(head) <= 3:
        return None
    if head[1::2].count(0) > len(head) // 4:
        return "utf-16-le"
    return "utf-16-be" if head[::2].count(0) > len(head) // 4 else None


# --- files of stores --------------------------------------------------------------------------------------------------
# Opens the files of stores, which may be encrypted.
#
# Everything that writes or reads text in a store goes through `open_file`, `read_confidential`, `temporary_file`,
# `io.folders.write_confidential`, `io.folders.temporary_folder`, or `address` for files that DuckDB opens. In folders
# that are not encrypted these functions do the same as those of Python.

KEY_VARIABLE = "MEDHELM_STORE_KEY"
"""Environment variable with the user's key; with the suffix `_FILE` or `_COMMAND`, with the place to read it from."""

MAGIC = b"MEDHELM\x1a"
"""First bytes of every encrypted file."""

PROTOCOL = "medhelm"
"""DuckDB opens addresses of this protocol through `Cipher.file_system`."""


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
# Opens data files, which may be compressed.
#
# A file whose name ends in `.gz` is decompressed while it is read, with limits against decompression bombs. One that
# cannot be opened, decompressed or decoded raises a DataError that names the file, the place in it and the fix.

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


# --- number locks -----------------------------------------------------------------------------------------------------
# Numbers that one process at a time may hold: requests in flight, so that two processes do not pay for the same one.
#
# A number is a position in a file, and holding it is an advisory lock on that position. The operating system releases
# the locks of a process however it ends, so nothing is left to clean up and no process id can be mistaken for another.
# It takes microseconds and writes nothing, unlike a row in a database. The file has one byte for each time it was
# opened.

try:
    import fcntl
except ImportError:  # Windows: each process then sends its own requests
    fcntl = None  # type: ignore[assignment]

POSITIONS = 2**62
"""Positions of a file that represent numbers."""

FIRST = POSITIONS
"""Position that is held by a process that opened the file while no other had it open."""


class NumberLocks:
    """Numbers held by this process, among all that open the same file on a local disk."""

    def __init__(self, path: Path) -> None:
        """Open or create the file. Raises: StoreError."""
        try:
            self._file = open_shared(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        except OSError as error:
            raise error_class(error, StoreError)(
                f"{path} cannot be opened for writing: {error.strerror}. Check its permissions."
            ) from error
        self._was_first = self._lock(FIRST, held=True) is True
        self._size = self._add_byte()

    @property
    def is_alone(self) -> bool:
        """True if no other process has had the file open since this one opened it."""
        return self._was_first and os.fstat(self._file).st_size == self._size

    def take(self, number: int) -> bool:
        """Hold a number; return False if another process holds it. Without locks every number can be held."""
        return self._lock(number % POSITIONS, held=True) is not False

    def release(self, number: int) -> None:
        """Stop holding a number."""
        self._lock(number % POSITIONS, held=False)

    def close(self) -> None:
        """Close the file and release all numbers. May be called more than once."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

    def _add_byte(self) -> int:
        """Append a byte, which shows others that this process came; return where it ends, -1 if there is no room."""
        try:
            os.write(self._file, b"\0")
        except OSError:  # a full disk
            return -1
        return os.lseek(self._file, 0, os.SEEK_CUR)

    def _lock(self, position: int, *, held: bool) -> bool | None:
        """Lock or unlock a position; False if another process holds it, None on a system or disk without locks."""
        if fcntl is None:
            return None
        try:
            if hasattr(fcntl, "F_OFD_SETLK") and struct.calcsize("P") == 8:
                # A lock of the open file, not of the process: two sessions in one process exclude each other, too.
                lock = struct.pack("hhqqi4x", fcntl.F_WRLCK if held else fcntl.F_UNLCK, os.SEEK_SET, position, 1, 0)
                fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, lock)
            else:
                fcntl.lockf(self._file, (fcntl.LOCK_EX | fcntl.LOCK_NB) if held else fcntl.LOCK_UN, 1, position)
        except OSError as error:
            return False if isinstance(error, BlockingIOError | PermissionError) else None
        return True


def number_of(digest: bytes) -> int:
    """Return the number of a request: a part of its digest."""
    return int.from_bytes(digest[:8]) % POSITIONS


# --- threads ----------------------------------------------------------------------------------------------------------
# Work in threads that a task waits for, even if the task is canceled.

T = TypeVar("T")


async def finish_in_thread(work: Callable[[], T]) -> T:
    """Return the result of `work`, which runs in a thread.

    A thread cannot be canceled. If the calling task is, it still waits for the end of the thread, so that whatever
    cleans up after the task never deletes what the thread is writing.
    """
    import asyncio  # lazy: readers of results have no event loop

    thread = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(thread)
    except asyncio.CancelledError:
        while not thread.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([thread])
        if not thread.cancelled():
            thread.exception()  # the error that canceled the task is reported instead
        raise
