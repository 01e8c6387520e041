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
from medhelm.extensions.vault.commands import encrypt_store
from medhelm.results.leaderboard import leaderboard
from medhelm.results.leaderboard_view import as_json
from medhelm.results.options import RunFilter
from medhelm.storage import derived_files as derived
from medhelm.storage import derived_files as run_index
from medhelm.storage import run_scores
from medhelm.storage import run_scores as score_file
from medhelm.storage.derived_files import read_kept, write_kept
from medhelm.storage.run_folders import purge, read_removals, read_run_folders, remove_runs
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


def numbers(store: Path, *, by_new_process: bool = True, **options: Any) -> object:
    if by_new_process:
        derived._recent.clear()
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
    for source, target in ((first, between), (second, first), (between, second)):
        source.rename(target)


def remove_one(store: Path) -> None:
    opened = open_store(store)
    remove_runs(opened, read_run_folders(opened)[:1])


def change_value(store: Path) -> None:
    """Change numbers of a run, but not its records."""
    folder = records_of(store, 0).parent
    run = read_run(folder / "run.json")
    write_run(folder, replace(run, model="lab/model-09", cost_usd=9.0, started="2026-02-02T00:00:00+00:00"))


def damage(store: Path) -> None:
    """Change a byte of each file, and cut every second one."""
    for place, path in enumerate(kept_files(store)):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content[: len(content) // (1 + place % 2)])


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


def exchange_benchmarks(store: Path) -> None:
    """Give each benchmark the files of another one."""
    for kind in ("corrected", "runs"):
        first, second = kept_files(store, kind)[-2:]
        contents = first.read_bytes(), second.read_bytes()
        second.write_bytes(contents[0])
        first.write_bytes(contents[1])


VISIBLE = (replace_records, overwrite_records, swap_records, change_value, remove_one)
DAMAGE = (damage, other_version, foreign, exchange_benchmarks)


@pytest.mark.parametrize("by_new_process", [True, False])
@pytest.mark.parametrize("change", VISIBLE + DAMAGE, ids=lambda change: change.__name__)
def test_kept_scores_equal_the_records_after_any_change(
    change: Callable[[Path], None], by_new_process: bool, store: Path, tmp_path: Path
) -> None:
    before = numbers(store)
    assert [len(kept_files(store, kind)) for kind in ("corrected", "runs")] == [2, 2]
    change(store)
    found = numbers(store, by_new_process=by_new_process)
    expected = from_records(store, tmp_path / "copy")
    assert found == expected
    assert numbers(store) == expected, "of the files that were made again"
    assert (expected != before) is (change in VISIBLE)


@pytest.mark.parametrize(
    "options",
    [{"rule": "published"}, {"panel": "lab/model-02"}, {"wanted": RunFilter(models=["lab/model-01", "lab/model-03"])}],
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
    for used in ("storage.run_scores._read_records", "storage.derived_files.read_run"):
        monkeypatch.setattr(f"medhelm.{used}", lambda *_: pytest.fail("a run was read"))
    assert numbers(store) == expected
    monkeypatch.setattr(derived, "_read_index", lambda *_: pytest.fail("the index was read"))
    assert numbers(store, by_new_process=False) == expected


def test_scores_kept_at_the_end_of_runs_are_used_however_young_they_are(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = from_records(store, tmp_path / "copy")
    monkeypatch.setattr(run_scores, "LEAST_AT_END", 1)
    monkeypatch.setattr(derived, "YOUNG_S", 3600.0)
    for run in load_runs(open_store(store)):
        keep_scores(run)
    with monkeypatch.context() as patch:
        patch.setattr(run_scores, "_read_records", lambda *_: pytest.fail("a run was read"))
        assert numbers(store) == expected
    replace_records(store)
    assert numbers(store) == from_records(store, tmp_path / "changed") != expected


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


def test_nothing_is_kept_in_an_encrypted_store(store: Path, store_key: str) -> None:
    with without_key():
        expected = numbers(store)
    encrypt_store(store, os.environ)
    assert numbers(store) == expected
    assert not (store / "derived").exists()


def test_kept_scores_are_private_and_end_with_their_runs(store: Path) -> None:
    numbers(store)
    for path in kept_files(store):
        assert path.stat().st_mode & 0o077 == 0
        assert b"The patient" not in path.read_bytes()
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
