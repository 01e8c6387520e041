"""Anthropic's batches of messages (platform.claude.com/docs/en/build-with-claude/batch-processing, and SDK 2.12)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from medhelm.models.batches.wire import (
    CLOCK_SKEW_S,
    MOST_PAGES,
    Line,
    Standing,
    Wire,
    compact,
    id_of,
    moment,
    or_no_batches,
)
from medhelm.models.providers.wire import count, mapping, objects, word

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


class AnthropicBatches(Wire):
    """`POST /v1/messages/batches`."""

    most_requests = 100_000
    most_bytes = 240 * 10**6  # documented: 256 MB
    verifiable = False

    def line(self, digest: str, body: Mapping[str, Any]) -> bytes:
        """One of the requests; a digest has the 64 characters that a name may have."""
        return compact({"custom_id": digest, "params": body})

    async def submit(self, name: str, lines: Sequence[bytes]) -> str:  # noqa: ARG002 - there is no place for it
        """All requests in one body."""
        body = b"".join((b'{"requests":[', b",".join(lines), b"]}"))
        return id_of(await or_no_batches(self.post(f"{self._base}/messages/batches", body)))

    async def find(self, name: str, *, since: float, n: int, known: frozenset[str]) -> str:  # noqa: ARG002
        """By its size and time: these batches carry no name. Of several the one that was made first."""
        found = ""
        after = ""
        for _ in range(MOST_PAGES):
            page = await self.get(f"{self._base}/messages/batches?limit=100{after}")
            batches = objects(page.get("data"))
            for batch in batches:
                made = moment(batch.get("created_at"))
                if made is not None and made < since - CLOCK_SKEW_S:
                    return found
                if sum(map(count, mapping(batch.get("request_counts")).values())) == n and id_of(batch) not in known:
                    found = id_of(batch)
            if not page.get("has_more") or not batches:
                break
            after = f"&after_id={id_of(batches[-1])}"
        return found

    async def look(self, remote_id: str) -> Standing:
        """Its state. Its answers stand at one address, which is not taken from what the service says."""
        batch = await self.get(f"{self._base}/messages/batches/{remote_id}")
        status, counts = word(batch.get("processing_status")), mapping(batch.get("request_counts"))
        if status != "ended":
            return Standing(state="running", word=status)
        done = sum(count(n) for name, n in counts.items() if name != "processing")
        place = f"{self._base}/messages/batches/{remote_id}/results"
        return Standing(state="ended", word=status, done=done, places=(place,))

    def read(self, line: Mapping[str, Any]) -> Line | None:
        """`{"custom_id", "result": {"type": succeeded|errored|canceled|expired, "message"|"error"}}`."""
        digest, result = line.get("custom_id"), mapping(line.get("result"))
        if not isinstance(digest, str):
            return None
        if isinstance(result.get("message"), Mapping):
            return Line(digest=digest, document=result["message"])
        if isinstance(result.get("error"), Mapping):
            error = mapping(result["error"].get("error")) or result["error"]
            return Line(digest=digest, status=_STATUS_OF.get(str(error.get("type")), 400), said=result["error"])
        return Line(digest=digest, word=word(result.get("type")) or "error")
