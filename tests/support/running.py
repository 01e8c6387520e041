"""Evaluations in progress: invented status files, `medhelm run` as a process, and waiting for what it writes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from medhelm.storage.live_status import EvaluationStatus, RunProgress, StatusFile, TokenCounts
from medhelm.storage.store import Store, create
from tests.support.servers.openai import PATIENCE_S, Server

T = TypeVar("T")


def eventually(look: Callable[[], T | None]) -> T:
    """Return the first result of `look` that is true; fail if there is none for a long time."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(0.02)
    raise AssertionError("what was waited for did not happen")


def make_run(**changes: Any) -> RunProgress:
    """Return the progress of a run that is half done."""
    values: dict[str, Any] = {
        "model": "openai/m@http://127.0.0.1:9/v1",
        "benchmark": "pubmed_qa",
        "state": "running",
        "n": 100,
        "done": 50,
        "n_failed": 3,
        "failures": {"timeout": 1, "refusal": 2},
        "tokens": TokenCounts(input=900, output=600),
        "cost_usd": 0.5,
        "rate_per_s": 5.0,
    }
    return RunProgress(**{**values, **changes})


def make_status(**changes: Any) -> EvaluationStatus:
    """Return the status of an evaluation with one run."""
    values: dict[str, Any] = {
        "id": "20261101000000-1-abc",
        "pid": 1,
        "host": "here",
        "command": ("run", "pubmed_qa"),
        "folder": "/work",
        "started": "2026-11-01T00:00:00.000+00:00",
        "updated": "2026-11-01T00:01:00.000+00:00",
        "state": "running",
        "runs": (make_run(),),
    }
    return EvaluationStatus(**{**values, **changes})


@contextmanager
def written(store: Store, status: EvaluationStatus) -> Iterator[StatusFile]:
    """Write a status, and hold its lock as a living process does; afterwards the status is one of a dead process."""
    file = StatusFile(store, status.id)
    file.write(status)
    try:
        yield file
    finally:
        file.close(keep_status=True)


def make_ended(store: Path, **changes: Any) -> EvaluationStatus:
    """Write the status of an evaluation whose process no longer exists."""
    status = make_status(**changes)
    with written(create(store), status):
        pass
    return status


@contextmanager
def running(store: Path, benchmark: Path, server: Server, model: str = "mock") -> Iterator[subprocess.Popen[str]]:
    """Run `medhelm run` with one model behind a server; the process is killed in the end."""
    name = f"openai/{model}@{server.url}/v1"
    command = ["run", str(benchmark), "--model", name, "--store", str(store), "--concurrency", "4"]
    with subprocess.Popen(
        [sys.executable, "-m", "medhelm", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env={name: value for name, value in os.environ.items() if not name.startswith("MEDHELM_")},
    ) as process:
        try:
            yield process
        finally:
            process.kill()
