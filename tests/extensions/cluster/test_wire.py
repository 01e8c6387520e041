"""The messages between workers and a gateway."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medhelm.domain import Message, Prompt, Request
from medhelm.domain.text import is_benchmark_name
from medhelm.extensions.cluster import gateway_wire as wire
from medhelm.extensions.cluster.gateway_server import read_chat_request
from medhelm.extensions.cluster.gateway_wire import GatewayError, WorkerRequest
from medhelm.models.cache import row_of
from medhelm.models.client import ClientResult
from tests.support.gateways import OUTSIDE

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
