"""Pages for owners and readers of studies: the list, one study, its raters, differences, and its close.

An owner has the session of the site, or a link of one study with the role of an owner. A reader sees the progress of
one study, and its results after the close. Every form that changes a study carries the revision that its page showed,
so that of two owners at once the second one sees what the first one did.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from email import message_from_bytes
from email.policy import HTTP
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from medhelm.domain.text import listed
from medhelm.errors import StoreError, UserError
from medhelm.extensions.study import access
from medhelm.extensions.study.access import NewLink, Person, Role
from medhelm.extensions.study.formats.exchange import export_files, import_files
from medhelm.extensions.study.journal import DECISIONS, Event, EventKind, case_key, events, note, read_study, studies
from medhelm.extensions.study.outcome import (
    close_study,
    final_deviations,
    outcome_of,
    reassign,
    send_to_adjudication,
    withdraw,
)
from medhelm.extensions.study.owner import plan, views
from medhelm.extensions.study.owner.views import Names
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
from medhelm.extensions.study.plans.identification import Finding, identification_findings
from medhelm.extensions.study.progress import Disagreement, StudyState, progress, rated_cases, revision_of
from medhelm.extensions.study.texts import CaseGoneError, case_texts, titles_of
from medhelm.extensions.study.types import Assignment, CaseKind, CaseRating, Study
from medhelm.extensions.study.views import criterion_title, differences_sentence
from medhelm.io.http.mounted_pages import BadFormError, visitor_of
from medhelm.io.http.pages import PageNotFound
from medhelm.results.agreement import agreement, verdict
from medhelm.results.formats.studies import study_facts
from medhelm.results.formats.tables import MISSING, with_minus
from medhelm.storage.ratings import stored_ratings
from medhelm.storage.store import Store

SAVED = {
    "started": "The study is saved. Make a link for each rater: open the rater below.",
    "sent": "The case was sent to adjudication.",
    "withdrawn": "The rater was withdrawn. Links and sessions ended.",
    "reassigned": "The open cases were given to the other raters.",
    "revoked": "Links and sessions of this person ended.",
    "closed": "The study is closed, and its ratings are frozen.",
}
"""Value of the parameter `done` -> the sentence on a page after something was done."""


@dataclass(frozen=True, kw_only=True)
class Visit:
    """A request for a page of one study, by an owner or a reader."""

    request: Request
    """The request."""
    person: Person
    """The person who sent it."""
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
        """Name of the person for the events of the study."""
        return visitor_of(self.request).user or self.person.id

    @property
    def address(self) -> str:
        """Path of the study."""
        return f"{STUDIES}/{quote(self.study.name)}"

    @property
    def names(self) -> Names:
        """Names of people and cases, as this person sees them."""
        return Names(study=self.study, is_owner=self.is_owner, titles=titles_of(self.store, self.study))

    @property
    def revision(self) -> int:
        """Number of decisions so far."""
        return revision_of(self.happened)

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


Handler = Callable[[Request], Any]


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
    """Return the page that shows an owner what another one did in the meantime."""
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
                rows.append(_list_row(store, study))
            except StoreError as error:
                problems.append(str(error))
    rows.sort(key=lambda row: (row["is_open"], row["created"]), reverse=True)
    values = {"rows": rows, "problems": problems, "is_owner": True, "is_list": True}
    return render(request, "studies.html", "Studies", values)


def _list_row(store: Store, study: Study) -> dict[str, Any]:
    names = Names(study=study, is_owner=True, titles=titles_of(store, study))
    return views.list_row(progress(store, study), events(store, study.name), names)


def study_page(visit: Visit) -> Response:
    """Return the page of a study: progress, agreement, differences, and results after the close."""
    found, names, study = progress(visit.store, visit.study), visit.names, visit.study
    links = _access_texts(visit) if visit.is_owner else {}
    raters = [views.rater_row(one, names) for one in found.raters]
    for row in raters:
        row["address"] = f"{visit.address}/raters/{row['id']}"
        row["access"] = links.get(str(row["id"]), "No link yet")
    differences = [views.difference_row(one, names, visit.happened) for one in found.disagreements]
    for one in differences:
        one["address"] = f"{visit.address}/adjudication/{one['path']}"
    is_closed = found.state is StudyState.CLOSED
    values = {
        "state": found.state,
        "purpose": study.purpose,
        "tally": views.tally(found),
        "raters": raters,
        "agreement": views.agreement_view(found),
        "differences": differences,
        "differences_sentence": differences_sentence(found),
        "flagged": views.finding_rows(_findings(visit), names, with_model=is_closed) if visit.is_owner else [],
        "plan": views.plan_facts(names),
        "deviations": final_deviations(visit.store, study, visit.happened) if is_closed else found.deviations,
        "events": [names.event(one) for one in reversed(visit.happened)] if visit.is_owner else [],
        "people": _people(visit) if visit.is_owner else [],
        "results": _results(visit) if is_closed else None,
    }
    return visit.page("study.html", study.title, values)


def _results(visit: Visit) -> dict[str, Any]:
    """Return the results of a closed study, with the jury and the card of its frozen ratings."""
    found = outcome_of(visit.store, visit.study)
    view = views.results_view(found, visit.names)
    cards = {one.card.name: one.card for one in stored_ratings(visit.store) if one.card.name in found.ratings}
    facts = [fact for card in cards.values() for fact in study_facts(card, visit.names.titles)]
    return {**view, "card": [*facts, *view["facts"]], "jury": _jury(visit, found.ratings)}


def _jury(visit: Visit, names: Sequence[str]) -> list[str]:
    """Return what the frozen ratings say of the jury."""
    if not names:
        return ["Preferences are not compared with the grades of judges."]
    key = (str(visit.store.folder), visit.study.name, visit.study.created)
    if key not in _known_verdicts:
        definitions = list(plan.known_definitions(visit.request, visit.store).values())
        try:
            _known_verdicts[key] = [
                sentence
                for name in names
                if (found := agreement(name, visit.store.folder, definitions))
                for sentence in verdict(found)
            ]
        except UserError as error:
            return [str(error)]
    return _known_verdicts[key]


_known_verdicts: dict[tuple[str, str, str], list[str]] = {}
"""Study -> what its ratings say of the jury: it takes seconds, and does not change after the close."""


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
    for link in access.links_of(visit.store, visit.study.name):
        found.setdefault(link.person, f"Link {access.state_of_link(link)}")
    users = {rater.id: rater.user for rater in visit.study.raters if rater.user}
    return {**{rater: f"Single sign-on as {user}" for rater, user in users.items()}, **found}


def _people(visit: Visit) -> list[dict[str, str]]:
    """Return the people besides raters who have a link: further owners, and readers."""
    found: dict[str, dict[str, str]] = {}
    for link in access.links_of(visit.store, visit.study.name):
        if link.role is not Role.RATER:
            found.setdefault(link.person, {"id": link.person, "role": link.role, "access": access.state_of_link(link)})
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


def _rater_page(
    visit: Visit, rater_id: str, problems: Sequence[str] = (), status: int = 200, *, done: str = ""
) -> Response:
    found = progress(visit.store, visit.study)
    own = next(one for one in found.raters if one.rater == rater_id)
    rater = visit.study.rater(rater_id)
    links = [one for one in access.links_of(visit.store, visit.study.name) if one.person == rater_id]
    user = f"single sign-on user {rater.user}" if rater.user else ""
    values = {
        "address": f"{visit.address}/raters/{rater_id}",
        "facts": ", ".join(filter(None, [rater_id, rater.role, user])),
        "rater_title": visit.names.rater(rater_id),
        "problems": problems,
        "problems_heading": "Nothing was recorded." if problems else "",
        "n_complete": own.n_complete,
        "n_cases": own.n_cases,
        "notices": list(views.notices(own)),
        "is_open": found.state is not StudyState.CLOSED and not own.has_left,
        "links": [access.state_of_link(one) for one in links],
        "days": access.LINK_DAYS,
        "most_days": access.MOST_DAYS,
        "formats": list(FORMAT_TITLES.items()),
        **({"done": done} if done else {}),
        "n_open_cases": len(found.unassigned) if own.has_left and found.state is not StudyState.CLOSED else 0,
    }
    return visit.page("study_rater.html", visit.names.rater(rater_id), values, status)


def make_link(visit: Visit) -> Response:
    """Make a link for a rater, and show it once."""
    return _show_link(visit, _rater_id(visit), Role.RATER, f"{visit.address}/raters/{_rater_id(visit)}")


def revoke_access(visit: Visit) -> Response:
    """End the access of a rater."""
    access.revoke(visit.store, visit.study.name, _rater_id(visit), by=visit.by)
    return _done(f"{visit.address}/raters/{_rater_id(visit)}", "revoked")


def change_person(visit: Visit) -> Response:
    """Make a link for another owner or a reader, or end that person's access."""
    person = visit.text("person").lower()
    if visit.text("action") == "revoke":
        access.revoke(visit.store, visit.study.name, person, by=visit.by)
        return _done(visit.address, "revoked")
    role = Role.OWNER if visit.text("role") == Role.OWNER else Role.READER
    return _show_link(visit, person, role, visit.address)


