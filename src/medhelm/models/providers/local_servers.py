"""Servers on this machine: Ollama and llama.cpp, and checks that they have not silently truncated a prompt."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from medhelm.domain import Completion, FailureCode, Model, Request
from medhelm.errors import MedHelmError, UserError, suggestion
from medhelm.io.http.client import HttpClient, read_json
from medhelm.models.addresses import checked_address
from medhelm.models.provider import Service
from medhelm.models.providers.errors import count, fewest_tokens, mapping, names_in, objects
from medhelm.models.providers.hosted import HttpProvider
from medhelm.models.providers.openai import ChatCompletions, open_chat_completions

# --- Ollama and llama.cpp ---------------------------------------------------------------------------------------------


class Ollama(HttpProvider):
    """One model that Ollama runs. A completion of a truncated prompt is a failure, `context_length`."""

    def __init__(self, model: Model, http: HttpClient, *, key: str = "") -> None:
        """`key`: for an Ollama behind a gateway; Ollama itself needs none.

        Raises: UserError for a context window among the parameters, which this API of Ollama silently drops.
        """
        if ignored := sorted(model.parameters.keys() & {"num_ctx", "options"}):
            raise UserError(
                f"{model.name}: parameters: `{ignored[0]}` is ignored by Ollama's OpenAI-compatible API. Start Ollama "
                "with OLLAMA_CONTEXT_LENGTH=32768 ollama serve, or create a model with PARAMETER num_ctx 32768 in its "
                "Modelfile."
            )
        super().__init__(model, http, ChatCompletions(model, key=key), OLLAMA)
        self._window: int | None = None
        self._window_is_known = False

    async def truncation(self, request: Request, completion: Completion) -> str:
        """Return the message about a prompt that Ollama has truncated; "" if it has not.

        Ollama reports its context window only while it runs the model: after the first completion.
        """
        if not self._window_is_known:
            self._window = await window_of(self.model, "ollama", self._http)
            self._window_is_known = True
        if self._window is not None and was_truncated(completion, self._window, fewest_tokens(request.prompt)):
            return truncation_message(self.model, self._window)
        return await super().truncation(request, completion)


OLLAMA: Service = Service(
    name="ollama",
    title="Ollama",
    open=lambda model, context: Ollama(model, context.http, key=context.value_of(model.key_variable)),
    locate=lambda written, _, environment: local_address("ollama", written, environment),
    key_variables=("OLLAMA_API_KEY",),
    examples=("ollama/llama3.2",),
)


LLAMACPP: Service = Service(
    name="llamacpp",
    title="llama.cpp",
    open=lambda model, context: open_chat_completions(LLAMACPP, model, context),
    locate=lambda written, _, environment: local_address("llamacpp", written, environment),
    key_variables=("LLAMA_API_KEY",),
    examples=("llamacpp/NAME",),
)


# --- checks of running servers ----------------------------------------------------------------------------------------
# Check running servers of Ollama and llama.cpp, and advise on their problems.
#
# Facts are from Ollama's API reference and its page on context length (docs.ollama.com: /api/version, /api/tags,
# /api/ps, /api/show, OLLAMA_HOST, OLLAMA_CONTEXT_LENGTH) and from the README of llama.cpp's server (/health, /props,
# /v1/models).

OLLAMA_PORT, LLAMACPP_PORT = 11434, 8080

SMALL_WINDOW = 16_384
"""Tokens of a small context window: notes and records of the benchmarks are often longer."""

TIMEOUT_S = 10.0

_NUM_CTX = re.compile(r"^num_ctx\s+(\d+)\s*$", re.MULTILINE)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)

_NO_MODEL = (FailureCode.UNKNOWN_MODEL, FailureCode.MALFORMED_REPLY, FailureCode.BAD_REQUEST)
"""Codes of Ollama's failures for a model that it does not have."""

Kind = Literal["ollama", "llamacpp", ""]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCheck:
    """Result of checking a server."""

    names: Sequence[str] = ()
    """Its models, if the requested one is not among them."""
    advice: str = ""
    """Advice to the user; "" if everything is fine."""


def local_address(provider: str, address: str, environment: Mapping[str, str]) -> str:
    """Return the address of Ollama or llama.cpp's server: `address`, already checked, or the default.

    The path becomes `/v1`, the path of their OpenAI-compatible API.
    Raises: ValueError if OLLAMA_HOST is not an address.
    """
    if not address and provider == "ollama":
        address = ollama_host(environment.get("OLLAMA_HOST", ""))
    address = address or f"http://127.0.0.1:{LLAMACPP_PORT}"
    for path in ("/v1", "/api/chat", "/api"):
        address = address.removesuffix(path)
    return f"{address}/v1"


def ollama_host(text: str) -> str:
    """Parse OLLAMA_HOST as Ollama's own tools do; an address of all interfaces means this machine.

    >>> [ollama_host(text) for text in ("", "0.0.0.0", ":1234", "http://10.0.0.5:80/")]
    ['http://127.0.0.1:11434', 'http://127.0.0.1:11434', 'http://127.0.0.1:1234', 'http://10.0.0.5:80']
    """
    text = text.strip().strip("\"'").rstrip("/")
    scheme = found[0] if (found := _SCHEME.match(text)) else ""
    host, _, path = text.removeprefix(scheme).partition("/")
    name, _, port = host.rpartition(":") if re.search(r":\d*$", host) else (host, "", "")
    if name in ("", "0.0.0.0", "[::]", "::"):  # noqa: S104 - the other server listens there
        name = "127.0.0.1"
    port = port or {"http://": "80", "https://": "443"}.get(scheme.lower(), str(OLLAMA_PORT))
    try:
        return checked_address(f"{scheme or 'http://'}{name}:{port}{'/' if path else ''}{path}")
    except ValueError as error:
        raise ValueError(f"OLLAMA_HOST: {error}") from None


