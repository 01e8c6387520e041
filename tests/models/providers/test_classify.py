"""What an error of a server means, and the sentence that says what to do: each code, phrase and status once."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.domain import Completion, Model, Usage
from medhelm.errors import ProviderError
from medhelm.models.provider import OptionalParameter, unsupported_parameter
from medhelm.models.providers import SERVICES
from medhelm.models.providers.errors import classify_error, parse_error
from tests.support.cases import table
from tests.support.json_values import json_values
from tests.support.servers.vendors import bedrock_error, google_error, google_quota, google_reason

EVERY = set(OptionalParameter)
KEYS = {"bedrock": "AWS_ACCESS_KEY_ID", "vertex": "GOOGLE_ACCESS_TOKEN"}


def model(provider: str, **settings: Any) -> Model:
    known = {"name": f"{provider}/m", "remote_name": "m", "base_url": "https://h.example/v1"}
    return Model(**{**known, "provider": provider, "key_variable": KEYS.get(provider, "SOME_KEY"), **settings})


def outcome(
    provider: str,
    status: int,
    body: object,
    *,
    kind: str = "",
    optional: Collection[OptionalParameter] = (),
    wait_s: float | None = None,
    **settings: Any,
) -> Completion | ProviderError:
    """What an error response comes to. `settings`: of the model."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    response = parse_error(status, raw, kind=kind, secrets=("sk-very-secret",), retry_after_s=wait_s)
    try:
        return classify_error(response, model(provider, **settings), SERVICES[provider], optional)
    except ProviderError as error:
        return error


def error_of(*response: Any, **options: Any) -> ProviderError:
    error = outcome(*response, **options)
    assert isinstance(error, ProviderError)
    return error


def named(provider: str, status: int, code: str, message: str) -> tuple[object, str]:
    """Return the body of an error with a code, as a vendor sends it, and its type in a header."""
    if provider == "bedrock":
        answer = bedrock_error(status, code, message)
        return answer.body, answer.headers["x-amzn-ErrorType"]
    if provider in ("google", "vertex"):
        return google_error(status, code, message).body, ""
    kind = "type" if provider == "anthropic" else "code"
    return {"error": {kind: code or None, "message": message}}, ""


