"""What the errors of chat completions servers come to."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.domain import Completion, Model, Usage
from medhelm.errors import ProviderError
from medhelm.models.providers.errors.classify import classify_error
from medhelm.models.providers.errors.parse import parse_error
from medhelm.models.providers.openai import SERVICE
from tests.support.cases import table

MODEL = Model(
    name="openai/gpt-4o",
    provider="openai",
    remote_name="gpt-4o",
    base_url="https://api.openai.com/v1",
    key_variable="OPENAI_API_KEY",
)


def judge(status: int, body: Any, *, wait_s: float | None = None, model: Model = MODEL) -> Completion | ProviderError:
    """What an error reply comes to."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    try:
        return classify_error(
            parse_error(status, raw, secrets=("sk-very-secret",), retry_after_s=wait_s), model, SERVICE
        )
    except ProviderError as error:
        return error


def openai(message: str = "no", code: Any = None, kind: str = "invalid_request_error", **more: Any) -> dict[str, Any]:
    """An error body as OpenAI sends it."""
    return {"error": {"message": message, "type": kind, "param": None, "code": code, **more}}


FATAL = [
    (401, openai("Incorrect API key provided: sk-abc*****xyz.", "invalid_api_key"), "key"),
    (401, {"statusCode": 401, "message": "Access denied due to invalid subscription key."}, "key"),
    (401, b"", "key"),
    (403, openai("Country, region, or territory not supported", "unsupported_country_region_territory"), "no_access"),
    (403, b"Forbidden", "key"),
    (400, openai("bad key", "invalid_api_key"), "key"),
    (404, openai("The model `gpt-x` does not exist", "model_not_found"), "unknown_model"),
    (403, openai("Project `p` does not have access to model `gpt-4o`", "model_not_found"), "no_access"),
    (403, openai("Your organization must be verified to use the model `gpt-x`. Go to: https://x.example"), "no_access"),
    (404, openai("This is not a chat model and thus not supported in the v1/chat/completions endpoint."), "no_chat"),
    (404, openai("This model is only supported in v1/responses and not in v1/chat/completions."), "no_chat"),
    (
        400,
        openai("The chatCompletion operation does not work with the specified model, m.", "OperationNotSupported"),
        "no_chat",
    ),
    (400, {"message": "As of transformers v4.44, you must provide a chat template", "code": 400}, "no_chat"),
    (400, openai("The model gpt-x does not exist", "model_not_found"), "unknown_model"),
    (
        404,
        {"object": "error", "message": "The model `x` does not exist.", "type": "NotFoundError", "code": 404},
        "unknown_model",
    ),
    (404, {"error": {"code": "DeploymentNotFound", "message": "The API deployment does not exist."}}, "unknown_model"),
    (404, {"detail": "Not Found"}, "unknown_model"),
    (404, b"404 page not found", "unknown_model"),
    (405, {"detail": "Method Not Allowed"}, "unknown_model"),
    (400, {"error": {"message": "foo/bar is not a valid model ID", "code": 400}}, "unknown_model"),
    (
        400,
        {"error": {"message": "Invalid model name passed in model=x. Call `/v1/models`", "code": "400"}},
        "unknown_model",
    ),
    (402, {"error": {"message": "Insufficient credits", "code": 402}}, "no_quota"),
    (402, openai("Insufficient Balance", "invalid_request_error", "unknown_error"), "no_quota"),
    (429, openai("You exceeded your current quota", "insufficient_quota", "insufficient_quota"), "no_quota"),
    (400, openai("Billing hard limit has been reached", "billing_hard_limit_reached"), "no_quota"),
    (400, openai("Use 'max_completion_tokens'", "unsupported_parameter", param="max_tokens"), "parameter"),
    (400, openai("Only the default (1) value", "unsupported_value", param="temperature"), "parameter"),
    (400, openai("Unknown parameter: 'top_k'.", "unknown_parameter", param="top_k"), "parameter"),
]

RETRYABLE = [
    (408, openai("timed out"), "timeout", False),
    (409, openai("conflict"), "conflict", False),
    (425, b"", "too_early", False),
    (429, openai("Rate limit reached", "rate_limit_exceeded", "requests"), "rate_limit", True),
    (429, {"error": {"code": "429", "message": "Requests exceed the call rate limit"}}, "rate_limit", True),
    (429, b"<html>slow down</html>", "rate_limit", True),
    (500, openai("The server had an error", None, "server_error"), "server_error", False),
    (500, b"Internal Server Error", "server_error", False),
    (502, b"<html><body>Bad Gateway</body></html>", "server_error", False),
    (503, openai("The engine is currently overloaded"), "overloaded", True),
    (504, b"", "server_error", False),
    (529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "overloaded", True),
    (599, b"\xff\xfe", "server_error", False),
]

OF_ONE_REQUEST = [
    (400, openai("too long", "context_length_exceeded"), "context_length"),
    (
        400,
        openai("This model's maximum context length is 8192 tokens. However, you requested 9000 tokens."),
        "context_length",
    ),
    (
        400,
        {
            "error": {
                "message": "You passed 15 input tokens. However, the model's context length is only 10 tokens",
                "code": 400,
            }
        },
        "context_length",
    ),
    (
        400,
        openai("the request exceeds the available context size", None, "exceed_context_size_error"),
        "context_length",
    ),
    (500, {"error": {"message": "the request exceeds the available context size (4096)"}}, "context_length"),
    (413, b"<html>Request Entity Too Large</html>", "too_large"),
    (429, openai("Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 40000"), "too_large"),
    (400, openai("max_tokens is too large: 5000."), "bad_request"),
    (400, openai("'stop' is not supported", "unsupported_parameter", param="stop"), "bad_request"),
    (
        422,
        {"detail": [{"loc": ["body", "messages"], "msg": "Field required", "input": {"n": "Mrs Smith"}}]},
        "bad_request",
    ),
    (400, {"error": "something else"}, "bad_request"),
    (400, [1, 2], "bad_request"),
    (400, {"error": {"message": {"deep": 1}}}, "bad_request"),
    (418, b"", "bad_request"),
]

