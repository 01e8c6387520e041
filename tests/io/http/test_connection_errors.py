"""What goes wrong on the way to a server, in the words that users read."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from medhelm.domain import Model
from medhelm.domain.completion import ModelCheck
from medhelm.errors import ProviderError
from medhelm.io.http.client import HttpClient, connection_problem, redirected
from medhelm.io.http.egress import EgressPolicy
from medhelm.models.model_check import check
from tests.support.servers.openai import Answer, Server
from tests.support.servers.vendors import KEYS, VENDORS, Vendor

every_vendor = pytest.mark.parametrize("vendor", VENDORS.values(), ids=VENDORS)


def failure(checked: ModelCheck) -> tuple[str, str]:
    """Code and words of a failure."""
    assert checked.answer.failure is not None
    return checked.answer.failure.code, checked.answer.failure.message


def probe(model: Model) -> ModelCheck:
    (checked,) = check([model], environment={**KEYS, "AWS_REGION": "eu-central-1"})
    return checked


def certificate(folder: Path, *, names: str, days: str = "2") -> ssl.SSLContext:
    """A server's side of TLS with a certificate of its own making, `cert.pem` in this folder."""
    if (openssl := shutil.which("openssl")) is None:
        pytest.skip("needs openssl, to make a certificate")
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    for_whom = ["-subj", "/CN=gpu", "-addext", f"subjectAltName={names}"]
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", days]
    made = [openssl, "req", "-x509", *kind, *for_whom, *files]
    subprocess.run(made, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context


def at_tls_server(context: ssl.SSLContext, act: Callable[[HttpClient, int], Awaitable[object]]) -> str:
    """The words of the error that `act` meets at a server with this certificate."""

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.close()

    async def go() -> None:
        http = HttpClient(EgressPolicy(offline=True), timeout_s=600)
        try:
            async with await asyncio.start_server(reply, "127.0.0.1", 0, ssl=context) as listening:
                await act(http, listening.sockets[0].getsockname()[1])
        finally:
            await http.close()

    with pytest.raises(ProviderError) as raised:
        asyncio.run(go())
    return f"{raised.value.code}: {raised.value}"


def test_a_certificate_that_nobody_vouches_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = certificate(tmp_path, names="IP:127.0.0.1")
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    said = at_tls_server(context, lambda http, port: http.get(f"https://127.0.0.1:{port}/", headers={}))
    assert said.startswith("certificate: the certificate of https://127.0.0.1:")
    assert said.endswith(
        "is not trusted here: self-signed certificate. If your institution issued it, set the environment "
        "variable SSL_CERT_FILE to the file with your institution's certificates, or name that file under `ca_file` "
        "in models.yaml."
    )
    assert "_ssl.c" not in said


def test_a_file_of_certificates_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = certificate(tmp_path, names="IP:127.0.0.1")
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/certificates.pem")
    said = at_tls_server(context, lambda http, port: http.get(f"https://127.0.0.1:{port}/", headers={}))
    assert said.endswith("SSL_CERT_FILE names a missing file: /nowhere/certificates.pem.")


def test_http_where_the_server_speaks_https(tmp_path: Path) -> None:
    context = certificate(tmp_path, names="IP:127.0.0.1")
    said = at_tls_server(context, lambda http, port: http.get(f"http://127.0.0.1:{port}/", headers={}))
    assert said.startswith("connection: http://127.0.0.1:")
    assert said.endswith(
        "closed the connection without a response. If the server uses HTTPS, write its address with https://."
    )


@pytest.mark.parametrize(
    ("code", "message", "todo"),
    [
        (
            10,
            "certificate has expired",
            "If the clock of this machine is right, the server's owner must renew",
        ),
        (62, "Hostname mismatch, certificate is not valid for 'gpu'.", "Use the host name from the certificate"),
        (64, "IP address mismatch, certificate is not valid for '10.0.0.5'.", "Use the host name from the certificate"),
        (20, "unable to get local issuer certificate", "SSL_CERT_FILE"),
    ],
)
def test_every_fault_of_a_certificate_has_its_fix(
    code: int, message: str, todo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import aiohttp
    from aiohttp.client_reqrep import ConnectionKey
    from yarl import URL

    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    cause = ssl.SSLCertVerificationError(1, "certificate verify failed")
    cause.verify_code, cause.verify_message = code, message
    key = ConnectionKey("gpu", 443, True, True, None, None, None)
    error = aiohttp.ClientConnectorCertificateError(key, cause)
    told = connection_problem(error, URL("https://gpu/v1"), 1.0, near=False)
    assert (told.code, told.fatal) == ("certificate", True)
    assert f"the certificate of https://gpu is not trusted here: {message.rstrip('.')}. " in str(told)
    assert todo in str(told)


@every_vendor
def test_https_at_a_port_of_plain_http(vendor: Vendor, server: Server) -> None:
    code, words = failure(probe(vendor.model(server.url.replace("http:", "https:"))))
    assert code == "certificate"
    assert words == f"https://127.0.0.1:{server.port} does not speak HTTPS: write its address with http://."
    assert server.count == 0


@every_vendor
def test_nobody_listens(vendor: Vendor) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        code, words = failure(probe(vendor.model(f"http://127.0.0.1:{port}")))
    assert code == "connection"
    assert words.startswith(
        f"cannot connect to http://127.0.0.1:{port}: no server listens there. Start the server, or "
    )


@every_vendor
def test_a_name_that_does_not_resolve(vendor: Vendor, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str, *rest: object, **options: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    code, words = failure(probe(vendor.model("https://llm.nowhere.example")))
    assert code == "connection"
    assert words.startswith(
        "the host name llm.nowhere.example cannot be resolved. Check how llm.nowhere.example is spelled"
    )


def test_what_is_no_web_server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        async def greet() -> None:
            loop = asyncio.get_running_loop()
            connection, _ = await loop.sock_accept(listener)
            with connection:
                await loop.sock_sendall(connection, b"SSH-2.0-OpenSSH_9.6\r\n")

        async def ask() -> ProviderError:
            listener.setblocking(False)
            greeting = asyncio.create_task(greet())
            http = HttpClient(EgressPolicy(offline=True), timeout_s=600)
            try:
                with pytest.raises(ProviderError) as raised:
                    await http.post_json(f"http://127.0.0.1:{listener.getsockname()[1]}/x", headers={}, payload={})
                await greeting
                return raised.value
            finally:
                await http.close()

        error = asyncio.run(ask())
    assert error.code == "malformed_reply"
    assert str(error).endswith(
        "a response that is not HTTP. If the server uses HTTPS, write its address with https://."
    )


def test_a_redirect_shows_where_to_but_no_secret(server: Server) -> None:
    from yarl import URL

    error = redirected(307, "https://login.example/x", URL(server.url))
    assert (error.code, error.fatal) == ("redirect", True)
    assert "(status 307) to https://login.example/x. Redirects are not followed" in str(error)
    assert "to an unknown address" in str(redirected(302, "", URL(server.url)))
    server.script(Answer(status=302, headers={"Location": "https://u:hunter2@login.example/x?token=hunter2"}))
    code, words = failure(probe(VENDORS["openai"].model(server.url)))
    assert code == "redirect"
    assert "(status 302) to https://login.example/x. " in words
    assert "hunter2" not in words
