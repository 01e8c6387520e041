"""Batch APIs: thousands of requests submitted at once and completed within a day, at half the price.

OpenAI's takes a file of requests, Anthropic's one document. Inside, requests and completions have the form of the
model's ordinary API.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Awaitable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pkgutil import resolve_name
from secrets import token_hex
from time import time
from typing import IO, Any, Protocol, TypeGuard

from medhelm.domain import Completion, FailureCode, Model, Request
from medhelm.errors import ProviderError, StoreFullError
from medhelm.io.http.client import MAX_REPLY_BYTES, HttpClient, HttpResponse, read_json, retry_after_s
from medhelm.models.provider import OptionalParameter, Provider
from medhelm.models.providers import SERVICES
from medhelm.models.providers.errors import classify_error, objects, parse_error
from medhelm.models.providers.hosted import HttpProvider, omitted_parameters


def has_batches(model: Model) -> bool:
    """Return True if the model's provider has a batch API; a compatible server of someone else may still lack one."""
    return not model.replicas and model.provider in SERVICES.built_in and bool(SERVICES[model.provider].batch)


def has_batch_api(provider: Provider) -> TypeGuard[HttpProvider]:
    """Return True if a provider's service has a batch API."""
    return isinstance(provider, HttpProvider) and bool(provider.service.batch)


def open_batch_service(provider: HttpProvider, http: HttpClient) -> BatchService:
    """Open the batch API of a provider that has one."""
    service: BatchService = resolve_name(provider.service.batch)(provider, http)
    return service


def read_completion(
    result: RequestResult,
    provider: HttpProvider,
    request: Request,
    unsupported: Collection[OptionalParameter] = (),
) -> Completion:
    """Read the completion, refusals included, in the result of one request.

    `unsupported`: optional parameters that its batch left out.
    Raises: ProviderError if there is none. If the service does not support an optional parameter, `provider` leaves
    it out from then on.
    """
    if result.document is None and not result.status:
        message = f"{provider.model.name}: not answered in its batch ({result.reason})"
        raise ProviderError(result.reason, message)
    optional = provider.dialect.optional_parameters(request)
    error, status = result.error, result.status
    omitted = omitted_parameters(request, optional.intersection(unsupported))
    if result.document is not None:
        status, error = 200, provider.dialect.error_in(result.document)
        if error is None:
            completion = provider.dialect.read(result.document, request)
            return provider.redacted(replace(completion, batched=True, refused_parameters=omitted))
    response = parse_error(status, error, secrets=provider.dialect.secrets)
    completion = provider.read_error(response, optional.difference(unsupported))
    return provider.redacted(replace(completion, batched=True, refused_parameters=omitted))


def read_results(file: IO[bytes], service: BatchService, name: str) -> Iterator[RequestResult]:
    """Read the results of the batch with our name `name` from a file.

    Lines that are not JSON are skipped, so that their requests count as missing.
    """
    while line := file.readline(MAX_REPLY_BYTES):  # the rest of a longer line is not JSON either
        try:
            content = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(content, Mapping) and (result := service.parse(name, content)):
            yield result


# --- HTTP service -----------------------------------------------------------------------------------------------------
# Shared parts of both batch APIs: HTTP with the model's own key, and its errors.

TRANSFER_TIMEOUT_S = 3600.0
"""Timeout for one file of requests or results, which can have hundreds of megabytes."""

REPLY_S = 60.0
"""Longest time for a reply without such a file."""

MAX_PAGES = 20
"""Most pages of recent batches or files that are searched; each has 100."""

CLOCK_SKEW_S = 24 * 3600.0
"""Largest lag of a service's clock behind ours: either may be set to a wrong time zone."""

_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")


