"""What is sent to chat completions servers, where to, and what their replies come to."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.domain import Model, Usage
from medhelm.errors import ProviderError
from medhelm.models.providers.openai import ChatCompletions, limit_name, read_completion, read_usage
from tests.support.cases import table
from tests.support.json_values import json_values
from tests.support.models.providers import asked, complete, payload
from tests.support.servers.openai import Answer, Server
from tests.support.servers.vendors import OPENAI

KEY = "sk-test-0123456789"


def model(remote_name: str = "gpt-4o", **settings: Any) -> Model:
    return OPENAI.model("http://127.0.0.1:8000", **{"remote_name": remote_name, "key_variable": "", **settings})


PAYLOADS: dict[str, tuple[Model, dict[str, Any], dict[str, Any]]] = {
    "stop": (model(), {"stop": ("\n",)}, {"stop": ["\n"]}),
    "reasoning by name": (
        model("gpt-5", reasoning=True, reasoning_effort="low"),
        {"stop": ("\n",)},
        {"max_tokens": None, "max_completion_tokens": 5, "temperature": None, "reasoning_effort": "low"},
    ),
    "open reasoning model": (model("deepseek-r1", reasoning=True), {"stop": ("\n",)}, {}),
    "parameters win": (
        model(parameters={"temperature": None, "seed": None, "x": None, "top_p": 0.95}),
        {},
        {"temperature": None, "seed": None, "top_p": 0.95},
    ),
    "limit by another name": (
        model(parameters={"max_tokens": None, "max_completion_tokens": 9}),
        {},
        {"max_tokens": None, "max_completion_tokens": 9},
    ),
    "seed": (model(parameters={"seed": 7}), {"sample": 2}, {"seed": 9}),
    "log-probabilities": (model(), {"logprobs": True}, {"logprobs": True, "top_logprobs": 20}),
    "its own log-probabilities": (model(parameters={"logprobs": False}), {"logprobs": True}, {"logprobs": False}),
}
"""Model and settings of the request -> what the body holds beside what is usual; None: what it lacks."""


@table(("sent_to", "settings", "expected"), PAYLOADS.values(), ids=PAYLOADS)
def test_each_kind_of_model_gets_its_payload(sent_to: Model, settings: Any, expected: dict[str, Any]) -> None:
    usual = {"model": sent_to.remote_name, "messages": [{"role": "user", "content": "Is it?"}], "seed": 0}
    body = {**usual, "max_tokens": 5, "temperature": 0.0, **expected}
    sent = payload(ChatCompletions, asked(sent_to, **settings))
    assert sent == {name: value for name, value in body.items() if value is not None}


def test_the_limit_goes_by_the_name_the_server_knows() -> None:
    new = [
        model("o4-mini-2025-04-16"),
        model("gpt-10"),
        model("my-deployment", provider="azure", reasoning=True),
        model("ft:x", reasoning=True, base_url="https://api.openai.com/v1"),
    ]
    assert {limit_name(one) for one in new} == {"max_completion_tokens"}
    assert limit_name(model("gpt-oss-20b", reasoning=True)) == "max_tokens"


def test_each_service_gets_its_key_in_its_own_header_and_this_machine_none(server: Server) -> None:
    server.script(OPENAI.answer("A"))
    base_url = f"{server.url}/v1"
    completion = complete(asked(model(base_url=base_url, key_variable="SOME_KEY")), {"SOME_KEY": f" {KEY}\n"})
    assert (completion.fingerprint, completion.refused_parameters) == ("fp_1", ())
    complete(asked(model(base_url=base_url)), {"OPENAI_API_KEY": KEY})
    complete(asked(model(base_url=base_url, provider="azure", key_variable="SOME_KEY")), {"SOME_KEY": KEY})
    sent = [(headers.get("authorization"), headers.get("api-key")) for headers in server.headers]
    assert sent == [(f"Bearer {KEY}", None), (None, None), (None, KEY)]


@pytest.mark.parametrize(
    ("answer", "code", "wait_s"),
    [
        (Answer(status=503, body="", headers={"retry-after-ms": "250"}), "overloaded", 0.25),
        (Answer(body={"error": {"code": 429, "message": "slow"}}, headers={"Retry-After": "1"}), "rate_limit", 1.0),
        (Answer(body={"choices": [{"message": {"content": "half"}, "error": {"code": 502}}]}), "server_error", None),
    ],
)
def test_trouble_is_a_provider_error(server: Server, answer: Answer, code: str, wait_s: float | None) -> None:
    server.script(answer)
    with pytest.raises(ProviderError) as raised:
        complete(asked(model(base_url=f"{server.url}/v1")))
    assert (raised.value.code, raised.value.retry_after_s) == (code, wait_s)


# --- replies ----------------------------------------------------------------------------------------------------------


def reply(content: Any = "A", finish: Any = "stop", index: Any = 0, **message: Any) -> dict[str, Any]:
    """A reply as OpenAI sends it."""
    choice = {"index": index, "message": {"role": "assistant", "content": content, **message}, "finish_reason": finish}
    return {"model": "gpt-x", "choices": [choice], "usage": {"prompt_tokens": 10, "completion_tokens": 3}}


THINKING = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}


def thought(tokens: int) -> dict[str, Any]:
    return {"completion_tokens_details": {"reasoning_tokens": tokens}}


@table(
    ("body", "text", "finish"),
    [
        (reply("A", 7), "A", ""),
        (reply("A", refusal="no"), "A", "stop"),
        (reply([{"type": "text", "text": "A"}, THINKING, {"type": "text", "text": "B"}]), "AB", "stop"),
        ({"choices": [{"message": {}, "finish_reason": "stop"}]}, "", "stop"),
        (reply(None, "tool_calls"), "", "tool_calls"),  # a tool that nobody offered
        ({"choices": [*reply("B", index=1)["choices"], *reply("A")["choices"]]}, "A", "stop"),
        (reply("half \ud83d"), "half \N{REPLACEMENT CHARACTER}", "stop"),
    ],
)
def test_a_reply_with_an_answer(body: dict[str, Any], text: str, finish: str) -> None:
    completion = read_completion(body)
    assert (completion.text, completion.failure, completion.finish_reason) == (text, None, finish)


@table(
    ("body", "code", "words"),
    [
        (reply(" \n", "length", reasoning="hm"), "length", "3 tokens"),
        ({**reply("", "length"), "usage": {"completion_tokens": 9, **thought(9)}}, "length", "9 tokens"),
        ({"choices": [{"finish_reason": "content_filter"}]}, "refusal", "content filter"),
        (reply(None, refusal="I cannot help."), "refusal", "I cannot help."),
        (reply([{"type": "refusal", "refusal": "No."}]), "refusal", "No."),
        (reply("", "sensitive"), "refusal", "content filter"),  # Zhipu's word
    ],
)
def test_a_limit_that_went_into_thought_and_a_refusal_are_failures(body: dict[str, Any], code: str, words: str) -> None:
    completion = read_completion(body)
    assert completion.failure is not None
    assert (completion.text, completion.failure.boundary, completion.failure.code) == (None, "provider", code)
    assert words in completion.failure.message
    assert completion.usage.output == read_usage(body.get("usage")).output
    assert completion.reported_model == body.get("model", "")


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content", "thinking"])
def test_a_blank_reply_with_reasoning_shows_that_it_had_some(field: str) -> None:
    contents: list[Any] = [None, "", []]
    for content in contents:
        completion = read_completion(reply(content, **{field: "The answer is B."}))
        assert (completion.text, completion.usage.reasoning, completion.usage.output) == ("", 3, 3)
    thought = read_completion(reply("A", **{field: "Or B, or C?"}))
    assert (thought.usage.reasoning, thought.reasoning, thought.text) == (2, "Or B, or C?", "A")
    assert read_completion(reply("A", reasoning_details=[{"text": "hm", "signature": "x"}])).reasoning == "hm"
    assert read_completion(reply([THINKING, {"type": "text", "text": "A"}])).reasoning == "hm"
    assert read_completion({"choices": reply("", **{field: "B"})["choices"]}).usage.reasoning == 1


def test_a_reply_without_an_answer_is_asked_again() -> None:
    no_text, early_end = reply([{"type": "text", "text": 5}]), reply("A", "abort")  # vLLM was told to stop
    bodies: list[dict[str, Any]] = [
        {"choices": []},
        {"choices": [{"finish_reason": "stop"}]},
        no_text,
        reply(42),
        early_end,
    ]
    codes = ["empty_choice", "empty_choice", "malformed_reply", "malformed_reply", "interrupted"]
    for body, code in zip(bodies, codes, strict=True):
        with pytest.raises(ProviderError) as raised:
            read_completion(body)
        assert (raised.value.code, raised.value.retryable, raised.value.fatal) == (code, True, False)


@table(
    ("usage", "tokens"),
    [
        ("many", Usage()),
        ({"prompt_tokens": None, "completion_tokens": "3"}, Usage()),
        ({"prompt_tokens": -1, "completion_tokens": 10**12}, Usage()),
        ({"prompt_tokens": True, "completion_tokens": float("nan")}, Usage()),
        ({"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 40}}, Usage(input=10, cached_input=10)),
        ({"prompt_tokens": 10, "prompt_cache_hit_tokens": 4}, Usage(input=10, cached_input=4)),
        # what was put into the cache: OpenAI since GPT-5.6 and OpenRouter, LiteLLM, and more of it than there was
        ({"prompt_tokens": 10, "cache_creation_input_tokens": 6}, Usage(input=10, cache_write=6)),
        (
            {"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 9}},
            Usage(input=10, cached_input=4, cache_write=6),
        ),
        # Grok on Vertex counts reasoning beside the completion:
        (
            {"prompt_tokens": 2, "completion_tokens": 9, "total_tokens": 16, **thought(5)},
            Usage(input=2, output=14, reasoning=5),
        ),
    ],
)
def test_usage_is_read_whatever_it_looks_like(usage: Any, tokens: Usage) -> None:
    assert read_usage(usage) == tokens


FIELDS = ("error", "code", "message", "type", "choices", "content", "usage", "finish_reason", "detail")


@given(st.dictionaries(st.sampled_from(["choices", "usage", "model"]), json_values(*FIELDS)))
def test_any_reply_is_a_completion_or_an_error_of_ours(body: dict[str, Any]) -> None:
    try:
        completion = read_completion(body)
    except ProviderError:
        return
    assert (completion.text is None) != (completion.failure is None)
