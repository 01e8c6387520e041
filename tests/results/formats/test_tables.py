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
from medhelm.results.formats.tables import FORMATS, Value, decimal, escape_markdown, render, with_interval

quick = settings(max_examples=60, deadline=None, database=None)

HEADERS = ["Model", "Win rate", "Cost USD"]
ROWS: list[list[Value]] = [["gpt_4o & co", "0.552 [0.521, 0.583]", 12.5], ["o3-mini", None, None]]

TABLE = """\
Two | models

Model        Win rate              Cost USD
-----------  --------------------  --------
gpt_4o & co  0.552 [0.521, 0.583]      12.5
o3-mini      –                            –
"""

CSV = """\
Model,Win rate,Cost USD
gpt_4o & co,"0.552 [0.521, 0.583]",12.5
o3-mini,,
"""

MARKDOWN = r"""Two \| models

| Model | Win rate | Cost USD |
| --- | ---: | ---: |
| gpt_4o & co | 0.552 [0.521, 0.583] | 12.5 |
| o3-mini | – | – |
"""

LATEX = r"""\begin{table}
\centering
\caption{Two \textbar{} models}
\begin{tabular}{lrr}
\toprule
Model & Win rate & Cost USD \\
\midrule
gpt\_4o \& co & 0.552 [0.521, 0.583] & 12.5 \\
o3-mini & -- & -- \\
\bottomrule
\end{tabular}
\end{table}
"""


@pytest.mark.parametrize(("format", "expected"), [("csv", CSV), ("md", MARKDOWN), ("latex", LATEX)])
def test_each_format_to_the_letter(format: str, expected: str) -> None:
    assert render(ROWS, HEADERS, format=format, caption="Two | models") == expected


def test_the_text_table_to_the_letter() -> None:
    expected = TABLE.replace("Win rate            ", "            Win rate").replace(
        "–                   ", "                   –"
    )
    assert render(ROWS, HEADERS, caption="Two | models") == expected


@pytest.mark.parametrize("format", FORMATS)
def test_a_table_without_rows_is_only_a_header(format: str) -> None:
    text = render([], HEADERS, format=format)
    assert "Win rate" in text
    assert text.endswith("\n")


def test_another_format_is_refused_by_name() -> None:
    with pytest.raises(UserError, match=r"Unknown table format `xml`\. Known: table, csv, md, latex"):
        render(ROWS, HEADERS, format="xml")


def test_a_row_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="a row has 2 cells, the table 3 columns"):
        render([["a", "b"]], HEADERS)


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


def test_wide_tables_are_folded_and_repeat_their_first_columns() -> None:
    rows: list[list[Value]] = [[name, *(i for i in range(6))] for name in ("first", "second")]
    text = render(rows, ["name", *(f"column{i}" for i in range(6))], width=26)
    assert (
        text.split("\n\n")[1]
        == "name    column2  column3\n------  -------  -------\nfirst         2        3\nsecond        2        3"
    )
    assert len(text.split("\n\n")) == 3
    assert all(len(line) <= 26 for line in text.splitlines())


def test_a_column_wider_than_the_terminal_still_shows() -> None:
    text = render([["a", "x" * 50, "y" * 50]], ["k", "one", "two"], width=20)
    assert "x" * 50 in text
    assert "y" * 50 in text


def test_wide_characters_keep_the_columns_straight() -> None:
    text = render([["模型", "v"], ["abcd", "v"], ["é́a", "v"]], ["m", "t"])
    assert text.splitlines()[2:] == ["模型  v", "abcd  v", "é́a    v"]


@pytest.mark.parametrize("format", ["table", "md", "latex"])
def test_control_characters_cannot_reach_a_terminal(format: str) -> None:
    text = render([["a\x1b[2Jb\r\nc\u202ed\ud800", 1]], ["h\n1", "h2"], format=format, caption="x\x07y")
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e\ud800]", text)
    assert re.search(r"a \[2Jb +c d", text)


