"""Rows written as the files of a benchmark are read back unchanged."""

from __future__ import annotations

import gzip
import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medhelm.benchmarks.data.readers import read as read_file
from medhelm.benchmarks.data.sample_files import write_files
from medhelm.benchmarks.data.sampling import check_files, is_pattern, read_rows
from medhelm.benchmarks.definition import LIBRARY, SAMPLE_ROWS, read_definition
from medhelm.domain import Benchmark
from medhelm.errors import DataError, UserError
from medhelm.io.rows import Row
from medhelm.scoring.metrics import METRIC_NAMES
from tests.support.benchmarks.definitions import make_benchmark


def a_benchmark(folder: Path, **source: Any) -> Benchmark:
    """A benchmark with this source, defined below `folder`."""
    hooks = "def rows(folder): return iter(())\n" if source["kind"] == "folder" else None
    return make_benchmark(folder / "definitions", hooks=hooks, source=source, prompt="{text}", columns={"text": "a"})


def fails(content: list[Row], folder: Path, benchmark: Benchmark) -> str:
    """Return the error about rows that do not fit their files; check that nothing is written."""
    with pytest.raises(DataError) as caught:
        write_files(content, folder / "data", benchmark=benchmark)
    assert not (folder / "data").exists()
    return str(caught.value)


@pytest.mark.parametrize("kind", ["csv", "tsv", "json", "jsonl", "xml", "lines", "text"])
def test_a_name_with_gz_is_packed(tmp_path: Path, kind: str) -> None:
    content: list[Row] = [{"line": "é"}] if kind == "lines" else [{"name": "x", "text": "é"}]
    benchmark = a_benchmark(tmp_path, kind=kind, files={f"x.{kind}.gz": ""})
    (path,) = write_files(content, tmp_path, benchmark=benchmark)
    assert "é" in gzip.decompress(path.read_bytes()).decode()
    assert list(read_rows(benchmark.source, tmp_path)) == content


# --- which files ------------------------------------------------------------------------------------------------------


def test_json_gets_its_place_in_the_document_and_its_keys_back(tmp_path: Path) -> None:
    benchmark = a_benchmark(tmp_path, kind="json", files={"x.json": ""}, rows="data.rows", key="id")
    content: list[Row] = [{"id": "7", "a": 1}, {"id": "8", "a": None}]
    (path,) = write_files(content, tmp_path, benchmark=benchmark)
    assert json.loads(path.read_text()) == {"data": {"rows": {"7": {"a": 1}, "8": {"a": None}}}}
    assert list(read_rows(benchmark.source, tmp_path)) == content


def test_a_pattern_of_texts_gives_a_file_per_row(tmp_path: Path) -> None:
    benchmark = a_benchmark(tmp_path, kind="text", files={"notes/n-*.txt": "", "one.txt": ""})
    content: list[Row] = [{"name": "n-a b", "text": "x"}, {"name": "n-c", "text": ""}, {"name": "one", "text": "y"}]
    paths = write_files(content, tmp_path / "data", benchmark=benchmark)
    names = [path.relative_to(tmp_path / "data").as_posix() for path in paths]
    assert names == ["notes/n-a b.txt", "notes/n-c.txt", "one.txt"]
    assert list(read_rows(benchmark.source, tmp_path / "data")) == content
    words = fails([*content, {"name": "d", "text": ""}], tmp_path / "other", benchmark)
    assert "`name: 'd'` matches none of the files notes/n-*.txt, one.txt" in words


def test_a_pattern_of_xml_gives_a_file_per_row_in_their_order(tmp_path: Path) -> None:
    benchmark = a_benchmark(tmp_path, kind="xml", files={"**/p*.xml": ""}, rows="Patient")
    content: list[Row] = [{"@id": str(i)} for i in range(11)]
    paths = write_files(content, tmp_path, benchmark=benchmark)
    assert [path.name for path in paths][:2] == ["p01.xml", "p02.xml"]
    assert list(read_rows(benchmark.source, tmp_path)) == content


def test_rows_are_distributed_over_the_files_in_order(tmp_path: Path) -> None:
    files = {"a.csv": "", "b-*.csv": "", "c.csv": ""}
    benchmark = a_benchmark(tmp_path, kind="csv", files=files)
    content: list[Row] = [{"a": str(i)} for i in range(7)]
    write_files(content, tmp_path, benchmark=benchmark)
    assert sorted(path.name for path in tmp_path.glob("*.csv")) == ["a.csv", "b-1.csv", "c.csv"]
    assert list(read_rows(benchmark.source, tmp_path)) == content
    assert "rows are missing for a.csv" in fails(content[:2], tmp_path / "few", benchmark)


