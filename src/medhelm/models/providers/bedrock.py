"""AWS Bedrock's Converse operation: one form of request for the models of many makers.

Shapes, stop reasons and errors are those of the service's own model (bedrock-runtime, 2023-09-30, as botocore 1.44.5
carries it); how cached tokens are counted is in AWS's guide to prompt caching.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlsplit

from medhelm.domain import Completion, Model, Request, Usage
from medhelm.errors import ProviderError
from medhelm.models.provider import CACHE, SCHEMA, STOP, TEMPERATURE
from medhelm.models.providers.aws_signature import Credentials, signed_headers
from medhelm.models.providers.hosted import marked_place, optional_parts
from medhelm.models.providers.openai import add_parameters
from medhelm.models.providers.response_fields import (
    LENGTH,
    ParsedResponse,
    completion_of,
    count,
    mapping,
    objects,
    word,
)

USUAL_REGION = "us-east-1"
"""Region that requests to a gateway are signed for where neither its address nor the environment names one."""

_HOST = re.compile(r"(?:.+\.)?bedrock-runtime(?:-fips)?\.(?P<region>[a-z0-9-]+)\..+")
_SETTINGS = "outputConfig"
_MARK = "cachePoint"
_SAMPLING = {"maxTokens", "temperature", "topP", "stopSequences"}
"""Parameters that belong into `inferenceConfig`."""

_BESIDE = {
    "additionalModelRequestFields",
    "additionalModelResponseFieldPaths",
    "guardrailConfig",
    "performanceConfig",
    "promptVariables",
    "requestMetadata",
    "serviceTier",
    "toolConfig",
    _SETTINGS,
}
"""Parameters of Converse itself; all others are the model's own and go into `additionalModelRequestFields`."""

_FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": LENGTH,
    "model_context_window_exceeded": LENGTH,
}
_ENDED = frozenset(_FINISH.values())
_REFUSED = {"guardrail_intervened", "content_filtered"}
_INTERRUPTED = {"malformed_model_output", "malformed_tool_use"}


