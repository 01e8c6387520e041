"""Pages that other extensions add to the site of `medhelm serve`, and what both sides need to answer requests.

An extension declares a `MountedPages` in the group `medhelm.pages` of its entry points. The site lets requests pass
after its checks of host, origin and length, and sends its security headers with every answer. A request below one of
`open_paths` comes without the session and the token of the site, so that it cannot use or show them; the pages there
have an access of their own. Other paths need the session of the site, unless the pages admit a request themselves.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection, Request
    from starlette.types import ASGIApp, Scope

MOST_FIELDS = 100
"""Most fields of a form."""

MOST_FAILURES = 10
"""Wrong tokens of one client within `FAILURE_WINDOW_S` before it has to wait. The right one is always accepted."""

FAILURE_WINDOW_S = 60.0
"""Seconds over which wrong tokens are counted."""

MOST_CLIENTS = 10_000
"""Clients whose wrong tokens are counted."""

MEDIA_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
"""Suffix of a static file -> its media type; other files are not served."""

_VISITOR = "medhelm.visitor"


@dataclass(frozen=True, slots=True, kw_only=True)
class MenuEntry:
    """An entry of the menu at the top of every page."""

    title: str
    """Title, such as `Studies`."""
    path: str
    """Path of its page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteServer:
    """The server that pages are added to."""

    stores: Sequence[Path]
    """Stores that the site shows, the first one first."""
    benchmark_folders: Sequence[Path] = ()
    """Folders with the user's own benchmarks."""
    data: Path | None = None
    """Folder with one folder of data per benchmark."""
    https: bool = False
    """True if browsers reach the server through TLS: cookies are then sent over HTTPS only."""
    cookie_suffix: str = ""
    """End of the names of cookies, such as `-8642`: one per port, because cookies do not tell ports apart."""
    menu: Sequence[MenuEntry] = ()
    """The menu of the site, with the entries of all extensions."""
    has_users: bool = False
    """True if a proxy names the user of each request, see `Visitor.user`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MountedPages:
    """Pages that an extension adds to the site."""

    paths: Sequence[str]
    """Paths such as `/studies`: all requests for them and below them."""
    open_paths: Sequence[str]
    """Those that have an access of their own."""
    menu: Sequence[MenuEntry]
    """Entries of the site's menu."""
    app: Callable[[SiteServer], ASGIApp]
    """Makes the application that answers the requests; it gets whole paths."""
    admits: Callable[[SiteServer, HTTPConnection], bool]
    """Returns True for a request outside of `open_paths` that needs no session of the site."""

    def serves(self, path: str) -> bool:
        """Return True for a path that these pages answer."""
        return is_below(path, self.paths)

    def is_open(self, path: str) -> bool:
        """Return True for a path with an access of its own."""
        return is_below(path, self.open_paths)


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """The site's knowledge of who sent a request."""

    is_owner: bool = False
    """True for a request with the session or the token of the site; never below `MountedPages.open_paths`."""
    user: str = ""
    """Name of the user in the header of a proxy that is believed; empty without one."""

    def put_into(self, scope: Scope) -> None:
        """Attach this to a request, for `visitor_of`."""
        scope[_VISITOR] = self


def visitor_of(connection: HTTPConnection) -> Visitor:
    """Return what the site knows of who sent a request; a stranger outside of a site."""
    found = connection.scope.get(_VISITOR)
    return found if isinstance(found, Visitor) else Visitor()


def is_below(path: str, places: Sequence[str]) -> bool:
    """Return True if a path is one of these, or below one.

    >>> is_below("/rate/a", ["/rate"]), is_below("/rates", ["/rate"])
    (True, False)
    """
    return any(path == place or path.startswith(f"{place}/") for place in places)


# --- requests ---------------------------------------------------------------------------------------------------------


class BadFormError(ValueError):
    """A form that is too long or not complete."""

    def __init__(self, message: str, status: int) -> None:
        """`status`: HTTP status of the answer."""
        super().__init__(message)
        self.status = status


async def read_form(request: Request, most_bytes: int, most_fields: int = MOST_FIELDS) -> dict[str, list[str]]:
    """Return the fields of a form that was sent, each with its values. Raises: BadFormError."""
    from starlette.requests import ClientDisconnect

    body = b""
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > most_bytes:
                raise BadFormError("The form is too long.", 413)
        return parse_qs(body.decode("utf-8", "replace"), max_num_fields=most_fields)
    except (ClientDisconnect, ValueError) as error:
        if isinstance(error, BadFormError):
            raise
        raise BadFormError("The form is not complete.", 400) from None


def client_of(request: Request) -> str:
    """Return the address of a client; "" on a socket file."""
    return request.client.host if request.client else ""


@dataclass(kw_only=True)
class WrongTokens:
    """Counts the wrong tokens that each client sends."""

    _moments: dict[str, list[float]] = field(default_factory=dict)

    def count(self, client: str) -> None:
        """Count a wrong token of a client."""
        if len(self._moments) >= MOST_CLIENTS:
            self._moments.clear()
        self._moments[client] = [*self._recent(client)[-MOST_FAILURES:], time.monotonic()]

    def must_wait(self, client: str) -> bool:
        """Return True after too many wrong tokens of a client within a minute."""
        return len(self._recent(client)) > MOST_FAILURES

    def _recent(self, client: str) -> list[float]:
        start = time.monotonic() - FAILURE_WINDOW_S
        return [moment for moment in self._moments.get(client, ()) if moment > start]


# --- static files -----------------------------------------------------------------------------------------------------
# Style sheets and scripts: the files of one folder, read once by their exact names.


@cache
def static_files(package: str) -> Mapping[str, bytes]:
    """Return the files in the folder `static` of a package. A name from a URL is looked up here, and never a path."""
    folder = files(package) / "static"
    return {one.name: one.read_bytes() for one in folder.iterdir() if one.name.rpartition(".")[2] in MEDIA_TYPES}


def static_file(package: str, name: str) -> tuple[bytes, str] | None:
    """Return the content and media type of a static file; None if there is none of this name."""
    content = static_files(package).get(name)
    return None if content is None else (content, MEDIA_TYPES[name.rpartition(".")[2]])
