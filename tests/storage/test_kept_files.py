"""Kept files never change a number: whatever happens to runs or files, numbers equal those made from the records."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

from bench.tools.leaderboard_store import Size, write
from medhelm.domain import Run
from medhelm.extensions.vault.commands import encrypt_store
from medhelm.results.leaderboard import leaderboard
from medhelm.results.leaderboard_view import as_json
from medhelm.results.options import RunFilter
from medhelm.storage import kept as derived
from medhelm.storage import kept as run_index
from medhelm.storage import run_scores
from medhelm.storage import run_scores as score_file
from medhelm.storage.kept import read_kept, write_kept
from medhelm.storage.run_folders import delete_runs, purge, read_removals, read_run_folders, remove_runs, restore_runs
from medhelm.storage.run_scores import keep_scores
from medhelm.storage.runs import load_runs
from medhelm.storage.store import open_store, read_run, write_run
from tests.support.encryption import without_key


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a store of 3 models on 2 benchmarks."""
    folder = tmp_path_factory.mktemp("stores") / "store"
    write(folder, Size(models=3, benchmarks=2, instances=40))
    return folder


@pytest.fixture
def store(written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy the store, and keep everything however small and young it is."""
    for module in (score_file, run_index):
        monkeypatch.setattr(module, "LEAST_RUNS", 1)
    monkeypatch.setattr(derived, "YOUNG_S", 0.0)
    return Path(shutil.copytree(written, tmp_path / "store"))


def numbers(store: Path, **options: Any) -> object:
    return as_json(leaderboard([store], **options))


def from_records(store: Path, place: Path, **options: Any) -> object:
    """Return the numbers of a copy of a store in which nothing is kept."""
    shutil.copytree(store, place, ignore=shutil.ignore_patterns("derived"))
    return numbers(place, **options)


def kept_files(store: Path, kind: str = "*") -> list[Path]:
    """Files of scores (`corrected`), of the content of `run.json` (`runs`), or both."""
    return sorted((store / "derived").glob(f"*-{kind}.npz"))


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


def add_one(store: Path) -> None:
    """Add a run of another model."""
    old = records_of(store, 0).parent
    new = Path(shutil.copytree(old, old.with_name("lab_model-09-0123456789")))
    change_run(new, lambda run: replace(run, id="0123456789" * 6 + "0123", model="lab/model-09"))


def change_value(store: Path) -> None:
    """Change numbers of a run, but not its records."""
    folder = records_of(store, 0).parent
    change_run(folder, lambda run: replace(run, cost_usd=9.0, started="2026-02-02T00:00:00+00:00"))


def change_run(folder: Path, change: Callable[[Run], Run]) -> None:
    write_run(folder, change(read_run(folder / "run.json")))


def exchange(first: Path, second: Path) -> None:
    contents = second.read_bytes(), first.read_bytes()
    first.write_bytes(contents[0])
    second.write_bytes(contents[1])


def exchange_runs(store: Path) -> None:
    """Exchange the `run.json` of two models."""
    exchange(*(records_of(store, place).with_name("run.json") for place in (0, 1)))


def cut(store: Path) -> None:
    for path in kept_files(store):
        os.truncate(path, path.stat().st_size // 2)


def change_byte(store: Path) -> None:
    for path in kept_files(store):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)


def other_version(store: Path) -> None:
    for path in kept_files(store):
        about, arrays = read_kept(path) or (None, {})
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(derived, "VERSION", b"another")
            write_kept(path, about, {name: one + 1 for name, one in arrays.items()})


def foreign(store: Path) -> None:
    """Put pickled objects, which run code when they are read, into the place of kept files."""
    for path in kept_files(store):
        with path.open("wb") as file:
            np.savez(file, about=np.array([print], dtype=object))


def other_entries(store: Path) -> None:
    for path in kept_files(store, "runs"):
        about, _ = read_kept(path) or ({}, {})
        runs = {**about["runs"], "n": [["forty"], [0] * len(about["names"]), None]}
        write_kept(path, {**about, "runs": runs}, {})


def empty(store: Path) -> None:
    for path in kept_files(store):
        path.write_bytes(b"")


def exchange_benchmarks(store: Path) -> None:
    """Give each benchmark the files of another one."""
    for kind in ("corrected", "runs"):
        exchange(*kept_files(store, kind)[-2:])


def do_nothing(store: Path) -> None:
    pass


CHANGES: tuple[Callable[[Path], None], ...] = (
    do_nothing,
    replace_records,
    overwrite_records,
    swap_records,
    add_one,
    change_value,
    exchange_runs,
    remove_one,
    remove_and_restore,
    delete_one,
    cut,
    change_byte,
    other_version,
    foreign,
    other_entries,
    empty,
    exchange_benchmarks,
)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_kept_scores_equal_the_records_after_any_change(
    change: Callable[[Path], None], store: Path, tmp_path: Path
) -> None:
    before = numbers(store)
    assert [len(kept_files(store, kind)) for kind in ("corrected", "runs")] == [2, 2]
    change(store)
    expected = from_records(store, tmp_path / "copy")
    assert numbers(store) == expected
    assert numbers(store) == expected, "of the files that were made again"
    if change in CHANGES[1:8]:
        assert expected != before, "the change must be visible"


@pytest.mark.parametrize(
    "options",
    [
        {"rule": "published"},
        {"completers_only": True},
        {"resample": "benchmarks"},
        {"panel": "lab/model-02"},
        {"wanted": RunFilter(models=["lab/model-01", "lab/model-03"])},
        {"wanted": RunFilter(models=["lab/model-02"])},
        {"wanted": RunFilter(benchmarks=["clear"])},
    ],
    ids=str,
)
def test_other_options_never_get_numbers_that_were_kept_for_these(
    options: dict[str, Any], store: Path, tmp_path: Path
) -> None:
    before = numbers(store)
    expected = from_records(store, tmp_path / "copy", **options)
    for _ in range(2):
        assert numbers(store, **options) == expected
        assert numbers(store) == before


def test_what_is_kept_is_used_for_unchanged_runs(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = numbers(store)
    for used in ("storage.run_scores._read_records", "storage.derived.run_index.read_run"):
        monkeypatch.setattr(f"medhelm.{used}", lambda *_: pytest.fail("a run was read"))
    assert numbers(store) == expected


@pytest.mark.parametrize(("least", "n_files"), [(1, 2), (1_000_000, 0)])
def test_a_few_runs_are_kept_if_they_have_enough_records(
    store: Path, monkeypatch: pytest.MonkeyPatch, least: int, n_files: int
) -> None:
    monkeypatch.setattr(score_file, "LEAST_RUNS", 1_000)
    monkeypatch.setattr(score_file, "LEAST_RECORDS", least)
    numbers(store)
    assert len(kept_files(store, "corrected")) == n_files


def keep_at_end(store: Path) -> None:
    """Keep the scores of all runs, as at their ends."""
    for run in load_runs(open_store(store)):
        keep_scores(run)


def test_scores_kept_at_the_end_of_runs_are_used_however_young_they_are(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = from_records(store, tmp_path / "copy")
    monkeypatch.setattr(run_scores, "LEAST_AT_END", 1)
    monkeypatch.setattr(derived, "YOUNG_S", 3600.0)
    keep_at_end(store)
    assert len(kept_files(store)) == 2, "one file for each benchmark"
    with monkeypatch.context() as patch:
        patch.setattr(run_scores, "_read_records", lambda *_: pytest.fail("a run was read"))
        assert numbers(store) == expected
    replace_records(store)
    assert numbers(store) == from_records(store, tmp_path / "changed") != expected
    keep_at_end(store)
    assert numbers(store) == from_records(store, tmp_path / "kept_again")


def test_writers_at_the_same_time_leave_a_whole_file(store: Path) -> None:
    path = store / "derived" / "any-runs.npz"
    writers = [Thread(target=write_kept, args=(path, place, {"x": np.full(10_000, place)})) for place in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    about, arrays = read_kept(path) or (None, {})
    assert (arrays["x"] == about).all()
    assert list(path.parent.iterdir()) == [path]


def test_nothing_is_kept_at_the_end_of_small_runs_and_of_records_that_cannot_be_read(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_at_end(store)
    monkeypatch.setattr(run_scores, "LEAST_AT_END", 1)
    runs = load_runs(open_store(store))
    records_of(store, 0).write_bytes(b"PAR1")
    records_of(store, 1).unlink()
    for run in runs[:2]:
        keep_scores(run)
    assert not kept_files(store, "corrected")


def test_nothing_is_kept_in_an_encrypted_store(store: Path, store_key: str) -> None:
    with without_key():
        expected = numbers(store)
    encrypt_store(store, os.environ)
    assert numbers(store) == expected
    assert not (store / "derived").exists()


def test_young_files_are_not_kept(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(derived, "YOUNG_S", 3600.0)
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

    monkeypatch.setattr(derived, "atomic_file", refuse)
    expected = numbers(store)
    assert numbers(store) == expected
