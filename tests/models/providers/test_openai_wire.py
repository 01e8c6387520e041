"""What replies and errors of chat completions servers come to."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.domain import Completion, Model, Usage
from medhelm.errors import ProviderError
from medhelm.models.providers.openai_wire import (
    outcome,
    read_complaint,
    read_completion,
    read_usage,
    without_thinking,
)

MODEL = Model(
    name="openai/gpt-4o",
    provider="openai",
    remote_name="gpt-4o",
    base_url="https://api.openai.com/v1",
    key_variable="OPENAI_API_KEY",
)


def reply(content: Any = "A", finish: Any = "stop", **message: Any) -> dict[str, Any]:
    """A reply as OpenAI sends it."""
    return {
        "model": "gpt-4o-2024-05-13",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": content, **message}, "finish_reason": finish}
        ],
        "usage": {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13},
    }


@pytest.mark.parametrize(
    ("body", "text", "finish"),
    [
        pytest.param(reply(), "A", "stop", id="plain"),
        pytest.param(reply(""), "", "stop", id="said nothing"),
        pytest.param(reply("A", None), "A", "", id="no finish reason"),
        pytest.param(reply("A", 7), "A", "", id="odd finish reason"),
        pytest.param(reply(None, "length"), "", "length", id="tokens spent in thought"),
        pytest.param(reply("", "length", reasoning="hm"), "", "length", id="Ollama, tokens spent in thought"),
        pytest.param(reply("A", reasoning_content="B or A"), "A", "stop", id="DeepSeek reasoning"),
        pytest.param(reply("A", reasoning="B or A"), "A", "stop", id="vLLM reasoning"),
        pytest.param(reply("A", refusal=None), "A", "stop", id="no refusal"),
        pytest.param(reply("A", refusal=""), "A", "stop", id="empty refusal"),
        pytest.param(reply("A", refusal="no"), "A", "stop", id="answered all the same"),
        pytest.param(reply([{"type": "text", "text": "A"}, {"type": "text", "text": "B"}]), "AB", "stop", id="parts"),
        pytest.param(
            reply([{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "A"}]),
            "A",
            "stop",
            id="Mistral thinking part",
        ),
        pytest.param(reply([{"type": "output_text", "text": "A"}, "junk"]), "A", "stop", id="odd parts"),
        pytest.param(reply("<think>B?</think>\n\nA"), "A", "stop", id="think block"),
        pytest.param(reply("<think>B or", "length"), "", "length", id="think block without an end"),
        pytest.param(reply("half \ud83d"), "half \N{REPLACEMENT CHARACTER}", "stop", id="half a character"),
        pytest.param({"choices": [{"message": {"content": "A"}}], "error": None}, "A", "", id="bare"),
    ],
)
def test_a_reply_with_an_answer(body: dict[str, Any], text: str, finish: str) -> None:
    completion = read_completion(body)
    assert (completion.text, completion.failure, completion.finish_reason) == (text, None, finish)


def test_usage_and_the_reported_model_come_along() -> None:
    completion = read_completion(reply())
    assert completion.usage == Usage(input=10, output=3)
    assert completion.reported_model == "gpt-4o-2024-05-13"
    assert read_completion({**reply(), "model": 5}).reported_model == ""


@pytest.mark.parametrize(
    ("body", "words"),
    [
        pytest.param(reply("partial answ", "content_filter"), "content filter", id="Azure cut it off"),
        pytest.param(reply(None, "content_filter"), "content filter", id="filtered"),
        pytest.param({"choices": [{"finish_reason": "content_filter"}]}, "content filter", id="filtered, no message"),
        pytest.param(reply(None, "stop", refusal="I cannot help."), "I cannot help.", id="refusal field"),
        pytest.param(reply("", "stop", refusal="I cannot help."), "I cannot help.", id="refusal beside nothing"),
        pytest.param(reply([{"type": "refusal", "refusal": "No."}]), "No.", id="refusal part"),
        pytest.param(reply("", "SAFETY"), "content filter", id="Google's word"),
    ],
)
def test_a_refusal_is_a_failure_and_keeps_its_usage(body: dict[str, Any], words: str) -> None:
    completion = read_completion(body)
    assert completion.text is None
    assert completion.failure is not None
    assert (completion.failure.boundary, completion.failure.code) == ("provider", "refusal")
    assert words in completion.failure.message
    assert completion.usage.output == (3 if "usage" in body else 0)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param({"choices": []}, "empty_choice", id="no choice"),
        pytest.param({}, "empty_choice", id="no choices"),
        pytest.param({"choices": None}, "empty_choice", id="null choices"),
        pytest.param({"choices": "A"}, "empty_choice", id="choices are text"),
        pytest.param({"choices": ["A"]}, "empty_choice", id="choice is text"),
        pytest.param({"choices": [{"finish_reason": "stop"}]}, "empty_choice", id="no message"),
        pytest.param({"choices": [{"message": "A"}]}, "empty_choice", id="message is text"),
        pytest.param(reply(None), "empty_choice", id="null content"),
        pytest.param({"choices": [{"message": {}, "finish_reason": "stop"}]}, "empty_choice", id="no content"),
        pytest.param(reply(None, "tool_calls"), "empty_choice", id="called a tool nobody offered"),
        pytest.param(reply([]), "empty_choice", id="no parts"),
        pytest.param(reply([{"type": "text", "text": 5}]), "empty_choice", id="part without text"),
        pytest.param(reply(42), "malformed_reply", id="content is a number"),
        pytest.param(reply({"text": "A"}), "malformed_reply", id="content is an object"),
        pytest.param(reply("A", "insufficient_system_resource"), "interrupted", id="DeepSeek ran out of machines"),
        pytest.param(reply("A", "abort"), "interrupted", id="vLLM was told to stop"),
    ],
)
def test_a_reply_without_an_answer_is_asked_again(body: dict[str, Any], code: str) -> None:
    with pytest.raises(ProviderError) as raised:
        read_completion(body)
    assert (raised.value.code, raised.value.retryable, raised.value.fatal) == (code, True, False)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("A", "A"),
        ("", ""),
        ("<think>x</think>A", "A"),
        ("  \n<think>\nx\n</think>\n\nA\n", "A\n"),
        ("<think></think>\n\nA", "A"),
        ("<think>x</think>\n<think>y</think>\nA", "A"),
        ("the prompt opened it</think>\n\nA", "A"),
        ("<think>never ends", ""),
        ("<think>x</think>", ""),
        ("Use <think> tags </think> sparingly.", "Use <think> tags </think> sparingly."),
        ("Less than: a <thin", "Less than: a <thin"),
    ],
)
def test_think_blocks_are_no_part_of_the_answer(text: str, left: str) -> None:
    assert without_thinking(text) == left


@given(st.text(), st.text())
def test_what_follows_a_think_block_is_what_remains(thought: str, answer: str) -> None:
    thought, answer = thought.replace("<", ""), answer.replace("<", "").lstrip()
    assert without_thinking(f"<think>{thought}</think>\n\n{answer}") == answer


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        (None, (0, 0, 0, 0)),
        ("many", (0, 0, 0, 0)),
        ({}, (0, 0, 0, 0)),
        ({"prompt_tokens": 10, "completion_tokens": 3}, (10, 0, 3, 0)),
        ({"prompt_tokens": 10.0, "completion_tokens": 3.0}, (10, 0, 3, 0)),
        ({"prompt_tokens": None, "completion_tokens": "3"}, (0, 0, 0, 0)),
        ({"prompt_tokens": -1, "completion_tokens": 10**12}, (0, 0, 0, 0)),
        ({"prompt_tokens": True, "completion_tokens": float("nan")}, (0, 0, 0, 0)),
        ({"prompt_tokens": float("inf"), "completion_tokens": 1}, (0, 0, 1, 0)),
        ({"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 4}}, (10, 4, 0, 0)),
        ({"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 40}}, (10, 10, 0, 0)),
        ({"prompt_tokens": 10, "prompt_tokens_details": None}, (10, 0, 0, 0)),
        ({"prompt_tokens": 10, "prompt_cache_hit_tokens": 4}, (10, 4, 0, 0)),
        ({"completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 5}}, (0, 0, 9, 5)),
        # Grok on Vertex counts reasoning beside the completion:
        (
            {
                "prompt_tokens": 2,
                "completion_tokens": 9,
                "total_tokens": 16,
                "completion_tokens_details": {"reasoning_tokens": 5},
            },
            (2, 0, 14, 5),
        ),
        ({"completion_tokens": 1, "completion_tokens_details": {"reasoning_tokens": 50}}, (0, 0, 51, 50)),
    ],
)
def test_usage_is_read_whatever_it_looks_like(usage: Any, tokens: tuple[int, int, int, int]) -> None:
    read = read_usage(usage)
    assert (read.input, read.cached_input, read.output, read.reasoning) == tokens


def judge(status: int, body: Any, *, wait_s: float | None = None, model: Model = MODEL) -> Completion | ProviderError:
    """What an error reply comes to."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    try:
        return outcome(read_complaint(status, raw, secrets=("sk-very-secret",), retry_after_s=wait_s), model)
    except ProviderError as error:
        return error


