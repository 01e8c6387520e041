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
from typing import Any

import pytest

from medhelm.models.cache import add_checksums
from medhelm.storage.runs import load_runs, read_columns
from medhelm.storage.store import open_store
from tests.support.benchmarks.choice import answers_with, make_benchmark, perfect, question_number
from tests.support.cli import Medhelm
from tests.support.running import eventually
from tests.support.servers.openai import Answer, Server

N = 9


def wrong(number: int) -> str:
    return "AB"[perfect(number) == "A"]


def model_of(server: Server) -> str:
    return f"openai/mock@{server.url}/v1"


def completions(store: Path) -> dict[str, list[str]]:
    """Return the start of each fresh run ("" for the first run) -> its completions."""
    return {run.fresh: read_columns(run, ["completion"])["completion"] for run in load_runs(open_store(store))}


def make_older(store: Path, days: int) -> None:
    """Date all completions in the cache back."""
    with sqlite3.connect(store / "cache.sqlite") as cache:
        cache.execute("UPDATE completions SET created = created - ?", (86400 * days,))
        add_checksums(cache)


def test_a_changed_model_fails_the_gate_against_its_earlier_run(
    medhelm: Medhelm, tmp_path: Path, server: Server
) -> None:
    benchmark = make_benchmark(tmp_path, n=60)
    command = ("run", benchmark, "--model", model_of(server), "--model", "baseline/majority")
    server.answer_with(answers_with(perfect))
    assert medhelm(*command).code == 0
    server.answer_with(answers_with(wrong))
    assert medhelm(*command, "--json").json["requests_sent"] == 0
    assert medhelm(*command, "--fresh", "--json").json["requests_sent"] == 60
    listed = medhelm("runs", "list", "--model", "openai/mock", "--json").json["runs"]
    assert [(one["from"], one["score"]["value"]) for one in listed] == [("run", 1.0), ("fresh run", 0.0)]
    old = listed[0]
    for against in ("previous", old["short_id"], old["run_dir"]):
        gate = medhelm("gate", "--against", against, "--json")
        assert (gate.code, gate.json["tests"][0]["reference"]) == (1, 1.0), against
    # The leaderboard counts the new run, and the same command again finds it in the cache.
    again = medhelm(*command, "--json").json
    assert (again["requests_sent"], again["runs"][0]["metrics"]["exact_match"]["value"]) == (0, 0.0)
    board = medhelm("leaderboard", "--json").json
    assert {row["model"]: row["benchmarks"]["toy"]["value"] for row in board["models"]}[model_of(server)] == 0.0
    # Without the fresh run, the first one counts again, and its completions still answer.
    new = next(one for one in listed if one is not old)
    assert medhelm("runs", "remove", new["id"], "--yes").code == 0
    assert medhelm(*command, "--json").json["runs"][0]["metrics"]["exact_match"]["value"] == 1.0
    assert server.count == 120


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_a_killed_fresh_run_continues_and_a_finished_one_does_not(
    medhelm: Medhelm, tmp_path: Path, server: Server
) -> None:
    store = tmp_path / "store"
    command = ["run", str(make_benchmark(tmp_path, n=30)), "--model", model_of(server), "--store", str(store)]
    server.answer_with(answers_with(lambda _: "A"))
    assert medhelm(*command).code == 0
    server.answer_with(answers_with(lambda _: "B"))
    server.hold_beyond(40)
    process = subprocess.Popen([sys.executable, "-m", "medhelm", *command, "--fresh", "--concurrency", "1"])
    server.wait_for(41)
    process.send_signal(signal.SIGKILL)
    process.wait()
    server.release()
    planned = medhelm("plan", *command[1:], "--fresh", "--json").json["rows"][0]
    assert planned["requests"] - planned["cached"] in (20, 21)
    assert medhelm("plan", *command[1:], "--json").json["rows"][0]["cached"] == 30
    done = medhelm(*command, "--fresh")
    assert done.code == 0
    assert "continues the fresh run that began at " in done.err
    assert server.count - 30 in (30, 31)  # one request was in flight
    found = completions(store)
    assert [set(texts) for _, texts in sorted(found.items())] == [{"A"}, {"B"}]
    assert list((store / "fresh").iterdir()) == []
    before = server.count
    assert "continues" not in medhelm(*command, "--fresh").err
    assert (server.count - before, len(completions(store))) == (30, 3)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_runs_of_a_killed_evaluation_that_were_complete_are_not_bought_again(
    medhelm: Medhelm, tmp_path: Path, server: Server
) -> None:
    """The first of two runs is complete when the process is killed; a later command that ended buys all again."""
    store = tmp_path / "store"
    other = make_benchmark(tmp_path, name="other", n=20)
    rows = other / "rows.jsonl"
    rows.write_text(rows.read_text(encoding="utf-8").replace("number ", "other number "), encoding="utf-8")
    benchmarks = str(make_benchmark(tmp_path, n=20)), str(other)
    command = ["run", *benchmarks, "--model", model_of(server), "--store", str(store)]
    server.answer_with(answers_with(lambda _: "A"))
    server.hold_beyond(30)
    process = subprocess.Popen([sys.executable, "-m", "medhelm", *command, "--fresh", "--concurrency", "1"])
    server.wait_for(31)
    eventually(lambda: list(store.glob("runs/*/*/run.json")) or None)
    process.send_signal(signal.SIGKILL)
    process.wait()
    server.release()
    done = medhelm(*command, "--fresh")
    assert (done.code, done.err.count("continues the fresh run")) == (0, 2)
    assert server.count in (40, 41)  # one request was in flight
    assert list((store / "fresh").iterdir()) == []
    before = server.count
    assert medhelm(*command, "--fresh").code == 0
    assert server.count - before == 40


