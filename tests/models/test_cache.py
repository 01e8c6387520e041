"""The journal: what is committed stays, whatever happens; what is not committed is never claimed."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import random
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from medhelm.domain import Completion, Failure, Model, Request, Usage
from medhelm.errors import StoreError, StoreFullError
from medhelm.models import cache as cache_module
from medhelm.models.cache import (
    APPLICATION_ID,
    COLUMNS,
    SCHEMA_VERSION,
    Cache,
    KnownCompletion,
    find_completion,
    worth_keeping,
)
from medhelm.models.cache_reader import CacheReader
from tests.support.models.providers import asked
from tests.support.stores import make_model

YES = Completion(text="yes", finish_reason="stop", usage=Usage(input=300, output=1), latency_s=0.25)
BOUGHT_THEN = Completion(
    text="yes",
    finish_reason="stop",
    usage=Usage(input=7, cached_input=3, output=2, reasoning=1),
    latency_s=0.5,
    reported_model="m-1",
)
FULL = replace(BOUGHT_THEN, fingerprint="fp_1", refused_parameters=("seed",), received=1700000000.0)
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
    "refusal": REFUSAL,
    "everything set": replace(FULL, refused_parameters=("schema", "seed"), batched=True, received=None),
}


@pytest.mark.parametrize("completion", COMPLETIONS.values(), ids=COMPLETIONS)
def test_what_was_put_comes_back(cache: Cache, path: Path, completion: Completion) -> None:
    assert cache.get(digest(1)) is None
    put(cache, 1, completion)
    put(cache, 1, replace(YES, text="the first stays"))
    assert cache.get(digest(1)) == completion
    assert cache.get(digest(2)) is None
    with Cache(path) as again:
        assert again.get(digest(1)) == completion
    assert worth_keeping(completion)
    assert not worth_keeping(Completion(failure=Failure("provider", "timeout", "no answer")))


async def test_a_value_no_file_can_hold_costs_nobody_else_a_completion(cache: Cache) -> None:
    strange = Completion(text="half \ud83d", usage=Usage(input=10**30, output=-1), reported_model="\udfff")
    await asyncio.gather(put_all(cache, range(3)), cache.put(digest(9), strange, model="\ud800"))
    assert cache.get(digest(2)) == YES
    assert cache.get(digest(9)) == replace(strange, text="half ?", usage=Usage(input=2**63 - 1, output=0))


FIRST_VERSION = """CREATE TABLE completions (digest BLOB PRIMARY KEY, model TEXT NOT NULL, text TEXT, failure_code TEXT,
failure_message TEXT, finish_reason TEXT NOT NULL, input INTEGER NOT NULL, cached_input INTEGER NOT NULL,
output INTEGER NOT NULL, reasoning INTEGER NOT NULL, latency_s REAL NOT NULL, reported_model TEXT NOT NULL,
created REAL NOT NULL, CHECK ((text IS NULL) <> (failure_code IS NULL)))"""
"""The table as the first version made it."""


def test_a_file_of_the_first_version_is_looked_into_and_then_taken_over_with_all_it_holds(path: Path) -> None:
    path.parent.mkdir()
    row = "'m', 'yes', NULL, NULL, 'stop', 7, 3, 2, 1, 0.5, 'm-1', 1700000000.0"
    make_database(path, f"{FIRST_VERSION}; INSERT INTO completions VALUES (x'{digest(1).hex()}', {row})", version=1)
    before = path.read_bytes()
    with CacheReader(path) as journal:
        assert journal.get(digest(1)) == BOUGHT_THEN
        (purchase,) = journal.purchases()
    assert (purchase.usage, purchase.batched) == (BOUGHT_THEN.usage, False)
    assert path.read_bytes() == before
    unreadable = row.replace("'yes'", "CAST(x'ff' AS TEXT)")
    make_database(path, f"INSERT INTO completions VALUES (x'{digest(3).hex()}', {unreadable})", version=1)
    with Cache(path) as cache:
        put(cache, 2, FULL)
    with Cache(path) as cache, contextlib.closing(sqlite3.connect(path)) as connection:
        assert [cache.get(digest(n)) for n in (1, 2, 3)] == [BOUGHT_THEN, FULL, None], "one row cannot be read"
        assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
        assert [row[1] for row in connection.execute("PRAGMA table_info(completions)")] == list(COLUMNS)
    assert not {name for name in COLUMNS if "prompt" in name or "message" in name} - {"failure_message"}
    change(path, "input = 8")
    with Cache(path) as cache:
        assert cache.get(digest(1)) is None, "older rows have checksums now"


def test_a_file_without_reasoning_is_taken_over_and_damage_in_it_stays_known(path: Path) -> None:
    with Cache(path) as cache:
        for n in (1, 2):
            put(cache, n, FULL)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        for name in ("reasoning_text", "token_logprobs"):
            connection.execute(f"ALTER TABLE completions DROP COLUMN {name}")
        connection.execute("UPDATE completions SET output = 99 WHERE digest = ?", [digest(2)])
        connection.execute("PRAGMA user_version = 4")
    thought = replace(FULL, reasoning="A or B?", token_logprobs='[["yes",-0.1,{}]]')
    with CacheReader(path) as journal:
        assert (journal.get(digest(1)), journal.get(digest(2))) == (FULL, None)
    with Cache(path) as cache:
        put(cache, 3, thought)
        assert [cache.get(digest(n)) for n in (1, 2)] == [FULL, None]
    with Cache(path) as cache:
        found = cache.get(digest(3))
        assert found is not None
        assert (found, found.reasoning, found.token_logprobs) == (thought, "A or B?", '[["yes",-0.1,{}]]')


# --- damage -----------------------------------------------------------------------------------------------------------


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
        "reasoning_text = 'no'",
        "token_logprobs = 'no'",
        "text = NULL, failure_code = 'refusal'",
    ],
)
def test_a_changed_row_counts_as_missing_and_is_replaced(path: Path, assignment: str) -> None:
    with Cache(path) as cache:
        asyncio.run(put_all(cache, range(1, 3), FULL))
    change(path, f"{assignment} WHERE digest = x'{digest(1).hex()}'")
    with CacheReader(path) as reader:
        assert (reader.get(digest(1)), reader.get(digest(2))) == (None, FULL)
    with Cache(path) as cache:
        assert (cache.get(digest(1)), cache.get(digest(2)), cache.damaged) == (None, FULL, {digest(1)})
        asyncio.run(put_all(cache, range(1, 3)))
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
    change(path, f"digest = x'{digest(2).hex()}'")
    with Cache(path) as cache:
        assert cache.get(digest(2)) is None, "a row under the key of another is never taken for it"


def test_bytes_flipped_anywhere_never_become_another_completion(path: Path) -> None:
    with Cache(path) as cache:
        for number in range(40):
            put(cache, number, replace(FULL, text=f"answer {number} " * 5))
        originals = {number: cache.get(digest(number)) for number in range(40)}
    whole, chosen, n_noticed = path.read_bytes(), random.Random(0), 0
    for _ in range(70):
        place = chosen.choice((chosen.randrange(100, len(whole) - 8), chosen.randrange(3000, 4096)))  # or in the schema
        flipped = bytes(byte ^ 0xFF for byte in whole[place : place + 8])
        path.write_bytes(whole[:place] + flipped + whole[place + 8 :])
        found: dict[int, Completion | None] = {}
        with contextlib.suppress(StoreError), Cache(path) as cache:
            found = {number: cache.get(digest(number)) for number in range(40)}
        assert all(one is None or one == originals[number] for number, one in found.items())
        n_noticed += found != originals
    assert n_noticed > 5


# --- closing ----------------------------------------------------------------------------------------------------------


def test_closing_writes_what_waits_and_is_final(path: Path) -> None:
    """Also when nobody waits any more: the event loop is gone."""
    cache = Cache(path)

    async def main() -> None:
        task = asyncio.ensure_future(put_all(cache, range(100)))
        for _ in range(2):
            await asyncio.sleep(0)
        task.cancel()

    asyncio.run(main())
    cache.close()
    cache.close()
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    assert stored(path) == list(range(100))
    with pytest.raises(StoreError, match="is closed"):
        put(cache, 1)


# --- files that are no cache ------------------------------------------------------------------------------------------


def make_database(path: Path, statements: str, *, version: int, application_id: int = APPLICATION_ID) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        marks = f"PRAGMA application_id = {application_id}; PRAGMA user_version = {version}"
        connection.executescript(f"{statements}; {marks};")


TABLE, NEWER = "CREATE TABLE completions (digest BLOB)", SCHEMA_VERSION + 1
NOT_CACHES = {
    "text": (None, SCHEMA_VERSION, 0, "not a database"),
    "other": (TABLE, 0, 0, "of another program .application id 0x0"),
    "newer": (TABLE, NEWER, APPLICATION_ID, f"version {NEWER}, .* uses {SCHEMA_VERSION}.*, which is newer"),
    "older": (TABLE, 0, APPLICATION_ID, f"format version 0, .* uses {SCHEMA_VERSION}"),
    "damaged": (TABLE, SCHEMA_VERSION, APPLICATION_ID, "damaged"),
}
"""Name -> statements, version, mark, and words of the error."""


@pytest.mark.parametrize("kind", NOT_CACHES)
def test_a_file_that_is_no_cache_is_named_and_left_alone(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "completions.sqlite"
    statements, version, application_id, words = NOT_CACHES[kind]
    if statements is None:
        path.write_text("hello\n" * 500, encoding="utf-8")
    else:
        make_database(path, statements, version=version, application_id=application_id)
    if kind == "damaged":
        path.write_bytes(path.read_bytes()[:100] + b"\xff" * 3000)
    before = path.read_bytes()
    with pytest.raises(StoreError, match=words) as caught:
        Cache(path)
    assert (str(path) in str(caught.value), "--store" in str(caught.value), caught.value.exit_code) == (True, True, 2)
    assert path.read_bytes() == before


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
    with pytest.raises(StoreError, match="cannot be opened for writing"):
        Cache(path)


def test_a_full_disk_tells_everybody_who_waits_and_keeps_the_rest(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    large = replace(YES, text="x" * 3000)

    async def fill(cache: Cache) -> dict[int, BaseException | None]:
        outcomes: list[BaseException | None] = []
        for start in range(0, 100, 10):
            group = [cache.put(digest(start + n), large, model="m") for n in range(10)]
            outcomes += await asyncio.gather(*group, return_exceptions=True)
        return dict(enumerate(outcomes))

    with Cache(path) as cache:
        with monkeypatch.context() as patched:
            connect_with(patched, "PRAGMA max_page_count = 40")
            outcomes = asyncio.run(fill(cache))
        kept = [number for number, error in outcomes.items() if error is None]
        errors = [error for error in outcomes.values() if error is not None]
        assert 10 <= len(kept) <= 40
        assert all(isinstance(error, StoreFullError) for error in errors)
        assert len({id(error) for error in errors}) == len(errors)
        assert re.search(rf"{re.escape(str(path))}.*committed before is kept", str(errors[0]))
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
from medhelm.models.cache import Cache

async def main(path, first, count):
    with Cache(Path(path)) as cache:
        for start in range(first, first + count, 10):
            names = [n.to_bytes(32, "big") for n in range(start, start + 10)]
            await asyncio.gather(*[cache.put(name, Completion(text="x"), model="m") for name in names])
            print(start + 9, flush=True)

asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
"""


