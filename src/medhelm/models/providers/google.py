"""Google's generateContent: the Gemini API, and Vertex AI, which has the same requests at another address.

Fields, finish reasons and counts are those of the API references (ai.google.dev/api/generate-content and Vertex AI's
v1) and of the vendor's Python SDK 3.4.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import quote

from medhelm.domain import Completion, Model, Request, Usage
from medhelm.errors import ProviderError
from medhelm.models.provider import SCHEMA, SEED, STOP, TEMPERATURE
from medhelm.models.providers.hosted import optional_parts
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

_FORMS = ("responseMimeType", "responseSchema", "responseJsonSchema", "responseFormat")
_BESIDE = {"safetySettings", "tools", "toolConfig", "cachedContent", "labels", "serviceTier", "modelArmorConfig"}
"""Parameters that stand beside `generationConfig`; all others belong into it."""

_ROLES = {"assistant": "model"}
_FINISH = {"STOP": "stop", "MAX_TOKENS": LENGTH}
_REFUSED = {
    "SAFETY",
    "RECITATION",
    "LANGUAGE",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "IMAGE_SAFETY",
    "ESCALATION",
    "MODEL_ARMOR",
    "PUP_LIMITED_DISABLED",
}
"""Finish reasons of an answer that the provider's filters ended."""

_INTERRUPTED = {"OTHER", "MALFORMED_RESPONSE", "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"}
_BUDGETS = {"none": 0, "minimal": 1024, "low": 1024, "medium": 8192, "high": 24576}
"""Effort -> thinking budget of Gemini 2.5, which knows no levels: the figures that Google's own OpenAI-compatible
endpoint puts in their place (ai.google.dev/gemini-api/docs/openai)."""

_GEMINI_2_5 = re.compile(r"(?:.*/)?gemini-2\.5\b")


class Google:
    """`POST .../models/MODEL:generateContent`."""

    def __init__(self, model: Model, *, key: str = "") -> None:
        """`model.base_url`: up to the version, for Vertex up to the location. `key`: an API key, for Vertex a token."""
        name, vertex = quote(model.remote_name, safe="/@"), model.provider == "vertex"
        if vertex:
            place = name if name.startswith(("publishers/", "endpoints/")) else f"publishers/google/models/{name}"
        else:
            place = name if name.startswith(("models/", "tunedModels/")) else f"models/{name}"
        self.url = f"{model.base_url}/{place}:generateContent"
        self.names_url = "" if vertex else f"{model.base_url}/models?pageSize=1000"
        self.secrets = (key,)
        self._headers = ({"Authorization": f"Bearer {key}"} if vertex else {"x-goog-api-key": key}) if key else {}

    def headers(self, body: bytes | None) -> Mapping[str, str]:  # noqa: ARG002 - nothing is signed
        """The key; it is never part of the address, which proxies write into their logs."""
        return self._headers

    def parts(self, request: Request) -> frozenset[str]:
        """What the request holds and can do without."""
        parts = optional_parts(request, forms=_FORMS, stops=True)
        return parts if SEED in request.model.parameters else parts | {SEED}

    def payload(self, request: Request, parts: Collection[str]) -> dict[str, Any]:
        """The JSON body. The model's own parameters go into `generationConfig`, but for those that stand beside it."""
        model = request.model
        config: dict[str, Any] = {"maxOutputTokens": request.max_tokens}
        if TEMPERATURE in parts:
            config["temperature"] = request.temperature
        if request.stop and STOP in parts:
            config["stopSequences"] = list(request.stop)
        if SEED in parts:
            config["seed"] = request.sample
        if SCHEMA in parts:
            config["responseMimeType"] = "application/json"
            config["responseJsonSchema"] = request.schema
        if model.reasoning_effort:
            config["thinkingConfig"] = _thinking(model)
        add_parameters(config, request)
        body: dict[str, Any] = {
            "contents": [
                {"role": _ROLES.get(message.role, message.role), "parts": [{"text": message.text}]}
                for message in request.prompt.messages
                if message.role != "system"
            ],
            **{name: config.pop(name) for name in list(config) if name in _BESIDE},
            "generationConfig": config,
        }
        if system := [{"text": message.text} for message in request.prompt.messages if message.role == "system"]:
            body["systemInstruction"] = {"parts": system}
        return body

    def error_in(self, document: Mapping[str, Any]) -> object:
        """An error that a gateway passed on as a success."""
        return document if document.get("error") else None

    def read(self, document: Mapping[str, Any], request: Request) -> Completion:
        """The text of the first candidate; parts marked as thought are no part of it.

        Raises: ProviderError, retryable: `interrupted` if the service broke off, `empty_choice` if there is nothing.
        """
        candidate = next(iter(objects(document.get("candidates"))), {})
        stopped = word(candidate.get("finishReason"))
        if stopped in _INTERRUPTED:
            raise ProviderError("interrupted", f"the server broke off the answer ({stopped})", retryable=True)
        parts = objects(mapping(candidate.get("content")).get("parts"))
        texts = [part["text"] for part in parts if not part.get("thought") and isinstance(part.get("text"), str)]
        usage = _usage(document.get("usageMetadata"))
        answer = ParsedResponse(
            text="".join(texts) if texts else None,
            finish_reason=_FINISH.get(stopped, stopped.lower()),
            usage=usage,
            reported_model=word(document.get("modelVersion")),
            refused=_refusal(document, candidate, stopped),
            thought=any(part.get("thought") for part in parts),
        )
        return completion_of(answer, reasons=request.model.reasoning)

    def names_in(self, document: Mapping[str, Any]) -> list[str]:
        """From `{"models": [{"name": "models/NAME"}, ...]}`."""
        return [name.removeprefix("models/") for name in names_in(document.get("models"), "name")]

    @property
    def asks_logprobs(self) -> Mapping[str, Any]:
        """As Google calls it, in `generationConfig`."""
        return {"responseLogprobs": True}

    def has_logprobs(self, document: Mapping[str, Any]) -> bool:
        """From `{"candidates": [{"logprobsResult": {...}}]}`."""
        return any(mapping(candidate.get("logprobsResult")) for candidate in objects(document.get("candidates")))


def _thinking(model: Model) -> dict[str, Any]:
    """How much thought an effort asks for: a budget of Gemini 2.5, a level of its successors."""
    if _GEMINI_2_5.match(model.remote_name) and model.reasoning_effort in _BUDGETS:
        return {"thinkingBudget": _BUDGETS[model.reasoning_effort]}
    return {"thinkingLevel": model.reasoning_effort.upper()}


def _refusal(document: Mapping[str, Any], candidate: Mapping[str, Any], stopped: str) -> str:
    """Why there is no answer: the prompt was blocked, or a filter ended it; "" if neither."""
    feedback = mapping(document.get("promptFeedback"))
    if not candidate and (blocked := word(feedback.get("blockReason"))):
        said = word(feedback.get("blockReasonMessage"))
        return f"the provider's filter blocked the prompt ({blocked})" + (f": {said}" if said else "")
    if stopped in _REFUSED:
        said = word(candidate.get("finishMessage"))
        return f"the provider's filter ended the answer ({stopped})" + (f": {said}" if said else "")
    return ""


def _usage(usage: object) -> Usage:
    """Token counts; Google counts thoughts beside the candidates."""
    counts = mapping(usage)
    spent, thoughts = count(counts.get("promptTokenCount")), count(counts.get("thoughtsTokenCount"))
    return Usage(
        input=spent,
        cached_input=min(count(counts.get("cachedContentTokenCount")), spent),
        output=count(counts.get("candidatesTokenCount")) + thoughts,
        reasoning=thoughts,
    )
