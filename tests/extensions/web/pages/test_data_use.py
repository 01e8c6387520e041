"""The page of where data went: the rows of `/api/data`, and no internal host or user in the static site."""

from __future__ import annotations

from pathlib import Path

import pytest

from medhelm.extensions.web.site import Site
from medhelm.io.http.hosts import Subject
from medhelm.storage.audit import AuditLog
from medhelm.storage.store import Store
from tests.support.html import HtmlPage
from tests.support.web.sites import make_board_store, make_client, static_page

WARD, AWAY = "http://10.0.0.5:8000", "https://api.openai.com"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with requests to a host of the private network and to one on the internet; `wards` is not public."""
    place = make_board_store(tmp_path / "store")
    log = AuditLog(Store(place).audit_file)
    for host, benchmark, n in ((WARD, "medec", 3), (AWAY, "medec", 2), (AWAY, "wards", 1), (AWAY, "a<script>b", 1)):
        log.request_all("POST", host, [(Subject(f"openai/m@{WARD}/v1", benchmark), 5000)] * n)
    log.consent("api.openai.com", ["wards"], "option")
    log.consent("10.0.0.5", [], "administrator")
    log.close()
    return place


def words_of(page: str) -> str:
    return " ".join(HtmlPage(page).text.split())


def test_the_page_shows_the_rows_and_sentences_of_the_json(store: Path) -> None:
    client = make_client(store)
    found = client.get("/api/data").json()
    page = client.get("/data").text
    text = words_of(page)
    assert found["claim"] == "left"
    assert all(sentence in text for sentence in found["sentences"])
    assert sum(one["requests"] for one in found["sent"]) == 7
    for one in found["sent"]:
        cells = f"{one['requests']:,} {one['bytes'] / 1024:.1f} KiB {one['first'][:16].replace('T', ' ')}"
        assert f"{one['host']} {one['place']}" in text
        assert cells in text, one
        assert all(user in text for user in one["users"])
    (user,) = found["sent"][0]["users"]
    for one in found["consents"]:
        by = {"option": "the option --allow-host", "administrator": "the administrator's file"}[one["source"]]
        day = one["first"][:16].replace("T", " ")
        assert f"{one['host']} {one['benchmark'] or 'any benchmark'} {by} 1 {day} {day} {user}" in text
    unrecorded = text[text.index("No consent is recorded") :]
    assert f"(not a name) to api.openai.com, by {user}, {found['sent'][0]['first'][:10]}" in unrecorded
    assert "wards" not in unrecorded
    assert "<script>b" not in page
    assert "intact9" in text


def test_the_static_site_names_neither_internal_hosts_nor_users(store: Path) -> None:
    page = static_page(Site(stores=[store]), "data")
    text = words_of(page)
    assert "private network private network MEDEC" in text
    assert "api.openai.com internet" in text
    assert "Sending data of wards, which is not public, to api.openai.com was permitted" in text
    assert "private network any benchmark the administrator's file" in text
    assert not any(words in page for words in ("10.0.0.5", "Sent by", ", by ", "/api/"))


def test_a_log_that_grows_is_read_again_and_a_changed_one_is_named(store: Path) -> None:
    client = make_client(store)
    assert "intact" in words_of(client.get("/data").text)
    log = Store(store).audit_file
    with log.open("ab") as file:
        file.write(b"an inserted line\n")
    text = words_of(client.get("/data").text)
    assert "The audit log of store was changed or is damaged: line 10 was not written by medhelm" in text
    log.unlink()
    assert "none: the first request begins it" in words_of(client.get("/data").text)
