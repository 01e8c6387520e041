"""Run one process and measure it; start the server that it asks and read its counters."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

SERVER_SOURCE = Path(__file__).resolve().parent / "server.c"
SERVER_SECONDS = 6 * 3600
"""A server exits after this time, even if the program that started it is gone."""
PREPARE_LIMIT_S = 1200.0
"""Time limit of one command that prepares a workload."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """Resources of one process from its start to its exit, as the kernel counts them."""

    wall_s: float
    """Elapsed seconds."""
    cpu_s: float
    """CPU seconds, user and system, including finished children."""
    peak_mib: float
    """Largest resident set of the process or of one of its finished children, in MiB."""
    exit_code: int
    """Exit code; negative: the signal that ended it."""
    timed_out: bool
    """True if it was killed at the time limit."""


def peak_in_mib(ru_maxrss: int, system: str = sys.platform) -> float:
    """Convert a peak resident set to MiB: macOS counts bytes, other systems KiB."""
    return ru_maxrss / (1 << 20 if system == "darwin" else 1 << 10)


def run_process(
    command: Sequence[str], *, cwd: Path, environment: Mapping[str, str], stdout: Path, limit_s: float
) -> Measurement:
    """Run `command` to its end and measure it; standard output goes to `stdout`, standard error beside it (`.err`).

    The kernel counts the memory of this process at the fork into the peak of the child, so this process must stay
    small. After `limit_s` seconds the process and everything it started are killed.
    """
    expired = threading.Event()
    with stdout.open("wb") as out, stdout.with_suffix(".err").open("wb") as err:
        start = time.perf_counter()
        process = subprocess.Popen(
            list(command),
            cwd=cwd,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )

        def stop() -> None:
            expired.set()
            os.killpg(process.pid, signal.SIGKILL)

        alarm = threading.Timer(limit_s, stop)
        alarm.start()
        try:
            _, status, used = os.wait4(process.pid, 0)
            wall_s = time.perf_counter() - start
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        finally:
            alarm.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    return Measurement(
        wall_s, used.ru_utime + used.ru_stime, peak_in_mib(used.ru_maxrss), process.returncode, expired.is_set()
    )


def output_of(words: Sequence[str], limit_s: float = PREPARE_LIMIT_S) -> str:
    """Run a command, unmeasured, and return its standard output. Raises SystemExit with its message if it fails."""
    done = subprocess.run(words, capture_output=True, text=True, encoding="utf-8", check=False, timeout=limit_s)
    if done.returncode != 0:
        raise SystemExit(f"bench: {' '.join(words)} failed\n{done.stderr}")
    return done.stdout


def find_compiler(environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the path of a C compiler: `$CC`, else the first of cc, gcc and clang; None if there is none."""
    for name in (environment.get("CC", ""), "cc", "gcc", "clang"):
        found = shutil.which(name) if name else None
        if found:
            return found
    return None


def build_server(compiler: str, folder: Path) -> Path:
    """Compile the server into `folder` and return its path. Raises SystemExit with the compiler's message."""
    program = folder / "server"
    command = [compiler, "-O2", "-Wall", "-Wextra", "-o", str(program), str(SERVER_SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", errors="replace", check=False)
    if done.returncode != 0:
        raise SystemExit(f"bench: {SERVER_SOURCE.name} does not compile with {compiler}\n{done.stderr}")
    return program


class Server:
    """A running server on a free port of 127.0.0.1; a context manager that stops it."""

    def __init__(self, program: Path, latency_ms: float) -> None:
        """Start it; every completion takes `latency_ms`. Raises SystemExit if it does not start."""
        self.latency_ms = latency_ms
        command = [str(program), "0", f"{latency_ms:g}", str(SERVER_SECONDS)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, encoding="ascii")
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self.close()
            raise SystemExit("bench: the server did not start; its message is above")
        self.port = int(line)
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    @property
    def base_url(self) -> str:
        """Base URL, including the version."""
        return f"http://127.0.0.1:{self.port}/v1"

    def reset(self) -> dict[str, int]:
        """Return and reset the counters: `requests`, `in_flight_max`, `connections`."""
        with self._opener.open(f"http://127.0.0.1:{self.port}/reset", timeout=10) as reply:
            counters: dict[str, int] = json.load(reply)
        return counters

    def close(self) -> None:
        """Stop it."""
        self._process.terminate()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def __enter__(self) -> Server:
        """Return the server."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop it."""
        self.close()
