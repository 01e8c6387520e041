"""What a store knows of batches: written before they are handed over, read back as it was, refused if it is damaged."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medhelm.domain.completion import BatchState
from medhelm.errors import StoreError
from medhelm.storage.store import Store
from medhelm.storage.unfinished import Batches
from tests.support.stores import make_batch

ONE, TWO = "a" * 64, "0123456789abcdef" * 4

BATCH = make_batch(
    created=1_700_000_000.5,
    digests=(ONE, TWO),
    has_stop_sequences=True,
    unanswered=(ONE,),
    refused_parameters={"temperature": "not with this model"},
)


@pytest.fixture
def kept(tmp_path: Path) -> Batches:
    return Batches(Store(tmp_path))


def test_batches_are_read_as_they_were_written_oldest_first(kept: Batches) -> None:
    assert kept.all() == []
    kept.write(BATCH)
    (kept.folder / ".medhelm-2.json-ab12").write_text("{", encoding="utf-8")  # half of a file is never looked at
    assert kept.all() == [BATCH]
    assert [replace(BATCH, state=state).is_pending for state in BatchState] == [True, True, False, False]
    later = kept.write(replace(BATCH, state=BatchState.COLLECTED, digests=()))
    older = kept.write(replace(BATCH, id="b", created=1.0))
    assert kept.all() == [older, later]
    for _ in range(2):
        kept.remove(older)
    assert kept.all() == [later]


def test_what_others_versions_know_is_no_damage(kept: Batches) -> None:
    kept.write(BATCH)
    path = kept.path(BATCH)
    content = json.loads(path.read_text(encoding="utf-8"))
    del content["left_out"]
    path.write_text(json.dumps({**content, "color": "blue"}), encoding="utf-8")
    assert kept.all() == [replace(BATCH, refused_parameters={})]


def test_a_scratch_file_leaves_nothing_behind(kept: Batches) -> None:
    with kept.scratch() as file:
        file.write(b"a prompt")
        assert kept.all() == []
    assert list(kept.folder.iterdir()) == []


def test_a_folder_that_cannot_be_written_stops_before_anything_is_submitted(kept: Batches) -> None:
    kept.folder.write_text("a file", encoding="utf-8")
    with pytest.raises(StoreError, match="cannot be written"):
        kept.scratch()
    with pytest.raises(StoreError, match="No more batches are submitted"):
        kept.write(BATCH)


DAMAGED: list[tuple[str, Any]] = [
    ("digests", ["not a digest"]),
    ("unanswered", ["../../etc/passwd"]),
    ("remote_id", "../../files/steal?x="),
    ("id", "another"),
    ("state", "done"),
    ("left_out", [1]),
]


@pytest.mark.parametrize(("name", "value"), DAMAGED)
def test_every_file_that_is_no_batch_is_named(kept: Batches, name: str, value: object) -> None:
    kept.write(BATCH)
    path = kept.path(BATCH)
    content = {**json.loads(path.read_text(encoding="utf-8")), name: value}
    path.write_text(json.dumps(content), encoding="utf-8")
    (kept.folder / "x.json").write_text("[]", encoding="utf-8")
    with pytest.raises(StoreError, match=r"medhelm-1\.json is damaged .* remove the file") as caught:
        kept.all()
    assert str(caught.value).count("is damaged") == 2
