"""What is sent to the Gemini API and to Vertex AI, and what of their own their replies hold."""

from __future__ import annotations

from typing import Any

import pytest

from medhelm.domain import Message, Model, Prompt, Request, Usage
from medhelm.errors import ProviderError
from medhelm.models.providers.google import Google
from tests.support.cases import table
from tests.support.servers.vendors import GOOGLE

SCHEMA = {"type": "object"}
CONTENTS = [{"role": "user", "parts": [{"text": "Is it?"}]}]


def model(remote_name: str = "gemini-2.0-flash", **settings: Any) -> Model:
    known = {"name": f"google/{remote_name}", "provider": "google", "remote_name": remote_name}
    return Model(**{**known, "base_url": "https://generativelanguage.googleapis.com/v1beta", **settings})


def request(asked: Model, **settings: Any) -> Request:
    prompt = Prompt((Message("user", "Is it?"),))
    return Request(**{"model": asked, "prompt": prompt, "max_tokens": 5, **settings})


def payload(asked: Model, **settings: Any) -> dict[str, Any]:
    """What is sent while nothing was refused."""
    dialect, one = Google(asked), request(asked, **settings)
    return dialect.payload(one, dialect.optional_parameters(one))


def thinking(**settings: object) -> dict[str, Any]:
    return {"thinkingConfig": settings}


JSON = "application/json"
CONFIGS: dict[str, tuple[Model, dict[str, Any], dict[str, Any]]] = {
    "plain": (model(), {}, {}),
    "stop": (model(), {"stop": ("\n",)}, {"stopSequences": ["\n"]}),
    "schema": (model(), {"schema": SCHEMA}, {"responseMimeType": JSON, "responseJsonSchema": SCHEMA}),
    "form of the user's own": (
        model(parameters={"responseMimeType": JSON}), {"schema": SCHEMA}, {"responseMimeType": JSON}
    ),
    "thinks, no effort": (model("gemini-2.5-pro", reasoning=True), {}, {}),
    "2.5 with a budget": (
        model("gemini-2.5-flash", reasoning=True, reasoning_effort="medium"), {}, thinking(thinkingBudget=8192)
    ),
    "2.5 told not to think": (model("gemini-2.5-flash", reasoning_effort="none"), {}, thinking(thinkingBudget=0)),
    "3 with a level": (
        model("gemini-3-pro-preview", reasoning=True, reasoning_effort="low"), {}, thinking(thinkingLevel="LOW")
    ),
    "parameters": (
        model(parameters={"topK": 1, "temperature": None, "seed": 7}), {"sample": 2},
        {"topK": 1, "seed": 9, "temperature": None},
    ),
    "thinking by parameter": (
        model("gemini-2.5-pro", reasoning=True, parameters=thinking(thinkingBudget=128)), {},
        thinking(thinkingBudget=128),
    ),
}  # fmt: skip
"""Model, settings of the request -> its configuration beside the limit; None: what it lacks."""


@table(("asked", "settings", "config"), CONFIGS.values(), ids=CONFIGS)
def test_each_kind_of_request(asked: Model, settings: dict[str, Any], config: dict[str, Any]) -> None:
    expected = {"maxOutputTokens": 5, "seed": 0, "temperature": 0.0, **config}
    assert payload(asked, **settings) == {
        "contents": CONTENTS,
        "generationConfig": {name: value for name, value in expected.items() if value is not None},
    }


