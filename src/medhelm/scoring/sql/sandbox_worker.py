"""Executes untrusted queries, one after another, in a process that does nothing else.

`medhelm.scoring.sql.sandbox` starts this file by its path in an isolated interpreter; it imports nothing of the
package. It reads one JSON object per line and answers each with one. What a query may do is limited in four ways:

    the file      opened read-only and as immutable, so that SQLite neither writes nor locks it
    the query     one SELECT; an authorizer allows only reading, and no functions with effects or random results
    SQLite        limits on lengths, depths, memory and steps, no attached files, nothing spilled to disk, a time limit
    the process   limits on memory, processor time, open files, written bytes and processes

It ends when its input ends, so also when its parent is killed.
"""

from __future__ import annotations

import json
import os
import re
import resource
import sqlite3
import sys
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any

_OVERHEAD = 256 * 2**20  # bytes the process may take beyond SQLite's own, for results under way
_BETWEEN_CHECKS = 10_000  # instructions of SQLite's machine: well below a millisecond
_OPEN_FILES = 16

_BEFORE_VERB = re.compile(r"(?:\s|--[^\n]*(?:\n|\Z)|/\*.*?(?:\*/|\Z))*", re.DOTALL)
_VERB = re.compile(r"[a-z]*", re.IGNORECASE)
_READS = {"select", "with"}
_WRITES = {"insert", "update", "delete", "replace", "create", "drop", "alter", "vacuum", "reindex", "analyze"}
_OTHER = {
    "attach",
    "detach",
    "pragma",
    "explain",
    "values",
    "begin",
    "commit",
    "end",
    "rollback",
    "savepoint",
    "release",
}

_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE, sqlite3.SQLITE_FUNCTION}
_WRITING = {
    value
    for name, value in vars(sqlite3).items()
    if name.startswith(("SQLITE_CREATE_", "SQLITE_DROP_"))
    or name in ("SQLITE_INSERT", "SQLITE_UPDATE", "SQLITE_DELETE", "SQLITE_ALTER_TABLE", "SQLITE_REINDEX")
}
_FORBIDDEN = {"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer", "random", "randomblob", "sqlite_log"}

_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 1_000_000,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 100_000,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 1000,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 100,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 250_000,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 100,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1000,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER: 0,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_CODES = {
    7: ("memory", "it needs more memory than is allowed"),
    9: ("timeout", "it takes longer than is allowed"),
    18: ("size", "it is, or makes, a text or list longer than is allowed"),
    11: ("database", ""),
    26: ("database", ""),
    **dict.fromkeys((10, 13, 14), ("memory", "it needs more room for intermediate results than is allowed")),
}
"""Primary result codes of SQLite that the query's wording does not cause."""

_ASKS_CLOCK = re.compile(r"\bnow\b|\bcurrent_|\(\s*\)|\bstrftime\s*\(\s*'[^']*'\s*\)", re.IGNORECASE)
_CLOCK_READERS = {**dict.fromkeys(("date", "time", "datetime", "julianday", "unixepoch"), 0), "strftime": 1}
"""Functions that know the present -> which argument names the moment."""


class QueryRefused(Exception):  # noqa: N818 - what happened
    """A query was refused or stopped. The arguments are an error code and a message."""


def serve(memory: int) -> None:
    """Answer queries until the input ends. `memory`: bytes that SQLite may take."""
    parent = os.getppid()
    _limit_resources(memory)
    _write_line({})
    for line in sys.stdin.buffer:
        query = json.loads(line)
        _allow_processor_time(query["time_s"])
        try:
            rows, steps = _execute(query, parent)
            _write_line({"steps": steps, "rows": rows})
        except QueryRefused as refusal:
            _write_line({"code": refusal.args[0], "message": refusal.args[1]})


def _write_line(answer: Mapping[str, object]) -> None:
    """Write one line to the parent. Rows are JSON already."""
    rows = answer.get("rows")
    if isinstance(rows, list):
        text = f'{{"steps": {answer["steps"]}, "rows": [{", ".join(rows)}]}}'
    else:
        text = json.dumps(answer)
    sys.stdout.buffer.write(text.encode("ascii") + b"\n")
    sys.stdout.buffer.flush()


def _limit_resources(memory: int) -> None:
    """Limit the resources of this process. Limits that the platform does not have are skipped."""
    with sqlite3.connect(":memory:") as limited:
        limited.execute(f"pragma hard_heap_limit={memory}")
    limited.close()
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_NOFILE: _OPEN_FILES,
        resource.RLIMIT_NPROC: 0,
    }
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 (pathlib is not needed for anything else here)
            limits[resource.RLIMIT_AS] = int(file.read().split()[0]) * resource.getpagesize() + memory + _OVERHEAD
    except OSError:
        pass  # a system whose limit on memory would not hold either
    for kind, most in limits.items():
        try:
            resource.setrlimit(kind, (most, most))
        except (OSError, ValueError):
            continue