def test_an_interrupted_fresh_run_is_forgotten_after_a_week(medhelm: Medhelm, tmp_path: Path, server: Server) -> None:
    command = ("run", make_benchmark(tmp_path), "--model", model_of(server), "--fresh")
    server.answer_with(lambda body: answers_with(perfect)(body) if question_number(body) < 5 else Answer(status=401))
    assert medhelm(*command).code != 0
    (file,) = (tmp_path / "medhelm-store" / "fresh").iterdir()
    content = json.loads(file.read_text(encoding="utf-8"))
    content["started"] = (datetime.now(UTC) - timedelta(days=8)).isoformat(timespec="milliseconds")
    file.write_text(json.dumps(content), encoding="utf-8")
    server.answer_with(answers_with(perfect))
    before = server.count
    done = medhelm(*command)
    assert ("continues" in done.err, server.count - before) == (False, N)
    file.parent.mkdir(exist_ok=True)
    for damage in ("", "{", '{"format": 1, "started": 5}', '{"format": 1, "started": "2026-11-23"}'):
        file.write_text(damage, encoding="utf-8")
        before = server.count
        assert medhelm(*command).code == 0
        assert server.count - before == N


def test_old_completions_are_dated_wherever_they_count(medhelm: Medhelm, tmp_path: Path, server: Server) -> None:
    store = tmp_path / "medhelm-store"
    command = ("run", make_benchmark(tmp_path), "--model")
    server.answer_with(answers_with(perfect))
    assert "completions are from" not in medhelm(*command, model_of(server)).err
    make_older(store, 100)
    then = (datetime.now(UTC) - timedelta(days=100)).date().isoformat()
    done = medhelm(*command, model_of(server), "--model", "baseline/majority", "--json")
    assert f"9 of 9 completions are from {then}. `medhelm run --fresh` requests new ones." in done.err
    assert done.json["runs"][0]["completion_days"] == {then: 9}
    (run_id,) = (run.id for run in load_runs(open_store(store)) if run.fresh == "" and run.model != "baseline/majority")
    assert re.search(rf"completed on +{then} \(9\)", medhelm("runs", "show", run_id).out)
    rows = {row["model"]: row for row in medhelm("leaderboard", "--json").json["models"]}
    assert rows[model_of(server)]["completion_dates"] == {"earliest": then, "latest": then}
    assert medhelm("rescore", command[1]).code == 0
    assert [run.completion_days for run in load_runs(open_store(store)) if run.completion_days] == [{then: 9}]
    far_apart = "more than 90 days older than the newest here"
    assert far_apart not in medhelm("leaderboard").out
    assert medhelm(*command, f"openai/other@{server.url}/v1").code == 0
    assert far_apart in medhelm("leaderboard").out


def test_a_server_that_is_down_or_serves_another_model_is_reported(
    medhelm: Medhelm, tmp_path: Path, server: Server
) -> None:
    command = ("run", make_benchmark(tmp_path), "--model", model_of(server))

    def reply(names: list[str]) -> Any:
        listing = Answer(body={"data": [{"id": name} for name in names]})
        return lambda body: answers_with(perfect)(body) if body else listing

    server.lists_models = True
    server.answer_with(reply([]))
    assert medhelm(*command).err.count("medhelm: ") == 0
    for names, expected in ((["mock", "b"], False), (["mock-1"], False), ([], False), (["a", "b"], True)):
        server.answer_with(reply(names))
        before = server.count
        done = medhelm(*command)
        assert done.code == 0
        assert ("its server now lists a and b instead of mock" in done.err) is expected, names
        assert server.count == before + 1
    server.script(Answer(status=500))
    assert "server" not in medhelm(*command).err
    server.script(Answer(ending="reset"))
    done = medhelm(*command)
    assert done.code == 0
    assert "all 9 completions come from the cache, and its server did not respond: " in done.err
    before = server.count
    assert "server" not in medhelm(*command, "--offline").err
    assert server.count == before


def test_names_for_one_endpoint_share_completions_only_if_told(
    medhelm: Medhelm, tmp_path: Path, server: Server
) -> None:
    benchmark = make_benchmark(tmp_path)
    address = f"base_url: {server.url}/v1"
    (tmp_path / "models.yaml").write_text(
        f"night-1: {{model: mock, {address}}}\n"
        f"night-2: {{model: mock, {address}}}\n"
        f"shared: {{model: mock, {address}, share_completions: true}}\n"
        f"mock: {{{address}}}\n",
        encoding="utf-8",
    )
    server.answer_with(answers_with(perfect))

    def sent(model: str, *more: str) -> int:
        return int(medhelm("run", benchmark, "--model", model, "--json", *more).json["requests_sent"])

    assert [sent(name) for name in ("mock", "shared", model_of(server))] == [N, 0, 0]
    assert [sent(name) for name in ("night-1", "night-2", "night-1", "night-2")] == [N, N, 0, 0]
    assert [sent(name) for name in ("night-1", "night-2")] == [0, 0]
    # Before there were scopes, a name bought its completions under the key that all names share.
    store = tmp_path / "medhelm-store"
    with sqlite3.connect(store / "cache.sqlite") as cache:
        cache.execute("DELETE FROM completions WHERE model LIKE 'night%'")
        cache.execute("UPDATE completions SET model = 'night-1'")
        add_checksums(cache)
    assert medhelm("plan", benchmark, "--model", "night-1", "--json").json["rows"][0]["cached"] == N
    assert [sent(name) for name in ("night-1", "mock", "night-2")] == [0, 0, N]
    assert sent("night-1", "--fresh") == N
