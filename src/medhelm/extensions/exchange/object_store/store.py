"""A folder in an object store (S3, Google Cloud Storage, Azure): list, read, and create; objects never change.

Requests go through `HttpClient`, as all others do: the egress policy admits every host and address, redirects are
refused, and each request is in the audit log. Credentials come from the variables in `services.VARIABLES` only, never
from the metadata service of the machine.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import re
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, TypeVar
from urllib.parse import urlsplit

from medhelm.errors import DataError, MissingError, ProviderError, UserError
from medhelm.extensions.exchange.object_store.services import StorageService, service_of
from medhelm.io.http.client import HttpClient, HttpResponse
from medhelm.io.http.egress import EgressPolicy
from medhelm.io.http.hosts import SUBJECT, Audit, Subject, host_of, is_inside

REPLY_S, BYTES_PER_S = 30.0, 50_000
"""Seconds to wait for a reply, and the slowest transfer of an object: both limit the time for one request."""

GIVE_UP_S = 60.0
"""A request that failed is not repeated if this many seconds have passed since the first attempt."""

WAIT_S, ATTEMPTS = 0.5, 6
"""Seconds before the second attempt, doubled for each further one, and attempts in all."""

MOST_PAGES = 10_000
"""Most pages of a list of objects; services send a thousand objects in one."""

_TRANSIENT = {409, 429, 500, 502, 503, 504}
_EMPTY = hashlib.sha256(b"").hexdigest()
_CODE = re.compile(rb"<Code>([A-Za-z]{1,60})</Code>")
_Result = TypeVar("_Result")


class ObjectStore:
    """A folder of an object store. `with ObjectStore(...) as remote:` closes its connections in the end."""

    def __init__(
        self, url: str, *, offline: bool, environment: Mapping[str, str] = os.environ, audit: Audit | None = None
    ) -> None:
        """Check the address; nothing is sent yet. `audit`: log of the requests.

        Raises: UserError for an address or a host that may not be contacted, and for credentials that cannot be used.
        """
        self.url = url.rstrip("/")
        self._service, folder = service_of(self.url, environment)
        address = self._service.address
        self.host = host_of(address)
        if urlsplit(address).scheme != "https" and not is_inside(self.host):
            raise UserError(f"{address}: use https://, or data and keys would be sent unencrypted.")
        policy = EgressPolicy(offline, {self.host})
        policy.admit_all([address])
        self._folder = f"{folder}/" if folder else ""
        self._sizes: dict[str, int] = {}
        self._http = HttpClient(policy, timeout_s=REPLY_S, audit=audit, of_models=False)
        self._loop = asyncio.Runner()

    def __enter__(self) -> Self:
        """Return the folder itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close all connections."""
        self._loop.run(self._http.close())
        self._loop.close()

    def sizes(self) -> dict[str, int]:
        """List all objects: key below the folder -> bytes. Raises: MissingError."""
        self._sizes = self._run(self._list())
        return dict(self._sizes)

    def read(self, key: str) -> bytes | None:
        """Read an object; None if there is none. Raises: MissingError."""
        content = io.BytesIO()
        return content.getvalue() if self._run(self._get(key, content)) else None

    def download(self, key: str, file: Path) -> None:
        """Write an object to a new file. Raises: MissingError if there is none; StoreFullError."""
        with file.open("xb") as out:
            if not self._run(self._get(key, out)):
                raise MissingError(f"{self.url}/{key}: the object was removed while the store was read. Try again.")

    def create(self, key: str, content: Path | bytes, *, benchmark: str = "") -> bool:
        """Create an object; return False, and do not change it, if it exists. Raises: MissingError.

        `benchmark`: name in the audit log.
        """
        with io.BytesIO(content) if isinstance(content, bytes) else content.open("rb") as file:
            return self._run(self._put(key, file, benchmark))

    def _run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        with self._errors():
            return self._loop.run(work)

    async def _list(self) -> dict[str, int]:
        service, found, marker = self._service, dict[str, int](), ""
        for _ in range(MOST_PAGES):
            url = service.list_url(self._folder, marker)
            reply = await self._repeat(partial(self._http.get, url, headers=self._headers("GET", url)))
            objects, marker = _read_list(reply.body, service)
            found |= {key.removeprefix(self._folder): size for key, size in objects if key != self._folder}
            if not marker:
                return found
        raise MissingError(f"{self.url} cannot be used: its list of objects does not end.")

    async def _get(self, key: str, into: IO[bytes]) -> bool:
        """Write an object to a file; return False if there is none."""
        url = self._service.object_url(self._folder + key)
        limit_s = REPLY_S + self._sizes.get(key, 0) / BYTES_PER_S

        async def send() -> HttpResponse:
            into.seek(0)
            into.truncate()
            return await self._http.get(url, headers=self._headers("GET", url), timeout_s=limit_s, into=into)

        return (await self._repeat(send, known=(404,))).status != 404

    async def _put(self, key: str, file: IO[bytes], benchmark: str) -> bool:
        """Create an object; return False if it exists."""
        service, url = self._service, self._service.object_url(self._folder + key)
        size, digest = file.seek(0, os.SEEK_END), _digest(file)
        limit_s = REPLY_S + size / BYTES_PER_S

        async def send() -> HttpResponse:
            headers = self._headers("PUT", url, service.if_absent, digest=digest, size=size)
            return await self._http.put(url, headers=headers, body=file, timeout_s=limit_s)

        SUBJECT.set(Subject(benchmark=benchmark, digest=digest, requests=0))
        try:
            return (await self._repeat(send, known=service.exists)).status not in service.exists
        finally:
            SUBJECT.set(None)

    def _headers(
        self, method: str, url: str, headers: Mapping[str, str] | None = None, *, digest: str = _EMPTY, size: int = 0
    ) -> dict[str, str]:
        return self._service.headers(method, url, headers or {}, digest=digest, size=size)

    async def _repeat(self, send: Callable[[], Awaitable[HttpResponse]], known: tuple[int, ...] = ()) -> HttpResponse:
        """Send a request, again after errors that may pass. `known`: statuses that are answers, besides success.

        Raises: MissingError for another status; ProviderError.
        """
        started = time.monotonic()
        for attempt in range(1, ATTEMPTS + 1):
            is_last = attempt == ATTEMPTS or time.monotonic() - started >= GIVE_UP_S
            try:
                reply = await send()
            except ProviderError as error:
                if is_last or not error.retryable or time.monotonic() - started >= GIVE_UP_S:
                    raise
            else:
                if reply.status < 300 or reply.status in known:
                    return reply
                if is_last or reply.status not in _TRANSIENT:
                    code = _CODE.search(reply.body[:4096])
                    reason = f" {code[1].decode()}" if code else ""
                    raise MissingError(f"{self.url} cannot be used: {self.host} replied {reply.status}{reason}.")
            await asyncio.sleep(WAIT_S * 2.0 ** (attempt - 1))
        raise AssertionError("the last attempt returns or raises")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Convert errors to MissingError, without addresses that hold secrets."""
        try:
            yield
        except ProviderError as error:
            raise MissingError(f"{self.url} cannot be used: {error}") from None


def _read_list(body: bytes, service: StorageService) -> tuple[list[tuple[str, int]], str]:
    """Return the keys and sizes in a list of objects, and what continues it. Raises: MissingError."""
    from medhelm.io.office import parse_xml

    try:
        root = parse_xml(body)
        for element in root.iter():
            element.tag = element.tag.rpartition("}")[2].rpartition(":")[2]
        if root.tag != service.list_of:
            raise ValueError
        objects = [
            (one.findtext(service.name, ""), int(one.findtext(service.size, ""))) for one in root.iter(service.item)
        ]
    except (DataError, ValueError):
        raise MissingError(f"{service.address} sent a list of objects that cannot be read.") from None
    return objects, root.findtext(service.marker, "")


def _digest(file: IO[bytes]) -> str:
    """Return the SHA-256 of a file."""
    file.seek(0)
    return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]  # typeshed asks for more than IO
