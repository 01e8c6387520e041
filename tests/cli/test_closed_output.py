"""Output that cannot be written, and paths that cannot be used: one sentence and the right exit code."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from medhelm.evaluation.scheduler import on_interrupt
from tests.support.cli import Medhelm


@pytest.mark.parametrize(
    ("command", "code", "told"),
    [
        ("benchmarks instances pubmed_qa --tier sample | head -c 10 > /dev/null; exit ${PIPESTATUS[0]}", 0, ""),
        ("benchmarks list > /dev/full", 4, "could not be written: No space left on device."),
        ("benchmarks list >&-", 0, ""),
        ("leaderboard --store $'a\\xff'", 2, "'a\\udcff') is not UTF-8"),
    ],
)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device is always full")
def test_output_that_cannot_be_written(tmp_path: Path, command: str, code: int, told: str) -> None:
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m medhelm {command}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert told in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="there is no such signal")
def test_a_lost_connection_stops_work_as_ctrl_c_does() -> None:
    usual = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
    stopped: list[int] = []

    async def work() -> None:
        with on_interrupt(lambda: stopped.append(1)):
            os.kill(os.getpid(), signal.SIGHUP)
            await asyncio.sleep(0.05)

    try:
        asyncio.run(work())
        assert (stopped, signal.getsignal(signal.SIGHUP)) == ([1], signal.SIG_DFL)
    finally:
        signal.signal(signal.SIGHUP, usual)


@pytest.mark.parametrize(
    "error", [MemoryError(), ImportError("numpy.so: failed to map segment from shared object")], ids=["data", "code"]
)
def test_lack_of_memory_is_a_message(medhelm: Medhelm, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(*_: object, **__: object) -> NoReturn:
        raise ExceptionGroup("tasks", [error])

    monkeypatch.setattr("medhelm.evaluation.check.check_all", fail)
    done = medhelm("benchmarks", "check", "pubmed_qa")
    assert (done.code, done.err.startswith("medhelm: there is not enough memory")) == (4, True)