def _show_link(visit: Visit, person: str, role: Role, back: str) -> Response:
    days = visit.text("days")
    if not (days.isascii() and days.isdigit()):
        raise UserError(f"The days must be a whole number from 1 to {access.MOST_DAYS}. No link was made.")
    link = access.new_link(visit.store, visit.study.name, person, role, days=int(days), by=visit.by)
    address, name = address_of_link(visit.request, link), visit.names.rater(person)
    values = {
        "address": back,
        "rater_title": name,
        "is_rater": role is Role.RATER,
        "days": int(days),
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


# --- differences ------------------------------------------------------------------------------------------------------


def _disagreement(visit: Visit, item: str) -> Disagreement:
    """Return the case on which raters differ that has an item. Raises: PageNotFound."""
    for one in progress(visit.store, visit.study).disagreements:
        if item in one.items:
            return one
    raise PageNotFound("Raters do not differ on this case, or the case is not in the study.")


def case_page(visit: Visit) -> Response:
    """Return a case on which raters differ: grades, comments and texts, without the model until the close."""
    found, names, study = _disagreement(visit, str(visit.request.path_params["item"])), visit.names, visit.study
    rated = _ratings_of_case(visit, found.items)
    try:
        texts = case_texts(visit.store, study, Assignment(number=1, kind=CaseKind.SHARED, items=found.items))
    except CaseGoneError:
        texts = None
    asked = list(dict.fromkeys(name for rating in rated.values() for name in [*rating.grades, *rating.not_judged]))
    rows = [
        {
            "title": criterion_title(name),
            "differs": name in found.grades,
            "cells": [_given(rating, name) for rating in rated.values()],
        }
        for name in asked
    ]
    row = views.difference_row(found, names, visit.happened)
    values = {
        **row,
        "raters": list(map(names.rater, rated)),
        "grades": rows,
        "comments": [rating.comment for rating in rated.values()],
        "texts": texts,
        "model": listed([study.item(one).model for one in found.items]) if views.is_final(visit.happened) else "",
    }
    return visit.page("study_case.html", str(row["title"]), values)


def _given(rating: CaseRating, name: str) -> str:
    """Return the grade of a criterion, or why it cannot be judged."""
    grade = rating.grades.get(name)
    return rating.not_judged.get(name, MISSING) if grade is None else with_minus(str(grade))


def _ratings_of_case(visit: Visit, items: Sequence[str]) -> dict[str, CaseRating]:
    """Return rater -> latest rating of a case, without repeats; seen from the side of its first rater."""
    return {
        one.rater: one.given_as(items)
        for one in rated_cases(visit.store, visit.study, visit.happened)
        if one.key == case_key(items) and one.rows and one.assignment.kind is not CaseKind.REPEATED
    }


# --- files ------------------------------------------------------------------------------------------------------------

FORMAT_TITLES = {
    "workbook": "Workbook (.xlsx)",
    "html": "Page to open from disk (.html)",
    "label-studio": "Label Studio (.zip)",
    "redcap": "REDCap (.zip)",
}
"""Format of the files of a rater -> its title on the button."""

MOST_UPLOAD_BYTES = 50_000_000
"""Most bytes of a file that comes back."""

_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9._ -]+")


