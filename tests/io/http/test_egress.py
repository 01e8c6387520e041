"""The egress policy: the administrator's file, addresses after name resolution, proxies and certificates."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from medhelm.errors import ConfigError, ProviderError, UserError
from medhelm.io.http.client import HttpClient, HttpResponse
from medhelm.io.http.egress import ConnectionSettings, EgressPolicy, HostList
from medhelm.io.http.hosts import Subject
from tests.support.servers.openai import Server
from tests.support.servers.proxy import Certificates, TlsServer, TunnelProxy, make_certificates

HOST = "model.hospital.example"

Administer = Callable[[str], Path]


@pytest.fixture
def administrator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Administer:
    """Write the administrator's file."""
    file = tmp_path / "egress.yaml"
    monkeypatch.setattr("medhelm.io.http.egress.ADMINISTRATOR_FILE", file)
    monkeypatch.setattr("medhelm.io.http.egress.ADMINISTRATOR_ID", os.getuid())

    def write(text: str) -> Path:
        file.write_text(text, encoding="utf-8")
        file.chmod(0o644)
        return file

    return write


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Addresses of host names; others do not exist."""
    known: dict[str, str] = {}

    def look_up(host: str, port: Any, *_: Any, **__: Any) -> list[Any]:
        if host not in known:
            raise socket.gaierror(socket.EAI_NONAME, "no such host")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (known[host], int(port or 0)))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return known


class Notes:
    """An audit log in memory."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, str, Subject, int]] = []
        self.lookups: list[tuple[str, list[str]]] = []

    async def request(self, method: str, destination: str, proxy: str, subject: Subject, n_bytes: int) -> None:
        self.requests.append((method, destination, proxy, subject, n_bytes))

    def request_all(self, method: str, destination: str, sent: Any) -> None:
        raise AssertionError("no gateway is used")

    def lookup(self, host: str, addresses: Any) -> None:
        self.lookups.append((host, list(addresses)))

    def cluster(self, destination: str, nodes: Any, *, has_token: bool, uses: Any) -> None:
        raise AssertionError("no cluster is used")

    def consent(self, host: str, benchmarks: Any, source: Any) -> None:
        raise AssertionError("no data is private")


def post(url: str, policy: EgressPolicy, audit: Notes | None = None) -> HttpResponse:
    async def main() -> HttpResponse:
        http = HttpClient(policy, audit=audit, timeout_s=600)
        try:
            return await http.post(url, headers={}, body=b'{"n": 1}')
        finally:
            await http.close()

    return asyncio.run(main())


# --- after name resolution --------------------------------------------------------------------------------------------


