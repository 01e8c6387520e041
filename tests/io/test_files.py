"""Numbers that one process at a time may hold, and errors of the operating system as sentences with a fix."""

from __future__ import annotations

import errno
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from medhelm.errors import DataError, MedHelmError, StoreError
from medhelm.io.files import POSITIONS, NumberLocks, system_error
from medhelm.io.folders import output_errors


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


# --- errors of the operating system; mistakes in the program stay what they are ---------------------------------------


def converted(error: BaseException) -> MedHelmError:
    found = system_error(error)
    assert found is not None
    return found


def test_each_error_has_its_exit_code_and_advice() -> None:
    full, read_only = (errno.ENOSPC, 4, "Free some space"), (errno.EROFS, 2, "Check the permissions")
    for number, code, advice in (full, read_only, (errno.EMFILE, 2, "ulimit -n")):
        reason = os.strerror(number)
        named = converted(OSError(number, reason, "/place"))
        assert (named.exit_code, advice in str(named)) == (code, True)
        assert str(named).startswith(f"/place cannot be read or written: {reason}. ")
        assert "the output, or a file, could not be written" in str(converted(OSError(number, reason)))


def test_other_errors_are_not_converted() -> None:
    for error in (FileNotFoundError(2, "No such file", "x"), ConnectionResetError(104, "reset"), ValueError("x")):
        assert system_error(error) is None
        assert system_error(ExceptionGroup("several", [OSError(5, "I/O", "x"), error])) is None


def test_sqlite_on_a_disk_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError) as raised:
        sqlite3.connect(tmp_path / "missing" / "x.sqlite").execute("CREATE TABLE t (a)")
    found = converted(raised.value)
    assert found.exit_code == 2
    assert "a database of the store cannot be opened for writing" in str(found)
    with pytest.raises(sqlite3.OperationalError) as wrong, closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("SELECT nothing")
    assert system_error(wrong.value) is None


def test_a_group_becomes_its_first_error_and_our_own_come_first() -> None:
    disk, full, own = OSError(5, "I/O error", "x"), OSError(28, "No space left", "y"), DataError("row 3 is wrong")
    group = ExceptionGroup("several", [disk, ExceptionGroup("more", [own]), full])
    assert str(converted(group)).startswith("x cannot be read or written")
    assert system_error(ExceptionGroup("several", [disk, own])) is own


def test_the_reason_of_duckdb_is_given_in_one_line(tmp_path: Path) -> None:
    error = duckdb.Error("Traceback (most recent call last):\n  x\nOSError: [Errno 5] Input/output error")
    with pytest.raises(MedHelmError) as raised, output_errors(tmp_path):
        raise error
    for one in (converted(error), raised.value):
        assert (one.exit_code, "[Errno 5]" in str(one), "Traceback" in str(one)) == (4, True, False)
        assert len(str(one).splitlines()) == 1
