"""The messages between workers and a gateway, and those of tools that speak OpenAI's chat API."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medhelm.domain import Completion, Failure, Message, Prompt, Request, Usage
from medhelm.domain.text import is_benchmark_name
from medhelm.extensions.cluster import gateway_wire as wire
from medhelm.extensions.cluster.gateway_server import chat_response, read_chat_request
from medhelm.extensions.cluster.gateway_wire import GatewayError, WorkerRequest
from medhelm.models.cache import row_of
from medhelm.models.client import ClientResult
from medhelm.models.providers.openai import read_completion
from tests.support.gateways import FINE, OUTSIDE

MODELS = {OUTSIDE.name: OUTSIDE}
GOOD = {"id": 1, "model": OUTSIDE.name, "tag": "a" * 16, "messages": [["user", "secret words"]], "max_tokens": 5}

TEXTS = st.text(st.characters(codec=None, exclude_categories=()), max_size=20)
MESSAGES = st.builds(Message, st.sampled_from(("system", "user", "assistant")), TEXTS)
REQUESTS = st.builds(
    Request,
    model=st.just(OUTSIDE),
    prompt=st.builds(Prompt, st.lists(MESSAGES, min_size=1, max_size=3).map(tuple)),
    max_tokens=st.integers(1, 10_000),
    temperature=st.floats(0, 2),
    stop=st.lists(TEXTS.filter(bool), max_size=2).map(tuple),
    sample=st.integers(0, 100),
    schema=st.none() | st.just({"type": "object"}),
    benchmark=st.text("abc", max_size=3) | st.just("a" * 80),
    shared_characters=st.integers(0, 9),
    logprobs=st.booleans(),
    fresh=st.sampled_from(("", "2026-11-01T00:00:00.000+00:00", "2026-11-01T00:00:00Z")),
)


@settings(max_examples=30, deadline=None)
@given(REQUESTS, st.booleans())
def test_a_request_arrives_as_it_was(request: Request, public: bool) -> None:
    text = wire.write_request(request, "a" * 16, public=public)
    (read,) = wire.read_requests(f'[{{"id":7,{text}]', MODELS)
    assert read == WorkerRequest(7, "a" * 16, request, public)
    assert isinstance(read, WorkerRequest)
    assert read.request.digest == request.digest


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"more": 1}, "`more` is not a key"),
        ({"messages": "secret words"}, "`messages` must be of type list, not a text"),
        ({"temperature": 10**400}, "`temperature` must be from 0 to 2, not a number with many digits"),
        ({"benchmark": "Mr. John Doe, secret words"}, "`benchmark` must be a name in snake case, of at most 80"),
        ({"fresh": "secret words"}, "`fresh` must be an ISO 8601 time"),
        ({"model": "openai/other"}, "not served by this gateway. Served: openai/m."),
    ],
)
def test_a_wrong_request_is_named_and_the_others_are_read(change: dict[str, Any], words: str) -> None:
    wrong, right = wire.read_requests(json.dumps([{**GOOD, **change}, {**GOOD, "id": 2}]), MODELS)
    assert isinstance(right, WorkerRequest)
    assert not isinstance(wrong, WorkerRequest)
    assert wrong[0] == 1
    with pytest.raises(GatewayError, match=words):
        raise wrong[1]
    assert "secret" not in str(wrong[1])


@pytest.mark.parametrize("text", ["", "null", '[{"id": "x"}]', "[" * 9999])
def test_what_is_no_message_raises_one_error(text: str) -> None:
    ((_, problem),) = wire.read_requests(json.dumps([{"id": 1, "model": OUTSIDE.name}]), MODELS)  # type: ignore[misc]
    assert str(problem) == "the request lacks `tag`, `messages`, `max_tokens`"
    with pytest.raises(GatewayError) as raised:
        wire.read_requests(text, MODELS)
    assert raised.value.code == "bad_request"
    with pytest.raises(GatewayError, match="same version of medhelm"):
        wire.read_results(text)


def test_long_lists_are_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "BATCH_BYTES", 10)
    objects = ["1" * 4, "2" * 7, "3" * 20, "4"]
    assert [json.loads(text) for text in wire.joined(objects)] == [[1111, 2222222], [int("3" * 20)], [4]]
    assert list(wire.joined([])) == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.just(10**400),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
RESULT = {
    "id": 1, "cached": False, "sent": 1, "cost_usd": None, "digest": "ab", "text": "yes", "failure": None,
    "finish_reason": "stop", "usage": [1, 2, 3, 4, 5], "latency_s": 0.5, "reported_model": "m", "fingerprint": "",
    "refused_parameters": [], "batched": False, "received": 1.5,
}  # fmt: skip
ERROR = {"id": 1, "error": wire.UNUSABLE, "message": "x", "model": "m", "sent": 1}
FULL = {**GOOD, "temperature": 0.5, "stop": ["x"], "sample": 0, "schema": {}, "benchmark": "b", "public": True}


def changed(data: st.DataObject, whole: dict[str, Any]) -> str:
    """Return a list with an object in which one value is any other."""
    key = data.draw(st.sampled_from(list(whole)))
    place = whole[key]
    value = data.draw(JSON)
    if isinstance(place, list) and place and data.draw(st.booleans()):
        rest = place[0][1:] if isinstance(place[0], list) else []
        value = [value, *place[1:]] if data.draw(st.booleans()) else [[value, *rest]]
    return json.dumps([{**whole, key: value}])


@given(data=st.data())
@settings(max_examples=50, deadline=None)
def test_whatever_a_worker_sends_is_read_or_refused(data: st.DataObject) -> None:
    with suppress(GatewayError):
        for one in wire.read_requests(changed(data, FULL), MODELS):
            if isinstance(one, WorkerRequest):
                assert one.request.digest
                assert is_benchmark_name(one.request.benchmark or "x")
            else:
                json.loads(wire.write_error(*one))


@pytest.mark.parametrize("value", ["1e999", "-1", "NaN", "true", '"1"', "null"])
def test_a_number_that_is_none_is_refused(value: str) -> None:
    for result in (RESULT, ERROR):
        with pytest.raises(GatewayError, match="same version of medhelm"):
            wire.read_results(json.dumps([{**result, "sent": "HERE"}]).replace('"HERE"', value))


@given(data=st.data())
@settings(max_examples=50, deadline=None)
def test_whatever_a_gateway_sends_is_read_or_refused(data: st.DataObject) -> None:
    with suppress(GatewayError):
        for number, result in wire.read_results(changed(data, data.draw(st.sampled_from([RESULT, ERROR])))):
            if isinstance(result, ClientResult):
                assert wire.read_results(f"[{wire.write_result(number, result)}]") == [(number, result)]
                row_of(result.digest, result.completion, "m")


CHAT: dict[str, Any] = {
    "model": OUTSIDE.name,
    "messages": [{"role": "user", "content": "hello"}],
    "max_tokens": 5,
    "temperature": 0.5,
    "stop": ["x"],
    "seed": 1,
    "response_format": {"type": "json_schema", "json_schema": {"schema": {}}},
    "n": 1,
    "tools": [],
}


@given(data=st.data())
@settings(max_examples=50, deadline=None)
def test_whatever_another_tool_sends_is_read_or_refused(data: st.DataObject) -> None:
    text = changed(data, CHAT)[1:-1]
    if data.draw(st.booleans()):
        text = text.replace('"user"', json.dumps(data.draw(JSON))).replace('"hello"', json.dumps(data.draw(JSON)))
    with suppress(GatewayError):
        assert read_chat_request(text.encode(), MODELS).digest


# --- OpenAI's chat API ------------------------------------------------------------------------------------------------

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
