"""What batch APIs have in common: where a batch stands, what its lines say, and how a service is reached."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from datetime import datetime
from time import time
from typing import IO, Any, Literal, Protocol

from medhelm.errors import ProviderError
from medhelm.io.http_client import HttpClient, HttpResponse, read_json, retry_after_s
from medhelm.models.providers.errors.classify import classify_error
from medhelm.models.providers.errors.parse import parse_error
from medhelm.models.providers.hosted import HttpProvider

TOO_MUCH_QUEUED = "token_limit_exceeded"
"""OpenAI's word for a batch that is more than an account may have waiting; it is not worked on."""

NO_BATCHES = "no_batches"
"""Code of the error of a server that has no batch API."""

LOST = "unknown_batch"
"""Code of the error of a service that does not know a batch."""

TRANSFER_TIMEOUT_S = 3600.0
"""For one file of requests or answers, which can have hundreds of megabytes."""

MOST_PAGES = 20
"""Pages of recent batches that are looked through; each has 100."""

CLOCK_SKEW_S = 24 * 3600.0
"""How much earlier than here a service's clock may say that a batch was made: either may be in a wrong zone."""

_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchStatus:
    """Where a batch stands."""

    state: Literal["running", "ended", "failed"]
    """`failed`: as a whole, before anything of it was worked on."""
    word: str
    """The service's own word for it."""
    done: int = 0
    """Requests answered so far, or given up; 0 where the service does not say."""
    places: tuple[str, ...] = ()
    """Addresses of its answers, once it has ended."""
    code: str = ""
    """The service's word for why it failed."""
    reason: str = ""
    """The same in a sentence."""
    is_cancelled: bool = False
    """Whether somebody stopped it there before it had ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestResult:
    """What became of one request of a batch."""

    digest: str
    """The name it was given: the digest of the request, as hexadecimal digits."""
    document: Mapping[str, Any] | None = None
    """The service's reply, as it would have been to the request alone; None if it was not answered."""
    status: int = 0
    """HTTP status of its error; 0 if it was not tried."""
    said: object = None
    """The error."""
    word: str = ""
    """Why it was not tried: `expired`, `canceled`."""


@dataclass(frozen=True, slots=True)
class BatchFraming:
    """What stands around the lines of a batch, where it is handed over."""

    head: bytes
    """Before the first."""
    between: bytes
    """Between two."""
    tail: bytes
    """After the last."""


class BatchService(Protocol):
    """One batch API, for one model. Waiting, retries and the journal are the caller's."""

    most_requests: int
    """Requests that one batch may have."""
    most_bytes: int
    """Bytes that one batch may have."""
    verifiable: bool
    """Whether a batch that is found carries our own name for it; if not, only its answers do."""

    def line(self, name: str, digest: str, body: Mapping[str, Any]) -> bytes:
        """One request as it stands in the batch with our own name `name`."""

    def frame(self, name: str) -> BatchFraming:
        """What stands around these lines."""

    async def submit(self, name: str, file: IO[bytes]) -> str:
        """Hand over the requests in a file as one batch with our own name; what the service calls it.

        Raises: ProviderError.
        """

    async def find(self, name: str, *, since: float, n: int, known: frozenset[str]) -> str:
        """The batch with our own name, or of this size and time and none of the `known` ones; "" if there is none.

        Raises: ProviderError.
        """

    async def look(self, remote_id: str) -> BatchStatus:
        """Where a batch stands. Raises: ProviderError."""

    async def save(self, place: str, file: IO[bytes]) -> None:
        """Write the answers at one of its places to a file. Raises: ProviderError."""

    def read(self, name: str, line: Mapping[str, Any]) -> RequestResult | None:
        """One line of the answers to the batch with our own name `name`; None if it is none."""

    async def discard(self, name: str, remote_id: str) -> None:
        """Have requests and answers of a batch that has ended deleted; `remote_id` "": those of one never taken.

        What is gone already is no error. Raises: ProviderError.
        """


