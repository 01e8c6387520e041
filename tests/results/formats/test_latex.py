"""LaTeX tables: escaped, complete, and no wider than a line."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from medhelm.results.formats.tables import Value, as_texts, escape_latex, longtable

Rows = list[list[Value]]


def latex(rows: Rows, headers: list[str], **changes: object) -> str:
    options = {"label": "t", "caption": "c", **changes}
    return longtable(*as_texts(rows, headers), **options)  # type: ignore[arg-type]


def parts_of(text: str) -> list[str]:
    return re.findall(r"\\begin\{longtable\}.*?\\end\{longtable\}", text, re.DOTALL)


def widths_of(part: str) -> list[float]:
    return [float(width) for width in re.findall(r"p\{([\d.]+)\\linewidth\}", part)]


def body_of(part: str) -> list[list[str]]:
    """Return the cells of each row, the heading first; the heading of a group is a row of one cell."""
    lines = part.partition(r"\toprule")[2].splitlines()
    return [re.split(r" (?<!\\)& ", line.removesuffix(r" \\")) for line in lines if line.endswith(r" \\")]


def braces_balance(text: str) -> bool:
    depth = 0
    for match in re.finditer(r"\\.|[{}]", text, re.DOTALL):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if depth < 0:
            return False
    return depth == 0


def test_a_wide_table_is_split_and_repeats_the_names() -> None:
    headers = ["Subcategory", *(f"provider/model-number-{i}" for i in range(30))]
    rows: Rows = [[f"Sub {r}", *(f"{r}{i:03d}.5" for i in range(30))] for r in range(5)]
    text = latex(rows, headers, caption="Wide.", notes=["Once & only."])
    parts = parts_of(text)
    assert len(parts) > 1
    assert f"Part {len(parts)} of {len(parts)}." in text
    assert text.count(r"Once \& only.") == 1
    assert all([row[0] for row in body_of(part)[1:]] == [f"Sub {r}" for r in range(5)] for part in parts)
    assert all(text.count(f"{r}{i:03d}.5") == 1 for r in range(5) for i in range(30))
    assert len(set(re.findall(r"\\label\{(.*?)\}", text))) == len(parts)


def test_long_names_may_break_and_longer_words_are_cut_in_the_middle() -> None:
    text = latex([["a" + "n" * 300 + "z", 1], ["provider/a_long_model_name", 2], ["[1, 2]", 3]], ["Model", "n"])
    assert "a" + "n" * 29 + r"\ldots{}" + "n" * 29 + "z" in text
    assert "n" * 40 not in text
    assert r"provider/\hspace{0pt}a\_\hspace{0pt}long" in text
    assert "{}[1, 2]" in text, "no argument of the line above"


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.text("abc defgh/-_", min_size=0, max_size=90), min_size=1, max_size=3),
    st.integers(0, 16),
    st.integers(1, 5),
)
def test_tables_of_any_shape_fit_and_hold_every_cell(words: list[str], n_numbers: int, n_rows: int) -> None:
    headers = [f"word{i}" for i in range(len(words))] + [f"number{i}" for i in range(n_numbers)]
    rows: Rows = [[*words, *(f"{r}{i:03d}.5" for i in range(n_numbers))] for r in range(n_rows)]
    text = latex(rows, headers)
    for part in parts_of(text):
        widths = widths_of(part)
        assert all(len(row) == len(widths) for row in body_of(part))
        assert sum(widths) <= 1
    assert all(f"{r}{i:03d}.5" in text for r in range(n_rows) for i in range(n_numbers))


COMMAND = re.compile(r"\$\\?[a-z-]+\$")
SPECIAL = re.compile(r"(?<!\\)[&%$#_^~]")


@given(st.text(max_size=60))
def test_any_text_is_escaped(text: str) -> None:
    shown = escape_latex(text)
    assert braces_balance(shown)
    assert "\n" not in shown
    assert all(ord(c) < 0x180 for c in shown)
    assert not SPECIAL.search(COMMAND.sub("", shown))


ESCAPED = {
    "50% & $3 #1 a_b {x}": r"50\% \& \$3 \#1 a\_b \{x\}",
    "a~b^c": r"a\textasciitilde{}b\textasciicircum{}c",
    "C:\\x": r"C:\textbackslash{}x",
    "a<b>c|d": r"a\textless{}b\textgreater{}c\textbar{}d",
    "a--b---c – d": "a-{}-b-{}-{}-c -- d",
    "模型 é ß †": r"?? é ß $\dagger$",
}


def test_hyphens_stay_hyphens_and_unknown_letters_become_question_marks() -> None:
    assert {text: escape_latex(text) for text in ESCAPED} == ESCAPED
