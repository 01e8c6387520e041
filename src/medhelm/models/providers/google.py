"""Google's generateContent: the Gemini API, and the dialect of Vertex AI.

Fields, finish reasons and counts follow the API references (ai.google.dev/api/generate-content and Vertex AI's v1) and
the vendor's Python SDK 3.4.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

from medhelm.domain import Completion, FailureCode, Model, Request, Usage
from medhelm.models.provider import LENGTH, Environment, OptionalParameter, Provider, ProviderContext, Service
from medhelm.models.providers.errors import (
    NONE_AT_ALL,
    PER_DAY,
    completion_of,
    count,
    interrupted,
    length_of,
    mapping,
    names_in,
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
)

_SCHEMA_FIELDS = ("responseMimeType", "responseSchema", "responseJsonSchema", "responseFormat")
_BESIDE = {"safetySettings", "tools", "toolConfig", "cachedContent", "labels", "serviceTier", "modelArmorConfig"}
"""Parameters beside `generationConfig`; all others go into it."""

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
"""Effort -> thinking budget of Gemini 2.5, which has no levels: the values of Google's own OpenAI-compatible endpoint
(ai.google.dev/gemini-api/docs/openai)."""

_GEMINI_2_5 = re.compile(r"(?:.*/)?gemini-2\.5\b")


class Google(Dialect):
    """`POST .../models/MODEL:generateContent`."""

    logprobs_parameters: Mapping[str, Any] = MappingProxyType({"responseLogprobs": True})

    def __init__(self, model: Model, *, key: str = "") -> None:
        """`model.base_url` ends in the version, on Vertex in the location; `key` is an API key, on Vertex a token."""
        name, is_vertex = quote(model.remote_name, safe="/@"), model.provider == "vertex"
        if is_vertex:
            path = name if name.startswith(("publishers/", "endpoints/")) else f"publishers/google/models/{name}"
        else:
            path = name if name.startswith(("models/", "tunedModels/")) else f"models/{name}"
        self.url = f"{model.base_url}/{path}:generateContent"
        self.names_url = "" if is_vertex else f"{model.base_url}/models?pageSize=1000"
        self.secrets = (key,)
        self._headers = ({"Authorization": f"Bearer {key}"} if is_vertex else {"x-goog-api-key": key}) if key else {}

    def headers(self, body: bytes | None) -> Mapping[str, str]:  # noqa: ARG002 - nothing is signed
        """Return the key. It is never part of the address, which proxies log."""
        return self._headers

    def optional_parameters(self, request: Request) -> frozenset[OptionalParameter]:
        """Return the parameters that can be left out."""
        found = common_optional_parameters(request, schema_fields=_SCHEMA_FIELDS, stop_if_reasoning=True)
        return found if "seed" in request.model.parameters else found | {OptionalParameter.SEED}

    def payload(self, request: Request, optional: Collection[OptionalParameter]) -> dict[str, Any]:
        """Return the JSON body. The model's own parameters go into `generationConfig`, except those beside it."""
        model = request.model
        config: dict[str, Any] = {"maxOutputTokens": request.max_tokens}
        if OptionalParameter.TEMPERATURE in optional:
            config["temperature"] = request.temperature
        if request.stop and OptionalParameter.STOP in optional:
            config["stopSequences"] = list(request.stop)
        if OptionalParameter.SEED in optional:
            config["seed"] = request.sample
        if OptionalParameter.SCHEMA in optional:
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
        """Return an error that a gateway passed on as a success."""
        return document if document.get("error") else None

    def usage_in(self, document: Mapping[str, Any]) -> Usage:
        """Read the token counts; Google counts thoughts beside the candidates."""
        counts = mapping(document.get("usageMetadata"))
        spent, thoughts = count(counts.get("promptTokenCount")), count(counts.get("thoughtsTokenCount"))
        return Usage(
            input=spent,
            cached_input=min(count(counts.get("cachedContentTokenCount")), spent),
            output=count(counts.get("candidatesTokenCount")) + thoughts,
            reasoning=thoughts,
        )

    def read(self, document: Mapping[str, Any], request: Request) -> Completion:
        """Read the text of the first candidate; parts marked as thought are left out.

        Raises: ProviderError, retryable: `interrupted` if the service stopped early, `empty_choice` without a
        candidate that says why it ended.
        """
        candidate = min(objects(document.get("candidates")), key=lambda one: count(one.get("index")), default={})
        stopped = word(candidate.get("finishReason"))
        if stopped in _INTERRUPTED:
            raise interrupted(stopped)
        parts = objects(mapping(candidate.get("content")).get("parts"))
        texts = texts_in(part for part in parts if "text" in part and not part.get("thought"))
        refused = _refusal(document, candidate, stopped)
        if not (texts or stopped or refused):
            raise no_completion()
        return completion_of(
            text="".join(texts),
            finish_reason=_FINISH.get(stopped, stopped.lower()),
            usage=self.usage_in(document),
            reported_model=word(document.get("modelVersion")),
            refused=refused,
            hidden_characters=sum(length_of(part.get("text")) for part in parts if part.get("thought")),
            reasoning=reasoning_in([part.get("text") for part in parts if part.get("thought")]),
            reasons=request.model.reasoning,
        )

    def names_in(self, document: Mapping[str, Any]) -> list[str]:
        """Read `{"models": [{"name": "models/NAME"}, ...]}`."""
        return [name.removeprefix("models/") for name in names_in(document.get("models"), "name")]

    def has_logprobs(self, document: Mapping[str, Any]) -> bool:
        """Read `{"candidates": [{"logprobsResult": {...}}]}`."""
        return any(mapping(candidate.get("logprobsResult")) for candidate in objects(document.get("candidates")))


