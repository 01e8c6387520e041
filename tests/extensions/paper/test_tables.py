"""Tables of a report as Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
import re

import pytest

from medhelm.extensions.paper import contents
from medhelm.extensions.paper import write as appendix
from medhelm.extensions.paper.contents import PaperTable, markdown, write
from medhelm.extensions.paper.write import suite_listings, taxonomy_titles
from medhelm.results.formats.tables import Value
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


def test_csv_has_the_numbers_only() -> None:
    assert list(csv.reader(io.StringIO(write(SMALL, "csv")))) == [
        ["Model", "Win rate", "n"],
        ["lab/a_b", "0.5 [0.1, 0.9]", ""],
        ["'-x", "-0.25", "3"],
    ]


def test_another_format_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown format of a table: html"):
        write(SMALL, "html")


def test_latex_has_caption_label_notes_and_names_its_packages() -> None:
    text = write(SMALL, "latex")
    assert text.startswith("% For \\input; \\usepackage{array,booktabs,longtable}\n")
    assert r"\caption{Things. 2 models, real data.}\label{tab:table9}" in text, "LaTeX counts tables itself"
    assert r"lab/\hspace{0pt}a\_\hspace{0pt}b & 0.5 [0.1, 0.9] & -- \\" in text
    assert r"-x & $-$0.25 & 3 \\" in text
    assert r"Mind the \textless{}gap\textgreater{}.\par" in text


def test_the_published_tables_fit_on_a_line() -> None:
    board, titles = published(), taxonomy_titles()
    for made in (
        contents.table_1(board),
        appendix.table_c3(suite_listings(board), board, titles),
        appendix.table_subcategories(board, titles),
    ):
        assert write(made, "latex").count(r"\begin{longtable}") == 1


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_do_not_leave_their_cell(name: str) -> None:
    text = write(table([[name, 1]], ["Model", "n"]), "latex")
    rows = [line for line in text.splitlines() if line.endswith(r" \\")]
    assert len(rows) == 2
    assert all(len(re.findall(r"(?<!\\)&", row)) == 1 for row in rows)
