"""Pages of other extensions on the site: who reaches them, and what they learn about a request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse
from starlette.testclient import TestClient
from starlette.types import ASGIApp, Receive, Scope, Send

from medhelm.extensions.web.app import create_app
from medhelm.extensions.web.security import Security
from medhelm.extensions.web.site import Site
from medhelm.io.http.listening import address_of
from medhelm.io.http.mounted_pages import MenuEntry, MountedPages, SiteServer, visitor_of
from tests.support.web.sites import make_board_store

ORIGIN = "https://board.test"


def echo(server: SiteServer) -> ASGIApp:
    """Answer with what pages learn about a request."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        request, visitor = Request(scope), visitor_of(Request(scope))
        seen = {
            "path": scope["path"],
            "owner": visitor.is_owner,
            "user": visitor.user,
            "cookies": request.cookies,
            "token": request.headers.get("authorization"),
            "menu": [entry.title for entry in server.menu],
        }
        await JSONResponse(seen)(scope, receive, send)

    return app


def admits(server: SiteServer, connection: HTTPConnection) -> bool:
    del server
    return connection.cookies.get("colleague") == "yes"


PAGES = MountedPages(
    paths=("/rate", "/studies"),
    open_paths=("/rate",),
    menu=(MenuEntry(title="Studies", path="/studies"),),
    app=echo,
    admits=admits,
)


@pytest.fixture
def security() -> Security:
    proxies = [found for text in ("10.0.0.7", "::1") if (found := address_of(text))]
    return Security(
        hosts=["board.test"], https=True, cookie="__Host-medhelm", proxies=proxies, user_header="X-Remote-User"
    )


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_board_store(tmp_path_factory.mktemp("board"))


@pytest.fixture
def app(security: Security, board: Path) -> ASGIApp:
    return create_app(Site(stores=[board]), security, [PAGES])


def client_at(app: ASGIApp, peer: str) -> TestClient:
    return TestClient(app, base_url=ORIGIN, client=(peer, 5000))


@pytest.mark.parametrize("means", ["cookie", "token"])
def test_the_owner_reaches_the_pages_and_open_pages_learn_nothing_of_the_session(
    app: ASGIApp, security: Security, means: str
) -> None:
    client = client_at(app, "10.0.0.1")
    client.cookies.set("other", "1")
    if means == "cookie":
        client.cookies.set(security.cookie, security.new_session())
    else:
        client.headers["authorization"] = f"Bearer {security.token}"
    studies = client.get("/studies/a").json()
    assert (studies["path"], studies["owner"]) == ("/studies/a", True)
    assert (studies["menu"][0], studies["menu"][-1]) == ("Leaderboard", "Studies")
    rate = client.get("/rate/a")
    learned = {"path": "/rate/a", "owner": False, "user": "", "cookies": {"other": "1"}, "token": None}
    assert rate.json() | learned == rate.json()
    assert "default-src 'none'" in rate.headers["content-security-policy"]
    assert rate.headers["cache-control"] == "no-store"
    assert 'href="/studies"' in client.get("/").text


@pytest.mark.parametrize(
    ("path", "cookies", "headers", "status"),
    [
        ("/rate", {}, {}, 200),
        ("/rate/a/cases/1", {}, {}, 200),
        ("/rates", {}, {}, 401),
        ("/studies/a", {}, {}, 401),
        ("/studies/a", {"colleague": "yes"}, {}, 200),
        ("/", {"colleague": "yes"}, {}, 401),
        ("/studies/a", {}, {"authorization": "Bearer wrong"}, 401),
        ("/rate/a", {}, {"host": "evil.test"}, 403),
        ("/rate/a", {}, {"origin": "https://evil.test"}, 403),
        ("/rate/a?" + "x" * 9000, {}, {}, 414),
    ],
)
def test_strangers_reach_open_pages_and_those_that_admit_them(
    app: ASGIApp, path: str, cookies: dict[str, str], headers: dict[str, str], status: int
) -> None:
    client = client_at(app, "10.0.0.1")
    client.cookies.update(cookies)
    found = client.get(path, headers=headers)
    assert found.status_code == status
    if status == 200:
        assert not found.json()["owner"]


@pytest.mark.parametrize(
    ("peer", "headers", "user"),
    [
        ("10.0.0.7", [("X-Remote-User", "mara")], "mara"),
        ("::1", [("x-remote-user", " Åsa ")], "Åsa"),
        ("::ffff:10.0.0.7", [("X-Remote-User", "mara")], "mara"),
        ("10.0.0.8", [("X-Remote-User", "mara")], ""),
        ("127.0.0.1", [("X-Remote-User", "mara")], ""),
        ("testclient", [("X-Remote-User", "mara")], ""),
        ("10.0.0.8", [("X-Remote-User", "mara"), ("X-Forwarded-For", "10.0.0.7")], ""),
        ("10.0.0.7", [("X-Remote-User", "mara"), ("X-Remote-User", "owner")], ""),
        ("10.0.0.7", [("X_Remote_User", "mara")], ""),
        ("10.0.0.7", [], ""),
    ],
)
def test_only_a_listed_proxy_names_the_user(app: ASGIApp, peer: str, headers: Any, user: str) -> None:
    sent = [(name, value.encode()) for name, value in headers]
    assert client_at(app, peer).get("/rate/a", headers=sent).json()["user"] == user


def test_no_header_names_the_user_unless_it_was_asked_for(tmp_path: Path) -> None:
    proxies = [found for text in ("10.0.0.7",) if (found := address_of(text))]
    plain = create_app(Site(stores=[tmp_path]), Security(hosts=["board.test"], https=True, proxies=proxies), [PAGES])
    assert client_at(plain, "10.0.0.7").get("/rate/a", headers={"X-Remote-User": "mara"}).json()["user"] == ""


def test_the_site_without_other_extensions_has_neither_the_pages_nor_the_menu(security: Security, board: Path) -> None:
    client = client_at(create_app(Site(stores=[board]), security), "10.0.0.1")
    client.cookies.set(security.cookie, security.new_session())
    assert client.get("/rate/a").status_code == client.get("/studies").status_code == 404
    assert 'href="/studies"' not in client.get("/").text