class BatchProtocol:
    """What both services have in common: the model's own dialect, its key and its complaints."""

    def __init__(self, provider: HttpProvider, http: HttpClient) -> None:
        """Nothing is sent yet."""
        self.model = provider.model
        self._base = provider.model.base_url.rstrip("/")
        self._dialect = provider.dialect
        self._http = http

    async def save(self, place: str, file: IO[bytes]) -> None:
        """Write the answers at an address to a file."""
        await self.get(place, file)

    async def post(self, url: str, body: bytes) -> dict[str, Any]:
        """The document of a success. Raises: ProviderError."""
        return self._content(await self._http.post(url, headers=self._dialect.headers(body), body=body))

    async def upload(self, url: str, file: IO[bytes], kind: str = "application/json") -> dict[str, Any]:
        """The same, for the content of a file. Raises: ProviderError."""
        named = {**self._dialect.headers(None), "Content-Type": kind}
        return self._content(await self._http.post(url, headers=named, body=file, timeout_s=TRANSFER_TIMEOUT_S))

    async def delete(self, url: str) -> None:
        """Have deleted what stands at an address, if it is there. Raises: ProviderError."""
        reply = await self._http.delete(url, headers=self._dialect.headers(None))
        if 200 <= reply.status < 300 or reply.status == 404:
            return
        refusal = self._refusal(reply)
        raise ProviderError("bad_request", str(refusal)) if refusal.code == LOST else refusal

    async def get(self, url: str, into: IO[bytes] | None = None) -> dict[str, Any]:
        """The document of a success, empty if it went into a file. Raises: ProviderError."""
        headers = self._dialect.headers(None)
        if into is None:
            return self._content(await self._http.get(url, headers=headers))
        reply = await self._http.get(url, headers=headers, into=into, timeout_s=TRANSFER_TIMEOUT_S)
        return {} if reply.status == 200 else self._content(reply)

    def _content(self, reply: HttpResponse) -> dict[str, Any]:
        """The document of a success. Raises: ProviderError."""
        if 200 <= reply.status < 300:
            return read_json(reply)
        raise self._refusal(reply)

    def _refusal(self, reply: HttpResponse) -> ProviderError:
        """What a reply complains about."""
        complaint = parse_error(
            reply.status,
            reply.body,
            secrets=self._dialect.secrets,
            retry_after_s=retry_after_s(reply.headers, time()),
        )
        if reply.status in (404, 405, 501):
            return ProviderError(LOST, f"{self.model.name}: the server answered {reply.status}: {complaint.message}")
        try:
            refused = classify_error(complaint, self.model)
        except ProviderError as error:
            return error
        assert refused.failure is not None, "no complaint is an answer"
        return ProviderError("bad_request", refused.failure.message)


async def or_no_batches(asking: Awaitable[dict[str, Any]]) -> dict[str, Any]:
    """Raises: ProviderError `no_batches` if the server does not know the address."""
    try:
        return await asking
    except ProviderError as error:
        if error.code == LOST:
            raise ProviderError(NO_BATCHES, str(error)) from error
        raise


def id_of(document: Mapping[str, Any]) -> str:
    """What a service calls a thing, which goes into addresses. Raises: ProviderError if it has no usable name."""
    name = document.get("id")
    if not isinstance(name, str) or not _ID.fullmatch(name):
        raise ProviderError("malformed_reply", "the reply does not say what the batch is called", retryable=True)
    return name


def compact(content: object) -> bytes:
    """JSON without blanks, on one line."""
    return json.dumps(content, separators=(",", ":")).encode()


def form_type(boundary: str) -> str:
    """The media type of a form with this boundary."""
    return f"multipart/form-data; boundary={boundary}"


def form(boundary: str, fields: Mapping[str, str], file: str) -> tuple[bytes, bytes]:
    """What stands before and after a file in a form (RFC 7578). `boundary` is random, so that no text holds it."""
    parts = [f'--{boundary}\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n' for k, v in fields.items()]
    parts.append(
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{file}"\r\n'
        "Content-Type: application/jsonl\r\n\r\n"
    )
    return "".join(parts).encode(), f"\r\n--{boundary}--\r\n".encode()


def number(value: object) -> float | None:
    """`value` if it is a number."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def moment(value: object) -> float | None:
    """Seconds since 1970 of a time as RFC 3339 writes it; None for anything else."""
    try:
        return datetime.fromisoformat(str(value)).timestamp()
    except (ValueError, OverflowError):
        return None
