"""Tables by columns: what is written is what is read, whatever it holds."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from medhelm.io.parquet import ColumnWriter, ParquetWriter, connect, sql_text

KINDS = {"position": "INTEGER", "text": "VARCHAR", "number": "DOUBLE", "count": "BIGINT", "empty": "VARCHAR"}


def rows(path: Path) -> list[tuple[object, ...]]:
    with connect() as connection:
        return connection.execute(f"SELECT * FROM read_parquet({sql_text(path)})").fetchall()


def test_nothing_is_nothing_and_texts_stay_as_they_are(tmp_path: Path) -> None:
    writer = ColumnWriter()
    texts = ["it's", None, 'a "b"\n\0c', "né 日本"]
    columns = {"position": range(4), "text": texts, "number": [1.5, None, -0.0, 1e300], "count": [1, 2, None, 2**40]}
    writer.write(tmp_path / "a.parquet", KINDS, columns)
    writer.close()
    found = rows(tmp_path / "a.parquet")
    assert [row[1] for row in found] == texts
    assert [row[2] for row in found] == [1.5, None, -0.0, 1e300]
    assert [row[3] for row in found] == [1, 2, None, 2**40]
    assert [row[4] for row in found] == [None] * 4
    assert [path.name for path in tmp_path.iterdir()] == ["a.parquet"]


def test_one_text_stands_for_all_rows(tmp_path: Path) -> None:
    writer = ColumnWriter()
    writer.write(tmp_path / "a.parquet", KINDS, {"position": range(3), "text": "o'clock"})
    writer.write(tmp_path / "b.parquet", KINDS, {"position": range(1), "text": ["x"]})
    writer.close()
    assert [row[1] for row in rows(tmp_path / "a.parquet")] == ["o'clock"] * 3
    assert [row[1] for row in rows(tmp_path / "b.parquet")] == ["x"]


def test_half_a_surrogate_pair_is_written_as_a_question_mark(tmp_path: Path) -> None:
    writer = ColumnWriter()
    writer.write(tmp_path / "a.parquet", KINDS, {"position": range(2), "text": ["a\ud83db", None]})
    writer.close()
    assert [row[1] for row in rows(tmp_path / "a.parquet")] == ["a?b", None]


def test_many_rows_keep_their_order(tmp_path: Path) -> None:
    writer = ColumnWriter()
    n = 10_000
    writer.write(tmp_path / "a.parquet", KINDS, {"position": range(n), "number": [math.sqrt(i) for i in range(n)]})
    writer.close()
    found = rows(tmp_path / "a.parquet")
    assert [row[0] for row in found] == list(range(n))
    assert found[4444][2] == pytest.approx(math.sqrt(4444))


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
