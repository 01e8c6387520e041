"""`medhelm study link`."""

from __future__ import annotations

from pathlib import Path

import pytest

from medhelm.extensions.study.access import LinkRefusedError, Role, person_with, sign_in
from medhelm.extensions.study.journal import EventKind, events
from medhelm.storage.store import Store
from tests.support.cli import Medhelm, assert_refused, succeeded
from tests.support.rated_studies import make_study, new_store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return new_store(tmp_path / "store", make_study({"mara": ["0-1"], "ivo": ["0-1"]}))


def test_a_link_is_shown_once_and_can_be_revoked(medhelm: Medhelm, store: Store) -> None:
    at = ("--store", str(store.folder))
    shown = succeeded(medhelm("study", "link", "ward", "mara", *at, "--address", "https://board.test/"))
    address = shown.out.split()[-1]
    assert address.startswith("https://board.test/rate/ward/login#t=")
    assert "not shown again" in shown.err
    cookie = sign_in(store, "ward", address).cookie
    revoked = succeeded(medhelm("study", "link", "ward", "mara", "--revoke", *at, "--json")).json
    assert revoked == {"study": "ward", "person": "mara", "revoked": 1}
    assert person_with(store, "ward", cookie) is None
    assert [(event.kind, event.by) for event in events(store, "ward")] == [
        (EventKind.LINK_MADE, "command line"),
        (EventKind.LINK_USED, "mara"),
        (EventKind.LINK_REVOKED, "command line"),
    ]


def test_a_link_for_a_reader_as_json(medhelm: Medhelm, store: Store) -> None:
    words = ("study", "link", "ward", "chief", "--role", "reader", "--days", "0.5", "--store", str(store.folder))
    made = succeeded(medhelm(*words, "--json")).json
    assert set(made) == {"study", "person", "role", "link", "ends"}
    opened = sign_in(store, "ward", made["link"])
    assert (opened.person.role, abs(opened.seconds - 43_200) < 60) == (Role.READER, True)
    with pytest.raises(LinkRefusedError):
        sign_in(store, "ward", made["link"])


def test_what_is_wrong_is_named(medhelm: Medhelm, store: Store) -> None:
    for words, message in (
        (("wrd", "mara"), "Did you mean `ward`"),
        (("ward", "mara", "--days", "0"), "--days"),
        (("ward", "marra", "--revoke"), "`marra` has no access to the study `ward`. Did you mean `mara`"),
    ):
        assert_refused(medhelm("study", "link", *words, "--store", str(store.folder)), message)
    assert events(store, "ward") == []
