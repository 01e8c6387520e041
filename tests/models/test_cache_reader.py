"""Looking into the cache without touching it."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from medhelm.domain import Completion, Failure, Usage
from medhelm.errors import StoreError
from medhelm.models.cache import Cache
from medhelm.models.cache_reader import CacheReader

COUNTED = Completion(text="yes", usage=Usage(input=7, cached_input=3, output=2, reasoning=1), reported_model="m-1")
UNCOUNTED = Completion(text="no")
REFUSED = Completion(failure=Failure("provider", "refusal", "no"), usage=Usage(input=5))
ALL = {b"1" * 32: COUNTED, b"2" * 32: UNCOUNTED, b"3" * 32: REFUSED}


def fill(path: Path) -> None:
    async def put(cache: Cache) -> None:
        await asyncio.gather(*(cache.put(digest, completion, model="m") for digest, completion in ALL.items()))

    with closing(Cache(path)) as cache:
        asyncio.run(put(cache))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "cache.sqlite"
    fill(file)
    return file


def test_purchases_with_their_tokens_and_their_day(path: Path) -> None:
    with CacheReader(path) as journal:
        assert not journal.is_empty
        assert {digest: journal.get(digest) for digest in ALL} == ALL
        assert journal.get(b"4" * 32) is None
        assert (journal.get(b"1" * 32, "m"), journal.get(b"1" * 32, "another model")) == (COUNTED, None)
        bought = {one.digest: one for one in journal.purchases()}
    assert {digest: (one.usage, one.metered, one.model) for digest, one in bought.items()} == {
        b"1" * 32: (COUNTED.usage, True, "m"),
        b"2" * 32: (Usage(), False, "m"),
        b"3" * 32: (Usage(input=5), True, "m"),
    }
    assert {one.day for one in bought.values()} <= {
        datetime.fromtimestamp(path.stat().st_mtime, UTC).date(),
        datetime.now(UTC).date(),
    }


@pytest.mark.parametrize("column", ["input", "text", "model", "created"])
def test_damaged_purchases_are_counted_apart(path: Path, column: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE completions SET {column} = 12345 WHERE digest = ?", (b"1" * 32,))
    with CacheReader(path) as journal:
        assert {one.digest for one in journal.purchases()} == {b"2" * 32, b"3" * 32}
        assert journal.n_damaged == 1
        assert {one.digest for one in journal.purchases(without={b"1" * 32, b"3" * 32})} == {b"2" * 32}
        assert journal.n_damaged == 0
        assert {row[0] for row in journal.rows()} == {b"2" * 32, b"3" * 32}


@pytest.mark.parametrize("content", [None, b"", b"fresh"], ids=["missing", "empty", "without purchases"])
def test_without_a_file_nothing_was_bought_and_none_is_made(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "cache.sqlite"
    if content is not None:
        path.write_bytes(content.replace(b"fresh", b""))
    if content:
        Cache(path).close()
    with CacheReader(path) as journal:
        assert journal.is_empty
        assert journal.get(b"1" * 32) is None
        assert list(journal.purchases()) == []
    assert path.exists() == (content is not None)


def test_looking_changes_no_byte_and_leaves_no_file(path: Path) -> None:
    before = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    with CacheReader(path) as journal:
        list(journal.purchases())
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == before


def test_what_another_process_is_writing_is_seen(path: Path) -> None:
    late = b"9" * 32
    with closing(Cache(path)) as writing:
        asyncio.run(writing.put(late, COUNTED, model="m"))
        with CacheReader(path) as journal:
            assert journal.get(late) == COUNTED


def test_a_file_that_is_no_cache(tmp_path: Path) -> None:
    noise, foreign = tmp_path / "noise.sqlite", tmp_path / "foreign.sqlite"
    noise.write_bytes(b"not a database, and long enough to look at" * 50)
    with closing(sqlite3.connect(foreign)) as connection:
        connection.execute("CREATE TABLE t (x)")
    with pytest.raises(StoreError, match="cannot be read"):
        CacheReader(noise)
    with pytest.raises(StoreError, match="not a cache of this version"):
        CacheReader(foreign)


def test_a_damaged_page_is_told_and_shows_no_traceback(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[100:] = b"\x07" * (len(content) - 100)
    path.write_bytes(content)
    with CacheReader(path) as journal, pytest.raises(StoreError, match="cannot be read"):
        list(journal.purchases())
    with CacheReader(path) as journal, pytest.raises(StoreError, match="cannot be read"):
        journal.get(b"1" * 32)
