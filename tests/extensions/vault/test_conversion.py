"""Encrypting a store: conversion, keys, damage, and no text on the disk."""

from __future__ import annotations

import asyncio
import hashlib
import os
import sqlite3
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import pytest

from medhelm.domain import Completion
from medhelm.errors import StoreError
from medhelm.extensions.vault import commands as conversion
from medhelm.extensions.vault.commands import ConvertedStore, decrypt_store, encrypt_store
from medhelm.io.files import KEY_VARIABLE, is_encrypted
from medhelm.io.folders import atomic_file
from medhelm.models.cache import SEALED, Cache
from medhelm.models.cache_reader import CacheReader
from medhelm.storage.annotations import add_annotation, new_annotation
from medhelm.storage.store import Store, _write_new_manifest, create, open_store
from tests.support.benchmarks.batched import arguments, respond, write_models
from tests.support.cli import Medhelm, assert_refused
from tests.support.encryption import KEYS, lock_stores, plain_files, without_key
from tests.support.evaluated_store import copy_of_store, make_store
from tests.support.servers.batch_apis import BatchServer
from tests.support.servers.openai import Server
from tests.support.web.sites import make_client

WORDS = ("An answer to number", "HYPERLINK", "The answer to number", "it is 3", "it is 4", "Question number", "no idea",
         "Wrong key")  # fmt: skip
"""Words of prompts, completions, references, judgments and notes of the store."""

COMMANDS = (
    ("leaderboard", "--format", "json"),
    ("runs", "list", "--json"),
    ("show", "letters", "q6", "--json"),
    ("cost", "--json"),
)
"""Commands that read all that a store holds."""


@pytest.fixture
def store(tmp_path: Path, medhelm: Medhelm, tmp_path_factory: pytest.TempPathFactory, store_key: str) -> Path:
    """A plain store with runs and judgments, and a key in the environment."""
    with without_key():
        store = copy_of_store(medhelm, tmp_path, tmp_path_factory.getbasetemp() / "store-to-encrypt")
        add_annotation(Store(store), new_annotation("letters", "q6", note="Wrong key"))
        return store


def outputs(medhelm: Medhelm, store: Path) -> list[Any]:
    """Output of commands, without what a conversion changes: sizes of files."""
    said = []
    for command in COMMANDS:
        done = medhelm(*command, "--store", store)
        content = done.json
        if command[0] == "runs":
            content = [(run["id"], run["problem"]) for run in content["runs"]]
        said.append((command, done.code, content))
    return said


def digests(folder: Path) -> dict[str, str]:
    """Digest of every file in a store, without locks, what SQLite makes for readers, and copies of definitions."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith((".lock", "-shm", "-wal")) and "definitions" not in path.parts
    }


def test_commands_say_of_an_encrypted_store_what_they_said_before(store: Path, medhelm: Medhelm) -> None:
    assert (store / "definitions").exists()
    with without_key():
        before, was = outputs(medhelm, store), digests(store)
    done = encrypt_store(store, os.environ)
    assert plain_files(store, *WORDS) == []
    assert not (store / "definitions").exists()
    assert (done.completions, done.damaged) == (89, 0)
    assert outputs(medhelm, store) == before
    assert encrypt_store(store, os.environ) == ConvertedStore(
        state="encrypted", changed=False, fingerprint=done.fingerprint
    )
    back = decrypt_store(store, os.environ)
    assert (back.files, back.completions) == (done.files, done.completions)
    now = digests(store)
    assert {name for name in was if now.get(name) != was[name]} <= {"cache.sqlite"}


def test_a_key_means_encrypted_or_refused(store: Path, medhelm: Medhelm, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command refuses a plain store, and a new one is encrypted from the start."""
    before = digests(store)
    run = ("run", store.parent / "toy", "--model", "baseline/random")
    for command in (*COMMANDS, ("rescore",), run):
        words = ("is not encrypted, and MEDHELM_STORE_KEY is set", "`medhelm encrypt --store")
        assert_refused(medhelm(*command, "--store", store), *words)
    assert digests(store) == before
    new = store.parent / "new"
    assert medhelm(*run, "--store", new).code == 0
    assert plain_files(new, *WORDS) == []
    monkeypatch.delenv(KEY_VARIABLE)
    lock_stores(monkeypatch)
    assert [medhelm("leaderboard", "--store", place).code for place in (new, store)] == [4, 0]


