"""Data files: found, compared with their checksums, read one after another."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from medhelm.benchmarks.data.sampling import addresses, check_files, data_files, file_digest, read_rows
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


def test_files_are_in_reading_order(folder: Path) -> None:
    assert data_files(SOURCE, folder) == {"b.csv": folder / "b.csv", "sub/a.csv": folder / "sub" / "a.csv"}
    assert list(data_files(SOURCE, folder)) == ["b.csv", "sub/a.csv"]


def test_rows_of_all_files_one_after_another(folder: Path) -> None:
    assert [row["a"] for row in read_rows(SOURCE, folder)] == ["2", "3", "1"]


def test_checksums_are_those_of_the_files(folder: Path) -> None:
    assert check_files(SOURCE, folder) == {"b.csv": SHA_B, "sub/a.csv": SHA_A}
    assert file_digest(folder / "b.csv") == SHA_B


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


def test_a_file_that_went_away_between_two_passes(folder: Path) -> None:
    rows = read_rows(SOURCE, folder)
    assert [next(rows)["a"], next(rows)["a"]] == ["2", "3"]
    (folder / "sub" / "a.csv").unlink()
    with pytest.raises(MissingError, match=r"lacks sub/a\.csv"):
        next(rows)


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


def test_a_folder_where_a_file_should_be(tmp_path: Path) -> None:
    (tmp_path / "b.csv").mkdir()
    with pytest.raises(MissingError, match=r"lacks b\.csv \(a folder, where a file is needed\)\.$"):
        check_files(Source(kind="csv", files={"b.csv": ""}), tmp_path)


def test_a_file_that_the_source_needs_is_no_misspelled_name(tmp_path: Path) -> None:
    source = Source(kind="csv", files={"x.csv": "", "base.sql": ""}, scoring_files={"base.sqlite": ""})
    for name in ("x.csv.gz", "base.sql"):
        (tmp_path / name).touch()
    with pytest.raises(MissingError) as caught:
        check_files(source, tmp_path, scoring=True)
    assert str(caught.value) == f"{tmp_path} lacks base.sqlite."
    (tmp_path / "base.sqlit").touch()
    with pytest.raises(MissingError, match=r"holds base\.sqlit\. Did you mean `base\.sqlit`\?"):
        check_files(source, tmp_path, scoring=True)


def test_an_unreadable_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(DataError, match=r"b\.csv: cannot be read \(Permission denied\)"):
        check_files(SOURCE, folder)


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


def test_a_name_that_ends_in_gz_is_the_packed_file_itself(tmp_path: Path) -> None:
    packed = gzip.compress(B)
    (tmp_path / "b.csv.gz").write_bytes(packed)
    source = Source(kind="csv", files={"b.csv.gz": ""})
    assert check_files(source, tmp_path) == {"b.csv.gz": hashlib.sha256(packed).hexdigest()}
    assert [row["a"] for row in read_rows(source, tmp_path)] == ["2", "3"]


def test_hooks_and_databases_need_the_files_themselves(tmp_path: Path) -> None:
    for name in ("x.csv", "base.sqlite"):
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(A))
    with pytest.raises(MissingError, match=r"lacks x\.csv"):
        check_files(Source(kind="folder", files={"x.csv": ""}), tmp_path)
    with pytest.raises(MissingError, match=r"lacks base\.sqlite"):
        check_files(Source(kind="csv", files={"x.csv": ""}, scoring_files={"base.sqlite": ""}), tmp_path, scoring=True)


def test_rows_can_say_which_file_they_are_from(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / f"{name}.csv").write_text(f"x\n{name}\n", encoding="utf-8")
    source = Source(kind="csv", files={"*.csv": ""}, file_column="place")
    assert list(read_rows(source, tmp_path)) == [{"x": "a", "place": "a.csv"}, {"x": "b", "place": "b.csv"}]


def test_addresses() -> None:
    assert addresses(SOURCE, ["x.csv"]) == ["https://example.org/r7/x.csv"]
    assert addresses(Source(kind="csv"), ["x.csv"]) == []
    literal = Source(kind="csv", location="https://example.org/{other}/{file}")
    assert addresses(literal, ["x{revision} #1.csv"]) == ["https://example.org/{other}/x%7Brevision%7D%20%231.csv"]
    assert addresses(SOURCE, ["notes/*.txt"]) == ["https://example.org/r7/notes"]
