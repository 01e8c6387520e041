"""A server for one model that is started for the length of a session, and never outlives it.

Between it and us stands a guard (`guard.py`): a process that ends the server and all its children when we close it or
die, however we die. What the server writes goes into a file, whose end is shown when something goes wrong.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from medhelm.errors import MedHelmError, ProviderError
from medhelm.io.http_client import HttpClient
from medhelm.models.local.runtime import LocalRuntime
from medhelm.models.providers.errors.redact import shown

GRACE_S = 15.0
"""How long a server may take to end after SIGTERM; then it is killed."""

POLL_S, MOST_POLL_S = 0.05, 1.0
"""How often it is asked for its health: at first, and at most seldom."""

NOTE_EVERY_S = 30.0
"""How often people hear that it is still starting."""

HEALTH_TIMEOUT_S = 5.0
"""Longest wait for one answer about its health."""

LOOKED_AT = 65536
"""Bytes at the end of its log that are looked at."""

SHOWN_LINES = 12
"""Lines of its log in a message."""

_PORT_TAKEN = re.compile(r"address already in use|errno 98|errno 48", re.IGNORECASE)
_MEMORY = re.compile(
    r"out of memory|OutOfMemoryError|No available memory for the cache blocks|less than desired GPU memory",
    re.IGNORECASE,
)
_CODE = re.compile(r"(setting|argument|option) `trust_remote_code=True`", re.IGNORECASE)
_KIND = re.compile(r"Model architectures .{0,200}(not supported|failed to be inspected)", re.IGNORECASE | re.DOTALL)
_DEVICE = re.compile(r"Failed to infer device type|No CUDA GPUs are available|Found no NVIDIA driver", re.IGNORECASE)
_CACHE = re.compile(
    r"max seq len \(|decreasing `?max_model_len|KV cache.{0,80}(is larger|needed)", re.IGNORECASE | re.DOTALL
)
_UNKNOWN = re.compile(
    r"is not a local folder|Repository Not Found|LocalEntryNotFoundError|OfflineModeIsEnabled|outgoing traffic"
    r"|cannot find the requested files|couldn.t connect to",
    re.IGNORECASE,
)
_ARGUMENT = re.compile(
    r"unrecognized arguments|invalid choice|error: argument|greater than the derived max_model_len", re.IGNORECASE
)
_PRIVATE = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL|^MEDHELM_", re.IGNORECASE)

Sleep = Callable[[float], Awaitable[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchPlan:
    """How a server is started."""

    command: Sequence[str]
    """Program and arguments."""
    environment: Mapping[str, str]
    """All that it sees of our environment, and what is set for it."""


class LocalServer:
    """One server process: started when it is first needed, ended by `close`."""

    def __init__(
        self,
        name: str,
        launch: Callable[[int, str], LaunchPlan],
        http: HttpClient,
        machine: LocalRuntime,
        *,
        start_timeout_s: float,
        sleep: Sleep = asyncio.sleep,
        grace_s: float = GRACE_S,
    ) -> None:
        """`launch` says how it is started, given its port and key; asked when it is, with all other servers known."""
        self.name = name
        self.base_url = ""
        self.key = secrets.token_urlsafe(24)
        """Without it nobody on this machine can use the server."""
        self._launch = launch
        self._http = http
        self._machine = machine
        self._start_timeout_s = start_timeout_s
        self._sleep = sleep
        self._grace_s = grace_s
        self._guard: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self._starting: asyncio.Task[None] | None = None

    async def ready(self) -> None:
        """Wait until it answers, starting it if nobody has.

        Raises: ProviderError, fatal, code `not_started`, with the reason and the end of its log; so does every later
        call, at once.
        """
        if self._starting is None:
            self._starting = asyncio.ensure_future(self._start())
        # A request that is cancelled does not take the start of all others with it.
        await asyncio.shield(self._starting)

    def alive(self) -> bool:
        """Whether the process is there."""
        return self._guard is not None and self._guard.poll() is None

    def ended(self) -> ProviderError:
        """What to say when it is gone although it had been started."""
        return ProviderError("not_started", f"its server has ended by itself.{self._what_it_said()}", fatal=True)

    async def close(self) -> None:
        """End it: SIGTERM, and SIGKILL after a grace time, for it and its children."""
        if self._starting is not None and not self._starting.done():
            self._starting.cancel()
            with suppress(asyncio.CancelledError, MedHelmError):
                await self._starting
        await self._end()
        if self._log is not None:
            self._log.close()
            self._log = None

    def log_tail(self) -> str:
        """The last lines that it wrote, safe to show; "" if there are none."""
        if self._log is None:
            return ""
        number = self._log.fileno()
        start = max(0, os.fstat(number).st_size - LOOKED_AT)
        written = os.pread(number, LOOKED_AT, start).decode("utf-8", "replace")  # where it writes on stays as it is
        return "\n".join(f"  | {line}" for text in written.splitlines() if (line := shown(text)))

    # --- starting -----------------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        async with self._machine.starting:
            for last in (False, False, True):
                port = free_port()
                self._run(self._launch(port, self.key))
                try:
                    await self._wait(port)
                except ProviderError:
                    taken = _PORT_TAKEN.search(self.log_tail()) and not self.alive()
                    if last or not taken:
                        raise
                    await self._end()
                else:
                    self.base_url = f"http://127.0.0.1:{port}/v1"
                    return

    def _run(self, launch: LaunchPlan) -> None:
        if self._log is None:
            self._log = tempfile.TemporaryFile()  # noqa: SIM115 - without a name: nothing is left of it, whatever happens
        else:
            self._log.truncate(0)
            self._log.seek(0)
        guard = str(Path(__file__).with_name("watchdog.py"))
        try:
            self._guard = subprocess.Popen(  # noqa: S603 - the user's own vLLM
                [sys.executable, "-I", "-S", guard, str(self._grace_s), *launch.command],
                stdin=subprocess.PIPE,
                stdout=self._log,
                stderr=subprocess.STDOUT,
                env=dict(launch.environment),
                start_new_session=True,  # so that Ctrl-C in the terminal reaches us alone
            )
        except OSError as error:
            raise ProviderError("not_started", f"it cannot be started: {error}", fatal=True) from error

    async def _wait(self, port: int) -> None:
        """Until it says that it is well."""
        began = noted = time.monotonic()
        pause_s = POLL_S
        self._machine.note(f"{self.name}: starting its server")
        while not await self._is_well(port):
            now = time.monotonic()
            if not self.alive():
                code = self._guard.returncode if self._guard else 1
                raise ProviderError("not_started", self._why(f"its server ended with exit code {code}"), fatal=True)
            if now - began > self._start_timeout_s:
                waited = f"its server was not ready after {self._start_timeout_s:g} s"
                fix = "Loading large weights takes long: set MEDHELM_VLLM_WAIT_S to more seconds. "
                raise ProviderError("not_started", self._why(waited, fix), fatal=True)
            if now - noted >= NOTE_EVERY_S:
                noted = now
                last = self.log_tail().rpartition("| ")[2][:120]
                self._machine.note(f"{self.name}: its server has been starting for {now - began:.0f} s: {last}")
            await self._sleep(pause_s)
            pause_s = min(2 * pause_s, MOST_POLL_S)
        self._machine.note(f"{self.name}: its server was ready after {time.monotonic() - began:.0f} s")

    async def _is_well(self, port: int) -> bool:
        try:
            url = f"http://127.0.0.1:{port}/health"
            return (await self._http.get(url, headers={}, timeout_s=HEALTH_TIMEOUT_S)).status == 200
        except ProviderError:
            return False

    def _why(self, what: str, fix: str = "") -> str:
        return f"{what}. {fix or advice_on(self.log_tail())}".rstrip() + self._what_it_said()

    def _what_it_said(self) -> str:
        lines = self.log_tail().splitlines()[-SHOWN_LINES:]
        return "\n".join([" The end of its log:", *lines]) if lines else " It wrote nothing."

    async def _end(self) -> None:
        guard, self._guard = self._guard, None
        if guard is not None:
            await asyncio.to_thread(self._wait_for_end, guard)

    def _wait_for_end(self, guard: subprocess.Popen[bytes]) -> None:
        if guard.stdin is not None:
            guard.stdin.close()  # the guard's sign to end the server
        try:
            guard.wait(self._grace_s + 5.0)
        except subprocess.TimeoutExpired:
            guard.kill()  # which takes the server with it where the kernel can do that
            guard.wait()


def free_port() -> int:
    """A port of 127.0.0.1 that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """What a server may see of our environment: nothing that looks like a key, and nothing of ours.

    >>> without_secrets({"PATH": "/bin", "OPENAI_API_KEY": "sk-", "AWS_SECRET_ACCESS_KEY": "x"})
    {'PATH': '/bin'}
    """
    return {name: value for name, value in environment.items() if not _PRIVATE.search(name)}


def advice_on(log: str) -> str:
    """What to do, by what a server wrote; "" if it says nothing that is known."""
    if _PORT_TAKEN.search(log):
        return "Its port was taken three times in a row: run the command again. "
    if _MEMORY.search(log):
        return (
            "The GPU's memory does not suffice: give it `serve_arguments: [--max-model-len, 8192]` or more GPUs, close "
            "what else uses them (nvidia-smi), or take a smaller model. "
        )
    if _CODE.search(log):
        return "It needs program code that came with its files, which is never run here. "
    if _KIND.search(log):
        return "This release of vLLM does not know this kind of model: try a newer one, or hf/. "
    if _DEVICE.search(log):
        return "vLLM finds no GPU: look at nvidia-smi and CUDA_VISIBLE_DEVICES, or take hf/, which needs none. "
    if _UNKNOWN.search(log):
        return "The model is not on this machine, and nothing is downloaded during a run: fetch it with `hf download`. "
    if _ARGUMENT.search(log):
        return "Look at `serve_arguments` in models.yaml: `vllm serve --help=all` lists what there is. "
    if _CACHE.search(log):
        return "Its window does not fit beside the weights: give it `serve_arguments: [--max-model-len, 8192]`. "
    return ""
