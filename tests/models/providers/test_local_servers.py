"""Ollama and llama.cpp's server, as they answer by their documentation: what is found out about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from medhelm.domain import Completion, Model, Usage
from medhelm.domain.completion import ModelCheck
from medhelm.errors import ProviderError, UserError
from medhelm.io.http.client import HttpClient
from medhelm.io.http.egress import EgressPolicy
from medhelm.models import model_check
from medhelm.models.catalog import find_models
from medhelm.models.model_check import check
from medhelm.models.providers import local_servers, open_provider
from medhelm.models.providers.local_servers import was_truncated
from tests.support.models.providers import asked, with_provider
from tests.support.servers.openai import Answer, Server

CHAT = "/v1/chat/completions"
NOT_FOUND = Answer(status=404, body={"error": {"message": 'model "mistral" not found, try pulling it first'}})


def chat(prompt: int = 20) -> Answer:
    choice = {"message": {"role": "assistant", "content": '{"reply": "OK"}'}, "finish_reason": "stop"}
    return Answer(body={"choices": [choice], "usage": {"prompt_tokens": prompt, "completion_tokens": 1}})


def running(window: int | None) -> dict[str, Any]:
    return {"models": [{"name": "llama3.2:latest", "model": "llama3.2:latest", "context_length": window}]}


def ollama(**changes: Any) -> dict[str, Any]:
    """Path -> answer, of an Ollama that runs llama3.2."""
    return {
        "/api/version": {"version": "0.12.3"},
        "/api/tags": {"models": [{"name": name, "model": name} for name in ("llama3.2:latest", "qwen3:8b")]},
        "/api/ps": running(4096),
        "/api/show": {"parameters": 'stop "<|eot_id|>"\nnum_ctx                        2048', "model_info": {}},
        CHAT: chat(),
        **changes,
    }


def llamacpp(window: int, completions: Answer | None = None) -> dict[str, Any]:
    return {
        "/props": {"default_generation_settings": {"n_ctx": window}, "total_slots": 4},
        CHAT: completions or chat(),
    }


@contextmanager
def serving(answers: Mapping[str, Any]) -> Iterator[Server]:
    """A server with these paths; all others are not found."""
    with Server() as server:

        def answer(_: dict[str, Any]) -> Answer:
            found = answers.get(server.paths[-1].partition("?")[0], Answer(status=404, body=b"404 page not found"))
            return found if isinstance(found, Answer) else Answer(body=found)

        server.answer_with(answer)
        yield server


def named(name: str, **environment: str) -> Model:
    (model,) = find_models([name], file=None, environment=environment)
    return model


def probe(name: str, answers: Mapping[str, Any]) -> ModelCheck:
    with serving(answers) as server:
        (checked,) = check([named(f"{name}@{server.url}")], environment={})
    return checked


def test_where_they_are() -> None:
    addresses = {
        "": "http://127.0.0.1:11434/v1",
        "0.0.0.0:8000": "http://127.0.0.1:8000/v1",
        "[::1]": "http://[::1]:11434/v1",
        " https://llm.org/ ": "https://llm.org:443/v1",
    }
    assert {host: named("ollama/m", OLLAMA_HOST=host).base_url for host in addresses} == addresses
    assert named("ollama/m@http://127.0.0.1:9/api/chat").base_url == "http://127.0.0.1:9/v1"
    assert named("llamacpp/m", OLLAMA_HOST="gpu-box").base_url == "http://127.0.0.1:8080/v1"
    for host in ("http://llm.org", "user:secret@host"):
        with pytest.raises(UserError, match=r"model `ollama/m`: OLLAMA_HOST: ") as raised:
            named("ollama/m", OLLAMA_HOST=host)
        assert "secret" not in str(raised.value)


def test_a_model_that_was_not_pulled() -> None:
    checked = probe("ollama/lama3.2", ollama(**{CHAT: NOT_FOUND}))
    assert "unknown_model" in repr(checked.answer.failure)
    assert checked.names == ["llama3.2:latest", "qwen3:8b"]
    assert checked.advice == "Pull it first: ollama pull lama3.2. Did you mean `llama3.2:latest`?"
    empty = probe("ollama/mistral", ollama(**{CHAT: NOT_FOUND, "/api/tags": {"models": []}}))
    assert empty.advice == "Pull it first: ollama pull mistral. It has no models yet."


def test_a_server_that_never_answers_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert model_check.TIMEOUT_S <= 60
    monkeypatch.setattr(model_check, "TIMEOUT_S", 0.3)
    monkeypatch.setattr(local_servers, "TIMEOUT_S", 0.3)
    with Server(Answer(ending="hang")) as server:
        (checked,) = check([named(f"ollama/m@{server.url}")], environment={})
        assert ("timeout" in repr(checked.answer.failure), server.paths) == (True, [CHAT])


SMALL = {
    "Ollama": (
        ollama(),
        ("4,096 tokens; longer prompts are silently truncated", "OLLAMA_CONTEXT_LENGTH=32768 ollama serve"),
    ),
    "older Ollama": (ollama(**{"/api/ps": running(None)}), ("2,048 tokens",)),
    "Ollama that does not tell": (ollama(**{"/api/ps": {}, "/api/show": Answer(status=404, body=b"")}), ()),
    "llama.cpp": (llamacpp(4096), ("4,096 tokens per concurrent request", "--ctx-size 32768")),
    "large llama.cpp": (llamacpp(32_768), ()),
}
"""A server's answers -> words of the advice on its window."""


