"""Pages for owners and readers of studies: the list, one study, its raters, differences, and its close.

An owner has the session of the site, or a link of one study with the role of an owner. A reader sees the progress of one
study, and its results after the close. Every form that changes a study carries the revision that its page showed, so
that of two owners at once the second one is told what the first one did.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from medhelm.domain.text import listed, plural
from medhelm.errors import StoreError, UserError
from medhelm.extensions.study.access import (
    LINK_DAYS,
    MOST_DAYS,
    NewLink,
    Person,
    Role,
    links_of,
    new_link,
    revoke,
    state_of_link,
)
from medhelm.extensions.study.files import DECISIONS, Event, events, read_study, studies
from medhelm.extensions.study.identification import Finding, identification_findings
from medhelm.extensions.study.instruments import HARM
from medhelm.extensions.study.journal import criteria_of_case, ratings_of
from medhelm.extensions.study.owner_views import (
    Names,
    agreement_view,
    criterion_title,
    difference_row,
    finding_rows,
    layout_of,
    list_row,
    live_values,
    missing_ratings,
    notices,
    plan_facts,
    rater_row,
    tally,
)
from medhelm.extensions.study.pages import (
    STUDIES,
    address_of_link,
    form_of,
    person_of,
    render,
    store_of,
    stores_of,
    study_of,
)
from medhelm.extensions.study.progress import Disagreement, StudyProgress, StudyState, progress
from medhelm.extensions.study.texts import CaseGoneError, case_texts
from medhelm.extensions.study.types import Assignment, CaseKind, Study
from medhelm.io.http.mounted_pages import visitor_of
from medhelm.io.http.pages import PageNotFound
from medhelm.results.formats.tables import MISSING
from medhelm.storage.store import Store

SAVED = {
    "started": "The study is saved. Make a link for each rater: open the rater below.",
    "sent": "The case was sent to adjudication.",
    "withdrawn": "The rater was withdrawn. Links and sessions ended.",
    "reassigned": "The open cases were given to the other raters.",
    "revoked": "Links and sessions of this person ended.",
    "closed": "The study is closed, and its ratings are frozen.",
}
"""What a page says after something was done: value of the parameter `done` -> sentence."""


@dataclass(frozen=True, kw_only=True)
class Visit:
    """A request for a page of one study, by an owner or a reader."""

    request: Request
    """The request."""
    person: Person
    """Who sent it."""
    store: Store
    """Store of the study."""
    study: Study
    """The study."""
    happened: Sequence[Event]
    """Its events."""
    form: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Fields of the form that was sent."""

    @property
    def is_owner(self) -> bool:
        """True for an owner."""
        return self.person.role is Role.OWNER

    @property
    def by(self) -> str:
        """Who does something, for the events of the study."""
        return visitor_of(self.request).user or self.person.id

    @property
    def address(self) -> str:
        """Path of the study."""
        return f"{STUDIES}/{quote(self.study.name)}"

    @property
    def names(self) -> Names:
        """Names of people and cases, as this person sees them."""
        return Names(study=self.study, is_owner=self.is_owner)

    @property
    def revision(self) -> int:
        """Number of decisions so far."""
        return sum(one.kind in DECISIONS for one in self.happened)

    def text(self, name: str) -> str:
        """Return a field of the form, without spaces at its ends; empty if it is missing."""
        return (self.form.get(name) or [""])[-1].strip()

    def page(self, template: str, title: str, values: Mapping[str, object], status: int = 200) -> Response:
        """Return a page of the study."""
        known = {
            "address": self.address,
            "study_address": self.address,
            "study_title": self.study.title,
            "revision": self.revision,
            "is_owner": self.is_owner,
            "problems": [],
            "done": SAVED.get(self.request.query_params.get("done", ""), ""),
        }
        return render(self.request, template, title, {**known, **values}, status)


Handler = Callable[[Request], Awaitable[Response]]


def _handler(answer: Callable[[Visit], Response]) -> Handler:
    """Return the endpoint of a page of one study."""

    async def endpoint(request: Request) -> Response:
        form = await form_of(request) if request.method == "POST" else {}
        return await run_in_threadpool(lambda: answer(_visit(request, form)))

    return endpoint


def _visit(request: Request, form: Mapping[str, Sequence[str]]) -> Visit:
    person, study, store = person_of(request), study_of(request), store_of(request)
    if person is None:
        raise HTTPException(401)
    happened = events(store, study.name)
    return Visit(request=request, person=person, store=store, study=study, happened=happened, form=form)


