"""The ledger of a store: one sum for all its commands, in STORE/budget.sqlite, from the moment a limit is set.

Money is in billionths of a US dollar. Before a request is sent, the most it can cost is committed as a reservation;
afterwards its real cost replaces it. Both happen in groups, so that a disk commit serves many requests.

If a process ends without settling, a request whose completion is in the cache costs what that completion cost. Any
other request may have been billed, so it stays counted as `lost`, with the most it can have cost, until the user
releases it (`medhelm budget release`). A request in a batch stays reserved until the batch is collected.
"""

from __future__ import annotations

import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from medhelm.errors import StoreError
from medhelm.io.files import NumberLocks, prepare_database, store_error

APPLICATION_ID = 0x4D48424C
"""Identifies the file in its header: "MHBL"."""

SCHEMA_VERSION = 1
"""Version of the tables, in the file's `user_version`."""

BUSY_TIMEOUT_S = 60.0
"""Seconds to wait for another process that is writing."""

TABLES = """
CREATE TABLE budget (id INTEGER PRIMARY KEY CHECK (id = 1), limit_nano INTEGER, before_nano INTEGER NOT NULL);
CREATE TABLE commands (owner INTEGER PRIMARY KEY, pid INTEGER NOT NULL, started REAL NOT NULL, command TEXT NOT NULL);
CREATE TABLE spending (
    owner INTEGER, model TEXT, requests INTEGER NOT NULL, nano INTEGER NOT NULL, PRIMARY KEY (owner, model)
) WITHOUT ROWID;
CREATE TABLE reservations (
    owner INTEGER, number INTEGER, digest BLOB NOT NULL, model TEXT NOT NULL, nano INTEGER NOT NULL,
    price TEXT NOT NULL, lost INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (owner, number)
) WITHOUT ROWID;
CREATE INDEX reservations_by_digest ON reservations (digest);
"""
"""`price` is the JSON of the model's price, by which a completion in the cache is charged."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """The most that one request can cost."""

    number: int
    """Number within the process."""
    digest: bytes
    """Key of the completion in the cache."""
    model: str
    """Name of the model."""
    nano: int
    """Billionths of a US dollar."""
    price: str
    """JSON of the model's price."""


@dataclass(frozen=True, slots=True)
class Settlement:
    """The real cost of one request, in place of its reservation; number 0: nothing was reserved."""

    number: int
    model: str
    nano: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """The sums of a ledger, in billionths of a US dollar."""

    limit: int | None
    """The limit; None: nothing is limited, but everything is counted."""
    spent_before: int
    """Spent before the ledger began."""
    spent: int
    """Spent since."""
    reserved: int
    """Reserved for requests in flight or in batches."""
    lost: int
    """Reserved by processes that ended before they knew the cost."""
    by_model: tuple[tuple[str, int, int], ...]
    """Model, requests and cost, the most expensive first."""
    by_command: tuple[tuple[str, int, float, int], ...]
    """Command, process id, start in seconds since 1970, and cost, the most expensive first."""

    @property
    def held(self) -> int:
        """Everything that counts against the limit."""
        return self.spent_before + self.spent + self.reserved + self.lost