def download(visit: Visit) -> Response:
    """Send the file of a rater; several files of one format as a ZIP file."""
    rater, kind = _rater_id(visit), str(visit.request.path_params["format"])
    if kind not in FORMAT_TITLES:
        raise PageNotFound(f"The format `{kind[:40]}` is unknown.")
    files = export_files(visit.store, visit.study, rater, kind)
    if not files:
        raise PageNotFound(f"{visit.names.rater(rater)} has no case whose text is in the store.")
    note(visit.store, visit.study.name, EventKind.EXPORTED, visit.by, rater=rater, text=f"{kind}, downloaded")
    ((name, content), *others) = files.items()
    if others:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for own, data in files.items():
                archive.writestr(zipfile.ZipInfo(own), data, zipfile.ZIP_DEFLATED)
        name, content = f"{visit.study.name}-{rater}-{kind}.zip", packed.getvalue()
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(content, media_type="application/octet-stream", headers=headers)


async def upload(request: Request) -> Response:
    """Record the ratings of a file that came back, or list everything that is wrong with it."""
    fields, name, content = await _uploaded(request)
    return await run_in_threadpool(lambda: _read_in(_visit(request, fields), name, content))


def _read_in(visit: Visit, name: str, content: bytes) -> Response:
    if not visit.is_owner:
        raise HTTPException(403, "Only owners of the study may read in files.")
    rater = _rater_id(visit)
    if not content:
        return _rater_page(visit, rater, ["Choose the file that the rater filled in."], 400)
    with TemporaryDirectory(prefix="medhelm-") as folder:
        path = Path(folder) / (_NOT_IN_NAME.sub("_", name)[-100:].lstrip(". ") or "file")
        path.write_bytes(content)
        try:
            (done,) = import_files(visit.store, visit.study, [path], rater=rater, by=visit.by)
        except UserError as error:
            lines = str(error).replace(f"{folder}/", "").splitlines()
            return _rater_page(visit, rater, [line.strip() for line in lines if line.strip()], 400)
    text = " ".join([f"Read {name}: {done.counts()}.", *done.remarks()])
    return _rater_page(_visit(visit.request, visit.form), rater, done=text)


