"""Runs whose replacement is killed, at every rename and deletion, on a disk that may be read-only afterwards."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from medhelm.errors import StoreError
from medhelm.extensions.exchange.helm.importer import import_helm
from medhelm.io import folders as output_folder
from medhelm.storage.run_folders import read_run_folders, remove_runs
from medhelm.storage.runs import load_runs
from medhelm.storage.store import Store, open_store, restore_run
from tests.support.exchange.helm import change, copy_of
from tests.support.stores import make_store

ID = "ab" * 32
BEFORE, AFTER = [1.0, 0.0], [0.0, 0.5]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX processes")


def write_again(folder: Path) -> None:
    make_store(folder / "store", {"toy": {"openai/a": AFTER}}, id=ID)


def import_again(folder: Path) -> None:
    import_helm(folder / "helm", store=folder / "store", processes=1)


def import_and_change(folder: Path) -> None:
    """Import a run, and then change its scores in the files of the other harness."""
    source = copy_of("WARD-EM", folder / "helm")
    import_again(folder)

    def lower(content: list[dict[str, Any]]) -> None:
        for instance in content:
            for stat in instance["stats"]:
                stat["sum"] = 0.0

    change(source, "per_instance_stats.json", lower)


ACTIONS = {"run": write_again, "import": import_again}


def killed_at(number: int, folder: Path, action: str) -> bool:
    """Repeat an action in a process that ends just before its n-th change of a name; return False if it has fewer."""
    child = os.fork()
    if child == 0:
        count = 0
        for name in ("rename", "replace", "unlink", "rmdir"):
            real = getattr(os, name)

            def ending(*arguments: object, real: object = real, **options: object) -> None:
                nonlocal count
                count += ".jsonl" not in str(arguments[0])  # parts of a table that is being written
                if count == number and ".jsonl" not in str(arguments[0]):
                    os._exit(9)
                real(*arguments, **options)  # type: ignore[operator]

            setattr(os, name, ending)
        ACTIONS[action](folder)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def seen(folder: Path) -> list[tuple[float, list[str]]]:
    """Return the mean of every run that a reader sees, with its files."""
    return [
        (run.estimates["published"][run.main_metric].value, sorted(path.name for path in run.folder.iterdir()))
        for run in load_runs(open_store(folder / "store"))
        if run.folder
    ]


def kill_everywhere(folder: Path, action: str) -> None:
    """Kill the action at each change, look at the store, and repeat the action. Write what was seen."""
    import duckdb  # noqa: F401 - once, before the processes are forked

    found = []
    number = 1
    while True:
        place = folder / str(number)
        shutil.copytree(folder / "base", place)
        if not killed_at(number, place, action):
            break
        after_kill = seen(place)
        killed_at(0, place, action)
        left = [path.name for path in (place / "store" / "runs").glob("*/.old-*")]
        found.append((after_kill, seen(place), left))
        number += 1
    sys.stdout.write(json.dumps({"kills": found, "whole": seen(place)}))


@pytest.mark.parametrize("action", ["run", pytest.param("import", marks=pytest.mark.long)])
def test_a_run_survives_the_kill_of_what_replaces_it(tmp_path: Path, action: str) -> None:
    base = tmp_path / "base"
    if action == "run":
        make_store(base / "store", {"toy": {"openai/a": BEFORE}}, id=ID)
    else:
        import_and_change(base)
    program = f"from {__name__} import kill_everywhere, Path; kill_everywhere(Path({str(tmp_path)!r}), {action!r})"
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
    assert means == {sum(BEFORE) / len(BEFORE) if action == "run" else 1 / 3, new[0]}


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


def test_a_moved_run_is_left_to_the_process_that_replaces_it(tmp_path: Path, moved: Path) -> None:
    with FileLock(Store(tmp_path / "store").lock_file_of(moved)):
        assert models(tmp_path / "store") == ["openai/b"]
    assert models(tmp_path / "store") == ["openai/a", "openai/b"]


def test_a_moved_run_on_a_read_only_disk_is_an_error(
    tmp_path: Path, moved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, target: Path) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(StoreError, match=rf"(?s){moved.name} is missing.*Read-only file system.*leaderboard") as caught:
        open_store(tmp_path / "store")
    assert caught.value.exit_code == 2
    moved.mkdir()
    (moved / "run.json").write_text("{}")
    open_store(tmp_path / "store")  # only a leftover, which does not matter


def test_of_two_runs_the_new_one_stays_unless_it_is_damaged(tmp_path: Path, moved: Path) -> None:
    old = moved.with_name(f".old-{moved.name}")
    shutil.copytree(old, moved)
    open_store(tmp_path / "store")
    assert (moved.exists(), old.exists()) == (True, False)
    shutil.copytree(moved, old)
    (moved / "run.json").write_text("{", encoding="utf-8")
    open_store(tmp_path / "store")
    assert models(tmp_path / "store") == ["openai/a", "openai/b"]
    assert not old.exists()


def test_nothing_is_deleted_while_the_disk_does_not_say_which_run_is_whole(
    tmp_path: Path, moved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = moved.with_name(f".old-{moved.name}")
    shutil.copytree(old, moved)
    monkeypatch.setattr("medhelm.storage.store.read_confidential", fail_to_read)
    with pytest.raises(OSError, match="Input/output error"):
        restore_run(moved)
    assert sorted(path.name for path in moved.iterdir()) == sorted(path.name for path in old.iterdir()) != []


def fail_to_read(path: Path) -> str:
    raise OSError(5, "Input/output error", str(path))


def test_half_deleted_runs_are_no_runs(tmp_path: Path, moved: Path) -> None:
    (moved.with_name(f".old-{moved.name}") / "run.json").unlink()
    assert models(tmp_path / "store") == ["openai/b"]
    assert not moved.with_name(f".old-{moved.name}").exists()


def test_a_removed_run_does_not_come_back_from_its_leftovers(tmp_path: Path, moved: Path) -> None:
    old = moved.with_name(f".old-{moved.name}")
    shutil.copytree(old, moved)
    store = Store(tmp_path / "store")
    remove_runs(store, [one for one in read_run_folders(store) if one.model == "openai/a"])
    assert not old.exists()
    assert models(tmp_path / "store") == ["openai/b"]


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
