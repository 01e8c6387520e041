"""Signing in to a study on the site: cookies, roles, single sign-on, and what strangers get."""

from __future__ import annotations

from http.cookies import Morsel, SimpleCookie
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from starlette.types import ASGIApp

from medhelm.extensions.study.access import Role, device_link, new_link, person_with, revoke
from medhelm.extensions.study.app import PAGES
from medhelm.extensions.study.journal import EventKind, events
from medhelm.extensions.study.types import Rater
from medhelm.extensions.web.app import create_app
from medhelm.extensions.web.security import Security
from medhelm.extensions.web.site import Site
from medhelm.io.http.listening import address_of
from medhelm.io.http.mounted_pages import MOST_FAILURES
from medhelm.storage.store import Store
from tests.support.rated_studies import make_study, new_store

ORIGIN = "https://board.test"
COOKIE = "__Secure-medhelm-study"
PROXY = "10.0.0.7"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    raters = (Rater(id="mara", user="Mara.K"), Rater(id="ivo", user="ivo"), Rater(id="ana"))
    return new_store(tmp_path / "secret-store", make_study({"mara": ["0-1"], "ivo": ["0-1"], "ana": []}, raters=raters))


@pytest.fixture
def security() -> Security:
    proxies = [found for found in (address_of(PROXY),) if found]
    return Security(
        hosts=["board.test"], https=True, cookie="__Host-medhelm", proxies=proxies, user_header="X-Remote-User"
    )


@pytest.fixture
def app(store: Store, security: Security) -> ASGIApp:
    return create_app(Site(stores=[store.folder]), security, [PAGES])


def browser(app: ASGIApp, peer: str = "10.0.0.1") -> TestClient:
    return TestClient(app, base_url=ORIGIN, client=(peer, 5000), follow_redirects=False)


def sign_in(client: TestClient, token: str) -> Any:
    return client.post("/rate/ward/login", data={"token": token}, headers={"origin": ORIGIN})


def signed_in(app: ASGIApp, store: Store, person: str = "mara", role: Role = Role.RATER) -> TestClient:
    client = browser(app)
    assert sign_in(client, new_link(store, "ward", person, role, by="owner").token).status_code == 303
    return client


def cookie_in(found: Any) -> Morsel[str]:
    parsed = SimpleCookie(found.headers["set-cookie"])
    assert list(parsed) == [COOKIE]
    return parsed[COOKIE]


def test_a_link_opens_a_session_of_this_study_alone(app: ASGIApp, store: Store) -> None:
    client, link = browser(app), new_link(store, "ward", "mara", by="owner")
    path, _, token = link.path.partition("#t=")
    page = client.get(path)
    assert (page.status_code, 'id="login"' in page.text) == (200, True)
    found = sign_in(client, token)
    assert (found.status_code, found.headers["location"]) == (303, "/rate/ward")
    cookie = cookie_in(found)
    assert (cookie["path"], cookie["secure"], cookie["httponly"], cookie["samesite"]) == (
        *("/rate/ward", True, True, "strict"),
    )
    assert abs(int(cookie["max-age"]) - 30 * 86_400) < 60
    assert client.get("/rate/ward").status_code == 200
    second = sign_in(browser(app), token)
    assert (second.status_code, "already used" in second.text) == (403, True)


def test_a_session_of_a_rater_opens_nothing_else_wherever_it_is_sent(
    app: ASGIApp, store: Store, security: Security
) -> None:
    token = new_link(store, "ward", "mara", by="owner").token
    value = cookie_in(sign_in(browser(app), token)).value
    thief = browser(app)
    for name in (COOKIE, security.cookie):
        thief.cookies.set(name, value)
    for path in ("/", "/studies", "/studies/ward", "/studies/ward/close", "/studies/new", "/api/benchmarks", "/rate/x"):
        assert thief.get(path).status_code == 401, path
    assert thief.get("/rate/ward").status_code == 200


def test_the_session_and_the_token_of_the_site_open_no_page_of_a_rater(app: ASGIApp, security: Security) -> None:
    owner = browser(app)
    owner.cookies.set(security.cookie, security.new_session())
    owner.headers["authorization"] = f"Bearer {security.token}"
    for path in ("/rate/ward", "/rate/ward/cases/1", "/rate/ward/instrument", "/rate/ward/device"):
        found = owner.get(path)
        assert (found.status_code, "set-cookie" in found.headers) == (401, False), path
        assert security.token not in found.text + str(found.headers)


@pytest.mark.parametrize(("role", "writes"), [(Role.OWNER, 404), (Role.READER, 403)])
def test_a_link_as_owner_or_reader_opens_the_owner_s_pages_of_this_study(
    app: ASGIApp, store: Store, role: Role, writes: int
) -> None:
    client, link = browser(app), new_link(store, "ward", "chief", role, by="owner")
    found = sign_in(client, link.token)
    assert (found.headers["location"], cookie_in(found)["path"]) == ("/studies/ward", "/studies/ward")
    assert client.get("/studies/ward/nothing").status_code == 404
    assert client.post("/studies/ward/close", headers={"origin": ORIGIN}).status_code in (writes, 400)
    for path in ("/", "/studies", "/studies/new", "/studies/other", "/rate/ward"):
        assert client.get(path).status_code == 401, path


