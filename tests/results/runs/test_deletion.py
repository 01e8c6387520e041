"""The text of single instances is deleted down to the bytes of all files, and nothing else changes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from medhelm.io.files import open_file
from medhelm.io.parquet import connect, sql_path
from medhelm.models.cache_reader import CacheReader
from medhelm.storage.annotations import add_annotation, new_annotation
from medhelm.storage.privacy import read_deletions
from medhelm.storage.runs import load_runs, load_shards, read_records
from medhelm.storage.store import open_store
from tests.support.benchmarks import judged
from tests.support.benchmarks.choice import answers_with, chat, make_benchmark, perfect
from tests.support.benchmarks.judged import is_judge, number
from tests.support.cli import Medhelm, assert_refused, succeeded
from tests.support.made_once import made_once
from tests.support.servers.openai import Answer, Server
from tests.support.values import present

DEFINITION = judged.DEFINITION.replace("prompt: |", "cluster: patient\nmetadata: [ward]\nprompt: |")

N = 8
GONE = (2, 5)
"""Numbers of the deleted instances: those of one patient."""

STORE = Path("medhelm-store")


def canary(kind: str, n: int) -> str:
    """A word that only one field of one instance has."""
    return f"canary{kind}{n}end"


def answer(body: Mapping[str, Any]) -> Answer:
    """Completions and explanations with canaries; the model `b` fails on instance 5 with a message that quotes it."""
    n = number(body)
    if is_judge(body):
        cell = {"score": 1 + n % 5, "explanation": f"It says {canary('explanation', n)}, I {body['model']} think."}
        return chat(json.dumps(dict.fromkeys(judged.CRITERIA, cell)))
    if body["model"] == "b" and n == 5:
        return Answer(status=400, body={"error": {"message": f"I refuse {canary('failure', n)}", "code": "bad"}})
    return chat(f"A completion with {canary('completion', n)} by {body['model']}")


def write_benchmark(folder: Path) -> Path:
    place = judged.write_benchmark(folder, definition=DEFINITION)
    with (place / "rows.jsonl").open("w", encoding="utf-8") as file:
        for n in range(N):
            row = {
                "id": f"id{canary('id', n)}",
                "question": f"number {n}? {canary('question', n)}",
                "reply": f"A reference {canary('reference', n)}",
                "patient": f"7700098765{n % 3}",
                "ward": f"ward {canary('ward', n)}",
            }
            file.write(json.dumps(row) + "\n")
    return place


def models(server: Server, *names: str) -> list[str]:
    return [f"--model=openai/{name}@{server.url}/v1" for name in names]


def judges(server: Server) -> list[str]:
    return [f"--judge=openai/{name}@{server.url}/v1" for name in ("judge-1", "judge-2")]


def add_notes(folder: Path) -> None:
    """Give each instance a note with a canary, and its completion by one model another one."""
    for n in range(N):
        for model in ("", "openai/a"):
            note = new_annotation("letters", f"id{canary('id', n)}", model=model, note=f"See {canary('note', n)}")
            add_annotation(open_store(folder), note)


@pytest.fixture(params=["plain", "encrypted"])
def store(tmp_path: Path, medhelm: Medhelm, server: Server, request: pytest.FixtureRequest) -> Path:
    """Two models with two judges, a fresh run, a shard, a removed run, replaced judges, and an interrupted run."""
    encrypted = request.param == "encrypted"
    if encrypted:
        request.getfixturevalue("store_key")

    def make() -> None:
        place = write_benchmark(tmp_path)
        server.answer_with(answer)
        if encrypted:
            assert medhelm("encrypt").code == 0
        jury = judges(server)
        assert medhelm("run", place, *models(server, "a", "b"), *jury, "--attempts", "1").code == 1
        assert medhelm("run", place, *models(server, "a"), *jury, "--fresh").code == 0
        assert medhelm("run", place, *models(server, "c"), *jury, "--shard", "1/2").code == 0
        assert medhelm("run", place, *models(server, "d"), *jury).code == 0
        assert medhelm("runs", "remove", "--model", "openai/d@127.0.0.1", "--yes").code in (0, 2)
        assert medhelm("run", place, *models(server, "e"), *jury).code == 0
        shutil.rmtree(next((tmp_path / STORE / "runs" / "letters").glob("*e_*")), ignore_errors=True)
        add_notes(tmp_path / STORE)

    made_once(tmp_path, f"{__name__}-{request.param}", make)
    return tmp_path / STORE


def whole(folder: Path) -> bytes:
    """All bytes below a folder, with all tables, texts and rows of the cache as they read."""
    found = [path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()]
    found += [path.as_posix().encode() for path in sorted(folder.rglob("*"))]
    for path in folder.rglob("*.parquet"):
        with connect() as connection:
            found.append(repr(connection.execute(f"SELECT * FROM read_parquet({sql_path(path)})").fetchall()).encode())
    for path in folder.rglob("*.json*"):
        try:
            with open_file(path, "rb") as file:
                found.append(file.read())
        except ValueError:  # a plain file of an encrypted store
            continue
    for cache in folder.rglob("cache.sqlite"):
        with CacheReader(cache) as reader:
            found.append(repr(list(reader.texts())).encode())
    return b"\n".join(found)


KINDS = ("id", "question", "reference", "completion", "explanation", "failure", "ward", "note")


def hits(folder: Path, *numbers: int) -> dict[int, dict[str, int]]:
    """Count the canaries of some instances below a folder, those of all without numbers."""
    content = whole(folder)
    return {
        n: {kind: found for kind in KINDS if (found := content.count(canary(kind, n).encode()))}
        for n in numbers or range(N)
    }


def kinds(folder: Path) -> dict[int, set[str]]:
    """Return the kinds of canaries that are left of each instance."""
    return {n: set(found) for n, found in hits(folder).items()}


NOTHING: dict[int, dict[str, int]] = {n: {} for n in GONE}


def test_nothing_is_left_of_a_patient_and_everything_of_the_others(store: Path, medhelm: Medhelm) -> None:
    patient = ("--cluster", "letters:77000987652")
    before = kinds(store)
    assert all(len(found) >= 4 for found in before.values())
    plan = medhelm("purge", *patient, "--dry-run", "--json").json
    assert plan["instances"] == {"letters": [f"id{canary('id', n)}" for n in GONE]}
    assert plan["places"]["annotations.jsonl"] == 2 * len(GONE)
    assert kinds(store) == before
    done = purge(medhelm, *patient)
    assert kinds(store) == before | {n: set() for n in GONE}
    assert b"77000987652" not in whole(store)
    assert {one["n"] for one in done["runs"] if one["n_before"] == N} == {N - 2}
    for run in [*load_runs(open_store(store)), *load_shards(open_store(store))]:
        assert run.n == len(list(read_records(run)))
    assert medhelm("leaderboard").code == 0
    again = medhelm("purge", *patient, "--yes")
    assert (again.code, "were deleted on" in again.out) == (0, True)


@pytest.fixture
def small(tmp_path: Path, medhelm: Medhelm, server: Server) -> Path:
    """Two models with two judges, and a release of them."""

    def make() -> None:
        place = write_benchmark(tmp_path)
        server.answer_with(answer)
        assert medhelm("run", place, *models(server, "a", "c"), *judges(server)).code == 0
        assert medhelm("release", "first", "--tier", "real").code == 0
        add_notes(tmp_path / STORE)

    made_once(tmp_path, f"{__name__}-small", make)
    return tmp_path / STORE


def purge(medhelm: Medhelm, *options: object) -> Any:
    return succeeded(medhelm("purge", *options, "--yes", "--json")).json


def name(n: int) -> str:
    return f"letters:id{canary('id', n)}"


@pytest.mark.parametrize("keep", [True, False])
def test_a_release_is_verified_with_a_note(small: Path, medhelm: Medhelm, keep: bool) -> None:
    verify = ("verify", "first", "--benchmarks", "letters", "--json")
    assert medhelm(*verify).code == 0
    before = [run.estimates for run in load_runs(open_store(small))]
    purge(medhelm, "--instance", name(3), "--instance", name(6), *(["--keep-numbers"] if keep else []))
    assert (before == [run.estimates for run in load_runs(open_store(small))]) is keep
    for command in (verify, ("verify", *verify[2:])):
        verified = succeeded(medhelm(*command)).json
        (note,) = [note for note in verified["notes"] if "deleted" in note]
        assert "2 instances were deleted on 2" in note
        assert ("numbers were kept" in note) is keep
    (file, *_) = (small / "runs" / "letters").glob("*/run.json")
    file.write_text(re.sub(r'"n": \d+,', '"n": 77,', file.read_text(), count=1))
    assert medhelm(*verify).code == 1


def test_kept_numbers_have_no_text(small: Path, medhelm: Medhelm) -> None:
    (a, _) = load_runs(open_store(small))
    grades = {row["instance_id"]: row["jury_corrected"] for row in read_records(a)}
    purge(medhelm, "--cluster", "77000987652", "--keep-numbers")
    assert hits(small, *GONE) == NOTHING
    assert b"77000987652" not in whole(small)
    (after, _) = load_runs(open_store(small))
    assert (after.n, after.cost_usd, after.usage, after.estimates) == (N, a.cost_usd, a.usage, a.estimates)
    kept = [row for row in read_records(after) if row["instance_id"].startswith("deleted-")]
    expected = [("", grades[f"id{canary('id', n)}"]) for n in GONE]
    assert [(row["completion"], row["jury_corrected"]) for row in kept] == expected
    assert len({row["cluster"] for row in kept}) == 1
    assert medhelm("leaderboard", "--json").code == medhelm("cost").code == medhelm("jury").code == 0


def test_deleted_instances_do_not_come_back_and_runs_are_counted_as_if_they_had_never_been_there(
    small: Path, medhelm: Medhelm, server: Server, tmp_path: Path
) -> None:
    purge(medhelm, "--instance", name(1))
    server.answer_with(answer)
    again = ("run", "letters", *models(server, "a", "c", "new"), *judges(server))
    sent = len(server.bodies)
    assert medhelm(*again).code == 0
    assert hits(small, 1) == {1: {}}
    assert len(server.bodies) - sent == 3 * 3 * (N - 1)
    assert medhelm("rescore", "letters").code == 0
    rows = (tmp_path / "letters" / "rows.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "letters" / "rows.jsonl").write_text("".join(rows[:1] + rows[2:]))
    assert medhelm(*again, "--store", "other").code == 0

    others = {run.model.partition("@")[0]: run for run in load_runs(open_store(Path("other")))}
    for run in load_runs(open_store(small)):
        other = others[run.model.partition("@")[0]]
        assert (run.n, run.failures, run.usage) == (N - 1, other.failures, other.usage)
        assert run.estimates == other.estimates
        assert present(run.jury_result).subscores == present(other.jury_result).subscores
        assert {tally.expected for tally in run.tallies.values()} == {3 * (N - 1)}


def test_wrong_names_are_all_named_and_nothing_is_deleted(small: Path, medhelm: Medhelm, tmp_path: Path) -> None:
    before = whole(small)
    (tmp_path / "list.csv").write_text(f"benchmark,instance_id\nletters,id{canary('id', 1)}\nletters,missing\n")
    (tmp_path / "list.txt").write_text("no-cluster\n77000987651\n")
    wrong = ["--instance", "letters:nobody", "--instance", "leters:1", "--instance", "12", "--cluster", "999"]
    done = medhelm("purge", *wrong, "--file", "list.csv", "--file", "list.txt", "--yes")
    names = ("letters:nobody", "leters:1", "Did you mean `letters`?", "12: ", "999", "letters:missing", "no-cluster")
    assert_refused(done, *names)
    assert done.err.count("Nothing was deleted.") == 1
    assert "77000987651:" not in done.err
    for contradictory in (("--instance", name(1), "--all"), ("--keep-numbers",)):
        assert medhelm("purge", *contradictory).code == 2
    assert whole(small) == before


def test_a_list_names_instances_and_clusters_and_the_statement_holds_no_text_and_no_id(
    small: Path, medhelm: Medhelm, tmp_path: Path
) -> None:
    content = f"cluster,benchmark,instance_id\n,letters,id{canary('id', 0)}\n77000987652,letters,\n"
    (tmp_path / "list.csv").write_text(content)
    said = medhelm("purge", "--file", "list.csv", "--yes").out
    assert hits(small, 0, *GONE) == {0: {}, **NOTHING}
    (statement,) = (small / "deletions").glob("*.md")
    assert said.endswith(statement.read_text())
    assert "\n- definitions/letters, a copy of your own definition: if its prompts have the instances" in said
    text = statement.read_text() + statement.with_suffix(".json").read_text()
    assert "77000987652" not in text
    assert "canary" not in text
    (deletion,) = read_deletions(open_store(small))
    assert (deletion.is_finished, deletion.digests, len(deletion.instances)) == (True, (), 3)
    assert all(f"--instance letters:{key}" in deletion.command for _, key in deletion.instances)
    assert deletion.command in text
    assert deletion.places["cache.sqlite"] == 3 * 2 * 3


def test_exports_are_named_and_deleted_on_request(small: Path, medhelm: Medhelm, tmp_path: Path) -> None:
    assert medhelm("export", "csv", "tables", "--with-text", "--tier", "real").code == 0
    assert medhelm("export", "helm", "helm", "--benchmarks", "letters", "--tier", "real").code == 0
    assert medhelm("export", "site", "board", "--benchmarks", "letters", "--with-text").code == 0
    for n, options in ((3, ()), (6, ("--exports",))):
        done = purge(medhelm, "--instance", name(n), *options)
        deleted = {Path(one["path"]).name: one["deleted"] for one in done["exports"]}
        assert deleted == dict.fromkeys(("tables", "helm", "board"), bool(options))
    assert not any((tmp_path / name).exists() for name in ("tables", "helm", "board"))


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize(
    "at", [pytest.param(at, marks=[pytest.mark.long] if at != 12 else []) for at in range(0, 40, 4)]
)
def test_the_same_command_finishes_an_interrupted_deletion(
    small: Path, medhelm: Medhelm, tmp_path: Path, at: int
) -> None:
    """The process ends without cleaning up before its `at`-th change to the disk."""
    program = f"""
