"""What is sent to Anthropic's Messages API, and what of its own its replies hold."""

from __future__ import annotations

from typing import Any

import pytest

from medhelm.domain import Completion, Message, Prompt, Usage
from medhelm.errors import ProviderError
from medhelm.models.providers.anthropic import Anthropic
from tests.support.cases import table
from tests.support.models.providers import asked, payload
from tests.support.servers.vendors import ANTHROPIC

MODEL = ANTHROPIC.model("https://api.anthropic.com")
SCHEMA = {"type": "object"}


def read(reasoning: bool = False, **changes: Any) -> Completion:
    """What is read of a reply with these changes."""
    model = ANTHROPIC.model("", reasoning=reasoning)
    return Anthropic(model).read({**ANTHROPIC.said("A"), **changes}, asked(model))


BUDGET = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
FORMAT = {"type": "json_schema", "schema": SCHEMA}
EPHEMERAL = {"cache_control": {"type": "ephemeral"}}


@table(
    ("settings", "request_settings", "expected"),
    [
        ({}, {"stop": ("\n", " ", "END")}, {"temperature": 0.0, "stop_sequences": ["END"]}),
        (
            {"reasoning": True, "reasoning_effort": "high"},
            {"schema": SCHEMA},
            {"output_config": {"format": FORMAT, "effort": "high"}},
        ),
        ({"reasoning": True, "parameters": BUDGET}, {}, BUDGET),
        ({"parameters": {"temperature": None, "top_k": 1, **EPHEMERAL}}, {}, {"top_k": 1, **EPHEMERAL}),
        (
            {"parameters": {"output_config": {"effort": "max"}}},  # a form of the user's own
            {"schema": SCHEMA},
            {"temperature": 0.0, "output_config": {"effort": "max"}},
        ),
    ],
)
def test_each_kind_of_request(
    settings: dict[str, Any], request_settings: dict[str, Any], expected: dict[str, Any]
) -> None:
    body = payload(Anthropic, asked(ANTHROPIC.model("", **settings), **request_settings))
    messages = [{"role": "user", "content": "Is it?"}]
    assert body == {"model": "m", "max_tokens": 5, "messages": messages, **expected}


def test_the_system_message_is_a_field() -> None:
    turns = (Message("system", "Be brief."), Message("user", "A?"), Message("assistant", "B."), Message("user", "C?"))
    body = payload(Anthropic, asked(MODEL, prompt=Prompt(turns)))
    assert body["system"] == "Be brief."
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]


def test_where_requests_go_and_with_what() -> None:
    dialect = Anthropic(MODEL, key="sk-ant-x")
    assert dialect.url == "https://api.anthropic.com/v1/messages"
    assert dialect.names_url == "https://api.anthropic.com/v1/models?limit=1000"
    assert dialect.headers(b"{}") == {"anthropic-version": "2023-06-01", "x-api-key": "sk-ant-x"}
    assert Anthropic(MODEL).headers(None) == {"anthropic-version": "2023-06-01"}
    assert dialect.names_in({"data": [{"type": "model", "id": "claude-a"}, {"id": 5}, "x"]}) == ["claude-a"]


def test_why_it_stopped() -> None:
    reasons = {"stop_sequence": "stop", "model_context_window_exceeded": "length", "pause_turn": "pause_turn", None: ""}
    assert {reason: read(stop_reason=reason).finish_reason for reason in reasons} == reasons


@table("content", [[], None, [{"type": "tool_use", "name": "x"}], [{"type": "text", "text": ""}]])
def test_a_reply_without_a_text_is_a_blank_completion_but_not_one_without_content_and_reason(content: object) -> None:
    for reasoning in (False, True):
        assert read(reasoning, content=content, stop_reason="tool_use").text == ""
    with pytest.raises(ProviderError, match="holds no completion"):
        Anthropic(MODEL).read({"type": "message"}, asked(MODEL))


def test_text_blocks_are_joined_and_redacted_thought_is_thought() -> None:
    content = [{"type": "redacted_thinking", "data": "x"}, {"type": "text", "text": "A"}, {"type": "text", "text": "B"}]
    assert (read(content=content).text, read(content=content).reasoning) == ("AB", "")
    assert read(content=content[:1], stop_reason="max_tokens").failure is not None


def test_a_refusal_says_why_and_a_usage_of_odd_form_counts_what_it_can() -> None:
    details = {"type": "refusal", "category": "bio", "explanation": "Not that."}
    assert "Not that. (category bio)" in repr(read(stop_reason="refusal", stop_details=details).failure)
    usage = {"input_tokens": 1, "cache_creation_input_tokens": None, "cache_read_input_tokens": 7, "output_tokens": "5"}
    assert read(usage={**usage, "output_tokens_details": []}).usage == Usage(input=8, cached_input=7)
