"""Working folders: removed by the next process if theirs was killed, and never while it lives."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from medhelm.io import folders as work_folders
from medhelm.io.folders import DEAD, PREFIX, REPLACED, WorkFolder, clear_leftovers, delete_folder

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX locks")

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


def test_the_folder_of_a_living_process_stays(tmp_path: Path) -> None:
    with WorkFolder(tmp_path) as work:
        (work.path / "text").write_text("in progress")
        work_folders._cleared.clear()
        clear_leftovers(tmp_path)
        assert (work.path / "text").exists()
        assert work.path.stat().st_mode & 0o777 == 0o700
    assert not list(tmp_path.iterdir())


def test_a_leftover_of_a_killed_process_is_removed_and_a_link_is_not_followed(tmp_path: Path) -> None:
    leave(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").touch()
    (tmp_path / f"{PREFIX}12345678").symlink_to(tmp_path / "mine")
    clear_leftovers(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"mine", f"{PREFIX}12345678"}
    assert (tmp_path / "mine" / "file").exists()


@pytest.mark.parametrize("is_there", [False, True])
def test_older_output_that_was_being_replaced_goes_back_if_it_is_the_only_copy(tmp_path: Path, is_there: bool) -> None:
    left = leave(tmp_path)
    for place, text in ((left / REPLACED, "old"), (tmp_path, "new"))[: 1 + is_there]:
        (place / "report").mkdir(parents=True)
        (place / "report" / "page").write_text(text)
    clear_leftovers(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["report"]
    assert (tmp_path / "report" / "page").read_text() == ("new" if is_there else "old")


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
