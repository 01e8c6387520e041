"""Inspect: `inspect eval` on a task file, with models behind an OpenAI-compatible server."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from bench.cells import CONCURRENCY, Bench, Peer

PEER = Peer(name="inspect", program="inspect", package="inspect-ai", leftovers=("inspect-out", "inspect-cache"))
TUNED = (
    "--display", "none", "--no-log-realtime", "--no-score-display",
    "--max-samples", str(2 * CONCURRENCY), "--log-buffer", "1000",
)  # fmt: skip
"""Its fastest options: no display, no log in real time, buffered samples."""


def write_task(bench: Bench, task: str) -> None:
    """Copy a task file into the work folder. Here it ends in `.in`: it imports inspect_ai, which may be missing."""
    shutil.copyfile(Path(__file__).with_name(f"{task}.in"), bench.work / task)


def eval_command(bench: Bench, *, task: str, model: str, address: str, max_tokens: int) -> list[str]:
    """Return the `inspect eval` command for a task file in the work folder."""
    command = [str(bench.program("inspect", "inspect")), "eval", task]
    command += ["--model", f"openai-api/mock/{model}", "--model-base-url", address]
    command += ["--max-connections", str(CONCURRENCY), "--temperature", "0", "--max-tokens", str(max_tokens)]
    return [*command, "--log-dir", str(bench.work / "inspect-out")]


def newest_log(bench: Bench) -> Path:
    """Return the log of the last run."""
    return max((bench.work / "inspect-out").glob("*.eval"), key=lambda path: path.stat().st_mtime_ns)


def read_mean(bench: Bench) -> float:
    """Read the mean score of the last run.

    Inspect's own command reads the log, because older Pythons cannot decompress it.
    """
    command = [str(bench.program("inspect", "inspect")), "log", "dump", "--header-only", str(newest_log(bench))]
    header = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    mean: float = header["results"]["scores"][0]["metrics"]["mean"]["value"]
    return mean
