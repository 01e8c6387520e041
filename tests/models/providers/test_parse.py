"""Errors as vendors send them and gateways wrap them: the innermost message is shown, and nothing of the request."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.models.providers.errors import SHOWN_CHARACTERS, parse_error, shown, well_formed
from tests.support.cases import table
from tests.support.servers.vendors import google_quota

Shape = Callable[[str], Any]


def error(message: object, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, **more}}


def routed(raw: object) -> dict[str, Any]:
    """OpenRouter's error around one of the server behind it."""
    return error("Provider returned error", code=400, metadata={"raw": raw, "provider_name": "X"})


SHAPES: dict[str, Shape] = {
    "OpenAI": lambda said: error(said, type="invalid_request_error", param=None, code=None),
    "vLLM": lambda said: {"object": "error", "message": said, "type": "BadRequestError", "code": 400},
    "text in error": lambda said: {"error": said},
    "plain text": str.encode,
    "FastAPI text": lambda said: {"detail": said},
    "FastAPI object": lambda said: {"detail": error(said)},
    "Mistral": lambda said: {"object": "error", "message": {"detail": [{"msg": said}]}},
    "message is a list": lambda said: error([{"message": said}]),
    "JSON in message, twice": lambda said: {"message": json.dumps(error(json.dumps({"message": said, "code": "x"})))},
    "OpenRouter": lambda said: routed(json.dumps(error(said))),
    "OpenRouter, raw is an object": lambda said: routed(error(said)),
    "OpenRouter, raw is text": lambda said: routed(said),
    "Python's repr": lambda said: error(f"Error code: 400 - {error(said)!r}"),
    "LiteLLM": lambda said: error(f"litellm.X: OpenAIException - {json.dumps(error(said))}. Received Model Group=m"),
    "list at the top": lambda said: [error(said, code=400, status="INVALID_ARGUMENT")],
    "errors": lambda said: {"success": False, "errors": [{"code": 7003, "message": said}]},
    "errors are texts": lambda said: {"errors": [said]},
    "problem details": lambda said: {"title": "Bad Request", "status": 400, "detail": said},
    "Spring": lambda said: {"status": 400, "error": "Bad Request", "message": said, "path": "/v1"},
    "Baidu": lambda said: {"error_code": 336003, "error_msg": said},
    "AWS": lambda said: {"__type": "com.amazon.coral.service#ValidationException", "Message": said},
    "MiniMax": lambda said: {"base_resp": {"status_code": 2013, "status_msg": said}},
}


def parsed(status: int, body: object) -> Any:
    return parse_error(status, body if isinstance(body, bytes) else json.dumps(body).encode())


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_the_innermost_message_is_shown_and_searched(shape: Shape) -> None:
    said = "Something of its own happened to the request"
    response = parsed(400, shape(said))
    assert (response.status, response.message) == (400, said)
    assert said.lower() in response.text


@table(
    ("status", "body", "known"),
    [
        (500, error("upstream", code=400), (400, True)),
        (500, error("own"), (500, True)),
        (200, error("odd"), (500, False)),
        (200, error("slow", code="429"), (429, True)),
        (200, error("odd", code=True), (500, False)),
        (404, error("gone", code=400), (404, True)),
    ],
)
def test_the_status_of_the_innermost_error_counts_for_a_gateways_500(
    status: int, body: object, known: tuple[int, bool]
) -> None:
    response = parsed(status, body)
    assert (response.status, response.has_status) == known


def test_codes_and_parameter_are_read_in_lower_case() -> None:
    response = parse_error(400, error("no", code="A", type="B", param="Top_P"), kind="x#ThrottlingException:http://y")
    assert response.codes == {"a", "b", "throttlingexception"}
    assert response.parameter == "top_p"


@pytest.mark.parametrize(
    ("delay", "header", "seconds"), [("38.5s", None, 38.5), ("7s", 3.0, 3.0), ("soon", None, None), ("-1s", None, None)]
)
def test_googles_delay_is_obeyed_where_no_header_says_it(
    delay: str, header: float | None, seconds: float | None
) -> None:
    assert parse_error(429, google_quota("PerMinute", "10", delay).body, retry_after_s=header).retry_after_s == seconds


PROBLEM = {"type": "missing", "loc": ["body", "messages", 0], "msg": "Field required", "input": "Mrs Smith"}


@table(
    "body",
    [
        {"detail": [PROBLEM]},
        {"message": {"detail": [PROBLEM]}},
        error(str([PROBLEM])),
        error(json.dumps({"detail": [PROBLEM]})),
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
        ("key sk-proj-abcdef123456 is wrong", "key [key] is wrong"),
        ("key sk-abc********wxyz is wrong", "key [key] is wrong"),
        ("key 0123456789 is wrong", "key [key] is wrong"),
        ("hf_abcdefgh and gsk_abcdefgh", "[key] and [key]"),
        ("AIzaInvented0123 or ya29.invented-0123/x", "[key] or [key]"),
        ("Credential=AKIAIOSFODNN7EXAMPLE/2026", "Credential=[key]/2026"),
        ("ABSKinvented0123== and bedrock-api-key-abcdef", "[key] and [key]"),
        ("a task-based risk score of ASIA", "a task-based risk score of ASIA"),
        ("expected none \ud83d", "expected none \N{REPLACEMENT CHARACTER}"),
    ],
)
def test_keys_and_half_characters_are_taken_out(text: str, result: str) -> None:
    """Placeholders for keys are no keys."""
    assert shown(well_formed(text), secrets=("0123456789", "", "x", "none")) == result


def test_a_key_at_the_cut_is_taken_out_before_the_cut() -> None:
    assert "0" not in shown("x" * (SHOWN_CHARACTERS - 5) + " 0123456789", secrets=("0123456789",))