FATAL = [
    ("openai", 400, "invalid_api_key", "bad key", "key", "Check SOME_KEY."),
    ("openai", 401, "", "", "key", "Check SOME_KEY."),
    ("openai", 403, "", "Your IP address was blocked by the firewall", "key", ""),
    ("openai", 403, "unsupported_country_region_territory", "Not here", "no_access", "another model"),
    ("openai", 403, "model_not_found", "`p` does not have access to model `m`", "no_access", ""),
    ("openai", 403, "", "Your organization must be verified to use the model", "no_access", ""),
    ("openai", 404, "", "No endpoints found matching your guardrail restrictions and data policy", "no_access", ""),
    ("openai", 407, "", "login", "no_access", "MEDHELM_PROXY_LOGIN"),
    ("openai", 404, "", "This is not a chat model.", "no_chat", "--chat-template"),
    ("openai", 404, "", "This model is only supported in v1/responses.", "no_chat", ""),
    ("openai", 400, "", "The chatCompletion operation does not work with m.", "no_chat", ""),
    ("openai", 400, "", "As of transformers v4.44, you must provide a chat template", "no_chat", ""),
    ("openai", 400, "model_not_found", "no", "unknown_model", "right address? `medhelm models check`"),
    ("openai", 404, "", "Not Found", "unknown_model", ""),
    ("openai", 405, "", "Method Not Allowed", "unknown_model", ""),
    ("openai", 400, "", "The model `x` does not exist.", "unknown_model", ""),
    ("openai", 400, "", "foo/bar is not a valid model ID", "unknown_model", ""),
    ("openai", 400, "", "Invalid model name passed in model=x", "unknown_model", ""),
    ("openai", 400, "", "'m' is not supported by any provider you have enabled.", "unknown_model", ""),
    ("openai", 402, "", "Insufficient credits", "no_quota", "add credit or raise the limit"),
    ("openai", 400, "billing_hard_limit_reached", "no", "no_quota", ""),
    ("openai", 429, "insufficient_quota", "You exceeded your current quota", "no_quota", ""),
    ("openai", 429, "", "free-models-per-day. Add 10 credits", "no_quota", ""),
    ("openai", 429, "", "50 per 86400s", "no_quota", ""),
    ("openai", 429, "", "You have reached your daily limit", "no_quota", ""),
    ("openai", 429, "", "Quota exceeded for the day", "no_quota", ""),
    ("openai", 429, "", "Limit on RPD: 50", "no_quota", ""),
    ("openai", 400, "unsupported_value", "Only the default (1) value", "parameter", "null leaves a parameter out"),
    ("azure", 403, "AuthenticationTypeDisabled", "Key based authentication is off.", "no_access", "Azure portal"),
    ("azure", 403, "403", "Denied due to Virtual Network/Firewall rules.", "no_access", "network"),
    ("azure", 400, "BadRequest", "API version not supported", "no_access", "AZURE_OPENAI_API_VERSION"),
    ("azure", 404, "DeploymentNotFound", "The API deployment does not exist.", "unknown_model", ""),
    ("anthropic", 402, "billing_error", "An issue with billing.", "no_quota", "no credit left"),
    ("anthropic", 400, "", "You have reached your specified API usage limits.", "no_quota", "spending limit"),
    ("anthropic", 403, "permission_error", "Your API key does not have permission.", "key", "SOME_KEY"),
    ("anthropic", 400, "", "This organization has been disabled.", "key", "disabled"),
    ("anthropic", 400, "", '"thinking.type.enabled" is not supported for this model.', "parameter", "models.yaml"),
    ("anthropic", 400, "", "output_config.effort: Input should be 'low'", "parameter", "`reasoning_effort`"),
    ("google", 403, "PERMISSION_DENIED", "The API has not been used in project 1 before.", "no_access", "console"),
    ("google", 400, "FAILED_PRECONDITION", "User location is not supported for the API use.", "no_access", ""),
    ("google", 400, "INVALID_ARGUMENT", "This model only works in thinking mode.", "parameter", ""),
    ("google", 400, "INVALID_ARGUMENT", "Invalid value at 'thinking_config.thinking_level'", "parameter", ""),
    ("vertex", 401, "UNAUTHENTICATED", "Expired.", "key", "gcloud auth print-access-token"),
    ("vertex", 403, "PERMISSION_DENIED", "Permission 'x' denied.", "key", "needs the role Vertex AI User"),
    ("bedrock", 404, "ResourceNotFoundException", "Model use case details have not been submitted.", "no_access", ""),
    ("bedrock", 400, "ValidationException", "You have not filled out the use-case form.", "no_access", "console"),
    ("bedrock", 403, "ExpiredTokenException", "It is expired", "key", "AWS_SESSION_TOKEN; temporary keys expire"),
    ("bedrock", 403, "InvalidSignatureException", "Signature expired: 1 is earlier than 2", "key", "machine's clock"),
    ("bedrock", 403, "InvalidSignatureException", "It does not match.", "key", "AWS_SECRET_ACCESS_KEY"),
    ("bedrock", 403, "AccessDeniedException", "You don't have access to the model.", "no_access", "console"),
    ("bedrock", 403, "AccessDeniedException", "x is not authorized to perform: bedrock:InvokeModel", "no_access", ""),
    ("bedrock", 400, "ValidationException", "with on-demand throughput isn\u2019t supported.", "unknown_model",
     "through an inference profile"),
    ("bedrock", 404, "ResourceNotFoundException", "It has reached the end of its life.", "unknown_model", "its life"),
]  # fmt: skip
"""Provider, status, code, message -> code of the failure, and words of the advice."""

RETRYABLE = [
    *[("openai", status, "", code) for status, code in ((408, "timeout"), (409, "conflict"), (425, "too_early"))],
    *[("openai", status, "", "server_error") for status in (424, 500, 599)],
    *[("openai", status, "", "overloaded") for status in (503, 529)],
    ("openai", 429, "20 requests per minute, 1000 per day", "rate_limit"),
    ("openai", 200, "odd", "server_error"),
    ("bedrock", 408, "ModelTimeoutException: Too long.", "timeout"),
    ("bedrock", 429, "ModelNotReadyException: Not ready.", "rate_limit"),
]

