"""Anthropic's batches of messages (platform.claude.com/docs/en/build-with-claude/batch-processing, and SDK 2.12)."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import IO, Any

from medhelm.models.batch.protocol import (
    CLOCK_SKEW_S,
    MOST_PAGES,
    BatchFraming,
    BatchProtocol,
    BatchStatus,
    RequestResult,
    compact,
    id_of,
    moment,
    or_no_batches,
)
from medhelm.models.providers.response_fields import count, mapping, objects, word

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
"""Anthropic's types of errors and the statuses they have where they come one by one."""

_DIGEST_LENGTH, _MARK_LENGTH = 43, 20
"""Characters of a digest and of our name for a batch in the name of a request, which may have 64."""


class AnthropicBatches(BatchProtocol):
    """`POST /v1/messages/batches`."""

    most_requests = 100_000
    most_bytes = 240 * 10**6  # documented: 256 MB
    verifiable = False

    def line(self, name: str, digest: str, body: Mapping[str, Any]) -> bytes:
        """One of the requests. Its own name says of which batch it is, since batches carry none."""
        short = urlsafe_b64encode(bytes.fromhex(digest)).decode().rstrip("=")
        return compact({"custom_id": f"{short}-{name[-_MARK_LENGTH:]}", "params": body})

    def frame(self, name: str) -> BatchFraming:  # noqa: ARG002 - every batch has the same
        """All requests stand in one document."""
        return BatchFraming(b'{"requests":[', b",", b"]}")

    async def submit(self, name: str, file: IO[bytes]) -> str:  # noqa: ARG002 - there is no place for it
        """All requests in one body."""
        return id_of(await or_no_batches(self.upload(f"{self._base}/messages/batches", file)))

    async def find(self, name: str, *, since: float, n: int, known: frozenset[str]) -> str:  # noqa: ARG002
        """By its size and time: of several the one that was made closest to the time it was to be handed over."""
        found: dict[str, float] = {}
        after = ""
        for _ in range(MOST_PAGES):
            page = await self.get(f"{self._base}/messages/batches?limit=100{after}")
            batches = objects(page.get("data"))
            for batch in batches:
                made = moment(batch.get("created_at"))
                if made is None or made < since - CLOCK_SKEW_S:
                    continue
                if sum(map(count, mapping(batch.get("request_counts")).values())) == n and id_of(batch) not in known:
                    found[id_of(batch)] = abs(made - since)
            if not page.get("has_more") or not batches or (made is not None and made < since - CLOCK_SKEW_S):
                break
            after = f"&after_id={id_of(batches[-1])}"
        return min(found, key=found.__getitem__, default="")

    async def look(self, remote_id: str) -> BatchStatus:
        """Its state. Its answers stand at one address, which is not taken from what the service says."""
        batch = await self.get(f"{self._base}/messages/batches/{remote_id}")
        status, counts = word(batch.get("processing_status")), mapping(batch.get("request_counts"))
        if status != "ended":
            return BatchStatus(state="running", word=status)
        done = sum(count(n) for name, n in counts.items() if name != "processing")
        return BatchStatus(
            state="ended",
            word=status,
            done=done,
            places=(f"{self._base}/messages/batches/{remote_id}/results",),
            is_cancelled=bool(count(counts.get("canceled"))),
        )

    def read(self, name: str, line: Mapping[str, Any]) -> RequestResult | None:
        """`{"custom_id", "result": {"type": succeeded|errored|canceled|expired, "message"|"error"}}`."""
        digest, result = _digest_in(line.get("custom_id"), name), mapping(line.get("result"))
        if not digest:
            return None
        if isinstance(result.get("message"), Mapping):
            return RequestResult(digest=digest, document=result["message"])
        if isinstance(result.get("error"), Mapping):
            error = mapping(result["error"].get("error")) or result["error"]
            return RequestResult(
                digest=digest, status=_STATUS_OF.get(str(error.get("type")), 400), said=result["error"]
            )
        return RequestResult(digest=digest, word=word(result.get("type")) or "error")

    async def discard(self, name: str, remote_id: str) -> None:  # noqa: ARG002 - what was not taken is not there
        """Requests and answers lie in the batch itself."""
        if remote_id:
            await self.delete(f"{self._base}/messages/batches/{remote_id}")


def _digest_in(custom_id: object, name: str) -> str:
    """The digest in the name of a request; "" if it is none of this batch."""
    if not isinstance(custom_id, str):
        return ""
    short, mark = custom_id[:_DIGEST_LENGTH], custom_id[_DIGEST_LENGTH:]
    if mark != f"-{name[-_MARK_LENGTH:]}":
        return ""
    try:
        return urlsafe_b64decode(f"{short}=").hex()
    except ValueError:
        return ""