def test_a_column_of_files_says_where_rows_go(tmp_path: Path) -> None:
    files = {"test/*.jsonl": "", "train.jsonl": ""}
    benchmark = a_benchmark(tmp_path, kind="jsonl", files=files, file_column="split")
    content: list[Row] = [
        {"a": 1, "split": "test/x.jsonl"},
        {"a": 2, "split": "test/y.jsonl"},
        {"a": 3, "split": "test/y.jsonl"},
        {"a": 4, "split": "train.jsonl"},
    ]
    write_files(reversed(content), tmp_path, benchmark=benchmark)
    assert (tmp_path / "train.jsonl").read_text() == '{"a": 4}\n'
    found = list(read_rows(benchmark.source, tmp_path))
    assert found == [content[0], content[2], content[1], content[3]]
    assert content[0]["split"] == "test/x.jsonl", "the rows that were given stay as they are"
    words = fails([{"a": 1, "split": "tets/x.jsonl"}, {"a": 2, "split": "train.jsonl"}], tmp_path / "o", benchmark)
    assert "`tets/x.jsonl` is not a file of the definition. Did you mean `test/*.jsonl`?" in words
    assert "rows are missing for test/*.jsonl" in words, "everything at once"
    assert "row 1: `split` must name its file, is None" in fails([{}], tmp_path / "o", benchmark)


FOLDER: list[tuple[str, list[Row], str, list[Row]]] = [
    (
        "a/t.csv",
        [{"x": "1", "y": None}, {"z": 2, "x": True}],
        "csv",
        [{"x": "1", "y": "", "z": ""}, {"x": "true", "y": "", "z": "2"}],
    ),
    ("t.csv.gz", [{"x": "1"}], "csv", [{"x": "1"}]),
    ("t.tsv", [{"x": "a\tb"}], "tsv", [{"x": "a\tb"}]),
    ("t.xlsx", [{"x": 1, "y": "b"}], "xlsx", [{"x": 1, "y": "b"}]),
    ("t.parquet", [{"x": ["a"], "t": "2150-01-02T03:04:05"}], "parquet", [{"x": ["a"], "t": "2150-01-02T03:04:05"}]),
    ("t.feather", [{"x": ["a", "b"]}], "feather", [{"x": ["a", "b"]}]),
    ("t.jsonl", [{"x": {"y": [1, None]}}], "jsonl", [{"x": {"y": [1, None]}}]),
    ("t.json", [{"x": 1}, {"y": 2}], "json", [{"x": 1}, {"y": 2}]),
    ("list.json", [{"json": {"rows": [{"x": 1}]}}], "json", []),
    ("n.1.txt", [{"text": "a\r\nb"}], "text", [{"name": "n.1", "text": "a\r\nb"}]),
    ("n.xml", [{"text": "<a><b>c</b></a>"}], "xml", [{"#text": "c"}]),
    ("n.sql", [{"text": "SELECT 1;"}], "text", [{"name": "n", "text": "SELECT 1;"}]),
    ("n.tok", [{"line": "a b"}, {"line": ""}], "lines", [{"line": "a b"}, {"line": ""}]),
]
"""For each file of a folder: its name, its rows, the format it is read as, and the rows that come back."""


def test_a_folder_of_different_files(tmp_path: Path) -> None:
    benchmark = a_benchmark(tmp_path, kind="folder", files={name: "" for name, *_ in FOLDER})
    content = [{"file": name, **row} for name, rows, *_ in FOLDER for row in rows]
    write_files(content, tmp_path / "data", benchmark=benchmark)
    for name, _, kind, expected in FOLDER:
        settings = {"rows": "rows"} if name == "list.json" else {}
        found = list(read_file(tmp_path / "data" / name, kind, **settings))
        assert found == (expected or [{"x": 1}]), name
    assert check_files(benchmark.source, tmp_path / "data").keys() == benchmark.source.files.keys()


