"""HTTP client for JSON. It asks the egress policy about every host and its addresses, and writes an audit log.

All network traffic goes through this module. It does not read proxies, credentials or cookies from the environment and
does not follow redirects, so only the host of the requested address, or its proxy, is contacted. Failures raise
`ProviderError`.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import threading
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from os import SEEK_END
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

from medhelm.errors import ProviderError, StoreFullError
from medhelm.io.http.hosts import is_loopback, without_secrets

if TYPE_CHECKING:
    import aiohttp
    from yarl import URL

    from medhelm.io.http.egress import EgressPolicy
    from medhelm.io.http.hosts import Audit


# --- client -----------------------------------------------------------------------------------------------------------

MAX_REPLY_BYTES = 32 * 2**20
"""Maximum size of a response body after decompression. A completion takes a few kilobytes."""

PIECE_BYTES = 2**20
"""Bytes of an uploaded file that are held in memory at once."""

CONNECT_TIMEOUT_S = 30.0
"""Seconds to open one connection; after that, the host counts as unreachable."""

MOST_ADDRESSES = 1024
"""Maximum number of admitted addresses to remember; a run uses a handful."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """The response of a server, whatever its status."""

    status: int
    """HTTP status: 200 to 299 or 400 to 599. Redirects raise an error instead."""
    headers: Mapping[str, str]
    """Header name in lower case -> value."""
    body: bytes
    """The body, decompressed."""
    latency_s: float
    """Seconds from sending the request to reading the end of the body."""


def import_early() -> None:
    """Import the HTTP library in the background; it takes a tenth of a second, partly without the GIL."""
    names = ("aiohttp", "medhelm.io.http.errors")
    threading.Thread(target=lambda: [importlib.import_module(name) for name in names], daemon=True).start()


class HttpClient:
    """Sends JSON requests and reads the responses, through one pool of open connections."""

    def __init__(
        self,
        egress_policy: EgressPolicy,
        *,
        timeout_s: float = 300.0,
        connections: int = 0,
        max_reply_bytes: int = MAX_REPLY_BYTES,
        audit: Audit | None = None,
        of_models: bool = True,
    ) -> None:
        """`timeout_s`: per request. `connections`: maximum open at once over all hosts; 0: no limit.

        `audit`: takes a note of every request before it is sent; None: nothing does. `of_models`: False for hosts that
        models.yaml cannot describe. Time spent waiting for a connection counts toward the timeout; limits per endpoint
        are up to the caller.
        """
        self.egress_policy = egress_policy
        self.timeout_s = timeout_s
        self._of_models = of_models
        self._connections = connections
        self._max_reply_bytes = max_reply_bytes
        self.audit = audit
        self._addresses: dict[str, tuple[URL, dict[str, Any]]] = {}
        self._timeouts: dict[bool, aiohttp.ClientTimeout] = {}
        self._session: aiohttp.ClientSession | None = None

    async def post_json(
        self, url: str, *, headers: Mapping[str, str], payload: Mapping[str, Any], timeout_s: float | None = None
    ) -> HttpResponse:
        """Send `payload` as JSON and read the whole response, whatever its status; see `post`."""
        return await self.post(url, headers=headers, body=json.dumps(payload).encode(), timeout_s=timeout_s)

    async def post(
        self, url: str, *, headers: Mapping[str, str], body: bytes | IO[bytes], timeout_s: float | None = None
    ) -> HttpResponse:
        """Send `body`, which is JSON, unchanged (as signatures require), and read the whole response.

        Parameters: body, bytes, or a file that is sent in chunks; timeout_s, for this request, by default the timeout
        of this client.
        Raises: UserError if the egress policy refuses the host; ProviderError with code `timeout`, `connection`
        (refused, unknown name, reset, interrupted: retryable), `certificate` or `redirect` (fatal), `malformed_reply`
        (not HTTP, or too long) or `bad_key` (a header that cannot be sent: fatal).
        """
        named = {"Content-Type": "application/json", **headers}
        if not isinstance(body, bytes):
            named["Content-Length"] = str(body.seek(0, SEEK_END))
        return await self._send("POST", url, named, body, timeout_s)

    async def get(
        self, url: str, *, headers: Mapping[str, str], timeout_s: float | None = None, into: IO[bytes] | None = None
    ) -> HttpResponse:
        """Send a GET request to `url`; return the response whatever its status. Raises: as `post`.

        `into`: a file to write the body of a successful response to, whatever its length; `body` is then empty.
        """
        return await self._send("GET", url, headers, None, timeout_s, into)

    async def put(
        self, url: str, *, headers: Mapping[str, str], body: bytes | IO[bytes], timeout_s: float | None = None
    ) -> HttpResponse:
        """Send a PUT request with `body`, bytes or a file, to `url`; return the response. Raises: as `post`."""
        size = len(body) if isinstance(body, bytes) else body.seek(0, SEEK_END)
        named = {"Content-Type": "application/octet-stream", **headers, "Content-Length": str(size)}
        return await self._send("PUT", url, named, body, timeout_s)

    async def delete(self, url: str, *, headers: Mapping[str, str], timeout_s: float | None = None) -> HttpResponse:
        """Send a DELETE request to `url`; return the response whatever its status. Raises: as `post`."""
        return await self._send("DELETE", url, headers, None, timeout_s)

    async def _send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | IO[bytes] | None,
        timeout_s: float | None,
        into: IO[bytes] | None = None,
    ) -> HttpResponse:
        import aiohttp

        from medhelm.io.http.errors import connection_problem, invalid_request, redirected

        address, way = self._addresses.get(url) or self._admit(url)
        session = self._session or self._open()
        for name, value in headers.items():
            if not value.isprintable():
                raise invalid_request(name, address)
        limit_s = self.timeout_s if timeout_s is None else timeout_s
        if self.audit:
            from medhelm.io.http.egress import note_request

            await note_request(self.audit, method, address, way.get("proxy"), body)
        started = time.perf_counter()
        try:
            request = session.request(
                method,
                address,
                data=body if body is None or isinstance(body, bytes) else _pieces(body),
                headers=headers,
                allow_redirects=False,
                **way,
                timeout=self._connect_timeout(limit_s),
            )
            async with Deadline(limit_s), request as response:
                if 300 <= response.status < 400:
                    from medhelm.io.http.errors import without_keys_of

                    target = without_keys_of(headers, without_secrets(response.headers.get("Location", "")))
                    raise redirected(response.status, target, address)
                keep = into if response.status == 200 else None
                content = await (_save(response, keep) if keep else self._read(response, address))
                return HttpResponse(
                    response.status,
                    {name.lower(): value for name, value in response.headers.items()},
                    content,
                    time.perf_counter() - started,
                )
        except (aiohttp.ClientError, OSError, UnicodeError) as error:
            near, proxy = is_loopback(address.raw_host or ""), way.get("proxy", "")
            raise connection_problem(
                error, address, limit_s, near=near, proxy=proxy, of_model=self._of_models
            ) from error

    async def close(self) -> None:
        """Close all connections. May be called more than once."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _admit(self, url: str) -> tuple[URL, dict[str, Any]]:
        """Return the address of a request, and how it leaves."""
        from medhelm.io.http.egress import way_of

        address = self.egress_policy.admit(url)
        path = url.partition("://")[2].partition("/")[2].partition("?")[0]
        if "%" in path:  # sent unchanged, because it is signed that way
            address = address.with_path(f"/{path}", encoded=True).with_query(address.query)
        if len(self._addresses) >= MOST_ADDRESSES:
            self._addresses.clear()
        self._addresses[url] = found = address, way_of(self.egress_policy, address)
        return found

    def _open(self) -> aiohttp.ClientSession:
        """Start the session; it belongs to the event loop that runs now."""
        from medhelm.io.http.egress import open_http_session  # lazy, like the HTTP library

        self._session = open_http_session(self.egress_policy, self.audit, connections=self._connections)
        return self._session

    def _connect_timeout(self, limit_s: float) -> aiohttp.ClientTimeout:
        """Return the timeout for opening a connection; `Deadline` limits the whole request."""
        is_long = limit_s > CONNECT_TIMEOUT_S
        if is_long not in self._timeouts:
            import aiohttp

            connect_s = CONNECT_TIMEOUT_S if is_long else None
            self._timeouts[is_long] = aiohttp.ClientTimeout(total=None, sock_connect=connect_s)
        return self._timeouts[is_long]

    async def _read(self, response: aiohttp.ClientResponse, address: URL) -> bytes:
        """Read the whole body. Raises: ProviderError if it is too long."""
        chunks = []
        size = response.content_length or 0
        if size <= self._max_reply_bytes:
            size = 0
            while chunk := await response.content.readany():
                chunks.append(chunk)
                size += len(chunk)
                if size > self._max_reply_bytes:
                    break
        if size > self._max_reply_bytes:
            response.close()
            raise ProviderError(
                "malformed_reply",
                f"the response of {address.origin()} is longer than {self._max_reply_bytes:,} bytes and was not read",
                retryable=True,
                reply_lost=True,
            )
        return b"".join(chunks)


