"""OpenAI's batch API: a file of requests.

Source: platform.openai.com/docs/guides/batch and the vendor's Python SDK 3.54.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

from medhelm.io.http.client import HttpClient
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
from medhelm.models.providers.errors import count, mapping, objects, word
from medhelm.models.providers.hosted import HttpProvider

_RESULT_FILES = ("output_file_id", "error_file_id")
"""Fields of a batch with the IDs of its result files."""

_ENDED = ("completed", "expired", "cancelled")
"""States of a batch that was processed and has ended."""


class OpenAIBatches(HttpBatchService):
    """`POST /v1/files`, then `/v1/batches`. One batch is for one model."""

    max_requests = 50_000
    max_bytes = 190 * 10**6  # documented: 200 MB
    carries_name = True

    def __init__(self, provider: HttpProvider, http: HttpClient) -> None:
        """Nothing is sent yet."""
        super().__init__(provider, http)
        self._uploaded: dict[str, str] = {}
        """Our name for a batch -> ID of the file of its requests; "" if the upload failed."""

    def encode(self, name: str, digest: str, body: Mapping[str, Any]) -> bytes:  # noqa: ARG002 - the batch carries it
        """Encode one line of the file of requests."""
        return compact({"custom_id": digest, "method": "POST", "url": "/v1/chat/completions", "body": body})

    def framing(self, name: str) -> BatchFraming:
        """Return the bytes of a form around the file (RFC 7578). Our name is random: no file contains it."""
        head = (
            f'--{name}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
            f'--{name}\r\nContent-Disposition: form-data; name="file"; filename="{_file_name(name)}"\r\n'
            "Content-Type: application/jsonl\r\n\r\n"
        )
        return BatchFraming(head.encode(), b"\n", f"\n\r\n--{name}--\r\n".encode())

    async def submit(self, name: str, file: IO[bytes]) -> str:
        """Upload the file, unless that succeeded before, and create a batch with our name in its metadata."""
        if not self._uploaded.setdefault(name, ""):
            form = f"multipart/form-data; boundary={name}"
            uploaded = await or_no_batches(self._upload(f"{self._base}/files", file, form))
            self._uploaded[name] = id_of(uploaded)
        batch = {
            "input_file_id": self._uploaded[name],
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
            "metadata": {"medhelm": name},
        }
        created = await or_no_batches(self._post(f"{self._base}/batches", compact(batch)))
        return id_of(created)

    async def find(self, name: str, *, since: float, n: int, known: frozenset[str]) -> str:  # noqa: ARG002
        """Find it by our name in its metadata, in any state."""
        async for batch in self._pages("batches?", "after"):
            if mapping(batch.get("metadata")).get("medhelm") == name:
                return id_of(batch)
            created = batch.get("created_at")
            if isinstance(created, int | float) and created < since - CLOCK_SKEW_S:
                break
        return ""

    async def status(self, remote_id: str) -> BatchStatus:
        """Return its state, and the files with results and errors once it has ended."""
        batch = await self._get(f"{self._base}/batches/{remote_id}")
        status, counts = word(batch.get("status")), mapping(batch.get("request_counts"))
        done = count(counts.get("completed")) + count(counts.get("failed"))
        if status == "failed":
            errors = objects(mapping(batch.get("errors")).get("data"))
            message = "; ".join(dict.fromkeys(word(error.get("message")) for error in errors[:3]))
            code = word(errors[0].get("code")) if errors else ""
            return BatchStatus(state=RemoteState.FAILED, service_state=status, error_code=code, error_message=message)
        if status not in _ENDED:
            return BatchStatus(state=RemoteState.RUNNING, service_state=status, n_done=done)
        urls = tuple(f"{self._base}/files/{file}/content" for file in _files(batch, *_RESULT_FILES))
        is_cancelled = status == "cancelled"
        return BatchStatus(
            state=RemoteState.ENDED, service_state=status, n_done=done, result_urls=urls, is_cancelled=is_cancelled
        )

    def parse(self, name: str, line: Mapping[str, Any]) -> RequestResult | None:  # noqa: ARG002 - the batch carried it
        """Parse `{"custom_id", "response": {"status_code", "body"}, "error"}`; one of the last two is null."""
        digest, response = line.get("custom_id"), line.get("response")
        if not isinstance(digest, str):
            return None
        if isinstance(response, Mapping) and isinstance(response.get("body"), Mapping):
            status = count(response.get("status_code"))
            if 200 <= status < 300:
                return RequestResult(digest=digest, document=response["body"])
            return RequestResult(digest=digest, status=status, error=response["body"])
        code = word(mapping(line.get("error")).get("code"))
        return RequestResult(digest=digest, reason=code.removeprefix("batch_") or "error")

    async def delete(self, name: str, remote_id: str) -> None:
        """Delete the files. The batch itself, with numbers and times, cannot be deleted there."""
        if remote_id:
            files = _files(await self._get(f"{self._base}/batches/{remote_id}"), "input_file_id", *_RESULT_FILES)
        elif (uploaded := self._uploaded.get(name)) is not None:
            files = [uploaded] if uploaded else []
        else:  # another process may have uploaded it
            wanted = _file_name(name)
            listed = self._pages("files?purpose=batch&", "after")
            files = [id_of(file) async for file in listed if file.get("filename") == wanted]
        for file_id in files:
            await self._delete(f"{self._base}/files/{file_id}")


def _file_name(name: str) -> str:
    """Return the name of the file of requests."""
    return f"{name}.jsonl"


def _files(batch: Mapping[str, Any], *keys: str) -> list[str]:
    """Return the file IDs under these keys of a batch. Raises: ProviderError if one is not a valid ID."""
    return [id_of({"id": batch[key]}) for key in keys if batch.get(key)]
