"""Data files: found, compared with their checksums, read one after another."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from medhelm.benchmarks.data.sampling import addresses, check_files, data_files, read_rows
from medhelm.domain import Source
from medhelm.errors import DataError, MissingError

A, B = b"a\n1\n", b"a\n2\n3\n"
SHA_A, SHA_B = (hashlib.sha256(content).hexdigest() for content in (A, B))
SOURCE = Source(
    kind="csv",
    location="https://example.org/{revision}/{file}",
    revision="r7",
    files={"b.csv": SHA_B, "sub/a.csv": ""},
    note="Ask the owner.",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sub").mkdir()
    (tmp_path / "b.csv").write_bytes(B)
    (tmp_path / "sub" / "a.csv").write_bytes(A)
    return tmp_path


def test_all_missing_files_are_reported_with_their_address(tmp_path: Path) -> None:
    with pytest.raises(MissingError) as caught:
        check_files(SOURCE, tmp_path)
    assert str(caught.value).split("\n") == [
        f"{tmp_path} lacks b.csv, sub/a.csv.",
        "  from https://example.org/r7/b.csv",
        "  from https://example.org/r7/sub/a.csv",
        "Ask the owner.",
    ]
    assert caught.value.exit_code == 4


def test_all_wrong_checksums_are_reported_with_both_hashes(folder: Path) -> None:
    wrong = replace(SOURCE, files={"b.csv": SHA_A, "sub/a.csv": SHA_B})
    with pytest.raises(DataError) as caught:
        check_files(wrong, folder)
    lines = str(caught.value).split("\n")
    assert lines[:4] == [
        str(folder / "b.csv"),
        f"  sha256 is     {SHA_B}",
        f"  it should be  {SHA_A}",
        "  get it from   https://example.org/r7/b.csv",
    ]
    assert lines[4] == str(folder / "sub" / "a.csv")
    assert "correct the sha256 under `source.files`" in lines[-1]


@pytest.mark.parametrize("content", [b"", b"a,b\n", b"\n\n"])
def test_a_file_without_rows_is_an_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.csv").write_bytes(content)
    with pytest.raises(DataError, match=r"x\.csv: has no rows"):
        list(read_rows(Source(kind="csv", files={"x.csv": ""}), tmp_path))


def test_patterns_of_text_files(tmp_path: Path) -> None:
    (tmp_path / "notes" / "c.txt").mkdir(parents=True)
    for name in ("b", "a", "B"):
        (tmp_path / "notes" / f"{name}.txt").write_text(f"note {name}", encoding="utf-8")
    source = Source(kind="text", files={"notes/*.txt": ""})
    assert list(check_files(source, tmp_path)) == ["notes/B.txt", "notes/a.txt", "notes/b.txt"]
    assert [row["name"] for row in read_rows(source, tmp_path)] == ["B", "a", "b"]
    nothing = Source(kind="text", files={"*.md": "", "notes/*.txt": "", "x?.txt": ""})
    with pytest.raises(MissingError, match=r"lacks \*\.md, x\?\.txt\."):
        check_files(nothing, tmp_path)


def test_a_pattern_has_the_checksum_of_its_list(tmp_path: Path) -> None:
    for name in ("b.csv", "a.csv"):
        (tmp_path / name).write_bytes(A)
    listed = hashlib.sha256(f"{SHA_A}  a.csv\n{SHA_A}  b.csv\n".encode()).hexdigest()
    source = Source(kind="csv", files={"*.csv": listed})
    assert check_files(source, tmp_path) == {"a.csv": SHA_A, "b.csv": SHA_A}
    (tmp_path / "c.csv").write_bytes(A)
    with pytest.raises(DataError, match=rf"list of 3 files\)\n  sha256 is .*\n  it should be  {listed}"):
        check_files(source, tmp_path)


def test_files_that_only_scoring_needs(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(A)
    source = Source(kind="csv", files={"x.csv": SHA_A}, scoring_files={"base.sqlite": "0" * 64})
    assert check_files(source, tmp_path) == {"x.csv": SHA_A}
    with pytest.raises(MissingError, match=r"lacks base\.sqlite\."):
        check_files(source, tmp_path, scoring=True)
    (tmp_path / "base.sqlite").write_bytes(b"other")
    with pytest.raises(DataError, match=r"it should be  0{64}"):
        check_files(source, tmp_path)


def test_a_compressed_file_replaces_a_missing_file(folder: Path) -> None:
    """Its checksum is that of what it holds, so that data is the same data either way."""
    (folder / "sub" / "a.csv.gz").write_bytes(gzip.compress(b"a\n9\n"))
    assert [row["a"] for row in read_rows(SOURCE, folder)] == ["2", "3", "1"], "the file itself comes first"
    (folder / "b.csv").unlink()
    (folder / "b.csv.gz").write_bytes(gzip.compress(B))
    assert data_files(SOURCE, folder)["b.csv"] == folder / "b.csv.gz"
    assert check_files(SOURCE, folder) == {"b.csv": SHA_B, "sub/a.csv": SHA_A}
    assert [row["a"] for row in read_rows(SOURCE, folder)] == ["2", "3", "1"]
    (folder / "b.csv.gz").write_bytes(gzip.compress(A))
    with pytest.raises(DataError, match=rf"b\.csv\.gz\n  sha256 is     {SHA_A}\n  it should be  {SHA_B}"):
        check_files(SOURCE, folder)
    (folder / "b.csv.gz").write_bytes(gzip.compress(B)[:-9])
    with pytest.raises(DataError, match=r"b\.csv\.gz.*unpack"):
        check_files(SOURCE, folder)


def test_addresses() -> None:
    assert addresses(SOURCE, ["x.csv"]) == ["https://example.org/r7/x.csv"]
    literal = Source(kind="csv", location="https://example.org/{other}/{file}")
    assert addresses(literal, ["x{revision} #1.csv"]) == ["https://example.org/{other}/x%7Brevision%7D%20%231.csv"]
    assert addresses(SOURCE, ["notes/*.txt"]) == ["https://example.org/r7/notes"]