def _allow_processor_time(time_s: float) -> None:
    """Make the system end this process if the next query needs much more CPU time than its time limit."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(used.ru_utime + used.ru_stime + time_s) + 3
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def _execute(query: Mapping[str, Any], parent: int) -> tuple[list[str], int]:
    """Return the rows of a query, each as JSON, and its steps. Raises: QueryRefused with the reason."""
    sql = query["sql"].rstrip().rstrip("; \t\r\n")
    _check_verb(sql)
    deadline: float = monotonic() + query["time_s"]
    denied: list[str] = []
    steps, most_steps = 0, query["steps"] or sys.maxsize

    def is_over() -> bool:
        nonlocal steps
        steps += _BETWEEN_CHECKS
        if os.getppid() != parent:
            os._exit(1)
        return steps > most_steps or monotonic() > deadline

    try:
        connection = sqlite3.connect(query["database"], uri=True, isolation_level=None, cached_statements=0)
        try:
            _open(connection)
            if query["now"] and _ASKS_CLOCK.search(sql):
                _stop_clock(connection, query["now"])
            connection.set_progress_handler(is_over, _BETWEEN_CHECKS)
            connection.set_authorizer(_authorizer(denied))
            return _fetch(connection.execute(sql), query["rows"], query["size"]), steps
        finally:
            connection.close()
    except MemoryError:
        raise QueryRefused(*_CODES[7]) from None
    except (sqlite3.Error, sqlite3.Warning, UnicodeError, ValueError) as error:
        if steps > most_steps:
            raise QueryRefused("steps", f"it takes more than {most_steps:,} steps of SQLite") from None
        raise _refusal(error, denied) from None


def _check_verb(sql: str) -> None:
    """Check that a text begins like a query. Raises: QueryRefused."""
    start = _BEFORE_VERB.match(sql).end()  # type: ignore[union-attr]  # it matches nothing at least
    verb = _VERB.match(sql, start)[0].lower()  # type: ignore[index]
    if verb in _READS:
        return
    if start == len(sql):
        raise QueryRefused("empty", "the query is empty")
    if verb in _WRITES:
        raise QueryRefused("write", f"{verb.upper()} would change the database")
    if verb in _OTHER:
        raise QueryRefused("not_select", f"{verb.upper()} is not a query")
    raise QueryRefused("syntax", "it does not begin as a query does, with SELECT or WITH")


def _open(connection: sqlite3.Connection) -> None:
    """Make a new connection safe. Raises: QueryRefused if the file is not a readable database."""
    for limit, most in _LIMITS.items():
        connection.setlimit(limit, most)
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    try:
        for pragma in ("query_only=on", "trusted_schema=off", "temp_store=memory", "cache_size=-32000"):
            connection.execute(f"pragma {pragma}")
        connection.execute("select count(*) from sqlite_master").fetchone()
    except sqlite3.DatabaseError as error:
        raise QueryRefused("database", str(error)) from None


def _authorizer(denied: list[str]) -> Callable[..., int]:
    """Return an authorizer for the actions of a statement. It appends each denied action to `denied`.

    Tables that are functions (`pragma_table_info`, `json_each`) announce themselves as changes of `sqlite_master`.
    """

    def allows(action: int, first: str | None, second: str | None, *_: str | None) -> int:
        if action in _ALLOWED and not (action == sqlite3.SQLITE_FUNCTION and str(second).lower() in _FORBIDDEN):
            return sqlite3.SQLITE_OK
        denied.append("write" if action in _WRITING and first != "sqlite_master" else "denied")
        return sqlite3.SQLITE_DENY

    return allows


def _stop_clock(connection: sqlite3.Connection, now: str) -> None:
    """Make every function of date and time use `now` as the current time."""
    real = sqlite3.connect(":memory:")

    def with_fixed_clock(name: str, moment: int) -> Callable[..., Any]:
        def function(*arguments: Any) -> Any:
            values = list(arguments)
            if len(values) == moment:
                values.append(now)
            elif len(values) > moment and str(values[moment]).strip().lower() == "now":
                values[moment] = now
            marks = ", ".join("?" * len(values))
            return real.execute(f"select {name}({marks})", values).fetchone()[0]

        return function

    for name, moment in _CLOCK_READERS.items():
        connection.create_function(name, -1, with_fixed_clock(name, moment), deterministic=True)
    for name, call in (("timestamp", "select datetime(?)"), ("date", "select date(?)"), ("time", "select time(?)")):
        present = real.execute(call, (now,)).fetchone()[0]
        connection.create_function(f"current_{name}", 0, lambda present=present: present, deterministic=True)


def _fetch(cursor: sqlite3.Cursor, most_rows: int, most_bytes: int) -> list[str]:
    """Return all rows as JSON. Raises: QueryRefused if they are too many or too large."""
    rows: list[str] = []
    size = 0
    for row in cursor:
        rows.append(_as_json(row))
        size += len(rows[-1])
        if len(rows) > most_rows:
            raise QueryRefused("rows", f"its result has more than {most_rows:,} rows")
        if size > most_bytes:
            raise QueryRefused("size", f"its result is larger than {most_bytes:,} bytes")
    return rows


def _as_json(row: Sequence[Any]) -> str:
    """Return a row as a JSON list; binary values as an object with their hexadecimal digits."""
    return json.dumps([{"hex": value.hex()} if isinstance(value, bytes) else value for value in row])


def _refusal(error: Exception, denied: Sequence[str]) -> QueryRefused:
    """Return the refusal that matches an error of SQLite or its Python interface."""
    words = str(error)
    if denied:
        return QueryRefused("write" if "write" in denied else "denied", f"it does what a query must not do ({words})")
    if "one statement at a time" in words:
        return QueryRefused("several_statements", "there is more than one statement")
    if "too large" in words:
        return QueryRefused(*_CODES[18])
    code, message = _CODES.get(getattr(error, "sqlite_errorcode", 1) & 0xFF, ("syntax", words))
    return QueryRefused(code, message or words)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
