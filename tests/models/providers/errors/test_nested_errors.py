"""Errors as gateways wrap them: whatever the shape, the innermost message is shown and understood."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from medhelm.domain import Completion, Model
from medhelm.errors import ProviderError
from medhelm.models.provider import OptionalParameter, unsupported_parameter
from medhelm.models.providers.errors.classify import classify_error
from medhelm.models.providers.errors.parse import parse_error
from medhelm.models.providers.openai import SERVICE

MODEL = Model(name="openai/m", provider="openai", remote_name="m", base_url="https://h.example/v1")

Shape = Callable[[str], Any]

SHAPES: dict[str, Shape] = {
    "OpenAI": lambda said: {"error": {"message": said, "type": "invalid_request_error", "param": None, "code": None}},
    "vLLM": lambda said: {"object": "error", "message": said, "type": "BadRequestError", "code": 400},
    "text in error": lambda said: {"error": said},
    "plain text": str.encode,
    "FastAPI text": lambda said: {"detail": said},
    "FastAPI object": lambda said: {"detail": {"error": {"message": said}}},
    "Mistral": lambda said: {
        "object": "error",
        "message": {"detail": [{"msg": said}]},
        "type": "invalid_request_error",
    },
    "message is an object": lambda said: {"message": {"message": said}},
    "message is a list": lambda said: {"error": {"message": [{"message": said}]}},
    "JSON in message": lambda said: {"error": {"message": json.dumps({"error": {"message": said}}), "code": 400}},
    "JSON in message, twice": lambda said: {
        "message": json.dumps({"error": {"message": json.dumps({"message": said, "code": "x"})}})
    },
    "OpenRouter": lambda said: {
        "error": {
            "message": "Provider returned error",
            "code": 400,
            "metadata": {"raw": json.dumps({"error": {"message": said}}), "provider_name": "X"},
        }
    },
    "OpenRouter, raw is an object": lambda said: {
        "error": {"message": "Provider returned error", "metadata": {"raw": {"error": {"message": said}}}}
    },
    "OpenRouter, raw is text": lambda said: {
        "error": {"message": "Provider returned error", "metadata": {"raw": said}}
    },
    "OpenRouter, two gateways": lambda said: {
        "error": {
            "message": "Provider returned error",
            "metadata": {"raw": json.dumps({"error": {"message": json.dumps({"detail": said})}})},
        }
    },
    "Python's repr": lambda said: {"error": {"message": f"Error code: 400 - { ({'error': {'message': said}})!r}"}},
    "LiteLLM": lambda said: {
        "error": {
            "message": f"litellm.BadRequestError: OpenAIException - {json.dumps({'error': {'message': said}})}. "
            "Received Model Group=m\nAvailable Model Group Fallbacks=None",
            "code": "400",
        }
    },
    "list at the top": lambda said: [{"error": {"code": 400, "message": said, "status": "INVALID_ARGUMENT"}}],
    "errors": lambda said: {"success": False, "errors": [{"code": 7003, "message": said}]},
    "errors are texts": lambda said: {"errors": [said]},
    "problem details": lambda said: {"title": "Bad Request", "status": 400, "detail": said},
    "Spring": lambda said: {"status": 400, "error": "Bad Request", "message": said, "path": "/v1/chat/completions"},
    "Cohere": lambda said: {"id": "1", "message": said},
    "Baidu": lambda said: {"error_code": 336003, "error_msg": said},
    "TGI": lambda said: {"error": said, "error_type": "validation"},
}

PAGES: dict[str, Shape] = {"MiniMax": lambda said: {"base_resp": {"status_code": 2013, "status_msg": said}}}

UNSUPPORTED = [
    ("temperature", "`temperature` is deprecated for this model."),
    ("temperature", "invalid temperature: only 1 is allowed for this model"),
    ("temperature", "temperature must be 1 when thinking is enabled"),
    (
        "temperature",
        "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is",
    ),
    ("temperature", "`temperature` must be strictly positive"),
    ("temperature", "temperature: Extra inputs are not permitted"),
    ("temperature", "This model is not compatible with the parameter temperature"),
    ("temperature", "The temperature parameter was removed for reasoning models"),
    ("seed", "Additional properties are not allowed ('seed' was unexpected)"),
    ("seed", "seed: unrecognized"),
    ("seed", "body.seed: Extra inputs are not permitted"),
    ("seed", "unknown field: parameter 'seed' is not a valid field"),
    ("seed", "m does not support parameters: ['seed'], for model=m"),
    ("seed", "Unrecognized request argument supplied: seed"),
    ("stop", "Argument not supported on this model: stop"),
    ("max_tokens", "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."),
    ("max_tokens", "max_tokens: Extra inputs are not permitted"),
    ("max_completion_tokens", "max_completion_tokens: Extra inputs are not permitted"),
    ("max_completion_tokens", "Unrecognized request argument supplied: max_completion_tokens"),
    (
        "small max_tokens",
        "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got 5 instead.",
    ),
    ("small max_tokens", "max_tokens must be at least 16"),
    ("small max_tokens", "max_completion_tokens: Input should be greater than or equal to 16"),
    ("small max_tokens", "max_tokens is too small: 1"),
    ("system message", "System role not supported"),
    ("system message", "Developer instruction is not enabled for models/gemma-3-27b-it"),
    ("system message", "This model doesn't support system messages. Try again without a system message"),
    ("system message", "Conversation roles must alternate user/assistant/user/assistant/..."),
    ("system message", "Unsupported value: 'messages[0].role' does not support 'system' with this model."),
    ("system message", "Unexpected role 'system': only user and assistant are accepted"),
    ("system message", "Only user and assistant roles are supported!"),
    ("schema", "response_format.type: json_schema is not supported by this model"),
    ("schema", "This model does not support structured output"),
]


def outcome(status: int, body: Any, optional: set[OptionalParameter] | None = None) -> Completion | ProviderError:
    """What an error reply comes to."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    try:
        return classify_error(parse_error(status, raw), MODEL, SERVICE, optional or set())
    except ProviderError as error:
        return error


