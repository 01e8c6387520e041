"""A server on 127.0.0.1 that speaks S3's API."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

import pytest


@contextmanager
def s3_server() -> Iterator[Mapping[str, str]]:
    """Yield the environment variables that lead to it."""
    moto: Any = pytest.importorskip("moto.server", reason="moto is in the dev group only")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        address = f"http://{host}:{port}"
        yield {"AWS_ENDPOINT_URL": address, "AWS_ACCESS_KEY_ID": "invented", "AWS_SECRET_ACCESS_KEY": "invented"}
    finally:
        server.stop()


def make_only_bucket(variables: Mapping[str, str], bucket: str) -> None:
    """Make an empty bucket on the server, which then holds nothing else."""
    send(variables, "POST", "/moto-api/reset")
    send(variables, "PUT", f"/{bucket}")


def send(variables: Mapping[str, str], method: str, path: str, body: bytes = b"") -> None:
    """Send one request to the server."""
    request = Request(variables["AWS_ENDPOINT_URL"] + path, method=method, data=body)
    build_opener(ProxyHandler({})).open(request).close()
