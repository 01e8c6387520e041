"""What each vendor's service really sends: bodies in the vendor's own form, with invented words.

The sources of the forms stand beside each vendor. Statuses and words of errors are those the vendors document, or that
their users quote in public; nothing here was recorded from a live service.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from medhelm.domain import Model
from tests.support.servers.openai import Answer

Body = dict[str, Any]

KEYS = {
    "OPENAI_API_KEY": "sk-invented-openai-0123456789",
    "AZURE_OPENAI_API_KEY": "invented0azure0key0123456789",
    "ANTHROPIC_API_KEY": "sk-ant-invented-0123456789",
    "GEMINI_API_KEY": "AIzaInventedGemini0123456789",
    "GOOGLE_ACCESS_TOKEN": "ya29.invented-vertex-0123456789",
    "AWS_ACCESS_KEY_ID": "AKIAMEDHELMTEST00001",
    "AWS_SECRET_ACCESS_KEY": "inventedSecret/For+Tests/0123456789abcdefg",
    "AWS_SESSION_TOKEN": "invented//session+token==",
}
"""One key for each vendor, none of them real."""


@dataclass(frozen=True, kw_only=True)
class Vendor:
    """One vendor's forms. Every answer has 20 tokens of input, 4 of which were cached, and 5 of output."""

    provider: str
    """Its name here."""
    path: str
    """Where requests arrive."""
    base: str
    """What follows the server's address in the model's."""
    variable: str
    """Which variable holds its key."""
    said: Callable[..., Body]
    """A reply: `said(text, finish="stop"|"length", thought=tokens of thought)`; text None: nothing visible."""
    schema_of: Callable[[Body], Any]
    """The JSON schema in a request; None if there is none."""
    temperature_of: Callable[[Body], Any]
    """The temperature in a request; None if there is none."""
    prompt_of: Callable[[Body], str]
    """The user's words in a request."""
    refusals: Mapping[str, Answer]
    """Ways of not answering."""
    errors: Mapping[str, Answer]
    """Name of a situation -> what the service says; the same names for every vendor."""
    reported: str = "reported-1"
    """The model's name in replies; empty where the vendor gives none."""
    counts_thought: bool = True
    """Whether it says how many tokens of the output were thought."""
    cache_write: int = 0
    """Of the tokens of input, how many it says it put into its cache."""

    def model(self, address: str, **settings: Any) -> Model:
        """A model at a server of this vendor."""
        known = {"name": f"{self.provider}/m", "remote_name": "m", "key_variable": self.variable}
        return Model(**{**known, "provider": self.provider, "base_url": address + self.base, **settings})

    def answer(self, text: str | None, **how: Any) -> Answer:
        """The same as `said`, ready to be sent."""
        return Answer(body=self.said(text, **how))


def dig(body: Any, *path: str) -> Any:
    """What stands at a place in nested objects; None if it is not there."""
    for name in path:
        body = body.get(name) if isinstance(body, dict) else None
    return body


# --- OpenAI: platform.openai.com/docs/api-reference/chat; Azure: learn.microsoft.com/azure/ai-services/openai ---------


def _openai_said(text: str | None, *, finish: str = "stop", thought: int = 0) -> Body:
    message: Body = {
        "role": "assistant",
        "content": text if text is not None else "",
        "refusal": None,
        "annotations": [],
    }
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "reported-1",
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
        "usage": {
            "prompt_tokens": 20,
            "completion_tokens": 5,
            "total_tokens": 25,
            "prompt_tokens_details": {"cached_tokens": 4, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": thought, "audio_tokens": 0},
        },
        "system_fingerprint": "fp_1",
    }


def _openai_error(
    http_status: int,
    message: str,
    code: str | None = None,
    kind: str = "invalid_request_error",
    *,
    headers: Mapping[str, str] | None = None,
    **more: Any,
) -> Answer:
    error = {"message": message, "type": kind, "param": None, "code": code, **more}
    return Answer(status=http_status, body={"error": error}, headers=headers or {})


