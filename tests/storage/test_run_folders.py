"""Run folders as such: damage, removal, restoration, locks, and processes that are killed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from filelock import FileLock

from medhelm.domain.run import RunOnDisk
from medhelm.errors import StoreError, UserError
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


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_removed_runs_are_out_of_sight_and_come_back_as_they_were(store: Store) -> None:
    before = contents(store.folder / "runs")
    (store.folder / "runs" / "toy" / ".new-openai_a-0123456789").mkdir()  # is being written, and no run
    removal = remove_runs(store, of_model(store, "openai/a"))
    assert names(store) == [("toy", "openai/b")]
    assert store.removed_folder.stat().st_mode & 0o077 == 0
    (found,) = read_removals(store)
    assert (found.id, found.removed, len(found.runs)) == (removal.id, removal.removed, 2)
    assert all(one.store == store.folder and one.run for one in found.runs)
    about = json.loads((store.removed_folder / removal.id / "removal.json").read_text())
    assert [(one["benchmark"], one["model"]) for one in about["runs"]] == [("other", "openai/a"), ("toy", "openai/a")]
    restore_runs(store, found.runs[:1])
    assert names(store) == [("other", "openai/a"), ("toy", "openai/b")]
    (left,) = read_removals(store)
    assert [one.folder for one in left.runs] == [one.folder for one in found.runs[1:]]
    restore_runs(store, left.runs)
    assert contents(store.folder / "runs") == before
    assert list(store.removed_folder.iterdir()) == []


def test_a_newer_run_is_never_overwritten(store: Store) -> None:
    (run,) = of_model(store, "openai/b")
    remove_runs(store, [run])
    assert run.run
    write_run(store.folder, replace(run.run, seconds=9.0), [])
    remove_runs(store, of_model(store, "openai/a"))
    newer = contents(store.folder / "runs")
    held = [one for removal in read_removals(store) for one in removal.runs]
    with pytest.raises(UserError, match=r"toy with openai/b .* was made again after it was removed"):
        restore_runs(store, held)
    assert contents(store.folder / "runs") == newer
    assert len(read_removals(store)) == 2


def test_one_of_two_removals_of_the_same_run_must_be_named(store: Store) -> None:
    (run,) = of_model(store, "openai/b")
    remove_runs(store, [run])
    assert run.run
    write_run(store.folder, run.run, [])
    remove_runs(store, of_model(store, "openai/b"))
    latest, first = read_removals(store)
    with pytest.raises(UserError, match="removed more than once"):
        restore_runs(store, [*latest.runs, *first.runs])
    restore_runs(store, first.runs)
    assert ("toy", "openai/b") in names(store)


@pytest.mark.parametrize("change", [remove_runs, restore_runs])
def test_a_run_in_progress_is_refused(store: Store, change: Callable[[Store, list[RunOnDisk]], object]) -> None:
    runs = read_run_folders(store)
    if change is restore_runs:
        runs = list(remove_runs(store, runs).runs)
    before = contents(store.folder)
    with (
        FileLock(store.lock_file("toy", "openai/b")),
        pytest.raises(StoreError, match="in progress: toy with openai/b"),
    ):
        change(store, runs)
    assert contents(store.folder / "runs") == {k[5:]: v for k, v in before.items() if k.startswith("runs/")}
    change(store, runs)


ESTIMATE = {"value": "high", "low": 0.0, "high": 1.0, "n": 2}


def edit(folder: Path, **changes: object) -> None:
    path = folder / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


DAMAGE: Mapping[str, Callable[[Path], object]] = {
    "run.json is missing": lambda folder: (folder / "run.json").unlink(),
    "run.json is damaged": lambda folder: (folder / "run.json").write_text('{"id": '),
    "`n` is 'ten'": lambda folder: edit(folder, n="ten"),
    "`value` is 'high'": lambda folder: edit(folder, estimates={"corrected": {"exact_match": ESTIMATE}}),
    "`model` is 'None'": lambda folder: edit(folder, model=None),
    "it is not a JSON object": lambda folder: (folder / "run.json").write_text("[1]"),
    "run.json is damaged (maximum recursion": lambda folder: (folder / "run.json").write_text("[" * 100_000),
    "run.json has format 99": lambda folder: edit(folder, format=99),
    "records.parquet cannot be read: it is missing": lambda folder: (folder / "records.parquet").unlink(),
    "records.parquet cannot be read": lambda folder: (folder / "records.parquet").write_bytes(b"PAR1"),
}


@pytest.mark.parametrize("reason", DAMAGE)
def test_a_damaged_run_is_named_and_can_be_removed(store: Store, reason: str) -> None:
    (run,) = of_model(store, "openai/b")
    DAMAGE[reason](run.folder)
    found = {one.folder: one for one in read_run_folders(store)}
    assert len(found) == 3
    one = found[run.folder]
    assert reason in one.problem
    assert "\n" not in one.problem
    assert (one.status, one.short_id, one.benchmark) == ("damaged", run.short_id, "toy")
    assert [other.problem for other in found.values() if other is not one] == ["", ""]
    remove_runs(store, [one])
    assert names(store) == [("other", "openai/a"), ("toy", "openai/a")]
    assert [held.problem for held in read_removals(store)[0].runs] == [one.problem]


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
    purge(store, [])
    assert list(store.removed_folder.iterdir()) == []


def test_purge_deletes_what_is_named_and_what_killed_processes_left(store: Store) -> None:
    first = remove_runs(store, of_model(store, "openai/a"))
    second = remove_runs(store, of_model(store, "openai/b"))
    (store.removed_folder / ".purged-x" / "toy" / "m-1").mkdir(parents=True)
    purge(store, [first])
    assert [path.name for path in store.removed_folder.iterdir()] == [second.id]
    assert names(store) == []


def test_runs_that_another_process_removed_first_are_left_out(store: Store) -> None:
    runs = read_run_folders(store)
    remove_runs(store, runs[:1])
    assert len(remove_runs(store, runs).runs) == 2


def test_the_lock_of_a_run_is_found_without_its_run_json(tmp_path: Path) -> None:
    for model in ("openai/a", "x" * 200, "openai/m@http://127.0.0.1:1/v1", "é/ü-"):
        run = scored_run("toy", model, [1.0])
        store = Store(tmp_path)
        assert store.lock_file_of(store.run_folder("toy", model, run.id)) == store.lock_file("toy", model)
