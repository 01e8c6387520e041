"""Access to the pages of a study: personal links, sessions, roles, and the hospital's single sign-on.

A personal link carries a token in the fragment of its address, which browsers do not send, so that it stays out of
logs. It is exchanged once for a session: a cookie of one study that scripts cannot read. The file `access.json` of a
study holds the sha256 of tokens and cookies: it opens nothing, and sessions survive a restart of the server.

Clocks can be wrong. The end of a session moves with a clock that was set back, so that the session neither lasts longer
nor ends: what counts is the time since its last use. A session that a wrong clock refuses is kept, and works again once
the clock is right.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from medhelm.errors import StoreError, UserError, suggestion
from medhelm.extensions.study.journal import EventKind, check_rater, is_rater_id, locked, note, read_study, study_folder
from medhelm.io.line_files import read_lines, replace_lines
from medhelm.storage.json_form import JsonForm, Nested, key_map
from medhelm.storage.store import Store

FILE = "access.json"
"""Name of the file in the folder of a study."""

LINK_DAYS, MOST_DAYS = 30, 365
"""Days for which a link and its session are valid unless the owner says otherwise, and the most."""

DEVICE_S = 600
"""Seconds for which a rater's own link for another device can be used."""

NOTED_AFTER_S = 3600
"""Seconds of use after which the time of a session's last use is written again."""

_CODE_LETTERS = "23456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Letters and digits of codes to type: none that look alike."""

_CODE_LENGTH = 10
_CODE = re.compile(f"[{_CODE_LETTERS}]{{{_CODE_LENGTH}}}")
WRONG = "This link or code is not valid. Check that it is complete: the whole link, or all ten characters."
"""Message for a token that no study knows."""

_IN_LINK = re.compile(r"#t=([A-Za-z0-9_-]+)")


class Role(StrEnum):
    """The rights of a person in a study."""

    OWNER = "owner"
    """Sees and changes everything of the study."""
    RATER = "rater"
    """Rates the own cases, and sees nothing else."""
    READER = "reader"
    """Sees progress and, after the close, results; changes nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Someone who has access to a study."""

    study: str
    """Name of the study; empty on pages of no single study."""
    id: str
    """Id: that of the rater; `owner` for the session of the site."""
    role: Role
    """The rights of the person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonalLink:
    """A link that was made for a person. Its token is not stored."""

    person: str
    """Id of the person."""
    role: Role
    """The rights of the person."""
    digest: str
    """Sha256 of the token, in hex."""
    made: float
    """Time it was made, seconds since 1970."""
    ends: float
    """Time until which it can be used, seconds since 1970."""
    session_ends: float
    """Time at which the session that it opens ends."""
    used: float = 0.0
    """Time it was used; 0 if it was not."""
    is_revoked: bool = False
    """True if it was revoked, or replaced by another link before it was used."""
    is_for_device: bool = False
    """True if a rater made it for another of the own devices."""

    def is_open(self, at: float) -> bool:
        """Return True if it can be used at a time. A clock that was set back before it was made does not stop it."""
        return not self.used and not self.is_revoked and max(at, self.made) < self.ends


@dataclass(frozen=True, slots=True, kw_only=True)
class StudySession:
    """A browser that a person uses."""

    person: str
    """Id of the person."""
    role: Role
    """The rights of the person."""
    digest: str
    """Sha256 of the cookie, in hex."""
    link: str
    """Digest of the link that opened it."""
    ends: float
    """Time at which it ends, seconds since 1970."""
    seen: float
    """Time of its last use, or a moment before."""

    def at(self, moment: float) -> StudySession:
        """Return the session as it is at a time: if the clock was set back, its end moves as far back."""
        return replace(self, seen=moment, ends=self.ends + min(0.0, moment - self.seen))


@dataclass(slots=True, kw_only=True)
class AccessState:
    """Everyone's access to one study: the content of `access.json`."""

    links: tuple[PersonalLink, ...] = ()
    """All links, in the order in which they were made."""
    sessions: tuple[StudySession, ...] = ()
    """Sessions that were neither ended nor revoked."""
    blocked: tuple[str, ...] = ()
    """Ids of people whose access was revoked, for the hospital's single sign-on too."""


