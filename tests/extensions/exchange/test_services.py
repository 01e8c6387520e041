"""Signatures of requests to object stores, compared with those of obstore, a client of other makers."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest

from medhelm.extensions.exchange.object_store import shared_key
from medhelm.models.providers.bedrock import Credentials, signed_headers
from tests.support.servers.objects import ObjectServer, Received

obstore: Any = pytest.importorskip("obstore", reason="obstore is in the dev group only")


@pytest.fixture
def server() -> Iterator[ObjectServer]:
    with ObjectServer() as started:
        yield started


def requests(server: ObjectServer, url: str, settings: dict[str, str]) -> list[Received]:
    """Return what obstore sends to list, read and create objects."""
    from obstore import store

    library: Any = store
    client = library.from_url(
        url,
        config={**settings, "endpoint": server.url},
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )
    actions: list[Callable[[], object]] = [
        lambda: list(obstore.list(client)),
        lambda: obstore.get(client, "x/y z+1.json"),
        lambda: obstore.put(client, "x/y z+1.json", b"hello", mode="create", use_multipart=False),
    ]
    for action in actions:
        with suppress(Exception):  # it wants fields in answers that the server leaves out
            action()
    assert [one.method for one in server.received] == ["GET", "GET", "PUT"]
    return server.received


def test_s3(server: ObjectServer) -> None:
    who = Credentials(key_id="AK", secret="SK", session_token="session/token+==")
    settings = {"access_key_id": "AK", "secret_access_key": "SK", "session_token": who.session_token}
    more = {"region": "eu-west-3", "virtual_hosted_style_request": "false"}
    for sent in requests(server, "s3://bk/f", settings | more):
        extra = {"If-None-Match": "*"} if sent.method == "PUT" else {}
        signed = signed_headers(
            sent.method,
            server.url + sent.path,
            sent.headers["x-amz-content-sha256"],
            credentials=who,
            region="eu-west-3",
            service="s3",
            moment=datetime.strptime(sent.headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC),
            headers=extra,
        )
        assert signed.pop("Authorization") == sent.headers["authorization"]
        assert {name.lower(): value for name, value in signed.items()}.items() <= sent.headers.items()


def test_azure(server: ObjectServer) -> None:
    key = b64encode(b"k" * 32).decode()
    for sent in requests(server, "az://bk/f", {"account_name": "acme", "account_key": key}):
        names = ("date", "x-ms-version", "x-ms-blob-type", "if-none-match", "content-type")
        headers = {name: sent.headers[name] for name in names if name in sent.headers}
        signature = shared_key(
            sent.method, server.url + sent.path, headers, size=len(sent.body), account="acme", key=b64decode(key)
        )
        assert sent.headers["authorization"] == f"SharedKey acme:{signature}"
