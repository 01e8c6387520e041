"""The cache: request digest -> completion, in one SQLite file.

A completion counts as received only once it is committed. So nothing is bought twice, whatever ends the process, power
loss included. Prompts are not stored, only digests: prompts can be rebuilt from the data. Several processes may share
one file on a local disk (write-ahead log; it does not work across machines on a network file system).
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, NamedTuple, Self

from medhelm.domain import Completion, Failure, FailureCode, Request, Usage
from medhelm.errors import StoreError

SCHEMA_VERSION = 3
"""Version of the table below, stored in the file's `user_version`."""

ADDED = {"batched": 2, "fingerprint": 2, "refused_parts": 2, "cache_write": 3}
"""Column -> the version that added it; older files get it when they are next opened for writing."""

APPLICATION_ID = 0x4D48434A
"""Identifies the file in its header: "MHCJ"."""

KEPT_FAILURES = frozenset({FailureCode.REFUSAL, FailureCode.LENGTH})
"""Failures that are kept: the model refused, or used up its limit. They were paid for, and a retry would fail again."""

BUSY_TIMEOUT_S = 60.0
"""Timeout for another process that is writing."""

MAX_ROWS = 64
"""Rows per statement; their values stay below the 999 that old versions of SQLite accept."""

MAX_TOKENS = 2**63 - 1
"""Largest count that a column can hold; higher claims are capped."""

COLUMNS = {
    "digest": "BLOB PRIMARY KEY",
    "model": "TEXT NOT NULL",
    "text": "TEXT",
    "failure_code": "TEXT",
    "failure_message": "TEXT",
    "finish_reason": "TEXT NOT NULL",
    "input": "INTEGER NOT NULL",
    "cached_input": "INTEGER NOT NULL",
    "output": "INTEGER NOT NULL",
    "reasoning": "INTEGER NOT NULL",
    "latency_s": "REAL NOT NULL",
    "reported_model": "TEXT NOT NULL",
    "created": "REAL NOT NULL",
    "batched": "INTEGER NOT NULL DEFAULT 0",
    "fingerprint": "TEXT NOT NULL DEFAULT ''",
    "refused_parts": "TEXT NOT NULL DEFAULT ''",
    "cache_write": "INTEGER NOT NULL DEFAULT 0",
}
"""Name -> type. `text` is NULL for a kept failure; `created` is in seconds since 1970, UTC. New ones come last, with a
default."""

_READ = [name for name in COLUMNS if name not in ("digest", "model")]


def select(version: int = SCHEMA_VERSION) -> str:
    """SQL for the completion of a digest, from a file of this version; columns that came later read as NULL."""
    names = (name if ADDED.get(name, 1) <= version else f"NULL AS {name}" for name in _READ)
    return f"SELECT {', '.join(names)} FROM completions WHERE digest = ?"  # noqa: S608 - our own names


SELECT = select()

OWN = " AND model = ?"
"""Condition of `select` that the completion was bought under this name of the model."""

Row = tuple[Any, ...]
"""Values in the order of COLUMNS."""


class KnownCompletion(NamedTuple):
    """A completion in the cache."""

    digest: bytes
    """Its key."""
    completion: Completion
    """The completion."""


def find_completion(
    request: Request, digest: bytes, get: Callable[[bytes, str], Completion | None]
) -> KnownCompletion | None:
    """Return the completion that stands for a request; None if it must be sent.

    A model with a scope of its own also finds what was bought under its name before there were scopes.
    `digest`: that of the request; `get`: (digest, name of the model or "" for any) -> completion.
    """
    if (known := get(digest, "")) is not None:
        return KnownCompletion(digest, known)
    if request.model.scope and not request.fresh:
        content = request.content_digest
        if (known := get(content, request.model.name)) is not None:
            return KnownCompletion(content, known)
    return None


def worth_keeping(completion: Completion) -> bool:
    """Return True if to keep a completion: any text, even an empty one, or a failure that a retry would repeat."""
    return completion.failure is None or completion.failure.code in KEPT_FAILURES


