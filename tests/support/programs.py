"""`medhelm` as processes of their own, and a trap for what they connect to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LIMIT_S = 600


def start(folder: Path, *command: str, **variables: str) -> subprocess.Popen[str]:
    usual = {name: value for name, value in os.environ.items() if not name.startswith(("MEDHELM_", "OPENAI_"))}
    return subprocess.Popen(
        [sys.executable, "-m", "medhelm", *command],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env={**usual, **variables},
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=LIMIT_S)
    return process.returncode, out, err


@contextmanager
def gateway(folder: Path, *options: str, **variables: str) -> Iterator[dict[str, Any]]:
    """Run a gateway for the models of models.yaml; yield what it prints. It ends with SIGTERM."""
    process = start(folder, "gateway", "--port", "0", "--store", "gate", "--json", *options, **variables)
    try:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        printed = ""
        for line in lines:
            printed += line
            if line == "}\n":
                break
        else:
            raise AssertionError(finish(process)[2])
        yield json.loads(printed)
        process.send_signal(signal.SIGTERM)
        code, _, err = finish(process)
        assert code == 130, err
        assert "Traceback" not in err
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            stream.close()