def test_revoking_ends_a_session_at_once(app: ASGIApp, store: Store) -> None:
    client = signed_in(app, store)
    revoke(store, "ward", "mara", by="owner")
    assert client.get("/rate/ward").status_code == 401
    lost = client.post("/rate/ward/cases/1", headers={"origin": ORIGIN, "accept": "application/json"})
    assert (lost.status_code, "signed out" in lost.json()["error"]) == (401, True)


def test_signing_out_asks_first(app: ASGIApp, store: Store) -> None:
    client = signed_in(app, store)
    asked = client.post("/rate/ward/logout", headers={"origin": ORIGIN})
    assert ("you need a new link" in asked.text, client.get("/rate/ward").status_code) == (True, 200)
    done = client.post("/rate/ward/logout", data={"confirmed": "yes"}, headers={"origin": ORIGIN})
    assert (done.status_code, cookie_in(done)["max-age"]) == (200, "0")
    assert client.get("/rate/ward").status_code == 401
    assert events(store, "ward")[-1].kind is EventKind.SIGNED_OUT


def test_another_device_is_signed_in_by_a_code_and_guessing_codes_is_stopped(app: ASGIApp, store: Store) -> None:
    client = signed_in(app, store)
    page = client.post("/rate/ward/device", headers={"origin": ORIGIN})
    assert f'value="{ORIGIN}/rate/ward/login#t=' in page.text
    person = person_with(store, "ward", client.cookies[COOKIE])
    assert person is not None
    code = device_link(store, person, client.cookies[COOKIE]).code
    guesser, tablet = browser(app, "10.0.0.9"), browser(app, "10.0.0.2")
    statuses = [sign_in(guesser, "22222-22222").status_code for _ in range(MOST_FAILURES + 2)]
    assert statuses == [403] * MOST_FAILURES + [429, 429]
    assert sign_in(guesser, code).status_code == 429, "even the right code, until a minute has passed"
    assert sign_in(guesser, new_link(store, "ward", "ivo", by="owner").token).status_code == 303
    assert sign_in(tablet, code).status_code == 303
    assert tablet.get("/rate/ward").status_code == client.get("/rate/ward").status_code == 200


def test_users_of_the_single_sign_on_need_no_link(app: ASGIApp, store: Store) -> None:
    for peer, user, status in (
        (PROXY, "mara.k", 200),
        (PROXY, "MARA.K", 200),
        (PROXY, "ivo", 200),
        (PROXY, "", 401),
        (PROXY, "stranger", 401),
        (PROXY, "owner", 401),
        (PROXY, "ana", 401),
        ("10.0.0.8", "mara.k", 401),
        ("127.0.0.1", "mara.k", 401),
    ):
        client = browser(app, peer)
        client.headers["x-remote-user"] = user
        found = client.get("/rate/ward")
        assert (found.status_code, "stranger" in found.text) == (status, user == "stranger"), (peer, user)
        assert client.get("/studies/ward").status_code == client.get("/").status_code == 401
    noted = [(event.kind, event.rater) for event in events(store, "ward")]
    assert noted == [(EventKind.SIGNED_IN, "mara"), (EventKind.SIGNED_IN, "ivo")]


def test_the_single_sign_on_opens_nothing_to_a_rater_whose_access_was_revoked(app: ASGIApp, store: Store) -> None:
    client = browser(app, PROXY)
    client.headers["x-remote-user"] = "ivo"
    assert client.get("/rate/ward").status_code == 200
    revoke(store, "ward", "ivo", by="owner")
    assert client.get("/rate/ward").status_code == 401
    new_link(store, "ward", "ivo", by="owner")
    assert client.get("/rate/ward").status_code == 200


def test_a_study_that_does_not_exist_looks_like_one_that_does(app: ASGIApp) -> None:
    client = browser(app)
    known, unknown = (client.get(f"/rate/{name}") for name in ("ward", "none"))
    assert (known.status_code, known.text) == (401, unknown.text.replace("/rate/none", "/rate/ward"))
    refused = [client.post(f"/rate/{name}/login", data={"token": "x"}) for name in ("ward", "none")]
    assert refused[0].status_code == refused[1].status_code == 403
    assert refused[0].text == refused[1].text.replace("/rate/none", "/rate/ward")


def test_odd_paths_show_strangers_the_page_for_signing_in_or_nothing(app: ASGIApp) -> None:
    odd = ("/rate/../studies/ward", "/rate/ward/../../", "/rate//ward", "/rate/%2e%2e/studies", "/rate/Å")
    for path in ("/rate/ward/", "/studies/", *odd, "/rate/ward%00"):
        found = browser(app).get(path)
        assert found.status_code in (401, 404), path
        assert "secret-store" not in found.text


def test_pages_are_not_kept(app: ASGIApp, store: Store) -> None:
    client = signed_in(app, store)
    for path in ("/rate/ward", "/rate/ward/instrument", "/rate/none", "/rate/ward/login", "/rate/ward/nothing"):
        found = client.get(path)
        assert found.headers["cache-control"] == "no-store"
    assert client.get("/rate/static/rate.css").headers["cache-control"] == "private, max-age=3600"
    assert client.get("/rate/static/..%2fapp.py").status_code == 404
