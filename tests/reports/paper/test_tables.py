r"""Tables as Markdown, CSV and LaTeX: escaped, whole, and in LaTeX no wider than a line."""

from __future__ import annotations

import csv
import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.reports.paper import appendix, contents
from medhelm.reports.paper.latex import LINE, SIZES, latex, plain_latex
from medhelm.reports.paper.tables import PaperTable, markdown, write
from medhelm.reports.tables import Value
from medhelm.results.paper.compose import suite_listings, taxonomy_titles
from tests.support.leaderboards import HOSTILE, published


def table(rows: list[list[Value]], headers: list[str], **changes: object) -> PaperTable:
    known = {
        "key": "table9", "title": "Table 9. Things", "caption": "2 models, real data", "headers": headers, "rows": rows,
        "csv_headers": headers, "csv_rows": rows, "notes": ("Mind the <gap>.",), **changes,
    }  # fmt: skip
    return PaperTable(**known)  # type: ignore[arg-type]


SMALL = table([["lab/a_b", "0.5 [0.1, 0.9]", None], ["-x", "-0.25", 3]], ["Model", "Win rate", "n"])


def test_markdown_has_title_caption_table_and_notes() -> None:
    text = write(SMALL, "md")
    assert text.startswith("# Table 9. Things\n\n2 models, real data\n\n| Model | Win rate | n |\n")
    assert "| lab/a_b | 0.5 [0.1, 0.9] | – |" in text
    assert text.endswith("\n- Mind the \\<gap\\>.\n") or text.endswith("\n- Mind the \\<gap>.\n")
    assert markdown(SMALL, level=3).startswith("### Table 9")


def test_csv_is_the_numbers_alone() -> None:
    assert list(csv.reader(io.StringIO(write(SMALL, "csv")))) == [
        ["Model", "Win rate", "n"],
        ["lab/a_b", "0.5 [0.1, 0.9]", ""],
        ["'-x", "-0.25", "3"],
    ]


def test_another_format_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown format of a table: html"):
        write(SMALL, "html")


def test_latex_is_a_float_without_any_package() -> None:
    text = write(SMALL, "latex")
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 1
    assert r"\caption{Things. 2 models, real data.}" in text, "LaTeX counts tables itself"
    assert r"\label{tab:table9}" in text
    assert r"\begin{tabular}{lrr}" in text
    assert r"lab/a\_b & 0.5 [0.1, 0.9] & -- \tabularnewline" in text
    assert r"-x & $-$0.25 & 3 \tabularnewline" in text
    assert "toprule" not in text and "usepackage" not in text
    assert r"Mind the \textless{}gap\textgreater{}.\par" in text


def test_a_row_that_starts_with_a_bracket_is_no_argument() -> None:
    text = latex([["[1, 2]"], ["*x"]], ["Interval"], name="t", caption="c")
    assert "{}[1, 2]" in text and "{}*x" in text


def test_rows_of_another_length_are_refused() -> None:
    with pytest.raises(ValueError, match="not as long"):
        latex([["a", "b"]], ["only one"], name="t", caption="c")


def test_groups_stand_above_their_rows_once() -> None:
    rows: list[list[Value]] = [["Care", "a", 1], ["Care", "b", 2], ["Notes", "c", 3]]
    text = latex(rows, ["Category", "Name", "n"], name="t", caption="c", grouped=True)
    assert re.findall(r"\\multicolumn\{2\}\{l\}\{\\textbf\{(\w+)\}\}", text) == ["Care", "Notes"]
    assert "Category" not in text
    assert text.index("Care") < text.index("a & 1") < text.index("b & 2") < text.index("Notes") < text.index("c & 3")


def widths_fit(text: str) -> bool:
    shares = [
        sum(map(float, re.findall(r"p\{([\d.]+)\\linewidth\}", kinds)))
        for kinds in re.findall(r"\\begin\{tabular\}\{(.*)\}\n", text)
    ]
    return all(share <= 1 for share in shares)


