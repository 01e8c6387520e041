"""Both batch APIs, against servers that have them and servers that do not."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from io import BytesIO
from time import time
from typing import Any, Literal, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medhelm.domain import Message, Prompt, Request
from medhelm.errors import ProviderError, StoreFullError
from medhelm.io.http.client import HttpClient
from medhelm.io.http.egress import EgressPolicy
from medhelm.models.batch import api
from medhelm.models.batch.anthropic import AnthropicBatches, timestamp
from medhelm.models.batch.api import (
    CLOCK_SKEW_S,
    BatchService,
    RequestFile,
    RequestResult,
    compact,
    has_batch_api,
    has_batches,
    id_of,
    open_batch_service,
    or_no_batches,
    read_completion,
    read_results,
)
from medhelm.models.batch.openai import OpenAIBatches
from medhelm.models.providers import open_provider
from medhelm.models.providers.hosted import HttpProvider
from tests.support.cases import table
from tests.support.json_values import json_values
from tests.support.servers.batch_apis import BatchServer
from tests.support.servers.openai import Answer, Server
from tests.support.servers.vendors import ANTHROPIC, BEDROCK, KEYS, OPENAI, VENDORS, Body, Vendor

T = TypeVar("T")
BatchApi = type[OpenAIBatches] | type[AnthropicBatches]
BOTH = pytest.mark.parametrize("vendor", [OPENAI, ANTHROPIC], ids=lambda vendor: vendor.provider)
NAME = "medhelm-" + "0" * 24
DIGESTS = [f"{n:064x}" for n in range(5)]


def with_service(vendor: Vendor, url: str, act: Callable[[BatchService, HttpProvider], Awaitable[T]]) -> T:
    async def main() -> T:
        http = HttpClient(EgressPolicy(offline=True))
        provider = open_provider(vendor.model(url), http, environment=KEYS)
        assert isinstance(provider, HttpProvider)
        service = open_batch_service(provider, http)
        assert service is not None
        try:
            return await act(service, provider)
        finally:
            await http.close()

    return asyncio.run(main())


def file_with(service: BatchService, bodies: Iterable[tuple[str, Body]]) -> RequestFile:
    requests = RequestFile(service, BytesIO(), 10)
    for digest, body in bodies:
        assert requests.add(digest, body)
    requests.finish()
    return requests


def request(provider: HttpProvider, text: str = "Is it \N{SNOWMAN}?", **settings: Any) -> Request:
    known: dict[str, Any] = {"prompt": Prompt((Message("user", text),)), "max_tokens": 50}
    return Request(**{"model": provider.model, **known, **settings})


@pytest.fixture
def services() -> Iterator[BatchServer]:
    with BatchServer() as running:
        yield running


@BOTH
@pytest.mark.parametrize("ending", ["hang", "drip"])
def test_a_service_that_does_not_answer_is_given_up(
    ending: Literal["hang", "drip"], server: Server, vendor: Vendor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the timeout of completions is, which may take minutes."""
    assert api.REPLY_S <= 60
    monkeypatch.setattr(api, "REPLY_S", 0.1)
    server.lists_models = True
    server.script(Answer(ending=ending))

    async def act(service: BatchService, provider: HttpProvider) -> None:
        for call in (
            service.find(NAME, since=0.0, n=1, known=frozenset()),
            service.status("batch_1"),
            service.delete(NAME, "batch_1"),
        ):
            with pytest.raises(ProviderError, match=r"did not answer within 0\.1 s"):
                await call

    with_service(vendor, server.url, act)


@BOTH
def test_requests_in_a_batch_equal_those_sent_alone(services: BatchServer, vendor: Vendor) -> None:
    services.answer_with(lambda body: vendor.answer("yes"))
    bodies: list[Body] = []

    async def act(service: BatchService, provider: HttpProvider) -> str:
        asked = [request(provider, f"line\n{n} \N{SNOWMAN}", stop=("X",), schema={"type": "object"}) for n in range(5)]
        for one in asked:
            await provider.complete(one)
        bodies.extend(provider.payload(one) for one in asked)
        requests = file_with(service, zip(DIGESTS, bodies, strict=True))
        assert requests.digests == DIGESTS
        return await service.submit(requests.name, requests.file)

    remote = with_service(vendor, services.url, act)
    batch = services.batches[remote]
    assert len({custom for custom, _ in batch["requests"]}) == 5
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", custom) for custom, _ in batch["requests"])
    assert [body for _, body in batch["requests"]] == bodies == services.direct


