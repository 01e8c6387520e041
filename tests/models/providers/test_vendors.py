"""The contract of every hosted provider, against servers that speak each vendor's own form."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest

from medhelm.domain import Completion, Message, Model, Prompt, Request, Usage
from medhelm.errors import ProviderError
from medhelm.io.http.client import HttpClient
from medhelm.io.http.egress import EgressPolicy
from medhelm.models.budget import Budget
from medhelm.models.client import Client, ClientResult, SendingLimits
from medhelm.models.provider import OptionalParameter as Parameter
from medhelm.models.providers import SERVICES, open_provider
from medhelm.models.providers.hosted import HttpProvider
from tests.support.models.providers import asked, complete, with_provider
from tests.support.servers.openai import Answer, Server
from tests.support.servers.vendors import KEYS, OPENAI, VENDORS, Vendor

SCHEMA: Mapping[str, Any] = {"type": "object", "properties": {"score": {"type": "integer"}}, "required": ["score"]}

every_vendor = pytest.mark.parametrize("vendor", VENDORS.values(), ids=list(VENDORS))


def request(model: Model, **settings: Any) -> Request:
    prompt = Prompt((Message("system", "Be brief."), Message("user", "Is it \N{SNOWMAN}?")))
    return asked(model, **{"prompt": prompt, "max_tokens": 50, **settings})


def ask(model: Model, **settings: Any) -> Completion:
    """One request, without retries."""
    return complete(request(model, **settings), KEYS)


def error_of(model: Model, **settings: Any) -> ProviderError:
    with pytest.raises(ProviderError) as raised:
        ask(model, **settings)
    return raised.value


def bought(model: Model, *requests: Request) -> tuple[list[ClientResult], dict[Parameter, str]]:
    """Replies by the one client, one after the other, and what was left out."""

    async def buy(provider: HttpProvider) -> tuple[list[ClientResult], dict[Parameter, str]]:
        client = Client(cache=None, budget=Budget(), limits=SendingLimits(attempts=1))
        return [await client.complete(provider, one) for one in requests], provider.unsupported

    return with_provider(model, buy, KEYS)


def test_there_is_a_stand_in_for_every_hosted_provider() -> None:
    assert set(VENDORS) == set(SERVICES) - {"baseline", "replay", "hf", "vllm", "ollama", "llamacpp"}


# --- answers ----------------------------------------------------------------------------------------------------------


@every_vendor
def test_one_request_and_its_completion(vendor: Vendor, server: Server) -> None:
    server.script(vendor.answer("A"))
    completion = ask(vendor.model(server.url))
    assert (completion.text, completion.failure, completion.finish_reason) == ("A", None, "stop")
    assert completion.usage == Usage(input=20, cached_input=4, output=5, cache_write=vendor.cache_write)
    assert completion.reported_model == vendor.reported
    assert completion.latency_s > 0
    assert server.paths == [vendor.path]
    (body,) = server.bodies
    assert vendor.temperature_of(body) == 0.0
    assert vendor.schema_of(body) is None
    assert vendor.prompt_of(body) == "Is it \N{SNOWMAN}?"
    assert "Be brief." in json.dumps(body)


@every_vendor
def test_a_schema_is_sent_as_the_vendor_wants_it(vendor: Vendor, server: Server) -> None:
    server.script(vendor.answer('{"score": 4}'))
    assert ask(vendor.model(server.url), schema=SCHEMA).text == '{"score": 4}'
    sent = vendor.schema_of(server.bodies[0])
    assert (json.loads(sent) if isinstance(sent, str) else sent) == SCHEMA
    ask(vendor.model(server.url, structured=False), schema=SCHEMA)
    assert vendor.schema_of(server.bodies[1]) is None


@every_vendor
def test_thought_is_no_part_of_the_answer_and_is_counted(vendor: Vendor, server: Server) -> None:
    server.script(vendor.answer("A", thought=3))
    completion = ask(vendor.model(server.url, reasoning=True, reasoning_effort="low"))
    assert completion.text == "A"
    shows_thought = "Hm." in json.dumps(vendor.said("A", thought=3))
    assert completion.reasoning == ("Hm." if shows_thought else "")
    reasoning = 3 if vendor.counts_thought else completion.usage.reasoning
    assert 0 < reasoning < 5, "estimated by its share of the text, if the service does not count it"
    assert completion.usage == Usage(
        input=20, cached_input=4, output=5, reasoning=reasoning, cache_write=vendor.cache_write
    )
    assert vendor.temperature_of(server.bodies[0]) == (None if vendor.provider in ("anthropic", "azure") else 0.0)
    assert "low" in json.dumps(server.bodies[0]).lower()


@every_vendor
@pytest.mark.parametrize("known", [True, False], ids=["known to reason", "by its reply"])
def test_a_limit_that_went_into_thought_is_a_failure(vendor: Vendor, server: Server, known: bool) -> None:
    server.script(vendor.answer(None, finish="length", thought=0 if known else 5))
    completion = ask(vendor.model(server.url, reasoning=known))
    assert completion.failure is not None
    assert (completion.failure.boundary, completion.failure.code) == ("provider", "length")
    assert "5 tokens" in completion.failure.message
    assert (completion.usage.input, completion.usage.output) == (20, 5)


REFUSALS = [
    pytest.param(vendor, answer, id=f"{vendor.provider}, {name}")
    for vendor in VENDORS.values()
    for name, answer in vendor.refusals.items()
]


@pytest.mark.parametrize(("vendor", "answer"), REFUSALS)
def test_a_refusal_is_a_failure_and_no_error(vendor: Vendor, answer: Answer, server: Server) -> None:
    server.script(answer)
    completion = ask(vendor.model(server.url))
    assert completion.text is None
    assert completion.failure is not None
    assert (completion.failure.boundary, completion.failure.code) == ("provider", "refusal")
    assert len(completion.failure.message) > 5
    assert completion.latency_s > 0


# --- errors -----------------------------------------------------------------------------------------------------------


ERRORS = {
    "rate limit": ("rate_limit", "passes"),
    "overload": ("overloaded", "passes"),
    "wrong key": ("key", "fatal"),
    "unknown model": ("unknown_model", "fatal"),
    "quota": ("no_quota", "fatal"),
    "context length": ("context_length", "of one request"),
}
"""Situation -> code and kind of the error."""


@every_vendor
def test_errors_are_understood(vendor: Vendor, server: Server) -> None:
    for situation, (code, kind) in ERRORS.items():
        server.script(vendor.errors[situation])
        error = error_of(vendor.model(server.url))
        assert (error.code, error.fatal, error.retryable) == (code, kind == "fatal", kind == "passes")
        assert error.overloaded == error.retryable
        assert situation != "rate limit" or error.retry_after_s == 7.0
        assert str(error).startswith(f"{vendor.provider}/m: the server answered {vendor.errors[situation].status}")
        assert situation != "wrong key" or vendor.variable in str(error)
    server.script(Answer(body={"error": {"message": "odd"}}))  # sent as a success
    error = error_of(vendor.model(server.url))
    assert (error.code, error.retryable) == ("server_error", True)


@every_vendor
def test_replies_of_odd_form_are_no_crash(vendor: Vendor, server: Server) -> None:
    """Every field of a good reply in turn is something else."""
    good = vendor.said("A", thought=2)
    bodies = [{**good, name: junk} for name in good for junk in (None, 5, "text", [], ["x"], {"x": 1}, [{"text": 5}])]
    server.script(*(Answer(body=body) for body in bodies))
    model = vendor.model(server.url)

    async def act(provider: HttpProvider) -> None:
        for _ in bodies:
            with suppress(ProviderError):
                completion = await provider.complete(request(model))
                assert (completion.text is None) == (completion.failure is not None)

    with_provider(model, act, KEYS)


# --- parts that a server refuses --------------------------------------------------------------------------------------


@every_vendor
@pytest.mark.parametrize("part", ["temperature", "schema"])
def test_a_refused_part_is_left_out_from_then_on(vendor: Vendor, part: str, server: Server) -> None:
    holds = {"temperature": vendor.temperature_of, "schema": vendor.schema_of}[part]
    server.answer_with(lambda body: vendor.errors[part] if holds(body) is not None else vendor.answer("A"))
    model = vendor.model(server.url)
    replies, left_out = bought(model, *(request(model, sample=n, schema=SCHEMA) for n in range(3)))
    assert [(reply.completion.text, reply.requests_sent) for reply in replies] == [("A", 2), ("A", 1), ("A", 1)]
    assert [holds(body) is None for body in server.bodies] == [False, True, True, True]
    assert [str(parameter) for parameter in left_out] == [part]
    assert len(left_out[Parameter(part)]) > 10


def test_a_deployment_of_a_newer_model_works_without_settings(server: Server) -> None:
    """Azure's deployments hide what model they are: everything it does not take is found out, once."""

    def decide(body: dict[str, Any]) -> Answer:
        for name in ("max_tokens", "temperature", "stop"):
            if name in body:
                instead = " Use 'max_completion_tokens' instead." if name == "max_tokens" else ""
                message = f"Unsupported parameter: '{name}' is not supported with this model.{instead}"
                return Answer(status=400, body={"error": {"message": message, "param": name}})
        return OPENAI.answer("A")

    server.answer_with(decide)
    model = Model(name="azure/d", provider="azure", remote_name="d", base_url=f"{server.url}/openai/v1")
    replies, left_out = bought(model, *(request(model, sample=n, stop=("\n",), max_tokens=5) for n in range(2)))
    assert [(reply.completion.text, reply.requests_sent) for reply in replies] == [("A", 4), ("A", 1)]
    assert set(left_out) == {"max_tokens", "temperature", "stop"}
    # The limit went by its other name: nothing was lost.
    assert [reply.completion.refused_parameters for reply in replies] == [("stop", "temperature")] * 2
    assert server.bodies[-1]["max_completion_tokens"] == 5


