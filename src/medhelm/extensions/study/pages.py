"""Shared by all pages of studies: templates, forms, stores, and the person who sent a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from time import monotonic
from typing import Any

from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from medhelm.errors import MedHelmError, UserError
from medhelm.extensions.study.access import NewLink, Person, Role, is_blocked, person_with
from medhelm.extensions.study.journal import PLAN, EventKind, note, read_study, study_folder
from medhelm.extensions.study.types import Study
from medhelm.io.http.mounted_pages import SiteServer, read_form, visitor_of
from medhelm.io.http.pages import PageNotFound
from medhelm.results.formats.markdown import page_templates
from medhelm.storage.store import Store, open_store

PACKAGE = "medhelm.extensions.study"
"""This package, which holds templates and static files."""

RATE, STUDIES = "/rate", "/studies"
"""First parts of the paths of raters' and of owners' pages."""

MOST_FORM_BYTES, MOST_FORM_FIELDS = 1_000_000, 3_000
"""Most bytes and fields of a form: a rating with comments and marks, or the plan of a study."""

TITLE = "Rating"
"""Title of raters' pages that name no study."""

OWNER = "owner"
"""Id of the person with the session of the site."""

SIGNED_IN_AGAIN_S = 12 * 3600.0
"""Seconds without a request after which the next one of a user of the hospital's single sign-on is noted."""

_PERSON = "medhelm.person"


# --- pages ------------------------------------------------------------------------------------------------------------


def render(
    request: Request, template: str, title: str, values: Mapping[str, object], status: int = 200
) -> HTMLResponse:
    """Return a page. Raters' pages learn nothing of the site around them.

    Templates know `title`, `version`, `study_name` and `sign_out`, the address for the form that signs out. Pages of
    owners know `menu`, the titles and paths of the site for those who have its session, and `store_name` too.
    """
    name = study_name(request)
    known: dict[str, Any] = {"title": title, "study_name": name, "sign_out": f"{RATE}/{name}/logout"}
    if not is_raters(request):
        is_owner = visitor_of(request).is_owner
        known["menu"] = [(entry.title, entry.path) for entry in server_of(request).menu] if is_owner else []
        known["sign_out"] = "/logout" if is_owner else f"{STUDIES}/{name}/logout"
        known["store_name"] = _store_name(request, name)
    return HTMLResponse(page_templates(PACKAGE).get_template(template).render({**known, **values}), status)


def _store_name(request: Request, name: str) -> str:
    """Return the name of the store with a study, also on the page that says that the store cannot be read."""
    stores, found = server_of(request).stores, None
    with suppress(MedHelmError):
        found = _store_with(stores, name)
    return (found.folder if found else stores[0]).name


def wants_json(request: Request) -> bool:
    """Return True for a request of a script, which reads JSON."""
    return "application/json" in request.headers.get("accept", "")


def error_response(request: Request, title: str, message: str, status: int) -> Response:
    """Return an error: JSON for scripts, else a page."""
    if wants_json(request):
        return JSONResponse({"error": message}, status)
    if not is_raters(request):
        back = request.url.path.rpartition("/")[0] or STUDIES
        return render(request, "study_error.html", title, {"message": message, "back": back}, status)
    base = f"{RATE}/{study_name(request)}"
    values = {"message": message, "base": base, "study_title": TITLE, "following": None}
    return render(request, "rate_message.html", title, values, status)


# --- requests ---------------------------------------------------------------------------------------------------------


def server_of(request: HTTPConnection) -> SiteServer:
    """Return the server that a request came to."""
    found: SiteServer = request.app.state.server
    return found


def is_raters(request: HTTPConnection) -> bool:
    """Return True for a request of a page of raters, or of the pages for signing in."""
    return request.url.path.startswith(f"{RATE}/")


def study_name(request: HTTPConnection) -> str:
    """Return the name of the study in the path; empty if there is none."""
    parts = request.url.path.split("/")
    return parts[2] if len(parts) > 2 and parts[2] not in ("new", "static") else ""


