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


CONFIGS: list[tuple[str, Model, dict[str, Any], dict[str, Any]]] = [
    ("plain", model(), {}, {"temperature": 0.0}),
    ("stop", model(), {"stop": ("\n",)}, {"temperature": 0.0, "stopSequences": ["\n"]}),
    (
        "schema",
        model(),
        {"schema": SCHEMA},
        {"temperature": 0.0, "responseMimeType": "application/json", "responseJsonSchema": SCHEMA},
    ),
    (
        "form of the user's own",
        model(parameters={"responseMimeType": "application/json"}),
        {"schema": SCHEMA},
        {"temperature": 0.0, "responseMimeType": "application/json"},
    ),
    ("thinks, no effort", model("gemini-2.5-pro", reasoning=True), {}, {"temperature": 0.0}),
    (
        "2.5 with a budget",
        model("gemini-2.5-flash", reasoning=True, reasoning_effort="medium"),
        {},
        {"temperature": 0.0, "thinkingConfig": {"thinkingBudget": 8192}},
    ),
    (
        "2.5 told not to think",
        model("gemini-2.5-flash", reasoning_effort="none"),
        {},
        {"temperature": 0.0, "thinkingConfig": {"thinkingBudget": 0}},
    ),
    (
        "3 with a level",
        model("gemini-3-pro-preview", reasoning=True, reasoning_effort="low"),
        {},
        {"temperature": 0.0, "thinkingConfig": {"thinkingLevel": "LOW"}},
    ),
    (
        "parameters",
        model(parameters={"topK": 1, "temperature": None, "seed": 7}),
        {"sample": 2},
        {"topK": 1, "seed": 9},
    ),
    (
        "thinking by parameter",
        model("gemini-2.5-pro", reasoning=True, parameters={"thinkingConfig": {"thinkingBudget": 128}}),
        {},
        {"temperature": 0.0, "thinkingConfig": {"thinkingBudget": 128}},
    ),
]


@table(("asked", "settings", "config"), [case[1:] for case in CONFIGS], ids=[c[0] for c in CONFIGS])
def test_each_kind_of_request(asked: Model, settings: dict[str, Any], config: dict[str, Any]) -> None:
    assert payload(asked, **settings) == {
        "contents": CONTENTS,
        "generationConfig": {"maxOutputTokens": 5, "seed": 0, **config},
    }


def test_some_parameters_stand_beside_the_configuration() -> None:
    settings = [{"category": "HARM_CATEGORY_DANGEROUS_CONTENT", "threshold": "BLOCK_NONE"}]
    body = payload(model(parameters={"safetySettings": settings}))
    assert body["safetySettings"] == settings
    assert "safetySettings" not in body["generationConfig"]


def test_roles_and_the_system_message() -> None:
    turns = (Message("system", "Be brief."), Message("user", "A?"), Message("assistant", "B."), Message("user", "C?"))
    body = payload(model(), prompt=Prompt(turns))
    assert body["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
    assert [(turn["role"], turn["parts"][0]["text"]) for turn in body["contents"]] == [
        ("user", "A?"),
        ("model", "B."),
        ("user", "C?"),
    ]


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


def test_each_service_wants_its_key_in_its_own_way_and_never_in_the_address() -> None:
    gemini, vertex = Google(model(), key="AIzaInvented"), Google(model(provider="vertex"), key="ya29.x")
    assert gemini.headers(b"") == {"x-goog-api-key": "AIzaInvented"}
    assert vertex.headers(b"") == {"Authorization": "Bearer ya29.x"}
    assert Google(model()).headers(b"") == {}
    assert "AIzaInvented" not in gemini.url + gemini.names_url
    assert vertex.names_url == ""


def test_its_models() -> None:
    dialect = Google(model())
    assert dialect.names_url.endswith("/v1beta/models?pageSize=1000")
    assert dialect.names_in({"models": [{"name": "models/gemini-a"}, {"name": None}, 5]}) == ["gemini-a"]


@pytest.mark.parametrize("reason", ["SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"])
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
    body = {**GOOGLE.said(None), "candidates": [{"finishReason": "STOP", "content": content}]}
    assert Google(model()).read(body, request(model())).text == ""


@pytest.mark.parametrize("candidates", [[], None, [{}], [{"content": {"parts": []}}]])
def test_a_reply_without_a_finished_candidate_is_malformed(candidates: object) -> None:
    with pytest.raises(ProviderError, match="holds no completion"):
        Google(model()).read({"candidates": candidates}, request(model()))


def test_the_first_candidate_by_index_counts() -> None:
    parts = [
        {"index": n, "finishReason": "STOP", "content": {"parts": [{"text": text}]}} for n, text in ((1, "B"), (0, "A"))
    ]
    assert Google(model()).read({"candidates": parts}, request(model())).text == "A"


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
