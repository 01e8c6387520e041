"""The wire of both batch APIs, against servers that speak it and such that do not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from email import message_from_bytes
from email.policy import HTTP
from io import BytesIO
from time import time
from typing import Any, TypeVar

import pytest
from batch_servers import BatchServer
from hypothesis import given
from hypothesis import strategies as st
from servers import Answer, Server
from vendor_servers import ANTHROPIC, BEDROCK, KEYS, OPENAI, VENDORS, Body, Vendor

from medhelm.domain import Message, Prompt, Request
from medhelm.errors import ProviderError
from medhelm.models.batches import (
    LOST,
    NO_BATCHES,
    SERVICES,
    Line,
    Service,
    completion_in,
    has_batches,
    lines_in,
    open_service,
    payload,
)
from medhelm.models.batches.anthropic import AnthropicBatches
from medhelm.models.batches.openai import OpenAIBatches
from medhelm.models.batches.wire import form, form_type, id_of, moment
from medhelm.models.http import Gate, Http
from medhelm.models.providers import open_provider
from medhelm.models.providers.hosted import Hosted

T = TypeVar("T")
BOTH = pytest.mark.parametrize("vendor", [OPENAI, ANTHROPIC], ids=lambda vendor: vendor.provider)
NAME = "medhelm-" + "0" * 24
DIGESTS = [f"{n:064x}" for n in range(5)]


def with_service(vendor: Vendor, url: str, act: Callable[[Service, Hosted], Awaitable[T]]) -> T:
    async def main() -> T:
        http = Http(Gate(offline=True))
        provider = open_provider(vendor.model(url), http, environment=KEYS)
        assert isinstance(provider, Hosted)
        service = open_service(provider, http)
        assert service is not None
        try:
            return await act(service, provider)
        finally:
            await http.close()

    return asyncio.run(main())


def request(provider: Hosted, text: str = "Is it \N{SNOWMAN}?", **settings: Any) -> Request:
    known: dict[str, Any] = {"prompt": Prompt((Message("user", text),)), "max_tokens": 50}
    return Request(**{"model": provider.model, **known, **settings})


@pytest.fixture
def services() -> Iterator[BatchServer]:
    with BatchServer() as running:
        yield running


@BOTH
def test_what_is_handed_over_is_what_would_be_sent_alone(services: BatchServer, vendor: Vendor) -> None:
    services.answer_with(lambda body: vendor.answer("yes"))
    bodies: list[Body] = []

    async def act(service: Service, provider: Hosted) -> str:
        asked = [request(provider, f"line\n{n} \N{SNOWMAN}", stop=("X",), schema={"type": "object"}) for n in range(5)]
        for one in asked:
            await provider.complete(one)
        bodies.extend(payload(provider, one) for one in asked)
        lines = [service.line(digest, body) for digest, body in zip(DIGESTS, bodies, strict=True)]
        return await service.submit(NAME, lines)

    remote = with_service(vendor, services.url, act)
    batch = services.batches[remote]
    assert [custom for custom, _ in batch["requests"]] == DIGESTS
    assert [body for _, body in batch["requests"]] == bodies == services.direct


@BOTH
def test_from_handing_over_to_the_answers(services: BatchServer, vendor: Vendor) -> None:
    services.answer_with(lambda body: vendor.answer(f"to {vendor.prompt_of(body)}"))
    services.looks = 2

    async def act(service: Service, provider: Hosted) -> tuple[list[str], dict[str, str | None]]:
        lines = [service.line(d, payload(provider, request(provider, d[-1]))) for d in DIGESTS]
        remote = await service.submit(NAME, lines)
        states: list[str] = []
        while True:
            standing = await service.look(remote)
            states.append(standing.state)
            if standing.state == "ended":
                break
        file = BytesIO()
        for place in standing.places:
            assert place.startswith(services.url)  # and not where the service says they are
            await service.save(place, file)
        file.seek(0)
        found = {line.digest: completion_in(line, provider, request(provider)) for line in lines_in(file, service)}
        assert all(one.batched and one.usage.input == 20 and one.usage.output == 5 for one in found.values())
        return states, {digest: one.text for digest, one in found.items()}

    states, texts = with_service(vendor, services.url, act)
    assert states == ["running", "running", "ended"]
    assert list(texts) == DIGESTS[::-1]
    assert texts == {digest: f"to {digest[-1]}" for digest in DIGESTS}


@BOTH
def test_a_batch_is_found_again(services: BatchServer, vendor: Vendor) -> None:
    async def act(service: Service, provider: Hosted) -> None:
        line = [service.line(d, payload(provider, request(provider))) for d in DIGESTS]
        first = await service.submit(NAME, line)
        other = await service.submit("medhelm-other", line[:3])
        now = time()

        async def find(name: str, n: int, since: float, *known: str) -> str:
            return await service.find(name, since=since, n=n, known=frozenset(known))

        assert await find(NAME, 5, now) == first
        assert await find("medhelm-other", 3, now) == other
        if not service.verifiable:
            assert await find(NAME, 5, now, first) == ""
            assert await find(NAME, 4, now) == ""
            assert await find(NAME, 5, now + 10_000) == ""  # it is older than the intention
        else:
            assert await find("medhelm-nobody", 5, now) == ""

    with_service(vendor, services.url, act)


def test_a_batch_is_found_on_a_later_page(services: BatchServer) -> None:
    async def act(service: Service, provider: Hosted) -> None:
        line = [service.line(DIGESTS[0], payload(provider, request(provider)))]
        first = await service.submit(NAME, line)
        for n in range(250):
            await service.submit(f"medhelm-{n}", line)
        assert await service.find(NAME, since=time(), n=1, known=frozenset()) == first

    with_service(OPENAI, services.url, act)
    assert services.asked.count("GET /v1/batches") == 3


ERRORS = {"rate limit": (True, False), "overload": (True, False), "wrong key": (False, True), "quota": (False, True)}


@BOTH
@pytest.mark.parametrize("name", ERRORS)
def test_complaints_are_read_as_those_about_single_requests(services: BatchServer, vendor: Vendor, name: str) -> None:
    retryable, fatal = ERRORS[name]

    async def act(service: Service, provider: Hosted) -> ProviderError:
        services.refusals = [vendor.errors[name]]
        with pytest.raises(ProviderError) as caught:
            await service.submit(NAME, [service.line(DIGESTS[0], {})])
        return caught.value

    error = with_service(vendor, services.url, act)
    assert (error.retryable, error.fatal) == (retryable, fatal)
    assert KEYS[vendor.variable] not in str(error)


@BOTH
def test_a_server_without_batches_says_so(server: Server, vendor: Vendor) -> None:
    server.script(Answer(status=404, body={"detail": "Not Found"}))

    async def act(service: Service, provider: Hosted) -> tuple[str, str]:
        with pytest.raises(ProviderError) as handing_over:
            # Not `submit`: this server reads JSON only.
            await service.submit(NAME, [b"{}"]) if vendor is ANTHROPIC else await _made(service)
        with pytest.raises(ProviderError) as looking:
            await service.look("batch_1")
        return handing_over.value.code, looking.value.code

    assert with_service(vendor, server.url, act) == (NO_BATCHES, LOST)


async def _made(service: Service) -> str:
    """Only the second step of OpenAI's."""
    from medhelm.models.batches.wire import compact, or_no_batches

    assert isinstance(service, OpenAIBatches)
    await or_no_batches(service.post(f"{service._base}/batches", compact({})))
    raise AssertionError


