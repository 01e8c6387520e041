"""What is sent to Bedrock's Converse, how it is signed, and what of its own its replies hold."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import pytest

from medhelm.domain import Message, Model, Prompt, Request, Usage
from medhelm.errors import ProviderError
from medhelm.io.http.client import HttpClient
from medhelm.io.http.egress import EgressPolicy
from medhelm.models.providers import open_provider
from medhelm.models.providers.bedrock import Bedrock, Credentials, signed_headers
from tests.support.cases import table
from tests.support.servers.openai import Server
from tests.support.servers.vendors import BEDROCK, KEYS

SCHEMA = {"type": "object"}
MESSAGES = [{"role": "user", "content": [{"text": "Is it?"}]}]
NAME = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"
HOST = "https://bedrock-runtime.eu-central-1.amazonaws.com"
WHO = Credentials(
    key_id=KEYS["AWS_ACCESS_KEY_ID"],
    secret=KEYS["AWS_SECRET_ACCESS_KEY"],
    session_token=KEYS["AWS_SESSION_TOKEN"],
)


def model(remote_name: str = NAME, **settings: Any) -> Model:
    known = {"name": f"bedrock/{remote_name}", "provider": "bedrock", "remote_name": remote_name}
    return Model(**{**known, "base_url": HOST, **settings})


def request(asked: Model, **settings: Any) -> Request:
    prompt = Prompt((Message("user", "Is it?"),))
    return Request(**{"model": asked, "prompt": prompt, "max_tokens": 5, **settings})


def payload(asked: Model, **settings: Any) -> dict[str, Any]:
    """What is sent while nothing was refused."""
    dialect, one = Bedrock(asked), request(asked, **settings)
    return dialect.payload(one, dialect.optional_parameters(one))


FORM = {"type": "json_schema", "structure": {"jsonSchema": {"name": "reply", "schema": json.dumps(SCHEMA)}}}

OWN = {"a": 1, "thinking": {"type": "adaptive"}}
GUARD = {"guardrailIdentifier": "g"}
PLAIN = {"temperature": 0.0}
PAYLOADS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}, PLAIN, {}),
    "stop": ({}, {"stop": ("\n", "END")}, {**PLAIN, "stopSequences": ["END"]}, {}),
    "reasoning": ({"reasoning": True}, {}, {}, {}),
    "schema": ({}, {"schema": SCHEMA}, PLAIN, {"outputConfig": {"textFormat": FORM}}),
    "effort": ({"reasoning": True, "reasoning_effort": "low"}, {}, {}, {"outputConfig": {"effort": "low"}}),
    "each parameter in its place": (
        {"parameters": {"topP": 0.9, "top_k": 5, "guardrailConfig": GUARD, "temperature": None}},
        {"prompt": Prompt((Message("system", "Be brief."), Message("user", "Is it?")))},
        {"topP": 0.9},
        {"guardrailConfig": GUARD, "additionalModelRequestFields": {"top_k": 5}, "system": [{"text": "Be brief."}]},
    ),
    "fields of the model's own": (
        {"parameters": {"additionalModelRequestFields": {"a": 1}, "thinking": {"type": "adaptive"}}},
        {},
        PLAIN,
        {"additionalModelRequestFields": OWN},
    ),
    "a form of the user's own": (
        {"parameters": {"outputConfig": {"effort": "max"}}},
        {"schema": SCHEMA},
        PLAIN,
        {"outputConfig": {"effort": "max"}},
    ),
}


@table(("settings", "asked", "config", "beside"), PAYLOADS.values(), ids=PAYLOADS)
def test_each_kind_of_request(
    settings: dict[str, Any], asked: dict[str, Any], config: dict[str, Any], beside: dict[str, Any]
) -> None:
    assert payload(model(**settings), **asked) == {
        "messages": MESSAGES,
        "inferenceConfig": {"maxTokens": 5, **config},
        **beside,
    }


def test_where_requests_go() -> None:
    arn = "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.x-v1:0"
    assert Bedrock(model(arn)).url == (
        f"{HOST}/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Ainference-profile%2Fus.x-v1%3A0/converse"
    )


@pytest.mark.parametrize(
    ("base_url", "named", "region"),
    [
        (HOST, "us-west-2", "eu-central-1"),
        ("https://bedrock-runtime-fips.us-gov-west-1.amazonaws.com", "", "us-gov-west-1"),
        ("https://vpce-1.bedrock-runtime.us-east-2.vpce.amazonaws.com", "", "us-east-2"),
        ("https://bedrock-runtime.cn-north-1.amazonaws.com.cn", "", "cn-north-1"),
        ("http://127.0.0.1:8000", "us-west-2", "us-west-2"),
        ("http://127.0.0.1:8000", "", "us-east-1"),
    ],
)
def test_the_region_is_that_of_the_host(base_url: str, named: str, region: str) -> None:
    assert Bedrock(model(base_url=base_url), region=named).region == region


def test_an_api_key_is_sent_as_it_is_and_nothing_is_signed() -> None:
    assert Bedrock(model(), key="ABSKinvented", credentials=WHO).headers(b"{}") == {
        "Authorization": "Bearer ABSKinvented"
    }
    assert Bedrock(model()).headers(b"{}") == {}


def test_what_arrives_carries_the_signature_of_what_arrives(server: Server) -> None:
    """A service recomputes the signature from the path, the host and the body that it received."""
    server.script(BEDROCK.answer("A"))
    raw: list[bytes] = []

    async def once() -> None:
        http = HttpClient(EgressPolicy(offline=True))
        asked = model(base_url=server.url, key_variable="AWS_ACCESS_KEY_ID")
        provider = open_provider(asked, http, environment={**KEYS, "AWS_REGION": "eu-central-1"})
        one = request(asked)
        raw.append(json.dumps(payload(asked)).encode())
        try:
            assert (await provider.complete(one)).text == "A"
        finally:
            await http.close()

    asyncio.run(once())
    (received,) = server.headers
    assert server.paths == ["/model/eu.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse"]
    assert received["host"] == urlsplit(server.url).netloc
    moment = datetime.strptime(received["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    expected = signed_headers(
        "POST",
        server.url + server.paths[0],
        raw[0],
        credentials=WHO,
        region="eu-central-1",
        service="bedrock",
        moment=moment,
    )
    assert received["authorization"] == expected["Authorization"]
    assert received["x-amz-security-token"] == KEYS["AWS_SESSION_TOKEN"]


@pytest.mark.parametrize(
    ("stop_reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("tool_use", "tool_use"),
    ],
)
def test_why_it_stopped(stop_reason: str, finish: str) -> None:
    completion = Bedrock(model()).read(BEDROCK.said("A", finish=stop_reason), request(model()))
    assert (completion.text, completion.finish_reason) == ("A", finish)
    assert Bedrock(model()).read(BEDROCK.said(None), request(model())).text == ""


@pytest.mark.parametrize("reason", ["malformed_model_output", "malformed_tool_use"])
def test_an_answer_that_was_broken_off_is_asked_again(reason: str) -> None:
    with pytest.raises(ProviderError) as raised:
        Bedrock(model()).read(BEDROCK.said("half", finish=reason), request(model()))
    assert (raised.value.code, raised.value.retryable) == ("interrupted", True)


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"inputTokens": 9, "outputTokens": 5, "totalTokens": 14}, Usage(input=9, output=5)),
        (  # what AWS's guide to prompt caching shows: the cache stands beside the input
            {"inputTokens": 9, "outputTokens": 272, "totalTokens": 2117, "cacheReadInputTokens": 1836},
            Usage(input=1845, cached_input=1836, output=272),
        ),
        (  # models that count the cache inside
            {"inputTokens": 2000, "outputTokens": 5, "totalTokens": 2005, "cacheReadInputTokens": 1836},
            Usage(input=2000, cached_input=1836, output=5),
        ),
        (
            {"inputTokens": 9, "outputTokens": 5, "cacheReadInputTokens": 10, "cacheWriteInputTokens": 20},
            Usage(input=39, cached_input=10, cache_write=20, output=5),
        ),
        ({"inputTokens": 9, "outputTokens": 5, "totalTokens": 1}, Usage(input=9, output=5)),
        ([], Usage()),
    ],
)
def test_what_was_cached_is_counted_once(usage: Any, tokens: Usage) -> None:
    assert Bedrock(model()).read({**BEDROCK.said("A"), "usage": usage}, request(model())).usage == tokens
