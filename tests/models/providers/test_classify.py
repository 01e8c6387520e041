"""What an error of a server means, and the sentence that says what to do: each code, phrase and status once."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.domain import Completion, Model, Usage
from medhelm.errors import ProviderError
from medhelm.models.provider import OptionalParameter, unsupported_parameter
from medhelm.models.providers import SERVICES
from medhelm.models.providers.errors import SHOWN_CHARACTERS, classify_error, parse_error, shown, well_formed
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


def named(provider: str, status: int, text: str) -> tuple[object, str]:
    """Return the body of an error as a vendor sends it, and its type in a header.

    `text`: the message, after `CODE: ` where the code is a single word.
    """
    code, colon, message = text.partition(": ")
    code, message = (code, message) if colon and " " not in code else ("", text)
    if provider == "bedrock":
        answer = bedrock_error(status, code, message)
        return answer.body, answer.headers["x-amzn-ErrorType"]
    if provider in ("google", "vertex"):
        return google_error(status, code, message).body, ""
    kind = "type" if provider == "anthropic" else "code"
    return {"error": {kind: code or None, "message": message}}, ""


ERRORS = [
    ("openai", 400, "invalid_api_key: bad key", "key", "Check SOME_KEY."),
    ("openai", 403, "unsupported_country_region_territory: Not here", "no_access", "another model"),
    ("openai", 403, "model_not_found: `p` does not have access to model `m`", "no_access", ""),
    ("openai", 404, "No endpoints found matching your guardrail restrictions and data policy", "no_access", ""),
    ("openai", 407, "login", "no_access", "MEDHELM_PROXY_LOGIN"),
    ("openai", 400, "As of transformers v4.44, you must provide a chat template", "no_chat", ""),
    ("openai", 400, "model_not_found: no", "unknown_model", "right address? `medhelm models check`"),
    ("openai", 404, "Not Found", "unknown_model", ""),
    ("openai", 402, "Insufficient credits", "no_quota", "add credit or raise the limit"),
    ("openai", 429, "insufficient_quota: You exceeded your current quota", "no_quota", ""),
    ("openai", 429, "You have reached your daily limit", "no_quota", ""),
    ("openai", 400, "unsupported_value: Only the default (1) value", "parameter", "null leaves a parameter out"),
    ("azure", 403, "AuthenticationTypeDisabled: Key based authentication is off.", "no_access", "Azure portal"),
    ("azure", 403, "403: Denied due to Virtual Network/Firewall rules.", "no_access", "network"),
    ("anthropic", 402, "billing_error: An issue with billing.", "no_quota", "no credit left"),
    ("anthropic", 403, "permission_error: Your API key does not have permission.", "key", "SOME_KEY"),
    ("anthropic", 400, "This organization has been disabled.", "key", "disabled"),
    ("anthropic", 400, "x: output_config.effort: Input should be 'low'", "parameter", "`reasoning_effort`"),
    ("google", 403, "PERMISSION_DENIED: The API has not been used in project 1 before.", "no_access", "console"),
    ("vertex", 403, "PERMISSION_DENIED: Permission 'x' denied.", "key", "needs the role Vertex AI User"),
    ("bedrock", 400, "ValidationException: You have not filled out the use-case form.", "no_access", "console"),
    ("bedrock", 403, "ExpiredTokenException: It is expired", "key", "AWS_SESSION_TOKEN; temporary keys expire"),
    ("bedrock", 403, "InvalidSignatureException: Signature expired: 1 is earlier than 2", "key", "machine's clock"),
    ("bedrock", 403, "InvalidSignatureException: It does not match.", "key", "AWS_SECRET_ACCESS_KEY"),
    ("bedrock", 403, "AccessDeniedException: You don't have access to the model.", "no_access", "console"),
    ("bedrock", 400, "ValidationException: on-demand throughput isn\u2019t supported.", "unknown_model", "profile"),
    ("bedrock", 404, "ResourceNotFoundException: It has reached the end of its life.", "unknown_model", "its life"),
    *(("openai", status, "", code, "") for status, code in ((408, "timeout"), (409, "conflict"), (425, "too_early"))),
    *(("openai", status, "", "server_error", "") for status in (424, 500, 599)),
    *(("openai", status, "", "overloaded", "") for status in (503, 529)),
    ("openai", 429, "20 requests per minute, 1000 per day", "rate_limit", ""),
    ("openai", 200, "odd", "server_error", ""),
    ("bedrock", 429, "ModelNotReadyException: Not ready.", "rate_limit", ""),
    ("openai", 400, "context_length_exceeded: no", "context_length", ""),
    ("openai", 500, "the request exceeds the available context size (4096)", "context_length", ""),
    ("openai", 429, "Request too large for gpt-4o on tokens per min (TPM)", "too_large", ""),
    ("anthropic", 400, "max_tokens: 200000 > 64000, which is the maximum allowed", "bad_request", ""),
    ("bedrock", 400, "ValidationException: Malformed input request", "bad_request", ""),
]
"""Provider, status, `CODE: message` -> code of the failure, and words of the advice."""

FATAL = {"key", "no_access", "no_chat", "unknown_model", "no_quota", "parameter"}
PASSING = {"timeout", "conflict", "too_early", "server_error", "overloaded", "rate_limit"}
"""Codes of failures of the whole model, and of those that a retry may mend; others are of one request."""

REFUSALS = [
    (400, "content_filter: The response was filtered"),
    (400, "系统检测到输入或生成内容可能包含不安全或敏感内容"),
    (403, "Your request was flagged by our moderation system"),
    (400, "This content violates our usage guidelines"),
]


@table(("provider", "status", "text", "code", "advice"), ERRORS)
def test_each_error_has_its_code_and_says_what_to_do(
    provider: str, status: int, text: str, code: str, advice: str
) -> None:
    body, kind = named(provider, status, text)
    wait_s = 7.0 if code not in FATAL and "day" not in text else None
    error = error_of(provider, status, body, kind=kind, wait_s=wait_s)
    assert (error.code, error.fatal, error.retryable) == (code, code in FATAL, code in PASSING)
    assert error.overloaded == (code in ("rate_limit", "overloaded"))
    assert error.retry_after_s == (wait_s if code in PASSING else None)
    assert str(error).startswith(f"{provider}/m: the server ")
    assert advice in str(error)


FLAGGED = {"error": {"code": 403, "message": "x", "metadata": {"reasons": ["x"], "flagged_input": "Mrs Smith"}}}
NESTED = {"error": {"code": "400", "message": "x", "innererror": {"code": "ResponsibleAIPolicyViolation"}}}


@table(
    ("status", "body"),
    [*((status, named("openai", status, text)[0]) for status, text in REFUSALS), (403, FLAGGED), (400, NESTED)],
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
    ("status", "body", "code"),
    [
        (200, {"error": {"code": "429", "message": "slow"}}, "rate_limit"),
        (200, {"error": {"code": True}}, "server_error"),
        (200, {"base_resp": {"status_code": 1002, "status_msg": "rate limit"}, "choices": None}, "rate_limit"),
        (200, {"error_code": 17, "error_msg": "Open api daily request limit reached"}, "no_quota"),
        (500, {"error": {"code": 400, "message": "upstream"}}, "bad_request"),  # a gateway's, of the server behind it
        (404, {"error": {"code": 400, "message": "gone"}}, "unknown_model"),
    ],
)
def test_an_error_that_was_sent_as_a_success_is_an_error(status: int, body: dict[str, Any], code: str) -> None:
    assert error_of("openai", status, body).code == code


def test_no_credit_for_the_moment_is_waited_for() -> None:
    error = error_of("openai", 402, {"error": {"message": "in-flight budget", "code": 402}}, wait_s=2.0)
    assert (error.code, error.retryable, error.overloaded, error.retry_after_s) == ("rate_limit", True, True, 2.0)


def test_a_wrong_key_names_the_variable_and_never_the_key() -> None:
    text = "Incorrect API key provided: sk-very-secret (or sk-proj-abcdefgh1234, or sk-a****z)."
    error = str(error_of("openai", 401, {"error": {"message": text, "code": "invalid_api_key"}}))
    assert "Check SOME_KEY." in error
    assert not any(part in error for part in ("secret", "abcdefgh", "****"))
    assert "requires a key" in str(error_of("openai", 401, b"", key_variable=""))


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
        "'temperature' does not support 0 with this model.",
        "invalid temperature: only 1 is allowed for this model",
        "This model doesn\u2019t support the temperature field.",
    ],
    "seed": [
        "Additional properties are not allowed ('seed' was unexpected)",
        "Unrecognized request argument supplied: seed",
    ],
    "stop": ["This model doesn't support the stopSequences field. Remove stopSequences and try again."],
    "max_tokens": [
        "'max_tokens' is not supported. Use 'max_completion_tokens' instead.",
        "max_tokens: Extra inputs are not permitted",
    ],
    "max_completion_tokens": ["max_completion_tokens: Extra inputs are not permitted"],
    "small max_tokens": ["Invalid 'max_output_tokens': integer below minimum value.", "max_tokens is too small: 1"],
    "system message": [
        "Conversation roles must alternate user/assistant/user/assistant/...",
        "'messages[0].role' does not support 'system' with this model.",
    ],
    "schema": [
        "output_config.format.schema: For 'integer' type, property 'minimum' is not supported",
        "The compiled grammar is too large",
        "response_format.type: json_schema is not supported by this model",
        "This model does not support structured output",
        "JSON mode is not enabled for models/gemma-3-27b-it",
        "Guided decoding is not available here",
        "type: Input should be 'text'",
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
        (400, "output_config.effort: Extra inputs are not permitted"),
        (429, "temperature is not supported now"),
        (503, "no grammar worker is free"),
        (422, [{"loc": ["body", "messages"], "msg": "Field required", "input": {"response_format": "x"}}]),
    ],
)
def test_other_complaints_are_about_no_parameter(status: int, text: object) -> None:
    assert unsupported_parameter(error_of("openai", status, {"error": {"message": text}}, optional=EVERY)) is None


def test_a_refused_schema_is_known_by_its_field_or_code() -> None:
    by_field = {"error": {"message": "no", "param": "response_format.type"}}
    by_code = {"error": {"message": "Adjust your prompt.", "code": "json_validate_failed"}}
    for body in (by_field, by_code):
        assert unsupported_parameter(error_of("openai", 400, body, optional=EVERY)) == "schema"
    filtered = {"error": {"message": "json schema", "code": "content_filter"}}
    assert isinstance(outcome("openai", 400, filtered), Completion)


@pytest.mark.parametrize("name", ["temperature", "stop"])
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


# --- errors inside errors ---------------------------------------------------------------------------------------------


def error(message: object, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, **more}}


SHAPES: dict[str, Callable[[str], Any]] = {
    "OpenAI": lambda said: error(said, type="invalid_request_error", param=None, code=None),
    "vLLM": lambda said: {"object": "error", "message": said, "type": "BadRequestError", "code": 400},
    "FastAPI": lambda said: {"detail": error(said)},
    "Mistral": lambda said: {"object": "error", "message": {"detail": [{"msg": said}]}},
    "JSON in message, twice": lambda said: {"message": json.dumps(error(json.dumps({"message": said, "code": "x"})))},
    "OpenRouter": lambda said: error("Provider returned error", metadata={"raw": json.dumps(error(said))}),
    "Python's repr": lambda said: error(f"Error code: 400 - {error(said)!r}"),
    "LiteLLM": lambda said: error(f"litellm.X: OpenAIException - {json.dumps(error(said))}. Received Model Group=m"),
    "list at the top": lambda said: [error(said, code=400, status="INVALID_ARGUMENT")],
    "errors": lambda said: {"success": False, "errors": [{"code": 7003, "message": said}]},
    "Spring": lambda said: {"status": 400, "error": "Bad Request", "message": said, "path": "/v1"},
    "AWS": lambda said: {"__type": "com.amazon.coral.service#ValidationException", "Message": said},
    "MiniMax": lambda said: {"base_resp": {"status_code": 2013, "status_msg": said}},
}


def parsed(status: int, body: object) -> Any:
    return parse_error(status, json.dumps(body).encode())


@table("shape", SHAPES.values(), ids=SHAPES)
def test_the_innermost_message_is_shown_and_searched(shape: Callable[[str], Any]) -> None:
    said = "Something of its own happened to the request"
    response = parsed(400, shape(said))
    assert (response.status, response.message) == (400, said)
    assert said.lower() in response.text


def test_googles_delay_is_obeyed_where_no_header_says_it() -> None:
    for delay, header, seconds in (("38.5s", None, 38.5), ("7s", 3.0, 3.0), ("-1s", None, None)):
        body = google_quota("PerMinute", "10", delay).body
        assert parse_error(429, body, retry_after_s=header).retry_after_s == seconds


PROBLEM = {"type": "missing", "loc": ["body", "messages", 0], "msg": "Field required", "input": "Mrs Smith"}


@table(
    "body",
    [
        {"detail": [PROBLEM]},
        error(str([PROBLEM])),
        error("bad", metadata={"raw": json.dumps({"detail": [PROBLEM]})}),
        {"message": "1 validation error\nmessages\n  bad [type=missing, input_value='Mrs Smith', input_type=str]"},
        {"message": "[{'loc': ('body', 'messages'), 'msg': 'bad', 'input': 'Mrs Smith, born 1950'}]"},
    ],
)
def test_the_prompt_is_not_repeated(body: object) -> None:
    response = parsed(422, body)
    assert "Smith" not in response.message + response.text


@given(st.text(alphabet=st.characters(), max_size=50))
def test_whatever_comes_can_be_written(text: str) -> None:
    well_formed(text).encode()
    assert shown(text).isprintable()
    assert len(shown(text)) <= SHOWN_CHARACTERS


@table(
    ("text", "result"),
    [
        ("key sk-abc********wxyz is wrong", "key [key] is wrong"),
        ("key 0123456789 is wrong", "key [key] is wrong"),
        ("hf_abcdefgh and gsk_abcdefgh", "[key] and [key]"),
        ("AIzaInvented0123 or ya29.invented-0123/x", "[key] or [key]"),
        ("Credential=AKIAIOSFODNN7EXAMPLE/2026", "Credential=[key]/2026"),
        ("ABSKinvented0123== and bedrock-api-key-abcdef", "[key] and [key]"),
        ("a task-based risk of ASIA: none \ud83d", "a task-based risk of ASIA: none \N{REPLACEMENT CHARACTER}"),
        ("x" * (SHOWN_CHARACTERS - 5) + " 0123456789", "x" * (SHOWN_CHARACTERS - 5) + " [key"),  # before the cut
    ],
)
def test_keys_and_half_characters_are_taken_out(text: str, result: str) -> None:
    """Placeholders for keys are no keys."""
    assert shown(well_formed(text), secrets=("0123456789", "", "x", "none")) == result
