"""Models behind a `vllm serve` of our own: `vllm/ORG/NAME` or `vllm/./folder`.

The server is started at the first request, listens on 127.0.0.1 with a key that only we know, uses the machine's GPUs
and ends with the session. It is told to stay at home: nothing is downloaded, no usage is reported. Several models have
GPUs of their own as far as there are enough, else they share them; they are started one after the other, since each
measures the memory that is free.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from medhelm.domain import Completion, Model, Request
from medhelm.errors import MissingError, ProviderError, UserError
from medhelm.io.http_client import HttpClient
from medhelm.models.local.gpus import MEMORY_SHARE, shares, tensor_parallel, visible_gpus
from medhelm.models.local.runtime import LocalRuntime
from medhelm.models.local.server import LaunchPlan, LocalServer, without_secrets
from medhelm.models.local.weights import ModelFiles, find_weights, has_template, is_folder, is_mistrals
from medhelm.models.providers.hosted import HttpProvider
from medhelm.models.providers.openai import ChatCompletions

EXECUTABLE = "MEDHELM_VLLM"
"""Environment variable with the program to start, such as the `vllm` of another environment; else it is on the PATH."""

PATIENCE = "MEDHELM_VLLM_WAIT_S"
"""Environment variable: how long a server may take to start."""

PATIENCE_S = 1800.0
"""How long it may take unless that says otherwise: large weights are read at some hundred MB a second."""

ARGUMENTS = "serve_arguments"
"""The parameter of a model with further words for `vllm serve`; it is not sent."""

_OURS = ("--host", "--port", "--api-key", "--served-model-name", "--uds")
_CODE, _FILE = "--trust-remote-code", "--config"

PLAIN = (
    "{{ bos_token }}{% for message in messages %}{{ message['content'] }}"
    "{% if not loop.last %}{{ '\\n\\n' }}{% endif %}{% endfor %}"
)
"""What a model without a chat template reads: the texts of the messages, as with `hf/`. vLLM would refuse to ask it."""
_AT_HOME = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}


class Vllm:
    """One model behind a server of its own; `vllm/` names for one model with the same arguments share it."""

    local = False

    def __init__(self, model: Model, http: HttpClient, environment: Mapping[str, str], machine: LocalRuntime) -> None:
        """Raises: MissingError if vLLM or the model is not here; UserError for arguments that are ours to give."""
        self.model = model
        self.arguments = checked_arguments(model)
        self.endpoint = f"vllm/{' '.join((model.remote_name, *self.arguments))}"
        self._http = http
        self._environment = environment
        self._machine = machine
        self._program = _program(environment)
        self._weights = _weights(model.remote_name, environment)
        if not self._has_template:
            machine.note(
                f"{model.name} comes without a chat template: it reads the messages as plain text. It is probably a "
                "base model; one made for instructions answers."
            )
        self._hosted: HttpProvider | None = None
        patience_s = _patience_s(environment)
        self.server = machine.shared(
            self.endpoint,
            lambda: LocalServer(f"vllm/{model.remote_name}", self._launch, http, machine, patience_s=patience_s),
        )

    def __repr__(self) -> str:
        """Its name."""
        return f"Vllm({self.model.name!r})"

    @property
    def left_out(self) -> Mapping[str, str]:
        """Parts of requests that the server refused -> what it said."""
        return self._hosted.left_out if self._hosted else {}

    @property
    def _has_template(self) -> bool:
        """Whether the server has a chat template to use, as far as is known here."""
        if self._weights is None or _gives(self.arguments, "--chat-template"):
            return True
        return has_template(self._weights) or is_mistrals(self._weights.folder)

    async def complete(self, request: Request) -> Completion:
        """Have the server answer one request, starting it before the first.

        Raises: ProviderError as for every OpenAI-compatible server; fatal `not_started` if it does not start or has
        ended by itself.
        """
        await self.server.ready()
        hosted = self._hosted or self._open()
        try:
            return await hosted.complete(replace(request, model=_as_sent(request.model, self.server.base_url)))
        except ProviderError:
            if not self.server.alive():
                raise self.server.ended() from None
            raise

    def _open(self) -> HttpProvider:
        served = _as_sent(self.model, self.server.base_url)
        self._hosted = HttpProvider(served, self._http, ChatCompletions(served, key=self.server.key))
        return self._hosted

    def _launch(self, port: int, key: str) -> LaunchPlan:
        """The command line and its environment. All servers of the session are known by now."""
        servers = self._machine.opened(LocalServer)
        gpus, memory = shares(visible_gpus(self._environment), len(servers))[servers.index(self.server)]
        name = self.model.remote_name
        words = ["--host", "127.0.0.1", "--port", str(port), "--served-model-name", name]
        if len(gpus) > 1 and not _gives(self.arguments, "--tensor-parallel-size", "-tp"):
            config = self._weights.config if self._weights else {}
            words += ["--tensor-parallel-size", str(tensor_parallel(len(gpus), config))]
        if memory < MEMORY_SHARE and not _gives(self.arguments, "--gpu-memory-utilization"):
            words += ["--gpu-memory-utilization", str(memory)]
        if not _gives(self.arguments, "--generation-config"):
            words += ["--generation-config", "vllm"]  # temperature and the like are the benchmark's, not the model's
        if not self._has_template:
            words += ["--chat-template", PLAIN]
        place = self._weights.folder.absolute() if self._weights else _place(name)
        chosen = {"CUDA_VISIBLE_DEVICES": ",".join(gpus)} if gpus else {}
        return LaunchPlan(
            command=(self._program, "serve", str(place), *words, *self.arguments),
            environment={**without_secrets(self._environment), **_AT_HOME, **chosen, "VLLM_API_KEY": key},
        )


def checked_arguments(model: Model) -> tuple[str, ...]:
    """A model's own words for `vllm serve`. Raises: UserError if some are ours to give, or no words."""
    given = model.parameters.get(ARGUMENTS, [])
    if not isinstance(given, list | tuple) or not all(isinstance(word, str | int | float) for word in given):
        raise UserError(f"{model.name}: `{ARGUMENTS}` is a list of words, such as [--max-model-len, 8192].")
    words = tuple(map(str, given))
    ours = sorted(name for name in _OURS if _may_give(words, name))
    if ours:
        raise UserError(f"{model.name}: `{ARGUMENTS}` cannot hold {', '.join(ours)}: the address is chosen here.")
    if any(_option(word) == _FILE for word in words):
        raise UserError(
            f"{model.name}: `{ARGUMENTS}` cannot hold {_FILE}: what is in that file would not be seen here. "
            "Write its arguments into the list."
        )
    if _may_give(words, _CODE):
        raise UserError(
            f"{model.name}: `{ARGUMENTS}` cannot hold --trust-remote-code: it runs program code that came with the "
            "model. If you trust it, start the server yourself and name it as openai/NAME@http://127.0.0.1:8000/v1."
        )
    return words


