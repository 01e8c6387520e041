"""`medhelm run --shard` and `medhelm merge`: what they print and refuse."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from medhelm.io.files import KEY_VARIABLE
from tests.support.benchmarks.choice import answers_with, make_benchmark, perfect
from tests.support.cases import check_cases
from tests.support.cli import Medhelm, Outcome, assert_refused
from tests.support.encryption import plain_files
from tests.support.servers.openai import Answer, Server

N = 12


@pytest.fixture
def place(tmp_path: Path, server: Server) -> Path:
    server.answer_with(answers_with(perfect))
    return make_benchmark(tmp_path, n=N)


def run(medhelm: Medhelm, place: Path, server: Server, shard: str, store: str, *more: str) -> Outcome:
    return medhelm("run", place, "--model", server.model(), "--shard", shard, "--store", store, *more)


@pytest.fixture
def halves(medhelm: Medhelm, place: Path, server: Server) -> None:
    """Both halves of a run, each in a store of its own: a and b."""
    for shard, store in (("1/2", "a"), ("2/2", "b")):
        assert run(medhelm, place, server, shard, store).code == 0


def change_header(store: str, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the header of the shard in a store."""
    (file,) = Path(store).glob("runs/toy/*/run.json")
    content = json.loads(file.read_text(encoding="utf-8"))
    change(content)
    file.write_text(json.dumps(content), encoding="utf-8")


def merge(medhelm: Medhelm, place: Path, *stores: str) -> Outcome:
    return medhelm("merge", *stores, "--store", "all", "--benchmarks", place.parent)


def test_shards_count_once_they_are_merged(medhelm: Medhelm, place: Path, server: Server) -> None:
    good = answers_with(perfect)
    server.answer_with(lambda body: Answer(status=400) if "number 3?" in str(body) else good(body))
    first = run(medhelm, place, server, "1/2", "a")
    assert "complete, shard 1/2" in first.out
    assert "medhelm merge STORE... --store TARGET" in first.err
    assert_refused(medhelm("leaderboard", "--store", "a"), "no finished run", "`medhelm merge STORE...`")
    assert_refused(merge(medhelm, place, "a"), "2/2 is missing", "Nothing was merged.")
    assert run(medhelm, place, server, "2/2", "b", "--json").json["runs"][0]["shard"] == "2/2"
    medhelm("run", place, "--model", "baseline/majority", "--store", "a")
    board = " ".join(medhelm("leaderboard", "--store", "a").out.split())
    assert f"Not counted, because they are parts of runs: toy with {server.model()} (1/2)" in board
    assert merge(medhelm, place, "a", "b").code == 1, "as a run with a failure"
    (row,) = medhelm("leaderboard", "--store", "all", "--json").json["models"]
    assert (row["model"], row["benchmarks"]["toy"]["n"]) == (server.model(), N - 1)


def test_missing_and_unfinished_shards_are_named_with_their_commands(
    medhelm: Medhelm, place: Path, server: Server
) -> None:
    for shard, store in (("1/4", "a"), ("2/4", "b")):
        assert run(medhelm, place, server, shard, store, "--limit", "10").code == 0
    change_header("b", lambda header: header.update(status="partial", n_failed=1))
    said = " ".join(merge(medhelm, place, "a", "b").err.split())
    command = f"medhelm run toy --model {server.model()} --limit 10 --shard"
    assert "shard 2/4 in b is unfinished" in said
    assert f"{command} 2/4 --store b" in said
    assert f"3/4 and 4/4 are missing. Name the stores of all shards, or run: {command} 3/4 --store STORE" in said
    assert not Path("all").exists()


@pytest.mark.usefixtures("halves")
def test_overlapping_shards_are_named(medhelm: Medhelm, place: Path, server: Server) -> None:
    run(medhelm, place, server, "3/3", "c")
    said = " ".join(merge(medhelm, place, "a", "b", "c").err.split())
    assert "its shards overlap, because the run was divided in several ways (of 2: 1/2 in a and 2/2 in b; of 3:" in said
    shutil.copytree("b", "b2")
    assert_refused(merge(medhelm, place, "a", "b", "b2"), "shard 2/2 is in b and b2. Name one of them.")
    assert merge(medhelm, place, "a", "b", "b").code == 0


