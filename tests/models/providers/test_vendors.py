"""The contract of every hosted provider, against servers that speak each vendor's own form."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import pytest

from medhelm.domain import Completion, Message, Model, Prompt, Request, Usage
from medhelm.errors import ProviderError, UserError
from medhelm.io.http.client import HttpClient
from medhelm.io.http.egress import EgressPolicy
from medhelm.models.budget import Budget
from medhelm.models.client import Client, ClientResult, ModelUnusable, SendingLimits, Timing
from medhelm.models.provider import OptionalParameter as Parameter
from medhelm.models.providers import SERVICES, open_provider
from medhelm.models.providers.hosted import HttpProvider
from tests.support.servers.openai import Answer, Server
from tests.support.servers.vendors import KEYS, OPENAI, VENDORS, Vendor

T = TypeVar("T")

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"score": {"type": "integer"}},
    "required": ["score"],
    "additionalProperties": False,
}
PROMPT = Prompt((Message("system", "Be brief."), Message("user", "Is it \N{SNOWMAN}?")))

every_vendor = pytest.mark.parametrize("vendor", VENDORS.values(), ids=list(VENDORS))


def request(asked: Model, **settings: Any) -> Request:
    return Request(**{"model": asked, "prompt": PROMPT, "max_tokens": 50, **settings})


def with_provider(asked: Model, act: Callable[[HttpProvider], Awaitable[T]], gate: EgressPolicy | None = None) -> T:
    """Open the model's provider, act, close."""

    async def main() -> T:
        http = HttpClient(gate or EgressPolicy(offline=True))
        provider = open_provider(asked, http, environment=KEYS)
        assert isinstance(provider, HttpProvider)
        try:
            return await act(provider)
        finally:
            await http.close()

    return asyncio.run(main())


def ask(asked: Model, **settings: Any) -> Completion:
    """One request, without retries."""
    return with_provider(asked, lambda provider: provider.complete(request(asked, **settings)))


def error_of(asked: Model, **settings: Any) -> ProviderError:
    with pytest.raises(ProviderError) as raised:
        ask(asked, **settings)
    return raised.value


def bought(asked: Model, *requests: Request, attempts: int = 2) -> tuple[list[ClientResult], dict[Parameter, str]]:
    """Replies by the one client, one after the other, and what was left out."""

    async def buy(provider: HttpProvider) -> tuple[list[ClientResult], dict[Parameter, str]]:
        limits, timing = SendingLimits(attempts=attempts), Timing(random=lambda: 0.0)
        client = Client(cache=None, budget=Budget(None), limits=limits, timing=timing)
        return [await client.complete(provider, one) for one in requests], provider.unsupported

    return with_provider(asked, buy)


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


@every_vendor
def test_a_completion_that_was_cut_off_without_thought_is_what_was_written(vendor: Vendor, server: Server) -> None:
    server.script(vendor.answer("A or", finish="length"), vendor.answer(None, finish="length"))
    completion = ask(vendor.model(server.url))
    assert (completion.text, completion.finish_reason) == ("A or", "length")
    assert ask(vendor.model(server.url)).text == ""


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


@every_vendor
@pytest.mark.parametrize(
    ("situation", "code", "kind"),
    [
        ("rate limit", "rate_limit", "passes"),
        ("overload", "overloaded", "passes"),
        ("wrong key", "key", "fatal"),
        ("unknown model", "unknown_model", "fatal"),
        ("quota", "no_quota", "fatal"),
        ("context length", "context_length", "of one request"),
    ],
)
def test_errors_are_understood(vendor: Vendor, situation: str, code: str, kind: str, server: Server) -> None:
    server.script(vendor.errors[situation])
    error = error_of(vendor.model(server.url))
    assert error.code == code
    assert (error.fatal, error.retryable, error.overloaded) == (kind == "fatal", kind == "passes", kind == "passes")
    if situation == "rate limit":
        assert error.retry_after_s == 7.0
    assert str(error).startswith(f"{vendor.provider}/m: the server answered {vendor.errors[situation].status}")
    assert situation != "wrong key" or vendor.variable in str(error)


