"""OpenAI's batches: a file of requests (platform.openai.com/docs/guides/batch, and the vendor's Python SDK 3.54)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import IO, Any

from medhelm.io.http_client import HttpClient
from medhelm.models.batch.protocol import (
    CLOCK_SKEW_S,
    MOST_PAGES,
    BatchFraming,
    BatchProtocol,
    BatchStatus,
    RequestResult,
    compact,
    form,
    form_type,
    id_of,
    number,
    or_no_batches,
)
from medhelm.models.providers.hosted import HttpProvider
from medhelm.models.providers.response_fields import count, mapping, objects, word

_ANSWERS = ("output_file_id", "error_file_id")
"""Where a batch names the files of its answers."""

_ENDED = ("completed", "expired", "cancelled")
"""States of a batch that was worked on, and is not any more."""


class OpenAIBatches(BatchProtocol):
    """`POST /v1/files`, then `/v1/batches`. One batch asks one model."""

    most_requests = 50_000
    most_bytes = 190 * 10**6  # documented: 200 MB
    verifiable = True

    def __init__(self, provider: HttpProvider, http: HttpClient) -> None:
        """Nothing is sent yet."""
        super().__init__(provider, http)
        self._uploaded: dict[str, str] = {}
        """Our name for a batch -> the file of its requests, "" if that did not arrive."""

    def line(self, name: str, digest: str, body: Mapping[str, Any]) -> bytes:  # noqa: ARG002 - the batch carries it
        """A line of the file of requests."""
        return compact({"custom_id": digest, "method": "POST", "url": "/v1/chat/completions", "body": body})

    def frame(self, name: str) -> BatchFraming:
        """A form with the file in it."""
        head, tail = form(name, {"purpose": "batch"}, _file_name(name))
        return BatchFraming(head, b"\n", b"\n" + tail)

    async def submit(self, name: str, file: IO[bytes]) -> str:
        """Upload the file, if that was not done before, and make a batch of it that carries our name as metadata."""
        if not self._uploaded.setdefault(name, ""):
            uploaded = await or_no_batches(self.upload(f"{self._base}/files", file, form_type(name)))
            self._uploaded[name] = id_of(uploaded)
        wanted = {
            "input_file_id": self._uploaded[name],
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
            "metadata": {"medhelm": name},
        }
        made = await or_no_batches(self.post(f"{self._base}/batches", compact(wanted)))
        return id_of(made)

    async def find(self, name: str, *, since: float, n: int, known: frozenset[str]) -> str:  # noqa: ARG002
        """By our name in its metadata, whatever its state."""
        async for batch in self._pages("batches?"):
            if mapping(batch.get("metadata")).get("medhelm") == name:
                return id_of(batch)
            if (made := number(batch.get("created_at"))) is not None and made < since - CLOCK_SKEW_S:
                break
        return ""

    async def _pages(self, what: str) -> AsyncIterator[Mapping[str, Any]]:
        """Batches or files, the latest first."""
        after = ""
        for _ in range(MOST_PAGES):
            page = await self.get(f"{self._base}/{what}limit=100{after}")
            found = objects(page.get("data"))
            for one in found:
                yield one
            if not page.get("has_more") or not found:
                return
            after = f"&after={id_of(found[-1])}"

    async def look(self, remote_id: str) -> BatchStatus:
        """Its state, and the files with answers and errors once it has ended."""
        batch = await self.get(f"{self._base}/batches/{remote_id}")
        status, counts = word(batch.get("status")), mapping(batch.get("request_counts"))
        done = count(counts.get("completed")) + count(counts.get("failed"))
        if status == "failed":
            errors = objects(mapping(batch.get("errors")).get("data"))
            said = "; ".join(dict.fromkeys(word(error.get("message")) for error in errors[:3]))
            return BatchStatus(
                state="failed", word=status, code=word(errors[0].get("code")) if errors else "", reason=said
            )
        if status not in _ENDED:
            return BatchStatus(state="running", word=status, done=done)
        places = tuple(f"{self._base}/files/{file}/content" for file in _files(batch, *_ANSWERS))
        return BatchStatus(state="ended", word=status, done=done, places=places, is_cancelled=status == "cancelled")

    def read(self, name: str, line: Mapping[str, Any]) -> RequestResult | None:  # noqa: ARG002 - the batch carried it
        """`{"custom_id", "response": {"status_code", "body"}, "error"}`; one of the last two is null."""
        digest, response = line.get("custom_id"), line.get("response")
        if not isinstance(digest, str):
            return None
        if isinstance(response, Mapping) and isinstance(response.get("body"), Mapping):
            status = count(response.get("status_code"))
            if 200 <= status < 300:
                return RequestResult(digest=digest, document=response["body"])
            return RequestResult(digest=digest, status=status, said=response["body"])
        code = word(mapping(line.get("error")).get("code"))
        return RequestResult(digest=digest, word=code.removeprefix("batch_") or "error")

    async def discard(self, name: str, remote_id: str) -> None:
        """The files; of the batch there stay numbers and times, which its service has no way to delete."""
        if remote_id:
            files = _files(await self.get(f"{self._base}/batches/{remote_id}"), "input_file_id", *_ANSWERS)
        elif (file := self._uploaded.get(name)) is not None:
            files = [file] if file else []
        else:  # another process may have uploaded it
            called = _file_name(name)
            files = [id_of(one) async for one in self._pages("files?purpose=batch&") if one.get("filename") == called]
        for file in files:
            await self.delete(f"{self._base}/files/{file}")


def _file_name(name: str) -> str:
    """What the file of requests is called."""
    return f"{name}.jsonl"


def _files(batch: Mapping[str, Any], *keys: str) -> list[str]:
    """The files that a batch names. Raises: ProviderError if such a name is none."""
    return [id_of({"id": batch[key]}) for key in keys if batch.get(key)]