# --- keys -------------------------------------------------------------------------------------------------------------


@every_vendor
@pytest.mark.parametrize("status", [200, 401, 500])
def test_keys_are_in_no_error_even_if_the_server_repeats_them(vendor: Vendor, status: int, server: Server) -> None:
    everything = " ".join(KEYS.values())
    sent: list[str] = []

    def echo(body: dict[str, Any]) -> Answer:
        sent.append(json.dumps(server.headers[-1]))
        message = f"got {everything} and {sent[-1]}"
        return Answer(status=status, body={"error": {"message": message}, "message": message})

    server.answer_with(echo)
    error: BaseException | None = error_of(vendor.model(server.url))
    own = [KEYS[vendor.variable]]
    own += [KEYS["AWS_SECRET_ACCESS_KEY"], KEYS["AWS_SESSION_TOKEN"]] if vendor.provider == "bedrock" else []
    while error is not None:
        for key in own:
            assert key not in str(error) + repr(error)
        error = error.__cause__ or error.__context__
    assert all(KEYS["AWS_SECRET_ACCESS_KEY"] not in headers for headers in sent)


@every_vendor
def test_keys_are_in_no_repr(vendor: Vendor) -> None:
    provider = open_provider(
        vendor.model("http://127.0.0.1:9"), HttpClient(EgressPolicy(offline=True)), environment=KEYS
    )
    assert isinstance(provider, HttpProvider)
    assert not any(key in repr(provider) + str(provider) + repr(provider.dialect) for key in KEYS.values())