class Ledger:
    """One process's access to the ledger. Methods can be called in any thread, and block during a disk commit."""

    def __init__(self, path: Path, *, create: bool = False) -> None:
        """Open the file; `create`: make it if it does not exist.

        Raises: StoreError.
        """
        self.path = path
        self._lock = threading.Lock()
        self._numbers = NumberLocks(path.parent / "locks" / "budget.lock")
        self.owner = secrets.randbelow(2**60) + 1
        self._numbers.take(self.owner)
        address = f"{path.resolve().as_uri()}?mode={'rwc' if create else 'rw'}"
        try:
            prepare_database(path, create=create)
        except OSError as error:
            raise StoreError(
                f"{path} cannot be opened for writing: {error.strerror or error}. Nothing was sent."
            ) from error
        with self._errors():
            self._db = sqlite3.connect(
                address, uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
            )
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
        with self._transaction():
            owner = self._db.execute("PRAGMA application_id").fetchone()[0]
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            if create and not owner and not version:
                for statement in TABLES.split(";"):
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                self._db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            elif (owner, version) != (APPLICATION_ID, SCHEMA_VERSION):
                raise StoreError(
                    f"{path} is not a budget of this version of medhelm. Choose another store with --store. "
                    "Nothing was changed."
                )

    def close(self) -> None:
        """Close the file. Unsettled reservations then count as those of a process that has ended."""
        self._db.close()
        self._numbers.close()

    def register(self, pid: int, started: float, command: str) -> None:
        """Name the command that spends."""
        with self._transaction():
            self._db.execute("INSERT OR REPLACE INTO commands VALUES (?, ?, ?, ?)", (self.owner, pid, started, command))

    def set_limit(self, limit: int | None, spent_before: int = 0) -> None:
        """Set or remove the limit. `spent_before`: spent so far; it counts when the limit is set for the first time."""
        with self._transaction():
            self._db.execute(
                "INSERT INTO budget VALUES (1, ?, ?) ON CONFLICT (id) DO UPDATE SET limit_nano = excluded.limit_nano",
                (limit, spent_before),
            )

    def release(self) -> int:
        """Stop counting the lost reservations of processes that have ended, and return their sum."""
        with self._transaction():
            lost = self._sum("SELECT sum(nano) FROM reservations WHERE lost = 1")
            self._db.execute("DELETE FROM reservations WHERE lost = 1")
        return lost

    def exchange(self, settled: Sequence[Settlement], wanted: Sequence[Reservation]) -> tuple[int, bool]:
        """Settle costs, and make the reservations that fit, in order, in one commit.

        Returns the number of reservations made, and True if requests in flight in running processes may leave enough
        for the next one.
        """
        with self._transaction():
            self._settle(settled)
            limit = self._limit()
            held = self._held()
            granted = 0
            for one in wanted:
                if limit is not None and held + one.nano > limit:
                    break
                # A reservation of another process for the same request, which it no longer has in flight, is lost. One
                # of a batch is dropped: the batch returned no completion.
                self._db.execute("DELETE FROM reservations WHERE digest = ? AND owner = 0", (one.digest,))
                self._db.execute(
                    "UPDATE reservations SET lost = 1 WHERE digest = ? AND owner <> ?", (one.digest, self.owner)
                )
                self._db.execute(
                    "INSERT INTO reservations VALUES (?, ?, ?, ?, ?, ?, 0)",
                    (self.owner, one.number, one.digest, one.model, one.nano, one.price),
                )
                held += one.nano
                granted += 1
            owners = self._owners() if granted < len(wanted) else []
        return granted, any(owner == self.owner or not self._has_ended(owner) for owner in owners)

    def reserve_batch(self, wanted: Sequence[Reservation]) -> bool:
        """Reserve for requests in batches, all or none, except those already reserved; return True if all were."""
        with self._transaction():
            known = {row[0] for row in self._db.execute("SELECT digest FROM reservations WHERE owner = 0")}
            new = [one for one in wanted if one.digest not in known]
            limit = self._limit()
            if limit is not None and self._held() + sum(one.nano for one in new) > limit:
                return False
            first = self._sum("SELECT max(number) FROM reservations WHERE owner = 0") + 1
            self._db.executemany(
                "INSERT INTO reservations VALUES (0, ?, ?, ?, ?, ?, 0)",
                [(first + n, one.digest, one.model, one.nano, one.price) for n, one in enumerate(new)],
            )
        return True

    def settle_ended(self, cost: Callable[[bytes, str, int], int | None]) -> None:
        """Settle the requests of processes that have ended, and of batches, whose completions are in the cache.

        `cost`: digest, price and reserved sum -> real cost; None if the cache has no completion.
        """
        with self._transaction():
            ended = [0, *(owner for owner in self._owners() if owner != self.owner and self._has_ended(owner))]
            for owner in ended:
                rows = self._db.execute(
                    "SELECT number, digest, model, nano, price FROM reservations WHERE owner = ? AND lost = 0", (owner,)
                ).fetchall()
                for number, digest, model, most, price in rows:
                    nano = cost(digest, price, most)
                    if nano is not None:
                        self._settle([Settlement(number, model, nano)], owner)
                    elif owner:
                        self._db.execute(
                            "UPDATE reservations SET lost = 1 WHERE owner = ? AND number = ?", (owner, number)
                        )

    def settle(self, settled: Sequence[Settlement]) -> None:
        """Settle costs."""
        with self._transaction():
            self._settle(settled)

    def balance(self) -> Balance:
        """Return all sums."""
        with self._transaction():
            limit, spent_before = self._db.execute("SELECT limit_nano, before_nano FROM budget").fetchone() or (None, 0)
            return Balance(
                limit=limit,
                spent_before=spent_before,
                spent=self._sum("SELECT sum(nano) FROM spending"),
                reserved=self._sum("SELECT sum(nano) FROM reservations WHERE lost = 0"),
                lost=self._sum("SELECT sum(nano) FROM reservations WHERE lost = 1"),
                by_model=tuple(
                    self._db.execute(
                        "SELECT model, sum(requests), sum(nano) FROM spending GROUP BY model ORDER BY 3 DESC, 1"
                    )
                ),
                by_command=tuple(
                    self._db.execute(
                        "SELECT command, pid, started, sum(nano) FROM commands JOIN spending USING (owner) "
                        "GROUP BY owner ORDER BY 4 DESC, 3"
                    )
                ),
            )

    # --- within a transaction -----------------------------------------------------------------------------------------

    def _limit(self) -> int | None:
        row = self._db.execute("SELECT limit_nano FROM budget").fetchone()
        return None if row is None else row[0]

    def _held(self) -> int:
        return sum(
            self._sum(f"SELECT sum({column}) FROM {table}")  # noqa: S608 - our own names
            for column, table in (("before_nano", "budget"), ("nano", "spending"), ("nano", "reservations"))
        )

    def _has_ended(self, owner: int) -> bool:
        """Return True if another process has ended."""
        if not self._numbers.take(owner):
            return False
        self._numbers.release(owner)
        return True

    def _owners(self) -> list[int]:
        """Return the processes with unsettled reservations."""
        return [
            row[0] for row in self._db.execute("SELECT DISTINCT owner FROM reservations WHERE lost = 0 AND owner <> 0")
        ]

    def _settle(self, settled: Sequence[Settlement], owner: int | None = None) -> None:
        owner = self.owner if owner is None else owner
        self._db.executemany(
            "DELETE FROM reservations WHERE owner = ? AND number = ?", [(owner, one.number) for one in settled]
        )
        self._db.executemany(
            "INSERT INTO spending VALUES (?, ?, 1, ?) ON CONFLICT (owner, model) DO UPDATE SET "
            "requests = requests + 1, nano = nano + excluded.nano",
            [(owner, one.model, one.nano) for one in settled if one.nano],
        )

    def _sum(self, query: str) -> int:
        return int(self._db.execute(query).fetchone()[0] or 0)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock, self._errors():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            finally:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise store_error(error, self.path, BUSY_TIMEOUT_S) from error