class HttpBatchService:
    """HTTP requests with the model's key; errors as the model's own."""

    def __init__(self, provider: HttpProvider, http: HttpClient) -> None:
        """Nothing is sent yet."""
        self.model = provider.model
        self._base = provider.model.base_url.rstrip("/")
        self._provider = provider
        self._dialect = provider.dialect
        self._http = http

    async def download(self, url: str, file: IO[bytes]) -> None:
        """Write the results at an address to a file. Raises: ProviderError."""
        reply = await self._http.get(url, headers=self._dialect.headers(None), into=file, timeout_s=TRANSFER_TIMEOUT_S)
        if reply.status != 200:
            self._document(reply)

    async def _pages(self, listing: str, cursor: str) -> AsyncIterator[Mapping[str, Any]]:
        """Yield batches or files, the latest first. `cursor`: the parameter that names the item before a page."""
        after = ""
        for _ in range(MAX_PAGES):
            page = await self._get(f"{self._base}/{listing}limit=100{after}")
            items = objects(page.get("data"))
            for item in items:
                yield item
            if not page.get("has_more") or not items:
                return
            after = f"&{cursor}={id_of(items[-1])}"

    async def _get(self, url: str) -> dict[str, Any]:
        """GET a JSON document. Raises: ProviderError."""
        limit_s = min(self._http.timeout_s, REPLY_S)
        return self._document(await self._http.get(url, headers=self._dialect.headers(None), timeout_s=limit_s))

    async def _post(self, url: str, body: bytes) -> dict[str, Any]:
        """POST a body, return the JSON document. Raises: ProviderError."""
        return self._document(await self._http.post(url, headers=self._dialect.headers(body), body=body))

    async def _upload(self, url: str, file: IO[bytes], media_type: str = "application/json") -> dict[str, Any]:
        """POST the content of a file, return the JSON document. Raises: ProviderError."""
        headers = {**self._dialect.headers(None), "Content-Type": media_type}
        return self._document(await self._http.post(url, headers=headers, body=file, timeout_s=TRANSFER_TIMEOUT_S))

    async def _delete(self, url: str) -> None:
        """Delete what an address names, if it exists. Raises: ProviderError."""
        limit_s = min(self._http.timeout_s, REPLY_S)
        reply = await self._http.delete(url, headers=self._dialect.headers(None), timeout_s=limit_s)
        if 200 <= reply.status < 300 or reply.status == 404:
            return
        error = self._error(reply)
        if error.code == FailureCode.UNKNOWN_BATCH:
            raise ProviderError(FailureCode.BAD_REQUEST, str(error))
        raise error

    def _document(self, reply: HttpResponse) -> dict[str, Any]:
        """Return the JSON document of a successful reply. Raises: ProviderError."""
        if 200 <= reply.status < 300:
            return read_json(reply)
        raise self._error(reply)

    def _error(self, reply: HttpResponse) -> ProviderError:
        """Return the error of an unsuccessful reply."""
        response = parse_error(
            reply.status,
            reply.body,
            secrets=self._dialect.secrets,
            retry_after_s=retry_after_s(reply.headers, time()),
        )
        if reply.status in (404, 405, 501):
            message = f"{self.model.name}: the server answered {reply.status}: {response.message}"
            return ProviderError(FailureCode.UNKNOWN_BATCH, message)
        try:
            refusal = classify_error(response, self.model, self._provider.service)
        except ProviderError as error:
            return error
        return ProviderError(FailureCode.BAD_REQUEST, refusal.failure.message if refusal.failure else response.message)


async def or_no_batches(call: Awaitable[dict[str, Any]]) -> dict[str, Any]:
    """Await a call that creates something. Raises: ProviderError `no_batches` if the address does not exist."""
    try:
        return await call
    except ProviderError as error:
        if error.code == FailureCode.UNKNOWN_BATCH:
            raise ProviderError(FailureCode.NO_BATCHES, str(error)) from error
        raise


def id_of(document: Mapping[str, Any]) -> str:
    """Return the service's ID of a batch or file, which goes into addresses.

    Raises: ProviderError if there is none, or if it holds characters that an address must not.
    """
    name = document.get("id")
    if not isinstance(name, str) or not _ID.fullmatch(name):
        message = "the reply holds no valid ID of the batch"
        raise ProviderError(FailureCode.MALFORMED_REPLY, message, retryable=True)
    return name


def compact(content: object) -> bytes:
    """Encode as JSON on one line, without spaces."""
    return json.dumps(content, separators=(",", ":")).encode()


# --- protocol ---------------------------------------------------------------------------------------------------------
# The operations of every batch API: submit requests, look up the status, download results, delete them.

QUEUE_FULL = "token_limit_exceeded"
"""OpenAI's code for a batch that exceeds what an account may have queued; none of it is processed."""


class RemoteState(StrEnum):
    """State of a batch at its service."""

    RUNNING = "running"
    ENDED = "ended"
    FAILED = "failed"
    """Refused as a whole, before any request was processed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchStatus:
    """Progress of a batch at its service."""

    state: RemoteState
    """Its state: running, ended or failed."""
    service_state: str
    """The service's own word for it."""
    n_done: int = 0
    """Requests completed or given up so far; 0 if the service does not report it."""
    result_urls: tuple[str, ...] = ()
    """Addresses of its results, once it has ended."""
    error_code: str = ""
    """The service's code for why it failed."""
    error_message: str = ""
    """The service's message on why it failed."""
    is_cancelled: bool = False
    """True if it was canceled at the service before it ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestResult:
    """Result of one request of a batch."""

    digest: str
    """Digest of the request, as hexadecimal digits: its name in the batch."""
    document: Mapping[str, Any] | None = None
    """The service's reply, in the form of a single request's; None if there is none."""
    status: int = 0
    """HTTP status of its error; 0 if the request was not processed."""
    error: object = None
    """The service's error document."""
    reason: str = ""
    """Reason that it was not processed: `expired`, `canceled`."""


