"""Places that cannot be written: one sentence with the place, the reason and the fix, and nothing half-written."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tests.support.cli import Medhelm, assert_refused
from tests.support.evaluated_store import copy_of_store

OUTPUTS = {
    "benchmarks new": ("benchmarks", "new", "sepsis", "--out", "place"),
    "benchmarks new --from": ("benchmarks", "new", "sepsis", "--out", "place", "--from", "rows.csv"),
    "data sample": ("data", "sample", "pubmed_qa", "--out", "place"),
    "export csv": ("export", "csv", "place/out"),
    "export helm": ("export", "helm", "place/out"),
    "export card": ("export", "card", "place/out"),
    "export card FILE": ("export", "card", "place/card.html"),
    "export site": ("export", "site", "place/out"),
    "report": ("report", "place/out"),
    "leaderboard -o": ("leaderboard", "-o", "place/board.csv", "--format", "csv"),
    "agreement sample": ("agreement", "sample", "place/rate.csv", "--size", "2"),
}
"""Commands that write to the folder `place`, outside the store."""


@pytest.fixture
def place(
    tmp_path: Path, medhelm: Medhelm, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """An empty folder beside a store and a table."""
    store = copy_of_store(medhelm, tmp_path, tmp_path_factory.getbasetemp() / "store-beside-places")
    monkeypatch.setenv("MEDHELM_STORE", str(store))
    (tmp_path / "rows.csv").write_text("id,question,answer\n1,why?,yes\n2,how?,no\n3,who?,yes\n", encoding="utf-8")
    (tmp_path / "place").mkdir()
    return tmp_path / "place"


@pytest.mark.parametrize(("number", "code"), [(errno.EROFS, 2), (errno.ENOSPC, 4)])
@pytest.mark.parametrize("name", OUTPUTS)
def test_a_folder_that_cannot_be_made_is_one_sentence(
    place: Path, medhelm: Medhelm, monkeypatch: pytest.MonkeyPatch, name: str, number: int, code: int
) -> None:
    """A mode would not do: root could write in spite of it."""
    mkdir = os.mkdir

    def refused(path: str, *options: object, **more: object) -> None:
        if Path(path).absolute().is_relative_to(place):
            raise OSError(number, os.strerror(number), str(path))
        mkdir(path, *options, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "mkdir", refused)
    done = medhelm(*OUTPUTS[name])
    assert done.code == code, done.err
    assert "place" in done.err
    assert f"cannot be written: {os.strerror(number)}. " in done.err
    assert "another f" in done.err.lower()
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("name", ["benchmarks new", "benchmarks new --from", "data sample"])
def test_a_disk_that_fills_up_leaves_nothing_half_written(
    place: Path, medhelm: Medhelm, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    write_text = Path.write_text

    def full(self: Path, *_: object, **__: object) -> None:
        write_text(self, "half", encoding="utf-8")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", full)
    monkeypatch.setattr("medhelm.benchmarks.data.sample_files.write_text", full)
    assert_refused(medhelm(*OUTPUTS[name]), "No space left on device. Free some space, or name another folder.", code=4)
    assert [path for path in place.rglob("*") if path.is_file()] == []
