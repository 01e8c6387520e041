"""The cache: request digest -> completion, in one SQLite file.

A completion counts as received only once it is committed. So nothing is bought twice, whatever ends the process, power
loss included. Prompts are not stored, only digests: prompts can be rebuilt from the data. Several processes may share
one file on a local disk (write-ahead log; it does not work across machines on a network file system, see
`storage.store_host`). Each row has a checksum, so that a damaged one never becomes another score.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from medhelm.domain import Completion, Failure, FailureCode, Request, Usage
from medhelm.domain.benchmark import group_by
from medhelm.errors import StoreError
from medhelm.io.files import key_of, prepare_database
from medhelm.models.provider import OptionalParameter, needs_room, separate_reasoning, with_room
from medhelm.storage.store import Store

if TYPE_CHECKING:
    from medhelm.io.files import CipherKey


SCHEMA_VERSION = 6
"""Version of the table below, stored in the file's `user_version`."""

ADDED = {
    "batched": 2, "fingerprint": 2, "refused_parts": 2, "cache_write": 3, "reasoning_text": 5, "token_logprobs": 6,
    "checksum": 4,
}  # fmt: skip
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
    "reasoning_text": "TEXT",
    "token_logprobs": "TEXT",
    "checksum": "INTEGER",
}
"""Name -> type. `text` is NULL for a kept failure; `created` is in seconds since 1970, UTC; `reasoning_text` is the
reasoning beside the text, and `token_logprobs` as in `domain.token_logprobs`, both NULL for none; `checksum` is NULL in
a row found damaged. New ones come before it, with a default."""

_READ = [name for name in COLUMNS if name != "digest"]

_NUMBERS = struct.Struct("<6q2d")
"""The numbers of a row, as they enter its checksum."""


def select(version: int = SCHEMA_VERSION) -> str:
    """SQL for the completion of a digest, from a file of this version; columns that came later read as NULL."""
    names = (name if ADDED.get(name, 1) <= version else f"NULL AS {name}" for name in _READ)
    return f"SELECT {', '.join(names)} FROM completions WHERE digest = ?"  # noqa: S608 - our own names


SELECT = select()

OWN = " AND model = ?"
"""Condition of `select` that the completion was bought under this name of the model."""

Row = tuple[Any, ...]
"""Values in the order of COLUMNS."""