_role = Nested(str, Role)
_LINK_FORM = JsonForm(
    PersonalLink,
    key_map("person role digest made ends session_ends used revoked=is_revoked for_device=is_for_device"),
    nested={"role": _role},
)
_SESSION_FORM = JsonForm(StudySession, key_map("person role digest link ends seen"), nested={"role": _role})
_STATE_FORM = JsonForm(
    AccessState,
    key_map("links sessions blocked"),
    nested={"links": _LINK_FORM.many, "sessions": _SESSION_FORM.many, "blocked": Nested(list, tuple)},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewLink:
    """A link that was just made: the only moment at which its token is known."""

    study: str
    """Name of the study."""
    role: Role
    """The rights of the person."""
    token: str
    """The token; of a link for another device, a code that can be typed."""
    ends: float
    """Time until which it can be used, seconds since 1970."""

    @property
    def path(self) -> str:
        """Path and fragment of the link, to put after the address of the server."""
        return f"/rate/{self.study}/login#t={self.token}"

    @property
    def code(self) -> str:
        """The token in two groups, for people to type."""
        return f"{self.token[:5]}-{self.token[5:]}"


Digested = TypeVar("Digested", PersonalLink, StudySession)


class LinkRefusedError(UserError):
    """A token opens no session; the message says why, for the person who tried."""


# --- links ------------------------------------------------------------------------------------------------------------


def new_link(
    store: Store, study_name: str, person: str, role: Role = Role.RATER, *, days: float = LINK_DAYS, by: str
) -> NewLink:
    """Make a link for a person, which replaces those that the person has not used.

    Sessions of the person continue. `by`: who makes it, for the events of the study.
    Raises: UserError for a rater that the study does not have, for an id that a person cannot have, or a wrong time.
    """
    study = read_study(store, study_name)
    if role is Role.RATER:
        check_rater(study, person)
    elif person in {rater.id for rater in study.raters} or not is_rater_id(person):
        raise UserError(
            f"`{person[:40]}` cannot be the id of someone who does not rate: use lower case letters, digits, `_` and "
            "`-`, at most 40, and not the id of a rater."
        )
    if not 0 < days <= MOST_DAYS:
        raise UserError(f"A link is valid for more than 0 and at most {MOST_DAYS} days, not {days:g}.")
    moment, token = time.time(), secrets.token_urlsafe(32)
    ends = moment + days * 86_400
    link = PersonalLink(person=person, role=role, digest=_digest(token), made=moment, ends=ends, session_ends=ends)
    with _changed_access(store, study_name) as state:
        state.links = (*_without_unused(state.links, person), link)
        state.blocked = tuple(one for one in state.blocked if one != person)
    text = f"{role.value}, until {moment_text(ends)}"
    note(store, study_name, EventKind.LINK_MADE, by, rater=person, text=text)
    return NewLink(study=study_name, role=role, token=token, ends=ends)


def device_link(store: Store, person: Person, cookie: str | None) -> NewLink:
    """Make a link for another device of a person: once, for ten minutes, with a code that can be typed.

    `cookie`: that of the session, whose end is that of the new one too; None for the hospital's single sign-on.
    """
    moment, token = time.time(), "".join(secrets.choice(_CODE_LETTERS) for _ in range(_CODE_LENGTH))
    ends = moment + DEVICE_S
    with _changed_access(store, person.study) as state:
        session = _session_of(state, cookie)
        link = PersonalLink(
            person=person.id,
            role=person.role,
            digest=_digest(token),
            made=moment,
            ends=ends,
            session_ends=session.at(moment).ends if session else moment + LINK_DAYS * 86_400,
            is_for_device=True,
        )
        older = (one for one in state.links if not (one.is_for_device and _is_unused(one, person.id)))
        state.links = (*older, link)
    note(store, person.study, EventKind.LINK_MADE, person.id, rater=person.id, text="for another device")
    return NewLink(study=person.study, role=person.role, token=token, ends=ends)


def links_of(store: Store, study_name: str) -> list[PersonalLink]:
    """Return the links that owners made, the latest first; codes for other devices are left out."""
    return [link for link in reversed(read_access(store, study_name).links) if not link.is_for_device]


def state_of_link(link: PersonalLink) -> str:
    """Return the state of a link in words."""
    if link.used:
        return f"used on {moment_text(link.used)}"
    if link.is_revoked:
        return "revoked"
    until = moment_text(link.ends)
    return f"not used, valid until {until}" if link.is_open(time.time()) else f"not used, ended on {until}"


def revoke(store: Store, study_name: str, person: str, *, by: str) -> int:
    """End the access of a person: links, sessions, and the hospital's single sign-on, until there is a new link.

    Returns the number of links and sessions that were ended. Raises: UserError for someone who never had access.
    """
    known = {rater.id for rater in read_study(store, study_name).raters}
    known |= {link.person for link in read_access(store, study_name).links}
    if person not in known:
        hint = suggestion(person, sorted(known))
        raise UserError(f"`{person[:40]}` has no access to the study `{study_name}`. {hint}".rstrip())
    with _changed_access(store, study_name) as state:
        n_ended = sum(_is_unused(one, person) for one in state.links)
        n_ended += sum(one.person == person for one in state.sessions)
        state.links = _without_unused(state.links, person)
        state.sessions = tuple(one for one in state.sessions if one.person != person)
        state.blocked = (*(one for one in state.blocked if one != person), person)
    note(store, study_name, EventKind.LINK_REVOKED, by, rater=person)
    return n_ended


# --- sessions ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedIn:
    """A session that a link opened."""

    person: Person
    """The person of the session."""
    cookie: str
    """Value of the cookie; empty if the browser has this session already."""
    seconds: int
    """Seconds until it ends."""


def sign_in(store: Store, study_name: str, given: str, cookie: str | None = None) -> SignedIn:
    """Exchange a token for a session, once.

    Parameters: given, a link, its token or a code, as a person may paste or type it; cookie, that of the browser: a
    session that the link opened before continues, one of another person ends.
    Raises: LinkRefusedError.
    """
    token, moment, made = token_in(given), time.time(), secrets.token_urlsafe(32)
    with _changed_access(store, study_name) as state:
        link, present = _find(state.links, token), _session_of(state, cookie)
        if link is None:
            raise LinkRefusedError(WRONG)
        if present and present.link == link.digest and (left := _seconds_left(present, moment)):
            return SignedIn(person=_person(study_name, present), cookie="", seconds=left)
        if not link.is_open(moment):
            # Anyone may have tried the link: the event names no one.
            note(store, study_name, EventKind.LINK_REFUSED, "", rater=link.person, text=_short_reason(link))
            raise LinkRefusedError(_why_refused(link))
        session = StudySession(
            person=link.person,
            role=link.role,
            digest=_digest(made),
            link=link.digest,
            ends=link.session_ends,
            seen=moment,
        )
        state.links = tuple(replace(one, used=moment) if one is link else one for one in state.links)
        state.sessions = (*(one for one in state.sessions if one is not present), session)
    text = "another device" if link.is_for_device else ""
    note(store, study_name, EventKind.LINK_USED, link.person, rater=link.person, text=text)
    return SignedIn(person=_person(study_name, session), cookie=made, seconds=_seconds_left(session, moment))


def sign_out(store: Store, study_name: str, cookie: str | None) -> None:
    """End the session of a browser."""
    with _changed_access(store, study_name) as state:
        session = _session_of(state, cookie)
        state.sessions = tuple(one for one in state.sessions if one is not session)
    if session:
        note(store, study_name, EventKind.SIGNED_OUT, session.person, rater=session.person)


def person_with(store: Store, study_name: str, cookie: str | None) -> Person | None:
    """Return the person of a session; None without a cookie of one that is valid."""
    if not cookie:
        return None
    session, moment = _session_of(read_access(store, study_name), cookie), time.time()
    if session is None or not _seconds_left(session, moment):
        return None
    if not 0 <= moment - session.seen < NOTED_AFTER_S:
        with _changed_access(store, study_name) as state:
            digest = session.digest
            state.sessions = tuple(one.at(moment) if one.digest == digest else one for one in state.sessions)
    return _person(study_name, session)


def is_blocked(store: Store, study_name: str, person: str) -> bool:
    """Return True for a person whose access was revoked."""
    return person in read_access(store, study_name).blocked


def _session_of(state: AccessState, cookie: str | None) -> StudySession | None:
    return _find(state.sessions, cookie) if cookie else None


def _seconds_left(session: StudySession, moment: float) -> int:
    return max(0, int(session.at(moment).ends - moment))


def _person(study_name: str, session: StudySession) -> Person:
    return Person(study=study_name, id=session.person, role=session.role)


def _why_refused(link: PersonalLink) -> str:
    """Return why a link opens nothing, for the person who tried it."""
    if link.used:
        return (
            f"This link was already used, on {moment_text(link.used)}. Each link opens one browser, once. If that was "
            "you, continue there, or make a link for another device there. If it was not you, tell the person who sent "
            "you the link: someone else may be rating in your name."
        )
    ask = "Ask the person who sent it for a new one."
    if link.is_revoked:
        return f"This link was revoked, or replaced by a newer one. {ask}"
    return f"This link was valid until {moment_text(link.ends)}. {ask}"


def _short_reason(link: PersonalLink) -> str:
    """Return why a link was refused, for the owner."""
    return f"already used on {moment_text(link.used)}" if link.used else "revoked" if link.is_revoked else "too late"


# --- the file ---------------------------------------------------------------------------------------------------------


def read_access(store: Store, study_name: str) -> AccessState:
    """Read everyone's access to a study. Raises: StoreError for a damaged file."""
    file = _file(store, study_name)
    lines = read_lines(file)
    try:
        return _STATE_FORM.read(json.loads(lines[0])) if lines else AccessState()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"{file} is damaged ({error}). Delete it, and make new links.") from error


