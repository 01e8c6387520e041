"""The site as an ASGI application: pages, templates, static files, errors and access."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from http import HTTPStatus
from urllib.parse import parse_qsl, quote

from jinja2 import Environment
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute
from starlette.routing import Route as StarletteRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from medhelm import __version__
from medhelm.domain.text import group_title, plural, short_count
from medhelm.errors import MedHelmError, StoreError, UserError
from medhelm.extensions.web.api import JSON, OPERATIONS, check_parameters, error_content, error_response, is_json_path
from medhelm.extensions.web.marks import axis_mark
from medhelm.extensions.web.page import (
    ACTIONS,
    BY_NAME,
    MOST_URL_CHARACTERS,
    PACKAGE,
    ROUTES,
    Destination,
    PageRequest,
    Route,
    ServerLinks,
    Values,
    error_page,
    function_of,
    handler_of,
)
from medhelm.extensions.web.pages.reference import anchor, explain, terms_in
from medhelm.extensions.web.security import (
    Security,
    SecurityHeaders,
    bearer_token,
    session_of,
)
from medhelm.extensions.web.site import Site
from medhelm.io.http.mounted_pages import (
    FAILURE_WINDOW_S,
    BadFormError,
    MenuEntry,
    MountedPages,
    SiteServer,
    Visitor,
    client_of,
    read_form,
    static_file,
)
from medhelm.io.http.pages import BadParameter, Download, Page, check_query, url_key
from medhelm.results.formats.markdown import page_templates, with_code
from medhelm.results.formats.tables import (
    money,
    p_text,
    signed,
    with_minus,
)

# --- templating -------------------------------------------------------------------------------------------------------


@cache
def environment() -> Environment:
    """Return the templates of this package."""
    made = page_templates(PACKAGE)
    made.filters.update(
        signed=signed,
        money=money,
        minus=with_minus,
        url_key=url_key,
        p_value=lambda p: p_text(p) or "",
        group_title=group_title,
        short_count=short_count,
        with_code=with_code,
        terms_in=terms_in,
    )
    made.globals.update(
        axis_mark=axis_mark,
        has_route=lambda name: name in BY_NAME,
        explain=explain,
        anchor=anchor,
    )
    return made


def render(site: Site, request: PageRequest, page: Page) -> str:
    """Return the HTML of a page."""

    def url(route: str, **parameters: Values) -> str:
        return request.links.to(route, parameters)

    values = {
        "title": page.title,
        "site": site,
        "scoring": site.rule,
        "request": request,
        "url": url,
        "static": request.links.static,
        "menu": [route for route in ROUTES if route.menu and not (request.is_static and route.only_served)],
        "added_menu": site.added_menu,
    }
    if "site_tier" not in page.values:
        values["site_tier"] = site.known_tier
    return environment().get_template(page.template).render({**values, **page.values})


# --- application ------------------------------------------------------------------------------------------------------
# Pages for browsers that have a session, a login page for all others.

MOST_FORM_BYTES, MOST_ACTION_BYTES = 10_000, 100_000
"""Most bytes of the login form, and of other forms."""

PATIENCE_S, MANY_RUNS = 0.15, 300
"""Seconds until a browser gets a page that says that its page is being made, in a store of at least so many runs."""

KEPT_S = 5.0
"""Seconds for which a page is kept for visitors who know that it is being made; they ask again at once."""

LONGEST_WAIT_S = 20.0
"""Seconds for which the next request of the same visitor waits for the page; proxies end those of a minute."""

GZIP_LEVEL = 5
"""Level of compression: half of the time of the best one, for a few percent more bytes.