@pytest.mark.parametrize("start", ["[", "*"])
def test_a_latex_row_cannot_become_an_argument_of_the_line_above(start: str) -> None:
    assert "\n{}" + start + "x & 1 \\\\" in render([["a", 1], [start + "x", 1]], ["h", "n"], format="latex")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a|b", r"a\|b"),
        ("snake_case", "snake_case"),
        ("_private_", r"\_private\_"),
        ("**bold** `code` <b>", r"\*\*bold\*\* \`code\` \<b>"),
        ("back\\slash", "back\\\\slash"),
    ],
)
def test_markdown_is_escaped(text: str, expected: str) -> None:
    assert escape_markdown(text) == expected


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
    ("value", "places", "expected"),
    [(0.6617, 3, "0.662"), (4.5, 2, "4.50"), (-0.0001, 3, "0.000"), (-0.25, 2, "-0.25"), (None, 3, None), (1, 0, "1")],
)
def test_decimals(value: float | None, places: int, expected: str | None) -> None:
    assert decimal(value, places) == expected


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ((0.552, 0.5214, 0.5826), "0.552 [0.521, 0.583]"),
        ((0.552, None, None), "0.552"),
        ((None, None, None), None),
        ((None, 0.1, 0.2), None),
    ],
)
def test_intervals(case: tuple[float | None, float | None, float | None], expected: str | None) -> None:
    assert with_interval(*case) == expected


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("=HYPERLINK(1)", "'=HYPERLINK(1)"),
        ("+cmd", "'+cmd"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("-lexical", "'-lexical"),
        ("-0.019 [-0.054, 0.011]", "-0.019 [-0.054, 0.011]"),
        ("openai/gpt-4o", "openai/gpt-4o"),
    ],
)
def test_a_spreadsheet_runs_nothing_of_a_csv_file(text: str, field: str) -> None:
    assert list(csv.reader(io.StringIO(render([[text]], ["a"], format="csv"))))[1] == [field]


# --- tables in a terminal ---------------------------------------------------------------------------------------------

MODELS = ["openai/gpt-4o-2024-05-13", "openai/gpt-4o-2024-08-06"]
HEADS = ["Model", "Score", "SD", "Cost"]
SCORES: list[list[Value]] = [[name, "0.552 [0.521, 0.583]", 0.01, 12.5] for name in MODELS]


def in_terminal(width: int, drop: tuple[str, ...] = ("SD", "Cost")) -> list[str]:
    with tables.fitted(width):
        return render(SCORES, HEADS, drop=drop).splitlines()


def test_all_columns_are_shown_where_there_is_room_and_in_files() -> None:
    everything = render(SCORES, HEADS, drop=("SD", "Cost"))
    assert in_terminal(80) == everything.splitlines()
    with tables.fitted(20):
        assert render(SCORES, HEADS, format="md", drop=("SD", "Cost")) == render(SCORES, HEADS, format="md")
    assert render(SCORES, HEADS, drop=("SD", "Cost")) == everything


def test_a_narrow_terminal_leaves_out_columns_in_their_order_and_names_them() -> None:
    some, fewer = in_terminal(57), in_terminal(49)
    assert some[0].split() == ["Model", "Score", "Cost"]
    assert some[-1] == "Not shown at 57 columns: SD. --wide shows all."
    assert fewer[0].split() == ["Model", "Score"]
    assert " ".join(fewer[-2:]) == "Not shown at 49 columns: SD, Cost. --wide shows all."


def test_of_columns_with_the_same_heading_the_last_is_left_out_first() -> None:
    with tables.fitted(20):
        text = render([["abcd", 1, 2]], ["k", "p adjusted", "p adjusted"], drop=("p adjusted",))
    assert text.splitlines()[2].split() == ["abcd", "1"]


def test_names_are_shortened_last_and_stay_distinct() -> None:
    lines = in_terminal(36)
    assert lines[2:4] == ["openai…4-05-13  0.552 [0.521, 0.583]", "openai…4-08-06  0.552 [0.521, 0.583]"]


def test_a_table_of_many_numbers_is_folded_with_its_names_in_full() -> None:
    heads = ["Model", *(f"column{i}" for i in range(6))]
    with tables.fitted(45):
        lines = render([["baseline/majority", *range(6)]], heads).splitlines()
    assert [line for line in lines if line.startswith("baseline/majority ")] == [
        "baseline/majority        0        1        2",
        "baseline/majority        3        4        5",
    ]


@pytest.mark.parametrize("width", range(34, 120, 7))
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
