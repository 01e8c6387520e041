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
from tests.support import programs
from tests.support.benchmarks.judged import JUDGES, court, write_benchmark
from tests.support.cli import Medhelm, repeated
from tests.support.encryption import plain_files
from tests.support.programs import finish
from tests.support.servers.openai import Server

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")

WORDS = ("An answer to number", "The answer to number", "Question number", "it is 3", "it is 4")
N, KILLS = 60, 6


def start(store: Path, *command: str) -> subprocess.Popen[str]:
    variables = {KEY_VARIABLE: os.environ[KEY_VARIABLE], "TMPDIR": str(store.parent / "tmp")}
    return programs.start(store.parent, *command, "--store", str(store), **variables)


def run(benchmark: Path, server: Server) -> list[str]:
    judges = repeated("--judge", map(server.model, JUDGES))
    return ["run", str(benchmark), "--model", server.model(), *judges, "--json", "--concurrency", "4"]


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
    code, _, said = finish(start(store, *command))
    assert code == 0, said
    assert server.count <= whole + KILLS * 4
    assert plain_files(store, *WORDS) == []
    assert medhelm("leaderboard", "--store", store).code == 0
