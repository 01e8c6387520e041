"""What the files of runs say of themselves."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from medhelm.io.parquet import connect
from medhelm.storage.damage import damaged
from medhelm.storage.runs import completions_by_snapshot, load_runs
from medhelm.storage.store import open_store
from tests.support.stores import add_judged_runs, grades


def put_names(folder: Path, names: list[str | None]) -> None:
    """Give the records of every run of a store other names of snapshots, one a record."""
    listed = ", ".join("NULL" if name is None else f"'{name}'" for name in names)
    for path in folder.glob("runs/*/*/records.parquet"):
        new = path.with_suffix(".new")
        with connect() as engine:
            engine.execute(
                f"COPY (SELECT * REPLACE ([{listed}][position + 1] AS reported_model) FROM read_parquet('{path}') "
                f"ORDER BY position) TO '{new}' (FORMAT parquet)"
            )
        new.replace(path)


def test_answers_are_counted_by_what_the_server_called_itself(tmp_path: Path) -> None:
    add_judged_runs(tmp_path / "store", "letters", grades(1, 4))
    put_names(tmp_path / "store", ["gpt-4o-2024-05-13", "gpt-4o-2024-08-06", None, "gpt-4o-2024-08-06"])
    runs = load_runs(open_store(tmp_path / "store"))
    assert completions_by_snapshot(runs[:1]) == {"": 1, "gpt-4o-2024-05-13": 1, "gpt-4o-2024-08-06": 2}
    assert completions_by_snapshot(runs) == {"": 4, "gpt-4o-2024-05-13": 4, "gpt-4o-2024-08-06": 8}
    assert completions_by_snapshot([]) == {}


def test_files_that_are_whole_are_not_complained_of(tmp_path: Path) -> None:
    add_judged_runs(tmp_path / "store", "letters", np.ones((1, 1, 3, 3)), models=("a/b",), judges=("c/d",))
    assert damaged(tmp_path.rglob("*.parquet")) == []
    assert damaged([]) == []


def test_every_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty.parquet").touch()
    (tmp_path / "text.parquet").write_text("not a table at all, just words", encoding="utf-8")
    paths = [tmp_path / name for name in ("empty.parquet", "text.parquet", "absent.parquet")]
    found = list(map(str, damaged(paths)))
    assert [line.partition(" cannot be read: ")[0] for line in found] == list(map(str, paths))
    assert "it is missing" in found[2]
    assert all("\n" not in line and "`medhelm runs remove " in line for line in found)
