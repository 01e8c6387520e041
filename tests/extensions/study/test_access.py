"""Personal links and sessions: each token works once, ends, can be revoked, and is nowhere on the disk."""

from __future__ import annotations

import stat
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from medhelm.errors import StoreError, UserError
from medhelm.extensions.study.access import (
    DEVICE_S,
    FILE,
    LinkRefusedError,
    Person,
    Role,
    device_link,
    is_code,
    links_of,
    new_link,
    person_with,
    revoke,
    sign_in,
    sign_out,
    state_of_link,
    token_in,
)
from medhelm.extensions.study.journal import EventKind, events, study_folder
from medhelm.storage.store import Store
from tests.support.rated_studies import make_study, new_store

DAY = 86_400.0
NOW = 1_800_000_000.0
MARA = Person(study="ward", id="mara", role=Role.RATER)


class Clock:
    """A clock that tests set."""

    def __init__(self, moment: float) -> None:
        self.moment = moment

    def __call__(self) -> float:
        return self.moment


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock(NOW)
    monkeypatch.setattr(time, "time", made)
    return made


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return new_store(tmp_path / "store", make_study({"mara": ["0-1"], "ivo": ["0-1"]}))


def link_of(store: Store, person: str = "mara", role: Role = Role.RATER, days: float = 30) -> str:
    return new_link(store, "ward", person, role, days=days, by="owner").token


def kinds(store: Store) -> list[EventKind]:
    return [event.kind for event in events(store, "ward")]


def everything_in(folder: Path) -> bytes:
    return b"\n".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def test_a_link_opens_one_session_and_neither_is_on_the_disk(store: Store) -> None:
    token = link_of(store)
    opened = sign_in(store, "ward", token)
    assert (opened.person, person_with(store, "ward", opened.cookie)) == (MARA, MARA)
    assert abs(opened.seconds - 30 * DAY) < 60
    with pytest.raises(LinkRefusedError, match=r"already used, on .* someone else may be rating in your name"):
        sign_in(store, "ward", token)
    assert person_with(store, "ward", opened.cookie) == MARA
    found = everything_in(store.folder)
    assert token.encode() not in found
    assert opened.cookie.encode() not in found
    assert kinds(store) == [EventKind.LINK_MADE, EventKind.LINK_USED, EventKind.LINK_REFUSED]
    assert {event.rater for event in events(store, "ward")} == {"mara"}
    assert stat.S_IMODE((study_folder(store, "ward") / FILE).stat().st_mode) == 0o600


def test_the_browser_that_used_a_link_may_open_it_again(store: Store) -> None:
    token = link_of(store)
    cookie = sign_in(store, "ward", token).cookie
    again = sign_in(store, "ward", token, cookie)
    assert (again.person, again.cookie) == (MARA, "")
    assert EventKind.LINK_REFUSED not in kinds(store)


def test_one_of_many_browsers_that_open_a_link_at_the_same_moment_gets_a_session(store: Store) -> None:
    token = link_of(store)

    def attempt(_: int) -> str:
        try:
            return sign_in(store, "ward", token).cookie
        except LinkRefusedError:
            return ""

    with ThreadPoolExecutor(8) as pool:
        cookies = list(filter(None, pool.map(attempt, range(8))))
    assert len(cookies) == 1
    assert kinds(store).count(EventKind.LINK_REFUSED) == 7


@pytest.mark.parametrize(
    ("days_later", "then", "words"),
    [
        (31, "", "was valid until 14 February 2027, 08:00 UTC"),
        (0, "revoke", "was revoked, or replaced by a newer one"),
        (0, "replace", "was revoked, or replaced by a newer one"),
    ],
)
def test_a_link_that_no_longer_counts_says_why(
    store: Store, clock: Clock, days_later: float, then: str, words: str
) -> None:
    token = link_of(store)
    clock.moment += days_later * DAY
    if then == "revoke":
        assert revoke(store, "ward", "mara", by="owner") == 1
    elif then == "replace":
        link_of(store)
    with pytest.raises(LinkRefusedError, match=words):
        sign_in(store, "ward", token)
    assert kinds(store)[-1] is EventKind.LINK_REFUSED


def test_a_wrong_token_opens_nothing_and_is_no_event(store: Store) -> None:
    link_of(store)
    for given in ("", "x", "é\ud800", "A" * 43, "A" * 9_000, "K7QF2M9XAB"):
        with pytest.raises(LinkRefusedError, match="is not valid"):
            sign_in(store, "ward", given)
        assert person_with(store, "ward", given) is None
    assert kinds(store) == [EventKind.LINK_MADE]


