r"""How wide tables are set in LaTeX: letters, broken words, stacked headings, parts."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medhelm.reports.paper.latex import LINE, PAGE, SIZES, latex
from medhelm.reports.tables import Value

Rows = list[list[Value]]


def tables_of(text: str) -> list[str]:
    return re.findall(r"\\begin\{table\}.*?\\end\{table\}", text, re.DOTALL)


def kinds_of(table: str) -> list[str]:
    (kinds,) = re.findall(r"\\begin\{tabular\}\{(.*)\}\n", table)
    return re.findall(r"[lr]|p\{[\d.]+\\linewidth\}", kinds)


def body_of(table: str) -> list[list[str]]:
    """Cells of the rows, heading first; headings of groups are rows of one cell."""
    rows = [line.removesuffix(r" \tabularnewline") for line in table.splitlines() if line.endswith(r"\tabularnewline")]
    return [re.split(r" (?<!\\)& ", row) for row in rows]


def test_a_narrow_table_has_the_larger_letters_and_no_fixed_width() -> None:
    (table,) = tables_of(latex([["a", 1]], ["Model", "n"], name="t", caption="c"))
    assert r"\footnotesize" in table
    assert kinds_of(table) == ["l", "r"]


def test_letters_become_smaller_before_columns_are_taken_apart() -> None:
    found = []
    for n in range(1, 20):
        rows: Rows = [["a model", *("1,234.5" for _ in range(n))]]
        tables = tables_of(latex(rows, ["Model", *(f"n{i}" for i in range(n))], name="t", caption="c"))
        found.append("parts" if len(tables) > 1 else next(size for size in SIZES if size in tables[0]))
    order = [r"\footnotesize", r"\scriptsize", "parts"]
    assert list(SIZES) == order[:2], "nothing smaller can be read"
    assert found == sorted(found, key=order.index)
    assert set(found) == set(order)


def test_only_columns_of_words_are_broken_and_short_ones_are_not() -> None:
    long = "Providing Clinical Knowledge Support to Everybody who Needs it in Time"
    rows: Rows = [[long, "public", long, 0.5]]
    (table,) = tables_of(latex(rows, ["Subcategory", "Access", "Task", "Value"], name="t", caption="c"))
    kinds = kinds_of(table)
    assert [kind[0] for kind in kinds] == ["p", "l", "p", "r"]
    first, third = (float(kinds[at].removeprefix("p{").removesuffix("\\linewidth}")) for at in (0, 2))
    assert first == pytest.approx(third, rel=0.05), "much the same needs, much the same widths"
    head, row = body_of(table)
    assert head[0].startswith(r"\raggedright") and row[0].startswith(r"\raggedright")
    assert "raggedright" not in row[1] + row[3]


def test_headings_of_numbers_are_stacked_word_by_word() -> None:
    rows: Rows = [["a", 1, 2]]
    text = latex(rows, ["Model", "Benchmark cost USD", "provider/long-model-name"], name="t", caption="c")
    assert r"\shortstack[r]{Benchmark\\cost USD}" in text
    assert r"\shortstack[r]{provider/\\long-\\model-\\name}" in text


def test_parts_side_by_side_are_even_and_repeat_the_names() -> None:
    headers = ["Rank", "Model", *(f"benchmark {i}" for i in range(14))]
    rows: Rows = [[r, f"model {r}", *(f"0.{r}{i:02d} [0.1, 0.9]" for i in range(14))] for r in range(3)]
    parts = [body_of(table) for table in tables_of(latex(rows, headers, name="t", caption="c"))]
    widths = [len(part[0]) - 2 for part in parts]
    assert sum(widths) == 14
    assert max(widths) - min(widths) <= max(widths) - 1 and len(set(widths[:-1])) <= 1
    for part in parts:
        assert [row[:2] for row in part[1:]] == [[str(r), f"model {r}"] for r in range(3)]


def test_a_group_is_named_again_on_the_next_page() -> None:
    rows: Rows = [["Care" if i < 60 else "Notes", f"name {i}", i] for i in range(100)]
    tables = tables_of(latex(rows, ["Group", "Name", "n"], name="t", caption="c", grouped=True))
    assert len(tables) == 3
    groups = [re.findall(r"\\textbf\{(\w+)\}", table) for table in tables]
    assert groups == [["Care"], ["Care", "Notes"], ["Notes"]]
    assert [row[0] for table in tables for row in body_of(table)[1:] if len(row) == 2] == [
        f"name {i}" for i in range(100)
    ]


def test_no_part_is_longer_than_a_page() -> None:
    rows: Rows = [[f"a name of some length, number {i}", i] for i in range(150)]
    for table in tables_of(latex(rows, ["Name", "n"], name="t", caption="c")):
        assert (len(body_of(table)) - 1) * 8 * 1.2 <= PAGE


def test_notes_stand_below_the_last_part_only() -> None:
    tables = tables_of(
        latex([[f"n{i}", i] for i in range(90)], ["a", "b"], name="t", caption="c", notes=["Once & only."])
    )
    assert len(tables) > 1
    assert [r"Once \& only." in table for table in tables] == [False] * (len(tables) - 1) + [True]


@pytest.mark.parametrize("rows", [[], [[None, None]]])
def test_empty_tables_are_tables(rows: Rows) -> None:
    (table,) = tables_of(latex(rows, ["a", "b"], name="t", caption="c"))
    assert len(body_of(table)) == 1 + len(rows)
    assert len(kinds_of(table)) == 2


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.text("abc defgh/-_", min_size=0, max_size=90), min_size=1, max_size=5),
    st.integers(0, 16),
    st.integers(1, 5),
)
def test_every_cell_stands_somewhere_whatever_the_shape(words: list[str], n_numbers: int, n_rows: int) -> None:
    headers = [f"word{i}" for i in range(len(words))] + [f"number{i}" for i in range(n_numbers)]
    rows: Rows = [[*words, *(f"{r}{i:03d}.5" for i in range(n_numbers))] for r in range(n_rows)]
    text = latex(rows, headers, name="t", caption="c")
    for table in tables_of(text):
        kinds = kinds_of(table)
        assert all(len(row) == len(kinds) for row in body_of(table))
        shares = [float(share) for share in re.findall(r"p\{([\d.]+)", " ".join(kinds))]
        assert sum(shares) * LINE <= LINE + 1
    assert all(f"{r}{i:03d}.5" in text for r in range(n_rows) for i in range(n_numbers))
