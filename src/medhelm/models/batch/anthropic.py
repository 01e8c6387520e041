"""Anthropic's batch API: all requests in one document.

Source: platform.claude.com/docs/en/build-with-claude/batch-processing and the vendor's Python SDK 2.12.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from datetime import datetime
from typing import IO, Any

from medhelm.models.batch.api import (
    CLOCK_SKEW_S,
    BatchFraming,
    BatchStatus,
    HttpBatchService,
    RemoteState,
    RequestResult,
    compact,
    id_of,
    or_no_batches,
)
from medhelm.models.providers.errors import count, mapping, word

_STATUS_OF = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""Anthropic's error types and the HTTP statuses they have for a single request."""

_DIGEST_LENGTH, _NAME_LENGTH = 43, 20
"""Characters of the digest and of our batch name in a request's `custom_id`, which may have 64."""


class AnthropicBatches(HttpBatchService):
    """`POST /v1/messages/batches`."""

    max_requests = 100_000
    max_bytes = 240 * 10**6  # documented: 256 MB
    carries_name = False

    def encode(self, name: str, digest: str, body: Mapping[str, Any]) -> bytes:
        """Encode one request. Batches carry no name, so its `custom_id` contains ours."""
        short = urlsafe_b64encode(bytes.fromhex(digest)).decode().rstrip("=")
        return compact({"custom_id": f"{short}-{name[-_NAME_LENGTH:]}", "params": body})

    def framing(self, name: str) -> BatchFraming:  # noqa: ARG002 - every batch has the same
        """Return the bytes of the document around the list of requests."""
        return BatchFraming(b'{"requests":[', b",", b"]}")

    async def submit(self, name: str, file: IO[bytes]) -> str:  # noqa: ARG002 - batches carry no name
        """Send all requests in one body."""
        return id_of(await or_no_batches(self._upload(f"{self._base}/messages/batches", file)))

    async def find(self, name: str, *, since: float, n: int, known: frozenset[str]) -> str:  # noqa: ARG002
        """Match by number of requests and creation time; if several match, return the closest in time."""
        distances: dict[str, float] = {}
        async for batch in self._pages("messages/batches?", "after_id"):
            created = timestamp(batch.get("created_at"))
            if created is None:
                continue
            if created < since - CLOCK_SKEW_S:
                break
            if sum(map(count, mapping(batch.get("request_counts")).values())) == n and id_of(batch) not in known:
                distances[id_of(batch)] = abs(created - since)
        return min(distances, key=distances.__getitem__, default="")

    async def status(self, remote_id: str) -> BatchStatus:
        """Return its state. The results are at one address, which is never taken from the reply."""
        batch = await self._get(f"{self._base}/messages/batches/{remote_id}")
        status, counts = word(batch.get("processing_status")), mapping(batch.get("request_counts"))
        if status != "ended":
            return BatchStatus(state=RemoteState.RUNNING, service_state=status)
        done = sum(count(n) for name, n in counts.items() if name != "processing")
        return BatchStatus(
            state=RemoteState.ENDED,
            service_state=status,
            n_done=done,
            result_urls=(f"{self._base}/messages/batches/{remote_id}/results",),
            is_cancelled=bool(count(counts.get("canceled"))),
        )

    def parse(self, name: str, line: Mapping[str, Any]) -> RequestResult | None:
        """Parse `{"custom_id", "result": {"type": succeeded|errored|canceled|expired, "message"|"error"}}`."""
        digest, result = _digest_in(line.get("custom_id"), name), mapping(line.get("result"))
        if not digest:
            return None
        if isinstance(result.get("message"), Mapping):
            return RequestResult(digest=digest, document=result["message"])
        if isinstance(result.get("error"), Mapping):
            error = mapping(result["error"].get("error")) or result["error"]
            return RequestResult(
                digest=digest, status=_STATUS_OF.get(str(error.get("type")), 400), error=result["error"]
            )
        return RequestResult(digest=digest, reason=word(result.get("type")) or "error")

    async def delete(self, name: str, remote_id: str) -> None:  # noqa: ARG002 - an unaccepted batch leaves nothing
        """Delete the batch with its requests and results."""
        if remote_id:
            await self._delete(f"{self._base}/messages/batches/{remote_id}")


def timestamp(value: object) -> float | None:
    """Convert an RFC 3339 time to seconds since 1970; None for anything else."""
    try:
        return datetime.fromisoformat(str(value)).timestamp()
    except (ValueError, OverflowError):
        return None


def _digest_in(custom_id: object, name: str) -> str:
    """Return the digest in a `custom_id`; "" if the request belongs to another batch."""
    if not isinstance(custom_id, str):
        return ""
    short, mark = custom_id[:_DIGEST_LENGTH], custom_id[_DIGEST_LENGTH:]
    if mark != f"-{name[-_NAME_LENGTH:]}":
        return ""
    try:
        return urlsafe_b64decode(f"{short}=").hex()
    except ValueError:
        return ""
