"""The messages between workers and a gateway."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medhelm.domain import Message, Prompt, Request
from medhelm.models.gateway import wire
from medhelm.models.gateway.wire import GatewayError, WorkerRequest
from tests.support.gateways import OUTSIDE

MODELS = {OUTSIDE.name: OUTSIDE}
GOOD = {"id": 1, "model": OUTSIDE.name, "tag": "t", "messages": [["user", "secret words"]], "max_tokens": 5}

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
    benchmark=st.text("abc", max_size=3),
    shared_characters=st.integers(0, 9),
    fresh=st.sampled_from(("", "2026-11-01T00:00:00")),
)


@settings(max_examples=30, deadline=None)
@given(REQUESTS, st.booleans())
def test_a_request_arrives_as_it_was(request: Request, public: bool) -> None:
    text = wire.write_request(request, "t", public=public)
    (read,) = wire.read_requests(f'[{{"id":7,{text}]', MODELS)
    assert read == WorkerRequest(7, "t", request, public)
    assert isinstance(read, WorkerRequest)
    assert read.request.digest == request.digest


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"more": 1}, "`more` is not a key"),
        ({"messages": "secret words"}, "`messages` must be of type list, not a text"),
        ({"messages": []}, "`messages` is empty"),
        ({"messages": [["tool", "secret words"]]}, r"messages\[0\] must be"),
        ({"messages": [["user", 5]]}, r"messages\[0\] must be"),
        ({"max_tokens": 0}, "`max_tokens` must be from 1"),
        ({"max_tokens": True}, "`max_tokens` must be of type int"),
        ({"max_tokens": 2**40}, "`max_tokens` must be from 1"),
        ({"sample": -1}, "`sample` must be from 0"),
        ({"temperature": float("nan")}, "`temperature` must be from 0 to 2, not nan"),
        ({"stop": [""]}, "`stop` must be"),
        ({"schema": []}, "`schema` must be of type dict, not a list"),
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


def test_a_request_without_a_key_is_refused() -> None:
    ((_, problem),) = wire.read_requests(json.dumps([{"id": 1, "model": OUTSIDE.name}]), MODELS)  # type: ignore[misc]
    assert str(problem) == "the request lacks `tag`, `messages`, `max_tokens`"


@pytest.mark.parametrize("text", ["", "{", '{"id": 1}', "null", "5", "[5]", "[null]", '[{"id": "x"}]', "[" * 9999])
def test_what_is_no_message_raises_one_error(text: str) -> None:
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
