"""No text survives a kill in a hidden or temporary place: the next command clears it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")

SAMPLE = ("--tier", "sample")
RUN = ("run", "pubmed_qa", *SAMPLE, "--model")
JOBS = {
    "run": ((*RUN, "baseline/lexical", "--store", "new"), (*RUN, "baseline/majority", "--store", "new")),
    "verify": (("verify", *SAMPLE), ("runs", "list")),
    "release": (("release", "r1", *SAMPLE), ("runs", "list")),
    "export": (("export", "csv", "tables", *SAMPLE), ("export", "csv", "others", *SAMPLE)),
    "report": (("report", "pages", *SAMPLE), ("leaderboard", *SAMPLE, "-o", "board.txt")),
}
"""Name -> the command that is killed, and the next one: another in the same store, or one that writes to the folder."""

DRIVER = """
import contextlib, json, os, shutil, signal, sys, tempfile
from pathlib import Path

import duckdb, numpy
import medhelm.cli, medhelm.evaluation.evaluate, medhelm.results.verification, medhelm.extensions.paper.write

root, jobs = Path(sys.argv[1]), json.loads(sys.argv[2])
events = {"os.rename", "os.remove", "os.mkdir", "shutil.rmtree"}

def run(command, kill_at=0):
    # Returns True if the command was killed before the kill_at-th event.
    child = os.fork()
    if child:
        return os.WIFSIGNALED(os.waitpid(child, 0)[1])
    seen = 0
    def count(event, arguments):
        nonlocal seen
        if event in events:
            seen += 1
            if seen == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(count)
    os.umask(0o077)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    sys.argv = ["medhelm", *command]
    with contextlib.suppress(SystemExit):
        medhelm.cli.main()
    medhelm.__main__.atexit._run_exitfuncs()
    os._exit(0)

import medhelm.__main__
found = {}
for name, job in jobs.items():
    kills = 0
    while True:
        shutil.rmtree(root / "work", ignore_errors=True)
        shutil.copytree(root / "base", root / "work")
        os.chdir(root / "work")
        os.environ["TMPDIR"] = tempfile.tempdir = str(root / "work" / "tmp")
        os.mkdir("tmp")
        if not run(job[0], kills + 1):
            break
        kills += 1
        run(job[1])
        hidden = sorted(str(path) for path in Path().rglob("*") if path.name.startswith("."))
        found.setdefault(name, []).append([*hidden, *(str(path) for path in Path("tmp").rglob("*"))])
print(json.dumps(found))
"""
"""Kills each command before each event in turn; prints the hidden and temporary files that the next command leaves."""


@pytest.mark.long
def test_the_next_command_clears_what_a_killed_one_left(tmp_path: Path) -> None:
    """Killed before any change on the disk."""
    (tmp_path / "base").mkdir()
    command = [sys.executable, "-m", "medhelm", *RUN, "baseline/majority"]
    subprocess.run(command, cwd=tmp_path / "base", capture_output=True, check=True)
    driver = [sys.executable, "-c", DRIVER, str(tmp_path), json.dumps(JOBS)]
    done = subprocess.run(driver, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, list[list[str]]] = json.loads(done.stdout)
    assert list(found) == list(JOBS)
    assert not [(name, left) for name, kills in found.items() for left in kills if left]
