"""`--fresh` requests new completions, keeps the earlier ones, and pays for none of them twice."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from medhelm.models.cache import add_checksums
from medhelm.storage.runs import load_runs, read_columns
from medhelm.storage.store import open_store
from tests.support.benchmarks.choice import answers_with, make_benchmark, perfect, question_number
from tests.support.cli import Medhelm, succeeded
from tests.support.running import eventually
from tests.support.servers.openai import Answer, Server

N = 9


def requests_of(medhelm: Medhelm, *command: str | Path) -> int:
    """Give a command that succeeds; return how many requests it sent."""
    return int(succeeded(medhelm(*command, "--json")).json["requests_sent"])


def model_of(server: Server) -> str:
    return f"openai/mock@{server.url}/v1"


def test_a_changed_model_fails_the_gate_against_its_earlier_run(
    medhelm: Medhelm, tmp_path: Path, server: Server
) -> None:
    benchmark = make_benchmark(tmp_path, n=60)
    command = ("run", benchmark, "--model", model_of(server), "--model", "baseline/majority")
    server.answer_with(answers_with(perfect))
    assert medhelm(*command).code == 0
    server.answer_with(answers_with(lambda number: "AB"[perfect(number) == "A"]))
    assert [requests_of(medhelm, *command), requests_of(medhelm, *command, "--fresh")] == [0, 60]
    listed = medhelm("runs", "list", "--model", "openai/mock", "--json").json["runs"]
    assert [(run["from"], run["score"]["value"]) for run in listed] == [("run", 1.0), ("fresh run", 0.0)]
    gate = medhelm("gate", "--against", "previous", "--json")
    assert (gate.code, gate.json["tests"][0]["reference"]) == (1, 1.0)
    # The same command again finds the new run in the cache; without it, the first one counts again.
    assert medhelm(*command, "--json").json["runs"][0]["metrics"]["exact_match"]["value"] == 0.0
    assert medhelm("runs", "remove", listed[1]["id"], "--yes").code == 0
    assert medhelm(*command, "--json").json["runs"][0]["metrics"]["exact_match"]["value"] == 1.0
    assert server.count == 120


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_a_killed_fresh_run_continues_and_a_finished_one_does_not(
    medhelm: Medhelm, tmp_path: Path, server: Server
) -> None:
    """The first of two runs is complete when the process is killed; a later command that ended buys all again."""
    store = tmp_path / "store"
    other = make_benchmark(tmp_path, name="other", n=20)
    text = (other / "rows.jsonl").read_text(encoding="utf-8")
    (other / "rows.jsonl").write_text(text.replace("number ", "other number "), encoding="utf-8")
    command = ["run", str(make_benchmark(tmp_path, n=20)), str(other), "--model", model_of(server)]
    command += ["--store", str(store)]
    server.answer_with(answers_with(lambda _: "A"))
    assert medhelm(*command).code == 0
    server.answer_with(answers_with(lambda _: "B"))
    server.hold_beyond(70)
    process = subprocess.Popen([sys.executable, "-m", "medhelm", *command, "--fresh", "--concurrency", "1"])
    server.wait_for(71)
    eventually(lambda: len(list(store.glob("runs/*/*/run.json"))) == 3)
    process.send_signal(signal.SIGKILL)
    process.wait()
    server.release()
    fresh, usual = (medhelm("plan", *command[1:], *more, "--json").json["rows"] for more in (["--fresh"], []))
    assert 40 - sum(row["cached"] for row in fresh) in (9, 10)  # one request was in flight
    assert [row["cached"] for row in usual] == [20, 20]
    done = medhelm(*command, "--fresh")
    assert (done.code, done.err.count("continues the fresh run that began at ")) == (0, 2)
    assert server.count in (80, 81)
    answers: dict[bool, set[str]] = {False: set(), True: set()}
    for run in load_runs(open_store(store)):
        answers[bool(run.fresh)].update(read_columns(run, ["completion"])["completion"])
    assert answers == {False: {"A"}, True: {"B"}}
    assert list((store / "fresh").iterdir()) == []
    assert requests_of(medhelm, *command, "--fresh") == 40


def test_an_interrupted_fresh_run_is_forgotten_after_a_week(medhelm: Medhelm, tmp_path: Path, server: Server) -> None:
    command = ("run", make_benchmark(tmp_path), "--model", model_of(server), "--fresh")
    server.answer_with(lambda body: answers_with(perfect)(body) if question_number(body) < 5 else Answer(status=401))
    assert medhelm(*command).code != 0
    (file,) = (tmp_path / "medhelm-store" / "fresh").iterdir()
    content = json.loads(file.read_text(encoding="utf-8"))
    content["started"] = (datetime.now(UTC) - timedelta(days=8)).isoformat(timespec="milliseconds")
    server.answer_with(answers_with(perfect))
    for text in (json.dumps(content), "{", '{"format": 1, "started": "2026-11-23"}'):
        file.write_text(text, encoding="utf-8")
        assert requests_of(medhelm, *command) == N


def test_old_completions_are_dated_wherever_they_count(medhelm: Medhelm, tmp_path: Path, server: Server) -> None:
    store = tmp_path / "medhelm-store"
    command = ("run", make_benchmark(tmp_path), "--model")
    server.answer_with(answers_with(perfect))
    assert "completions are from" not in medhelm(*command, model_of(server)).err
    with sqlite3.connect(store / "cache.sqlite") as cache:
        cache.execute("UPDATE completions SET created = created - 100 * 86400")
        add_checksums(cache)
    then = (datetime.now(UTC) - timedelta(days=100)).date().isoformat()
    done = medhelm(*command, model_of(server))
    assert f"9 of 9 completions are from {then}. `medhelm run --fresh` requests new ones." in done.err
    assert re.search(rf"completed on +{then} \(9\)", medhelm("runs", "show", "toy", "openai/mock").out)
    (row,) = medhelm("leaderboard", "--json").json["models"]
    assert row["completion_dates"] == {"earliest": then, "latest": then}
    assert medhelm("rescore", command[1]).code == 0
    assert [run.completion_days for run in load_runs(open_store(store))] == [{then: 9}]
    far_apart = "more than 90 days older than the newest here"
    assert far_apart not in medhelm("leaderboard").out
    assert medhelm(*command, f"openai/other@{server.url}/v1").code == 0
    assert far_apart in medhelm("leaderboard").out


def test_a_server_that_is_down_or_serves_another_model_is_reported(
    medhelm: Medhelm, tmp_path: Path, server: Server
) -> None:
    command = ("run", make_benchmark(tmp_path), "--model", model_of(server))
    server.lists_models = True
    server.answer_with(lambda body: answers_with(perfect)(body) if body else Answer(body={"data": []}))
    assert medhelm(*command).err.count("medhelm: ") == 0
    for names, expected in ((["mock", "b"], False), (["mock-1"], False), ([], False), (["a", "b"], True)):
        server.script(Answer(body={"data": [{"id": name} for name in names]}))
        before = server.count
        done = medhelm(*command)
        assert ("its server now lists a and b instead of mock" in done.err) is expected, names
        assert (done.code, server.count) == (0, before + 1)
    server.script(Answer(status=500))
    assert "server" not in medhelm(*command).err
    server.script(Answer(ending="reset"))
    done = medhelm(*command)
    assert done.code == 0
    assert "all 9 completions come from the cache, and its server did not respond: " in done.err
    before = server.count
    assert "server" not in medhelm(*command, "--offline").err
    assert server.count == before
