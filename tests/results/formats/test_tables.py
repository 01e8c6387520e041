"""Plain tables in four formats."""

from __future__ import annotations

import csv
import io
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medhelm.errors import UserError
from medhelm.io.spreadsheets import is_formula
from medhelm.results.formats import tables
from medhelm.results.formats.tables import Value, decimal, escape_markdown, render, with_interval

quick = settings(max_examples=30, deadline=None, database=None)


def test_another_format_and_a_row_of_another_length_are_refused() -> None:
    with pytest.raises(UserError, match=r"Unknown table format `xml`\. Known: table, csv, md, latex"):
        render([], ["a"], format="xml")
    with pytest.raises(ValueError, match="a row has 2 cells, the table 3 columns"):
        render([["a", "b"]], ["a", "b", "c"])


def test_numbers_have_a_fixed_number_of_places() -> None:
    assert [decimal(value, 2) for value in (0.6667, 4.5, -0.0001, None)] == ["0.67", "4.50", "0.00", None]
    assert with_interval(0.552, 0.5214, 0.5826) == "0.552 [0.521, 0.583]"
    assert with_interval(0.552, None, None) == "0.552"
    assert with_interval(None, 0.1, 0.2) is None


def test_numbers_are_aligned_right_and_texts_left() -> None:
    rows: list[list[Value]] = [["a", 1, "2 of 3", "100 %", "v1"], ["bbbbbbb", 10, "12 of 3", "9 %", "version"]]
    assert render(rows, ["name", "n", "part", "share", "text"]).splitlines()[2:] == [
        "a         1   2 of 3  100 %  v1",
        "bbbbbbb  10  12 of 3    9 %  version",
    ]


def test_long_headings_are_wrapped_at_words() -> None:
    text = render([["m", "0.5"]], ["Model", "Enhancing accessibility in health"])
    assert text.splitlines() == [
        "           Enhancing",
        "       accessibility",
        "Model      in health",
        "-----  -------------",
        "m                0.5",
    ]


@pytest.mark.parametrize("format", ["table", "md", "latex"])
def test_control_characters_cannot_reach_a_terminal(format: str) -> None:
    text = render([["a\x1b[2Jb\r\nc\u202ed\ud800", 1]], ["h\n1", "h2"], format=format, caption="x\x07y")
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e\ud800]", text)
    assert re.search(r"a \[2Jb +c d", text)


@pytest.mark.parametrize("start", ["[", "*"])
def test_a_latex_row_cannot_become_an_argument_of_the_line_above(start: str) -> None:
    assert "\n{}" + start + "x & 1 \\\\" in render([["a", 1], [start + "x", 1]], ["h", "n"], format="latex")


def test_markdown_is_escaped() -> None:
    assert escape_markdown("a|b snake_case _private_") == r"a\|b snake_case \_private\_"
    assert escape_markdown("**bold** `code` <b> back\\slash") == r"\*\*bold\*\* \`code\` \<b> back\\slash"


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@quick
@given(st.lists(st.tuples(texts, st.none() | st.integers() | texts), max_size=5))
def test_csv_gives_every_text_back(rows: list[tuple[str, Value]]) -> None:
    text = render(rows, ["a", "b"], format="csv")
    read = list(csv.reader(io.StringIO(text, newline="")))
    expected = [["" if value is None else re.sub(r"\r\n?", "\n", str(value)) for value in row] for row in rows]
    # What a spreadsheet would run has an apostrophe in front.
    assert read == [["a", "b"], *([f"'{cell}" if is_formula(cell) else cell for cell in row] for row in expected)]


@quick
@given(st.lists(st.tuples(texts, texts), max_size=5))
def test_every_text_keeps_its_row_and_column(rows: list[tuple[str, str]]) -> None:
    plain = render(rows, ["a", "b"])
    assert len(plain.split("\n")) == len(rows) + 3
    markdown = render(rows, ["a", "b"], format="md").split("\n")
    assert all(len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) == 3 for line in markdown[:-1])
    latex = render(rows, ["a", "b"], format="latex").split("\n")
    assert all(len(re.findall(r"(?<!\\)&", line)) == 1 for line in latex[4 : 4 + len(rows)])


@pytest.mark.parametrize(
    ("text", "is_guarded"),
    [("=HYPERLINK(1)", True), ("@SUM(A1)", True), ("-lexical", True), ("-0.019 [-0.054, 0.011]", False)],
)
def test_a_spreadsheet_runs_nothing_of_a_csv_file(text: str, is_guarded: bool) -> None:
    cell = f"'{text}" if is_guarded else text
    assert list(csv.reader(io.StringIO(render([[text]], ["a"], format="csv"))))[1] == [cell]


# --- tables in a terminal ---------------------------------------------------------------------------------------------

MODELS = ["openai/gpt-4o-2024-05-13", "openai/gpt-4o-2024-08-06"]
HEADS = ["Model", "Score", "SD", "Cost"]
SCORES: list[list[Value]] = [[name, "0.552 [0.521, 0.583]", 0.01, 12.5] for name in MODELS]


def in_terminal(width: int, drop: tuple[str, ...] = ("SD", "Cost")) -> list[str]:
    with tables.fitted(width):
        return render(SCORES, HEADS, drop=drop).splitlines()


def test_a_narrow_terminal_leaves_out_columns_in_their_order_and_names_them() -> None:
    some, fewer = in_terminal(57), in_terminal(49)
    assert some[0].split() == ["Model", "Score", "Cost"]
    assert some[-1] == "Not shown at 57 columns: SD. --wide shows all."
    assert fewer[0].split() == ["Model", "Score"]
    assert " ".join(fewer[-2:]) == "Not shown at 49 columns: SD, Cost. --wide shows all."


@pytest.mark.parametrize("width", range(34, 120, 17))
def test_a_table_fits_any_terminal_that_has_room_for_its_numbers(width: int) -> None:
    wide = "国" * 30
    with tables.fitted(width):
        text = render([[wide, "x" * 70, 1.25, wide]], ["a", "b", "c", "d"], drop=("b",))
    assert max(tables._width(line) for line in text.splitlines()) <= width


def test_sentences_fit_a_terminal_and_commands_stay_whole() -> None:
    text = "Two models have no score. `medhelm run pubmed_qa --model a --model b` asks them again, once."
    assert tables.wrapped(text, "  ") == text
    with tables.fitted(40):
        lines = tables.wrapped(text, "  ").splitlines()
    assert lines == [
        "Two models have no score.",
        "  `medhelm run pubmed_qa --model a --model b`",
        "  asks them again, once.",
    ]
