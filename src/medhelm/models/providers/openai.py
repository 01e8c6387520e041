"""Chat completions: OpenAI, vLLM, Ollama, llama.cpp, OpenRouter, LiteLLM and every other compatible server."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from hashlib import sha256
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from medhelm.domain import Completion, FailureCode, Model, Request, Usage
from medhelm.domain.token_logprobs import MOST_ALTERNATIVES, token_logprobs_of
from medhelm.errors import ProviderError
from medhelm.io.plugins import CLIENTS, from_extension
from medhelm.models.provider import LENGTH, OptionalParameter, Provider, ProviderContext, Service
from medhelm.models.providers.errors import (
    completion_of,
    count,
    interrupted,
    length_of,
    mapping,
    no_completion,
    objects,
    shown,
    texts_in,
    word,
)
from medhelm.models.providers.hosted import (
    Dialect,
    HttpProvider,
    add_parameters,
    common_optional_parameters,
    reasoning_in,
    split_at_shared,
)

_NEW_LIMIT = re.compile(r"(?:.*/)?(?:o\d+(?:$|-)|codex-mini|gpt-(?:[5-9]|1\d)(?!\d))", re.IGNORECASE)
"""OpenAI's models since o1: they accept the limit only under its newer name."""

_USUAL, _NEW = "max_tokens", "max_completion_tokens"
_FORM = "response_format"
_CACHING = "prompt_cache_options"
_SCHEMA_NAME = "reply"
"""Name of every schema: servers require one."""

_REASONING = ("reasoning", "reasoning_content", "reasoning_details", "thinking")
"""Fields of a message in which servers return its reasoning."""

_REFUSED_FINISH = {
    "content_filter", "content-filter", "content_filtered", "refusal", "safety", "sensitive", "blocklist", "recitation",
    "prohibited_content", "spii", "guardrail_intervened", "moderation", "blocked",
}  # fmt: skip
_INTERRUPTED_FINISH = {"error", "abort", "insufficient_system_resource", "network_error"}
_LIMIT_FINISH = {"max_tokens", "model_length", "max_output_tokens", "model_context_window_exceeded"}
"""Names of gateways and other services for `content_filter`, for an early end, and for `length`."""


class ChatCompletions(Dialect):
    """`POST .../chat/completions`."""

    logprobs_parameters: Mapping[str, Any] = MappingProxyType({"logprobs": True})

    def __init__(self, model: Model, *, key: str = "") -> None:
        """An empty `key` is not sent."""
        azure = model.provider == "azure"
        self.url = completions_url(model.base_url)
        # Azure lists the models of a region; what can be asked are deployments.
        self.names_url = "" if azure else f"{model.base_url.rstrip('/')}/models"
        self.secrets = (key,)
        self._limit_name = limit_name(model)
        self._headers = ({"api-key": key} if azure else {"Authorization": f"Bearer {key}"}) if key else {}

    def headers(self, body: bytes | None) -> Mapping[str, str]:  # noqa: ARG002 - nothing is signed
        """Return the key."""
        return self._headers

    def optional_parameters(self, request: Request) -> frozenset[OptionalParameter]:
        """Return the parameters that can be left out; the limit has a newer name to fall back on."""
        found = set(common_optional_parameters(request, schema_fields=(_FORM,), stop_if_reasoning=False))
        if self._limit_name == _USUAL and not {_USUAL, _NEW} & request.model.parameters.keys():
            found.add(OptionalParameter.MAX_TOKENS)
        if self._limit_name == _NEW and not {_USUAL, _NEW} & request.model.parameters.keys():
            found.add(OptionalParameter.NEW_LIMIT)
        if _CACHING not in request.model.parameters and _charges_for_writing(request.model):
            found.add(OptionalParameter.CACHE)
        if "seed" not in request.model.parameters:
            found.add(OptionalParameter.SEED)
        if request.logprobs and "logprobs" not in request.model.parameters:
            found.add(OptionalParameter.LOGPROBS)
        return frozenset(found)

    def payload(self, request: Request, optional: Collection[OptionalParameter]) -> dict[str, Any]:
        """Return the JSON body of one request, with only these of its optional parameters.

        Models that reason get no stop sequences, and no temperature if they take none. Models that charge for writing
        to their cache, by default the whole prompt, are set to keep only what is shared. Its own parameters win.
        """
        model = request.model
        wanted = OptionalParameter.NEW_LIMIT if self._limit_name == _NEW else OptionalParameter.MAX_TOKENS
        other = _USUAL if self._limit_name == _NEW else _NEW
        is_accepted = wanted in optional or {_USUAL, _NEW} & model.parameters.keys()
        body: dict[str, Any] = {
            "model": model.remote_name,
            "messages": [{"role": message.role, "content": message.text} for message in request.prompt.messages],
            self._limit_name if is_accepted else other: request.max_tokens,
        }
        if model.takes_temperature and OptionalParameter.TEMPERATURE in optional:
            body["temperature"] = request.temperature
        if request.stop and not model.reasoning and OptionalParameter.STOP in optional:
            body["stop"] = list(request.stop)
        if OptionalParameter.SEED in optional:
            body["seed"] = request.sample  # any number, as long as it is the same each time
        if OptionalParameter.LOGPROBS in optional:
            body |= {"logprobs": True, "top_logprobs": MOST_ALTERNATIVES}
        if model.reasoning_effort:
            body["reasoning_effort"] = model.reasoning_effort
        if OptionalParameter.CACHE in optional:
            body[_CACHING] = {"mode": "explicit"}
            _mark_shared(body, request)
        if OptionalParameter.SCHEMA in optional:
            schema = {"name": _SCHEMA_NAME, "strict": True, "schema": request.schema}
            body[_FORM] = {"type": "json_schema", "json_schema": schema}
        add_parameters(body, request)
        return body

    def error_in(self, document: Mapping[str, Any]) -> object:
        """Return an error at the top, or in the first choice, as gateways send it."""
        if document.get("error"):
            return document
        first = next(iter(objects(document.get("choices"))), {})
        return first if first.get("error") else None

    def usage_in(self, document: Mapping[str, Any]) -> Usage:
        """Read the token counts."""
        return read_usage(document.get("usage"))

    def read(self, document: Mapping[str, Any], request: Request) -> Completion:
        """Read the first choice (`read_completion`), with log-probabilities if they were asked for."""
        completion = read_completion(document, reasons=request.model.reasoning)
        return replace(completion, token_logprobs=_token_logprobs(document)) if request.logprobs else completion

    def has_logprobs(self, document: Mapping[str, Any]) -> bool:
        """Read `{"choices": [{"logprobs": {...}}]}`."""
        return any(mapping(choice.get("logprobs")) for choice in objects(document.get("choices")))


