"""The HTTP client: requests within limits of time and size, and errors that say what to do and when to try again."""

from __future__ import annotations

import asyncio
import importlib
import json
import math
import os
import re
import ssl
import threading
import time
from base64 import b64encode, urlsafe_b64encode
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from errno import ECONNREFUSED, EHOSTUNREACH, ENETUNREACH
from functools import lru_cache
from html import unescape
from os import SEEK_END
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import unquote

from medhelm.errors import ProviderError, StoreFullError
from medhelm.io.http.hosts import is_loopback, without_secrets

if TYPE_CHECKING:
    import aiohttp
    from yarl import URL

    from medhelm.io.http.egress import EgressPolicy
    from medhelm.io.http.hosts import Audit


# --- connection errors ------------------------------------------------------------------------------------------------

_NOT_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNKNOWN_PROTOCOL", "HTTP_REQUEST")
"""OpenSSL's reasons for a response that does not start a TLS connection."""

_EXPIRED, _OTHER_HOST, _OTHER_IP = 10, 62, 64
"""OpenSSL's verification error codes (X509_V_ERR_CERT_HAS_EXPIRED, ..._HOSTNAME_MISMATCH, ..._IP_ADDRESS_MISMATCH)."""

_USUAL_PORTS = {8000: "vLLM's", 8080: "llama.cpp's", 11434: "Ollama's", 1234: "LM Studio's"}
"""Default port -> the server that uses it."""

_REASONS = {
    ECONNREFUSED: "no server listens there",
    EHOSTUNREACH: "no route to this host",
    ENETUNREACH: "no route to its network",
}


def connection_problem(
    error: Exception, address: URL, limit_s: float, *, near: bool, proxy: str = "", of_model: bool = True
) -> ProviderError:
    """Convert an exception of the HTTP library.

    `near`: True if the host is this machine; `proxy`: address of the proxy that the request goes through, if any;
    `of_model`: True if models.yaml can describe the host.
    """
    import aiohttp

    of_proxy = (aiohttp.ClientHttpProxyError, aiohttp.ClientProxyConnectionError, aiohttp.ClientConnectorDNSError)
    if proxy and isinstance(error, of_proxy):
        return _proxy_problem(error, address, proxy)
    place = address.origin()
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        what = f"{place} does not accept connections: it did not respond in time. {_whereabouts(address, near=near)}"
        return ProviderError("connection", what, retryable=True)
    if isinstance(error, TimeoutError):
        return ProviderError("timeout", f"{place} did not answer within {limit_s:g} s", retryable=True, reply_lost=True)
    if isinstance(error, aiohttp.ClientSSLError):
        return ProviderError("certificate", _insecure(error, place, of_model=of_model), fatal=True)
    if isinstance(error, aiohttp.ClientConnectorDNSError | UnicodeError):
        what = f"the host name {address.host} cannot be resolved. {_whereabouts(address, near=near)}"
        return ProviderError("connection", what, retryable=True)
    if isinstance(error, aiohttp.ClientConnectorError):
        number = error.os_error.errno or 0
        reason = _REASONS.get(number) or (os.strerror(number) if number > 0 else error.strerror or "no connection")
        what = f"cannot connect to {place}: {reason}. {_whereabouts(address, near=near)}"
        return ProviderError("connection", what, retryable=True)
    if isinstance(error, aiohttp.ClientPayloadError):
        what = f"the response of {place} ended early or could not be decompressed. {_log(address)}"
        return ProviderError("connection", what, retryable=True, reply_lost=True)
    if isinstance(error, aiohttp.ClientResponseError):
        what = f"{place} sent a response that is not HTTP. {_other_scheme(address)}".rstrip()
        return ProviderError("malformed_reply", what, retryable=True, reply_lost=True)
    what = f"{place} closed the connection without a response. {_other_scheme(address) or _log(address)}"
    return ProviderError("connection", what, retryable=True, reply_lost=True)


def _proxy_problem(error: Exception, address: URL, proxy: str) -> ProviderError:
    """Return the error of a proxy that cannot be reached, or that opens no connection."""
    status = getattr(error, "status", 0)
    if status == 407:
        what = (
            f"the proxy {proxy} requires a login: set the environment variable MEDHELM_PROXY_LOGIN to `user:password`."
        )
    elif status:
        what = f"the proxy {proxy} refused a connection to {address.origin()} (status {status})."
        if status < 500:
            what += " Ask its administrator to allow this host, or correct the address."
    else:
        what = f"cannot connect to the proxy {proxy}. Check its address."
    is_final = 400 <= status < 500
    return ProviderError("connection", what, fatal=is_final, retryable=not is_final)