EVERY = set(OptionalParameter)


@pytest.mark.parametrize("shape", (SHAPES | PAGES).values(), ids=SHAPES | PAGES)
def test_a_part_that_the_server_does_not_take_is_found_wherever_it_is_named(shape: Shape) -> None:
    found = {
        said: unsupported_parameter(error)
        for _, said in UNSUPPORTED
        if isinstance(error := outcome(400, shape(said), EVERY), ProviderError)
    }
    assert found == {said: parameter for parameter, said in UNSUPPORTED}


@pytest.mark.parametrize("shape", (SHAPES | PAGES).values(), ids=SHAPES | PAGES)
@pytest.mark.parametrize(
    ("status", "said", "code"),
    [
        (
            400,
            "This model's maximum context length is 4096 tokens. However, you requested 6000 tokens.",
            "context_length",
        ),
        (500, "no user query found in messages", "context_length"),
        (400, "Output blocked by content filtering policy", "refusal"),
        (429, "Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free requests", "no_quota"),
        (400, "The model `m` does not exist", "unknown_model"),
        (400, "The requested model 'm' is not supported by any provider you have enabled.", "unknown_model"),
        (404, "No endpoints found matching your data policy (Free model publication).", "no_access"),
        (400, "Something of its own happened to the request", "bad_request"),
    ],
)
def test_the_innermost_message_is_shown_and_decides(shape: Shape, status: int, said: str, code: str) -> None:
    found = outcome(status, shape(said))
    if isinstance(found, Completion):
        assert found.failure is not None
        assert (found.failure.code, found.failure.message) == (code, f"refused by the provider's filter: {said}")
    else:
        assert f": {said.rstrip('.')}." in str(found)
        if code != "context_length" or "code" not in str(shape(said)):
            assert found.code == code


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ({"code": 429, "message": "Too many requests"}, "rate_limit", "Too many requests"),
        ({"code": "400", "msg": "temperature is bad"}, "bad_request", "temperature is bad"),
        ({"base_resp": {"status_code": 1002, "status_msg": "rate limit"}, "choices": None}, "rate_limit", "rate limit"),
        ({"base_resp": {"status_code": 1004, "status_msg": "login fail"}}, "key", "login fail"),
        ({"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}, "no_quota", "insufficient"),
        ({"base_resp": {"status_code": 1000, "status_msg": "unknown error"}}, "server_error", "unknown error"),
        ({"error_code": 17, "error_msg": "Open api daily request limit reached"}, "no_quota", "daily request limit"),
        ({"error": {"message": "odd"}}, "server_error", "odd"),
    ],
)
def test_an_error_that_was_sent_as_a_success(body: dict[str, Any], code: str, words: str) -> None:
    found = outcome(200, body)
    assert isinstance(found, ProviderError)
    assert found.code == code
    assert words in str(found)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (400, "Output blocked by content filtering policy"),
        (400, "系统检测到输入或生成内容可能包含不安全或敏感内容，请您避免输入易产生敏感内容的提示语"),
        (400, "Input data may contain inappropriate content."),
        (400, "The request was rejected because it was considered high risk"),
        (403, "Your request was flagged by our moderation system"),
        (422, "The prompt triggered the safety filter"),
        (400, "Request blocked due to safety reasons"),
        (400, "This content violates our usage guidelines"),
        (400, "The response was rejected by the guardrail"),
        (400, "Sensitive information was detected in the input"),
        (400, "prompt contains prohibited content"),
    ],
)
def test_every_filter_is_a_refusal(status: int, said: str) -> None:
    found = outcome(status, {"error": {"message": said}})
    assert isinstance(found, Completion), str(found)
    assert found.failure is not None
    assert found.failure.code == "refusal"


