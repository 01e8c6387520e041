"""Run folders as such: damage, removal, restoration, locks, and processes that are killed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from filelock import FileLock

from medhelm.domain.run import RunOnDisk
from medhelm.errors import StoreError, UserError
from medhelm.storage.damage import DamagedRunWarning, no_damaged_runs
from medhelm.storage.run_folders import purge, read_removals, read_run_folders, remove_runs, restore_runs
from medhelm.storage.runs import load_runs
from medhelm.storage.store import Store, open_store
from tests.support.stores import Scores, make_store, scored_run, write_run


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Three runs: two models on one benchmark, one of them on another."""
    scores: Scores = {"toy": {"openai/a": [1.0, 0.0], "openai/b": [1.0, None]}, "other": {"openai/a": [0.5]}}
    return open_store(make_store(tmp_path / "store", scores))


def names(store: Store) -> list[tuple[str, str]]:
    """What readers of the store see."""
    return [(run.benchmark, run.model) for run in load_runs(store)]


def of_model(store: Store, model: str) -> list[RunOnDisk]:
    return [one for one in read_run_folders(store) if one.model == model]


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_one_of_two_removals_of_the_same_run_must_be_named(store: Store) -> None:
    (run,) = of_model(store, "openai/b")
    first = remove_runs(store, [run])
    assert run.run
    write_run(store.folder, run.run, [])
    latest = remove_runs(store, of_model(store, "openai/b"))
    assert [removal.id for removal in read_removals(store)] == [latest.id, first.id]
    assert store.removed_folder.stat().st_mode & 0o077 == 0
    with pytest.raises(UserError, match="removed more than once"):
        restore_runs(store, [*latest.runs, *first.runs])
    with FileLock(store.lock_file("toy", "openai/b")), pytest.raises(StoreError, match="in progress: toy with"):
        restore_runs(store, first.runs)
    restore_runs(store, first.runs)
    assert ("toy", "openai/b") in names(store)


def edit(folder: Path, **changes: object) -> None:
    path = folder / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


DAMAGE: Mapping[str, Callable[[Path], object]] = {
    "run.json is missing": lambda folder: (folder / "run.json").unlink(),
    "`n` is 'ten'": lambda folder: edit(folder, n="ten"),
    "`value` is 'high'": lambda folder: edit(
        folder, estimates={"corrected": {"m": {"value": "high", "low": 0.0, "high": 1.0, "n": 2}}}
    ),
    "it is not a JSON object": lambda folder: (folder / "run.json").write_text("[1]"),
    "run.json is damaged (maximum recursion": lambda folder: (folder / "run.json").write_text("[" * 100_000),
    "run.json has format 99": lambda folder: edit(folder, format=99),
    "its format is '1'": lambda folder: edit(folder, format="1"),
    "records.parquet cannot be read: it is missing": lambda folder: (folder / "records.parquet").unlink(),
    "records.parquet cannot be read": lambda folder: (folder / "records.parquet").write_bytes(b"PAR1"),
}


@pytest.mark.parametrize("reason", DAMAGE)
def test_a_damaged_run_is_named_left_out_and_can_be_removed(store: Store, reason: str) -> None:
    (run,) = of_model(store, "openai/b")
    (run.folder.parent / "notes.txt").write_text("no folder, so no run", encoding="utf-8")
    DAMAGE[reason](run.folder)
    (damaged,) = [other for other in read_run_folders(store) if other.problem]
    assert reason in damaged.problem
    assert "\n" not in damaged.problem
    assert (damaged.status, damaged.short_id, damaged.benchmark) == ("damaged", run.short_id, "toy")
    if "records" not in reason and "has format" not in reason:
        with pytest.warns(DamagedRunWarning, match=r"on toy is left out: .*run\.json.*medhelm runs remove"):
            assert len(load_runs(store)) == 2
        with no_damaged_runs(), pytest.raises(StoreError, match=re.escape(str(run.folder))):
            load_runs(store)
    remove_runs(store, [damaged])
    assert names(store) == [("other", "openai/a"), ("toy", "openai/a")]
    assert [removed.problem for removed in read_removals(store)[0].runs] == [damaged.problem]


@pytest.mark.parametrize("moved", [0, 1, 2])
def test_a_killed_removal_loses_nothing(store: Store, monkeypatch: pytest.MonkeyPatch, moved: int) -> None:
    rename, left = Path.rename, iter([True] * (moved + 1))  # the first one puts removal.json into place

    class KilledError(BaseException):
        pass

    def die(path: Path, target: Path) -> Path:
        if not next(left, False):
            raise KilledError
        return rename(path, target)

    before = contents(store.folder / "runs")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", die)
        with pytest.raises(KilledError):
            remove_runs(store, read_run_folders(store))
    assert len(names(store)) == 3 - moved
    removals = read_removals(store)
    assert sum(len(removal.runs) for removal in removals) == moved
    for removal in removals:
        restore_runs(store, removal.runs)
    assert contents(store.folder / "runs") == before
    (store.removed_folder / ".purged-x" / "toy" / "m-1").mkdir(parents=True)
    purge(store, [])
    assert list(store.removed_folder.iterdir()) == []


def test_runs_that_another_process_removed_first_are_left_out(store: Store) -> None:
    runs = read_run_folders(store)
    remove_runs(store, runs[:1])
    assert len(remove_runs(store, runs).runs) == 2


def test_the_lock_of_a_run_is_found_without_its_run_json(tmp_path: Path) -> None:
    for model in ("openai/a", "x" * 200, "openai/m@http://127.0.0.1:1/v1", "é/ü-"):
        run = scored_run("toy", model, [1.0])
        store = Store(tmp_path)
        assert store.lock_file_of(store.run_folder("toy", model, run.id)) == store.lock_file("toy", model)
