"""Ollama and llama.cpp's server: programs on this machine that others started, and what is wrong with them.

Facts are from Ollama's API reference and its page on context length (docs.ollama.com: /api/version, /api/tags, /api/ps,
/api/show, OLLAMA_HOST, OLLAMA_CONTEXT_LENGTH) and from the README of llama.cpp's server (/health, /props, /v1/models).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from medhelm.domain import Completion, Failure, Model
from medhelm.errors import MedHelmError, suggestion
from medhelm.io.http_client import HttpClient, read_json
from medhelm.models.addresses import checked_address
from medhelm.models.providers.response_fields import count, mapping, names_in, objects

OLLAMA_PORT, LLAMACPP_PORT = 11434, 8080

SMALL_WINDOW = 16_384
"""Tokens; notes and records of the benchmarks are often longer than a smaller window."""

TIMEOUT_S = 10.0

_NUM_CTX = re.compile(r"^num_ctx\s+(\d+)\s*$", re.MULTILINE)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)

Kind = Literal["ollama", "llamacpp", ""]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCheck:
    """What a look at a server brought to light."""

    names: Sequence[str] = ()
    """The models that it has, where it does not have the one that was asked for."""
    advice: str = ""
    """What is to be done; "" if nothing is."""
    window: int | None = None
    """Tokens that prompt and answer may have together there; None if it does not say."""


def local_address(provider: str, address: str, environment: Mapping[str, str]) -> str:
    """Where Ollama or llama.cpp's server is: at `address`, already checked, or where it is by default.

    A path is completed to `/v1`, where both keep their OpenAI-compatible API.
    Raises: ValueError if OLLAMA_HOST is no address.
    """
    if not address and provider == "ollama":
        address = ollama_host(environment.get("OLLAMA_HOST", ""))
    address = address or f"http://127.0.0.1:{LLAMACPP_PORT}"
    for path in ("/v1", "/api/chat", "/api"):
        address = address.removesuffix(path)
    return f"{address}/v1"


def ollama_host(text: str) -> str:
    """The address in OLLAMA_HOST, which Ollama's own tools read so; one that means every interface means this machine.

    >>> [ollama_host(text) for text in ("", "0.0.0.0", ":1234", "http://10.0.0.5:80/")]
    ['http://127.0.0.1:11434', 'http://127.0.0.1:11434', 'http://127.0.0.1:1234', 'http://10.0.0.5:80']
    """
    text = text.strip().strip("\"'").rstrip("/")
    scheme = found[0] if (found := _SCHEME.match(text)) else ""
    host, _, path = text.removeprefix(scheme).partition("/")
    name, _, port = host.rpartition(":") if re.search(r":\d*$", host) else (host, "", "")
    if name in ("", "0.0.0.0", "[::]", "::"):  # noqa: S104 - where it listens, not where we do
        name = "127.0.0.1"
    port = port or {"http://": "80", "https://": "443"}.get(scheme.lower(), str(OLLAMA_PORT))
    try:
        return checked_address(f"{scheme or 'http://'}{name}:{port}{'/' if path else ''}{path}")
    except ValueError as error:
        raise ValueError(f"OLLAMA_HOST: {error}") from None


async def check_server(model: Model, http: HttpClient, answer: Completion) -> ServerCheck:
    """What is to be said of the server behind `model`, which has just answered, or failed to.

    Nothing is raised: a server that does not tell is not a trouble of its own.
    """
    failure = answer.failure
    if failure is not None and failure.code == "connection":
        return ServerCheck(advice=_how_to_start(model, _by_name(model)))
    kind = await kind_of(model, http)
    if failure is not None:
        return await _about_failure(model, kind, http, failure)
    window = await window_of(model, kind, http)
    if kind == "ollama" and window is not None and was_cut(answer, window):
        return ServerCheck(window=window, advice=cut_words(model, window))
    small = window is not None and window < SMALL_WINDOW
    return ServerCheck(window=window, advice=_about_window(kind, window or 0) if small else "")


async def kind_of(model: Model, http: HttpClient) -> Kind:
    """Which program answers there; "" if neither of these."""
    if "version" in await _get(f"{_root(model)}/api/version", http):
        return "ollama"
    settings = await _get(f"{_root(model)}/props", http)
    return "llamacpp" if "default_generation_settings" in settings else ""


async def window_of(model: Model, kind: Kind, http: HttpClient) -> int | None:
    """Tokens that prompt and answer may have together, as the server runs the model now; None if it does not say."""
    if kind == "llamacpp":
        settings = mapping((await _get(f"{_root(model)}/props", http)).get("default_generation_settings"))
        return count(settings.get("n_ctx")) or None
    if kind != "ollama":
        return None
    running = objects((await _get(f"{_root(model)}/api/ps", http)).get("models"))
    for row in running:
        ours = same_model(model.remote_name, str(row.get("model") or row.get("name")))
        if ours and (size := count(row.get("context_length"))):
            return size
    told = await _post(f"{_root(model)}/api/show", {"model": model.remote_name}, http)
    found = _NUM_CTX.search(str(told.get("parameters") or ""))
    return int(found[1]) if found else None


def was_cut(answer: Completion, window: int) -> bool:
    """Whether Ollama has left out a part of the prompt, or of what it had read, to make room.

    It fills the window to the last token when a prompt is too long, and drops the oldest half of what it has read when
    an answer does not fit behind it; neither shows in its reply, but for the counts.
    """
    usage = answer.usage
    return usage.input >= window - 1 or usage.input + usage.output > window


def cut_words(model: Model, window: int) -> str:
    """What to say of a prompt that was cut."""
    return (
        f"Ollama runs {model.remote_name} with a window of {window:,} tokens and cuts what is longer, in silence. "
        "Start it with a larger one: OLLAMA_CONTEXT_LENGTH=32768 ollama serve"
    )


def same_model(asked: str, listed: str) -> bool:
    """Whether two names mean one model; `:latest` may be left out.

    >>> same_model("llama3.2", "llama3.2:latest"), same_model("llama3.2:1b", "llama3.2:latest")
    (True, False)
    """
    return asked.removesuffix(":latest").lower() == listed.removesuffix(":latest").lower()


async def _about_failure(model: Model, kind: Kind, http: HttpClient, failure: Failure) -> ServerCheck:
    if kind == "ollama":
        names = names_in((await _get(f"{_root(model)}/api/tags", http)).get("models"), "name")
        if any(same_model(model.remote_name, name) for name in names):
            return ServerCheck(
                advice=_wrong_path(model) if failure.code in ("unknown_model", "malformed_reply") else ""
            )
        if failure.code in ("unknown_model", "malformed_reply", "bad_request"):
            near = suggestion(model.remote_name, names) if names else ""
            hint = near if near.startswith("Did you mean") else ""
            has = "" if names else " It has no models at all yet."
            return ServerCheck(
                names=names, advice=f"Pull it first: ollama pull {model.remote_name}.{has} {hint}".strip()
            )
    if kind == "llamacpp" and failure.code in ("unknown_model", "malformed_reply"):
        return ServerCheck(advice=_wrong_path(model))
    if kind == "llamacpp" and failure.code == "overloaded":
        return ServerCheck(advice="The server is still loading the model: ask again in a minute.")
    if kind and failure.code == "context_length":
        return ServerCheck(advice=_about_window(kind, await window_of(model, kind, http) or 0))
    return ServerCheck()


def _wrong_path(model: Model) -> str:
    """What to do if the server is right and the path is not."""
    if urlsplit(model.base_url).path.rstrip("/") == "/v1":
        return ""
    return f"The API of this server stands at {_root(model)}/v1: write that address."


def _about_window(kind: Kind, window: int) -> str:
    known = f"Its window is {window:,} tokens" if window else "Its window is too small"
    if kind == "ollama":
        return (
            f"{known}; longer prompts are cut in silence, which runs record as failures. For long notes start it with "
            "OLLAMA_CONTEXT_LENGTH=32768 ollama serve (as far as memory allows)."
        )
    if kind == "llamacpp":
        return (
            f"{known} for each request at once. For long notes start it with a larger one, such as llama-server "
            "--ctx-size 32768 (which its --parallel requests share)."
        )
    return ""


def _how_to_start(model: Model, kind: Kind) -> str:
    where = _root(model)
    if kind == "ollama":
        return f"Nothing answers at {where}: start Ollama (ollama serve), or set OLLAMA_HOST to where it runs."
    if kind == "llamacpp":
        return (
            f"Nothing answers at {where}: start the server, such as llama-server -m FILE.gguf --port {LLAMACPP_PORT}."
        )
    return ""


def _by_name(model: Model) -> Kind:
    """Which program it should be, by the provider or the port."""
    if model.provider == "ollama" or urlsplit(model.base_url).port == OLLAMA_PORT:
        return "ollama"
    return "llamacpp" if model.provider == "llamacpp" else ""


def _root(model: Model) -> str:
    """The address without its path."""
    parts = urlsplit(model.base_url)
    return f"{parts.scheme}://{parts.netloc}"


async def _get(url: str, http: HttpClient) -> Mapping[str, Any]:
    try:
        reply = await http.get(url, headers={}, timeout_s=TIMEOUT_S)
        return read_json(reply) if reply.status == 200 else {}
    except MedHelmError:
        return {}


async def _post(url: str, payload: Mapping[str, Any], http: HttpClient) -> Mapping[str, Any]:
    try:
        reply = await http.post_json(url, headers={}, payload=payload, timeout_s=TIMEOUT_S)
        return read_json(reply) if reply.status == 200 else {}
    except MedHelmError:
        return {}
