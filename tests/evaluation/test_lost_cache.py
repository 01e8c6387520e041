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
from medhelm.evaluation.settings import Evaluation
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


@pytest.mark.parametrize("loss", ["missing", "empty", "runs removed"])
def test_a_lost_cache_is_restored_from_the_records(tmp_path: Path, server: Server, loss: str) -> None:
    refusal = chat(None, finish_reason="content_filter")
    server.answer_with(court(lambda judge, n, _: refusal if judge == "judge-2" and n == 3 else None))
    (first,) = run(tmp_path, server)[0].runs
    before = rows(tmp_path)
    store = open_store(tmp_path / "store")
    store.cache_file.unlink()
    if loss == "empty":
        store.cache_file.touch()
    setup = EvaluationSetup(store=tmp_path / "store")
    expected = make_plan([open_benchmark(tmp_path, n=N)], [mock(server)], setup, jury=jury(server))
    assert sum(row.requests - row.cached for row in expected.rows) == 0
    if loss == "runs removed":
        remove_runs(store, read_run_folders(store))
    again, notes = run(tmp_path, server)
    assert (server.count, again.requests_sent, again.runs[0].estimates) == (REQUESTS, 0, first.estimates)
    assert rows(tmp_path) == before
    (note,) = [text for text in notes if "cache.sqlite" in text]
    assert f"was missing or empty, although the store holds runs. {REQUESTS} completions were restored" in note
    assert run(tmp_path, server)[1] == []


def test_damaged_completions_come_from_the_records_or_are_requested_again(tmp_path: Path, server: Server) -> None:
    server.answer_with(court())
    (first,) = run(tmp_path, server)[0].runs
    before = rows(tmp_path)
    change(tmp_path, "text = 'no' WHERE rowid IN (2, 9)")
    again, notes = run(tmp_path, server)
    assert (server.count, again.requests_sent, again.runs[0].estimates) == (REQUESTS, 0, first.estimates)
    assert rows(tmp_path) == before
    assert [text for text in notes if "2 completions are damaged (wrong checksum). 2 restored" in text]
    assert first.folder is not None
    (first.folder / "run.json").unlink()
    change(tmp_path, "output = output + 1 WHERE rowid = 1")
    again, notes = run(tmp_path, server)
    assert (server.count, again.requests_sent) == (REQUESTS + 1, 1)
    assert [text for text in notes if "1 completion is damaged (wrong checksum). 0 restored" in text]
    assert run(tmp_path, server)[1] == []
