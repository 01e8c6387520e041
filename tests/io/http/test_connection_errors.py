"""What goes wrong on the way to a server, in the words that users read."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import subprocess
from pathlib import Path

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey
from yarl import URL

from medhelm.errors import ProviderError
from medhelm.io.http.client import HttpClient, connection_problem
from medhelm.io.http.egress import EgressPolicy
from medhelm.models.model_check import check
from tests.support.servers.openai import Server
from tests.support.servers.vendors import KEYS, OPENAI

OTHER_SCHEME = "If the server uses HTTPS, write its address with https://."


def failure(address: str) -> tuple[str, str]:
    """Code and words of the failure of a request there."""
    (checked,) = check([OPENAI.model(address)], environment=KEYS)
    assert checked.answer.failure is not None
    return checked.answer.failure.code, checked.answer.failure.message


def certificate(folder: Path) -> ssl.SSLContext:
    """A server's side of TLS with a certificate of its own making."""
    if (openssl := shutil.which("openssl")) is None:
        pytest.skip("needs openssl, to make a certificate")
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    owner = ["-subj", "/CN=gpu", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    subprocess.run([openssl, "req", "-x509", *kind, *owner, *files], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context


def at_server(scheme: str, context: ssl.SSLContext | None = None, reply: bytes = b"") -> str:
    """The words of the error that a request meets at a server that sends this and closes the connection."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(reply)
        writer.close()

    async def go() -> None:
        http = HttpClient(EgressPolicy(offline=True), timeout_s=600)
        try:
            async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context) as listening:
                await http.get(f"{scheme}://127.0.0.1:{listening.sockets[0].getsockname()[1]}/", headers={})
        finally:
            await http.close()

    with pytest.raises(ProviderError) as raised:
        asyncio.run(go())
    return f"{raised.value.code}: {raised.value}"


def test_a_certificate_that_nobody_vouches_for_and_http_where_the_server_speaks_https(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = certificate(tmp_path)
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    said = at_server("https", context)
    assert said.startswith("certificate: the certificate of https://127.0.0.1:")
    assert said.endswith(
        "is not trusted here: self-signed certificate. If your institution issued it, set the environment "
        "variable SSL_CERT_FILE to the file with your institution's certificates, or name that file under `ca_file` "
        "in models.yaml."
    )
    said = at_server("http", context)
    assert said.startswith("connection: http://127.0.0.1:")
    assert said.endswith(f"closed the connection without a response. {OTHER_SCHEME}")
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/certificates.pem")
    assert at_server("https", context).endswith("names a missing file: /nowhere/certificates.pem.")


@pytest.mark.parametrize(
    ("code", "message", "todo"),
    [
        (10, "certificate has expired", "If the clock of this machine is right, the server's owner must renew"),
        (62, "Hostname mismatch, certificate is not valid for 'gpu'.", "Use the host name from the certificate"),
        (20, "unable to get local issuer certificate", "SSL_CERT_FILE"),
    ],
)
def test_every_fault_of_a_certificate_has_its_fix(
    code: int, message: str, todo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    cause = ssl.SSLCertVerificationError(1, "certificate verify failed")
    cause.verify_code, cause.verify_message = code, message
    key = ConnectionKey("gpu", 443, True, True, None, None, None)
    told = connection_problem(
        aiohttp.ClientConnectorCertificateError(key, cause), URL("https://gpu/v1"), 1.0, near=False
    )
    assert (told.code, told.fatal) == ("certificate", True)
    assert f"the certificate of https://gpu is not trusted here: {message.rstrip('.')}. " in str(told)
    assert todo in str(told)


def test_a_server_that_cannot_be_reached(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """It speaks plain HTTP, nobody listens, or its name does not resolve."""
    code, words = failure(server.url.replace("http:", "https:"))
    place = f"https://127.0.0.1:{server.port}"
    assert (code, words) == ("certificate", f"{place} does not speak HTTPS: write its address with http://.")
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        place = f"http://127.0.0.1:{reserved.getsockname()[1]}"
        code, words = failure(place)
    assert code == "connection"
    assert words.startswith(f"cannot connect to {place}: no server listens there. Start the server, or ")

    def unknown(name: str, *rest: object, **options: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    code, words = failure("https://llm.nowhere.example")
    assert code == "connection"
    assert words.startswith("the host name llm.nowhere.example cannot be resolved. Check how llm.nowhere.example is")


def test_what_is_no_web_server() -> None:
    said = at_server("http", reply=b"SSH-2.0-OpenSSH_9.6\r\n")
    assert said.startswith("malformed_reply: ")
    assert said.endswith(f"a response that is not HTTP. {OTHER_SCHEME}")
