"""A report is whole or not there, and never takes anything away that is somebody's own."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from medhelm.errors import StoreFullError, UserError
from medhelm.io.folders import REPORT_MANIFEST, check_report, write_report

FILES = {"README.md": b"# hello\n", "tables/table1.csv": b"a,b\n"}


def hidden(folder: Path) -> list[str]:
    """What was left beside a report."""
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_report_is_its_files_and_a_list_of_them(tmp_path: Path) -> None:
    write_report(tmp_path / "deep" / "report", FILES, {"made": "now"})
    found = contents(tmp_path / "deep" / "report")
    manifest = json.loads(found.pop(REPORT_MANIFEST))
    assert found == FILES
    assert manifest["medhelm_report"] == 1
    assert manifest["made"] == "now"
    assert set(manifest["files"]) == set(FILES)
    assert hidden(tmp_path / "deep") == []


def test_a_new_report_replaces_the_old_one_whole(tmp_path: Path) -> None:
    folder = tmp_path / "report"
    folder.mkdir()
    (folder / ".DS_Store").write_bytes(b"x")  # an empty folder is taken
    write_report(folder, FILES, {})
    (folder / "README.md").unlink()
    write_report(folder, {"README.md": b"new\n"}, {})
    assert set(contents(folder)) == {"README.md", REPORT_MANIFEST}
    assert hidden(tmp_path) == []


def foreign(folder: Path) -> None:
    (folder / "notes.txt").write_text("mine")


def changed(folder: Path) -> None:
    (folder / "tables" / "table1.csv").write_text("mine")


def repository(folder: Path) -> None:
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text("ref")


def empty_folder(folder: Path) -> None:
    (folder / "figures").mkdir()


def link(folder: Path) -> None:
    (folder / "elsewhere").symlink_to(folder.parent)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (foreign, "not part of the report: notes.txt"),
        (changed, "changed by hand: tables/table1.csv"),
        (repository, "not part of the report: .git/HEAD"),
        (empty_folder, "not part of the report: figures"),
        (link, "not part of the report: elsewhere"),
    ],
)
def test_what_is_somebodys_own_is_not_taken_away(tmp_path: Path, spoil: object, words: str) -> None:
    folder = tmp_path / "report"
    write_report(folder, FILES, {})
    spoil(folder)  # type: ignore[operator]
    before = contents(folder)
    with pytest.raises(UserError, match=words):
        write_report(folder, {"README.md": b"new"}, {})
    assert contents(folder) == before
    assert hidden(tmp_path) == []


def test_all_problems_are_told_at_once_and_long_lists_are_cut(tmp_path: Path) -> None:
    folder = tmp_path / "report"
    write_report(folder, FILES, {})
    changed(folder)
    for number in range(9):
        (folder / f"note{number}.txt").write_text("mine")
    with pytest.raises(UserError) as told:
        check_report(folder)
    lines = str(told.value).splitlines()
    assert len(lines) == 2
    assert "note4.txt and 4 more" in lines[0] and "changed by hand" in lines[1]


@pytest.mark.parametrize(
    "manifest", ["", "{}", "[]", "null", '{"medhelm_report": 2, "files": {}}', '{"medhelm_report": 1, "files": []}',
                 '{"medhelm_report": 1, "files": {"a": 1}}']
)  # fmt: skip
def test_a_folder_with_another_report_json_is_not_ours(tmp_path: Path, manifest: str) -> None:
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / REPORT_MANIFEST).write_text(manifest)
    with pytest.raises(UserError, match="not empty and not a medhelm report"):
        check_report(tmp_path / "report")


def test_files_links_and_the_folder_one_is_in_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for name in ("file", "link"):
        with pytest.raises(UserError, match="is a file or a link"):
            check_report(tmp_path / name)
    monkeypatch.chdir(tmp_path / "real")
    with pytest.raises(UserError, match="is the current folder"):
        check_report(Path())


@pytest.mark.parametrize(
    ("module", "name", "calls", "error", "raised"),
    [
        (Path, "write_bytes", 2, OSError(28, "No space left on device"), StoreFullError),
        (Path, "rename", 2, OSError(5, "Input/output error"), StoreFullError),
        (json, "dumps", 1, KeyboardInterrupt(), KeyboardInterrupt),
    ],
    ids=["full disk", "failed exchange", "interruption"],
)
def test_a_failure_on_the_way_leaves_the_old_report_and_nothing_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: Any, name: str, calls: int, error: BaseException,
    raised: type[BaseException],
) -> None:  # fmt: skip
    folder = tmp_path / "report"
    write_report(folder, FILES, {})
    before, real, made = contents(folder), getattr(module, name), []
    words = f"cannot be written: {error.strerror}" if isinstance(error, OSError) else None

    def failing(*arguments: Any, **options: Any) -> Any:
        made.append(arguments)
        if len(made) == calls:
            raise error
        return real(*arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(module, name, failing)
        with pytest.raises(raised, match=words):
            write_report(folder, {**FILES, "README.md": b"new"}, {})
    assert contents(folder) == before
    assert hidden(tmp_path) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_place_that_may_not_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    with pytest.raises(UserError, match=r"cannot be written: .*\. Name another folder\.$"):
        write_report(tmp_path / "closed" / "report", FILES, {})


def test_nan_never_reaches_the_list(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        write_report(tmp_path / "report", FILES, {"value": float("nan")})
    assert list(tmp_path.iterdir()) == []