def _mark_shared(body: dict[str, Any], request: Request) -> None:
    """Mark the shared text for the cache. The key routes requests with the same beginning to the same machine."""
    number, opening, rest = split_at_shared(request.prompt.messages, request.shared_characters)
    if number >= 0:
        first = {"type": "text", "text": opening, "prompt_cache_breakpoint": {"mode": "explicit"}}
        body["messages"][number]["content"] = [first, {"type": "text", "text": rest}] if rest else [first]
        body["prompt_cache_key"] = sha256(request.shared_prefix.encode(errors="replace")).hexdigest()[:32]


def _charges_for_writing(model: Model) -> bool:
    """Return True if writing a prompt to the cache costs extra, as for OpenAI's models since GPT-5.6."""
    price = model.price
    return price is not None and price.cache_write is not None and price.cache_write > price.input


def read_completion(body: Mapping[str, Any], *, reasons: bool = False) -> Completion:
    """Read the completion in the body of a successful reply.

    The text is the message's content; reasoning in a field of its own is no part of it. Reasoning in the text is
    removed later (`separate_reasoning`). A refusal is a completion with a failure, and so is a limit used up by
    reasoning (`completion_of`). Of several choices, the one with the lowest index counts.

    Parameters
    ----------
    reasons : whether the model is known to reason

    Raises
    ------
    ProviderError : `empty_choice`, retryable, if there is no choice or no message
    """
    choice = min(objects(body.get("choices")), key=_index, default=None)
    if choice is None:
        raise no_completion()
    message = mapping(choice.get("message"))
    finish = word(choice.get("finish_reason"))
    text, refused, thinking = _content(message)
    beside = [message[name] for name in _REASONING if name in message]
    if finish.lower() in _REFUSED_FINISH or (refused and not text):
        refused = shown(refused) or "the provider's content filter ended the completion"
    else:
        refused = ""
        if finish.lower() in _INTERRUPTED_FINISH:
            raise interrupted(finish)
        if not isinstance(choice.get("message"), Mapping):
            raise no_completion()
    return completion_of(
        text=text,
        finish_reason=LENGTH if finish.lower() in _LIMIT_FINISH else finish,
        usage=read_usage(body.get("usage")),
        reported_model=word(body.get("model")),
        refused=refused,
        hidden_characters=max(map(length_of, beside), default=0) or sum(map(length_of, thinking)),
        reasoning=next(filter(None, map(reasoning_in, beside)), "") or reasoning_in(thinking),
        reasons=reasons,
        fingerprint=word(body.get("system_fingerprint")),
    )


