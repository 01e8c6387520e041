"""Encrypting a store: conversion, keys, damage, and no text on the disk."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import sqlite3
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medhelm.domain import Completion, Failure
from medhelm.errors import StoreError
from medhelm.extensions.vault import commands as conversion
from medhelm.extensions.vault.commands import ConvertedStore, decrypt_store, encrypt_store
from medhelm.io import folders as work_folders
from medhelm.io.files import KEY_VARIABLE, is_encrypted
from medhelm.io.folders import atomic_file
from medhelm.models.cache import SEALED, Cache
from medhelm.models.cache_reader import CacheReader
from medhelm.storage.store import Store, _write_new_manifest, create, open_store
from tests.support.benchmarks.batched import arguments, respond, write_models
from tests.support.cli import Medhelm
from tests.support.encryption import KEYS, lock_stores, plain_files, without_key
from tests.support.evaluated_store import JUDGES, copy_of_store, make_store
from tests.support.servers.batch_apis import BatchServer
from tests.support.servers.openai import Server
from tests.support.web.sites import make_client

WORDS = ("An answer to number", "HYPERLINK", "The answer to number", "it is 3", "it is 4", "Question number", "no idea")
"""Words of prompts, completions, references and judgments of the store."""

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
        return copy_of_store(medhelm, tmp_path, tmp_path_factory.getbasetemp() / "store-to-encrypt")


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
    """Digest of every file in a store, without locks and what SQLite makes for readers."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix != ".lock" and not path.name.endswith(("-shm", "-wal"))
    }


def test_commands_say_of_an_encrypted_store_what_they_said_before(store: Path, medhelm: Medhelm) -> None:
    with without_key():
        before, was = outputs(medhelm, store), digests(store)
    done = encrypt_store(store, os.environ)
    assert plain_files(store, *WORDS) == []
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
    for command in (*COMMANDS, ("rescore",), ("run", store.parent / "toy", "--model", "baseline/random")):
        refused = medhelm(*command, "--store", store)
        assert (refused.code, "is not encrypted, and MEDHELM_STORE_KEY is set" in refused.err) == (2, True), command
        assert "`medhelm encrypt --store" in refused.err
    assert digests(store) == before
    new = store.parent / "new"
    assert medhelm("run", store.parent / "toy", "--model", "baseline/random", "--store", new).code == 0
    assert plain_files(new, *WORDS) == []
    assert medhelm("leaderboard", "--store", new).code == 0
    monkeypatch.delenv(KEY_VARIABLE)
    lock_stores(monkeypatch)
    assert medhelm("leaderboard", "--store", new).code == 4
    assert medhelm("leaderboard", "--store", store).code == 0


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
    for command in (*COMMANDS, ("rescore",), ("run", store.parent / "toy", "--model", "baseline/random")):
        refused = medhelm(*command, "--store", store)
        words = "MEDHELM_STORE_KEY is set" if has_key else "Restore the one that `medhelm encrypt` wrote"
        assert (refused.code, words in refused.err) == (2, True), (command, refused.err)
    assert digests(store) == before
    if not has_key:
        shutil.rmtree(store / "runs")
        shutil.rmtree(store / "prompts")
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


def test_finished_runs_are_continued_judged_and_scored_without_a_request(store: Path, medhelm: Medhelm) -> None:
    encrypt_store(store, os.environ)
    runs = [
        (run["model"], run["benchmark"]) for run in medhelm("runs", "list", "--json", "--store", store).json["runs"]
    ]
    for folder in store.glob("runs/*/*"):
        shutil.rmtree(folder)
    port = (store.parent / "port").read_text()
    url = f"http://127.0.0.1:{port}/v1"
    models = [word for name in ("a", "b") for word in ("--model", f"openai/{name}@{url}")]
    judges = [word for name in JUDGES for word in ("--judge", f"openai/{name}@{url}")]
    benchmarks = [store.parent / name for name in ("toy", "grouped", "letters")]
    done = medhelm("run", *benchmarks, *models, *judges, "--store", store, "--attempts", "1", "--json")
    assert done.json["requests_sent"] <= 2  # one failed before, for each benchmark with letters
    assert sorted((run["model"], run["benchmark"]) for run in done.json["runs"]) == sorted(runs)
    assert medhelm("rescore", "--store", store).code in (0, 1)
    assert plain_files(store, *WORDS) == []


