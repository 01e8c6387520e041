"""What is sent to chat completions servers, and where to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from medhelm.domain import Completion, Message, Model, Prompt, Request
from medhelm.errors import ProviderError
from medhelm.io.http.client import HttpClient
from medhelm.io.http.egress import EgressPolicy
from medhelm.models.budget import Budget
from medhelm.models.client import Client, ClientResult, SendingLimits
from medhelm.models.provider import OptionalParameter
from medhelm.models.providers import open_provider
from medhelm.models.providers.hosted import endpoint_of
from medhelm.models.providers.openai import ChatCompletions, completions_url, limit_name
from tests.support.cases import table
from tests.support.servers.openai import Answer, Server

KEY = "sk-test-0123456789"
GOOD = {
    "model": "served-1",
    "choices": [{"message": {"role": "assistant", "content": "A"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 5, "completion_tokens": 1},
}


def model(remote_name: str = "gpt-4o", **settings: Any) -> Model:
    """A model behind some address."""
    base = {"name": f"openai/{remote_name}", "provider": "openai", "base_url": "http://127.0.0.1:8000/v1"}
    return Model(**{**base, "remote_name": remote_name, **settings})


def request(asked: Model, **settings: Any) -> Request:
    """One request with a system message."""
    prompt = Prompt((Message("system", "Be brief."), Message("user", "Is it \N{SNOWMAN}?")))
    return Request(**{"model": asked, "prompt": prompt, "max_tokens": 5, **settings})


MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Is it \N{SNOWMAN}?"}]

PAYLOADS: list[tuple[str, Model, dict[str, Any], dict[str, Any]]] = [
    ("plain", model(), {}, {"max_tokens": 5, "temperature": 0.0}),
    ("stop", model(), {"stop": ("\n",)}, {"max_tokens": 5, "temperature": 0.0, "stop": ["\n"]}),
    ("temperature", model(), {"temperature": 0.7}, {"max_tokens": 5, "temperature": 0.7}),
    ("reasoning by name", model("o3-mini", reasoning=True), {"stop": ("\n",)}, {"max_completion_tokens": 5}),
    ("effort", model("gpt-5", reasoning=True, reasoning_effort="low"), {},
     {"max_completion_tokens": 5, "reasoning_effort": "low"}),
    ("told not to reason", model("gpt-5.1", reasoning=False, reasoning_effort="none"), {},
     {"max_completion_tokens": 5, "temperature": 0.0, "reasoning_effort": "none"}),
    ("open reasoning model", model("deepseek-r1", reasoning=True), {"stop": ("\n",)},
     {"max_tokens": 5, "temperature": 0.0}),
    ("parameters win", model(parameters={"temperature": 0.6, "top_p": 0.95}), {},
     {"max_tokens": 5, "temperature": 0.6, "top_p": 0.95}),
    ("parameters take out", model(parameters={"temperature": None, "seed": None, "x": None}), {},
     {"max_tokens": 5, "seed": None}),
    ("limit by another name", model(parameters={"max_tokens": None, "max_completion_tokens": 9}), {},
     {"temperature": 0.0, "max_completion_tokens": 9}),
    ("seed", model(parameters={"seed": 7}), {"sample": 2}, {"max_tokens": 5, "temperature": 0.0, "seed": 9}),
    ("a seed of each sample", model(), {"sample": 2}, {"max_tokens": 5, "temperature": 0.0, "seed": 2}),
]  # fmt: skip
"""Name, model, settings of the request -> what the body holds beside model and messages; None: what it lacks."""


@table(("asked", "settings", "expected"), [case[1:] for case in PAYLOADS], ids=[case[0] for case in PAYLOADS])
def test_each_kind_of_model_gets_its_payload(asked: Model, settings: Any, expected: dict[str, Any]) -> None:
    usual = {"model": asked.remote_name, "messages": MESSAGES, "seed": settings.get("sample", 0)}
    optional = set(OptionalParameter) - {OptionalParameter.SCHEMA, OptionalParameter.CACHE}
    sent = {name: value for name, value in {**usual, **expected}.items() if value is not None}
    assert ChatCompletions(asked).payload(request(asked, **settings), optional) == sent


@table(
    ("asked", "name"),
    [
        (model("gpt-4o"), "max_tokens"),
        (model("o4-mini-2025-04-16"), "max_completion_tokens"),
        (model("openai/o3"), "max_completion_tokens"),
        (model("gpt-10"), "max_completion_tokens"),
        (model("gpt-oss-20b", reasoning=True), "max_tokens"),
        (model("o200k"), "max_tokens"),
        (model("my-deployment", provider="azure", reasoning=True), "max_completion_tokens"),
        (model("my-deployment", provider="azure"), "max_tokens"),
        (model("ft:x", reasoning=True, base_url="https://api.openai.com/v1"), "max_completion_tokens"),
        (model("ft:x", base_url="https://api.openai.com/v1"), "max_tokens"),
    ],
)
def test_the_limit_goes_by_the_name_the_server_knows(asked: Model, name: str) -> None:
    assert limit_name(asked) == name


@pytest.mark.parametrize(
    ("base_url", "url", "endpoint"),
    [
        ("https://api.openai.com/v1", "https://api.openai.com/v1/chat/completions", "https://api.openai.com:443"),
        ("http://127.0.0.1:8000/v1/", "http://127.0.0.1:8000/v1/chat/completions", "http://127.0.0.1:8000"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1/chat/completions", "http://[::1]:8000"),
        ("http://gpu1", "http://gpu1/chat/completions", "http://gpu1:80"),
        (
            "https://x.openai.azure.com/openai/deployments/d?api-version=2024-10-21",
            "https://x.openai.azure.com/openai/deployments/d/chat/completions?api-version=2024-10-21",
            "https://x.openai.azure.com:443",
        ),
    ],
)
def test_where_requests_go(base_url: str, url: str, endpoint: str) -> None:
    assert (completions_url(base_url), endpoint_of(base_url)) == (url, endpoint)


def ask(asked: Model, environment: Mapping[str, str] | None = None, **settings: Any) -> Completion:
    """Open a provider, ask once, close."""

    async def once() -> Completion:
        http = HttpClient(EgressPolicy(offline=True))
        try:
            provider = open_provider(asked, http, environment=environment or {})
            return await provider.complete(request(asked, **settings))
        finally:
            await http.close()

    return asyncio.run(once())


def at(server: Server, **settings: Any) -> Model:
    """A model at the test server."""
    return model("served", base_url=f"{server.url}/v1", **settings)


def test_one_request_and_its_completion(server: Server) -> None:
    server.script(Answer(body={**GOOD, "system_fingerprint": "fp_44709d6fcb"}))
    completion = ask(at(server, key_variable="SOME_KEY"), {"SOME_KEY": f" {KEY}\n"})
    assert (completion.refused_parameters, completion.fingerprint) == ((), "fp_44709d6fcb")
    assert (completion.text, completion.finish_reason, completion.reported_model) == ("A", "stop", "served-1")
    assert (completion.usage.input, completion.usage.output) == (5, 1)
    assert completion.latency_s > 0
    assert server.paths == ["/v1/chat/completions"]
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    assert server.bodies == [{"model": "served", "messages": MESSAGES, "max_tokens": 5, "temperature": 0.0, "seed": 0}]


def test_a_server_that_knows_no_seed_is_asked_without(server: Server) -> None:
    refused = Answer(status=400, body={"error": {"message": "Unrecognized request argument supplied: seed"}})
    server.answer_with(lambda sent: refused if "seed" in sent else Answer(body=GOOD))
    asked = at(server)

    async def buy() -> list[ClientResult]:
        http = HttpClient(EgressPolicy(offline=True))
        client = Client(cache=None, budget=Budget(None), limits=SendingLimits(attempts=1))
        try:
            provider = open_provider(asked, http, environment={})
            return [await client.complete(provider, request(asked, sample=sample)) for sample in range(2)]
        finally:
            await http.close()

    replies = asyncio.run(buy())
    assert [(reply.completion.text, reply.requests_sent) for reply in replies] == [("A", 2), ("A", 1)]
    assert [reply.completion.refused_parameters for reply in replies] == [("seed",), ("seed",)]


def test_without_a_key_no_key_is_sent(server: Server) -> None:
    server.script(Answer(body=GOOD))
    ask(at(server), {"OPENAI_API_KEY": KEY})
    ask(at(server, key_variable="SOME_KEY"), {})
    for headers in server.headers:
        assert not {"authorization", "api-key"} & set(headers)


def test_azure_gets_its_own_header_and_query(server: Server) -> None:
    server.script(Answer(body=GOOD))
    asked = Model(
        name="azure/d",
        provider="azure",
        remote_name="d",
        base_url=f"{server.url}/openai/deployments/d?api-version=2024-10-21",
        key_variable="AZURE_OPENAI_API_KEY",
    )
    ask(asked, {"AZURE_OPENAI_API_KEY": KEY})
    assert server.paths == ["/openai/deployments/d/chat/completions?api-version=2024-10-21"]
    assert server.headers[0]["api-key"] == KEY
    assert "authorization" not in server.headers[0]


def test_an_address_without_a_version_is_doubted(server: Server) -> None:
    server.script(Answer(status=404, body={"detail": "Not Found"}))
    with pytest.raises(ProviderError, match=r"the right address\? Most end in /v1\."):
        ask(model("served", base_url=server.url))
    with pytest.raises(ProviderError, match=r"the right address\? `medhelm models check` lists the server's models"):
        ask(at(server))


@pytest.mark.parametrize(
    ("answer", "code", "wait_s"),
    [
        (Answer(status=503, body="", headers={"retry-after-ms": "250"}), "overloaded", 0.25),
        (Answer(body="[]"), "malformed_reply", None),
        (Answer(body={"error": {"code": 429, "message": "slow"}}, headers={"Retry-After": "1"}), "rate_limit", 1.0),
        (Answer(body={"choices": [{"error": {"code": 502, "message": "upstream"}}]}), "server_error", None),
        (Answer(body={"choices": [{"message": {"content": "half"}, "error": {"code": 502}}]}), "server_error", None),
        (Answer(ending="reset"), "connection", None),
    ],
)
def test_trouble_is_a_provider_error(server: Server, answer: Answer, code: str, wait_s: float | None) -> None:
    server.script(answer)
    with pytest.raises(ProviderError) as raised:
        ask(at(server))
    assert (raised.value.code, raised.value.retry_after_s) == (code, wait_s)


def test_odd_characters_travel_unharmed(server: Server) -> None:
    text = "a\u2028b \N{GRINNING FACE} \x00 </think"
    server.script(Answer(body=json.dumps({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]})))
    assert ask(at(server)).text == text
