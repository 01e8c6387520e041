"""Keyed hashes in place of names that can identify patients, such as the record number of a cluster.

STORE/pseudonyms.key holds the key, made once for each store. So a name has the same hash in all exports of a store,
which keep their groups, and nobody without the key can find the name by trying all numbers.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from pathlib import Path

from medhelm.io.encryption.places import read_text
from medhelm.io.output_folder import write_confidential
from medhelm.storage.permissions import file_mask
from medhelm.storage.store import Store

KEY_FILE = "pseudonyms.key"
"""File of a store with the key, in hexadecimal digits."""

_KEY_BYTES, _DIGITS = 32, 16


class Pseudonyms:
    """The keyed hashes of one store."""

    def __init__(self, store: Store, *, create: bool = True) -> None:
        """Read the key, or make it. `create`: False to use a passing key where the store has none.

        A store that cannot be written also gets a passing key: then hashes are equal within one export only.
        """
        self._key = _read(store.folder / KEY_FILE) or (_create(store) if create else _new())

    def of(self, benchmark: str, name: str) -> str:
        """Return the hash of a name within a benchmark; empty for an empty name."""
        if not name:
            return ""
        text = f"{benchmark}\0{name}".encode("utf-8", "surrogatepass")
        return hmac.new(self._key, text, hashlib.sha256).hexdigest()[:_DIGITS]


def _new() -> bytes:
    return secrets.token_bytes(_KEY_BYTES)


def _read(file: Path) -> bytes:
    """Return the key in a file; empty if the file is missing or damaged."""
    try:
        key = bytes.fromhex(read_text(file))
    except (OSError, ValueError):
        return b""
    return key if len(key) == _KEY_BYTES else b""


def _create(store: Store) -> bytes:
    """Make the key of a store; if another process is first, return its key."""
    from filelock import FileLock  # lazy: once for each store

    file, new = store.folder / KEY_FILE, _new()
    try:
        (store.folder / "locks").mkdir(exist_ok=True)
        with FileLock(store.folder / "locks" / "pseudonyms.lock"):
            if known := _read(file):
                return known
            write_confidential(file, new.hex() + "\n")
            file.chmod(0o660 & ~file_mask(store.folder))
    except OSError:
        pass  # a store that is only read
    return new
