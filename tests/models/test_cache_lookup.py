"""A completion is found if it was bought for the request, or for one that stood in its place in an earlier version."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import pytest

from medhelm.domain import Completion, Failure, Message, Model, Prompt, Request
from medhelm.models.cache import KnownCompletion, find_completion
from tests.support.stores import make_model

PROMPT = Prompt((Message("user", "Why?"),))


def request(model: Model, **changes: object) -> Request:
    return Request(**{"model": model, "prompt": PROMPT, "max_tokens": 5, **changes})  # type: ignore[arg-type]


def find(one: Request, bought: dict[bytes, Completion]) -> KnownCompletion | None:
    return find_completion(one, one.digest, lambda digest, model: None if model else bought.get(digest))


def digest_before(one: Request) -> bytes:
    """The digest of versions 0.1 and 0.2, spelled out."""
    model = one.model
    identity = [
        [model.provider, model.base_url, model.remote_name, model.reasoning, model.reasoning_effort],
        sorted(model.parameters.items()),
        [["user", "Why?"]],
        [one.max_tokens, 0.0, [], 0],
    ]
    content = hashlib.sha256(json.dumps(identity).encode())
    if not model.scope:
        return content.digest()
    return hashlib.sha256(json.dumps([content.hexdigest(), model.scope, ""]).encode()).digest()


@pytest.mark.parametrize(
    ("model", "is_same"),
    [
        (make_model("openai/gpt-4o"), True),
        (make_model("openai/gpt-5", reasoning=True), True),
        (make_model("anthropic/claude-opus-5", provider="anthropic", reasoning=True), True),
        (make_model("azure/ours", provider="azure", reasoning=True), True),
        (make_model("openai/deepseek-r1", reasoning=True), False),
        (make_model("openai/gpt-oss-120b", reasoning=True), False),
        (make_model("openai/deepseek-r1", reasoning=True, scope="mine"), False),
    ],
)
def test_nothing_that_was_bought_is_bought_again(model: Model, is_same: bool) -> None:
    """Digests are as they were, except for models that are sent a temperature now; those find what they have."""
    one = request(model)
    before = digest_before(one)
    assert (one.digest == before) is is_same
    found = find(one, {before: Completion(text="B")})
    assert found is not None
    assert (found.digest, found.completion.text) == (before, "B")
    assert found.completion.refused_parameters == (() if is_same else ("temperature",))
    assert find(replace(one, fresh="2026-01-01"), {before: Completion(text="B")}) is None


def test_a_completion_with_room_for_reasoning_is_used_if_the_other_is_missing_or_was_used_up() -> None:
    one = request(make_model("openai/new"))
    roomy = replace(one, max_tokens=4000)
    used_up = Completion(failure=Failure("provider", "length", "no room"), finish_reason="length")
    said, longer = Completion(text="A"), Completion(text="B")
    for bought, text in (
        ({one.digest: said, roomy.digest: longer}, "A"),
        ({roomy.digest: longer}, "B"),
        ({one.digest: used_up, roomy.digest: longer}, "B"),
    ):
        found = find(one, bought)
        assert found is not None
        assert found.completion.text == text
    assert find(one, {one.digest: used_up}) == KnownCompletion(one.digest, used_up)
    limited = request(make_model("openai/new", max_tokens=5))
    assert find(limited, {roomy.digest: longer}) is None
