"""Models behind a `vllm serve` that medhelm starts: `vllm/ORG/NAME` or `vllm/./folder`.

The server starts at the first request, listens on 127.0.0.1 with a random key, uses the machine's GPUs and ends with
the session. It downloads nothing and reports no usage. Each of several models has its own GPUs if there are enough;
otherwise they share them. Servers start one after another, because each measures the free memory.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from medhelm.domain import Completion, Model, Request
from medhelm.errors import MedHelmError, MissingError, ProviderError, UserError
from medhelm.extensions.local.loading import (
    ModelFiles,
    find_weights,
    has_mistral_tokenizer,
    has_template,
    is_folder,
    with_weights,
)
from medhelm.io.http.client import HttpClient
from medhelm.models.provider import OptionalParameter, Provider, Service, SharedResources
from medhelm.models.providers.errors import shown
from medhelm.models.providers.hosted import HttpProvider
from medhelm.models.providers.openai import ChatCompletions

EXECUTABLE = "MEDHELM_VLLM"
"""Environment variable with the program to start, such as the `vllm` of another environment; default: on the PATH."""

START_TIMEOUT = "MEDHELM_VLLM_WAIT_S"
"""Environment variable: seconds that a server may take to start."""

START_TIMEOUT_S = 1800.0
"""Its default: large weights are read at some hundred MB per second."""

ARGUMENTS = "serve_arguments"
"""Parameter of a model with further arguments for `vllm serve`; it is not sent."""

_RESERVED = ("--host", "--port", "--api-key", "--served-model-name", "--uds")
_CODE, _FILE = "--trust-remote-code", "--config"

PLAIN = (
    "{{ bos_token }}{% for message in messages %}{{ message['content'] }}"
    "{% if not loop.last %}{{ '\\n\\n' }}{% endif %}{% endfor %}"
)
"""Chat template for a model without one: the texts of the messages, as with `hf/`. vLLM requires a template."""
_OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}


class Vllm(Provider):
    """One model behind its own server; names of the same model with the same arguments share the server."""

    replies_in_time = False

    def __init__(
        self, model: Model, http: HttpClient, environment: Mapping[str, str], resources: SharedResources
    ) -> None:
        """Raises: MissingError if vLLM or the model is not installed; UserError for arguments that are not allowed."""
        self.model = model
        self.arguments = checked_arguments(model)
        self.endpoint = f"vllm/{' '.join((model.remote_name, *self.arguments))}"
        self._http = http
        self._environment = environment
        self._resources = resources
        self._program = _program(environment)
        self._weights = _weights(model.remote_name, environment)
        if not self._has_template:
            resources.note(
                f"{model.name} has no chat template: it gets the messages as plain text. It is probably a base model: "
                "use the instruction-tuned one."
            )
        self._hosted: HttpProvider | None = None
        timeout_s = _start_timeout_s(environment)
        self.server = resources.shared(
            self.endpoint,
            lambda: LocalServer(f"vllm/{model.remote_name}", self._launch, http, resources, start_timeout_s=timeout_s),
        )

    @property
    def unsupported(self) -> Mapping[OptionalParameter, str]:
        """Optional parameter that the server does not support -> its message."""
        return self._hosted.unsupported if self._hosted else {}

    @property
    def _has_template(self) -> bool:
        """Return True if the server has a chat template, or may have one."""
        if self._weights is None or _has_option(self.arguments, "--chat-template"):
            return True
        return has_template(self._weights) or has_mistral_tokenizer(self._weights.folder)

    async def complete(self, request: Request) -> Completion:
        """Send one request to the server, which the first request starts.

        Raises: ProviderError as from every OpenAI-compatible server; fatal `not_started` if it does not start or has
        exited.
        """
        await self.server.ready()
        hosted = self._hosted or self._open()
        try:
            return await hosted.complete(replace(request, model=_as_served(request.model, self.server.base_url)))
        except ProviderError:
            if not self.server.alive():
                raise self.server.ended() from None
            raise

    def _open(self) -> HttpProvider:
        served = _as_served(self.model, self.server.base_url)
        self._hosted = HttpProvider(served, self._http, ChatCompletions(served, key=self.server.key), SERVICE)
        return self._hosted

    def _launch(self, port: int, key: str) -> LaunchPlan:
        """Return the command line and its environment. All servers of the session are known by now."""
        servers = self._resources.opened(LocalServer)
        gpus, memory = shares(visible_gpus(self._environment), len(servers))[servers.index(self.server)]
        name = self.model.remote_name
        words = ["--host", "127.0.0.1", "--port", str(port), "--served-model-name", name]
        if len(gpus) > 1 and not _has_option(self.arguments, "--tensor-parallel-size", "-tp"):
            config = self._weights.config if self._weights else {}
            words += ["--tensor-parallel-size", str(tensor_parallel(len(gpus), config))]
        if memory < MEMORY_SHARE and not _has_option(self.arguments, "--gpu-memory-utilization"):
            words += ["--gpu-memory-utilization", str(memory)]
        if not _has_option(self.arguments, "--generation-config"):
            words += ["--generation-config", "vllm"]  # decoding settings are the benchmark's, not the model's
        if not self._has_template:
            words += ["--chat-template", PLAIN]
        place = str(self._weights.folder.absolute()) if self._weights else _folder_or_id(name)
        chosen = {"CUDA_VISIBLE_DEVICES": ",".join(gpus)} if gpus else {}
        return LaunchPlan(
            command=(self._program, "serve", place, *words, *self.arguments),
            environment={**without_secrets(self._environment), **_OFFLINE, **chosen, "VLLM_API_KEY": key},
        )


def checked_arguments(model: Model) -> tuple[str, ...]:
    """Return a model's own arguments for `vllm serve`. Raises: UserError if some are not allowed."""
    given = model.parameters.get(ARGUMENTS, [])
    if not isinstance(given, list | tuple) or not all(isinstance(word, str | int | float) for word in given):
        raise UserError(f"{model.name}: `{ARGUMENTS}` must be a list of arguments, such as [--max-model-len, 8192].")
    words = tuple(map(str, given))
    reserved = sorted(name for name in _RESERVED if _may_have_option(words, name))
    if reserved:
        raise UserError(f"{model.name}: `{ARGUMENTS}` cannot hold {', '.join(reserved)}: medhelm sets the address.")
    if any(_option_name(word) == _FILE for word in words):
        raise UserError(
            f"{model.name}: `{ARGUMENTS}` cannot hold {_FILE}, because the file would not be checked. "
            "Write its arguments into the list."
        )
    if _may_have_option(words, _CODE):
        raise UserError(
            f"{model.name}: `{ARGUMENTS}` cannot hold --trust-remote-code, which runs code that comes with the model. "
            "If you trust it, start the server yourself and name it openai/NAME@http://127.0.0.1:8000/v1."
        )
    return words