VERDICT = '{"score": 4}'
REFUSED = Answer(status=400, body={"error": {"message": "Invalid parameter: 'response_format' is not supported."}})


# --- one schema for many requests -------------------------------------------------------------------------------------


def test_a_server_that_knows_no_schemas_gets_only_what_was_in_flight_again(server: Server) -> None:
    server.answer_with(lambda body: REFUSED if "response_format" in body else OPENAI.answer(VERDICT))
    model = OPENAI.model(server.url)

    async def ask(provider: HttpProvider) -> list[ClientResult]:
        client = Client(cache=None, budget=Budget(), limits=SendingLimits(attempts=1, start=8, maximum=8))
        requests = [asked(model, f"Grade answer {number}.", schema=SCHEMA) for number in range(100)]
        return await asyncio.gather(*(client.complete(provider, one) for one in requests))

    replies = with_provider(model, ask)
    assert {reply.completion.text for reply in replies} == {VERDICT}
    refused = sum("response_format" in body for body in server.bodies)
    assert 0 < refused <= 8
    assert sorted(reply.requests_sent for reply in replies) == [1] * (100 - refused) + [2] * refused
    assert server.count == 100 + refused


def test_each_schema_makes_another_request() -> None:
    model = OPENAI.model("http://127.0.0.1:9")
    schemas: list[Mapping[str, Any] | None] = [None, {}, SCHEMA, {**SCHEMA, "required": []}, dict(SCHEMA)]
    assert len({asked(model, schema=schema).digest for schema in schemas}) == 4