OF_ONE_REQUEST = [
    ("openai", 400, "context_length_exceeded: no", "context_length"),
    ("openai", 400, "exceed_context_size_error: no", "context_length"),
    ("openai", 400, "This model's maximum context length is 8192 tokens.", "context_length"),
    ("openai", 400, "However, the model's context length is only 10 tokens", "context_length"),
    ("openai", 500, "the request exceeds the available context size (4096)", "context_length"),
    ("openai", 500, "no user query found in messages", "context_length"),
    ("anthropic", 400, "input length and `max_tokens` exceed context limit: 9 + 2 > 10", "context_length"),
    ("openai", 413, "", "too_large"),
    ("openai", 429, "Request too large for gpt-4o on tokens per min (TPM)", "too_large"),
    ("anthropic", 400, "max_tokens: 200000 > 64000, which is the maximum allowed", "bad_request"),
    ("openai", 400, "messages: text content is required", "bad_request"),
    ("openai", 418, "", "bad_request"),
    ("bedrock", 400, "ValidationException: Malformed input request", "bad_request"),
]

REFUSALS = [
    (400, "content_filter: The response was filtered"),
    (400, "content_policy_violation: no"),
    (400, "Output blocked by content filtering policy"),
    (400, "系统检测到输入或生成内容可能包含不安全或敏感内容"),
    (400, "Input data may contain inappropriate content."),
    (400, "Content Exists Risk"),
    (400, "It was considered high risk"),
    (400, "Your prompt was flagged as potentially violating our usage policy."),
    (403, "Your request was flagged by our moderation system"),
    (422, "The prompt triggered the safety filter"),
    (400, "This content violates our usage guidelines"),
    (400, "The response was rejected by the guardrail"),
]


def of_text(provider: str, status: int, text: str) -> tuple[object, str]:
    """The same for `code: message`, where the code is a single word."""
    code, found, message = text.partition(": ")
    return named(provider, status, code, message) if found and " " not in code else named(provider, status, "", text)


@table(("provider", "status", "code", "message", "meaning", "advice"), FATAL)
def test_what_no_request_to_this_model_can_escape_says_what_to_do(
    provider: str, status: int, code: str, message: str, meaning: str, advice: str
) -> None:
    body, kind = named(provider, status, code, message)
    error = error_of(provider, status, body, kind=kind)
    assert (error.code, error.fatal, error.retryable) == (meaning, True, False)
    assert str(error).startswith(f"{provider}/m: the server answered {status}")
    assert advice in str(error)


@table(("provider", "status", "text", "meaning"), RETRYABLE)
def test_what_passes_is_tried_again_when_the_server_says(provider: str, status: int, text: str, meaning: str) -> None:
    body, kind = of_text(provider, status, text)
    error = error_of(provider, status, body, kind=kind, wait_s=None if "day" in text else 7.0)
    assert (error.code, error.fatal, error.retryable) == (meaning, False, True)
    assert error.overloaded == (meaning in ("rate_limit", "overloaded"))
    assert error.retry_after_s == (None if "day" in text else 7.0)


@table(("provider", "status", "text", "meaning"), OF_ONE_REQUEST)
def test_what_is_wrong_with_one_request_stops_no_other(provider: str, status: int, text: str, meaning: str) -> None:
    body, kind = of_text(provider, status, text)
    error = error_of(provider, status, body, kind=kind, wait_s=7.0)
    assert (error.code, error.fatal, error.retryable, error.overloaded) == (meaning, False, False, False)
    assert error.retry_after_s is None


FLAGGED = {"error": {"code": 403, "message": "x", "metadata": {"reasons": ["x"], "flagged_input": "Mrs Smith"}}}
NESTED = {"error": {"code": "400", "message": "x", "innererror": {"code": "ResponsibleAIPolicyViolation"}}}


@table(
    ("status", "body"),
    [*((status, of_text("openai", status, text)[0]) for status, text in REFUSALS), (403, FLAGGED), (400, NESTED)],
)
def test_a_filtered_prompt_is_a_refusal(status: int, body: object) -> None:
    completion = outcome("openai", status, body)
    assert isinstance(completion, Completion)
    assert completion.failure is not None
    assert (completion.failure.boundary, completion.failure.code) == ("provider", "refusal")
    assert (completion.text, completion.finish_reason, completion.usage) == (None, "content_filter", Usage())
    assert "Smith" not in completion.failure.message


SPENT = {"type": "rate_limit_error", "message": "Limit.", "details": {"error_code": "contract_spend_limit_reached"}}


