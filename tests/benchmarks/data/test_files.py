"""Rows that are written as the files of a benchmark: what is refused, and what is left alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from medhelm.benchmarks.data.sample_files import write_files
from medhelm.domain import Benchmark
from medhelm.errors import DataError, UserError
from medhelm.io.rows import Row
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


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"ddl": "CREATE TABEL x"}, 'near "TABEL": syntax error'),
        ({"ddl": "ATTACH 'other.sqlite' AS other"}, "too many attached databases"),
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


def test_existing_files_are_not_changed(tmp_path: Path) -> None:
    benchmark = a_benchmark(tmp_path, kind="csv", files={"x.csv": "", "y.csv": ""})
    content: list[Row] = [{"a": "1"}, {"a": "2"}]
    (tmp_path / "y.csv").write_text("precious")
    with pytest.raises(UserError, match=r"already holds y\.csv"):
        write_files(content, tmp_path, benchmark=benchmark)
    assert not (tmp_path / "x.csv").exists()
    assert (tmp_path / "y.csv").read_text() == "precious"
