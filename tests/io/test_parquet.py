"""Tables by columns: what is written is what is read, whatever it holds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from medhelm.io.parquet import ColumnWriter, ParquetWriter, connect, sql_text

KINDS = {"position": "INTEGER", "text": "VARCHAR", "number": "DOUBLE", "count": "BIGINT", "empty": "VARCHAR"}


def rows(path: Path) -> list[tuple[object, ...]]:
    with connect() as connection:
        return connection.execute(f"SELECT * FROM read_parquet({sql_text(path)})").fetchall()


def written(path: Path, columns: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Write a table and read it again."""
    writer = ColumnWriter()
    writer.write(path, KINDS, columns)
    writer.close()
    return rows(path)


def test_nothing_is_nothing_and_texts_stay_as_they_are(tmp_path: Path) -> None:
    """One text stands for all rows, and half a surrogate pair is a question mark."""
    texts, numbers = ["it's", None, 'a "b"\n\0c', "né 日本\ud83d"], [1.5, None, -0.0, 1e300]
    counts = [1, 2, None, 2**40]
    columns = {"position": range(4), "text": texts, "number": numbers, "count": counts, "empty": "o'clock"}
    found = written(tmp_path / "a.parquet", columns)
    texts[3] = "né 日本?"
    assert found == [*zip(range(4), texts, numbers, counts, ["o'clock"] * 4, strict=True)]
    n = 10_000
    many = written(tmp_path / "a.parquet", {"position": range(n), "number": [math.sqrt(i) for i in range(n)]})
    assert many == [(i, None, math.sqrt(i), None, None) for i in range(n)]
    assert [path.name for path in tmp_path.iterdir()] == ["a.parquet"]


def test_what_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    writer = ColumnWriter()
    with pytest.raises(Exception, match=r"."):
        writer.write(tmp_path / "a.parquet", {"position": "INTEGER"}, {"position": ["x"]})
    writer.write(tmp_path / "b.parquet", KINDS, {"position": range(1)})
    writer.close()
    assert not (tmp_path / "a.parquet").exists()
    assert len(rows(tmp_path / "b.parquet")) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device is always full")
def test_rows_can_be_discarded_on_a_full_disk(tmp_path: Path) -> None:
    """The error that stopped the writing must not be replaced by another one."""
    writer = ParquetWriter(tmp_path / "a.parquet", {"position": "INTEGER"})
    writer._file.close()
    writer._file = open("/dev/full", "wb")  # noqa: PTH123, SIM115 - the writer closes it
    writer.add({"position": 0})
    writer.discard()
    assert not list(tmp_path.iterdir())
