"""Read-only access to the cache: the completions that were bought."""

from __future__ import annotations

import sqlite3
from collections.abc import Container, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from medhelm.domain import Completion, Request, Usage
from medhelm.errors import StoreError
from medhelm.io.files import key_of
from medhelm.models.cache import (
    ADDED,
    APPLICATION_ID,
    OWN,
    SCHEMA_VERSION,
    KnownCompletion,
    Row,
    bought_rows,
    completion_of_row,
    create_table,
    find_completion,
    first_query,
    read_row,
    refuse_sealed,
    restore,
    row_of,
    select,
)
from medhelm.storage.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedCompletion:
    """A completion in the cache, without its text."""

    digest: bytes
    """Digest of its request."""
    model: str
    """Name of the model."""
    usage: Usage
    """Token counts."""
    metered: bool
    """True if the service reported token counts."""
    day: date
    """Day of arrival, UTC."""
    batched: bool = False
    """True if it was bought through a batch API, at half the price."""


class CacheReader:
    """Reads completions by request digest. Without a file the cache is empty."""

    @classmethod
    def of_store(cls, store: Store) -> Self:
        """Open the cache of a store; in place of an empty one, the completions that would be restored.

        Raises: StoreError as for a path.
        """
        reader = cls(store.cache_file)
        if reader.is_empty and any(store.folder.glob("runs/*/*/run.json")):
            reader.close()
            reader._connection, reader._version = sqlite3.connect(":memory:", isolation_level=None), SCHEMA_VERSION
            reader._key = None  # plain text in memory
            create_table(reader._connection)
            restore(reader._connection, bought_rows(store))
        return reader

    def __init__(self, path: Path) -> None:
        """Open the file, if it exists. Raises: StoreError if it is damaged, or not a cache of this version."""
        self.path = path
        self.n_damaged = 0
        """Rows with a wrong checksum that `purchases` or `rows` has left out."""
        self._connection, self._version, self._key = None, SCHEMA_VERSION, key_of(path)
        if path.is_file() and path.stat().st_size:
            self._connection, self._version = _open(path)
            if self._key is None:
                self._check_plain(self._connection)

    def _check_plain(self, connection: sqlite3.Connection) -> None:
        try:
            with suppress(sqlite3.Error):  # damage is reported where a row is read
                refuse_sealed(connection, self.path)
        except StoreError:
            connection.close()
            raise

    @property
    def is_empty(self) -> bool:
        """True if the cache holds no completion."""
        if self._connection is None:
            return True
        return self._ask(self._connection, "SELECT 1 FROM completions LIMIT 1") is None

    @property
    def n_completions(self) -> int:
        """Number of completions, damaged ones included."""
        row = self._connection and self._ask(self._connection, "SELECT count(*) FROM completions")
        return int(str(row[0])) if row else 0

    def find(self, request: Request) -> KnownCompletion | None:
        """Return the stored completion of a request, if any. Raises: StoreError as `get`."""
        return find_completion(request, request.digest, self.get)

    def get(self, digest: bytes, model: str = "") -> Completion | None:
        """Return the completion with this key, if any; not if it is damaged. Raises: StoreError if it cannot be read.

        `model`: only if it was bought under this name.
        """
        if self._connection is None:
            return None
        query, values = select(self._version), (digest, model) if model else (digest,)
        row = self._ask(self._connection, query + OWN if model else query, *values)
        is_checked = self._version >= ADDED["checksum"]
        return None if row is None else completion_of_row(digest, row, is_checked=is_checked, key=self._key)

    def count(self, digests: Iterable[bytes]) -> int:
        """Count the requests that have a completion, among different ones. Raises: StoreError as `get`."""
        if self._connection is None:
            return 0
        query = "SELECT 1 FROM completions WHERE digest = ?"
        return sum(self._ask(self._connection, query, digest) is not None for digest in digests)

    def beginnings(self, n_bytes: int) -> bytes:
        """Return the first bytes of all digests, one after the other in their order. Raises: StoreError as `get`."""
        if self._connection is None:
            return b""
        query = f"SELECT substr(digest, 1, {n_bytes:d}) FROM completions ORDER BY digest"  # noqa: S608 - a number
        try:
            return b"".join(row[0] for row in self._connection.execute(query))
        except sqlite3.Error as error:
            raise _unreadable(self.path, error) from error

    def purchases(self, without: Container[bytes] = ()) -> Iterator[CachedCompletion]:
        """Yield all completions but those of some digests; damaged ones are counted in `n_damaged` instead.

        Raises: StoreError if the file cannot be read.
        """
        for digest, model, completion in self._intact_rows(without):
            yield CachedCompletion(
                digest=digest,
                model=model,
                usage=completion.usage,
                metered=completion.text is None or completion.usage.input > 0,
                day=datetime.fromtimestamp(completion.received or 0, UTC).date(),
                batched=completion.batched,
            )

    def rows(self) -> Iterator[Row]:
        """Yield all rows that are not damaged, for `Cache.restore`. Raises: StoreError if the file cannot be read."""
        for digest, model, completion in self._intact_rows():
            yield row_of(digest, completion, model)

    def texts(self, without: Container[bytes] = ()) -> Iterator[tuple[bytes, str, Completion]]:
        """Yield digest, model and completion of all rows but those of some digests, damaged ones left out.

        Raises: StoreError if the file cannot be read.
        """
        return self._intact_rows(without)

    def _intact_rows(self, without: Container[bytes] = ()) -> Iterator[tuple[bytes, str, Completion]]:
        """Yield digest, model and completion of each row with the right checksum; count the others."""
        self.n_damaged = 0
        if self._connection is None:
            return
        query, is_checked = select(self._version), self._version >= ADDED["checksum"]
        try:
            digests = [row[0] for row in self._connection.execute("SELECT digest FROM completions")]
        except sqlite3.Error as error:
            raise _unreadable(self.path, error) from error
        for digest in digests:
            if digest in without:
                continue
            row = self._ask(self._connection, query, digest)
            completion = completion_of_row(digest, row, is_checked=is_checked, key=self._key) if row else None
            if row and completion:
                yield digest, str(row[0]), completion
            else:
                self.n_damaged += row is not None  # None: deleted since

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _ask(self, connection: sqlite3.Connection, query: str, *values: bytes | str) -> tuple[object, ...] | None:
        try:
            return read_row(connection, query, *values)
        except sqlite3.Error as error:
            raise _unreadable(self.path, error) from error


def _open(path: Path) -> tuple[sqlite3.Connection, int]:
    """Open a read-only connection; return it with the version of the file. Raises: StoreError."""
    address = f"{path.resolve().as_uri()}?mode=ro"
    if not path.with_name(f"{path.name}-wal").exists():
        # No process is writing, so a read-only medium works as well.
        address += "&immutable=1"
    connection: sqlite3.Connection | None = None
    try:
        connection = sqlite3.connect(address, uri=True, isolation_level=None)
        owner = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        first_query(connection, "SELECT 1 FROM sqlite_master LIMIT 1")
    except sqlite3.Error as error:
        if connection is not None:
            connection.close()
        raise _unreadable(path, error) from error
    if owner != APPLICATION_ID or not 1 <= version <= SCHEMA_VERSION:
        connection.close()
        raise StoreError(
            f"{path} is not a cache of this version of medhelm (application id {owner:#x}, format version {version}). "
            "Name another store with --store."
        )
    return connection, version


def _unreadable(path: Path, error: sqlite3.Error) -> StoreError:
    return StoreError(
        f"{path} cannot be read ({error}). Move it away, or name another store with --store. Nothing was changed."
    )