def test_shards_of_different_runs_are_refused_with_what_differs(medhelm: Medhelm, place: Path, server: Server) -> None:
    for shard, store, seed in (("1/2", "a", "1"), ("2/2", "b", "2"), ("1/2", "c", "2")):
        run(medhelm, place, server, shard, store, "--seed", seed)
    said = " ".join(merge(medhelm, place, "a", "b").err.split())
    assert "its shards are of different runs: the data is" in said
    assert "the setting seed is 1 in 1/2 in a; 2 in 2/2 in b" in said
    file = place / "benchmark.yaml"
    definition = file.read_text()
    file.write_text(definition.replace("max_tokens: 5", "max_tokens: 6"))
    assert_refused(merge(medhelm, place, "b", "c"), "the definition has changed since its shards were run")
    file.write_text(definition)
    change_header("c", lambda header: header["versions"].update(medhelm="0.1.9"))
    said = " ".join(merge(medhelm, place, "b", "c").err.split())
    assert "its shards were run by different versions: medhelm 0.1.9" in said


@pytest.mark.usefixtures("halves")
def test_damaged_records_are_named_and_nothing_is_visible(medhelm: Medhelm, place: Path) -> None:
    (file,) = Path("b").glob("runs/*/*/records.parquet")
    (other,) = Path("a").glob("runs/*/*/records.parquet")
    kept = file.read_bytes()
    file.write_bytes(b"PAR1")
    refused = merge(medhelm, place, "a", "b")
    assert_refused(refused, "records.parquet is missing or damaged", "medhelm runs remove ")
    shutil.copy(other, file)
    assert_refused(merge(medhelm, place, "a", "b"), "is not one of shard 2/2")
    file.write_bytes(kept)
    with duckdb.connect() as database:
        database.execute(f"CREATE TABLE t AS SELECT * FROM read_parquet('{file}')")
        database.execute("UPDATE t SET instance_id = (SELECT min(instance_id) FROM t)")
        database.execute(f"COPY t TO '{file}' (FORMAT parquet)")
    assert_refused(merge(medhelm, place, "a", "b"), "or is there twice")
    assert not list(Path("all").glob("runs/*/*/run.json"))
    name = refused.err.partition("medhelm runs remove ")[2].partition("`")[0]
    assert medhelm("runs", "remove", name, "--store", "b", "--yes").code == 0
    assert list(Path("b").glob("runs/toy/*")) == []


WRONG_HEADERS: list[tuple[str, Any, str]] = [
    ("shard", {"count": 10_001}, "N up to 10,000"),
    ("shard", {"count": 10**30, "index": 10**29}, "is damaged"),
    ("shard", {"index": 0}, "is damaged"),
    ("shard", {"n_in_run": -1}, "its shards name different numbers of instances"),
    ("seconds", 1e999, "the start or the duration of a shard"),
    ("started", "2026-01-01", "the start or the duration of a shard"),
]


@pytest.mark.usefixtures("halves")
def test_numbers_and_times_of_a_shard_are_checked_before_they_are_used(medhelm: Medhelm, place: Path) -> None:
    (file,) = Path("a").glob("runs/toy/*/run.json")
    text = file.read_text(encoding="utf-8")

    def check(case: tuple[str, Any, str]) -> None:
        key, value, words = case
        header = json.loads(text)
        changed = {**header, key: {**header[key], **value} if key == "shard" else value}
        file.write_text(json.dumps(changed), encoding="utf-8")
        assert_refused(merge(medhelm, place, "a", "b"), words)
        assert not list(Path("all").glob("runs/*/*"))

    check_cases(WRONG_HEADERS, check)


def test_encrypted_shards_are_merged_into_a_store_that_is_encrypted_from_the_start(
    medhelm: Medhelm, place: Path, server: Server, store_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, store_key)  # the fixture `medhelm` deletes it
    for shard, store in (("1/2", "a"), ("2/2", "b")):
        assert medhelm("encrypt", "--store", store).code == 0
        assert run(medhelm, place, server, shard, store).code == 0
    Path("all").mkdir()
    Path("all", "store.json").write_text('{"medhelm_store": 1}', encoding="utf-8")
    assert_refused(merge(medhelm, place, "a", "b"), "the store all is not encrypted, and MEDHELM_STORE_KEY is set")
    shutil.rmtree("all")
    assert merge(medhelm, place, "a", "b").code == 0
    assert plain_files(Path("all"), "Question", "good", "B. bad", '"bad"') == []  # a random key may hold "bad"
    assert "Question" in medhelm("show", "toy", "q1", "--store", "all").out
    again = medhelm("run", place, "--model", server.model(), "--store", "all", "--json").json
    assert (again["runs"][0]["requests_sent"], again["runs"][0]["n"]) == (0, N)
