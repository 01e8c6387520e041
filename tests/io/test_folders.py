"""Reports and exports are whole or not there and take nothing away; working folders are removed once theirs is dead."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from medhelm.errors import StoreFullError, UserError
from medhelm.io import folders as work_folders
from medhelm.io.folders import (
    DEAD,
    EXPORT_MANIFEST,
    PREFIX,
    REPLACED,
    REPORT_MANIFEST,
    WorkFolder,
    check_export,
    check_report,
    clear_leftovers,
    delete_folder,
    new_export,
    write_report,
)

FILES = {"README.md": b"# hello\n", "tables/table1.csv": b"a,b\n"}


def hidden(folder: Path) -> list[str]:
    """What was left beside a report."""
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_report_is_its_files_and_a_list_of_them_and_is_replaced_whole(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "report"
    folder.mkdir(parents=True)
    (folder / ".DS_Store").write_bytes(b"x")  # an empty folder is taken
    write_report(folder, FILES, {"made": "now"})
    found = contents(folder)
    manifest = json.loads(found.pop(REPORT_MANIFEST))
    assert found == FILES
    assert (manifest["medhelm_report"], manifest["made"], set(manifest["files"])) == (1, "now", set(FILES))
    (folder / "README.md").unlink()
    write_report(folder, {"README.md": b"new\n"}, {})
    assert set(contents(folder)) == {"README.md", REPORT_MANIFEST}
    assert hidden(folder.parent) == []


def test_what_is_somebodys_own_is_not_taken_away(tmp_path: Path) -> None:
    """All of it is named at once, and long lists are cut."""
    folder = tmp_path / "report"
    write_report(folder, FILES, {})
    (folder / "tables" / "table1.csv").write_text("mine")
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text("ref")
    (folder / "figures").mkdir()
    (folder / "elsewhere").symlink_to(folder.parent)
    for number in range(9):
        (folder / f"note{number}.txt").write_text("mine")
    before = contents(folder)
    with pytest.raises(UserError) as told:
        write_report(folder, {"README.md": b"new"}, {})
    foreign, changed = str(told.value).splitlines()
    assert "not part of the report: .git/HEAD, elsewhere, figures, note0.txt, note1.txt and 7 more" in foreign
    assert "changed by hand: tables/table1.csv" in changed
    assert contents(folder) == before
    assert hidden(tmp_path) == []


def test_what_is_no_report_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for name in ("file", "link"):
        with pytest.raises(UserError, match="is a file or a link"):
            check_report(tmp_path / name)
    for manifest in ("", "[]", '{"medhelm_report": 2, "files": {}}', '{"medhelm_report": 1, "files": []}'):
        (tmp_path / "real" / REPORT_MANIFEST).write_text(manifest)
        with pytest.raises(UserError, match="not empty and not a medhelm report"):
            check_report(tmp_path / "real")
    monkeypatch.chdir(tmp_path / "real")
    with pytest.raises(UserError, match="is the current folder"):
        check_report(Path())


@pytest.mark.parametrize("method", ["write_bytes", "rename"])
@pytest.mark.parametrize(
    ("error", "raised"),
    [(OSError(28, "No space left on device"), StoreFullError), (KeyboardInterrupt("^C"), KeyboardInterrupt)],
)
def test_a_failure_on_the_way_leaves_the_old_report_and_nothing_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, error: BaseException, raised: type[BaseException]
) -> None:
    folder = tmp_path / "report"
    write_report(folder, FILES, {})
    before, real, n_calls = contents(folder), getattr(Path, method), count(1)

    def failing(*arguments: Any) -> Any:
        if next(n_calls) == 2:
            raise error
        return real(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(Path, method, failing)
        with pytest.raises(raised, match=r"cannot be written: No space left|\^C"):
            write_report(folder, {**FILES, "README.md": b"new"}, {})
    assert contents(folder) == before
    assert hidden(tmp_path) == []


# --- exports ----------------------------------------------------------------------------------------------------------


def put(folder: Path, name: str = "table.csv") -> None:
    with new_export(folder, "csv", {"medhelm": "1"}) as new:
        (new / name).write_text("a\n", encoding="utf-8")


def test_an_export_is_written_and_replaced_as_a_whole(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "out"
    folder.mkdir(parents=True)  # an empty folder is taken
    for name in ("old.csv", "new.csv"):
        put(folder, name)
        assert sorted(path.name for path in folder.iterdir()) == [EXPORT_MANIFEST, name]
        marker = json.loads((folder / EXPORT_MANIFEST).read_text(encoding="utf-8"))
        assert marker == {"medhelm_export": "csv", "entries": [name, EXPORT_MANIFEST], "medhelm": "1"}
    assert [path.name for path in folder.parent.iterdir()] == ["out"]


def test_what_failed_leaves_the_older_export_as_it_was(tmp_path: Path) -> None:
    put(tmp_path / "out")
    for error, raised in ((RuntimeError("no"), RuntimeError), (OSError(28, "No space left on device"), StoreFullError)):
        with pytest.raises(raised), new_export(tmp_path / "out", "csv", {}) as new:
            (new / "table.csv").write_text("half", encoding="utf-8")
            raise error
    assert (tmp_path / "out" / "table.csv").read_text(encoding="utf-8") == "a\n"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        (EXPORT_MANIFEST, '{"medhelm_export": "helm", "entries": []}', "an export of kind `helm`"),
        (EXPORT_MANIFEST, "{", "not a medhelm export"),
        (EXPORT_MANIFEST, '{"medhelm_export": "csv", "entries": 3}', "holds more than the export"),
        ("notes.txt", "mine", "more than the export: notes.txt"),
        ("../out", "mine", "is a file"),
    ],
)
def test_other_things_are_refused_and_nothing_changes(tmp_path: Path, name: str, content: str, words: str) -> None:
    folder = tmp_path / "out"
    if name != "../out":
        put(folder)
    (folder if name == "../out" else folder / name).write_text(content, encoding="utf-8")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UserError, match=words):
        check_export(folder, "csv")
    with pytest.raises(UserError, match=words), new_export(folder, "csv", {}):
        pass
    assert sorted(tmp_path.rglob("*")) == before


# --- reports that are killed on the way -------------------------------------------------------------------------------


WRITER = """
import os, signal, sys
from pathlib import Path
from medhelm.io.folders import write_report