def test_who_has_batches() -> None:
    assert set(SERVICES) == {"openai", "anthropic"}
    assert [name for name, vendor in VENDORS.items() if has_batches(vendor.model("http://127.0.0.1:1"))] == [
        "openai",
        "anthropic",
    ]
    http = Http(Gate(offline=True))
    bedrock = open_provider(
        BEDROCK.model("http://127.0.0.1:1"), http, environment={**KEYS, "AWS_REGION": "eu-central-1"}
    )
    assert open_service(bedrock, http) is None


# --- lines ------------------------------------------------------------------------------------------------------------

OPENAI_LINES: list[tuple[Any, Line | None]] = [
    (
        {"custom_id": "d", "response": {"status_code": 200, "body": {"choices": []}}, "error": None},
        Line(digest="d", document={"choices": []}),
    ),
    (
        {"custom_id": "d", "response": {"status_code": 400, "body": {"error": {"message": "m"}}}, "error": None},
        Line(digest="d", status=400, said={"error": {"message": "m"}}),
    ),
    (
        {"custom_id": "d", "response": None, "error": {"code": "batch_expired", "message": "m"}},
        Line(digest="d", word="expired"),
    ),
    ({"custom_id": "d", "response": None, "error": None}, Line(digest="d", word="error")),
    ({"custom_id": "d", "response": {"status_code": 200, "body": "text"}}, Line(digest="d", word="error")),
    ({"custom_id": 7}, None),
    ({}, None),
]
ANTHROPIC_LINES: list[tuple[Any, Line | None]] = [
    (
        {"custom_id": "d", "result": {"type": "succeeded", "message": {"content": []}}},
        Line(digest="d", document={"content": []}),
    ),
    (
        {
            "custom_id": "d",
            "result": {
                "type": "errored",
                "error": {"type": "error", "error": {"type": "overloaded_error", "message": "m"}},
            },
        },
        Line(digest="d", status=529, said={"type": "error", "error": {"type": "overloaded_error", "message": "m"}}),
    ),
    (
        {"custom_id": "d", "result": {"type": "errored", "error": {"type": "invalid_request_error", "message": "m"}}},
        Line(digest="d", status=400, said={"type": "invalid_request_error", "message": "m"}),
    ),
    ({"custom_id": "d", "result": {"type": "expired"}}, Line(digest="d", word="expired")),
    ({"custom_id": "d", "result": {"type": "canceled"}}, Line(digest="d", word="canceled")),
    ({"custom_id": "d", "result": None}, Line(digest="d", word="error")),
    ({"custom_id": None, "result": {}}, None),
]


