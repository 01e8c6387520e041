"""Anthropic's Messages API.

Fields, stop reasons and counts follow the API reference (platform.claude.com/docs/en/api/messages), version 2023-06-01,
and the vendor's Python SDK 2.12.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from medhelm.domain import Completion, FailureCode, Model, Request, Usage
from medhelm.models.provider import Environment, OptionalParameter, Provider, ProviderContext, Service
from medhelm.models.providers.errors import (
    STOP_REASONS,
    completion_of,
    count,
    length_of,
    mapping,
    no_completion,
    objects,
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

API_VERSION = "2023-06-01"
"""Version of the API that every request names; the latest one."""

_SETTINGS = "output_config"
_MARK = "cache_control"
_THINKING = {"thinking", "redacted_thinking"}


class Anthropic(Dialect):
    """`POST .../v1/messages`."""

    def __init__(self, model: Model, *, key: str = "") -> None:
        """`model.base_url` ends in `/v1`; an empty `key` is not sent."""
        self.url = f"{model.base_url}/messages"
        self.names_url = f"{model.base_url}/models?limit=1000"
        self.secrets = (key,)
        self._headers = {"anthropic-version": API_VERSION, **({"x-api-key": key} if key else {})}

    def headers(self, body: bytes | None) -> Mapping[str, str]:  # noqa: ARG002 - nothing is signed
        """Return the version of the API, and the key."""
        return self._headers

    def optional_parameters(self, request: Request) -> frozenset[OptionalParameter]:
        """Return the parameters that can be left out: newer models take no temperature."""
        return common_optional_parameters(
            request, schema_fields=(_SETTINGS,), stop_if_reasoning=True, cache_field=_MARK
        )

    def payload(self, request: Request, optional: Collection[OptionalParameter]) -> dict[str, Any]:
        """Return the JSON body. The system message is a field; blank stop sequences, an error there, are left out.

        Models that reason get no temperature: with thinking, the service accepts only its own.
        """
        model = request.model
        contents = _contents(request, OptionalParameter.CACHE in optional)
        messages = list(zip(request.prompt.messages, contents, strict=True))
        body: dict[str, Any] = {
            "model": model.remote_name,
            "max_tokens": request.max_tokens,
            "messages": [{"role": m.role, "content": content} for m, content in messages if m.role != "system"],
        }
        system = [content for message, content in messages if message.role == "system"]
        if len(system) == 1:
            body["system"] = system[0]
        elif system:
            body["system"] = "\n\n".join(message.text for message, _ in messages if message.role == "system")
        if OptionalParameter.TEMPERATURE in optional:
            body["temperature"] = request.temperature
        if OptionalParameter.STOP in optional and (stops := [stop for stop in request.stop if stop.strip()]):
            body["stop_sequences"] = stops
        settings: dict[str, Any] = {}
        if OptionalParameter.SCHEMA in optional:
            settings["format"] = {"type": "json_schema", "schema": request.schema}
        if model.reasoning_effort:
            settings["effort"] = model.reasoning_effort
        if settings:
            body[_SETTINGS] = settings
        add_parameters(body, request)
        return body

    def error_in(self, document: Mapping[str, Any]) -> object:
        """Return an error that a gateway passed on as a success."""
        return document if document.get("type") == "error" or document.get("error") else None

    def usage_in(self, document: Mapping[str, Any]) -> Usage:
        """Read the token counts. `input_tokens` does not include the cache; all three together are what was sent."""
        counts = mapping(document.get("usage"))
        cached, stored = count(counts.get("cache_read_input_tokens")), count(counts.get("cache_creation_input_tokens"))
        return Usage(
            input=count(counts.get("input_tokens")) + stored + cached,
            cached_input=cached,
            cache_write=stored,
            output=count(counts.get("output_tokens")),
            reasoning=count(mapping(counts.get("output_tokens_details")).get("thinking_tokens")),
        )

    def read(self, document: Mapping[str, Any], request: Request) -> Completion:
        """Join the text blocks; thinking blocks are left out.

        A reply without any block is an empty completion: Claude ends its turn like this when it has nothing to say.
        Raises: ProviderError `empty_choice`, retryable, if it has neither blocks nor a reason to stop.
        """
        content, stopped = document.get("content"), word(document.get("stop_reason"))
        if not isinstance(content, list) and not (content is None and stopped):
            raise no_completion()
        blocks = objects(content)
        texts = texts_in(block for block in blocks if block.get("type") == "text")
        return completion_of(
            text="".join(texts),
            finish_reason=STOP_REASONS.get(stopped, stopped),
            usage=self.usage_in(document),
            reported_model=word(document.get("model")),
            refused=_refusal(document) if stopped == "refusal" else "",
            hidden_characters=sum(length_of(block) for block in blocks if block.get("type") in _THINKING),
            reasoning=reasoning_in([block.get("thinking") for block in blocks]),
            reasons=request.model.reasoning,
        )


def _contents(request: Request, marked: bool) -> list[str | list[dict[str, Any]]]:
    """Return the content of each message: its text; if `marked`, the shared part as a block that is cached."""
    contents: list[str | list[dict[str, Any]]] = [message.text for message in request.prompt.messages]
    number, opening, rest = split_at_shared(request.prompt.messages, request.shared_characters if marked else 0)
    if number >= 0:
        first = {"type": "text", "text": opening, _MARK: {"type": "ephemeral"}}
        contents[number] = [first, {"type": "text", "text": rest}] if rest else [first]
    return contents


def _refusal(document: Mapping[str, Any]) -> str:
    """Return why it refused: the explanation and the category, if given."""
    details = mapping(document.get("stop_details"))
    words = word(details.get("explanation")) or "the provider's filter ended the completion"
    category = word(details.get("category"))
    return f"{words} (category {category})" if category else words


def anthropic_address(written: str, remote_name: str, environment: Environment) -> str:  # noqa: ARG001 - see Service
    """Return the address of the Messages API: what was written, or the vendor's own, with `/v1` at the end.

    >>> [anthropic_address(text, "m", {}) for text in ("https://a.org", "https://a.org/llm/v1", "https://a.org/v1/messages")]
    ['https://a.org/v1', 'https://a.org/llm/v1', 'https://a.org/v1']
    """
    return (written or SERVICE.base_url).removesuffix("/messages").removesuffix("/v1") + "/v1"


def _open(model: Model, context: ProviderContext) -> Provider:
    return HttpProvider(model, context.http, Anthropic(model, key=context.value_of(model.key_variable)), SERVICE)


SERVICE = Service(
    name="anthropic",
    title="Anthropic",
    open=_open,
    base_url="https://api.anthropic.com/v1",
    locate=anthropic_address,
    hosts=r"(.+\.)?api\.anthropic\.com",
    key_variables=("ANTHROPIC_API_KEY",),
    key_prefixes={"sk-ant-": "ANTHROPIC_API_KEY"},
    examples=("anthropic/claude-opus-5-5", "anthropic/claude-haiku-4-5"),
    error_codes={
        "billing_error": FailureCode.NO_QUOTA,
        "contract_spend_limit_reached": FailureCode.NO_QUOTA,
        "enforced_spend_limit_reached": FailureCode.NO_QUOTA,
        "organization_on_hold": FailureCode.KEY,
    },
    error_phrases={
        FailureCode.NO_QUOTA: "credit balance is too low|reached your specified api usage limits",
        FailureCode.KEY: "organization has been disabled",
    },
    batch="medhelm.models.batch.anthropic:AnthropicBatches",
)
