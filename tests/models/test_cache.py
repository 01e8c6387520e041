"""The journal: what is committed stays, whatever happens; what is not committed is never claimed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from medhelm.domain import Completion, Failure, Usage
from medhelm.errors import StoreError, StoreFullError
from medhelm.models import cache as cache_module
from medhelm.models.cache import APPLICATION_ID, COLUMNS, SCHEMA_VERSION, Cache, worth_keeping
from medhelm.models.cache_reader import CacheReader

YES = Completion(text="yes", finish_reason="stop", usage=Usage(input=300, output=1), latency_s=0.25)
REFUSAL = Completion(failure=Failure("provider", "refusal", "I cannot help with that."), finish_reason="stop")
PATIENCE_S = 600.0


def digest(number: int) -> bytes:
    return number.to_bytes(32, "big")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store" / "completions.sqlite"


@pytest.fixture
def cache(path: Path) -> Iterator[Cache]:
    with Cache(path) as opened:
        yield opened


async def put_all(cache: Cache, numbers: range, completion: Completion = YES) -> None:
    await asyncio.gather(*[cache.put(digest(number), completion, model="m") for number in numbers])


def put(cache: Cache, number: int, completion: Completion = YES) -> None:
    asyncio.run(put_all(cache, range(number, number + 1), completion))


def stored(path: Path) -> list[int]:
    """The digests in the file, read without our code."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT digest FROM completions ORDER BY digest").fetchall()
    return [int.from_bytes(row[0], "big") for row in rows]


# --- keeping ----------------------------------------------------------------------------------------------------------

COMPLETIONS = {
    "empty text": replace(YES, text=""),
    "any characters": replace(YES, text='ä\n\x00"\U0001f600' * 1000),
    "long": replace(YES, text="x" * 5_000_000),
    "refusal": REFUSAL,
    "everything set": Completion(
        text="B",
        finish_reason="length",
        usage=Usage(input=1, cached_input=2, output=3, reasoning=4),
        latency_s=12.5,
        reported_model="gpt-4o-2024-05-13",
        fingerprint="fp_44709d6fcb",
        refused_parameters=("schema", "seed"),
        batched=True,
    ),
}


@pytest.mark.parametrize("completion", COMPLETIONS.values(), ids=COMPLETIONS)
def test_what_was_put_comes_back(cache: Cache, path: Path, completion: Completion) -> None:
    assert cache.get(digest(1)) is None
    put(cache, 1, completion)
    assert cache.get(digest(1)) == completion
    assert cache.get(digest(2)) is None
    with Cache(path) as again:
        assert again.get(digest(1)) == completion
    assert worth_keeping(completion)
    assert not worth_keeping(Completion(failure=Failure("provider", "timeout", "no answer")))


async def test_put_returns_when_others_can_see_it(cache: Cache, path: Path) -> None:
    for number in range(20):
        await cache.put(digest(number), YES, model="m")
        assert stored(path) == list(range(number + 1))


