"""Both batch APIs, against servers that have them and servers that do not."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from io import BytesIO
from pathlib import Path
from time import time
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.errors import ProviderError, StoreFullError
from medhelm.io.http.client import HttpClient
from medhelm.io.http.egress import EgressPolicy
from medhelm.models.batch import api
from medhelm.models.batch.api import (
    CLOCK_SKEW_S,
    BatchService,
    RequestFile,
    RequestResult,
    has_batch_api,
    has_batches,
    id_of,
    open_batch_service,
    read_completion,
    read_results,
)
from medhelm.models.providers import open_provider
from medhelm.models.providers.hosted import HttpProvider
from tests.support.cases import table
from tests.support.json_values import json_values
from tests.support.models.providers import asked
from tests.support.servers.batch_apis import BatchServer
from tests.support.servers.openai import Answer, Server
from tests.support.servers.vendors import ANTHROPIC, BEDROCK, KEYS, OPENAI, VENDORS, Vendor

T = TypeVar("T")
BOTH = pytest.mark.parametrize("vendor", [OPENAI, ANTHROPIC], ids=lambda vendor: vendor.provider)
NAME = "medhelm-" + "0" * 24
DIGESTS = [f"{n:064x}" for n in range(5)]


def open_service(vendor: Vendor, url: str, http: HttpClient) -> tuple[BatchService, HttpProvider]:
    provider = open_provider(vendor.model(url), http, environment=KEYS)
    assert isinstance(provider, HttpProvider)
    service = open_batch_service(provider, http)
    assert service is not None
    return service, provider


def with_service(vendor: Vendor, url: str, act: Callable[[BatchService, HttpProvider], Awaitable[T]]) -> T:
    async def main() -> T:
        http = HttpClient(EgressPolicy(offline=True))
        try:
            return await act(*open_service(vendor, url, http))
        finally:
            await http.close()

    return asyncio.run(main())


def file_with(service: BatchService, bodies: Mapping[str, Any]) -> RequestFile:
    requests = RequestFile(service, BytesIO(), 10)
    for digest, body in bodies.items():
        assert requests.add(digest, body)
    requests.finish()
    return requests


@pytest.fixture
def services() -> Iterator[BatchServer]:
    with BatchServer() as running:
        yield running


@BOTH
def test_a_service_that_does_not_answer_is_given_up(
    server: Server, vendor: Vendor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the timeout of completions is, which may take minutes."""
    assert api.REPLY_S <= 60
    monkeypatch.setattr(api, "REPLY_S", 0.1)
    server.lists_models = True
    server.script(Answer(ending="drip"))

    async def act(service: BatchService, provider: HttpProvider) -> None:
        for call in (service.find(NAME, since=0.0, n=1, known=frozenset()), service.delete(NAME, "batch_1")):
            with pytest.raises(ProviderError, match=r"did not answer within 0\.1 s"):
                await call

    with_service(vendor, server.url, act)


@BOTH
def test_a_batch_from_its_submission_to_its_deletion(services: BatchServer, vendor: Vendor) -> None:
    """Its requests equal those sent alone. It is found again, also by a process that does not know its id."""
    services.answer_with(lambda body: vendor.answer(f"to {vendor.prompt_of(body)}"))
    services.looks = 2

    async def act(service: BatchService, provider: HttpProvider) -> None:
        more: dict[str, Any] = {"stop": ("X",), "schema": {"type": "object"}}
        alone = {digest: asked(provider.model, f"line\n{digest[-1]} \N{SNOWMAN}", **more) for digest in DIGESTS}
        for one in alone.values():
            await provider.complete(one)
        requests = file_with(service, {digest: provider.payload(one) for digest, one in alone.items()})
        services.refusals = [vendor.errors["overload"]]
        with pytest.raises(ProviderError) as overload:
            await service.submit(requests.name, requests.file)
        assert (overload.value.retryable, overload.value.fatal) == (True, False)
        remote = await service.submit(requests.name, requests.file)
        names, bodies = zip(*services.batches[remote]["requests"], strict=True)
        assert [*bodies] == services.direct
        assert len({name for name in names if re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name)}) == 5
        now = time()
        assert await service.find(requests.name, since=now, n=5, known=frozenset()) == remote
        for since, n, known in ((now, 5, remote), (now, 4, ""), (now + 2 * CLOCK_SKEW_S, 5, "")):
            name = "medhelm-nobody" if service.carries_name else requests.name
            assert await service.find(name, since=since, n=n, known=frozenset([known])) == ""
        *_, status = states = [await service.status(remote) for _ in range(3)]
        assert [(one.state, one.is_cancelled) for one in states] == [*[("running", False)] * 2, ("ended", False)]
        file = BytesIO()
        for url in status.result_urls:
            assert url.startswith(services.url)  # and not where the service says they are
            await service.download(url, file)
        file.seek(0)
        lines = read_results(file, service, requests.name)
        completions = {line.digest: read_completion(line, provider, alone[line.digest]) for line in lines}
        assert {digest: one.text for digest, one in completions.items()} == {
            digest: f"to line\n{digest[-1]} \N{SNOWMAN}" for digest in DIGESTS
        }
        assert all(one.batched and one.usage.input == 20 and one.usage.output == 5 for one in completions.values())
        services.deleting = [vendor.errors["wrong key"], Answer(status=501, body={"detail": "Not Implemented"})]
        with pytest.raises(ProviderError) as wrong_key:
            await service.delete(requests.name, remote)
        assert (wrong_key.value.fatal, KEYS[vendor.variable] in str(wrong_key.value)) == (True, False)
        with pytest.raises(ProviderError) as not_possible:
            await service.delete(requests.name, remote)
        assert not_possible.value.code == "bad_request"
        for _ in range(2):
            await service.delete(requests.name, remote)

    with_service(vendor, services.url, act)
    assert services.deleted == (["file-0", "file-1"] if vendor is OPENAI else ["msgbatch_0"])