@BOTH
def test_from_submission_to_the_completions(services: BatchServer, vendor: Vendor) -> None:
    services.answer_with(lambda body: vendor.answer(f"to {vendor.prompt_of(body)}"))
    services.looks = 2

    async def act(service: BatchService, provider: HttpProvider) -> tuple[list[str], dict[str, str | None]]:
        requests = file_with(service, ((d, provider.payload(request(provider, d[-1]))) for d in DIGESTS))
        remote = await service.submit(requests.name, requests.file)
        states: list[str] = []
        while True:
            status = await service.status(remote)
            states.append(status.state)
            if status.state == "ended":
                break
        file = BytesIO()
        for url in status.result_urls:
            assert url.startswith(services.url)  # and not where the service says they are
            await service.download(url, file)
        file.seek(0)
        lines = read_results(file, service, requests.name)
        found = {line.digest: read_completion(line, provider, request(provider)) for line in lines}
        assert all(one.batched and one.usage.input == 20 and one.usage.output == 5 for one in found.values())
        return states, {digest: one.text for digest, one in found.items()}

    states, texts = with_service(vendor, services.url, act)
    assert states == ["running", "running", "ended"]
    assert list(texts) == DIGESTS[::-1]
    assert texts == {digest: f"to {digest[-1]}" for digest in DIGESTS}


@BOTH
def test_a_batch_is_found_again(services: BatchServer, vendor: Vendor) -> None:
    async def act(service: BatchService, provider: HttpProvider) -> None:
        five, three = (file_with(service, ((d, {"model": "m"}) for d in DIGESTS[:n])) for n in (5, 3))
        first = await service.submit(five.name, five.file)
        other = await service.submit(three.name, three.file)
        now = time()

        async def find(name: str, n: int, since: float, *known: str) -> str:
            return await service.find(name, since=since, n=n, known=frozenset(known))

        assert await find(five.name, 5, now) == first
        assert await find(three.name, 3, now) == other
        if not service.carries_name:
            assert await find(five.name, 5, now, first) == ""
            assert await find(five.name, 4, now) == ""
            assert await find(five.name, 5, now + 2 * CLOCK_SKEW_S) == ""  # it is older than the intention
        else:
            assert await find("medhelm-nobody", 5, now) == ""

    with_service(vendor, services.url, act)


def test_a_batch_is_found_on_a_later_page(services: BatchServer) -> None:
    async def act(service: BatchService, provider: HttpProvider) -> None:
        files = [file_with(service, [(DIGESTS[0], {"model": "m"})]) for _ in range(101)]
        first, *_ = [await service.submit(requests.name, requests.file) for requests in files]
        assert await service.find(files[0].name, since=time(), n=1, known=frozenset()) == first

    with_service(OPENAI, services.url, act)
    assert services.asked.count("GET /v1/batches") == 2


ERRORS = {"rate limit": (True, False), "overload": (True, False), "wrong key": (False, True), "quota": (False, True)}


@BOTH
@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_read_as_those_of_single_requests(services: BatchServer, vendor: Vendor, name: str) -> None:
    retryable, fatal = ERRORS[name]

    async def act(service: BatchService, provider: HttpProvider) -> ProviderError:
        services.refusals = [vendor.errors[name]]
        with pytest.raises(ProviderError) as caught:
            await service.submit(NAME, file_with(service, [(DIGESTS[0], {})]).file)
        return caught.value

    error = with_service(vendor, services.url, act)
    assert (error.retryable, error.fatal) == (retryable, fatal)
    assert KEYS[vendor.variable] not in str(error)


@BOTH
def test_a_server_without_batches_says_so(server: Server, vendor: Vendor) -> None:
    server.script(Answer(status=404, body={"detail": "Not Found"}))

    async def act(service: BatchService, provider: HttpProvider) -> tuple[str, str]:
        with pytest.raises(ProviderError) as handing_over:
            # Not `submit`: this server reads JSON only.
            await service.submit(NAME, BytesIO(b"{}")) if vendor is ANTHROPIC else await _made(service)
        with pytest.raises(ProviderError) as looking:
            await service.status("batch_1")
        return handing_over.value.code, looking.value.code

    assert with_service(vendor, server.url, act) == ("no_batches", "unknown_batch")


async def _made(service: BatchService) -> str:
    """Only the second step of OpenAI's."""
    assert isinstance(service, OpenAIBatches)
    await or_no_batches(service._post(f"{service._base}/batches", compact({})))
    raise AssertionError