async def _pieces(file: IO[bytes]) -> AsyncIterator[bytes]:
    """Read a file in chunks."""
    file.seek(0)
    while piece := file.read(PIECE_BYTES):
        yield piece


async def _save(response: aiohttp.ClientResponse, file: IO[bytes]) -> bytes:
    """Write the whole body to a file and return b"". Raises: StoreFullError."""
    while chunk := await response.content.readany():
        try:
            file.write(chunk)
        except OSError as error:
            raise StoreFullError(f"the disk is full: {error.strerror or error}. Free some space.") from error
    return b""


def read_json(reply: HttpResponse) -> dict[str, Any]:
    """Parse the body as a JSON object. Raises: ProviderError `malformed_reply`, retryable, for anything else.

    >>> read_json(HttpResponse(200, {}, b'{"n": 1}', 0.1))
    {'n': 1}
    """
    value: object = None
    problem: Exception | None = None
    try:
        value = json.loads(reply.body)
    except (ValueError, RecursionError) as error:
        problem = error
    if isinstance(value, dict):
        return value
    from medhelm.io.http.errors import not_an_object  # lazy: only if something fails

    raise not_an_object(reply.status, reply.body, value, problem)


# --- deadline ---------------------------------------------------------------------------------------------------------
# A time limit that a suspended process does not use up.
#
# A process that was suspended (Ctrl-Z, a frozen container, a paused virtual machine) finds all its timers overdue, and
# in the buffers of the operating system the replies that arrived meanwhile. Those were paid for, so they are read
# first.

LATE_S = 0.05
"""A timer that is later than this was held up, by a suspension or by other work of the process."""

GRACE_S = 2.0
"""Time to read what has arrived: once, and again after each suspension of at least this length."""


class Deadline:
    """Ends a wait after some seconds: `async with Deadline(30.0): ...`. Raises TimeoutError."""

    def __init__(self, seconds: float) -> None:
        """Nothing runs until it is entered."""
        self._seconds = seconds
        self._wait = asyncio.timeout(None)
        self._is_extended = False

    async def __aenter__(self) -> None:
        await self._wait.__aenter__()
        self._start(self._seconds)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._timer.cancel()
        await self._wait.__aexit__(kind, error, at)

    def _start(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._due = loop.time() + seconds
        self._timer = loop.call_at(self._due, self._expire, loop)

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        if was_suspended(loop, self._due) or (loop.time() - self._due > LATE_S and not self._is_extended):
            self._is_extended = True
            self._start(GRACE_S)
        else:
            self._wait.reschedule(loop.time())


def was_suspended(loop: asyncio.AbstractEventLoop, due: float) -> bool:
    """Return True if a timer is so late that the process must have been suspended. `due`: its time, by the loop."""
    return loop.time() - due > GRACE_S