def not_an_object(status: int, body: bytes, value: object, problem: Exception | None) -> ProviderError:
    """Return the error of a body that is not a JSON object: it was read as `value`, or not at all, with `problem`.

    The body is not quoted: services often repeat the prompt in it.
    """
    start = body.lstrip()[:6]
    if not start:
        what = "is empty"
    elif problem is None:
        what = f"is JSON, but {_KINDS.get(type(value), 'null')} and not an object"
    elif start.startswith(b"<"):
        what = "is a web page, not JSON: a login page, or the wrong address"
    elif start.startswith((b"data:", b"event:", b": ")):
        what = "is an event stream, not JSON, although none was requested: check the gateway's settings"
    else:
        reason = type(problem).__name__
        if isinstance(problem, json.JSONDecodeError):
            reason = f"{problem.msg} at byte {problem.pos}"
        what = f"is not JSON ({reason})"
    message = f"the response (status {status}, {len(body)} bytes) {what}"
    return ProviderError("malformed_reply", message, retryable=True)


_KINDS: Mapping[type, str] = {list: "a list", str: "a text", int: "a number", float: "a number", bool: "true or false"}
"""Type of a JSON value that is not an object -> its name in messages."""


def redirected(status: int, target: str, address: URL) -> ProviderError:
    """Return the error of a redirect. `target`: its destination without secrets, or "".

    Fatal: every request would get the same response.
    """
    return ProviderError(
        "redirect",
        f"{address.origin()} sent a redirect (status {status}) to {target or 'an unknown address'}. "
        "Redirects are not followed, because they can lead to a host that is not allowed. Check the address: it "
        "may lead to a login page instead of the API, need https:// instead of http://, or name another region.",
        fatal=True,
    )


def invalid_request(name: str, address: URL) -> ProviderError:
    """Return the error of a header that cannot be sent. Its value is not quoted: it is most likely a key."""
    return ProviderError(
        "bad_key",
        f"the header {name} for {address.origin()} cannot be sent: it contains a line break or control character. "
        "If it holds a key, set its environment variable again, without the line break.",
        fatal=True,
    )


def _insecure(error: Exception, place: URL, *, of_model: bool) -> str:
    """Explain why no TLS connection was established, and what to do."""
    cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", None)
    said = f"{getattr(cause, 'reason', '') or ''} {cause}"
    if any(name in said.upper() for name in _NOT_TLS):
        return f"{place} does not speak HTTPS: write its address with http://."
    if not isinstance(cause, ssl.SSLCertVerificationError):
        return f"no secure connection to {place}: {getattr(cause, 'reason', None) or type(error).__name__}."
    reason = cause.verify_message.rstrip(".")
    refused = f"the certificate of {place} is not trusted here: {reason}."
    if cause.verify_code == _EXPIRED:
        return f"{refused} If the clock of this machine is right, the server's owner must renew the certificate."
    if cause.verify_code in (_OTHER_HOST, _OTHER_IP):
        return f"{refused} Use the host name from the certificate in the address."
    named = os.environ.get("SSL_CERT_FILE", "")
    if named and not Path(named).is_file():
        return f"{refused} SSL_CERT_FILE names a missing file: {named}."
    return (
        f"{refused} If your institution issued it, set the environment variable SSL_CERT_FILE to the file with your "
        f"institution's certificates{', or name that file under `ca_file` in models.yaml' if of_model else ''}."
    )


def _whereabouts(address: URL, *, near: bool) -> str:
    """Say what to do if a server cannot be reached."""
    if near:
        usual = "" if address.port in _USUAL_PORTS else f" {', '.join(f'{v} is {k}' for k, v in _USUAL_PORTS.items())}."
        return f"Start the server, or correct the port {address.port}.{usual}"
    return (
        f"Check how {address.host} is spelled, and whether this machine can reach it (VPN, firewall). Proxies that "
        "the environment names are not used: name one with --proxy."
    )


def _other_scheme(address: URL) -> str:
    return "If the server uses HTTPS, write its address with https://." if address.scheme == "http" else ""