def _has_option(words: Sequence[str], *names: str) -> bool:
    """Return True if an option is among these words, as `--name value`, `--name=value` or with underscores."""
    return any(_option_name(word) in names for word in words)


def _may_have_option(words: Sequence[str], name: str) -> bool:
    """Return True if an option is among these words, abbreviated or not: vLLM accepts any unique beginning."""
    return any(len(option := _option_name(word)) > 2 and name.startswith(option) for word in words)


def _option_name(word: str) -> str:
    return word.partition("=")[0].replace("_", "-") if word.startswith("-") else ""


def _as_served(model: Model, base_url: str) -> Model:
    """Return the model as its server gets it."""
    parameters = {name: value for name, value in model.parameters.items() if name not in (ARGUMENTS, "version")}
    return replace(model, base_url=base_url, parameters=parameters)


def _program(environment: Mapping[str, str]) -> str:
    """Return the program to start. Raises: MissingError if there is none."""
    named = environment.get(EXECUTABLE, "").strip()
    found = shutil.which(named or "vllm", path=environment.get("PATH"))
    if found:
        return found
    if named:
        raise MissingError(f"vllm/: {EXECUTABLE} names {named}, which cannot be executed.")
    raise MissingError(
        f"vllm/ needs vLLM, but there is no `vllm` on the PATH. Install it into its own environment (docs.vllm.ai) "
        f"and set {EXECUTABLE} to its `vllm`, or name a server that runs elsewhere: "
        "openai/NAME@http://127.0.0.1:8000/v1."
    )


def _weights(name: str, environment: Mapping[str, str]) -> ModelFiles | None:
    """Return the model's files; None if only vLLM can read them. Raises: MissingError if there are none."""
    try:
        return find_weights(name, environment)
    except UserError:
        return None