Lengths of compressed pages could tell what is in them to someone who makes the browser of a user request pages with
chosen words (BREACH). Here no other site can: its requests come without the session, see `security`.
"""

LINKS = ServerLinks(routes=BY_NAME, version=__version__)
ERROR = Route(name="error", path="/", handler="")
"""Placeholder for the page of an error in links to itself."""


def create_app(site: Site, security: Security, added: Sequence[MountedPages] = ()) -> Starlette:
    """Return the application that serves a site, with the pages that other extensions add to it."""
    site.added_menu = [entry for pages in added for entry in pages.menu]
    server = SiteServer(
        stores=site.stores,
        benchmark_folders=site.benchmark_folders,
        data=site.data,
        https=security.https,
        cookie_suffix=security.cookie.rpartition("medhelm")[2],
        menu=[*(MenuEntry(title=route.menu, path=route.path) for route in ROUTES if route.menu), *site.added_menu],
        has_users=bool(security.user_header),
    )
    mounted = [Mounted(pages=pages, server=server, app=pages.app(server)) for pages in added]
    routes: list[BaseRoute] = [
        StarletteRoute("/login", _login(site, security), methods=["GET", "POST"]),
        StarletteRoute("/logout", _logout(security), methods=["POST"]),
        StarletteRoute("/static/{name}", _static, methods=["GET"]),
        *(StarletteRoute(route.path, _endpoint(site, route, security), methods=["GET"]) for route in ROUTES),
        *(StarletteRoute(path, _action(site, name), methods=["POST"]) for path, name in ACTIONS.items()),
    ]

    async def http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        text = error.detail or HTTPStatus(error.status_code).phrase
        response = _error_page(site, request, error.status_code, text)
        response.headers.update(error.headers or {})
        return response

    async def server_error(request: Request, _: Exception) -> Response:
        return _error_page(site, request, 500, "The server could not make this page. Its terminal shows the error.")

    app = Starlette(
        routes=routes,
        middleware=[
            Middleware(SecurityHeaders),
            Middleware(GZipMiddleware, compresslevel=GZIP_LEVEL),
            Middleware(_Gate, site=site, security=security, mounted=mounted),
        ],
        exception_handlers={HTTPException: http_error, 500: server_error},
    )
    app.state.site = site
    return app


def answer(site: Site, request: PageRequest) -> tuple[bytes, str, int, str]:
    """Return content, media type, status and file name (empty for a page) for a request.

    Errors of the user become pages, so that the server and the static site show the same.
    """
    with site.unchanging():
        return _answer(site, request)


def _answer(site: Site, request: PageRequest) -> tuple[bytes, str, int, str]:
    try:
        if operation := OPERATIONS.get(request.route.name):
            check_parameters(operation, request.query)
        made = handler_of(request.route)(site, request)
    except MedHelmError as error:
        made = page_of_error(error)
        if is_json_path(request.route.path):
            return error_content(made.status, str(error)), JSON, made.status, ""
    if isinstance(made, Download):
        return made.content, made.media_type, 200, made.file_name
    return render(site, request, made).encode("utf-8", "replace"), "text/html", made.status, ""


def page_of_error(error: MedHelmError) -> Page:
    """Return the page that shows an error of the user or of the store."""
    statuses = ((BadParameter, 400), (UserError, 404), (StoreError, 503))
    status = next((status for kind, status in statuses if isinstance(error, kind)), 500)
    titles = {400: "The address is not valid", 404: "Nothing to show", 503: "The store cannot be read"}
    return error_page(status, titles.get(status, "Something went wrong"), str(error))


def _endpoint(site: Site, route: Route, security: Security) -> Callable[[Request], Awaitable[Response]]:
    """Return the endpoint of one route."""
    in_progress: dict[tuple[str, str], _PageInProgress] = {}

    def respond(wanted: PageRequest) -> Response:
        content, media_type, status, file_name = answer(site, wanted)
        response = Response(content, status, media_type=media_type)
        if file_name:
            response.headers["content-disposition"] = f'attachment; filename="{file_name}"'
        return response

    def forget(key: tuple[str, str], made: _PageInProgress, *_: object) -> None:
        if made.informed and not made.is_kept:
            made.is_kept = True
            asyncio.get_running_loop().call_later(KEPT_S, forget, key, made)
        elif in_progress.get(key) is made:
            del in_progress[key]

    async def endpoint(request: Request) -> Response:
        parts, query = dict(request.path_params), request.url.query
        try:
            pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=1000)
            checked = check_query(pairs, MOST_URL_CHARACTERS)  # pages keep their form and say which one is too long
            check_query(list(parts.items()))
        except (ValueError, BadParameter) as error:
            raise HTTPException(400, str(error)) from None
        wanted = PageRequest(route=route, parts=parts, query=checked, links=LINKS)
        if not route.can_take_long or "text/html" not in request.headers.get("accept", ""):
            return await run_in_threadpool(respond, wanted)
        key = (request.url.path, query)
        visitor = request.cookies.get(security.cookie) or client_of(request)
        current = in_progress.get(key)
        if current is None or (current.task.done() and visitor not in current.informed):
            current = in_progress[key] = _PageInProgress(asyncio.create_task(run_in_threadpool(respond, wanted)))
            current.task.add_done_callback(partial(forget, key, current))
        task, informed = current.task, current.informed
        await asyncio.wait([task], timeout=LONGEST_WAIT_S if visitor in informed else PATIENCE_S)
        takes_long = not task.done() and await run_in_threadpool(lambda: site.n_runs) >= MANY_RUNS
        if takes_long and not task.done():
            informed.add(visitor)
            return await run_in_threadpool(_waiting, site, wanted)
        informed.discard(visitor)
        response = await task
        return Response(response.body, response.status_code, media_type=response.media_type)

    return endpoint


@dataclass(slots=True, eq=False)
class _PageInProgress:
    """A page that is being made, or was made a moment ago for visitors who have not asked for it again."""

    task: asyncio.Task[Response]
    """Makes it."""
    informed: set[str] = field(default_factory=set)
    """Visitors who got the page that says so: their next request waits, so that they see it as soon as it is made."""
    is_kept: bool = False
    """True once it is made and kept for these visitors."""


def _waiting(site: Site, request: PageRequest) -> Response:
    """Return the page to show until another one is made; the browser asks for that again at once, and shows this one
    until the answer arrives.
    """
    values = {"site_tier": None, "address": request.here()}
    page = Page(template="waiting.html", title=f"Reading {plural(site.n_runs, 'run')}", values=values, status=202)
    return HTMLResponse(render(site, request, page), page.status, headers={"refresh": "0"})


def _action(site: Site, name: str) -> Callable[[Request], Awaitable[Response]]:
    """Return the endpoint of something that changes the store, which leads to the page that shows the change."""

    async def act(request: Request) -> Response:
        try:
            form = await read_form(request, MOST_ACTION_BYTES)
            check_query(list(request.path_params.items()))
            to: Destination = await run_in_threadpool(function_of(name), site, request.path_params, form)
        except BadFormError as error:
            return _plain_error(request.url.path, error.status, str(error))
        except MedHelmError as error:
            return _html(site, page_of_error(error))
        address = LINKS.to(to.route, to.parameters)
        return RedirectResponse(f"{address}#{quote(to.fragment)}" if to.fragment else address, 303)

    return act


@dataclass(frozen=True, slots=True, kw_only=True)
class Mounted:
    """Pages of another extension on this server."""

    pages: MountedPages
    """The pages."""
    server: SiteServer
    """This server."""
    app: ASGIApp
    """Answers their requests."""


class _Gate:
    """ASGI middleware: refuses requests from elsewhere, and shows the login page to browsers without a session.

    Requests for the pages of other extensions go from here to their applications.
    """

    def __init__(self, app: ASGIApp, *, site: Site, security: Security, mounted: Sequence[Mounted]) -> None:
        self.app, self.site, self.security, self.mounted = app, site, security, mounted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request, path = Request(scope), scope["path"]
        added = next((one for one in self.mounted if one.pages.serves(path)), None)
        if added is None:
            await (self._response_instead(request, None) or self.app)(scope, receive, send)
            return
        instead = await run_in_threadpool(self._response_instead, request, added)  # it may read files
        if instead:
            await instead(scope, receive, send)
            return
        is_open = added.pages.is_open(path)
        scope = {**scope, "headers": self.security.without_session(request)} if is_open else scope
        is_owner = not is_open and self.security.has_access(request)
        Visitor(is_owner=is_owner, user=self.security.user_of(request)).put_into(scope)
        await added.app(scope, receive, send)

    def _response_instead(self, request: Request, added: Mounted | None) -> Response | None:
        """Return the response to send instead of the page; None if the request is allowed."""
        refused = self.security.refusal(request.method, request.headers)
        path = request.url.path
        if refused:
            return _plain_error(path, 403, refused)
        if len(str(request.url)) > MOST_URL_CHARACTERS:
            return _plain_error(path, 414, "The address is too long.")
        if path == "/login" or path.startswith("/static/") or session_of(request, self.security):
            return None
        if added and (added.pages.is_open(path) or added.pages.admits(added.server, request)):
            return None
        token = bearer_token(request)
        client = client_of(request)
        if token is not None and self.security.accepts(token, client):
            return None
        if token is not None and self.security.wrong_tokens.must_wait(client):
            response = _plain_error(path, 429, "Too many wrong tokens. Wait a minute, then try again.")
            response.headers["retry-after"] = str(math.ceil(FAILURE_WINDOW_S))
            return response
        if token is not None or is_json_path(path):
            response = _plain_error(path, 401, "The token is missing or wrong. Send `Authorization: Bearer TOKEN`.")
            response.headers["www-authenticate"] = 'Bearer realm="MedHELM"'
            return response
        url = request.url
        return _login_page(self.site, 401, next_=f"{url.path}?{url.query}" if url.query else url.path)


def _login(site: Site, security: Security) -> Callable[[Request], Awaitable[Response]]:
    """Return the endpoint that exchanges the token for a session cookie."""

    async def login(request: Request) -> Response:
        if request.method == "GET":
            return RedirectResponse("/", 303) if session_of(request, security) else _login_page(site, 200)
        client = client_of(request)
        try:
            fields = await read_form(request, MOST_FORM_BYTES)
        except BadFormError as error:
            return _plain_error(request.url.path, error.status, str(error))
        form = {name: values[-1] for name, values in fields.items()}
        if not security.accepts(form.get("token", "").strip(), client):
            if security.wrong_tokens.must_wait(client):
                return _login_page(site, 429, message="Too many wrong tokens. Wait a minute, then try again.")
            message = "This token is not valid. Use the address that `medhelm serve` printed last."
            return _login_page(site, 403, message=message, next_=form.get("next", "/"))
        response = RedirectResponse(_local_path(form.get("next", "/")), 303)
        response.set_cookie(
            security.cookie, security.new_session(), httponly=True, samesite="strict", secure=security.https, path="/"
        )
        return response

    return login


def _logout(security: Security) -> Callable[[Request], Awaitable[Response]]:
    """Return the endpoint that removes the session cookie."""

    async def logout(request: Request) -> Response:
        del request
        response = RedirectResponse("/login", 303)
        response.delete_cookie(security.cookie, httponly=True, samesite="strict", secure=security.https, path="/")
        return response

    return logout


async def _static(request: Request) -> Response:
    """Send a style sheet or script."""
    found = static_file(PACKAGE, request.path_params["name"])
    if found is None:
        raise HTTPException(404)
    content, media_type = found
    return Response(content, media_type=media_type, headers={"cache-control": "private, max-age=3600"})


def _local_path(address: str) -> str:
    """Return the path to go to after the login; the first page for anything but a path of this server.

    >>> _local_path("/benchmarks/pubmed_qa"), _local_path("//other.example/"), _local_path("/\\\\other.example")
    ('/benchmarks/pubmed_qa', '/', '/')
    """
    is_local = address.startswith("/") and not address.startswith("//") and "\\" not in address
    return address if is_local and address.isprintable() and not address.startswith("/login") else "/"


def _login_page(site: Site, status: int, *, message: str = "", next_: str = "/") -> Response:
    """Return the page that asks for the token; it says nothing about the store."""
    values = {"message": message, "next": _local_path(next_)}
    return _html(site, Page(template="login.html", title="Sign in", values=values, status=status))


def _html(site: Site, page: Page) -> Response:
    """Return the response with a page that belongs to no route."""
    return HTMLResponse(render(site, PageRequest(route=ERROR, links=LINKS), page), page.status)


def _plain_error(path: str, status: int, message: str) -> Response:
    """Return an error to a request that was not let in: JSON for programs, else one line of text."""
    if is_json_path(path):
        return error_response(status, message)
    return Response(f"{message}\n", status, media_type="text/plain")


def _error_page(site: Site, request: Request, status: int, message: str) -> Response:
    if is_json_path(request.url.path):
        return error_response(status, message)
    title = "Page not found" if status == 404 else "The request failed"
    return _html(site, error_page(status, title, message))
