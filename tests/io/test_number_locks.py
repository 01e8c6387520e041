"""Numbers that one process at a time may hold."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from medhelm.errors import StoreError
from medhelm.io.files import POSITIONS, NumberLocks


@pytest.mark.parametrize("number", [0, POSITIONS - 1, POSITIONS + 7])
def test_a_number_is_held_once(tmp_path: Path, number: int) -> None:
    ours = NumberLocks(tmp_path / "lock")
    assert ours.is_alone
    others = NumberLocks(tmp_path / "lock")
    assert (ours.is_alone, others.is_alone) == (False, False)
    assert (ours.take(number), others.take(number), others.take(number + 1)) == (True, False, True)
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


def test_only_a_regular_file_is_used(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"content")
    (tmp_path / "link").symlink_to(tmp_path / "other")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", "folder", "absent/lock"):
        with pytest.raises(StoreError, match=f"{name} cannot be opened"):
            NumberLocks(tmp_path / name)
    assert (tmp_path / "other").read_bytes() == b"content"
