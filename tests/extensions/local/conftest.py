"""Models made once for all tests of a module, and a guard against connections."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from tests.support.models import random_weights as tiny_models


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chat model."""
    return tiny_models.save(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same without a chat template."""
    return tiny_models.save(tmp_path_factory.mktemp("models") / "base", template=None)


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody opens a connection to anywhere else."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        assert self.family == socket.AF_UNIX or address[0] in ("127.0.0.1", "::1"), f"a connection to {address}"
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)