def _folder_or_id(name: str) -> str:
    """Return what the server loads if the files cannot be read here."""
    return str(Path(name).expanduser().absolute()) if is_folder(name) else name


def _start_timeout_s(environment: Mapping[str, str]) -> float:
    given = environment.get(START_TIMEOUT, "").strip()
    try:
        seconds = float(given or START_TIMEOUT_S)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise UserError(f"{START_TIMEOUT} is `{given}`, but must be a number of seconds above 0.")
    return seconds


SERVICE = Service(
    name="vllm",
    title="vLLM",
    open=lambda model, context: Vllm(model, context.http, context.environment, context.resources),
    takes_address=False,
    resolve=with_weights,
    examples=("vllm/Qwen/Qwen3-8B",),
)


# --- server -----------------------------------------------------------------------------------------------------------
# A server for one model that runs during a session and never outlives it.
#
# A watchdog process (`watchdog.py`) starts the server. It ends the server and all its children when this process closes
# it or dies for any reason. The server's output goes into a file, and error messages show the end of it.

GRACE_S = 15.0
"""Time for a server to exit after SIGTERM before it is killed."""

POLL_S, MOST_POLL_S = 0.05, 1.0
"""Pauses between health checks: the first one, and the longest one."""

NOTE_EVERY_S = 30.0
"""Time between notes that the server is still starting."""

HEALTH_TIMEOUT_S = 5.0
"""Longest wait for the result of one health check."""

STARTING = "server start"
"""Key of the lock that the server holds which is starting: each start measures the free memory."""

TAIL_BYTES = 65536
"""Bytes at the end of the log that are searched for known errors."""

SHOWN_LINES = 12
"""Most lines of the log in a message."""

_PORT_TAKEN = re.compile(r"address already in use|errno 98|errno 48", re.IGNORECASE)
_ADVICE = {
    _PORT_TAKEN.pattern: "Its port was taken three times in a row: run the command again.",
    r"out of memory|OutOfMemoryError|No available memory for the cache blocks|less than desired GPU memory"
    r"|max seq len \(|KV cache.{0,80}(is larger|needed)": (
        "The GPU does not have enough memory: set `serve_arguments: [--max-model-len, 8192]`, use more GPUs, end other "
        "programs on them (see nvidia-smi), or choose a smaller model."
    ),
    r"`trust_remote_code=True`": "The model needs code from its own files, and such code is never executed.",
    r"Failed to infer device type|No CUDA GPUs are available|Found no NVIDIA driver": (
        "vLLM finds no GPU: check nvidia-smi and CUDA_VISIBLE_DEVICES, or use hf/, which needs none."
    ),
    r"is not a local folder|Repository Not Found|LocalEntryNotFoundError|OfflineModeIsEnabled|outgoing traffic": (
        "The model is not on this machine, and nothing is downloaded during a run: get it with `hf download`."
    ),
}
"""Regular expression for a server's log -> what to do. The log itself is shown for all other errors."""

_PRIVATE = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL|^MEDHELM_", re.IGNORECASE)

