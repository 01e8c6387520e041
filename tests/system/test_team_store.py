"""A store whose folder was given to a group before the first run: all members work with it, and nobody else."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.support.benchmarks.choice import chat
from tests.support.servers.openai import Server

FIRST, SECOND, STRANGER, GROUP = 61_801, 61_802, 61_803, 61_800
"""Numbers of users and a group that no machine uses."""

# The interpreter may lie in a folder of root alone. So the commands run once before, which imports what they need.
PROGRAM = """
import contextlib, io, json, os, sys
from medhelm.cli import main
user, group, folder, trial, commands = json.loads(sys.argv[1])
def run(command, store):
    sys.argv = ["medhelm", *command, "--store", store]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as ended:
            return [ended.code or 0, out.getvalue(), err.getvalue()]
os.chdir(folder)
for command in commands:
    run(command, trial)
os.setgroups([]); os.setgid(group); os.setuid(user); os.umask(0o022)
json.dump([run(command, "store") for command in commands], sys.stdout)
"""

pytestmark = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become two other users"
)


def as_user(user: int, folder: Path, *commands: tuple[str, ...], group: int = GROUP) -> list[Any]:
    """Run commands on the store as another user; return exit code, output and errors of each."""
    given = json.dumps([user, group, str(folder), str(folder / f"trial-{user}"), commands])
    usual = {name: value for name, value in os.environ.items() if not name.startswith(("MEDHELM_", "OPENAI_"))}
    environment = {**usual, "HOME": str(folder), "MEDHELM_API_KEY": "sk-test-0123456789", "TMPDIR": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, given], env=environment, capture_output=True, text=True, check=True, timeout=600
    )
    found: list[Any] = json.loads(done.stdout)
    return found


@pytest.fixture
def team() -> Iterator[Path]:
    """A folder that every user can enter, with an empty one for the group in it; pytest's own are for root alone."""
    with TemporaryDirectory(prefix="medhelm-team-") as name:
        folder = Path(name)
        folder.chmod(0o777)
        store = folder / "store"
        store.mkdir()
        os.chown(store, FIRST, GROUP)
        store.chmod(0o2770)
        yield folder


def test_both_users_run_and_read(team: Path, server: Server) -> None:
    server.script(chat("yes"))
    models = team / "own.yaml"
    models.write_text(f"m: {{base_url: '{server.url}/v1', price: {{input: 1, output: 2}}}}\n", encoding="utf-8")
    models.chmod(0o644)
    sample = ("run", "medbullets", "--tier", "sample", "--model")
    paid, baseline = (*sample, "m", "--models", str(models), "--limit"), (*sample, "baseline/majority")
    own = ("run", "pubmed_qa", "--tier", "sample", "--model", "baseline/random")
    audit = ("audit", "verify")

    def succeed(user: int, *commands: tuple[str, ...]) -> None:
        outcomes = as_user(user, team, *commands)
        assert [code for code, _, _ in outcomes] == [0] * len(commands), outcomes

    succeed(FIRST, (*paid, "2"), ("budget", "set", "5"), baseline)
    n_sent = server.count
    succeed(SECOND, (*paid, "3"), baseline, own, ("budget", "set", "6"), ("audit", "show"), audit, ("leaderboard",))
    assert server.count > n_sent
    succeed(SECOND, ("runs", "remove", "--benchmark", "pubmed_qa", "--yes"))
    succeed(FIRST, (*paid, "3"), audit, ("runs", "remove", "--benchmark", "medbullets", "--yes"))
    for path in (team / "store").rglob("*"):
        about = path.lstat()
        assert not about.st_mode & 0o007, f"{path}: {stat.filemode(about.st_mode)}"
        assert about.st_gid == GROUP, path
    stranger = as_user(STRANGER, team, ("leaderboard",), ("audit", "show"), group=STRANGER)
    assert all(code == 2 for code, _, _ in stranger), stranger


@pytest.mark.long
def test_files_of_an_earlier_version_are_opened_to_the_group_by_their_owner(team: Path) -> None:
    run = ("run", "medbullets", "--tier", "sample", "--model", "baseline/majority")
    assert as_user(FIRST, team, run)[0][0] == 0
    store = team / "store"
    for name in ("cache.sqlite", "locks/requests.lock"):
        (store / name).chmod(0o600)
    (store / "locks").chmod(0o2700)
    assert as_user(SECOND, team, run)[0][0] == 2
    assert as_user(FIRST, team, run)[0][0] == 0
    assert as_user(SECOND, team, run)[0][0] == 0
