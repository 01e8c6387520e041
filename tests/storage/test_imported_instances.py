"""Stored instances: all of it comes back, and the digest knows every change."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medhelm.domain import Instance, Message, Reference
from medhelm.errors import StoreError
from medhelm.io.parquet import ColumnWriter
from medhelm.storage.imported_instances import (
    instances_digest,
    instances_file,
    read_about,
    read_instances,
    write_instances,
)
from medhelm.storage.store import Store, create

ONE = Instance(
    id="q1",
    fields={"input": "Is it?\n"},
    references=(Reference("yes", False), Reference("no")),
    choices=("yes", "no"),
    labels=("A", "B"),
    cluster="c",
    group="g",
    metadata={"value": '{"a": 1}'},
    turns=(Message("system", "Be brief."), Message("user", "Is it?")),
)
TWO = Instance(id="q2", fields={"input": "né"}, references=(), turns=(Message("user", ""),))


KEYS = {"benchmark": "b", "benchmark_digest": "d" * 64, "data_digest": "e" * 64}


def stored(folder: Path, *instances: Instance) -> Store:
    store = create(folder)
    writer = ColumnWriter()
    write_instances(store, instances, about={"title": "B", "grouped": False}, writer=writer, **KEYS)
    writer.close()
    return store


def test_instances_come_back_as_they_were(tmp_path: Path) -> None:
    store = stored(tmp_path / "s", ONE, TWO)
    assert read_instances(store, **KEYS) == [ONE, TWO]
    assert read_about(store, "b", "e" * 64) == {"title": "B", "grouped": False}
    assert read_about(store, "other", "e" * 64) == {}
    before = instances_file(store, "b", "e" * 64).stat().st_mtime_ns
    stored(tmp_path / "s", ONE, TWO)
    assert instances_file(store, "b", "e" * 64).stat().st_mtime_ns == before, "it is not written again"


def test_missing_or_damaged_files_say_what_to_do(tmp_path: Path) -> None:
    store = stored(tmp_path / "s", ONE)
    path = instances_file(store, "b", "e" * 64)
    path.with_suffix(".json").write_text("{")
    with pytest.raises(StoreError, match="import the run again"):
        read_about(store, "b", "e" * 64)
    path.unlink()
    with pytest.raises(StoreError, match="Import the run again"):
        read_instances(store, **KEYS)


def test_every_change_gives_another_digest() -> None:
    system, user = ONE.turns
    changes: list[dict[str, Any]] = [
        {"id": "q3"},
        {"fields": {"input": "Is it"}},
        {"references": (Reference("yes"), Reference("no", False))},
        {"choices": ("ye", "sno")},
        {"labels": ("B", "A")},
        {"group": ""},
        {"cluster": "g", "group": "c"},
        {"metadata": {}},
        {"turns": (replace(system, role="user"), user)},
        {"turns": (replace(system, text=system.text + user.text),)},
    ]
    variants = [[ONE], [ONE, TWO], [TWO, ONE], *([replace(ONE, **change)] for change in changes)]
    assert len(set(map(instances_digest, variants))) == len(variants)
    assert instances_digest([replace(ONE)]) == instances_digest([ONE])