class Bedrock:
    """`POST /model/ID/converse`, signed, or with an API key of Bedrock's own."""

    def __init__(
        self,
        model: Model,
        *,
        key: str = "",
        credentials: Credentials | None = None,
        region: str = "",
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`key`: an API key, sent as it is; without one, `credentials` sign each request; without those, nothing does.

        `region`: that of the environment, for addresses that do not name one. `now`: can be replaced in tests.
        """
        self.url = f"{model.base_url}/model/{quote(model.remote_name, safe='')}/converse"
        self.names_url = ""  # Listed at another host, which is not the model's own.
        found = _HOST.fullmatch(urlsplit(model.base_url).hostname or "")
        self.region = found["region"] if found else region or USUAL_REGION
        self.secrets = (key, credentials.secret, credentials.session_token) if credentials else (key,)
        self._key, self._credentials, self._now = key, credentials, now

    def headers(self, body: bytes | None) -> Mapping[str, str]:
        """The API key, or the signature over `body`."""
        if self._key:
            return {"Authorization": f"Bearer {self._key}"}
        if self._credentials is None:
            return {}
        return signed_headers(
            "POST",
            self.url,
            body or b"",
            credentials=self._credentials,
            region=self.region,
            service="bedrock",
            moment=self._now(),
        )

    def parts(self, request: Request) -> frozenset[str]:
        """What the request holds and can do without; not every model takes all of it."""
        return optional_parts(request, forms=(_SETTINGS,), stops=True, mark=_MARK)

    def payload(self, request: Request, parts: Collection[str]) -> dict[str, Any]:
        """The JSON body; the model's own parameters go where Converse wants each."""
        model = request.model
        settings: dict[str, Any] = {"maxTokens": request.max_tokens}
        if TEMPERATURE in parts:
            settings["temperature"] = request.temperature
        if STOP in parts and (stops := [stop for stop in request.stop if stop.strip()]):
            settings["stopSequences"] = stops
        form: dict[str, Any] = {}
        if SCHEMA in parts:
            schema = {"name": "reply", "schema": json.dumps(request.schema)}
            form["textFormat"] = {"type": "json_schema", "structure": {"jsonSchema": schema}}
        if model.reasoning_effort:
            form["effort"] = model.reasoning_effort
        if form:
            settings[_SETTINGS] = form
        add_parameters(settings, request)
        told = list(zip(request.prompt.messages, _contents(request, CACHE in parts), strict=True))
        body: dict[str, Any] = {
            "messages": [{"role": one.role, "content": content} for one, content in told if one.role != "system"],
            "inferenceConfig": {name: settings.pop(name) for name in list(settings) if name in _SAMPLING},
            **{name: settings.pop(name) for name in list(settings) if name in _BESIDE},
        }
        if system := [block for one, content in told if one.role == "system" for block in content]:
            body["system"] = system
        if settings:
            name = "additionalModelRequestFields"
            body[name] = {**mapping(body.get(name)), **settings}
        return body

    def error_in(self, document: Mapping[str, Any]) -> object:
        """An error that a gateway passed on as a success."""
        return document if document.get("error") or document.get("__type") else None

    def read(self, document: Mapping[str, Any], request: Request) -> Completion:
        """The text blocks, joined; reasoning is no part of it. A reply without any block is an empty answer.

        Raises: ProviderError, retryable: `interrupted` if the model broke off, `empty_choice` if there is no message.
        """
        stopped = word(document.get("stopReason"))
        if stopped in _INTERRUPTED:
            raise ProviderError("interrupted", f"the model broke off the answer ({stopped})", retryable=True)
        content = mapping(mapping(document.get("output")).get("message")).get("content")
        if not isinstance(content, list) and stopped not in _REFUSED:
            raise ProviderError("empty_choice", "the reply holds no answer", retryable=True)
        blocks, finish = objects(content), _FINISH.get(stopped, stopped)
        texts = [block["text"] for block in blocks if isinstance(block.get("text"), str)]
        answer = ParsedResponse(
            text="".join(texts) if texts or finish in _ENDED else None,
            finish_reason=finish,
            usage=_usage(document.get("usage")),
            reported_model="",  # Converse does not say.
            refused=f"the provider's filter ended the answer ({stopped})" if stopped in _REFUSED else "",
            thought=any("reasoningContent" in block for block in blocks),
        )
        return completion_of(answer, reasons=request.model.reasoning)

    def names_in(self, document: Mapping[str, Any]) -> list[str]:  # noqa: ARG002 - there is no list
        """Nothing."""
        return []

    @property
    def asks_logprobs(self) -> Mapping[str, Any]:
        """The service does not say."""
        return {}

    def has_logprobs(self, document: Mapping[str, Any]) -> bool:  # noqa: ARG002 - see there
        """Never."""
        return False


def _contents(request: Request, marked: bool) -> list[list[dict[str, Any]]]:
    """The blocks of each message; `marked`: with a point behind what is to be kept, together with all that precedes."""
    contents: list[list[dict[str, Any]]] = [[{"text": message.text}] for message in request.prompt.messages]
    number, opening, rest = marked_place(request.prompt.messages, request.shared_characters if marked else 0)
    if number >= 0:
        contents[number] = [{"text": opening}, {_MARK: {"type": "default"}}, *([{"text": rest}] if rest else [])]
    return contents


def _usage(usage: object) -> Usage:
    """Token counts. What was read from or written to the cache stands beside `inputTokens` for most models, and inside
    it for some; the total holds it in both cases.
    """
    counts = mapping(usage)
    cached, written = count(counts.get("cacheReadInputTokens")), count(counts.get("outputTokens"))
    beside = count(counts.get("inputTokens"))
    stored = count(counts.get("cacheWriteInputTokens"))
    total = count(counts.get("totalTokens")) or beside + cached + stored + written
    spent = max(total - written, beside)
    cached = min(cached, spent)
    return Usage(input=spent, cached_input=cached, cache_write=min(stored, spent - cached), output=written)