def _gives(words: Sequence[str], *names: str) -> bool:
    """Whether an option is among these words, as `--name value`, `--name=value` or with underscores."""
    return any(_option(word) in names for word in words)


def _may_give(words: Sequence[str], name: str) -> bool:
    """Whether an option is among these words, abbreviated or not: vLLM takes any beginning that means one option."""
    return any(len(option := _option(word)) > 2 and name.startswith(option) for word in words)


def _option(word: str) -> str:
    return word.partition("=")[0].replace("_", "-") if word.startswith("-") else ""


def _as_sent(model: Model, base_url: str) -> Model:
    """The model as its server is to see it."""
    parameters = {name: value for name, value in model.parameters.items() if name not in (ARGUMENTS, "version")}
    return replace(model, base_url=base_url, parameters=parameters)


def _program(environment: Mapping[str, str]) -> str:
    """The program to start. Raises: MissingError if there is none."""
    named = environment.get(EXECUTABLE, "").strip()
    found = shutil.which(named or "vllm", path=environment.get("PATH"))
    if found:
        return found
    if named:
        raise MissingError(f"vllm/: {EXECUTABLE} names {named}, which is no program that can be run.")
    raise MissingError(
        f"vllm/ needs vLLM, and there is no `vllm` on the PATH. Install it into an environment of its own "
        f"(docs.vllm.ai) and set {EXECUTABLE} to its `vllm`, or name a server that runs elsewhere: "
        "openai/NAME@http://127.0.0.1:8000/v1."
    )


def _weights(name: str, environment: Mapping[str, str]) -> ModelFiles | None:
    """The model's files; None for those that only vLLM can read. Raises: MissingError if they are not here."""
    try:
        return find_weights(name, environment)
    except UserError:
        return None


def _place(name: str) -> str:
    """What the server is to load where the files are not understood here."""
    return str(Path(name).expanduser().absolute()) if is_folder(name) else name


def _patience_s(environment: Mapping[str, str]) -> float:
    given = environment.get(PATIENCE, "").strip()
    try:
        seconds = float(given or PATIENCE_S)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise UserError(f"{PATIENCE} is a number of seconds above 0, not `{given}`.")
    return seconds