async def test_what_waits_is_committed_together(cache: Cache, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups: list[int] = []
    go_on = threading.Event()
    insert = cache_module._insert

    def observed(connection: sqlite3.Connection, rows: list[cache_module.Row]) -> None:
        assert go_on.wait(PATIENCE_S)
        groups.append(len(rows))
        insert(connection, rows)

    monkeypatch.setattr(cache_module, "_insert", observed)

    writing = asyncio.ensure_future(put_all(cache, range(1000)))
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_soon(go_on.set)
    await writing
    assert sum(groups) == 1000
    assert len(groups) <= 3
    assert stored(path) == list(range(1000))


def test_the_first_completion_of_a_digest_stays(cache: Cache) -> None:
    for text in ("first", "second"):
        put(cache, 1, replace(YES, text=text))
    asyncio.run(put_all(cache, range(1, 2), replace(YES, text="third")))
    kept = cache.get(digest(1))
    assert kept is not None
    assert kept.text == "first"


async def test_a_value_no_file_can_hold_costs_nobody_else_a_completion(cache: Cache) -> None:
    strange = Completion(
        text="half \ud83d", usage=Usage(input=10**30, output=-1), reported_model="\udfff", finish_reason="stop"
    )

    await asyncio.gather(put_all(cache, range(3)), cache.put(digest(9), strange, model="\ud800"))
    assert cache.get(digest(2)) == YES
    kept = cache.get(digest(9))
    assert kept is not None
    assert (kept.text, kept.reported_model) == ("half ?", strange.reported_model)
    assert kept.usage == Usage(input=2**63 - 1, output=0)


FIRST_VERSION = """CREATE TABLE completions (digest BLOB PRIMARY KEY, model TEXT NOT NULL, text TEXT, failure_code TEXT,
failure_message TEXT, finish_reason TEXT NOT NULL, input INTEGER NOT NULL, cached_input INTEGER NOT NULL,
output INTEGER NOT NULL, reasoning INTEGER NOT NULL, latency_s REAL NOT NULL, reported_model TEXT NOT NULL,
created REAL NOT NULL, CHECK ((text IS NULL) <> (failure_code IS NULL)))"""
"""The table as the first version made it."""


def first_version(path: Path) -> None:
    """A cache of the first version with one completion."""
    path.parent.mkdir(parents=True)
    row = f"x'{digest(1).hex()}', 'm', 'yes', NULL, NULL, 'stop', 7, 3, 2, 1, 0.5, 'm-1', 1700000000.0"
    database(
        path,
        FIRST_VERSION,
        f"INSERT INTO completions VALUES ({row})",
        f"PRAGMA application_id = {APPLICATION_ID}",
        "PRAGMA user_version = 1",
    )


BOUGHT_THEN = Completion(
    text="yes",
    finish_reason="stop",
    usage=Usage(input=7, cached_input=3, output=2, reasoning=1),
    latency_s=0.5,
    reported_model="m-1",
)


def test_a_file_of_the_first_version_is_taken_over_with_all_it_holds(path: Path) -> None:
    first_version(path)
    new = replace(YES, fingerprint="fp_1", refused_parameters=("seed",))
    with Cache(path) as cache:
        assert cache.get(digest(1)) == BOUGHT_THEN
        put(cache, 2, new)
    with Cache(path) as cache, contextlib.closing(sqlite3.connect(path)) as connection:
        assert (cache.get(digest(1)), cache.get(digest(2))) == (BOUGHT_THEN, new)
        assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
        names = [row[1] for row in connection.execute("PRAGMA table_info(completions)")]
    assert names == list(COLUMNS)
    assert not {name for name in COLUMNS if "prompt" in name or "message" in name} - {"failure_message"}


def test_a_file_of_the_first_version_is_looked_into_and_left_as_it_is(path: Path) -> None:
    first_version(path)
    before = path.read_bytes()
    with CacheReader(path) as journal:
        assert journal.get(digest(1)) == BOUGHT_THEN
        (bought,) = journal.purchases()
    assert (bought.usage, bought.batched) == (BOUGHT_THEN.usage, False)
    assert path.read_bytes() == before


# --- damage -----------------------------------------------------------------------------------------------------------

FULL = replace(BOUGHT_THEN, fingerprint="fp_1", refused_parameters=("seed",), received=1700000000.0)


def change(path: Path, assignment: str) -> None:
    """Change rows without our code, as damage to the file does."""
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE completions SET {assignment}")


@pytest.mark.parametrize(
    "assignment",
    [
        *("model = 'n'", "text = 'no'", "text = ''", "text = CAST(x'79ff73' AS TEXT)", "finish_reason = 'length'"),
        *("input = 8", "cached_input = 4", "output = 'two'", "reasoning = 9", "latency_s = 0.25"),
        *("reported_model = ''", "created = 1600000000.0", "batched = 1", "fingerprint = x'00'"),
        *("refused_parts = 'reason'", "cache_write = 1", "checksum = checksum + 1", "checksum = NULL"),
        "text = NULL, failure_code = 'refusal'",
    ],
)
def test_a_changed_row_counts_as_missing_and_is_replaced(path: Path, assignment: str) -> None:
    with Cache(path) as cache:
        put(cache, 1, FULL)
        put(cache, 2, FULL)
    change(path, f"{assignment} WHERE digest = x'{digest(1).hex()}'")
    with CacheReader(path) as reader:
        assert (reader.get(digest(1)), reader.get(digest(2))) == (None, FULL)
    with Cache(path) as cache:
        assert (cache.get(digest(1)), cache.get(digest(2)), cache.damaged) == (None, FULL, {digest(1)})
        put(cache, 1, YES)
        put(cache, 2, YES)
        assert (cache.get(digest(1)), cache.get(digest(2)), cache.n_recovered) == (YES, FULL, 0)


def test_a_damaged_row_is_recovered_and_stays_so(path: Path) -> None:
    with Cache(path) as cache:
        put(cache, 1, FULL)
    change(path, "output = 3")
    with Cache(path) as cache:
        cache.recover = lambda key: ("m", FULL) if key == digest(1) else None
        assert cache.get(digest(1), "another model") is None
        assert cache.get(digest(1), "m") == FULL
        assert (cache.damaged, cache.n_recovered) == ({digest(1)}, 1)
    with Cache(path) as cache:
        assert (cache.get(digest(1)), cache.damaged) == (FULL, set())


def test_a_row_under_the_key_of_another_is_never_taken_for_it(path: Path) -> None:
    with Cache(path) as cache:
        put(cache, 1, FULL)
    change(path, f"digest = x'{digest(2).hex()}'")
    with Cache(path) as cache:
        assert (cache.get(digest(1)), cache.get(digest(2))) == (None, None)


def test_bytes_flipped_anywhere_never_become_another_completion(path: Path) -> None:
    with Cache(path) as cache:
        for number in range(40):
            put(cache, number, replace(FULL, text=f"answer {number} " * 5, usage=Usage(input=number, output=2)))
        originals = {number: cache.get(digest(number)) for number in range(40)}
    whole, chosen = path.read_bytes(), random.Random(0)
    n_noticed = 0
    for _ in range(70):
        content = bytearray(whole)
        place = chosen.randrange(100, len(content) - 8)
        content[place : place + 8] = bytes(byte ^ 0xFF for byte in content[place : place + 8])
        path.write_bytes(content)
        try:
            with Cache(path) as cache:
                found = {number: cache.get(digest(number)) for number in range(40)}
        except StoreError:
            n_noticed += 1
        else:
            assert all(one is None or one == originals[number] for number, one in found.items())
            n_noticed += found != originals
    assert n_noticed > 5


def test_rows_of_earlier_versions_get_checksums_and_unreadable_ones_none(path: Path) -> None:
    first_version(path)
    row = "'m', CAST(x'ff' AS TEXT), NULL, NULL, 'stop', 7, 3, 2, 1, 0.5, 'm-1', 1700000000.0"
    database(path, f"INSERT INTO completions VALUES (x'{digest(2).hex()}', {row})")
    with Cache(path) as cache:
        assert (cache.get(digest(1)), cache.get(digest(2))) == (BOUGHT_THEN, None)
    change(path, "input = 8")
    with Cache(path) as cache:
        assert cache.get(digest(1)) is None


# --- closing ----------------------------------------------------------------------------------------------------------


def test_closing_writes_what_waits_and_is_final(path: Path) -> None:
    """Also when nobody waits any more: the event loop is gone."""
    cache = Cache(path)

    async def main() -> None:
        task = asyncio.ensure_future(put_all(cache, range(100)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()

    asyncio.run(main())
    cache.close()
    cache.close()
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    assert stored(path) == list(range(100))
    with pytest.raises(StoreError, match="is closed"):
        put(cache, 1)


def test_reading_starts_no_thread(cache: Cache) -> None:
    before = threading.active_count()
    cache.get(digest(1))
    assert threading.active_count() == before
    put(cache, 1)
    assert threading.active_count() == before + 1


# --- files that are no cache ------------------------------------------------------------------------------------------


def database(path: Path, *statements: str) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def ours(version: int) -> Callable[[Path], None]:
    return lambda path: database(
        path,
        "CREATE TABLE completions (digest BLOB)",
        f"PRAGMA application_id = {APPLICATION_ID}",
        f"PRAGMA user_version = {version}",
    )


def damaged(path: Path) -> None:
    ours(SCHEMA_VERSION)(path)
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 3000)


NOT_CACHES: dict[str, tuple[Callable[[Path], object], str]] = {
    "text": (lambda path: path.write_text("hello\n" * 500, encoding="utf-8"), "not a database"),
    "other": (lambda path: database(path, "CREATE TABLE t (x)"), "of another program .application id 0x0"),
    "other, empty": (lambda path: database(path, "PRAGMA user_version = 7"), "of another program"),
    "newer": (ours(SCHEMA_VERSION + 1), f"version {SCHEMA_VERSION + 1}, .* uses {SCHEMA_VERSION}.*, which is newer"),
    "older": (ours(0), f"format version 0, .* uses {SCHEMA_VERSION}"),
    "damaged": (damaged, "damaged"),
    "folder": (lambda path: path.mkdir(), "cannot be opened for writing"),
}


@pytest.mark.parametrize(("make", "words"), NOT_CACHES.values(), ids=NOT_CACHES)
def test_a_file_that_is_no_cache_is_named_and_left_alone(
    tmp_path: Path, make: Callable[[Path], object], words: str
) -> None:
    path = tmp_path / "completions.sqlite"
    make(path)
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(StoreError, match=words) as caught:
        Cache(path)
    assert str(path) in str(caught.value)
    assert "--store" in str(caught.value)
    assert caught.value.exit_code == 2
    assert (path.read_bytes() if path.is_file() else b"") == before


def test_a_store_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"cannot be used as a folder: File exists.* --store"):
        Cache(tmp_path / "file" / "completions.sqlite")


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_read_only_folder_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(StoreError, match="permissions"):
            Cache(tmp_path / "completions.sqlite")
    finally:
        tmp_path.chmod(0o700)


def test_a_file_that_went_while_it_was_read(cache: Cache) -> None:
    put(cache, 1)
    cache._reader.execute("DROP TABLE completions")
    with pytest.raises(StoreError, match="no such table"):
        cache.get(digest(1))


# --- when writing fails -----------------------------------------------------------------------------------------------


def connect_with(monkeypatch: pytest.MonkeyPatch, pragma: str) -> None:
    """From now on connections are opened with a further setting."""
    connect = cache_module._connect

    def connect_and_set(path: Path) -> sqlite3.Connection:
        connection = connect(path)
        connection.execute(pragma)
        return connection

    monkeypatch.setattr(cache_module, "_connect", connect_and_set)


def test_a_read_only_file_is_refused_before_anything_is_bought(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Cache(path).close()
    connect_with(monkeypatch, "PRAGMA query_only = 1")
    with pytest.raises(StoreError, match="cannot be opened for writing") as caught:
        Cache(path)
    assert caught.value.exit_code == 2


def test_a_full_disk_tells_everybody_who_waits_and_keeps_the_rest(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    large = replace(YES, text="x" * 3000)

    async def main(cache: Cache) -> tuple[list[int], list[BaseException]]:
        kept, errors = [], []
        for start in range(0, 100, 10):
            group = [cache.put(digest(start + n), large, model="m") for n in range(10)]
            outcomes = await asyncio.gather(*group, return_exceptions=True)
            kept += [start + n for n, outcome in enumerate(outcomes) if outcome is None]
            errors += [outcome for outcome in outcomes if outcome is not None]
        return kept, errors

    with Cache(path) as cache:
        with monkeypatch.context() as patched:
            connect_with(patched, "PRAGMA max_page_count = 40")
            kept, errors = asyncio.run(main(cache))
        assert len(kept) + len(errors) == 100
        assert 10 <= len(kept) <= 40
        assert all(isinstance(error, StoreFullError) for error in errors)
        assert len({id(error) for error in errors}) == len(errors)
        assert str(path) in str(errors[0])
        assert "committed before is kept" in str(errors[0])
        assert [n for n in range(100) if cache.get(digest(n)) == large] == kept
    with Cache(path) as again:  # there is room again
        asyncio.run(put_all(again, range(100), large))
    assert stored(path) == list(range(100))


def test_a_store_in_use_for_too_long(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Cache(path).close()
    monkeypatch.setattr(cache_module, "BUSY_TIMEOUT_S", 0.05)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match=r"in use by another process for 0\.05 s"):
            Cache(path)
        other.execute("ROLLBACK")
        with Cache(path) as cache:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreError, match="in use by another process"):
                put(cache, 1)
            assert cache.get(digest(1)) is None  # readers are not kept waiting
            other.execute("ROLLBACK")
            put(cache, 1)
            assert cache.get(digest(1)) == YES


# --- other processes --------------------------------------------------------------------------------------------------

PROGRAM = """
import asyncio, sys
from pathlib import Path
from medhelm.domain import Completion
from medhelm.errors import StoreFullError
from medhelm.models.cache import Cache

async def main(path, first, count, size):
    cache = Cache(Path(path))
    try:
        for start in range(first, first + count, 10):
            numbers = range(start, min(start + 10, first + count))
            completion = Completion(text="x" * size)
            await asyncio.gather(*[cache.put(n.to_bytes(32, "big"), completion, model="m") for n in numbers])
            print(numbers[-1], flush=True)
    except StoreFullError:
        print("full", flush=True)
    cache.close()

asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:5])))
"""


def start_writer(path: Path, first: int, count: int, size: int = 10, before: str = "") -> subprocess.Popen[str]:
    """Another process that writes, ten at a time, and says the last number of every ten that are committed."""
    arguments = [str(path), str(first), str(count), str(size)]
    return subprocess.Popen([sys.executable, "-c", before + PROGRAM, *arguments], stdout=subprocess.PIPE, text=True)


def test_what_was_committed_survives_kill_9(path: Path) -> None:
    with start_writer(path, 0, 1_000_000) as writer:
        assert writer.stdout is not None
        for line in writer.stdout:
            if int(line) >= 200:
                break
        writer.send_signal(signal.SIGKILL)
        committed = [int(line), *[int(more) for more in writer.stdout.read().split()]][-1]
    assert writer.returncode == -signal.SIGKILL
    with Cache(path) as cache:
        assert all(cache.get(digest(n)) == Completion(text="x" * 10) for n in range(committed + 1))
        put(cache, 2_000_000)
    assert len(stored(path)) >= committed + 2


def test_processes_create_and_share_one_file(path: Path) -> None:
    """They start at once, so they race for its creation; their digests overlap."""
    writers = [start_writer(path, first, 300) for first in (0, 150, 300)]
    for writer in writers:
        output, _ = writer.communicate(timeout=PATIENCE_S)
        assert writer.returncode == 0
        assert len(output.split()) == 30
    assert stored(path) == list(range(600))


def test_a_quota_is_a_full_disk(path: Path) -> None:
    """The system refuses to let any file grow beyond 300 kB."""
    limit = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))\n"
    with start_writer(path, 0, 1000, size=2000, before=limit) as writer:
        output, _ = writer.communicate(timeout=PATIENCE_S)
    assert writer.returncode == 0
    *committed, last = output.split()
    assert last == "full"
    assert committed
    assert set(range(int(committed[-1]) + 1)) <= set(stored(path))


@pytest.mark.parametrize("name", ["missing", "empty"])
def test_a_link_is_no_cache(tmp_path: Path, name: str) -> None:
    """Someone with access to the folder of a team's store could direct it to another file of the user."""
    (tmp_path / "empty").touch()
    (tmp_path / "cache.sqlite").symlink_to(tmp_path / name)
    with pytest.raises(StoreError, match="it is not a regular file"):
        Cache(tmp_path / "cache.sqlite")
    assert not (tmp_path / "missing").exists()
    assert (tmp_path / "empty").read_bytes() == b""


@pytest.mark.parametrize(("folder", "mode"), [(0o2770, 0o660), (0o700, 0o600), (0o750, 0o640), (0o777, 0o600)])
def test_its_files_have_the_permissions_of_the_folder(tmp_path: Path, folder: int, mode: int) -> None:
    tmp_path.chmod(folder)
    before = os.umask(0)
    try:
        with Cache(tmp_path / "cache.sqlite") as cache:
            asyncio.run(cache.put(b"d" * 32, Completion(text="x"), model="m"))
            assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {mode}
    finally:
        os.umask(before)