stop_at, calls = int(sys.argv[2]), 0

def killing(real):
    def counted(*arguments, **options):
        global calls
        calls += 1
        if calls == stop_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **options)
    return counted

Path.write_bytes, Path.write_text, Path.rename = map(killing, (Path.write_bytes, Path.write_text, Path.rename))
write_report(Path(sys.argv[1]), {"README.md": b"new", "index.html": b"new", "tables/a.csv": b"new"}, {})
print(calls)
"""
"""Writes a report and is killed just before its n-th change on the disk, or says how many there were."""


def killed_at(folder: Path, stop_at: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WRITER, str(folder), str(stop_at)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def is_whole(folder: Path) -> bool:
    """Whether a folder is a report with all its files as they were written."""
    listed = json.loads((folder / "report.json").read_text(encoding="utf-8"))["files"]
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    digests = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in listed}
    return found == {*listed, "report.json"} and digests == listed


@pytest.mark.parametrize(("stop_at", "has_old_report"), [(1, False), (4, True), (5, True)])
def test_a_report_is_the_new_one_or_the_old_one_or_not_there(
    tmp_path: Path, stop_at: int, has_old_report: bool
) -> None:
    folder = tmp_path / "report"
    if has_old_report:
        write_report(folder, {"README.md": b"old"}, {})
    assert killed_at(folder, stop_at).returncode == -signal.SIGKILL
    assert folder.exists() == has_old_report
    if has_old_report:
        assert (is_whole(folder), (folder / "README.md").read_bytes()) == (True, b"old")
    done = killed_at(folder, 0)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 5, "three files, the list, and one renaming"
    assert (is_whole(folder), (folder / "README.md").read_bytes()) == (True, b"new")


# --- working folders: removed by the next process if theirs was killed ------------------------------------------------

KILLED = """
import os, signal, sys
from pathlib import Path
from medhelm.io.folders import WorkFolder
work = WorkFolder(Path(sys.argv[1]))
(work.path / "text").write_text("canary")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def nothing_cleared_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_folders, "_cleared", set())


def leave(folder: Path) -> Path:
    """Let a process be killed while it has a working folder; return that folder."""
    done = subprocess.run([sys.executable, "-c", KILLED, str(folder)], check=False)
    assert done.returncode == -signal.SIGKILL
    (left,) = folder.glob(f"{PREFIX}*")
    assert (left / "text").read_text() == "canary"
    return left


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX locks")
def test_the_folder_of_a_living_process_stays(tmp_path: Path) -> None:
    with WorkFolder(tmp_path) as work:
        (work.path / "text").write_text("in progress")
        work_folders._cleared.clear()
        clear_leftovers(tmp_path)
        assert (work.path / "text").exists()
        assert work.path.stat().st_mode & 0o777 == 0o700
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX locks")
def test_a_leftover_of_a_killed_process_is_removed_and_a_link_is_not_followed(tmp_path: Path) -> None:
    leave(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").touch()
    (tmp_path / f"{PREFIX}12345678").symlink_to(tmp_path / "mine")
    clear_leftovers(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"mine", f"{PREFIX}12345678"}
    assert (tmp_path / "mine" / "file").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX locks")
@pytest.mark.parametrize("is_there", [False, True])
def test_older_output_that_was_being_replaced_goes_back_if_it_is_the_only_copy(tmp_path: Path, is_there: bool) -> None:
    left = leave(tmp_path)
    for place, text in ((left / REPLACED, "old"), (tmp_path, "new"))[: 1 + is_there]:
        (place / "report").mkdir(parents=True)
        (place / "report" / "page").write_text(text)
    clear_leftovers(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["report"]
    assert (tmp_path / "report" / "page").read_text() == ("new" if is_there else "old")


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX locks")
def test_a_folder_is_renamed_before_it_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So code that still knows its name can neither write into it nor put it in place."""
    folder = tmp_path / ".new-run"
    folder.mkdir()
    (folder / "text").write_text("canary")

    def fail(dead: Path) -> None:
        assert not folder.exists()
        assert (dead / "text").exists()
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("shutil.rmtree", fail)
    with pytest.raises(OSError, match="Input/output error"):
        delete_folder(folder)
    monkeypatch.undo()
    (dead,) = tmp_path.iterdir()
    assert dead.name.startswith(DEAD)
    delete_folder(folder)  # nothing happens
    delete_folder(dead)
    assert list(tmp_path.iterdir()) == []