@pytest.mark.parametrize(
    ("status", "said", "code"),
    [
        (403, "Your IP address was blocked by the firewall", "key"),
        (404, "No endpoints available matching your guardrail restrictions and data policy", "no_access"),
        (400, "messages: text content is required", "bad_request"),
        (400, "content-type must be application/json", "bad_request"),
        (429, "Rate limit reached: 20 requests per minute, 1000 per day", "rate_limit"),
        (429, "Rate limit reached, slow down", "rate_limit"),
        (429, "Rate limit exceeded: 50 per 86400s", "no_quota"),
        (429, "You have reached your daily limit", "no_quota"),
        (429, "Quota exceeded for the day", "no_quota"),
        (429, "Limit on RPD: 50", "no_quota"),
        (429, "Rate limit reached for gpt-4o on requests per day (RPD): Limit 200, Used 200", "no_quota"),
        (402, "You have exceeded your monthly included credits", "no_quota"),
    ],
)
def test_what_is_no_filter_and_what_is_a_quota(status: int, said: str, code: str) -> None:
    found = outcome(status, {"error": {"message": said}})
    assert isinstance(found, ProviderError)
    assert found.code == code


@pytest.mark.parametrize(
    "said",
    [
        "max_tokens is too large: 5000. This model supports at most 4096 completion tokens",
        "messages.0.content: Input should be a valid string",
        "The system is under maintenance",
        "The patient's temperature is part of the text",
        "Invalid model",
    ],
)
def test_other_errors_leave_nothing_out(said: str) -> None:
    found = outcome(400, {"error": {"message": said}}, EVERY)
    assert isinstance(found, ProviderError)
    assert unsupported_parameter(found) is None


def test_the_prompt_is_not_repeated() -> None:
    problem = {"type": "missing", "loc": ["body", "messages", 0], "msg": "Field required", "input": "Mrs Smith"}
    for body in (
        {"detail": [problem]},
        {"message": {"detail": [problem]}},
        {"error": {"message": str([problem])}},
        {"error": {"message": json.dumps({"detail": [problem]})}},
        {"message": "1 validation error\nmessages\n  bad [type=missing, input_value='Mrs Smith', input_type=str]"},
        {"error": {"message": "bad", "metadata": {"raw": json.dumps({"detail": [problem]})}}},
    ):
        response = parse_error(422, json.dumps(body).encode())
        assert "Smith" not in response.message + response.text


def test_a_parameter_of_the_users_own_that_is_refused_stops_the_model() -> None:
    own = replace(MODEL, parameters={"top_p": 0.9})
    response = parse_error(400, b'{"detail": [{"loc": ["body", "top_p"], "msg": "Extra inputs are not permitted"}]}')
    with pytest.raises(ProviderError) as raised:
        classify_error(response, own, SERVICE, EVERY - {OptionalParameter.TEMPERATURE})
    assert (raised.value.code, raised.value.fatal) == ("parameter", True)
    with pytest.raises(ProviderError) as raised:
        classify_error(response, MODEL, SERVICE, EVERY)
    assert raised.value.code == "bad_request"


@pytest.mark.parametrize("name", ["temperature", "seed", "stop"])
def test_a_field_that_an_error_names_is_left_out_whatever_it_says(name: str) -> None:
    found = outcome(400, {"error": {"message": "bad value", "param": name, "code": "x"}}, EVERY)
    assert isinstance(found, ProviderError)
    assert unsupported_parameter(found) == name