def checksum(
    digest: bytes,
    model: str,
    text: str | None,
    code: str | None,
    message: str | None,
    finish_reason: str,
    *others: Any,
) -> int:
    """Return the checksum of the values of a row, in the order of COLUMNS.

    Raises: TypeError, ValueError or struct.error for values of other types.
    """
    input_, cached, output, reasoning, latency_s, reported_model, created, batched, fingerprint, *later = others
    refused, write, *texts = later
    words = f"{model}\0{text}\0{code}\0{message}\0{finish_reason}\0{reported_model}\0{fingerprint}\0{refused}"
    # Rows without these texts have the checksum that they had before there were such columns.
    words += "".join(f"\0{number or ''}{text}" for number, text in enumerate(texts) if text is not None)
    numbers = _NUMBERS.pack(input_, cached, output, reasoning, batched, write, latency_s, created)
    return zlib.crc32(words.encode(), zlib.crc32(numbers, zlib.crc32(digest)))


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
        self._key = key_of(path)
        self.recover: Callable[[bytes], tuple[str, Completion] | None] = _nowhere
        """Digest of a damaged row -> name of the model and completion, from elsewhere; None if it is lost."""
        self.damaged: set[bytes] = set()
        """Digests of damaged rows that were read."""
        self.n_recovered = 0
        """Number of these that came from elsewhere."""
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
            prepare_database(path)
        except OSError as error:
            raise StoreError(
                f"{path} cannot be opened for writing: {error.strerror or error}. Choose another store with --store."
            ) from error
        try:
            self._reader = _connect(path)
        except sqlite3.Error as error:
            raise _store_error(error, path) from error
        try:
            _prepare(self._reader, path)
            if self._key is None:
                refuse_sealed(self._reader, path)
        except sqlite3.Error as error:
            self._reader.close()
            raise _store_error(error, path) from error
        except StoreError:
            self._reader.close()
            raise

    @property
    def is_empty(self) -> bool:
        """Return True if it holds no completion. Raises: StoreError if the file cannot be read."""
        try:
            return self._reader.execute("SELECT 1 FROM completions LIMIT 1").fetchone() is None
        except sqlite3.Error as error:
            raise _store_error(error, self.path) from error

    def find(self, request: Request, digest: bytes | None = None) -> KnownCompletion | None:
        """Return the stored completion of a request, if there is one. Takes microseconds.

        `digest`: that of the request, if it was computed before. Raises: StoreError if the file cannot be read.
        """
        return find_completion(request, digest or request.digest, self.get)

    def get(self, digest: bytes, model: str = "") -> Completion | None:
        """Return the completion with this key, if there is one; a damaged one counts as missing if it is not recovered.

        `model`: only if it was bought under this name. Raises: StoreError if the file cannot be read.
        """
        query, values = (SELECT + OWN, (digest, model)) if model else (SELECT, (digest,))
        try:
            row = read_row(self._reader, query, *values)
            if row is None:
                return None
            completion = completion_of_row(digest, row, key=self._key)
            return self._recovered(digest, model) if completion is None else completion
        except sqlite3.Error as error:
            raise _store_error(error, self.path) from error

    def _recovered(self, digest: bytes, model: str) -> Completion | None:
        """Replace a damaged row by the completion from elsewhere; None if it must be bought again."""
        self.damaged.add(digest)
        self._reader.execute("UPDATE completions SET checksum = NULL WHERE digest = ?", (digest,))  # to be replaced
        found = self.recover(digest)
        if found is None or model not in ("", found[0]):
            return None
        _insert(self._reader, [self._row(digest, found[1], found[0])])
        self.n_recovered += 1
        return found[1]

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
        self._queue.put((self._row(digest, completion, model), future))
        await future

    def _row(self, digest: bytes, completion: Completion, model: str) -> Row:
        row = row_of(digest, completion, model)
        return sealed_row(row, self._key) if self._key else row

    def restore(self, rows: Iterable[Row]) -> int:
        """Add rows of `row_of`, all or none; return their number. The first of a digest counts. Raises: StoreError."""
        try:
            return restore(self._reader, (sealed_row(row, key) for row in rows) if (key := self._key) else rows)
        except sqlite3.Error as error:
            raise _store_error(error, self.path) from error

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
        first_query(connection, "PRAGMA synchronous = FULL")  # commits survive a power failure
    except sqlite3.Error:  # this reads the file, which may not be a database
        connection.close()
        raise
    return connection


def first_query(connection: sqlite3.Connection, query: str) -> None:
    """Run the first query on a file that reads the definitions of its tables. Raises: sqlite3.Error."""
    try:
        connection.execute(query)
    except UnicodeDecodeError as error:  # SQLite's own message quotes the damaged bytes
        raise sqlite3.DatabaseError("the definition of its table is damaged") from error


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Check the file's owner and version; create the table if it is new. Raises: StoreError, sqlite3.Error."""
    connection.execute("BEGIN IMMEDIATE")  # fails now if the file is read-only, not after the first purchase
    try:
        owner = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if not tables and not owner and not version:
            create_table(connection)
        elif owner != APPLICATION_ID:
            raise StoreError(
                f"{path} is a database of another program (application id {owner:#x}, expected {APPLICATION_ID:#x}). "
                "Choose another store with --store. Nothing was changed."
            )
        elif 1 <= version < SCHEMA_VERSION:
            for name in (name for name, since in ADDED.items() if since > version):
                connection.execute(f"ALTER TABLE completions ADD COLUMN {name} {COLUMNS[name]}")
            if version < ADDED["checksum"]:
                add_checksums(connection)
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


