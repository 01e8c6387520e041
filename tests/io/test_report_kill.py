"""A report that is killed on the way leaves the old one, or nothing: never a half."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from medhelm.io.folders import write_report

WRITER = """
import os, signal, sys
from pathlib import Path
from medhelm.io.folders import write_report

stop_at, calls = int(sys.argv[2]), 0

def killing(name):
    real = getattr(Path, name)
    def counted(*arguments, **options):
        global calls
        calls += 1
        if calls == stop_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **options)
    return counted

for name in ("write_bytes", "write_text", "rename"):
    setattr(Path, name, killing(name))
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


@pytest.mark.parametrize("stop_at", [1, 3, 5])
def test_a_new_report_is_whole_or_not_there(tmp_path: Path, stop_at: int) -> None:
    folder = tmp_path / "report"
    assert killed_at(folder, stop_at).returncode == -signal.SIGKILL
    assert not folder.exists()
    done = killed_at(folder, 0)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == 5, "three files, the list, and one renaming"
    assert is_whole(folder)


@pytest.mark.parametrize("stop_at", [2, 4, 5])
def test_the_old_report_stays_until_the_new_one_is_whole(tmp_path: Path, stop_at: int) -> None:
    folder = tmp_path / "report"
    write_report(folder, {"README.md": b"old"}, {})
    assert killed_at(folder, stop_at).returncode == -signal.SIGKILL
    assert is_whole(folder)
    assert (folder / "README.md").read_bytes() == b"old"
    assert killed_at(folder, 0).returncode == 0
    assert is_whole(folder)
    assert (folder / "README.md").read_bytes() == b"new"
