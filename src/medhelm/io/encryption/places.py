"""Encrypted folders of this process, and access to files that may be in one.

A store that was unlocked is registered here. Everything that writes or reads text in a store goes through `open_file`,
`read_text`, `output_folder.write_confidential`, `temporary_file`, or `address` for files that DuckDB opens. In other
folders these functions do the same as those of Python.
"""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, BinaryIO, Literal, NamedTuple

from medhelm.io.encryption import given_variables

if TYPE_CHECKING:
    from medhelm.io.encryption.keys import StoreKey

PROTOCOL = "medhelm"
"""DuckDB opens addresses of this protocol through `io.encryption.duckdb_files`."""

WORK = ".medhelm-"
"""Prefix of the names of working folders, which are not part of a file's role."""

HIDDEN = (".new-", ".old-")
"""Prefixes of the names of run folders that are being written or replaced; their files keep their roles."""

_keys: dict[str, StoreKey] = {}
"""Absolute path of a folder, with a final separator -> its key."""

_plain: set[Path] = set()
"""Folders that this process leaves as they are although a key is given."""


class Place(NamedTuple):
    """A file in an encrypted folder."""

    key: StoreKey
    """The folder's key."""
    role: str
    """The part of its path that stays the same when the file is put in place, removed or restored."""


def must_be_encrypted(folder: Path) -> bool:
    """Return True if a key is given, so that nothing is read from or written to a store that is not encrypted."""
    return bool(given_variables(os.environ)) and key_of(folder / "x") is None and folder.absolute() not in _plain


def leave_plain(folder: Path) -> None:
    """Let a store be plain although a key is given, such as a copy of one that is published."""
    _plain.add(folder.absolute())


def register(folder: Path, key: StoreKey) -> None:
    """Encrypt the files that are written in a folder from now on, and decrypt those that are read."""
    for path in {os.path.abspath(folder), os.path.realpath(folder)}:  # noqa: PTH100 - faster, and called for each file
        _keys[os.path.join(path, "")] = key  # noqa: PTH118


def forget(folder: Path) -> None:
    """Stop encrypting files in a folder that was registered itself."""
    if not _keys:
        return
    for path in {os.path.abspath(folder), os.path.realpath(folder)}:  # noqa: PTH100
        _keys.pop(os.path.join(path, ""), None)  # noqa: PTH118


def is_active() -> bool:
    """Return True if any folder is encrypted. Then no other temporary file may hold plain text either."""
    return bool(_keys)


def key_of(path: Path | str) -> StoreKey | None:
    """Return the key of the encrypted folder that holds a file; None if there is none."""
    found = place_of(path) if _keys else None
    return found and found.key


def place_of(path: Path | str) -> Place | None:
    """Return the place of a file in an encrypted folder; None if it is in none."""
    whole = os.path.abspath(path)  # noqa: PTH100
    holding = [folder for folder in list(_keys) if whole.startswith(folder)]
    if not holding:
        return None
    folder = max(holding, key=len)
    return Place(_keys[folder], role_of(whole.removeprefix(folder)))


def role_of(relative: str) -> str:
    """Return the role of a file from its path in the store: at most three names.

    >>> role_of("runs/pubmed_qa/.new-gpt-1f/.medhelm-0a/records.parquet")
    'pubmed_qa/gpt-1f/records.parquet'
    """
    names = [name for name in Path(relative).parts if not name.startswith(WORK)]
    for start in HIDDEN:
        names = [name.removeprefix(start) for name in names]
    return "/".join(names[-3:])


def address(path: Path | str) -> str:
    """Return the name by which DuckDB opens a file: its path, or its address if it is encrypted."""
    text = str(path)
    if not _keys or text.startswith(f"{PROTOCOL}://") or place_of(text) is None:
        return text
    return f"{PROTOCOL}://{os.path.abspath(text)}"  # noqa: PTH100


def open_file(path: Path, mode: Literal["rb", "wb"]) -> BinaryIO:
    """Open a file that may lie in an encrypted folder. Raises: OSError; DecryptionError."""
    place = place_of(path) if _keys else None
    if place is None:
        return path.open(mode)
    from medhelm.io.encryption.files import open_encrypted

    return open_encrypted(path, mode, place.key, place.role)


def read_text(path: Path) -> str:
    """Read a UTF-8 text. Raises: OSError; ValueError, such as DecryptionError."""
    if not _keys:
        return path.read_text(encoding="utf-8")
    with open_file(path, "rb") as file:
        return file.read().decode()


def temporary_file(folder: Path | None = None) -> IO[bytes]:
    """Create an unnamed file to append to and to read, with a key of its own if any folder is encrypted."""
    file = TemporaryFile(prefix="medhelm-", dir=folder)  # noqa: SIM115 - the caller closes it
    if not _keys:
        return file
    from medhelm.io.encryption.files import encrypted_scratch

    return encrypted_scratch(file)
