"""Ollama and llama.cpp's server, as they answer by their documentation: what is found out about them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medhelm.domain import Completion, Message, Model, Prompt, Request, Usage
from medhelm.domain.completion import ModelCheck
from medhelm.errors import ProviderError, UserError
from medhelm.io.http.client import HttpClient
from medhelm.io.http.egress import EgressPolicy
from medhelm.models import model_check
from medhelm.models.catalog import find_models
from medhelm.models.model_check import check
from medhelm.models.providers import local_servers, open_provider
from medhelm.models.providers.local_servers import was_truncated
from tests.support.benchmarks.choice import make_benchmark
from tests.support.cli import Medhelm
from tests.support.servers.openai import Answer, Server

TAGS = {"models": [{"name": "llama3.2:latest", "model": "llama3.2:latest"}, {"name": "qwen3:8b", "model": "qwen3:8b"}]}
NOT_FOUND = Answer(
    status=404, body={"error": {"message": 'model "mistral" not found, try pulling it first', "type": "api_error"}}
)


def chat(*, prompt: int = 20, output: int = 1) -> Answer:
    usage = {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}
    choice = {"index": 0, "message": {"role": "assistant", "content": '{"reply": "OK"}'}, "finish_reason": "stop"}
    return Answer(body={"object": "chat.completion", "model": "llama3.2", "choices": [choice], "usage": usage})


def running(window: int | None) -> dict[str, Any]:
    return {"models": [{"name": "llama3.2:latest", "model": "llama3.2:latest", "context_length": window}]}


def ollama(**changes: Any) -> dict[str, Answer]:
    """Path -> answer, of an Ollama that runs llama3.2."""
    answers: dict[str, Any] = {
        "/api/version": {"version": "0.12.3"},
        "/api/tags": TAGS,
        "/api/ps": running(4096),
        "/api/show": {"parameters": 'stop "<|eot_id|>"\nnum_ctx                        2048', "model_info": {}},
        "/v1/chat/completions": chat(),
    }
    answers |= changes
    return {path: answer if isinstance(answer, Answer) else Answer(body=answer) for path, answer in answers.items()}


def llamacpp(window: int = 8192, completions: Answer | None = None) -> dict[str, Answer]:
    return {
        "/props": Answer(body={"default_generation_settings": {"n_ctx": window}, "total_slots": 4}),
        "/v1/chat/completions": completions or chat(),
    }


@contextmanager
def serving(answers: Mapping[str, Answer]) -> Iterator[Server]:
    """A server with these paths; all others are not found."""
    with Server() as server:

        def answer(_: dict[str, Any]) -> Answer:
            path = server.paths[-1].partition("?")[0]
            return answers.get(path, Answer(status=404, body=b"404 page not found"))

        server.answer_with(answer)
        yield server


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def named(name: str, **environment: str) -> Model:
    (model,) = find_models([name], file=None, environment=environment)
    return model


def probe(name: str) -> ModelCheck:
    (checked,) = check([named(name)], environment={})
    return checked


@pytest.mark.parametrize(
    ("name", "host", "address"),
    [
        ("ollama/m", "", "http://127.0.0.1:11434/v1"),
        ("ollama/m", "0.0.0.0:8000", "http://127.0.0.1:8000/v1"),
        ("ollama/m", "[::]:8000", "http://127.0.0.1:8000/v1"),
        ("ollama/m", "[::1]", "http://[::1]:11434/v1"),
        ("ollama/m", "gpu-box", "http://gpu-box:11434/v1"),
        ("ollama/m", " https://llm.org/ ", "https://llm.org:443/v1"),
        ("ollama/m@http://127.0.0.1:9", "", "http://127.0.0.1:9/v1"),
        ("ollama/m@http://127.0.0.1:9/api/chat", "", "http://127.0.0.1:9/v1"),
        ("llamacpp/m", "gpu-box", "http://127.0.0.1:8080/v1"),
    ],
)
def test_where_they_are(name: str, host: str, address: str) -> None:
    assert named(name, OLLAMA_HOST=host).base_url == address


@pytest.mark.parametrize("host", ["http://llm.org", "ftp://x", "a b", "user:secret@host"])
def test_a_host_that_is_none(host: str) -> None:
    with pytest.raises(UserError, match=r"model `ollama/m`: OLLAMA_HOST: ") as raised:
        named("ollama/m", OLLAMA_HOST=host)
    assert "secret" not in str(raised.value)


def test_a_model_that_was_not_pulled() -> None:
    with serving(ollama(**{"/v1/chat/completions": NOT_FOUND})) as server:
        checked = probe(f"ollama/lama3.2@{server.url}")
        other = probe(f"ollama/mistral@{server.url}")
    assert checked.answer.failure is not None
    assert checked.answer.failure.code == "unknown_model"
    assert checked.names == ["llama3.2:latest", "qwen3:8b"]
    assert checked.advice == "Pull it first: ollama pull lama3.2. Did you mean `llama3.2:latest`?"
    assert other.advice == "Pull it first: ollama pull mistral."
    with serving(ollama(**{"/v1/chat/completions": NOT_FOUND, "/api/tags": {"models": []}})) as server:
        advice = probe(f"ollama/mistral@{server.url}").advice
    assert advice == "Pull it first: ollama pull mistral. It has no models yet."


def test_a_server_that_never_answers_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert model_check.TIMEOUT_S <= 60
    monkeypatch.setattr(model_check, "TIMEOUT_S", 0.3)
    monkeypatch.setattr(local_servers, "TIMEOUT_S", 0.3)
    with Server(Answer(ending="hang")) as server:
        checked = probe(f"ollama/m@{server.url}")
        assert checked.answer.failure is not None
        assert checked.answer.failure.code == "timeout"
        assert server.paths == ["/v1/chat/completions"]


SMALL = {
    "Ollama": (
        ollama(),
        ("4,096 tokens; longer prompts are silently truncated", "OLLAMA_CONTEXT_LENGTH=32768 ollama serve"),
    ),
    "older Ollama": (ollama(**{"/api/ps": running(None)}), ("2,048 tokens",)),
    "Ollama that does not tell": (ollama(**{"/api/ps": {}, "/api/show": Answer(status=404, body=b"")}), ()),
    "large Ollama": (ollama(**{"/api/ps": running(131_072)}), ()),
    "llama.cpp": (llamacpp(4096), ("4,096 tokens per concurrent request", "--ctx-size 32768")),
    "large llama.cpp": (llamacpp(32_768), ()),
}
"""A server's answers -> words of the advice on its window."""


