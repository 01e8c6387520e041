"""Execute queries of a model on a read-only database, within limits of time, memory and size.

Queries run in a few separate processes (`sandbox_worker.py`), which are started on first use and reused. A
worker that does not answer in time is killed. Nothing is started at import. Calls block: not for an event loop.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import sys
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING
from urllib.parse import quote

from medhelm.errors import DataError, NotComputed

if TYPE_CHECKING:
    from subprocess import Popen

Cell = None | int | float | str | bytes
"""One value of a result, as SQLite gives it."""

Row = tuple[Cell, ...]
"""One row of a result."""

_WORKERS = 4
_GRACE_S = 1.0  # beyond its time limit, before a worker that does not stop by itself is killed
_START_S = 60.0
_LONGEST = 100_000  # characters of a query
_HEADER = b"SQLite format 3\0"
_KEPT_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryLimits:
    """Limits of one query."""

    time_s: float = 60.0
    """Seconds of wall-clock time."""
    steps: int = 0
    """Instructions of SQLite's virtual machine, checked every 10,000; 0 for no limit."""
    rows: int = 100_000
    """Rows of the result."""
    size: int = 16 * 2**20
    """Bytes of the result, about."""
    memory: int = 512 * 2**20
    """Bytes of memory while it runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryResult:
    """Result of a query, or its error."""

    rows: tuple[Row, ...] = ()
    """Rows; empty if the query failed."""
    steps: int = 0
    """Instructions of SQLite's virtual machine, rounded down to 10,000; 0 if the query failed."""
    code: str = ""
    """Error code, or "" for a result: empty (no query), several_statements, not_select, write, denied (a function
    or table that no query needs), syntax (SQLite cannot execute it), timeout, steps, rows, size, memory, crash."""
    message: str = ""
    """Message of the error."""


DEFAULT_LIMITS = QueryLimits()
"""Limits that are ample for any sensible question about hospital data."""


def run_query(database: Path, sql: str, *, now: str = "", limits: QueryLimits = DEFAULT_LIMITS) -> QueryResult:
    """Execute one SELECT of unknown origin.

    Parameters: database, a SQLite file, which is only read; now, the moment (`YYYY-MM-DD HH:MM:SS`, UTC) that the query
    sees as the current time, empty for the real one. May be called from several threads at once.
    Returns: the rows, or the error code of the query; whatever a query does, it never causes an exception.
    Raises: DataError if the file is not a SQLite database; NotComputed if a process cannot be started.
    """
    _check(database)
    if len(sql) > _LONGEST:
        return QueryResult(code="size", message=f"it is longer than {_LONGEST:,} characters")
    address = f"file:{quote(os.fsencode(database.absolute()))}?mode=ro&immutable=1"
    request = {"database": address, "sql": sql, "now": now, **asdict(limits)}
    pool = _POOLS.setdefault(os.getpid(), _Pool())  # a process made by forking has workers of its own
    answer = pool.ask(json.dumps(request).encode("ascii") + b"\n", limits)
    if answer.get("code") == "database":
        raise DataError(f"{database}: SQLite cannot read it ({answer['message']}). Get or build it again.")
    if "rows" not in answer:
        return QueryResult(code=str(answer["code"]), message=str(answer["message"]))
    rows: list[list[Cell | dict[str, str]]] = answer["rows"]  # type: ignore[assignment]
    return QueryResult(rows=tuple(tuple(map(_decode_cell, row)) for row in rows), steps=int(str(answer["steps"])))


def stop_workers() -> None:
    """End the idle workers. They start again when needed. The end of the process ends them too."""
    pool = _POOLS.pop(os.getpid(), None)
    if pool:
        pool.close()


def _check(database: Path) -> None:
    """Check that a path is a SQLite database. Raises: DataError."""
    if not database.is_file():
        what = "is a folder" if database.is_dir() else "is not there"
        raise DataError(f"{database}: {what}. Name a SQLite file.")
    try:
        with database.open("rb") as file:
            header = file.read(len(_HEADER))
    except OSError as error:
        raise DataError(f"{database}: cannot be read ({error.strerror or error}). Name a SQLite file.") from None
    if header != _HEADER:
        start = f"its first bytes are {header[:16]!r}"
        raise DataError(f"{database}: is not a SQLite database; {start}. Name a SQLite file.")


def _decode_cell(cell: Cell | dict[str, str]) -> Cell:
    """Decode one value of the worker's output."""
    return bytes.fromhex(cell["hex"]) if isinstance(cell, dict) else cell


class _Timeout(Exception):  # noqa: N818 - names the event
    """A worker did not reply in time."""