def _thinking(model: Model) -> dict[str, Any]:
    """Convert an effort: to a budget for Gemini 2.5, to a level for its successors."""
    if _GEMINI_2_5.match(model.remote_name) and model.reasoning_effort in _BUDGETS:
        return {"thinkingBudget": _BUDGETS[model.reasoning_effort]}
    return {"thinkingLevel": model.reasoning_effort.upper()}


def _refusal(document: Mapping[str, Any], candidate: Mapping[str, Any], stopped: str) -> str:
    """Return why a filter blocked the prompt or ended the completion; "" if none did."""
    feedback = mapping(document.get("promptFeedback"))
    if not candidate and (blocked := word(feedback.get("blockReason"))):
        said = word(feedback.get("blockReasonMessage"))
        return f"the provider's filter blocked the prompt ({blocked})" + (f": {said}" if said else "")
    if stopped in _REFUSED:
        said = word(candidate.get("finishMessage"))
        return f"the provider's filter ended the completion ({stopped})" + (f": {said}" if said else "")
    return ""


def google_address(written: str, remote_name: str, environment: Environment) -> str:  # noqa: ARG001 - see Service
    """Return the address of the Gemini API: what was written, or the vendor's own, with the version at the end.

    >>> [google_address(text, "m", {}) for text in ("https://g.org", "https://g.org/v1beta", "https://g.org/v1/models/m:x")]
    ['https://g.org/v1beta', 'https://g.org/v1beta', 'https://g.org/v1']
    """
    address = re.sub(r"/models(/[^/]+)?$", "", written or SERVICE.base_url)
    return address if re.search(r"/v\d+((alpha|beta)\d*)?$", address) else f"{address}/v1beta"


def open_google(service: Service, model: Model, context: ProviderContext) -> Provider:
    """Open a model behind generateContent."""
    return HttpProvider(model, context.http, Google(model, key=context.value_of(model.key_variable)), service)


ERROR_CODES = {
    "api_key_invalid": FailureCode.KEY,
    "service_disabled": FailureCode.NO_ACCESS,
    "iam_permission_denied": FailureCode.NO_ACCESS,
    PER_DAY: FailureCode.NO_QUOTA,
    NONE_AT_ALL: FailureCode.NO_QUOTA,
}
"""Google's codes: reasons of google.rpc.ErrorInfo, and two kinds of quotas."""

ERROR_PHRASES = {FailureCode.NO_ACCESS: "has not been used in project|user location is not supported"}

SERVICE: Service = Service(
    name="google",
    title="Google Gemini",
    open=lambda model, context: open_google(SERVICE, model, context),
    base_url="https://generativelanguage.googleapis.com/v1beta",
    locate=google_address,
    hosts=r"generativelanguage\.googleapis\.com",
    key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    key_prefixes={"AIza": "GEMINI_API_KEY", "AQ.": "GEMINI_API_KEY"},
    key_hints={"GEMINI_API_KEY": "(GOOGLE_API_KEY is read too.)"},
    examples=("google/gemini-3.8-flash", "google/gemini-2.5-flash"),
    error_codes=ERROR_CODES,
    error_phrases=ERROR_PHRASES,
)