class Cache:
    """Completions by request digest. Reads immediately; writes in groups, in its own thread."""

    def __init__(self, path: Path) -> None:
        """Open the file, or create it, with its folder.

        Raises: StoreError if it cannot be read and written, is something else, or is of another version.
        """
        self.path = path
        self._queue: SimpleQueue[tuple[Row, asyncio.Future[None]] | None] = SimpleQueue()
        self._writer: threading.Thread | None = None
        self._closed = False
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"{path.parent} cannot be used as a folder: {error.strerror}. Choose another store with --store."
            ) from error
        try:
            self._reader = _connect(path)
        except sqlite3.Error as error:
            raise _store_error(error, path) from error
        try:
            _prepare(self._reader, path)
        except sqlite3.Error as error:
            self._reader.close()
            raise _store_error(error, path) from error
        except StoreError:
            self._reader.close()
            raise

    def find(self, request: Request, digest: bytes | None = None) -> KnownCompletion | None:
        """Return the completion that stands for a request, if there is one. Takes microseconds.

        `digest`: that of the request, if it was computed before. Raises: StoreError if the file cannot be read.
        """
        return find_completion(request, digest or request.digest, self.get)

    def get(self, digest: bytes, model: str = "") -> Completion | None:
        """Return the completion with this key, if there is one.

        `model`: only if it was bought under this name. Raises: StoreError if the file cannot be read.
        """
        query, values = (SELECT + OWN, (digest, model)) if model else (SELECT, (digest,))
        try:
            row = self._reader.execute(query, values).fetchone()
        except sqlite3.Error as error:
            raise _store_error(error, self.path) from error
        return None if row is None else completion_of_row(row)

    async def put(self, digest: bytes, completion: Completion, *, model: str) -> None:
        """Store a completion; return once it is committed and survives a crash or power failure.

        Cancelling the wait does not undo it. If the digest exists, the older completion stays. `model`: name of the
        model, for users who inspect the file.
        Raises: StoreFullError or StoreError if it could not be written; earlier completions are kept.
        """
        if self._closed:
            raise StoreError(f"{self.path} is closed; the completion was not kept")
        if self._writer is None:
            self._writer = threading.Thread(target=self._write, name="medhelm-cache", daemon=True)
            self._writer.start()
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.put((_row(digest, completion, model), future))
        await future

    def close(self) -> None:
        """Write pending completions and close the file. May be called more than once."""
        if self._closed:
            return
        self._closed = True
        if self._writer is not None:
            self._queue.put(None)
            self._writer.join()
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # --- the writer's thread ------------------------------------------------------------------------------------------

    def _write(self) -> None:
        """Commit all pending completions together, until `close`: the longer a commit takes, the larger the next."""
        connection: sqlite3.Connection | None = None
        ending = False
        while not ending:
            group = self._next_group()
            ending = group[-1] is None
            entries = [entry for entry in group if entry is not None]
            failure = None
            try:
                if connection is None:
                    connection = _connect(self.path)
                if entries:
                    _insert(connection, [row for row, _ in entries])
            except sqlite3.Error as error:
                failure = _store_error(error, self.path)
            _settle([future for _, future in entries], failure)
        if connection is not None:
            connection.close()

    def _next_group(self) -> list[tuple[Row, asyncio.Future[None]] | None]:
        """Return all pending entries, at least one; None, if any, is the last."""
        group = [self._queue.get()]
        while group[-1] is not None:
            try:
                group.append(self._queue.get_nowait())
            except Empty:
                break
        return group


def _connect(path: Path) -> sqlite3.Connection:
    """Open a connection in autocommit mode."""
    connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA synchronous = FULL")  # commits survive a power failure
    except sqlite3.Error:  # this reads the file, which may not be a database
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Check the file's owner and version; create the table if it is new. Raises: StoreError, sqlite3.Error."""
    connection.execute("BEGIN IMMEDIATE")  # fails now if the file is read-only, not after the first purchase
    try:
        owner = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if not tables and not owner and not version:
            columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
            connection.execute(
                f"CREATE TABLE completions ({columns}, CHECK ((text IS NULL) <> (failure_code IS NULL)))"
            )
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        elif owner != APPLICATION_ID:
            raise StoreError(
                f"{path} is a database of another program (application id {owner:#x}, expected {APPLICATION_ID:#x}). "
                "Choose another store with --store. Nothing was changed."
            )
        elif 1 <= version < SCHEMA_VERSION:
            for name in (name for name, since in ADDED.items() if since > version):
                connection.execute(f"ALTER TABLE completions ADD COLUMN {name} {COLUMNS[name]}")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        elif version != SCHEMA_VERSION:
            raise StoreError(
                f"{path} has format version {version}, but this version of medhelm uses {SCHEMA_VERSION}. "
                f"Use the medhelm that wrote it{', which is newer' if version > SCHEMA_VERSION else ''}, "
                "or choose another store with --store. Nothing was changed."
            )
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    _use_write_ahead_log(connection, path)


