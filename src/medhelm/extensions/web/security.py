"""Protection of the server: a token, checks of the origin of requests, and headers of every response.

The address printed at the start carries the token in its fragment, which browsers do not send: it stays out of logs and
of the `Referer` header. A script on the login page sends it once by POST and gets a session cookie, which other sites
cannot use and scripts cannot read. A program sends the token itself, as `Authorization: Bearer TOKEN`. Every other
account of the machine can reach the port, so a token is always needed.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from medhelm.io.http.listening import Address, address_of
from medhelm.io.http.mounted_pages import WrongTokens

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "object-src 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
"""Only files of this server; nothing inline, no plug-ins, no frames, no HTML made by scripts."""

HEADERS: Mapping[str, str] = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
"""Headers of every response."""

SESSION_S = 12 * 3600
"""Seconds that a session lasts."""

_SHOWN_HOST = re.compile(r"[A-Za-z0-9._:\[\]-]{1,255}")

SAFE_METHODS = ("GET", "HEAD")
"""Methods that change nothing."""

LOCAL_NAMES = ("127.0.0.1", "localhost", "[::1]")
"""Names by which a browser on this machine reaches the server."""


@dataclass(kw_only=True)
class Security:
    """Token, sessions and allowed hosts of one server."""

    hosts: Collection[str]
    """Values of the `Host` header that are served, in lower case, such as `127.0.0.1:8642`."""
    any_port: bool = False
    """True if a port in the `Host` header is ignored: for a socket that is forwarded to a port of another machine."""
    https: bool = False
    """True behind a proxy with TLS: cookies are sent over HTTPS only."""
    cookie: str = "medhelm"
    """Name of the session cookie: one per port, because cookies do not tell ports apart."""
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    """The token that opens a session."""
    _key: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    proxies: Collection[Address] = ()
    """Addresses from which `user_header` is believed."""
    user_header: str = ""
    """Header in which a proxy names the user who signed in; empty to believe none."""
    wrong_tokens: WrongTokens = field(default_factory=WrongTokens)
    """The wrong tokens of each client."""

    def serves_host(self, host: str) -> bool:
        """Return True if the server answers to this `Host` header, which protects against DNS rebinding."""
        name = host.lower()
        if self.any_port and not name.endswith("]"):
            start, _, port = name.rpartition(":")
            name = start if port.isdigit() else name
        return name in self.hosts

    def refusal(self, method: str, headers: Headers) -> str | None:
        """Return why a request is refused; None if it comes from this site or from the address bar."""
        host = headers.get("host", "")
        if not self.serves_host(host):
            return (
                f"{_shown(host)} is not a host name of this server. If a proxy with TLS leads here, start `medhelm "
                f"serve` with --behind-proxy HOST:PORT, as browsers write it (without "
                ":443). Let the proxy pass the header `Host` (nginx: proxy_set_header Host $http_host)."
            )
        scheme = "https" if self.https else "http"
        origin = headers.get("origin")
        fetch_site = headers.get("sec-fetch-site", "none")
        if origin is not None and origin.lower() != f"{scheme}://{host.lower()}":
            return (
                f"Requests from other sites are refused: the browser is at {_shown(origin.partition('://')[2])}, and "
                f"this server at {scheme}://{_shown(host)}. If a proxy with TLS leads here, start `medhelm serve` with "
                "--behind-proxy HOST:PORT, and let the proxy pass the header `Host` (nginx: proxy_set_header Host "
                "$http_host)."
            )
        if method not in SAFE_METHODS and fetch_site not in ("same-origin", "none"):
            return "Requests from other sites are refused."
        if fetch_site in ("cross-site", "same-site") and headers.get("sec-fetch-mode") != "navigate":
            return "Requests from other sites are refused."
        return None

    def accepts(self, token: str, client: str) -> bool:
        """Return True for the right token, whatever was sent before; count a wrong one of a client."""
        if self._is_right(token):
            return True
        self.wrong_tokens.count(client)
        return False

    def has_access(self, request: Request) -> bool:
        """Return True for a request with a session or the token. Wrong tokens are counted elsewhere."""
        token = bearer_token(request)
        return session_of(request, self) or (token is not None and self._is_right(token))

    def user_of(self, request: Request) -> str:
        """Return the user whom a proxy names; "" if the header comes from elsewhere, or more than once."""
        names = request.headers.getlist(self.user_header) if self.user_header else []
        peer = request.client.host if request.client else ""
        if len(names) != 1 or address_of(peer) not in self.proxies:
            return ""
        return names[0].encode("latin-1").decode("utf-8", "replace").strip()

    def without_session(self, request: Request) -> list[tuple[bytes, bytes]]:
        """Return the headers of a request without the session cookie and the token."""
        kept = {name: value for name, value in request.cookies.items() if name != self.cookie}
        cookie = "; ".join(f"{name}={value}" for name, value in kept.items()).encode("latin-1", "replace")
        headers = [(name, value) for name, value in request.headers.raw if name not in (b"cookie", b"authorization")]
        return [*headers, (b"cookie", cookie)] if cookie else headers

    def new_session(self) -> str:
        """Return the cookie of a new session: its end, and a signature that only this process can make."""
        end = str(int(time.time()) + SESSION_S)
        return f"{end}.{self._sign(end)}"

    def has_session(self, cookie: str | None) -> bool:
        """Return True if the cookie is of this process and has not expired."""
        end, _, signature = (cookie or "").partition(".")
        if not hmac.compare_digest(_digest(signature), _digest(self._sign(end))):
            return False
        return time.time() < int(end)

    def _is_right(self, token: str) -> bool:
        return hmac.compare_digest(_digest(token), _digest(self.token))

    def _sign(self, text: str) -> str:
        return hmac.new(self._key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def _shown(host: str) -> str:
    """Return a host in a request for a message."""
    return host if _SHOWN_HOST.fullmatch(host) else "what the request names"


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


class SecurityHeaders:
    """ASGI middleware that adds the security headers and forbids caches, files with a version in the URL aside."""

    def __init__(self, app: ASGIApp) -> None:
        """Parameters: app, the application inside."""
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = message.setdefault("headers", [])
                present = {name.lower() for name, _ in headers}
                added = {**HEADERS, "cache-control": "no-store"}
                headers += [
                    (name.encode(), value.encode()) for name, value in added.items() if name.encode() not in present
                ]
            await send(message)

        await self.app(scope, receive, send_with_headers)


def session_of(request: Request, security: Security) -> bool:
    """Return True if the request carries a valid session cookie."""
    return security.has_session(request.cookies.get(security.cookie))


def bearer_token(request: Request) -> str | None:
    """Return the token that a script sends with each request; None without an `Authorization: Bearer` header."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None