def test_a_wide_table_is_broken_into_several_that_hold_everything_once() -> None:
    headers = ["Subcategory", *(f"provider/model-number-{i}" for i in range(30))]
    rows: list[list[Value]] = [[f"Sub {r}", *(f"0.{r}{i:02d}" for i in range(30))] for r in range(5)]
    text = latex(rows, headers, name="t", caption="Wide.", notes=["Once."])
    n_parts = text.count(r"\begin{table}")
    assert n_parts > 1
    assert f"Part {n_parts} of {n_parts}." in text
    assert text.count("Once.") == 1
    assert text.count("Sub 3") == n_parts, "names are repeated"
    assert all(text.count(f"0.{r}{i:02d}") == 1 for r in range(5) for i in range(30))
    labels = re.findall(r"\\label\{(.*?)\}", text)
    assert len(set(labels)) == n_parts
    assert widths_fit(text)


def test_a_long_table_is_broken_into_pages() -> None:
    rows: list[list[Value]] = [[f"row {i}", i] for i in range(120)]
    text = latex(rows, ["Name", "n"], name="t", caption="Long.")
    assert text.count(r"\begin{table}") == 3
    assert [int(n) for n in re.findall(r"^row (\d+) &", text, re.MULTILINE)] == list(range(120))


def test_long_words_are_broken_instead_of_running_off_the_page() -> None:
    words = "Enhancing Patient Understanding and Accessibility in Health Communication"
    rows: list[list[Value]] = [[words, words, words, "public", 1.5]]
    text = latex(rows, ["A", "B", "C", "D", "E"], name="t", caption="c")
    assert text.count(r"\begin{table}") == 1
    assert text.count(r"\raggedright") == 6
    assert widths_fit(text)


def test_a_word_that_no_line_could_hold_is_cut_in_the_middle() -> None:
    text = latex([["a" + "n" * 300 + "z", 1]], ["Model", "n"], name="t", caption="c")
    assert r"a" + "n" * 29 + r"\ldots{}" + "n" * 29 + "z" in text
    assert "n" * 40 not in text


def test_the_published_tables_fit() -> None:
    board, titles = published(), taxonomy_titles()
    for made in (contents.table_1(board), appendix.table_c3(suite_listings(board), board, titles)):
        text = write(made, "latex")
        assert widths_fit(text)
        assert set(re.findall(r"\\(?:footnotesize|scriptsize|tiny)\b(?=\n\\setlength)", text)) <= set(SIZES)
        assert LINE < 345


def braces_balance(text: str) -> bool:
    depth = 0
    for match in re.finditer(r"\\.|[{}]", text, re.DOTALL):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if depth < 0:
            return False
    return depth == 0


SPECIAL = re.compile(r"(?<!\\)[&%$#_^~]")


@given(st.text(max_size=60))
def test_any_text_is_set_as_that_text(text: str) -> None:
    shown = plain_latex(text)
    assert braces_balance(shown)
    assert "\n" not in shown
    assert all(ord(c) < 0x180 for c in shown)
    assert not SPECIAL.search(shown.replace(r"$\dagger$", "").replace(r"$\times$", "").replace("$-$", "")
                              .replace(r"$\geq$", "").replace(r"$\leq$", "").replace(r"$\alpha$", "")
                              .replace(r"$\kappa$", ""))  # fmt: skip


@given(st.lists(st.tuples(st.text(max_size=20), st.floats(-5, 5), st.none()), max_size=6))
def test_any_table_has_as_many_separators_as_columns(rows: list[tuple[str, float, None]]) -> None:
    text = latex(rows, ["a", "b", "c"], name="t", caption="c")
    body = [line for line in text.splitlines() if line.endswith(r"\tabularnewline")]
    assert len(body) == len(rows) + 1
    assert all(len(re.findall(r"(?<!\\)&", line)) == 2 for line in body)


def test_hyphens_are_no_dashes_and_unknown_letters_are_told() -> None:
    assert plain_latex("a--b---c – d") == "a-{}-b-{}-{}-c -- d"
    assert plain_latex("模型 é ß †") == r"?? é ß $\dagger$"


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_do_not_leave_their_cell(name: str) -> None:
    text = write(table([[name, 1]], ["Model", "n"]), "latex")
    assert braces_balance(text)
    rows = [line for line in text.splitlines() if line.endswith(r"\tabularnewline")]
    assert len(rows) == 2
    assert all(len(re.findall(r"(?<!\\)&", row)) == 1 for row in rows)
