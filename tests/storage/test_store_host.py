"""One machine at a time sends requests for a store."""

from __future__ import annotations

import json
import os
import platform
import time
from contextlib import closing
from pathlib import Path

import pytest

from medhelm.errors import StoreError
from medhelm.evaluation.python_api import evaluate
from medhelm.storage.store import Store, create
from medhelm.storage.store_host import FRESH_S, StoreHost, kernel_id
from tests.support.benchmarks.choice import answers_with, perfect
from tests.support.benchmarks.judged import mock, open_benchmark
from tests.support.servers.openai import Server


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return create(tmp_path / "store")


def mark(store: Store, *, kernel: str = "another", host: str = "node-7", age_s: float = 0.0) -> Path:
    """Write the file of another process, renewed so many seconds ago."""
    path = store.folder / "locks" / "host-41-0badcafe.json"
    path.write_text(json.dumps({"kernel": kernel, "host": host, "pid": 41}))
    then = time.time() - age_s
    os.utime(path, (then, then))
    return path


def marks(store: Store) -> list[Path]:
    return sorted((store.folder / "locks").glob("host-*"))


def take(store: Store) -> None:
    with closing(StoreHost(store)):
        assert len(marks(store)) >= 1


def test_a_store_in_use_on_another_machine_is_refused(tmp_path: Path, store: Store, server: Server) -> None:
    server.answer_with(answers_with(perfect))
    path = mark(store, age_s=FRESH_S - 30)
    words = r"store is in use on another machine, 'node-7' \(process 41, active 9\d s ago\).*--store.*delete .*0badcafe"
    with pytest.raises(StoreError, match=words) as caught:
        evaluate([open_benchmark(tmp_path, n=2)], [mock(server)], store=store.folder)
    assert (caught.value.exit_code, server.count, marks(store)) == (2, 0, [path])


async def test_a_machine_that_died_does_not_block_others(store: Store) -> None:
    mark(store, age_s=FRESH_S + 1)
    take(store)
    assert marks(store) == []


@pytest.mark.parametrize(
    ("kernel", "host"),
    [
        pytest.param(kernel_id(), "4f0c2d", id="a restarted container"),
        pytest.param("another", platform.node(), id="a restarted machine"),
        pytest.param(kernel_id(), platform.node(), id="another process"),
    ],
)
async def test_the_same_machine_is_never_refused(store: Store, kernel: str, host: str) -> None:
    path = mark(store, kernel=kernel, host=host)
    take(store)
    assert marks(store) == [path]


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"kernel": 1'])
async def test_a_file_that_cannot_be_read_is_ignored(store: Store, content: str) -> None:
    path = mark(store)
    path.write_text(content)
    take(store)
    assert (marks(store), path.read_text()) == ([path], content)


async def test_the_mark_is_renewed_even_if_it_was_deleted(store: Store) -> None:
    with closing(StoreHost(store)) as host:
        (own,) = marks(store)
        own.unlink()
        host.renew()
        assert (marks(store), own.stat().st_mode & 0o077) == ([own], 0)
    assert marks(store) == []
