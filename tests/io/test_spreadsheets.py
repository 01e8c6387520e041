"""Tables out of spreadsheets: every way they are written gives the same cells, and lines are those of the file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xlsxwriter import Workbook

from medhelm.errors import ConfigError
from medhelm.io import spreadsheets
from medhelm.io.spreadsheets import Spreadsheet, is_percentage, parse_number, read_spreadsheet
from tests.support.cases import table

EXPECTED = ("rater", "model")
CELLS = [["rater", "model", "note"], ["Müller", "m/1", "a, b; c"], ["B", "m/2", 'said "no"']]


def sheet(folder: Path, content: bytes, name: str = "x.csv") -> Spreadsheet:
    path = folder / name
    path.write_bytes(content)
    return read_spreadsheet(path, EXPECTED)


def as_text(separator: str, end: str = "\r\n") -> str:
    quoted = [
        [f'"{cell.replace(chr(34), chr(34) * 2)}"' if set(cell) & set(',;"') else cell for cell in row] for row in CELLS
    ]
    return "".join(separator.join(row) + end for row in quoted)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp1252"])
@pytest.mark.parametrize("separator", [",", ";", "\t"], ids=["comma", "semicolon", "tab"])
def test_every_kind_of_csv_gives_the_same_cells(tmp_path: Path, separator: str, encoding: str) -> None:
    found = sheet(tmp_path, as_text(separator).encode(encoding))
    assert [found.names, *(cells for _, cells in found.rows)] == CELLS
    assert found.decimal_comma == (separator != ",")
    assert found.encoding == encoding.removesuffix("-sig").removesuffix("-le")


def test_a_first_line_may_announce_the_separator(tmp_path: Path) -> None:
    found = sheet(tmp_path, b"sep=;\r\nrater;a,b\r\nx;1\r\n")
    assert (found.names, found.rows, found.line) == (["rater", "a,b"], [(3, ["x", "1"])], 2)


def test_the_separator_is_the_one_that_gives_expected_columns(tmp_path: Path) -> None:
    """Most of what stands in this header are commas."""
    found = sheet(tmp_path, b"Rater;model;a,b,c,d,e\nx;y;1,5\n")
    assert found.names == ["Rater", "model", "a,b,c,d,e"]
    assert sheet(tmp_path, b"p;q\n1;2\n").names == ["p", "q"]


def test_lines_are_counted_through_blank_rows_and_long_cells(tmp_path: Path) -> None:
    text = b'\nrater,model\n\na,"two\nlines"\n,\nb,m\n'
    found = sheet(tmp_path, text)
    assert found.line == 2
    assert [(line, cells[0]) for line, cells in found.rows] == [(4, "a"), (7, "b")]


def test_a_workbook_is_read_as_text(tmp_path: Path) -> None:
    with Workbook(str(tmp_path / "x.xlsx")) as book:
        page = book.add_worksheet()
        for row, cells in enumerate([["rater", "grade"], ["A", 4], ["B", 4.5], ["C", None], ["D", "4,5"]]):
            page.write_row(row, 0, cells)
    found = read_spreadsheet(tmp_path / "x.xlsx")
    assert found.rows == [(2, ["A", "4"]), (3, ["B", "4.5"]), (4, ["C", ""]), (5, ["D", "4,5"])]
    assert found.decimal_comma


@pytest.mark.parametrize(
    ("name", "content", "line", "words"),
    [
        ("x.csv", b"\xef\xbb\xbf\r\n;;\r\n", None, "the file is empty."),
        ("x.csv", b'a,b\n1,"x"y\n', 2, "not a well-formed CSV record"),
        ("x.csv", b'a,b\n1,2\n3,"x\n4,5\n', 3, "not a well-formed CSV record"),
        ("x.csv", b"\xff\xfea\x00,", None, "neither UTF-8, UTF-16 nor Windows-1252"),
        ("x.xlsx", b"no workbook", None, "cannot be read as a workbook"),
        ("x.csv", b"PK\x03\x04" + b"\0" * 600, None, "is a workbook"),
        ("x.csv", b"a,b\n" + b" " * 2**20, None, "is larger than 1 MiB"),
    ],
)
def test_what_is_no_table_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes, line: int | None, words: str
) -> None:
    monkeypatch.setattr(spreadsheets, "MAX_BYTES", 2**20)
    with pytest.raises(ConfigError) as caught:
        sheet(tmp_path, content, name)
    (problem,) = caught.value.problems
    assert (problem.line, words in problem.text) == (line, True)


# --- numbers ----------------------------------------------------------------------------------------------------------


@table(
    ("field", "number"),
    [
        (".5", 0.5),
        ("\u22120.25", -0.25),
        ("7,43E-1", 0.743),
        ("1,000", 1.0),
        ("1,234.5", 1234.5),
        ("1.234,5", 1234.5),
        ("1\u202f234,5", 1234.5),
        ("74.3%", 0.743),
        ("74,3 %", 0.743),
    ],
)
def test_numbers_are_read_as_they_were_meant(field: str, number: float) -> None:
    assert parse_number(field) == number
    assert is_percentage(field) == field.endswith("%")


@table("field", ["", " ", "-", "—", "NaN", "n/a", "#N/A", "null", "None"])
def test_what_stands_for_no_value_is_missing(field: str) -> None:
    assert parse_number(field) is None


@table(
    "field",
    ["high", "inf", "1e999", "1.2.3", "1,2,3", "12,34.5", "0x1", "=0.5", "1/2", "%", "1_000", "٣", "."],
)
def test_anything_else_is_no_number(field: str) -> None:
    with pytest.raises(ValueError, match=re.escape(field)):
        parse_number(field)


@given(st.integers(min_value=0, max_value=10**9))
def test_separators_between_thousands_change_nothing(value: int) -> None:
    english = f"{value:,}.25"
    german = english.translate(str.maketrans(",.", ".,"))
    assert parse_number(english) == parse_number(german) == value + 0.25