def add_columns(path: Path) -> None:
    """Add the columns that an older file lacks. Raises: StoreError."""
    try:
        with closing(_connect(path)) as connection:
            _prepare(connection, path)
    except sqlite3.Error as error:
        raise _store_error(error, path) from error


def create_table(connection: sqlite3.Connection) -> None:
    """Create the table of completions, and mark the file."""
    columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    connection.execute(f"CREATE TABLE completions ({columns}, CHECK ((text IS NULL) <> (failure_code IS NULL)))")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def add_checksums(connection: sqlite3.Connection) -> None:
    """Give all rows their checksums; those that cannot be read stay without one."""

    def checked(*values: Any) -> int | None:
        try:
            return checksum(values[0], *(value.decode() if isinstance(value, bytes) else value for value in values[1:]))
        except (TypeError, ValueError, struct.error):
            return None

    connection.create_function("row_checksum", len(COLUMNS) - 1, checked, deterministic=True)
    # As bytes: SQLite would refuse to hand over text that is not UTF-8.
    values = [f"CAST({name} AS BLOB)" if "TEXT" in kind else name for name, kind in COLUMNS.items()][:-1]
    connection.execute(f"UPDATE completions SET checksum = row_checksum({', '.join(values)})")  # noqa: S608 - our own names


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


def restore(connection: sqlite3.Connection, rows: Iterable[Row]) -> int:
    """Add rows in one transaction, without holding them all in memory; return their number. Raises: sqlite3.Error."""
    before = connection.total_changes
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.executemany(_statement(1), rows)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    return connection.total_changes - before


_REPLACED = ", ".join(f"{name} = excluded.{name}" for name in _READ)
"""All values of a row, which replace those of a damaged one."""


def _statement(size: int) -> str:
    one = f"({', '.join('?' * len(COLUMNS))})"
    rows = f"INSERT INTO completions ({', '.join(COLUMNS)}) VALUES {', '.join([one] * size)}"  # noqa: S608 - our own names
    return f"{rows} ON CONFLICT (digest) DO UPDATE SET {_REPLACED} WHERE completions.checksum IS NULL"


def _settle(futures: Iterable[asyncio.Future[None]], failure: StoreError | None) -> None:
    """Resolve the futures; each event loop is woken once."""
    by_loop = group_by(futures, lambda future: future.get_loop())
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


def row_of(digest: bytes, completion: Completion, model: str) -> Row:
    """Convert a completion to the values of COLUMNS."""
    failure, usage = completion.failure, completion.usage
    row: Row = (
        digest,
        _storable(model),
        None if completion.text is None else _storable(completion.text),
        None if failure is None else _storable(failure.code),
        None if failure is None else _storable(failure.message),
        _storable(completion.finish_reason),
        *map(_countable, (usage.input, usage.cached_input, usage.output, usage.reasoning)),
        completion.latency_s + 0.0,  # SQLite would turn -0.0 to 0.0
        _storable(completion.reported_model),
        time.time() if completion.received is None else completion.received,
        int(completion.batched),
        _storable(completion.fingerprint),
        _storable(",".join(completion.refused_parameters)),
        _countable(usage.cache_write),
        _storable(completion.reasoning) or None,
        _storable(completion.token_logprobs) or None,
    )
    return (*row, checksum(*row))


def _countable(n: int) -> int:
    return min(max(0, n), MAX_TOKENS)