def test_revoking_ends_all_sessions_of_a_person_at_once_and_of_no_other(store: Store) -> None:
    mara, ivo = (sign_in(store, "ward", link_of(store, person)).cookie for person in ("mara", "ivo"))
    other = sign_in(store, "ward", device_link(store, MARA, mara).token).cookie
    assert revoke(store, "ward", "mara", by="owner") == 2
    assert person_with(store, "ward", mara) is person_with(store, "ward", other) is None
    assert person_with(store, "ward", ivo) == Person(study="ward", id="ivo", role=Role.RATER)
    assert person_with(store, "ward", sign_in(store, "ward", link_of(store)).cookie) == MARA


def test_signing_out_ends_one_session(store: Store) -> None:
    first = sign_in(store, "ward", link_of(store)).cookie
    second = sign_in(store, "ward", link_of(store)).cookie
    sign_out(store, "ward", first)
    assert person_with(store, "ward", first) is None
    assert person_with(store, "ward", second) == MARA
    assert kinds(store)[-1] is EventKind.SIGNED_OUT


def test_another_person_on_the_same_browser_ends_the_session_before(store: Store) -> None:
    mara = sign_in(store, "ward", link_of(store)).cookie
    ivo = sign_in(store, "ward", link_of(store, "ivo"), mara)
    assert ivo.person.id == "ivo"
    assert person_with(store, "ward", mara) is None


def test_a_link_for_another_device_is_short_and_soon_over(store: Store, clock: Clock) -> None:
    cookie = sign_in(store, "ward", link_of(store, days=2)).cookie
    link = device_link(store, MARA, cookie)
    assert is_code(link.code)
    assert token_in(f" {link.code.lower()} ") == token_in(f"https://board.test{link.path}") == link.token
    clock.moment += DEVICE_S + 1
    with pytest.raises(LinkRefusedError, match="was valid until"):
        sign_in(store, "ward", link.token)
    link = device_link(store, MARA, cookie)
    other = sign_in(store, "ward", link.code)
    assert abs(other.seconds - (2 * DAY - DEVICE_S - 1)) < 60, "it ends with the session it came from"
    with pytest.raises(LinkRefusedError, match="already used"):
        sign_in(store, "ward", link.token)
    assert [one.is_for_device for one in links_of(store, "ward")] == [False]


def test_a_clock_that_is_set_back_neither_ends_a_session_nor_makes_it_longer(store: Store, clock: Clock) -> None:
    for days, is_valid in (
        ([29.9], True),
        ([30.1], False),
        ([10, -300, -300 + 19], True),
        ([10, -300, -300 + 21], False),
        ([-300, 29.9 - 300], True),
        ([-300, 30.1 - 300], False),
        ([5000, 29.9], True),
        ([20, 19.99, 29.9], True),
        ([10, 9, 10, 28.9], True),
        ([10, 9, 10, 30.1], False),
    ):
        clock.moment = NOW
        cookie = sign_in(store, "ward", link_of(store)).cookie
        for day in days:
            clock.moment = NOW + day * DAY
            found = person_with(store, "ward", cookie)
        assert (found is not None) == is_valid, days
    clock.moment = NOW
    token = link_of(store)
    clock.moment -= 300 * DAY
    assert sign_in(store, "ward", token).person == MARA, "the clock was set back before the link was made"


def test_links_that_cannot_be_made(store: Store) -> None:
    for person, role, days, words in (
        ("marra", Role.RATER, 30, "no rater `marra`. Did you mean `mara`"),
        ("mara", Role.OWNER, 30, "cannot be the id of someone who .* not the id of a rater"),
        ("Prof. Å", Role.READER, 30, "cannot be the id of someone who"),
        ("mara", Role.RATER, 0, "more than 0 and at most 365 days"),
        ("mara", Role.RATER, float("nan"), "more than 0 and at most 365 days"),
    ):
        with pytest.raises(UserError, match=words):
            link_of(store, person, role, days)
    assert (links_of(store, "ward"), events(store, "ward")) == ([], [])


def test_states_of_links_in_words(store: Store, clock: Clock) -> None:
    sign_in(store, "ward", link_of(store, "ivo"))
    link_of(store)
    link_of(store, "chief", Role.READER, days=1)
    link_of(store)
    clock.moment += 2 * DAY
    assert [(link.person, state_of_link(link)) for link in links_of(store, "ward")] == [
        ("mara", "not used, valid until 14 February 2027, 08:00 UTC"),
        ("chief", "not used, ended on 16 January 2027, 08:00 UTC"),
        ("mara", "revoked"),
        ("ivo", "used on 15 January 2027, 08:00 UTC"),
    ]


def test_a_damaged_file_opens_nothing_and_says_what_to_do(store: Store) -> None:
    cookie = sign_in(store, "ward", link_of(store)).cookie
    (study_folder(store, "ward") / FILE).write_text('{"links": 1}', encoding="utf-8")
    with pytest.raises(StoreError, match="Delete it, and make new links"):
        person_with(store, "ward", cookie)
