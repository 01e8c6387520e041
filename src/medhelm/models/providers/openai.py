"""Chat completions: OpenAI, Azure OpenAI, vLLM, Ollama, and every other server that speaks the same dialect."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

from medhelm.domain import Completion, Model, Request
from medhelm.models.provider import CACHE, LIMIT, SCHEMA, SEED, STOP, TEMPERATURE
from medhelm.models.providers.hosted import marked_place, optional_parts
from medhelm.models.providers.openai_wire import read_completion
from medhelm.models.providers.response_fields import mapping, names_in, objects

_NEW_LIMIT = re.compile(r"(?:.*/)?(?:o\d+(?:$|-)|codex-mini|gpt-(?:[5-9]|1\d)(?!\d))", re.IGNORECASE)
"""OpenAI's models since o1: they know the limit by its new name only."""

_USUAL, _NEW = "max_tokens", "max_completion_tokens"
_FORM = "response_format"
_CACHING = "prompt_cache_options"
_SCHEMA_NAME = "reply"
"""What every schema is called on its way; servers want a name."""


class ChatCompletions:
    """`POST .../chat/completions`, as OpenAI, Azure and everyone else want it."""

    def __init__(self, model: Model, *, key: str = "") -> None:
        """`key` is sent as Azure or as everyone else wants it; empty: no key is sent."""
        self.url = completions_url(model.base_url)
        # A list of Azure's holds the models of a region; what can be asked are deployments.
        self.names_url = "" if model.provider == "azure" else f"{model.base_url.rstrip('/')}/models"
        self.secrets = (key,)
        self._headers = _key_header(model, key) if key else {}

    def headers(self, body: bytes | None) -> Mapping[str, str]:  # noqa: ARG002 - nothing is signed
        """The key."""
        return self._headers

    def parts(self, request: Request) -> frozenset[str]:
        """What the request holds and can do without; the limit can go by another name."""
        parts = optional_parts(request, forms=(_FORM,), stops=False)
        if limit_name(request.model) == _USUAL and not {_USUAL, _NEW} & request.model.parameters.keys():
            parts |= {LIMIT}
        if _CACHING not in request.model.parameters and _charges_for_writing(request.model):
            parts |= {CACHE}
        return parts if SEED in request.model.parameters else parts | {SEED}

    def payload(self, request: Request, parts: Collection[str]) -> dict[str, Any]:
        """See `payload` of this module."""
        return payload(request, parts)

    def error_in(self, document: Mapping[str, Any]) -> object:
        """An error at the top, or inside the first choice, as gateways send it."""
        if document.get("error"):
            return document
        first = next(iter(objects(document.get("choices"))), {})
        return first if first.get("error") else None

    def read(self, document: Mapping[str, Any], request: Request) -> Completion:
        """See `openai_wire`."""
        return read_completion(document, whole=request.schema is not None, reasons=request.model.reasoning)

    def names_in(self, document: Mapping[str, Any]) -> list[str]:
        """From `{"data": [{"id": NAME}, ...]}`."""
        return names_in(document.get("data"), "id")

    @property
    def asks_logprobs(self) -> Mapping[str, Any]:
        """As OpenAI calls it."""
        return {"logprobs": True}

    def has_logprobs(self, document: Mapping[str, Any]) -> bool:
        """From `{"choices": [{"logprobs": {...}}]}`."""
        return any(mapping(choice.get("logprobs")) for choice in objects(document.get("choices")))


def payload(request: Request, parts: Collection[str] = (TEMPERATURE, STOP, LIMIT, SEED)) -> dict[str, Any]:
    """The JSON body of one request; of what it can do without, with these `parts` only.

    Models that reason get neither temperature nor stop sequences. Those that charge for what they write into their
    cache, which is the whole prompt if nobody says otherwise, get told to keep what is shared only. The model's own
    parameters come last and win; one set to None leaves the field out; a `seed` grows with the sample's number, so that
    samples differ.
    """
    model = request.model
    usual = LIMIT in parts or {_USUAL, _NEW} & model.parameters.keys()
    body: dict[str, Any] = {
        "model": model.remote_name,
        "messages": [{"role": message.role, "content": message.text} for message in request.prompt.messages],
        limit_name(model) if usual else _NEW: request.max_tokens,
    }
    if not model.reasoning:
        if TEMPERATURE in parts:
            body["temperature"] = request.temperature
        if request.stop and STOP in parts:
            body["stop"] = list(request.stop)
    if SEED in parts:
        body["seed"] = request.sample  # any would do, as long as it is the same each time
    if model.reasoning_effort:
        body["reasoning_effort"] = model.reasoning_effort
    if CACHE in parts:
        body[_CACHING] = {"mode": "explicit"}
        _mark(body, request)
    if SCHEMA in parts:
        schema = {"name": _SCHEMA_NAME, "strict": True, "schema": request.schema}
        body[_FORM] = {"type": "json_schema", "json_schema": schema}
    add_parameters(body, request)
    return body


def _mark(body: dict[str, Any], request: Request) -> None:
    """Mark what is shared to be kept. The key leads requests with the same beginning to the same machine."""
    number, opening, rest = marked_place(request.prompt.messages, request.shared_characters)
    if number >= 0:
        first = {"type": "text", "text": opening, "prompt_cache_breakpoint": {"mode": "explicit"}}
        body["messages"][number]["content"] = [first, {"type": "text", "text": rest}] if rest else [first]
        body["prompt_cache_key"] = sha256(request.shared_prefix.encode(errors="replace")).hexdigest()[:32]


def _charges_for_writing(model: Model) -> bool:
    """Whether its price says that it costs something to put a prompt into the cache: OpenAI's models since GPT-5.6."""
    price = model.price
    return price is not None and price.cache_write is not None and price.cache_write > price.input


def add_parameters(body: dict[str, Any], request: Request) -> None:
    """Put the model's own parameters into `body`: they win, None takes a field out, a seed grows with the sample."""
    for name, value in request.model.parameters.items():
        if value is None:
            body.pop(name, None)
        elif name == "seed" and isinstance(value, int):
            body[name] = value + request.sample
        else:
            body[name] = value


def limit_name(model: Model) -> str:
    """What the server calls the limit on the completion.

    OpenAI's models since o1 refuse `max_tokens`; Ollama and others silently ignore `max_completion_tokens`. So the new
    name goes to those models by name, and to whatever reasons at OpenAI or Azure, where names say nothing.
    """
    hosted = model.provider == "azure" or (urlsplit(model.base_url).hostname or "").endswith("api.openai.com")
    return _NEW if _NEW_LIMIT.match(model.remote_name) or (model.reasoning and hosted) else _USUAL


def completions_url(base_url: str) -> str:
    """Where requests go: the path is added before the query, which Azure's classic form has.

    >>> completions_url("https://x.openai.azure.com/openai/deployments/d?api-version=2024-10-21")
    'https://x.openai.azure.com/openai/deployments/d/chat/completions?api-version=2024-10-21'
    """
    base, mark, query = base_url.partition("?")
    return f"{base.rstrip('/')}/chat/completions{mark}{query}"


def _key_header(model: Model, key: str) -> dict[str, str]:
    return {"api-key": key} if model.provider == "azure" else {"Authorization": f"Bearer {key}"}
