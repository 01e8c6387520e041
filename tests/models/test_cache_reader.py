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


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A cache with all of these."""
    file = tmp_path / "cache.sqlite"
    with closing(Cache(file)) as cache:
        for digest, completion in ALL.items():
            asyncio.run(cache.put(digest, completion, model="m"))
    return file


def test_purchases_with_their_tokens_and_their_day(path: Path) -> None:
    """Looking changes no byte and leaves no file."""
    before = path.read_bytes()
    with CacheReader(path) as journal:
        assert not journal.is_empty
        assert {digest: journal.get(digest) for digest in ALL} == ALL
        assert journal.get(b"4" * 32) is None
        assert (journal.get(b"1" * 32, "m"), journal.get(b"1" * 32, "another model")) == (COUNTED, None)
        bought = {one.digest: one for one in journal.purchases()}
    assert [(file, file.read_bytes()) for file in path.parent.iterdir()] == [(path, before)]
    assert {digest: (one.usage, one.metered, one.model) for digest, one in bought.items()} == {
        b"1" * 32: (COUNTED.usage, True, "m"),
        b"2" * 32: (Usage(), False, "m"),
        b"3" * 32: (Usage(input=5), True, "m"),
    }
    days = {datetime.fromtimestamp(path.stat().st_mtime, UTC).date(), datetime.now(UTC).date()}
    assert {one.day for one in bought.values()} <= days


def test_damaged_purchases_are_counted_apart(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE completions SET model = 12345 WHERE digest = ?", (b"1" * 32,))
    with CacheReader(path) as journal:
        assert {one.digest for one in journal.purchases()} == {b"2" * 32, b"3" * 32}
        assert journal.n_damaged == 1
        assert {one.digest for one in journal.purchases(without={b"1" * 32, b"3" * 32})} == {b"2" * 32}
        assert journal.n_damaged == 0
        assert {row[0] for row in journal.rows()} == {b"2" * 32, b"3" * 32}


def test_without_a_file_nothing_was_bought_and_none_is_made(tmp_path: Path) -> None:
    missing, empty, fresh = (tmp_path / name for name in ("missing.sqlite", "empty.sqlite", "fresh.sqlite"))
    empty.touch()
    Cache(fresh).close()
    for path in (missing, empty, fresh):
        with CacheReader(path) as journal:
            assert (journal.is_empty, journal.get(b"1" * 32), list(journal.purchases())) == (True, None, [])
    assert not missing.exists()


def test_a_file_that_is_no_cache_or_damaged(tmp_path: Path, path: Path) -> None:
    noise, foreign = tmp_path / "noise.sqlite", tmp_path / "foreign.sqlite"
    noise.write_bytes(b"not a database, and long enough to look at" * 50)
    with closing(sqlite3.connect(foreign)) as connection:
        connection.execute("CREATE TABLE t (x)")
    path.write_bytes(path.read_bytes()[:100] + b"\x07" * (path.stat().st_size - 100))
    with pytest.raises(StoreError, match="not a cache of this version"):
        CacheReader(foreign)
    for file in (noise, path):
        with pytest.raises(StoreError, match="cannot be read"), CacheReader(file) as journal:
            list(journal.purchases())