def _use_write_ahead_log(connection: sqlite3.Connection, path: Path) -> None:
    """Switch to a write-ahead log, so that readers and a writer can work at the same time. Stored in the file."""
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        except sqlite3.OperationalError as error:
            # Two processes may do this to a new file at once, and SQLite then waits for neither.
            if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
            continue
        if mode != "wal":
            raise StoreError(
                f"{path} is on a file system without shared memory (journal mode {mode!r}); choose a store on a local "
                "disk with --store."
            )
        return


def _insert(connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
    """Commit all rows in one transaction, or none. Raises: sqlite3.Error."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        start = 0
        while start < len(rows):
            # One statement for many rows, since the thread waits for the interpreter between statements. Sizes are
            # powers of two, so that few statements are compiled.
            size = min(MAX_ROWS, 1 << ((len(rows) - start).bit_length() - 1))
            connection.execute(_statement(size), [value for row in rows[start : start + size] for value in row])
            start += size
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _statement(size: int) -> str:
    one = f"({', '.join('?' * len(COLUMNS))})"
    return f"INSERT INTO completions VALUES {', '.join([one] * size)} ON CONFLICT (digest) DO NOTHING"  # noqa: S608


def _settle(futures: Iterable[asyncio.Future[None]], failure: StoreError | None) -> None:
    """Resolve the futures; each event loop is woken once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for future in futures:
        by_loop.setdefault(future.get_loop(), []).append(future)
    for loop, waiting in by_loop.items():
        try:
            loop.call_soon_threadsafe(_wake, waiting, failure)
        except RuntimeError:
            continue  # the loop is closed


def _wake(waiting: Iterable[asyncio.Future[None]], failure: StoreError | None) -> None:
    for future in waiting:
        if future.done():
            continue
        if failure is None:
            future.set_result(None)
        else:
            future.set_exception(type(failure)(*failure.args))


def _row(digest: bytes, completion: Completion, model: str) -> Row:
    failure, usage = completion.failure, completion.usage
    return (
        digest,
        _storable(model),
        None if completion.text is None else _storable(completion.text),
        None if failure is None else _storable(failure.code),
        None if failure is None else _storable(failure.message),
        _storable(completion.finish_reason),
        *map(_countable, (usage.input, usage.cached_input, usage.output, usage.reasoning)),
        completion.latency_s,
        _storable(completion.reported_model),
        time.time() if completion.received is None else completion.received,
        int(completion.batched),
        _storable(completion.fingerprint),
        _storable(",".join(completion.refused_parameters)),
        _countable(usage.cache_write),
    )


def _countable(n: int) -> int:
    return min(max(0, n), MAX_TOKENS)


def _storable(text: str) -> str:
    """Replace lone surrogates, which cannot be written, by `?`: one bad value must not fail the whole group."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def completion_of_row(row: Row) -> Completion:
    """Convert a row of SELECT to a completion."""
    text, code, message, finish_reason, input_, cached, output, reasoning, latency_s, reported_model, *later = row
    created, batched, fingerprint, refused, cache_write = later
    return Completion(
        text=text,
        failure=None if code is None else Failure("provider", code, message),
        finish_reason=finish_reason,
        usage=Usage(
            input=input_, cached_input=cached, output=output, reasoning=reasoning, cache_write=cache_write or 0
        ),
        latency_s=latency_s,
        reported_model=reported_model,
        batched=bool(batched),
        fingerprint=fingerprint or "",
        refused_parameters=tuple(filter(None, (refused or "").split(","))),
        received=created,
    )


def _store_error(error: sqlite3.Error, path: Path) -> StoreError:
    """Convert an error of SQLite."""
    from medhelm.io.sqlite_errors import store_error  # lazy: only if something fails

    return store_error(error, path, BUSY_TIMEOUT_S)
