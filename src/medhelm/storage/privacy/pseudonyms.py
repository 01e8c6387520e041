"""Keyed hashes in place of names that can identify patients, such as the record number of a cluster.

STORE/pseudonyms.key holds the key, made once for each store. So a name has the same hash in all exports of a store,
which keep their groups. Without the key, the name cannot be found by trying all numbers.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from contextlib import suppress
from pathlib import Path

from medhelm.io.files import read_confidential
from medhelm.io.output_folder import write_confidential
from medhelm.io.shared_files import file_mask
from medhelm.storage.store import Store

KEY_FILE = "pseudonyms.key"
"""File of a store with the key, in hexadecimal digits."""

_KEY_BYTES, _DIGITS = 32, 16


class Pseudonyms:
    """The keyed hashes of one store."""

    def __init__(self, store: Store) -> None:
        """Read the key. A store without one gets one in memory, which `keep` writes."""
        self._store = store
        self._key = _read(store.folder / KEY_FILE) or secrets.token_bytes(_KEY_BYTES)

    @classmethod
    def of_store(cls, store: Store) -> Pseudonyms:
        """Read the key, or make it. In a store that cannot be written, hashes are equal within one export only."""
        found = cls(store)
        with suppress(OSError):
            found.keep()
        return found

    def of(self, benchmark: str, name: str) -> str:
        """Return the hash of a name within a benchmark; empty for an empty name."""
        if not name:
            return ""
        text = f"{benchmark}\0{name}".encode("utf-8", "surrogatepass")
        return hmac.new(self._key, text, hashlib.sha256).hexdigest()[:_DIGITS]

    def sql(self, benchmark: str, name: str) -> str:
        """Return the same as an SQL expression. Parameters: SQL expressions of the benchmark and the name."""
        inner, outer = (bytes(byte ^ pad for byte in self._key.ljust(64, b"\0")).hex() for pad in (0x36, 0x5C))
        text = f"encode({benchmark} || chr(0) || {name})"
        hash_ = f"sha256(unhex('{outer}') || unhex(sha256(unhex('{inner}') || {text})))[:{_DIGITS}]"
        return f"CASE WHEN {name} = '' THEN '' ELSE {hash_} END"

    def keep(self) -> None:
        """Write the key if the store has none; else use that of the store. Raises: OSError."""
        from filelock import FileLock  # lazy: once for each store

        file, folder = self._store.folder / KEY_FILE, self._store.folder
        if file.exists():
            self._key = _read(file) or self._key
            return
        (folder / "locks").mkdir(exist_ok=True)
        with FileLock(folder / "locks" / "pseudonyms.lock"):
            if known := _read(file):  # of another process
                self._key = known
                return
            write_confidential(file, self._key.hex() + "\n")
            file.chmod(0o660 & ~file_mask(folder))


def _read(file: Path) -> bytes:
    """Return the key in a file; empty if the file is missing or damaged."""
    try:
        key = bytes.fromhex(read_confidential(file))
    except (OSError, ValueError):
        return b""
    return key if len(key) == _KEY_BYTES else b""
