"""A purge deletes text down to the bytes of the files, and leaves what remaining runs need."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from medhelm.io.parquet import connect, sql_path
from medhelm.storage.annotations import add_annotation, new_annotation, read_annotations
from medhelm.storage.derived_files import stem_of
from medhelm.storage.store import Store
from tests.support.benchmarks.choice import chat, make_benchmark, question_number
from tests.support.cli import Medhelm
from tests.support.made_once import made_once
from tests.support.servers.openai import Answer, Server

STORE = Path("medhelm-store")


def answer(body: dict[str, object]) -> Answer:
    text = str(body["messages"])
    name = "wards" if "wards" in text else "clinics"
    return chat(f"A canary-{body['model']}-{name}-{question_number(body)}".ljust(4000, "."))


@pytest.fixture
def store(tmp_path: Path, medhelm: Medhelm, server: Server) -> Path:
    """Two benchmarks and two models; every completion names its model and benchmark, one question is in both."""

    def make() -> None:
        server.answer_with(answer)
        for name in ("wards", "clinics"):
            folder = make_benchmark(tmp_path, name=name, n=4)
            file = folder / "benchmark.yaml"
            file.write_text(file.read_text().replace("Question {question}", f"Question of {name}: {{question}}"))
            models = [word for one in ("one", "two") for word in ("--model", f"{one}=openai/{one}@{server.url}/v1")]
            assert medhelm("run", folder, *models).code == 0

    made_once(tmp_path, __name__, make)
    return tmp_path / STORE


def texts(store: Path) -> dict[str, int]:
    """Count the names of models and benchmarks in the bytes of the cache, and in the columns of all tables."""
    found = b"".join(path.read_bytes() for path in store.glob("cache.sqlite*"))
    for path in store.rglob("*.parquet"):
        with connect() as connection:
            found += repr(connection.execute(f"SELECT * FROM read_parquet({sql_path(path)})").fetchall()).encode()
    return {
        f"{model} {benchmark}": found.count(f"canary-{model}-{benchmark}-".encode())
        for model in ("one", "two")
        for benchmark in ("wards", "clinics")
    } | {f"prompts of {name}": found.count(f"Question of {name}".encode()) for name in ("wards", "clinics")}


def cached(store: Path) -> int:
    with closing(sqlite3.connect(store / "cache.sqlite")) as connection:
        return int(connection.execute("SELECT count(*) FROM completions").fetchone()[0])


def test_of_a_benchmark_nothing_is_left_and_of_the_other_everything(store: Path, medhelm: Medhelm) -> None:
    assert medhelm("runs", "remove", "--benchmark", "wards", "--model", "one", "--yes").code == 0
    before = texts(store)
    assert all(before.values())
    plan = medhelm("purge", "--benchmark", "wards", "--dry-run", "--json").json
    assert (plan["deleted"], texts(store)) == (False, before)
    done = medhelm("purge", "--benchmark", "wards", "--yes", "--json").json
    assert done == {**plan, "deleted": True}
    assert (len(done["runs"]), len(done["files"]), done["completions"]) == (2, 3, 8)
    assert done["remains"] == {"runs": 2, "completions": 8, "orphans": 0, "batches": 0, "releases": []}
    after = texts(store)
    assert {name for name, n in after.items() if n == 0} == {"one wards", "two wards", "prompts of wards"}
    assert {after[name] == before[name] for name in after if after[name]} == {True}
    assert medhelm("leaderboard").code == 0


def test_of_a_model_the_prompts_stay_while_another_run_needs_them(store: Path, medhelm: Medhelm) -> None:
    said = medhelm("purge", "--model", "one", "--yes").out
    assert "2 runs with completions and judgments: clinics with one and wards with one\n" in said
    assert {name for name, n in texts(store).items() if n == 0} == {"one wards", "one clinics"}
    assert medhelm("purge", "--model", "two", "--yes").code == 0
    assert set(texts(store).values()) == {0}, "no run needs the prompts any more"


def holders(store: Path, text: str) -> list[str]:
    """Return the files of the store that hold a text as it is."""
    files = sorted(path for path in store.rglob("*") if path.is_file() and text.encode() in path.read_bytes())
    return [path.relative_to(store).as_posix() for path in files]


def test_the_copy_of_a_definition_goes_with_the_last_run_of_its_benchmark(store: Path, medhelm: Medhelm) -> None:
    copies = {name: f"definitions/{name}/benchmark.yaml" for name in ("wards", "clinics")}
    assert all(copy in holders(store, f"Question of {name}") for name, copy in copies.items())
    part = medhelm("purge", "--benchmark", "wards", "--model", "one", "--yes", "--json").json
    assert part["files"] == []
    assert medhelm("runs", "remove", "--benchmark", "wards", "--model", "two", "--yes").code == 0
    assert medhelm("purge", "--model", "one", "--yes", "--json").json["files"] == []
    said = medhelm("purge", "--benchmark", "wards", "--yes").out
    assert copies["wards"] in said
    assert "of prompts, instances, marks and definitions" in said
    assert holders(store, "Question of wards") == []
    assert [path.name for path in (store / "definitions").iterdir()] == ["clinics"]


def test_without_any_run_the_name_of_a_benchmark_is_known_by_its_definition(store: Path, medhelm: Medhelm) -> None:
    for place in ("runs", "prompts"):
        shutil.rmtree(store / place)
    (store / "derived").mkdir(exist_ok=True)
    kept = [store / "derived" / f"{stem_of(name)}-runs.npz" for name in ("wards", "clinics")]
    for path in kept:
        path.write_bytes(b"numbers")
    found = medhelm("purge", "--benchmark", "wards", "--yes", "--json").json
    assert found["files"] == ["definitions/wards/benchmark.yaml"]
    assert [path.exists() for path in kept] == [False, True]
    assert medhelm("purge", "--all", "--yes", "--json").json["files"] == ["definitions/clinics/benchmark.yaml"]
    assert list((store / "definitions").iterdir()) == []


def test_of_a_model_the_variants_go_with_it(store: Path, medhelm: Medhelm, server: Server, tmp_path: Path) -> None:
    server.answer_with(answer)
    options = ("--model", f"one=openai/one@{server.url}/v1", "--perturb", "options_reversed", "--repeat", "2")
    assert medhelm("run", tmp_path / "wards", *options).code == 0
    removed = medhelm("runs", "remove", "--model", "one", "--benchmark", "wards", "--yes", "--json").json
    assert {one["model"] for one in removed["runs"]} == {"one", "one [perturb=options_reversed]", "one [repeat=2]"}
    assert medhelm("purge", "--model", "one", "--yes").code == 0
    assert {name for name, n in texts(store).items() if n == 0} == {"one wards", "one clinics"}


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        (("--benchmark", "wards"), ["clinics", "clinics one", "clinics two"]),
        (("--model", "one"), ["clinics", "clinics two", "wards", "wards two"]),
        (("--older-than", "1d"), ["clinics", "clinics one", "clinics two", "wards", "wards one", "wards two"]),
        (("--orphans",), ["clinics", "clinics one", "clinics two", "wards", "wards one", "wards two"]),
        (("--all",), []),
    ],
)
def test_notes_go_with_the_last_run_they_are_about(
    store: Path, medhelm: Medhelm, options: tuple[str, ...], kept: list[str]
) -> None:
    for benchmark in ("wards", "clinics"):
        for model in ("", "one", "two"):
            add_annotation(Store(store), new_annotation(benchmark, "q1", model=model, tags=["dose error"]))
    done = medhelm("purge", *options, "--yes", "--json").json
    left = sorted(f"{one.benchmark} {one.model}".strip() for one in read_annotations(Store(store)))
    assert (left, done.get("annotations", 0)) == (kept, 6 - len(kept))


def test_completions_of_no_run_are_announced_and_deleted_on_request(store: Path, medhelm: Medhelm) -> None:
    shutil.rmtree(store / "runs" / "wards")
    assert medhelm("purge", "--benchmark", "wards", "--yes", "--json").json["remains"]["orphans"] == 8
    done = medhelm("purge", "--orphans", "--yes", "--json").json
    assert (done["completions"], done["files"], len(done["runs"])) == (8, [], 0)
    assert {name for name, n in texts(store).items() if n == 0} == {"one wards", "two wards", "prompts of wards"}


def test_by_age_and_everything(store: Path, medhelm: Medhelm) -> None:
    assert medhelm("purge", "--older-than", "1d", "--yes").out.endswith("nothing to delete\n")
    assert cached(store) == 16
    assert medhelm("purge", "--older-than", "0", "--yes", "--json").json["completions"] == 16
    assert set(texts(store).values()) == {0}


def test_a_choice_that_is_not_clear_deletes_nothing(store: Path, medhelm: Medhelm) -> None:
    for options, message in {
        (): "choose what to delete",
        ("--all", "--model", "one"): "choose what to delete",
        ("--benchmark", "ward"): "Did you mean `wards`? Nothing was deleted.",
        ("--older-than", "soon"): "is not a number of days",
        ("--all",): "Repeat the command with --yes. Nothing was deleted.",
    }.items():
        done = medhelm("purge", *options)
        assert (done.code, message in done.err) == (2, True), done.err
    assert cached(store) == 16
