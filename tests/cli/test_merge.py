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
from tests.support.cli import Medhelm, Outcome, assert_refused
from tests.support.encryption import plain_files
from tests.support.servers.openai import Answer, Server

N = 12


@pytest.fixture
def place(tmp_path: Path, server: Server) -> Path:
    server.answer_with(answers_with(perfect))
    return make_benchmark(tmp_path, n=N)


def model(server: Server) -> str:
    return f"openai/mock@{server.url}/v1"


def run(medhelm: Medhelm, place: Path, server: Server, shard: str, store: str, *more: str) -> Outcome:
    return medhelm("run", place, "--model", model(server), "--shard", shard, "--store", store, *more)


def two_shards(medhelm: Medhelm, place: Path, server: Server, *more: str) -> None:
    """Run both halves, each into a store of its own: a and b."""
    for shard, store in (("1/2", "a"), ("2/2", "b")):
        run(medhelm, place, server, shard, store, *more)


def change_header(store: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the header of the shard in a store."""
    (file,) = Path(store).glob("runs/toy/*/run.json")
    content = json.loads(file.read_text(encoding="utf-8"))
    change(content)
    file.write_text(json.dumps(content), encoding="utf-8")


def merge(medhelm: Medhelm, place: Path, *stores: str) -> Outcome:
    return medhelm("merge", *stores, "--store", "all", "--benchmarks", place.parent)


def test_shards_count_once_they_are_merged(medhelm: Medhelm, place: Path, server: Server) -> None:
    first = run(medhelm, place, server, "1/2", "a")
    assert first.code == 0
    assert "complete, shard 1/2" in first.out
    assert "medhelm merge STORE... --store TARGET" in first.err
    assert run(medhelm, place, server, "2/2", "b", "--json").json["runs"][0]["shard"] == "2/2"
    assert_refused(medhelm("leaderboard", "--store", "a"), "no finished run", "`medhelm merge STORE...`")
    medhelm("run", place, "--model", "baseline/majority", "--store", "a")
    board = medhelm("leaderboard", "--store", "a")
    assert f"Not counted, because they are parts of runs: toy with {model(server)} (1/2)" in " ".join(board.out.split())
    found = merge(medhelm, place, "a", "b")
    assert found.code == 0
    assert "toy with openai/mock" in found.err
    board = medhelm("leaderboard", "--store", "all", "--format", "json")
    assert [one["model"] for one in board.json["models"]] == [model(server)]
    assert board.json["models"][0]["benchmarks"]["toy"]["n"] == N
    assert "run, shard 1/2" in medhelm("runs", "list", "--store", "a").out


def test_a_damaged_shard_can_be_removed_by_the_id_in_the_message(medhelm: Medhelm, place: Path, server: Server) -> None:
    for shard in ("1/2", "2/2"):
        run(medhelm, place, server, shard, "a")
    (file,) = Path("a").glob("runs/toy/*_1of2/records.parquet")
    file.write_bytes(b"no table" * 9)
    refused = merge(medhelm, place, "a")
    assert (refused.code, str(file) in refused.err) == (2, True)
    name = refused.err.partition("medhelm runs remove ")[2].partition("`")[0]
    assert name.endswith("_1of2")
    assert medhelm("runs", "remove", name, "--store", "a", "--yes").code == 0
    assert [path.name.endswith("_2of2") for path in Path("a").glob("runs/toy/*")] == [True]


def test_a_plan_of_a_shard_counts_its_requests(medhelm: Medhelm, place: Path, server: Server) -> None:
    plans = [medhelm("plan", place, "--model", model(server), "--shard", f"{i}/3", "--json").json for i in (1, 2, 3)]
    assert sum(plan["requests"] for plan in plans) == N
    assert all(plan["requests"] < N for plan in plans)


def test_missing_and_unfinished_shards_are_named_with_their_commands(
    medhelm: Medhelm, place: Path, server: Server
) -> None:
    run(medhelm, place, server, "1/4", "a", "--limit", "10")
    whole = run(medhelm, place, server, "2/4", "b", "--limit", "10")
    assert whole.code == 0
    change_header("b", lambda header: header.update(status="partial", n_failed=1))
    found = merge(medhelm, place, "a", "b")
    assert (found.code, found.out) == (2, "")
    said = " ".join(found.err.split())
    command = f"medhelm run toy --model {model(server)} --limit 10 --shard"
    assert "shard 2/4 in b is unfinished" in said
    assert f"{command} 2/4 --store b" in said
    assert f"3/4 and 4/4 are missing. Name the stores of all shards, or run: {command} 3/4 --store STORE" in said
    assert "Nothing was merged." in said
    assert not Path("all").exists()


def test_overlapping_shards_are_named(medhelm: Medhelm, place: Path, server: Server) -> None:
    for shard, store in (("1/2", "a"), ("2/2", "b"), ("3/3", "c")):
        run(medhelm, place, server, shard, store)
    found = merge(medhelm, place, "a", "b", "c")
    assert found.code == 2
    assert (
        "its shards overlap, because the run was divided in several ways (of 2: 1/2 in a and 2/2 in b; of 3: 3/3 in c)"
        in (" ".join(found.err.split()))
    )
    shutil.copytree("b", "b2")
    assert_refused(merge(medhelm, place, "a", "b", "b2"), "shard 2/2 is in b and b2. Name one of them.")
    assert merge(medhelm, place, "a", "b", "b").code == 0


def test_shards_of_different_runs_are_refused_with_what_differs(medhelm: Medhelm, place: Path, server: Server) -> None:
    run(medhelm, place, server, "1/2", "a", "--seed", "1")
    run(medhelm, place, server, "2/2", "b", "--seed", "2")
    said = " ".join(merge(medhelm, place, "a", "b").err.split())
    assert "its shards are of different runs: the data is" in said
    assert "the setting seed is 1 in 1/2 in a; 2 in 2/2 in b" in said
    run(medhelm, place, server, "1/2", "c", "--seed", "2")
    change_header("c", lambda header: header["versions"].update(medhelm="0.1.9"))
    said = " ".join(merge(medhelm, place, "b", "c").err.split())
    assert "its shards were run by different versions: medhelm 0.1.9" in said
    assert "not requested again" in said


def test_a_changed_definition_is_refused(medhelm: Medhelm, place: Path, server: Server) -> None:
    two_shards(medhelm, place, server)
    file = place / "benchmark.yaml"
    file.write_text(file.read_text().replace("max_tokens: 5", "max_tokens: 6"))
    assert_refused(merge(medhelm, place, "a", "b"), "the definition has changed since its shards were run")


def test_damaged_records_are_named_and_nothing_is_visible(medhelm: Medhelm, place: Path, server: Server) -> None:
    two_shards(medhelm, place, server)
    (file,) = Path("b").glob("runs/*/*/records.parquet")
    (other,) = Path("a").glob("runs/*/*/records.parquet")
    kept = file.read_bytes()
    file.write_bytes(b"PAR1")
    assert_refused(merge(medhelm, place, "a", "b"), "records.parquet is missing or damaged")
    shutil.copy(other, file)
    assert_refused(merge(medhelm, place, "a", "b"), "is not one of shard 2/2")
    assert not list(Path("all").glob("runs/*/*/run.json"))
    file.write_bytes(kept)
    assert merge(medhelm, place, "a", "b").code == 0


def test_failures_have_the_exit_code_of_a_run(medhelm: Medhelm, place: Path, server: Server) -> None:
    good = answers_with(perfect)
    server.answer_with(lambda body: Answer(status=400) if "number 3?" in str(body) else good(body))
    two_shards(medhelm, place, server, "--attempts", "1")
    found = merge(medhelm, place, "a", "b")
    assert (found.code, "1 " in found.out) == (1, True)


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ({"count": 10_001}, "N up to 10,000"),
        ({"count": 10**30, "index": 10**29}, "is damaged"),
        ({"index": 0}, "is damaged"),
        ({"count": 10_000}, "its shards overlap"),
        ({"n_in_run": 10**12}, "its shards name different numbers of instances"),
        ({"n_in_run": -1}, "its shards name different numbers of instances"),
    ],
)
def test_numbers_of_a_shard_are_checked_before_they_are_used(
    medhelm: Medhelm, place: Path, server: Server, numbers: dict[str, int], words: str
) -> None:
    two_shards(medhelm, place, server)
    change_header("a", lambda header: header["shard"].update(numbers))
    assert_refused(merge(medhelm, place, "a", "b"), words)
    assert not list(Path("all").glob("runs/*/*"))


def test_an_enormous_run_whose_instances_are_missing_is_refused(medhelm: Medhelm, place: Path, server: Server) -> None:
    two_shards(medhelm, place, server)
    for store in ("a", "b"):
        change_header(store, lambda header: header["shard"].update(n_in_run=10**12))
    assert_refused(merge(medhelm, place, "a", "b"), "of 1,000,000,000,000 instances are in no shard")


@pytest.mark.parametrize(
    "change", [{"seconds": 1e999}, {"seconds": 1e300}, {"started": "soon"}, {"started": "2026-01-01"}]
)
def test_a_shard_without_a_time_is_refused(
    medhelm: Medhelm, place: Path, server: Server, change: dict[str, object]
) -> None:
    two_shards(medhelm, place, server)
    change_header("a", lambda header: header.update(change))
    assert_refused(merge(medhelm, place, "a", "b"), "the start or the duration of a shard")


def test_an_instance_that_is_there_twice_is_found_by_its_id(medhelm: Medhelm, place: Path, server: Server) -> None:
    two_shards(medhelm, place, server)
    (file,) = Path("a").glob("runs/toy/*/records.parquet")
    with duckdb.connect() as database:
        database.execute(f"CREATE TABLE t AS SELECT * FROM read_parquet('{file}')")
        database.execute("UPDATE t SET instance_id = (SELECT min(instance_id) FROM t)")
        file.unlink()
        database.execute(f"COPY t TO '{file}' (FORMAT parquet)")
    assert_refused(merge(medhelm, place, "a", "b"), "or is there twice")


def test_stores_without_shards_are_refused(medhelm: Medhelm, place: Path) -> None:
    medhelm("run", place, "--model", "baseline/majority", "--store", "a")
    assert_refused(merge(medhelm, place, "a"), "no shards in a. `medhelm run --shard I/N` writes them.")


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
    again = medhelm("run", place, "--model", model(server), "--store", "all", "--json").json
    assert (again["runs"][0]["requests_sent"], again["runs"][0]["n"]) == (0, N)
