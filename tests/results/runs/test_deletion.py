"""The text of single instances is deleted down to the bytes of all files, and nothing else changes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from medhelm.io.encryption.places import open_file, read_text
from medhelm.io.parquet import connect, sql_path
from medhelm.models.cache_reader import CacheReader
from medhelm.storage.deletions import read_deletions
from medhelm.storage.run_file import read_run
from medhelm.storage.runs import load_runs, load_shards, read_records
from medhelm.storage.store import open_store
from tests.support.benchmarks.choice import chat
from tests.support.benchmarks.judged import is_judge, number
from tests.support.cli import Medhelm
from tests.support.made_once import made_once
from tests.support.servers.openai import Answer, Server

DEFINITION = """\
name: letters
title: Letters
description: Toy questions with answers in free text.
taxonomy: {category: patient_communication_and_education, subcategory: patient_provider_messaging, task: Write}
access: public
license: CC0-1.0
source:
  kind: jsonl
  files: {rows.jsonl: ""}
id: id
answer: reply
cluster: patient
metadata: [ward]
prompt: |
  Question {question}
  Answer:
max_tokens: 50
metrics: [jury, rouge_l]
rubric:
  task: You are a nurse. You see a question, the answer of a model, and a reference. Grade the answer of the model.
  criteria:
    accuracy: Is it right?
    clarity: Is it plain?
"""

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
        return chat(json.dumps(dict.fromkeys(("accuracy", "clarity"), cell)))
    if body["model"] == "b" and n == 5:
        return Answer(status=400, body={"error": {"message": f"I refuse {canary('failure', n)}", "code": "bad"}})
    return chat(f"A completion with {canary('completion', n)} by {body['model']}")


def write_benchmark(folder: Path) -> Path:
    place = folder / "letters"
    place.mkdir(parents=True, exist_ok=True)
    (place / "benchmark.yaml").write_text(DEFINITION, encoding="utf-8")
    lines = [
        json.dumps(
            {
                "id": f"id{canary('id', n)}",
                "question": f"number {n}? {canary('question', n)}",
                "reply": f"A reference {canary('reference', n)}",
                "patient": f"77000{n % 3}",
                "ward": f"ward {canary('ward', n)}",
            }
        )
        for n in range(N)
    ]
    (place / "rows.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (place / "sample.jsonl").write_text(lines[0] + "\n", encoding="utf-8")
    return place


def models(server: Server, *names: str) -> list[str]:
    return [word for name in names for word in ("--model", f"openai/{name}@{server.url}/v1")]


def judges(server: Server, *names: str) -> list[str]:
    return [word for name in names for word in ("--judge", f"openai/{name}@{server.url}/v1")]


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
        jury = judges(server, "judge-1", "judge-2")
        assert medhelm("run", place, *models(server, "a", "b"), *jury, "--attempts", "1").code == 1
        assert medhelm("run", place, *models(server, "a"), *jury, "--fresh").code == 0
        assert medhelm("run", place, *models(server, "c"), *jury, "--shard", "1/2").code == 0
        assert medhelm("run", place, *models(server, "d"), *jury).code == 0
        assert medhelm("runs", "remove", "--model", "openai/d@127.0.0.1", "--yes").code in (0, 2)
        assert medhelm("run", place, *models(server, "e"), *jury).code == 0
        shutil.rmtree(next((tmp_path / STORE / "runs" / "letters").glob("*e_*")), ignore_errors=True)

    made_once(tmp_path, f"{__name__}-{request.param}", make)
    return tmp_path / STORE


def whole(folder: Path) -> bytes:
    """All bytes below a folder, with all tables, texts and rows of the cache as they read."""
    found = [path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()]
    found += [path.as_posix().encode() for path in sorted(folder.rglob("*"))]
    for path in folder.rglob("*.parquet"):
        with connect() as connection:
            found.append(repr(connection.execute(f"SELECT * FROM read_parquet({sql_path(path)})").fetchall()).encode())
    for path in folder.rglob("*.json"):
        try:
            with open_file(path, "rb") as file:
                found.append(file.read())
        except ValueError:  # a plain file of an encrypted store
            continue
    for cache in folder.rglob("cache.sqlite"):
        with CacheReader(cache) as reader:
            found.append(repr(list(reader.texts())).encode())
    return b"\n".join(found)


KINDS = ("id", "question", "reference", "completion", "explanation", "failure", "ward")


def hits(folder: Path, n: int) -> dict[str, int]:
    """Count the canaries of an instance below a folder."""
    content = whole(folder)
    return {kind: found for kind in KINDS if (found := content.count(canary(kind, n).encode()))}


def test_nothing_is_left_of_a_patient_and_everything_of_the_others(store: Path, medhelm: Medhelm) -> None:
    open_store(store)
    before = {n: set(hits(store, n)) for n in range(N)}
    assert all(len(found) >= 4 for found in before.values())
    plan = medhelm("purge", "--cluster", "letters:770002", "--dry-run", "--json").json
    assert plan["instances"] == {"letters": [f"id{canary('id', n)}" for n in GONE]}
    assert {n: set(hits(store, n)) for n in range(N)} == before
    done = medhelm("purge", "--cluster", "letters:770002", "--yes", "--json")
    assert done.code == 0, done.err
    assert {n: hits(store, n) for n in GONE} == {n: {} for n in GONE}
    assert all(set(hits(store, n)) == before[n] for n in range(N) if n not in GONE)
    assert b"770002" not in whole(store)
    assert [one["n_before"] - one["n"] for one in done.json["runs"] if one["n_before"] == N] == [2] * sum(
        one["n_before"] == N for one in done.json["runs"]
    )
    for run in [*load_runs(open_store(store)), *load_shards(open_store(store))]:
        assert run.n == len(list(read_records(run)))
    assert medhelm("leaderboard").code == 0
    again = medhelm("purge", "--cluster", "letters:770002", "--yes")
    assert (again.code, "were deleted on" in again.out) == (0, True)