@contextmanager
def _changed_access(store: Store, study_name: str) -> Iterator[AccessState]:
    """Yield the access to a study, for a change; the file is replaced unless nothing changed, or the block fails."""
    with locked(store, study_name):
        state = read_access(store, study_name)
        old = replace(state)
        yield state
        if state != old:
            replace_lines(store.folder, _file(store, study_name), [json.dumps(_STATE_FORM.write(state))])


def _file(store: Store, study_name: str) -> Path:
    return study_folder(store, study_name) / FILE


def token_in(given: str) -> str:
    """Return the token in what a person pasted or typed: a link, a token, or a code.

    >>> token_in(" https://host/rate/a/login#t=abc_DE-f "), token_in("k7qf2-m9xab")
    ('abc_DE-f', 'K7QF2M9XAB')
    """
    found = _IN_LINK.search(given)
    text = found[1] if found else given.strip()
    code = re.sub(r"[\s-]", "", text).upper()
    return code if _CODE.fullmatch(code) else text


def is_code(given: str) -> bool:
    """Return True for a code, whose few characters could be guessed: tries of it are limited."""
    return _CODE.fullmatch(token_in(given)) is not None


def moment_text(moment: float) -> str:
    """Return a time in words, UTC.

    >>> moment_text(0.0)
    '1 January 1970, 00:00 UTC'
    """
    at = datetime.fromtimestamp(moment, UTC)
    return f"{at.day} {at:%B %Y, %H:%M} UTC"


def _find(known: Iterable[Digested], token: str) -> Digested | None:
    """Return the link or session of a token. All are compared, each in constant time."""
    digest = _digest(token)
    return next(iter([one for one in known if hmac.compare_digest(one.digest, digest)]), None)


def _is_unused(link: PersonalLink, person: str) -> bool:
    return link.person == person and not link.used and not link.is_revoked


def _without_unused(links: Iterable[PersonalLink], person: str) -> tuple[PersonalLink, ...]:
    """Return links, with those that a person has not used revoked."""
    return tuple(replace(one, is_revoked=True) if _is_unused(one, person) else one for one in links)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
