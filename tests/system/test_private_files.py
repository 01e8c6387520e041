"""Files of the command line are readable by their owner only, and by the group of a store that is shared."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from medhelm.storage.store import create
from tests.support.cli import Medhelm

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")

RUN = ("run", "pubmed_qa", "--tier", "sample", "--model", "baseline/majority")


@pytest.fixture(scope="module")
def open_folder() -> Iterator[Path]:
    """A folder that every user of the machine can enter, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def run(*command: str, folder: Path) -> None:
    """Run a command in a process of its own, under the usual umask."""
    subprocess.run(
        [sys.executable, "-m", "medhelm", *command], cwd=folder, umask=0o022, capture_output=True, check=True
    )


def modes(folder: Path) -> dict[str, int]:
    """The permissions of everything in a folder."""
    return {path.relative_to(folder).as_posix(): path.stat().st_mode & 0o777 for path in folder.rglob("*")}


def test_all_that_commands_write_is_for_its_owner(open_folder: Path) -> None:
    run(*RUN, folder=open_folder)
    run("export", "csv", "tables", "--tier", "sample", folder=open_folder)
    run("leaderboard", "--tier", "sample", "-o", "board.txt", folder=open_folder)
    found = modes(open_folder)
    assert {"medhelm-store/cache.sqlite", "medhelm-store/prompts", "tables/records.csv", "board.txt"} <= found.keys()
    assert {name: oct(mode) for name, mode in found.items() if mode & 0o077} == {}


def test_a_store_for_a_group_stays_one(open_folder: Path) -> None:
    store = open_folder / "shared"
    store.mkdir()
    store.chmod(0o770)
    run(*RUN, "--store", "shared", folder=open_folder)
    found = modes(store)
    assert {name for name, mode in found.items() if mode & 0o007} == set()
    assert found["prompts"] == found["runs/pubmed_qa"] == 0o770
    assert store.stat().st_mode & 0o777 == 0o770


def test_an_older_store_that_all_can_read_is_announced_with_the_command_that_closes_it(
    open_folder: Path, medhelm: Medhelm
) -> None:
    store = open_folder / "older"
    create(store)
    assert medhelm("runs", "list", "--store", store).err == ""
    store.chmod(0o755)
    said = medhelm("runs", "list", "--store", store).err
    assert f"other users of this machine can read {store}" in said
    command = said.rstrip().rpartition(": ")[2]
    assert command == f"chmod -R go-rwx {store}"
    subprocess.run(command.split(), check=True)
    assert medhelm("runs", "list", "--store", store).err == ""
