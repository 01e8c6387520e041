"""The chat API of OpenAI, as a gateway offers it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from medhelm.domain import Completion, Failure, Message, Prompt, Request, Usage
from medhelm.extensions.cluster.gateway_server import chat_response, read_chat_request
from medhelm.extensions.cluster.gateway_wire import GatewayError
from medhelm.models.client import ClientResult
from medhelm.models.providers.openai import read_completion
from tests.support.gateways import FINE, OUTSIDE

MODELS = {OUTSIDE.name: OUTSIDE}
ASKED = {"model": OUTSIDE.name, "messages": [{"role": "user", "content": "secret words"}]}


def read(**changes: Any) -> Request:
    return read_chat_request(json.dumps({**ASKED, **changes}).encode(), MODELS)


def test_a_request_as_other_tools_send_it() -> None:
    schema = {"type": "object"}
    parts = [{"type": "text", "text": "Is it"}, {"type": "text", "text": " so?"}]
    messages = [{"role": "developer", "content": "Be brief.", "name": "x"}, {"role": "user", "content": parts}]
    limits = {"max_completion_tokens": 7, "temperature": 0, "stop": "\n", "seed": 1234}
    harmless = {"n": 1, "stream": False, "top_p": 1.0, "user": "me", "logprobs": None}
    form = {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema}}
    asked = read(messages=messages, response_format=form, **limits, **harmless)
    prompt = Prompt((Message("system", "Be brief."), Message("user", "Is it so?")))
    known = {"max_tokens": 7, "temperature": 0.0, "stop": ("\n",), "sample": 1234}
    assert asked == Request(model=OUTSIDE, prompt=prompt, schema=schema, **known)  # type: ignore[arg-type]
    assert (read().temperature, read().max_tokens, read().sample) == (1.0, 4000, 0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"top_p": 0.5, "tools": [{}]}, "`top_p` must be 1 or left out; `tools` must be"),
        ({"top_k": 5}, "`top_k` is not supported. Supported: max_completion_tokens"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, r"messages\[0\]: must have"),
        ({"model": "x"}, "`x`: not served"),
        ({"max_tokens": "5"}, "`max_tokens` must be a whole number"),
        ({"stop": 5}, "`stop` must be a text or a list"),
        ({"response_format": {"type": "json_object"}}, "`response_format` must be"),
    ],
)
def test_what_cannot_be_passed_on_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(GatewayError, match=words) as raised:
        read(**changes)
    assert "secret" not in str(raised.value)


def result(completion: Completion) -> ClientResult:
    return ClientResult(completion, False, 1, 0.5, b"\1" * 32)


@pytest.mark.parametrize(
    "completion",
    [
        replace(FINE, usage=Usage(input=9, cached_input=4, output=7, reasoning=2), fingerprint="fp"),
        Completion(failure=Failure("provider", "refusal", "No."), finish_reason="content_filter"),
    ],
)
def test_a_response_is_read_by_clients_as_the_completion_it_was(completion: Completion) -> None:
    status, body = chat_response(OUTSIDE, result(completion))
    assert status == 200
    assert body["medhelm"]["cost_usd"] == 0.5
    read_back = read_completion(json.loads(json.dumps(body)))
    expected = replace(completion, latency_s=0.0, reported_model=OUTSIDE.name)
    assert replace(read_back, fingerprint=completion.fingerprint) == expected


@pytest.mark.parametrize(
    ("code", "status", "reported"),
    [("context_length", 400, "context_length_exceeded"), ("of_a_plug_in", 502, "of_a_plug_in")],
)
def test_failures_are_errors(code: str, status: int, reported: str) -> None:
    found, body = chat_response(OUTSIDE, result(Completion(failure=Failure("provider", code, "why"))))
    assert (found, body["error"]["code"], body["error"]["message"]) == (status, reported, "why")
