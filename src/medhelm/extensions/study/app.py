"""The pages of studies on the site of `medhelm serve`: who may open which, signing in, and errors."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator
from http import HTTPStatus
from importlib import import_module
from inspect import iscoroutinefunction
from typing import Any

import click
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from medhelm.errors import ConfigError, DataError, MedHelmError, StoreError, UserError
from medhelm.extensions.study import access, pages
from medhelm.extensions.study.access import LinkRefusedError, Role
from medhelm.extensions.study.pages import PACKAGE, RATE, STUDIES, render
from medhelm.io.http import mounted_pages
from medhelm.io.http.mounted_pages import BadFormError, MenuEntry, MountedPages, SiteServer, WrongTokens
from medhelm.io.http.pages import BadParameter, PageNotFound

HANDLERS = ("rate_pages", "owner.pages")
"""Modules with a table `ROUTES` of pages: name, path, methods and the function that answers a request."""

MOST_TOKEN_BYTES = 10_000
"""Most bytes of the form for signing in."""

Handler = Callable[[Request], Any]


def create_app(server: SiteServer) -> Starlette:
    """Return the application that answers all requests for pages of studies."""
    app = Starlette(
        routes=list(_routes()),
        exception_handlers={HTTPException: _http_error, BadFormError: _form_error, MedHelmError: _error, 500: _failure},
    )
    app.router.redirect_slashes = False  # such a redirect would leave HTTPS behind a proxy
    app.state.server, app.state.wrong_tokens = server, WrongTokens()
    return app


PAGES = MountedPages(
    paths=(RATE, STUDIES),
    open_paths=(RATE,),
    menu=(MenuEntry(title="Studies", path=STUDIES),),
    app=create_app,
    admits=pages.admits,
)
"""The pages that the site mounts."""


def _routes() -> Iterator[Route]:
    for prefix in (RATE, STUDIES):
        yield Route(f"{prefix}/static/{{name}}", _static, methods=["GET"])
    yield Route(f"{RATE}/{{study}}/login", _sign_in_page, methods=["GET"])
    yield Route(f"{RATE}/{{study}}/login", _sign_in, methods=["POST"])
    yield Route(f"{RATE}/{{study}}/device", _guarded(_device), methods=["GET", "POST"])
    yield Route(f"{RATE}/{{study}}/logout", _guarded(_sign_out), methods=["GET", "POST"])
    yield Route(f"{STUDIES}/{{study}}/logout", _guarded(_sign_out), methods=["GET", "POST"])
    for module in HANDLERS:
        for name, path, methods, handler in import_module(f"{PACKAGE}.{module}").ROUTES:
            yield Route(path, _guarded(handler), methods=methods, name=name)


def _guarded(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """Return the endpoint that calls a function for people with access to the page, and turns others away."""

    async def endpoint(request: Request) -> Response:
        person = await run_in_threadpool(pages.person_of, request)
        if person is None:
            return _stranger(request)
        if person.role is Role.READER and request.method == "POST" and not request.url.path.endswith("/logout"):
            raise HTTPException(403, "You can read this study, and change nothing in it.")
        answer = handler(request) if iscoroutinefunction(handler) else run_in_threadpool(handler, request)
        response: Response = await answer
        return response

    return endpoint


def _stranger(request: Request) -> Response:
    """Return the answer to a request without access: the page for signing in, or an error for scripts."""
    if pages.wants_json(request):
        return JSONResponse({"error": "You are signed out. Open a new link, then save again."}, 401)
    if not pages.is_raters(request):
        text = "Open your link for this study again, or sign in to the site."
        return pages.error_response(request, "Sign in", text, 401)
    return _sign_in_answer(request, 401, _unknown_user(request))


def _unknown_user(request: Request) -> str:
    user = mounted_pages.visitor_of(request).user
    if not user:
        return ""
    return (
        f"You are signed in as {user}, and no rater of this study has this user name. Use your link, or tell the "
        "person who runs the study."
    )


# --- signing in and out -----------------------------------------------------------------------------------------------


def _sign_in_answer(request: Request, status: int, message: str = "") -> Response:
    title = "Sign in to rate"
    action = f"{RATE}/{pages.study_name(request)}/login"
    return render(request, "rate_login.html", title, {"message": message, "action": action}, status)


async def _sign_in_page(request: Request) -> Response:
    return _sign_in_answer(request, 200, _unknown_user(request))


async def _sign_in(request: Request) -> Response:
    """Exchange a token for a session, and go to the study."""
    fields, client = await mounted_pages.read_form(request, MOST_TOKEN_BYTES), mounted_pages.client_of(request)
    token = next(iter(fields.get("token", ())), "")
    wrong: WrongTokens = request.app.state.wrong_tokens
    try:
        if access.is_code(token) and wrong.must_wait(client):
            raise LinkRefusedError("")
        return await run_in_threadpool(_open_session, request, token)
    except LinkRefusedError as error:
        wrong.count(client)
        if not wrong.must_wait(client):
            return _sign_in_answer(request, 403, str(error))
        response = _sign_in_answer(request, 429, "Too many wrong links or codes. Wait a minute, then try again.")
        response.headers["retry-after"] = str(math.ceil(mounted_pages.FAILURE_WINDOW_S))
        return response


def _open_session(request: Request, token: str) -> Response:
    server, name = pages.server_of(request), pages.study_name(request)
    try:
        store = pages.store_of(request)
    except PageNotFound:  # a study that the site does not have is answered like a wrong link
        raise LinkRefusedError(access.WRONG) from None
    opened = access.sign_in(store, name, token, pages.cookie_of(server, request))
    path = f"{RATE if opened.person.role is Role.RATER else STUDIES}/{name}"
    response = RedirectResponse(path, 303)
    if opened.cookie:
        response.set_cookie(
            pages.cookie_name(server),
            opened.cookie,
            max_age=opened.seconds,
            path=path,
            secure=server.https,
            httponly=True,
            samesite="strict",
        )
    return response


async def _sign_out(request: Request) -> Response:
    """Ask whether to sign out; end the session once that was confirmed."""
    server, name = pages.server_of(request), pages.study_name(request)
    cookie, path = pages.cookie_of(server, request), f"{RATE if pages.is_raters(request) else STUDIES}/{name}"
    form = await mounted_pages.read_form(request, MOST_TOKEN_BYTES)
    is_done = bool(cookie and form.get("confirmed"))
    values = {"is_user": cookie is None, "is_done": is_done, "back": path, "action": request.url.path}
    response = render(request, "access_sign_out.html", "Signed out" if is_done else "Sign out", values)
    if is_done:
        await run_in_threadpool(access.sign_out, pages.store_of(request), name, cookie)
        named = pages.cookie_name(server)
        response.delete_cookie(named, path=path, secure=server.https, httponly=True, samesite="strict")
    return response


def _device(request: Request) -> Response:
    """Offer, or make, a link for another device of the rater."""
    person = pages.person_of(request)
    assert person is not None, "the page is guarded"
    cookie, link, address = pages.cookie_of(pages.server_of(request), request), None, ""
    message = "" if cookie else "You use the hospital's single sign-on: you can also sign in to it on the other device."
    if request.method == "POST":
        link = access.device_link(pages.store_of(request), person, cookie)
        address = pages.address_of_link(request, link)
    values = {
        "base": f"{RATE}/{person.study}",
        "study_title": pages.study_of(request).title,
        "message": message,
        "link": address,
        "address": address.partition("#")[0],
        "code": link.code if link else "",
        "minutes": access.DEVICE_S // 60,
    }
    return render(request, "rate_device.html", "Use another device", values)


# --- static files and errors ------------------------------------------------------------------------------------------


async def _static(request: Request) -> Response:
    """Send a style sheet or script."""
    found = mounted_pages.static_file(PACKAGE, request.path_params["name"])
    if found is None:
        raise HTTPException(404)
    content, media_type = found
    return Response(content, media_type=media_type, headers={"cache-control": "private, max-age=3600"})


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    title = "Page not found" if error.status_code == 404 else "The request failed"
    text = error.detail
    if text == HTTPStatus(error.status_code).phrase:
        text = "No page of this site has this address." if error.status_code == 404 else f"{text}."
    response = pages.error_response(request, title, text, error.status_code)
    response.headers.update(error.headers or {})
    return response


async def _form_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, BadFormError)
    return pages.error_response(request, "The form cannot be read", str(error), error.status)


async def _error(request: Request, error: Exception) -> Response:
    """Answer with an error of the user or of the store."""
    statuses = ((PageNotFound, 404), (BadParameter, 400), (UserError, 400), (StoreError, 503))
    status = next((status for kind, status in statuses if isinstance(error, kind)), 500)
    titles = {400: "Nothing was changed", 404: "Page not found", 503: "The store cannot be read or written"}
    text = str(error)
    if pages.is_raters(request) and (status >= 500 or isinstance(error, (ConfigError, DataError))):
        click.echo(f"{request.url.path}: {error}", err=True)  # paths in it can name the model
        text = (
            "Nothing that was saved is lost. Tell the person who runs the study: the server's terminal shows the error."
        )
    return pages.error_response(request, titles.get(status, "Something went wrong"), text, status)


async def _failure(request: Request, _: Exception) -> Response:
    message = "The server could not answer. Its terminal shows the error. Nothing that was saved is lost."
    return pages.error_response(request, "Something went wrong", message, 500)