def test_an_interrupted_conversion_is_continued_wherever_it_ended(
    store: Path, medhelm: Medhelm, monkeypatch: pytest.MonkeyPatch
) -> None:
    with without_key():
        board = medhelm(*COMMANDS[0], "--store", store).json
    whole = len(list(conversion._text_files(Store(store)))) + 1  # and the cache
    left = 0

    def failing(path: Path, **options: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(28, "No space left on device")
        return atomic_file(path, **options)

    monkeypatch.setattr(conversion, "atomic_file", failing)
    for convert, command in ((encrypt_store, "medhelm encrypt"), (decrypt_store, "medhelm decrypt")):
        for end in (0, 3, whole - 4):
            left = end
            with pytest.raises(StoreError, match=r"No space left.*repeat the command"):
                convert(store, os.environ)
            refused = medhelm("leaderboard", "--store", store)
            assert refused.code == 2
            assert f"`{command}`" in refused.err
        left = 10**6
        assert convert(store, os.environ).changed
        with without_key() if convert is decrypt_store else nullcontext():
            assert medhelm(*COMMANDS[0], "--store", store).json == board


@pytest.mark.parametrize("convert", [encrypt_store, decrypt_store])
def test_a_killed_conversion_leaves_nothing_in_the_folders_of_runs(
    store: Path, monkeypatch: pytest.MonkeyPatch, convert: Any
) -> None:
    """Only the folder of the store, and those just below it, are cleared by every command."""
    if convert is decrypt_store:
        encrypt_store(store, os.environ)
    made: list[Path] = []
    make = work_folders.WorkFolder._make

    def noting(work: work_folders.WorkFolder, parent: Path) -> None:
        make(work, parent)
        made.append(work.path)

    monkeypatch.setattr(work_folders.WorkFolder, "_make", noting)
    convert(store, os.environ)
    inside = [path for path in made if path.is_relative_to(store)]
    assert inside
    assert {path.parent for path in inside} == {store}


def test_a_wrong_or_missing_key_is_one_message_and_changes_nothing(
    store: Path, medhelm: Medhelm, monkeypatch: pytest.MonkeyPatch
) -> None:
    encrypt_store(store, os.environ)
    before = digests(store)
    for keys, code, words in (({}, 4, "key is missing"), ({KEY_VARIABLE: KEYS[1]}, 2, "with the key of fingerprint")):
        monkeypatch.delenv(KEY_VARIABLE, raising=False)
        for name, value in keys.items():
            monkeypatch.setenv(name, value)
        for command in (
            *COMMANDS,
            ("decrypt",),
            ("encrypt",),
            ("encrypt", "--new-key"),
            ("rescore",),
            ("purge", "--all", "--yes"),
        ):
            done = medhelm(*command, "--store", store)
            assert (done.code, done.out) == (code, ""), command
            assert words in done.err
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
        busy = medhelm("encrypt", "--store", store)
    assert busy.code == 2
    assert "in use" in busy.err
    assert medhelm("encrypt", "--store", store).code == 0
    assert medhelm("decrypt", "--store", store).code == 0
    (store / "key").write_text(KEYS[0])
    monkeypatch.delenv(KEY_VARIABLE)
    monkeypatch.setenv(f"{KEY_VARIABLE}_FILE", str(store / "key"))
    inside = medhelm("encrypt", "--store", store)
    assert (inside.code, "is inside the store" in inside.err) == (2, True)
    assert not [name for name, digest in before.items() if digests(store)[name] != digest and name != "cache.sqlite"]


# --- damage -----------------------------------------------------------------------------------------------------------


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def swap(path: Path, other: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(other.read_bytes())
    other.write_bytes(content)


@pytest.mark.parametrize("damage", ["flipped", "truncated", "swapped", "plain"])
def test_a_run_with_a_damaged_file_is_left_out_with_a_warning(damage: str, store: Path, medhelm: Medhelm) -> None:
    plain = {path: path.read_bytes() for path in store.glob("runs/toy/*/records.parquet")}
    encrypt_store(store, os.environ)
    first, second = sorted(plain)
    match damage:
        case "flipped":
            flip(first)
        case "truncated":
            first.write_bytes(first.read_bytes()[:-100])
        case "swapped":
            swap(first, second)
        case _:
            first.write_bytes(plain[first])
    n = 2 if damage == "swapped" else 1
    done = medhelm("leaderboard", "--format", "json", "--store", store)
    assert done.err.count("is left out") == n
    assert "Traceback" not in done.err
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
    named = Completion(
        text="x", reported_model="model-of-a-server", fingerprint="fp_12345678", finish_reason="end_turn"
    )
    said = Completion(text="y", reported_model=REPORTED, fingerprint=REPORTED * 9, finish_reason=REPORTED)
    assert all(text.startswith("sha256:") for text in (said.reported_model, said.fingerprint, said.finish_reason))
    assert replace(said, text="z").reported_model == said.reported_model

    async def put() -> None:
        with Cache(folder / "cache.sqlite") as cache:
            await cache.put(b"a" * 32, named, model="m")
            await cache.put(b"b" * 32, said, model="m")

    asyncio.run(put())
    with Cache(folder / "cache.sqlite") as cache:
        assert [cache.get(digest * 32) for digest in (b"a", b"b")] == [named, said]
    content = b"".join(path.read_bytes() for path in folder.glob("cache.sqlite*"))
    for text in ("model-of-a-server", "fp_1234567", "John", said.fingerprint):
        assert text.encode() not in content


def test_rows_that_an_earlier_version_encrypted_are_read(
    tmp_path: Path, store_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They hold what servers report as plain text."""
    folder = create(tmp_path / "store").folder
    before = {place: name for place, name in SEALED.items() if name in (b"text", b"failure_message")}
    completion = Completion(text="x", reported_model="model-of-a-server", fingerprint="fp_1", finish_reason="stop")
    refused = Completion(failure=Failure("provider", "refusal", "no"), reported_model="model-of-a-server")
    with monkeypatch.context() as patched, Cache(folder / "cache.sqlite") as cache:
        patched.setattr("medhelm.models.cache.SEALED", before)
        asyncio.run(cache.put(b"a" * 32, completion, model="m"))
        asyncio.run(cache.put(b"b" * 32, refused, model="m"))
    assert b"model-of-a-server" in b"".join(path.read_bytes() for path in folder.glob("cache.sqlite*"))
    with Cache(folder / "cache.sqlite") as cache:
        assert [cache.get(digest * 32) for digest in (b"a", b"b")] == [completion, refused]
        assert cache.damaged == set()
    assert decrypt_store(folder, os.environ).completions == 2


def test_damaged_rows_are_left_out_of_the_conversion(store: Path) -> None:
    with closing(sqlite3.connect(store / "cache.sqlite")) as database, database:
        database.execute("UPDATE completions SET text = 'other' WHERE rowid IN (1, 2) AND text IS NOT NULL")
        database.execute("UPDATE completions SET input = 'many' WHERE rowid = 3")
    done = encrypt_store(store, os.environ)
    assert (done.completions, done.damaged) == (86, 3)
    with closing(sqlite3.connect(store / "cache.sqlite")) as database, database:
        database.execute("UPDATE completions SET output = 'many' WHERE rowid = 1")
    back = decrypt_store(store, os.environ)
    assert (back.completions, back.damaged) == (85, 1)


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
    for kind in ("prompts/*.parquet", "prompts/*.floor.json", "instances/*", "removed/*/*/*/*.parquet", "runs/*/*/*"):
        assert [is_encrypted(path) for path in store.glob(kind)].count(False) == 0
        assert list(store.glob(kind))
    assert medhelm("purge", "--all", "--yes", "--store", store).code == 0
    left = [path.name for path in store.rglob("*") if path.is_file() and is_encrypted(path)]
    assert left == ["pseudonyms.key"]
