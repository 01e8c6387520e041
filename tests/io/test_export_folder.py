"""Folders that are written for others."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from medhelm.errors import StoreFullError, UserError
from medhelm.io.folders import EXPORT_MANIFEST, check_export, new_export


def put(folder: Path, name: str = "table.csv", text: str = "a\n", kind: str = "csv") -> None:
    with new_export(folder, kind, {"medhelm": "1"}) as new:
        (new / name).write_text(text, encoding="utf-8")


def test_a_new_folder_is_there_when_all_went_well(tmp_path: Path) -> None:
    put(tmp_path / "deep" / "out")
    assert (tmp_path / "deep" / "out" / "table.csv").read_text(encoding="utf-8") == "a\n"
    marker = json.loads((tmp_path / "deep" / "out" / EXPORT_MANIFEST).read_text(encoding="utf-8"))
    assert marker == {"medhelm_export": "csv", "entries": ["table.csv", EXPORT_MANIFEST], "medhelm": "1"}
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["out"]


def test_an_export_of_the_same_kind_is_replaced_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()  # an empty folder is taken
    put(tmp_path / "out", "old.csv")
    put(tmp_path / "out", "new.csv")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [EXPORT_MANIFEST, "new.csv"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_failed_leaves_the_older_export_as_it_was(tmp_path: Path) -> None:
    put(tmp_path / "out", text="old\n")
    with pytest.raises(RuntimeError), new_export(tmp_path / "out", "csv", {}) as new:
        (new / "table.csv").write_text("half", encoding="utf-8")
        raise RuntimeError
    assert (tmp_path / "out" / "table.csv").read_text(encoding="utf-8") == "old\n"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_full_disk_is_said_in_words(tmp_path: Path) -> None:
    with pytest.raises(StoreFullError, match="No space left"), new_export(tmp_path / "out", "csv", {}):
        raise OSError(28, "No space left on device")
    assert list(tmp_path.iterdir()) == []


def a_file(folder: Path) -> None:
    folder.write_text("x", encoding="utf-8")


def own_things(folder: Path) -> None:
    (folder / "mine").mkdir(parents=True)


def another_kind(folder: Path) -> None:
    put(folder, kind="helm")


def notes_beside(folder: Path) -> None:
    put(folder)
    (folder / "notes.txt").write_text("x", encoding="utf-8")


def marked(text: str) -> Callable[[Path], None]:
    def prepare(folder: Path) -> None:
        put(folder)
        (folder / EXPORT_MANIFEST).write_text(text, encoding="utf-8")

    return prepare


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        (a_file, "is a file"),
        (own_things, "not a medhelm export"),
        (another_kind, "an export of kind `helm`"),
        (notes_beside, "more than the export: notes.txt"),
        (marked("[]"), "not a medhelm export"),
        (marked("{"), "not a medhelm export"),
        (marked('{"medhelm_export": "csv", "entries": 3}'), "holds more than the export"),
    ],
)
def test_a_folder_with_other_things_is_refused(tmp_path: Path, prepare: Callable[[Path], None], words: str) -> None:
    folder = tmp_path / "out"
    prepare(folder)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UserError, match=words):
        check_export(folder, "csv")
    with pytest.raises(UserError, match=words), new_export(folder, "csv", {}):
        pass
    assert sorted(tmp_path.rglob("*")) == before
