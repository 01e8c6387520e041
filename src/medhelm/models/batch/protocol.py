"""The operations of every batch API: submit requests, look up the status, download results, delete them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import IO, Any, Protocol

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