def start_writer(path: Path, first: int, count: int) -> subprocess.Popen[str]:
    """Another process that writes, ten at a time, and says the last number of every ten that are committed."""
    arguments = [str(path), str(first), str(count)]
    return subprocess.Popen([sys.executable, "-c", PROGRAM, *arguments], stdout=subprocess.PIPE, text=True)


def test_processes_create_and_share_one_file(path: Path) -> None:
    """They start at once, so they race for its creation; their digests overlap."""
    writers = [start_writer(path, first, 300) for first in (0, 150, 300)]
    for writer in writers:
        output, _ = writer.communicate(timeout=PATIENCE_S)
        assert writer.returncode == 0
        assert len(output.split()) == 30
    assert stored(path) == list(range(600))


def test_a_link_is_no_cache(tmp_path: Path) -> None:
    """Someone with access to the folder of a team's store could direct it to another file of the user."""
    (tmp_path / "empty").touch()
    (tmp_path / "cache.sqlite").symlink_to(tmp_path / "empty")
    with pytest.raises(StoreError, match="it is not a regular file"):
        Cache(tmp_path / "cache.sqlite")
    assert (tmp_path / "empty").read_bytes() == b""


# --- finding what was bought ------------------------------------------------------------------------------------------


def find(one: Request, bought: dict[bytes, Completion]) -> KnownCompletion | None:
    return find_completion(one, one.digest, lambda digest, model: None if model else bought.get(digest))