import os, pathlib, sys
from medhelm.cli import main
left = [{at}]
def counted(function):
    def call(*args, **options):
        left[0] -= 1
        if left[0] < 0:
            os._exit(9)
        return function(*args, **options)
    return call
for place in (os, pathlib.Path):
    for name in ("replace", "rename", "unlink"):
        setattr(place, name, counted(getattr(place, name)))
sys.argv = ["medhelm", "purge", "--cluster", "letters:77000987652", "--yes"]
main()
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode in (0, 9), done.stderr
    again = medhelm("purge", "--cluster", "letters:77000987652", "--yes")
    assert again.code == 0, again.err
    assert hits(small, *GONE) == NOTHING
    assert b"77000987652" not in whole(small)
    assert {run.n for run in load_runs(open_store(small))} == {N - len(GONE)}
    assert all(one.is_finished for one in read_deletions(open_store(small)))
    assert medhelm("verify", "--benchmarks", "letters").code == 0


def test_imported_instances_are_deleted_and_stay_deleted(tmp_path: Path, medhelm: Medhelm, small: Path) -> None:
    """In the runs of another harness, and in those that are imported later."""
    assert medhelm("export", "helm", "helm", "--benchmarks", "letters", "--tier", "real").code == 0
    other = tmp_path / "other"
    assert medhelm("import", "helm", "helm", "--store", other).code == 0
    assert {"question", "reference", "completion"} <= hits(other, 3)[3].keys()
    purge(medhelm, "--instance", name(3), "--store", other)
    for again in (False, True):
        if again:
            assert medhelm("runs", "remove", "--all", "--store", other, "--yes").code == 0
            assert medhelm("runs", "purge", "--store", other, "--yes").code == 0
            assert medhelm("import", "helm", "helm", "--store", other).code == 0
        left = kinds(other)
        assert (left[3], bool(left[4])) == (set(), True)
        assert {run.n for run in load_runs(open_store(other))} == {N - 1}
    assert medhelm("rescore", "--store", other, "letters").code == 0


