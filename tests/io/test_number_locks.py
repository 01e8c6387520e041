"""Numbers that one process at a time may hold."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from medhelm.errors import StoreError
from medhelm.io.files import POSITIONS, NumberLocks


@pytest.mark.parametrize("number", [0, 1, POSITIONS - 1, POSITIONS + 7])
def test_a_number_is_held_once(tmp_path: Path, number: int) -> None:
    ours, others = NumberLocks(tmp_path / "lock"), NumberLocks(tmp_path / "lock")
    assert ours.take(number)
    assert not others.take(number)
    assert others.take(number + 1)
    others.release(number + 1)
    ours.release(number)
    assert others.take(number)
    others.release(number)
    assert ours.take(number)
    ours.close()
    assert others.take(number)
    others.close()
    assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "lock").stat().st_size == 2  # a byte for each time it was opened


def test_a_process_is_alone_until_another_one_has_opened_the_file(tmp_path: Path) -> None:
    first = NumberLocks(tmp_path / "lock")
    assert first.is_alone
    assert first.take(POSITIONS - 1)  # no number is the position that says who came first
    second = NumberLocks(tmp_path / "lock")
    assert (first.is_alone, second.is_alone) == (False, False)
    second.close()
    assert not first.is_alone  # what the second one did in between may matter
    third = NumberLocks(tmp_path / "lock")
    first.close()
    assert not third.is_alone  # the first one was there when it came
    third.close()
    last = NumberLocks(tmp_path / "lock")
    assert last.is_alone
    last.close()


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="absent/lock cannot be opened"):
        NumberLocks(tmp_path / "absent" / "lock")


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_only_a_regular_file_is_used(tmp_path: Path, kind: str) -> None:
    path, other = tmp_path / "requests.lock", tmp_path / "other"
    other.write_bytes(b"content")
    if kind == "link":
        path.symlink_to(other)
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    with pytest.raises(StoreError, match=r"requests\.lock cannot be opened"):
        NumberLocks(path)
    assert other.read_bytes() == b"content"
