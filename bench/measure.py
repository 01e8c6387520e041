"""Run one process and weigh it; start and ask the server it talks to."""

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
"""After this long a server ends by itself, whatever became of the program that started it."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One process from its start to its exit, as the kernel accounts it."""

    wall_s: float
    """Seconds on the clock."""
    cpu_s: float
    """Seconds of processor, user and system, its finished children included."""
    peak_mib: float
    """Largest resident set of the process or of one of its finished children, in MiB."""
    exit_code: int
    """As a shell sees it; negative: the signal that ended it."""
    timed_out: bool
    """Whether it was stopped because it took too long."""


def peak_in_mib(ru_maxrss: int, system: str = sys.platform) -> float:
    """MiB of a peak resident set, which macOS counts in bytes and the others in KiB."""
    return ru_maxrss / (1 << 20 if system == "darwin" else 1 << 10)


def run_process(
    command: Sequence[str], *, cwd: Path, environment: Mapping[str, str], stdout: Path, limit_s: float
) -> Measurement:
    """Run `command` to its end and measure it; standard output goes to `stdout`, standard error beside it (`.err`).

    The kernel counts the memory that this process had when it started the other one into the other's peak, so nothing
    large may be kept in memory here. After `limit_s` seconds the process is ended, with everything it started.
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


def find_compiler(environment: Mapping[str, str] = os.environ) -> str | None:
    """Path of a C compiler: `$CC`, else the first of cc, gcc and clang; None if there is none."""
    for name in (environment.get("CC", ""), "cc", "gcc", "clang"):
        found = shutil.which(name) if name else None
        if found:
            return found
    return None


def build_server(compiler: str, folder: Path) -> Path:
    """Compile the server into `folder` and return the program. Raises SystemExit with what the compiler said."""
    program = folder / "server"
    command = [compiler, "-O2", "-Wall", "-Wextra", "-o", str(program), str(SERVER_SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", errors="replace", check=False)
    if done.returncode != 0:
        raise SystemExit(f"bench: {SERVER_SOURCE.name} does not compile with {compiler}\n{done.stderr}")
    return program


class Server:
    """A running server on a free port of 127.0.0.1; a context manager that ends it."""

    def __init__(self, program: Path, latency_ms: float) -> None:
        """Start it; every completion takes `latency_ms`. Raises SystemExit if it does not come up."""
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
        """Address up to and including the version part."""
        return f"http://127.0.0.1:{self.port}/v1"

    def reset(self) -> dict[str, int]:
        """Counters since the last reset: `requests`, `in_flight_max`, `connections`."""
        with self._opener.open(f"http://127.0.0.1:{self.port}/reset", timeout=10) as reply:
            counters: dict[str, int] = json.load(reply)
        return counters

    def close(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def __enter__(self) -> Server:
        """The server itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        self.close()