def _storable(text: str) -> str:
    """Replace lone surrogates, which cannot be written, by `?`: one bad value must not fail the whole group."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def read_row(connection: sqlite3.Connection, query: str, *values: bytes | str) -> Row | None:
    """Return the first row of `select`; an empty one if its texts cannot be read. Raises: sqlite3.Error."""
    try:
        row: Row | None = connection.execute(query, values).fetchone()
    except sqlite3.OperationalError as error:
        if not str(error).startswith("Could not decode to UTF-8"):
            raise
        return ()
    return row


def completion_of_row(
    digest: bytes, row: Row, *, is_checked: bool = True, key: CipherKey | None = None
) -> Completion | None:
    """Convert a row of `select` to a completion; None if it is damaged.

    `is_checked`: False without checksums; `key`: that of an encrypted file.
    """
    try:
        if key:
            row = opened_row((digest, *row), key)[1:]
        if is_checked and checksum(digest, *row[:-1]) != row[-1]:
            return None
    except (TypeError, ValueError, struct.error):
        return None
    _, text, code, message, finish_reason, input_, cached, output, reasoning, latency_s, reported_model, *later = row
    created, batched, fingerprint, refused, cache_write, beside, token_logprobs, _ = later
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
        reasoning=beside or "",
        token_logprobs=token_logprobs or "",
    )


TEXTS = ("text", "failure_message", "reasoning_text", "token_logprobs")
REPORTED = ("finish_reason", "reported_model", "fingerprint")
"""Columns with text, and with what a server reports about itself; earlier versions did not encrypt the latter."""

SEALED = {list(COLUMNS).index(name): name.encode() for name in (*TEXTS, *REPORTED)}
"""Position -> name of the columns that are encrypted, each value on its own, as bytes. The others hold no text."""


def sealed_row(row: Row, key: CipherKey) -> Row:
    """Encrypt a row of `row_of`. The checksum leaves out the texts: it would tell which guess of a text is right."""
    sealed = list(row)
    for place, name in SEALED.items():
        if row[place] is not None:
            sealed[place] = key.encrypt(row[place].encode(), name + row[0])
    return (*sealed[:-1], _public_checksum(sealed))


def opened_row(row: Row, key: CipherKey) -> Row:
    """Decrypt a row. Raises: ValueError or TypeError if it is damaged, or not encrypted with this key."""
    if len(row) != len(COLUMNS) or _public_checksum(row) != row[-1]:
        raise ValueError("wrong checksum")
    opened = list(row[:-1])
    for place, name in SEALED.items():
        value = row[place]
        if isinstance(value, bytes):
            opened[place] = key.decrypt(value, name + row[0]).decode()
        elif value is not None and name.decode() in TEXTS:
            raise ValueError("not encrypted")
    return (*opened, checksum(*opened))


def refuse_sealed(connection: sqlite3.Connection, path: Path) -> None:
    """Raise StoreError for encrypted rows in a store that is not: they would count as damaged, and be bought again."""
    kinds = ", ".join(f"typeof({name})" for name in TEXTS)
    rows = connection.execute(f"SELECT {kinds} FROM completions LIMIT 16")  # noqa: S608 - our own names
    if any("blob" in row for row in rows):
        raise StoreError(
            f"{path} is encrypted, and the store.json beside it says that the store is not: it was replaced by an "
            "older copy, or changed. Restore the one that `medhelm encrypt` wrote. Nothing was changed."
        )


def _public_checksum(row: Sequence[Any]) -> int:
    """Return the checksum of a row without its encrypted values."""
    public: list[Any] = [None if i in SEALED and isinstance(value, bytes) else value for i, value in enumerate(row)]
    return checksum(*public[: len(COLUMNS) - 1])


def _nowhere(digest: bytes) -> None:
    """Recover nothing."""


def _store_error(error: sqlite3.Error, path: Path) -> StoreError:
    """Convert an error of SQLite."""
    from medhelm.io.files import store_error  # lazy: only if something fails

    return store_error(error, path, BUSY_TIMEOUT_S)


# --- lookup -----------------------------------------------------------------------------------------------------------
# Find the completion of a request in a cache, also if it was bought for an equivalent earlier request.


class KnownCompletion(NamedTuple):
    """A completion in the cache."""

    digest: bytes
    """Its key."""
    completion: Completion
    """The completion, without the reasoning in its text."""


Get = Callable[[bytes, str], Completion | None]
"""(digest, name of the model or "" for any) -> completion."""


def find_completion(request: Request, digest: bytes, get: Get) -> KnownCompletion | None:
    """Return the stored completion of a request; None if it must be sent.

    A completion with the limit of reasoning models is used if there is none with the request's own limit, or if that
    one was used up by reasoning. `digest`: that of the request.
    """
    known = _find(request, digest, get)
    roomy = with_room(request) if known is None or needs_room(known.completion, request) else None
    return known if roomy is None else _find(roomy, roomy.digest, get) or known


def _find(request: Request, digest: bytes, get: Get) -> KnownCompletion | None:
    """Return the completion of this very request, or of one that earlier versions sent in its place."""
    for key, model, is_without_temperature in _keys(request, digest):
        if (found := get(key, model)) is not None:
            if is_without_temperature:
                refused = sorted({*found.refused_parameters, OptionalParameter.TEMPERATURE})
                found = replace(found, refused_parameters=tuple(map(str, refused)))
            return KnownCompletion(key, separate_reasoning(found, request))
    return None


def _keys(request: Request, digest: bytes) -> Iterator[tuple[bytes, str, bool]]:
    """Yield digest, name of the model, and whether the completion was bought without a temperature.

    A model with a scope of its own also finds what was bought under its name before there were scopes, and a model that
    reasons what was bought before it was sent a temperature.
    """
    yield digest, "", False
    if request.fresh:
        return
    model, scope = request.model, request.model.scope
    if scope:
        yield request.content_digest, model.name, False
    if request.earlier_digest:
        content = request.earlier_digest
        yield (_scoped(content, scope) if scope else content), "", True
        if scope:
            yield content, model.name, True


def _scoped(content: bytes, scope: str) -> bytes:
    """Return the digest of a request under a scope (`Request.digest`)."""
    return hashlib.sha256(json.dumps([content.hex(), scope, ""]).encode()).digest()


# --- recovery ---------------------------------------------------------------------------------------------------------
# Restores a lost cache, or damaged rows of one, from the records of the store, so that nothing is bought twice.


class CacheRecovery:
    """Restores what is lost while a cache is in use."""

    def __init__(self, store: Store, cache: Cache, note: Callable[[str], object] | None) -> None:
        """Restore an empty cache at once, and damaged rows when they are read. `note` receives messages for the user.

        Raises: StoreError if the cache cannot be written; it then stays empty.
        """
        self._store, self._cache, self._note = store, cache, note or str
        cache.recover = self._find
        if cache.is_empty and (n_restored := cache.restore(bought_rows(store))):
            self._note(
                f"{cache.path} was missing or empty, although the store holds runs. {n_restored:,} completions were "
                "restored from their records and are not requested again. Others, such as those of interrupted runs, "
                "are lost."
            )

    def report(self) -> None:
        """Send a message about the damaged rows that were read, if any."""
        if n := len(self._cache.damaged):
            self._note(
                f"{self._cache.path}: {n:,} completion{'s are' if n > 1 else ' is'} damaged (wrong checksum). "
                f"{self._cache.n_recovered:,} restored from the records of runs; the others count as missing and are "
                "requested again. Check the disk."
            )

    def _find(self, digest: bytes) -> tuple[str, Completion] | None:
        from medhelm.storage.completions_in_records import find_bought  # lazy: rows are seldom damaged

        found = find_bought(self._store, digest)
        return (found.model, _as_bought(found.completion)) if found and worth_keeping(found.completion) else None


def bought_rows(store: Store) -> Iterator[Row]:
    """Yield the rows of the cache that follow from the records of the store."""
    from medhelm.storage.completions_in_records import bought_completions  # lazy: only for an empty cache

    for digest, model, completion in bought_completions(store):
        if worth_keeping(completion):
            yield row_of(digest, _as_bought(completion), model)


def _as_bought(completion: Completion) -> Completion:
    """Return a completion as a service gave it: records name the judge as the place of its failure."""
    failure = completion.failure
    return replace(completion, failure=replace(failure, boundary="provider")) if failure else completion