def test_a_shard_is_merged_after_a_deletion(tmp_path: Path, medhelm: Medhelm, server: Server) -> None:
    place = write_benchmark(tmp_path)
    server.answer_with(answer)
    for part in ("1/2", "2/2"):
        succeeded(medhelm("run", place, *models(server, "a"), *judges(server), "--shard", part))
    purge(medhelm, "--cluster", "77000987652")
    assert hits(tmp_path / STORE, 2) == {2: {}}
    succeeded(medhelm("merge", STORE, "--store", "merged", "--benchmarks", place))
    (run,) = load_runs(open_store(tmp_path / "merged"))
    assert (run.n, run.status, sum(one.n for one in run.deletions)) == (N - 2, "complete", 2)


@pytest.mark.parametrize("left_over", [".old-", ".new-", None])
def test_what_no_run_holds_is_deleted_too(small: Path, medhelm: Medhelm, left_over: str | None) -> None:
    """Folders of killed processes; completions of an interruption, or of judges that were replaced."""
    (folder, *_) = (small / "runs" / "letters").iterdir()
    if left_over:
        shutil.copytree(folder, folder.with_name(left_over + folder.name))
    else:
        shutil.rmtree(small / "runs")
    purge(medhelm, "--instance", name(3))
    left = kinds(small)
    assert (left[3], "question" in left[4]) == (set(), True)


def test_a_benchmark_with_a_constant_baseline_is_verified(tmp_path: Path, medhelm: Medhelm, server: Server) -> None:
    server.answer_with(answers_with(perfect))
    assert medhelm("run", make_benchmark(tmp_path), *models(server, "a", "b")).code == 0
    assert medhelm("release", "first").code == 0
    purge(medhelm, "--instance", "toy:q2")
    (run, _) = load_runs(open_store(tmp_path / STORE))
    assert (run.n, run.estimates["corrected"]["exact_match"].value) == (8, 1.0)
    for release in (["first"], []):
        succeeded(medhelm("verify", *release, "--benchmarks", "toy"))
