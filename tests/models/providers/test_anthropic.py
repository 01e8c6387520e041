"""What is sent to Anthropic's Messages API, and what of its own its replies hold."""

from __future__ import annotations

from typing import Any

import pytest

from medhelm.domain import Message, Model, Prompt, Request, Usage
from medhelm.errors import ProviderError
from medhelm.models.providers.anthropic import Anthropic
from tests.support.cases import table
from tests.support.servers.vendors import ANTHROPIC

KEY = "sk-ant-invented-0123456789"
SCHEMA = {"type": "object"}
MESSAGES = [{"role": "user", "content": "Is it?"}]


def model(**settings: Any) -> Model:
    known = {"name": "anthropic/claude", "provider": "anthropic", "remote_name": "claude"}
    return Model(**{**known, "base_url": "https://api.anthropic.com/v1", **settings})


def request(asked: Model, **settings: Any) -> Request:
    prompt = Prompt((Message("user", "Is it?"),))
    return Request(**{"model": asked, "prompt": prompt, "max_tokens": 5, **settings})


def payload(asked: Model, **settings: Any) -> dict[str, Any]:
    """What is sent while nothing was refused, without what every request has."""
    dialect, one = Anthropic(asked), request(asked, **settings)
    body = dialect.payload(one, dialect.optional_parameters(one))
    assert body.pop("model") == "claude"
    return body


BUDGET = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
FORMAT = {"type": "json_schema", "schema": SCHEMA}
EPHEMERAL = {"cache_control": {"type": "ephemeral"}}
PAYLOADS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}, {"temperature": 0.0}),
    "stop": ({}, {"stop": ("\n", " ", "END")}, {"temperature": 0.0, "stop_sequences": ["END"]}),
    "blank stops only": ({}, {"stop": ("\n", "")}, {"temperature": 0.0}),
    "reasoning keeps stops": ({"reasoning": True}, {"stop": ("END",)}, {"stop_sequences": ["END"]}),
    "schema and effort": (
        {"reasoning": True, "reasoning_effort": "high"},
        {"schema": SCHEMA},
        {"output_config": {"format": FORMAT, "effort": "high"}},
    ),
    "a budget of thought": ({"reasoning": True, "parameters": BUDGET}, {}, BUDGET),
    "parameters win": ({"parameters": {"temperature": None, "top_k": 1, **EPHEMERAL}}, {}, {"top_k": 1, **EPHEMERAL}),
    "a form of the user's own": (
        {"parameters": {"output_config": {"effort": "max"}}},
        {"schema": SCHEMA},
        {"temperature": 0.0, "output_config": {"effort": "max"}},
    ),
}


@table(("settings", "asked", "expected"), PAYLOADS.values(), ids=PAYLOADS)
def test_each_kind_of_request(settings: dict[str, Any], asked: dict[str, Any], expected: dict[str, Any]) -> None:
    assert payload(model(**settings), **asked) == {"max_tokens": 5, "messages": MESSAGES, **expected}


def test_the_system_message_is_a_field() -> None:
    prompt = Prompt(
        (Message("system", "Be brief."), Message("user", "A?"), Message("assistant", "B."), Message("user", "C?"))
    )
    body = payload(model(), prompt=prompt)
    assert body["system"] == "Be brief."
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]


def test_where_requests_go_and_with_what() -> None:
    dialect = Anthropic(model(), key=KEY)
    assert dialect.url == "https://api.anthropic.com/v1/messages"
    assert dialect.names_url == "https://api.anthropic.com/v1/models?limit=1000"
    assert dialect.headers(b"{}") == {"anthropic-version": "2023-06-01", "x-api-key": KEY}
    assert Anthropic(model()).headers(None) == {"anthropic-version": "2023-06-01"}
    assert dialect.names_in({"data": [{"type": "model", "id": "claude-a"}, {"id": 5}, "x"]}) == ["claude-a"]


@pytest.mark.parametrize(
    ("stop_reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("pause_turn", "pause_turn"),
        (None, ""),
    ],
)
def test_why_it_stopped(stop_reason: str | None, finish: str) -> None:
    body = {**ANTHROPIC.said("A"), "stop_reason": stop_reason}
    completion = Anthropic(model()).read(body, request(model()))
    assert (completion.text, completion.finish_reason) == ("A", finish)


@pytest.mark.parametrize("content", [[], None, [{"type": "tool_use", "name": "x"}], [{"type": "text", "text": ""}]])
@pytest.mark.parametrize("stopped", ["end_turn", "tool_use"])
def test_a_reply_without_a_text_is_a_blank_completion(content: object, stopped: str) -> None:
    body = {**ANTHROPIC.said(None), "content": content, "stop_reason": stopped}
    for reasoning in (False, True):
        asked = model(reasoning=reasoning)
        assert Anthropic(asked).read(body, request(asked)).text == ""


def test_a_reply_without_content_and_reason_is_malformed() -> None:
    with pytest.raises(ProviderError, match="holds no completion"):
        Anthropic(model()).read({"type": "message"}, request(model()))


def test_text_blocks_are_joined_and_redacted_thought_is_thought() -> None:
    content = [{"type": "redacted_thinking", "data": "x"}, {"type": "text", "text": "A"}, {"type": "text", "text": "B"}]
    body = {**ANTHROPIC.said("A"), "content": content}
    assert Anthropic(model()).read(body, request(model())).text == "AB"
    cut = {**ANTHROPIC.said("A", finish="length"), "content": content[:1]}
    completion = Anthropic(model()).read(cut, request(model()))
    assert completion.failure is not None
    assert completion.failure.code == "length"


@pytest.mark.parametrize(
    ("details", "words"),
    [
        ({"type": "refusal", "category": "bio", "explanation": "Not that."}, "Not that. (category bio)"),
        ({"type": "refusal", "category": None, "explanation": None}, "the provider's filter ended the completion"),
        (None, "the provider's filter ended the completion"),
    ],
)
def test_a_refusal_says_why(details: Any, words: str) -> None:
    body = {**ANTHROPIC.said("I", finish="refusal"), "stop_details": details}
    completion = Anthropic(model()).read(body, request(model()))
    assert completion.failure is not None
    assert completion.failure.message == words
    assert (completion.finish_reason, completion.usage.output) == ("refusal", 5)


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"input_tokens": 13, "output_tokens": 5}, Usage(input=13, output=5)),
        (
            {"input_tokens": 1, "cache_creation_input_tokens": 100, "cache_read_input_tokens": 0, "output_tokens": 5},
            Usage(input=101, cache_write=100, output=5),
        ),
        (
            {
                "input_tokens": 1,
                "cache_creation_input_tokens": None,
                "cache_read_input_tokens": 100,
                "output_tokens": 5,
            },
            Usage(input=101, cached_input=100, output=5),
        ),
        (
            {"input_tokens": 1, "output_tokens": 50, "output_tokens_details": {"thinking_tokens": 40}},
            Usage(input=1, output=50, reasoning=40),
        ),
        (None, Usage()),
        ({"input_tokens": -1, "output_tokens": "5", "output_tokens_details": []}, Usage()),
    ],
)
def test_what_was_cached_is_counted_in(usage: Any, tokens: Usage) -> None:
    assert Anthropic(model()).read({**ANTHROPIC.said("A"), "usage": usage}, request(model())).usage == tokens
