"""Parquet, Arrow streams and Arrow files with an index (Feather): what becomes a row, and what is refused."""

from __future__ import annotations

import io
import sys
from datetime import UTC, datetime, time
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, Literal

import pyarrow as pa
import pyarrow.ipc
import pytest

from bench.tools.mutation import mutated
from medhelm.benchmarks.data.sample_rows import WRITERS
from medhelm.domain import Source
from medhelm.errors import DataError, MissingError
from medhelm.io.rows import Row
from tests.support.data_files import message, rows, written

SEEN: list[Row] = [
    {"text": "Seen for cough. " * 8, "codes": ["R05.9", "J45.909"], "seen": "2150-01-31T08:15:00", "ward": "A"},
    {"text": "é", "codes": [], "seen": None, "ward": "B"},
    {"text": None, "codes": None, "seen": None, "ward": "A"},
]


def table() -> Any:
    """The rows of `SEEN`, with a column of categories."""
    return pa.table(
        {
            "text": [row["text"] for row in SEEN],
            "codes": [row["codes"] for row in SEEN],
            "seen": pa.array([datetime(2150, 1, 31, 8, 15), None, None], pa.timestamp("us")),
            "ward": pa.array([row["ward"] for row in SEEN]).dictionary_encode(),
        }
    )


def packed(content: Any, layout: Literal["file", "stream"] = "file", compression: str | None = None) -> bytes:
    """A table as an Arrow file or stream."""
    buffer = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    opener = pa.ipc.new_file if layout == "file" else pa.ipc.new_stream
    with opener(buffer, content.schema, options=options) as writer:
        writer.write_table(content)
    return buffer.getvalue()


def parquet(path: Path, select: str) -> Path:
    """A Parquet file with what `select` gives."""
    import duckdb

    with duckdb.connect(":memory:", config={"autoinstall_known_extensions": False}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.sql(select).write_parquet(str(path))
    return path


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("TIMESTAMPTZ '2150-01-31 08:15:00+02'", "2150-01-31T06:15:00+00:00"),
        ("NULL::TIMESTAMPTZ", None),
        ("DATE '2150-01-31'", "2150-01-31"),
        ("'123456789012345678901234567890'::DECIMAL(38, 0)", 123456789012345678901234567890),
        (r"'\xC3\xA9'::BLOB", "é".encode()),
    ],
)
def test_values_of_parquet_are_plain(tmp_path: Path, value: str, expected: object) -> None:
    path = parquet(tmp_path / "x", f'SELECT {value} AS "the ""value"""')
    (row,) = rows(path, "parquet")
    assert row == {'the "value"': expected}
    assert type(row['the "value"']) is type(expected)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        pytest.param(pa.array([Decimal("-1.50")], pa.decimal128(10, 2)), -1.5, id="decimal"),
        pytest.param(pa.array([Decimal("1234567890123456789.5")]), "1234567890123456789.5", id="long decimal"),
        pytest.param(pa.array([time(8, 15)]), "08:15:00", id="time"),
        pytest.param(pa.array([datetime(2150, 1, 31, tzinfo=UTC)]), "2150-01-31T00:00:00+00:00", id="zone"),
        pytest.param(pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32())), {"k": 1}, id="map"),
    ],
)
def test_values_of_arrow_are_plain(tmp_path: Path, column: Any, expected: object) -> None:
    [row] = rows(written(tmp_path, packed(pa.table({"x": column}))), "arrow")
    assert row == {"x": expected}
    assert type(row["x"]) is type(expected)


@pytest.mark.parametrize("kind", ["arrow", "feather"])
@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
@pytest.mark.parametrize("layout", ["file", "stream"])
def test_arrow_is_read_however_it_is_packed(
    tmp_path: Path, layout: Literal["file", "stream"], compression: str | None, kind: str
) -> None:
    assert rows(written(tmp_path, packed(table(), layout, compression)), kind) == SEEN


@pytest.mark.parametrize("content", [b"", b"this is text, and nothing else, of some length"])
@pytest.mark.parametrize("kind", ["parquet", "arrow", "feather"])
def test_files_of_another_format_are_reported(tmp_path: Path, kind: str, content: bytes) -> None:
    path = written(tmp_path, content)
    if kind != "parquet" and not content:
        assert rows(path, kind) == []
    else:
        assert f"{path}: cannot be read as" in message(path, kind)


INVALID_CODE = pa.DictionaryArray.from_arrays(pa.array([0, 7], pa.int8()), pa.array(["A"]), safe=False)
INVALID_TEXT = pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe"))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        pytest.param(b"FEA1" + bytes(99), "is a Feather file of version 1. Save it as version 2", id="version 1"),
        pytest.param(packed(pa.table({"x": INVALID_CODE})), "cannot be read as Arrow (", id="category without a value"),
        pytest.param(packed(pa.table({"x": INVALID_TEXT})), "cannot be read as Arrow (", id="not UTF-8"),
        pytest.param(packed(pa.table([[1], [2]], names=["a", "a"])), "has `a` more than once", id="columns"),
        pytest.param(
            packed(pa.table({"x": pa.array([[("k", 1), ("k", 2)]], pa.map_(pa.string(), pa.int32()))})),
            "duplicate key was 'k'",
            id="map",
        ),
        pytest.param(packed(pa.table({"x": pa.array([2**62], pa.timestamp("s"))})), "too large", id="time"),
    ],
)
def test_invalid_arrow_is_reported(tmp_path: Path, content: bytes, reason: str) -> None:
    path = written(tmp_path, content)
    words = message(path, "feather")
    assert words.startswith(f"{path}: ") or words.startswith(f"{path}, ")
    assert reason in words


@pytest.mark.parametrize("n", [60, pytest.param(5000, marks=pytest.mark.long)])
def test_mutated_arrow_files_are_rows_or_an_error(tmp_path: Path, n: int) -> None:
    """An invalid file must not end the process either."""
    files = [packed(table(), layout, kind) for layout in ("file", "stream") for kind in (None, "lz4", "zstd")]
    read, refused = 0, []
    for seed in range(n):
        random = Random(seed)
        path = written(tmp_path, mutated(random, random.choice(files)))
        try:
            read += isinstance(rows(path, "feather"), list)
        except DataError as error:
            refused.append(str(error))
    assert min(read, len(refused)) > 0
    assert all(text.startswith(str(tmp_path / "x")) for text in refused)


@pytest.mark.parametrize("kind", ["arrow", "feather"])
def test_a_missing_pyarrow_is_reported_with_the_extra(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, packed(table()))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for work in (lambda: rows(path, kind), lambda: WRITERS[kind]([{"a": 1}], path, Source(kind=kind))):
        with pytest.raises(MissingError, match=r"x: Arrow and Feather files need pyarrow\. .*medhelm-eval\[arrow\]"):
            work()