async def _uploaded(request: Request) -> tuple[dict[str, list[str]], str, bytes]:
    """Return fields, name and content of the file of a form with a file (RFC 7578). Raises: BadFormError."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_UPLOAD_BYTES:
            raise BadFormError(f"The file has more than {MOST_UPLOAD_BYTES // 1_000_000} MB.", 413)
    head = f"content-type: {request.headers.get('content-type', '')}\r\n\r\n".encode("latin-1", "replace")
    fields: dict[str, list[str]] = {}
    name, content = "", b""
    for part in message_from_bytes(head + bytes(body), policy=HTTP).iter_parts():
        data = part.get_payload(decode=True)
        data = data if isinstance(data, bytes) else b""
        if (file_name := part.get_filename()) is not None:
            name, content = file_name, data
        elif label := part.get_param("name", header="content-disposition"):
            fields.setdefault(str(label), []).append(data.decode("utf-8", "replace"))
    return fields, name, content


# --- decisions --------------------------------------------------------------------------------------------------------


def send(visit: Visit) -> Response:
    """Send a case on which raters differ to adjudication."""
    send_to_adjudication(visit.store, visit.study, visit.text("item"), visit.by, revision=visit.revision)
    return _done(visit.address, "sent")


def withdraw_rater(visit: Visit) -> Response:
    """Withdraw a rater: the ratings stay, and links and sessions end."""
    rater = _rater_id(visit)
    keeps = visit.text("discard") != "yes"
    reason, revision = visit.text("reason"), visit.revision
    withdraw(visit.store, visit.study, rater, visit.by, reason, keep_ratings=keeps, revision=revision)
    access.revoke(visit.store, visit.study.name, rater, by=visit.by)
    return _done(f"{visit.address}/raters/{rater}", "withdrawn")


def give_to_others(visit: Visit) -> Response:
    """Give the open cases of raters who left to the others."""
    reassign(visit.store, visit.study, visit.by, revision=visit.revision)
    return _done(visit.address, "reassigned")


def close_page(visit: Visit) -> Response:
    """Return what is missing, and ask whether to close the study."""
    found = progress(visit.store, visit.study)
    values = {"missing_cases": views.missing_ratings(found, visit.names), "n_differ": views.open_differences(found)}
    return visit.page("study_close.html", "Close the study?", values)


def close(visit: Visit) -> Response:
    """Close a study, and freeze its ratings."""
    is_incomplete = visit.text("incomplete") == "yes"
    close_study(visit.store, visit.study, visit.by, incomplete=is_incomplete, revision=visit.revision)
    return _done(visit.address, "closed")


_STUDY = f"{STUDIES}/{{study}}"
_RATER = f"{_STUDY}/raters/{{rater}}"

# fmt: off
ROUTES: tuple[tuple[str, str, list[str], Handler], ...] = (
    ("studies", STUDIES, ["GET"], list_page),
    *plan.ROUTES,
    ("study", _STUDY, ["GET"], _handler(study_page)),
    ("study_people", f"{_STUDY}/people", ["POST"], _owners(change_person)),
    ("study_rater", _RATER, ["GET"], _owners(rater_page)),
    ("study_link", f"{_RATER}/link", ["POST"], _owners(make_link)),
    ("study_revoke", f"{_RATER}/revoke", ["POST"], _owners(revoke_access)),
    ("study_file", f"{_RATER}/files/{{format}}", ["GET"], _owners(download)),
    ("study_upload", f"{_RATER}/files", ["POST"], upload),
    ("study_withdraw", f"{_RATER}/withdraw", ["POST"], _changing(withdraw_rater)),
    ("study_reassign", f"{_STUDY}/reassign", ["POST"], _changing(give_to_others)),
    ("study_case", f"{_STUDY}/adjudication/{{item}}", ["GET"], _owners(case_page)),
    ("study_adjudication", f"{_STUDY}/adjudication", ["POST"], _changing(send)),
    ("study_close", f"{_STUDY}/close", ["GET"], _owners(close_page)),
    ("study_closing", f"{_STUDY}/close", ["POST"], _changing(close)),
)
# fmt: on
"""The pages: name, path, methods, and the function that answers a request."""