def _token_logprobs(body: Mapping[str, Any]) -> str:
    """Read `{"choices": [{"logprobs": {"content": [{"token": ..., "logprob": ..., "top_logprobs": [...]}]}}]}`."""
    choice = min(objects(body.get("choices")), key=_index, default={})
    return token_logprobs_of(objects(mapping(choice.get("logprobs")).get("content")))


def _index(choice: Mapping[str, Any]) -> int:
    """Return the position of a choice among several; servers may send them in any order."""
    index = choice.get("index")
    return index if isinstance(index, int) else 0


def _content(message: Mapping[str, Any]) -> tuple[str, str, list[Any]]:
    """Return the text of a message, the text of a refusal, and the reasoning among the parts."""
    content, refusal = message.get("content"), message.get("refusal")
    refused = refusal if isinstance(refusal, str) else ""
    if content is None or isinstance(content, str):
        return content or "", refused, []
    if not isinstance(content, list):
        raise ProviderError(
            FailureCode.MALFORMED_REPLY, "the content of the reply is neither a text nor a list", retryable=True
        )
    parts = objects(content)
    texts = texts_in(part for part in parts if part.get("type") in {"text", "output_text"})
    refusals = texts_in((part for part in parts if part.get("type") == "refusal"), "refusal")
    thinking = [part.get("thinking") or part.get("reasoning") for part in parts]
    return "".join(texts), refused or " ".join(refusals), thinking


def read_usage(usage: object) -> Usage:
    """Read token counts; a count that is missing or not plausible is 0."""
    usage = mapping(usage)
    prompt = count(usage.get("prompt_tokens"))
    cached = count(mapping(usage.get("prompt_tokens_details")).get("cached_tokens"))
    cached = min(cached or count(usage.get("prompt_cache_hit_tokens")), prompt)
    cache_write = count(mapping(usage.get("prompt_tokens_details")).get("cache_write_tokens"))
    cache_write = min(cache_write or count(usage.get("cache_creation_input_tokens")), prompt - cached)
    output = count(usage.get("completion_tokens"))
    reasoning = count(mapping(usage.get("completion_tokens_details")).get("reasoning_tokens"))
    total = count(usage.get("total_tokens"))
    if reasoning and (reasoning > output or total == prompt + output + reasoning):
        output += reasoning  # Some vendors count reasoning beside the completion instead of inside it.
    return Usage(input=prompt, cached_input=cached, output=output, reasoning=reasoning, cache_write=cache_write)


def limit_name(model: Model) -> str:
    """Return the server's name of the limit on completions.

    OpenAI's models since o1 reject `max_tokens`; Ollama and others silently ignore `max_completion_tokens`. The newer
    name is used for the former, known by name, and for models that reason at OpenAI or Azure, where names are free.
    """
    hosted = model.provider == "azure" or (urlsplit(model.base_url).hostname or "").endswith("api.openai.com")
    return _NEW if _NEW_LIMIT.match(model.remote_name) or (model.reasoning and hosted) else _USUAL


def completions_url(base_url: str) -> str:
    """Return the address of requests: the path goes before the query that Azure's classic form has.

    >>> completions_url("https://x.openai.azure.com/openai/deployments/d?api-version=2024-10-21")
    'https://x.openai.azure.com/openai/deployments/d/chat/completions?api-version=2024-10-21'
    """
    base, mark, query = base_url.partition("?")
    return f"{base.rstrip('/')}/chat/completions{mark}{query}"


def open_chat_completions(service: Service, model: Model, context: ProviderContext) -> Provider:
    """Open a model behind this API, at one server or at a pool of them."""
    key = context.value_of(model.key_variable)
    if not model.replicas:
        return HttpProvider(model, context.http, ChatCompletions(model, key=key), service)

    def open_server(address: str) -> HttpProvider:
        served = replace(model, base_url=address, replicas=(), endpoints_file="")
        return HttpProvider(served, context.http, ChatCompletions(served, key=key), service)

    open_pool = from_extension(CLIENTS, "pool", extension="cluster", what=model.name)
    pool: Provider = open_pool(model, context.http.egress_policy, open_server)
    return pool


SERVICE: Service = Service(
    name="openai",
    title="OpenAI",
    open=lambda model, context: open_chat_completions(SERVICE, model, context),
    base_url="https://api.openai.com/v1",
    hosts=r"(.+\.)?api\.openai\.com",
    key_variables=("OPENAI_API_KEY",),
    key_prefixes={"sk-": "OPENAI_API_KEY"},
    examples=("openai/gpt-5.4", "openai/gpt-5.4-mini", "openai/NAME@http://127.0.0.1:8000/v1"),
    batch="medhelm.models.batch.openai:OpenAIBatches",
)
"""OpenAI, and every server that speaks its API."""
