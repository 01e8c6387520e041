"""What is sent to the Gemini API and to Vertex AI, and what of their own their replies hold."""

from __future__ import annotations

from typing import Any

import pytest

from medhelm.domain import Completion, Message, Prompt, Usage
from medhelm.errors import ProviderError
from medhelm.models.providers.google import Google
from tests.support.cases import table
from tests.support.models.providers import asked, payload
from tests.support.servers.vendors import GOOGLE, VERTEX

HOST = "https://generativelanguage.googleapis.com"
MODEL = GOOGLE.model(HOST)


def read(**changes: Any) -> Completion:
    """What is read of a reply with these changes."""
    return Google(MODEL).read({**GOOGLE.said("A"), **changes}, asked(MODEL))


def thinking(**settings: object) -> dict[str, Any]:
    return {"thinkingConfig": settings}


JSON = {"responseMimeType": "application/json"}
SCHEMA = {"type": "object"}


@table(
    ("settings", "request_settings", "config"),
    [
        ({}, {"stop": ("\n",), "schema": SCHEMA}, {"stopSequences": ["\n"], **JSON, "responseJsonSchema": SCHEMA}),
        ({"parameters": JSON}, {"schema": SCHEMA}, JSON),  # a form of the user's own
        (
            {"remote_name": "gemini-2.5-flash", "reasoning": True, "reasoning_effort": "medium"},
            {},
            thinking(thinkingBudget=8192),
        ),
        ({"remote_name": "gemini-2.5-flash", "reasoning_effort": "none"}, {}, thinking(thinkingBudget=0)),
        (
            {"remote_name": "gemini-3-pro-preview", "reasoning": True, "reasoning_effort": "low"},
            {},
            thinking(thinkingLevel="LOW"),
        ),
        (
            {"parameters": {"topK": 1, "temperature": None, "seed": 7, **thinking(thinkingBudget=128)}},
            {"sample": 2},
            {"topK": 1, "seed": 9, "temperature": None, **thinking(thinkingBudget=128)},
        ),
    ],
)
def test_each_kind_of_request(
    settings: dict[str, Any], request_settings: dict[str, Any], config: dict[str, Any]
) -> None:
    """`config` beside what is always sent; None: what is not."""
    expected = {"maxOutputTokens": 5, "seed": 0, "temperature": 0.0, **config}
    assert payload(Google, asked(GOOGLE.model(HOST, **settings), **request_settings)) == {
        "contents": [{"role": "user", "parts": [{"text": "Is it?"}]}],
        "generationConfig": {name: value for name, value in expected.items() if value is not None},
    }


def test_roles_and_the_system_message_and_parameters_beside_the_configuration() -> None:
    turns = (Message("system", "Be brief."), Message("user", "A?"), Message("assistant", "B."), Message("user", "C?"))
    safety = [{"category": "HARM_CATEGORY_DANGEROUS_CONTENT", "threshold": "BLOCK_NONE"}]
    body = payload(Google, asked(GOOGLE.model(HOST, parameters={"safetySettings": safety}), prompt=Prompt(turns)))
    assert body["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
    spoken = [(turn["role"], turn["parts"][0]["text"]) for turn in body["contents"]]
    assert spoken == [("user", "A?"), ("model", "B."), ("user", "C?")]
    assert (body["safetySettings"], "safetySettings" in body["generationConfig"]) == (safety, False)


@table(
    ("vendor", "name", "path"),
    [
        (GOOGLE, "tunedModels/mine-1", "/tunedModels/mine-1:generateContent"),
        (GOOGLE, "odd name?", "/models/odd%20name%3F:generateContent"),
        (VERTEX, "gemini-2.5-pro", "/publishers/google/models/gemini-2.5-pro:generateContent"),
        (VERTEX, "endpoints/123", "/endpoints/123:generateContent"),
    ],
)
def test_where_requests_go(vendor: Any, name: str, path: str) -> None:
    model = vendor.model("https://host.example", remote_name=name)
    assert Google(model).url == model.base_url + path


def test_each_service_gets_its_key_in_its_own_header_and_never_in_the_address() -> None:
    gemini, vertex = Google(MODEL, key="AIzaInvented"), Google(VERTEX.model("https://v.example"), key="ya29.x")
    assert gemini.headers(b"") == {"x-goog-api-key": "AIzaInvented"}
    assert vertex.headers(b"") == {"Authorization": "Bearer ya29.x"}
    assert Google(MODEL).headers(b"") == {}
    assert "AIzaInvented" not in gemini.url + gemini.names_url
    assert (gemini.names_url, vertex.names_url) == (f"{HOST}/v1beta/models?pageSize=1000", "")
    assert gemini.names_in({"models": [{"name": "models/gemini-a"}, {"name": None}, 5]}) == ["gemini-a"]


def test_a_filter_is_a_refusal_and_says_which() -> None:
    candidate = {**GOOGLE.said("partial", finish="BLOCKLIST")["candidates"][0], "finishMessage": "Because."}
    failure = read(candidates=[candidate]).failure
    assert failure is not None
    assert failure.message == "the provider's filter ended the completion (BLOCKLIST): Because."


def test_an_answer_that_was_broken_off_is_asked_again() -> None:
    for reason in ("OTHER", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL"):
        with pytest.raises(ProviderError) as raised:
            read(**GOOGLE.said("half", finish=reason))
        assert (raised.value.code, raised.value.retryable) == ("interrupted", True)


@table("content", [None, {"parts": []}, {"parts": [{"text": ""}]}, {"role": "model"}])
def test_a_stop_without_a_word_is_a_blank_completion_and_the_first_by_index_counts(content: object) -> None:
    candidates = [{"index": n, "finishReason": "STOP", "content": {"parts": [{"text": "AB"[n]}]}} for n in (1, 0)]
    assert read(candidates=candidates).text == "A"
    assert read(candidates=[candidates[0], {**candidates[1], "content": content}]).text == ""


@table("candidates", [None, [{}], [{"content": {"parts": []}}]])
def test_a_reply_without_a_finished_candidate_is_malformed(candidates: object) -> None:
    with pytest.raises(ProviderError, match="holds no completion"):
        read(candidates=candidates)


def test_no_more_is_cached_than_was_read() -> None:
    usage = {"promptTokenCount": 8, "cachedContentTokenCount": 60, "thoughtsTokenCount": 30}
    assert read(usageMetadata=usage).usage == Usage(input=8, cached_input=8, output=30, reasoning=30)
