"""The cipher of encrypted stores: their folders in this process, and how the files in them are opened.

`store.json` of an encrypted store has layout version 2, which older versions of medhelm refuse, and a section
`encryption` with the wrapped key (see `extensions.vault.files`) and the state of its files.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, BinaryIO, Literal

from medhelm.errors import StoreError, UserError
from medhelm.extensions.vault.files import (
    StoreKey,
    encrypted_scratch,
    new_key,
    new_section,
    open_encrypted,
    open_section,
    read_user_keys,
)
from medhelm.io import files
from medhelm.io.files import KEY_VARIABLE, Cipher
from medhelm.io.folders import PREFIX

SECTION, STATE = "encryption", "state"
"""Key of the section in `store.json`, and in the section that of the state: `complete`, `encrypting`, `decrypting`."""

HIDDEN = (".new-", ".old-")
"""Prefixes of the names of run folders that are being written or replaced; their files keep their roles."""


class StoreCipher(Cipher):
    """Encrypts the files of folders that were registered, each with the key of its folder; see `io.files.Cipher`."""

    def __init__(self) -> None:
        """No folder is encrypted."""
        self._keys: dict[str, StoreKey] = {}  # absolute path of a folder, with a final separator -> its key

    def new_manifest(self, folder: Path) -> dict[str, Any]:
        """Return the section of a new store, with the user's key of the environment. Raises: as `read_user_keys`."""
        keys = read_user_keys(os.environ)
        refuse_key_inside(folder, os.environ)
        return {SECTION: {**new_section(keys[0]), STATE: "complete"}}

    def unlock(self, folder: Path, manifest: Mapping[str, Any]) -> None:
        """Make the files of a store readable and writable for this process. Raises: as `Cipher.unlock`."""
        section = manifest.get(SECTION)
        if not isinstance(section, dict):
            raise StoreError(
                f"{folder / 'store.json'} is damaged: it has no section `{SECTION}`. Restore it from a copy."
            )
        if (state := section.get(STATE)) != "complete":
            command = "medhelm decrypt" if state == "decrypting" else "medhelm encrypt"
            raise StoreError(
                f"the store {folder} is being converted, or the conversion was interrupted. Wait until `{command}` "
                "ends, or repeat that command. Nothing is lost."
            )
        known = self.key_of(folder / "store.json")
        if known is None or known.id.hex() != section.get("key_id"):
            self.register(folder, open_section(section, read_user_keys(os.environ)))

    def register(self, folder: Path, key: StoreKey) -> None:
        """Encrypt the files that are written in a folder from now on, and decrypt those that are read."""
        self._keys.update(dict.fromkeys(_spellings(folder), key))
        files.cipher = self

    def protect(self, folder: Path) -> None:
        """Encrypt the files of a temporary folder, unless it is in an encrypted one, with a key that is not stored."""
        if self.key_of(folder) is None:
            self.register(folder, new_key())

    def forget(self, folder: Path) -> None:
        """Stop encrypting files in a folder that was registered itself."""
        for path in _spellings(folder):
            self._keys.pop(path, None)

    def key_of(self, path: Path | str) -> StoreKey | None:
        """Return the key of the encrypted folder that holds a file; None if there is none."""
        place = self._place_of(path)
        return place and place[0]

    def _place_of(self, path: Path | str) -> tuple[StoreKey, str] | None:
        """Return the key and the role of a file in an encrypted folder; None if it is in none."""
        whole = os.path.abspath(path)  # noqa: PTH100 - faster, and called for each file
        holding = [folder for folder in list(self._keys) if whole.startswith(folder)]
        if not holding:
            return None
        folder = max(holding, key=len)
        return self._keys[folder], role_of(whole.removeprefix(folder))

    def open_file(self, path: Path, mode: Literal["rb", "wb"]) -> BinaryIO:
        """Open a file, encrypted if its folder is. Raises: OSError; DecryptionError, here or when it is read."""
        place = self._place_of(path)
        return path.open(mode) if place is None else open_encrypted(path, mode, *place)

    def encrypt_temporary(self, file: IO[bytes]) -> IO[bytes]:
        """Encrypt a temporary file, opened for reading and writing, with a key of its own."""
        return encrypted_scratch(file)

    def file_system(self) -> Any:
        """Return the file system of fsspec through which DuckDB opens encrypted files."""
        from medhelm.extensions.vault.duckdb_files import EncryptedFiles  # lazy: fsspec is slow to import

        return EncryptedFiles()


CIPHER = StoreCipher()
"""The one cipher of this process."""


def role_of(relative: Path | str) -> str:
    """Return the role of a file: the part of its path in the store that stays when it is put in place or removed.

    >>> role_of("runs/pubmed_qa/.new-gpt-1f/.medhelm-0a/records.parquet")
    'pubmed_qa/gpt-1f/records.parquet'
    """
    names = [name for name in Path(relative).parts if not name.startswith(PREFIX)]
    for start in HIDDEN:
        names = [name.removeprefix(start) for name in names]
    return "/".join(names[-3:])


def refuse_key_inside(folder: Path, environment: Mapping[str, str]) -> None:
    """Raise UserError for a key that would be copied with the store."""
    file = Path(environment.get(f"{KEY_VARIABLE}_FILE") or os.devnull).expanduser().resolve()
    if file.is_relative_to(folder.resolve()):
        raise UserError(f"{file} is inside the store that it protects. Move the key elsewhere. Nothing was changed.")


def _spellings(folder: Path) -> set[str]:
    """Return the absolute path of a folder as it is given and without links, with a final separator."""
    return {os.path.join(path(folder), "") for path in (os.path.abspath, os.path.realpath)}  # noqa: PTH118