# --- lines ------------------------------------------------------------------------------------------------------------

CUSTOM = f"{'A' * 42}M-{'0' * 20}"
"""The fourth of the digests in the batch of that name."""


def openai_line(response: Any, **error: str) -> Any:
    return {"custom_id": DIGESTS[3], "response": response, "error": error or None}


def anthropic_line(kind: str, **more: Any) -> Any:
    return {"custom_id": CUSTOM, "result": {"type": kind, **more}}


WRONG, BUSY = {"type": "invalid_request_error", "message": "m"}, {"error": {"type": "overloaded_error", "message": "m"}}

OPENAI_LINES: list[tuple[Any, dict[str, Any] | None]] = [
    (openai_line({"status_code": 200, "body": {"choices": []}}), {"document": {"choices": []}}),
    (openai_line({"status_code": 400, "body": {"error": WRONG}}), {"status": 400, "error": {"error": WRONG}}),
    (openai_line(None, code="batch_expired", message="m"), {"reason": "expired"}),
    (openai_line(None), {"reason": "error"}),
    (openai_line({"status_code": 200, "body": "text"}), {"reason": "error"}),
    ({"custom_id": 7}, None),
    ({}, None),
]
ANTHROPIC_LINES: list[tuple[Any, dict[str, Any] | None]] = [
    (anthropic_line("succeeded", message={"content": []}), {"document": {"content": []}}),
    (anthropic_line("errored", error=BUSY), {"status": 529, "error": BUSY}),
    (anthropic_line("errored", error=WRONG), {"status": 400, "error": WRONG}),
    (anthropic_line("expired"), {"reason": "expired"}),
    (anthropic_line("canceled"), {"reason": "canceled"}),
    ({"custom_id": CUSTOM, "result": None}, {"reason": "error"}),
    *(({"custom_id": name, "result": {"type": "expired"}}, None)
      for name in (None, DIGESTS[3], CUSTOM[:-1] + "f", "\N{SNOWMAN}" + CUSTOM[1:])),
]  # fmt: skip
"""A line of a result file -> what is read of it; None: nothing."""


def service_of(kind: BatchApi) -> BatchService:
    vendor = OPENAI if kind is OpenAIBatches else ANTHROPIC
    http = HttpClient(EgressPolicy(offline=True))
    provider = open_provider(vendor.model("http://127.0.0.1:1"), http, environment=KEYS)
    assert isinstance(provider, HttpProvider)
    return kind(provider, http)


@table(
    ("kind", "content", "read"),
    [(OpenAIBatches, *one) for one in OPENAI_LINES] + [(AnthropicBatches, *one) for one in ANTHROPIC_LINES],
)
def test_every_line_is_a_completion_an_error_or_nothing(
    kind: BatchApi, content: Any, read: dict[str, Any] | None
) -> None:
    line = None if read is None else RequestResult(digest=DIGESTS[3], **read)
    assert service_of(kind).parse(NAME, content) == line


Json = json_values("custom_id", "result", "response", "error", "body", "type", "message", "status_code")


@pytest.mark.parametrize("kind", [OpenAIBatches, AnthropicBatches])
@settings(max_examples=50)
@given(content=Json, noise=st.binary(max_size=20))
def test_no_line_of_a_service_breaks_the_parser(kind: BatchApi, content: Any, noise: bytes) -> None:
    service = service_of(kind)
    good = service.encode(NAME, "a" * 64, {"x": 1})
    file = BytesIO(noise.replace(b"\n", b"") + b"\n" + json.dumps(content).encode() + b"\n" + good + b"\n")
    for line in read_results(file, service, NAME):
        assert isinstance(line.digest, str)
        if line.document is None:
            assert line.status or line.reason


@table("name", ["", "../x", "a/b", "a?b", "a b", "x" * 129, 7, None])
def test_an_id_that_could_change_the_address_is_rejected(name: object) -> None:
    with pytest.raises(ProviderError, match="no valid ID"):
        id_of({"id": name})


def test_times_are_read_with_and_without_fractions() -> None:
    assert timestamp("2024-09-24T18:37:24.100435Z") == pytest.approx(1727203044.100435)
    assert timestamp("2024-09-24T18:37:24+00:00") == 1727203044.0
    assert timestamp("soon") is None
    assert timestamp(None) is None


