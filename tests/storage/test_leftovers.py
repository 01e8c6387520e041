"""Leftovers of killed processes in a store are removed; runs that have no other copy stay."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from filelock import FileLock

from medhelm.storage import store as leftovers
from medhelm.storage.store import Store, create, open_store, write_run
from tests.support.stores import make_run


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = create(tmp_path / "store")
    (made.folder / "runs" / "wards").mkdir()
    return made


def folder_of(store: Store, name: str, *files: str) -> Path:
    folder = store.folder / "runs" / "wards" / name
    folder.mkdir()
    for file in files:
        if file == "run.json":
            write_run(folder, make_run("wards", "m"))
        else:
            (folder / file).write_text("canary")
    return folder


def names(store: Store) -> list[str]:
    """Clear the store; return the names of the folders in `runs/wards`."""
    leftovers._cleared.clear()
    open_store(store.folder)
    return sorted(path.name for path in (store.folder / "runs" / "wards").iterdir())


def test_leftovers_of_the_first_version_are_removed_after_a_day_unless_they_are_the_only_copy(store: Store) -> None:
    gone, kept = folder_of(store, ".gone-0123abcd", "records.parquet"), folder_of(store, ".kept-0123abcd", "run.json")
    folder_of(store, ".fresh-0123abcd", "records.parquet")
    spool = store.folder / "prompts" / ".wards-1-2.parquet-0123abcd.jsonl"
    spool.write_text("canary")
    for path in (gone, kept, spool):
        os.utime(path, (0, 0))
    assert names(store) == [".fresh-0123abcd", ".kept-0123abcd"]
    assert not spool.exists()


def test_half_a_run_is_removed_unless_a_process_is_writing_it(store: Store) -> None:
    folder_of(store, ".new-m-0123456789", "records.parquet")
    with FileLock(store.lock_file("wards", "m")):
        assert names(store) == [".new-m-0123456789"]
    assert names(store) == []


@pytest.mark.parametrize("length", [0, 1, 300])
def test_half_a_run_file_is_no_run(store: Store, length: int) -> None:
    """Version 0.1 wrote it in place, and a power failure can leave it empty."""
    folder = folder_of(store, ".new-m-0123456789", "records.parquet", "run.json")
    os.truncate(folder / "run.json", length)
    assert names(store) == []


def test_a_run_file_appears_whole(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is killed before the rename leaves a folder without it, which is no run."""
    seen = []
    monkeypatch.setattr(Path, "replace", lambda new, path: seen.append((path.name, path.exists(), new.read_bytes())))
    folder = folder_of(store, ".new-m-0123456789", "run.json")
    ((name, existed, content),) = seen
    assert (name, existed, list(folder.iterdir())) == ("run.json", False, [])
    assert json.loads(content)["benchmark"] == "wards"


def test_a_whole_run_that_was_not_put_in_place_is_put_there(store: Store) -> None:
    folder_of(store, ".new-m-0123456789", "records.parquet", "run.json")
    assert names(store) == ["m-0123456789"]
    folder_of(store, ".new-m-0123456789", "records.parquet", "run.json")
    assert names(store) == ["m-0123456789"]


def test_a_run_that_was_being_replaced_returns_to_its_place(store: Store) -> None:
    folder_of(store, ".new-m-0123456789", "run.json")
    folder_of(store, ".old-m-0123456789", "run.json")
    with FileLock(store.lock_file("wards", "m")):
        assert names(store) == [".new-m-0123456789", ".old-m-0123456789"]
    assert names(store) == ["m-0123456789"]