Sleep = Callable[[float], Awaitable[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchPlan:
    """Command and environment that start a server."""

    command: Sequence[str]
    """Program and arguments."""
    environment: Mapping[str, str]
    """Complete environment of the server."""


class LocalServer:
    """One server process: started when it is first needed, ended by `close`."""

    def __init__(
        self,
        name: str,
        launch: Callable[[int, str], LaunchPlan],
        http: HttpClient,
        resources: SharedResources,
        *,
        start_timeout_s: float,
        sleep: Sleep = asyncio.sleep,
        grace_s: float = GRACE_S,
    ) -> None:
        """`launch` plans the start, given port and key. It is called when all other servers are known."""
        self.name = name
        self.base_url = ""
        self.key = secrets.token_urlsafe(24)
        """API key of the server, which keeps other users of this machine out."""
        self._launch = launch
        self._http = http
        self._resources = resources
        self._start_timeout_s = start_timeout_s
        self._sleep = sleep
        self._grace_s = grace_s
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self._starting: asyncio.Task[None] | None = None

    async def ready(self) -> None:
        """Start the server if necessary, and wait until it is ready.

        Raises: ProviderError, fatal, code `not_started`, with the reason and the end of its log. After a failed start
        every later call raises it immediately.
        """
        if self._starting is None:
            self._starting = asyncio.ensure_future(self._start())
        # Canceling one request must not cancel the start, which other requests wait for.
        await asyncio.shield(self._starting)

    def alive(self) -> bool:
        """Return True if the process runs."""
        return self._watchdog is not None and self._watchdog.poll() is None

    def ended(self) -> ProviderError:
        """Return the error for a server that exited after its start."""
        return ProviderError("not_started", f"its server exited unexpectedly.{self._end_of_log()}", fatal=True)

    async def close(self) -> None:
        """End the server and its children: SIGTERM, then SIGKILL after a grace period."""
        if self._starting is not None and not self._starting.done():
            self._starting.cancel()
            with suppress(asyncio.CancelledError, MedHelmError):
                await self._starting
        await self._end()
        if self._log is not None:
            self._log.close()
            self._log = None

    def log_tail(self) -> str:
        """Return the end of the log, safe to show; "" if it is empty."""
        if self._log is None:
            return ""
        number = self._log.fileno()
        start = max(0, os.fstat(number).st_size - TAIL_BYTES)
        written = os.pread(number, TAIL_BYTES, start).decode("utf-8", "replace")  # keeps the writer's position
        return "\n".join(f"  | {line}" for text in written.splitlines() if (line := shown(text)))

    # --- starting -----------------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        async with self._resources.shared(STARTING, asyncio.Lock):
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
            self._log = tempfile.TemporaryFile()  # noqa: SIM115 - it has no name, so nothing remains of it
        else:
            self._log.truncate(0)
            self._log.seek(0)
        watchdog = str(Path(__file__).with_name("watchdog.py"))
        try:
            self._watchdog = subprocess.Popen(  # noqa: S603 - the user's own vLLM
                [sys.executable, "-I", "-S", watchdog, str(self._grace_s), *launch.command],
                stdin=subprocess.PIPE,
                stdout=self._log,
                stderr=subprocess.STDOUT,
                env=dict(launch.environment),
                start_new_session=True,  # Ctrl-C in the terminal reaches only this process
            )
        except OSError as error:
            raise ProviderError("not_started", f"it cannot be started: {error}", fatal=True) from error

    async def _wait(self, port: int) -> None:
        """Wait until the health check succeeds. Raises: ProviderError, fatal, code `not_started`."""
        began = noted = time.monotonic()
        pause_s = POLL_S
        self._resources.note(f"{self.name}: starting its server")
        while not await self._is_healthy(port):
            now = time.monotonic()
            if not self.alive():
                code = self._watchdog.returncode if self._watchdog else 1
                raise ProviderError("not_started", self._reason(f"its server exited with code {code}"), fatal=True)
            if now - began > self._start_timeout_s:
                waited = f"its server was not ready after {self._start_timeout_s:g} s"
                fix = "Large weights take long to load: set MEDHELM_VLLM_WAIT_S to more seconds."
                raise ProviderError("not_started", self._reason(waited, fix), fatal=True)
            if now - noted >= NOTE_EVERY_S:
                noted = now
                last = self.log_tail().rpartition("| ")[2][:120]
                self._resources.note(f"{self.name}: its server has been starting for {now - began:.0f} s: {last}")
            await self._sleep(pause_s)
            pause_s = min(2 * pause_s, MOST_POLL_S)
        self._resources.note(f"{self.name}: its server was ready after {time.monotonic() - began:.0f} s")

    async def _is_healthy(self, port: int) -> bool:
        try:
            url = f"http://127.0.0.1:{port}/health"
            return (await self._http.get(url, headers={}, timeout_s=HEALTH_TIMEOUT_S)).status == 200
        except ProviderError:
            return False

    def _reason(self, event: str, fix: str = "") -> str:
        return f"{event}. {fix or advice_on(self.log_tail())}".rstrip() + self._end_of_log()

    def _end_of_log(self) -> str:
        lines = self.log_tail().splitlines()[-SHOWN_LINES:]
        return "\n".join([" The end of its log:", *lines]) if lines else " Its log is empty."

    async def _end(self) -> None:
        watchdog, self._watchdog = self._watchdog, None
        if watchdog is not None:
            await asyncio.to_thread(self._wait_for_end, watchdog)

    def _wait_for_end(self, watchdog: subprocess.Popen[bytes]) -> None:
        if watchdog.stdin is not None:
            watchdog.stdin.close()  # signals the watchdog to end the server
        try:
            watchdog.wait(self._grace_s + 5.0)
        except subprocess.TimeoutExpired:
            watchdog.kill()  # on Linux the kernel ends the server with it
            watchdog.wait()


def free_port() -> int:
    """Return a port of 127.0.0.1 that was free at the time of the call."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without variables that look like keys or belong to this package.

    >>> without_secrets({"PATH": "/bin", "OPENAI_API_KEY": "sk-", "AWS_SECRET_ACCESS_KEY": "x"})
    {'PATH': '/bin'}
    """
    return {name: value for name, value in environment.items() if not _PRIVATE.search(name)}


def advice_on(log: str) -> str:
    """Return advice on the first known error in a server's log; "" if it has none."""
    flags = re.IGNORECASE | re.DOTALL
    return next((advice for pattern, advice in _ADVICE.items() if re.search(pattern, log, flags)), "")


# --- GPUs -------------------------------------------------------------------------------------------------------------
# The GPUs of this machine, and their distribution among servers.

_DRIVER = Path("/proc/driver/nvidia/gpus")

MEMORY_SHARE = 0.9
"""Share of a GPU's memory for all servers on it together; vLLM's default for one server."""


def visible_gpus(environment: Mapping[str, str], driver: Path = _DRIVER) -> list[str]:
    """Return the names of usable GPUs in the form of CUDA_VISIBLE_DEVICES: its values, or else numbers."""
    chosen = environment.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return [name.strip() for name in chosen.split(",") if name.strip() not in ("", "-1", "NoDevFiles")]
    if program := shutil.which("nvidia-smi", path=environment.get("PATH")):  # lists only the GPUs of this container
        with suppress(OSError, subprocess.TimeoutExpired):
            done = subprocess.run([program, "-L"], capture_output=True, text=True, timeout=20, check=False)  # noqa: S603
            if done.returncode == 0:
                n = sum(line.startswith("GPU ") for line in done.stdout.splitlines())
                return [str(number) for number in range(n)]
    if driver.is_dir():
        return [str(number) for number in range(len(list(driver.iterdir())))]
    return []


def shares(gpus: Sequence[str], servers: int) -> list[tuple[list[str], float]]:
    """Return for each server its GPUs and its share of their memory.

    With enough GPUs each server has its own; otherwise several servers share a GPU and its memory.

    >>> shares(["0", "1", "2", "3"], 2)
    [(['0', '1'], 0.9), (['2', '3'], 0.9)]
    >>> shares(["0"], 2)
    [(['0'], 0.45), (['0'], 0.45)]
    """
    if not gpus:
        return [([], MEMORY_SHARE)] * servers
    if servers <= len(gpus):
        each = len(gpus) // servers
        return [(list(gpus[number * each : (number + 1) * each]), MEMORY_SHARE) for number in range(servers)]
    places = [number % len(gpus) for number in range(servers)]
    return [([gpus[place]], round(MEMORY_SHARE / places.count(place), 3)) for place in places]


def tensor_parallel(gpus: int, config: Mapping[str, Any]) -> int:
    """Return the largest number of its GPUs over which vLLM can split a model, by its configuration.

    The number is a power of two, because vocabularies and layers are multiples only of those. It divides attention
    heads and width. Heads of keys and values are divided or, if fewer, copied evenly. Missing values are ignored.

    >>> tensor_parallel(8, {"num_attention_heads": 28, "num_key_value_heads": 4, "intermediate_size": 18944})
    4
    >>> tensor_parallel(3, {"num_attention_heads": 32}), tensor_parallel(8, {})
    (2, 8)
    """

    def number(name: str) -> int:
        found = config.get(name)
        return found if isinstance(found, int) else 0

    heads, width = number("num_attention_heads"), number("intermediate_size")
    shared = number("num_key_value_heads") or heads
    largest = 1
    while (parts := 2 * largest) <= gpus and heads % parts == 0 and width % parts == 0:
        if shared and shared % parts and parts % shared:
            break
        largest = parts
    return largest
