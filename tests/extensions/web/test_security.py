"""The token, sessions, and where requests may come from."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from medhelm.extensions.web.app import create_app
from medhelm.extensions.web.security import Security
from medhelm.extensions.web.site import Site
from medhelm.io.http.mounted_pages import MOST_FAILURES

ORIGIN = "http://127.0.0.1:8642"


@pytest.fixture
def security() -> Security:
    return Security(hosts=["127.0.0.1:8642"])


@pytest.fixture
def client(security: Security, tmp_path: Path) -> TestClient:
    return TestClient(create_app(Site(stores=[tmp_path / "secret-name"]), security), base_url=ORIGIN)


def test_without_a_session_every_page_is_the_login_page(client: TestClient) -> None:
    for path in ("/", "/nothing", "/login/..", "/?a=1"):
        found = client.get(path)
        assert (found.status_code, "Sign in" in found.text, "secret-name" in found.text) == (401, True, False)


def test_the_token_opens_a_session_until_signing_out_and_leads_back_to_the_page(
    client: TestClient, security: Security
) -> None:
    found = client.post("/login", data={"token": security.token, "next": "/?sort=cost"}, follow_redirects=False)
    assert (found.status_code, found.headers["location"]) == (303, "/?sort=cost")
    cookie = found.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert client.get("/").status_code != 401
    client.post("/logout", headers={"origin": ORIGIN}, follow_redirects=False)
    assert client.get("/").status_code == 401


@pytest.mark.parametrize("address", ["//other.test/", "https://other.test/", "/\\other.test", "", "/a\r\nb: c"])
def test_the_login_leads_to_no_other_site(client: TestClient, security: Security, address: str) -> None:
    found = client.post("/login", data={"token": security.token, "next": address}, follow_redirects=False)
    assert found.headers["location"] == "/"


@pytest.mark.parametrize(("token", "status"), [("", 403), ("wrong", 403), ("é\ud800", 403), ("x" * 20_000, 413)])
def test_a_wrong_token_opens_no_session(client: TestClient, token: str, status: int) -> None:
    body = ("token=" + token).encode("utf-8", "surrogatepass")
    assert client.post("/login", content=body).status_code == status
    assert client.get("/").status_code == 401


def test_wrong_tokens_are_told_to_wait_and_neither_the_right_one_nor_other_clients(
    client: TestClient, security: Security
) -> None:
    statuses = [client.post("/login", data={"token": "wrong"}).status_code for _ in range(MOST_FAILURES + 2)]
    assert statuses == [403] * MOST_FAILURES + [429, 429]
    assert client.post("/login", data={"token": security.token}, follow_redirects=False).status_code == 303
    for number in range(3 * MOST_FAILURES):
        assert not security.accepts(f"wrong {number}", "10.0.0.1")
    assert security.wrong_tokens.must_wait("10.0.0.1")
    assert not security.wrong_tokens.must_wait("10.0.0.2")


def test_a_session_ends_and_belongs_to_one_process(security: Security, monkeypatch: pytest.MonkeyPatch) -> None:
    cookie = security.new_session()
    assert security.has_session(cookie)
    assert not Security(hosts=[]).has_session(cookie)
    assert not any(map(security.has_session, ("", ".", "9999999999.00", "9" * 5000 + ".0", "1.é")))
    end, _, signature = cookie.partition(".")
    assert not security.has_session(f"{int(end) + 60}.{signature}")
    monkeypatch.setattr(time, "time", lambda: float(end))
    assert not security.has_session(cookie)


@pytest.mark.parametrize(
    ("headers", "reads", "writes"),
    [
        ({}, 200, 303),
        ({"host": "evil.test"}, 403, 403),
        ({"host": "127.0.0.1:9"}, 403, 403),
        ({"origin": ORIGIN}, 200, 303),
        ({"origin": "http://evil.test"}, 403, 403),
        ({"origin": "null"}, 403, 403),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}, 403, 403),
        ({"sec-fetch-site": "same-site", "sec-fetch-mode": "cors"}, 403, 403),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, 200, 403),
    ],
)
def test_requests_come_from_the_site_itself(
    client: TestClient, security: Security, headers: dict[str, str], reads: int, writes: int
) -> None:
    assert client.get("/login", headers=headers).status_code == reads
    form = {"token": security.token}
    assert client.post("/login", data=form, headers=headers, follow_redirects=False).status_code == writes


def test_a_forwarded_socket_answers_to_this_machine_on_any_port() -> None:
    security = Security(hosts=["localhost", "[::1]"], any_port=True)
    assert all(security.serves_host(host) for host in ("localhost", "localhost:1234", "[::1]:80", "[::1]"))
    assert not any(security.serves_host(host) for host in ("evil.test:80", "localhost.evil.test", "localhost:", ""))


def test_every_response_has_the_headers(client: TestClient) -> None:
    for path in ("/", "/login", "/nothing", "/static/site.css", "/static/none", "/static/..%2fapp.py"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert (headers["x-content-type-options"], headers["cross-origin-resource-policy"]) == (
            "nosniff",
            "same-origin",
        )
    assert client.get("/").headers["cache-control"] == "no-store"


def test_a_program_sends_the_token_itself_and_guessing_is_slowed_down(client: TestClient, security: Security) -> None:
    def ask(authorization: str) -> Any:
        return client.get("/api/benchmarks", headers={b"authorization": authorization.encode("latin-1")})

    for value in ("Bearer", "Bearer \u00e9", "Basic x", "", "Bearer " + "x" * 5000):
        assert (ask(value).status_code, ask(value).headers["www-authenticate"]) == (401, 'Bearer realm="MedHELM"')
    for _ in range(MOST_FAILURES):
        refused = ask("Bearer wrong")
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "60")
    for scheme in ("Bearer", "bearer"):
        assert ask(f"{scheme} {security.token}").status_code not in (401, 429)
    right = {"authorization": f"Bearer {security.token}"}
    assert "set-cookie" not in client.get("/", headers=right).headers
    assert client.get("/api/benchmarks", headers={**right, "origin": "http://evil.test"}).status_code == 403


def test_a_refusal_says_what_to_do_behind_a_proxy(client: TestClient) -> None:
    found = client.get("/login", headers={"host": "board.test:8443"})
    words = ("board.test:8443 is not a host name of this server", "--behind-proxy HOST:PORT", "Host $http_host")
    assert (found.status_code, all(one in found.text for one in words)) == (403, True)
