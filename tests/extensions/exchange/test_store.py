"""Folders in object stores: what is listed, read and created; redirects, silence and errors of the server."""

from __future__ import annotations

import json
import socket
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from medhelm.errors import MissingError, UserError
from medhelm.extensions.exchange import object_store as store
from medhelm.extensions.exchange.object_store import ObjectStore
from medhelm.storage.audit import AuditLog
from tests.support.servers.objects import ObjectServer

SCHEMES = ("s3", "gs", "az")
SECRETS = ("SESSION-TOKEN-SECRET", "SECRET-ACCESS-KEY", b64encode(b"k" * 32).decode())


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectServer]:
    monkeypatch.setattr(store, "WAIT_S", 0.0)
    with ObjectServer() as started:
        monkeypatch.setattr(store, "GOOGLE", started.url)
        yield started


@pytest.fixture(scope="module")
def key() -> RSAPrivateKey:
    return generate_private_key(65537, 2048)


@pytest.fixture
def variables(server: ObjectServer, key: RSAPrivateKey, tmp_path: Path) -> Mapping[str, str]:
    """Credentials for all services, which lead to the server."""
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    account = {"type": "service_account", "client_email": "a@b.example", "private_key": pem, "private_key_id": "k1"}
    (tmp_path / "account.json").write_text(json.dumps(account), encoding="utf-8")
    return {
        "AWS_ENDPOINT_URL": server.url,
        "AWS_ACCESS_KEY_ID": "invented",
        "AWS_SECRET_ACCESS_KEY": SECRETS[1],
        "AWS_SESSION_TOKEN": SECRETS[0],
        "GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path / "account.json"),
        "AZURE_STORAGE_ACCOUNT_NAME": "acme",
        "AZURE_STORAGE_ACCOUNT_KEY": SECRETS[2],
        "AZURE_STORAGE_ENDPOINT": server.url,
    }


@pytest.mark.parametrize("scheme", SCHEMES)
def test_objects_are_listed_read_and_created_once(
    scheme: str, server: ObjectServer, variables: Mapping[str, str], tmp_path: Path
) -> None:
    audit = AuditLog(tmp_path / "audit.jsonl")
    with ObjectStore(f"{scheme}://bk/f/g", offline=True, environment=variables, audit=audit) as remote:
        contents = {f"runs/a+{n}/x y.json": bytes([n]) * n for n in range(5)}
        assert [remote.create(name, content, benchmark="b1") for name, content in contents.items()] == [True] * 5
        assert not remote.create("runs/a+1/x y.json", b"other")
        server.objects["bk/other/file"] = b"of another folder"
        assert remote.sizes() == {name: len(content) for name, content in contents.items()}
        assert {name: remote.read(name) for name in contents} == contents
        assert remote.read("none") is None
        remote.download("runs/a+3/x y.json", tmp_path / "got")
        assert (tmp_path / "got").read_bytes() == bytes([3]) * 3
        with pytest.raises(MissingError, match="was removed while the store was read"):
            remote.download("none", tmp_path / "none")
    audit.close()
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text(encoding="utf-8").splitlines()]
    requests = [line for line in lines if line["action"] == "request"]
    assert [line["method"] for line in requests] == [one.method for one in server.received], "each request is logged"
    assert {(line["destination"], line["benchmark"]) for line in requests[:5]} == {(server.url, "b1")}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_redirects_are_refused(scheme: str, server: ObjectServer, variables: Mapping[str, str], tmp_path: Path) -> None:
    with ObjectServer() as other:
        server.redirect = 307, other.url
        with ObjectStore(f"{scheme}://bk/f", offline=False, environment=variables) as remote:
            for action in (
                remote.sizes,
                lambda: remote.read("x"),
                lambda: remote.download("x", tmp_path / "x"),
                lambda: remote.create("x", b"content"),
            ):
                with pytest.raises(MissingError, match=r"sent a redirect \(status 307\).*not followed") as found:
                    action()
                assert not any(secret in str(found.value) for secret in SECRETS)
        assert other.received == []
    assert len(server.received) == 4, "a redirect is not tried again"


def test_errors_that_pass_are_tried_again_and_others_are_explained(
    server: ObjectServer, variables: Mapping[str, str]
) -> None:
    with ObjectStore("s3://bk/f", offline=True, environment=variables) as remote:
        server.failures = [503, 500, 429]
        assert remote.create("x", b"content")
        server.failures = [503] * store.ATTEMPTS
        with pytest.raises(MissingError, match=r"cannot be used: 127\.0\.0\.1 replied 503 Failed\."):
            remote.sizes()
        server.failures = [403]
        with pytest.raises(MissingError, match="replied 403 Failed"):
            remote.read("x")
        assert server.failures == []


