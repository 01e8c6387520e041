"""The way out: what the gate lets through, what becomes of every kind of bad reply, and when a wait ends."""

from __future__ import annotations

import asyncio
import gzip
import json
import shutil
import socket
import ssl
import subprocess
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from io import BytesIO
from operator import methodcaller
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey
from yarl import URL

from medhelm.errors import ProviderError, UserError
from medhelm.io.http.client import (
    GRACE_S,
    Deadline,
    HttpClient,
    HttpResponse,
    connection_problem,
    read_json,
    retry_after_s,
)
from medhelm.io.http.egress import EgressPolicy
from medhelm.models.model_check import check
from tests.support import virtual_time
from tests.support.cases import table
from tests.support.servers.openai import Answer, Server
from tests.support.servers.vendors import KEYS, OPENAI
from tests.support.virtual_time import VirtualTimeLoop

T = TypeVar("T")

NOW = 1_700_000_000.0
KEY = "sk-very-secret"


def run(act: Callable[[HttpClient], Awaitable[T]], gate: EgressPolicy | None = None, **options: Any) -> T:
    """Run `act` with an `HttpClient` that may reach this machine only, and close it."""

    async def main() -> T:
        http = HttpClient(gate or EgressPolicy(offline=True), **options)
        try:
            return await act(http)
        finally:
            await http.close()

    return asyncio.run(main())


def post(url: str, gate: EgressPolicy | None = None, **options: Any) -> HttpResponse:
    return run(lambda http: http.post_json(url, headers={"Authorization": KEY}, payload={"n": 1}), gate, **options)


def post_error(url: str, **options: Any) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        post(url, **options)
    assert KEY not in str(caught.value)
    return caught.value