# --- files ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [OpenAIBatches, AnthropicBatches])
def test_a_file_has_no_more_than_its_service_accepts(kind: BatchApi, monkeypatch: pytest.MonkeyPatch) -> None:
    service = service_of(kind)
    requests = RequestFile(service, BytesIO(), 3)
    assert [requests.add(digest, {"x": 1}) for digest in DIGESTS] == [True, True, True, False, False]
    assert requests.digests == DIGESTS[:3]
    size = len(service.encode(requests.name, DIGESTS[0], {"x": 1})) + 1
    for most, n in ((3 * size, 3), (3 * size - 1, 2), (size - 1, 0)):
        monkeypatch.setattr(kind, "max_bytes", most)
        narrow = RequestFile(service, BytesIO(), 10)
        assert sum(narrow.add(digest, {"x": 1}) for digest in DIGESTS) == n
        assert narrow.name != requests.name


def test_a_file_notes_whether_any_request_has_stop_sequences() -> None:
    requests = RequestFile(service_of(OpenAIBatches), BytesIO(), 3)
    for digest, has_stop_sequences in zip(DIGESTS, (False, True, False), strict=False):
        requests.add(digest, {}, has_stop_sequences=has_stop_sequences)
        assert requests.has_stop_sequences == (digest != DIGESTS[0])


class Full(BytesIO):
    """A disk without room."""

    def writelines(self, lines: object, /) -> None:
        raise OSError(28, "No space left on device")


def test_a_full_disk_is_told() -> None:
    with pytest.raises(StoreFullError, match="No space left on device"):
        RequestFile(service_of(OpenAIBatches), Full(), 3).add(DIGESTS[0], {})


# --- deleting ---------------------------------------------------------------------------------------------------------


@BOTH
def test_deleting_again_succeeds_and_a_failure_is_reported(services: BatchServer, vendor: Vendor) -> None:
    services.looks = 0

    async def act(service: BatchService, provider: HttpProvider) -> None:
        requests = file_with(service, ((d, {"model": "m", "messages": []}) for d in DIGESTS))
        remote = await service.submit(requests.name, requests.file)
        if vendor is ANTHROPIC:
            with pytest.raises(ProviderError, match="in progress cannot be deleted"):
                await service.delete(requests.name, remote)
        await service.status(remote)
        services.deleting = [vendor.errors["wrong key"], Answer(status=501, body={"detail": "Not Implemented"})]
        for code in (None, "bad_request"):
            with pytest.raises(ProviderError) as caught:
                await service.delete(requests.name, remote)
            assert code in (None, caught.value.code)
            assert caught.value.code != "unknown_batch"
        await service.delete(requests.name, remote)
        await service.delete(requests.name, remote)

    services.answer_with(lambda body: vendor.answer("yes"))
    with_service(vendor, services.url, act)
    assert services.deleted == (["file-0", "file-1"] if vendor is OPENAI else ["msgbatch_0"])


@BOTH
def test_nothing_is_sent_about_a_batch_that_never_arrived(services: BatchServer, vendor: Vendor) -> None:
    async def act(service: BatchService, provider: HttpProvider) -> None:
        services.refusals = [vendor.errors["wrong key"]]
        requests = file_with(service, [(DIGESTS[0], {"model": "m"})])
        with pytest.raises(ProviderError):
            await service.submit(requests.name, requests.file)
        await service.delete(requests.name, "")

    with_service(vendor, services.url, act)
    assert len(services.asked) == 1


@BOTH
def test_a_cancelled_batch_says_so(services: BatchServer, vendor: Vendor) -> None:
    services.looks = 0
    services.answer_with(lambda body: vendor.answer("yes"))

    async def act(service: BatchService, provider: HttpProvider) -> list[bool]:
        found = []
        for fate in ("", "expired", "cancelled"):
            services.fate = lambda body, fate=fate: fate  # type: ignore[misc]
            requests = file_with(service, [(DIGESTS[0], {"model": "m"})])
            found.append((await service.status(await service.submit(requests.name, requests.file))).is_cancelled)
        return found

    assert with_service(vendor, services.url, act) == [False, False, True]


def test_two_of_the_providers_that_ship_have_a_batch_api() -> None:
    address = "http://127.0.0.1:1"
    assert [name for name, vendor in VENDORS.items() if has_batches(vendor.model(address))] == ["openai", "anthropic"]
    http, region = HttpClient(EgressPolicy(offline=True)), {"AWS_REGION": "eu-central-1"}
    assert not has_batch_api(open_provider(BEDROCK.model(address), http, environment={**KEYS, **region}))
