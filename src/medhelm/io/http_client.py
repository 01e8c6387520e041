"""The only way out of the house: JSON over HTTP, and the gate that decides which hosts may be reached.

Nothing here reads proxies, credentials or cookies from the environment, and no redirect is followed, so the host of
the address that was asked for is the only host that is ever contacted. Trouble on the way is a `ProviderError`.
"""

from __future__ import annotations

import importlib
import ipaddress
import json
import math
import threading
import time
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from os import SEEK_END
from typing import IO, TYPE_CHECKING, Any

from medhelm import __version__
from medhelm.errors import ProviderError, StoreFullError, UserError
from medhelm.io.connection_errors import connection_problem, invalid_request, redirected

if TYPE_CHECKING:
    import aiohttp
    from yarl import URL

MAX_REPLY_BYTES = 32 * 2**20
"""Longest reply that is read, after decompression. A completion is a few kilobytes; more is not an answer."""

PIECE_BYTES = 2**20
"""Of a file that is sent, so much is held in memory."""

CONNECT_TIMEOUT_S = 30.0
"""Seconds for opening one connection; a host that does not answer by then is unreachable."""

MOST_ADDRESSES = 1024
"""Addresses remembered as admitted; a run has a handful."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """The response of a server, whatever its status."""

    status: int
    """HTTP status: 200 to 299, 400 to 599. Redirects never get here."""
    headers: Mapping[str, str]
    """Header name in lower case -> value."""
    body: bytes
    """The body, decompressed."""
    latency_s: float
    """Seconds from sending the request to having read the whole body."""


def import_early() -> None:
    """Load the HTTP library beside what else is to be done; it takes a tenth of a second, some without the GIL."""
    threading.Thread(target=importlib.import_module, args=("aiohttp",), daemon=True).start()


class EgressPolicy:
    """Decides which hosts may be reached, before a name is looked up or a byte is sent."""

    def __init__(self, offline: bool, allowed: Collection[str] = ()) -> None:
        """`offline`: this machine only. `allowed`: exact names of the other hosts, such as `api.openai.com`."""
        self.offline = offline
        self.allowed = frozenset(name.lower() for name in allowed)

    def admit(self, url: str) -> URL:
        """The address, parsed, if its host may be reached.

        This machine (127.0.0.0/8, ::1, localhost) may always be reached.
        Raises: UserError naming the host and the rule that forbids it, or saying why `url` is no address.
        """
        from yarl import URL  # the parser of the HTTP library: what is judged here is what is contacted there

        try:
            address = URL(url)
            host = (address.raw_host or "").lower()
        except ValueError as error:
            raise UserError(f"`{_without_secrets(url)}` is not an address: {error}") from None
        if address.scheme not in ("http", "https") or not host:
            raise UserError(
                f"`{_without_secrets(url)}` is not an address: it must start with http:// or https:// and a host name."
            )
        if is_loopback(host):
            return address
        if self.offline:
            raise UserError(
                f"{host} may not be reached: offline mode allows this machine only (127.0.0.0/8, ::1, localhost). "
                "Leave out --offline (and MEDHELM_OFFLINE) to allow it. Nothing was sent to it."
            )
        if host not in self.allowed and (address.host or "").lower() not in self.allowed:
            known = ", ".join(sorted(self.allowed)) or "none but this machine"
            raise UserError(
                f"{host} may not be reached: only hosts of the models that were asked for are allowed ({known}). "
                "Nothing was sent to it."
            )
        return address


class HttpClient:
    """Sends JSON and reads the reply, through one pool of connections that are kept open between requests."""

    def __init__(
        self,
        gate: EgressPolicy,
        *,
        timeout_s: float = 300.0,
        connections: int = 0,
        max_reply_bytes: int = MAX_REPLY_BYTES,
    ) -> None:
        """`timeout_s`: for one request as a whole. `connections`: most open at once over all hosts; 0: no limit.

        A limit on connections makes requests wait within their own timeout; limits per endpoint belong to the client.
        """
        self._gate = gate
        self._timeout_s = timeout_s
        self._connections = connections
        self._max_reply_bytes = max_reply_bytes
        self._addresses: dict[str, URL] = {}
        self._timeouts: dict[float, aiohttp.ClientTimeout] = {}
        self._session: aiohttp.ClientSession | None = None

    @property
    def gate(self) -> EgressPolicy:
        """Decides which hosts may be reached."""
        return self._gate

    async def post_json(
        self, url: str, *, headers: Mapping[str, str], payload: Mapping[str, Any], timeout_s: float | None = None
    ) -> HttpResponse:
        """Send `payload` as JSON and read the whole reply, whatever its status; see `post`."""
        return await self.post(url, headers=headers, body=json.dumps(payload).encode(), timeout_s=timeout_s)

    async def post(
        self, url: str, *, headers: Mapping[str, str], body: bytes | IO[bytes], timeout_s: float | None = None
    ) -> HttpResponse:
        """Send `body`, which is JSON, byte for byte, as signatures need it, and read the whole reply.

        `body`: of a file, all that is in it, piece by piece. `timeout_s`: for this request as a whole; None: the
        default of this object.
        Raises: UserError if the gate refuses the host; ProviderError with code `timeout`, `connection` (refused, no
        such name, reset, broken off: worth another try), `certificate` or `redirect` (fatal), `malformed_reply` (not
        HTTP, or too long) or `bad_key` (a header that cannot be sent: fatal).
        """
        named = {"Content-Type": "application/json", **headers}
        if isinstance(body, bytes):
            return await self._send("POST", url, named, body, timeout_s)
        named["Content-Length"] = str(body.seek(0, SEEK_END))
        return await self._send("POST", url, named, _pieces(body), timeout_s)

    async def get(
        self, url: str, *, headers: Mapping[str, str], timeout_s: float | None = None, into: IO[bytes] | None = None
    ) -> HttpResponse:
        """Send a GET request to `url`; return the response whatever its status. Raises: as `post`.

        `into`: a file that takes the body of a success, however long it is, in place of the reply.
        """
        return await self._send("GET", url, headers, None, timeout_s, into)

    async def delete(self, url: str, *, headers: Mapping[str, str], timeout_s: float | None = None) -> HttpResponse:
        """Send a DELETE request to `url`; return the response whatever its status. Raises: as `post`."""
        return await self._send("DELETE", url, headers, None, timeout_s)

    async def _send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | AsyncIterator[bytes] | None,
        timeout_s: float | None,
        into: IO[bytes] | None = None,
    ) -> HttpResponse:
        import aiohttp

        address = self._addresses.get(url) or self._admit(url)
        session = self._session or self._open()
        for name, value in headers.items():
            if not value.isprintable():
                raise invalid_request(name, address)
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        started = time.perf_counter()
        try:
            async with session.request(
                method,
                address,
                data=body,
                headers=headers,
                allow_redirects=False,
                timeout=self._timeouts.get(limit_s) or self._timeout(limit_s),
            ) as response:
                if 300 <= response.status < 400:
                    raise redirected(response.status, _without_secrets(response.headers.get("Location", "")), address)
                keep = into if response.status == 200 else None
                content = await (_save(response, keep) if keep else self._read(response, address))
                return HttpResponse(
                    response.status,
                    {name.lower(): value for name, value in response.headers.items()},
                    content,
                    time.perf_counter() - started,
                )
        except (aiohttp.ClientError, OSError, UnicodeError) as error:
            raise connection_problem(error, address, limit_s, near=is_loopback(address.raw_host or "")) from error

    async def close(self) -> None:
        """Close all connections. May be called more than once."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _admit(self, url: str) -> URL:
        address = self._gate.admit(url)
        path = url.partition("://")[2].partition("/")[2].partition("?")[0]
        if "%" in path:  # sent as it is written: what it is signed as
            address = address.with_path(f"/{path}", encoded=True).with_query(address.query)
        if len(self._addresses) >= MOST_ADDRESSES:
            self._addresses.clear()
        self._addresses[url] = address
        return address

    def _open(self) -> aiohttp.ClientSession:
        """Start the session; it belongs to the event loop that runs now."""
        import aiohttp

        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._connections),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": f"medhelm/{__version__}"},
            trust_env=False,
        )
        return self._session

    def _timeout(self, limit_s: float) -> aiohttp.ClientTimeout:
        import aiohttp

        connect_s = CONNECT_TIMEOUT_S if limit_s > CONNECT_TIMEOUT_S else None
        timeout = aiohttp.ClientTimeout(total=limit_s, sock_connect=connect_s)
        if len(self._timeouts) < MOST_ADDRESSES:
            self._timeouts[limit_s] = timeout
        return timeout

    async def _read(self, response: aiohttp.ClientResponse, address: URL) -> bytes:
        """The whole body, unless it is too long."""
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
                f"the reply of {address.origin()} is longer than {self._max_reply_bytes:,} bytes and was not read",
            )
        return b"".join(chunks)