@pytest.mark.parametrize("has_key", [True, False])
def test_an_older_manifest_does_not_make_an_encrypted_store_a_plain_one(
    store: Path, medhelm: Medhelm, monkeypatch: pytest.MonkeyPatch, has_key: bool
) -> None:
    plain = (store / "store.json").read_bytes()
    encrypt_store(store, os.environ)
    (store / "store.json").write_bytes(plain)
    lock_stores(monkeypatch)
    if not has_key:
        monkeypatch.delenv(KEY_VARIABLE)
    before = digests(store)
    words = "MEDHELM_STORE_KEY is set" if has_key else "Restore the one that `medhelm encrypt` wrote"
    for command in (COMMANDS[0], ("rescore",), ("run", store.parent / "toy", "--model", "baseline/random")):
        assert_refused(medhelm(*command, "--store", store), words)
    assert digests(store) == before
    if not has_key:
        for open_cache in (Cache, CacheReader):
            with pytest.raises(StoreError, match=r"cache.sqlite is encrypted, and the store.json beside it says"):
                open_cache(store / "cache.sqlite")


def test_processes_that_create_a_store_at_the_same_time_share_its_key(
    tmp_path: Path, store_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that comes second uses what the first one wrote."""
    first = (create(tmp_path / "store").folder / "store.json").read_bytes()
    _write_new_manifest(tmp_path / "store")
    assert (tmp_path / "store" / "store.json").read_bytes() == first


@pytest.mark.parametrize(("convert", "command"), [(encrypt_store, "encrypt"), (decrypt_store, "decrypt")])
def test_an_interrupted_conversion_is_continued_wherever_it_ended(
    store: Path, medhelm: Medhelm, monkeypatch: pytest.MonkeyPatch, convert: Any, command: str
) -> None:
    with without_key():
        board = medhelm(*COMMANDS[0], "--store", store).json
    if convert is decrypt_store:
        encrypt_store(store, os.environ)
    left = 0

    def failing(path: Path, **options: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(28, "No space left on device")
        return atomic_file(path, **options)

    monkeypatch.setattr(conversion, "atomic_file", failing)
    for left in (0, 3, len(list(conversion._text_files(Store(store)))) - 3):  # noqa: B007 - read above
        with pytest.raises(StoreError, match=r"No space left.*repeat the command"):
            convert(store, os.environ)
        assert_refused(medhelm("leaderboard", "--store", store), f"`medhelm {command}`")
    left = 10**6
    assert convert(store, os.environ).changed
    with without_key() if convert is decrypt_store else nullcontext():
        assert medhelm(*COMMANDS[0], "--store", store).json == board


def test_a_wrong_or_missing_key_is_one_message_and_changes_nothing(
    store: Path, medhelm: Medhelm, monkeypatch: pytest.MonkeyPatch
) -> None:
    encrypt_store(store, os.environ)
    before = digests(store)
    for key, code, words in (("", 4, "key is missing"), (KEYS[1], 2, "with the key of fingerprint")):
        monkeypatch.setenv(KEY_VARIABLE, key)
        for command in (COMMANDS[0], ("decrypt",), ("encrypt", "--new-key"), ("purge", "--all", "--yes")):
            done = medhelm(*command, "--store", store)
            assert_refused(done, words, code=code)
            assert KEYS[1] not in done.err
    assert digests(store) == before


def test_a_new_key_opens_the_store_and_the_old_one_does_not(
    store: Path, medhelm: Medhelm, monkeypatch: pytest.MonkeyPatch
) -> None:
    encrypt_store(store, os.environ)
    before = digests(store)
    monkeypatch.setenv(KEY_VARIABLE, f"{KEYS[1]}\n{KEYS[0]}")
    done = medhelm("encrypt", "--new-key", "--json", "--store", store)
    assert (done.code, done.json["state"]) == (0, "encrypted")
    assert {name for name, digest in digests(store).items() if digest != before[name]} == {"store.json"}
    monkeypatch.setenv(KEY_VARIABLE, KEYS[1])
    assert medhelm("leaderboard", "--store", store).code == 0
    monkeypatch.setenv(KEY_VARIABLE, KEYS[0])
    lock_stores(monkeypatch)  # as in a process of its own
    assert medhelm("leaderboard", "--store", store).code == 2


def test_a_key_in_the_store_or_a_store_in_use_is_refused(
    store: Path, medhelm: Medhelm, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = digests(store)
    monkeypatch.setattr(conversion, "TIMEOUT_S", 0.1)
    with closing(sqlite3.connect(store / "cache.sqlite")) as reader:
        reader.execute("BEGIN").execute("SELECT count(*) FROM completions").fetchone()
        assert_refused(medhelm("encrypt", "--store", store), "in use")
    assert medhelm("encrypt", "--store", store).code == 0
    assert medhelm("decrypt", "--store", store).code == 0
    (store / "key").write_text(KEYS[0])
    monkeypatch.delenv(KEY_VARIABLE)
    monkeypatch.setenv(f"{KEY_VARIABLE}_FILE", str(store / "key"))
    assert_refused(medhelm("encrypt", "--store", store), "is inside the store")
    assert not [name for name, digest in before.items() if digests(store)[name] != digest and name != "cache.sqlite"]


# --- damage -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("damage", "n"), [("flipped", 1), ("swapped", 2), ("plain", 1)])
def test_a_run_with_a_damaged_file_is_left_out_with_a_warning(
    damage: str, n: int, store: Path, medhelm: Medhelm
) -> None:
    first, second = sorted(store.glob("runs/toy/*/records.parquet"))
    plain = first.read_bytes()
    encrypt_store(store, os.environ)
    encrypted = first.read_bytes()
    if damage == "swapped":
        first.write_bytes(second.read_bytes())
        second.write_bytes(encrypted)
    else:
        middle = len(encrypted) // 2
        flipped = encrypted[:middle] + bytes([encrypted[middle] ^ 1]) + encrypted[middle + 1 :]
        first.write_bytes(flipped if damage == "flipped" else plain)
    done = medhelm("leaderboard", "--format", "json", "--store", store)
    assert done.err.count("is left out") == n
    assert sum("toy" in model["benchmarks"] for model in done.json["models"]) == 2 - n
    listed = medhelm("runs", "list", "--json", "--store", store).json["runs"]
    assert sum(bool(run["problem"]) for run in listed) == n
    stopped = medhelm("decrypt", "--store", store)
    assert (stopped.code, stopped.err.count("cannot be decrypted")) == ((0, 0) if damage == "plain" else (2, n))


def test_damaged_and_swapped_rows_of_the_cache_are_found(store: Path) -> None:
    encrypt_store(store, os.environ)
    path = open_store(store).cache_file
    with closing(sqlite3.connect(path)) as database, database:
        select = "SELECT digest, text FROM completions WHERE model LIKE 'openai/a@%' AND text IS NOT NULL LIMIT 4"
        (a, text_a), (b, text_b), (c, text_c), (d, _) = database.execute(select).fetchall()
        update = "UPDATE completions SET text = ? WHERE digest = ?"
        changed = bytes([*text_c[:-1], text_c[-1] ^ 1])
        database.executemany(update, [(text_b, a), (text_a, b), (changed, c), ("plain text", d)])
    with Cache(path) as cache:
        assert [cache.get(digest) for digest in (a, b, c, d)] == [None] * 4
        assert cache.damaged == {a, b, c, d}
        cache.recover = lambda digest: None


REPORTED = "Mr. John Doe, who was admitted with chest pain"


def test_what_a_server_reports_is_encrypted_and_never_a_sentence(tmp_path: Path, store_key: str) -> None:
    """It can repeat the prompt in the name of its model."""
    folder = create(tmp_path / "store").folder
    named = Completion(text="x", reported_model="model-of-a-server", fingerprint="fp_12345678", finish_reason="stop")
    said = Completion(text="y", reported_model=REPORTED, fingerprint=REPORTED * 9, finish_reason=REPORTED)
    assert all(text.startswith("sha256:") for text in (said.reported_model, said.fingerprint, said.finish_reason))
    with Cache(folder / "cache.sqlite") as cache:
        for digest, completion in ((b"a", named), (b"b", said)):
            asyncio.run(cache.put(digest * 32, completion, model="m"))
    with Cache(folder / "cache.sqlite") as cache:
        assert [cache.get(digest * 32) for digest in (b"a", b"b")] == [named, said]
    content = b"".join(path.read_bytes() for path in folder.glob("cache.sqlite*"))
    assert not any(text.encode() in content for text in ("model-of-a-server", "fp_1234567", "John", said.fingerprint))


def test_rows_that_an_earlier_version_encrypted_are_read(
    tmp_path: Path, store_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They hold what servers report as plain text."""
    folder = create(tmp_path / "store").folder
    completion = Completion(text="x", reported_model="model-of-a-server", fingerprint="fp_1", finish_reason="stop")
    with monkeypatch.context() as patched, Cache(folder / "cache.sqlite") as cache:
        before = {place: name for place, name in SEALED.items() if name in (b"text", b"failure_message")}
        patched.setattr("medhelm.models.cache.SEALED", before)
        asyncio.run(cache.put(b"a" * 32, completion, model="m"))
    assert b"model-of-a-server" in b"".join(path.read_bytes() for path in folder.glob("cache.sqlite*"))
    with Cache(folder / "cache.sqlite") as cache:
        assert (cache.get(b"a" * 32), cache.damaged) == (completion, set())
    assert decrypt_store(folder, os.environ).completions == 1


# --- a new store ------------------------------------------------------------------------------------------------------


def test_a_new_encrypted_store_never_holds_text(
    tmp_path: Path, medhelm: Medhelm, store_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs, judges, a batch, an import, the site, exports and removal."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, "invented")
    assert medhelm("encrypt", "--store", tmp_path / "store").code == 0
    with Server() as server:
        store = make_store(medhelm, server, tmp_path)
        assert medhelm("rescore", "--store", store).code == 1  # one request of each model had failed
        assert medhelm("runs", "remove", "--model", "openai/b", "--yes", "--store", store).code == 0
    monkeypatch.setattr("medhelm.evaluation.batches.FIRST_POLL_S", 0.01)
    with BatchServer() as server:
        server.answer_with(respond)
        words = arguments(tmp_path / "toy", write_models(tmp_path / "models.yaml", server), "openai-m", "anthropic-m")
        assert medhelm(*words, "--batch", "--store", store).code == 0
        assert server.taken
    assert medhelm("export", "helm", tmp_path / "helm", "--store", store).code == 0
    assert medhelm("import", "helm", tmp_path / "helm", "--store", store).code == 0
    assert medhelm("release", "one", "--store", store).code == 0
    with make_client(store) as client:
        assert "An answer to number 1 by a" in client.get("/benchmarks/letters/cases/q1").text
        assert "q1" in client.get("/benchmarks/letters/cases?q=answer+to+number+1").text
    done = medhelm("export", "csv", tmp_path / "tables", "--with-text", "--store", store)
    assert (done.code, "the store is encrypted, but the exported files are not" in done.err) == (0, True)
    assert "An answer to number" in (tmp_path / "tables" / "records.csv").read_text(encoding="utf-8")
    assert plain_files(store, *WORDS) == []
    assert plain_files(tmp_path / "tmp", *WORDS) == []
    assert not (store / "definitions").exists(), "prompts may hold examples"
    for kind in ("prompts/*.parquet", "prompts/*.floor.json", "instances/*", "removed/*/*/*/*.parquet", "runs/*/*/*"):
        assert [is_encrypted(path) for path in store.glob(kind)].count(False) == 0
        assert list(store.glob(kind))
    assert medhelm("purge", "--all", "--yes", "--store", store).code == 0
    left = [path.name for path in store.rglob("*") if path.is_file() and is_encrypted(path)]
    assert left == ["pseudonyms.key"]
