"""The program as a process: how it starts and ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def process(*command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "medhelm", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


@pytest.mark.parametrize(
    ("command", "code", "out", "err"),
    [
        (("--version",), 0, "medhelm, version", ""),
        (("benchmarks", "instances", "medbullets", "--tier", "sample"), 0, '"id"', ""),
        (("benchmarks", "show", "nothing"), 2, "", "unknown benchmark"),
        (("leaderboard", "--store", "nowhere"), 2, "", "there is no store"),
        (("run", "pubmed_qa", "--model", "openai/gpt-4o", "--tier", "sample"), 4, "", "OPENAI_API_KEY"),
    ],
)
def test_everything_is_written_before_the_process_ends(
    command: tuple[str, ...], code: int, out: str, err: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    running = process(*command)
    written = running.communicate(timeout=60)
    assert running.returncode == code
    assert out in written[0]
    assert err in written[1]
    assert "Traceback" not in written[1]


def test_a_reader_that_has_had_enough_is_no_error() -> None:
    running = process("benchmarks", "instances", "medcalc_bench", "--tier", "sample")
    assert running.stdout is not None
    assert running.stderr is not None
    running.stdout.close()
    assert "Traceback" not in running.stderr.read()
    running.wait(60)
    running.stderr.close()


@pytest.mark.parametrize(
    ("module", "later"),
    [
        ("medhelm.cli", {"pydantic", "aiohttp", "numpy", "duckdb", "yaml"}),
        # What the end of a run needs is loaded while the first questions are on their way.
        ("medhelm.evaluation.evaluate", {"aiohttp", "numpy", "duckdb", "medhelm.evaluation.batch.submit"}),
    ],
)
def test_what_is_needed_later_is_loaded_later(module: str, later: set[str]) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert module in done.stdout.split()
    assert later.isdisjoint(done.stdout.split())