async def check_server(model: Model, http: HttpClient, completion: Completion) -> ServerCheck:
    """Check the server of `model` after a completion or a failure.

    Never raises: a server without these details is not a problem in itself.
    """
    failure = completion.failure
    if failure is not None and failure.code in (FailureCode.CONNECTION, FailureCode.TIMEOUT):
        return ServerCheck()
    kind = await kind_of(model, http)
    if failure is not None and failure.code == FailureCode.CONTEXT_LENGTH and kind:
        return ServerCheck(advice=_window_advice(kind, await window_of(model, kind, http) or 0))
    if failure is not None:
        return await _missing_model(model, http) if kind == "ollama" and failure.code in _NO_MODEL else ServerCheck()
    window = await window_of(model, kind, http)
    if kind == "ollama" and window is not None and was_truncated(completion, window):
        return ServerCheck(advice=truncation_message(model, window))
    small = window is not None and window < SMALL_WINDOW
    return ServerCheck(advice=_window_advice(kind, window or 0) if small else "")


async def kind_of(model: Model, http: HttpClient) -> Kind:
    """Return the kind of the server; "" if it is neither."""
    if "version" in await _ask(f"{_root(model)}/api/version", http):
        return "ollama"
    settings = await _ask(f"{_root(model)}/props", http)
    return "llamacpp" if "default_generation_settings" in settings else ""


async def window_of(model: Model, kind: Kind, http: HttpClient) -> int | None:
    """Return the context window with which the server runs the model now; None if unknown."""
    if kind == "llamacpp":
        settings = mapping((await _ask(f"{_root(model)}/props", http)).get("default_generation_settings"))
        return count(settings.get("n_ctx")) or None
    if kind != "ollama":
        return None
    running = objects((await _ask(f"{_root(model)}/api/ps", http)).get("models"))
    for row in running:
        ours = same_model(model.remote_name, str(row.get("model") or row.get("name")))
        if ours and (size := count(row.get("context_length"))):
            return size
    details = await _ask(f"{_root(model)}/api/show", http, {"model": model.remote_name})
    found = _NUM_CTX.search(str(details.get("parameters") or ""))
    return int(found[1]) if found else None


def was_truncated(completion: Completion, window: int, fewest: int = 0) -> bool:
    """Return True if Ollama truncated the prompt, or dropped older context during generation.

    A prompt that is too long fills the window to the last token, or half of it (the rest is dropped, and so is the
    oldest half if a completion does not fit after the prompt). Only the token counts of its response show it.
    `fewest`: lower bound of the prompt's tokens.
    """
    usage = completion.usage
    is_half = usage.input <= window // 2 + 2 and usage.input < fewest
    return is_half or usage.input >= window - 1 or usage.input + usage.output > window


def truncation_message(model: Model, window: int) -> str:
    """Return the message about a truncated prompt."""
    return (
        f"Ollama runs {model.remote_name} with a context window of {window:,} tokens and silently truncates "
        "longer prompts. Start it with a larger window: OLLAMA_CONTEXT_LENGTH=32768 ollama serve"
    )


def same_model(requested: str, listed: str) -> bool:
    """Return True if two names mean the same model; `:latest` is optional.

    >>> same_model("llama3.2", "llama3.2:latest"), same_model("llama3.2:1b", "llama3.2:latest")
    (True, False)
    """
    return requested.removesuffix(":latest").lower() == listed.removesuffix(":latest").lower()


async def _missing_model(model: Model, http: HttpClient) -> ServerCheck:
    """Return Ollama's models, and the command that adds the requested one, if it is not among them."""
    names = names_in((await _ask(f"{_root(model)}/api/tags", http)).get("models"), "name")
    if any(same_model(model.remote_name, name) for name in names):
        return ServerCheck()
    near = suggestion(model.remote_name, names)
    hint = near if near.startswith("Did you mean") else ""
    has = "" if names else " It has no models yet."
    return ServerCheck(names=names, advice=f"Pull it first: ollama pull {model.remote_name}.{has} {hint}".strip())


def _window_advice(kind: Kind, window: int) -> str:
    known = f"Its context window is {window:,} tokens" if window else "Its context window is too small"
    if kind == "ollama":
        return (
            f"{known}; longer prompts are silently truncated, which runs record as failures. For long notes start "
            "it with OLLAMA_CONTEXT_LENGTH=32768 ollama serve (as far as memory allows)."
        )
    if kind == "llamacpp":
        return (
            f"{known} per concurrent request. For long notes start it with a larger one, such as llama-server "
            "--ctx-size 32768 (shared by its --parallel requests)."
        )
    return ""


def _root(model: Model) -> str:
    """Return the address without its path."""
    parts = urlsplit(model.base_url)
    return f"{parts.scheme}://{parts.netloc}"


async def _ask(url: str, http: HttpClient, payload: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
    """Return the JSON object at an address, or the reply to `payload`; empty if there is none."""
    try:
        if payload is None:
            reply = await http.get(url, headers={}, timeout_s=TIMEOUT_S)
        else:
            reply = await http.post_json(url, headers={}, payload=payload, timeout_s=TIMEOUT_S)
        return read_json(reply) if reply.status == 200 else {}
    except MedHelmError:
        return {}
