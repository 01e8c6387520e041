"""Completions are handed out without reasoning; the cache keeps what was received."""

from __future__ import annotations

from dataclasses import replace

import pytest

from medhelm.domain import Completion, Message, Prompt, Request, Usage
from medhelm.models.provider import separate_reasoning
from tests.support.stores import make_model

REQUEST = Request(model=make_model("openai/m"), prompt=Prompt((Message("user", "Why?"),)), max_tokens=9)


def separated(text: str, finish: str = "stop", request: Request = REQUEST, **usage: int) -> Completion:
    found = Completion(text=text, finish_reason=finish, usage=Usage(input=5, output=10, **usage))
    return separate_reasoning(found, request)


def test_the_share_of_reasoning_is_estimated_unless_it_was_counted() -> None:
    found = separated("<think>A or B?</think>B")
    assert (found.text, found.usage.reasoning, found.reasoning) == ("B", 9, "A or B?")
    assert separated("<think>A or B?</think>B", reasoning=4).usage.reasoning == 4
    assert separated("B") == Completion(text="B", finish_reason="stop", usage=Usage(input=5, output=10))


@pytest.mark.parametrize("text", ["<think>A or", "analysisThe dose"])
def test_a_limit_that_went_into_reasoning_is_a_failure(text: str) -> None:
    found = separated(text, "length")
    assert found.failure is not None
    assert (found.text, found.failure.code) == (None, "length")
    assert "all 10 tokens" in found.failure.message
    assert separated(text).text == ""
    assert separated(text).usage.reasoning == 10


def test_only_the_beginning_counts_for_a_reply_with_a_schema() -> None:
    judge = replace(REQUEST, schema={"type": "object"})
    quoting = '{"explanation": "it says </think>{}"}'
    assert separated(quoting, request=judge).text == quoting
    assert separated(f"<think>hm</think>{quoting}", request=judge).text == quoting