def _log(address: URL) -> str:
    return f"See the log of the server on port {address.port}."


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds the server asks to wait before the next request; None without a valid header.

    `headers`: names in lower case. `now`: seconds since 1970. Reads `retry-after-ms` (milliseconds), which some
    services also send, then `retry-after` as seconds or as a date (RFC 9110, 10.2.3). A past time gives 0.0.

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


# --- key redaction ----------------------------------------------------------------------------------------------------
# Finds API keys in texts of servers, however they are written, and replaces them.

SHORTEST_SECRET = 6
"""Shorter keys are placeholders such as `none`; replacing them would garble words."""

_SHORTEST_ENCODED = 12
"""Shorter keys have base64 forms that occur by chance."""

_MOST_NESTED = 3
"""Encodings within each other that are looked into."""

_ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})|\\(/)")
"""A character that JSON escapes."""

_NAMED = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;"}
"""Character -> its name in HTML."""


def without_keys(text: str, secrets: Iterable[str], *, mark: str = "[key]", shortest: int = SHORTEST_SECRET) -> str:
    """Replace keys in a text by `mark`.

    Finds them in any case, percent-encoded, with escapes of HTML or JSON, in hexadecimal, and in base64 at any offset.
    A text in which a key cannot be located, because forms are nested, is replaced as a whole.

    >>> without_keys("sent to /SK-0123456789ABCDEF/ or sk%2D0123456789abcdef", ["sk-0123456789abcdef"])
    'sent to /[key]/ or [key]'
    """
    for secret in secrets:
        if len(secret) < shortest or not _holds(text, secret):
            continue
        text = _pattern(secret).sub(lambda _: mark, text)
        if _holds(text, secret):
            return mark
    return text


def without_keys_of(headers: Mapping[str, str], text: str) -> str:
    """Replace what may be a key in the headers of a request: the last word of each value."""
    return without_keys(text, [value.split()[-1] for value in headers.values() if value.strip()])


def _holds(text: str, secret: str) -> bool:
    """Return True if a text holds a key. Texts without escapes are not decoded, which keeps this fast."""
    forms = _forms(secret)
    lowered = text.lower()
    if any(form in lowered for form in forms):
        return True
    for _ in range(_MOST_NESTED):
        decoded = text
        if "%" in decoded:
            decoded = unquote(decoded)
        if "\\" in decoded:
            decoded = _ESCAPED.sub(lambda found: found[2] or chr(int(found[1], 16)), decoded)
        if "&" in decoded:
            decoded = unescape(decoded)
        if decoded == text:
            return False
        text = decoded
        if any(form in text.lower() for form in forms):
            return True
    return False


@lru_cache
def _forms(secret: str) -> tuple[str, ...]:
    """Return a key and its encoded forms in lower case."""
    content = secret.encode()
    forms = {secret}
    if len(content) >= _SHORTEST_ENCODED:
        forms.add(content.hex())
        for offset in range(3):
            # Characters that also encode bits of the neighbors are left out.
            skipped = (0, 2, 3)[offset]
            n_whole = (offset + len(content)) * 8 // 6
            for encode in (b64encode, urlsafe_b64encode):
                forms.add(encode(bytes(offset) + content).decode()[skipped:n_whole])
    return tuple(sorted({form.lower() for form in forms}))


@lru_cache
def _pattern(secret: str) -> re.Pattern[str]:
    """Return a pattern for all forms, with any of the key's characters escaped."""
    characters = "".join(f"(?:{'|'.join(_spellings(one))})" for one in secret)
    return re.compile("|".join([characters, *map(re.escape, _forms(secret))]), re.IGNORECASE)


def _spellings(character: str) -> list[str]:
    """Return patterns for a character and its escapes."""
    code = ord(character)
    spelled = [character, f"%{code:02x}", f"\\u{code:04x}", f"\\{character}", *filter(None, [_NAMED.get(character)])]
    return [*map(re.escape, spelled), f"&#0*{code};", f"&#x0*{code:x};"]


# --- requests ---------------------------------------------------------------------------------------------------------
# HTTP client for JSON. It asks the egress policy about every host and its addresses, and writes an audit log.
#
# All requests to services go through this client. It does not read proxies, credentials or cookies from the environment
# and does not follow redirects, so only the host of the requested address, or its proxy, is contacted. Failures raise
# `ProviderError`.

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
    names = ("aiohttp", "medhelm.io.http.client")
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