@pytest.mark.parametrize(("answers", "words"), SMALL.values(), ids=SMALL)
def test_a_small_window_is_reported_and_a_large_or_unknown_one_is_not(
    answers: Mapping[str, Any], words: tuple[str, ...]
) -> None:
    checked = probe("ollama/llama3.2" if "/api/tags" in answers else "llamacpp/m", answers)
    assert checked.answer.text == '{"reply": "OK"}'
    assert [text for text in words if text not in checked.advice] == []
    assert words or checked.advice == ""


def test_a_prompt_that_llama_cpp_cannot_hold() -> None:
    error = {"code": 400, "type": "exceed_context_size_error", "message": "request (99 tokens) exceeds the available"}
    checked = probe("llamacpp/m", llamacpp(64, Answer(status=400, body={"error": error})))
    assert "context_length" in repr(checked.answer.failure)
    assert "Its context window is 64 tokens" in checked.advice


def test_a_prompt_that_was_cut_to_the_window_or_half_of_it_shows_in_the_counts() -> None:
    """Tokens of prompt and completion, and the fewest that the prompt can have, if that is known."""

    def is_cut(prompt: int, output: int, *fewest: int) -> bool:
        return was_truncated(Completion(text="x", usage=Usage(input=prompt, output=output)), 4096, *fewest)

    assert all(is_cut(*counts) for counts in ((4095, 1), (4000, 97), (2050, 1, 3000), (2048, 1, 2049)))
    assert not any(is_cut(*counts) for counts in ((4000, 96), (2051, 1, 3000), (2050, 1, 1500)))


def test_in_a_run_a_cut_prompt_is_a_failure_and_not_an_answer() -> None:
    answers = ollama(**{CHAT: chat(4096)})
    with serving(answers) as server:
        model = named(f"ollama/llama3.2@{server.url}")

        async def ask_twice(provider: Any) -> list[str | None]:
            return [(await provider.complete(asked(model))).text for _ in range(2)]

        with pytest.raises(ProviderError, match="window of 4,096 tokens and silently truncates longer prompts") as cut:
            with_provider(model, ask_twice)
        answers[CHAT] = chat(300)
        assert with_provider(model, ask_twice) == ['{"reply": "OK"}'] * 2
        assert server.paths.count("/api/ps") == 2  # once for each of the two sessions
    assert (cut.value.code, cut.value.fatal, cut.value.retryable) == ("context_length", False, False)


def test_a_window_that_ollama_would_not_hear_of_is_refused() -> None:
    for parameters in ({"num_ctx": 8192}, {"options": {"num_ctx": 8192}}):
        model = replace(named("ollama/llama3.2"), parameters=parameters)
        with pytest.raises(UserError, match=r"is ignored by Ollama.* OLLAMA_CONTEXT_LENGTH=32768 ollama serve"):
            open_provider(model, HttpClient(EgressPolicy(offline=True)), environment={})