@pytest.mark.parametrize(("answers", "words"), SMALL.values(), ids=SMALL)
def test_a_small_window_is_reported_and_a_large_or_unknown_one_is_not(
    answers: Mapping[str, Answer], words: tuple[str, ...]
) -> None:
    name = "ollama/llama3.2" if "/api/tags" in answers else "llamacpp/m"
    with serving(answers) as server:
        checked = probe(f"{name}@{server.url}")
    assert checked.answer.text == '{"reply": "OK"}'
    assert [text for text in words if text not in checked.advice] == []
    assert words or checked.advice == ""


@pytest.mark.parametrize(
    ("prompt", "output", "fewest", "cut"),
    [(4096, 0, 0, True), (4095, 1, 0, True), (4000, 96, 0, False), (4000, 97, 0, True), (20, 5, 0, False),
     (2050, 1, 3000, True), (2048, 1, 2049, True), (2051, 1, 3000, False), (2050, 1, 1500, False)],
)  # fmt: skip
def test_a_prompt_that_was_cut_to_the_window_or_half_of_it_shows_in_the_counts(
    prompt: int, output: int, fewest: int, cut: bool
) -> None:
    completion = Completion(text="x", usage=Usage(input=prompt, output=output))
    assert was_truncated(completion, 4096, *([fewest] if fewest else [])) is cut


def test_a_prompt_that_llama_cpp_cannot_hold() -> None:
    error = {"code": 400, "type": "exceed_context_size_error", "message": "request (99 tokens) exceeds the available"}
    with serving(llamacpp(64, Answer(status=400, body={"error": error}))) as server:
        checked = probe(f"llamacpp/m@{server.url}")
    assert checked.answer.failure is not None
    assert checked.answer.failure.code == "context_length"
    assert "Its context window is 64 tokens" in checked.advice


def ask(server: Server, *texts: str) -> list[Completion | ProviderError]:
    model = named(f"ollama/llama3.2@{server.url}")

    async def run() -> list[Completion | ProviderError]:
        http = HttpClient(EgressPolicy(offline=True))
        provider = open_provider(model, http, environment={})
        found: list[Completion | ProviderError] = []
        for text in texts:
            request = Request(model=model, prompt=Prompt((Message("user", text),)), max_tokens=5)
            try:
                found.append(await provider.complete(request))
            except ProviderError as error:
                found.append(error)
        await http.close()
        return found

    return asyncio.run(run())


def test_in_a_run_a_cut_prompt_is_a_failure_and_not_an_answer() -> None:
    answers = ollama()
    with serving(answers) as server:
        answers["/v1/chat/completions"] = chat(prompt=4096)
        (cut,) = ask(server, "long")
        answers["/v1/chat/completions"] = chat(prompt=300)
        whole, again = ask(server, "short", "short")
        paths = server.paths
    assert isinstance(cut, ProviderError)
    assert (cut.code, cut.fatal, cut.retryable) == ("context_length", False, False)
    assert "with a context window of 4,096 tokens and silently truncates longer prompts" in str(cut)
    assert isinstance(whole, Completion)
    assert isinstance(again, Completion)
    assert paths.count("/api/ps") == 2  # once for each of the two sessions


def test_half_of_the_window_of_ollama_is_learned_and_the_prompt_is_shortened(medhelm: Medhelm) -> None:
    """Ollama drops half of a prompt that is too long, and reports 2,050 tokens for a window of 4,096."""
    make_benchmark(Path(), n=1, extra="")
    note = "The patient was seen in clinic and the wound was clean. " * 560
    rows = [{"id": "q0", "question": note, "answer": "A", "topic": "0"}]
    Path("toy/rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    answers = ollama()
    with serving(answers) as server:
        answers["/v1/chat/completions"] = chat(prompt=2050)
        done = medhelm("run", "./toy", "--model", f"ollama/llama3.2@{server.url}", "--json")
    assert done.json["runs"][0]["n_failed"] == 1
    assert "reads 4,096 tokens, says its server" in done.err


@pytest.mark.parametrize("parameters", [{"num_ctx": 8192}, {"options": {"num_ctx": 8192}}])
def test_a_window_that_ollama_would_not_hear_of_is_refused(parameters: dict[str, Any]) -> None:
    model = replace(named("ollama/llama3.2"), parameters=parameters)
    with pytest.raises(UserError, match="is ignored by Ollama") as raised:
        open_provider(model, HttpClient(EgressPolicy(offline=True)), environment={})
    assert "OLLAMA_CONTEXT_LENGTH=32768 ollama serve" in str(raised.value)
    assert "PARAMETER num_ctx 32768" in str(raised.value)