async def _pieces(file: IO[bytes]) -> AsyncIterator[bytes]:
    """All that is in a file."""
    file.seek(0)
    while piece := file.read(PIECE_BYTES):
        yield piece


async def _save(response: aiohttp.ClientResponse, file: IO[bytes]) -> bytes:
    """Write the whole body to a file; nothing of it is kept here. Raises: StoreFullError."""
    while chunk := await response.content.readany():
        try:
            file.write(chunk)
        except OSError as error:
            raise StoreFullError(f"no room on disk for a reply: {error.strerror or error}; free some") from error
    return b""


def is_loopback(host: str) -> bool:
    """Whether `host`, a name or an address as it stands in a URL without brackets, is this machine by definition."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv4Address):
        return address.is_loopback
    return address == ipaddress.IPv6Address("::1")


def read_json(reply: HttpResponse) -> dict[str, Any]:
    """The JSON object in the body. Raises: ProviderError `malformed_reply`, worth another try, for anything else.

    >>> read_json(HttpResponse(200, {}, b'{"n": 1}', 0.1))
    {'n': 1}
    """
    if not reply.body.strip():
        raise _malformed(reply, "is empty")
    try:
        value = json.loads(reply.body)
    except (ValueError, RecursionError) as error:
        start = reply.body.lstrip()[:6]
        if start.startswith(b"<"):
            raise _malformed(reply, "is a web page and not JSON: a login page, or not the address of the API") from None
        if start.startswith((b"data:", b"event:", b": ")):
            raise _malformed(
                reply, "is a stream of events and not JSON, which nobody asked for: see the gateway's settings"
            ) from None
        # The body itself is not quoted: services like to repeat the prompt in it.
        reason = f"{error.msg} at byte {error.pos}" if isinstance(error, json.JSONDecodeError) else type(error).__name__
        raise _malformed(reply, f"is not JSON ({reason})") from None
    if not isinstance(value, dict):
        kind = _KINDS.get(type(value), "null")
        raise _malformed(reply, f"is JSON, but {kind} and not an object")
    return value


_KINDS: Mapping[type, str] = {list: "a list", str: "a text", int: "a number", float: "a number", bool: "true or false"}
"""What JSON may be besides an object."""


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds the server asks to wait before the next request; None if it does not say, or not readably.

    `headers`: names in lower case. `now`: seconds since 1970. Reads `retry-after-ms` (milliseconds), which some
    services send besides, then `retry-after` as seconds or as a date (RFC 9110, 10.2.3). A past time gives 0.0.

    >>> retry_after_s({"retry-after": "1.5"}, now=0.0)
    1.5
    """
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        number = _finite(headers.get(name, ""))
        if number is not None:
            return max(0.0, number / unit)
    try:
        moment = parsedate_to_datetime(headers.get("retry-after", "")).timestamp()
    except (ValueError, OverflowError):
        return None
    return max(0.0, moment - now)


def _finite(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _without_secrets(url: str) -> str:
    """The address up to its query, without user name and password, for messages."""
    start, mark, rest = url.partition("://")
    place = rest.partition("?")[0]
    host, slash, path = place.partition("/")
    return start + mark + host.rpartition("@")[2] + slash + path if mark else url.partition("?")[0]


def _malformed(reply: HttpResponse, what: str) -> ProviderError:
    return ProviderError(
        "malformed_reply", f"the reply (status {reply.status}, {len(reply.body)} bytes) {what}", retryable=True
    )