@every_vendor
@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        (Answer(body=" \n"), "malformed_reply", "is empty"),
        (Answer(body={}), "empty_choice", "no completion"),
        (Answer(body={"error": {"message": "odd"}}), "server_error", "odd"),
        (Answer(status=500, body=""), "server_error", "500"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_answer_is_asked_again(vendor: Vendor, answer: Answer, code: str, said: str, server: Server) -> None:
    server.script(answer)
    error = error_of(vendor.model(server.url))
    assert (error.code, error.retryable, error.fatal) == (code, True, False)
    assert said in str(error)


@every_vendor
@pytest.mark.parametrize("junk", [None, 5, "text", [], ["x"], {"x": 1}, [{"text": 5}], [None]])
def test_replies_of_odd_form_are_no_crash(vendor: Vendor, junk: Any, server: Server) -> None:
    """Every field of a good reply in turn is something else."""
    good = vendor.said("A", thought=2)
    bodies = [{**good, name: junk} for name in good]
    server.script(*(Answer(body=body) for body in bodies))
    asked = vendor.model(server.url)

    async def act(provider: HttpProvider) -> list[Completion | ProviderError]:
        found: list[Completion | ProviderError] = []
        for _ in bodies:
            try:
                found.append(await provider.complete(request(asked)))
            except ProviderError as error:
                found.append(error)
        return found

    for outcome in with_provider(asked, act):
        assert isinstance(outcome, ProviderError) or (outcome.text is None) == (outcome.failure is not None)


# --- parts that a server refuses --------------------------------------------------------------------------------------


@every_vendor
@pytest.mark.parametrize("part", ["temperature", "schema"])
def test_a_refused_part_is_left_out_from_then_on(vendor: Vendor, part: str, server: Server) -> None:
    holds = {"temperature": vendor.temperature_of, "schema": vendor.schema_of}[part]
    server.answer_with(lambda body: vendor.errors[part] if holds(body) is not None else vendor.answer("A"))
    asked = vendor.model(server.url)
    replies, left_out = bought(asked, *(request(asked, sample=n, schema=SCHEMA) for n in range(3)))
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
    asked = Model(name="azure/d", provider="azure", remote_name="d", base_url=f"{server.url}/openai/v1")
    replies, left_out = bought(
        asked, *(request(asked, sample=n, stop=("\n",), max_tokens=5) for n in range(2)), attempts=1
    )
    assert [(reply.completion.text, reply.requests_sent) for reply in replies] == [("A", 4), ("A", 1)]
    assert set(left_out) == {"max_tokens", "temperature", "stop"}
    # The limit went by its other name: nothing was lost.
    assert [reply.completion.refused_parameters for reply in replies] == [("stop", "temperature")] * 2
    assert server.bodies[-1]["max_completion_tokens"] == 5


@every_vendor
def test_a_temperature_of_the_users_own_is_the_users_to_mend(vendor: Vendor, server: Server) -> None:
    server.script(vendor.errors["temperature"])
    error = error_of(vendor.model(server.url, parameters={"temperature": 0.7}))
    assert error.code in {"parameter", "bad_request"}
    assert vendor.temperature_of(server.bodies[0]) == 0.7


# --- the one client, and the gate -------------------------------------------------------------------------------------


@every_vendor
def test_an_overload_is_asked_again_and_a_wrong_key_stops_the_model(vendor: Vendor, server: Server) -> None:
    server.script(vendor.errors["overload"], vendor.answer("A"), vendor.errors["wrong key"])
    asked = vendor.model(server.url)
    (reply,), _ = bought(asked, request(asked))
    assert (reply.completion.text, reply.requests_sent) == ("A", 2)
    with pytest.raises(ModelUnusable, match=r"Check|set |is the right address|name for it|gcloud"):
        bought(asked, request(asked, sample=1), request(asked, sample=2))
    assert server.count == 3


@every_vendor
def test_no_byte_goes_to_a_host_that_was_not_named(vendor: Vendor, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(host: str | None, *rest: object, **options: object) -> None:
        raise AssertionError(f"{host} was looked up")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    asked = vendor.model("https://elsewhere.example")
    for gate in (EgressPolicy(offline=True), EgressPolicy(offline=False, allowed=["api.example"])):
        with pytest.raises(UserError, match=r"elsewhere\.example may not be reached"):
            with_provider(asked, lambda provider: provider.complete(request(asked)), gate)


@every_vendor
@pytest.mark.parametrize("status", [200, 400, 401, 403, 404, 429, 500])
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
