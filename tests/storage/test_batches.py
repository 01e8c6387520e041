"""What a store knows of batches: written before they are handed over, read back as it was, refused if it is damaged."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medhelm.domain.completion import Batch, BatchState
from medhelm.errors import StoreError
from medhelm.storage.store import Store
from medhelm.storage.unfinished import Batches

ONE, TWO = "a" * 64, "0123456789abcdef" * 4

BATCH = Batch(
    id="medhelm-1",
    provider="openai",
    base_url="https://api.openai.com/v1",
    model="ours",
    remote_name="gpt-x",
    model_digest="12ab",
    role="model",
    state=BatchState.SUBMITTED,
    created=1_700_000_000.5,
    n=2,
    digests=(ONE, TWO),
    has_stop_sequences=True,
    remote_id="batch_1",
    unanswered=(ONE,),
    refused_parameters={"temperature": "not with this model"},
)


@pytest.fixture
def kept(tmp_path: Path) -> Batches:
    return Batches(Store(tmp_path))


def test_a_batch_is_read_as_it_was_written(kept: Batches) -> None:
    assert kept.all() == []
    kept.write(BATCH)
    (kept.folder / ".medhelm-2.json-ab12").write_text("{", encoding="utf-8")  # half of a file is never looked at
    assert kept.all() == [BATCH]
    (kept.folder / ".medhelm-2.json-ab12").unlink()
    assert [replace(BATCH, state=state).is_pending for state in BatchState] == [True, True, False, False]
    later = kept.write(replace(BATCH, state=BatchState.COLLECTED, digests=()))
    assert kept.all() == [later]
    assert [path.name for path in kept.folder.iterdir()] == ["medhelm-1.json"]


def test_batches_come_in_the_order_they_were_made(kept: Batches) -> None:
    for name, created in (("a", 3.0), ("b", 1.0), ("c", 2.0)):
        kept.write(replace(BATCH, id=name, created=created))
    assert [batch.id for batch in kept.all()] == ["b", "c", "a"]
    kept.remove(replace(BATCH, id="c"))
    kept.remove(replace(BATCH, id="c"))
    assert [batch.id for batch in kept.all()] == ["b", "a"]


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
    blocked = Batches(Store(kept.folder))
    blocked.folder.write_text("a file", encoding="utf-8")
    with pytest.raises(StoreError, match="cannot be written"):
        blocked.scratch()


DAMAGED: list[tuple[str, Any]] = [
    ("digests", ["not a digest"]),
    ("unanswered", ["../../etc/passwd"]),
    ("remote_id", "../../files/steal?x="),
    ("id", "another"),
    ("state", "done"),
    ("role", "jury"),
    ("created", "yesterday"),
    ("left_out", [1]),
]


@pytest.mark.parametrize(("name", "value"), DAMAGED)
def test_what_is_no_batch_is_told_with_its_file(kept: Batches, name: str, value: object) -> None:
    kept.write(BATCH)
    path = kept.path(BATCH)
    content = {**json.loads(path.read_text(encoding="utf-8")), name: value}
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(StoreError, match=r"medhelm-1\.json is damaged .* remove the file"):
        kept.all()


def test_all_damaged_files_are_named_at_once(kept: Batches) -> None:
    kept.write(BATCH)
    for name, text in (("x", ""), ("y", "[]"), ("z", '{"id": "z"}')):
        (kept.folder / f"{name}.json").write_text(text, encoding="utf-8")
    with pytest.raises(StoreError) as caught:
        kept.all()
    assert str(caught.value).count("is damaged") == 3


def test_a_folder_that_cannot_be_written_stops_before_anything_is_handed_over(tmp_path: Path) -> None:
    (tmp_path / "batches").write_text("a file", encoding="utf-8")
    with pytest.raises(StoreError, match="No more batches are submitted"):
        Batches(Store(tmp_path)).write(BATCH)
