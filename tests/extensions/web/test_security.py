"""The token, sessions, and where requests may come from."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from medhelm.extensions.web.app import create_app
from medhelm.extensions.web.security import MOST_FAILURES, Security
from medhelm.extensions.web.site import Site

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
        assert found.status_code == 401
        assert "Sign in" in found.text
        assert "secret-name" not in found.text


def test_the_token_opens_a_session_and_leads_back_to_the_page(client: TestClient, security: Security) -> None:
    found = client.post("/login", data={"token": security.token, "next": "/?sort=cost"}, follow_redirects=False)
    assert (found.status_code, found.headers["location"]) == (303, "/?sort=cost")
    cookie = found.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert client.get("/").status_code != 401


@pytest.mark.parametrize(
    "address", ["//other.test/", "https://other.test/", "/\\other.test", "", "/login?x", "/a\r\nb: c"]
)
def test_the_login_leads_to_no_other_site(client: TestClient, security: Security, address: str) -> None:
    found = client.post("/login", data={"token": security.token, "next": address}, follow_redirects=False)
    assert found.headers["location"] == "/"


@pytest.mark.parametrize("token", ["", "wrong", "é\ud800", "x" * 5000])
def test_a_wrong_token_opens_no_session(client: TestClient, token: str) -> None:
    body = ("token=" + token).encode("utf-8", "surrogatepass")
    assert client.post("/login", content=body).status_code == 403
    assert client.get("/").status_code == 401


def test_a_form_that_is_too_long_is_refused(client: TestClient) -> None:
    assert client.post("/login", content=b"token=" + b"x" * 20_000).status_code == 413


def test_wrong_tokens_are_told_to_wait_and_the_right_one_never(client: TestClient, security: Security) -> None:
    statuses = [client.post("/login", data={"token": "wrong"}).status_code for _ in range(MOST_FAILURES + 2)]
    assert statuses == [403] * MOST_FAILURES + [429, 429]
    found = client.post("/login", data={"token": security.token}, follow_redirects=False)
    assert found.status_code == 303
    assert client.get("/").status_code != 401


def test_wrong_tokens_of_one_client_are_not_counted_for_others(security: Security) -> None:
    for number in range(3 * MOST_FAILURES):
        assert not security.accepts(f"wrong {number}", "10.0.0.1")
    assert security.must_wait("10.0.0.1")
    assert not security.accepts("wrong", "10.0.0.2")
    assert not security.must_wait("10.0.0.2")


@pytest.mark.parametrize("cookie", ["", ".", "9999999999", "9999999999.00", "x.y", "9" * 5000 + ".0", "1.é"])
def test_an_invented_cookie_is_no_session(security: Security, cookie: str) -> None:
    assert not security.has_session(cookie)


def test_a_session_ends_and_belongs_to_one_process(security: Security, monkeypatch: pytest.MonkeyPatch) -> None:
    cookie = security.new_session()
    assert security.has_session(cookie)
    assert not Security(hosts=[]).has_session(cookie)
    end, _, signature = cookie.partition(".")
    assert not security.has_session(f"{int(end) + 60}.{signature}")
    monkeypatch.setattr(time, "time", lambda: float(end))
    assert not security.has_session(cookie)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"host": "evil.test"}, 403),
        ({"host": "127.0.0.1:9"}, 403),
        ({"host": ""}, 403),
        ({"origin": ORIGIN}, 200),
        ({"origin": "http://evil.test"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}, 403),
        ({"sec-fetch-site": "same-site", "sec-fetch-mode": "cors"}, 403),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, 200),
    ],
)
def test_requests_come_from_the_site_itself(client: TestClient, headers: dict[str, str], status: int) -> None:
    assert client.get("/login", headers=headers).status_code == status


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_form_of_another_site_is_refused(client: TestClient, security: Security, site: str) -> None:
    headers = {"sec-fetch-site": site, "sec-fetch-mode": "navigate"}
    assert client.post("/login", data={"token": security.token}, headers=headers).status_code == 403


def test_a_forwarded_socket_answers_to_this_machine_on_any_port() -> None:
    security = Security(hosts=["localhost", "[::1]"], any_port=True)
    assert all(security.serves_host(host) for host in ("localhost", "localhost:1234", "[::1]:80", "[::1]"))
    assert not any(security.serves_host(host) for host in ("evil.test:80", "localhost.evil.test", "localhost:", ""))


def test_every_response_has_the_headers(client: TestClient) -> None:
    for path in ("/", "/login", "/nothing", "/static/site.css", "/static/none", "/static/..%2fapp.py"):
        found = client.get(path)
        policy = found.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert found.headers["x-content-type-options"] == "nosniff"
        assert found.headers["cross-origin-resource-policy"] == "same-origin"
    assert client.get("/").headers["cache-control"] == "no-store"


def test_signing_out_ends_the_session_of_the_browser(client: TestClient, security: Security) -> None:
    client.post("/login", data={"token": security.token}, follow_redirects=False)
    client.post("/logout", headers={"origin": ORIGIN}, follow_redirects=False)
    assert client.get("/").status_code == 401


def test_a_program_sends_the_token_itself(client: TestClient, security: Security) -> None:
    for scheme in ("Bearer", "bearer"):
        assert client.get("/api/benchmarks", headers={"authorization": f"{scheme} {security.token}"}).status_code != 401
    assert client.get("/api/benchmarks").status_code == 401
    assert "set-cookie" not in client.get("/", headers={"authorization": f"Bearer {security.token}"}).headers


@pytest.mark.parametrize(
    "value", ["Bearer", "Bearer ", "Bearer wrong", "Bearer \u00e9", "Basic x", "", "Bearer " + "x" * 5000]
)
def test_another_authorization_is_refused(client: TestClient, value: str) -> None:
    found = client.get("/api/benchmarks", headers={b"authorization": value.encode("latin-1")})
    assert (found.status_code, found.headers["www-authenticate"]) == (401, 'Bearer realm="MedHELM"')


def test_guessing_tokens_of_programs_is_slowed_down(client: TestClient, security: Security) -> None:
    for _ in range(MOST_FAILURES):
        client.get("/api/benchmarks", headers={"authorization": "Bearer wrong"})
    found = client.get("/api/benchmarks", headers={"authorization": "Bearer wrong"})
    assert (found.status_code, found.headers["retry-after"]) == (429, "60")
    right = client.get("/api/benchmarks", headers={"authorization": f"Bearer {security.token}"})
    assert right.status_code not in (401, 429)


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({"host": "board.test:8443"}, ("board.test:8443 is not a host name of this server", "Host $http_host")),
        ({"host": "<b>"}, ("what the request names is not a host name",)),
        ({"origin": "https://board.test:8443"}, ("the browser is at board.test:8443", "http://127.0.0.1:8642")),
    ],
)
def test_a_refusal_says_what_to_do_behind_a_proxy(
    client: TestClient, headers: dict[str, str], words: tuple[str, ...]
) -> None:
    found = client.get("/login", headers=headers)
    assert found.status_code == 403
    assert all(one in found.text for one in ("--behind-proxy HOST:PORT", *words))


def test_a_token_does_not_help_other_sites(client: TestClient, security: Security) -> None:
    headers = {"authorization": f"Bearer {security.token}", "origin": "http://evil.test"}
    assert client.get("/api/benchmarks", headers=headers).status_code == 403
