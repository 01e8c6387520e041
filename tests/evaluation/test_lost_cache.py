"""A cache that was lost or damaged beside the runs of its store: nothing that the records hold is bought twice."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from medhelm.evaluation.plan import make_plan
from medhelm.evaluation.python_api import evaluate
from medhelm.evaluation.recorder import NullListener
from medhelm.evaluation.session import EvaluationSetup
from medhelm.evaluation.settings import Evaluation, Settings
from medhelm.models.catalog import find_models
from medhelm.storage.run_folders import read_run_folders, remove_runs
from medhelm.storage.store import open_store
from tests.support.benchmarks.choice import chat
from tests.support.benchmarks.judged import court, jury, mock, open_benchmark
from tests.support.servers.openai import Server

N = 5
REQUESTS = N * 4


class Notes(NullListener):
    """Collects the messages for the user."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def note(self, text: str) -> None:
        self.texts.append(text)


def run(tmp_path: Path, server: Server) -> tuple[Evaluation, list[str]]:
    notes = Notes()
    benchmark, judges = open_benchmark(tmp_path, n=N), jury(server)
    done = evaluate([benchmark], [mock(server)], store=tmp_path / "store", jury=judges, listener=notes)
    return done, notes.texts


def rows(tmp_path: Path) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(tmp_path / "store" / "cache.sqlite")) as connection:
        return connection.execute("SELECT * FROM completions ORDER BY digest").fetchall()


def change(tmp_path: Path, assignment: str) -> None:
    with closing(sqlite3.connect(tmp_path / "store" / "cache.sqlite")) as connection, connection:
        connection.execute(f"UPDATE completions SET {assignment}")


@pytest.mark.parametrize("content", [None, b""], ids=["missing", "empty"])
def test_a_lost_cache_is_restored_from_the_records(tmp_path: Path, server: Server, content: bytes | None) -> None:
    refusal = chat(None, finish_reason="content_filter")
    server.answer_with(court(lambda judge, n, _: refusal if judge == "judge-2" and n == 3 else None))
    (first,) = run(tmp_path, server)[0].runs
    before = rows(tmp_path)
    cache = tmp_path / "store" / "cache.sqlite"
    cache.unlink()
    if content is not None:
        cache.write_bytes(content)
    expected = make_plan(
        [open_benchmark(tmp_path, n=N)], [mock(server)], EvaluationSetup(store=tmp_path / "store"), jury=jury(server)
    )
    assert sum(row.requests - row.cached for row in expected.rows) == 0
    again, notes = run(tmp_path, server)
    assert (server.count, again.requests_sent, again.runs[0].estimates) == (REQUESTS, 0, first.estimates)
    assert rows(tmp_path) == before
    (note,) = [text for text in notes if "cache.sqlite" in text]
    assert f"was missing or empty, although the store holds runs. {REQUESTS} completions were restored" in note
    assert run(tmp_path, server)[1] == []


def test_removed_runs_restore_a_cache_too(tmp_path: Path, server: Server) -> None:
    server.answer_with(court())
    run(tmp_path, server)
    store = open_store(tmp_path / "store")
    remove_runs(store, read_run_folders(store))
    store.cache_file.unlink()
    assert (run(tmp_path, server)[0].requests_sent, server.count) == (0, REQUESTS)


def test_without_paid_runs_there_is_nothing_to_restore(tmp_path: Path, server: Server) -> None:
    server.answer_with(court())
    notes = Notes()
    for _ in range(2):
        evaluate(
            [open_benchmark(tmp_path, n=N)],
            find_models(["baseline/lexical"]),
            store=tmp_path / "store",
            settings=Settings(),
            listener=notes,
        )
    assert notes.texts == []


def test_damaged_completions_come_from_the_records(tmp_path: Path, server: Server) -> None:
    server.answer_with(court())
    (first,) = run(tmp_path, server)[0].runs
    before = rows(tmp_path)
    change(tmp_path, "text = 'no' WHERE rowid IN (2, 9)")
    again, notes = run(tmp_path, server)
    assert (server.count, again.requests_sent, again.runs[0].estimates) == (REQUESTS, 0, first.estimates)
    assert rows(tmp_path) == before
    assert [text for text in notes if "2 completions are damaged (wrong checksum). 2 restored" in text]


def test_damaged_completions_of_no_record_are_requested_again(tmp_path: Path, server: Server) -> None:
    server.answer_with(court())
    (first,) = run(tmp_path, server)[0].runs
    assert first.folder is not None
    (first.folder / "run.json").unlink()
    change(tmp_path, "output = output + 1 WHERE rowid = 1")
    again, notes = run(tmp_path, server)
    assert (server.count, again.requests_sent) == (REQUESTS + 1, 1)
    assert [text for text in notes if "1 completion is damaged (wrong checksum). 0 restored" in text]
    assert run(tmp_path, server)[1] == []
