"""Errors of the operating system become sentences with a fix; mistakes in the program stay what they are."""

from __future__ import annotations

import errno
import os
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from medhelm.errors import DataError, MedHelmError
from medhelm.io.files import system_error
from medhelm.io.folders import output_errors


def converted(error: BaseException) -> MedHelmError:
    found = system_error(error)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("number", "code", "advice"),
    [
        (errno.ENOSPC, 4, "Free some space"),
        (errno.EIO, 4, "the connection to it, fails"),
        (errno.EROFS, 2, "Check the permissions"),
        (errno.EMFILE, 2, "ulimit -n"),
        (errno.ENAMETOOLONG, 2, "Use a shorter name"),
    ],
)
def test_each_error_has_its_exit_code_and_advice(number: int, code: int, advice: str) -> None:
    named = converted(OSError(number, os.strerror(number), "/place"))
    assert named.exit_code == code
    assert str(named).startswith(f"/place cannot be read or written: {os.strerror(number)}. ")
    assert advice in str(named)
    nameless = converted(OSError(number, os.strerror(number)))
    assert "the output, or a file, could not be written" in str(nameless)


@pytest.mark.parametrize(
    "error",
    [FileNotFoundError(2, "No such file", "x"), ConnectionResetError(104, "reset"), ValueError("x"), OSError("x")],
)
def test_other_errors_are_not_converted(error: Exception) -> None:
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


def test_temporary_folders_that_are_all_full(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(os, "open", full)
    with pytest.raises(FileNotFoundError) as raised:
        tempfile.gettempdir()
    monkeypatch.undo()
    found = converted(raised.value)
    assert found.exit_code == 4
    assert "Free some space there, or name another folder with TMPDIR" in str(found)


def test_a_group_becomes_its_first_error_and_our_own_come_first() -> None:
    disk, own = OSError(5, "Input/output error", "x"), DataError("row 3 is wrong")
    group = ExceptionGroup(
        "several", [disk, ExceptionGroup("more", [own]), OSError(28, "No space left on device", "y")]
    )
    assert str(converted(group)).startswith("x cannot be read or written")
    assert system_error(ExceptionGroup("several", [disk, own])) is own


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (duckdb.IOException('IO Error: Could not write file "x": No space left on device'), 'write file "x": No space'),
        (duckdb.Error("Traceback (most recent call last):\n  x\nOSError: [Errno 5] Input/output error"), "[Errno 5]"),
    ],
)
def test_the_reason_of_duckdb_is_given_in_one_line(tmp_path: Path, error: Exception, reason: str) -> None:
    with pytest.raises(MedHelmError) as raised, output_errors(tmp_path):
        raise error
    for one in (converted(error), raised.value):
        assert one.exit_code == 4
        assert reason in str(one)
        assert "Traceback" not in str(one)
        assert "\n" not in str(one)