def digest_before(one: Request) -> bytes:
    """The digest of versions 0.1 and 0.2, spelled out."""
    model = one.model
    identity = [
        [model.provider, model.base_url, model.remote_name, model.reasoning, model.reasoning_effort],
        sorted(model.parameters.items()),
        [["user", "Is it?"]],
        [one.max_tokens, 0.0, [], 0],
    ]
    content = hashlib.sha256(json.dumps(identity).encode())
    if not model.scope:
        return content.digest()
    return hashlib.sha256(json.dumps([content.hexdigest(), model.scope, ""]).encode()).digest()


@pytest.mark.parametrize(
    ("model", "is_same"),
    [
        (make_model("openai/gpt-4o"), True),
        (make_model("anthropic/claude-opus-5", provider="anthropic", reasoning=True), True),
        (make_model("azure/ours", provider="azure", reasoning=True), True),
        (make_model("openai/deepseek-r1", reasoning=True, scope="mine"), False),
    ],
)
def test_nothing_that_was_bought_is_bought_again(model: Model, is_same: bool) -> None:
    """Digests are as they were, except for models that are sent a temperature now; those find what they have."""
    one = asked(model)
    before = digest_before(one)
    assert (one.digest == before) is is_same
    found = find(one, {before: Completion(text="B")})
    assert found is not None
    assert (found.digest, found.completion.text) == (before, "B")
    assert found.completion.refused_parameters == (() if is_same else ("temperature",))
    assert find(replace(one, fresh="2026-01-01"), {before: Completion(text="B")}) is None


def test_a_completion_with_room_for_reasoning_is_used_if_the_other_is_missing_or_was_used_up() -> None:
    one = asked(make_model("openai/new"))
    roomy = replace(one, max_tokens=4000)
    used_up = Completion(failure=Failure("provider", "length", "no room"), finish_reason="length")
    said, longer = Completion(text="A"), Completion(text="B")
    first, second = KnownCompletion(one.digest, said), KnownCompletion(roomy.digest, longer)
    assert find(one, {one.digest: said, roomy.digest: longer}) == first
    assert find(one, {roomy.digest: longer}) == find(one, {one.digest: used_up, roomy.digest: longer}) == second
    assert find(one, {one.digest: used_up}) == KnownCompletion(one.digest, used_up)
    limited = asked(make_model("openai/new", max_tokens=5))
    assert find(limited, {roomy.digest: longer}) is None
