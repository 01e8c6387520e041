"""Numbers and rows as people save them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.errors import UserError
from medhelm.io.score_file import has_percent, number_in, read_rows


@pytest.mark.parametrize(
    ("field", "number"),
    [
        ("0.743", 0.743),
        (" 0.743 ", 0.743),
        (".5", 0.5),
        (",5", 0.5),
        ("5.", 5.0),
        ("+1", 1.0),
        ("-0.25", -0.25),
        ("\u22120.25", -0.25),
        ("1e-3", 0.001),
        ("7,43E-1", 0.743),
        ("0,743", 0.743),
        ("4,533", 4.533),
        ("1,000", 1.0),
        ("1.000", 1.0),
        ("1,234.5", 1234.5),
        ("1.234,5", 1234.5),
        ("1,234,567", 1234567.0),
        ("1.234.567", 1234567.0),
        ("1 234,5", 1234.5),
        ("1\u202f234,5", 1234.5),
        ("74.3%", 0.743),
        ("74,3 %", 0.743),
        ("74.3\u00a0%", 0.743),
        ("100%", 1.0),
        ("0 %", 0.0),
    ],
)
def test_numbers_are_read_as_they_were_meant(field: str, number: float) -> None:
    assert number_in(field) == number


@pytest.mark.parametrize("field", ["", " ", "-", "–", "—", "nan", "NaN", "NA", "N/A", "n/a", "#N/A", "null", "None"])
def test_what_stands_for_no_value_is_missing(field: str) -> None:
    assert number_in(field) is None


@pytest.mark.parametrize(
    "field",
    ["high", "inf", "-inf", "1e999", "1.2.3", "1,2,3", "12,34.5", "0x1", "=0.5", "1/2", "%", "5 %%", "1_000", "٣", "."],
)
def test_anything_else_is_no_number(field: str) -> None:
    with pytest.raises(ValueError, match=re.escape(field)):
        number_in(field)


@given(st.floats(min_value=0, max_value=5).map(lambda value: round(value, 4)))
def test_every_way_of_writing_a_number_gives_it_back(value: float) -> None:
    text = f"{value:.4f}"
    assert number_in(text) == number_in(text.replace(".", ",")) == value
    share = number_in(f"{text}%")
    assert share == pytest.approx(value / 100, abs=1e-15)
    assert has_percent(f"{text} % ")
    assert not has_percent(text)


@given(st.integers(min_value=0, max_value=10**9))
def test_separators_between_thousands_change_nothing(value: int) -> None:
    english = f"{value:,}.25"
    german = english.translate(str.maketrans(",.", ".,"))
    assert number_in(english) == number_in(german) == value + 0.25


def test_rows_know_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    file.write_text('sep=,\n\na,"two\nlines"\n ,\nb,c\n', encoding="utf-8")
    assert read_rows(file) == [(4, ["a", "two lines"]), (6, ["b", "c"])]


def test_a_file_that_is_no_csv_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    file.write_text('a,b\n"c,d\n', encoding="utf-8")
    with pytest.raises(UserError, match=r"table\.csv: is not CSV: .*, in line 2\."):
        read_rows(file)
    file.write_bytes(b"a,b\nc,\xe9\n")
    with pytest.raises(UserError, match=r"is not text in UTF-8: byte 0xe9 in line 2\. Save it as `CSV UTF-8`\."):
        read_rows(file)


def test_a_delimiter_is_what_parts_the_header_into_most(tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    file.write_text('"Model; with, commas, in it";A\nx;1,5\n', encoding="utf-8")
    assert read_rows(file) == [(1, ["Model; with, commas, in it", "A"]), (2, ["x", "1,5"])]


def test_bytes_that_are_no_text_are_refused_and_not_guessed(tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    for content in (b"\xd0\xcf\x11\xe0" + b"\0" * 600, b"PK\x03\x04" + b"\0" * 600):
        file.write_bytes(content)
        with pytest.raises(UserError, match="is a workbook"):
            read_rows(file)
