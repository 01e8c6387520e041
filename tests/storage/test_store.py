"""The store's folder: made, opened, refused, and used by one machine at a time."""

from __future__ import annotations

import errno
import json
import os
import platform
import time
from contextlib import closing
from pathlib import Path
from typing import NoReturn

import pytest

from medhelm.errors import StoreError, StoreFullError
from medhelm.evaluation.python_api import evaluate
from medhelm.storage.store import FORMAT, Store, create, file_name, open_store
from medhelm.storage.store_host import FRESH_S, StoreHost, kernel_id
from tests.support.benchmarks.choice import answers_with, perfect
from tests.support.benchmarks.judged import mock, open_benchmark
from tests.support.servers.openai import Server


def test_a_new_store_can_be_opened_again(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no store at"):
        open_store(tmp_path / "new" / "store")
    assert not (tmp_path / "new").exists()
    created = create(tmp_path / "new" / "store")
    assert sorted(path.name for path in created.folder.iterdir()) == ["locks", "prompts", "runs", "store.json"]
    assert open_store(created.folder).folder == created.folder
    assert create(created.folder).folder == created.folder
    assert json.loads((created.folder / "store.json").read_text(encoding="utf-8")) == {"medhelm_store": FORMAT}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"medhelm_store": 99}', "layout version 99"),
        ('{"medhelm_store": "1"}', "layout version '1'"),
        ("[]", "does not belong to a store"),
        ("not json", "does not belong to a store"),
    ],
)
def test_a_store_of_another_version_is_refused_and_left_alone(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "store.json").write_text(content, encoding="utf-8")
    for opener in (create, open_store):
        with pytest.raises(StoreError, match=said):
            opener(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["store.json"]
    assert (tmp_path / "store.json").read_text(encoding="utf-8") == content


def test_a_folder_with_other_things_and_a_file_are_not_made_a_store(tmp_path: Path) -> None:
    file = tmp_path / "thesis.docx"
    file.write_bytes(b"years of work")
    with pytest.raises(StoreError, match=r"has no store\.json"):
        create(tmp_path)
    for opener in (create, open_store):
        with pytest.raises(StoreError, match=r"^the store .*/thesis.docx is a file\. Name a folder with --store\.$"):
            opener(file)
    with pytest.raises(StoreError, match=r"cannot be written: .*Nothing was sent"):
        create(file / "store")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.docx"]


def test_space_is_advised_only_for_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(number: int) -> type[StoreError]:
        def fail(*_: object, **__: object) -> NoReturn:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(Path, "mkdir", fail)
        with pytest.raises(StoreError, match=r"ame another folder with --store\. Nothing was sent\.$") as refused:
            create(tmp_path / "store")
        assert ("Free some space, or" in str(refused.value)) == (number in (errno.ENOSPC, errno.EDQUOT))
        return refused.type

    assert refuse(errno.ENOSPC) is refuse(errno.EDQUOT) is StoreFullError
    assert refuse(errno.EROFS) is refuse(errno.EACCES) is StoreError


def test_names_become_safe_file_names() -> None:
    names = ("openai/gpt-4o", "openai/m@http://127.0.0.1:80/v1", "../../etc", "..", "😀", "x" * 200)
    safe = ["openai_gpt-4o", "openai_m_http_127.0.0.1_80_v1", "etc", "_", "_", "x" * 80]
    assert list(map(file_name, names)) == safe


# --- one machine at a time sends requests for a store -----------------------------------------------------------------


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


def take(store: Store) -> list[Path]:
    """Use the store for a moment; return the marks that are left."""
    with closing(StoreHost(store)):
        assert len(marks(store)) >= 1
    return marks(store)


def test_a_store_in_use_on_another_machine_is_refused(tmp_path: Path, store: Store, server: Server) -> None:
    server.answer_with(answers_with(perfect))
    path = mark(store, age_s=FRESH_S - 30)
    words = r"store is in use on another machine, 'node-7' \(process 41, active 9\d s ago\).*--store.*delete .*0badcafe"
    with pytest.raises(StoreError, match=words) as caught:
        evaluate([open_benchmark(tmp_path, n=2)], [mock(server)], store=store.folder)
    assert (caught.value.exit_code, server.count, marks(store)) == (2, 0, [path])


async def test_a_machine_that_died_and_a_file_that_cannot_be_read_do_not_block_others(store: Store) -> None:
    path = mark(store, age_s=FRESH_S + 1)
    assert take(store) == []
    for content in ("", "[]", '{"kernel": 1'):
        path.write_text(content)
        assert (take(store), path.read_text()) == ([path], content)


@pytest.mark.parametrize(("is_same_kernel", "is_same_name"), [(True, False), (False, True), (True, True)])
async def test_the_same_machine_is_never_refused(store: Store, is_same_kernel: bool, is_same_name: bool) -> None:
    """A container that was restarted has another name; a machine that was restarted, another kernel id."""
    kernel, host = kernel_id() if is_same_kernel else "another", platform.node() if is_same_name else "4f0c2d"
    path = mark(store, kernel=kernel, host=host)
    assert take(store) == [path]


async def test_the_mark_is_renewed_even_if_it_was_deleted(store: Store) -> None:
    with closing(StoreHost(store)) as host:
        (own,) = marks(store)
        own.unlink()
        host.renew()
        assert (marks(store), own.stat().st_mode & 0o077) == ([own], 0)
    assert marks(store) == []
