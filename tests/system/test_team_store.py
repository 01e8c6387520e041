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

from tests.support.servers.openai import Answer, Server

FIRST, SECOND, STRANGER, GROUP = 61_801, 61_802, 61_803, 61_800
"""Numbers of users and a group that no machine uses."""

YES = {
    "choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 10, "completion_tokens": 1},
}

# The interpreter may lie in a folder of root alone. So the commands run once before, which imports what they need.
PROGRAM = """
import contextlib, io, json, os, sys
from medhelm.cli import main
user, group, mask, folder, trial, commands = json.loads(sys.argv[1])
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
os.setgroups([]); os.setgid(group); os.setuid(user); os.umask(mask)
json.dump([run(command, "store") for command in commands], sys.stdout)
"""

pytestmark = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become two other users"
)


def as_user(user: int, folder: Path, *commands: tuple[str, ...], group: int = GROUP, mask: int = 0o022) -> list[Any]:
    """Run commands on the store as another user; return exit code, output and errors of each."""
    given = json.dumps([user, group, mask, str(folder), str(folder / f"trial-{user}"), commands])
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


@pytest.mark.parametrize("mask", [0o022, pytest.param(0o027, marks=pytest.mark.long)])
def test_both_users_run_and_read(team: Path, server: Server, mask: int) -> None:
    server.script(Answer(body=YES))
    models = team / "own.yaml"
    models.write_text(f"m: {{base_url: '{server.url}/v1', price: {{input: 1, output: 2}}}}\n", encoding="utf-8")
    models.chmod(0o644)
    model = ("--model", "m", "--models", str(models))
    sample = ("medbullets", "--tier", "sample")
    first = as_user(
        FIRST,
        team,
        ("run", *sample, "--limit", "2", *model),
        ("budget", "set", "5"),
        ("run", *sample, "--model", "baseline/majority"),
        mask=mask,
    )
    assert [code for code, _, _ in first] == [0, 0, 0], first
    n_sent = server.count
    second = as_user(
        SECOND,
        team,
        ("run", *sample, "--limit", "3", *model),
        ("run", *sample, "--model", "baseline/majority"),
        ("run", "pubmed_qa", "--tier", "sample", "--model", "baseline/random"),
        ("budget", "set", "6"),
        ("budget", "show"),
        ("audit", "show"),
        ("audit", "verify"),
        ("leaderboard",),
        mask=mask,
    )
    assert [code for code, _, _ in second] == [0] * 8, second
    assert server.count > n_sent
    second = as_user(SECOND, team, ("runs", "remove", "--benchmark", "pubmed_qa", "--yes"), mask=mask)
    assert [code for code, _, _ in second] == [0], second
    again = as_user(
        FIRST,
        team,
        ("run", *sample, "--limit", "3", *model),
        ("audit", "verify"),
        ("runs", "remove", "--benchmark", "medbullets", "--yes"),
        mask=mask,
    )
    assert [code for code, _, _ in again] == [0, 0, 0], again
    for path in (team / "store").rglob("*"):
        about = path.lstat()
        assert not about.st_mode & 0o007, f"{path}: {stat.filemode(about.st_mode)}"
        assert about.st_gid == GROUP, path
    stranger = as_user(STRANGER, team, ("leaderboard",), ("audit", "show"), group=STRANGER, mask=mask)
    assert all(code == 2 for code, _, _ in stranger), stranger


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