_OPENAI_ERRORS = {
    "rate limit": _openai_error(
        429, "Rate limit reached for gpt-x on requests per min (RPM): Limit 3, Used 3.", "rate_limit_exceeded",
        "requests", headers={"Retry-After": "7"},
    ),
    "overload": _openai_error(503, "The engine is currently overloaded, please try again later", None, "server_error"),
    "wrong key": _openai_error(401, "Incorrect API key provided: sk-inv***789.", "invalid_api_key"),
    "context length": _openai_error(
        400, "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.",
        "context_length_exceeded", param="messages",
    ),
    "unknown model": _openai_error(404, "The model `m` does not exist or you cannot use it.", "model_not_found"),
    "quota": _openai_error(429, "You exceeded your current quota.", "insufficient_quota", "insufficient_quota"),
    "temperature": _openai_error(
        400, "Unsupported value: 'temperature' does not support 0 with this model.", "unsupported_value",
        param="temperature",
    ),
    "schema": _openai_error(
        400, "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.",
        param="response_format",
    ),
}  # fmt: skip
OPENAI = Vendor(
    provider="openai",
    path="/v1/chat/completions",
    base="/v1",
    variable="OPENAI_API_KEY",
    said=_openai_said,
    schema_of=lambda body: dig(body, "response_format", "json_schema", "schema"),
    temperature_of=lambda body: body.get("temperature"),
    prompt_of=lambda body: body["messages"][-1]["content"],
    refusals={
        "refusal field": Answer(
            body={"choices": [{"message": {"refusal": "I cannot help with that."}, "finish_reason": "stop"}]}
        ),
        "content filter": Answer(body=_openai_said("partial", finish="content_filter")),
    },
    errors=_OPENAI_ERRORS,
)


def azure_error(status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> Answer:
    """An error of Azure's own gateway."""
    return Answer(status=status, body={"error": {"code": code, "message": message}}, headers=headers or {})


AZURE = Vendor(
    provider="azure",
    path="/openai/deployments/m/chat/completions?api-version=2024-10-21",
    base="/openai/deployments/m?api-version=2024-10-21",
    variable="AZURE_OPENAI_API_KEY",
    said=_openai_said,
    schema_of=OPENAI.schema_of,
    temperature_of=OPENAI.temperature_of,
    prompt_of=OPENAI.prompt_of,
    refusals={
        "filtered prompt": _openai_error(
            400,
            "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
            "content_filter",
            innererror={"code": "ResponsibleAIPolicyViolation"},
        ),
        "filtered answer": Answer(body=_openai_said("partial", finish="content_filter")),
    },
    errors={
        **_OPENAI_ERRORS,
        "rate limit": azure_error(429, "429", "You have exceeded the call rate limit.", {"Retry-After": "7"}),
        "wrong key": azure_error(401, "401", "Access denied due to invalid subscription key."),
        "unknown model": azure_error(404, "DeploymentNotFound", "The API deployment for this resource does not exist."),
    },
)

# --- Anthropic: platform.claude.com/docs/en/api/messages and .../api/errors; words of errors as users quote them ------


def _anthropic_said(text: str | None, *, finish: str = "stop", thought: int = 0) -> Body:
    content: list[Body] = [{"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}] if thought else []
    content += [{"type": "text", "text": text}] if text is not None else []
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "reported-1",
        "content": content,
        "stop_reason": {"stop": "end_turn", "length": "max_tokens"}.get(finish, finish),
        "stop_sequence": None,
        "stop_details": None,
        "usage": {
            "input_tokens": 13,
            "cache_creation_input_tokens": 3,
            "cache_read_input_tokens": 4,
            "cache_creation": {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 0},
            "output_tokens": 5,
            "output_tokens_details": {"thinking_tokens": thought},
            "service_tier": "standard",
        },
    }


def _anthropic_error(status: int, kind: str, message: str, headers: Mapping[str, str] | None = None) -> Answer:
    body = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}
    return Answer(status=status, body=body, headers=headers or {})


ANTHROPIC = Vendor(
    provider="anthropic",
    path="/v1/messages",
    base="/v1",
    variable="ANTHROPIC_API_KEY",
    said=_anthropic_said,
    schema_of=lambda body: dig(body, "output_config", "format", "schema"),
    temperature_of=lambda body: body.get("temperature"),
    prompt_of=lambda body: body["messages"][-1]["content"],
    cache_write=3,
    refusals={
        "classifier": Answer(
            body={
                **_anthropic_said("I", finish="refusal"),
                "stop_details": {"type": "refusal", "category": "bio", "explanation": "Not that."},
            }
        ),
        "without details": Answer(body=_anthropic_said(None, finish="refusal")),
    },
    errors={
        "rate limit": _anthropic_error(
            429, "rate_limit_error", "This request would exceed your rate limit.", {"retry-after": "7"}
        ),
        "overload": _anthropic_error(529, "overloaded_error", "Overloaded"),
        "wrong key": _anthropic_error(401, "authentication_error", "invalid x-api-key"),
        "context length": _anthropic_error(
            400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"
        ),
        "unknown model": _anthropic_error(404, "not_found_error", "model: m"),
        "quota": _anthropic_error(
            400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API."
        ),
        "temperature": _anthropic_error(400, "invalid_request_error", "`temperature` is deprecated for this model."),
        "schema": _anthropic_error(
            400, "invalid_request_error", "output_config.format: Extra inputs are not permitted"
        ),
    },
)

# --- Google: ai.google.dev/api/generate-content, google.rpc.Status and its details; Vertex AI's v1 --------------------


def _google_said(text: str | None, *, finish: str = "stop", thought: int = 0) -> Body:
    parts: list[Body] = [{"text": "Hm.", "thought": True}] if thought and text is not None else []
    parts += [{"text": text}] if text is not None else []
    candidate: Body = {
        "content": {"parts": parts, "role": "model"} if parts else {"role": "model"},
        "finishReason": {"stop": "STOP", "length": "MAX_TOKENS"}.get(finish, finish),
        "index": 0,
    }
    usage = {"promptTokenCount": 20, "cachedContentTokenCount": 4, "totalTokenCount": 25}
    usage |= {"candidatesTokenCount": 5 - thought} if thought < 5 else {}
    usage |= {"thoughtsTokenCount": thought} if thought else {}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "reported-1", "responseId": "r1"}