def service_of(kind: type[OpenAIBatches] | type[AnthropicBatches]) -> Service:
    vendor = OPENAI if kind is OpenAIBatches else ANTHROPIC
    http = Http(Gate(offline=True))
    provider = open_provider(vendor.model("http://127.0.0.1:1"), http, environment=KEYS)
    assert isinstance(provider, Hosted)
    return kind(provider, http)


@pytest.mark.parametrize(
    ("kind", "content", "line"),
    [(OpenAIBatches, *one) for one in OPENAI_LINES] + [(AnthropicBatches, *one) for one in ANTHROPIC_LINES],
)
def test_every_line_is_an_answer_an_error_or_nothing(
    kind: type[OpenAIBatches] | type[AnthropicBatches], content: Any, line: Line | None
) -> None:
    assert service_of(kind).read(content) == line


Json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["custom_id", "result", "response", "error", "body", "type", "message", "status_code", "code"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@pytest.mark.parametrize("kind", [OpenAIBatches, AnthropicBatches])
@given(content=Json, noise=st.binary(max_size=20))
def test_no_line_that_a_service_may_send_breaks_the_reading(
    kind: type[OpenAIBatches] | type[AnthropicBatches], content: Any, noise: bytes
) -> None:
    service = service_of(kind)
    good = service.line("a" * 64, {"x": 1})
    file = BytesIO(noise.replace(b"\n", b"") + b"\n" + json.dumps(content).encode() + b"\n" + good + b"\n")
    for line in lines_in(file, service):
        assert isinstance(line.digest, str)
        if line.document is None:
            assert line.status or line.word


@pytest.mark.parametrize("name", ["", "../x", "a/b", "a?b", "a b", "x" * 129, 7, None])
def test_a_name_that_could_lead_elsewhere_is_none(name: object) -> None:
    with pytest.raises(ProviderError, match="does not say what the batch is called"):
        id_of({"id": name})


def test_a_form_is_read_by_others_as_it_was_meant() -> None:
    head, tail = form("boundary", {"purpose": "batch"}, "x.jsonl")
    content = f"Content-Type: {form_type('boundary')}\r\n\r\n".encode() + head + b'{"a": "\xc3\xa9"}\n' + tail
    purpose, file = message_from_bytes(content, policy=HTTP).iter_parts()
    assert purpose.get_payload() == "batch"
    assert file.get_payload(decode=True) == b'{"a": "\xc3\xa9"}\n'
    assert file.get_filename() == "x.jsonl"


def test_times_are_read_with_and_without_fractions() -> None:
    assert moment("2024-09-24T18:37:24.100435Z") == pytest.approx(1727203044.100435)
    assert moment("2024-09-24T18:37:24+00:00") == 1727203044.0
    assert moment("soon") is None
    assert moment(None) is None