def test_a_server_that_never_answers_is_given_up(variables: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert store.REPLY_S + store.GIVE_UP_S <= 90
    monkeypatch.setattr(store, "GIVE_UP_S", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        there = {**variables, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{silent.getsockname()[1]}"}
        with ObjectStore("s3://bk/f", offline=True, environment=there) as remote:
            remote._http.timeout_s = 0.2
            with pytest.raises(MissingError, match=r"did not answer within 0\.2 s"):
                remote.sizes()


@pytest.mark.parametrize("body", [b"", b"<html>Sign in</html>", b'<!DOCTYPE a [<!ENTITY b "c">]><ListBucketResult/>'])
def test_a_list_that_cannot_be_read(
    body: bytes, server: ObjectServer, variables: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_list", lambda *_: body)
    with (
        ObjectStore("s3://bk/f", offline=True, environment=variables) as remote,
        pytest.raises(MissingError, match="sent a list of objects that cannot be read"),
    ):
        remote.sizes()


def test_a_service_account_signs_its_own_tokens(
    server: ObjectServer, variables: Mapping[str, str], key: RSAPrivateKey
) -> None:
    with ObjectStore("gs://bk/f", offline=True, environment=variables) as remote:
        remote.sizes()
        remote.sizes()
    tokens = {one.headers["authorization"] for one in server.received}
    assert len(tokens) == 1, "a token is used again"
    text, _, signature = tokens.pop().removeprefix("Bearer ").rpartition(".")
    key.public_key().verify(_decoded(signature), text.encode(), PKCS1v15(), SHA256())
    head, claims = (json.loads(_decoded(part)) for part in text.split("."))
    assert head == {"alg": "RS256", "typ": "JWT", "kid": "k1"}
    assert claims["iss"] == claims["sub"] == "a@b.example"
    assert claims["exp"] - claims["iat"] == 3600
    assert "aud" not in claims


def _decoded(part: str) -> bytes:
    return b64decode(part + "=" * (-len(part) % 4), altchars=b"-_")


def test_an_access_token_of_azure_goes_to_the_service_alone_and_is_not_shown(
    server: ObjectServer, variables: Mapping[str, str]
) -> None:
    names = {name: variables[name] for name in ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ENDPOINT")}
    access = {**names, "AZURE_STORAGE_SAS_TOKEN": "?sv=2023&sig=SECRET%2Bx%3D"}
    with ObjectStore("az://bk/f", offline=True, environment=access) as remote, ObjectServer() as other:
        assert remote.create("x", b"content")
        assert "sig=SECRET%2Bx%3D" in server.received[0].path
        assert "authorization" not in server.received[0].headers
        server.redirect = 307, other.url
        with pytest.raises(MissingError) as found:
            remote.sizes()
        assert "SECRET" not in str(found.value)
        assert other.received == []


@pytest.mark.parametrize(
    ("url", "environment", "words"),
    [
        ("s3://", {}, "is not the address of a folder in an object store"),
        ("https://user:secret@host/x", {}, "`https://host/x` is not the address"),
        ("s3://b/c", {"AWS_ENDPOINT_URL": "http://s3.example.org"}, "use https://"),
        ("s3://b/c", {}, "s3.us-east-1.amazonaws.com may not be reached: offline mode"),
        ("s3://b/c", {"AWS_ACCESS_KEY_ID": "a"}, "set both AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
        ("s3://b/c", {"AWS_REGION": "x.evil.example/"}, "AWS_REGION is not a region"),
        ("az://b/c", {"AZURE_STORAGE_ACCOUNT_NAME": "acme"}, "acme.blob.core.windows.net may not be reached"),
        ("az://b/c", {"AZURE_STORAGE_ACCOUNT_NAME": "acme.evil.example/"}, "set AZURE_STORAGE_ACCOUNT_NAME"),
    ],
)
def test_addresses_and_settings_refused_before_anything_is_sent(
    url: str, environment: Mapping[str, str], words: str
) -> None:
    with pytest.raises(UserError) as found:
        ObjectStore(url, offline=True, environment=environment)
    assert words in str(found.value)
    assert "secret" not in str(found.value)
