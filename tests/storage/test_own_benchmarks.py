"""Folders of benchmarks that a store remembers: after moves, and for files that are damaged or hostile."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from medhelm.storage.own_benchmarks import FOLDERS_FILE, RememberedBenchmark, remember_folders, remembered_folders
from medhelm.storage.store import Store, create


@pytest.fixture
def store(tmp_path: Path) -> Store:
    (tmp_path / "a" / "benchmarks" / "ward").mkdir(parents=True)
    return create(tmp_path / "a" / "store")


def places(**folders: Path) -> dict[str, RememberedBenchmark]:
    return {name: RememberedBenchmark(folder=folder) for name, folder in folders.items()}


def test_a_definition_is_kept_and_replaced_and_a_name_is_never_a_path(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "a" / "benchmarks" / "ward"
    for files in ({"benchmark.yaml": "name: ward", "hooks.left_out": ""}, {"benchmark.yaml": "name: ward  # new"}):
        remember_folders(store, {"ward": RememberedBenchmark(folder=folder, digest="d", files=files)})
        found = remembered_folders(store.folder)["ward"]
        assert (found.files, found.digest) == (files, "d")
        assert found.copy == store.folder / "definitions" / "ward"
        assert all(path.stat().st_mode & 0o077 == 0 for path in found.copy.iterdir())
    file = store.folder / FOLDERS_FILE
    file.write_text(file.read_text(encoding="utf-8").replace('"ward"', '"../definitions/ward"'), encoding="utf-8")
    assert remembered_folders(store.folder)["../definitions/ward"].copy is None


def test_a_folder_is_found_where_it_was_and_after_moves(store: Store, tmp_path: Path) -> None:
    ward, lost = tmp_path / "a" / "benchmarks" / "ward", tmp_path / "lost"
    remember_folders(store, places(ward=ward, lost=lost))
    remember_folders(store, places(ward=ward))
    assert remembered_folders(store.folder) == places(ward=ward, lost=lost)
    alone = shutil.copytree(store.folder, tmp_path / "elsewhere" / "store")
    assert remembered_folders(alone)["ward"].folder == ward  # by its absolute path
    both = shutil.move(tmp_path / "a", tmp_path / "b")
    assert remembered_folders(Path(both) / "store")["ward"].folder == tmp_path / "b" / "benchmarks" / "ward"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"benchmarks": []}',
        '{"benchmarks": {"ward": "x"}}',
        '{"benchmarks": {"ward": {}}}',
        "[" * 9999,
    ],
    ids=range(8),
)
def test_a_damaged_file_remembers_nothing_and_is_replaced(store: Store, content: str) -> None:
    file = store.folder / FOLDERS_FILE
    file.write_text(content, encoding="utf-8")
    assert remembered_folders(store.folder) == {}
    remember_folders(store, places(ward=Path("/wards/ward")))
    assert json.loads(file.read_text(encoding="utf-8"))["benchmarks"].keys() == {"ward"}
    assert remembered_folders(store.folder) == places(ward=Path("/wards/ward"))
    assert file.stat().st_mode & 0o077 == 0


def test_a_store_that_cannot_be_written_is_left_alone(store: Store) -> None:
    (store.folder / FOLDERS_FILE).mkdir()
    remember_folders(store, places(ward=Path("/wards/ward")))
    assert remembered_folders(store.folder) == {}
