"""Kept scores never change a number: whatever happens to runs or files, they equal those read from the records."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.tools.leaderboard_store import Size, write
from medhelm.reports.leaderboard import as_json
from medhelm.results.leaderboard import leaderboard
from medhelm.storage.derived import score_files
from medhelm.storage.derived.array_file import read_arrays, write_arrays
from medhelm.storage.run_folders import delete_runs, purge, read_removals, read_run_folders, remove_runs, restore_runs
from medhelm.storage.store import open_store


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a store of 3 models on 2 benchmarks."""
    folder = tmp_path_factory.mktemp("stores") / "store"
    write(folder, Size(models=3, benchmarks=2, instances=40))
    return folder


@pytest.fixture
def store(written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy the store, and keep scores however few and young they are."""
    monkeypatch.setattr(score_files, "LEAST_RECORDS", 1)
    monkeypatch.setattr(score_files, "YOUNG_S", 0.0)
    return Path(shutil.copytree(written, tmp_path / "store"))


def numbers(store: Path) -> object:
    return as_json(leaderboard([store]))


def from_records(store: Path, place: Path) -> object:
    """Return the numbers of a copy of a store without kept scores."""
    shutil.copytree(store, place, ignore=shutil.ignore_patterns("derived"))
    return numbers(place)


def kept_files(store: Path) -> list[Path]:
    return sorted((store / "derived").iterdir())


def records_of(store: Path, place: int) -> Path:
    return sorted(store.glob("runs/*/*/records.parquet"))[place]


def replace_records(store: Path) -> None:
    """Put the records of another model in the place of a run's, as a new file."""
    new = records_of(store, 0).with_name("new")
    shutil.copy(records_of(store, 1), new)
    new.replace(records_of(store, 0))


def overwrite_records(store: Path) -> None:
    """Write the records of another model into the file of a run."""
    records_of(store, 0).write_bytes(records_of(store, 1).read_bytes())


def swap_records(store: Path) -> None:
    """Exchange the records of two runs: each file existed before, in another place."""
    first, second, between = records_of(store, 0), records_of(store, 1), store / "between"
    first.rename(between)
    second.rename(first)
    between.rename(second)


def remove_one(store: Path) -> None:
    opened = open_store(store)
    remove_runs(opened, read_run_folders(opened)[:1])


def remove_and_restore(store: Path) -> None:
    opened = open_store(store)
    remove_runs(opened, read_run_folders(opened)[:1])
    restore_runs(opened, read_removals(opened)[0].runs)


def delete_one(store: Path) -> None:
    opened = open_store(store)
    delete_runs(opened, read_run_folders(opened)[:1], before=lambda: None)


def cut(store: Path) -> None:
    for path in kept_files(store):
        os.truncate(path, path.stat().st_size // 2)


def change_byte(store: Path) -> None:
    for path in kept_files(store):
        content = bytearray(path.read_bytes())
        content[-200] ^= 1
        path.write_bytes(content)


def other_version(store: Path) -> None:
    for path in kept_files(store):
        found = read_arrays(path)
        assert found is not None
        arrays = {**found.arrays, "values": found.arrays["values"] + 1}
        write_arrays(path, {**found.about, "version": 99}, arrays, mode=0o600)


def other_structure(store: Path) -> None:
    for path in kept_files(store):
        write_arrays(path, {"version": score_files.VERSION, "runs": [{}]}, {}, mode=0o600)


def empty(store: Path) -> None:
    for path in kept_files(store):
        path.write_bytes(b"")


def exchange_benchmarks(store: Path) -> None:
    """Give each benchmark the file of another one."""
    first, second = kept_files(store)
    contents = second.read_bytes(), first.read_bytes()
    first.write_bytes(contents[0])
    second.write_bytes(contents[1])


def do_nothing(store: Path) -> None:
    pass


CHANGES: tuple[Callable[[Path], None], ...] = (
    do_nothing,
    replace_records,
    overwrite_records,
    swap_records,
    remove_one,
    remove_and_restore,
    delete_one,
    cut,
    change_byte,
    other_version,
    other_structure,
    empty,
    exchange_benchmarks,
)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_kept_scores_equal_the_records_after_any_change(
    change: Callable[[Path], None], store: Path, tmp_path: Path
) -> None:
    before = numbers(store)
    assert len(kept_files(store)) == 2
    change(store)
    expected = from_records(store, tmp_path / "copy")
    assert numbers(store) == expected
    assert numbers(store) == expected, "of the files that were made again"
    if change in (replace_records, overwrite_records, swap_records, remove_one, delete_one):
        assert expected != before, "the change must be visible"


def test_kept_scores_are_read_instead_of_unchanged_records(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = numbers(store)
    monkeypatch.setattr("medhelm.storage.run_scores._read_records", lambda *_: pytest.fail("records were read"))
    assert numbers(store) == expected


def test_young_records_are_not_kept(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score_files, "YOUNG_S", 3600.0)
    numbers(store)
    assert not (store / "derived").exists()


def test_kept_scores_are_private_and_hold_no_completions(store: Path) -> None:
    numbers(store)
    for path in kept_files(store):
        assert path.stat().st_mode & 0o077 == 0
        assert b"The patient" not in path.read_bytes()


def test_removed_and_purged_runs_leave_no_scores(store: Path) -> None:
    numbers(store)
    opened = open_store(store)
    run = read_run_folders(opened)[0]
    remove_runs(opened, [run])
    assert not [path for path in kept_files(store) if path.name.startswith(run.benchmark)]
    purge(opened, read_removals(opened))
    numbers(store)
    assert all(run.folder.name.encode() not in path.read_bytes() for path in kept_files(store))


def test_store_that_cannot_be_written_is_read(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr(score_files, "write_arrays", refuse)
    expected = numbers(store)
    assert numbers(store) == expected