def _owners(answer: Callable[[Visit], Response]) -> Handler:
    """Return the endpoint of a page that owners alone may see."""

    def checked(visit: Visit) -> Response:
        if not visit.is_owner:
            raise HTTPException(403, "Only owners of the study may open this page.")
        return answer(visit)

    return _handler(checked)


def _changing(change: Callable[[Visit], Response]) -> Handler:
    """Return the endpoint of a form by which an owner changes a study; refuses forms of an older revision."""

    def checked(visit: Visit) -> Response:
        shown = visit.text("revision")
        if not (shown.isascii() and shown.isdigit()):
            raise UserError("The form is not complete. Load the page again. Nothing was changed.")
        decisions = [one for one in visit.happened if one.kind in DECISIONS]
        if int(shown) != len(decisions):
            return _conflict(visit, decisions[int(shown) :])
        return change(visit)

    return _owners(checked)


def _conflict(visit: Visit, later: Sequence[Event]) -> Response:
    """Return the page that tells an owner what another one did in the meantime."""
    values = {"events": [visit.names.event(one) for one in later], "back": visit.address}
    return visit.page("study_conflict.html", "The study has changed", values, 409)


def _done(address: str, what: str) -> Response:
    return RedirectResponse(f"{address}?done={what}", 303)


# --- list and study ---------------------------------------------------------------------------------------------------


def list_page(request: Request) -> Response:
    """Return the list of all studies of the site."""
    rows, problems = [], []
    for store in stores_of(request):
        for name in studies(store):
            try:
                study = read_study(store, name)
                rows.append(list_row(study, progress(store, study), events(store, name)))
            except StoreError as error:
                problems.append(str(error))
    rows.sort(key=lambda row: (row["is_open"], row["created"]), reverse=True)
    values = {"rows": rows, "problems": problems, "is_owner": True, "is_list": True}
    return render(request, "studies.html", "Studies", values)


def study_page(visit: Visit) -> Response:
    """Return the page of a study: progress, agreement, differences, and results after the close."""
    found, names, study = progress(visit.store, visit.study), visit.names, visit.study
    access = _access_texts(visit) if visit.is_owner else {}
    raters = [rater_row(one, study.rater(one.rater), names) for one in found.raters]
    for row in raters:
        row["address"] = f"{visit.address}/raters/{row['id']}"
        row["access"] = access.get(str(row["id"]), "No link yet")
    differences = [difference_row(one, study, names) for one in found.disagreements]
    for one in differences:
        one["address"] = f"{visit.address}/adjudication/{one['item']}"
    is_closed = found.state is StudyState.CLOSED
    values = {
        "state": found.state,
        "purpose": study.purpose,
        "layout": layout_of(found, len(visit.happened)),
        "tally": tally(found),
        "raters": raters,
        "agreement": agreement_view(found, study),
        "differences": differences,
        "differences_sentence": _differences_sentence(found),
        "flagged": finding_rows(_findings(visit), names, with_model=is_closed) if visit.is_owner else [],
        "plan": plan_facts(study, is_owner=visit.is_owner),
        "deviations": found.deviations,
        "events": [names.event(one) for one in reversed(visit.happened)] if visit.is_owner else [],
        "people": _people(visit) if visit.is_owner else [],
        "results": None,
    }
    return visit.page("study.html", study.title, values)


def progress_json(visit: Visit) -> Response:
    """Return the numbers of a study's page, for the script that renews them."""
    found = progress(visit.store, visit.study)
    values = {"layout": layout_of(found, len(visit.happened)), "values": live_values(found, visit.study)}
    return JSONResponse(values)


def _differences_sentence(found: StudyProgress) -> str:
    n_several = sum(one.n_complete > 1 for one in found.cases)
    return (
        f"Of {plural(n_several, 'case')} that several raters rated, raters differ by more than a point on "
        f"{len(found.disagreements)}."
    )


def _findings(visit: Visit) -> list[Finding]:
    """Return the flagged passages of a study; they are computed once, because they read all its texts."""
    key = (str(visit.store.folder), visit.study.name, visit.study.created)
    if key not in _known_findings:
        _known_findings[key] = identification_findings(visit.store, visit.study)
    return _known_findings[key]


_known_findings: dict[tuple[str, str, str], list[Finding]] = {}


# --- raters and their links -------------------------------------------------------------------------------------------


