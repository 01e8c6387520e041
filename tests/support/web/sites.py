"""Sites over invented stores, and browsers that are signed in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from medhelm.web.app import create_app
from medhelm.web.security import Security
from medhelm.web.site import Site

HOST = "testserver"
"""Name of the server in tests without a network."""


def make_client(*stores: Path, signed_in: bool = True, **settings: Any) -> TestClient:
    """Return a browser without scripts for the site of these stores."""
    security = Security(hosts=[HOST])
    client = TestClient(create_app(Site(stores=list(stores), **settings), security), raise_server_exceptions=False)
    if signed_in:
        client.cookies.set(security.cookie, security.new_session())
    return client