def test_roles_and_the_system_message_and_parameters_beside_the_configuration() -> None:
    turns = (Message("system", "Be brief."), Message("user", "A?"), Message("assistant", "B."), Message("user", "C?"))
    safety = [{"category": "HARM_CATEGORY_DANGEROUS_CONTENT", "threshold": "BLOCK_NONE"}]
    body = payload(model(parameters={"safetySettings": safety}), prompt=Prompt(turns))
    assert body["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
    spoken = [(turn["role"], turn["parts"][0]["text"]) for turn in body["contents"]]
    assert spoken == [("user", "A?"), ("model", "B."), ("user", "C?")]
    assert body["safetySettings"] == safety
    assert "safetySettings" not in body["generationConfig"]


VERTEX = "https://us-central1-aiplatform.googleapis.com/v1/projects/p/locations/us-central1"


@table(
    ("provider", "name", "url"),
    [
        ("google", "gemini-2.5-pro", "/models/gemini-2.5-pro:generateContent"),
        ("google", "models/gemini-2.5-pro", "/models/gemini-2.5-pro:generateContent"),
        ("google", "tunedModels/mine-1", "/tunedModels/mine-1:generateContent"),
        ("vertex", "gemini-2.5-pro", "/publishers/google/models/gemini-2.5-pro:generateContent"),
        ("vertex", "gemini-1.5-pro@001", "/publishers/google/models/gemini-1.5-pro@001:generateContent"),
        ("vertex", "endpoints/123", "/endpoints/123:generateContent"),
        ("vertex", "publishers/x/models/y", "/publishers/x/models/y:generateContent"),
        ("google", "odd name?", "/models/odd%20name%3F:generateContent"),
    ],
)
def test_where_requests_go(provider: str, name: str, url: str) -> None:
    asked = model(name, provider=provider, **({"base_url": VERTEX} if provider == "vertex" else {}))
    assert Google(asked).url == asked.base_url + url


def test_each_service_gets_its_key_in_its_own_header_and_never_in_the_address() -> None:
    gemini, vertex = Google(model(), key="AIzaInvented"), Google(model(provider="vertex"), key="ya29.x")
    assert gemini.headers(b"") == {"x-goog-api-key": "AIzaInvented"}
    assert vertex.headers(b"") == {"Authorization": "Bearer ya29.x"}
    assert Google(model()).headers(b"") == {}
    assert "AIzaInvented" not in gemini.url + gemini.names_url
    assert vertex.names_url == ""
    assert gemini.names_url.endswith("/v1beta/models?pageSize=1000")
    assert gemini.names_in({"models": [{"name": "models/gemini-a"}, {"name": None}, 5]}) == ["gemini-a"]


@pytest.mark.parametrize("reason", ["LANGUAGE", "BLOCKLIST"])
def test_a_filter_is_a_refusal_and_says_which(reason: str) -> None:
    body = GOOGLE.said("partial", finish=reason)
    body["candidates"][0]["finishMessage"] = "Because."
    completion = Google(model()).read(body, request(model()))
    assert completion.failure is not None
    assert completion.failure.message == f"the provider's filter ended the completion ({reason}): Because."
    assert completion.usage.input == 20


@pytest.mark.parametrize("reason", ["OTHER", "MALFORMED_RESPONSE", "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"])
def test_an_answer_that_was_broken_off_is_asked_again(reason: str) -> None:
    with pytest.raises(ProviderError) as raised:
        Google(model()).read(GOOGLE.said("half", finish=reason), request(model()))
    assert (raised.value.code, raised.value.retryable) == ("interrupted", True)


@pytest.mark.parametrize("content", [None, {}, {"parts": []}, {"parts": [{"text": ""}]}, {"role": "model"}])
def test_a_stop_without_a_word_is_a_blank_completion(content: object) -> None:
    later = {"index": 1, "finishReason": "STOP", "content": {"parts": [{"text": "B"}]}}
    body = {**GOOGLE.said(None), "candidates": [later, {"index": 0, "finishReason": "STOP", "content": content}]}
    assert Google(model()).read(body, request(model())).text == ""


@pytest.mark.parametrize("candidates", [[], None, [{}], [{"content": {"parts": []}}]])
def test_a_reply_without_a_finished_candidate_is_malformed(candidates: object) -> None:
    with pytest.raises(ProviderError, match="holds no completion"):
        Google(model()).read({"candidates": candidates}, request(model()))


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"promptTokenCount": 8, "candidatesTokenCount": 5}, Usage(input=8, output=5)),
        (
            {"promptTokenCount": 8, "candidatesTokenCount": 5, "thoughtsTokenCount": 30},
            Usage(input=8, output=35, reasoning=30),
        ),
        ({"promptTokenCount": 8, "thoughtsTokenCount": 30}, Usage(input=8, output=30, reasoning=30)),
        ({"promptTokenCount": 8, "cachedContentTokenCount": 6}, Usage(input=8, cached_input=6)),
        ({"promptTokenCount": 8, "cachedContentTokenCount": 60}, Usage(input=8, cached_input=8)),
        (None, Usage()),
    ],
)
def test_thoughts_are_counted_beside_the_answer(usage: Any, tokens: Usage) -> None:
    assert Google(model()).read({**GOOGLE.said("A"), "usageMetadata": usage}, request(model())).usage == tokens


def test_the_first_candidate_by_index_counts() -> None:
    candidates = [
        {"index": n, "finishReason": "STOP", "content": {"parts": [{"text": text}]}} for n, text in ((1, "B"), (0, "A"))
    ]
    assert Google(model()).read({"candidates": candidates}, request(model())).text == "A"