def google_error(status: int, name: str, message: str, *details: Body) -> Answer:
    """An error of google.rpc."""
    body = {"error": {"code": status, "message": message, "status": name, "details": list(details)}}
    return Answer(status=status, body=body)


def google_reason(reason: str) -> Body:
    """A detail of an error that names its reason."""
    return {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "googleapis.com"}


def google_quota(quota: str, value: str, delay: str) -> Answer:
    """A quota that is used up, of `value` a day or a minute, with the time after which to ask again."""
    return google_error(
        429,
        "RESOURCE_EXHAUSTED",
        "You exceeded your current quota, please check your plan and billing details.",
        {
            "@type": "type.googleapis.com/google.rpc.QuotaFailure",
            "violations": [{"quotaMetric": "g/requests", "quotaId": quota, "quotaValue": value}],
        },
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay},
    )


GOOGLE = Vendor(
    provider="google",
    path="/v1beta/models/m:generateContent",
    base="/v1beta",
    variable="GEMINI_API_KEY",
    said=_google_said,
    schema_of=lambda body: dig(body, "generationConfig", "responseJsonSchema"),
    temperature_of=lambda body: dig(body, "generationConfig", "temperature"),
    prompt_of=lambda body: body["contents"][-1]["parts"][0]["text"],
    refusals={
        "blocked prompt": Answer(
            body={
                "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
                "usageMetadata": {"promptTokenCount": 20, "totalTokenCount": 20},
                "modelVersion": "reported-1",
            }
        ),
        **{name: Answer(body=_google_said(None, finish=name)) for name in ("SAFETY", "RECITATION", "SPII")},
    },
    errors={
        "rate limit": google_quota("GenerateRequestsPerMinutePerProjectPerModel-FreeTier", "10", "7s"),
        "overload": google_error(503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
        "wrong key": google_error(
            400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", google_reason("API_KEY_INVALID")
        ),
        "context length": google_error(
            400,
            "INVALID_ARGUMENT",
            "The input token count (2551556) exceeds the maximum number of tokens allowed (1048576).",
        ),
        "unknown model": google_error(404, "NOT_FOUND", "models/m is not found for API version v1beta."),
        "quota": google_quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier", "250", "31.2s"),
        "temperature": google_error(400, "INVALID_ARGUMENT", "temperature is not supported for this model."),
        "schema": google_error(
            400,
            "INVALID_ARGUMENT",
            "Invalid JSON payload received. Unknown name \"responseJsonSchema\" at 'generation_config'.",
        ),
    },
)

VERTEX = Vendor(
    provider="vertex",
    path="/v1/projects/p/locations/us-central1/publishers/google/models/m:generateContent",
    base="/v1/projects/p/locations/us-central1",
    variable="GOOGLE_ACCESS_TOKEN",
    said=_google_said,
    schema_of=GOOGLE.schema_of,
    temperature_of=GOOGLE.temperature_of,
    prompt_of=GOOGLE.prompt_of,
    refusals=GOOGLE.refusals,
    errors={
        **GOOGLE.errors,
        "rate limit": replace(
            google_error(429, "RESOURCE_EXHAUSTED", "Try again later."), headers={"Retry-After": "7"}
        ),
        "wrong key": google_error(
            401, "UNAUTHENTICATED", "Invalid credentials.", google_reason("ACCESS_TOKEN_TYPE_UNSUPPORTED")
        ),
        "unknown model": google_error(404, "NOT_FOUND", "Publisher Model `m` was not found."),
    },
)

# --- Bedrock: the service model of bedrock-runtime 2023-09-30; words of errors as users quote them --------------------


def _bedrock_said(text: str | None, *, finish: str = "stop", thought: int = 0) -> Body:
    content: list[Body] = (
        [{"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "c2ln"}}}] if thought else []
    )
    content += [{"text": text}] if text is not None else []
    return {
        "metrics": {"latencyMs": 12},
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": {"stop": "end_turn", "length": "max_tokens"}.get(finish, finish),
        "usage": {
            "inputTokens": 13,
            "cacheReadInputTokens": 4,
            "cacheWriteInputTokens": 3,
            "outputTokens": 5,
            "totalTokens": 25,
        },
    }


def bedrock_error(status: int, kind: str, message: str, **headers: str) -> Answer:
    """An error of AWS: its type stands in a header."""
    named = {"x-amzn-ErrorType": f"{kind}:http://internal.amazon.com/coral/com.amazon.bedrock/", **headers}
    return Answer(status=status, body={"message": message}, headers=named)


BEDROCK = Vendor(
    provider="bedrock",
    path="/model/m/converse",
    base="",
    variable="AWS_ACCESS_KEY_ID",
    said=_bedrock_said,
    schema_of=lambda body: dig(body, "outputConfig", "textFormat", "structure", "jsonSchema", "schema"),
    temperature_of=lambda body: dig(body, "inferenceConfig", "temperature"),
    prompt_of=lambda body: body["messages"][-1]["content"][0]["text"],
    reported="",
    counts_thought=False,
    cache_write=3,
    refusals={
        name: Answer(body=_bedrock_said("Sorry.", finish=name)) for name in ("guardrail_intervened", "content_filtered")
    },
    errors={
        "rate limit": bedrock_error(429, "ThrottlingException", "Too many requests.", **{"Retry-After": "7"}),
        "overload": bedrock_error(503, "ServiceUnavailableException", "Bedrock is unable to process your request."),
        "wrong key": bedrock_error(
            403, "UnrecognizedClientException", "The security token included in the request is invalid."
        ),
        "context length": bedrock_error(400, "ValidationException", "Input is too long for requested model."),
        "unknown model": bedrock_error(400, "ValidationException", "The provided model identifier is invalid."),
        "quota": bedrock_error(429, "ThrottlingException", "Too many tokens per day, please wait before trying again."),
        "temperature": bedrock_error(
            400,
            "ValidationException",
            "The model returned the following errors: `temperature` is deprecated for this model.",
        ),
        "schema": bedrock_error(
            400,
            "ValidationException",
            "The model returned the following errors: output_config.format: Extra inputs are not permitted",
        ),
    },
)

VENDORS = {vendor.provider: vendor for vendor in (OPENAI, AZURE, ANTHROPIC, GOOGLE, VERTEX, BEDROCK)}
"""Every provider that is reached over a network."""
