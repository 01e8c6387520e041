"""What replies and errors of chat completions servers come to."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.domain import Usage
from medhelm.errors import ProviderError
from medhelm.models.providers.openai import read_completion, read_usage
from tests.support.cases import table
from tests.support.json_values import json_values


def reply(content: Any = "A", finish: Any = "stop", **message: Any) -> dict[str, Any]:
    """A reply as OpenAI sends it."""
    return {
        "model": "gpt-4o-2024-05-13",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": content, **message}, "finish_reason": finish}
        ],
        "usage": {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13},
    }


def thought(tokens: int) -> dict[str, Any]:
    return {"completion_tokens_details": {"reasoning_tokens": tokens}}


@table(
    ("body", "text", "finish"),
    [
        pytest.param(reply(), "A", "stop", id="plain"),
        pytest.param(reply(""), "", "stop", id="said nothing"),
        pytest.param(reply("A", None), "A", "", id="no finish reason"),
        pytest.param(reply("A", 7), "A", "", id="odd finish reason"),
        pytest.param(reply("A", reasoning_content="B or A"), "A", "stop", id="DeepSeek reasoning"),
        pytest.param(reply("A", refusal="no"), "A", "stop", id="answered all the same"),
        pytest.param(reply([{"type": "text", "text": "A"}, {"type": "text", "text": "B"}]), "AB", "stop", id="parts"),
        pytest.param(
            reply([{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "A"}]),
            "A",
            "stop",
            id="Mistral thinking part",
        ),
        pytest.param(reply([{"type": "output_text", "text": "A"}, "junk"]), "A", "stop", id="odd parts"),
        pytest.param(reply(None), "", "stop", id="null content"),
        pytest.param({"choices": [{"message": {}, "finish_reason": "stop"}]}, "", "stop", id="no content"),
        pytest.param(reply([{"type": "reasoning", "text": "hm"}]), "", "stop", id="nothing but reasoning"),
        pytest.param(reply(None, "tool_calls"), "", "tool_calls", id="called a tool nobody offered"),
        pytest.param(
            {"choices": [{**reply("B")["choices"][0], "index": 1}, reply("A")["choices"][0]]},
            "A",
            "stop",
            id="by index",
        ),
        pytest.param(reply("half \ud83d"), "half \N{REPLACEMENT CHARACTER}", "stop", id="half a character"),
        pytest.param({"choices": [{"message": {"content": "A"}}], "error": None}, "A", "", id="bare"),
    ],
)
def test_a_reply_with_an_answer(body: dict[str, Any], text: str, finish: str) -> None:
    completion = read_completion(body)
    assert (completion.text, completion.failure, completion.finish_reason) == (text, None, finish)


@pytest.mark.parametrize(
    ("body", "reasons"),
    [
        pytest.param(reply(None, "length"), True, id="OpenAI"),
        pytest.param(reply(None, "model_length", reasoning="hm"), False, id="Mistral's word"),
        pytest.param(reply(" \n", "length"), True, id="blanks"),
        pytest.param(reply("", "length", reasoning="hm"), False, id="Ollama, vLLM"),
        pytest.param(reply(None, "length", reasoning_content="hm"), False, id="DeepSeek"),
        pytest.param(
            {**reply("", "length"), "usage": {"completion_tokens": 9, **thought(9)}}, False, id="by its own count"
        ),
    ],
)
def test_a_limit_that_went_into_thought_is_a_failure(body: dict[str, Any], reasons: bool) -> None:
    completion = read_completion(body, reasons=reasons)
    assert completion.text is None
    assert completion.failure is not None
    assert (completion.failure.boundary, completion.failure.code) == ("provider", "length")
    assert f"{completion.usage.output} tokens" in completion.failure.message
    assert (completion.finish_reason, completion.reported_model) == ("length", "gpt-4o-2024-05-13")


@pytest.mark.parametrize("finish", ["stop", "length"])
def test_a_model_that_reasons_may_answer_with_little_or_nothing(finish: str) -> None:
    assert read_completion(reply("A", finish), reasons=True).text == "A"
    assert read_completion(reply("", "stop"), reasons=True).text == ""


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content", "thinking"])
@pytest.mark.parametrize("content", [None, "", []])
def test_a_blank_reply_with_reasoning_shows_that_it_had_some(content: Any, field: str) -> None:
    completion = read_completion(reply(content, **{field: "The answer is B."}))
    assert (completion.text, completion.usage.reasoning, completion.usage.output) == ("", 3, 3)
    assert read_completion(reply("A", **{field: "Or B, or C?"})).usage.reasoning == 2
    assert read_completion({"choices": reply("", **{field: "B"})["choices"]}).usage.reasoning == 1


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
        pytest.param(reply([{"type": "refusal", "refusal": "No."}]), "No.", id="refusal part"),
        pytest.param(reply("", "SAFETY"), "content filter", id="Google's word"),
        pytest.param(reply("", "sensitive"), "content filter", id="Zhipu's word"),
    ],
)
def test_a_refusal_is_a_failure_and_keeps_its_usage(body: dict[str, Any], words: str) -> None:
    completion = read_completion(body)
    assert completion.text is None
    assert completion.failure is not None
    assert (completion.failure.boundary, completion.failure.code) == ("provider", "refusal")
    assert words in completion.failure.message
    assert completion.usage.output == (3 if "usage" in body else 0)


@table(
    ("body", "code"),
    [
        pytest.param({"choices": []}, "empty_choice", id="no choice"),
        pytest.param({"choices": None}, "empty_choice", id="null choices"),
        pytest.param({"choices": ["A"]}, "empty_choice", id="choice is text"),
        pytest.param({"choices": [{"finish_reason": "stop"}]}, "empty_choice", id="no message"),
        pytest.param({"choices": [{"message": "A"}]}, "empty_choice", id="message is text"),
        pytest.param(reply([{"type": "text", "text": 5}]), "malformed_reply", id="part without text"),
        pytest.param(reply(42), "malformed_reply", id="content is a number"),
        pytest.param(reply({"text": "A"}), "malformed_reply", id="content is an object"),
        pytest.param(reply("A", "abort"), "interrupted", id="vLLM was told to stop"),
    ],
)
def test_a_reply_without_an_answer_is_asked_again(body: dict[str, Any], code: str) -> None:
    with pytest.raises(ProviderError) as raised:
        read_completion(body)
    assert (raised.value.code, raised.value.retryable, raised.value.fatal) == (code, True, False)


@table(
    ("usage", "tokens"),
    [
        (None, (0, 0, 0, 0)),
        ("many", (0, 0, 0, 0)),
        ({"prompt_tokens": 10, "completion_tokens": 3}, (10, 0, 3, 0)),
        ({"prompt_tokens": 10.0, "completion_tokens": 3.0}, (10, 0, 3, 0)),
        ({"prompt_tokens": None, "completion_tokens": "3"}, (0, 0, 0, 0)),
        ({"prompt_tokens": -1, "completion_tokens": 10**12}, (0, 0, 0, 0)),
        ({"prompt_tokens": True, "completion_tokens": float("nan")}, (0, 0, 0, 0)),
        ({"prompt_tokens": float("inf"), "completion_tokens": 1}, (0, 0, 1, 0)),
        ({"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 4}}, (10, 4, 0, 0)),
        ({"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 40}}, (10, 10, 0, 0)),
        ({"prompt_tokens": 10, "prompt_cache_hit_tokens": 4}, (10, 4, 0, 0)),
        # what was put into the cache: OpenAI since GPT-5.6 and OpenRouter, LiteLLM, and more of it than there was
        ({"prompt_tokens": 10, "cache_creation_input_tokens": 6}, (10, 0, 0, 0, 6)),
        (
            {"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 9}},
            (10, 4, 0, 0, 6),
        ),
        ({"completion_tokens": 9, **thought(5)}, (0, 0, 9, 5)),
        # Grok on Vertex counts reasoning beside the completion:
        ({"prompt_tokens": 2, "completion_tokens": 9, "total_tokens": 16, **thought(5)}, (2, 0, 14, 5)),
        ({"completion_tokens": 1, **thought(50)}, (0, 0, 51, 50)),
    ],
)
def test_usage_is_read_whatever_it_looks_like(usage: Any, tokens: tuple[int, ...]) -> None:
    """Input, cached input, output, reasoning, and what was written into the cache."""
    read = read_usage(usage)
    found = (read.input, read.cached_input, read.output, read.reasoning, read.cache_write)
    assert found == (*tokens, 0)[:5]


FIELDS = ("error", "code", "message", "type", "choices", "content", "usage", "finish_reason", "detail")


@given(st.dictionaries(st.sampled_from(["choices", "usage", "model"]), json_values(*FIELDS)))
def test_any_reply_is_a_completion_or_an_error_of_ours(body: dict[str, Any]) -> None:
    try:
        completion = read_completion(body)
    except ProviderError:
        return
    assert (completion.text is None) != (completion.failure is None)
