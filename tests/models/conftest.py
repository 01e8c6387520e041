"""What the tests of the request layer share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from servers import Server


@pytest.fixture
def server() -> Iterator[Server]:
    """A running server on 127.0.0.1; tell it what to do with `server.script(Answer(...), ...)`."""
    with Server() as running:
        yield running