def test_a_localhost_elsewhere_is_not_connected_to(names: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A forged hosts file, or a name server, can give `localhost` any address."""
    names["localhost"] = "198.51.100.7"
    connected: list[object] = []

    async def connect(_loop: object, _socket: object, address: object) -> None:
        connected.append(address)
        raise ConnectionRefusedError

    monkeypatch.setattr(asyncio.SelectorEventLoop, "sock_connect", connect)
    for offline in (True, False):
        with pytest.raises(
            UserError, match=r"localhost may not be reached at 198\.51\.100\.7: .* must be this machine"
        ):
            post("http://localhost:8000/v1", EgressPolicy(offline))
    assert connected == []


def test_only_permitted_addresses_of_a_name_are_used(
    administrator: Administer, names: dict[str, str], server: Server
) -> None:
    """A name that only a network allows is judged by its addresses: before the run, and again for each connection."""
    file = administrator("allow: [10.20.0.0/16, 127.0.0.0/8]\n")
    policy = EgressPolicy(False, ["gpu.example", "other.example"])
    names.update({"gpu.example": "127.0.0.1", "other.example": "192.0.2.1"})
    notes = Notes()
    assert post(f"http://gpu.example:{server.port}/v1", policy, notes).status == 200
    assert notes.lookups == [("gpu.example", ["127.0.0.1"])]
    policy.admit_all(["http://gpu.example/v1"])
    with pytest.raises(UserError, match=rf"other.example may not be reached at 192.0.2.1: {file} allows neither"):
        policy.admit_all(["http://gpu.example/v1", "http://other.example/v1"])
    names["gpu.example"] = "192.0.2.9"  # the name has another address by now
    with pytest.raises(UserError, match=r"gpu.example may not be reached at 192.0.2.9"):
        post(f"http://gpu.example:{server.port}/v1", policy)


# --- the administrator's file -----------------------------------------------------------------------------------------


OPENAI, INSIDE = "https://api.openai.com/v1", "http://10.1.2.3/v1"


@pytest.mark.parametrize(
    ("rules", "admitted"),
    [
        ("private_data: [x.example]", [OPENAI, INSIDE]),
        ("allow: ['*.openai.com']", [OPENAI]),
        ("allow: ['*.com', 10.0.0.0/8]", [OPENAI, INSIDE]),
        ("allow: [openai.com, 10.1.2.4]", []),
    ],
)
def test_the_administrators_list_narrows_what_the_user_named(
    administrator: Administer, rules: str, admitted: list[str], names: dict[str, str]
) -> None:
    file = administrator(rules)
    names["api.openai.com"] = "192.0.2.1"
    policy = EgressPolicy(False, ["api.openai.com", "10.1.2.3"])
    policy.admit_all([*admitted, "http://127.0.0.1:8000/v1", "http://localhost:8000/v1"], look_up=False)
    if refused := {OPENAI, INSIDE} - {*admitted}:
        with pytest.raises(UserError) as caught:
            policy.admit_all([OPENAI, INSIDE])
        assert str(caught.value).count(str(file)) == len(refused)  # all at once
    with pytest.raises(UserError, match="only hosts of the models"):  # it never widens it
        EgressPolicy(False).admit(OPENAI)


def test_a_file_of_anybody_else_and_mistakes_in_it_stop_everything(
    administrator: Administer, monkeypatch: pytest.MonkeyPatch
) -> None:
    administrator("alow: []\nallow: [https://a.example, 10.0.0.1/8]\nprivate_data: yes\n")
    with pytest.raises(ConfigError, match="alow: unknown key") as caught:
        EgressPolicy(True)
    assert len(caught.value.problems) == 3
    file = administrator("allow: []")
    for mode, owner in ((0o666, os.getuid()), (0o644, os.getuid() + 1)):
        file.chmod(mode)
        monkeypatch.setattr("medhelm.io.http.egress.ADMINISTRATOR_ID", owner)
        with pytest.raises(UserError, match="must be owned by the administrator"):
            EgressPolicy(True)


def test_a_network_does_not_list_names() -> None:
    listed = HostList.of(["10.0.0.0/8", "2001:db8::/32", "a.example", "*.b.example"])
    assert [listed.has(host) for host in ("10.9.9.9", "2001:db8::1", "a.example", "x.b.example")] == [True] * 4
    assert not any(listed.has(host) for host in ("11.0.0.1", "b.example", "xa.example", "10.example", "a.example.org"))


# --- proxies and certificates -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"), HOST)


@pytest.fixture
def hospital(certificates: Certificates) -> Iterator[tuple[TlsServer, TunnelProxy]]:
    """A server with the hospital's own certificate, and a proxy that leads to it."""
    with TlsServer(certificates.server_context(ask_client=True)) as served, TunnelProxy(served.port) as proxy:
        yield served, proxy


def test_a_proxy_an_own_authority_and_a_client_certificate(
    hospital: tuple[TlsServer, TunnelProxy], certificates: Certificates
) -> None:
    served, proxy = hospital
    settings = ConnectionSettings(ca_file=str(certificates.ca), client_certificate=str(certificates.client))
    endpoint = ("https", HOST, 443)

    def policy(settings: ConnectionSettings, **more: Any) -> EgressPolicy:
        return EgressPolicy(False, [HOST], routes={endpoint: settings}, proxy=proxy.url, **more)

    notes = Notes()
    assert post(f"https://{HOST}/v1", policy(settings, proxy_login="me:secret"), notes).status == 200
    assert served.bodies == [b'{"n": 1}']
    assert proxy.requests[0].startswith(f"CONNECT {HOST}:443 ")
    assert "Proxy-Authorization: Basic bWU6c2VjcmV0" in proxy.requests[0]
    [(method, destination, way, subject, n_bytes)] = notes.requests
    assert (method, destination, way, n_bytes) == ("POST", f"https://{HOST}", proxy.url, 8)
    assert len(subject.digest) == 64
    for incomplete in (ConnectionSettings(ca_file=str(certificates.ca)), ConnectionSettings()):
        with pytest.raises(ProviderError):  # without the client's certificate; with an unknown authority
            post(f"https://{HOST}/v1", policy(incomplete))
    assert len(served.bodies) == 1


@pytest.mark.parametrize(
    ("refusal", "message", "fatal"),
    [
        ("407 Proxy Authentication Required", "requires a login: .* MEDHELM_PROXY_LOGIN", True),
        ("403 Forbidden", r"refused a connection to https://a.example \(status 403\)", True),
        ("502 Bad Gateway", r"status 502", False),
        ("", "cannot connect to the proxy", False),
    ],
)
def test_a_proxy_that_refuses_or_is_not_there_is_named(refusal: str, message: str, fatal: bool) -> None:
    with TunnelProxy(9, refusal=refusal) as proxy:
        url = proxy.url if refusal else "http://127.0.0.1:9"
        with pytest.raises(ProviderError, match=message) as caught:
            post("https://a.example/v1", EgressPolicy(False, ["a.example"], proxy=url))
    assert (url in str(caught.value), caught.value.fatal, caught.value.retryable) == (True, fatal, not fatal)


def test_a_proxy_is_for_tls_and_hosts_outside(hospital: tuple[TlsServer, TunnelProxy]) -> None:
    _, proxy = hospital
    direct = {("https", "direct.example", 443): ConnectionSettings(proxy="direct")}
    hosts = ["a.example", "direct.example", "10.1.2.3", "gpu7.local"]
    policy = EgressPolicy(False, hosts, proxy=proxy.url, routes=direct)
    ways = {url: policy.proxy_of(policy.admit(url)) for url in (f"https://{host}/v1" for host in hosts)}
    assert [url for url, way in ways.items() if way] == ["https://a.example/v1"]
    assert policy.proxy_of(policy.admit("http://a.example/v1")) == ""


def test_an_administrator_can_forbid_a_proxy(administrator: Administer, names: dict[str, str]) -> None:
    administrator("allow: [a.example, 10.0.0.0/8]")
    names["proxy.example"] = "192.0.2.1"
    with pytest.raises(UserError, match=r"proxy\.example may not be reached at 192\.0\.2\.1"):
        EgressPolicy(False, ["a.example"], proxy="http://proxy.example:3128").admit_all(["https://a.example/v1"])
    policy = EgressPolicy(False, ["a.example", "b.example"], proxy="http://10.0.0.1:3128")
    assert policy.admit("https://a.example/v1")
    with pytest.raises(UserError, match="the proxy looks up the name"):
        policy.admit("https://b.example/v1")


@pytest.mark.parametrize("key", ["ca_file", "client_certificate"])
def test_certificates_that_cannot_be_read_are_named(tmp_path: Path, key: str) -> None:
    with pytest.raises(UserError, match=rf"{key} .*nothing.pem"):
        EgressPolicy(True, routes={("https", HOST, 443): ConnectionSettings(**{key: str(tmp_path / "nothing.pem")})})