class _Worker:
    """One process, from the parent's side. Not for two threads at once."""

    def __init__(self, memory: int) -> None:
        """`memory`: bytes that SQLite may take in it. Raises: NotComputed if it does not start."""
        self.memory = memory
        self._process = _start_process(memory)
        try:
            ready = self._line(_START_S)
        except _Timeout:
            ready = b""
        if not ready:
            code = self.stop()
            raise NotComputed(f"the process that executes SQL does not start (it ended with {code}).")

    @property
    def is_alive(self) -> bool:
        """Return True if the process runs."""
        return self._process.poll() is None

    def ask(self, request: bytes, timeout_s: float) -> bytes:
        """Send a request and return the reply; empty if the process has died. Raises: _Timeout."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(request)
            self._process.stdin.flush()
        except OSError:
            return b""
        return self._line(timeout_s)

    def stop(self) -> int:
        """Kill the process and return its exit status; negative: the number of the signal that ended it."""
        self._process.kill()
        status = self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            try:
                pipe.close()  # type: ignore[union-attr]  # both are pipes
            except OSError:
                continue  # half a request is still in it
        return status

    def _line(self, timeout_s: float) -> bytes:
        """Return the next line of its output; empty at the end. Raises: _Timeout."""
        assert self._process.stdout is not None
        output = self._process.stdout.fileno()
        poll = select.poll()
        poll.register(output, select.POLLIN)
        deadline = monotonic() + timeout_s
        parts = []
        while True:
            if not poll.poll(max(0.0, deadline - monotonic()) * 1000):
                raise _Timeout
            part = os.read(output, 2**16)
            if not part:
                return b""
            parts.append(part)
            if part.endswith(b"\n"):
                return b"".join(parts)


class _Pool:
    """A bounded number of workers. Idle ones are reused."""

    def __init__(self) -> None:
        self._turns = threading.Semaphore(min(_WORKERS, os.cpu_count() or 1))
        self._lock = threading.Lock()
        self._waiting: list[_Worker] = []

    def ask(self, request: bytes, limits: QueryLimits) -> Mapping[str, object]:
        """Return the reply to a request, or the way the worker ended.

        A worker that died is replaced once, because the system may have killed it for unrelated reasons.
        """
        with self._turns:
            for _ in range(2):
                worker = self._idle_or_new_worker(limits.memory)
                line, late = b"", False
                try:
                    line = worker.ask(request, limits.time_s + _GRACE_S)
                except _Timeout:
                    late = True
                finally:  # also when the user interrupts: a worker that did not answer is of no use to the next query
                    status = 0 if line else worker.stop()
                if line:
                    answer: dict[str, object] = json.loads(line)
                    self._give_back(worker, is_exhausted=answer.get("code") == "memory")
                    return answer
                if late or status == -signal.SIGXCPU:
                    return {"code": "timeout", "message": f"it takes longer than {limits.time_s:g} s"}
            return {"code": "crash", "message": "the process that executes it dies of it"}

    def close(self) -> None:
        """End the idle workers."""
        with self._lock:
            workers, self._waiting = self._waiting, []
        for worker in workers:
            worker.stop()

    def _idle_or_new_worker(self, memory: int) -> _Worker:
        """Return a worker with that much memory: an idle one, or a new one."""
        with self._lock:
            fitting = next((worker for worker in self._waiting if worker.memory == memory), None)
            if fitting:
                self._waiting.remove(fitting)
            surplus = [] if fitting else [w for w in self._waiting if w.memory != memory]
            self._waiting = [worker for worker in self._waiting if worker not in surplus]
        for worker in surplus:
            worker.stop()
        if fitting and fitting.is_alive:
            return fitting
        if fitting:
            fitting.stop()
        return _Worker(memory)

    def _give_back(self, worker: _Worker, *, is_exhausted: bool) -> None:
        """Let a worker wait for the next query; `is_exhausted`: its memory is exhausted, so it ends."""
        if is_exhausted:
            worker.stop()
            return
        with self._lock:
            self._waiting.append(worker)


_POOLS: dict[int, _Pool] = {}
"""Process id -> its workers."""


def _start_process(memory: int) -> Popen[bytes]:
    """Start an isolated process: without variables that could hold secrets, and without the user's input."""
    from subprocess import DEVNULL, PIPE, Popen

    atexit.unregister(stop_workers)
    atexit.register(stop_workers)
    script = Path(__file__).resolve().with_name("sandbox_worker.py")
    variables = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    try:
        return Popen(  # noqa: S603 - our own script
            [sys.executable, "-I", "-S", str(script), str(memory)],
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            cwd="/",
            env={**variables, "TZ": "UTC"},
            start_new_session=True,
        )
    except OSError as error:
        raise NotComputed(f"the process that executes SQL does not start ({error}).") from None