@table(
    ("provider", "status", "body", "meaning", "advice"),
    [
        ("anthropic", 429, {"error": SPENT}, "no_quota", "spending limit"),
        ("google", 429, google_quota("RequestsPerDayPerProject", "250", "9s").body, "no_quota", "raise the limit"),
        ("google", 429, google_quota("PerMinute-FreeTier", "0", "9s").body, "no_quota", "add credit"),
        ("vertex", 403, google_error(403, "PERMISSION_DENIED", "x", google_reason("IAM_PERMISSION_DENIED")).body,
         "no_access", "lacks the role Vertex AI User in this project"),
        ("vertex", 403, google_error(403, "PERMISSION_DENIED", "x", google_reason("SERVICE_DISABLED")).body,
         "no_access", "the API is not enabled there"),
        ("openai", 404, b"404 page not found", "unknown_model", ""),
    ],
)  # fmt: skip
def test_codes_in_the_details_of_an_error_count(
    provider: str, status: int, body: object, meaning: str, advice: str
) -> None:
    error = error_of(provider, status, body)
    assert (error.code, error.fatal) == (meaning, True)
    assert advice in str(error)


@table(
    ("body", "code"),
    [
        ({"error": {"code": 502, "message": "upstream failed"}}, "server_error"),
        ({"error": {"code": "429", "message": "slow"}}, "rate_limit"),
        ({"error": {"status": 401, "message": "who?"}}, "key"),
        ({"error": {"code": True}}, "server_error"),
        ({"base_resp": {"status_code": 1002, "status_msg": "rate limit"}, "choices": None}, "rate_limit"),
        ({"base_resp": {"status_code": 1000, "status_msg": "unknown error"}}, "server_error"),
        ({"error_code": 17, "error_msg": "Open api daily request limit reached"}, "no_quota"),
    ],
)
def test_an_error_that_was_sent_as_a_success_is_an_error(body: dict[str, Any], code: str) -> None:
    assert error_of("openai", 200, body).code == code


def test_no_credit_for_the_moment_is_waited_for() -> None:
    error = error_of("openai", 402, {"error": {"message": "in-flight budget", "code": 402}}, wait_s=2.0)
    assert (error.code, error.retryable, error.overloaded, error.retry_after_s) == ("rate_limit", True, True, 2.0)


def test_a_wrong_key_names_the_variable_and_never_the_key() -> None:
    text = "Incorrect API key provided: sk-very-secret (or sk-proj-abcdefgh1234, or sk-a****z)."
    error = str(error_of("openai", 401, {"error": {"message": text, "code": "invalid_api_key"}}))
    assert "Check SOME_KEY." in error
    assert not any(part in error for part in ("secret", "abcdefgh", "****"))
    assert "requires a key" in str(error_of("openai", 401, b"", key_variable=""))


def test_messages_are_short_and_on_one_line() -> None:
    error = str(error_of("openai", 400, {"error": {"message": "bad\x1b[31m\nthing\u202e " + "x" * 5000}}))
    assert "bad [31m thing x" in error
    assert len(error) < 400
    assert error.isprintable()


def test_of_a_web_page_of_a_proxy_only_the_title_is_quoted() -> None:
    page = b"<html><head><title lang=en>502 Bad &amp;\n Gateway</title></head><h1>secret"
    text = "openai/m: the server answered 502: a web page, `502 Bad & Gateway`."
    assert str(error_of("openai", 502, page)) == text
    assert str(error_of("openai", 502, b"  <!DOCTYPE html><h1>secret")) == text.replace(", `502 Bad & Gateway`", "")
    assert "firewall, proxy or login page" in str(error_of("openai", 403, page))


@given(
    st.integers(400, 599), json_values("error", "code", "message", "type", "choices", "content", "detail", "base_resp")
)
def test_any_error_body_is_understood_somehow(status: int, body: Any) -> None:
    assert str(outcome("openai", status, body))


# --- parameters that a server does not take ---------------------------------------------------------------------------

