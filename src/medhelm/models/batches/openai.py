"""OpenAI's batches: a file of requests (platform.openai.com/docs/guides/batch, and the vendor's Python SDK 3.54)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from medhelm.models.batches.wire import (
    CLOCK_SKEW_S,
    MOST_PAGES,
    Line,
    Standing,
    Wire,
    compact,
    form,
    form_type,
    id_of,
    number,
    or_no_batches,
)
from medhelm.models.providers.wire import count, mapping, objects, word


class OpenAIBatches(Wire):
    """`POST /v1/files`, then `/v1/batches`. One batch asks one model."""

    most_requests = 50_000
    most_bytes = 190 * 10**6  # documented: 200 MB
    verifiable = True

    def line(self, digest: str, body: Mapping[str, Any]) -> bytes:
        """A line of the file of requests."""
        return compact({"custom_id": digest, "method": "POST", "url": "/v1/chat/completions", "body": body})

    async def submit(self, name: str, lines: Sequence[bytes]) -> str:
        """Upload the file, and make a batch of it that carries our name for it as metadata."""
        head, tail = form(name, {"purpose": "batch"}, f"{name}.jsonl")
        file = b"".join((head, b"\n".join(lines), b"\n", tail))
        uploaded = await or_no_batches(self.post(f"{self._base}/files", file, form_type(name)))
        wanted = {
            "input_file_id": id_of(uploaded),
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
            "metadata": {"medhelm": name},
        }
        made = await or_no_batches(self.post(f"{self._base}/batches", compact(wanted)))
        return id_of(made)

    async def find(self, name: str, *, since: float, n: int, known: frozenset[str]) -> str:  # noqa: ARG002
        """By our name in its metadata, whatever its state."""
        async for batch in self._pages():
            if mapping(batch.get("metadata")).get("medhelm") == name:
                return id_of(batch)
            if (made := number(batch.get("created_at"))) is not None and made < since - CLOCK_SKEW_S:
                break
        return ""

    async def _pages(self) -> AsyncIterator[Mapping[str, Any]]:
        """Batches, the latest first."""
        after = ""
        for _ in range(MOST_PAGES):
            page = await self.get(f"{self._base}/batches?limit=100{after}")
            batches = objects(page.get("data"))
            for batch in batches:
                yield batch
            if not page.get("has_more") or not batches:
                return
            after = f"&after={id_of(batches[-1])}"

    async def look(self, remote_id: str) -> Standing:
        """Its state, and the files with answers and errors once it has ended."""
        batch = await self.get(f"{self._base}/batches/{remote_id}")
        status, counts = word(batch.get("status")), mapping(batch.get("request_counts"))
        done = count(counts.get("completed")) + count(counts.get("failed"))
        if status == "failed":
            errors = objects(mapping(batch.get("errors")).get("data"))
            said = "; ".join(dict.fromkeys(word(error.get("message")) for error in errors[:3]))
            return Standing(
                state="failed", word=status, code=word(errors[0].get("code")) if errors else "", reason=said
            )
        if status not in ("completed", "expired", "cancelled"):
            return Standing(state="running", word=status, done=done)
        files = [batch[key] for key in ("output_file_id", "error_file_id") if batch.get(key)]
        places = tuple(f"{self._base}/files/{id_of({'id': file})}/content" for file in files)
        return Standing(state="ended", word=status, done=done, places=places)

    def read(self, line: Mapping[str, Any]) -> Line | None:
        """`{"custom_id", "response": {"status_code", "body"}, "error"}`; one of the last two is null."""
        digest, response = line.get("custom_id"), line.get("response")
        if not isinstance(digest, str):
            return None
        if isinstance(response, Mapping) and isinstance(response.get("body"), Mapping):
            status = count(response.get("status_code"))
            if 200 <= status < 300:
                return Line(digest=digest, document=response["body"])
            return Line(digest=digest, status=status, said=response["body"])
        code = word(mapping(line.get("error")).get("code"))
        return Line(digest=digest, word=code.removeprefix("batch_") or "error")
