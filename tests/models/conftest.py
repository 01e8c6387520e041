"""Models made once for all tests of a module, a guard against connections, and tests that are coroutines."""

from __future__ import annotations

import asyncio
import inspect
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.support.models import random_weights as tiny_models


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine with `run_test` of its module: `asyncio.run`, unless time is virtual there."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    run_test = getattr(pyfuncitem.module, "run_test", asyncio.run)
    run_test(
        pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters})
    )
    return True


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chat model."""
    pytest.importorskip("torch", reason="torch comes with the extra hf")
    pytest.importorskip("transformers", reason="transformers comes with the extra hf")
    return tiny_models.save(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same without a chat template."""
    pytest.importorskip("torch", reason="torch comes with the extra hf")
    pytest.importorskip("transformers", reason="transformers comes with the extra hf")
    return tiny_models.save(tmp_path_factory.mktemp("models") / "base", template=None)


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody opens a connection to anywhere else."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        assert self.family == socket.AF_UNIX or address[0] in ("127.0.0.1", "::1"), f"a connection to {address}"
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)
