"""Runs whose replacement is killed, at every rename and deletion, on a disk that may be read-only afterwards."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from medhelm.errors import StoreError
from medhelm.io import folders as output_folder
from medhelm.storage import store as leftovers
from medhelm.storage.run_folders import read_run_folders, remove_runs
from medhelm.storage.runs import load_runs
from medhelm.storage.store import Store, create, open_store, restore_run, write_run
from tests.support.stores import make_run, make_store

ID = "ab" * 32
BEFORE, AFTER = [1.0, 0.0], [0.0, 0.5]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX processes")


def killed_at(number: int, folder: Path) -> bool:
    """Write a run again in a process that ends before its n-th change of a name; return False if it has fewer."""
    child = os.fork()
    if child == 0:
        seen = 0

        def count(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal seen
            if event in ("os.rename", "os.remove", "os.rmdir") and ".jsonl" not in str(arguments[0]):
                seen += 1  # but for parts of a table that is being written
                if seen == number:
                    os._exit(9)

        sys.addaudithook(count)
        make_store(folder / "store", {"toy": {"openai/a": AFTER}}, id=ID)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def seen(folder: Path) -> list[tuple[float, list[str]]]:
    """Return the mean of every run that a reader sees, with its files."""
    return [
        (run.estimates["published"][run.main_metric].value, sorted(path.name for path in run.folder.iterdir()))
        for run in load_runs(open_store(folder / "store"))
        if run.folder
    ]


def kill_everywhere(folder: Path) -> None:
    """Kill the process at each change, look at the store, and write the run again. Print what was seen."""
    import duckdb  # noqa: F401 - once, before the processes are forked

    kills: list[tuple[object, object, list[str]]] = []
    while True:
        place = folder / str(len(kills) + 1)
        shutil.copytree(folder / "base", place)
        if not killed_at(len(kills) + 1, place):
            break
        after_kill = seen(place)
        killed_at(0, place)
        left = [path.name for path in (place / "store" / "runs").glob("*/.old-*")]
        kills.append((after_kill, seen(place), left))
    sys.stdout.write(json.dumps({"kills": kills, "whole": seen(place)}))


def test_a_run_survives_the_kill_of_what_replaces_it(tmp_path: Path) -> None:
    make_store(tmp_path / "base" / "store", {"toy": {"openai/a": BEFORE}}, id=ID)
    program = f"from {__name__} import kill_everywhere, Path; kill_everywhere(Path({str(tmp_path)!r}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    (new,) = found["whole"]
    assert len(found["kills"]) >= 6
    means = set()
    for after_kill, repeated, left in found["kills"]:
        ((mean, files),) = after_kill
        means.add(mean)
        assert (files, repeated, left) == (["records.parquet", "run.json"], [new], [])
    assert means == {sum(BEFORE) / len(BEFORE), new[0]}


@pytest.fixture
def moved(tmp_path: Path) -> Path:
    """The folder of a run whose process was killed between the two renames."""
    make_store(tmp_path / "store", {"toy": {"openai/a": BEFORE, "openai/b": AFTER}})
    final = load_runs(Store(tmp_path / "store"))[0].folder
    assert final is not None
    final.rename(final.with_name(f".old-{final.name}"))
    shutil.copytree(final.with_name(f".old-{final.name}"), final.with_name(f".new-{final.name}"))
    return final


def models(folder: Path) -> list[str]:
    return [run.model for run in load_runs(open_store(folder))]


def test_a_moved_run_returns_unless_a_process_replaces_it_or_the_disk_is_read_only(
    tmp_path: Path, moved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, target: Path) -> None:
        raise OSError(30, "Read-only file system")

    with FileLock(Store(tmp_path / "store").lock_file_of(moved)):
        assert models(tmp_path / "store") == ["openai/b"]
    words = rf"(?s){moved.name} is missing.*Read-only file system.*leaderboard"
    with monkeypatch.context() as patch, pytest.raises(StoreError, match=words):
        patch.setattr(Path, "rename", refuse)
        open_store(tmp_path / "store")
    assert models(tmp_path / "store") == ["openai/a", "openai/b"]


def test_of_two_runs_the_new_one_stays_unless_it_is_damaged(
    tmp_path: Path, moved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = moved.with_name(f".old-{moved.name}")
    shutil.copytree(old, moved)

    def fail_to_read(path: Path) -> str:
        raise OSError(5, "Input/output error", str(path))

    with monkeypatch.context() as patch, pytest.raises(OSError, match="Input/output error"):
        patch.setattr("medhelm.storage.store.read_confidential", fail_to_read)
        restore_run(moved)
    assert (moved.exists(), old.exists()) == (True, True), "nothing is deleted before it is known which run is whole"
    open_store(tmp_path / "store")
    assert (moved.exists(), old.exists()) == (True, False)
    shutil.copytree(moved, old)
    (moved / "run.json").write_text("{", encoding="utf-8")
    assert models(tmp_path / "store") == ["openai/a", "openai/b"]
    assert not old.exists()


@pytest.mark.parametrize("whole", [True, False])
def test_a_removed_or_half_deleted_run_does_not_come_back_from_its_leftovers(
    tmp_path: Path, moved: Path, whole: bool
) -> None:
    old = moved.with_name(f".old-{moved.name}")
    if whole:
        shutil.copytree(old, moved)
        store = Store(tmp_path / "store")
        remove_runs(store, [run for run in read_run_folders(store) if run.model == "openai/a"])
    else:
        (old / "run.json").unlink()
    assert models(tmp_path / "store") == ["openai/b"]
    assert not old.exists()


def test_files_and_folders_of_a_run_reach_the_disk_before_it_is_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[tuple[str, str]] = []
    sync, rename = output_folder._sync, Path.rename

    def synced(path: Path, flags: int) -> None:
        events.append(("sync", path.name))
        sync(path, flags)

    def renamed(self: Path, target: Path) -> Path:
        events.append(("rename", target.name))
        return rename(self, target)

    monkeypatch.setattr(output_folder, "_sync", synced)
    monkeypatch.setattr(Path, "rename", renamed)
    make_store(tmp_path / "store", {"toy": {"openai/a": BEFORE}})
    (run,) = load_runs(open_store(tmp_path / "store"))
    assert run.folder is not None
    place = events.index(("rename", run.folder.name))
    assert {("sync", "run.json"), ("sync", "records.parquet"), ("sync", f".new-{run.folder.name}")} <= {*events[:place]}
    assert ("sync", "toy") in events[place:]


# --- leftovers of killed processes ------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = create(tmp_path / "store")
    (made.folder / "runs" / "wards").mkdir()
    return made


def folder_of(store: Store, name: str, *files: str) -> Path:
    folder = store.folder / "runs" / "wards" / name
    folder.mkdir()
    for file in files:
        if file == "run.json":
            write_run(folder, make_run("wards", "m"))
        else:
            (folder / file).write_text("canary")
    return folder


def names(store: Store) -> list[str]:
    """Clear the store; return the names of the folders in `runs/wards`."""
    leftovers._cleared.clear()
    open_store(store.folder)
    return sorted(path.name for path in (store.folder / "runs" / "wards").iterdir())


def test_leftovers_of_the_first_version_are_removed_after_a_day_unless_they_are_the_only_copy(store: Store) -> None:
    gone, kept = folder_of(store, ".gone-0123abcd", "records.parquet"), folder_of(store, ".kept-0123abcd", "run.json")
    folder_of(store, ".fresh-0123abcd", "records.parquet")
    spool = store.folder / "prompts" / ".wards-1-2.parquet-0123abcd.jsonl"
    spool.write_text("canary")
    for path in (gone, kept, spool):
        os.utime(path, (0, 0))
    assert names(store) == [".fresh-0123abcd", ".kept-0123abcd"]
    assert not spool.exists()


@pytest.mark.parametrize("length", [None, 0, 1, 300])
def test_half_a_run_is_removed_unless_a_process_is_writing_it(store: Store, length: int | None) -> None:
    """Version 0.1 wrote `run.json` in place, and a power failure can leave it empty."""
    folder = folder_of(store, ".new-m-0123456789", "records.parquet", *([] if length is None else ["run.json"]))
    if length is not None:
        os.truncate(folder / "run.json", length)
    with FileLock(store.lock_file("wards", "m")):
        assert names(store) == [".new-m-0123456789"]
    assert names(store) == []


def test_a_whole_run_that_was_not_put_in_place_is_put_there(store: Store) -> None:
    for _ in range(2):
        folder_of(store, ".new-m-0123456789", "records.parquet", "run.json")
        assert names(store) == ["m-0123456789"]