def store_of(request: HTTPConnection) -> Store:
    """Return the store that holds the study in the path; the first store on pages without a study.

    Raises: PageNotFound if no store holds it.
    """
    folders, name = server_of(request).stores, study_name(request)
    found = _store_with(folders, name) if name else _opened(folders[0])
    if found is None:
        raise PageNotFound(f"This site has no study `{name[:80]}`.")
    return found


def study_of(request: HTTPConnection) -> Study:
    """Return the study in the path. Raises: PageNotFound."""
    return read_study(store_of(request), study_name(request))


def address_of_link(request: HTTPConnection, link: NewLink) -> str:
    """Return the whole address of a new link, on the host by which this browser reaches the site."""
    scheme = "https" if server_of(request).https else "http"
    return f"{scheme}://{request.headers.get('host', '')}{link.path}"


def stores_of(request: HTTPConnection) -> list[Store]:
    """Return all stores of the site, the first one for new studies."""
    return [_opened(folder) for folder in server_of(request).stores]


async def form_of(request: Request) -> dict[str, list[str]]:
    """Return the fields of a form that was sent, each with its values. Raises: BadFormError."""
    return await read_form(request, MOST_FORM_BYTES, MOST_FORM_FIELDS)


def _store_with(folders: Sequence[Path], name: str) -> Store | None:
    """Return the first store with a study; None if no store has it."""
    for folder in folders:
        store = _opened(folder)
        try:
            if name and (study_folder(store, name) / PLAN).is_file():
                return store
        except UserError:  # the name of no study
            return None
    return None


@lru_cache(maxsize=32)
def _opened(folder: Path) -> Store:
    return open_store(folder)


# --- people -----------------------------------------------------------------------------------------------------------


def cookie_name(server: SiteServer) -> str:
    """Return the name of the cookies of studies; the path of each is that of its study."""
    return f"{'__Secure-' if server.https else ''}medhelm-study{server.cookie_suffix}"


def cookie_of(server: SiteServer, request: HTTPConnection) -> str | None:
    """Return the cookie of a study that a request has."""
    return request.cookies.get(cookie_name(server))


def person_of(request: HTTPConnection) -> Person | None:
    """Return who sent a request, if that person has access to the page; None for a stranger.

    On owners' pages, the session of the site counts, and a link as owner or reader. On raters' pages, the user of the
    hospital's single sign-on counts, and a link as a rater; never the session of the site.
    """
    if _PERSON not in request.scope:
        request.scope[_PERSON] = _person_of(server_of(request), request)
    found: Person | None = request.scope[_PERSON]
    return found


def _person_of(server: SiteServer, request: HTTPConnection) -> Person | None:
    name, is_for_raters, visitor = study_name(request), is_raters(request), visitor_of(request)
    if not is_for_raters and visitor.is_owner:
        return Person(study=name, id=OWNER, role=Role.OWNER)
    store = _store_with(server.stores, name)
    if store is None:
        return None
    if is_for_raters and visitor.user and (found := _rater_of(store, name, visitor.user)):
        return found
    person = person_with(store, name, cookie_of(server, request))
    return person if person and (person.role is Role.RATER) == is_for_raters else None


def _rater_of(store: Store, name: str, user: str) -> Person | None:
    """Return the rater with a name at the hospital's single sign-on, and note the sign-in."""
    raters = [rater for rater in read_study(store, name).raters if rater.user.casefold() == user.casefold()]
    if len(raters) != 1 or is_blocked(store, name, raters[0].id):
        return None
    rater, key = raters[0].id, (store.folder, name, raters[0].id)
    if monotonic() - _last_seen.get(key, float("-inf")) > SIGNED_IN_AGAIN_S:
        note(store, name, EventKind.SIGNED_IN, rater, rater=rater, text="single sign-on")
    _last_seen[key] = monotonic()
    return Person(study=name, id=rater, role=Role.RATER)


_last_seen: dict[tuple[Path, str, str], float] = {}
"""Store, study and rater -> time of the last request through the hospital's single sign-on."""


def admits(server: SiteServer, request: HTTPConnection) -> bool:
    """Return True for a request of an owner's page by someone with a link as owner or reader, and for static files."""
    if request.url.path.startswith(f"{STUDIES}/static/"):
        return True
    try:
        return _person_of(server, request) is not None
    except MedHelmError:  # such as a damaged file: only the session of the site is left
        return False