def test_a_batch_is_found_on_a_later_page(services: BatchServer) -> None:
    async def act(service: BatchService, provider: HttpProvider) -> None:
        files = [file_with(service, {DIGESTS[0]: {"model": "m"}}) for _ in range(101)]
        first, *_ = [await service.submit(requests.name, requests.file) for requests in files]
        assert await service.find(files[0].name, since=time(), n=1, known=frozenset()) == first

    with_service(OPENAI, services.url, act)
    assert services.asked.count("GET /v1/batches") == 2


# --- lines ------------------------------------------------------------------------------------------------------------


WRONG, BUSY = {"error": {"type": "invalid_request_error"}}, {"error": {"type": "overloaded_error"}}
CUSTOM = f"{'A' * 42}M-{'0' * 20}"
"""The fourth of the digests in the batch of that name, for Anthropic."""

OPENAI_LINES: list[tuple[Any, dict[str, Any] | None]] = [
    ({"response": {"status_code": 200, "body": {"choices": []}}}, {"document": {"choices": []}}),
    ({"response": {"status_code": 400, "body": WRONG}}, {"status": 400, "error": WRONG}),
    ({"response": None, "error": {"code": "batch_expired", "message": "m"}}, {"reason": "expired"}),
    ({"response": None, "error": None}, {"reason": "error"}),
    ({"custom_id": 7}, None),
]
ANTHROPIC_LINES: list[tuple[Any, dict[str, Any] | None]] = [
    ({"result": {"type": "succeeded", "message": {"content": []}}}, {"document": {"content": []}}),
    ({"result": {"type": "errored", "error": BUSY}}, {"status": 529, "error": BUSY}),
    ({"result": {"type": "expired"}}, {"reason": "expired"}),
    ({"result": None}, {"reason": "error"}),
    *(({"custom_id": name}, None) for name in (None, DIGESTS[3], CUSTOM[:-1] + "f", "\N{SNOWMAN}" + CUSTOM[1:])),
]
"""A line of a result file -> what is read of it; None: nothing."""


def service_of(vendor: Vendor) -> BatchService:
    return open_service(vendor, "http://127.0.0.1:1", HttpClient(EgressPolicy(offline=True)))[0]


@table(
    ("vendor", "line", "read"),
    [*((OPENAI, *line) for line in OPENAI_LINES), *((ANTHROPIC, *line) for line in ANTHROPIC_LINES)],
)
def test_every_line_is_a_completion_an_error_or_nothing(
    vendor: Vendor, line: dict[str, Any], read: dict[str, Any] | None
) -> None:
    name = DIGESTS[3] if vendor is OPENAI else CUSTOM
    expected = None if read is None else RequestResult(digest=DIGESTS[3], **read)
    assert service_of(vendor).parse(NAME, {"custom_id": name, **line}) == expected


Json = json_values("custom_id", "result", "response", "error", "body", "type", "message", "status_code")


@BOTH
@given(content=Json, noise=st.binary(max_size=20))
def test_no_line_of_a_service_breaks_the_parser(vendor: Vendor, content: Any, noise: bytes) -> None:
    service = service_of(vendor)
    good = service.encode(NAME, "a" * 64, {"x": 1})
    file = BytesIO(noise.replace(b"\n", b"") + b"\n" + json.dumps(content).encode() + b"\n" + good + b"\n")
    for line in read_results(file, service, NAME):
        assert isinstance(line.digest, str)
        if line.document is None:
            assert line.status or line.reason


@table("name", ["../x", "a?b", "x" * 129, None])
def test_an_id_that_could_change_the_address_is_rejected(name: object) -> None:
    with pytest.raises(ProviderError, match="no valid ID"):
        id_of({"id": name})


# --- files ----------------------------------------------------------------------------------------------------------


@BOTH
def test_a_file_has_no_more_than_its_service_accepts(vendor: Vendor, monkeypatch: pytest.MonkeyPatch) -> None:
    service = service_of(vendor)
    requests = RequestFile(service, BytesIO(), 3)
    assert [requests.add(digest, {"x": 1}) for digest in DIGESTS] == [True, True, True, False, False]
    assert (requests.digests, requests.has_stop_sequences) == (DIGESTS[:3], False)
    size = len(service.encode(requests.name, DIGESTS[0], {"x": 1})) + 1
    for most, n in ((3 * size, 3), (3 * size - 1, 2), (size - 1, 0)):
        monkeypatch.setattr(type(service), "max_bytes", most)
        narrow = RequestFile(service, BytesIO(), 10)
        assert sum(narrow.add(digest, {"x": 1}) for digest in DIGESTS) == n
        assert narrow.name != requests.name


def test_a_full_disk_is_told() -> None:
    with (
        Path("/dev/full").open("wb", buffering=0) as full,
        pytest.raises(StoreFullError, match="No space left on device"),
    ):
        RequestFile(service_of(OPENAI), full, 3).add(DIGESTS[0], {})


def test_two_of_the_providers_that_ship_have_a_batch_api() -> None:
    address = "http://127.0.0.1:1"
    assert [name for name, vendor in VENDORS.items() if has_batches(vendor.model(address))] == ["openai", "anthropic"]
    http, region = HttpClient(EgressPolicy(offline=True)), {"AWS_REGION": "eu-central-1"}
    assert not has_batch_api(open_provider(BEDROCK.model(address), http, environment={**KEYS, **region}))