@pytest.fixture
def no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking up a name is a failure of the test."""

    def refuse(host: str | None, *rest: object, **options: object) -> None:
        raise AssertionError(f"{host} was looked up")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)


# --- the gate ---------------------------------------------------------------------------------------------------------

ELSEWHERE = [
    *("api.openai.com", "10.0.0.1", "0.0.0.0", "[::]", "[::ffff:127.0.0.1]", "[2001:db8::1]", "localhost.example.org"),
    *("127.0.0.1.example.org", "2130706433", "0x7f.1", "127.1", "münchen.example"),
]


@pytest.mark.parametrize("offline", [True, False])
def test_this_machine_may_always_be_reached_and_no_other_host(offline: bool, no_names: None) -> None:
    """Not offline, whatever else is allowed; not online, unless it is named."""
    for host in ("127.0.0.1", "127.8.9.10", "LocalHost", "[::1]"):
        assert EgressPolicy(offline).admit(f"http://{host}:8000/v1").port == 8000
    for host in ELSEWHERE:
        gate = EgressPolicy(offline, allowed=[host.strip("[]")] if offline else ["example.org"])
        with pytest.raises(UserError, match=r"may not be reached: (offline mode|only hosts).* Nothing was sent"):
            post(f"https://{host}/v1", gate)


def test_only_exact_names_are_allowed() -> None:
    gate = EgressPolicy(offline=False, allowed=["api.openai.com", "münchen.example"])
    for host in ("API.openai.com", "münchen.example"):
        assert gate.admit(f"https://{host}/v1").scheme == "https"
    for host in (
        "api.openai.com.evil.example",
        "openai.com",
        "api.openai.com@evil.example",
        "evil.example\\@api.openai.com",
    ):
        with pytest.raises(UserError):
            gate.admit(f"https://{host}/v1")


def test_what_is_no_address_is_refused(no_names: None) -> None:
    for url in ("", "127.0.0.1:8000/v1", "file:///etc/passwd", "http://", "http://:80/", "http://[::1/"):
        with pytest.raises(UserError, match="is not an address"):
            post(url)


def test_refusals_name_host_and_rule_but_no_secrets() -> None:
    secret, gate = f"api.example.org/v1?key={KEY}", EgressPolicy(offline=False, allowed=["b.example", "a.example"])
    for policy, url, words in (
        (EgressPolicy(offline=True), f"https://me:{KEY}@{secret}", "api.example.org may not be reached: offline mode"),
        (gate, f"https://me:{KEY}@{secret}", "(a.example, b.example)"),
        (gate, f"ftp://me:{KEY}@{secret}", "`ftp://api.example.org/v1` is not an address"),
    ):
        with pytest.raises(UserError) as refused:
            policy.admit(url)
        assert (words in str(refused.value), KEY in str(refused.value)) == (True, False)


# --- what is sent -----------------------------------------------------------------------------------------------------


def test_the_payload_arrives_and_the_reply_comes_back(server: Server) -> None:
    server.script(Answer(status=418, headers={"X-Some-Thing": "1"}, body={"a": "ä"}))
    reply = post(server.url + "/v1/chat?version=2")
    assert (reply.status, reply.headers["x-some-thing"], read_json(reply)) == (418, "1", {"a": "ä"})
    assert reply.latency_s > 0
    assert (server.bodies, server.paths) == ([{"n": 1}], ["/v1/chat?version=2"])
    sent = server.headers[0]
    assert (sent["content-type"], sent["authorization"]) == ("application/json", KEY)
    assert sent["user-agent"].startswith("medhelm/")


def test_a_path_is_sent_as_it_is_written(server: Server) -> None:
    """Signatures cover it, and the body: `%3A` and `:` are the same to a browser, and not to them."""
    paths = ["/model/arn%3Aaws%3Ax%2Fy/converse?api-version=2024-10-21", "/plain:generateContent"]
    body = b'{"b":  1, "a":\n"\xc3\xa4"}'
    for path in paths:
        assert run(methodcaller("post", server.url + path, headers={}, body=body)).status == 200
    assert (server.paths, server.headers[0]["content-length"]) == (paths, str(len(body)))


def test_what_stands_somewhere_is_asked_for(server: Server) -> None:
    server.lists_models = True
    server.script(Answer(body={"data": []}))
    reply = run(lambda http: http.get(server.url + "/v1/models?limit=1000", headers={"X-Key": KEY}))
    assert read_json(reply) == {"data": []}
    assert server.paths == ["/v1/models?limit=1000"]
    assert server.headers[0]["x-key"] == KEY
    assert "content-type" not in server.headers[0]
    assert run(lambda http: http.delete(f"{server.url}/v1/files/file-1", headers={})).status == 200
    for method in ("get", "delete"):
        with pytest.raises(UserError, match="may not be reached"):
            run(methodcaller(method, "https://elsewhere.example/v1/models", headers={"X-Key": KEY}))


@pytest.mark.parametrize(("limit", "at_once", "n"), [(0, 1, 1), (3, 20, 3)])
def test_connections_are_kept_open_and_limited_if_asked(server: Server, limit: int, at_once: int, n: int) -> None:
    """Nothing is kept beside them: no cookies, and no loop once it is closed."""
    server.script(Answer(body={}, headers={"Set-Cookie": "session=1; Path=/"}))

    async def act(http: HttpClient) -> None:
        for _ in range(5):
            await asyncio.gather(*[http.post_json(server.url, headers={}, payload={}) for _ in range(at_once)])
        await http.close()
        await http.close()

    run(act, connections=limit)
    assert (server.connections, server.count) == (n, 5 * at_once)
    assert not any("cookie" in headers for headers in server.headers)


def test_nothing_is_taken_from_the_environment(server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Proxies would see every prompt, and .netrc would add credentials nobody asked for."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password secret\n", encoding="utf-8")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    run(lambda http: http.post_json(server.url, headers={}, payload={}))
    assert "authorization" not in server.headers[0]


@pytest.mark.parametrize("key", ["sk-1\n", "sk-1\r\nX-Other: 1", "\x00"])
def test_a_key_with_a_line_end_is_not_sent_and_not_shown(server: Server, key: str) -> None:
    with pytest.raises(ProviderError, match=r"Authorization .* line break") as caught:
        run(lambda http: http.post_json(server.url, headers={"Authorization": key}, payload={}))
    assert (caught.value.code, caught.value.fatal, server.count) == ("bad_key", True, 0)
    assert "sk-1" not in str(caught.value)


def test_a_file_is_sent_piece_by_piece_and_as_a_whole(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medhelm.io.http.client.PIECE_BYTES", 7)
    file = BytesIO(json.dumps({"text": "x" * 100}).encode())
    file.seek(5)

    async def twice(http: HttpClient) -> list[int]:
        return [(await http.post(f"{server.url}/v1/files", headers={}, body=file)).status for _ in range(2)]

    assert run(twice) == [200, 200]
    assert server.bodies == [{"text": "x" * 100}] * 2
    assert {headers["content-length"] for headers in server.headers} == {str(len(file.getvalue()))}


# --- what goes wrong --------------------------------------------------------------------------------------------------

BAD_ENDINGS = {
    "reset": (Answer(ending="reset"), "connection"),
    "truncated": (Answer(body=b"x" * 999, ending="truncated"), "connection"),
    "hang": (Answer(ending="hang"), "timeout"),
    "drip": (Answer(ending="drip"), "timeout"),
    "bad gzip": (Answer(body=b"no gzip", headers={"Content-Encoding": "gzip"}), "connection"),
    "too long, in chunks": (Answer(body=b"x" * 1025, ending="chunked"), "malformed_reply"),
    "too long, unpacked": (
        Answer(body=gzip.compress(b"x" * 2**20), headers={"Content-Encoding": "gzip"}),
        "malformed_reply",
    ),
    "redirect": (Answer(status=307, headers={"Location": "https://u:p@evil.example/x?k=v"}), "redirect"),
    "redirect to nowhere": (Answer(status=302), "redirect"),
}


@pytest.mark.parametrize(("answer", "code"), BAD_ENDINGS.values(), ids=BAD_ENDINGS)
def test_trouble_has_a_code(server: Server, answer: Answer, code: str) -> None:
    server.script(answer)
    error = post_error(server.url, timeout_s=0.2 if code == "timeout" else 600.0, max_reply_bytes=1024)
    is_redirect = code == "redirect"
    assert (error.code, error.retryable, error.fatal, error.overloaded) == (code, not is_redirect, is_redirect, False)
    assert (server.url in str(error), server.count) == (True, 1)


def test_a_redirect_is_named_without_secrets_and_not_followed(server: Server) -> None:
    with Server() as other:
        location = other.url.replace("://", f"://u:{KEY}@") + f"/login?token={KEY}"
        server.script(Answer(status=308, headers={"Location": location}))
        error = post_error(server.url)
        assert f"(status 308) to {other.url}/login. Redirects are not followed" in str(error)
        assert other.count == 0


# --- JSON and waiting times -------------------------------------------------------------------------------------------


@table(
    "body",
    [b"", b"the patient is called Ada", b'{"a": ', b"[1]", b"null", b"\xff\xfe\x00", b'{"a": "\xff"}', b"[" * 100_000],
)
def test_what_is_no_json_object_is_malformed(body: bytes) -> None:
    with pytest.raises(ProviderError, match=f"status 200, {len(body)} bytes") as caught:
        read_json(HttpResponse(200, {}, body, 0.1))
    assert (caught.value.code, caught.value.retryable) == ("malformed_reply", True)
    assert "Ada" not in str(caught.value), "services like to repeat the prompt, which may be a patient's"


@table(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": formatdate(NOW + 30, usegmt=True)}, 30.0),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:50"}, 30.0),
        ({"retry-after": "Tue, 99 Nov 2023 99:13:50 GMT"}, None),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
    ],
)
def test_how_long_the_server_asks_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers, NOW) == pytest.approx(seconds)


# --- a limit ends a wait in time; a suspended process first reads what has arrived ------------------------------------

run_test = virtual_time.run
LIMIT_S = 5.0


def loop_here() -> VirtualTimeLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    return loop


async def expiry(meanwhile: Callable[[VirtualTimeLoop], object] = lambda _: None) -> float:
    """Return the time at which a wait for nothing ends; `meanwhile` runs just before the limit."""
    loop_here().call_later(LIMIT_S - 1, meanwhile, loop_here())
    with pytest.raises(TimeoutError):
        async with Deadline(LIMIT_S):
            await asyncio.Event().wait()
    return loop_here().time()


async def test_a_wait_ends_at_its_limit() -> None:
    assert await expiry() == LIMIT_S


@pytest.mark.parametrize("suspended_s", [1.1, 3600.0])
async def test_a_reply_that_arrived_during_a_suspension_is_read(suspended_s: float) -> None:
    def suspend(loop: VirtualTimeLoop) -> None:
        there.send(b"a")
        loop.suspend(suspended_s)

    here, there = socket.socketpair()
    with here, there:
        here.setblocking(False)
        loop_here().call_later(LIMIT_S - 1, suspend, loop_here())
        async with Deadline(LIMIT_S):
            assert await loop_here().sock_recv(here, 1) == b"a"
            await asyncio.sleep(0.1)  # a reply takes several turns of the loop to read


async def test_without_a_reply_a_suspension_extends_the_wait_by_the_grace() -> None:
    assert await expiry(lambda loop: loop.suspend(100.0)) == LIMIT_S - 1 + 100.0 + GRACE_S


async def test_a_loop_that_is_always_late_ends_the_wait_all_the_same() -> None:
    def work(loop: VirtualTimeLoop) -> None:
        loop.suspend(0.1)
        loop.call_soon(work, loop)

    assert await expiry(work) <= LIMIT_S + GRACE_S + 1.0


async def test_a_wait_that_ended_leaves_no_timer() -> None:
    async with Deadline(LIMIT_S):
        await asyncio.sleep(1.0)
    with pytest.raises(ZeroDivisionError):
        async with Deadline(LIMIT_S):
            raise ZeroDivisionError
    await asyncio.sleep(2 * LIMIT_S)  # an expired limit would interrupt this


# --- what goes wrong on the way to a server, in the words that users read ---------------------------------------------

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
