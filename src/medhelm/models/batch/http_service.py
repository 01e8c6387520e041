"""Shared parts of both batch APIs: HTTP with the model's own key, and its errors."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Awaitable, Mapping
from time import time
from typing import IO, Any

from medhelm.domain import FailureCode
from medhelm.errors import ProviderError
from medhelm.io.http.client import HttpClient, HttpResponse, read_json
from medhelm.io.http.connection_errors import retry_after_s
from medhelm.models.providers.errors.classify import classify_error
from medhelm.models.providers.errors.parse import parse_error
from medhelm.models.providers.hosted import HttpProvider
from medhelm.models.providers.response_fields import objects

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
