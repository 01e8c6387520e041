"""Models behind a `vllm serve` that medhelm starts: `vllm/ORG/NAME` or `vllm/./folder`.

The server starts at the first request, listens on 127.0.0.1 with a random key, uses the machine's GPUs and ends with
the session. It downloads nothing and reports no usage. Each of several models has its own GPUs if there are enough;
otherwise they share them. Servers start one after another, because each measures the free memory.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from medhelm.domain import Completion, Model, Request
from medhelm.errors import MissingError, ProviderError, UserError
from medhelm.extensions.local.server import (
    MEMORY_SHARE,
    LaunchPlan,
    LocalServer,
    shares,
    tensor_parallel,
    visible_gpus,
    without_secrets,
)
from medhelm.extensions.local.weights import (
    ModelFiles,
    find_weights,
    has_mistral_tokenizer,
    has_template,
    is_folder,
    with_weights,
)
from medhelm.io.http.client import HttpClient
from medhelm.models.provider import OptionalParameter, Provider, Service, SharedResources
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
