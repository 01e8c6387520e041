"""One budget for all processes of a store, killed at random moments."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import programs
from tests.support.benchmarks.choice import chat, make_benchmark, perfect, question_number
from tests.support.programs import finish
from tests.support.servers.openai import Answer, Server

N, LIMIT_USD = 200, 150
"""Requests of each command, and the limit of the store at one dollar each: not even one command can finish."""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")


def start(folder: Path, *command: str) -> subprocess.Popen[str]:
    return programs.start(folder, *command, "--store", "store", "--models", "m.yaml")


def budget(folder: Path, *command: str) -> dict[str, Any]:
    out, err = start(folder, "budget", *command, "--json").communicate(timeout=600)
    found: dict[str, Any] = json.loads(out or "{}")
    assert found, err
    return found


def answer(body: dict[str, Any]) -> Answer:
    """Every third reply is useless, and billed."""
    number = question_number(body)
    return chat(None if number % 3 == 0 and random.random() < 0.5 else perfect(number))


@pytest.mark.long
def test_two_processes_and_kills_never_pass_the_budget_of_the_store(tmp_path: Path, server: Server) -> None:
    """Every request that the server receives is billed: 20 tokens, a dollar."""
    server.answer_with(answer)
    benchmark = make_benchmark(tmp_path, n=N)
    free = "price: {input: 50000, output: 0}"
    models = [f"{name}: {{base_url: '{server.url}/v1', model: {name}, {free}}}\n" for name in ("one", "two")]
    (tmp_path / "m.yaml").write_text("".join(models), encoding="utf-8")
    assert budget(tmp_path, "set", str(LIMIT_USD))["left_usd"] == LIMIT_USD

    def both() -> list[subprocess.Popen[str]]:
        run = ("run", str(benchmark), "--concurrency", "2", "--model")
        return [start(tmp_path, *run, name) for name in ("one", "two")]

    def kill(processes: list[subprocess.Popen[str]]) -> None:
        for process in processes:
            process.send_signal(signal.SIGKILL)
            process.communicate()
        assert server.count <= LIMIT_USD

    def paid_models() -> list[str]:
        return sorted({one["model"] for one in budget(tmp_path, "show")["models"]})

    server.hold()  # until both take part, with two requests each
    processes = both()
    server.wait_for(4)
    server.hold_beyond(9)  # so that both are killed with requests in flight, once both have paid for some
    server.release_held()
    server.wait_for(10)
    assert any(paid_models() == ["one", "two"] for _ in range(100))
    kill(processes)
    server.release()
    processes = both()
    server.wait_for(25)
    kill(processes)
    ended = [finish(process) for process in both()]
    found = budget(tmp_path, "show")
    used = found["spent_usd"] + found["lost_usd"]
    assert server.count <= used <= LIMIT_USD
    assert found["reserved_usd"] == 0 < found["lost_usd"]
    assert LIMIT_USD - used < 25  # what one request may cost
    for code, _, err in ended:
        assert (code, "stopped by the budget of the store" in err) == (3, True)
        assert "may have been spent by commands that were killed" in err
    before = server.count
    freed = budget(tmp_path, "release")
    assert freed["lost_usd"] == 0
    assert freed["left_usd"] > found["left_usd"]
    assert [finish(process)[0] for process in both()] == [3, 3]
    assert server.count > before
    assert budget(tmp_path, "show")["spent_usd"] <= LIMIT_USD


def test_a_model_without_a_price_is_refused(tmp_path: Path, server: Server) -> None:
    (tmp_path / "m.yaml").write_text(f"one: {{base_url: '{server.url}/v1', model: one}}\n", encoding="utf-8")
    budget(tmp_path, "set", "5")
    code, _, err = finish(start(tmp_path, "run", str(make_benchmark(tmp_path)), "--model", "one"))
    assert (code, server.count) == (2, 0)
    assert "needs the price of every model and judge; unknown: one" in err
