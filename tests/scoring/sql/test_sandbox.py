"""Untrusted queries: what they may do, what they may take, and that nothing is left of them."""

from __future__ import annotations

import hashlib
import os
import select
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medhelm.errors import DataError, NotComputed
from medhelm.scoring.sql import sandbox
from medhelm.scoring.sql.sandbox import QueryLimits, QueryResult, Row, run_query, stop_workers

NOW = "2105-12-31 23:59:00"
LIMITS = QueryLimits(rows=100, size=100_000, memory=16 * 2**20)
SHORT = replace(LIMITS, time_s=0.2)

COUNTING = "with recursive c(x) as (select 1 union all select x + 1 from c{}) select {} from c"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A database with one table, of 300 rows. Whatever the tests do, it is the same at the end, and alone."""
    path = tmp_path_factory.mktemp("a place") / "Stay?mode=rwc&é #%20.sqlite"
    with closing(sqlite3.connect(path)) as made:
        made.execute("create table stay (id int, ward varchar(10), los numeric)")
        made.executemany("insert into stay values (?, ?, ?)", [(i, f"w{i % 7}", i / 4) for i in range(300)])
        made.commit()
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    yield path
    stop_workers()
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    assert list(path.parent.iterdir()) == [path]


def code_of(database: Path, sql: str, limits: QueryLimits = LIMITS) -> str:
    """How a query ends; after it the next one works."""
    outcome = run_query(database, sql, limits=limits, now=NOW)
    assert bool(outcome.code) == bool(outcome.message)
    assert not (outcome.code and outcome.rows)
    assert run_query(database, "select max(id) from stay", limits=LIMITS) == QueryResult(rows=((299,),))
    return outcome.code


def test_steps_are_counted_and_limited(database: Path) -> None:
    sql = COUNTING.format(" limit 50000", "count(*)")
    found = run_query(database, sql, limits=LIMITS)
    assert found.steps > 100_000
    assert run_query(database, sql, limits=LIMITS).steps == found.steps
    assert run_query(database, sql, limits=replace(LIMITS, steps=found.steps)).rows == found.rows
    assert run_query(database, sql, limits=replace(LIMITS, steps=50_000)).code == "steps"
    assert run_query(database, "select 1", limits=replace(LIMITS, steps=50_000)).rows == ((1,),)


# --- what queries give ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("select id, ward, los from stay where id < 2", [(0, "w0", 0), (1, "w1", 0.25)]),
        ("-- a comment; with a semicolon\nselect /* another; */ 1 -- the last", [(1,)]),
        ("with w as (select distinct ward from stay) select count(*) from w", [(7,)]),
        ("select x'00ff', 1.5, null, -9223372036854775808, 1e999", [(b"\x00\xff", 1.5, None, -(2**63), float("inf"))]),
        ("select 'é東\U0001f600', 'a''b', char(10)", [("é東\U0001f600", "a'b", "\n")]),
        ("select cast(x'ff61' as text)", [("\ufffda",)]),
        (COUNTING.format(" limit 50", "sum(x)"), [(1275,)]),
    ],
)
def test_a_query_gives_its_rows(database: Path, sql: str, rows: list[Row]) -> None:
    assert run_query(database, sql, limits=LIMITS) == QueryResult(rows=tuple(rows))


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("select current_time", "23:59:00"),
        ("select current_timestamp", NOW),
        ("select datetime()", NOW),
        ("select round(strftime('%J', 'now') - julianday(), 6)", 0.0),
        ("select datetime('2105-01-01', '+1 day') || date('now')", "2105-01-02 00:00:002105-12-31"),
        ("select strftime('%Y', null) || date('now')", None),
    ],
)
def test_the_clock_is_fixed_at_the_given_time(database: Path, sql: str, value: object) -> None:
    (row,) = run_query(database, sql, now=NOW, limits=LIMITS).rows
    assert row == (value,)


# --- what queries must not do -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("delete from stay", "write"),
        ("create table t (a)", "write"),
        ("vacuum into 'FOLDER/copy.sqlite'", "write"),
        ("attach 'FOLDER/other.sqlite' as other", "not_select"),
        ("pragma query_only = off", "not_select"),
        ("select load_extension('FOLDER/evil.so')", "denied"),
        ("select fts3_tokenizer('simple')", "denied"),
        ("select random()", "denied"),
        ("", "empty"),
        ("-- only a comment", "empty"),
        ("/* never closed", "empty"),
        ("select readfile('/etc/passwd')", "syntax"),
        ("select writefile('FOLDER/file', 'x')", "syntax"),
        ("select 'a\0b'", "syntax"),
        ("select '\ud800'", "syntax"),
        ("select " + "(" * 3000 + "1" + ")" * 3000, "syntax"),
    ],
)
def test_anything_but_one_query_is_refused(database: Path, sql: str, code: str) -> None:
    assert code_of(database, sql.replace("FOLDER", str(database.parent))) == code


# --- what queries may take --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        (COUNTING.format("", "count(*)"), "timeout"),
        (COUNTING.format("", "x"), "rows"),
        ("select zeroblob(2000000000)", "size"),
        ("select replace(hex(zeroblob(400000)), '0', hex(zeroblob(400000)))", "size"),
        ("select " + "+".join("1" * 3000), "size"),
        ("select hex(zeroblob(1000)) like '" + "%0" * 2000 + "'", "syntax"),
        ("select " + " union all select ".join("1" * 200), "syntax"),
    ],
)
def test_a_query_over_a_limit_is_stopped(database: Path, sql: str, code: str) -> None:
    assert code_of(database, sql, SHORT if code == "timeout" else LIMITS) == code


@pytest.mark.parametrize(
    "sql",
    [
        COUNTING.format(" limit 9000000", "x, hex(zeroblob(2000)) as h") + " order by h, x desc",
        "with recursive c(x) as (select 1 union select x + 1 from c) select x from c where x < 0",
    ],
)
def test_a_query_that_needs_too_much_memory_is_stopped(database: Path, sql: str) -> None:
    assert code_of(database, sql) == "memory"


def test_the_longest_text_is_an_answer_and_a_longer_one_is_none(database: Path) -> None:
    assert run_query(database, "select length(hex(zeroblob(499999)))", limits=LIMITS).rows == ((999_998,),)
    assert code_of(database, "select length(hex(zeroblob(499999)) || 'xyz')") == "size"


@settings(max_examples=20)
@given(st.one_of(st.text(max_size=60), st.text(max_size=40).map(lambda text: f"select {text}")))
def test_any_text_ends_in_rows_or_in_a_reason(database: Path, sql: str) -> None:
    outcome = run_query(database, sql, limits=LIMITS)
    assert bool(outcome.code) == bool(outcome.message)
    assert not (outcome.code and outcome.rows)


# --- databases --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "missing.sqlite: is not there"),
        (b"id,ward\n1,w1\n", "is not a SQLite database; its first bytes are b'id,ward"),
        (b"SQLite format 3\0" + b"\xff" * 2000, "SQLite cannot read it"),
    ],
)
def test_a_file_that_is_not_a_database_is_a_data_error(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "missing.sqlite"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError) as raised:
        run_query(path, "select 1", limits=LIMITS)
    assert message in str(raised.value)
    assert not isinstance(raised.value, NotComputed)


def test_a_database_with_a_log_is_read_without_touching_it(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    with closing(sqlite3.connect(path)) as made:
        made.execute("pragma journal_mode = wal")
        made.execute("create table t as select 7 as a")
        made.commit()
    assert run_query(path, "select a from t", limits=LIMITS).rows == ((7,),)
    assert list(tmp_path.iterdir()) == [path]


# --- workers ----------------------------------------------------------------------------------------------------------


def waiting() -> list[sandbox._Worker]:
    return list(sandbox._POOLS[os.getpid()]._waiting) if os.getpid() in sandbox._POOLS else []


def test_queries_of_many_threads_get_their_own_answers(database: Path) -> None:
    def ask(i: int) -> object:
        if i % 10 == 9:
            return run_query(database, COUNTING.format("", "x"), limits=LIMITS).code
        return run_query(database, f"select {i}, count(*) from stay where id < {i}", limits=LIMITS).rows

    with ThreadPoolExecutor(12) as threads:
        answers = list(threads.map(ask, range(40)))
    assert answers == ["rows" if i % 10 == 9 else ((i, i),) for i in range(40)]
    assert 1 <= len(waiting()) <= min(4, os.cpu_count() or 1)


def test_a_worker_is_used_again_and_ends_when_told(database: Path) -> None:
    stop_workers()
    assert waiting() == []
    run_query(database, "select 1", limits=LIMITS)
    (first,) = waiting()
    run_query(database, "select 2", limits=LIMITS)
    assert waiting() == [first]
    stop_workers()
    assert not first.is_alive
    assert run_query(database, "select 3", limits=LIMITS).rows == ((3,),)
    os.kill(waiting()[-1]._process.pid, signal.SIGKILL)
    assert run_query(database, "select 4", limits=LIMITS).rows == ((4,),), "another one takes its place"


def test_a_worker_gets_no_secrets(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    stop_workers()
    run_query(database, "select 1", limits=LIMITS)
    if not Path("/proc/self/environ").exists():
        pytest.skip("this system does not show the variables of a process")
    (worker,) = waiting()
    assert b"secret" not in Path(f"/proc/{worker._process.pid}/environ").read_bytes()


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("import threading; print('{}', flush=True); threading.Event().wait()", "timeout"),
        ("print('{}', flush=True); input()", "crash"),
        ("raise SystemExit(3)", ""),
    ],
    ids=["never answers", "dies of the query", "does not start"],
)
def test_a_worker_that_fails_is_ended_and_reported(
    database: Path, monkeypatch: pytest.MonkeyPatch, program: str, code: str
) -> None:
    """With another program in place of the worker. One that does not start is not blamed on the query."""

    def started(memory: int) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        return subprocess.Popen([sys.executable, "-I", "-S", "-c", program], stdin=pipe, stdout=pipe)

    stop_workers()
    monkeypatch.setattr(sandbox, "_start_process", started)
    monkeypatch.setattr(sandbox, "_GRACE_S", 0.1)
    if code:
        assert run_query(database, "select 1", limits=SHORT if code == "timeout" else LIMITS).code == code
    else:
        with pytest.raises(NotComputed, match="does not start"):
            run_query(database, "select 1", limits=LIMITS)
    assert waiting() == []


PARENT = """
import sys
from pathlib import Path
from medhelm.scoring.sql import sandbox
database = Path(sys.argv[1])
sandbox.run_query(database, "select 1")
(pool,) = sandbox._POOLS.values()
print(pool._waiting[0]._process.pid, flush=True)
if sys.argv[2]:
    sandbox.run_query(database, sys.argv[2])
sys.stdin.read()
"""


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs a system that tells when any process ends")
@pytest.mark.parametrize("sql", ["", COUNTING.format("", "count(*)")], ids=["idle", "busy"])
def test_workers_die_with_a_parent_that_is_killed(database: Path, sql: str) -> None:
    command = [sys.executable, "-c", PARENT, str(database), sql]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        worker = os.pidfd_open(int(parent.stdout.readline()))
        parent.kill()
    ended, _, _ = select.select([worker], [], [], 60)
    os.close(worker)
    assert ended
