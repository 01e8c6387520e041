"""Anthropic's Messages API.

Fields, stop reasons and counts are those of the API reference (platform.claude.com/docs/en/api/messages) as version
2023-06-01 has them and the vendor's Python SDK 2.12 lists them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from medhelm.domain import Completion, Model, Request, Usage
from medhelm.errors import ProviderError
from medhelm.models.provider import CACHE, SCHEMA, STOP, TEMPERATURE
from medhelm.models.providers.hosted import marked_place, optional_parts
from medhelm.models.providers.openai import add_parameters
from medhelm.models.providers.response_fields import (
    LENGTH,
    ParsedResponse,
    completion_of,
    count,
    mapping,
    names_in,
    objects,
    word,
)

API_VERSION = "2023-06-01"
"""The version of the API that every request names; there has been no later one."""

_SETTINGS = "output_config"
_MARK = "cache_control"
_FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": LENGTH,
    "model_context_window_exceeded": LENGTH,
}
"""Stop reason -> finish reason; `refusal`, `pause_turn`, `tool_use` and what may come keep their own word."""

_ENDED = frozenset(_FINISH.values())
_THOUGHT = {"thinking", "redacted_thinking"}


class Anthropic:
    """`POST .../v1/messages`."""

    def __init__(self, model: Model, *, key: str = "") -> None:
        """`model.base_url` ends in `/v1`; an empty `key` is not sent."""
        self.url = f"{model.base_url}/messages"
        self.names_url = f"{model.base_url}/models?limit=1000"
        self.secrets = (key,)
        self._headers = {"anthropic-version": API_VERSION, **({"x-api-key": key} if key else {})}

    def headers(self, body: bytes | None) -> Mapping[str, str]:  # noqa: ARG002 - nothing is signed
        """The version of the API, and the key."""
        return self._headers

    def parts(self, request: Request) -> frozenset[str]:
        """What the request holds and can do without: newer models take no temperature."""
        return optional_parts(request, forms=(_SETTINGS,), stops=True, mark=_MARK)

    def payload(self, request: Request, parts: Collection[str]) -> dict[str, Any]:
        """The JSON body: the system message is a field, and a blank stop sequence is an error there.

        Models that reason get no temperature: with thinking, the service takes none but its own.
        """
        model = request.model
        contents = _contents(request, CACHE in parts)
        told = list(zip(request.prompt.messages, contents, strict=True))
        body: dict[str, Any] = {
            "model": model.remote_name,
            "max_tokens": request.max_tokens,
            "messages": [{"role": one.role, "content": content} for one, content in told if one.role != "system"],
        }
        system = [content for one, content in told if one.role == "system"]
        if len(system) == 1:
            body["system"] = system[0]
        elif system:
            body["system"] = "\n\n".join(one.text for one, _ in told if one.role == "system")
        if TEMPERATURE in parts:
            body["temperature"] = request.temperature
        if STOP in parts and (stops := [stop for stop in request.stop if stop.strip()]):
            body["stop_sequences"] = stops
        settings: dict[str, Any] = {}
        if SCHEMA in parts:
            settings["format"] = {"type": "json_schema", "schema": request.schema}
        if model.reasoning_effort:
            settings["effort"] = model.reasoning_effort
        if settings:
            body[_SETTINGS] = settings
        add_parameters(body, request)
        return body

    def error_in(self, document: Mapping[str, Any]) -> object:
        """An error that a gateway passed on as a success."""
        return document if document.get("type") == "error" or document.get("error") else None

    def read(self, document: Mapping[str, Any], request: Request) -> Completion:
        """The text blocks, joined; blocks of thought are no part of it.

        A reply without any block is an empty answer: Claude ends its turn so when it has nothing to say.
        Raises: ProviderError `empty_choice`, retryable, if there is no list of blocks, or none that can be read.
        """
        content, stopped = document.get("content"), word(document.get("stop_reason"))
        if not isinstance(content, list):
            raise ProviderError("empty_choice", "the reply holds no answer", retryable=True)
        blocks = objects(content)
        texts = [
            block["text"] for block in blocks if block.get("type") == "text" and isinstance(block.get("text"), str)
        ]
        finish = _FINISH.get(stopped, stopped)
        answer = ParsedResponse(
            text="".join(texts) if texts or finish in _ENDED else None,
            finish_reason=finish,
            usage=_usage(document.get("usage")),
            reported_model=word(document.get("model")),
            refused=_refusal(document) if stopped == "refusal" else "",
            thought=any(block.get("type") in _THOUGHT for block in blocks),
        )
        return completion_of(answer, reasons=request.model.reasoning)

    def names_in(self, document: Mapping[str, Any]) -> list[str]:
        """From `{"data": [{"type": "model", "id": NAME}, ...]}`."""
        return names_in(document.get("data"), "id")

    @property
    def asks_logprobs(self) -> Mapping[str, Any]:
        """The service does not say."""
        return {}

    def has_logprobs(self, document: Mapping[str, Any]) -> bool:  # noqa: ARG002 - see there
        """Never."""
        return False


def _contents(request: Request, marked: bool) -> list[str | list[dict[str, Any]]]:
    """What each message says: its text, or two blocks of it, the first `marked` to be kept with all that precedes."""
    contents: list[str | list[dict[str, Any]]] = [message.text for message in request.prompt.messages]
    number, opening, rest = marked_place(request.prompt.messages, request.shared_characters if marked else 0)
    if number >= 0:
        first = {"type": "text", "text": opening, _MARK: {"type": "ephemeral"}}
        contents[number] = [first, {"type": "text", "text": rest}] if rest else [first]
    return contents


def _refusal(document: Mapping[str, Any]) -> str:
    """Why it would not answer: the explanation and the category, as far as there are any."""
    details = mapping(document.get("stop_details"))
    words = word(details.get("explanation")) or "the provider's filter ended the answer"
    category = word(details.get("category"))
    return f"{words} (category {category})" if category else words


def _usage(usage: object) -> Usage:
    """Token counts. `input_tokens` are those beside the cache; all three together are what was sent."""
    counts = mapping(usage)
    cached, stored = count(counts.get("cache_read_input_tokens")), count(counts.get("cache_creation_input_tokens"))
    return Usage(
        input=count(counts.get("input_tokens")) + stored + cached,
        cached_input=cached,
        cache_write=stored,
        output=count(counts.get("output_tokens")),
        reasoning=count(mapping(counts.get("output_tokens_details")).get("thinking_tokens")),
    )