REFUSED = [
    (400, openai("The response was filtered", "content_filter", param="prompt", status=400)),
    (400, {"error": {"code": "400", "message": "x", "innererror": {"code": "ResponsibleAIPolicyViolation"}}}),
    (400, openai("filtered due to the prompt triggering Azure OpenAI's content management policy")),
    (400, openai("Your prompt was flagged as potentially violating our usage policy.", "invalid_prompt")),
    (400, openai("Content Exists Risk")),
    (400, openai("no", "content_policy_violation")),
    (403, {"error": {"code": 403, "message": "flagged", "metadata": {"reasons": ["x"], "flagged_input": "Mrs Smith"}}}),
]


@table(("status", "body", "code"), FATAL)
def test_errors_that_no_request_to_this_model_can_escape(status: int, body: Any, code: str) -> None:
    error = judge(status, body)
    assert isinstance(error, ProviderError)
    assert (error.code, error.fatal, error.retryable) == (code, True, False)
    assert str(error).startswith(f"openai/gpt-4o: the server answered {status}")


@table(("status", "body", "code", "overloaded"), RETRYABLE)
def test_errors_that_pass(status: int, body: Any, code: str, overloaded: bool) -> None:
    error = judge(status, body, wait_s=7.0)
    assert isinstance(error, ProviderError)
    assert (error.code, error.fatal, error.retryable, error.overloaded) == (code, False, True, overloaded)
    assert error.retry_after_s == 7.0


@pytest.mark.parametrize(("status", "body", "code"), OF_ONE_REQUEST)
def test_errors_of_one_request(status: int, body: Any, code: str) -> None:
    error = judge(status, body)
    assert isinstance(error, ProviderError)
    assert (error.code, error.fatal, error.retryable, error.overloaded) == (code, False, False, False)
    assert "Smith" not in str(error)


@pytest.mark.parametrize(("status", "body"), REFUSED)
def test_a_filtered_prompt_is_a_refusal(status: int, body: Any) -> None:
    completion = judge(status, body)
    assert isinstance(completion, Completion)
    assert completion.failure is not None
    assert (completion.failure.boundary, completion.failure.code) == ("provider", "refusal")
    assert (completion.text, completion.finish_reason, completion.usage) == (None, "content_filter", Usage())
    assert "Smith" not in completion.failure.message


def test_no_credit_for_the_moment_is_waited_for() -> None:
    error = judge(402, {"error": {"message": "in-flight budget", "code": 402}}, wait_s=2.0)
    assert isinstance(error, ProviderError)
    assert (error.code, error.retryable, error.overloaded, error.retry_after_s) == ("rate_limit", True, True, 2.0)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"error": {"code": 502, "message": "upstream failed"}}, "server_error"),
        ({"error": {"code": "429", "message": "slow"}}, "rate_limit"),
        ({"error": {"status": 401, "message": "who?"}}, "key"),
        ({"error": {"message": "odd"}}, "server_error"),
        ({"error": "odd"}, "server_error"),
        ({"error": {"code": 7}}, "server_error"),
        ({"error": {"code": True}}, "server_error"),
    ],
)
def test_a_success_that_holds_an_error_is_an_error(body: dict[str, Any], code: str) -> None:
    error = judge(200, body)
    assert isinstance(error, ProviderError)
    assert error.code == code


def test_a_wrong_key_names_the_variable_and_never_the_key() -> None:
    said = "Incorrect API key provided: sk-very-secret (or sk-proj-abcdefgh1234, or sk-a****z)."
    error = judge(401, openai(said, "invalid_api_key"))
    assert "Check OPENAI_API_KEY." in str(error)
    assert not {"secret", "abcdefgh", "****"} & {word for word in ("secret", "abcdefgh", "****") if word in str(error)}
    keyless = Model(name="x", provider="openai", remote_name="x", base_url="http://127.0.0.1:1/v1")
    assert "requires a key" in str(judge(401, b"", model=keyless))


def test_messages_are_short_and_on_one_line() -> None:
    error = judge(400, openai("bad\x1b[31m\nthing\u202e " + "x" * 5000))
    assert isinstance(error, ProviderError)
    assert "bad [31m thing x" in str(error)
    assert len(str(error)) < 400
    assert str(error).isprintable()


def test_a_page_of_a_proxy_is_not_quoted() -> None:
    assert str(judge(502, b"  <!DOCTYPE html><h1>secret")) == "openai/gpt-4o: the server answered 502: a web page."
    titled = judge(502, b"<html><head><title lang=en>502 Bad &amp;\n Gateway</title></head><h1>secret")
    assert str(titled) == "openai/gpt-4o: the server answered 502: a web page, `502 Bad & Gateway`."


def test_the_value_of_a_rejected_field_is_not_quoted() -> None:
    said = "[{'loc': ('body', 'messages'), 'msg': 'bad', 'input': 'Mrs Smith, born 1950'}]"
    assert "Smith" not in str(judge(400, {"object": "error", "message": said, "type": "BadRequestError"}))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["error", "code", "message", "type", "choices", "content", "usage", "finish_reason", "detail"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.integers(400, 599), json_values)
def test_any_error_body_is_understood_somehow(status: int, body: Any) -> None:
    result = judge(status, body)
    assert str(result)