UNSUPPORTED: Mapping[str, list[str]] = {
    "temperature": [
        "`temperature` is deprecated for this model.",
        "invalid temperature: only 1 is allowed for this model",
        "temperature must be 1 when thinking is enabled",
        "'temperature' does not support 0 with this model.",
        "temperature: Extra inputs are not permitted",
        "not compatible with the parameter temperature",
        "`temperature` may only be set to 1",
        "`temperature` and `top_p` cannot both be specified for this model.",
        "This model doesn\u2019t support the temperature field.",
    ],
    "seed": [
        "Additional properties are not allowed ('seed' was unexpected)",
        "unknown field: parameter 'seed'",
        "Unrecognized request argument supplied: seed",
    ],
    "stop": [
        "Argument not supported on this model: stop",
        "This model doesn't support the stopSequences field. Remove stopSequences and try again.",
    ],
    "max_tokens": [
        "'max_tokens' is not supported. Use 'max_completion_tokens' instead.",
        "max_tokens: Extra inputs are not permitted",
    ],
    "max_completion_tokens": ["max_completion_tokens: Extra inputs are not permitted"],
    "small max_tokens": [
        "Invalid 'max_output_tokens': integer below minimum value.",
        "max_tokens must be at least 16",
        "max_completion_tokens: Input should be greater than or equal to 16",
        "max_tokens is too small: 1",
    ],
    "system message": [
        "System role not supported",
        "Developer instruction is not enabled for models/gemma-3-27b-it",
        "Conversation roles must alternate user/assistant/user/assistant/...",
        "'messages[0].role' does not support 'system' with this model.",
        "Only user and assistant roles are supported!",
    ],
    "schema": [
        "response_format.type: json_schema is not supported by this model",
        "This model does not support structured output",
        "output_config.format.schema: For 'integer' type, property 'minimum' is not supported",
        "output_config: Extra inputs are not permitted",
        "outputConfig.textFormat is not supported for this model",
        "JSON mode is not enabled for models/gemma-3-27b-it",
        "Function calling with a response mime type: 'application/json' is unsupported",
        "Guided decoding is not available here",
        "The compiled grammar is too large",
        "type: Input should be 'text'",
        "invalid JSON schema in format",
        "failed to load model vocabulary required for format",
        "No endpoints found that can handle the requested parameters.",
    ],
}
"""Optional parameter -> words with which servers refuse it."""


@table(("parameter", "text"), [(parameter, text) for parameter, texts in UNSUPPORTED.items() for text in texts])
def test_a_parameter_that_the_server_does_not_take_is_known_by_its_words(parameter: str, text: str) -> None:
    error = error_of("openai", 400, {"error": {"message": text}}, optional=EVERY)
    assert (unsupported_parameter(error), error.retryable, error.fatal) == (parameter, True, False)
    without = error_of("openai", 400, {"error": {"message": text}}, optional=EVERY - {OptionalParameter(parameter)})
    assert unsupported_parameter(without) != parameter


@table(
    ("status", "text"),
    [
        (400, "max_tokens is too large: 5000. This model supports at most 4096 completion tokens"),
        (400, "The temperature of the patient is missing."),
        (400, "Please stop."),
        (400, "The system is under maintenance"),
        (400, "output_config.effort: Extra inputs are not permitted"),
        (429, "temperature is not supported now"),
        (401, "json_schema"),
        (503, "no grammar worker is free"),
        (422, [{"loc": ["body", "messages"], "msg": "Field required", "input": {"response_format": "x"}}]),
    ],
)
def test_other_complaints_are_about_no_parameter(status: int, text: object) -> None:
    assert unsupported_parameter(error_of("openai", status, {"error": {"message": text}}, optional=EVERY)) is None


@table(
    ("status", "body"),
    [
        (400, {"error": {"message": "no", "param": "response_format.type"}}),
        (400, {"error": {"message": "Adjust your prompt.", "code": "json_validate_failed"}}),
        (422, {"detail": [{"loc": ["body", "response_format"], "msg": "extra fields not permitted"}]}),
        (200, {"error": {"message": "structured outputs are not supported by this model", "code": 400}}),
    ],
)
def test_a_refused_schema_is_known_by_its_field_or_code(status: int, body: object) -> None:
    assert unsupported_parameter(error_of("openai", status, body, optional=EVERY)) == "schema"
    assert isinstance(
        outcome("openai", 400, {"error": {"message": "json schema", "code": "content_filter"}}), Completion
    )


@pytest.mark.parametrize("name", ["temperature", "seed", "stop"])
def test_a_field_that_an_error_names_is_left_out_whatever_it_says(name: str) -> None:
    body = {"error": {"message": "bad value", "param": name, "code": "x"}}
    assert unsupported_parameter(error_of("openai", 400, body, optional=EVERY)) == name
    unsupported = {"error": {"message": "no", "param": name, "code": "unsupported_parameter"}}
    assert error_of("openai", 400, unsupported).fatal == (name != "stop"), "some requests have no stop sequences"


def test_a_parameter_of_the_users_own_that_is_refused_stops_the_model() -> None:
    body = {"detail": [{"loc": ["body", "top_p"], "msg": "Extra inputs are not permitted"}]}
    error = error_of("openai", 400, body, parameters={"top_p": 0.9}, optional=EVERY)
    assert (error.code, error.fatal) == ("parameter", True)
    assert error_of("openai", 400, body, optional=EVERY).code == "bad_request"