def _access_texts(visit: Visit) -> dict[str, str]:
    """Return person -> the state of the latest link."""
    found: dict[str, str] = {}
    for link in links_of(visit.store, visit.study.name):
        found.setdefault(link.person, f"Link {state_of_link(link)}")
    users = {rater.id: rater.user for rater in visit.study.raters if rater.user}
    return {**{rater: f"Single sign-on as {user}" for rater, user in users.items()}, **found}


def _people(visit: Visit) -> list[dict[str, str]]:
    """Return the people besides raters who have a link: further owners, and readers."""
    found: dict[str, dict[str, str]] = {}
    for link in links_of(visit.store, visit.study.name):
        if link.role is not Role.RATER:
            found.setdefault(link.person, {"id": link.person, "role": link.role, "access": state_of_link(link)})
    return list(found.values())


def _rater_id(visit: Visit) -> str:
    """Return the rater in the path. Raises: PageNotFound."""
    wanted = str(visit.request.path_params["rater"])
    if wanted not in {rater.id for rater in visit.study.raters}:
        raise PageNotFound(f"The study has no rater `{wanted[:40]}`.")
    return wanted


def rater_page(visit: Visit) -> Response:
    """Return the page of one rater: links, files, and withdrawal."""
    return _rater_page(visit, _rater_id(visit))


def _rater_page(visit: Visit, rater_id: str, problems: Sequence[str] = (), status: int = 200) -> Response:
    found = progress(visit.store, visit.study)
    own = next(one for one in found.raters if one.rater == rater_id)
    rater = visit.study.rater(rater_id)
    links = [one for one in links_of(visit.store, visit.study.name) if one.person == rater_id]
    user = f"single sign-on user {rater.user}" if rater.user else ""
    values = {
        "address": f"{visit.address}/raters/{rater_id}",
        "facts": ", ".join(filter(None, [rater_id, rater.role, user])),
        "rater_title": visit.names.rater(rater_id),
        "problems": problems,
        "problems_heading": "Nothing was recorded." if problems else "",
        "n_complete": own.n_complete,
        "n_cases": own.n_cases,
        "notices": list(notices(own)),
        "is_open": found.state is not StudyState.CLOSED and not own.has_left,
        "links": [state_of_link(one) for one in links],
        "days": LINK_DAYS,
        "most_days": MOST_DAYS,
        "formats": [],
        "n_open_cases": len(found.unassigned) if own.has_left and found.state is not StudyState.CLOSED else 0,
    }
    return visit.page("study_rater.html", visit.names.rater(rater_id), values, status)


def make_link(visit: Visit) -> Response:
    """Make a link for a rater, and show it once."""
    return _show_link(visit, _rater_id(visit), Role.RATER, f"{visit.address}/raters/{_rater_id(visit)}")


def revoke_access(visit: Visit) -> Response:
    """End the access of a rater."""
    revoke(visit.store, visit.study.name, _rater_id(visit), by=visit.by)
    return _done(f"{visit.address}/raters/{_rater_id(visit)}", "revoked")


def change_person(visit: Visit) -> Response:
    """Make a link for another owner or a reader, or end that person's access."""
    person = visit.text("person").lower()
    if visit.text("action") == "revoke":
        revoke(visit.store, visit.study.name, person, by=visit.by)
        return _done(visit.address, "revoked")
    role = Role.OWNER if visit.text("role") == Role.OWNER else Role.READER
    return _show_link(visit, person, role, visit.address)


def _show_link(visit: Visit, person: str, role: Role, back: str) -> Response:
    days = visit.text("days")
    if not (days.isascii() and days.isdigit()):
        raise UserError(f"The days must be a whole number from 1 to {MOST_DAYS}. No link was made.")
    link = new_link(visit.store, visit.study.name, person, role, days=int(days), by=visit.by)
    address, name = address_of_link(visit.request, link), visit.names.rater(person)
    values = {
        "address": back,
        "rater_title": name,
        "is_rater": role is Role.RATER,
        "expires": f"{days} days from now",
        "link": address,
        "mail": _mail(visit.study, link, address),
    }
    return visit.page("study_link.html", f"Link for {name}", values)


def _mail(study: Study, link: NewLink, address: str) -> str:
    """Return the address of a draft of a mail with a link; it has no receiver."""
    asked = "rate texts for" if link.role is Role.RATER else "follow"
    lines = [
        f"You are invited to {asked} the study “{study.title}”.",
        "",
        f"Open this link in the browser that you will use: {address}",
        "",
        "It works once, and is for you alone: please do not pass it on. You can stop at any time; everything is saved.",
    ]
    return f"mailto:?subject={quote(f'Your link for {study.title}')}&body={quote(chr(10).join(lines))}"
