"""Notes, tags and stars in a store: all that is added is read again, whatever else writes, and by its owner alone."""

from __future__ import annotations

import json
import stat
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.errors import StoreError, UserError
from medhelm.storage.annotations import (
    ANNOTATION,
    NAME,
    _parsed,
    add_annotation,
    annotations_of,
    new_annotation,
    read_annotations,
    remove_annotations,
)
from medhelm.storage.store import Store, create

TEXT = st.text(max_size=30)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return create(tmp_path / "store")


def add_some(folder: Path, author: str) -> None:
    """Add annotations from a process of its own."""
    for number in range(10):
        add_annotation(Store(folder), new_annotation("toy", f"i{number}", author=author, is_starred=True))


def test_several_processes_add_at_once_and_nothing_is_lost(store: Store) -> None:
    with ProcessPoolExecutor(3) as pool:
        list(pool.map(add_some, [store.folder] * 3, "abc"))
    found = annotations_of(store, "toy")
    assert {name: sorted(one.author for one in own) for name, own in found.items()} == {
        f"i{number}": ["a", "b", "c"] for number in range(10)
    }
    assert annotations_of(store, "other") == {}


def test_the_file_is_readable_by_its_owner_alone_and_goes_with_its_last_line(store: Store) -> None:
    first, second = (new_annotation("toy", "i", note=text) for text in ("one", "two\nlines\u2028"))
    for one in (first, second):
        add_annotation(store, one)
    assert stat.S_IMODE((store.folder / NAME).stat().st_mode) == 0o600
    assert read_annotations(store) == [first, second]
    assert remove_annotations(store, lambda one: one.id == first.id) == 1
    assert remove_annotations(store, lambda one: one.id == first.id) == 0
    assert read_annotations(store) == [second]
    assert remove_annotations(store, lambda one: one.benchmark == "toy") == 1
    assert not (store.folder / NAME).exists()


@given(TEXT, TEXT, TEXT, TEXT, st.lists(TEXT, max_size=3), st.booleans())
def test_a_line_holds_all_of_an_annotation(
    instance: str, model: str, author: str, note: str, tags: list[str], starred: bool
) -> None:
    made = new_annotation("toy", instance, model=model, author=author, note=f"{note}.", tags=tags, is_starred=starred)
    line = json.dumps(ANNOTATION.write(made))
    assert "\n" not in line
    assert _parsed(line) == made


DAMAGED = ("no JSON", "{}", "[1]", '{"id": 1}', "null")


@pytest.mark.parametrize("line", DAMAGED)
def test_a_damaged_line_is_left_out_and_kept(store: Store, line: str) -> None:
    (store.folder / NAME).write_text(f"{line}\n", encoding="utf-8")
    one = new_annotation("toy", "i", tags=[" wrong   key ", "", "wrong key"])
    assert one.tags == ("wrong key",)
    add_annotation(store, one)
    assert read_annotations(store) == [one]
    assert (store.folder / NAME).read_text(encoding="utf-8").startswith(f"{line}\n")


def test_a_file_that_is_no_text_is_an_error_that_names_it_and_stays(store: Store) -> None:
    (store.folder / NAME).write_bytes(b"\xff\xfe")
    with pytest.raises(StoreError, match=NAME):
        read_annotations(store)
    with pytest.raises(StoreError, match=NAME):
        add_annotation(store, new_annotation("toy", "i", is_starred=True))
    assert (store.folder / NAME).read_bytes() == b"\xff\xfe"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "needs a note"),
        ({"note": " \n", "tags": [" "]}, "needs a note"),
        ({"note": "x" * 4_001}, "4,001 characters"),
        ({"tags": ["x" * 41]}, "41 characters"),
        ({"tags": [str(n) for n in range(13)]}, "13 tags"),
        ({"author": "x" * 81, "is_starred": True}, "81 characters"),
    ],
)
def test_empty_and_too_long_annotations_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        new_annotation("toy", "i", **changes)  # type: ignore[arg-type]