@dataclass(frozen=True, slots=True)
class BatchFraming:
    """The bytes around and between the requests of a batch."""

    prefix: bytes
    """Before the first request."""
    separator: bytes
    """Between two requests."""
    suffix: bytes
    """After the last request."""


class BatchService(Protocol):
    """The batch API of one service, for one model. Polling, retries and records on disk are the caller's."""

    max_requests: int
    """Most requests in one batch."""
    max_bytes: int
    """Most bytes in one batch."""
    carries_name: bool
    """True if a batch at the service carries our name for it; otherwise only its results do."""

    def framing(self, name: str) -> BatchFraming:
        """Return the bytes around the requests of the batch with our name `name`."""

    def encode(self, name: str, digest: str, body: Mapping[str, Any]) -> bytes:
        """Encode one request of that batch."""

    async def submit(self, name: str, file: IO[bytes]) -> str:
        """Submit the requests in a file as one batch; return the service's ID for it. Raises: ProviderError."""

    async def find(self, name: str, *, since: float, n: int, known: frozenset[str]) -> str:
        """Return the service's ID of a submitted batch; "" if there is none.

        A service whose batches carry no name matches by time (`since`, in seconds since 1970) and number of requests
        `n`, except for the `known` IDs. Raises: ProviderError.
        """

    async def status(self, remote_id: str) -> BatchStatus:
        """Return the status of a batch. Raises: ProviderError."""

    async def download(self, url: str, file: IO[bytes]) -> None:
        """Write the results at one of its URLs to a file. Raises: ProviderError."""

    def parse(self, name: str, line: Mapping[str, Any]) -> RequestResult | None:
        """Parse one line of the results; None if it does not belong to the batch with our name `name`."""

    async def delete(self, name: str, remote_id: str) -> None:
        """Delete the requests and results of a batch that has ended, if they still exist.

        An empty `remote_id` means a batch that the service never accepted. Raises: ProviderError.
        """


# --- request file -----------------------------------------------------------------------------------------------------
# The file with the requests of one batch, which can have hundreds of megabytes.


@dataclass(slots=True)
class RequestFile:
    """Requests of one batch, encoded as its service expects them."""

    service: BatchService
    """Encodes the requests."""
    file: IO[bytes]
    """An empty file; what is submitted, once `finish` was called."""
    max_requests: int
    """Most requests, if lower than the service's own limit."""
    name: str = field(default_factory=lambda: f"medhelm-{token_hex(10)}")
    """Our unique name for the batch."""
    digests: list[str] = field(default_factory=list)
    """Digests of the requests, as hexadecimal digits."""
    benchmarks: set[str] = field(default_factory=set)
    """Benchmarks of the requests."""
    has_stop_sequences: bool = False
    """True if any request names stop sequences."""
    framing: BatchFraming = field(init=False)
    """The bytes around the requests."""
    _size: int = 0

    def __post_init__(self) -> None:
        """The framing depends on the name."""
        self.framing = self.service.framing(self.name)

    def add(self, digest: str, body: Mapping[str, Any], *, has_stop_sequences: bool = False) -> bool:
        """Add a request; return False if it exceeds a limit. Raises: StoreFullError."""
        encoded = self.service.encode(self.name, digest, body)
        size = self._size + len(encoded) + len(self.framing.separator)
        if len(self.digests) >= self.max_requests or size > self.service.max_bytes:
            return False
        self._write(self.framing.separator if self.digests else self.framing.prefix, encoded)
        self._size = size
        self.digests.append(digest)
        self.has_stop_sequences = self.has_stop_sequences or has_stop_sequences
        return True

    def finish(self) -> None:
        """Write the bytes after the last request. Raises: StoreFullError."""
        self._write(self.framing.suffix)

    def _write(self, *parts: bytes) -> None:
        try:
            self.file.writelines(parts)
        except OSError as error:
            raise StoreFullError(
                f"no space left on the disk for a batch ({error.strerror or error}); free some space"
            ) from error
