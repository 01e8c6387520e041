"""Encrypted stores of processes that are killed: nothing is lost, and no text is on the disk at any moment."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from medhelm.io.files import KEY_VARIABLE
from tests.support.benchmarks.judged import JUDGES, court, write_benchmark
from tests.support.cli import Medhelm
from tests.support.encryption import plain_files
from tests.support.servers.openai import Server

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")

WORDS = ("An answer to number", "The answer to number", "Question number", "it is 3", "it is 4")
N, KILLS = 60, 6


def start(store: Path, *command: object) -> subprocess.Popen[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MEDHELM_")}
    return subprocess.Popen(
        [sys.executable, "-m", "medhelm", *map(str, command), "--store", str(store)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env={**kept, KEY_VARIABLE: os.environ[KEY_VARIABLE], "TMPDIR": str(store.parent / "tmp")},
    )


def run(benchmark: Path, server: Server) -> list[object]:
    judges = [word for judge in JUDGES for word in ("--judge", f"openai/{judge}@{server.url}/v1")]
    return ["run", benchmark, "--model", f"openai/mock@{server.url}/v1", *judges, "--json", "--concurrency", "4"]


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    out, err = process.communicate(timeout=600)
    return process.returncode, out + err


@pytest.mark.long
def test_runs_killed_at_random_moments_lose_nothing_and_leave_no_text(
    tmp_path: Path, server: Server, medhelm: Medhelm, store_key: str
) -> None:
    server.answer_with(court())
    store, command, tmp = tmp_path / "store", run(write_benchmark(tmp_path, n=N), server), tmp_path / "tmp"
    tmp.mkdir()
    assert finish(start(store, "encrypt"))[0] == 0
    whole = N * 4
    for moment in sorted(random.Random(0).sample(range(1, whole), KILLS)):
        process = start(store, *command)
        server.wait_for(moment)
        process.send_signal(signal.SIGKILL)
        finish(process)
        assert plain_files(store, *WORDS) == []
        assert plain_files(tmp, *WORDS) == []
    code, said = finish(start(store, *command))
    assert code == 0, said
    assert server.count <= whole + KILLS * 4
    assert plain_files(store, *WORDS) == []
    assert medhelm("leaderboard", "--store", store).code == 0


@pytest.mark.long
def test_a_conversion_killed_at_random_moments_is_continued(
    tmp_path: Path, server: Server, medhelm: Medhelm, store_key: str
) -> None:
    server.answer_with(court())
    store, command = tmp_path / "store", run(write_benchmark(tmp_path, n=N), server)
    (tmp_path / "tmp").mkdir()
    assert finish(start(store, *command))[0] == 0
    before = medhelm("leaderboard", "--format", "json", "--store", store).json
    assert finish(start(store, "decrypt"))[0] == 0
    draw, ends = random.Random(0), []
    for attempt in range(20):
        process = start(store, "decrypt" if attempt % 4 == 3 else "encrypt")
        try:
            process.wait(draw.uniform(0.1, 0.5))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        ends.append(finish(process)[0])
    assert finish(start(store, "encrypt"))[0] == 0
    assert plain_files(store, *WORDS) == []
    assert medhelm("leaderboard", "--format", "json", "--store", store).json == before
    assert {0, -signal.SIGKILL} >= set(ends)
    assert server.count == N * 4
    assert finish(start(store, *command))[0] == 0
    assert server.count == N * 4