def test_a_database(tmp_path: Path) -> None:
    benchmark = a_benchmark(tmp_path, kind="folder", files={"q.json": ""}, scoring_files={"db/x.sqlite": ""})
    content: list[Row] = [
        {"file": "q.json", "json": []},
        {"file": "db/x.sqlite", "table": "stay", "id": 1, "dose": 2.5, "note": None, "late": True},
        {"file": "db/x.sqlite", "ddl": "CREATE TABLE patient (id INTEGER PRIMARY KEY, born TEXT NOT NULL)"},
        {"file": "db/x.sqlite", "ddl": "CREATE INDEX born ON patient (born)"},
        {"file": "db/x.sqlite", "table": "patient", "id": 7, "born": "2090-05-06 00:00:00"},
    ]
    write_files(content, tmp_path, benchmark=benchmark)
    with closing(sqlite3.connect(tmp_path / "db" / "x.sqlite")) as database:
        assert database.execute("SELECT * FROM patient").fetchall() == [(7, "2090-05-06 00:00:00")]
        assert database.execute("SELECT * FROM stay").fetchall() == [(1, 2.5, None, 1)]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"ddl": "CREATE TABEL x"}, 'near "TABEL": syntax error'),
        ({"ddl": "ATTACH 'other.sqlite' AS other"}, "too many attached databases"),
        ({"table": "x", "a": [1]}, "type 'list' is not supported"),
        ({"a": 1}, "KeyError: 'table'"),
    ],
)
def test_rows_that_do_not_fit_a_format_are_refused(tmp_path: Path, row: Row, words: str) -> None:
    benchmark = a_benchmark(tmp_path, kind="folder", files={"x.sqlite": ""})
    with pytest.raises(DataError) as caught:
        write_files([{"file": "x.sqlite", **row}], tmp_path, benchmark=benchmark)
    assert "x.sqlite: the rows do not fit this format" in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x"])
def test_no_file_is_written_outside_the_folder(tmp_path: Path, name: str) -> None:
    benchmark = a_benchmark(tmp_path, kind="folder", files={"**/*": "", "*": ""})
    words = fails([{"file": name, "text": "x"}, {"file": "y", "text": "x"}], tmp_path, benchmark)
    assert "is outside the folder" in words or "is not a file of the definition" in words


def test_no_file_is_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "data" / "a").symlink_to(tmp_path / "elsewhere")
    benchmark = a_benchmark(tmp_path, kind="csv", files={"a/x.csv": ""})
    with pytest.raises(DataError, match="is outside the folder"):
        write_files([{"a": "1"}], tmp_path / "data", benchmark=benchmark)


def test_existing_files_are_not_changed(tmp_path: Path) -> None:
    benchmark = a_benchmark(tmp_path, kind="csv", files={"x.csv": "", "y.csv": ""})
    content: list[Row] = [{"a": "1"}, {"a": "2"}]
    (tmp_path / "y.csv").write_text("precious")
    with pytest.raises(UserError, match=r"already holds y\.csv"):
        write_files(content, tmp_path, benchmark=benchmark)
    assert not (tmp_path / "x.csv").exists()
    assert (tmp_path / "y.csv").read_text() == "precious"


def test_a_file_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a file")
    benchmark = a_benchmark(tmp_path, kind="csv", files={"a/x.csv": ""})
    with pytest.raises(UserError, match="cannot be written"):
        write_files([{"a": "1"}], tmp_path, benchmark=benchmark)


# --- the library ------------------------------------------------------------------------------------------------------

WITH_SAMPLE = sorted(
    path.parent for path in LIBRARY.glob(f"*/{SAMPLE_ROWS}") if (path.parent / "benchmark.yaml").is_file()
)


@pytest.mark.parametrize("folder", WITH_SAMPLE, ids=lambda folder: folder.name)
def test_sample_rows_are_what_the_reader_gives(tmp_path: Path, folder: Path) -> None:
    """Sample rows become the files of the real format and come back as they were; files of a pattern sorted by name."""
    benchmark = read_definition(folder, metrics=METRIC_NAMES)
    source = replace(benchmark.source, files=dict.fromkeys(benchmark.source.files, ""))
    content = [json.loads(line) for line in (folder / SAMPLE_ROWS).read_text(encoding="utf-8").splitlines()]
    paths = write_files(content, tmp_path, benchmark=benchmark)
    assert {tmp_path / name for name in check_files(source, tmp_path)} <= set(paths)
    if source.kind != "folder":
        found = [json.dumps(row, sort_keys=True) for row in read_rows(source, tmp_path)]
        expected = [json.dumps(row, sort_keys=True) for row in content]
        if any(map(is_pattern, source.files)):
            found.sort()
            expected.sort()
        assert found == expected