def openai(message: str = "no", code: Any = None, kind: str = "invalid_request_error", **more: Any) -> dict[str, Any]:
    """An error body as OpenAI sends it."""
    return {"error": {"message": message, "type": kind, "param": None, "code": code, **more}}


FATAL = [
    (401, openai("Incorrect API key provided: sk-abc*****xyz.", "invalid_api_key"), "key"),
    (401, {"statusCode": 401, "message": "Access denied due to invalid subscription key."}, "key"),
    (401, b"", "key"),
    (403, openai("Country, region, or territory not supported", "unsupported_country_region_territory"), "key"),
    (403, b"Forbidden", "key"),
    (400, openai("bad key", "invalid_api_key"), "key"),
    (404, openai("The model `gpt-x` does not exist", "model_not_found"), "unknown_model"),
    (403, openai("Project `p` does not have access to model `gpt-4o`", "model_not_found"), "unknown_model"),
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


@pytest.mark.parametrize(("status", "body", "code"), FATAL)
def test_errors_that_no_request_to_this_model_can_escape(status: int, body: Any, code: str) -> None:
    error = judge(status, body)
    assert isinstance(error, ProviderError)
    assert (error.code, error.fatal, error.retryable) == (code, True, False)
    assert str(error).startswith(f"openai/gpt-4o: the server answered {status}")


@pytest.mark.parametrize(("status", "body", "code", "overloaded"), RETRYABLE)
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
    assert "wants a key" in str(judge(401, b"", model=keyless))


def test_messages_are_short_and_on_one_line() -> None:
    error = judge(400, openai("bad\x1b[31m\nthing\u202e " + "x" * 5000))
    assert isinstance(error, ProviderError)
    assert "bad [31m thing x" in str(error)
    assert len(str(error)) < 400
    assert str(error).isprintable()


def test_a_page_of_a_proxy_is_not_quoted() -> None:
    assert str(judge(502, b"  <!DOCTYPE html><h1>Bad Gateway")) == "openai/gpt-4o: the server answered 502."


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


@given(st.dictionaries(st.sampled_from(["choices", "usage", "model"]), json_values))
def test_any_reply_is_a_completion_or_an_error_of_ours(body: dict[str, Any]) -> None:
    try:
        completion = read_completion(body)
    except ProviderError:
        return
    assert (completion.text is None) != (completion.failure is None)
